"""The mutable part: a B+-tree for each term, into which rows are inserted one by one (SPO-Join, section 4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.pim_tree.mutable_tree import MutableTree
from slidejoin.papers.spo_join.two_trees import LeafArrays, TwoTrees
from slidejoin.papers.structure import AT_FIRST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.papers.spo_join.part import Part

__all__ = ["MutableRows"]

ORDINAL_BYTES = 8


class MutableRows(TwoTrees):
    """The newest rows of the window, see `slidejoin.papers.spo_join.part.Part`.

    Parameters
    ----------
    terms : int
        One or two.
    fan_out : int
        Entries of a node.
    seconds : dict of str to float
        Takes the time of ``insert``.
    hashed : bool
        As of `TwoTrees`.

    Attributes
    ----------
    permuted : Part, optional
        The same rows as a merge would leave them, if they have been read; until there are others.
    """

    def __init__(self, terms: int, fan_out: int, seconds: dict[str, float], *, hashed: bool) -> None:
        super().__init__(hashed=hashed)
        self.trees = [MutableTree(fan_out, AT_FIRST, seconds) for _ in range(terms)]
        self._ordinals = np.empty(AT_FIRST, np.int64)
        self.permuted: Part | None = None

    @property
    def ordinals(self) -> NDArray[np.int64]:
        """Ordinals (n,) int64 by number."""
        return self._ordinals[: self.trees[0].rows]

    @property
    def rows(self) -> int:
        """How many."""
        return self.trees[0].rows

    def insert(self, keys: list[NDArray[np.int64]], ordinals: NDArray[np.int64]) -> None:
        """Insert the newest rows: keys (n,) int64 of each term, and their ordinals. O(n log(rows))."""
        first, past = self.rows, self.rows + ordinals.size
        self.permuted = None
        if past > self._ordinals.size:
            self._ordinals = np.concatenate([self.ordinals, np.empty(max(past, 2 * first) - first, np.int64)])
        self._ordinals[first:past] = ordinals
        numbers = np.arange(first, past)
        for tree, own in zip(self.trees, keys, strict=True):
            tree.insert(own, numbers)

    def clear(self) -> None:
        """Remove all rows, and keep the memory of the trees."""
        self.permuted = None
        for tree in self.trees:
            tree.clear()

    def leaves(self, term: int) -> LeafArrays:
        """Return the leaves of a term's tree."""
        return LeafArrays(*self.trees[term].leaves[1:])

    def starts(self, term: int, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Descend to the first entry not below each bound, see `TwoTrees`."""
        leaves, places = np.empty_like(bounds), np.empty_like(bounds)
        self.trees[term].starts(bounds, 0, bounds.shape[1], leaves, places)
        return leaves, places

    @property
    def nbytes(self) -> int:
        """Bytes of all nodes, of the ordinals, and of the rows as they have been read."""
        read = 0 if self.permuted is None else self.permuted.nbytes
        return sum(tree.nbytes for tree in self.trees) + self._ordinals.nbytes + read

    def growth(self, rows: int) -> int:
        """Return by how many bytes that many more rows make it grow at most."""
        past = self.rows + rows
        ordinals = 0 if past <= self._ordinals.size else max(past, 2 * self.rows) * ORDINAL_BYTES
        return sum(tree.growth(rows) for tree in self.trees) + ordinals

    @staticmethod
    def most_bytes(terms: int, fan_out: int, rows: int) -> int:
        """Return the bytes of an empty one that so many rows are put into, at most."""
        ordinals = ORDINAL_BYTES * max(2 * rows, AT_FIRST)
        return terms * MutableTree.most_bytes(fan_out, AT_FIRST, rows) + ordinals
