"""The steps that topologies share: rows into their side's window, rows into probes of the other side's."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.operator.probe_batch import probe_batch
from slidejoin.operator.topology.protocol import JoinTopology
from slidejoin.runtime.threads import Workers
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from slidejoin.index.keys import Prepared
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.sides import Side

__all__ = ["TopologySteps", "task"]


class TopologySteps(JoinTopology):
    """A topology of one join, with the steps that most have in common.

    Parameters
    ----------
    plan : Plan
    windows : dict from side to SideWindow
        Still empty when this is made.
    workers : Workers
        The threads among which work is spread.
    stats : Stats
        Where the seconds of each step are counted.
    memory : ArrayPool
        What pairs are written into.
    """

    def __init__(
        self, plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats, memory: ArrayPool
    ) -> None:
        self._plan, self._windows, self._stats = plan, windows, stats
        self._workers, self._alone = workers, Workers(1)
        self._memory = memory

    def insert(self, part: Push, first: dict[Side, int]) -> None:
        """Only insert the rows, with ordinals from `first` on."""
        for side in SIDES:
            self._append(side, part, first, None)

    def _append(self, side: Side, part: Push, first: dict[Side, int], prepared: Prepared | None) -> None:
        start, source = perf_counter(), self._source(side)
        self._windows[side].append(part.tables[source], part.times[source], first[side], prepared)
        self._stats.since("insert", start)

    def _batch(self, role: Side, part: Push, first: dict[Side, int], prepared: Prepared | None = None) -> ProbeBatch:
        """Return the probes of one side; their ranges are computed now, unless own keys are sufficient."""
        start, source = perf_counter(), self._source(role)
        batch = probe_batch(
            self._plan, role, part.tables[source], part.arrivals.rank(source),
            layout=self._windows[other(role)].layout, first=first[role], arrived=first[other(role)], prepared=prepared,
        )  # fmt: skip
        if batch.own is None:
            _ = batch.ranges
        self._stats.since("keys", start)
        return batch

    def _source(self, role: Side) -> Side:
        return "left" if self._plan.config.self_join else role

    def _only_counts(self, inexact: Collection[int]) -> bool:
        """Whether only numbers of candidates are needed: the output is counts, and no candidate is rechecked."""
        return self._plan.config.output == "count" and self._plan.filter(inexact) is None


def task(function: Callable[..., None], *args: object) -> Callable[[], None]:
    """Return a call as a task for `Workers`."""
    return lambda: function(*args)
