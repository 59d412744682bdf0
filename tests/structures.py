"""The papers' structures with options so small that a few rows go all of their ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.options import (
    BPlusTree,
    ChainedBPlusTree,
    ChainedCssTree,
    Hash,
    IMTree,
    NestedLoop,
    PIMTree,
    Planar,
    POJoin,
    RapTable,
    WibTree,
)

if TYPE_CHECKING:
    from slidejoin.options import Options

__all__ = ["SMALL"]

SMALL: dict[str, list[Options]] = {
    "nested_loop": [NestedLoop(), NestedLoop(basic_window=1, batch=1)],
    "hash": [Hash(), Hash(buckets=2, basic_window=2)],
    "bplus_tree": [BPlusTree(), BPlusTree(fan_out=4)],
    "rap_table": [RapTable(), RapTable(partitions=3, sigma=1.01, subwindows=3)],
    "wib_tree": [WibTree(), WibTree(partitions=100, fan_out=4, subwindows=1)],
    "im_tree": [IMTree(), IMTree(merge_ratio=0.3, fan_out=4, immutable_fan_out=3), IMTree(merge_ratio=1, fan_out=4)],
    "pim_tree": [
        PIMTree(),
        PIMTree(merge_ratio=0.3, insertion_depth=1, fan_out=4, immutable_fan_out=3),
        PIMTree(merge_ratio=0.5, insertion_depth=3, fan_out=4, immutable_fan_out=3, blocking=True, threads=2),
    ],
    "po_join": [
        POJoin(),
        POJoin(slide_interval=3, sub_intervals=1, fan_out=4),
        POJoin(slide_interval=6, sub_intervals=2, fan_out=4, tuple_by_tuple=True, mutable="hash_set", threads=2),
        POJoin(
            slide_interval=5, sub_intervals=1, fan_out=4, immutable="css_bit_set", immutable_fan_out=3, blocking=True
        ),
        POJoin(slide_interval=4, sub_intervals=1, fan_out=4, immutable="css_hash_set", immutable_fan_out=3),
    ],
    "chained_bplus_tree": [ChainedBPlusTree(), ChainedBPlusTree(chain_length=5, fan_out=4)],
    "chained_css_tree": [ChainedCssTree(), ChainedCssTree(chain_length=5, fan_out=4)],
    "planar": [Planar(), Planar(fan_out=1)],
}
"""Each structure as it comes, and with what can be set as small as it goes."""
