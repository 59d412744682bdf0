"""The case ``terms``: predicates of several terms in rows a second, beside Polars, DuckDB and SPO-Join.

All tools join the same pushes with the same windows. Polars and DuckDB keep the windows as tables, which are updated
outside the timed part. The pairs of the first push are compared one by one, the numbers of pairs of the others; a
difference is an error.
"""

from __future__ import annotations

import os
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.paper_figures import OURS, PAPERS_WAY
from slidejoin.bench.progress import say
from slidejoin.bench.report import Percentiles, Spread
from slidejoin.bench.term_queries import QUERIES, query_named
from slidejoin.bench.terms_at_rest import TOOLS
from slidejoin.bench.terms_on_spark import measure_on_spark
from slidejoin.bench.terms_report import SMALL_PUSH, QuerySpeed, TermsReport, ToolSpeed
from slidejoin.bench.workload import choice
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.runtime.cores import cores
from slidejoin.spec.options import POJoin

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.bench.term_queries import TermQuery
    from slidejoin.bench.terms_at_rest import TablesAtRest
    from slidejoin.spec.options import Options

__all__ = ["run"]

FEWEST_PUSHES, MOST_PUSHES, WARM_UP = 2, 1000, 4

PO_JOINS: dict[str, str | Options] = {OURS: OURS, PAPERS_WAY: POJoin(tuple_by_tuple=True)}
"""SPO-Join as it is here, which answers the rows of a push together, and as the paper runs it."""


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
