"""A ring buffer of values by ordinal: one value for each row of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OrdinalRing", "ring_rows"]

FIRST_ROWS = 64


def ring_rows(span: int) -> int:
    """Return the size of a ring for so many ordinals: the next power of two, at least 64.

    Examples
    --------
    >>> [ring_rows(span) for span in (0, 64, 65)]
    [64, 64, 128]
    """
    return max(1 << max(span - 1, 0).bit_length(), FIRST_ROWS)


class OrdinalRing:
    """Values of each row, the row with ordinal o at ``(o + offset) & (rows - 1)``.

    Parameters
    ----------
    columns : int
        Values of each row, int64.
    offset : int, default 0
        Added to an ordinal: 1 where kernels use positions, which are ordinal + 1.

    Attributes
    ----------
    values : (rows, columns) int64
        Without rows until the first ones come; then a power of two of them.

    Examples
    --------
    >>> ring = OrdinalRing(1)
    >>> ring.put([np.array([[7], [8]])], first=63, floor=63)
    >>> ring.values[[63, 0]].ravel().tolist()
    [7, 8]
    """

    def __init__(self, columns: int, offset: int = 0) -> None:
        self.values: NDArray[np.int64] = np.empty((0, columns), np.int64)
        self._offset = offset

    def put(self, parts: list[NDArray[np.int64]], first: int, floor: int) -> None:
        """Take the newest rows, with ordinals from `first` on, and keep those from `floor` on.

        The `parts`, (n, c) int64 each, are adjacent columns; together they have all columns.
        """
        count, old = parts[0].shape[0], self.values
        if old.shape[0] < first + count - floor:
            self.values = np.empty((ring_rows(first + count - floor), old.shape[1]), np.int64)
            self._copy(old, floor + self._offset, first + self._offset)
        rows, done = self.values.shape[0], 0
        while done < count:
            at = (first + done + self._offset) & (rows - 1)
            some, column = min(rows - at, count - done), 0
            for part in parts:
                self.values[at : at + some, column : column + part.shape[1]] = part[done : done + some]
                column += part.shape[1]
            done += some

    def _copy(self, old: NDArray[np.int64], begin: int, end: int) -> None:
        """Copy the lines begin…end-1 of a smaller ring, in stretches in which neither of both rings wraps around."""
        new = self.values
        while begin < end and old.shape[0]:
            at, to = begin & (old.shape[0] - 1), begin & (new.shape[0] - 1)
            some = min(old.shape[0] - at, new.shape[0] - to, end - begin)
            new[to : to + some] = old[at : at + some]
            begin += some

    def growth(self, span: int) -> int:
        """Return by how many bytes it grows to hold so many ordinals."""
        rows = self.values.shape[0]
        return 0 if span <= rows else (ring_rows(span) - rows) * self.values.shape[1] * self.values.itemsize
