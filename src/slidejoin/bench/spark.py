"""The case ``spark``: the join on Spark Structured Streaming, next to Spark's own join and a query that only reads.

The source is Parquet files, one of each side per micro-batch; the sink keeps nothing. The first micro-batches fill the
windows; the later ones are measured.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import exp
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.bench.case import at_least, choice
from slidejoin.bench.comparison import comparison_for, inequalities_for
from slidejoin.bench.report import Report, Spread, millions
from slidejoin.bench.spark_pipeline import POLL, InputFiles, run_query, session
from slidejoin.bench.streams import Streams
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.runtime.threads import cores
from slidejoin.spark.driver.checkpoints import DELTAS, snapshots_for
from slidejoin.spec.join_options import JOIN_TYPES, ONE_SIDED, STRATEGIES, UNMATCHED
from slidejoin.spec.join_spec import algorithms
from slidejoin.spec.options import KNOWN_STRUCTURES
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from slidejoin.bench.comparison import Comparison
    from slidejoin.bench.spark_pipeline import QueryRun
    from slidejoin.spec.join_options import JoinType, Output, StrategyName

__all__ = [
    "BEGIN",
    "OUTPUTS",
    "READ",
    "STEP",
    "BandJoin",
    "SparkReport",
    "bucketed_join",
    "input_tables",
    "join_of",
    "measure_spark",
    "read_only",
    "run",
    "slidejoin_join",
    "window_length",
    "write_input",
]

OUTPUTS = ("pairs", "count")

RESULTS = (*OUTPUTS, *(how for how in JOIN_TYPES if how != "inner"))
"""What the case can output: pairs of an inner join, counts of it, or the rows of another join."""

TWO_TERMS = frozenset(name for name, structure in KNOWN_STRUCTURES.known().items() if structure.two_terms)
"""Indexes that are made for two comparisons."""

STEP = 1000
"""Microseconds from one arrival to the next."""

BEGIN = 1_767_225_600_000_000
"""Event time of the first row, 2026-01-01, in microseconds."""

FILLING_ROWS = 1 << 20
"""Rows of a micro-batch while windows are filled, if those to be measured are smaller."""

FILLING_BATCHES = 40
"""Micro-batches that fill the windows, at least, if those to be measured are large: a few large ones leave Java's
compiler at work on code that runs once a micro-batch, on the driver and on every executor."""

FILLED = 1.25
"""Windows that come before anything is measured: rows leave by then."""

SETTLING = 30
"""Small micro-batches that come after the large ones before anything is measured: by then Spark has written the whole
state once and compiled its code for them. Half as many large ones come first as are measured: ten measured ones include
the eleventh, after which the state is written, and those behind it leave time for that."""

READ = 40
"""Micro-batches of the query that only reads, at most."""

LARGEST_OF_OWN, OWN_BATCHES = 100_000, 3
"""Rows of a micro-batch that Spark's own join is given at most, and how many are measured."""

PATIENCE = 10.0
"""Seconds to wait for Spark's listeners."""

SPARK_STEPS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "commitBatch")


