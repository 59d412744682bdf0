"""Strategies in turns: the same join by each of them, on one local Spark, micro-batch by micro-batch.

``python -m benchmarks.spark.strategies``: two inequalities within a time window, or with ``--equality`` an equality,
each strategy with a query of its own over the same files. Printed are, for each, rows a second over micro-batches with
full windows, bytes of state a stored row, bytes through the exchange a row, and the seconds of the buckets by step.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.bench.spark_pipeline import InputFiles, run_query, session
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from slidejoin.bench.spark_pipeline import QueryRun

STEP = 1000
"""Microseconds from one row of a side to the next."""

BEGIN = 1_767_225_600_000_000
"""Event time of the first row, 2026-01-01, in microseconds."""

SPAN, NOISE = 1 << 30, 1 << 10
"""Of the first compared column, and by how much the second one differs from it: about one match a row in 2^20 rows."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One strategy."""

    name: str
    rows_per_second: float
    state_bytes: float
    seconds: dict[str, float]
    pairs: int


def tables(seed: int, span: int, first: int, last: int) -> tuple[pa.Table, pa.Table]:
    """Return rows first…last-1 of both sides: few of a side's first column are above, and of its second one below."""
    sides = []
    for side in range(2):
        draw = np.random.default_rng([seed, side, first])
        a = draw.integers(0, span, last - first)
        b = a + draw.integers(-NOISE, NOISE, last - first)
        ordinals = np.arange(first, last)
        times = pa.array(ordinals * STEP + BEGIN).view(pa.timestamp("us", "UTC"))
        columns: dict[str, Any] = {"i": ordinals, "a": a, "b": b, "ts": times}
        sides.append(pa.table(columns))
    return sides[0], sides[1]


def query(spark: SparkSession, files: InputFiles, name: str, of: argparse.Namespace) -> DataFrame:
    """Return the join by one strategy."""
    from slidejoin.spark import stream_join  # noqa: PLC0415 - an extra

    left, right = files.frames(spark)
    options: dict[str, Any] = {} if of.output == "pairs" else {"output": of.output}
    return stream_join(
        left,
        right,
        on="l.a = r.a" if of.equality else "l.a < r.a AND l.b > r.b",
        window=TimeWindow(timedelta(microseconds=of.window * STEP), on="ts"),
        select=["l.i", "r.i"],
        strategy=name,  # type: ignore[arg-type]  # a name of a strategy
        partitions=of.buckets,
        algorithm=of.algorithm,
        **options,
    )


def measured(
    spark: SparkSession, files: InputFiles, name: str, number: int, options: argparse.Namespace, first: int
) -> Measured:
    """Run the join by one strategy over all files, and return what it took from micro-batch `first` on."""
    from slidejoin.spark import watch  # noqa: PLC0415 - an extra

    with watch(spark, keep=2 * len(files.rows)) as seen:
        done: QueryRun = run_query(
            partial(query, spark, files, name, options),
            files.root / f"checkpoint.{name}.{number}",
        )
    took = np.array(done.seconds(first))
    steps: dict[str, float] = {}
    for one in seen.recent[-len(took) :]:
        for step, seconds in one.seconds.items():
            steps[step] = steps.get(step, 0.0) + seconds / len(took)
    state = float(np.mean([one.window_bytes for one in seen.recent[-len(took) :]])) / (2 * options.window)
    return Measured(name, float(np.median(2 * options.push / took)), state, steps, done.rows_out(first))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser("python -m benchmarks.spark.strategies", description=__doc__)
    parser.add_argument("--strategies", default="grid,broadcast,split,sub_windows,auto")
    parser.add_argument("--window", type=int, default=1 << 20, help="rows of a side (default 2^20)")
    parser.add_argument("--push", type=int, default=1 << 15, help="rows of a side in a micro-batch (default 2^15)")
    parser.add_argument("--buckets", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=int, default=8, help="micro-batches that are measured (default 8)")
    parser.add_argument("--output", default="pairs", choices=["pairs", "count"])
    parser.add_argument("--equality", action="store_true", help="on an equality: a row has one match")
    parser.add_argument("--algorithm", default="auto")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="slidejoin-strategies-") as folder:
        root = Path(folder)
        files = InputFiles(root / "rows", partial(tables, 1, options.window if options.equality else SPAN))
        filling = max(1 << 17, options.push)
        for _ in range(-(-int(1.25 * options.window) // filling)):
            files.add(filling)
        first = len(files.rows) + 2
        for _ in range(2 + options.batches):
            files.add(options.push)
        with session(f"local[{options.threads}]", options.threads, root / "cache") as spark:
            for number, name in enumerate(options.strategies.split(",")):
                one = measured(spark, files, name, number, options, first)
                steps = ", ".join(
                    f"{step} {seconds:.2f}" for step, seconds in sorted(one.seconds.items(), key=lambda it: -it[1])[:8]
                )
                speed, state = f"{one.rows_per_second / 1e6:.3f} M rows/s", f"{one.state_bytes:.1f} state bytes a row"
                sys.stdout.write(f"{name:<12} {speed}  {state}  {one.pairs:,} rows out  {steps}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
