"""Joins measured on one Spark: windows are filled once, and every join continues a copy of that checkpoint.

The index of a bucket is no part of its state, so rows need not pass the slowest structures before the clock starts::

    files ──▶ filling query, algorithm="auto" ──▶ checkpoint
                                                    ├─ copy ─▶ first join:  file by file         ─▶ rows a second
                                                    │                       files while it works ─▶ latencies
                                                    └─ copy ─▶ second join: …

Counts of all joins must agree, micro-batch by micro-batch, and those of some rows with DuckDB's.
"""

from __future__ import annotations

import math
import shutil
import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from benchmarks.papers.on_spark.points import WEIGHTS, Measured, expected_counts, percentiles
from slidejoin.bench.case import say
from slidejoin.bench.report import Spread
from slidejoin.bench.spark_pipeline import POLL, InputFiles, run_query
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.papers.on_spark.points import Join, Live, Point
    from slidejoin.spark.metrics.watch import JoinProgress, Watch

__all__ = ["SparkRuns", "waited"]

FILLING, FILLED = 3, 1.25
"""Micro-batches that fill the windows, and with how many windows: rows expire by then."""

WARM = 1
"""Micro-batches of each join before those that are measured: parts of the window are built again for its index."""

SAMPLED = 128
"""Rows of a join's measured micro-batches whose counts are compared with DuckDB's, about."""

INTERVAL = 0.25
"""Seconds between two files of rows that arrive while a query runs."""

PATIENCE = 60.0
"""Seconds that rows may wait after the last one has arrived; those that still wait count as waiting so long."""

LISTENING = 10.0
"""Seconds to wait for Spark's listeners."""

ALL_FILES = 1 << 20


@dataclass(slots=True)
class Stream:
    """The rows of a point.

    Attributes
    ----------
    files : InputFiles
        Those that fill its windows.
    checkpoints : dict
        Of queries that have read them, by what a state depends on.
    expected : dict
        What DuckDB finds of the rows of some micro-batches, every so many of them.
    """

    files: InputFiles
    checkpoints: dict[tuple[str, int, str], Path] = field(default_factory=dict)
    expected: dict[tuple[int, int, int], tuple[int, int, int]] = field(default_factory=dict)


