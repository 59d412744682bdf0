"""The further dimensions of a structure's rows, by ordinal: those of sealed parts as they are, of others in a ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.kernels.found_rows import keep_passing
from slidejoin.index.ordinal_ring import OrdinalRing
from slidejoin.papers.kernels.sealed_dims import DimParts, keep_passing_sealed
from slidejoin.runtime.array_pool import address_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes

__all__ = ["StoredDims"]


class StoredDims(OrdinalRing):
    """The values of each row; see `OrdinalRing`, which has those that were inserted.

    Parameters
    ----------
    columns : int
        Values of each row, int64.

    Examples
    --------
    >>> dims = StoredDims(1)
    >>> dims.attach(np.array([[7], [8]]), first=5, floor=5)
    >>> dims.put([np.array([[9]])], first=7, floor=5)
    >>> dims.sealed, dims.values[7 & 63].tolist()
    (7, [9])
    """

    def __init__(self, columns: int) -> None:
        super().__init__(columns)
        self.sealed = np.iinfo(np.int64).min
        """The ordinal before which all rows are in sealed parts; the least number if there are none."""
        self._parts: list[NDArray[np.int64]] = []
        self._firsts = self._addresses = np.empty(0, np.int64)

    def attach(self, values: NDArray[np.int64], first: int, floor: int) -> None:
        """Take sealed rows, (n, columns) int64, the first with that ordinal; they are copied behind inserted ones."""
        if self.values.shape[0]:
            self.put([values], first, floor)
            return
        own = np.ascontiguousarray(values)
        self._parts.append(own)
        self.sealed = first + own.shape[0]
        self._firsts = np.concatenate([self._firsts[: len(self._parts) - 1], [first, self.sealed]])
        self._addresses = np.append(self._addresses, address_of(own))

    def put(self, parts: list[NDArray[np.int64]], first: int, floor: int) -> None:
        """Take the newest rows, see `OrdinalRing`; those of sealed parts need no place."""
        super().put(parts, first, max(floor, self.sealed))

    def column(self, dimension: int, first: int, end: int) -> NDArray[np.int64]:
        """Return one value of each of the rows first…end-1, (end - first,) int64, all of one sealed part or of none."""
        if first >= self.sealed:
            newest: NDArray[np.int64] = self.values[np.arange(first, end) & (self.values.shape[0] - 1), dimension]
            return newest
        part = int(np.searchsorted(self._firsts, first, "right")) - 1
        begin = int(self._firsts[part])
        return self._parts[part][first - begin : end - begin, dimension]

    def keep_passing(
        self, probes: Probes, begin: int, end: int, ordinals: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> int:
        """Drop the rows that are outside the ranges of their probes, see `index.kernels.found_rows.keep_passing`."""
        ranges = probes.aux_lo, probes.aux_hi, probes.aux_dims
        if not self._parts:
            return keep_passing(self.values, *ranges, begin, end, ordinals, counts)
        parts = DimParts(self._firsts, self._addresses, self.values)
        return keep_passing_sealed(parts, *ranges, begin, end, ordinals, counts)
