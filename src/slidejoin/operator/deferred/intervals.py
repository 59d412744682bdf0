"""Which right rows a left row can have pairs with: an interval of ordinals, complete once the left row leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["Intervals", "WaitingRows"]

NO_ROWS = np.empty(0, np.int64)


class Intervals(NamedTuple):
    """Left rows, and for each the right rows ``since <= o < until`` that it meets, but for itself in a self-join.

    Attributes
    ----------
    rows : (n,) int64
        Ordinals of left rows, ascending.
    since, until : (n,) int64
        Both ascend with the rows.
    """

    rows: NDArray[np.int64]
    since: NDArray[np.int64]
    until: NDArray[np.int64]

    def part(self, first: int, last: int) -> Intervals:
        """Return those of rows first…last-1."""
        return Intervals(*(one[first:last] for one in self))

    def at(self, places: NDArray[np.int64]) -> Intervals:
        """Return those at these places, ascending."""
        return Intervals(*(one[places] for one in self))

    def seen(self, *, self_join: bool) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the beginnings and ends, (n,) int64, of intervals that hold no row itself: in a self-join two."""
        if not self_join:
            yield self.since, self.until
            return
        yield self.since, np.clip(self.rows, self.since, self.until)
        yield np.clip(self.rows + 1, self.since, self.until), self.until


class WaitingRows:
    """The beginnings of the intervals of left rows that wait in a count window, whose ordinals are consecutive."""

    def __init__(self) -> None:
        self.first = 0
        """Ordinal of the oldest row that waits."""
        self._since: NDArray[np.int64] = NO_ROWS
        self._begin = self._end = 0

    @property
    def end(self) -> int:
        """Ordinal of the row to come."""
        return self.first + self._end - self._begin

    @property
    def since(self) -> NDArray[np.int64]:
        """The beginnings, (n,) int64 ascending, oldest row first; a view."""
        return self._since[self._begin : self._end]

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return self.since.nbytes

    def start_at(self, ordinal: int) -> None:
        """Give the first row that ordinal; none waits."""
        self.first, self._begin, self._end = ordinal, 0, 0

    def room(self, rows: int) -> NDArray[np.int64]:
        """Let the next rows wait, and return where the beginnings of their intervals belong. Amortised O(rows)."""
        waiting = self._end - self._begin
        if self._end + rows > self._since.size:
            moved = self._since if 2 * (waiting + rows) <= self._since.size else None
            if moved is None:
                moved = np.empty(max(2 * (waiting + rows), 1024), np.int64)
            moved[:waiting] = self.since  # NumPy copies first where they overlap
            self._since, self._begin, self._end = moved, 0, waiting
        self._end += rows
        return self._since[self._end - rows : self._end]

    def take_before(self, ordinal: int) -> NDArray[np.int64]:
        """Remove the rows before that ordinal and return the beginnings of their intervals, (n,) int64.

        They are a view, good until there is `room` for further rows.
        """
        count = min(max(ordinal - self.first, 0), self._end - self._begin)
        found = self._since[self._begin : self._begin + count]
        self._begin += count
        self.first += count
        return found

    def begin_at(self, ordinal: int) -> None:
        """Let no interval begin before that right row: what lies before was folded. O(n)."""
        np.maximum(self.since, ordinal, out=self.since)