class SparkRuns:
    """Joins on one running Spark.

    Parameters
    ----------
    spark : SparkSession
    root : pathlib.Path
        A folder for files and checkpoints.
    tasks : int
        At once.
    seed : int
        Of the rows.
    """

    def __init__(self, spark: SparkSession, root: Path, tasks: int, seed: int) -> None:
        self._spark, self._root, self._tasks, self._seed = spark, root, tasks, seed
        self._points = 0

    def measure(self, point: Point) -> dict[str, Measured]:
        """Measure all joins of a point.

        Raises
        ------
        SlideJoinError
            If a query fails, or two joins count other matches.
        """
        self._points += 1
        root = self._root / str(self._points)
        stream = self._stream(point, root / "rows")
        found: dict[str, Measured] = {}
        try:
            for number, (name, join) in enumerate(point.joins.items()):
                say(f"{point.label}: {name}")
                found[name] = self._measured(point, join, stream, root / f"join-{number}")
        finally:
            shutil.rmtree(root, ignore_errors=True)
        counted = {one.matches for name, one in found.items() if self._counts(point.joins[name])}
        if len(counted) > 1:
            each = ", ".join(f"{name} {one.matches:,}" for name, one in found.items())
            msg = f"{point.label}: joins of the same rows count other matches: {each}; please report it"
            raise SlideJoinError(msg)
        return found

    @staticmethod
    def _counts(join: Join) -> bool:
        return join.algorithm is not None

    def _stream(self, point: Point, root: Path) -> Stream:
        """Write the files that fill the windows of a point."""
        sides = point.source.sides
        filling = max(int(FILLED * point.window) // FILLING, 1)
        coming = (WARM + point.batches) * _push(point)
        lives = [one.live for one in point.joins.values() if one.live is not None]
        coming += max([0, *(_file_rows(live, sides) * _files(live) for live in lives)])
        files = InputFiles(root, point.source.rows(FILLING * filling + coming, self._seed))
        for _ in range(FILLING):
            files.add(filling)
        return Stream(files)

    def _filled(self, point: Point, join: Join, stream: Stream) -> Path:
        """Return the checkpoint of a query that has read the rows that fill the windows."""
        if join.state not in stream.checkpoints:
            root = stream.files.root.parent / f"filled-{len(stream.checkpoints)}"
            run_query(partial(self._query, point, _faster(join), stream.files, 1, 1), root / "checkpoint")
            stream.checkpoints[join.state] = root / "checkpoint"
        return stream.checkpoints[join.state]

    def _measured(self, point: Point, join: Join, stream: Stream, root: Path) -> Measured:
        """Let one file after the other arrive at a query, and then files while it works."""
        from slidejoin.spark import watch  # noqa: PLC0415 - an extra

        # More state stores than tasks would only take time.
        self._spark.conf.set("spark.sql.shuffle.partitions", str(min(join.buckets, self._tasks)))
        # Inner joins output nothing in micro-batches without rows.
        self._spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        # All joins read one folder: a source knows the files that the filling query has read by their paths.
        files = stream.files
        files.cut(FILLING)
        if join.algorithm is not None:
            shutil.copytree(self._filled(point, join, stream), root / "checkpoint")
        sides, push = point.source.sides, _push(point)
        stride = _stride(point.batches * push * sides)
        frame = self._query(point, join, files, ALL_FILES, stride)
        with watch(self._spark, keep=1 << 10) as seen, Running(frame, root / "checkpoint", point.label) as query:
            if join.algorithm is None:
                query.wait_for(sum(files.rows))
            for _ in range(WARM):
                files.add(push)
                query.wait_for(sides * push)
            first, warm, speeds = files.written, len(query.batches), list[float]()
            for _ in range(point.batches):
                files.add(push)
                speeds.append(sides * push / sum(_seconds(one) for one in query.wait_for(sides * push)))
            steady = query.batches[warm:]
            latencies = None if join.live is None else _waits(query, files, join.live, sides)
            progress = _progress(seen, steady) if join.algorithm is not None else []
        speed = Spread.of(speeds)
        if join.algorithm is None:
            return Measured(rows_per_second=speed, rows_out=1.0)
        out = sum(one["observedMetrics"]["out"]["rows"] for one in steady)
        checked, wrong, matches = 0, 0, out
        if join.output == "count":
            matches = _counted(steady)[0]
            # Rows that arrived live are compared too, if all of them were read.
            batches, last = query.batches[warm:], files.written
            if query.late:
                batches, last = steady, first + point.batches * push
            # Which row of a pair counts it depends on the micro-batches: where those of both sides have not met, all
            # counts are compared by their sum.
            met = _met(batches)
            compared = first, last, stride if met else 1
            if compared not in stream.expected:
                rows = range(first, last)
                stream.expected[compared] = expected_counts(point.source, point.window, files.tables, rows, compared[2])
            checked, *expected = stream.expected[compared]
            every, *sampled = _counted(batches)
            wrong = _differ(sampled, expected) if met else abs(every - expected[0])
        stored = sum(one.window_left + one.window_right for one in progress)
        return Measured(
            rows_per_second=speed,
            latencies=latencies,
            seconds=_mean_seconds([one.seconds for one in progress]),
            state_bytes=sum(one.window_bytes for one in progress) / max(stored, 1),
            rows_out=out / (sides * push * point.batches),
            matches=matches,
            checked_rows=checked,
            wrong=wrong,
        )

    def _query(self, point: Point, join: Join, files: InputFiles, at_once: int, stride: int) -> DataFrame:
        """Return a join of files that also observes its counts, or a query that only reads them."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

        from slidejoin.spark import stream_join  # noqa: PLC0415 - an extra

        frames = files.frames(self._spark, at_once)
        if join.algorithm is None:
            return frames[0].unionAll(frames[-1]) if len(frames) > 1 else frames[0]
        result = stream_join(
            *frames,
            on=point.source.on,
            window=point.source.window(point.window),
            self_join=point.source.self_join,
            output=join.output,
            select=["l.i", "r.i"],
            strategy=join.strategy,
            algorithm=join.algorithm,
            partitions=join.buckets,
        )
        if join.output != "count":
            return result
        row = F.coalesce(F.col("i"), F.col("i_right"))
        sampled = F.when(row % stride == 0, F.col("match_count"))
        return result.observe(
            "counts",
            F.sum("match_count").alias("all"),
            F.sum(sampled).alias("sampled"),
            F.sum(sampled * (1 + row % WEIGHTS)).alias("weighted"),
        )


class Running:
    """A query that runs until the end of the block.

    Attributes
    ----------
    batches : list of dict
        Spark's progress of the micro-batches that had rows.
    late : bool
        Whether rows were waited for in vain.
    """

    def __init__(self, frame: DataFrame, checkpoint: Path, label: str) -> None:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

        counted = frame.observe("out", F.count(F.lit(1)).alias("rows"))
        self._query = counted.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        self._label, self._waited_for = label, 0
        self._seen: dict[int, dict[str, Any]] = {}
        self.late = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._query.stop()

    @property
    def batches(self) -> list[dict[str, Any]]:
        return [one for _, one in sorted(self._seen.items())]

    def look(self) -> int:
        """Take the progress that is new; return how many rows were read in all.

        Raises
        ------
        SlideJoinError
            If the query has failed.
        """
        failed = self._query.exception()
        if failed is not None:
            # Of an error in Python the first line says that it is one, the last one which.
            said = str(failed).partition("JVM stacktrace:")[0].strip().splitlines()
            msg = f"{self._label}: the query failed: {' … '.join(dict.fromkeys((said[0], said[-1])))}"
            raise SlideJoinError(msg)
        self._seen |= {one["batchId"]: dict(one) for one in self._query.recentProgress if one["numInputRows"]}
        return sum(one["numInputRows"] for one in self._seen.values())

    def wait_for(self, rows: int, patience: float = math.inf) -> list[dict[str, Any]]:
        """Wait until so many more rows are read; return the micro-batches that have read them."""
        before, end = set(self._seen), time.monotonic() + patience
        self._waited_for += rows
        while self.look() < self._waited_for:
            if time.monotonic() >= end:
                self.late = True
                break
            time.sleep(POLL / 2)
        return [one for number, one in sorted(self._seen.items()) if number not in before]


def _waits(query: Running, files: InputFiles, live: Live, sides: int) -> dict[str, float]:
    """Let files arrive at a query while it works, and return how long their rows wait."""
    count, before, start = _file_rows(live, sides), query.look(), time.time()
    arrived: list[float] = []
    for number in range(_files(live)):
        time.sleep(max(0.0, start + (number + 1) * INTERVAL - time.time()))
        files.add(count)
        arrived.append(time.time())
        # Spark remembers a few micro-batches alone.
        query.look()
    query.wait_for(len(arrived) * count * sides, PATIENCE)
    return waited(query.batches, np.array(arrived), count * sides, before, time.time())


def _progress(seen: Watch, batches: Sequence[dict[str, Any]]) -> list[JoinProgress]:
    """Return the join's figures of micro-batches; listeners are called a little after their end."""
    numbers, end = {one["batchId"] for one in batches}, time.monotonic() + LISTENING
    while numbers - {one.batch_id for one in seen.recent} and time.monotonic() < end:
        time.sleep(POLL)
    return [one for one in seen.recent if one.batch_id in numbers]


def _seconds(batch: dict[str, Any]) -> float:
    return float(batch["durationMs"]["triggerExecution"]) / 1e3


def waited(
    batches: Sequence[dict[str, Any]], arrived: NDArray[np.float64], rows: int, before: int, now: float
) -> dict[str, float]:
    """Return how long rows waited from the arrival of their file to the end of its micro-batch, by percentile.

    Parameters
    ----------
    batches : sequence of dict
        Spark's progress of all micro-batches.
    arrived : (n,) float64
        When files arrived, each with so many `rows`.
    before : int
        Rows that were read before them.
    now : float
        The end of those that no micro-batch has read.

    Examples
    --------
    >>> one = {"numInputRows": 5, "timestamp": "1970-01-01T00:00:10.000Z", "durationMs": {"triggerExecution": 2000}}
    >>> other = {"numInputRows": 10, "timestamp": "1970-01-01T00:00:20.000Z", "durationMs": {"triggerExecution": 1000}}
    >>> waited([one, other], np.array([12.0, 13.0, 14.0]), 5, 5, 30.0)
    {'p50': 9.0, 'p75': 16.0, 'p95': 16.0, 'p100': 16.0}
    """
    ends = [datetime.fromisoformat(one["timestamp"]).timestamp() + _seconds(one) for one in batches]
    read = np.cumsum([one["numInputRows"] for one in batches])
    last_rows = before + (np.arange(arrived.size) + 1) * rows
    committed = np.array([*ends, now])[np.searchsorted(read, last_rows)]
    return percentiles(arrived, np.full(arrived.size, rows), committed)


def _faster(join: Join) -> Join:
    """Return a join with the same state that fills windows."""
    return replace(join, algorithm="auto", live=None)


def _push(point: Point) -> int:
    """Return the rows of each side in a micro-batch."""
    return max(point.push // point.source.sides, 1)


def _file_rows(live: Live, sides: int) -> int:
    """Return the rows of each side in a file."""
    return max(1, round(live.rate * INTERVAL / sides))


def _files(live: Live) -> int:
    return max(1, round(live.seconds / INTERVAL))


def _stride(rows: int) -> int:
    """Return a distance of the ordinals that are compared; odd, as ordinals of a side are even or odd."""
    return max(1, rows // SAMPLED) | 1


def _met(batches: Iterable[dict[str, Any]]) -> bool:
    """Return whether every micro-batch read as many rows of each side."""
    return all(len({source["numInputRows"] for source in one["sources"]}) == 1 for one in batches)


def _counted(batches: Iterable[dict[str, Any]]) -> tuple[int, int, int]:
    """Return the matches of all rows of micro-batches, of those that are compared, and the same weighted."""
    seen = [batch["observedMetrics"]["counts"] for batch in batches]
    whole, sampled, weighted = (sum(int(one[name] or 0) for one in seen) for name in ("all", "sampled", "weighted"))
    return whole, sampled, weighted


def _differ(counts: Sequence[int], expected: Sequence[int]) -> int:
    """Return by how many matches counts differ: at least one where only their weighted sums do."""
    off = abs(counts[0] - expected[0])
    return off or int(counts[1] != expected[1])


def _mean_seconds(each: Sequence[dict[str, float]]) -> dict[str, float]:
    names = {name for one in each for name in one}
    return {name: sum(one.get(name, 0.0) for one in each) / len(each) for name in sorted(names)}
