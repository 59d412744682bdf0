"""The values of rows that aggregates read: by ordinal, in the order of a run's keys, and summarised.

Values are looked up once by ordinal, however often runs are merged. Summaries of a run's values in key order make a
range cost its ends, see `kernels.summarising`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.sorted_runs.kernels.summarising import (
    DOUBLE_SUM,
    PLACES,
    ROWS_SHIFT,
    SMALLEST,
    SUM,
    ValuesInBlocks,
    fill_levels,
    line_up,
    summarise,
)
from slidejoin.runtime.array_pool import ArrayPool, address_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.deferred import Channel, ValuesOf

__all__ = ["Summaries", "ValuesByKey", "ValuesByOrdinal"]

HOW = {"sum": SUM, "double_sum": DOUBLE_SUM, "smallest": SMALLEST}

ROWS = 1 << ROWS_SHIFT

values_pool = ArrayPool(np.int64, most=8)


class ValuesByOrdinal:
    """The values of the rows of a chain of runs, in blocks of ordinals. Blocks in which no run has a row are freed.

    Parameters
    ----------
    channels : sequence of Channel
        What is held of each row.

    Attributes
    ----------
    by_row : ValuesInBlocks
        The values for kernels; the address of a block of which there are none is 0.
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        self.channels = tuple(channels)
        hows = np.array([HOW[channel.how] for channel in channels], np.int64)
        nothings = np.array([channel.nothing for channel in channels], np.int64)
        self.by_row = ValuesInBlocks(np.empty(0, np.int64), 0, hows, nothings)
        self._blocks: dict[int, NDArray[np.int64]] = {}
        self._where: dict[int, int] = {}
        self._end = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return sum(block.nbytes for block in self._blocks.values())

    def follow(self, stretches: Sequence[tuple[int, int]], values: ValuesOf) -> None:
        """Look up what is new in stretches of rows, first ordinals and numbers of rows, ascending; free others."""
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
        first = min(self._where, default=0)
        addresses = np.zeros(max(self._where, default=-1) + 1 - first, np.int64)
        addresses[np.array(list(self._where), np.int64) - first] = list(self._where.values())
        self.by_row = self.by_row._replace(blocks=addresses, first=first)


records_pool = ArrayPool(np.int64, most=8)


class ValuesByKey:
    """The values of a run's rows in the order of its keys, for ranges in which each row is looked at.

    Parameters
    ----------
    words : (size + PAD,) uint64
        Of a run with at least one key.
    size, base : int
        Its keys, and the ordinal of its first row.
    values : ValuesByOrdinal
        Of its rows.

    Attributes
    ----------
    channels : tuple of Channel
    address : int
        Where they are: the values of all rows of one channel after the other.
    """

    __slots__ = ("_values", "address", "channels")

    def __init__(self, words: NDArray[np.uint64], size: int, base: int, values: ValuesByOrdinal) -> None:
        self.channels = values.channels
        self._values = np.empty((len(self.channels), size), np.int64)
        line_up(address_of(words), size, base, values.by_row, self._values)
        self.address = address_of(self._values)

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return self._values.nbytes


class Summaries:
    """A record for each place of a run, and a table over blocks of places. O(rows * channels).

    The parameters are those of `ValuesByKey`.

    Attributes
    ----------
    channels : tuple of Channel
    line : tuple of int
        Where they are, for kernels: all of a line of summaries before `VALUES_AT`.
    """

    __slots__ = ("_levels", "_records", "channels", "line")

    def __init__(self, words: NDArray[np.uint64], size: int, base: int, values: ValuesByOrdinal) -> None:
        self.channels = values.channels
        others = int((values.by_row.hows != SUM).sum())
        blocks = -(-size // PLACES)
        self._records = records_pool.take((size + 1) * (len(self.channels) + others))
        levels = max((blocks - 1).bit_length(), 1) if others else 0
        self._levels = records_pool.take(levels * blocks * others).reshape(levels, blocks * others)
        first = self._levels[0] if others else np.empty(0, np.int64)
        summarise(address_of(words), size, base, values.by_row, self._records, first)
        if others:
            fill_levels(values.by_row.hows, self._levels)
        self.line = address_of(self._records), address_of(self._levels) if others else 0, blocks

    @property
    def nbytes(self) -> int:
        """Bytes of records and table."""
        return self._records.nbytes + self._levels.nbytes
