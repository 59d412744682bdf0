"""CellJoin: windows divided among workers by basic windows, nested loop and hash buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.papers.cell_join.options import CellJoin, Hash, NestedLoop, RoundRobin
from slidejoin.spec.options import KNOWN_STRUCTURES
from slidejoin.spec.topologies import KNOWN_TOPOLOGIES

if TYPE_CHECKING:
    from slidejoin.papers.cell_join.hash_buckets import HashIndex
    from slidejoin.papers.cell_join.nested_loop import NestedLoopIndex
    from slidejoin.papers.cell_join.topology import CellJoinTopology, RoundRobinTopology

__all__: list[str] = []


def _nested_loop() -> type[NestedLoopIndex]:
    from slidejoin.papers.cell_join.nested_loop import NestedLoopIndex

    return NestedLoopIndex


def _hash() -> type[HashIndex]:
    from slidejoin.papers.cell_join.hash_buckets import HashIndex

    return HashIndex


def _cell_join() -> type[CellJoinTopology]:
    from slidejoin.papers.cell_join.topology import CellJoinTopology

    return CellJoinTopology


def _round_robin() -> type[RoundRobinTopology]:
    from slidejoin.papers.cell_join.topology import RoundRobinTopology

    return RoundRobinTopology


KNOWN_STRUCTURES.register(NestedLoop, _nested_loop)
KNOWN_STRUCTURES.register(Hash, _hash)
KNOWN_TOPOLOGIES.register(RoundRobin, _round_robin)
KNOWN_TOPOLOGIES.register(CellJoin, _cell_join)
