"""Key layouts: how the keys of a plan's terms become the one int64 that an index orders rows by.

Where one term is indexed, its key is that number (`PlainLayout`). Several equalities, and perhaps a range, are one
composite key (`slidejoin.plan.composite_layout`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from slidejoin.index.keys import KeyRanges, RowKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.predicate.ranges.ranges import Ranges

__all__ = ["BranchLayout", "Extent", "KeyLayout", "PlainLayout", "TermKeys", "dimension_ranges", "dimensions"]

Extent = tuple[int, int]
"""The smallest and the largest key of a term."""


class TermKeys(NamedTuple):
    """The keys of consecutive rows of one side, term by term.

    Attributes
    ----------
    values : tuple of (n,) int64
        A key of each term of the plan.
    eligible : (n,) bool or None
        Rows that can match at all; None for all. The keys of others mean nothing.
    inexact : frozenset of int
        Numbers of the terms of which some key was clipped.
    rows : int
    branches : tuple of TermKeys
        Where branches of OR have an index each, the keys of the terms of each; there are none above then.
    """

    values: tuple[NDArray[np.int64], ...]
    eligible: NDArray[np.bool_] | None
    inexact: frozenset[int]
    rows: int
    branches: tuple[TermKeys, ...] = ()

    def extent(self, term: int) -> Extent | None:
        """Return the smallest and the largest key of a term; None if no row can match."""
        values = self.values[term]
        values = values if self.eligible is None else values[self.eligible]
        return (int(values.min()), int(values.max())) if values.size else None


class KeyLayout(Protocol):
    """How the keys of one side's terms become what an index stores, and what probes look for in it.

    Attributes
    ----------
    dims : tuple of int
        Places of the plan's terms that are further dimensions.
    axis : Axis or None
        How keys are spread over cells; None if ranges are not narrow.
    branches : tuple of BranchLayout
        Where branches of OR have an index each, the layout of each.
    """

    @property
    def dims(self) -> tuple[int, ...]: ...  # noqa: D102 - see above
    @property
    def axis(self) -> Axis | None: ...  # noqa: D102
    @property
    def branches(self) -> tuple[BranchLayout, ...]: ...  # noqa: D102

    def fits(self, keys: TermKeys) -> bool:
        """Tell whether all values have room."""

    def numbers(self) -> NDArray[np.int64]:
        """Return what follows from the values that have come, as int64."""

    def rows(self, keys: TermKeys) -> RowKeys:
        """Return what an index stores; the values have room."""

    def ranges(
        self, term_ranges: Sequence[Ranges], silent: NDArray[np.bool_] | None, inexact: frozenset[int]
    ) -> KeyRanges:
        """Return what probes look for, see `slidejoin.plan.composite_layout`; each branch has ranges of its own."""


class BranchLayout(NamedTuple):
    """The layout of the keys of one branch of OR.

    Attributes
    ----------
    algorithm : str
        Its index.
    layout : KeyLayout
    time : int or None
        The further dimension by which rows of a time window expire, -1 for the key; None in a count window.
    """

    algorithm: str
    layout: KeyLayout
    time: int | None


def dimensions(keys: TermKeys, dims: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the keys of the terms that are further dimensions, (n, d) int64."""
    if not dims:
        return np.empty((keys.rows, 0), np.int64)
    return np.stack([keys.values[number] for number in dims], axis=1)


def dimension_ranges(
    term_ranges: Sequence[Ranges], dims: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the ranges of the further dimensions, (p, n) int64 twice, and which dimension each is of, (p,) int64."""
    if not dims:
        none = np.empty((0, term_ranges[0].lo.shape[1]), np.int64)
        return none, none, np.empty(0, np.int64)
    lo, hi = ([getattr(term_ranges[number], end) for number in dims] for end in ("lo", "hi"))
    places = [place for place, ranges in enumerate(lo) for _ in range(ranges.shape[0])]
    return np.concatenate(lo), np.concatenate(hi), np.array(places, np.int64)


@dataclass(frozen=True, slots=True)
class PlainLayout:
    """A term's key as it is; any layout of one is right, see `slidejoin.plan.key_layout.KeyLayout`.

    Attributes
    ----------
    key : int
        Place of that term in the plan.
    dims : tuple of int
        Places of the terms that are further dimensions.
    axis : Axis or None
        How keys are spread over cells; None if ranges are not narrow.
    """

    key: int
    dims: tuple[int, ...]
    axis: Axis | None
    branches: tuple[BranchLayout, ...] = ()

    def fits(self, keys: TermKeys) -> bool:  # noqa: ARG002 - as `CompositeLayout`
        """Return True: any key has room."""
        return True

    def numbers(self) -> NDArray[np.int64]:
        """Return nothing: there is one such layout, see `CompositeLayout.numbers`."""
        return np.empty(0, np.int64)

    def rows(self, keys: TermKeys) -> RowKeys:
        """Return what an index stores."""
        return RowKeys(
            np.ascontiguousarray(keys.values[self.key]), dimensions(keys, self.dims), keys.eligible, keys.inexact
        )

    def ranges(
        self, term_ranges: Sequence[Ranges], silent: NDArray[np.bool_] | None, inexact: frozenset[int]
    ) -> KeyRanges:
        """Return what probes look for, see `CompositeLayout.ranges`."""
        lo, hi = term_ranges[self.key].lo, term_ranges[self.key].hi
        for ranges in (*term_ranges[: self.key], *term_ranges[self.key + 1 :]):
            nothing: NDArray[np.bool_] = np.all(ranges.lo > ranges.hi, axis=0)
            silent = nothing if silent is None else silent | nothing
        if silent is not None and silent.any():
            lo, hi = np.where(silent, 1, lo), np.where(silent, 0, hi)
        return KeyRanges(lo, hi, *dimension_ranges(term_ranges, self.dims), inexact)
