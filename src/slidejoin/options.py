"""Options of index structures and topologies, by the papers' own names: what ``algorithm=`` and ``topology=`` take."""

from __future__ import annotations

from slidejoin.spec.options import *  # noqa: F403 - the same names, where users look for them
from slidejoin.spec.options import __all__ as _structures
from slidejoin.spec.topologies import (
    TOPOLOGIES,
    CellJoin,
    Handshake,
    HandshakeLowLatency,
    RoundRobin,
    ScanCosts,
    Shared,
    SplitJoin,
    Topology,
)

__all__ = [  # noqa: PLE0604 - names all
    *_structures,
    "TOPOLOGIES",
    "CellJoin",
    "Handshake",
    "HandshakeLowLatency",
    "RoundRobin",
    "ScanCosts",
    "Shared",
    "SplitJoin",
    "Topology",
]
