"""What topologies have in common that divide the stored rows among join cores: messages to all, answers of all.

A slice of arrivals becomes one message, which every core gets: the rows, of which it stores its share, and the probes,
which it compares with all that it has stored. How the message reaches the cores, and how their answers are put
together, is the topology's own.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.index.factory import make_index
from slidejoin.index.protocol import Request
from slidejoin.operator.candidates import RangeCandidates
from slidejoin.operator.probe_batch import slots_of
from slidejoin.operator.topology.join_topology import JoinTopology
from slidejoin.papers.split_join.cores.answers import MatchesInCores
from slidejoin.papers.split_join.cores.cores_index import CoresIndex, DealtRows
from slidejoin.papers.split_join.join_core import CoreMessage, JoinCore
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.factory import Keyspace
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index, Occupancy
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.output import Candidates
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["DividedTopology"]


class DividedTopology(JoinTopology):
    """A topology with join cores, see `JoinTopology`.

    Parameters
    ----------
    cores : int or None
        How many; None for as many as there are threads.

    Attributes
    ----------
    cores : list of JoinCore
    """

    expires_alone: bool = True
    """Whether each core expires its rows by itself, without a message."""

    fan_in: int = 8
    """Inputs of a merger."""

    def __init__(
        self,
        plan: Plan,
        windows: dict[Side, SideWindow],
        workers: Workers,
        stats: Stats,
        memory: ArrayPool,
        cores: int | None,
    ) -> None:
        super().__init__(plan, windows, workers, stats, memory)
        count = cores or workers.threads
        self.cores = [self.make_core(number, count) for number in range(count)]

    def make_core(self, number: int, cores: int) -> JoinCore:  # noqa: ARG002 - see `HandshakeTopology`
        """Return one core of so many."""
        return JoinCore(self._plan, number, alone=self.expires_alone)

    def make_index(self, algorithm: str, keys: Keyspace, window: Occupancy) -> Index:
        """Return an empty index with a region for each core, which uses that algorithm."""
        return CoresIndex.of(
            partial(make_index, algorithm, keys), window, algorithm, len(self.cores), self.fan_in, alone=True
        )

    def insert(self, part: Push, first: dict[Side, int]) -> None:
        """Only insert the rows, with ordinals from `first` on."""
        self._send(self._message(part, first))
        self._refit()

    def run(self, part: Push, first: dict[Side, int]) -> tuple[Iterator[Candidates], set[int]]:
        """Insert the rows with ordinals from `first` on, and return the candidates of all slots in turn.

        The set holds the terms that are not exact for these rows: their candidates have to be rechecked.
        """
        start = perf_counter()
        message = self._message(part, first)
        batches: dict[Side, ProbeBatch] = {role: self._batch(role, part, first) for role in SIDES}
        inexact = set(self._plan.loose).union(*(batch.inexact for batch in batches.values()))
        self._ask(message, batches, inexact)
        self._stats.since("distribution", start)
        answers = self._sent(message)
        of_rows = set().union(*(window.index.inexact for window in self._windows.values()))
        if self._refit() or not of_rows <= inexact:
            # Rows moved to other indexes, or a key was clipped that nobody knew of when the probes were sent.
            inexact |= of_rows.union(*(window.index.inexact for window in self._windows.values()))
            again = CoreMessage(self._indexes(), dict(first), part)
            self._ask(again, batches, inexact)
            answers = self._sent(again)
        return self._candidates(batches, answers), inexact

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
        timed = self._plan.scope.counted is None
        return CoreMessage(
            self._indexes(),
            dict(first),
            part,
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

    def _refit(self) -> bool:
        """Rebuild indexes of cores that cannot distinguish their keys; tell whether any was."""
        before = [window.index for window in self._windows.values()]
        for window in self._windows.values():
            window.refit()
        return any(window.index is not old for window, old in zip(self._windows.values(), before, strict=True))

    # -- execution ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def _send(self, message: CoreMessage) -> dict[Side, list[BatchMatches]]:
        """Let all cores take a message; return the answer of each core, for each side with probes."""

    def _sent(self, message: CoreMessage) -> dict[Side, list[BatchMatches]]:
        start, before = perf_counter(), sum(core.seconds for core in self.cores)
        answers = self._send(message)
        now = self._stats.since("visit", start)
        # Counted by the cores, which work side by side.
        self._stats.since("execution", now - sum(core.seconds for core in self.cores) + before)
        return answers

    def _threads(self, rows: int) -> int:
        """Return how many threads a message of so many rows and probes is worth."""
        dear = any(window.index.dear_probes for window in self._windows.values())
        few = rows * len(self.cores) < 2 * self._plan.tuning.push_spread and not dear
        return 1 if few else min(self._workers.threads, len(self.cores))

    # -- gathering ---------------------------------------------------------------------------------------------------

    def _candidates(
        self, batches: dict[Side, ProbeBatch], answers: dict[Side, list[BatchMatches]]
    ) -> Iterator[Candidates]:
        """Put the answers of all cores together."""
        slots = {role: slots_of(self._plan, role, batch.rank) for role, batch in batches.items()}
        yield self._merged(slots, answers)

    def _merged(self, slots: dict[Side, NDArray[np.int64]], answers: dict[Side, list[BatchMatches]]) -> RangeCandidates:
        start = perf_counter()
        merged = RangeCandidates(sum(one.size for one in slots.values()), self._workers, self._memory)
        for role, parts in answers.items():
            merged.add(role, slots[role], MatchesInCores(parts, self._workers, self.fan_in))
        self._stats.since("gathering", start)
        return merged
