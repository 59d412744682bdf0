"""Options of index structures and topologies, by the papers' own names: what ``algorithm=`` and ``topology=`` take."""

from __future__ import annotations

from slidejoin.papers.cell_join.options import CellJoin, Hash, NestedLoop, RoundRobin, ScanCosts
from slidejoin.papers.panjoin.options import RapTable, WibTree
from slidejoin.papers.pim_tree.options import BPlusTree, ChainedBPlusTree, ChainedCssTree, IMTree, PIMTree
from slidejoin.papers.split_join.options import Handshake, HandshakeLowLatency, SplitJoin
from slidejoin.papers.spo_join.options import POJoin
from slidejoin.spec.options import KNOWN_STRUCTURES, BiSort, Options, Planar
from slidejoin.spec.topologies import KNOWN_TOPOLOGIES, Shared, Topology

__all__ = [
    "STRUCTURES",
    "TOPOLOGIES",
    "BPlusTree",
    "BiSort",
    "CellJoin",
    "ChainedBPlusTree",
    "ChainedCssTree",
    "Handshake",
    "HandshakeLowLatency",
    "Hash",
    "IMTree",
    "NestedLoop",
    "Options",
    "PIMTree",
    "POJoin",
    "Planar",
    "RapTable",
    "RoundRobin",
    "ScanCosts",
    "Shared",
    "SplitJoin",
    "Topology",
    "WibTree",
]

STRUCTURES = KNOWN_STRUCTURES.known()
"""Every structure that only ``algorithm=`` chooses, by name."""

TOPOLOGIES = KNOWN_TOPOLOGIES.known()
"""Every topology that ``topology=`` names."""
