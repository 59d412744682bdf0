"""Where in memory the rows of fixed width are, by their ordinals.

Ordinals are cut into units of ``2**shift`` rows, each in one chunk. A ring of addresses has a place for every unit of
the window, so a row is found by a shift, a mask and one load, and a push changes nothing here unless it opens a chunk.
One chunk that stays while thousands after it leave (a row whose event time lies far ahead) would make the ring as long
as the stream: then chunks are looked up by search. So they are where two share a unit, which only rows restored from
elsewhere do.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.kernels.gathering import GATHER, GATHER_UNITS, gather_marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.store.chunk import Chunk, Fixed

__all__ = ["Directory"]

SMALLEST_RING = 16
SPARSE = 16
"""So many times longer than its chunks a ring may be."""


class Directory:
    """Addresses of chunks' columns.

    Parameters
    ----------
    widths : sequence of int
        Bytes a value of each column.
    shift : int
        Units are of ``2**shift`` rows.
    """

    def __init__(self, widths: Sequence[int], shift: int) -> None:
        self._widths = tuple(widths)
        self._shift = shift
        self._values: list[NDArray[np.int64]] = []
        self._marks: list[NDArray[np.int64]] = []
        self._bases: NDArray[np.int64] | None = None
        self._marked: list[bool] = []
        self._resize(SMALLEST_RING)

    def _resize(self, units: int) -> None:
        self._marked = [False] * len(self._widths)
        self._values = [np.zeros(units, np.int64) for _ in self._widths]
        self._marks = [np.zeros(units, np.int64) for _ in self._widths]

    def opened(self, chunks: Sequence[Chunk]) -> None:
        """Take up the newest of the chunks."""
        units = ((chunks[-1].limit - 1) >> self._shift) - (chunks[0].base >> self._shift) + 1
        used = sum(((chunk.limit - 1 - chunk.base) >> self._shift) + 1 for chunk in chunks)
        shared = any((a.limit - 1) >> self._shift >= b.base >> self._shift for a, b in pairwise(chunks))
        if shared or units > SPARSE * (used + SMALLEST_RING):
            self._search(chunks)
        elif self._bases is not None or (self._values and units > self._values[0].size):
            self._bases = None
            self._resize(1 << (2 * units - 1).bit_length())
            for chunk in chunks:
                self._enter(chunk)
        else:
            self._enter(chunks[-1])

    def marked(self, chunks: Sequence[Chunk]) -> None:
        """Take up that the newest chunk has NULLs."""
        if self._bases is None:
            self._enter(chunks[-1])
        else:
            self._search(chunks)

    def dropped(self, chunks: Sequence[Chunk]) -> None:
        """Forget chunks that are not among these any more."""
        if self._bases is not None and chunks:
            self._search(chunks)

    def _enter(self, chunk: Chunk) -> None:
        size = self._values[0].size if self._values else 1
        places = np.arange(chunk.base >> self._shift, ((chunk.limit - 1) >> self._shift) + 1) & (size - 1)
        for number, width in enumerate(self._widths):
            values, marks = _addresses(chunk, number, width)
            self._values[number][places] = values
            self._marks[number][places] = marks
            self._marked[number] |= marks != 0

    def _search(self, chunks: Sequence[Chunk]) -> None:
        self._bases = np.array([chunk.base for chunk in chunks], np.int64)
        for number, width in enumerate(self._widths):
            found = [_addresses(chunk, number, width) for chunk in chunks]
            self._values[number] = np.array([values for values, _ in found], np.int64)
            self._marks[number] = np.array([marks for _, marks in found], np.int64)
            self._marked[number] = bool(self._marks[number].any())

    def places(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place among the addresses of each ordinal, both (n,) int64."""
        if self._bases is not None:
            return np.searchsorted(self._bases, ordinals, side="right") - 1
        return (ordinals >> self._shift) & (self._values[0].size - 1)

    def gather(self, number: int, column: Fixed, ordinals: NDArray[np.int64]) -> NDArray[Any]:
        """Return a column's values of these rows, as unsigned integers (n,) of its width."""
        width = self._widths[number]
        out = np.empty(ordinals.size, UNSIGNED[column.dtype.itemsize])
        if self._bases is None:
            GATHER_UNITS[width](self._values[number], self._shift, ordinals, out)
        else:
            GATHER[width](self._values[number], self.places(ordinals), ordinals, out)
        return out

    def marks(self, number: int, ordinals: NDArray[np.int64]) -> NDArray[np.uint8] | None:
        """Return 1 where a column is not NULL, 0 where it is, (n,) uint8; None if no chunk has a NULL there."""
        if not self._marked[number]:
            return None
        out = np.empty(ordinals.size, np.uint8)
        gather_marks(self._marks[number], self.places(ordinals), ordinals, out)
        return out


UNSIGNED = {width: np.dtype(f"u{width}") for width in GATHER}


def _addresses(chunk: Chunk, number: int, width: int) -> tuple[int, int]:
    """Return the addresses that ordinal 0 would have in a column's values and marks, 0 without marks."""
    marks = chunk.valid[number]
    values = int(chunk.values[number].ctypes.data) - chunk.origin * width
    return values, 0 if marks is None else int(marks.ctypes.data) - chunk.origin
