"""SplitJoin and the handshake joins that it is compared with: join cores that each store their share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.papers.split_join.options import Handshake, HandshakeLowLatency, SplitJoin
from slidejoin.spec.topologies import KNOWN_TOPOLOGIES

if TYPE_CHECKING:
    from slidejoin.papers.split_join.handshake import HandshakeLowLatencyTopology, HandshakeTopology
    from slidejoin.papers.split_join.topology import SplitJoinTopology

__all__: list[str] = []


def _split_join() -> type[SplitJoinTopology]:
    from slidejoin.papers.split_join.topology import SplitJoinTopology

    return SplitJoinTopology


def _handshake() -> type[HandshakeTopology]:
    from slidejoin.papers.split_join.handshake import HandshakeTopology

    return HandshakeTopology


def _handshake_low_latency() -> type[HandshakeLowLatencyTopology]:
    from slidejoin.papers.split_join.handshake import HandshakeLowLatencyTopology

    return HandshakeLowLatencyTopology


KNOWN_TOPOLOGIES.register(SplitJoin, _split_join)
KNOWN_TOPOLOGIES.register(Handshake, _handshake)
KNOWN_TOPOLOGIES.register(HandshakeLowLatency, _handshake_low_latency)
