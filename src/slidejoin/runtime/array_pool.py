"""A pool of reusable arrays: a fresh large array costs a page fault for every 512 words, more than filling them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ArrayPool"]

LINE = 64
"""Bytes of a line of the cache."""

SMALL_CHANGE = 1 << 26
"""Bytes of idle arrays, in any number."""

SMALLEST = 1 << 10
"""Items below which arrays are simply allocated, which is fast."""


class _Loan:
    """The base of a lent array; it returns the memory to the pool when no view or table refers to it."""

    __slots__ = ("__array_interface__", "_home", "_whole")

    def __init__(self, whole: NDArray[Any], home: list[NDArray[Any]]) -> None:
        self._whole, self._home = whole, home
        # NumPy lets a view refer to the array that another one is a view of, but not to what is no array.
        self.__array_interface__ = whole.__array_interface__

    def __del__(self) -> None:
        self._home.append(self._whole)


class ArrayPool:
    """A pool of arrays of one type, which return to it by themselves.

    Up to `kept` arrays of any size are kept idle, and more while all are small. Safe to use from
    several threads at once.

    Examples
    --------
    >>> pool = ArrayPool(np.int64)
    >>> first = pool.take(5000)
    >>> address = first.ctypes.data
    >>> view = first[10:]
    >>> del first
    >>> other = pool.take(5000)
    >>> other.ctypes.data == address
    False
    >>> del view
    >>> pool.take(4999).ctypes.data == address
    True
    """

    def __init__(self, dtype: Any, kept: int = 4) -> None:  # noqa: ANN401 - what NumPy takes as a type
        self.dtype = np.dtype(dtype)
        self.kept = kept
        # Taking and returning are atomic list operations, so any thread may do both.
        self._idle: list[NDArray[Any]] = []

    def take(self, size: int) -> NDArray[Any]:
        """Return an array of (size,) items with any content, its first one at the begin of a cache line.

        It is the caller's for as long as any view of it lives, or any table that shares its memory.
        """
        if size < SMALLEST:
            return _aligned(size, self.dtype)
        whole = self._fitting(size)
        if whole is None:
            whole = _aligned(_rounded(size), self.dtype)
        if len(self._idle) > self.kept and self.nbytes > SMALL_CHANGE:
            self._let_go()
        lent: NDArray[Any] = np.asarray(_Loan(whole, self._idle))[:size]
        return lent

    def _fitting(self, size: int) -> NDArray[Any] | None:
        """Take out the smallest array that is large enough."""
        idle, best, least = self._idle, -1, 2 * size + 1
        for place, array in enumerate(idle):
            if size <= array.size < least:
                best, least = place, array.size
        if best < 0:
            return None
        try:
            found = idle.pop(best)
        except IndexError:  # another thread was faster
            return None
        if size <= found.size <= 2 * size:
            return found
        idle.append(found)  # another thread was faster, and this array is there now
        return None

    def _let_go(self) -> None:
        """Free excess arrays."""
        idle: list[NDArray[Any]] = []
        while self._idle:
            try:
                idle.append(self._idle.pop())
            except IndexError:  # another thread was faster
                break
        total = 0
        for number, array in enumerate(sorted(idle, key=len, reverse=True)):
            total += array.nbytes
            if number < self.kept or total <= SMALL_CHANGE:
                self._idle.append(array)

    @property
    def nbytes(self) -> int:
        """Bytes of idle arrays."""
        return sum(array.nbytes for array in self._idle)


def _aligned(size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array that begins at a cache line, so that searches read as few lines as possible."""
    array = np.empty(size + LINE // dtype.itemsize, dtype)
    first = -array.__array_interface__["data"][0] % LINE // dtype.itemsize
    return array[first : first + size]


def _rounded(size: int) -> int:
    """Round up by an eighth at most, so that arrays of nearly the same size can stand in for each other."""
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step
