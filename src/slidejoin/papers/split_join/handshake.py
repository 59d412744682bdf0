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

Low-latency handshake join, the baseline of SplitJoin: a chain of cores, passed by both streams in two directions.

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
from slidejoin.index.factory import make_index
from slidejoin.index.keys import RowKeys
from slidejoin.index.protocol import Occupancy
from slidejoin.operator.ingest.arrival import Clock
from slidejoin.papers.split_join.actors import Actor, Round
from slidejoin.papers.split_join.cores.cores_index import CoresIndex, DealtRows, Region
from slidejoin.papers.split_join.divided import DividedTopology
from slidejoin.papers.split_join.join_core import JoinCore, later
from slidejoin.papers.split_join.options import Handshake, HandshakeLowLatency
from slidejoin.sides import SIDES, other
from slidejoin.spec.topologies import MOST_CORES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.factory import Keyspace
    from slidejoin.index.keys import Prepared
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index, Request
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.papers.split_join.cores.answers import ListedInCore, MatchesInCore
    from slidejoin.papers.split_join.join_core import CoreMessage
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["ChainIndex", "Coordinator", "HandshakeLowLatencyTopology", "HandshakeTopology", "WindowSegment"]

SMALL = 1 << 8
"""Rows of a parcel of keys up to which the next ones are put behind them: a row alone would take ten times its keys."""


