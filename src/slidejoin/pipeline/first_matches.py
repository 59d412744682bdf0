"""Left rows of a semi join over time, with the match time of their first pair.

The result of a semi join has left columns alone, and of which pair a row is would be lost. So the join is an inner one
here, left rows have numbers, and of the pairs of a row the first one is a row of the result. Which rows were output is
remembered until they have left the window.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FirstMatches"]

NONE = np.empty(0, np.int64)
HEAD = struct.Struct("<QQ")
"""The number of the next row, and how many rows were output and may match again."""


class FirstMatches:
    """Which left rows were output.

    Parameters
    ----------
    state : bytes
        What `state` has returned; empty at the beginning.
    """

    def __init__(self, state: bytes = b"") -> None:
        self._next, count = HEAD.unpack_from(state) if state else (0, 0)
        numbers = np.frombuffer(state, np.int64, 2 * count, HEAD.size) if count else NONE
        self._rows, self._times = numbers[:count].copy(), numbers[count:].copy()

    def numbers(self, count: int) -> NDArray[np.int64]:
        """Return numbers for so many left rows that arrive, (count,) int64 ascending."""
        first, self._next = self._next, self._next + count
        return np.arange(first, self._next)

    def new(self, rows: NDArray[np.int64], match_times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return of each left row that was not output its pair with the smallest match time, as (m,) int64 places.

        Parameters
        ----------
        rows, match_times : (n,) int64
            Of each pair the number of its left row, and its match time.
        """
        order = np.lexsort([match_times, rows])
        ordered = rows[order]
        new = np.ones(order.size, np.bool_)
        new[1:] = ordered[1:] != ordered[:-1]
        if self._rows.size:
            known = np.searchsorted(self._rows, ordered)
            known[known == self._rows.size] = 0
            new &= self._rows[known] != ordered
        return np.sort(order[new])

    def output(self, rows: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        """Take note of left rows that are output, (n,) int64 numbers and event times."""
        merged = np.concatenate([self._rows, rows])
        order = np.argsort(merged, kind="stable")
        self._rows, self._times = merged[order], np.concatenate([self._times, times])[order]

    def forget(self, oldest: int) -> None:
        """Forget rows from before an event time: they match no more."""
        stay = self._times >= oldest
        if not stay.all():
            self._rows, self._times = self._rows[stay], self._times[stay]

    def state(self) -> bytes:
        """Return what must be stored."""
        return HEAD.pack(self._next, self._rows.size) + self._rows.tobytes() + self._times.tobytes()
