"""RaP-Table: partitions by splitters that each subwindow takes from the one before (PanJoin, section III-B).

Rows of a partition lie together, in a linked list adaptive table. The splitters of the first subwindow are evenly
spaced between its smallest and largest expected keys; those of each later one come from the adjustment algorithm, which
uses the row count and the smallest and largest key of each partition of the subwindow before. These histograms are
built once that subwindow is full, not updated with every row.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.index.part_format import checked
from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.papers.panjoin.kernels.llat import append_rows, measure_partitions
from slidejoin.papers.panjoin.kernels.rap_table import adjust_splitters, find_partitions, find_ranges, spread_splitters
from slidejoin.papers.panjoin.llat import Llat, bytes_of, width_of
from slidejoin.papers.panjoin.options import RapTable
from slidejoin.papers.panjoin.subwindows import Chain, Subwindow
from slidejoin.papers.sealed_rows import sealed_format

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.index.part_format import PartFormat
    from slidejoin.index.probe import Probes
    from slidejoin.spec.options import Options

__all__ = ["Partitions", "RapTableIndex"]

ROWS_A_PARTITION = 32


class Partitions(Subwindow):
    """One subwindow: splitters and the rows between them.

    Parameters
    ----------
    capacity : int
        Rows that it has room for.
    splitters : (P - 1,) int64
        Ascending: a partition has the keys above one and up to the next.
    sigma : float
        Rows of an entry, over those that each of P partitions would have.
    """

    __slots__ = ("splitters",)

    def __init__(self, capacity: int, splitters: NDArray[np.int64], sigma: float) -> None:
        self.splitters = splitters
        partitions = splitters.size + 1
        # Each reserved entry in use stands behind a full one, and fewer than P entries can be full.
        super().__init__(capacity, Llat(partitions, 2 * partitions, width_of(capacity / partitions * sigma)))

    @staticmethod
    def sealed(
        options: RapTable,
        keys: NDArray[np.int64],
        ordinals: NDArray[np.int64],
        aux: NDArray[np.int64],  # noqa: ARG004 - see `sealed_format`
    ) -> Partitions:
        """Return the full subwindow of rows in arrival order, see `slidejoin.papers.sealed_rows.sealed_format`. O(n).

        The splitters divide these very rows evenly, instead of those before them.
        """
        order = sorted_order(keys)
        ascending, partitions = keys[order], partitions_of(options, keys.size)
        splitters = ascending[np.arange(1, partitions) * keys.size // partitions - 1]
        made = Partitions(keys.size, splitters, options.sigma)
        made.insert(ascending, ordinals[order])
        made.span(keys.size, int(ordinals[0]), int(ordinals[-1]))
        return made

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return a sealed subwindow as named arrays, from which `of_arrays` restores it."""
        return {**super().arrays(), "splitters": self.splitters}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Partitions:
        """Return the subwindow that `arrays` returned; nothing is copied."""
        made = cls.of_table(arrays)
        made.splitters = checked(arrays, "splitters", (made.llat.partitions - 1,))
        return made

    def insert(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Find each row's partition, starting from the one before, and append the row."""
        targets = np.empty(keys.size, np.int32)
        find_partitions(self.splitters, keys, targets)
        append_rows(self.llat.words, targets, keys, ordinals)

    def find(
        self, probes: Probes, begin: int, order: NDArray[np.int32], lows: NDArray[np.int32], highs: NDArray[np.int32]
    ) -> None:
        """Find the partitions of the ends of ranges, each starting from the one before, see `Subwindow.find`."""
        find_ranges(self.splitters, order, probes.lo, probes.hi, begin, lows, highs)

    def histograms(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return how many rows each partition has, and its smallest and largest keys, (P,) int64 each."""
        counts, smallest, largest = (np.empty(self.llat.partitions, np.int64) for _ in range(3))
        measure_partitions(self.llat.words, counts, smallest, largest)
        return counts, smallest, largest

    def adjusted(self, partitions: int) -> NDArray[np.int64]:
        """Return splitters (partitions - 1,) int64 that would divide these rows evenly: Algorithm 1."""
        splitters = np.empty(partitions - 1, np.int64)
        adjust_splitters(*self.histograms(), splitters)
        return splitters

    @property
    def nbytes(self) -> int:
        """Bytes of splitters and table."""
        return self.splitters.nbytes + self.llat.nbytes


def partitions_of(options: RapTable, capacity: int) -> int:
    """Return the partitions of a subwindow for so many rows."""
    return min(options.partitions or max(capacity // ROWS_A_PARTITION, 1), capacity)


class RapTableIndex(Chain):
    """The index of one side's window; see `Structure`."""

    name = "rap_table"
    takes = RapTable

    def __init__(self, options: RapTable, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        self._rap, self._sigma = options, options.sigma

    @classmethod
    def part_format(cls, options: Options) -> PartFormat:
        """Return how a segment's rows are sealed: as one full subwindow."""
        assert isinstance(options, RapTable)  # noqa: S101 - the factory gives its own
        name = f"rap_table {options.partitions} {options.sigma}"
        return sealed_format(name, partial(Partitions.sealed, options), Partitions.of_arrays)

    def _subwindow(self, capacity: int, keys: NDArray[np.int64]) -> Partitions:
        """Return an empty subwindow, with splitters from the one before or spread evenly over the keys to come."""
        partitions = partitions_of(self._rap, capacity)
        with self._timed("merge"):
            before = self.chain[-1] if self.chain else None
            if isinstance(before, Partitions):
                splitters = before.adjusted(partitions)
            else:
                splitters = np.empty(partitions - 1, np.int64)
                spread_splitters(int(keys.min()), int(keys.max()), splitters)
            return Partitions(capacity, splitters, self._sigma)

    def _bytes_of(self, capacity: int) -> int:
        partitions = partitions_of(self._rap, capacity)
        width = width_of(capacity / partitions * self._sigma)
        return 8 * (partitions - 1) + bytes_of(partitions, 2 * partitions, width)