@dataclass(frozen=True, slots=True)
class BandJoin:
    """A join: the comparison, rows that a row of the other side sees, output, join type, routing, index of a bucket."""

    comparison: Comparison
    window: int
    output: Output
    how: JoinType = "inner"
    strategy: StrategyName = "auto"
    algorithm: str = "auto"

    @property
    def select(self) -> list[str]:
        """Columns of the result: two a side, or one for counts."""
        if self.output == "count":
            return ["l.i", "r.i"]
        return ["l.k", "l.i"] if self.how in ONE_SIDED else ["l.k", "l.i", "r.k", "r.i"]

    def conf(self, push: int) -> dict[str, object]:
        """Return Spark's setting of how often the whole state is written, with so many rows a micro-batch."""
        return {DELTAS: snapshots_for(2 * self.window // push)}


def window_length(rows: int) -> timedelta:
    """Return the time in which the other side brings that many rows."""
    return timedelta(microseconds=2 * rows * STEP)


def join_of(window: int, match_rate: float, output: str, how: str, strategy: str, algorithm: str) -> BandJoin:
    """Return the join that shows these options: of a band, an equality, or two inequalities.

    Raises
    ------
    ConfigError
        For impossible options.
    """
    at_least("window", window, 1)
    if not match_rate > 0:
        msg = f"match_rate: got {match_rate}, expected a number above 0"
        raise ConfigError(msg)
    choice("output", output, OUTPUTS)
    choice("how", how, JOIN_TYPES)
    choice("strategy", strategy, STRATEGIES)
    choice("algorithm", algorithm, algorithms())
    if algorithm in TWO_TERMS:
        comparison = inequalities_for(match_rate, window)
    else:
        # Routing by hash needs an equality, and so does a hash table.
        operation = "equi" if "hash" in {strategy, algorithm} else "band"
        comparison = comparison_for(operation, "uniform", match_rate, window)
    return BandJoin(comparison, window, output, how, strategy, algorithm)  # type: ignore[arg-type]  # checked names


def input_tables(join: BandJoin, seed: int) -> Callable[[int, int], tuple[pa.Table, ...]]:
    """Return what gives the rows ``first <= ordinal < last`` of both sides."""
    streams = Streams("uniform", seed, join.comparison.grain, join.window)
    return partial(_timed_tables, streams, join.comparison)


def _timed_tables(streams: Streams, comparison: Comparison, first: int, last: int) -> tuple[pa.Table, ...]:
    """Return rows with their event times, and with a second key where one is compared."""

    def timed(table: pa.Table) -> pa.Table:
        keys, ordinals = table["k"].to_numpy(), table["i"].to_numpy()
        second = comparison.second_keys(keys, ordinals)
        if second is not None:
            table = table.append_column("d", pa.array(second))
        times = pa.array(ordinals * STEP + BEGIN).view(pa.timestamp("us", "UTC"))
        return table.append_column("ts", times)

    left, right = streams.tables(first, last)
    return timed(left), timed(right)


def slidejoin_join(spark: SparkSession, files: InputFiles, join: BandJoin) -> DataFrame:
    """Return slidejoin's join: pairs of two columns a side, or counts."""
    from slidejoin.spark import stream_join  # noqa: PLC0415 - an extra

    left, right = files.frames(spark)
    return stream_join(
        left,
        right,
        on=join.comparison.sql(),
        window=TimeWindow(window_length(join.window), on="ts"),
        how=join.how,
        output=join.output,
        select=join.select,
        strategy=join.strategy,
        algorithm=join.algorithm,
    )


def read_only(spark: SparkSession, files: InputFiles, join: BandJoin) -> DataFrame:  # noqa: ARG001 - as the others
    """Return a query that reads the rows and nothing else."""
    left, right = files.frames(spark)
    return left.unionAll(right)


def bucketed_join(spark: SparkSession, files: InputFiles, join: BandJoin) -> DataFrame:
    """Return Spark's own join of the same pairs: cells as wide as the band are the equal key, right rows go to two."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    left, right = files.frames(spark)
    low, high = join.comparison.low, join.comparison.high
    cell = max(high - low + 1, 1)
    left = left.withWatermark("ts", "0 seconds").withColumn("cell", F.floor(F.col("k") / cell))
    ends = F.array_distinct(F.array(F.floor((F.col("k") - high) / cell), F.floor((F.col("k") - low) / cell)))
    right = right.withWatermark("ts", "0 seconds").withColumn("cell", F.explode(ends))
    length = f"INTERVAL {int(window_length(join.window).total_seconds() * 1e6)} MICROSECONDS"
    near = F.expr(
        f"l.cell = r.cell AND r.k - l.k BETWEEN {low} AND {high} AND r.ts BETWEEN l.ts - {length} AND l.ts + {length}"
    )
    return left.alias("l").join(right.alias("r"), near).selectExpr("l.k", "l.i", "r.k", "r.i")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReport(Report):
    """One join on Spark.

    Attributes
    ----------
    on : str
        The predicate.
    how, strategy, algorithm : str
        The join type, how rows are routed, and the index of a bucket.
    rows_per_second : Spread
        Rows of both sides, over micro-batches with full windows.
    seconds, reading : Spread
        Of one such micro-batch, and of one of a query that only reads the same files.
    beyond_reading : float
        Difference of the two medians.
    phases : dict of str to float
        Mean seconds of a micro-batch by Spark's own phases.
    bucket_seconds : dict of str to float
        Mean seconds of a micro-batch in the join's buckets, of all of them together, by step of
        `slidejoin.spark.JoinProgress.seconds`.
    rows_out_per_row : float
        Output rows for each input row, in the measured micro-batches.
    own_rows_per_second, own_rows : float and int or None
        Spark's own join by buckets, and rows of a micro-batch that it was given.
    """

    on: str
    window: int
    push: int
    batches: int
    output: Output
    how: JoinType
    strategy: StrategyName
    algorithm: str
    threads: int
    buckets: int
    match_rate: float
    rows_per_second: Spread
    seconds: Spread
    reading: Spread
    beyond_reading: float
    phases: dict[str, float]
    bucket_seconds: dict[str, float]
    rows_out_per_row: float
    own_rows_per_second: float | None
    own_rows: int | None

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        speed, took = self.rows_per_second, self.seconds
        yield (
            f"case {self.case}: {self.on}, uniform keys, match rate {self.match_rate:.2f}, output {self.output}, "
            f"{self.how} join, strategy {self.strategy}, index {self.algorithm}"
        )
        yield (
            f"time windows of {self.window:,} rows a side, {self.push:,} rows a micro-batch, {self.buckets} buckets, "
            f"{self.threads} tasks at once"
        )
        yield ""
        middle = f"{millions(speed.lower_quartile)} to {millions(speed.upper_quartile)}"
        yield (
            f"{'slidejoin':<12}{millions(speed.median):>8} rows/s   median of {speed.count} micro-batches, "
            f"middle half {middle}"
        )
        if self.own_rows_per_second is not None:
            yield (
                f"{'Spark':<12}{millions(self.own_rows_per_second):>8} rows/s   its own join by buckets, "
                f"{self.own_rows:,} rows a micro-batch: slidejoin is {speed.median / self.own_rows_per_second:,.1f} "
                "times as fast"
            )
        yield ""
        yield (
            f"time      {took.median:.3f} s a micro-batch, {self.beyond_reading:.3f} s more than a query that only "
            f"reads ({self.reading.median:.3f} s)"
        )
        yield f"phases    {', '.join(f'{name} {seconds:.3f}' for name, seconds in self.phases.items())} s"
        steps = ", ".join(f"{name} {seconds:.3f}" for name, seconds in self.bucket_seconds.items())
        yield f"buckets   {steps} s, all together"
        yield f"output    {self.rows_out_per_row:.2f} rows for each row of the input"


def run(
    *,
    window: int = 1 << 20,
    push: int = 1_000_000,
    batches: int = 6,
    match_rate: float = 2.0,
    output: str = "pairs",
    strategy: str = "auto",
    algorithm: str = "auto",
    threads: int | None = None,
    buckets: int = 2,
    seed: int = 1,
    baselines: bool = True,
) -> SparkReport:
    """Measure the join on a local Spark: of a band, an equality, or two inequalities, with as many matches.

    Parameters
    ----------
    window : int
        Rows of each side that a row of the other may see, by time.
    push : int
        Rows of a micro-batch, half of them of each side.
    batches : int
        Micro-batches to measure, once windows are full.
    output : str
        Pairs, counts, or the rows of another join type.
    strategy, algorithm : str
        How rows are routed, and the index of a bucket, see `slidejoin.spark.stream_join`. With ``hash`` as either, the
        join is of an equality; with an index of two terms, such as ``po_join``, of two inequalities.
    threads : int, optional
        Tasks that Spark runs at once; by default as many as there are buckets and cores for them.
    buckets : int
        Of the join, and state partitions.
    baselines : bool
        Whether Spark's own join is measured too; it has no join of two inequalities.

    Raises
    ------
    SlideJoinError
        If a query fails or outputs another number of rows than expected.
    ConfigError
        For impossible options.
    """
    for name, (value, fewest) in {"push": (push, 2), "batches": (batches, 1), "buckets": (buckets, 1)}.items():
        at_least(name, value, fewest)
    tasks = min(buckets, cores()) if threads is None else threads
    at_least("threads", tasks, 1)
    choice("output", output, RESULTS)
    result, how = ("pairs", output) if output in JOIN_TYPES else (output, "inner")
    join = join_of(window, match_rate, result, how, strategy, algorithm)
    with TemporaryDirectory(prefix="slidejoin-bench-") as folder:
        root = Path(folder)
        files = write_input(root / "join", join, push, batches, seed)
        reading = files.linked(root / "reading", len(files.rows) - min(batches, READ) - 1)
        with session(f"local[{tasks}]", buckets, root / "cache", join.conf(push)) as spark:
            report, _, _ = measure_spark(
                spark, join, files, reading, push=push, batches=batches, threads=tasks, buckets=buckets, seed=seed,
                own=baselines,
            )  # fmt: skip
            return report


def write_input(root: Path, join: BandJoin, push: int, batches: int, seed: int) -> InputFiles:
    """Write the input: micro-batches that fill the windows, those that let Spark settle, those to be measured."""
    half, need = push // 2, int(FILLED * join.window)
    small = 2 * push < FILLING_ROWS
    large = max(half, min(FILLING_ROWS // 2, need)) if small else min(half, -(-need // FILLING_BATCHES))
    files = InputFiles(root, input_tables(join, seed))
    for _ in range(-(-need // large)):
        files.add(large)
    for _ in range(batches + (min(SETTLING, batches) if small else batches // 2)):
        files.add(half)
    return files


def measure_spark(
    spark: SparkSession,
    join: BandJoin,
    files: InputFiles,
    reading: InputFiles,
    *,
    push: int,
    batches: int,
    threads: int,
    buckets: int,
    seed: int,
    own: bool,
    observe: Callable[[dict[str, Any]], None] | None = None,
    observe_reading: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[SparkReport, QueryRun, QueryRun]:
    """Run the join, the query that only reads, and Spark's own join.

    Parameters
    ----------
    files, reading : InputFiles
        Of the join, and of the query that only reads; checkpoints are written next to them.
    own : bool
        Whether Spark's own join runs too.
    observe, observe_reading : callable, optional
        For the join and for the query that only reads, see `run_query`.

    Returns
    -------
    SparkReport, and the progress of the join and of the query that only reads

    Raises
    ------
    SlideJoinError
        If a query fails or the join outputs another number of rows than expected.
    """
    first = len(files.rows) - batches
    joined, steps = _watched(spark, join, files, first, observe)
    only_read = run_query(partial(read_only, spark, reading, join), reading.root / "checkpoint", observe_reading)
    own_rows = min(push, LARGEST_OF_OWN) if own and join.comparison.operation != "inequalities" else None
    took, read = np.array(joined.seconds(first)), np.array(only_read.seconds(1))
    report = SparkReport(
        case="spark",
        window=join.window,
        on=join.comparison.sql(),
        push=push,
        batches=batches,
        output=join.output,
        how=join.how,
        strategy=join.strategy,
        algorithm=join.algorithm,
        threads=threads,
        buckets=buckets,
        match_rate=join.comparison.match_rate,
        rows_per_second=Spread.of(push / took),
        seconds=Spread.of(took),
        reading=Spread.of(read),
        beyond_reading=float(np.median(took) - np.median(read)),
        phases=_phases(joined, first),
        bucket_seconds=steps,
        rows_out_per_row=joined.rows_out(first) / (push * len(took)),
        own_rows_per_second=None if own_rows is None else _own_speed(spark, files.root.parent, join, own_rows, seed),
        own_rows=own_rows,
    )
    _check(report)
    return report, joined, only_read


def _own_speed(spark: SparkSession, root: Path, join: BandJoin, rows: int, seed: int) -> float:
    """Return the rows a second of Spark's own join once its windows are full."""
    files = InputFiles(root / "own", input_tables(join, seed))
    filling = -(-int(FILLED * join.window) // (rows // 2))
    for _ in range(filling + OWN_BATCHES):
        files.add(rows // 2)
    done = run_query(partial(bucketed_join, spark, files, join), files.root / "checkpoint")
    return rows / float(np.median(done.seconds(filling)))


def _watched(
    spark: SparkSession,
    join: BandJoin,
    files: InputFiles,
    first: int,
    observe: Callable[[dict[str, Any]], None] | None,
) -> tuple[QueryRun, dict[str, float]]:
    """Run the join; return its progress and its seconds by step of a micro-batch from `first` on."""
    from slidejoin.spark import watch  # noqa: PLC0415 - an extra

    with watch(spark, keep=2 * len(files.rows)) as seen:
        done = run_query(partial(slidejoin_join, spark, files, join), files.root / "checkpoint", observe)
        measured = {batch["batchId"] for batch in done.batches[first:]}
        end = time.monotonic() + PATIENCE
        # Listeners are called a little after a micro-batch has ended.
        while not measured <= {one.batch_id for one in seen.recent} and time.monotonic() < end:
            time.sleep(POLL)
    steps: dict[str, float] = {}
    for one in seen.recent:
        if one.batch_id in measured:
            for name, seconds in one.seconds.items():
                steps[name] = steps.get(name, 0.0) + seconds / len(measured)
    return done, steps


def _phases(done: QueryRun, first: int) -> dict[str, float]:
    batches = done.batches[first:]
    named = {
        name: sum(batch["durationMs"].get(name, 0) for batch in batches) / 1e3 / len(batches) for name in SPARK_STEPS
    }
    return {name: seconds for name, seconds in named.items() if seconds > 0}


def _check(report: SparkReport) -> None:
    """Check the number of output rows: counts one for each row, pairs about the match rate."""
    expected, off = _rows_out(report), 0.0 if report.output == "count" else 0.1
    if abs(report.rows_out_per_row - expected) > off * max(expected, 0.1):
        msg = f"{report.rows_out_per_row:.3f} output rows for each input row, expected {expected:.3f}"
        raise SlideJoinError(msg)


def _rows_out(report: SparkReport) -> float:
    """Return the output rows to expect for each input row."""
    if report.output == "count":
        return 1.0
    # Keys are uniform, so the partners that come before and behind a row are spread as Poisson says.
    lonely = 0.5 * exp(-2 * report.match_rate)
    if report.how == "left_semi":
        return 0.5 - lonely
    pairs = 0.0 if report.how == "left_anti" else report.match_rate
    return pairs + len(UNMATCHED[report.how]) * lonely
