"""The case ``spark``: the join on Spark Structured Streaming, beside Spark's own and a query that only reads.

Parquet files are the source, one of each side a micro-batch, and the sink keeps nothing. The windows are filled first;
what is quoted is the micro-batches after that.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.bench.figures import Spread
from slidejoin.bench.relation import relation_for
from slidejoin.bench.spark_cluster import cluster
from slidejoin.bench.spark_files import Files
from slidejoin.bench.spark_memory import Trend
from slidejoin.bench.spark_queries import Load, empty, joined, own, session
from slidejoin.bench.spark_report import SparkReport
from slidejoin.bench.spark_restarts import restarts
from slidejoin.bench.spark_running import LOOK, WEIGHED_EVERY, Course, run_query
from slidejoin.bench.streams import Streams
from slidejoin.bench.workload import choice
from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["run"]

OUTPUTS = ("pairs", "count")
FILLING_ROWS = 1 << 20
"""Rows of a micro-batch while windows are filled, if those to be measured are smaller."""

FILLING_BATCHES = 40
"""Micro-batches that fill the windows, at least, if those to be measured are large: a few large ones leave Java's
compiler at work on what each of them runs once, on the driver and on every executor, with an eighth of the processors
that two executors have."""

FILLED = 1.25
"""Windows that come before anything is measured: rows leave by then."""

SETTLING = 30
"""Small micro-batches that come after the large ones before anything is measured: by then Spark has written the whole
state once, and what it has to compile for them is compiled. Of large ones half as many come as are measured: ten that
are measured have the eleventh among them, after which the state is written, and those behind it leave time for that."""

READ = 40
"""Micro-batches of the query that only reads, at most."""

LARGEST_OF_OWN, OWN_BATCHES = 100_000, 3
"""Rows of a micro-batch that Spark's own join is given at most, and how many are measured."""

WEIGHED = 8 * WEIGHED_EVERY
"""Micro-batches from which on something can be said about memory."""

PATIENCE = 10.0
"""Seconds to wait for what listeners are told."""

SPARK_STEPS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "commitBatch")


def run(
    *,
    window: int = 1 << 20,
    push: int = 1_000_000,
    batches: int = 6,
    match_rate: float = 2.0,
    output: str = "pairs",
    threads: int = 2,
    executors: int | None = None,
    buckets: int = 2,
    seed: int = 1,
    baselines: bool = True,
    restart: bool = False,
) -> SparkReport:
    """Measure the join on a local Spark, or on a standalone cluster on this machine.

    Parameters
    ----------
    window : int
        Rows of each side that a row of the other may see, by time.
    push : int
        Rows of a micro-batch, half of them of each side.
    batches : int
        Micro-batches to measure, once windows are full.
    threads : int
        Tasks that a local Spark runs at once.
    executors : int, optional
        Of a cluster; each runs one task at once and has one processor.
    buckets : int
        Of the join, and state partitions.
    baselines : bool
        Whether Spark's own join is measured too.
    restart : bool
        Whether the time to the first result in a fresh process is measured too; needs a local Spark.

    Raises
    ------
    SlideJoinError
        If a query fails or puts out another number of rows than it should.
    ConfigError
        For options that cannot be.
    """
    choice("output", output, OUTPUTS)
    if restart and executors is not None:
        msg = f"restart: is measured on a local Spark, got executors {executors} too; leave one of them out"
        raise ConfigError(msg)
    load = Load(relation_for("band", "uniform", match_rate, window), window, output)
    weighed = executors is None and batches >= WEIGHED
    with TemporaryDirectory(prefix="slidejoin-bench-") as folder:
        root = Path(folder)
        files = _files(root / "join", load, push, batches, seed)
        filled, own_speed, own_rows, restarted = len(files.rows) - batches, None, None, None
        reading = files.linked(root / "empty", len(files.rows) - min(batches, READ) - 1)
        with ExitStack() as running:
            master = (
                f"local[{threads}]" if executors is None else running.enter_context(cluster(executors, root / "log"))
            )
            spark = running.enter_context(session(master, buckets, root / "cache", load.snapshots(push)))
            course, inside = _watched(spark, files, load, root, filled, weighed=weighed)
            only_read = run_query(spark, empty, reading, load, root / "empty" / "checkpoint")
            if baselines:
                own_rows = min(push, LARGEST_OF_OWN)
                own_speed = _own_speed(spark, root / "own", load, own_rows, seed)
        if restart:
            restarted = restarts(root, {"join": files, "empty": reading}, load, threads, buckets)
    took, read = np.array(course.took(filled)), np.array(only_read.took(1))
    out = [batch["observedMetrics"]["out"]["rows"] for batch in course.batches[filled:]]
    report = SparkReport(
        window=window,
        push=push,
        batches=batches,
        output=output,
        buckets=buckets,
        executors=executors,
        match_rate=load.relation.match_rate,
        rows_per_second=Spread.of(push / took),
        seconds=Spread.of(took),
        reading=Spread.of(read),
        beyond_empty=float(np.median(took) - np.median(read)),
        phases=_phases(course, filled),
        steps=inside,
        pairs_per_row=sum(out) / (push * len(out)),
        own_rows_per_second=own_speed,
        own_rows=own_rows,
        file_bytes=float(np.mean(files.file_bytes[filled : filled + batches])),
        arrow_bytes=float(np.mean(files.arrow_bytes[filled : filled + batches])),
        written={kind: size / batches for kind, size in course.bytes_from(filled).items()},
        written_reading=sum(only_read.bytes_from(1).values()) / len(read),
        memory=_memory(course, filled) if weighed else None,
        restart=restarted,
    )
    _check(report, load)
    return report


