"""Joins measured on one Spark: windows are filled once, and every join continues a copy of that checkpoint.

The index of a bucket is no part of its state, so rows need not pass the slowest structures before the clock starts::

    files ──▶ filling query, algorithm="auto" ──▶ checkpoint
                                                    ├─ copy ─▶ first join:  micro-batches in a row ─▶ rows a second
                                                    │                       files while it runs    ─▶ latencies
                                                    └─ copy ─▶ second join: …

Counts of all joins must agree, micro-batch by micro-batch, and those of some rows with DuckDB's.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

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

ALL_FILES = 1 << 20


@dataclass(slots=True)
class Stream:
    """The rows of a point: those that fill its windows, and those that are measured.

    Attributes
    ----------
    files : InputFiles
    filling : int
        Micro-batches that fill the windows.
    stride : int
        Every so many rows one is compared with DuckDB's.
    expected : tuple of int, or None
        What DuckDB finds of the measured micro-batches, when it was asked.
    """

    files: InputFiles
    filling: int
    stride: int
    expected: tuple[int, int, int] | None = None
    checkpoints: dict[tuple[str, int, str], Path] = field(default_factory=dict)

    def rows_before(self, micro_batch: int) -> int:
        """Return how many rows of each side come before a micro-batch."""
        return sum(self.files.rows[:micro_batch]) // len(self.files.sides())


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
        return join.algorithm is not None and join.live is None

    def _stream(self, point: Point, root: Path) -> Stream:
        """Write all files of a point."""
        sides = point.source.sides
        push, filling = max(point.push // sides, 1), max(int(FILLED * point.window) // FILLING, 1)
        lives = [one.live for one in point.joins.values() if one.live is not None]
        coming = max([0, *(_file_rows(live, sides) * (_files(live) + 1) for live in lives)])
        total = FILLING * filling + (WARM + point.batches) * push + coming
        files = InputFiles(root, point.source.rows(total, self._seed))
        for _ in range(FILLING):
            files.add(filling)
        for _ in range(WARM + point.batches):
            files.add(push)
        return Stream(files, FILLING, _stride(point.batches * push * sides))

    def _filled(self, point: Point, join: Join, stream: Stream) -> Path:
        """Return the checkpoint of a query that has read the rows that fill the windows."""
        if join.state not in stream.checkpoints:
            root = stream.files.root.parent / f"filled-{len(stream.checkpoints)}"
            files = stream.files.linked(root, 0, stream.filling)
            query = partial(self._query, point, _faster(join), files, 1, stream.stride)
            run_query(query, root / "checkpoint")
            stream.checkpoints[join.state] = root / "checkpoint"
        return stream.checkpoints[join.state]

    def _measured(self, point: Point, join: Join, stream: Stream, root: Path) -> Measured:
        from slidejoin.spark import watch  # noqa: PLC0415 - an extra

        # More state stores than tasks would only take time.
        self._spark.conf.set("spark.sql.shuffle.partitions", str(min(join.buckets, self._tasks)))
        if join.algorithm is not None:
            shutil.copytree(self._filled(point, join, stream), root / "checkpoint")
        files = stream.files.linked(root, stream.filling, stream.filling + WARM + point.batches)
        with watch(self._spark, keep=64) as seen:
            done = run_query(partial(self._query, point, join, files, 1, stream.stride), root / "checkpoint")
            measured = {batch["batchId"] for batch in done.batches[WARM:]}
            end = time.monotonic() + 10
            while join.algorithm is not None and measured - {one.batch_id for one in seen.recent}:
                if time.monotonic() > end:
                    break
                time.sleep(POLL)
            progress = [one for one in seen.recent if one.batch_id in measured]
        rows = [batch["numInputRows"] for batch in done.batches[WARM:]]
        speed = Spread.of(np.array(rows) / np.array(done.seconds(WARM)))
        if join.algorithm is None:
            return Measured(rows_per_second=speed, rows_out=1.0)
        counts = _counted(done.batches[WARM:]) if join.output == "count" else None
        checked, wrong = 0, 0
        if counts is not None:
            if stream.expected is None:
                first, last = (stream.rows_before(stream.filling + n) for n in (WARM, WARM + point.batches))
                stream.expected = expected_counts(
                    point.source, point.window, stream.files.tables, range(first, last), stream.stride
                )
            checked, wrong = stream.expected[0], _differ(counts[1:], stream.expected[1:])
        latencies = None
        if join.live is not None:
            live = self._live(point, join, files, root / "checkpoint", join.live)
            latencies, checked, wrong = live.latencies, checked + live.checked, wrong + live.wrong
        stored = sum(one.window_left + one.window_right for one in progress)
        return Measured(
            rows_per_second=speed,
            latencies=latencies,
            seconds=_mean_seconds([one.seconds for one in progress]),
            state_bytes=sum(one.window_bytes for one in progress) / max(stored, 1),
            rows_out=done.rows_out(WARM) / sum(rows),
            matches=done.rows_out(WARM) if counts is None else counts[0],
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

    def _live(self, point: Point, join: Join, files: InputFiles, checkpoint: Path, live: Live) -> Waited:
        """Let files arrive while the query runs."""
        sides = point.source.sides
        count, many = _file_rows(live, sides), _files(live)
        stride, first = _stride(count * many * sides), files.written
        frame = self._query(point, join, files, ALL_FILES, stride)
        running = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        batches: dict[int, dict[str, Any]] = {}
        arrived: list[float] = []

        def wait_for(rows: int, patience: float) -> bool:
            """Wait until so many rows are read, and tell whether they were."""
            end = time.monotonic() + patience
            while True:
                if running.exception() is not None:
                    running.awaitTermination()  # raises the query's error
                batches.update({one["batchId"]: dict(one) for one in running.recentProgress if one["numInputRows"]})
                done = bool(sum(one["numInputRows"] for one in batches.values()) >= rows)
                if done or time.monotonic() >= end:
                    return done
                time.sleep(POLL)

        try:
            # The first file meets a query that starts.
            files.add(count)
            wait_for(count * sides, PATIENCE)
            start = time.time()
            for number in range(many):
                wait_for(ALL_FILES * count, start + (number + 1) * INTERVAL - time.time())
                files.add(count)
                arrived.append(time.time())
            whole = wait_for((many + 1) * count * sides, PATIENCE)
        except Exception as error:
            msg = f"{point.label}: the query failed: {str(error).strip().partition(chr(10))[0]}"
            raise SlideJoinError(msg) from error
        finally:
            running.stop()
        every = [one for _, one in sorted(batches.items())]
        latencies = waited(every, np.array(arrived), count * sides, time.time())
        if not whole:
            return Waited(latencies, 0, 0)
        rows = range(first, files.written)
        checked, *expected = expected_counts(point.source, point.window, files.tables, rows, stride)
        return Waited(latencies, checked, _differ(_counted(every)[1:], expected))


class Waited(NamedTuple):
    """How long rows waited, how many of them were compared with DuckDB's, and by how many matches these differ."""

    latencies: dict[str, float]
    checked: int
    wrong: int


