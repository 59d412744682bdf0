"""Strategies: how rows are routed to buckets, chosen when the join is built."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from slidejoin.arguments import shown
from slidejoin.errors import nearest
from slidejoin.spark.job.buckets import Grid, cut, square_enough
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spec.join_options import STRATEGIES
from slidejoin.spec.window import Span

if TYPE_CHECKING:
    from collections.abc import Collection

    from slidejoin.predicate.bind import BoundPredicate
    from slidejoin.predicate.ranges.terms import RangeTerm
    from slidejoin.sides import Side
    from slidejoin.spec.window import Window

__all__ = ["BANDS_A_CELL", "Strategy", "cell_width", "choose_strategy", "lengths_of"]


BANDS_A_CELL = 4
"""Width of a cell in band widths: a right row is then copied 1.25 times on average.

Cells of 1, 2, 4 and 8 bands make 2, 1.5, 1.25 and 1.12 copies. The load of the fullest of 8 buckets, in means, with
windows of 2^20 rows: 1.02 with any of them while a row finds 2 or 200 partners among Gaussian, shifting and Pareto
keys; Zipf at 200: 1.06, 1.08, 1.12, 1.15; and at 20,000, where a band has 2 % of the window, Gaussian 1.04, 1.21, 1.71,
1.72, Zipf 1.61, 1.88, 2.16, 2.45. Narrower cells would cost all joins copies, for the sake of joins whose output dwarfs
them.
"""


STORE_ONCE = ("split", "sub_windows")
"""Strategies by which a row is stored in one bucket and probes all: SplitJoin's, and that of PanJoin and SPO-Join."""

COPY_COST, STORED_COST = 1.0, 3.0
"""Of a copy of a row that is sent to a bucket and probes there, and of one that is stored there besides.

With 8 buckets `grid` and `sub_windows` take the same time, which follows from 2.7 instead of 3
(``python -m benchmarks.spark.strategies``); the state of `sub_windows` is four times smaller.
"""

TURNS = 2
"""Sub-windows of a window for each bucket: a bucket has two or three of them, so that none has twice another's rows."""

MICROSECONDS = 6
"""Event times on Spark are whole numbers of 10^-6 seconds."""

LARGEST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Strategy:
    """How rows are routed.

    Attributes
    ----------
    name : str
        hash, cell, grid, broadcast, split or sub_windows.
    terms : tuple of int
        Numbers of the predicate's terms that route; with cells a band, then the equalities.
    width : int or float
        Of a cell, on the axis of the left key; of a sub-window, in microseconds or rows.
    cells : float
        How many cells a right row's band overlaps on average.
    spread : int
        Columns of the grid of each key or cell, and buckets used in each.
    homes : bool
        Whether each row has one bucket that knows all of its partners, see `slidejoin.spark.route.copies`.
    why : str
        The reason for it.
    """

    name: str
    terms: tuple[int, ...] = ()
    width: int | float = 0
    cells: float = field(default=1, compare=False)
    spread: int = 1
    homes: bool = False
    why: str = field(default="", compare=False)

    def __str__(self) -> str:
        """Return the text that is compared with that of a checkpoint."""
        inside = " within each key" if len(self.terms) > 1 else ""
        width = f" of width {self.width}, in turns{inside}" if self.name == "cell" else ""
        width = f" of length {self.width}, in turns" if self.name == "sub_windows" else width
        homes = ", counted at home" if self.homes else ""
        return f"{self.name}{width}{homes}{f', spread {self.spread}' if self.spread > 1 else ''}"

    @property
    def stores_once(self) -> bool:
        """Whether a row is stored in one bucket and probes all."""
        return self.name in STORE_ONCE

    @property
    def copies(self) -> bool:
        """Whether a row may go to several buckets, even if it is not of a self-join."""
        return self.name != "hash" or self.spread > 1

    def whole(self, side: Side, buckets: int) -> bool:
        """Whether a row of that side has all matches in one of so many buckets."""
        if self.homes or buckets == 1:
            return True
        # A left row goes to one bucket in every column of the grid, a right row to all buckets that its groups reach.
        return self.grid(buckets).columns == 1 if side == "left" else self.name == "hash" and self.spread == 1

    def for_sides(self, sides: Collection[Side], *, self_join: bool) -> Strategy:
        """Return the strategy for knowing which rows of these sides match: with homes where that needs them.

        A left row has all of its partners in the bucket of its cell anyway.
        """
        homes = self.name == "cell" and self.spread == 1 and not self_join and "right" in sides
        return replace(self, homes=homes)

    def for_counts(self, *, self_join: bool) -> Strategy:
        """Return the strategy for counting rows: with homes where possible."""
        return replace(self, homes=self.name == "cell" and self.spread == 1 and not self_join)

    def grid(self, buckets: int) -> Grid:
        """Return how so many buckets are laid out."""
        if self.name == "grid":
            return square_enough(buckets)
        if self.stores_once:
            # A row that is stored in one bucket, and what has to meet it there in every column.
            return cut(buckets, buckets, 0)
        return cut(buckets, self.spread, 0 if self.name == "broadcast" else self.spread)


