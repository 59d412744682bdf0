"""SplitJoin: all rows go down a distribution tree to all join cores, results go down a gathering tree to the output.

::

    rows ─▶ distributor ─┬▶ distributor ─┬▶ core 0 ─┬▶ merger ─┬▶ merger ─▶ combiner ─▶ candidates
                         │               └▶ core 1 ─┘          │
                         └▶ distributor ─┬▶ core 2 ─┬▶ merger ─┘
                                         └▶ core 3 ─┘

Storing and processing are independent: a core stores every k-th row of each side, by its own count of them, and
compares every row with those that it has. No core waits for another one, and nobody tells a core which rows leave.
Ordinals decide which rows see each other, so that the rows of a message are stored before its probes are processed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from slidejoin.operator.candidates import RangeCandidates
from slidejoin.operator.probe_batch import slots_of
from slidejoin.operator.topology.divided import DividedTopology
from slidejoin.runtime.actors import Actor, Round
from slidejoin.spec.topologies import SplitJoin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.index.answer import Found
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.topology.join_core import CoreMessage, JoinCore
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["SplitJoinTopology"]


class SplitJoinTopology(DividedTopology):
    """The topology of one join, see `TopologySteps`."""

    def __init__(
        self, plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats, memory: ArrayPool
    ) -> None:
        options = plan.config.topology
        self._options = options if isinstance(options, SplitJoin) else SplitJoin()
        self.fan_in = self._options.fan_in
        super().__init__(plan, windows, workers, stats, memory, self._options.cores)

    def explain(self) -> str:
        """Return what was chosen and why, in words."""
        cores = len(self.cores)
        return f"{SplitJoin.what}; {cores} core{'s' * (cores > 1)}; topology='split_join' was set"

    def _send(self, message: CoreMessage) -> dict[Side, list[Found]]:
        results: dict[int, dict[Side, Found]] = {}

        def handle(core: JoinCore, message: CoreMessage) -> None:
            results[core.core] = core.take(message)

        once = Round(self._threads(message.size))
        leaves = [Actor(partial(handle, core)) for core in self.cores]
        once.run([(node, message) for node in distributors(once, leaves, self._options.fan_out)])
        return {role: [results[core.core][role] for core in self.cores] for role in message.batches}

    def _candidates(self, batches: dict[Side, ProbeBatch], found: dict[Side, list[Found]]) -> Iterator[RangeCandidates]:
        config = self._plan.config
        if config.order != "none" or self._options.ordering != "none" or config.output == "count":
            yield from super()._candidates(batches, found)
            return
        # No merger waits for another core's rows.
        slots = {role: slots_of(self._plan, role, batch.rank) for role, batch in batches.items()}
        for number in range(len(self.cores)):
            alone = RangeCandidates(sum(map(len, batches.values())), self._workers, self._memory)
            for role, parts in found.items():
                alone.add(role, slots[role], parts[number])
            yield alone


def distributors(once: Round, leaves: list[Actor], fan_out: int) -> list[Actor]:
    """Return the children of the root of a distribution tree: each passes messages on to up to `fan_out` of its own.

    More leaves make the tree deeper only once each distributor has `fan_out` children (SplitJoin, section 4).
    """
    nodes = leaves
    while len(nodes) > fan_out:
        nodes = [
            Actor(partial(_pass_on, once, nodes[first : first + fan_out])) for first in range(0, len(nodes), fan_out)
        ]
    return nodes


def _pass_on(once: Round, children: list[Actor], message: object) -> None:
    for child in children:
        once.send(child, message)
