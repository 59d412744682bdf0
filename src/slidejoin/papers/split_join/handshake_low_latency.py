"""Low-latency handshake join, the baseline of SplitJoin: a chain of cores, passed by both streams in two directions.

::

    left rows ──▶ core 0 ──▶ core 1 ──▶ … ──▶ core k-1
                  core 0 ◀── core 1 ◀── … ◀── core k-1 ◀── right rows

A core hands rows on to its neighbour before it joins them (fast-forwarding), stores those whose home it is, and
compares all of them with what it stores of the other stream. The two streams reach it at different times. So rows that
have passed stay under watch while later ones of the other stream may not have come yet: these are compared with them
when they do, or their pairs would be missed (T_ML in Equation 1). A coordinator keeps account of the windows, and sends
a message with each row that has expired, which passes the chain as rows do up to its home core.
(SplitJoin, sections 1 and 6, after Teubner, Roy and others.)
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import MatchesOfParts
from slidejoin.operator.ingest.arrival import Clock
from slidejoin.papers.split_join.actors import Actor, Round
from slidejoin.papers.split_join.divided import DividedTopology
from slidejoin.papers.split_join.join_core import later
from slidejoin.papers.split_join.options import HandshakeLowLatency
from slidejoin.sides import SIDES, other
from slidejoin.spec.topologies import MOST_CORES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.papers.split_join.cores.answers import ListedInCore
    from slidejoin.papers.split_join.join_core import CoreMessage, JoinCore
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["Coordinator", "HandshakeLowLatencyTopology"]

STEPS: dict[Side, int] = {"left": 1, "right": -1}
"""The directions in which the rows of the sides pass the chain."""


@dataclass(frozen=True, slots=True)
class Expired:
    """Rows of one side that have left its window.

    Attributes
    ----------
    ordinals : (n,) int64
        Each of them.
    oldest : int or None
        In a time window, the event time from which on rows may still be seen.
    """

    ordinals: NDArray[np.int64]
    oldest: int | None


@dataclass(frozen=True, slots=True)
class Passing:
    """What passes the chain: the rows of one side, or which of them have expired."""

    side: Side
    step: int
    expired: Expired | None


class Coordinator:
    """Keeps account of both windows, and tells which rows have expired."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._clock = Clock(plan.scope.lateness)
        self._expired_to: dict[Side, int] = {}
        self._times: dict[Side, deque[tuple[int, NDArray[np.int64]]]] = {side: deque() for side in SIDES}

    def expired(self, message: CoreMessage) -> dict[Side, Expired]:
        """Return the rows that none of those of a message sees any more, and take account of these."""
        scope, window = self._plan.scope, self._plan.config.window
        gone: dict[Side, Expired] = {}
        if scope.counted is not None:
            first = {side: window.first(side, message.before[side]) for side in SIDES}
            if self._plan.config.self_join:
                first = dict.fromkeys(SIDES, min(first.values()))
            for side, ordinal in first.items():
                # Of a join that was restored, the last ones are sufficient: all cores hear of them.
                since = self._expired_to.get(side, max(ordinal - MOST_CORES, 0))
                if ordinal > since:
                    gone[side] = Expired(np.arange(since, ordinal), None)
                    self._expired_to[side] = ordinal
        else:
            mark = later(self._clock.watermark, message.part.watermark)
            if mark is not None:
                for side in SIDES:
                    oldest = scope.oldest(side, mark)
                    gone[side] = Expired(self._below(side, oldest), oldest)
            for side in SIDES:
                times = message.part.times["left" if self._plan.config.self_join else side]
                if times is not None and times.size:
                    self._times[side].append((message.before[side], times))
                    setattr(self._clock, side, max(getattr(self._clock, side), int(times.max())))
        return gone

    def _below(self, side: Side, oldest: int) -> NDArray[np.int64]:
        """Return the oldest rows up to the first one that is not below a time."""
        ordinals, chunks = [np.empty(0, np.int64)], self._times[side]
        while chunks:
            first, times = chunks[0]
            young = times >= oldest
            stop = int(young.argmax()) if young.any() else times.size
            ordinals.append(np.arange(first, first + stop))
            if stop < times.size:
                chunks[0] = (first + stop, times[stop:])
                break
            chunks.popleft()
        return np.concatenate(ordinals)


@dataclass(slots=True)
class ChainCore:
    """One core of the chain, for one message of both streams."""

    core: JoinCore
    cores: int
    message: CoreMessage
    came: list[Side] = field(default_factory=list)
    parts: dict[Side, list[ListedInCore]] = field(default_factory=lambda: {side: [] for side in SIDES})
    neighbours: dict[int, Actor] = field(default_factory=dict)

    def handle(self, once: Round, passing: Passing) -> None:
        """Hand on what comes to the neighbour, then expire, or store and join."""
        following = self.neighbours.get(passing.step)
        if following is not None:
            once.send(following, passing)
        start = perf_counter()
        if passing.expired is not None:
            self._expire(passing.side, passing.expired)
        else:
            self._join(passing.side)
        self.core.seconds += perf_counter() - start

    def _join(self, side: Side) -> None:
        message, core, passed = self.message, self.core, other(side)
        if side in message.rows:
            core.store_side(message, side)
            if passed in self.came and passed in message.batches:
                # The other stream's rows came before these were stored.
                self.parts[passed].append(core.compare(message, passed, message.before[side]))
        if side in message.batches:
            self.parts[side].append(core.compare(message, side))
        self.came.append(side)

    def answer(self, role: Side) -> BatchMatches:
        """Return the answer of this core to one side's probes."""
        return MatchesOfParts(len(self.message.batches[role]), self.parts[role])

    def _expire(self, side: Side, expired: Expired) -> None:
        mine = expired.ordinals[expired.ordinals % self.cores == self.core.core]
        region = self.core.region(self.message, side)
        if expired.oldest is not None:
            region.expire_below(self.message.time_dimension[side], expired.oldest, self.message.oldest[side])
        elif mine.size:
            region.expire(int(mine[-1]) + 1)


class HandshakeLowLatencyTopology(DividedTopology):
    """The topology of one join, see `JoinTopology`."""

    expires_alone = False

    def __init__(
        self, plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats, memory: ArrayPool
    ) -> None:
        options = plan.config.topology
        cores = options.cores if isinstance(options, HandshakeLowLatency) else None
        super().__init__(plan, windows, workers, stats, memory, cores)
        self._coordinator = Coordinator(plan)
        # Results are collected from all cores by one collector.
        self.fan_in = max(2, len(self.cores))

    def explain(self) -> str:
        """Return what was chosen and why, in words."""
        return f"{HandshakeLowLatency.what}; {len(self.cores)} cores; topology='handshake_low_latency' was set"

    def _send(self, message: CoreMessage) -> dict[Side, list[BatchMatches]]:
        flows = [Passing(side, STEPS[side], None) for side in SIDES]
        if message.rows:
            # What has expired goes ahead of the rows, so that these find room.
            gone = self._coordinator.expired(message)
            flows = [Passing(side, STEPS[side], expired) for side, expired in gone.items()] + flows
        once = Round(self._threads(message.size))
        links = [ChainCore(core, len(self.cores), message) for core in self.cores]
        actors = [Actor(partial(link.handle, once)) for link in links]
        for number, link in enumerate(links):
            link.neighbours = {step: actors[number + step] for step in (1, -1) if 0 <= number + step < len(links)}
        once.run([(actors[0 if passing.step > 0 else -1], passing) for passing in flows])
        return {role: [link.answer(role) for link in links] for role in message.batches}
