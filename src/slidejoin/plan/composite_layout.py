"""Composite keys: several equalities, and perhaps a range, as one int64.

::

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

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slidejoin.index.cells.band_cells import Axis
from slidejoin.index.keys import KeyRanges, RowKeys
from slidejoin.plan.key_layout import dimension_ranges, dimensions
from slidejoin.predicate.truth.hashes import mix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from slidejoin.plan.key_layout import BranchLayout, Extent, TermKeys
    from slidejoin.predicate.ranges.ranges import Ranges

__all__ = ["Composite", "CompositeLayout", "composite_layout", "layout_of_numbers"]

INT64 = np.iinfo(np.int64)

BITS = 63
"""Bits of a composite key: keys are never negative."""

MOST_GROUP_BITS = 31
"""Bits of a group in a key with a range: hashes of so many bits tell 2**20 groups apart, all but one in 2000."""

SPARE = 8
"""Bits that a range in sorted runs has beyond that, if there are so many left: times go on, and each wider layout moves
all rows."""

MOST_NEAR_BITS, MOST_NEAR_SHIFT = 46, 12
"""Bits of a key, and of a cell, up to which a table of cells can tell keys apart by 32 bits and their place, and still
spreads them evenly."""

ROOM = 1
"""Bits that a part has beyond those of the values that have come: as many again have room."""


@dataclass(frozen=True, slots=True)
class Composite:
    """The terms of a plan that are one key together, by their places in the plan.

    Attributes
    ----------
    equal : tuple of int
        Equalities.
    exact : bool
        Whether the keys of all of them are the values, not hashes.
    range : int or None
        The range that orders the rows of a group.
    """

    equal: tuple[int, ...]
    exact: bool
    range: int | None

    @property
    def terms(self) -> tuple[int, ...]:
        """All of them."""
        return self.equal if self.range is None else (*self.equal, self.range)


class KeyBits(NamedTuple):
    """One term's bits of the key: ``value - base``, for values from `base` to `last`."""

    base: int
    last: int
    bits: int

    def holds(self, extent: Extent) -> bool:
        """Whether values have room."""
        return self.base <= extent[0] and extent[1] <= self.last


NO_BITS = KeyBits(int(INT64.min), int(INT64.max), 0)
"""Of a term that has no bits of its own: any value will do."""


@dataclass(frozen=True, slots=True)
class CompositeLayout:
    """The layout of a composite key, see above.

    Attributes
    ----------
    of : Composite
    dims : tuple of int
        Places of the plan's terms that are further dimensions: those that are no part of the key, and those that the
        key does not say all about.
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
    """

    of: Composite
    dims: tuple[int, ...]
    axis: Axis | None
    parts: tuple[KeyBits, ...] | None
    group_bits: int
    span: KeyBits
    drop: int
    spread: Axis | None
    branches: tuple[BranchLayout, ...] = ()

    def fits(self, keys: TermKeys) -> bool:
        """Tell whether all values have room."""
        for number, part in zip(self.of.equal, self.parts or (), strict=False):
            extent = keys.extent(number)
            if extent is not None and not part.holds(extent):
                return False
        if self.of.range is None:
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
        """Return what follows from the values that have come, as int64, see `layout_of_numbers`."""
        parts = [NO_BITS] if self.parts is None else self.parts
        return np.array(
            [self.parts is None, self.group_bits, self.drop, *self.span, *(number for part in parts for number in part)]
        )

    # -- stored rows -------------------------------------------------------------------------------------------------

    def rows(self, keys: TermKeys) -> RowKeys:
        """Return what an index stores; the values have room."""
        packed = np.zeros(keys.rows, np.int64)
        values = [keys.values[number] for number in self.of.equal]
        if self.parts is None:
            packed = self._hashed(values)
        else:
            for part, one in zip(self.parts, values, strict=True):
                _kernels().pack(np.ascontiguousarray(one), part.base, part.last, part.bits, packed)
        if self.of.range is not None:
            places = np.ascontiguousarray(self._place(keys.values[self.of.range]))
            _kernels().pack(places, self.span.base, self.span.last, self.span.bits, packed)
        return RowKeys(packed, dimensions(keys, self.dims), keys.eligible, keys.inexact)

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
            The ranges of each term's keys, as the plan has them.
        silent : (n,) bool or None
            Probes that match nothing.
        inexact : frozenset of int
            Numbers of the terms whose ranges are not exact.
        """
        kernels, n = _kernels(), term_ranges[0].lo.shape[1]
        nobody = np.zeros(n, np.bool_) if silent is None else silent.copy()
        points = [term_ranges[number] for number in self.of.equal]
        # What is hashed has no part, and room for all values.
        groups = np.zeros(n, np.int64) if self.parts else self._hashed([one.lo[0] for one in points])
        for part, one in zip(self.parts or [NO_BITS] * len(points), points, strict=True):
            kernels.pack_points(one.lo[0], one.hi[0], part.base, part.last, part.bits, groups, nobody)
        for place, ranges in enumerate(term_ranges):
            if place not in self.of.terms:
                nobody |= np.all(ranges.lo > ranges.hi, axis=0)
        if self.of.range is None:
            lo, hi = groups.reshape(1, n), groups.reshape(1, n)
            if nobody.any():
                lo, hi = np.where(nobody, 1, lo), np.where(nobody, 0, hi)
        else:
            lo, hi = self._within(term_ranges[self.of.range], groups, nobody)
        return KeyRanges(lo, hi, *dimension_ranges(term_ranges, self.dims), inexact)

    def _within(
        self, ranges: Ranges, groups: NDArray[np.int64], nobody: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ranges of composite keys, (k, n): ascending and disjoint, empty ones last."""
        lo, hi = ranges.lo, ranges.hi
        if self.drop or self.spread is not None:
            empty = lo > hi
            if lo.shape[0] > 1:
                # Neighbours may share a place, and a row must not match twice: all between the ends is compared.
                lo = np.where(empty, INT64.max, lo).min(axis=0, keepdims=True)
                hi = np.where(empty, INT64.min, hi).max(axis=0, keepdims=True)
                empty = lo > hi
            if empty.any():
                nobody = nobody | empty[0]
            lo, hi = (self._place(ends.reshape(-1)).reshape(1, -1) for ends in (lo, hi))
        low, high = np.empty(lo.shape, np.int64), np.empty(lo.shape, np.int64)
        for piece in range(lo.shape[0]):
            _kernels().pack_ranges(
                np.ascontiguousarray(lo[piece]), np.ascontiguousarray(hi[piece]), groups, nobody, self.span.base,
                self.span.last, self.span.bits, low[piece], high[piece],
            )  # fmt: skip
        if lo.shape[0] > 1:
            order = np.argsort(low > high, axis=0, kind="stable")
            low, high = np.take_along_axis(low, order, axis=0), np.take_along_axis(high, order, axis=0)
        return low, high


