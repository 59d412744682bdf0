"""The fixed cost of a micro-batch: few rows, several queries over the same files in turns, in one session.

``python -m benchmarks.spark.small``: a query without state, Spark's own join on an equality within a time window, and
slidejoin's by several strategies. Printed are, for each, the median seconds of a micro-batch, its ratio to Spark's own
join and what it takes beyond the query without state, and where Spark spends the time.
"""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.bench.spark_pipeline import InputFiles, run_query, session
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

SECOND = 1_000_000
BEGIN = 1_767_225_600 * SECOND
"""Event time of the first row, 2026-01-01, in microseconds; a micro-batch is a second."""

WINDOW = timedelta(seconds=20)
KEYS = 50
EQUALITY, TWO = "l.k = r.k", "l.a < r.a AND l.b > r.b"
QUERIES: dict[str, tuple[str, str, bool]] = {
    "hash": (EQUALITY, "hash", False),
    "grid": (TWO, "grid", False),
    "split": (TWO, "split", False),
    "sub_windows": (TWO, "sub_windows", False),
    "count": (EQUALITY, "hash", True),
}
"""Predicate, strategy, and whether the window counts rows."""

STATELESS, OWN = "stateless", "spark"


def tables(rows: int, first: int, last: int) -> tuple[pa.Table, pa.Table]:
    """Return rows first…last-1 of both sides, `rows` a second."""
    sides = []
    for side in range(2):
        draw = np.random.default_rng([side, first])
        count, ordinals = last - first, np.arange(first, last)
        a = draw.integers(0, 1 << 30, count)
        columns: dict[str, Any] = {
            "i": ordinals,
            "k": draw.integers(0, KEYS, count),
            "a": a,
            "b": a + draw.integers(-(1 << 20), 1 << 20, count),
            "ts": pa.array(ordinals * SECOND // rows + BEGIN).view(pa.timestamp("us", "UTC")),
        }
        sides.append(pa.table(columns))
    return sides[0], sides[1]


def query(spark: SparkSession, files: InputFiles, name: str, buckets: int, rows: int) -> DataFrame:
    """Return one of the queries."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    from slidejoin.spark import stream_join  # noqa: PLC0415 - an extra
    from slidejoin.spec.window import CountWindow  # noqa: PLC0415 - beside it

    left, right = files.frames(spark)
    if name == STATELESS:
        return left.unionAll(right).where("k >= 0")
    if name == OWN:
        left, right = (
            frame.withWatermark("ts", "0 seconds").select(*(F.col(one).alias(f"{side}_{one}") for one in frame.columns))
            for side, frame in (("l", left), ("r", right))
        )
        within = f"interval {WINDOW.seconds} seconds"
        on = f"l_k = r_k AND r_ts <= l_ts + {within} AND l_ts <= r_ts + {within}"
        return left.join(right, F.expr(on)).select("l_i", "r_i")
    on, strategy, counted = QUERIES[name]
    options: dict[str, Any] = {"window": TimeWindow(WINDOW, on="ts")}
    if counted:
        options = {"window": CountWindow(WINDOW.seconds * rows), "order_by": "i"}
    return stream_join(
        left, right, on=on, select=["l.i", "r.i"], partitions=buckets,
        strategy=strategy, **options,  # type: ignore[arg-type]  # a name of a strategy
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser("python -m benchmarks.spark.small", description=__doc__)
    parser.add_argument("--queries", default="hash,grid,sub_windows", help=f"some of {', '.join(QUERIES)}")
    parser.add_argument("--rows", type=int, default=10, help="rows of a side in a micro-batch (default 10)")
    parser.add_argument("--buckets", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batches", type=int, default=24, help="measured micro-batches of a round (default 24)")
    parser.add_argument("--slow-files", action="store_true", help="leave Spark's own file manager in place")
    options = parser.parse_args(arguments)
    names = [STATELESS, OWN, *options.queries.split(",")]
    took: dict[str, list[float]] = {name: [] for name in names}
    parts: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    with TemporaryDirectory(prefix="slidejoin-small-") as folder:
        root = Path(folder)
        files = InputFiles(root / "rows", partial(tables, options.rows))
        first = WINDOW.seconds + 4
        for _ in range(first + options.batches):
            files.add(options.rows)
        manager = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
        conf = {"spark.sql.streaming.checkpointFileManagerClass": manager} if options.slow_files else {}
        with session(f"local[{options.threads}]", options.buckets, root / "cache", conf) as spark:
            for number in range(options.rounds):
                for name in names[:: -1 if number % 2 else 1]:
                    make = partial(query, spark, files, name, options.buckets, options.rows)
                    done = run_query(make, root / f"checkpoint.{name}.{number}")
                    took[name] += done.seconds(first)
                    for batch in done.batches[first:]:
                        for step, taken in batch["durationMs"].items():
                            parts[name].setdefault(step, []).append(taken)
        medians = {name: median(its) for name, its in took.items()}
        for name in names:
            steps = sorted(((median(its), step) for step, its in parts[name].items()), reverse=True)
            sys.stdout.write(
                f"{name:<12} {medians[name]:.3f} s, {medians[name] / medians[OWN]:.2f} of Spark's own join, "
                f"{medians[name] - medians[STATELESS]:+.3f} s beyond a query without state; "
                f"{', '.join(f'{step} {taken:.0f}' for taken, step in steps[1:7])} ms\n"
            )


if __name__ == "__main__":
    main()
