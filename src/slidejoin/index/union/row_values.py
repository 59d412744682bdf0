"""What rows have in the branches before the last: by this a later branch knows which rows an earlier one finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.union.kernels.earlier import BranchValues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.keys import RowKeys

__all__ = ["RowValues", "columns_of", "values_of"]

FIRST_ROWS = 64

NO_ORDINALS = np.empty(0, np.int64)

SPARSE = 4
"""A stretch of ordinals of which fewer than one in so many rows live is stored without those that have expired."""


def values_of(rows: RowKeys) -> NDArray[np.int64]:
    """Return the values of rows, (n, columns) int64.

    Column 0 has a bit for each branch but the last in which a row takes part; then follow, for each of these branches,
    its key and its further dimensions.
    """
    branches = rows.branches[:-1]
    values = np.zeros((rows.rows, 1 + sum(1 + one.aux.shape[1] for one in branches)), np.int64)
    column = 1
    for number, one in enumerate(branches):
        values[:, 0] |= (np.int64(1) << number) if one.matchable is None else one.matchable.astype(np.int64) << number
        values[:, column] = one.keys
        values[:, column + 1 : column + 1 + one.aux.shape[1]] = one.aux
        column += 1 + one.aux.shape[1]
    return values


class RowValues:
    """The values of the rows of one window, by ordinal.

    The place of a row is its ordinal's distance from the first one, as long as few of the rows between have expired. In
    a time window one row far ahead may outlive all that come after it: then only rows that live are stored, with their
    ordinals, and located by a binary search.

    Parameters
    ----------
    columns : int
        As of `values_of`.
    time : int or None
        The column by which rows of a time window expire.
    first : int
        Ordinal of the first row.
    room : int
        For how many rows there is room at first.

    Attributes
    ----------
    next : int
        Ordinal of the row to come.
    """

    def __init__(self, columns: int, time: int | None, first: int, room: int = FIRST_ROWS) -> None:
        self._room = room
        self._values: NDArray[np.int64] = np.empty((room, columns), np.int64)
        self._ordinals: NDArray[np.int64] | None = None
        self._time, self._oldest = time, np.iinfo(np.int64).min
        self._rows = 0
        self._first = self._floor = self.next = first

    def put(self, values: NDArray[np.int64]) -> None:
        """Take the newest rows, (n, columns) int64. O(n), on average."""
        rows = values.shape[0]
        if self._rows + rows > self._values.shape[0]:
            self._make_room(rows)
        self._values[self._rows : self._rows + rows] = values
        if self._ordinals is not None:
            self._ordinals[self._rows : self._rows + rows] = np.arange(self.next, self.next + rows)
        self._rows += rows
        self.next += rows

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one: rows that have expired already."""
        if ordinal <= self.next:
            return
        if self._rows == 0 and self._ordinals is None:
            self._first = ordinal
        elif self._ordinals is None:
            self._ordinals = self._numbered(self._values.shape[0])
        self.next = ordinal

    def expire(self, ordinal: int) -> None:
        """Expire the rows before that ordinal: they go when room is needed."""
        self._floor = max(self._floor, ordinal)

    def expire_below(self, time: int) -> None:
        """Expire the rows of a time window with a smaller time."""
        self._oldest = max(self._oldest, time)

    def _numbered(self, capacity: int) -> NDArray[np.int64]:
        ordinals = np.empty(capacity, np.int64)
        ordinals[: self._rows] = np.arange(self._first, self._first + self._rows)
        return ordinals

    def _make_room(self, coming: int) -> None:
        """Drop rows that have expired, and take larger memory if half of it would not do."""
        rows, ordinals = self._rows, self._ordinals
        begin = (
            max(self._floor - self._first, 0)
            if ordinals is None
            else int(np.searchsorted(ordinals[:rows], self._floor))
        )
        live = slice(min(begin, rows), rows)
        chosen: slice | NDArray[np.intp] = live
        if self._time is not None:
            alive = np.flatnonzero(self._values[live, self._time] >= self._oldest) + live.start
            if SPARSE * alive.size < rows - live.start or ordinals is not None:
                ordinals, chosen = self._numbered(rows) if ordinals is None else ordinals, alive
        old, rest = self._values, rows - live.start if isinstance(chosen, slice) else chosen.size
        capacity = _capacity(rest, coming, self._room)
        self._values = np.empty((capacity, old.shape[1]), np.int64)
        self._values[:rest] = old[chosen]
        self._rows, self._ordinals = rest, None
        if ordinals is None:
            self._first += live.start
            return
        left = ordinals[:rows][chosen]
        self._first = int(left[0]) if rest else self.next
        if self.next - self._first > rest:
            self._ordinals = np.empty(capacity, np.int64)
            self._ordinals[:rest] = left

    @property
    def stored(self) -> BranchValues:
        """The rows, for a kernel; use it before the next ones come."""
        ordinals = NO_ORDINALS if self._ordinals is None else self._ordinals[: self._rows]
        return BranchValues(self._values, self._rows, ordinals, self._first)

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return self._values.nbytes + (0 if self._ordinals is None else self._ordinals.nbytes)

    def growth(self, rows: int) -> int:
        """Return by how many bytes that many more rows make it grow at most, the old memory besides the new."""
        if self._rows + rows <= self._values.shape[0]:
            return 0
        values = self._values.shape[1] + (self._time is not None)
        return int(_capacity(self._rows, rows, self._room) * values * self._values.itemsize)


def _capacity(stored: int, coming: int, least: int) -> int:
    """Return for how many rows to have memory: room is made again after half as many as are stored."""
    return stored + coming + max(stored // 2, coming, least)


def columns_of(branches: Sequence[int]) -> NDArray[np.int64]:
    """Return the column of each branch's key, (b,) int64, of branches with so many further dimensions each.

    Examples
    --------
    >>> columns_of([0, 2, 1]).tolist()
    [1, 2, 5]
    """
    return np.cumsum([1, *(1 + dims for dims in branches)])[:-1]
