"""Rows of one side that wait until the watermark has passed them, the oldest event time first.

Rows are kept in chunks, each sorted by event time, in a heap by the oldest time of each chunk: a small push looks at
the chunks whose oldest row leaves and at no others, and rows out of order leave when it is their time.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.jit.vectors.sorting import sorted_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AgingRows"]

COLLECTED_ROWS = 1 << 12
"""Rows that are collected before they are sorted."""

ROW_BYTES = 16
"""Of a row: its ordinal and its time."""


class AgingRows:
    """Ordinals by event time.

    Examples
    --------
    >>> rows = AgingRows()
    >>> rows.add(0, np.array([30, 10, 20]))
    >>> [part.tolist() for part in rows.take_below(25)]
    [[1, 2], [10, 20]]
    >>> rows.ordinals().tolist()
    [0]
    """

    def __init__(self) -> None:
        # Of each sorted chunk: its oldest time, a number that no other has, and its rows from that one on.
        self._chunks: list[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]] = []
        self._number = 0
        # The newest rows, not sorted yet: consecutive ones from `_first` on.
        self._open = np.empty(COLLECTED_ROWS, np.int64)
        self._first = self._filled = self._oldest = 0
        self.rows = 0
        """Rows that wait."""

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return self._open.nbytes + ROW_BYTES * self.rows

    def add(self, first: int, times: NDArray[np.int64]) -> None:
        """Add the newest rows: consecutive ordinals from `first` on, with times (n,) int64. O(n log n)."""
        rows = times.size
        if rows == 0:
            return
        self.rows += rows
        if first != self._first + self._filled or self._filled + rows > self._open.size:
            self._close()
            self._first = first
        if rows >= self._open.size:
            # Copied: the times of a push may lie in memory of the caller.
            self._put(np.arange(first, first + rows), times.copy())
            self._first = first + rows
            return
        oldest = int(times.min())
        self._oldest = min(self._oldest, oldest) if self._filled else oldest
        self._open[self._filled : self._filled + rows] = times
        self._filled += rows

    def _close(self) -> None:
        """Sort the newest rows."""
        filled = self._filled
        if filled:
            self._put(np.arange(self._first, self._first + filled), self._open[:filled].copy())
            self._first, self._filled = self._first + filled, 0

    def _put(self, ordinals: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        if not bool((times[1:] >= times[:-1]).all()):
            order = sorted_order(times)
            ordinals, times = ordinals[order], times[order]
        heappush(self._chunks, (int(times[0]), self._number, ordinals, times))
        self._number += 1

    def take_below(self, time: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Take out the rows with smaller times: ordinals and times, (n,) int64, in no promised order."""
        if self._filled and self._oldest < time:
            self._close()
        chunks, ordinals, times = self._chunks, [], []
        while chunks and chunks[0][0] < time:
            _, number, own, ages = chunks[0]
            end = int(np.searchsorted(ages, time))
            ordinals.append(own[:end])
            times.append(ages[:end])
            if end < own.size:
                heapreplace(chunks, (int(ages[end]), number, own[end:], ages[end:]))
            else:
                heappop(chunks)
        if not ordinals:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        found = np.concatenate(ordinals)
        self.rows -= found.size
        return found, np.concatenate(times)

    def ordinals(self) -> NDArray[np.int64]:
        """Return the ordinals of all rows that wait, ascending."""
        newest = np.arange(self._first, self._first + self._filled)
        return np.sort(np.concatenate([*(chunk[2] for chunk in self._chunks), newest]))
