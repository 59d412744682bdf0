"""Closed ranges: a range that is open at one end gets its other end from a second term, because intervals are short.

Of ``l.price BETWEEN r.bid AND r.ask`` each comparison alone is open: of a left row, that bids are at most the price.
But an ask is not below the price either, and if asks are at most D above the bids of their rows, no bid is below the
price less D. So one key answers both::

    rows that are stored    key b of the second term - key a of the first one   within   low … high     (learned)
    probe                   a within a range A, b within a range B
    hence                   a within A, and within B.lo - high … B.hi - low

This holds for any two terms, whatever they mean, since it is about the numbers that rows are stored by alone. It is
worth something where the differences are small against the values, as intervals are against their domain. The second
term is still compared row by row. If both keys are the same column, as for stored left rows above, the differences are
0 and the range is the exact one.

Differences are those of keys where these are integers. Keys of doubles are their bits, so their differences are those
of the doubles, rounded outwards; a row with an infinity leaves the range open.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from slidejoin.predicate.ranges.pieces import Ranges
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.predicate.truth.floats import float_keys, from_keys
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.sides import Side

__all__ = ["ANY", "SAME", "Closing", "Distance", "Shaped", "closing_pairs", "distance_of", "same_keys"]

INT64 = np.iinfo(np.int64)

SHAPES, SPACES = {"band", "ranges"}, {"exact", "float"}


class Shaped(Protocol):
    """What is looked at of a term; see `slidejoin.plan.plan.Term`."""

    @property
    def shape(self) -> str:
        """How narrow its ranges are, by kind."""


class Distance(NamedTuple):
    """How far the second key of each row is from its first one, at least and at most; infinite where unknown.

    Examples
    --------
    >>> Distance(0, 5) | Distance(-3, 1)
    Distance(low=-3, high=5)
    """

    low: float
    high: float

    def __or__(self, other: Distance) -> Distance:
        """Return the distances of the rows of either."""
        return Distance(min(self.low, other.low), max(self.high, other.high))

    @property
    def turned(self) -> Distance:
        """How far the first key is from the second one."""
        return Distance(-self.high, -self.low)


ANY, SAME, NONE = Distance(-inf, inf), Distance(0, 0), Distance(inf, -inf)
"""Of rows that are not known, of rows whose keys are the same, and of no rows."""


def closing_pairs(terms: Sequence[Shaped]) -> list[tuple[int, int]]:
    """Return the places of terms that lack an end, each with the place of a term that can give it that end.

    Keys of doubles are compared with keys of doubles only, and integers with integers.
    """
    pairs = []
    for place, term in enumerate(terms):
        for by, other in enumerate(terms):
            if place == by or not isinstance(term, RangeTerm) or not isinstance(other, RangeTerm):
                continue
            if not {term.shape, other.shape} <= SHAPES or term.pieces != 1 or other.pieces != 1:
                continue
            spaces = [(one.space, two.space) for one, two in zip(term.pair, other.pair, strict=True)]
            if any(one != two or one not in SPACES for one, two in spaces):
                continue
            if term.ends != (True, True) and all(a or b for a, b in zip(term.ends, other.ends, strict=True)):
                pairs.append((place, by))
    return pairs


def same_keys(term: object, other: object, side: Side) -> bool:
    """Tell whether two terms have one key on that side."""
    at = SIDES.index(side)
    return isinstance(term, RangeTerm) and isinstance(other, RangeTerm) and term.pair[at] == other.pair[at]


def distance_of(one: NDArray[np.int64], two: NDArray[np.int64], *, doubles: bool) -> Distance:
    """Return how far the keys `two` are from the keys `one`, (n,) int64 each, of the same rows.

    Examples
    --------
    >>> distance_of(np.array([1, 5]), np.array([4, 7]), doubles=False)
    Distance(low=2, high=3)
    """
    if not one.size:
        return NONE
    if doubles:
        with np.errstate(all="ignore"):
            apart = from_keys(two) - from_keys(one)
        low, high = float(apart.min()), float(apart.max())
        # NaN, of two infinities, is neither.
        if not -inf < low <= high < inf:
            return ANY
        return Distance(float(np.nextafter(low, -inf)), float(np.nextafter(high, inf)))
    ends = np.empty(2, np.int64)
    with np.errstate(over="ignore"):  # as plain Python, the kernel would warn
        fits = _kernel()(np.ascontiguousarray(one), np.ascontiguousarray(two), ends)
    if not fits:
        return Distance(int(two.min()) - int(one.max()), int(two.max()) - int(one.min()))
    return Distance(*ends.tolist())


@cache
def _kernel() -> Callable[..., bool]:
    from slidejoin.plan.kernels.closed_ranges import key_distances  # noqa: PLC0415 - loads Numba, which planning does not need

    return key_distances


class Closing(NamedTuple):
    """How the ranges of one side's keys are closed now.

    Attributes
    ----------
    range, by : int
        Places of the term whose ranges are closed, and of the other one.
    distance : Distance
        Of the second one's key from the first one's, of all stored rows.
    doubles : bool
        Whether keys are those of doubles.
    """

    range: int
    by: int
    distance: Distance
    doubles: bool

    def closed(self, term_ranges: Sequence[Ranges] | Mapping[int, Ranges]) -> Ranges:
        """Return the closed ranges of the first term's keys, given those of each term by its place in the plan."""
        own, its = term_ranges[self.range], term_ranges[self.by]
        low, high = self.distance
        lo = np.maximum(own.lo, self._less(its.lo, high, -inf))
        hi = np.minimum(own.hi, self._less(its.hi, low, inf))
        nothing = (lo > hi) | (own.lo > own.hi) | (its.lo > its.hi)
        if nothing.any():
            lo[nothing], hi[nothing] = 1, 0
        return Ranges(lo, hi, own.exact)

    def widths(self, ranges: Ranges) -> NDArray[np.float64]:
        """Return how wide ranges are that are not empty, (m,), as keys or, where these are doubles, as values."""
        some = ranges.lo[0] <= ranges.hi[0]
        lo, hi = ranges.lo[0, some], ranges.hi[0, some]
        with np.errstate(all="ignore"):
            if self.doubles:
                apart: NDArray[np.float64] = np.nan_to_num(from_keys(hi) - from_keys(lo), nan=0.0, posinf=inf)
                return apart
            keys: NDArray[np.float64] = hi.astype(np.float64) - lo.astype(np.float64)
            return keys

    def _less(self, ends: NDArray[np.int64], by: float, to: float) -> NDArray[np.int64]:
        """Return ends less a distance, rounded towards that infinity, which stands for an open end."""
        if by == 0:
            return ends
        outermost = INT64.min if to < 0 else INT64.max
        if abs(by) == inf:
            return np.full(ends.shape, outermost)
        if self.doubles:
            with np.errstate(all="ignore"):
                moved = np.nextafter(from_keys(ends) - by, to)
            # An open end is beyond the infinities already.
            return np.where(ends == outermost, outermost, float_keys(moved))
        step = int(by)
        if abs(step) > INT64.max:
            return np.full(ends.shape, outermost)
        # What goes beyond the ends of int64 stays there.
        if step >= 0:
            return np.maximum(ends, INT64.min + step) - step
        return np.minimum(ends, INT64.max + step) - step
