"""Streaming queries on a local Spark: the session, Parquet files as input, and the progress of each micro-batch."""

from __future__ import annotations

import os
import sys
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from slidejoin.errors import SlideJoinError
from slidejoin.sides import SIDES
from slidejoin.spark.driver.checkpoints import local_checkpoints
from slidejoin.spark.job.settings import advised_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["POLL", "InputFiles", "QueryRun", "run_query", "session"]

POLL, LONGEST_POLL, POLLS = 0.1, 1.0, 10
"""Seconds between two looks at the progress of a query, at least and at most, and the looks at a micro-batch of a
length in between. They take processor time too, which executors that are pinned to all processors lack."""

KEPT = 20
"""Micro-batches, jobs and so on that Spark remembers."""

MAINTENANCE = "10s"
"""How often Spark checks whether to write the whole state. Its default of a minute is longer than most measurements,
and this work belongs to a steady state."""

SPARK_TYPES = {pa.int64(): "bigint", pa.float64(): "double", pa.string(): "string"}


@contextmanager
def session(
    master: str, partitions: int, cache: Path, conf: Mapping[str, object] | None = None
) -> Iterator[SparkSession]:
    """Start Spark with the settings that docs/spark.md advises, and stop it at the end.

    Parameters
    ----------
    master : str
        Such as ``local[2]``.
    partitions : int
        State partitions.
    cache : pathlib.Path
        A folder for temporary files.
    conf : mapping, optional
        More settings.

    Raises
    ------
    SlideJoinError
        If pyspark is not installed.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra, and slow to load

        from slidejoin.spark.job.spark_home import use_unzipped_home  # noqa: PLC0415 - belongs to it
    except ModuleNotFoundError as error:
        msg = 'this benchmark needs Spark: pip install "slidejoin[spark]"'
        raise SlideJoinError(msg) from error
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    use_unzipped_home(master, conf or {})
    builder = SparkSession.builder.master(master).appName("slidejoin bench")
    for name, value in {
        **advised_settings(partitions),
        "spark.sql.streaming.stateStore.maintenanceInterval": MAINTENANCE,
        # Spark's memory of past micro-batches and jobs would grow during the measurement.
        "spark.sql.streaming.numRecentProgressUpdates": KEPT,
        "spark.sql.ui.retainedExecutions": KEPT,
        "spark.ui.retainedJobs": KEPT,
        "spark.ui.retainedStages": KEPT,
        "spark.ui.retainedTasks": 10 * KEPT,
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.slidejoin.cacheDir": cache,
        "spark.sql.warehouse.dir": cache / "warehouse",
        **(conf or {}),
    }.items():
        builder = builder.config(name, str(value))
    with TemporaryFile() as log, _output_of_children(log.fileno(), json=True):
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    local_checkpoints(spark, str(cache))
    try:
        yield spark
    finally:
        spark.stop()


@dataclass(slots=True)
class InputFiles:
    """The input of a query: a folder for each side, one Parquet file a micro-batch.

    Attributes
    ----------
    root : pathlib.Path
        Folder of the sides' folders.
    tables : callable
        Returns the rows ``first <= ordinal < last`` of every side as a tuple of one table (a self-join) or two.
    rows : list of int
        Rows of all sides in each micro-batch.
    begin : int
        Number of the first micro-batch.
    """

    root: Path
    tables: Callable[[int, int], tuple[pa.Table, ...]]
    rows: list[int] = field(default_factory=list)
    begin: int = 0
    _next: int = 0

    def add(self, count: int) -> None:
        """Write the next micro-batch, of so many rows a side."""
        tables = self.tables(self._next, self._next + count)
        written = []
        for side, table in zip(SIDES, tables, strict=False):
            path = self.path(side, len(self.rows))
            path.parent.mkdir(parents=True, exist_ok=True)
            # Written under another name first: a running query reads every file that it sees.
            part = self.root / f"{side}.part"
            parquet.write_table(table, part)
            # Spark reads files in the order of their times.
            number = self.begin + len(self.rows)
            os.utime(part, (number, number))
            written.append((part, path))
        # All sides together, as far as that is possible: a running query should see them in one micro-batch.
        for part, path in written:
            part.rename(path)
        self._next += count
        self.rows.append(sum(table.num_rows for table in tables))

    @property
    def written(self) -> int:
        """The number of the next row of each side."""
        return self._next

    def cut(self, first: int) -> None:
        """Remove the micro-batches from `first` on: they can be added again."""
        for number in range(first, len(self.rows)):
            for side in self.sides():
                self.path(side, number).unlink()
        self._next -= sum(self.rows[first:]) // len(self.sides())
        del self.rows[first:]

    def linked(self, root: Path, first: int) -> InputFiles:
        """Return the micro-batches from `first` on as the input of another query, by links to the same files."""
        rest = InputFiles(root, self.tables, self.rows[first:], self.begin + first, self._next)
        for side in self.sides():
            rest.folder(side).mkdir(parents=True)
            for number in range(len(rest.rows)):
                rest.path(side, number).hardlink_to(self.path(side, first + number))
        return rest

    def sides(self) -> tuple[str, ...]:
        """Return the names of the sides."""
        return SIDES[: len(self.tables(0, 0))]

    def path(self, side: str, number: int) -> Path:
        """Return the file of that side's rows in one micro-batch of these."""
        return self.folder(side) / f"{self.begin + number:06}.parquet"

    def folder(self, side: str) -> Path:
        """Return the folder of that side's files."""
        return self.root / side

    def frames(self, spark: SparkSession, at_once: int = 1) -> list[DataFrame]:
        """Return the sides as streaming DataFrames, with so many files a micro-batch at most."""
        return [
            spark.readStream.schema(_spark_schema(table.schema))
            .option("maxFilesPerTrigger", at_once)
            .parquet(str(self.folder(side)))
            for side, table in zip(SIDES, self.tables(0, 0), strict=False)
        ]


