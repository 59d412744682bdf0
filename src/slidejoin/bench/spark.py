"""The case ``spark``: the join on Spark Structured Streaming, beside Spark's own and a query that only reads.

Parquet files are the source, one of each side a micro-batch, and the sink keeps nothing. The windows are filled first;
what is quoted is the micro-batches after that.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.bench.figures import Spread, environment, million
from slidejoin.bench.relation import relation_for
from slidejoin.bench.spark_files import Files
from slidejoin.bench.spark_queries import LOOK, Course, Load, empty, joined, own, run_query, session
from slidejoin.bench.streams import Streams
from slidejoin.bench.workload import choice
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkReport", "restarted", "run"]

OUTPUTS = ("pairs", "count")
FILLING = 1 << 20
"""Rows of a micro-batch while windows are filled, if those to be measured are smaller."""

FILLED = 1.25
"""Windows that come before anything is measured: rows leave by then."""

LARGEST_OF_OWN, OWN_BATCHES = 100_000, 3
"""Rows of a micro-batch that Spark's own join is given at most, and how many are measured."""

JOIN, EMPTY = "join", "empty"
"""Folders of the two queries."""

MIB = 1 << 20
PATIENCE = 10.0
"""Seconds to wait for what listeners are told."""

SPARK_STEPS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "commitBatch")

