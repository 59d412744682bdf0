"""What all topologies are: a topology inserts a slice of arrivals into both windows and finds its candidates.

It decides two things: of which indexes the index of a side's window is made, and which thread does what with them. All
else of a push (ordinals, scope, late rows, filters, output, expiry, snapshots) is the operator's and the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.index.factory import make_index
from slidejoin.operator.ingest.arrival import numbers
from slidejoin.operator.probe_batch import probe_batch
from slidejoin.runtime.threads import Workers
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import pyarrow as pa

    from slidejoin.index.factory import Keyspace
    from slidejoin.index.keys import Prepared
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index, Occupancy
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.output import Candidates, PairOutput
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.sides import Side

__all__ = ["JoinTopology"]


class JoinTopology(ABC):
    """How insert and probe of one join are spread over cores.

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

    @property
    def largest_slice(self) -> int | None:
        """How many arrivals are emitted together at most; None if that is nothing to the topology."""
        return None

    def make_index(self, algorithm: str, keys: Keyspace, window: Occupancy) -> Index:
        """Return an empty index for one side's window, with that algorithm inside."""
        return make_index(algorithm, keys, window)

    def insert(self, part: Push, first: dict[Side, int]) -> None:
        """Only insert the rows of a slice, with ordinals from `first` on."""
        for side in SIDES:
            self._append(side, part, first, None)

    @abstractmethod
    def run(self, part: Push, first: dict[Side, int]) -> tuple[Iterator[Candidates], set[int]]:
        """Insert the rows with ordinals from `first` on, and return the candidates of all slots in turn.

        The set holds the terms that are not exact for these rows: their candidates have to be rechecked.
        """

    def tables_of(
        self,
        output: PairOutput,
        part: Push,  # noqa: ARG002 - for a topology that adds rows of its own
        first: dict[Side, int],  # noqa: ARG002 - see above
    ) -> Callable[[Candidates], Iterator[pa.Table]]:
        """Return what makes output tables of the candidates of a slice that `run` has been given."""
        return output.pairs

    @abstractmethod
    def explain(self) -> str:
        """Return what was chosen and why, in words."""

    def close(self) -> None:  # noqa: B027 - most have nothing to end
        """End what runs in addition to the caller, such as threads; the topology may not be used after it."""

    # -- steps that most have in common --------------------------------------------------------------------------------

    def _append(self, side: Side, part: Push, first: dict[Side, int], prepared: Prepared | None) -> None:
        start, source = perf_counter(), self._source(side)
        if part.seen is None:
            self._windows[side].append(part.tables[source], part.times[source], first[side], prepared)
        else:
            # Rows that are stored elsewhere: what they match is gathered from here.
            self._windows[side].hold(part.tables[source], first[side])
        self._stats.since("insert", start)

    def _batch(self, role: Side, part: Push, first: dict[Side, int], prepared: Prepared | None = None) -> ProbeBatch:
        """Return the probes of one side; their ranges are computed now, unless own keys are sufficient."""
        start, source = perf_counter(), self._source(role)
        rank, arrived = part.arrivals.rank(source), first[other(role)]
        if part.seen is not None:
            # Ranks count probes as well, but for those of a self-join.
            rank, arrived = part.seen[source], 0
            rank = rank if self._plan.config.self_join else rank + numbers(rank.size)
        batch = probe_batch(
            self._plan, role, part.tables[source], rank,
            layout=self._windows[other(role)].layout, first=first[role], arrived=arrived, prepared=prepared,
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