@cache
def _kernels() -> ModuleType:
    from slidejoin.plan.kernels import packing  # noqa: PLC0415 - loads Numba, which planning does not need

    return packing


def composite_layout(of: Composite, terms: int, spread: Axis | None, extents: Mapping[int, Extent]) -> CompositeLayout:
    """Return a layout with room for values.

    Parameters
    ----------
    of : Composite
    terms : int
        How many the plan has.
    spread : Axis or None
        How the range's keys, or those of an equality, are spread over cells; None for sorted runs.
    extents : mapping from int to Extent
        Of the composite's terms.
    """
    parts: tuple[KeyBits, ...] | None = tuple(_part(extents[number]) for number in of.equal)
    group = sum(part.bits for part in parts or ())
    if of.range is None:
        if not of.exact or group > BITS:
            parts, group = None, BITS
        return _made(of, terms, spread, parts, group, NO_BITS, 0, None)
    mapped = spread if spread is not None and spread.place is not None else None
    low, high = extents[of.range]
    if mapped is not None:
        low, high = mapped.places(np.array([low, high])).tolist()
    wanted = _part((low, high)).bits
    if not of.exact or group > MOST_GROUP_BITS:
        parts, group = None, MOST_GROUP_BITS
        # Few values in the range leave more bits for the group.
        group = max(group, min(BITS - wanted, 2 * MOST_GROUP_BITS))
    if spread is None:
        wanted += max(min(BITS - group - wanted, SPARE), 0)
    drop = max(wanted - (BITS - group), 0)
    return _made(of, terms, spread, parts, group, _part((low >> drop, high >> drop), wanted - drop), drop, mapped)


def layout_of_numbers(of: Composite, terms: int, numbers: NDArray[np.int64]) -> CompositeLayout:
    """Return the layout of sorted runs that had these `numbers`.

    Examples
    --------
    >>> of = Composite((0,), True, 1)
    >>> layout = composite_layout(of, 2, None, {0: (1, 9), 1: (-5, 1000)})
    >>> layout_of_numbers(of, 2, layout.numbers()) == layout
    True
    """
    hashed, group, drop, *rest = numbers.tolist()
    span, *parts = (KeyBits(*rest[at : at + 3]) for at in range(0, len(rest), 3))
    return _made(of, terms, None, None if hashed else tuple(parts), group, span, drop, None)


def _made(
    of: Composite, terms: int, spread: Axis | None, parts: tuple[KeyBits, ...] | None, group: int, span: KeyBits,
    drop: int, mapped: Axis | None,
) -> CompositeLayout:  # fmt: skip
    again = [] if parts is not None else list(of.equal)
    if of.range is not None and (drop or mapped is not None):
        again.append(of.range)
    dims = tuple(number for number in range(terms) if number not in of.terms or number in again)
    axis = None if spread is None else _axis(spread, drop, group + span.bits)
    return CompositeLayout(of, dims, axis, parts, group, span, drop, mapped)


def _axis(spread: Axis, drop: int, bits: int) -> Axis:
    """Return how composite keys of so many bits are spread over cells: as the range's places are."""
    shift = max(spread.shift - drop, 0)
    return Axis(shift, None, spread.why, apart=bits > 32 and (bits > MOST_NEAR_BITS or shift > MOST_NEAR_SHIFT))  # noqa: PLR2004 - of a place


def _part(extent: Extent, bits: int | None = None) -> KeyBits:
    """Return a part with room for values, and for as many more on both sides."""
    low, high = extent
    bits = max((high - low).bit_length(), 1) + ROOM if bits is None else bits
    spare = (1 << bits) - 1 - (high - low)
    base = max(low - spare // 2, int(INT64.min))
    return KeyBits(base, min(base + (1 << bits) - 1, int(INT64.max)), bits)
