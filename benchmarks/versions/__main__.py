"""Compare this checkout with another one, turn by turn.

Each checkout has a process of its own with the same data. They take turns of some pushes, in one order and then in the
other, so that a machine whose speed drifts is as fair to both. Where memory lies makes a process up to a fifth faster
or slower for as long as it lives, so several rounds begin with new processes. Printed are medians over the rounds: of
the times, and of each round's median ratio, above 1 this checkout is faster; and the range of these ratios. With
``--spark`` micro-batches on a local Spark follow: one session of each checkout, some micro-batches a turn.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.versions.cases import CASES
from benchmarks.versions.turns import LOADING, in_turns, say

if TYPE_CHECKING:
    from collections.abc import Sequence

MICRO_BATCHES = ((1000, 10), (400_000, 5))
"""Rows of both sides in a micro-batch, and how many of them are a turn."""


def report(name: str, this: float, other: float, ratios: Sequence[float]) -> None:
    """Print one row of the table; times in µs."""
    median = statistics.median(ratios)
    say(f"{name:<24} {this:>10,.0f} µs {other:>10,.0f} µs {median:>8.3f}   {min(ratios):.2f} to {max(ratios):.2f}")


def embedded(other: Path, cases: Sequence[str], rounds: int, turns: int) -> None:
    """Compare pushes of one process, and then of others."""
    for case in cases:
        found = []
        for _ in range(rounds):
            pairs = in_turns(other, ["benchmarks.versions.worker"], case, turns)
            this, that = medians(pairs)
            found.append((this, that, statistics.median(there / here for here, there in pairs)))
        these, those, ratios = zip(*found, strict=True)
        report(case, statistics.median(these) * 1e6, statistics.median(those) * 1e6, ratios)


def medians(seconds: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the median of each column."""
    this, that = zip(*seconds, strict=True)
    return statistics.median(this), statistics.median(that)


def write_files(folder: Path, rows: int, files: int) -> None:
    """Write a file of each side for each micro-batch: a second of event time."""
    random = np.random.default_rng(3)
    for side in ("left", "right"):
        (folder / side).mkdir()
        for number in range(files):
            times = np.sort(random.integers(number * 1_000_000, (number + 1) * 1_000_000, rows // 2))
            keys = random.integers(0, 1 << 31, rows // 2)
            table = pa.Table.from_pydict({"k": keys, "ts": pa.array(times, pa.timestamp("us", "UTC"))})
            pq.write_table(table, folder / side / f"{number:05}.parquet")


def on_spark(other: Path, turns: int) -> None:
    """Compare micro-batches on a local Spark: one session of each checkout, some micro-batches a turn."""
    for rows, batches in MICRO_BATCHES:
        with TemporaryDirectory() as temporary:
            write_files(Path(temporary), rows, batches * (turns + LOADING))
            program = ["benchmarks.versions.spark_job", temporary, str(batches)]
            found = in_turns(other, program, f"Spark, {rows:,} rows", turns)
        this, that = medians(found)
        report(f"Spark, {rows:,} rows", this * 1e6, that * 1e6, [there / here for here, there in found])


def main() -> None:
    """Read the command line and compare."""
    parser = argparse.ArgumentParser("python -m benchmarks.versions", description=__doc__)
    parser.add_argument("other", type=Path, help="folder of the other checkout")
    parser.add_argument("--rounds", type=int, default=7, help="times that processes begin anew (default 7)")
    parser.add_argument("--turns", type=int, default=9, help="turns of each case in a round (default 9)")
    parser.add_argument("--cases", default=",".join(CASES), help="names, separated by commas (default: all)")
    parser.add_argument("--spark", action="store_true", help="micro-batches on a local Spark, too")
    options = parser.parse_args()
    say(f"{'case':<24} {'this':>13} {'other':>13} {'other/this':>10}   range")
    embedded(
        options.other.resolve(), [name for name in options.cases.split(",") if name], options.rounds, options.turns
    )
    if options.spark:
        on_spark(options.other.resolve(), options.turns)


if __name__ == "__main__":
    main()
