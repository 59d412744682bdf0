"""The case ``terms``: predicates of several terms in rows a second, beside Polars, DuckDB and SPO-Join.

All tools join the same pushes with the same windows. Polars and DuckDB keep the windows as tables, which are updated
outside the timed part. The pairs of the first push are compared one by one, the numbers of pairs of the others; a
difference is an error.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.cases.measure import Percentiles
from benchmarks.cases.paper_figures import OURS, PAPERS_WAY
from benchmarks.cases.term_queries import QUERIES, query_named
from benchmarks.cases.terms_at_rest import TOOLS
from benchmarks.cases.terms_on_spark import measure_on_spark
from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.case import choice, say
from slidejoin.bench.report import Report, Spread, millions
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.papers.spo_join.options import POJoin
from slidejoin.runtime.threads import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from benchmarks.cases.term_queries import TermQuery
    from benchmarks.cases.terms_at_rest import TablesAtRest
    from benchmarks.cases.terms_on_spark import SparkSpeed
    from slidejoin.options import Options

__all__ = ["QuerySpeed", "TermsReport", "ToolSpeed", "run"]

FEWEST_PUSHES, MOST_PUSHES, WARM_UP = 2, 1000, 4

PO_JOINS: dict[str, str | Options] = {OURS: OURS, PAPERS_WAY: POJoin(tuple_by_tuple=True)}
"""SPO-Join as it is here, which answers the rows of a push together, and as the paper runs it."""

SMALL_PUSH = 1 << 10
"""Rows of a push below which the report has its time, too."""


@dataclass(frozen=True, slots=True)
class ToolSpeed:
    """Another tool on a query.

    Attributes
    ----------
    tool, version : str
    rows_per_second : float or None
        Of all measured pushes by their time; None if the tool is not installed.
    ratio : float or None
        Speed of slidejoin in multiples of it.
    pushes : int
        Measured pushes.
    """

    tool: str
    version: str
    rows_per_second: float | None
    ratio: float | None
    pushes: int

    def text(self) -> str:
        """Return the line for people."""
        label = f"{self.tool} {self.version}".strip()
        if self.rows_per_second is None or self.ratio is None:
            return f'  {label:<23} not installed: pip install "slidejoin[bench]"'
        speed = millions(self.rows_per_second)
        return f"  {label:<23} {speed:>8} rows/s   slidejoin is {self.ratio:,.2g} times as fast ({self.pushes} pushes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySpeed:
    """All tools on a query.

    Attributes
    ----------
    name, on, output : str
    window, push : int
        Rows of each side's window, and of a push on both sides.
    rows_per_second : float
        Of slidejoin: all measured rows by the time of all pushes, rare slow ones included.
    pushes : Spread
        The same over the pushes, one by one.
    microseconds : Percentiles
        Of slidejoin's pushes.
    pairs_per_row, pairs_per_second : float
    window_bytes_per_row : float
        Rows and index by the join's own count, for each stored row.
    against : str or None
        The query that was pushed in turns with this one.
    ratio : float or None
        Speed in multiples of that of `against`: the median over the turns.
    tools : tuple of ToolSpeed
    """

    name: str
    on: str
    output: str
    window: int
    push: int
    rows_per_second: float
    pushes: Spread
    microseconds: Percentiles
    pairs_per_row: float
    pairs_per_second: float
    window_bytes_per_row: float
    against: str | None
    ratio: float | None
    tools: tuple[ToolSpeed, ...]

    def lines(self) -> Iterator[str]:
        """Return the lines for people."""
        pushes, times = self.pushes, self.microseconds
        yield f"{self.name}: {self.on}"
        yield (
            f"  windows of {self.window:,} rows, {self.push:,} rows a push, {self.output}, {self.pairs_per_row:,.3g} "
            f"pairs a row, {self.window_bytes_per_row:.0f} bytes a stored row"
        )
        against = "" if self.ratio is None else f"; {self.ratio:.2f} of {self.against} in turns"
        yield (
            f"  {'slidejoin':<23} {millions(self.rows_per_second):>8} rows/s   "
            f"middle half {millions(pushes.lower_quartile)} to "
            f"{millions(pushes.upper_quartile)}, {millions(self.pairs_per_second)} pairs/s{against}"
        )
        yield from (one.text() for one in self.tools)
        if self.push < SMALL_PUSH:
            yield f"  a push takes {times.p50:,.0f} µs (p50), {times.p99:,.0f} (p99), {times.p99_9:,.0f} (p99.9)"
        yield ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsReport(Report):
    """All tools on all queries."""

    threads: int
    seed: int
    scale: float
    queries: tuple[QuerySpeed, ...]
    on_spark: tuple[SparkSpeed, ...] = ()

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        scale = "" if self.scale == 1 else f", windows {self.scale:g} times as large"
        yield f"case {self.case}: {self.threads} threads, seed {self.seed}{scale}; all tools found the same pairs"
        yield ""
        for one in self.queries:
            yield from one.lines()
        tools = list(dict.fromkeys(tool.tool for one in self.queries for tool in one.tools))
        yield f"| {' | '.join(['rows a second', 'slidejoin', *tools])} |"
        yield "| --- | --- |" + " --- |" * len(tools)
        for one in self.queries:
            speeds = {tool.tool: tool.rows_per_second for tool in one.tools}
            cells = ["" if (speed := speeds.get(tool)) is None else f"{speed:,.0f}" for tool in tools]
            yield f"| {' | '.join([one.name, f'{one.rows_per_second:,.0f}', *cells])} |"
        yield ""
        yield from (one.text() for one in self.on_spark)


def run(
    *,
    only: tuple[str, ...] | None = None,
    seconds: float = 5.0,
    baselines: bool = True,
    spark: bool = False,
    threads: int | None = None,
    scale: float = 1.0,
    seed: int = 1,
) -> TermsReport:
    """Measure the queries.

    Parameters
    ----------
    only : tuple of str, optional
        Names of some queries, or beginnings of names; all by default.
    seconds : float
        For each tool on each query, after the windows are full; at least two pushes.
    baselines : bool
        Measure Polars, DuckDB and, where it serves the query, SPO-Join too.
    spark : bool
        Measure some of the queries on Spark too.
    threads : int, optional
        Of all tools; all cores by default.
    scale : float
        Rows of the windows in multiples of the default.
    seed : int
        Of the streams.

    Raises
    ------
    SlideJoinError
        If a tool finds other pairs than slidejoin.
    ConfigError
        For impossible options.
    """
    for option, value in (("seconds", seconds), ("scale", scale)):
        if not value > 0:
            msg = f"{option}: got {value}, expected a number above 0"
            raise ConfigError(msg)
    count = threads or cores()
    os.environ.setdefault("POLARS_MAX_THREADS", str(count))  # Polars reads it when it is first imported
    measured = []
    for query in _chosen(only):
        say(f"{query.name}: slidejoin{', Polars, DuckDB' if baselines else ''}")
        measured.append(_measured(query.scaled(scale), scale, seconds, count, seed, baselines=baselines))
    some = [query.scaled(scale) for query in _chosen(only) if query.on_spark] if spark else []
    return TermsReport(
        case="terms",
        threads=count,
        seed=seed,
        scale=scale,
        queries=tuple(measured),
        on_spark=measure_on_spark(some, count, seed) if some else (),
    )


def _chosen(only: tuple[str, ...] | None) -> list[TermQuery]:
    names = [query.name for query in QUERIES]
    for given in only or ():
        if not any(name.startswith(given) for name in names):
            choice("only", given, names)
    return [query for query in QUERIES if only is None or query.name.startswith(only)]


# -- slidejoin ---------------------------------------------------------------------------------------------------------


class _Running:
    """A join with full windows, and what its pushes took and found."""

    def __init__(
        self, query: TermQuery, threads: int, seed: int, state: bytes | None = None, algorithm: str | Options = "auto"
    ) -> None:
        self.query, self.seed, self.number = query, seed, 0
        self.seconds: list[float] = []
        self.pairs: list[int] = []
        self.first: pa.Table | None = None
        if state is not None:
            self.join = StreamJoin.restore(state, algorithm=algorithm, threads=threads)
            return
        self.join = StreamJoin(on=query.on, window=query.count_window, output=query.output, threads=threads)
        for tables in query.filling(seed):
            self.join.push(*tables)

    def push(self) -> float:
        """Time one push and return its seconds."""
        tables = self.query.tables(self.number, self.query.size, self.seed)
        self.number += 1
        start = perf_counter()
        out = self.join.push(*tables)
        took = perf_counter() - start
        self.seconds.append(took)
        self.pairs.append(_pairs_of(out, self.query))
        if self.first is None:
            self.first = out
        return took


def _pairs_of(out: pa.Table, query: TermQuery) -> int:
    return int(out["match_count"].to_numpy().sum()) if query.output == "count" else out.num_rows


def _until(running: Callable[[], float], seconds: float, most: int, fewest: int = FEWEST_PUSHES) -> None:
    """Push until the seconds are over."""
    total, pushes = 0.0, 0
    while pushes < most and (pushes < fewest or total < seconds):
        total += running()
        pushes += 1


def _measured(
    query: TermQuery, scale: float, seconds: float, threads: int, seed: int, *, baselines: bool
) -> QuerySpeed:
    join = _Running(query, threads, seed)
    state = join.join.snapshot() if baselines and query.po_join else None
    other = None if query.against is None else _Running(query_named(query.against).scaled(scale), threads, seed)
    ratios: list[float] = []

    def push() -> float:
        took = join.push()
        if other is not None:
            ratios.append(other.push() / took)
        return took

    _until(push, 0.0, WARM_UP, WARM_UP)
    # Of small pushes, all stored rows are replaced while the clock runs: what is done once a window counts.
    fewest = query.window // query.size if query.push < SMALL_PUSH else FEWEST_PUSHES
    _until(push, seconds, max(MOST_PUSHES, fewest), fewest)
    took, pairs = np.array(join.seconds[WARM_UP:]), sum(join.pairs[WARM_UP:])
    # What is done once in many pushes counts too: all rows by all their time.
    ours = query.push * len(took) / float(took.sum())
    tools: list[ToolSpeed] = []
    if baselines:
        for name, tool in TOOLS.items():
            tools.append(_tool_speed(name, tool, query, join, ours, seconds, threads))
        if state is not None:
            tools += [_po_join_speed(name, state, query, join, ours, seconds, threads) for name in PO_JOINS]
    return QuerySpeed(
        name=query.name,
        on=query.on,
        output=query.output,
        window=query.window,
        push=query.push,
        rows_per_second=ours,
        pushes=Spread.of(query.push / took),
        microseconds=Percentiles.of(took),
        pairs_per_row=pairs / (query.push * len(took)),
        pairs_per_second=pairs / float(took.sum()),
        window_bytes_per_row=join.join.stats.window_bytes / (2 * query.window),
        against=query.against,
        ratio=float(np.median(ratios[WARM_UP:])) if ratios else None,
        tools=tuple(tools),
    )


def _po_join_speed(
    name: str, state: bytes, query: TermQuery, ours: _Running, speed: float, seconds: float, threads: int
) -> ToolSpeed:
    """Measure SPO-Join from slidejoin's own windows; the first push brings its structures up and does not count."""
    join = _Running(query, threads, ours.seed, state, PO_JOINS[name])
    _until(join.push, seconds, len(ours.seconds))
    _compare(name, query, ours, join.pairs, join.first)
    theirs = query.push * (len(join.seconds) - 1) / sum(join.seconds[1:])
    return ToolSpeed(name, "", theirs, speed / theirs, len(join.seconds) - 1)


