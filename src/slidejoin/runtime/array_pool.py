"""Where arrays lie in memory, and a pool of reusable ones.

A fresh large array costs a page fault for every 512 words, more than filling them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["ArrayPool", "address_of", "point"]

LINE = 64
"""Bytes of a line of the cache."""

SMALL_CHANGE = 1 << 26
"""Bytes of idle arrays, in any number."""

CHECKED = 16
"""After so many arrays that are taken, or as many bytes as may be idle, it is checked whether too many are idle."""

SMALLEST = 1 << 10
"""Items below which arrays are simply allocated, which is fast."""


class _Whole:
    """An array of the pool, and what NumPy asks of it: an interface takes longer to make than to read."""

    __slots__ = ("array", "home", "interface", "nbytes")

    def __init__(self, array: NDArray[Any], home: list[_Whole]) -> None:
        self.array, self.interface, self.home, self.nbytes = array, array.__array_interface__, home, array.nbytes


class _Loan:
    """The base of a lent array; it returns the memory to the pool when no view or table refers to it."""

    __slots__ = ("__array_interface__", "_whole")

    def __init__(self, whole: _Whole) -> None:
        self._whole = whole
        # NumPy lets a view refer to the array that another one is a view of, but not to what is no array.
        self.__array_interface__ = whole.interface

    def __del__(self) -> None:
        self._whole.home.append(self._whole)


class ArrayPool:
    """A pool of arrays of one type, which return to it by themselves.

    Up to `most` arrays of any size stay idle, and more while all have up to `small` bytes together. Safe to use from
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

    def __init__(self, dtype: Any, most: int = 4, small: int = SMALL_CHANGE) -> None:  # noqa: ANN401 - what NumPy takes as a type
        self.dtype = np.dtype(dtype)
        self.most, self.small = most, small
        # By their sizes. Taking and returning are atomic list operations, so any thread may do both.
        self._idle: dict[int, list[_Whole]] = {}
        self._taken = self._bytes = 0

    def take(self, size: int) -> NDArray[Any]:
        """Return an array of (size,) items with any content, its first one at the begin of a cache line.

        It is the caller's for as long as any view of it lives, or any table that shares its memory.
        """
        if size < SMALLEST:
            return _aligned(size, self.dtype)
        rounded = _rounded(size)
        home = self._idle.get(rounded)
        try:
            whole = home.pop() if home else self._larger(rounded)
        except IndexError:  # another thread was faster
            whole = self._larger(rounded)
        self._taken, self._bytes = self._taken + 1, self._bytes + whole.nbytes
        if self._taken % CHECKED == 0 or self._bytes > self.small:
            self._bytes = 0
            if self.nbytes > self.small:
                self._let_go()
        lent: NDArray[Any] = np.asarray(_Loan(whole))[:size]
        return lent

    def _larger(self, size: int) -> _Whole:
        """Take out the smallest array of more items, up to twice as many, or make one."""
        idle, larger = self._idle, size
        while larger <= 2 * size:
            home = idle.get(larger)
            if home:
                try:
                    return home.pop()
                except IndexError:  # another thread was faster
                    continue
            larger = _rounded(larger + 1)
        return _Whole(_aligned(size, self.dtype), idle.setdefault(size, []))

    def _let_go(self) -> None:
        """Free excess arrays: the largest `most` stay, and others as long as all together are small."""
        idle: list[_Whole] = []
        for home in list(self._idle.values()):
            while home:
                try:
                    idle.append(home.pop())
                except IndexError:  # another thread was faster
                    break
        total = 0
        for number, whole in enumerate(sorted(idle, key=lambda one: one.array.size, reverse=True)):
            total += whole.nbytes
            if number < self.most or total <= self.small:
                whole.home.append(whole)

    @property
    def nbytes(self) -> int:
        """Bytes of idle arrays."""
        return sum([whole.nbytes for home in list(self._idle.values()) for whole in home])


def _aligned(size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array that begins at a cache line, so that searches read as few lines as possible."""
    array = np.empty(size + LINE // dtype.itemsize, dtype)
    first = -array.__array_interface__["data"][0] % LINE // dtype.itemsize
    return array[first : first + size]


def _rounded(size: int) -> int:
    """Round up by a quarter at most, so that arrays of nearly the same size can stand in for each other."""
    step = 1 << max(0, int(size).bit_length() - 3)  # kernels in plain Python give integers of NumPy
    return -(-size // step) * step


# The stubs let it take buffers of bytes only.
_buffer_of: Callable[[Any], pa.Buffer] = pa.py_buffer


def address_of(array: NDArray[Any]) -> int:
    """Return where an array's first value lies, of one whose values lie side by side; the caller keeps the array.

    Arrow finds it in a quarter of the time that NumPy takes, and a small push asks for thirty.

    Examples
    --------
    >>> import numpy as np
    >>> words = np.arange(4)
    >>> address_of(words[1:]) - address_of(words)
    8
    """
    return int(_buffer_of(array).address)


def point(words: memoryview | NDArray[np.int64], at: int, array: NDArray[Any]) -> None:
    """Set a `slidejoin.jit.vectors.fields.ARRAY`, two words, to an array, or to the rows of a table."""
    words[at], words[at + 1] = address_of(array), len(array)
