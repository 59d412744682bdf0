"""The layout of keys whose ranges are closed: that of the same keys otherwise, asked for narrower ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import Axis
    from slidejoin.index.keys import KeyRanges, RowKeys
    from slidejoin.plan.closed_ranges import Closing
    from slidejoin.plan.key_layout import BranchLayout, KeyLayout, TermKeys
    from slidejoin.predicate.ranges.ranges import Ranges

__all__ = ["ClosedLayout"]


@dataclass(frozen=True, slots=True)
class ClosedLayout:
    """A layout that closes the ranges of one term by another one; see `slidejoin.plan.key_layout.KeyLayout`.

    Attributes
    ----------
    base : KeyLayout
        How the keys are laid out.
    closing : callable
        Returns how ranges are closed by the rows that have come so far. Rows are measured as they are prepared, so that
        ranges are right from then on, as they are for a layout that has room for all values.
    """

    base: KeyLayout
    closing: Callable[[], Closing]

    @property
    def dims(self) -> tuple[int, ...]:
        """Places of the plan's terms that are further dimensions."""
        return self.base.dims

    @property
    def axis(self) -> Axis | None:
        """How keys are spread over cells."""
        return self.base.axis

    @property
    def branches(self) -> tuple[BranchLayout, ...]:
        """Return none: branches of OR have no closed ranges."""
        return ()

    def fits(self, keys: TermKeys) -> bool:
        """Tell whether all values have room."""
        return self.base.fits(keys)

    def numbers(self) -> NDArray[np.int64]:
        """Return what follows from the values that have come, as int64."""
        return self.base.numbers()

    def rows(self, keys: TermKeys) -> RowKeys:
        """Return what an index stores; the values have room."""
        return self.base.rows(keys)

    def ranges(self, asked: Sequence[Ranges], silent: NDArray[np.bool_] | None, inexact: frozenset[int]) -> KeyRanges:
        """Return what probes look for, see `CompositeLayout.ranges`."""
        closing, closed = self.closing(), list(asked)
        closed[closing.range] = closing.closed(asked)
        return self.base.ranges(closed, silent, inexact)
