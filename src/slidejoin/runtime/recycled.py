"""Memory for results that is used again once nobody has them any more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Recycled"]

KEPT = 4
"""Arrays that are kept: two columns of the last result, and two of the one before, which may still be read."""

LARGE, MOST, LARGEST = 1 << 16, 16, 1 << 27
"""Of at least so many values, that many arrays are kept, of so many bytes together: a push of many pairs gives several
tables. All of them are looked at for each result, so there must be few where results are small and somebody collects
them."""

SMALLEST = 1 << 10


def _references(arrays: list[NDArray[np.int64]], number: int) -> int:
    return sys.getrefcount(arrays[number])


ALONE = _references([np.empty(0, np.int64)], 0)
"""References to an array that only its list has. Measured, because Python versions count their own differently."""


class Recycled:
    """Gives out int64 arrays, fresh or used: the pages of a fresh one cost some 3 ns a row when they are written."""

    def __init__(self) -> None:
        self._arrays: list[NDArray[np.int64]] = []

    def take(self, size: int) -> NDArray[np.int64]:
        """Return an array of (size,) int64 with any values in it.

        It is the caller's for as long as any view of it lives, or any table that shares its memory.
        """
        arrays = self._arrays
        for number in range(len(arrays)):
            if size <= arrays[number].size <= 4 * size + SMALLEST and _references(arrays, number) == ALONE:
                arrays.append(arrays.pop(number))
                return arrays[-1][:size]
        arrays.append(np.empty(size + size // 4 + SMALLEST, np.int64))
        most = MOST if size >= LARGE else KEPT
        while len(arrays) > KEPT and (len(arrays) > most or sum(array.nbytes for array in arrays) > LARGEST):
            del arrays[0]
        return arrays[-1][:size]