def _tool_speed(
    name: str, tool: type[TablesAtRest], query: TermQuery, ours: _Running, speed: float, seconds: float, threads: int
) -> ToolSpeed:
    """Measure a tool; the first push warms it up and does not count."""
    try:
        module = import_module(name.lower())
    except ModuleNotFoundError:
        return ToolSpeed(name, "", None, None, 0)
    held = tool(module, query, threads, ours.seed)
    took: list[float] = []
    numbers: list[int] = []
    first: list[pa.Table] = []

    def push() -> float:
        now, found = held.push(query.tables(len(took), query.size, ours.seed))
        if query.output == "count":
            numbers.append(sum(found))
        else:
            numbers.append(sum(one.num_rows for one in found))
            if not first:
                first.append(pa.concat_tables(found))
        took.append(now)
        return now

    try:
        _until(push, seconds, len(ours.pairs))
    finally:
        held.close()
    _compare(name, query, ours, numbers, first[0] if first else None)
    theirs = query.push * (len(took) - 1) / sum(took[1:])
    return ToolSpeed(name, str(module.__version__), theirs, speed / theirs, len(took) - 1)


def _compare(tool: str, query: TermQuery, ours: _Running, numbers: list[int], first: pa.Table | None) -> None:
    """Compare the pairs of the first push and the numbers of pairs of all.

    Raises
    ------
    SlideJoinError
        If they differ.
    """
    for number, (theirs, expected) in enumerate(zip(numbers, ours.pairs, strict=False)):
        if theirs != expected:
            msg = f"{tool} found {theirs:,} pairs in push {number} of {query.name!r}, slidejoin {expected:,}"
            raise SlideJoinError(f"{msg}; please report it")
    if first is None or ours.first is None or query.output == "count":
        return
    if not np.array_equal(_sorted_pairs(first), _sorted_pairs(ours.first)):
        msg = f"{tool} found other pairs in the first push of {query.name!r} than slidejoin; please report it"
        raise SlideJoinError(msg)


def _sorted_pairs(pairs: pa.Table) -> NDArray[np.int64]:
    """Return both ordinals of each pair as one number, ascending."""
    left, right = (pairs[name].to_numpy() for name in ("left", "right"))
    both: NDArray[np.int64] = np.sort((left << 32) | right)
    return both
