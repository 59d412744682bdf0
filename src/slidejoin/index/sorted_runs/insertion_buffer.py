"""The insertion buffer of sorted runs (PanJoin, section III-D): it collects the rows of small pushes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.sorted_runs.kernels.buffering import (
    BUFFER,
    COMING,
    COMING_HIGH,
    COMING_LOW,
    HIGH,
    LOW,
    ROWS,
    merge_coming,
    sort_coming,
)
from slidejoin.index.sorted_runs.run import EVERY_ROW, KEYS_A_BUCKET, Run, step_of, words_pool
from slidejoin.jit.vectors.shifting import CALM
from slidejoin.jit.vectors.words import PAD
from slidejoin.runtime.array_pool import address_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["InsertionBuffer"]


class InsertionBuffer:
    """Rows of the newest pushes, with integer keys and no further dimensions.

    Parameters
    ----------
    capacity : int
        Rows it holds before they become a run.

    Examples
    --------
    >>> buffer = InsertionBuffer(8)
    >>> buffer.fits(np.array([7, 3])) and buffer.take(0)
    2
    >>> buffer.fits(np.array([5])) and buffer.take(2)
    1
    >>> run = buffer.hand_over()
    >>> run.keys.tolist(), run.offsets.tolist(), run.rows
    ([3, 5, 7], [1, 2, 0], 3)
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.base = 0
        """Ordinal of the oldest row here."""
        self._state = np.zeros(BUFFER, np.int64)
        self._numbers = memoryview(self._state.data)
        self._coming, self._spare = np.empty(capacity, np.uint64), np.empty(capacity, np.uint64)
        self._sorted = words_pool.take(capacity + PAD)
        # As many buckets as a run of so many rows has, see `step_of`, and the entries at the ends.
        self._directory = np.empty((1 << max(1, capacity.bit_length() - KEYS_A_BUCKET)) + 2, np.uint32)

    @property
    def rows(self) -> int:
        """Rows here."""
        return self._numbers[ROWS]

    @property
    def coming(self) -> NDArray[np.uint64]:
        """The words of the rows of the last call of `fits`, ascending; see `buffering.sort_coming`."""
        return self._coming

    def fits(self, keys: NDArray[np.int64]) -> bool:
        """Sort the keys (n,) int64 of the next rows, at most `capacity` with those here; tell whether they fit.

        They fit if they are near each other and the stored ones, and far from the ends of int64; else nothing is done.
        """
        return sort_coming(keys, CALM, EVERY_ROW, self._state, self._coming, self._spare)

    def take(self, ordinal: int) -> int:
        """Insert the rows of the last call of `fits`, the first with that ordinal; return how many they are."""
        numbers = self._numbers
        rows, coming = numbers[ROWS], numbers[COMING]
        if rows == 0:
            self.base = ordinal
        step = step_of(numbers[COMING_LOW], numbers[COMING_HIGH], 0, rows + coming)
        merge_coming(self._coming, step, self._state, self._sorted, self._directory)
        return coming

    def line(self) -> tuple[int, ...]:
        """Return the line of the table of runs for these rows, see `index.kernels.searching.FIELDS`."""
        rows, low, high = self._numbers[ROWS], self._numbers[LOW], self._numbers[HIGH]
        return (
            address_of(self._sorted), rows, low, high, 0, step_of(low, high, 0, rows),
            address_of(self._directory), self.base, rows, 0, 0, 0, 0, 0,
        )  # fmt: skip

    def hand_over(self) -> Run:
        """Return all rows, one or more, as a run, and empty the buffer."""
        rows, ends = self.rows, (self._numbers[LOW], self._numbers[HIGH])
        run = Run.made(self.base, rows, rows, self._sorted, ends)
        self._sorted = words_pool.take(self.capacity + PAD)
        self.clear()
        return run

    def clear(self) -> None:
        """Drop all rows."""
        self._state[:] = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        words = self._sorted.nbytes + self._coming.nbytes + self._spare.nbytes
        return int(words + self._directory.nbytes)
