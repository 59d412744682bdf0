"""Which right rows a left row can have pairs with: an interval of ordinals, complete once the left row leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slidejoin.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from slidejoin.stored import StoredValue

__all__ = ["Intervals", "WaitingRows", "folded_from"]

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
    """The beginnings of the intervals of left rows that wait in a count window, whose ordinals are consecutive.

    They lie in a ring: from `_begin` to `_end`, or from `_begin` to `_wrap` and then from 0 to `_end`. One piece of
    memory, because a new one for each push would leave the memory of old ones, which no cache has, to all other arrays.

    Parameters
    ----------
    first_room : int
        Rows for which the ring has room at first.
    """

    def __init__(self, first_room: int) -> None:
        self._since: NDArray[np.int64] = NO_ROWS
        self._first_room = first_room
        self.start_at(0)

    def start_at(self, ordinal: int) -> None:
        """Give the first row that ordinal; none waits."""
        self.first = self.end = ordinal
        """Ordinals of the oldest row that waits, and of the row to come."""
        self._begin = self._end = 0
        self._wrap: int | None = None

    @property
    def since(self) -> NDArray[np.int64]:
        """The beginnings, (n,) int64 ascending, oldest row first; a view, or a copy where the ring wraps."""
        return self._oldest(self.end - self.first)

    @property
    def oldest(self) -> int | None:
        """The beginning of the oldest row's interval; None if no row waits."""
        return None if self.first == self.end else int(self._since[self._begin])

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return (self.end - self.first) * self._since.itemsize

    def growth(self, rows: int) -> int:
        """Return by how many bytes so many more rows make it grow."""
        return rows * self._since.itemsize

    def room(self, rows: int) -> NDArray[np.int64]:
        """Let the next rows wait, and return where the beginnings of their intervals belong. Amortised O(rows)."""
        if self.first == self.end:
            self.start_at(self.end)
        if self._wrap is None and self._end + rows > self._since.size and rows < self._begin:
            self._wrap, self._end = self._end, 0
        if self._end + rows > (self._since.size if self._wrap is None else self._begin - 1):
            waiting = self.since
            self._since = np.empty(max(2 * (waiting.size + rows), self._first_room), np.int64)
            self._since[: waiting.size] = waiting
            self._begin, self._end, self._wrap = 0, waiting.size, None
        self._end += rows
        self.end += rows
        return self._since[self._end - rows : self._end]

    def take_before(self, ordinal: int) -> NDArray[np.int64]:
        """Remove the rows before that ordinal and return the beginnings of their intervals, (n,) int64.

        They may be a view, good until there is `room` for further rows, or others are folded (`begin_at`).
        """
        begins = self._oldest(min(max(ordinal - self.first, 0), self.end - self.first))
        self.first += begins.size
        self._begin += begins.size
        if self._wrap is not None and self._begin >= self._wrap:
            self._begin, self._wrap = self._begin - self._wrap, None
        return begins

    def _oldest(self, count: int) -> NDArray[np.int64]:
        """Return the beginnings of so many of the oldest rows, which wait."""
        here = count if self._wrap is None else min(count, self._wrap - self._begin)
        begins = self._since[self._begin : self._begin + here]
        return begins if here == count else np.concatenate([begins, self._since[: count - here]])

    def begin_at(self, ordinal: int) -> None:
        """Let no interval begin before that right row: what lies before was folded. O(n)."""
        # What lies between the rows that wait means nothing.
        np.maximum(self._since, ordinal, out=self._since)


def folded_from(stored: StoredValue, rows: int, waiting: range) -> int:
    """Return the first left row that was folded, of so many rows, out of what answers have saved.

    Raises
    ------
    StateError
        If these are not the oldest of the rows that wait.
    """
    first = stored["first"].whole(0, waiting.stop)
    if rows and (first != waiting.start or rows > len(waiting)):
        msg = f"{rows} left rows from {first} on were folded, but those from {waiting.start} to {waiting.stop} wait"
        raise StateError(msg)
    return first
