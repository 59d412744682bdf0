"""Chained index of B+-trees, in which archived sub-indexes stay as they are (PIM-Tree, 2.2.2, and B-chain in 5.1)."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, cast

from slidejoin.papers.pim_tree.chained import ChainedIndex
from slidejoin.papers.pim_tree.mutable_tree import MutableTree
from slidejoin.papers.pim_tree.options import ChainedBPlusTree
from slidejoin.papers.structure import AT_FIRST

if TYPE_CHECKING:
    from slidejoin.papers.pim_tree.chained import Link
    from slidejoin.spec.options import Options

__all__ = ["ChainedBPlusTreeIndex"]


class ChainedBPlusTreeIndex(ChainedIndex):
    """The index of one side's window; see `ChainedIndex`."""

    name = "chained_bplus_tree"

    def __init__(self, options: Options, dims: int, rows: int | None, first: int) -> None:
        if not isinstance(options, ChainedBPlusTree):
            msg = f"options of chained_bplus_tree must be ChainedBPlusTree, got {options!r}"
            raise TypeError(msg)
        super().__init__(options, dims, rows, first, options.chain_length, options.fan_out)
        # Memory of the last sub-index that was dropped; the next active one fills it again.
        self._spare: MutableTree | None = None

    def archive(self) -> Link:
        """Leave the active sub-index as it is, and begin another."""
        archived, self.active, self._spare = self.active, self._spare or self._new_tree(), None
        return archived

    def drop(self, link: Link) -> None:
        """Keep the nodes for the next active sub-index."""
        start = perf_counter()
        self._spare = cast("MutableTree", link)
        self._spare.clear()
        self.seconds["delete"] += perf_counter() - start

    @property
    def held_bytes(self) -> int:
        """Bytes of all sub-indexes, and of the one that is kept for reuse."""
        return super().held_bytes + (self._spare.nbytes if self._spare else 0)

    def begun_growth(self, sizes: list[int]) -> int:
        """Return the bytes of all trees that are begun."""
        first = AT_FIRST if self.rows is None else min(self.rows, AT_FIRST)
        return sum(MutableTree.most_bytes(self.fan_out, first, rows) for rows in sizes[1:])
