"""A merge: leaves of the mutable part's trees become an immutable structure, in linear time (SPO-Join, 4.2).

It is done in steps, so that it can go on beside pushes. Meanwhile the trees take no rows, and are still probed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.pim_tree.css_tree import CssTree
from slidejoin.papers.spo_join.kernels.permuting import LEAF, OUT, READING, read_first, read_second, read_values
from slidejoin.papers.spo_join.permuted_rows import PermutedRows
from slidejoin.papers.spo_join.two_trees import CssTrees

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.papers.spo_join.options import POJoin
    from slidejoin.papers.spo_join.part import Part
    from slidejoin.papers.spo_join.two_trees import MutableRows

__all__ = ["PartMerge", "merged_bytes"]


class PartMerge:
    """A running merge.

    Parameters
    ----------
    frozen : MutableRows
        What is merged, at least a row; it may not change meanwhile.
    options : POJoin
        Which structure is made.
    """

    def __init__(self, frozen: MutableRows, options: POJoin) -> None:
        self.frozen, self._options = frozen, options
        rows, terms = frozen.rows, len(frozen.trees)
        self._states = [np.zeros(READING, np.int64) for _ in range(terms)]
        for state, tree in zip(self._states, frozen.trees, strict=True):
            state[LEAF] = tree.first_leaf
        self._css = [CssTree(rows, options.immutable_fan_out) for _ in range(terms if self._in_trees else 0)]
        self._filled = 0
        permuted = 0 if self._in_trees else rows
        self._keys, self._ordinals = (np.empty(permuted, np.int64) for _ in range(2))
        # The paper's tmp; it is not kept.
        self._place_of = np.empty(permuted, np.int32)
        second = permuted if terms > 1 else 0
        self._keys_2, self._permutation = np.empty(second, np.int64), np.empty(second, np.int32)

    @property
    def _in_trees(self) -> bool:
        return self._options.immutable != "po_join"

    def work(self, steps: int) -> bool:
        """Do so much of it, a row each; return whether all is done."""
        for term, state in enumerate(self._states):
            before = int(state[OUT])
            if before < self.frozen.rows:
                self._read(term, steps, state)
                steps -= int(state[OUT]) - before
                if steps <= 0:
                    break
        if self._states[-1][OUT] < self.frozen.rows:
            return False
        if self._css and steps > 0:
            first, leaves = self._filled, self._css[0].leaves
            self._filled = min(leaves, first + steps)
            for tree in self._css:
                tree.fill(first, self._filled)
        return not self._css or self._filled == self._css[0].leaves

    def _read(self, term: int, steps: int, state: NDArray[np.int64]) -> None:
        """Read so many rows of a term's tree."""
        leaves = self.frozen.trees[term].leaves
        if self._css:
            read_values(*leaves, steps, self._css[term].keys, self._css[term].values, state)
        elif term == 0:
            read_first(
                *leaves, self.frozen.ordinals, steps, self._keys, self._ordinals, self._place_of, state
            )  # fmt: skip
        else:
            read_second(*leaves, steps, self._keys_2, self._place_of, self._permutation, state)

    def finish(self) -> Part:
        """Do the rest, and return the structure."""
        while not self.work(3 * self.frozen.rows):
            pass
        options = self._options
        if self._css:
            return CssTrees(self._css, self.frozen.ordinals.copy(), hashed=options.immutable == "css_hash_set")
        return PermutedRows(
            self._keys, self._ordinals, self._keys_2, self._permutation, tuple_by_tuple=options.tuple_by_tuple
        )

    @property
    def nbytes(self) -> int:
        """Bytes of what is written."""
        made = (self._keys, self._ordinals, self._place_of, self._keys_2, self._permutation)
        return sum(one.nbytes for one in made) + sum(tree.nbytes for tree in self._css)


def merged_bytes(rows: int, parts: int, options: POJoin) -> int:
    """Return the bytes of so many rows in so many structures at most, with those of a merge."""
    if options.immutable == "po_join":
        return PermutedRows.bytes_of(rows) + 4 * rows
    return CssTrees.bytes_of(rows, options.immutable_fan_out) + parts * CssTrees.bytes_of(1, options.immutable_fan_out)
