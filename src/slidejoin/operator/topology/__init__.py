"""How the work of one join is spread over cores: `protocol` says what a topology does, `shared` is the usual one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.operator.topology.shared import SharedTopology
from slidejoin.spec.topologies import KNOWN_TOPOLOGIES, Shared

if TYPE_CHECKING:
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.topology.join_topology import JoinTopology
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["make_topology"]


def make_topology(
    plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats, memory: ArrayPool
) -> JoinTopology:
    """Return the topology that was requested for a join; ``"auto"`` takes the shared one, which measures fastest.

    Parameters
    ----------
    plan : Plan
    windows : dict from side to SideWindow
        Still empty: the windows' indexes are made by the topology.
    workers : Workers
    stats : Stats
    memory : ArrayPool
    """
    options = plan.config.topology or Shared()
    made = SharedTopology if isinstance(options, Shared) else KNOWN_TOPOLOGIES.class_of(type(options))
    topology: JoinTopology = made(plan, windows, workers, stats, memory)
    return topology
