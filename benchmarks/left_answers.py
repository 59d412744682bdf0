"""Nearest matches and aggregates in rows a second: beside Polars `join_asof`, and beside counts of matches, in turns.

``python -m benchmarks.left_answers`` takes a window of 2^20 rows a side and pushes of 32 Ki rows, half of them of each
side. Polars joins the left rows of each push with the newest right rows of a window, a table at rest.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

import slidejoin as sj
from benchmarks.command import main
from slidejoin.bench.report import Report, millions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.spec.join_options import Output

__all__ = ["LeftAnswersReport", "run"]

SPREAD = 1 << 31
"""Values of the band's columns."""

FUNCTIONS = {"n": "count", "total": "sum(r.whole)", "low": "min(r.real)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAnswersReport(Report):
    """Rows a second, by the median push, of each join."""

    window: int
    push: int
    pushes: int
    threads: int
    asof: float
    polars: float
    count: float
    aggregate: float

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield f"window {self.window:,} rows a side, {self.push:,} rows a push, {self.threads} threads"
        yield ""
        yield f"| join, median of {self.pushes} pushes | rows/s | beside |"
        yield "| --- | ---: | ---: |"
        faster, slower = self.asof / self.polars, self.count / self.aggregate
        yield f"| nearest match, backward, by key | {millions(self.asof)} | {faster:.1f} times Polars |"
        yield f"| Polars join_asof, of each push | {millions(self.polars)} | |"
        yield f"| count of matches | {millions(self.count)} | |"
        yield f"| count, sum and min of matches | {millions(self.aggregate)} | {slower:.2f} of the time |"


def run(
    *,
    window: int = 1 << 20,
    push: int = 1 << 15,
    pushes: int = 40,
    keys: int = 10_000,
    matches: int = 1000,
    threads: int = 2,
    seed: int = 1,
) -> LeftAnswersReport:
    """Measure joins with full windows.

    Parameters
    ----------
    window : int
        Rows of each side.
    push, pushes : int
        Rows of a push, and how many pushes are measured.
    keys : int
        Of the nearest matches.
    matches : int
        Of each row within a window, of the counts and aggregates.
    threads, seed : int
    """
    asof, polars = _asof(window, push, pushes, keys, threads, seed)
    count, aggregate = _aggregates(window, push, pushes, matches, threads, seed)
    return LeftAnswersReport(
        case="left_answers", window=window, push=push, pushes=pushes, threads=threads, asof=asof, polars=polars,
        count=count, aggregate=aggregate,
    )  # fmt: skip


def _asof(window: int, push: int, pushes: int, keys: int, threads: int, seed: int) -> tuple[float, float]:
    rng, half = np.random.default_rng(seed), push // 2

    def rows(number: int) -> pa.Table:
        at = np.sort(rng.integers(number * push, (number + 1) * push, half))
        return pa.table({"key": pa.array(rng.integers(0, keys, half)), "at": pa.array(at)})

    schema = rows(0).schema
    join = sj.StreamJoin(
        on="l.key = r.key", window=sj.CountWindow(window), keep=sj.Nearest("l.at", "r.at"), output="positions",
        threads=threads, schemas=(schema, schema),
    )  # fmt: skip
    filling = 2 * -(-window // half) + 2
    right: list[pa.Table] = []
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(filling + pushes):
        one, two = rows(number), rows(number)
        start = perf_counter()
        join.push(one, two, order_by="at")
        if number >= filling:
            ours.append(perf_counter() - start)
        right = [*right[-(-(-window // half) - 1) :], two]
        if number >= filling and len(theirs) < max(pushes // 4, 1):
            left_frame, right_frame = pl.DataFrame(one), pl.DataFrame(pa.concat_tables(right))
            start = perf_counter()
            left_frame.join_asof(right_frame, on="at", by="key", check_sortedness=False)
            theirs.append(perf_counter() - start)
    return push / median(ours), push / median(theirs)


def _aggregates(window: int, push: int, pushes: int, matches: int, threads: int, seed: int) -> tuple[float, float]:
    rng, half = np.random.default_rng(seed), push // 2
    width = SPREAD * matches // (2 * window)

    def rows() -> pa.Table:
        columns = rng.integers(0, SPREAD, half), rng.integers(0, 1000, half), rng.random(half)
        return pa.table([pa.array(column) for column in columns], names=["x", "whole", "real"])

    schema = rows().schema
    outputs: tuple[Output | sj.Aggregate, ...] = ("count", sj.Aggregate(**FUNCTIONS))
    joins = [
        sj.StreamJoin(
            on=f"l.x BETWEEN r.x - {width} AND r.x + {width}", window=sj.CountWindow(window), output=output,
            threads=threads, schemas=(schema, schema), select=["l.x"],
        )
        for output in outputs
    ]  # fmt: skip
    filling = 2 * -(-window // half) + 2
    seconds: list[list[float]] = [[] for _ in joins]
    for number in range(filling + pushes):
        one, two = rows(), rows()
        for join, taken in zip(joins, seconds, strict=True):
            start = perf_counter()
            join.push(one, two)
            if number >= filling:
                taken.append(perf_counter() - start)
    count, aggregate = (push / median(taken) for taken in seconds)
    return count, aggregate


if __name__ == "__main__":
    sys.exit(main(run))
