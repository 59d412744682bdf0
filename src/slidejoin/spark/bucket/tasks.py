"""Functions that Spark pickles and runs on executors: thin wrappers that prepare the worker before heavy imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StatefulProcessor

from slidejoin import __version__
from slidejoin.spark.job.workers import another_version, ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    import pyarrow as pa
    from pyspark.sql.streaming import StatefulProcessorHandle
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

    from slidejoin.spark.bucket.adoption import LastBatch
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.metrics.reporting import FigureReporter

__all__ = [
    "IN_ORDER",
    "NUMBERED",
    "PACKED",
    "PARTIAL",
    "ROWS",
    "SCATTERED",
    "STREAMS",
    "AdoptHomeTask",
    "AdoptTask",
    "AdoptTotalsTask",
    "JoinTask",
    "OnceTask",
    "SequenceTask",
    "first_task",
    "gather_task",
    "pack_rows",
    "pack_task",
    "read_rows",
    "read_task",
    "rows_task",
    "sum_task",
    "table_rows",
    "table_task",
]

PACKED = "bucket bigint, side tinyint, block binary"
"""Columns between packing and joining, as Spark calls them."""

IN_ORDER = f"sequencer bigint, {PACKED}, task bigint, first bigint, places binary"
"""Columns between packing and the sequencer of a count window."""

NUMBERED = "bucket bigint, side tinyint, numbers binary, block binary"
"""Columns between the sequencer and joining."""

STREAMS = "bucket bigint, side tinyint, task bigint, first bigint, block binary"
"""Columns between packing and joining of many streams."""

PARTIAL = "home bigint, block binary"
"""Columns between joining and summing, where counts are partial."""

SCATTERED = "home bigint, kind tinyint, block binary"
"""Columns between joining and gathering, where a row may match in several buckets."""

ROWS = "block binary"
"""The column of result rows on their way out, where the result has nested columns."""


def pack_task(
    spec: bytes, stream: str, cache: str | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of `mapInArrow`: the rows of one side, or stream, to blocks."""
    return first_task("pack", spec, stream, cache)


def read_task(schema: bytes) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of `mapInArrow`: the rows of a table to blocks, of a pickled schema."""
    return first_task("read", schema)


def table_task(spec: bytes, cache: str | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of `mapInArrow`: the rows of a stream to what they produce with a table."""
    return first_task("table", spec, cache)


def first_task(name: str, *given: object) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function of `mapInArrow` for the first task of a join on its rows.

    Spark pickles a nested function by value, so this one can report the problem on a worker that has no slidejoin, or
    another version. It needs only the standard library.

    Parameters
    ----------
    name : str
        In `FIRST`, of what does the work.
    *given : object
        What it gets before the rows.
    """
    version = __version__

    def first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import platform
        import sys

        try:
            import slidejoin
        except ModuleNotFoundError as error:
            msg = (
                f"Spark's workers on {platform.node()} run {sys.executable}, which has no slidejoin; set "
                f"PYSPARK_PYTHON to a Python that has slidejoin {version} on every node, before the Spark session is "
                "made"
            )
            raise ModuleNotFoundError(msg, name="slidejoin") from error
        if slidejoin.__version__ != version:
            from slidejoin.spark.job.workers import another_version

            raise another_version(version)
        from slidejoin.spark.bucket.tasks import FIRST

        yield from FIRST[name](*given, batches)

    return first


def pack_rows(
    spec: bytes, stream: str, cache: str | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Pack a task's rows."""
    ready(cache)
    from pyspark import TaskContext

    from slidejoin.spark.job.streams_spec import StreamsSpec, join_spec_of

    task, join = TaskContext.get(), join_spec_of(spec)
    number = 0 if task is None else task.partitionId()
    if isinstance(join, StreamsSpec):
        from slidejoin.spark.route.pack import pack_streams

        yield from pack_streams(join, join.streams.index(stream), batches, number)
        return
    from slidejoin.spark.route.pack import pack

    yield from pack(join, "left" if stream == "left" else "right", batches, number)


