"""The class of each structure's options; its module is loaded, and its kernels compiled, when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.spec import options as of

if TYPE_CHECKING:
    from collections.abc import Callable

    from slidejoin.index.structure import Structure
    from slidejoin.spec.options import Options

__all__ = ["make_structure", "structure_class"]


def make_structure(options: Options, dims: int, rows: int | None, first: int) -> Structure:
    """Return an empty structure, see `Structure`."""
    return structure_class(type(options))(options, dims, rows, first)


def structure_class(options: type[Options]) -> type[Structure]:
    """Return the class that is made of options of this class."""
    return _CLASSES[options]()


def _nested_loop() -> type[Structure]:
    from slidejoin.index.scans.nested_loop import NestedLoopIndex

    return NestedLoopIndex


def _hash() -> type[Structure]:
    from slidejoin.index.scans.hash_buckets import HashIndex

    return HashIndex


def _bplus_tree() -> type[Structure]:
    from slidejoin.index.trees.bplus_tree import BPlusTreeIndex

    return BPlusTreeIndex


def _chained_bplus_tree() -> type[Structure]:
    from slidejoin.index.trees.chained_bplus_tree import ChainedBPlusTreeIndex

    return ChainedBPlusTreeIndex


def _chained_css_tree() -> type[Structure]:
    from slidejoin.index.trees.chained_css_tree import ChainedCssTreeIndex

    return ChainedCssTreeIndex


def _im_tree() -> type[Structure]:
    from slidejoin.index.trees.im_tree import IMTreeIndex

    return IMTreeIndex


def _pim_tree() -> type[Structure]:
    from slidejoin.index.trees.pim_tree import PIMTreeIndex

    return PIMTreeIndex


def _rap_table() -> type[Structure]:
    from slidejoin.index.partitions.rap_table import RapTableIndex

    return RapTableIndex


def _wib_tree() -> type[Structure]:
    from slidejoin.index.partitions.wib_tree import WibTreeIndex

    return WibTreeIndex


def _po_join() -> type[Structure]:
    from slidejoin.index.po_join.po_join_index import POJoinIndex

    return POJoinIndex


_CLASSES: dict[type[Options], Callable[[], type[Structure]]] = {
    of.NestedLoop: _nested_loop,
    of.Hash: _hash,
    of.BPlusTree: _bplus_tree,
    of.ChainedBPlusTree: _chained_bplus_tree,
    of.ChainedCssTree: _chained_css_tree,
    of.IMTree: _im_tree,
    of.PIMTree: _pim_tree,
    of.RapTable: _rap_table,
    of.WibTree: _wib_tree,
    of.POJoin: _po_join,
}
