"""A micro-batch in one bucket by the index of its segments: what is mapped, and what is made again each time.

    python -m benchmarks.sealed_parts [rows of the window, a side] [algorithm ...]

No Spark runs: state is in memory, the cache in files. The window is filled, then come micro-batches of 4,096 rows a
side; prints the median of a few in milliseconds, the steps that it consists of, and how many rows were inserted again.
PO-Join answers two inequalities, the others a band; about two rows match each.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

import slidejoin as sj
from slidejoin.sides import SIDES
from slidejoin.spark.bucket.join_bucket import join_bucket
from slidejoin.spark.metrics.figures import Figures
from slidejoin.spark.route.pack import pack
from tests.spark.stores import Variables, wire

if TYPE_CHECKING:
    from slidejoin.spark.job.join_spec import SparkJoinSpec

ROWS, FILLED, TIMES = 1 << 12, 1 << 15, 5
RANGE = 1 << 31
ALGORITHMS = ("planar", "po_join", "bi_sort", "rap_table", "wib_tree", "chained_css_tree", "im_tree", "pim_tree")
TWO = ("planar", "po_join")
"""Those that answer two inequalities at once."""


def predicate(algorithm: str, rows: int) -> str:
    """Return a predicate that an index is good at, with about two matches a row in a window of so many rows."""
    if algorithm in TWO:
        # Of each inequality passes the part a**2 / 2 of all pairs.
        far = int(RANGE * (1 - (8 / rows) ** 0.25))
        return f"l.x > r.x + {far} AND l.id > r.id + {far}"
    return f"abs(l.x - r.x) <= {RANGE // rows}"


class Bucket:
    """One bucket and its state; rows have random keys and the time of their place in the stream."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.variables: Any = Variables()
        self.batch = self.rows = 0
        self.rng = np.random.default_rng(1)

    def wired(self, on: str, window: int, algorithm: str) -> SparkJoinSpec:
        """Return a join of one bucket, as it reaches the workers."""
        length = sj.TimeWindow(f"{2 * window} microseconds", on="ts")
        return wire(self.cache, on, length, "grid", 1, algorithm=algorithm)

    def micro_batch(self, spec: SparkJoinSpec, rows: int) -> tuple[float, Figures, int]:
        """Join so many rows of each side; return the seconds, the figures, and the rows of the result."""
        frames = []
        for side in SIDES:
            x, number = self.rng.integers(0, RANGE, (2, rows))
            times = pa.array(np.arange(self.rows, self.rows + rows)).cast(pa.timestamp("us", tz="UTC"))
            table = pa.table({"id": number, "x": x, "name": pa.nulls(rows, pa.string()), "ts": times})
            frames += [one.to_pandas() for one in pack(spec, side, iter(table.to_batches()), 0)]
        (bucket,), packed = spec.buckets, iter([pd.concat(frames, ignore_index=True)])
        self.variables.point_at(bucket)
        figures, start = Figures(bucket), perf_counter()
        results = join_bucket(spec, self.variables, packed, None, bucket, self.batch, figures)
        found = sum(len(one) for one in results)
        self.rows, self.batch = self.rows + rows, self.batch + 1
        return perf_counter() - start, figures, found


def line_of(algorithm: str, window: int) -> str:
    """Measure one algorithm."""
    with TemporaryDirectory() as folder:
        on, bucket = predicate(algorithm, window), Bucket(Path(folder))
        filling, spec = bucket.wired(on, window, "auto"), bucket.wired(on, window, algorithm)
        while bucket.rows < window:
            bucket.micro_batch(filling, min(FILLED, window))
        bucket.micro_batch(spec, ROWS)
        each = [bucket.micro_batch(spec, ROWS) for _ in range(TIMES)]
    whole = median(seconds for seconds, _, _ in each)
    steps = {step: median(one.seconds.get(step, 0.0) for _, one, _ in each) for step in each[-1][1].seconds}
    shown = ", ".join(f"{step} {1e3 * taken:.0f}" for step, taken in steps.items() if 1e3 * taken >= 1)
    again, found = each[-1][1].reinserted, each[-1][2]
    return f"{algorithm:18} {window:>9,} rows {1e3 * whole:8.1f} ms, {again:,} rows again, {found:,} found; {shown}\n"


def main(arguments: list[str]) -> int:
    """Print a line for each algorithm."""
    window = int(arguments[0]) if arguments else 1 << 17
    for algorithm in arguments[1:] or ALGORITHMS:
        sys.stdout.write(line_of(algorithm, window))
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
