"""Key layouts: how the keys of a branch's terms become the one int64 that an index orders rows by.

The key of one term is that number. Several equalities, and perhaps a range, are one composite key::

    bits   63       62 … range bits                     range bits - 1 … 0
           0        group: the values of all            the range's key, from its
                    equalities, side by side            smallest value on

All rows that are equal in all equalities, a group, lie side by side, in the order of the range's key, so that a range
within a group is a range of composite keys. How many bits each part needs follows from the values that have come; a
value that has no room makes a wider layout necessary, and rows are inserted again. Where all parts have room the key
says everything. Where they have not, equalities are hashed and the lowest bits of the range's key are left out: then
ranges hold every row that can match, and those parts are compared once more, as further dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slidejoin.index.cells.band_cells import Axis
from slidejoin.index.keys import KeyRanges, RowKeys
from slidejoin.plan.composite import NO_BITS, Composite, KeyBits, bits_for
from slidejoin.predicate.truth.hashes import mix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from slidejoin.plan.closed_ranges import Closing
    from slidejoin.plan.composite import Extent
    from slidejoin.predicate.ranges.ranges import Ranges
    from slidejoin.tuning import Tuning

__all__ = [
    "BranchLayout",
    "KeyLayout",
    "TermKeys",
    "layout_of_extents",
    "layout_of_numbers",
    "numbers_of_branches",
]

SMALLEST, LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

SPARE = 8
"""Bits that a range in sorted runs has beyond that, if there are so many left: times go on, and each wider layout moves
all rows."""

MOST_NEAR_SHIFT = 12
"""Bits of a cell up to which a table of cells can tell keys apart by 32 bits and their place, and still spreads them
evenly; of a key: `Tuning.near_key_bits`."""


class TermKeys(NamedTuple):
    """The keys of consecutive rows of one side, term by term of a branch.

    Attributes
    ----------
    values : tuple of (n,) int64
        A key of each term.
    eligible : (n,) bool or None
        Rows that can match at all; None for all. The keys of others mean nothing.
    inexact : frozenset of int
        Numbers of the terms of which some key was clipped, counted through all branches.
    rows : int
    """

    values: tuple[NDArray[np.int64], ...]
    eligible: NDArray[np.bool_] | None
    inexact: frozenset[int]
    rows: int

    def extent(self, term: int) -> Extent | None:
        """Return the smallest and the largest key of a term; None if no row can match."""
        values = self.values[term]
        values = values if self.eligible is None else values[self.eligible]
        return (int(values.min()), int(values.max())) if values.size else None


@dataclass(frozen=True, slots=True)
class BranchLayout:
    """How the keys of one branch's terms become what its index stores, and what probes look for in it.

    Attributes
    ----------
    of : Composite
    dims : tuple of int
        Places of the terms that are further dimensions: those that are no part of the key, and those that the key does
        not say all about.
    axis : Axis or None
        How keys are spread over cells; None if the range is not narrow.
    parts : tuple of KeyBits or None
        The equalities; None where they are hashed.
    group_bits : int
    span : KeyBits
        The range, after `place` and `drop`; no bits if there is none.
    drop : int
        Lowest bits of the range's key that are left out.
    spread : Axis or None
        Where keys of the range are not their own places: how they become places.
    closing : callable, optional
        Returns how the ranges of one term are closed by another one's, by the rows that have come so far. Rows are
        measured as they are prepared, so that ranges are right from then on, as they are for a layout that has room for
        all values.
    algorithm : str
        The index.
    time : int or None
        The further dimension by which rows of a time window expire, -1 for the key; None in a count window.
    """

    of: Composite
    dims: tuple[int, ...]
    axis: Axis | None
    parts: tuple[KeyBits, ...] | None = ()
    group_bits: int = 0
    span: KeyBits = NO_BITS
    drop: int = 0
    spread: Axis | None = None
    closing: Callable[[], Closing] | None = None
    algorithm: str = ""
    time: int | None = None

    def fits(self, keys: TermKeys) -> bool:
        """Tell whether all values have room."""
        for number, part in zip(self.of.equal, self.parts or (), strict=False):
            extent = keys.extent(number)
            if extent is not None and not part.holds(extent):
                return False
        if self.of.range is None or not self.span.bits:
            return True
        extent = keys.extent(self.of.range)
        return extent is None or self.span.holds(self._placed(extent))

    def _placed(self, extent: Extent) -> Extent:
        low, high = self._place(np.array(extent)).tolist()
        return low, high

    def _place(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of the range's keys, which keep their order."""
        places = keys if self.spread is None else self.spread.places(np.ascontiguousarray(keys))
        return places >> self.drop if self.drop else places

    def numbers(self) -> NDArray[np.int64]:
        """Return what follows from the values that have come, as int64, see `layout_of_numbers`; nothing if plain."""
        if self.of.plain:
            return np.empty(0, np.int64)
        parts = [NO_BITS] if self.parts is None else self.parts
        return np.array(
            [self.parts is None, self.group_bits, self.drop, *self.span, *(number for part in parts for number in part)]
        )

    # -- stored rows -------------------------------------------------------------------------------------------------

    def rows(self, keys: TermKeys) -> RowKeys:
        """Return what an index stores; the values have room."""
        if self.dims:
            further = np.stack([keys.values[number] for number in self.dims], axis=1)
        else:
            further = np.empty((keys.rows, 0), np.int64)
        return RowKeys(self._packed(keys), further, keys.eligible, keys.inexact)

    def _packed(self, keys: TermKeys) -> NDArray[np.int64]:
        taken = self.of.terms
        if len(taken) == 1:
            return np.ascontiguousarray(keys.values[taken[0]])
        packed = np.zeros(keys.rows, np.int64)
        values = [keys.values[number] for number in self.of.equal]
        if self.parts is None:
            packed = self._hashed(values)
        else:
            for part, one in zip(self.parts, values, strict=True):
                _kernels().pack(np.ascontiguousarray(one), part, packed)
        if self.of.range is not None:
            places = np.ascontiguousarray(self._place(keys.values[self.of.range]))
            _kernels().pack(places, self.span, packed)
        return packed

    def _hashed(self, values: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        mixed = mix(np.ascontiguousarray(values[0]))
        for more in values[1:]:
            mixed = mix(mixed ^ more)
        return (mixed.view(np.uint64) >> np.uint64(64 - self.group_bits)).view(np.int64)

    # -- probes ------------------------------------------------------------------------------------------------------

    def ranges(
        self, term_ranges: Sequence[Ranges], silent: NDArray[np.bool_] | None, inexact: frozenset[int]
    ) -> KeyRanges:
        """Return what probes look for.

        Parameters
        ----------
        term_ranges : sequence of Ranges
            The ranges of each term's keys, as the branch has them.
        silent : (n,) bool or None
            Probes that match nothing.
        inexact : frozenset of int
            Numbers of the terms whose ranges are not exact.
        """
        if self.closing is not None:
            closing, closed = self.closing(), list(term_ranges)
            closed[closing.range] = closing.closed(term_ranges)
            term_ranges = closed
        taken = self.of.terms
        for place, ranges in enumerate(term_ranges):
            if place not in taken:
                nothing: NDArray[np.bool_] = np.all(ranges.lo > ranges.hi, axis=0)
                silent = nothing if silent is None else silent | nothing
        if len(taken) == 1:
            lo, hi = term_ranges[taken[0]].lo, term_ranges[taken[0]].hi
        else:
            lo, hi, silent = self._packed_ranges(term_ranges, silent)
        if silent is not None and silent.any():
            lo, hi = np.where(silent, 1, lo), np.where(silent, 0, hi)
        return KeyRanges(lo, hi, *_dimension_ranges(term_ranges, self.dims), inexact)

    def _packed_ranges(
        self, term_ranges: Sequence[Ranges], silent: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return the ranges of composite keys, (k, n), and which probes are still to be silenced."""
        kernels, n = _kernels(), term_ranges[0].lo.shape[1]
        nobody = np.zeros(n, np.bool_) if silent is None else silent.copy()
        points = [term_ranges[number] for number in self.of.equal]
        # What is hashed has no part, and room for all values.
        groups = np.zeros(n, np.int64) if self.parts else self._hashed([one.lo[0] for one in points])
        for part, one in zip(self.parts or [NO_BITS] * len(points), points, strict=True):
            kernels.pack_points(one.lo[0], one.hi[0], part, groups, nobody)
        if self.of.range is None:
            return groups.reshape(1, n), groups.reshape(1, n), nobody
        return *self._within(term_ranges[self.of.range], groups, nobody), None

    def _within(
        self, ranges: Ranges, groups: NDArray[np.int64], nobody: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ranges of composite keys, (k, n): ascending and disjoint, empty ones last."""
        lo, hi = ranges.lo, ranges.hi
        if self.drop or self.spread is not None:
            empty = lo > hi
            if lo.shape[0] > 1:
                # Neighbours may share a place, and a row must not match twice: all between the ends is compared.
                lo = np.where(empty, LARGEST, lo).min(axis=0, keepdims=True)
                hi = np.where(empty, SMALLEST, hi).max(axis=0, keepdims=True)
                empty = lo > hi
            if empty.any():
                nobody = nobody | empty[0]
            lo, hi = (self._place(ends.reshape(-1)).reshape(1, -1) for ends in (lo, hi))
        low, high = np.empty(lo.shape, np.int64), np.empty(lo.shape, np.int64)
        for piece in range(lo.shape[0]):
            ends = np.ascontiguousarray(lo[piece]), np.ascontiguousarray(hi[piece])
            _kernels().pack_ranges(*ends, groups, nobody, self.span, low[piece], high[piece])
        if lo.shape[0] > 1:
            order = np.argsort(low > high, axis=0, kind="stable")
            low, high = np.take_along_axis(low, order, axis=0), np.take_along_axis(high, order, axis=0)
        return low, high


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """How the keys of one side are laid out, in the index of each branch.

    Attributes
    ----------
    branches : tuple of BranchLayout
        One, or as many as branches of OR have an index each.
    """

    branches: tuple[BranchLayout, ...]

    @property
    def dims(self) -> tuple[int, ...]:
        """Places of the terms that are further dimensions; none where branches have an index each."""
        return self.branches[0].dims if len(self.branches) == 1 else ()

    @property
    def axis(self) -> Axis | None:
        """How keys are spread over cells; None if ranges are not narrow, and where branches have an index each."""
        return self.branches[0].axis if len(self.branches) == 1 else None

    def closed(self, closing: Callable[[], Closing]) -> KeyLayout:
        """Return the layout of a join of one branch with ranges that are closed."""
        return KeyLayout((replace(self.branches[0], closing=closing),))

    def fits(self, keys: Sequence[TermKeys]) -> bool:
        """Tell whether all values have room, given the keys of each branch."""
        if len(self.branches) == 1:
            return self.branches[0].fits(keys[0])
        return all(one.fits(own) for one, own in zip(self.branches, keys, strict=True))

    def numbers(self) -> NDArray[np.int64]:
        """Return what follows from the values that have come, as int64; of several branches each after how many."""
        if len(self.branches) == 1:
            return self.branches[0].numbers()
        each = [one.numbers() for one in self.branches]
        return np.concatenate([part for numbers in each for part in (np.array([numbers.size]), numbers)])

    def rows(self, keys: Sequence[TermKeys]) -> RowKeys:
        """Return what the indexes store, given the keys of each branch; the values have room."""
        if len(self.branches) == 1:
            return self.branches[0].rows(keys[0])
        rows = tuple(one.rows(own) for one, own in zip(self.branches, keys, strict=True))
        return replace(rows[0], branches=rows)


def numbers_of_branches(numbers: NDArray[np.int64], branches: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of each branch of a layout that had these `KeyLayout.numbers`."""
    if branches == 1:
        yield numbers
        return
    at = 0
    for _ in range(branches):
        size = int(numbers[at])
        yield numbers[at + 1 : at + 1 + size]
        at += 1 + size


@cache
def _kernels() -> ModuleType:
    from slidejoin.plan.kernels import packing  # noqa: PLC0415 - loads Numba, which planning does not need

    return packing


def layout_of_extents(
    of: Composite, terms: int, spread: Axis | None, extents: Mapping[int, Extent], tuning: Tuning
) -> BranchLayout:
    """Return a layout with room for values.

    Parameters
    ----------
    of : Composite
    terms : int
        How many the branch has.
    spread : Axis or None
        How the range's keys, or those of an equality, are spread over cells; None for sorted runs.
    extents : mapping from int to Extent
        Of the composite's terms.
    """
    if of.plain:
        return _made(of, terms, spread, (), 0, NO_BITS, 0, None)
    most, group_most = tuning.key_bits, tuning.key_group_bits
    parts: tuple[KeyBits, ...] | None = tuple(bits_for(extents[number]) for number in of.equal)
    group, span, drop, mapped = sum(part.bits for part in parts or ()), NO_BITS, 0, None
    if of.range is None:
        if not of.exact or group > most:
            parts, group = None, most
    else:
        mapped = spread if spread is not None and spread.place is not None else None
        low, high = extents[of.range]
        if mapped is not None:
            low, high = mapped.places(np.array([low, high])).tolist()
        wanted = bits_for((low, high)).bits
        if not of.exact or group > group_most:
            # Few values in the range leave more bits for the group.
            parts, group = None, max(group_most, min(most - wanted, 2 * group_most))
        if spread is None:
            wanted += max(min(most - group - wanted, SPARE), 0)
        drop = max(wanted - (most - group), 0)
        span = bits_for((low >> drop, high >> drop), wanted - drop)
    axis = None if spread is None else _axis(spread, drop, group + span.bits, tuning.near_key_bits)
    return _made(of, terms, axis, parts, group, span, drop, mapped)


def layout_of_numbers(
    of: Composite, terms: int, spread: Axis | None, numbers: NDArray[np.int64], tuning: Tuning
) -> BranchLayout:
    """Return the layout that had these `BranchLayout.numbers`; the other parameters are those of `layout_of_extents`.

    Examples
    --------
    >>> from slidejoin.tuning import Tuning
    >>> of = Composite((0,), True, 1)
    >>> layout = layout_of_extents(of, 2, None, {0: (1, 9), 1: (-5, 1000)}, Tuning())
    >>> layout_of_numbers(of, 2, None, layout.numbers(), Tuning()) == layout
    True
    """
    if of.plain:
        return _made(of, terms, spread, (), 0, NO_BITS, 0, None)
    hashed, group, drop, *rest = numbers.tolist()
    span, *parts = (KeyBits(*rest[at : at + 3]) for at in range(0, len(rest), 3))
    axis = None if spread is None else _axis(spread, drop, group + span.bits, tuning.near_key_bits)
    mapped = spread if of.range is not None and spread is not None and spread.place is not None else None
    return _made(of, terms, axis, None if hashed else tuple(parts), group, span, drop, mapped)


def _made(
    of: Composite, terms: int, axis: Axis | None, parts: tuple[KeyBits, ...] | None, group: int, span: KeyBits,
    drop: int, mapped: Axis | None,
) -> BranchLayout:  # fmt: skip
    again = [] if parts is not None else list(of.equal)
    if of.range is not None and (drop or mapped is not None):
        again.append(of.range)
    dims = tuple(number for number in range(terms) if number not in of.terms or number in again)
    return BranchLayout(of, dims, axis, parts, group, span, drop, mapped)


def _axis(spread: Axis, drop: int, bits: int, near: int) -> Axis:
    """Return how composite keys of so many bits are spread over cells: as the range's places are."""
    shift = max(spread.shift - drop, 0)
    return Axis(shift, None, spread.why, apart=bits > 32 and (bits > near or shift > MOST_NEAR_SHIFT))  # noqa: PLR2004 - of a place


def _dimension_ranges(
    term_ranges: Sequence[Ranges], dims: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the ranges of the further dimensions, (p, n) int64 twice, and which dimension each is of, (p,) int64."""
    if not dims:
        none = np.empty((0, term_ranges[0].lo.shape[1]), np.int64)
        return none, none, np.empty(0, np.int64)
    lo, hi = ([getattr(term_ranges[number], end) for number in dims] for end in ("lo", "hi"))
    places = [place for place, ranges in enumerate(lo) for _ in range(ranges.shape[0])]
    lows, highs = (ends[0] if len(ends) == 1 else np.concatenate(ends) for ends in (lo, hi))
    return lows, highs, np.array(places, np.int64)
