"""A mark for each row of a window: whether it is in a pair.

Marks are bits by ordinal, in blocks of 4,096 ordinals. A block is freed when the payload keeps no row of it, wherever
it lies: one row far ahead in time does not keep the marks of all that come after it. Freed blocks are used again, so a
sliding window touches no new memory. A list of blocks says where each is: 8 bytes for 4,096 rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.kernels.matched import BLOCK_SHIFT, Marks, keep_first_matches, keep_unmarked, mark_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["MatchedRows"]

BLOCK = 1 << BLOCK_SHIFT

WORDS = BLOCK // 64
"""Words of a block."""

FREED = -1
"""Stands for the place of a block that no row is in."""


class MatchedRows:
    """The marks of one side's rows.

    Examples
    --------
    >>> matched = MatchedRows()
    >>> matched.extend(6)
    >>> matched.mark(np.array([4, 1, 4]))
    >>> matched.without(np.arange(6)).tolist()
    [0, 2, 3, 5]
    """

    def __init__(self) -> None:
        self._marks = np.zeros(WORDS, np.uint64)
        self._free = [0]
        self._blocks = np.empty(0, np.int64)
        # The numbers of the first block, and of the one behind the last.
        self._first = self._last = 0

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return int(self._marks.nbytes + self._blocks.nbytes)

    def growth(self, end: int, rows: int) -> int:
        """Return by how many bytes so many more rows, after the ordinal `end`, make it grow at most."""
        blocks = max((end + rows + BLOCK - 1 >> BLOCK_SHIFT) - self._last, 0)
        return (8 * WORDS + 16) * max(blocks - len(self._free), 0) + 16 * blocks + self._marks.nbytes // 4

    # -- coming and leaving --------------------------------------------------------------------------------------------

    def start_at(self, ordinal: int) -> None:
        """Forget all rows, and let the next one have that ordinal."""
        self._free += self._blocks[self._blocks != FREED].tolist()
        self._first = self._last = ordinal >> BLOCK_SHIFT
        self._blocks = np.empty(0, np.int64)

    def extend(self, end: int) -> None:
        """Make room for the rows before that ordinal, which have no mark."""
        last = end + BLOCK - 1 >> BLOCK_SHIFT
        if last <= self._last:
            return
        more = last - self._last
        if more > len(self._free):
            self._grow(more - len(self._free))
        places = np.array(self._free[-more:], np.int64)
        del self._free[-more:]
        self._marks.reshape(-1, WORDS)[places // WORDS] = 0
        self._blocks = np.concatenate([self._blocks, places])
        self._last = last

    def _grow(self, blocks: int) -> None:
        size = self._marks.size
        more = max(blocks, size // WORDS // 4)
        self._marks = np.concatenate([self._marks, np.zeros(more * WORDS, np.uint64)])
        self._free += range(size, size + more * WORDS, WORDS)

    def keep_only(self, stretches: Sequence[tuple[int, int]]) -> None:
        """Forget the rows that are in none of these stretches: first ordinals and numbers of rows, ascending."""
        live = np.zeros(self._blocks.size, np.bool_)
        for first, rows in stretches:
            if rows:
                live[(first >> BLOCK_SHIFT) - self._first : (first + rows - 1 >> BLOCK_SHIFT) - self._first + 1] = True
        if live.size and not live[-1]:
            live[-1] = True  # the next rows may be in it
        gone = self._blocks[~live]
        self._free += gone[gone != FREED].tolist()
        self._blocks[~live] = FREED
        skipped = int(live.argmax()) if live.size else 0
        if skipped:
            self._blocks = self._blocks[skipped:]
            self._first += skipped

    # -- marks ---------------------------------------------------------------------------------------------------------

    def mark(self, ordinals: NDArray[np.int64]) -> None:
        """Set the marks of rows, (n,) int64, each any number of times. O(n)."""
        mark_rows(self.view, ordinals)

    def first_matches(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Set marks, and return the places of the rows that had none: of each row, (n,) int64, the first one. O(n)."""
        firsts = np.empty(ordinals.size, np.int64)
        return firsts[: keep_first_matches(self.view, ordinals, firsts)]

    def without(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of the rows, (n,) int64, that have no mark. O(n)."""
        unmatched = np.empty(ordinals.size, np.int64)
        return unmatched[: keep_unmarked(self.view, ordinals, unmatched)]

    @property
    def view(self) -> Marks:
        """The marks as kernels take them."""
        return Marks(self._marks, self._blocks, self._first)

    # -- state ---------------------------------------------------------------------------------------------------------

    def of(self, stretches: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
        """Return which rows of these stretches have a mark, (rows,)."""
        marked = np.ones(sum(rows for _, rows in stretches), np.bool_)
        marked[self.without(_ordinals(stretches))] = False
        return marked

    def load(self, stretches: Sequence[tuple[int, int]], marks: NDArray[np.bool_], end: int) -> None:
        """Take the rows of these stretches with marks (rows,); rows to come begin at the ordinal `end`."""
        self.start_at(stretches[0][0] if stretches else end)
        for first, rows in stretches:
            self._skip(first >> BLOCK_SHIFT)
            self.extend(first + rows)
        self._skip(end - 1 >> BLOCK_SHIFT)  # the next rows may be in that block
        self.extend(end)
        self.mark(_ordinals(stretches)[marks])

    def _skip(self, block: int) -> None:
        """Let no row be in the blocks before that one that there are not yet."""
        if block > self._last:
            self._blocks = np.concatenate([self._blocks, np.full(block - self._last, FREED)])
            self._last = block


def _ordinals(stretches: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *(np.arange(first, first + rows) for first, rows in stretches)])
