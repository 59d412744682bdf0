"""Gathered rows some of which are missing: NULL in every column, as the partner of an unmatched row is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.rows.widths import Widths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.rows.gathered import Gathered

__all__ = ["WithNulls"]


class WithNulls:
    """Rows of which those that are present have been gathered; has what output needs of `Gathered`.

    Parameters
    ----------
    gathered : Gathered
        The rows that are present, in their order.
    present : (n,) bool
        Which of the rows these are.
    fixed : int
        Bytes that a missing row takes.
    """

    def __init__(self, gathered: Gathered, present: NDArray[np.bool_], fixed: int) -> None:
        self._gathered, self._present, self._fixed = gathered, present, fixed
        # How many are present before each row, and before the end.
        self._before = np.concatenate([np.zeros(1, np.int64), np.cumsum(present)])
        self.rows = present.size
        """How many."""

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take as Arrow."""
        return self._gathered.nbytes + self._fixed * (self.rows - self._gathered.rows)

    @property
    def widths(self) -> Widths:
        """How wide the rows are."""
        of_present = self._gathered.widths
        every = np.full(self.rows, self._fixed, np.int64)
        every[self._present] = of_present.fixed + (0 if of_present.varying is None else of_present.varying)
        return Widths(self.rows, 0, every)

    def table(self, start: int, stop: int) -> pa.Table:
        """Return the rows start…stop-1."""
        first, last = int(self._before[start]), int(self._before[stop])
        table = self._gathered.table(first, last)
        if last - first == stop - start:
            return table
        # With the mask, what stands at the place of a missing row means nothing.
        places = pa.array(self._before[start:stop] - first, mask=~self._present[start:stop])
        return table.combine_chunks().take(places)
