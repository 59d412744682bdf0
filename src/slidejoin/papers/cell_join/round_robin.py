"""Round robin, a baseline: each core has the whole windows and takes every k-th probe (CellJoin, section 3, option b).

Insertion is done by every core, and so is not divided; each core needs the memory of the whole windows; and results
have to be brought into order from cores that each have some of the probes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import BatchMatches
from slidejoin.index.factory import make_index
from slidejoin.papers.cell_join.options import RoundRobin
from slidejoin.papers.split_join.actors import Actor, Round
from slidejoin.papers.split_join.cores.cores_index import CoresIndex, Region
from slidejoin.papers.split_join.cores.dealing import number_in_core, probes_in_turn
from slidejoin.papers.split_join.divided import DividedTopology
from slidejoin.papers.split_join.kernels.gathering import number_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.factory import Keyspace
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index, Occupancy, Probing, Request
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.papers.split_join.join_core import CoreMessage, JoinCore
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["RoundRobinTopology"]


class RoundRobinTopology(DividedTopology):
    """The topology of one join, see `JoinTopology`."""

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

    def _send(self, message: CoreMessage) -> dict[Side, list[BatchMatches]]:
        results: dict[int, dict[Side, BatchMatches]] = {}

        def handle(core: JoinCore, message: CoreMessage) -> None:
            mine = {role: probes_in_turn(batch, core.core, len(self.cores)) for role, batch in message.batches.items()}
            results[core.core] = core.take(replace(message, batches=mine))

        once = Round(self._threads(message.size))
        once.run([(Actor(partial(handle, core)), message) for core in self.cores])
        return {
            role: [MatchesInTurn([results[core.core][role] for core in self.cores], batch.first, len(batch))]
            for role, batch in message.batches.items()
        }


class ReplicatedIndex(CoresIndex):
    """The index of one side's window; a region is the whole window, as if its core were the only one."""

    @staticmethod
    def of(
        make: Callable[[Occupancy], Index], window: Occupancy, name: str, cores: int, fan_in: int, *, alone: bool
    ) -> ReplicatedIndex:
        """Return an index with so many copies, see `CoresIndex.of`."""
        return ReplicatedIndex(
            name, [Region(make(window), 0, 1, window.first) for _ in range(cores)], fan_in, alone=alone
        )

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch by the first copy, see `Index`."""
        return self.regions[0].index.probe(batch, request)


class MatchesInTurn(BatchMatches):
    """The answers of cores that took the probes of a batch in turn; see `slidejoin.index.answer.BatchMatches`.

    Parameters
    ----------
    parts : sequence of BatchMatches
        Of each core; its probes are numbered from 0 on.
    first : int
        Ordinal of the first probe of the batch.
    probes : int
        How many there are.
    """

    def __init__(self, parts: Sequence[BatchMatches], first: int, probes: int) -> None:
        self._parts, self._first = parts, first
        self.counts: NDArray[np.int64] = np.empty(probes, np.int64)
        for core, part in enumerate(parts):
            self.counts[core :: len(parts)] = part.counts

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `slidejoin.index.answer.BatchMatches`."""
        cores = len(self._parts)
        for core, part in enumerate(self._parts):
            begin, end = (number_in_core(probe, core, cores) for probe in (first, last))
            mine = np.ascontiguousarray(places[core::cores])
            part.fill(begin, end, mine, probes, stored)
            number_rows(mine, part.counts, begin, end, cores, self._first + core, probes)