def _spark_schema(schema: pa.Schema) -> str:
    """Return a schema in Spark's SQL; given by hand, because Spark would start a job to infer it.

    Examples
    --------
    >>> _spark_schema(pa.schema({"k": pa.int64(), "ts": pa.timestamp("us", "UTC")}))
    'k bigint, ts timestamp'
    """
    return ", ".join(
        f"{one.name} {'timestamp' if pa.types.is_timestamp(one.type) else SPARK_TYPES[one.type]}" for one in schema
    )


@dataclass(frozen=True, slots=True)
class QueryRun:
    """The progress of a query.

    Attributes
    ----------
    batches : list of dict
        Spark's progress of each micro-batch that had rows, in order.
    first_result : float
        Seconds from before the query was made to the end of the first micro-batch that had rows.
    """

    batches: list[dict[str, Any]]
    first_result: float

    def seconds(self, first: int) -> list[float]:
        """Return the seconds of each micro-batch from `first` on."""
        return [batch["durationMs"]["triggerExecution"] / 1e3 for batch in self.batches[first:]]

    def rows_out(self, first: int = 0) -> int:
        """Return the output rows from micro-batch `first` on."""
        return sum(batch["observedMetrics"]["out"]["rows"] for batch in self.batches[first:])


def run_query(
    query: Callable[[], DataFrame],
    checkpoint: Path,
    observe: Callable[[dict[str, Any]], None] | None = None,
) -> QueryRun:
    """Run a query over all files that it has not read yet, to a sink that keeps nothing.

    Parameters
    ----------
    query : callable
        Makes the streaming DataFrame.
    checkpoint : pathlib.Path
    observe : callable, optional
        Called with Spark's progress of a micro-batch soon after its end; of several short ones with the last one's.

    Raises
    ------
    SlideJoinError
        If it fails.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    start, first = time.perf_counter(), 0.0
    done: dict[int, dict[str, Any]] = {}
    pause = POLL
    # The query itself counts its output rows.
    frame = query().observe("out", F.count(F.lit(1)).alias("rows"))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    running: StreamingQuery = writer.trigger(availableNow=True).start()
    try:
        while True:
            time.sleep(pause)
            ended = not running.isActive
            last = running.lastProgress
            if last and last["batchId"] not in done:
                done |= {one["batchId"]: dict(one) for one in running.recentProgress}
                if observe is not None:
                    observe(done[last["batchId"]])
                took = last["durationMs"].get("triggerExecution", 0) / 1e3
                pause = min(max(POLL, took / POLLS), LONGEST_POLL)
            with_rows = [one for _, one in sorted(done.items()) if one["numInputRows"]]
            first = first or (time.perf_counter() - start if with_rows else 0.0)
            if ended:
                running.awaitTermination()  # raises the query's error
                return QueryRun(with_rows, first)
    except Exception as error:
        msg = f"the query failed: {str(error).strip().partition(chr(10))[0]}"
        raise SlideJoinError(msg) from error
    finally:
        running.stop()


@contextmanager
def _output_of_children(log: int, *, json: bool) -> Iterator[None]:
    """Let processes that start meanwhile write errors to `log`, and with `json` their output to standard error.

    `log` is the descriptor of an open file.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {1: os.dup(1), 2: os.dup(2)}
    try:
        if json:
            os.dup2(saved[2], 1)
        os.dup2(log, 2)
        yield
    finally:
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)
