"""``algorithm="auto"`` beside the best of all structures, over a grid of workloads.

``python -m benchmarks.auto_choice`` fills windows by ``auto``, gives their snapshot to every structure that can do the
join, lets each push briefly, and pushes into the two fastest and ``auto`` in turns.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import pairwise, product
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.cases.workload import Workload
from benchmarks.command import main
from slidejoin.bench.report import Report, Spread, millions
from slidejoin.errors import PredicateError, SlideJoinError
from slidejoin.spec.join_spec import algorithms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.api.stream_join import StreamJoin
    from slidejoin.bench.streams import Batch

__all__ = ["AutoReport", "Cell", "grid", "run"]

WINDOW = 1 << 20
ROWS = 1 << 20
"""Rows that are pushed into each, one after the other or in turns."""

FEWEST_PUSHES, MOST_PUSHES = 8, 2048
SCREENED, COMPARED = 0.4, 1.5
"""Seconds that a structure gets to show how fast it is, and each of those that are then measured in turns."""

COLUMNS = (
    "comparison", "rows a side", "rows a push", "matches a row", "keys", "`auto`", "uses", "best structure",
    "`auto` / best",
)  # fmt: skip
STRETCHES = 20
CLOSEST = 2
LEAST = 0.8
"""What `auto` is never to be slower than, of the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One workload of the grid.

    Attributes
    ----------
    screened : dict of str to float
        Rows a second of every structure that can do it, each measured alone and briefly.
    chosen : str
        What ``auto`` used by the end.
    best : str
        The fastest of those that were measured in turns with it.
    rows_per_second, best_rows_per_second : float
        Medians over stretches.
    ratio : float
        How many times as fast as the best ``auto`` is; the median over stretches.
    """

    load: Workload
    screened: dict[str, float]
    chosen: str
    best: str
    rows_per_second: float
    best_rows_per_second: float
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoReport(Report):
    """The grid."""

    cells: tuple[Cell, ...]

    @property
    def least(self) -> float:
        """The smallest ratio."""
        return min(one.ratio for one in self.cells)

    def lines(self) -> list[str]:
        """Return the measurements as lines of Markdown."""
        lines = [
            f"| {' | '.join(COLUMNS)} |",
            "| --- " * len(COLUMNS) + "|",
        ]
        for one in self.cells:
            load = one.load
            cells = (
                load.operation,
                f"{load.window:,}",
                f"{load.push:,}",
                f"{load.match_rate:g}",
                load.distribution,
                millions(one.rows_per_second),
                one.chosen,
                f"{one.best}, {millions(one.best_rows_per_second)}",
                f"{one.ratio:.2f}",
            )
            lines.append(f"| {' | '.join(cells)} |")
        worse = sum(one.ratio < LEAST for one in self.cells)
        return [*lines, "", f"Least: {self.least:.2f}; {worse} of {len(self.cells)} below {LEAST}."]


def grid(window: int = WINDOW, **options: Any) -> list[Workload]:
    """Return the workloads: bands over windows, pushes, match rates and distributions; equality and one-sided ranges.

    Parameters
    ----------
    window : int
        The largest; others are 1/8 and 1/64 of it.
    **options
        Of `Workload`, the same for all.
    """
    windows = [max(2, window >> bits) for bits in (6, 3, 0)]
    pushes, rates = (1 << 8, 1 << 15), (2.0, 100.0)
    points: list[dict[str, Any]] = [
        {"operation": "band", "window": rows, "push": push, "match_rate": rate, "distribution": keys}
        for rows, push, rate, keys in product(windows, pushes, rates, ("uniform", "gaussian", "zipf"))
    ]
    points += [
        {"operation": operation, "window": rows, "push": push, "match_rate": rate}
        for operation, rate in (("equi", 1.0), ("equi", 20.0), ("less", 10.0))
        for rows, push in product(windows[::2], pushes)
    ]
    return [Workload.of(**point | options) for point in points]


def run(*, window: int = WINDOW, threads: int | None = None, seed: int = 1, rows: int = ROWS) -> AutoReport:
    """Measure the grid.

    Parameters
    ----------
    window : int
        Rows of a side of the largest windows.
    threads : int, optional
        Of the joins; all cores by default.
    seed : int
        Of the random keys.
    rows : int
        Rows to push into each join at most, see also `SCREENED` and `COMPARED`.

    Raises
    ------
    SlideJoinError
        If two structures found different numbers of pairs.
    """
    return AutoReport(
        case="auto_choice", cells=tuple(_cell(load, rows) for load in grid(window, threads=threads, seed=seed))
    )


def _cell(load: Workload, rows: int) -> Cell:
    """Fill the windows by ``auto``, give its state to all others, and measure."""
    comparison = load.comparison()
    streams, join, ordinal = load.streams(comparison), load.join(comparison), 0
    for count, half in load.filling:
        for left, right in streams.pushes(ordinal, half, count):
            join.push(left, right, order_by="i")
            ordinal += half
    state = join.snapshot()
    pushes = list(streams.pushes(ordinal, load.half, min(max(rows // load.push, FEWEST_PUSHES), MOST_PUSHES)))
    screened: dict[str, float] = {}
    for name in algorithms():
        if name != "auto" and (other := _restored(replace(load, algorithm=name), state)) is not None:
            screened[name] = _speed(load, _timed([other], pushes, SCREENED)[0])
    closest = sorted(screened, key=lambda name: -screened[name])[:CLOSEST]
    others = {name: _restored(replace(load, algorithm=name), state) for name in closest}
    joins = [join, *(one for one in others.values() if one is not None)]
    seconds = _timed(joins, pushes, COMPARED)
    ours, *theirs = (_stretches(load, one) for one in seconds)
    best = max(range(len(theirs)), key=lambda at: Spread.of(theirs[at]).median)
    return Cell(
        load=load,
        screened=screened,
        chosen=_used(join),
        best=closest[best],
        rows_per_second=Spread.of(ours).median,
        best_rows_per_second=Spread.of(theirs[best]).median,
        ratio=Spread.of([one / other for one, other in zip(ours, theirs[best], strict=True)]).median,
    )


def _used(join: StreamJoin) -> str:
    operator = join._state.operator  # noqa: SLF001 - `explain` has it in words only
    return "" if operator is None else operator.windows["left"].index.name


def _restored(load: Workload, state: bytes) -> StreamJoin | None:
    """Return the join with another structure, None where that cannot do it: hash buckets without an equality."""
    try:
        return load.restored(state)
    except PredicateError:
        return None


def _timed(joins: Sequence[StreamJoin], pushes: Sequence[Batch], budget: float) -> list[list[float]]:
    """Push into all joins, in turns push by push, until the first has had its seconds; return what each push took.

    The first push is not counted, unless it takes as long as all are to: buffers are made then.

    Raises
    ------
    SlideJoinError
        If the joins put out different numbers of pairs.
    """
    seconds: list[list[float]] = [[] for _ in joins]
    for number, (left, right) in enumerate(pushes):
        found = set()
        for join, done in list(zip(joins, seconds, strict=True))[:: 1 if number % 2 == 0 else -1]:
            start = perf_counter()
            out = join.push(left, right, order_by="i")
            done.append(perf_counter() - start)
            found.add(out.num_rows)
        if len(found) > 1:
            msg = f"structures put out different numbers of rows for one push, {sorted(found)}: please report it"
            raise SlideJoinError(msg)
        if max(sum(one) for one in seconds) > budget:
            break
        if number == 0 and len(pushes) > 1:
            for done in seconds:
                done.clear()
    return seconds


def _speed(load: Workload, seconds: Sequence[float]) -> float:
    return 2 * load.half * len(seconds) / sum(seconds)


def _stretches(load: Workload, seconds: Sequence[float]) -> list[float]:
    """Return rows a second of as many parts as there are pushes for, twenty at most."""
    parts = min(STRETCHES, len(seconds))
    cuts = [len(seconds) * at // parts for at in range(parts + 1)]
    return [_speed(load, seconds[since:until]) for since, until in pairwise(cuts)]


if __name__ == "__main__":
    sys.exit(main(run))
