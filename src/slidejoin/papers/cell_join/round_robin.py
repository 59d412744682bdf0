"""Round robin, a baseline: each core has the whole windows and takes every k-th probe (CellJoin, section 3, option b).

Insertion is done by every core, and so is not divided; each core needs the memory of the whole windows; and results
have to be brought into order from cores that each have some of the probes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from slidejoin.index.factory import make_index
from slidejoin.papers.cell_join.options import RoundRobin
from slidejoin.papers.split_join.actors import Actor, Round
from slidejoin.papers.split_join.cores.dealing import probes_in_turn
from slidejoin.papers.split_join.cores.replicas import FoundInTurn, ReplicatedIndex
from slidejoin.papers.split_join.divided import DividedTopology

if TYPE_CHECKING:
    from slidejoin.index.answer import Found
    from slidejoin.index.factory import Keyspace
    from slidejoin.index.protocol import Index, Occupancy
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.papers.split_join.join_core import CoreMessage, JoinCore
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["RoundRobinTopology"]


class RoundRobinTopology(DividedTopology):
    """The topology of one join, see `TopologySteps`."""

    expires_alone = False

    def __init__(
        self, plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats, memory: ArrayPool
    ) -> None:
        options = plan.config.topology
        super().__init__(
            plan, windows, workers, stats, memory, options.cores if isinstance(options, RoundRobin) else None
        )

    def make_index(self, algorithm: str, keys: Keyspace, window: Occupancy) -> Index:
        """Return an empty index with a copy for each core, which uses that algorithm; all expire with the window."""
        return ReplicatedIndex.of(
            partial(make_index, algorithm, keys), window, algorithm, len(self.cores), self.fan_in, alone=False
        )

    def explain(self) -> str:
        """Return what was chosen and why, in words."""
        return f"{RoundRobin.what}; {len(self.cores)} cores; topology='round_robin' was set"

    def _send(self, message: CoreMessage) -> dict[Side, list[Found]]:
        results: dict[int, dict[Side, Found]] = {}

        def handle(core: JoinCore, message: CoreMessage) -> None:
            mine = {role: probes_in_turn(batch, core.core, len(self.cores)) for role, batch in message.batches.items()}
            results[core.core] = core.take(replace(message, batches=mine))

        once = Round(self._threads(message.size))
        once.run([(Actor(partial(handle, core)), message) for core in self.cores])
        return {
            role: [FoundInTurn([results[core.core][role] for core in self.cores], batch.first, len(batch))]
            for role, batch in message.batches.items()
        }
