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
from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.index.cores.cores_index import CoresIndex, DealtRows
from slidejoin.index.cores.found import FoundInCores
from slidejoin.index.factory import make_index
from slidejoin.index.protocol import Request
from slidejoin.operator.candidates import RangeCandidates
from slidejoin.operator.probe_batch import slots_of
from slidejoin.operator.topology.join_core import CoreMessage, JoinCore
from slidejoin.operator.topology.shared import SMALLEST_SPREAD
from slidejoin.operator.topology.steps import TopologySteps
from slidejoin.runtime.actors import Actor, Round
from slidejoin.sides import SIDES
from slidejoin.spec.topologies import SplitJoin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.index.cores.found import FoundInCore
    from slidejoin.index.factory import Keyspace
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index, Occupancy
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["SplitJoinTopology"]


class SplitJoinTopology(TopologySteps):
    """The topology of one join, see `TopologySteps`."""

    def __init__(
        self, plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats, memory: ArrayPool
    ) -> None:
        super().__init__(plan, windows, workers, stats, memory)
        options = plan.config.topology
        self._options = options if isinstance(options, SplitJoin) else SplitJoin()
        self._cores = [JoinCore(plan, number) for number in range(self._options.cores or workers.threads)]

    def make_index(self, algorithm: str, keys: Keyspace, window: Occupancy) -> Index:
        """Return an empty index with a region for each core, which uses that algorithm."""
        return CoresIndex.of(
            partial(make_index, algorithm, keys), window, algorithm, len(self._cores), self._options.fan_in, alone=True
        )

    def insert(self, part: Push, first: dict[Side, int]) -> None:
        """Only insert the rows, with ordinals from `first` on."""
        self._round(self._message(part, first), storing=True)
        self._refit()

    def run(self, part: Push, first: dict[Side, int]) -> tuple[Iterator[RangeCandidates], set[int]]:
        """Insert the rows with ordinals from `first` on, and return the candidates of all slots in turn.

        The set holds the terms that are not exact for these rows: their candidates have to be rechecked.
        """
        start = perf_counter()
        message = self._message(part, first)
        batches: dict[Side, ProbeBatch] = {role: self._batch(role, part, first) for role in SIDES}
        inexact = set(self._plan.loose).union(*(batch.inexact for batch in batches.values()))
        self._ask(message, batches, inexact)
        self._stats.since("distribution", start)
        found = self._round(message)
        if self._refit() or not self._exact(message, inexact):
            # Rows moved to other indexes, or some key was clipped: what was found may be too much or too little.
            inexact = inexact.union(*(window.index.inexact for window in self._windows.values()))
            again = CoreMessage(self._indexes(), message.before)
            self._ask(again, batches, inexact)
            found = self._round(again, storing=False)
        return self._candidates(batches, found), inexact

    def probe_again(self, part: Push, first: dict[Side, int]) -> Iterator[RangeCandidates]:
        """Find candidates for rows that are inserted already, with ordinals from `first` on."""
        self._refit()
        batches = {role: self._batch(role, part, first) for role in SIDES}
        message = CoreMessage(self._indexes(), dict(first))
        self._ask(message, batches, set())
        return self._candidates(batches, self._round(message, storing=False))

    def explain(self) -> str:
        """Return what was chosen and why, in words."""
        cores = len(self._cores)
        return f"{SplitJoin.what}; {cores} core{'s' * (cores > 1)}; topology='split_join' was set"

    # -- distribution ------------------------------------------------------------------------------------------------

    def _indexes(self) -> dict[Side, CoresIndex]:
        indexes = {}
        for side, window in self._windows.items():
            assert isinstance(window.index, CoresIndex)  # noqa: S101 - as `make_index` made it
            indexes[side] = window.index
        return indexes

    def _message(self, part: Push, first: dict[Side, int]) -> CoreMessage:
        """Take rows into the windows, and return the message that brings their keys to the cores."""
        rows: dict[Side, DealtRows] = {}
        for side in SIDES:
            source, window = self._source(side), self._windows[side]
            if part.tables[source].num_rows:
                start = perf_counter()
                taken = window.take(part.tables[source], part.times[source], first[side])
                assert isinstance(taken, DealtRows)  # noqa: S101 - as the index prepared them
                rows[side] = taken
                self._stats.since("insert", start)
        timed = self._plan.scope is not None
        return CoreMessage(
            self._indexes(),
            dict(first),
            rows,
            {side: window.payload.rows for side, window in self._windows.items()},
            {side: window.first for side, window in self._windows.items()},
            {
                side: int(times.max())
                for side in SIDES
                if (times := part.times[self._source(side)]) is not None and times.size
            },
            {side: window.time_dimension for side, window in self._windows.items()} if timed else {},
        )

    def _ask(self, message: CoreMessage, batches: dict[Side, ProbeBatch], inexact: set[int]) -> None:
        """Add probes to a message."""
        for role, batch in batches.items():
            _ = batch.probes  # once for all cores
            message.batches[role] = batch
            message.requests[role] = Request(
                0, len(batch), self._plan.config.output == "count", self._only_counts(inexact), self._alone
            )

    def _exact(self, message: CoreMessage, inexact: set[int]) -> bool:
        """Whether no core has stored a clipped key that was not known when the probes were sent."""
        return all(index.inexact <= inexact for index in message.indexes.values())

    def _refit(self) -> bool:
        """Rebuild indexes of cores that cannot distinguish their keys; tell whether any was."""
        before = [window.index for window in self._windows.values()]
        for window in self._windows.values():
            window.refit()
        return any(window.index is not old for window, old in zip(self._windows.values(), before, strict=True))

    # -- execution ---------------------------------------------------------------------------------------------------

    def _round(self, message: CoreMessage, *, storing: bool | None = None) -> dict[Side, list[FoundInCore]]:
        """Send a message down the tree to all cores; return what each found. `storing` alone, or not at all."""
        results: dict[int, dict[Side, FoundInCore]] = {}
        rows = sum(batch.rows for batch in message.rows.values()) + sum(map(len, message.batches.values()))
        once = Round(self._threads(rows))

        def act(core: JoinCore) -> Actor:
            def handle(message: CoreMessage) -> None:
                if storing:
                    core.expire(message)
                    core.store(message)
                elif storing is None:
                    results[core.core] = core.take(message)
                else:
                    results[core.core] = core.process(message)

            return Actor(handle)

        start = perf_counter()
        once.run(
            [(root, message) for root in distribution(once, [act(core) for core in self._cores], self._options.fan_out)]
        )
        self._stats.since("execution", start)
        if storing:
            return {}
        return {role: [results[core.core][role] for core in self._cores] for role in message.batches}

    def _threads(self, rows: int) -> int:
        """Return how many threads a message of so many rows and probes is worth."""
        dear = any(window.index.dear_probes for window in self._windows.values())
        few = rows * len(self._cores) < 2 * SMALLEST_SPREAD and not dear
        return 1 if few else min(self._workers.threads, len(self._cores))

    # -- gathering ---------------------------------------------------------------------------------------------------

    def _candidates(
        self, batches: dict[Side, ProbeBatch], found: dict[Side, list[FoundInCore]]
    ) -> Iterator[RangeCandidates]:
        slots = {role: slots_of(self._plan, role, batch.rank) for role, batch in batches.items()}
        total = sum(len(batch) for batch in batches.values())
        config = self._plan.config
        if config.order == "none" and self._options.ordering == "none" and config.output != "count":
            # No merger waits for another core's rows.
            for number in range(len(self._cores)):
                alone = RangeCandidates(total, self._workers, self._memory)
                for role, parts in found.items():
                    alone.add(role, slots[role], parts[number])
                yield alone
            return
        start = perf_counter()
        merged = RangeCandidates(total, self._workers, self._memory)
        for role, parts in found.items():
            merged.add(role, slots[role], FoundInCores(parts, self._workers, self._options.fan_in))
        self._stats.since("gathering", start)
        yield merged


def distribution(once: Round, leaves: list[Actor], fan_out: int) -> list[Actor]:
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