def choose_strategy(
    name: str,
    bound: BoundPredicate,
    buckets: int,
    spread: int = 1,
    lengths: tuple[int, int] = (0, 0),
    *,
    once: bool = False,
) -> Strategy:
    """Return the strategy of that name for a predicate, or for ``auto`` the cheapest that it allows.

    Parameters
    ----------
    lengths : pair of int
        How long rows of each side stay, in microseconds or rows.
    once : bool, default False
        Whether ``auto`` may choose a strategy that stores each row once.

    Raises
    ------
    SparkJoinError
        For an unknown name, a strategy for which the predicate has no term, or a spread that does not fit.
    """
    given: object = name
    if not isinstance(given, str) or given not in STRATEGIES:
        msg = f"strategy must be one of {', '.join(map(repr, STRATEGIES))}; got {shown(given)}."
        raise SparkJoinError(msg + nearest(str(name), STRATEGIES))
    _check_spread(spread, buckets)
    equal = tuple(number for number, term in enumerate(bound.terms) if term.shape == "equality")
    bands = [number for number, term in enumerate(bound.terms) if term.shape == "band" and term.band_width is not None]
    requested = f"strategy={name!r} was set" if name != "auto" else ""
    if name == "hash" or (name == "auto" and equal):
        if not equal:
            msg = (
                "strategy 'hash' needs an equality between the sides, such as l.key = r.key; "
                f"the predicate has {_terms(bound)}. Use strategy='auto', 'cell', 'grid' or 'sub_windows'"
            )
            raise SparkJoinError(msg)
        why = requested or "the predicate has an equality, so each row is sent to one bucket"
        return Strategy("hash", equal, spread=spread, why=why)
    if name == "cell" or (name == "auto" and bands):
        if not bands:
            msg = (
                "strategy 'cell' needs a band of constant width between the sides, such as "
                f"l.x BETWEEN r.x - 5 AND r.x + 5; the predicate has {_terms(bound)}. Use strategy='auto', 'grid' or "
                "'broadcast'"
            )
            raise SparkJoinError(msg)
        band, width = bound.terms[bands[0]].band_width or 0, cell_width(bound.terms[bands[0]], "left")
        why = requested or "no equality, but a band of constant width, which overlaps few cells"
        # An equality divides rows further: each key has cells of its own.
        return Strategy("cell", (bands[0], *equal), width, 1 + float(band) / float(width), spread, why=why)
    if name in STORE_ONCE:
        _check_unspread(name, bound, spread)
        width = -(-max(*lengths, 1) // (TURNS * buckets)) if name == "sub_windows" else 0
        return Strategy(name, width=width, why=requested)
    if name == "auto":
        name, why = _cheapest(buckets, once=once and max(lengths) > 0)
        return replace(choose_strategy(name, bound, buckets, spread, lengths), why=why)
    _check_unspread(name, bound, spread)
    return Strategy(name, why=requested)


def lengths_of(window: Window) -> tuple[int, int]:
    """Return how long rows of each side stay, in microseconds or rows."""
    stay = (window.left, window.right)
    return tuple(one.ticks(MICROSECONDS) if isinstance(one, Span) else one for one in stay)  # type: ignore[return-value]  # two


def cell_width(term: RangeTerm, side: Side) -> int | float:
    """Return the width of a cell on the axis of a side's keys."""
    band = term.widths[0 if side == "left" else 1] if term.widths is not None else 0
    return min(band * BANDS_A_CELL or 1, LARGEST)  # in cells without an end an infinity would have no place


def _cheapest(buckets: int, *, once: bool) -> tuple[str, str]:
    """Return the strategy that takes least for a row of each side among those that any predicate allows, and why."""
    sent = {"grid": sum(map(sum, square_enough(buckets).loads(1))), "broadcast": 1.0 + buckets}
    stored = dict(sent)
    if once:
        sent["sub_windows"], stored["sub_windows"] = 2.0 * buckets, 2.0
    costs = {name: COPY_COST * sent[name] + STORED_COST * stored[name] for name in sent}
    best = min(costs, key=lambda name: (costs[name], name))
    each = ", ".join(
        f"{name} sends {sent[name]:.3g} copies and stores {stored[name]:.3g} (cost {costs[name]:.3g})" for name in costs
    )
    why = "the predicate has no equality and no band of constant width; for a row of each side"
    return best, f"{why} {each}, where storing a copy costs {STORED_COST / COPY_COST:.3g} times what sending it does"


def _check_unspread(name: str, bound: BoundPredicate, spread: int) -> None:
    if spread > 1:
        msg = (
            f"spread={spread} applies to keys or cells; strategy {name!r} has neither: it distributes all rows, and "
            f"the predicate has {_terms(bound)}. Omit spread"
        )
        raise SparkJoinError(msg)


def _check_spread(spread: object, buckets: int) -> None:
    if not isinstance(spread, int) or isinstance(spread, bool) or spread < 1:
        msg = f"spread must be a whole number, at least 1, which spreads nothing; got {shown(spread)}"
        raise SparkJoinError(msg)
    if spread * spread > buckets:
        most = int(buckets**0.5)
        msg = (
            f"spread={spread} gives each key or cell {spread} x {spread} buckets of its own, but there are {buckets}; "
            f"use partitions={spread * spread} or more, or spread={most} or less"
        )
        raise SparkJoinError(msg)


def _terms(bound: BoundPredicate) -> str:
    return ", ".join(term.label for term in bound.terms) or "no comparison that can be indexed"
