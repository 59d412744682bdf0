"""PIM-Tree: the partitioned in-memory merge tree, and the trees that it is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.papers.pim_tree.options import BPlusTree, ChainedBPlusTree, ChainedCssTree, IMTree, PIMTree
from slidejoin.spec.options import KNOWN_STRUCTURES

if TYPE_CHECKING:
    from slidejoin.papers.pim_tree.bplus_tree import BPlusTreeIndex
    from slidejoin.papers.pim_tree.chained import ChainedBPlusTreeIndex, ChainedCssTreeIndex
    from slidejoin.papers.pim_tree.pim_tree import PIMTreeIndex
    from slidejoin.papers.pim_tree.two_stage import IMTreeIndex

__all__: list[str] = []


def _b_plus_tree() -> type[BPlusTreeIndex]:
    from slidejoin.papers.pim_tree.bplus_tree import BPlusTreeIndex

    return BPlusTreeIndex


def _chained_b_plus_tree() -> type[ChainedBPlusTreeIndex]:
    from slidejoin.papers.pim_tree.chained import ChainedBPlusTreeIndex

    return ChainedBPlusTreeIndex


def _chained_css_tree() -> type[ChainedCssTreeIndex]:
    from slidejoin.papers.pim_tree.chained import ChainedCssTreeIndex

    return ChainedCssTreeIndex


def _im_tree() -> type[IMTreeIndex]:
    from slidejoin.papers.pim_tree.two_stage import IMTreeIndex

    return IMTreeIndex


def _pim_tree() -> type[PIMTreeIndex]:
    from slidejoin.papers.pim_tree.pim_tree import PIMTreeIndex

    return PIMTreeIndex


KNOWN_STRUCTURES.register(BPlusTree, _b_plus_tree)
KNOWN_STRUCTURES.register(ChainedBPlusTree, _chained_b_plus_tree)
KNOWN_STRUCTURES.register(ChainedCssTree, _chained_css_tree)
KNOWN_STRUCTURES.register(IMTree, _im_tree)
KNOWN_STRUCTURES.register(PIMTree, _pim_tree)
