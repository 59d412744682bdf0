"""How far two keys of the stored rows of one side are apart, exactly, as rows come and leave.

Distances are stored for blocks of rows, so that one long interval is forgotten when it has expired. See
`slidejoin.plan.closed_ranges` for what they are for.
"""

from __future__ import annotations

from functools import reduce
from math import inf
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slidejoin.plan.closed_ranges import NONE, SAME, Closing, Distance, distance_of, same_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.plan.branch import Term
    from slidejoin.plan.key_layout import TermKeys
    from slidejoin.sides import Side

__all__ = ["Distances", "RowDistances", "distances_from", "distances_to"]

BLOCKS = 16
"""Blocks of a window: a long interval is remembered for so little longer than it stays."""

LONGER = 4
"""Times by which distances may spread with a push before that is looked at: ranges become as wide."""

Pair = tuple[int, int]

RowDistances = tuple[Distance, ...]
"""Distances of some rows, for each two terms whose keys differ; in one direction, as the other one follows from it."""


class Block(NamedTuple):
    """Consecutive rows: the last ordinal and one, how many rows, and their distances."""

    end: int
    rows: int
    distances: RowDistances


class Distances:
    """The distances of one side's rows, for each two terms that close a range.

    Parameters
    ----------
    terms : sequence of Term
        The plan's.
    side : {"left", "right"}
    pairs : sequence of pair of int
        Places of the terms whose ranges are closed, and of those that close them.
    """

    def __init__(self, terms: Sequence[Term], side: Side, pairs: Sequence[Pair]) -> None:
        self._same = frozenset(pair for pair in pairs if same_keys(terms[pair[0]], terms[pair[1]], side))
        self._doubles = {pair: _of_doubles(terms[pair[0]], side) for pair in pairs}
        self._pairs = tuple(dict.fromkeys((min(pair), max(pair)) for pair in pairs if pair not in self._same))
        self._blocks: list[Block] = []
        self._whole: RowDistances = (NONE,) * len(self._pairs)

    def of(self, keys: TermKeys) -> RowDistances:
        """Return the distances of rows that are not stored yet. O(n)."""
        matchable, distances = keys.eligible, []
        for pair in self._pairs:
            one, two = keys.values[pair[0]], keys.values[pair[1]]
            if matchable is not None:
                one, two = one[matchable], two[matchable]
            distances.append(distance_of(one, two, doubles=_of_both(self._doubles, pair)))
        return tuple(distances)

    def add(self, distances: RowDistances, first: int, rows: int, oldest: int, live: int) -> None:
        """Take the newest rows, given what `of` returned.

        Parameters
        ----------
        first, rows : int
            The ordinal of the first of them, and how many there are.
        oldest, live : int
            The oldest ordinal of the window before them, and how many rows it has.
        """
        if not distances or not rows:
            return
        blocks, gone = self._blocks, 0
        while gone < len(blocks) and blocks[gone].end <= oldest:
            gone += 1
        if gone:
            del blocks[:gone]
        if blocks and BLOCKS * (blocks[-1].rows + rows) <= live:
            last = blocks.pop()
            blocks.append(Block(first + rows, last.rows + rows, _united(last.distances, distances)))
        else:
            blocks.append(Block(first + rows, rows, distances))
        if gone or len(blocks) == 1:
            self._whole = reduce(_united, [block.distances for block in blocks])
        else:
            self._whole = _united(self._whole, distances)

    def closing(self, pair: Pair, coming: RowDistances = ()) -> Closing:
        """Return how ranges are closed by the rows that have come so far, and by some that come."""
        if pair in self._same:
            return Closing(*pair, SAME, self._doubles[pair])
        at = self._pairs.index((min(pair), max(pair)))
        distance = self._whole[at] | coming[at] if coming else self._whole[at]
        return Closing(*pair, distance if pair[0] < pair[1] else distance.turned, self._doubles[pair])

    def lengthened(self, pair: Pair, coming: RowDistances) -> bool:
        """Tell whether rows that come make closed ranges several times as wide as distances were far apart."""
        now, then = (self.closing(pair, more).distance for more in ((), coming))
        return then.high - then.low > LONGER * max(now.high - now.low, 0)


def _united(known: RowDistances, more: RowDistances) -> RowDistances:
    """Return the distances of the rows of both; mostly those that are known already."""
    for one, two in zip(known, more, strict=True):
        if two.low < one.low or two.high > one.high:
            return tuple(map(or_, known, more))
    return known


def distances_to(distances: RowDistances) -> NDArray[np.float64]:
    """Return distances as an array (p, 2) of float64, rounded outwards.

    Examples
    --------
    >>> distances_to((Distance(0, 5), Distance(-(2**53) - 1, inf))).tolist()
    [[0.0, 5.0], [-9007199254740994.0, inf]]
    """
    ends = [(_outwards(one.low, -inf), _outwards(one.high, inf)) for one in distances]
    return np.array(ends, np.float64).reshape(-1, 2)


def _outwards(exact: float, to: float) -> float:
    """Return the nearest double on the side of that infinity; integers compare with doubles exactly."""
    near = float(exact)
    inside = near > exact if to < 0 else near < exact
    return float(np.nextafter(near, to)) if inside else near


def distances_from(ends: NDArray[np.float64]) -> RowDistances:
    """Return the distances of an array that `distances_to` made, or wider ones."""
    return tuple(Distance(float(low), float(high)) for low, high in ends)


def _of_doubles(term: Term, side: Side) -> bool:
    return bool(getattr(term, "of_doubles", lambda _: False)(side))


def _of_both(doubles: dict[Pair, bool], pair: Pair) -> bool:
    """Whether both keys are doubles, whichever closes the other's ranges."""
    return doubles[pair] if pair in doubles else doubles[pair[1], pair[0]]
