"""The paper's immutable baseline: a CSS-tree a term, evaluated as the mutable part is (SPO-Join, section 6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.pim_tree.css_tree import CssTree
from slidejoin.papers.spo_join.two_trees import LeafArrays, TwoTrees

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CssTrees"]


class CssTrees(TwoTrees):
    """Rows that no longer change, see `slidejoin.papers.spo_join.part.Part`.

    Parameters
    ----------
    trees : list of CssTree
        Of each term; values are the rows' numbers.
    ordinals : (n,) int64
        By number.
    hashed : bool
        As of `TwoTrees`.
    """

    def __init__(self, trees: list[CssTree], ordinals: NDArray[np.int64], *, hashed: bool) -> None:
        super().__init__(hashed=hashed)
        self.trees, self._ordinals = trees, ordinals
        self._size, self._following = np.array([ordinals.size], np.int32), np.array([-1], np.int32)

    @property
    def ordinals(self) -> NDArray[np.int64]:
        """Ordinals (n,) int64 by number."""
        return self._ordinals

    def leaves(self, term: int) -> LeafArrays:
        """Return a term's sorted rows as a single leaf."""
        return LeafArrays(self.trees[term].values, self._size, self._following, self.rows)

    def starts(self, term: int, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Descend to the first entry not below each bound, see `TwoTrees`."""
        places = self.trees[term].places(bounds.ravel()).reshape(bounds.shape)
        return np.zeros_like(bounds), places

    @staticmethod
    def bytes_of(rows: int, fan_out: int) -> int:
        """Return the bytes of so many rows at most."""
        return 2 * CssTree.bytes_of(rows, fan_out) + 8 * rows

    @property
    def nbytes(self) -> int:
        """Bytes of both trees and of the ordinals."""
        return sum(tree.nbytes for tree in self.trees) + self._ordinals.nbytes
