"""The papers' structures by name, and their parameters, by the papers' own names.

``algorithm=`` takes such an object instead of a name: ``algorithm=options.NestedLoop(batch=4)``. Nothing here
loads Numba; the structures themselves, in `slidejoin.index`, do.
"""

from __future__ import annotations

from slidejoin.spec.options.base import Options
from slidejoin.spec.options.celljoin import Hash, NestedLoop
from slidejoin.spec.options.panjoin import BiSort, RapTable, WibTree
from slidejoin.spec.options.planar import Planar
from slidejoin.spec.options.spojoin import POJoin
from slidejoin.spec.options.trees import BPlusTree, ChainedBPlusTree, ChainedCssTree, IMTree, PIMTree

__all__ = [
    "STRUCTURES",
    "BPlusTree",
    "BiSort",
    "ChainedBPlusTree",
    "ChainedCssTree",
    "Hash",
    "IMTree",
    "NestedLoop",
    "Options",
    "PIMTree",
    "POJoin",
    "Planar",
    "RapTable",
    "WibTree",
]

STRUCTURES: dict[str, type[Options]] = {
    options.name: options
    for options in (
        NestedLoop,
        Hash,
        BPlusTree,
        ChainedBPlusTree,
        ChainedCssTree,
        IMTree,
        PIMTree,
        RapTable,
        WibTree,
        POJoin,
    )
}
"""Every structure that ``algorithm=`` names, beside those that ``auto`` chooses from."""
