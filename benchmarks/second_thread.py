"""Joins of two terms, and joins whose filter is most of the work, with two threads beside one, in turns.

``python -m benchmarks.second_thread --window 2^18``. Besides the time of a push it prints what depends little on how
busy the machine is: the processor time of the join with one thread, divided by that of the busier thread of two.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter, process_time, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.cases.term_queries import SPAN, TermQuery, query_named
from benchmarks.command import main
from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.case import choice
from slidejoin.bench.report import Report, Spread
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.random import Generator

    from benchmarks.cases.term_queries import Columns

__all__ = ["SecondThreadReport", "TwoThreads", "measured", "queries", "run"]

THREADS = 2
WARM_UP = 2


def _band(window: int, candidates: float) -> str:
    half = max(0, round((candidates * SPAN / window - 1) / 2))
    return f"l.a BETWEEN r.b - {half} AND r.b + {half}"


def _numbers(random: Generator, rows: int, _window: int) -> tuple[Columns, Columns]:
    """Draw the keys of a band, and two numbers whose sum is above 0 in one of fifty pairs."""
    low = -round(0.8 * SPAN)
    return (
        {"a": random.integers(0, SPAN, rows), "x": random.integers(low, low + SPAN, rows)},
        {"b": random.integers(0, SPAN, rows), "y": random.integers(-SPAN, 0, rows) + (SPAN >> 1)},
    )


def _texts(random: Generator, rows: int, _window: int) -> tuple[Columns, Columns]:
    """Draw the keys of a band, and texts of which one of ten ends as the pattern says."""

    def text() -> pa.Array[Any]:
        return (
            pa.array(np.char.add("device ", random.integers(0, 100_000, rows).astype(np.str_)))
            if rows
            else pa.array([], pa.string())
        )

    return (
        {"a": random.integers(0, SPAN, rows), "name": text()},
        {"b": random.integers(0, SPAN, rows), "label": text()},
    )


def _branches(random: Generator, rows: int, _window: int) -> tuple[Columns, Columns]:
    """Draw four columns, the last two of one of 10,000 values."""

    def side(first: str, second: str) -> Columns:
        return {first: random.integers(0, SPAN, rows), second: random.integers(0, 10_000, rows)}

    return side("a", "x"), side("b", "y")


def _filtered(
    name: str,
    terms: Callable[[int], str],
    columns: Callable[[Generator, int, int], tuple[Columns, Columns]],
    push: int = 1 << 15,
) -> TermQuery:
    return TermQuery(name=name, terms=terms, columns=columns, polars=_no_polars, window=1 << 18, push=push)


def _no_polars(window: int) -> Callable[[Any, Any, Any], Any]:
    raise NotImplementedError(window)


CANDIDATES = 50.0
"""Rows of the window in a band, before the filter."""


def _if_both(window: int, condition: str) -> str:
    return f"{_band(window, CANDIDATES)} AND {condition}"


FILTERED = (
    _filtered("a band and a sum", partial(_if_both, condition="l.x + r.y > 0"), _numbers),
    _filtered(
        "a band and a product", partial(_if_both, condition="l.x * 3 - r.y * 5 BETWEEN 0 AND 100000000"), _numbers
    ),
    _filtered("a band and a remainder", partial(_if_both, condition="(l.x + r.y) % 50 = 0"), _numbers),
    _filtered("a band and LIKE", partial(_if_both, condition="(l.name LIKE '%7' OR r.label LIKE '%07')"), _texts),
    _filtered("a band and unequal strings", partial(_if_both, condition="l.name < concat(r.label, 'x')"), _texts),
    _filtered(
        "OR of a band and an equality",
        lambda window: f"({_band(window, 4.0)}) OR (l.x = r.y AND l.a < r.b)",
        _branches,
    ),
    _filtered(
        "OR of sums", partial(_if_both, condition="(l.x + r.y > 1900000000 OR l.x - r.y > 2000000000)"), _numbers
    ),
)
TWO_TERMS = (
    "two inequalities (5 pairs a row)",
    "two inequalities (1000 pairs a row)",
    "two bands",
    "a band and an inequality",
    "price between two columns",
    "counts of two inequalities (2^20 rows)",
)


def queries() -> dict[str, TermQuery]:
    """Return all queries by name: those of two terms come from the case ``terms``."""
    return {one.name: one for one in (*(query_named(name) for name in TWO_TERMS), *FILTERED)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoThreads:
    """A query with two threads beside one.

    Attributes
    ----------
    name, on : str
    rows_per_second : Spread
        With two threads, of each push.
    ratio : Spread
        Seconds of a push with one thread in multiples of those with two, push by push.
    processor : float
        Processor time with one thread, in multiples of that of the busier thread of two: what the ratio would be if
        both threads had a core of their own.
    pairs_per_row : float
    seconds : dict of str to float
        Of the join with one thread, by step, as shares of a push.
    """

    name: str
    on: str
    rows_per_second: Spread
    ratio: Spread
    processor: float
    pairs_per_row: float
    seconds: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondThreadReport(Report):
    """All queries."""

    window: int
    push: int
    measured: tuple[TwoThreads, ...]

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield (
            f"case {self.case}: two threads beside one, pushes in turns, window at most {self.window:,} rows a side, "
            f"pushes {self.push} times as large as in the case terms"
        )
        yield f"{'':<40}{'2 threads':>12}{'ratio':>8}{'middle half':>16}{'by processor time':>20}  steps of one thread"
        for one in self.measured:
            steps = ", ".join(f"{name} {share:.0%}" for name, share in one.seconds.items() if share >= 0.02)  # noqa: PLR2004
            yield (
                f"{one.name:<40}{one.rows_per_second.median / 1e6:>7.2f} M/s{one.ratio.median:>8.2f}"
                f"{one.ratio.lower_quartile:>8.2f} to {one.ratio.upper_quartile:.2f}{one.processor:>18.2f}    {steps}"
            )
        yield ""


class _Running:
    """A join with full windows, and the processor time of its pushes."""

    def __init__(self, query: TermQuery, threads: int, seed: int) -> None:
        self.join = StreamJoin(on=query.on, window=query.count_window, output=query.output, threads=threads)
        for tables in query.filling(seed):
            self.join.push(*tables)
        self.seconds: list[float] = []
        self.own: list[float] = []
        self.others: list[float] = []

    def push(self, tables: tuple[pa.Table, pa.Table]) -> pa.Table:
        """Push rows, and time it."""
        every, own, start = process_time(), thread_time(), perf_counter()
        out = self.join.push(*tables)
        self.seconds.append(perf_counter() - start)
        self.own.append(thread_time() - own)
        self.others.append(process_time() - every - self.own[-1])
        return out

    def begin(self) -> None:
        """Forget what the first pushes took."""
        self.seconds, self.own, self.others = [], [], []
        self.join.stats.seconds.clear()


def measured(query: TermQuery, seconds: float, seed: int) -> TwoThreads:
    """Measure a query for so many seconds.

    Raises
    ------
    SlideJoinError
        If the two joins produce other numbers of rows.
    """
    one, two = (_Running(query, threads, seed) for threads in (1, THREADS))
    pairs, number = 0, 0
    while number < 2 * WARM_UP or sum(one.seconds) + sum(two.seconds) < seconds:
        if number == WARM_UP:
            one.begin()
            two.begin()
            pairs = 0
        tables = query.tables(number, query.size, seed)
        first, second = [join.push(tables) for join in (one, two)[:: 1 if number % 2 else -1]]
        if not first.equals(second):
            msg = f"{query.name!r}: one thread and two produced other rows in push {number}; please report it"
            raise SlideJoinError(msg)
        pairs += int(first["match_count"].to_numpy().sum()) if query.output == "count" else first.num_rows
        number += 1
    pushes = len(one.seconds)
    steps = one.join.stats.seconds
    return TwoThreads(
        name=query.name,
        on=query.on,
        rows_per_second=Spread.of([query.push / took for took in two.seconds]),
        ratio=Spread.of([slow / fast for slow, fast in zip(one.seconds, two.seconds, strict=True)]),
        processor=median(one.own) / median(map(max, two.own, two.others)),
        pairs_per_row=pairs / (query.push * pushes),
        seconds={name: took / sum(one.seconds) for name, took in sorted(steps.items(), key=lambda step: -step[1])},
    )


def run(
    *, only: tuple[str, ...] | None = None, window: int = 1 << 18, push: int = 1, seconds: float = 4.0, seed: int = 1
) -> SecondThreadReport:
    """Measure joins of two terms, and joins with dear filters, with two threads beside one.

    Parameters
    ----------
    only : tuple of str, optional
        Names of some queries, or beginnings of names.
    window : int
        Rows kept of each side, at most.
    push : int
        Rows of a push, in multiples of those of each query.
    seconds : float
        For each query, after the windows are full.
    seed : int
        Of the streams.

    Raises
    ------
    SlideJoinError
        If two joins produce other rows.
    ConfigError
        For impossible options.
    """
    known = queries()
    for given in only or ():
        if not any(name.startswith(given) for name in known):
            choice("only", given, known)
    chosen = [query for name, query in known.items() if only is None or name.startswith(only)]
    return SecondThreadReport(
        case="second_thread",
        window=window,
        push=push,
        measured=tuple(measured(_sized(one, window, push), seconds, seed) for one in chosen),
    )


def _sized(query: TermQuery, window: int, push: int) -> TermQuery:
    """Return a query with a window of at most so many rows a side, and pushes that many times as large."""
    return replace(query, push=push * query.push).scaled(min(1.0, window / query.window))


if __name__ == "__main__":
    sys.exit(main(run))
