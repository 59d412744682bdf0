"""Rows with a tree for each term: both ranges become sets of rows, which are intersected (SPO-Join, section 4.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slidejoin.papers.pim_tree.kernels.bplus_nodes import NOTHING
from slidejoin.papers.spo_join.kernels.sets import intersect_bit_sets, intersect_hash_sets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.papers.spo_join.boxes import ProbeBoxes
    from slidejoin.papers.spo_join.kernels.sets import Tree

__all__ = ["LeafArrays", "TwoTrees"]

HIGHEST = np.iinfo(np.int64).max
WORD, HALF = 64, 32

TOGETHER = 1 << 10
"""Probes whose ranges are looked up before their rows are read: the places stay in the cache."""


class LeafArrays(NamedTuple):
    """The leaves of a tree, see `slidejoin.papers.spo_join.kernels.sets`.

    Attributes
    ----------
    values : int64
        Numbers of rows by ascending key.
    sizes, following : int32
    fan_out : int
    """

    values: NDArray[np.int64]
    sizes: NDArray[np.int32]
    following: NDArray[np.int32]
    fan_out: int


class TwoTrees(ABC):
    """Some rows of the window, see `slidejoin.papers.spo_join.part.Part`.

    Parameters
    ----------
    hashed : bool
        Whether rows are collected in hash sets, instead of bit sets.
    """

    def __init__(self, *, hashed: bool) -> None:
        self._hashed = hashed

    @property
    @abstractmethod
    def ordinals(self) -> NDArray[np.int64]:
        """Ordinals (n,) int64 by number: by arrival."""

    @abstractmethod
    def leaves(self, term: int) -> LeafArrays:
        """Return the leaves of the tree of term 0 or 1."""

    @abstractmethod
    def starts(self, term: int, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return leaf and place of the first entry with a key not below each bound, (k, m) int64 each."""

    @property
    def rows(self) -> int:
        """How many."""
        return self.ordinals.size

    @property
    def newest(self) -> int:
        """Ordinal of the newest row."""
        return int(self.ordinals[-1])

    def _tree(self, term: int, lo: NDArray[np.int64], hi: NDArray[np.int64]) -> Tree:
        """Return what `papers.spo_join.kernels.sets` takes of a tree: its leaves and where ranges are in them."""
        if not lo.shape[0]:
            nothing = np.empty((0, lo.shape[1]), np.int64)
            return (*self.leaves(0), nothing, nothing, nothing, nothing)
        first, places = self.starts(term, np.ascontiguousarray(lo))
        open_ended = hi == HIGHEST
        last, last_places = self.starts(term, np.where(open_ended, hi, hi + ~open_ended))
        last[open_ended] = NOTHING
        first[lo > hi] = NOTHING
        return (*self.leaves(term), first, places, last, last_places)

    def _evaluate(
        self,
        boxes: ProbeBoxes,
        begin: int,
        end: int,
        counts: NDArray[np.int64],
        found: NDArray[np.int64],
        *,
        write: bool,
    ) -> tuple[int, int]:
        """Answer probes begin…end-1, as `Part.walk` and, without `write`, as `Part.count`."""
        total, ordinals, result = 0, self.ordinals, np.empty(2, np.int64)
        if not ordinals.size:
            counts[begin:end] = 0
            return end, 0
        words = ordinals.size // WORD + 1
        sets = np.empty(words, np.uint64), np.empty(words, np.uint64)
        # Twice the rows at least, so that few slots are looked at for each.
        power = max((2 * ordinals.size - 1).bit_length(), 1)
        for first in range(begin, end, TOGETHER):
            last = min(first + TOGETHER, end)
            part = slice(first, last)
            given = (
                self._tree(0, boxes.lo[:, part], boxes.hi[:, part]),
                self._tree(1, boxes.lo_2[:, part], boxes.hi_2[:, part]),
                ordinals, boxes.seen_from[part], boxes.seen_to[part], write,
            )  # fmt: skip
            if self._hashed:
                table = np.zeros(1 << power, np.int64)
                intersect_hash_sets(*given, HALF - power, table, counts[first:last], found[total:], result)
            else:
                intersect_bit_sets(*given, *sets, counts[first:last], found[total:], result)
            total += int(result[1])
            if result[0] < last - first:
                return first + int(result[0]), total
        return end, total

    def count(self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64]) -> None:
        """Count the rows of each probe, see `Part`."""
        self._evaluate(boxes, begin, end, counts, counts[:0], write=False)

    def walk(
        self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64], found: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Find the rows of probes until the room is full, see `Part`."""
        return self._evaluate(boxes, begin, end, counts, found, write=True)
