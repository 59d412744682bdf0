"""The values of rows that aggregates read, by ordinal: looked up once, however often runs are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.sorted_runs.kernels.summarising import DOUBLE_SUM, ROWS_SHIFT, SMALLEST, SUM
from slidejoin.runtime.addresses import address_of
from slidejoin.runtime.array_pool import ArrayPool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.reduction import Channel, ValuesOf

__all__ = ["ValuesByOrdinal"]

HOW = {"sum": SUM, "double_sum": DOUBLE_SUM, "smallest": SMALLEST}

ROWS = 1 << ROWS_SHIFT

values_pool = ArrayPool(np.int64, kept=8)


class ValuesByOrdinal:
    """The values of the rows of a chain of runs, in blocks of ordinals. Blocks in which no run has a row are freed.

    Parameters
    ----------
    channels : sequence of Channel
        What is held of each row.

    Attributes
    ----------
    hows, nothings : (channels,) int64
        How values of each channel are reduced, and what no value is, for kernels.
    addresses : (blocks,) int64
        Where the values of each block of rows begin, 0 where there are none.
    first : int
        The number of the first of these blocks.
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        self.channels = tuple(channels)
        self.hows = np.array([HOW[channel.how] for channel in channels], np.int64)
        self.nothings = np.array([channel.nothing for channel in channels], np.int64)
        self.addresses, self.first = np.empty(0, np.int64), 0
        self._blocks: dict[int, NDArray[np.int64]] = {}
        self._where: dict[int, int] = {}
        self._end = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return sum(block.nbytes for block in self._blocks.values())

    def follow(self, stretches: Sequence[tuple[int, int]], values: ValuesOf) -> None:
        """Look up what is new in stretches of rows, first ordinals and numbers of rows, ascending; forget others."""
        if not self.channels:
            return
        known, needed = len(self._blocks), set[int]()
        for base, rows in stretches:
            first, end = max(base, self._end), base + rows
            if first < end:
                self._look_up(first, end, values)
                self._end = end
            needed.update(range(base >> ROWS_SHIFT, (end - 1 >> ROWS_SHIFT) + 1))
        gone = self._blocks.keys() - needed
        for number in gone:
            del self._blocks[number], self._where[number]
        if gone or len(self._blocks) != known:
            self._line_up()

    def _look_up(self, first: int, end: int, values: ValuesOf) -> None:
        """Write the values of rows first…end-1 into their blocks."""
        ordinals = np.arange(first, end)
        columns = values(self.channels, ordinals)
        for number in range(first >> ROWS_SHIFT, (end - 1 >> ROWS_SHIFT) + 1):
            block = self._blocks.get(number)
            if block is None:
                block = values_pool.take(ROWS * len(self.channels)).reshape(ROWS, len(self.channels))
                self._blocks[number], self._where[number] = block, address_of(block)
            begin, stop = max(first, number << ROWS_SHIFT), min(end, number + 1 << ROWS_SHIFT)
            for place, column in enumerate(columns):
                block[begin & ROWS - 1 : (stop - 1 & ROWS - 1) + 1, place] = column[begin - first : stop - first]

    def _line_up(self) -> None:
        """Note where the blocks lie."""
        self.first = min(self._where, default=0)
        self.addresses = np.zeros(max(self._where, default=-1) + 1 - self.first, np.int64)
        self.addresses[np.array(list(self._where), np.int64) - self.first] = list(self._where.values())
