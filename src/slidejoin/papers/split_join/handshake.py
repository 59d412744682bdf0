"""Handshake join: both streams move along a chain of cores in opposite directions, and rows meet where they pass.

::

    left rows ──▶ segment 0 │ segment 1 │ … │ segment k-1 ──▶ they leave the window
                   core 0     core 1          core k-1
                  segment k-1 │ …     │ segment 1 │ segment 0 ◀── right rows

A core has a segment of both windows. Rows are stored where they enter, and handed on, oldest first, by a core that has
more than its share; so a row moves on only when later ones push it, and in the paper two rows meet when both have been
pushed far enough, half a window later on average. That is the original handshake join (Teubner and Mueller, as
SplitJoin describes it in sections 1 and 2).

Here a pair has to come out with the push of its later row, whatever comes after it. So the chain is flushed at the end
of each slice of arrivals: its rows go on through all cores at once, ahead of their place in the window, and each core
compares them with its segment of the other stream before it hands them on. They meet all rows that they would ever have
met, each once, and later, when they are pushed on as stored rows, nobody. `benchmarks.cases.topology_models` of a
checkout computes how long they would have waited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.index.factory import make_index
from slidejoin.papers.split_join.actors import Actor, Round
from slidejoin.papers.split_join.cores.segments import ChainIndex
from slidejoin.papers.split_join.divided import DividedTopology
from slidejoin.papers.split_join.join_core import JoinCore
from slidejoin.papers.split_join.options import Handshake
from slidejoin.sides import other

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.index.answer import Found
    from slidejoin.index.factory import Keyspace
    from slidejoin.index.protocol import Index, Occupancy
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.papers.split_join.cores.cores_index import DealtRows
    from slidejoin.papers.split_join.cores.segments import WindowSegment
    from slidejoin.papers.split_join.join_core import CoreMessage
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["HandshakeTopology"]


class SegmentCore(JoinCore):
    """One core of the chain, with a segment of each window."""

    def __init__(self, plan: Plan, core: int, cores: int) -> None:
        super().__init__(plan, core, alone=True)
        self.places: dict[Side, int] = {"left": core, "right": cores - 1 - core}

    def region(self, message: CoreMessage, side: Side) -> WindowSegment:
        """Return its part of a side's window: how many cores the rows pass before this one says which."""
        index = message.indexes[side]
        assert isinstance(index, ChainIndex)  # noqa: S101 - as `make_index` made it
        return index.regions[self.places[side]]


@dataclass(frozen=True, slots=True)
class Pushed:
    """Rows of one side that the core before hands on, oldest first; of the first core those that come."""

    side: Side
    rows: Sequence[DealtRows]


@dataclass(frozen=True, slots=True)
class Flushed:
    """The probes of one side, on their way through all cores."""

    side: Side


@dataclass(slots=True)
class SegmentActor:
    """One core of the chain, for one message of both streams."""

    core: SegmentCore
    message: CoreMessage
    following: dict[Side, Actor] = field(default_factory=dict)
    found: dict[Side, Found] = field(default_factory=dict)
    expired: bool = False

    def handle(self, once: Round, passing: Pushed | Flushed) -> None:
        """Store or compare what comes, then hand on."""
        start = perf_counter()
        onward: Pushed | Flushed = passing
        if isinstance(passing, Pushed):
            onward = Pushed(passing.side, self._store(passing))
        else:
            batch, request = self.message.batches[passing.side], self.message.requests[passing.side]
            stored = self.core.region(self.message, other(passing.side))
            self.found[passing.side] = stored.process(batch, request)
        self.core.seconds += perf_counter() - start
        following = self.following.get(passing.side)
        if following is not None:
            once.send(following, onward)

    def _store(self, passing: Pushed) -> list[DealtRows]:
        message, side = self.message, passing.side
        if not self.expired:
            self.expired = True
            self.core.expire(message)
            self.core.hear(message)
        arrived = message.rows[side]
        segment = self.core.region(message, side)
        return segment.pass_on(passing.rows, arrived.first + arrived.rows, message.live[side])


class HandshakeTopology(DividedTopology):
    """The topology of one join, see `TopologySteps`."""

    def __init__(
        self, plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats, memory: ArrayPool
    ) -> None:
        options = plan.config.topology
        cores = options.cores if isinstance(options, Handshake) else None
        super().__init__(plan, windows, workers, stats, memory, cores)
        self._chain = [core for core in self.cores if isinstance(core, SegmentCore)]
        # Results are collected from all cores by one collector.
        self.fan_in = max(2, len(self.cores))

    def make_core(self, number: int, cores: int) -> SegmentCore:
        """Return one core of so many."""
        return SegmentCore(self._plan, number, cores)

    def make_index(self, algorithm: str, keys: Keyspace, window: Occupancy) -> Index:
        """Return an empty index with a segment for each core, which uses that algorithm."""
        row_bytes = sum(8 * (1 + one.dims) + 1 for one in (keys, *(inside for _, inside in keys.branches)))
        return ChainIndex.along(
            partial(make_index, algorithm, keys), window, algorithm, len(self.cores), self.fan_in, row_bytes
        )

    def explain(self) -> str:
        """Return what was chosen and why, in words."""
        return f"{Handshake.what}; {len(self.cores)} cores; topology='handshake' was set"

    def _send(self, message: CoreMessage) -> dict[Side, list[Found]]:
        threads = self._threads(message.size)
        links = [SegmentActor(core, message) for core in self._chain]
        if message.rows:
            self._along(links, threads, [Pushed(side, [rows]) for side, rows in message.rows.items()])
        self._along(links, threads, [Flushed(side) for side in message.batches])
        return {role: [link.found[role] for link in links] for role in message.batches}

    @staticmethod
    def _along(links: list[SegmentActor], threads: int, streams: Sequence[Pushed | Flushed]) -> None:
        """Let something of one or both streams pass the chain, each from its own end."""
        once = Round(threads)
        actors = [Actor(partial(link.handle, once)) for link in links]
        for number, link in enumerate(links):
            nearby: dict[Side, int] = {"left": number + 1, "right": number - 1}
            link.following = {side: actors[near] for side, near in nearby.items() if 0 <= near < len(links)}
        once.run([(actors[0 if one.side == "left" else -1], one) for one in streams])