def _files(root: Path, load: Load, push: int, batches: int, seed: int) -> Files:
    """Write the input, first what fills the windows."""
    half, need = push // 2, int(FILLED * load.window)
    small = 2 * push < FILLING_ROWS
    large = max(half, min(FILLING_ROWS // 2, need)) if small else min(half, -(-need // FILLING_BATCHES))
    files = Files(root, Streams("uniform", seed, 1, load.window))
    for _ in range(-(-need // large)):
        files.add(large)
    for _ in range(batches + (min(SETTLING, batches) if small else batches // 2)):
        files.add(half)
    return files


def _own_speed(spark: SparkSession, root: Path, load: Load, rows: int, seed: int) -> float:
    """Return the rows a second of Spark's own join once its windows are full, as those of ours are."""
    files = Files(root, Streams("uniform", seed, 1, load.window))
    filling = -(-int(FILLED * load.window) // (rows // 2))
    for _ in range(filling + OWN_BATCHES):
        files.add(rows // 2)
    return rows / float(np.median(run_query(spark, own, files, load, root / "checkpoint").took(filling)))


def _watched(
    spark: SparkSession, files: Files, load: Load, root: Path, first: int, *, weighed: bool
) -> tuple[Course, dict[str, float]]:
    """Run the join, and return with how it went its seconds by step of a micro-batch from `first` on."""
    from slidejoin.spark import watch  # noqa: PLC0415 - an extra

    with watch(spark, keep=2 * len(files.rows)) as seen:
        course = run_query(spark, joined, files, load, root / "join" / "checkpoint", weighed=weighed)
        measured = {batch["batchId"] for batch in course.batches[first:]}
        end = time.monotonic() + PATIENCE
        # Listeners hear of a micro-batch a little after it has ended.
        while not measured <= {one.batch_id for one in seen.recent} and time.monotonic() < end:
            time.sleep(LOOK)
    steps: dict[str, float] = {}
    for one in seen.recent:
        if one.batch_id in measured:
            for name, seconds in one.seconds.items():
                steps[name] = steps.get(name, 0.0) + seconds / len(measured)
    return course, steps


def _phases(course: Course, first: int) -> dict[str, float]:
    batches = course.batches[first:]
    named = {
        name: sum(batch["durationMs"].get(name, 0) for batch in batches) / 1e3 / len(batches) for name in SPARK_STEPS
    }
    return {name: seconds for name, seconds in named.items() if seconds > 0}


def _memory(course: Course, first: int) -> dict[str, Trend]:
    """Return how what the processes hold went from that micro-batch on."""
    seen = {place: held for place, held in course.memory.items() if place >= first}
    named = {
        "Java heap": [held.heap for held in seen.values()],
        "Java beside its heap": [held.beside for held in seen.values()],
        "Python workers": [held.workers for held in seen.values()],
    }
    return {name: Trend.of(list(seen), sizes) for name, sizes in named.items()}


def _check(report: SparkReport, load: Load) -> None:
    """Check that about as many rows came out as must: counts one for each row, pairs the match rate."""
    expected = 1.0 if load.output == "count" else report.match_rate
    if abs(report.pairs_per_row - expected) > (0 if load.output == "count" else 0.1 * expected):
        msg = f"{report.pairs_per_row:.3f} rows came out for each row in, expected {expected:.3f}"
        raise SlideJoinError(msg)
