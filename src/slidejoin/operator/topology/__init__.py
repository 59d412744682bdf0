"""How the work of one join is spread over cores: `protocol` says what a topology does, each module here is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.spec import topologies as of

if TYPE_CHECKING:
    from collections.abc import Callable

    from slidejoin.operator.stats import Stats
    from slidejoin.operator.topology.protocol import JoinTopology
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

    Made = Callable[[Plan, dict[Side, SideWindow], Workers, Stats, ArrayPool], JoinTopology]

__all__ = ["make_topology", "topology_class"]


def make_topology(
    plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats, memory: ArrayPool
) -> JoinTopology:
    """Return the topology that a join was asked for; ``"auto"`` takes the shared one, which measures fastest.

    Parameters
    ----------
    plan : Plan
    windows : dict from side to SideWindow
        Still empty: the windows' indexes are made by the topology.
    workers : Workers
    stats : Stats
    memory : ArrayPool
    """
    return topology_class(type(plan.config.topology or of.Shared()))(plan, windows, workers, stats, memory)


def topology_class(options: type[of.Topology]) -> Made:
    """Return the class that is made of options of this class; its module is loaded when it is first asked for."""
    return _CLASSES[options]()


def _shared() -> Made:
    from slidejoin.operator.topology.shared import SharedTopology

    return SharedTopology


def _split_join() -> Made:
    from slidejoin.operator.topology.split_join import SplitJoinTopology

    return SplitJoinTopology


def _handshake() -> Made:
    from slidejoin.operator.topology.handshake import HandshakeTopology

    return HandshakeTopology


def _handshake_low_latency() -> Made:
    from slidejoin.operator.topology.handshake_low_latency import HandshakeLowLatencyTopology

    return HandshakeLowLatencyTopology


def _round_robin() -> Made:
    from slidejoin.operator.topology.round_robin import RoundRobinTopology

    return RoundRobinTopology


def _cell_join() -> Made:
    from slidejoin.operator.topology.cell_join import CellJoinTopology

    return CellJoinTopology


_CLASSES: dict[type[of.Topology], Callable[[], Made]] = {
    of.Shared: _shared,
    of.SplitJoin: _split_join,
    of.Handshake: _handshake,
    of.HandshakeLowLatency: _handshake_low_latency,
    of.RoundRobin: _round_robin,
    of.CellJoin: _cell_join,
}
