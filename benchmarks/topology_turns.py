"""Topologies beside each other, pushes in turns: the numbers behind ``python -m benchmarks.scoreboard --topologies``.

``python -m benchmarks.topology_turns`` restores the state of one join in several topologies and pushes the same rows
into each, one push after the other; which of them comes first alternates. All must give as many rows.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from benchmarks.cases.term_queries import TermQuery, query_named
from benchmarks.cases.topology_measure import topology_with
from benchmarks.cases.topology_scans import SCANS, Scanned, bandwidth
from benchmarks.command import main
from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.case import say
from slidejoin.bench.report import Report, Spread
from slidejoin.errors import SlideJoinError
from slidejoin.options import TOPOLOGIES, SplitJoin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.options import Topology

__all__ = ["Choice", "Turns", "TurnsReport", "run"]

QUERIES = ("one band", "one equality", "two inequalities (5 pairs a row)", "two bands")
WINDOWS, PUSHES = (1 << 12, 1 << 17), (1 << 8, 1 << 15)
WARM_UP, FEWEST = 3, 6
SCREENED = 3
"""Pushes of every topology, before the fastest ones are measured in turns."""

SMALL, LARGE = 64, 1 << 12
"""Rows of the pushes that a latency and a throughput are told of."""

SCANNED = 1 << 25
"""Rows of the scan beside the bandwidth: words of 128 MiB, more than caches hold."""

BASIC_WINDOW = 1 << 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Two joins of one state, push by push.

    Attributes
    ----------
    what : str
    rows_per_second : Spread
        Of the first.
    ratio : Spread
        How many times as fast as the second one it is.
    visiting : Spread or None
        Time until all cores have met the rows of a push, in multiples of the second one's, where topologies tell it.
    """

    what: str
    rows_per_second: Spread
    ratio: Spread
    visiting: Spread | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A cell of the grid: ``auto`` beside the fastest topology.

    Attributes
    ----------
    query : str
    window, push : int
    screened : dict of str to float
        Rows a second of each topology, pushed briefly.
    best : str
        The fastest besides what ``auto`` takes.
    ratio : float
        How many times as fast as the faster of both ``auto`` is, at most 1 if it takes the faster one.
    """

    query: str
    window: int
    push: int
    screened: dict[str, float]
    best: str
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsReport(Report):
    """All comparisons.

    Attributes
    ----------
    pairs : tuple of Turns
    choices : tuple of Choice
    scan_of_bandwidth : float
        Bytes a second of the vectorised scan, in multiples of those that are read without comparing.
    scan_of_scalar : float
        Comparisons a second, in multiples of the scalar scan's.
    shifting : float
        Share of the time of a ``cell_join`` that pointer shifting takes.
    """

    pairs: tuple[Turns, ...]
    choices: tuple[Choice, ...]
    scan_of_bandwidth: float
    scan_of_scalar: float
    shifting: float

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield f"case {self.case}: pushes in turns"
        for one in self.pairs:
            visiting = "" if one.visiting is None else f", visiting latency {one.visiting.median:.2f} times"
            yield (
                f"  {one.what}: {one.rows_per_second.median:,.0f} rows/s, {one.ratio.median:.2f} times as fast "
                f"(middle half {one.ratio.lower_quartile:.2f} to {one.ratio.upper_quartile:.2f}){visiting}"
            )
        yield f"  scan: {self.scan_of_bandwidth:.0%} of the bandwidth, {self.scan_of_scalar:.1f} times its scalar twin"
        yield f"  pointer shifting: {self.shifting:.4%} of a cell_join"
        for cell in self.choices:
            speeds = ", ".join(f"{name} {speed:,.0f}" for name, speed in cell.screened.items())
            yield (
                f"  {cell.query}, {cell.window:,} rows a side, {cell.push:,} a push: auto is {cell.ratio:.2f} of the "
                f"fastest, beside {cell.best} ({speeds})"
            )


class _Running:
    """A join in one topology."""

    def __init__(self, state: bytes, topology: Topology | str, algorithm: str, threads: int) -> None:
        self.join = StreamJoin.restore(state, topology=topology, algorithm=algorithm, threads=threads)
        self.seconds: list[float] = []
        self.visits: list[float] = []

    def push(self, query: TermQuery, number: int, seed: int) -> int:
        """Push rows, time it, and return how many rows came out."""
        tables = query.tables(number, query.size, seed)
        self.join.stats.seconds.pop("visit", None)
        start = perf_counter()
        out = self.join.push(*tables)
        self.seconds.append(perf_counter() - start)
        self.visits.append(self.join.stats.seconds.get("visit", 0.0))
        return out.num_rows


def _state(query: TermQuery, seed: int) -> bytes:
    join = StreamJoin(on=query.on, window=query.count_window, output=query.output)
    for tables in query.filling(seed):
        join.push(*tables)
    return join.snapshot()


def _in_turns(
    what: str, query: TermQuery, state: bytes, topologies: tuple[Topology | str, Topology | str], algorithm: str,
    threads: int, seconds: float, seed: int,
) -> Turns:  # fmt: skip
    """Push into two joins for so many seconds.

    Raises
    ------
    SlideJoinError
        If they give other numbers of rows.
    """
    joins = [_Running(state, one, algorithm, threads) for one in topologies]
    number = 0
    while number < WARM_UP + FEWEST or sum(sum(one.seconds[WARM_UP:]) for one in joins) < seconds:
        order = joins if number % 2 else joins[::-1]
        found = {one.push(query, number, seed) for one in order}
        if len(found) > 1:
            msg = f"{what}: {sorted(found)} rows in push {number}, expected as many of both; please report it"
            raise SlideJoinError(msg)
        number += 1
    ours, theirs = joins
    visits = [one / two for one, two in zip(ours.visits[WARM_UP:], theirs.visits[WARM_UP:], strict=True) if two > 0]
    return Turns(
        what=what,
        rows_per_second=Spread.of([query.push / took for took in ours.seconds[WARM_UP:]]),
        ratio=Spread.of([two / one for one, two in zip(ours.seconds[WARM_UP:], theirs.seconds[WARM_UP:], strict=True)]),
        visiting=Spread.of(visits) if visits and min(visits) > 0 else None,
    )


def _choice(query: TermQuery, state: bytes, threads: int, seconds: float, seed: int) -> Choice:
    screened: dict[str, float] = {}
    for name in TOPOLOGIES:
        one = _Running(state, name, "auto", threads)
        for number in range(1 + SCREENED):
            one.push(query, number, seed)
        screened[name] = query.push / median(one.seconds[1:])
    best = max((name for name in screened if name != "shared"), key=lambda name: screened[name])
    turns = _in_turns("auto", query, state, ("auto", best), "auto", threads, seconds, seed)
    return Choice(
        query=query.name, window=query.window, push=query.push, screened=screened, best=best,
        ratio=min(1.0, turns.ratio.median),
    )  # fmt: skip


def _shifting(query: TermQuery, state: bytes, threads: int, seed: int) -> float:
    """Return the share of pointer shifting, in pushes that fill and free basic windows all the time."""
    one = _Running(state, TOPOLOGIES["cell_join"](), "nested_loop", threads)
    one.join.stats.seconds.clear()
    before = process_time()
    for number in range(40):
        one.push(query, number, seed)
    return one.join.stats.seconds.get("shift", 0.0) / (process_time() - before)


def _scan(rows: int) -> tuple[float, float]:
    """Return the scan's bytes a second as a share of the bandwidth, and its speed in multiples of the scalar one's."""
    scalar, _, ours = SCANS
    size = min(BASIC_WINDOW, rows)
    far, near = Scanned(rows, 1), Scanned(min(rows, 1 << 16), 8)
    # In turns, since the bandwidth of a shared machine changes: the best of each.
    shares = [rows * SCANS[ours] / far.seconds(ours, size) / bandwidth(max(rows // 2, 1)) for _ in range(3)]
    return median(shares), near.seconds(scalar, size) / near.seconds(ours, size)


def run(
    *, threads: int = 2, seconds: float = 2.0, window: int = 1 << 17, grid: bool = True, scanned: int = SCANNED,
    seed: int = 1,
) -> TurnsReport:  # fmt: skip
    """Compare topologies in turns.

    Parameters
    ----------
    threads : int
        Of all joins; topologies have as many cores.
    seconds : float
        For each pair.
    window : int
        Rows kept of each side, at most.
    grid : bool
        Measure ``auto`` beside the best of all topologies over the grid too.
    scanned : int
        Rows of the scan that is compared with the bandwidth of memory.
    seed : int
        Of the streams.

    Raises
    ------
    SlideJoinError
        If two topologies give other numbers of rows.
    """

    def sized(name: str, push: int, most: int = window) -> TermQuery:
        query = query_named(name)
        return replace(query.scaled(min(most, window) / query.window), push=min(push, 2 * window))

    pairs = []
    for algorithm, most in (("nested_loop", 1 << 15), ("auto", window)):
        for push in (SMALL, LARGE):
            query = sized("one band", push, most)
            inside = "scans" if algorithm == "nested_loop" else "indexes"
            state = _state(query, seed)
            for one, two, what in (
                (topology_with("split_join", threads), topology_with("handshake_low_latency", threads), "chain"),
                (
                    SplitJoin(cores=threads, ordering="outer"),
                    SplitJoin(cores=threads, ordering="none"),
                    "outer order against none",
                ),
            ):
                name = "split_join against the chain" if what == "chain" else what
                say(f"{name}, {inside}, {push} rows a push")
                told = f"{name}, {inside}, {push:,} rows a push"
                pairs.append(_in_turns(told, query, state, (one, two), algorithm, threads, seconds, seed))
    choices = []
    for name in QUERIES if grid else ():
        for most in WINDOWS:
            query = sized(name, PUSHES[-1], most)
            state = _state(query, seed)
            for push in PUSHES:
                say(f"auto: {name}, {query.window:,} rows a side, {push:,} rows a push")
                choices.append(_choice(replace(query, push=min(push, 2 * query.window)), state, threads, seconds, seed))
    of_bandwidth, of_scalar = _scan(scanned)
    small = sized("one band", LARGE, 1 << 14)
    return TurnsReport(
        case="topology_turns",
        pairs=tuple(pairs),
        choices=tuple(choices),
        scan_of_bandwidth=of_bandwidth,
        scan_of_scalar=of_scalar,
        shifting=_shifting(small, _state(small, seed), threads, seed),
    )


if __name__ == "__main__":
    sys.exit(main(run))
