"""The layout of a key that is one term's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.keys import KeyRanges, RowKeys
from slidejoin.plan.key_layout import dimension_ranges, dimensions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.plan.key_layout import BranchLayout, TermKeys
    from slidejoin.predicate.ranges.ranges import Ranges

__all__ = ["PlainLayout"]


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
            np.ascontiguousarray(keys.values[self.key]), dimensions(keys, self.dims), keys.kept, keys.inexact
        )

    def ranges(self, asked: Sequence[Ranges], silent: NDArray[np.bool_] | None, inexact: frozenset[int]) -> KeyRanges:
        """Return what probes look for, see `CompositeLayout.ranges`."""
        lo, hi = asked[self.key].lo, asked[self.key].hi
        for ranges in (*asked[: self.key], *asked[self.key + 1 :]):
            nothing: NDArray[np.bool_] = np.all(ranges.lo > ranges.hi, axis=0)
            silent = nothing if silent is None else silent | nothing
        if silent is not None and silent.any():
            lo, hi = np.where(silent, 1, lo), np.where(silent, 0, hi)
        return KeyRanges(lo, hi, *dimension_ranges(asked, self.dims), inexact)
