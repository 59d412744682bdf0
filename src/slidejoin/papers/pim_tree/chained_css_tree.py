"""Chained index whose archived sub-indexes are immutable B+-trees (PIM-Tree, IB-chain in section 5.1).

Rows are inserted into a B+-tree. When that is archived, its rows, which are in order, become a CSS-tree (section 3.1),
which is smaller and faster to search and scan, and the B+-tree is emptied for the rows that follow.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.pim_tree.chained import ChainedIndex
from slidejoin.papers.pim_tree.css_tree import FAN_OUT, CssTree, nodes_of, width
from slidejoin.papers.pim_tree.kernels.chains import scan_sorted
from slidejoin.papers.pim_tree.options import ChainedCssTree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes
    from slidejoin.papers.pim_tree.chained import Link
    from slidejoin.spec.options import Options

__all__ = ["ChainedCssTreeIndex"]

SEARCHED_AT_ONCE = 1 << 10
"""Probes that search before they scan: what both read stays in the cache."""


class ArchivedTree:
    """An archived sub-index.

    Parameters
    ----------
    tree : CssTree
        Its rows.
    seconds : dict of str to float
        Takes the time of ``search`` and ``scan``.
    """

    def __init__(self, tree: CssTree, seconds: dict[str, float]) -> None:
        self.tree, self.seconds, self.rows = tree, seconds, tree.size

    @property
    def nbytes(self) -> int:
        """Bytes of the tree."""
        return self.tree.nbytes

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], found: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Search the place where each range begins and read on from there, see `Structure.walk`."""
        result, tree = np.array([begin, 0]), self.tree
        for first in range(begin, end, SEARCHED_AT_ONCE):
            last = min(first + SEARCHED_AT_ONCE, end)
            start = perf_counter()
            places = [tree.places(bounds[first:last]) for bounds in probes.lo]
            begun = places[0][None] if len(places) == 1 else np.stack(places)
            middle = perf_counter()
            scan_sorted(
                tree.keys, tree.values[: tree.size], begun, probes.lo, probes.hi, probes.seen_from, probes.seen_to,
                first, last, int(result[1]), counts, found, result,
            )  # fmt: skip
            self.seconds["search"] += middle - start
            self.seconds["scan"] += perf_counter() - middle
            if result[0] < last:
                break
        return int(result[0]), int(result[1])


class ChainedCssTreeIndex(ChainedIndex):
    """The index of one side's window; see `ChainedIndex`."""

    name = "chained_css_tree"

    def __init__(self, options: Options, dims: int, rows: int | None, first: int) -> None:
        if not isinstance(options, ChainedCssTree):
            msg = f"options of chained_css_tree must be ChainedCssTree, got {options!r}"
            raise TypeError(msg)
        super().__init__(options, dims, rows, first, options.chain_length, options.fan_out)

    def archive(self) -> Link:
        """Make a CSS-tree of the active sub-index, and empty that."""
        start = perf_counter()
        archived = ArchivedTree(CssTree.built(*self.active.entries()), self.seconds)
        self.active.clear()
        self.seconds["merge"] += perf_counter() - start
        return archived

    def drop(self, link: Link) -> None:
        """Do nothing: its memory is freed with the last reference."""

    def begun_growth(self, sizes: list[int]) -> int:
        """Return the bytes of all CSS-trees; the B+-tree is used again."""
        inner = width(FAN_OUT) * 8
        return sum(16 * rows + inner * (sum(nodes_of(rows, FAN_OUT)) + 4) for rows in sizes)
