"""Summaries of a run's values in key order, by which a range costs its ends, see `kernels.summarising`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.sorted_runs.kernels.summarising import PLACES, SUM, fill_levels, line_up, summarise
from slidejoin.runtime.addresses import address_of
from slidejoin.runtime.array_pool import ArrayPool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.sorted_runs.values_by_ordinal import ValuesByOrdinal

__all__ = ["Summaries", "ValuesByKey"]

records_pool = ArrayPool(np.int64, kept=8)


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
        line_up(address_of(words), size, base, values.addresses, values.first, self._values)
        self.address = address_of(self._values)

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return self._values.nbytes


class Summaries:
    """A record for each place of a run, and a table over blocks of places. O(rows * channels).

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
    line : tuple of int
        Where they are, for kernels: all of a line of summaries before `VALUES_AT`.
    """

    __slots__ = ("_levels", "_records", "channels", "line")

    def __init__(self, words: NDArray[np.uint64], size: int, base: int, values: ValuesByOrdinal) -> None:
        self.channels = values.channels
        others = int((values.hows != SUM).sum())
        blocks = -(-size // PLACES)
        self._records = records_pool.take((size + 1) * (len(self.channels) + others))
        levels = max((blocks - 1).bit_length(), 1) if others else 0
        self._levels = records_pool.take(levels * blocks * others).reshape(levels, blocks * others)
        first = self._levels[0] if others else np.empty(0, np.int64)
        summarise(
            address_of(words), size, base, values.addresses, values.first, values.hows, values.nothings,
            self._records, first,
        )  # fmt: skip
        if others:
            fill_levels(values.hows, self._levels)
        self.line = address_of(self._records), address_of(self._levels) if others else 0, blocks

    @property
    def nbytes(self) -> int:
        """Bytes of records and table."""
        return self._records.nbytes + self._levels.nbytes
