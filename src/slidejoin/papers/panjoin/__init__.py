"""PanJoin: partitioned subwindows, the RaP-Table and the WiB+-tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.papers.panjoin.options import RapTable, WibTree
from slidejoin.spec.options import KNOWN_STRUCTURES

if TYPE_CHECKING:
    from slidejoin.papers.panjoin.rap_table import RapTableIndex
    from slidejoin.papers.panjoin.wib_tree import WibTreeIndex

__all__: list[str] = []


def _rap_table() -> type[RapTableIndex]:
    from slidejoin.papers.panjoin.rap_table import RapTableIndex

    return RapTableIndex


def _wib_tree() -> type[WibTreeIndex]:
    from slidejoin.papers.panjoin.wib_tree import WibTreeIndex

    return WibTreeIndex


KNOWN_STRUCTURES.register(RapTable, _rap_table)
KNOWN_STRUCTURES.register(WibTree, _wib_tree)