def waited(batches: Sequence[dict[str, Any]], arrived: NDArray[np.float64], rows: int, now: float) -> dict[str, float]:
    """Return how long rows waited from the arrival of their file to the end of its micro-batch, by percentile.

    Parameters
    ----------
    batches : sequence of dict
        Spark's progress of all micro-batches. The first file that they read arrived before those of `arrived`.
    arrived : (n,) float64
        When files arrived, each with so many `rows`.
    now : float
        The end of those that no micro-batch has read.

    Examples
    --------
    >>> one = {"numInputRows": 5, "timestamp": "1970-01-01T00:00:10.000Z", "durationMs": {"triggerExecution": 2000}}
    >>> other = {"numInputRows": 10, "timestamp": "1970-01-01T00:00:20.000Z", "durationMs": {"triggerExecution": 1000}}
    >>> waited([one, other], np.array([12.0, 13.0, 14.0]), 5, 30.0)
    {'p50': 9.0, 'p75': 16.0, 'p95': 16.0, 'p100': 16.0}
    """
    ends = [
        datetime.fromisoformat(one["timestamp"]).timestamp() + one["durationMs"]["triggerExecution"] / 1e3
        for one in batches
    ]
    read = np.cumsum([one["numInputRows"] for one in batches])
    last_rows = (np.arange(arrived.size) + 2) * rows
    committed = np.array([*ends, now])[np.searchsorted(read, last_rows)]
    return percentiles(arrived, np.full(arrived.size, rows), committed)


def _stride(rows: int) -> int:
    """Return a distance of the ordinals that are compared; odd, as ordinals of a side are even or odd."""
    return max(1, rows // SAMPLED) | 1


def _faster(join: Join) -> Join:
    """Return a join with the same state that fills windows."""
    return replace(join, algorithm="auto", live=None)


def _file_rows(live: Live, sides: int) -> int:
    """Return the rows of each side in a file."""
    return max(1, round(live.rate * INTERVAL / sides))


def _files(live: Live) -> int:
    return max(1, round(live.seconds / INTERVAL))


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