def table_rows(spec: bytes, cache: str | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join a task's rows with a table."""
    ready(cache, tables=True)
    from slidejoin.spark.bucket.table_rows import joined_with_table

    yield from joined_with_table(spec, batches)


def read_rows(schema: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack a task's rows of a table."""
    import pickle

    from slidejoin.spark.bucket.table_rows import table_blocks

    yield from table_blocks(pickle.loads(schema), batches)  # noqa: S301 - Spark unpickles the function, too


FIRST: dict[str, Callable[..., Iterator[pa.RecordBatch]]] = {
    "pack": pack_rows,
    "read": read_rows,
    "table": table_rows,
}
"""What the first tasks of a join do with rows."""


def _of_two(spec: bytes, what: str) -> SparkJoinSpec:
    """Return the join of two that a task was made for; `what` is what only such a join has."""
    from slidejoin.spark.job.streams_spec import StreamsSpec, join_spec_of

    join = join_spec_of(spec)
    if isinstance(join, StreamsSpec):
        msg = f"many streams have no {what}"
        raise TypeError(msg)
    return join


class Processor(StatefulProcessor):
    """A processor of a join, which runs with the version of slidejoin that made it."""

    def __init__(self, spec: bytes, cache: str | None) -> None:
        self.spec = spec
        self.cache = cache
        self.version = __version__

    def init(self, handle: StatefulProcessorHandle) -> None:  # noqa: ARG002 - for those that declare state variables
        """Check the version."""
        if self.version != __version__:
            raise another_version(self.version)


class SequenceTask(Processor):
    """The processor that numbers the rows of a count window: one call for each micro-batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        super().init(handle)
        from slidejoin.spark.state.variables import SequenceVariables

        self.variables = SequenceVariables(handle)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ANN401, ARG002 - there is one
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803, ARG002 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Hand on the blocks of a micro-batch with numbers for their rows."""
        ready(self.cache)
        from slidejoin.spark.route.sequencing import sequence

        spec = _of_two(self.spec, "sequencer: one bucket numbers their rows")
        yield from sequence(spec, self.variables if spec.streaming else None, rows)

    def close(self) -> None:
        """Nothing is open."""


class JoinTask(Processor):
    """The processor of `transformWithStateInPandas`: one call for each bucket and micro-batch."""

    def __init__(
        self, spec: bytes, cache: str | None, teller: FigureReporter | None = None, *, timers: bool = False
    ) -> None:
        super().__init__(spec, cache)
        self.teller = teller
        self.timers = timers

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        super().init(handle)
        from slidejoin.spark.state.variables import Variables

        self.variables = Variables(handle)
        self.called = False
        self.fired: list[int] = []

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ANN401 - a tuple of the bucket's id, at which Spark has pointed the state
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803, ARG002 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Join one bucket's blocks with its state."""
        self.called = True
        yield from self._joined(key[0], rows, None)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ANN401 - as above
        timerValues: TimerValues,  # noqa: N803, ARG002 - Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Output the rows of a bucket that are due, in a micro-batch that has not called it for rows.

        A bucket that it has called has output them, and has another timer.
        """
        self.fired.append(key[0])
        yield from self._joined(key[0], iter(()), expiredTimerInfo.getExpiryTimeInMs())

    def _joined(self, bucket: int, rows: Iterator[Any], fired: int | None) -> Iterator[pd.DataFrame]:
        ready(self.cache)
        from slidejoin.spark.job.streams_spec import StreamsSpec, join_spec_of
        from slidejoin.spark.metrics.figures import Figures, figures_frame, without_figures
        from slidejoin.spark.state.variables import micro_batch

        spec = join_spec_of(self.spec)
        watermark = None if spec.numbered else self.variables.watermark()
        figures = Figures(bucket)
        if isinstance(spec, StreamsSpec):
            from slidejoin.spark.bucket.streams_bucket import streams_bucket

            frames = streams_bucket(spec, self.variables, rows, watermark, bucket, micro_batch(), figures)
        else:
            from slidejoin.spark.bucket.join_bucket import join_bucket

            frames = join_bucket(spec, self.variables, rows, watermark, bucket, micro_batch(), figures, fired)
        if spec.observed:
            yield from map(without_figures, frames)
            yield figures_frame(spec, figures)
            return
        yield from frames
        if self.teller is not None:
            self.teller.tell(figures.to_json())

    def close(self) -> None:
        """Record, at the end of a task, whether the micro-batch has called none of the buckets of this store."""
        from slidejoin.spark.state.variables import micro_batch

        batch = micro_batch()  # None in the driver, which declares the variables once, and for static frames
        if not self.called and batch is not None:
            from slidejoin.spark.state.lineage import note_idle

            watermark = self.variables.watermark() if self.timers else None
            note_idle(self.variables, batch, watermark, self.fired)


class OnceTask(Processor):
    """The processor that outputs each left row of a semi-join once: one call for each home and micro-batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables."""
        super().init(handle)
        from slidejoin.spark.state.variables import OUTPUT_IDS, Variables

        self.variables = Variables(handle, OUTPUT_IDS)
        self.called = False

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ANN401 - a tuple of the home's id
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803, ARG002 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Output the rows of one home."""
        self.called = True
        ready(self.cache)
        from slidejoin.spark.bucket.first_partners import output_once
        from slidejoin.spark.state.variables import micro_batch

        spec = _of_two(self.spec, "semi-join")
        yield from output_once(spec, self.variables, rows, key[0], micro_batch() if spec.streaming else None)

    def close(self) -> None:
        """Record, as buckets do, that the micro-batch has called none of the homes of this store."""
        from slidejoin.spark.state.variables import micro_batch

        batch = micro_batch()
        if not self.called and batch is not None:
            from slidejoin.spark.state.lineage import note_idle

            note_idle(self.variables, batch)


class AdoptTask(Processor):
    """The processor that writes the state of new buckets, see `slidejoin.spark.bucket.adoption`; nothing is output."""

    def __init__(self, spec: bytes, folder: str, last: LastBatch) -> None:
        super().__init__(spec, None)
        self.folder = folder
        self.last = last

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables of a bucket."""
        super().init(handle)
        from slidejoin.spark.state.variables import Variables

        self.variables = Variables(handle)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ANN401 - a tuple of the bucket's id
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803, ARG002 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Write the state of one bucket."""
        for _ in rows:
            pass
        ready(self.cache)
        self.write(_of_two(self.spec, "state that is routed again"), key[0])
        yield from ()

    def write(self, spec: SparkJoinSpec, bucket: int) -> None:
        """Write the state of one bucket."""
        from slidejoin.spark.bucket.adoption import adopt_bucket

        adopt_bucket(spec, self.variables, bucket, self.folder, self.last)

    def close(self) -> None:
        """Nothing is open."""


class AdoptHomeTask(AdoptTask):
    """The same for the homes of a semi-join's left rows."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables of a home."""
        Processor.init(self, handle)
        from slidejoin.spark.state.variables import OUTPUT_IDS, Variables

        self.variables = Variables(handle, OUTPUT_IDS)

    def write(self, spec: SparkJoinSpec, bucket: int) -> None:
        """Write the state of one home."""
        from slidejoin.spark.bucket.adoption import adopt_home

        adopt_home(spec, self.variables, bucket, self.last)


class AdoptTotalsTask(AdoptTask):
    """The same for the sequencer of a count window."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables of the sequencer."""
        Processor.init(self, handle)
        from slidejoin.spark.state.variables import SequenceVariables

        self.totals = SequenceVariables(handle)

    def write(self, spec: SparkJoinSpec, bucket: int) -> None:  # noqa: ARG002 - there is one
        """Write how many rows have been numbered."""
        from slidejoin.spark.route.sequencing import begin_at

        begin_at(spec.described(), self.totals, self.last.arrived or {})


def sum_task(cache: str | None) -> Callable[[pa.Table], pa.Table]:
    """Return the function by which `applyInArrow` sums the counts of rows; Spark counts its arguments."""

    def summed(blocks: pa.Table) -> pa.Table:
        from slidejoin.spark.job.workers import ready

        ready(cache)
        from slidejoin.spark.bucket.counts import sum_counts

        return sum_counts(blocks)

    return summed


def gather_task(spec: bytes, cache: str | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of `mapInArrow` that puts together what all buckets know of a row."""

    def gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ready(cache)
        from slidejoin.spark.bucket.left_answers import answered
        from slidejoin.spark.bucket.scattered_rows import gathered

        join = _of_two(spec, "rows without a partner, and no answers of left rows")
        yield from (answered if join.deferred else gathered)(join, batches)

    return gather


def rows_task(schema: pa.Schema, cache: str | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of `mapInArrow` that opens the blocks of a result with nested columns."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ready(cache)
        from slidejoin.spark.bucket.results import result_batches

        yield from result_batches(schema, batches)

    return rows
