"""One join core: a region of each side's window, and what it does with a message (SplitJoin, Algorithms 2 to 4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.operator.ingest.arrival import Clock
from slidejoin.papers.split_join.cores.answers import ListedInCore
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Request
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.papers.split_join.cores.cores_index import CoresIndex, DealtRows, Region
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["CoreMessage", "JoinCore", "later"]


@dataclass(slots=True)
class CoreMessage:
    """Arriving rows on their way to all cores: every core gets the same ones.

    Attributes
    ----------
    indexes : dict
        The index of each side's window, of which each core has a region.
    before : dict
        How many rows of each side came before these.
    part : Push
        The arrivals.
    rows : dict
        Rows to store, of sides that have some.
    live : dict
        Rows in each side's window with these.
    oldest : dict
        The oldest row of each side that is still in the window.
    latest : dict
        The largest event time among the rows of each side that has some; nothing in a count window.
    time_dimension : dict
        In a time window, the dimension of event times in each index.
    batches, requests : dict
        The probes of each side, and how they are to be answered.
    """

    indexes: dict[Side, CoresIndex]
    before: dict[Side, int]
    part: Push
    rows: dict[Side, DealtRows] = field(default_factory=dict)
    live: dict[Side, int] = field(default_factory=dict)
    oldest: dict[Side, int] = field(default_factory=dict)
    latest: dict[Side, int] = field(default_factory=dict)
    time_dimension: dict[Side, int] = field(default_factory=dict)
    batches: dict[Side, ProbeBatch] = field(default_factory=dict)
    requests: dict[Side, Request] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Rows and probes."""
        return sum(one.rows for one in self.rows.values()) + sum(map(len, self.batches.values()))


def later(one: int | None, two: int | None) -> int | None:
    """Return the later of two watermarks; None stands for none.

    Examples
    --------
    >>> later(5, 3), later(None, 3), later(None, None)
    (5, 3, None)
    """
    return max((mark for mark in (one, two) if mark is not None), default=None)


class JoinCore:
    """One core; it decides alone which rows it stores and which of its rows have left.

    Parameters
    ----------
    plan : Plan
    core : int
        Its number.
    alone : bool
        Whether it expires its rows by itself.

    Attributes
    ----------
    seconds : float
        How long it has worked so far.
    """

    def __init__(self, plan: Plan, core: int, *, alone: bool) -> None:
        self.core, self._alone = core, alone
        self.seconds = 0.0
        self._plan = plan
        self._clock = Clock(plan.scope.lateness)

    def region(self, message: CoreMessage, side: Side) -> Region:
        """Return its part of a side's window."""
        return message.indexes[side].regions[self.core]

    def expire(self, message: CoreMessage) -> None:
        """Expire the rows that none of those of this message sees.

        In a count window that follows from how many rows there were (passive expiry). In a time window it follows from
        the times that came with the rows before these: a row of this message may be older than the last of them. While
        a side is idle, the join's watermark may be ahead of them.
        """
        window, scope = self._plan.config.window, self._plan.scope
        if scope.counted is None:
            mark = later(self._clock.watermark, message.part.watermark)
            if mark is not None:
                for side in SIDES:
                    self.region(message, side).expire_below(
                        message.time_dimension[side], scope.oldest(side, mark), message.oldest[side]
                    )
        else:
            first = {side: window.first(side, message.before[side]) for side in SIDES}
            if self._plan.config.self_join:
                first = dict.fromkeys(SIDES, min(first.values()))
            for side in SIDES:
                if first[side] > 0:
                    self.region(message, side).expire(first[side])

    def store(self, message: CoreMessage) -> None:
        """Store those of the rows whose turn is this core's: the right region right rows, the left one left rows."""
        for side in message.rows:
            self.store_side(message, side)
        self.hear(message)

    def hear(self, message: CoreMessage) -> None:
        """Take notice of the times of a message's rows."""
        clock, latest = self._clock, message.latest
        clock.left = max(clock.left, latest.get("left", clock.left))
        clock.right = max(clock.right, latest.get("right", clock.right))

    def store_side(self, message: CoreMessage, side: Side) -> None:
        """Store those of one side's rows whose turn is this core's."""
        self.region(message, side).store(message.rows[side], message.live[side])

    def compare(self, message: CoreMessage, role: Side, least: int = 0) -> ListedInCore:
        """Compare one side's probes with the rows that it stores now, those from the ordinal `least` on."""
        batch, request = message.batches[role], message.requests[role]
        answer = self.region(message, other(role)).process(batch, request, least)
        return ListedInCore(answer, batch, only_counts=request.only_counts)

    def process(self, message: CoreMessage) -> dict[Side, BatchMatches]:
        """Compare all probes with the rows that it stores: left probes in the right region, right ones in the left."""
        return {
            role: self.region(message, other(role)).process(batch, message.requests[role])
            for role, batch in message.batches.items()
        }

    def take(self, message: CoreMessage) -> dict[Side, BatchMatches]:
        """Expire, store and process, and count the time."""
        start = perf_counter()
        if self._alone and message.rows:
            self.expire(message)
        self.store(message)
        answers = self.process(message)
        self.seconds += perf_counter() - start
        return answers
