"""SplitJoin and the handshake joins that it is compared with: join cores that each store their share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.papers.split_join.options import Handshake, HandshakeLowLatency, SplitJoin
from slidejoin.spec.topologies import register_topology

if TYPE_CHECKING:
    from slidejoin.papers.split_join.handshake import HandshakeTopology
    from slidejoin.papers.split_join.handshake_low_latency import HandshakeLowLatencyTopology
    from slidejoin.papers.split_join.topology import SplitJoinTopology

__all__: list[str] = []


def _split_join() -> type[SplitJoinTopology]:
    from slidejoin.papers.split_join.topology import SplitJoinTopology

    return SplitJoinTopology


def _handshake() -> type[HandshakeTopology]:
    from slidejoin.papers.split_join.handshake import HandshakeTopology

    return HandshakeTopology


def _handshake_low_latency() -> type[HandshakeLowLatencyTopology]:
    from slidejoin.papers.split_join.handshake_low_latency import HandshakeLowLatencyTopology

    return HandshakeLowLatencyTopology


register_topology(SplitJoin, _split_join)
register_topology(Handshake, _handshake)
register_topology(HandshakeLowLatency, _handshake_low_latency)