RESTART = """
import json, sys
from slidejoin.bench.spark import restarted
print(json.dumps(restarted(**json.loads(sys.argv[1]))))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReport:
    """One join on Spark.

    Attributes
    ----------
    rows_per_second : Spread
        Rows of both sides, over micro-batches with full windows.
    seconds : Spread
        Of one such micro-batch.
    beyond_empty : float
        Seconds of a median micro-batch beyond that of a query that only reads the same files.
    phases : dict of str to float
        Mean seconds of a micro-batch by what Spark calls its phases.
    steps : dict of str to float
        Mean seconds of a micro-batch in the join's buckets, of all of them together, by step of
        `slidejoin.spark.JoinProgress.seconds`.
    pairs_per_row : float
        Rows put out for each row, in the measured micro-batches.
    own_rows_per_second, own_rows : float and int or None
        Spark's own join by buckets, and rows of a micro-batch that it was given.
    state_per_file_byte, state_per_byte : float
        Bytes written to the checkpoint for each byte of the Parquet files, and of the same rows in memory.
    memory : tuple of (float, float)
        Resident bytes of driver and workers: median of the first and of the last quarter of the micro-batches.
    restart : dict of str to float or None
        Seconds from the start of a query in a fresh process to the end of its first micro-batch: the join with the
        node's cache, without it, and the query that only reads.
    """

    window: int
    push: int
    batches: int
    output: str
    buckets: int
    match_rate: float
    rows_per_second: Spread
    seconds: Spread
    beyond_empty: float
    phases: dict[str, float]
    steps: dict[str, float]
    pairs_per_row: float
    own_rows_per_second: float | None
    own_rows: int | None
    state_per_file_byte: float
    state_per_byte: float
    memory: tuple[float, float]
    restart: dict[str, float] | None

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {"case": "spark"} | asdict(self) | {"environment": environment()}

    def text(self) -> str:
        """Return the report for people."""
        speed, took = self.rows_per_second, self.seconds
        middle = f"{million(speed.lower_quartile)} to {million(speed.upper_quartile)}"
        what = f"uniform keys, match rate {self.match_rate:.2f}, windows of {self.window:,} rows a side by time"
        told = {
            "joined": f"{self.push:,} rows a micro-batch, {self.buckets} buckets, output {self.output}",
            "speed": f"{million(speed.median)} rows/s, {middle} in the middle half of {speed.count} micro-batches",
            "out": f"{self.pairs_per_row:.2f} rows for each row in",
            "time": f"{took.median:.3f} s a micro-batch, {self.beyond_empty:.3f} s beyond one that only reads",
            "phases": ", ".join(f"{name} {seconds:.3f}" for name, seconds in self.phases.items()) + " s",
            "buckets": ", ".join(f"{name} {seconds:.3f}" for name, seconds in self.steps.items()) + " s together",
            "state": f"{self.state_per_file_byte:.2f} bytes written for each byte of the files, "
            f"{self.state_per_byte:.2f} for each byte of rows in memory",
            "memory": f"{self.memory[0] / MIB:,.0f} MiB in the first quarter of the micro-batches, "
            f"{self.memory[1] / MIB:,.0f} in the last",
        }
        if self.own_rows_per_second is not None:
            told["Spark's own"] = (
                f"{million(self.own_rows_per_second)} rows/s by buckets, {self.own_rows:,} rows a micro-batch, windows "
                f"not full: slidejoin is {speed.median / self.own_rows_per_second:,.1f} times as fast"
            )
        if self.restart is not None:
            told["restart"] = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.restart.items())
        return "\n".join([f"case spark: {what}", "", *(f"{name:<12}{text}" for name, text in told.items())])


def run(
    *,
    window: int = 1 << 20,
    push: int = 1_000_000,
    batches: int = 6,
    match_rate: float = 2.0,
    output: str = "pairs",
    threads: int = 2,
    buckets: int = 2,
    seed: int = 1,
    baselines: bool = True,
    restart: bool = False,
) -> SparkReport:
    """Measure the join on a local Spark.

    Parameters
    ----------
    window : int
        Rows of each side that a row of the other may see, by time.
    push : int
        Rows of a micro-batch, half of them of each side.
    batches : int
        Micro-batches to measure, once windows are full.
    threads : int
        Tasks that Spark runs at once.
    buckets : int
        Of the join, and state partitions.
    baselines : bool
        Whether Spark's own join is measured too.
    restart : bool
        Whether the time to the first result in a fresh process is measured too.

    Raises
    ------
    SlideJoinError
        If a query fails or puts out another number of rows than it should.
    ConfigError
        For options that cannot be.
    """
    choice("output", output, OUTPUTS)
    load = Load(relation_for("band", "uniform", match_rate, window), window, output)
    with TemporaryDirectory(prefix="slidejoin-bench-") as folder:
        root = Path(folder)
        whole, small = _files(root, load, push, batches, seed)
        filled, own_speed, own_rows = len(whole.rows) - batches, None, None
        with session(threads, buckets, root / "cache") as spark:
            course, inside = _watched(spark, whole, load, root / JOIN / "checkpoint", filled)
            only_read = run_query(spark, empty, small, load, root / EMPTY / "checkpoint")
            if baselines:
                own_rows = min(push, LARGEST_OF_OWN)
                own_speed = _own_speed(spark, root / "own", load, own_rows, seed)
        given = {"window": window, "match_rate": match_rate, "output": output, "threads": threads, "buckets": buckets}
        restarts = _restarts(root, whole, small, push, given) if restart else None
    took = np.array(course.took(filled))
    out = [batch["observedMetrics"]["out"]["rows"] for batch in course.batches[filled:]]
    new, quarter = course.written[-1] - course.written[filled - 1], max(1, len(course.memory) // 4)
    report = SparkReport(
        window=window,
        push=push,
        batches=batches,
        output=output,
        buckets=buckets,
        match_rate=load.relation.match_rate,
        rows_per_second=Spread.of(push / took),
        seconds=Spread.of(took),
        beyond_empty=float(np.median(took) - np.median(only_read.took(1))),
        phases=_phases(course, filled),
        steps=inside,
        pairs_per_row=sum(out) / (push * len(out)),
        own_rows_per_second=own_speed,
        own_rows=own_rows,
        state_per_file_byte=new / sum(whole.file_bytes[filled : filled + batches]),
        state_per_byte=new / sum(whole.arrow_bytes[filled : filled + batches]),
        memory=(float(np.median(course.memory[:quarter])), float(np.median(course.memory[-quarter:]))),
        restart=restarts,
    )
    _check(report, load)
    return report


def _files(root: Path, load: Load, push: int, batches: int, seed: int) -> tuple[Files, Files]:
    """Write the input, first what fills the windows; and as much again as is measured, for a query that only reads."""
    half, large = push // 2, max(push, FILLING) // 2
    streams = Streams("uniform", seed, 1, load.window)
    whole, small = Files(root / JOIN, streams), Files(root / EMPTY, streams)
    for _ in range(-(-int(FILLED * load.window) // large)):
        whole.add(large)
    for _ in range(batches):
        whole.add(half)
    for _ in range(batches + 1):  # the first micro-batch of a query is no measure
        small.add(half)
    return whole, small


def _own_speed(spark: SparkSession, root: Path, load: Load, rows: int, seed: int) -> float:
    """Return the rows a second of Spark's own join, whose windows are not filled first: it would take too long."""
    files = Files(root, Streams("uniform", seed, 1, load.window))
    for _ in range(OWN_BATCHES + 1):
        files.add(rows // 2)
    return rows / float(np.median(run_query(spark, own, files, load, root / "checkpoint").took(1)))


def _watched(
    spark: SparkSession, files: Files, load: Load, checkpoint: Path, first: int
) -> tuple[Course, dict[str, float]]:
    """Run the join, and return with how it went its seconds by step of a micro-batch from `first` on."""
    from slidejoin.spark import watch  # noqa: PLC0415 - an extra

    with watch(spark, keep=len(files.rows) + first) as seen:
        course = run_query(spark, joined, files, load, checkpoint)
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


def _check(report: SparkReport, load: Load) -> None:
    """Check that about as many rows came out as must: counts one for each row, pairs the match rate."""
    expected = 1.0 if load.output == "count" else report.match_rate
    if abs(report.pairs_per_row - expected) > (0 if load.output == "count" else 0.1 * expected):
        msg = f"{report.pairs_per_row:.3f} rows came out for each row in, expected {expected:.3f}"
        raise SlideJoinError(msg)


def _restarts(root: Path, whole: Files, small: Files, push: int, given: dict[str, Any]) -> dict[str, float]:
    found = {}
    for name, query, files in (
        ("with the node's cache", JOIN, whole),
        ("without it", JOIN, whole),
        ("reading", EMPTY, small),
    ):
        files.add(push // 2)
        if name == "without it":
            rmtree(root / "cache")
        found[name] = _in_fresh_process(given | {"root": str(root), "query": query})
    return found


def _in_fresh_process(given: dict[str, Any]) -> float:
    done = subprocess.run(  # noqa: S603 - a program of ours, in our own interpreter
        [sys.executable, "-c", RESTART, json.dumps(given)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        msg = f"the restarted query ended with status {done.returncode}: {done.stderr.strip()[-500:]}"
        raise SlideJoinError(msg)
    return float(done.stdout.splitlines()[-1])


def restarted(
    *, root: str, query: str, window: int, match_rate: float, output: str, threads: int, buckets: int
) -> float:
    """Go on with a query of `run` in this process; return the seconds to the end of its first micro-batch."""
    load, place = Load(relation_for("band", "uniform", match_rate, window), window, output), Path(root)
    files = Files(place / query, Streams())
    with session(threads, buckets, place / "cache") as spark:
        course = run_query(spark, joined if query == JOIN else empty, files, load, place / query / "checkpoint")
    return course.seconds