class WindowSegment(Region):
    """One core's consecutive rows of one side's window.

    Parameters
    ----------
    index : Index
    place, places : int
        How many cores the rows have passed when they come here, and how many there are.
    first : int
        Ordinal of the first row.
    row_bytes : int
        Of the keys of a row.

    Attributes
    ----------
    first, taken : int
        The ordinals here are first…taken-1.
    """

    __slots__ = ("_kept", "_keys", "_row_bytes", "first", "place", "places")

    def __init__(self, index: Index, place: int, places: int, first: int, row_bytes: int) -> None:
        # Its index numbers rows as the stream does, as if it were the only core.
        super().__init__(index, 0, 1, first)
        self.place, self.places, self.first = place, places, first
        self._keys: deque[DealtRows] = deque()
        self._row_bytes, self._kept = row_bytes, 0

    def _border(self, place: int, end: int, live: int) -> int:
        """Return the oldest ordinal of that place's share, of so many rows that live before `end`."""
        return end - (place + 1) * -(-live // self.places)

    def pass_on(self, coming: Iterable[DealtRows], end: int, live: int) -> list[DealtRows]:
        """Take rows, and return the oldest ones above its share, which the next core takes.

        Parameters
        ----------
        coming : iterable of DealtRows
            From the core before, oldest first.
        end : int
            Ordinal of the row to come into the window.
        live : int
            Rows in the window.
        """
        for rows in coming:
            self._keep(rows)
        leaving: list[DealtRows] = []
        border = self._border(self.place, end, live)
        if self.place + 1 < self.places and border > self.first:
            for rows in self._keys:
                if rows.first >= border:
                    break
                part = _between(rows, self.first, border)
                leaving += [] if part is None else [part]
            self.expire(border)
        for rows in self._newest():
            self._insert(rows)
        return leaving

    def _keep(self, rows: DealtRows) -> None:
        """Keep the keys of rows in memory of their own: they may be parts of what a user has pushed."""
        self._kept += rows.rows
        if self._keys and self._keys[-1].rows < SMALL and self._keys[-1].first + self._keys[-1].rows == rows.first:
            before = self._keys.pop()
            self._keys.append(DealtRows(_copied([before.keys, rows.keys]), before.first))
        else:
            self._keys.append(rows if self.place else DealtRows(_copied([rows.keys]), rows.first))

    def _newest(self) -> list[DealtRows]:
        """Return the rows that its index has not taken."""
        dealt: list[DealtRows] = []
        for rows in reversed(self._keys):
            if rows.first + rows.rows <= self.taken:
                break
            part = _between(rows, max(self.taken, self.first), rows.first + rows.rows)
            dealt += [] if part is None else [part]
        return dealt[::-1]

    def _insert(self, rows: DealtRows) -> None:
        self.index.skip_to(rows.first)
        self.taken = rows.first + rows.rows
        self.index.insert(self.index.prepare(rows.keys, rows.first), self.taken - self.first)

    def process(self, batch: ProbeBatch, request: Request, least: int = 0) -> MatchesInCore:
        """Answer all probes of a batch among the rows of this core."""
        # Its index may still have rows that were handed on: the next core finds those.
        from_here = len(batch) > 0 and int(batch.probes.seen_from[0]) < self.first
        return super().process(batch, request, self.first if from_here else least)

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals of the stream before that one, where rows enter; what comes here later skips by itself."""
        if self.place == 0:
            super().skip_to(ordinal)

    def expire(self, ordinal: int) -> None:
        """Expire the rows before that ordinal of the stream, or those that were handed on."""
        self._drop(ordinal)
        self.index.expire(min(self.first, self.taken))

    def expire_below(self, dimension: int, value: int, first: int) -> None:
        """Expire the rows with a smaller time, see `Index`."""
        self._drop(first)
        self.index.expire_below(dimension, value, min(self.first, self.taken))

    def _drop(self, ordinal: int) -> None:
        self.first = max(self.first, ordinal)
        while self._keys and self._keys[0].first + self._keys[0].rows <= self.first:
            self._kept -= self._keys.popleft().rows

    # -- size --------------------------------------------------------------------------------------------------------

    def occupancy(self, window: Occupancy) -> Occupancy:
        """Return which rows are here."""
        capacity = None if window.capacity is None else -(-window.capacity // self.places)
        first = min(self.first, self.taken)
        return Occupancy(first, self.taken, self.taken - first, capacity)

    def coming(self, window: Occupancy, rows: int) -> int:
        """Return how many rows its index takes at most when so many more come into the window."""
        end, live = window.next + rows, window.rows + rows
        oldest = self._border(self.place, end, live) if self.place + 1 < self.places else self.taken
        return max(self._border(self.place - 1, end, live) - max(oldest, self.taken), 0)

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return self.index.nbytes + self._row_bytes * self._kept

    def growth(self, window: Occupancy, rows: int) -> int:
        """Return by how many bytes it grows at most when so many more rows come into the window."""
        return super().growth(window, rows) + self._row_bytes * self.coming(window, rows)

    def replaced(self, index: Index, window: Occupancy) -> WindowSegment:  # noqa: ARG002 - as of `Region`
        """Return the same rows with another index, which takes them now."""
        new = WindowSegment(index, self.place, self.places, self.first, self._row_bytes)
        new._keys, new._kept = self._keys.copy(), self._kept
        for rows in new._newest():
            new._insert(rows)
        new.taken = max(new.taken, self.taken)
        index.skip_to(new.taken)
        return new


class ChainIndex(CoresIndex):
    """The index of one side's window; its regions are segments, in the order in which rows pass them."""

    regions: list[WindowSegment]  # type: ignore[assignment] # as `along` made them

    @staticmethod
    def along(
        make: Callable[[Occupancy], Index], window: Occupancy, name: str, cores: int, fan_in: int, row_bytes: int
    ) -> ChainIndex:
        """Return an index with so many segments; `make` makes the index of one of them."""
        capacity = None if window.capacity is None else -(-window.capacity // cores)
        segments = []
        for place in range(cores):
            index = make(Occupancy(window.first, window.first, -(-window.rows // cores), capacity))
            segments.append(WindowSegment(index, place, cores, window.first, row_bytes))
        return ChainIndex(name, segments, fan_in, alone=True)

    def insert(self, rows: Prepared, live: int) -> None:
        """Insert the newest rows where they enter, and let all segments pass on what is above their share."""
        assert isinstance(rows, DealtRows)  # noqa: S101 - as `prepare` gave them
        end = rows.first + rows.rows
        if end <= self.regions[0].taken:
            return  # they are here: the index of some segment was replaced
        passing = [rows]
        for segment in self.regions:
            passing = segment.pass_on(passing, end, live)


def _between(rows: DealtRows, first: int, end: int) -> DealtRows | None:
    """Return those of the rows with ordinals first…end-1, None if there are none; they own their memory."""
    low, high = max(rows.first, first), min(rows.first + rows.rows, end)
    if low >= high:
        return None
    if high - low == rows.rows:
        return rows
    return DealtRows(_copied([rows.keys], slice(low - rows.first, high - rows.first)), low)


def _copied(parts: Sequence[RowKeys], cut: slice = slice(None)) -> RowKeys:
    """Return rows of all parts behind one another, in memory of their own."""
    matchable: NDArray[np.bool_] | None = None
    if any(one.matchable is not None for one in parts):
        matchable = np.concatenate(
            [(np.ones(one.rows, np.bool_) if one.matchable is None else one.matchable)[cut] for one in parts]
        )
    branches = zip(*(one.branches for one in parts), strict=True)
    return RowKeys(
        np.concatenate([one.keys[cut] for one in parts]),
        np.concatenate([one.aux[cut] for one in parts]),
        matchable,
        frozenset().union(*(one.inexact for one in parts)),
        tuple(_copied(branch, cut) for branch in branches),
    )


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
    answers: dict[Side, BatchMatches] = field(default_factory=dict)
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
            self.answers[passing.side] = stored.process(batch, request)
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
    """The topology of one join, see `JoinTopology`."""

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

    def _send(self, message: CoreMessage) -> dict[Side, list[BatchMatches]]:
        threads = self._threads(message.size)
        links = [SegmentActor(core, message) for core in self._chain]
        if message.rows:
            self._along(links, threads, [Pushed(side, [rows]) for side, rows in message.rows.items()])
        self._along(links, threads, [Flushed(side) for side in message.batches])
        return {role: [link.answers[role] for link in links] for role in message.batches}

    @staticmethod
    def _along(links: list[SegmentActor], threads: int, streams: Sequence[Pushed | Flushed]) -> None:
        """Let something of one or both streams pass the chain, each from its own end."""
        once = Round(threads)
        actors = [Actor(partial(link.handle, once)) for link in links]
        for number, link in enumerate(links):
            nearby: dict[Side, int] = {"left": number + 1, "right": number - 1}
            link.following = {side: actors[near] for side, near in nearby.items() if 0 <= near < len(links)}
        once.run([(actors[0 if one.side == "left" else -1], one) for one in streams])


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
