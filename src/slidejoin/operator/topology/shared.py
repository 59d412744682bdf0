"""Insert and probe: the rows of one slice are inserted into their own side's window and probe the other side's.

Each of the two indexes has one owner: one thread inserts the left rows and then probes them with the right rows, the
other thread does the same for the right index. Ordinals decide which rows see each other, so neither thread waits.
"""

from __future__ import annotations

from functools import partial
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import MatchPositions
from slidejoin.index.protocol import Request
from slidejoin.operator.candidates import NO_PROBES, PositionCandidates, RangeCandidates
from slidejoin.operator.probe_batch import slots_of
from slidejoin.operator.topology.join_topology import JoinTopology
from slidejoin.sides import SIDES, other
from slidejoin.spec.topologies import Shared

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from slidejoin.index.answer import Answer
    from slidejoin.index.keys import Prepared
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.operator.ingest.arrival import Arrivals
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["SharedTopology"]

EVEN = 3
"""With this many times the other side's rows, a side's probes are divided instead: one owner each would leave one
idle."""


class SharedTopology(JoinTopology):
    """Takes one slice of arrivals after the other into both windows, and finds candidates: the shared topology."""

    def run(
        self, part: Push, first: dict[Side, int]
    ) -> tuple[Iterator[RangeCandidates | PositionCandidates], set[int]]:
        """Insert the rows with ordinals from `first` on, and return the candidates of all slots in turn.

        The set holds the terms that are not exact for these rows: their candidates have to be rechecked.
        """
        tuning = self._plan.tuning
        batches: dict[Side, ProbeBatch] = {}
        answers: dict[Side, Answer] = {}
        # Each side's rows are prepared by its owner, and may probe the other index in the order that this gave.
        prepared: dict[Side, Prepared] = {}
        preparing = {side: Lock() for side in SIDES}

        def prepare(side: Side) -> None:
            with preparing[side]:
                if side not in prepared and part.tables[side].num_rows:
                    start = perf_counter()
                    prepared[side] = self._windows[side].prepare(part.tables[side], first[side])
                    self._stats.since("insert", start)

        def own(stored: Side) -> None:
            role = other(stored)
            prepare(stored)
            self._append(stored, part, first, prepared.get(stored))
            ordered = self._takes_order(stored)
            if ordered:
                # Mostly the other owner has done so, or is at it; it may not have begun, where threads are few.
                prepare(role)
            batches[role] = self._batch(role, part, first, prepared.get(role) if ordered else None)
            # Who has ended helps the other one, where probes take long.
            dear_here = self._windows[stored].index.dear_probes
            several = dear_here or (self._workers.threads > len(SIDES) and not alone)
            workers = self._workers if several else self._alone
            answers.update(self._answer({role: batches[role]}, {role: 0}, workers, least=tuning.owned_probe_spread))

        few, many = sorted(part.tables[side].num_rows for side in SIDES)
        alone = self._alone_for(part)
        in_turn = self._plan.config.self_join or part.seen is not None
        if few == 0 and many and not in_turn:
            self._probe_one_side("left" if part.tables["left"].num_rows else "right", part, first, batches, answers)
        elif in_turn or not (alone or many <= EVEN * few):
            # The windows of a self-join share the rows, which the left one takes: it comes first.
            spread = self._alone if alone or in_turn else self._workers
            spread.run([partial(self._append, side, part, first, None) for side in SIDES])
            batches |= {role: self._batch(role, part, first) for role in SIDES}
            answers |= self._answer(batches, dict.fromkeys(SIDES, 0), self._alone if alone else self._workers)
        elif alone:
            for side in SIDES:
                prepare(side)
            for side in SIDES:
                own(side)
        else:
            self._workers.run([partial(own, side) for side in SIDES])
        inexact = set(self._plan.loose).union(*[batch.inexact for batch in batches.values()])
        inexact = inexact.union(*[window.index.inexact for window in self._windows.values()])
        return self._candidates(part.arrivals, batches, answers, inexact), inexact

    def _probe_one_side(
        self,
        role: Side,
        part: Push,
        first: dict[Side, int],
        batches: dict[Side, ProbeBatch],
        answers: dict[Side, Answer],
    ) -> None:
        """Insert the rows of a slice that has those of one side alone, and probe with them: nobody probes for them."""
        window, prepared = self._windows[role], None
        if window.indexed:
            start = perf_counter()
            prepared = window.prepare(part.tables[role], first[role])
            self._stats.since("insert", start)
        self._append(role, part, first, prepared)
        batches[role] = self._batch(role, part, first, prepared if self._takes_order(other(role)) else None)
        answers |= self._answer(batches, {role: 0}, self._alone if self._alone_for(part) else self._workers)

    def _alone_for(self, part: Push) -> bool:
        """Tell whether a slice is too small for several threads."""
        tuning, dear = self._plan.tuning, any(window.index.dear_probes for window in self._windows.values())
        least = tuning.dear_push_spread if dear else tuning.push_spread
        return self._workers.threads == 1 or part.rows < least

    def probe_again(self, part: Push, first: dict[Side, int]) -> Iterator[RangeCandidates | PositionCandidates]:
        """Find candidates for rows that are inserted already, with ordinals from `first` on."""
        for window in self._windows.values():
            window.refit()
        batches = {role: self._batch(role, part, first) for role in SIDES}
        answers = self._answer(batches, dict.fromkeys(SIDES, 0), self._workers)
        return self._candidates(part.arrivals, batches, answers, set())

    def explain(self) -> str:
        """Return what was chosen and why, in words."""
        set_or_not = (
            "topology='shared' was set" if self._plan.config.topology else "it measures fastest of all topologies"
        )
        return f"{Shared.what}; {set_or_not}"

    # -- steps -----------------------------------------------------------------------------------------------------

    def _takes_order(self, stored: Side) -> bool:
        """Whether the index of that side is better probed in the order of the probes' own keys."""
        counts = self._plan.config.output == "count"
        return self._windows[stored].index.takes_order(counts=counts, only_counts=self._only_counts(self._plan.loose))

    def _answer(
        self,
        batches: dict[Side, ProbeBatch],
        starts: dict[Side, int],
        workers: Workers,
        inexact: Collection[int] = (),
        least: int | None = None,
    ) -> dict[Side, Answer]:
        """Probe the indexes with batches, from the probe on that `starts` names, with as many threads as pay."""
        start = perf_counter()
        rest = sum(len(batch) - starts[role] for role, batch in batches.items())
        share = max(-(-rest // workers.threads), least or self._plan.tuning.probe_spread)
        probing = {}
        for role, batch in batches.items():
            index = self._windows[other(role)].index
            terms = {*inexact, *self._plan.loose, *batch.inexact, *index.inexact}
            request = Request(
                starts[role], share, self._plan.config.output == "count", self._only_counts(terms), workers
            )
            probing[role] = index.probe(batch, request)
        workers.run([task for one in probing.values() for task in one.tasks])
        answers = {role: one.answer() for role, one in probing.items()}
        self._stats.since("probe", start)
        return answers

    # -- candidates ------------------------------------------------------------------------------------------------

    def _candidates(
        self, arrivals: Arrivals, batches: dict[Side, ProbeBatch], answers: dict[Side, Answer], inexact: set[int]
    ) -> Iterator[RangeCandidates | PositionCandidates]:
        slots = {role: slots_of(self._plan, role, arrivals.rank(self._source(role))) for role in batches}
        total = sum(len(batch) for batch in batches.values())
        positions = {role: answer.positions for role, answer in answers.items() if answer.positions is not None}
        if len(positions) < len(answers) or any(one.done < len(batches[role]) for role, one in positions.items()):
            whole = RangeCandidates(total, self._workers, self._memory)
            for role, batch in batches.items():
                ranges = answers[role].ranges or self._windows[other(role)].index.ranges(batch, self._workers)
                if ranges is None:
                    break
                whole.add(role, slots[role], ranges)
            else:
                yield whole
                return
        if any(one.only_counts for one in positions.values()) and not self._only_counts(inexact):
            # One side's probes turned out to need a filter, which checks the pairs of both.
            positions = self._probed_again(batches, dict.fromkeys(batches, 0), inexact)
        first = 0
        while first < total:
            # Slots are answered up to the first probe, of either side, for which there was no room.
            stopped = {r: one.done for r, one in positions.items() if one.done < len(batches[r])}
            open_slots = [int(slots[r][done]) for r, done in stopped.items()]
            last = min([total, *open_slots])
            sides = {
                role: (slots[role], positions[role], batch.first, self._windows[other(role)].index.floor)
                for role, batch in batches.items()
            }
            sides |= {role: (NO_PROBES, MatchPositions(), 0, 0) for role in SIDES if role not in sides}
            yield PositionCandidates(sides, first, last, self._workers, self._memory)
            first = last
            if first < total:
                starts = {role: int(np.searchsorted(slots[role], last)) for role in batches}
                positions = self._probed_again(batches, starts, inexact)

    def _probed_again(
        self, batches: dict[Side, ProbeBatch], starts: dict[Side, int], inexact: set[int]
    ) -> dict[Side, MatchPositions]:
        again = self._answer(batches, starts, self._workers, inexact)
        return {role: one.positions for role, one in again.items() if one.positions is not None}
