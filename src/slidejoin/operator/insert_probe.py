"""The rows of a push meet the windows: each side is inserted into its own and probes the other's.

Two indexes, two owners: one thread inserts the left rows and then lets the right rows probe them, the other does the
same with the sides changed. Ordinals decide who sees whom, so neither waits for the other.
"""

from __future__ import annotations

from functools import partial
from threading import Event
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.cells.band_cells import BandCells
from slidejoin.index.cells.probes import FoundPositions
from slidejoin.index.parallel_search import Workers, search
from slidejoin.index.structure import Structure
from slidejoin.kernels.common.vectors import LANES
from slidejoin.operator.candidates import PositionCandidates, RangeCandidates
from slidejoin.operator.probe_batch import ask
from slidejoin.runtime.recycled import Recycled
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from numpy.typing import NDArray

    from slidejoin.index.protocol import Found
    from slidejoin.index.sorted_runs.bi_sort import BiSort
    from slidejoin.index.sorted_runs.run import Run
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.probe_batch import ProbeBatch
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["InsertProbe"]


SMALLEST_SPREAD = 1 << 13
"""Rows of a push that are worth a second thread: they take 0.4 ms, handing over 60 µs."""

SMALLEST_SEARCH = 1 << 11
"""Probes of cells that are worth a thread of their own, once threads are at work."""

RANGES_AGAIN = 32
"""Answers by ranges after one that had too many matches to be written down at once, which costs a search."""

EVEN = 3
"""With this many times the other side's rows, a side's probes are cut instead: an owner each would leave one idle."""


LONGEST_WAIT = 1.0
"""Seconds after which an owner takes its probes as they came, if the other one has not sorted them: something is wrong
with that thread then."""


class InsertProbe:
    """Takes one slice of arrivals after the other into both windows, and finds candidates."""

    def __init__(self, plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats) -> None:
        self._plan = plan
        self._windows = windows
        self._workers = workers
        self._alone = Workers(1)
        self._stats = stats
        # Used again for every push: fresh memory costs a page fault for each 4 KiB.
        self._found: dict[tuple[Side, int], FoundPositions] = {}
        self._counts: dict[Side, NDArray[np.int32]] = {}
        # For how many answers more ranges are kept, because pairs became too many the last time.
        self._ranges: dict[Side, int] = dict.fromkeys(SIDES, 0)
        self.memory = Recycled()

    def insert(self, part: Push) -> None:
        """Only insert the rows."""
        for side in SIDES:
            self._append(side, part, None)
        self._count_rows(part)

    def meet(self, part: Push) -> tuple[Iterator[RangeCandidates | PositionCandidates], set[int]]:
        """Insert the rows, and return the candidates of all slots in turn.

        The set holds the terms that are not the whole truth for these rows: their candidates have to be tried again.
        """
        before = {side: self._windows[side].rows_seen for side in SIDES}
        questions: dict[Side, ProbeBatch] = {}
        answers: dict[Side, Found | FoundPositions] = {}

        # Each side's rows are sorted by its owner, and probe the other index in that order.
        runs: dict[Side, Run | None] = {}
        ready = {side: Event() for side in SIDES}

        def sort(side: Side) -> None:
            try:
                runs[side] = self._sort(side, part)
            finally:
                ready[side].set()

        def own(stored: Side) -> None:
            role = other(stored)
            if stored not in runs:
                sort(stored)
            self._append(stored, part, runs[stored])
            # A table of cells has no use for an order.
            soon = runs[stored] is not None and ready[role].wait(LONGEST_WAIT)
            questions[role] = self._ask(role, part, before, runs.get(role) if soon else None)
            answers.update(self._answer({role: questions[role]}, {role: 0}, self._alone))

        few, many = sorted(part.tables[side].num_rows for side in SIDES)
        alone = self._workers.threads == 1 or part.rows < SMALLEST_SPREAD
        if self._plan.config.self_join or not (alone or (self._workers.threads == len(SIDES) and many <= EVEN * few)):
            # The windows of a self-join share the rows, which the left one takes: it comes first.
            spread = self._alone if alone or self._plan.config.self_join else self._workers
            spread.run([_task(self._append, side, part, None) for side in SIDES])
            questions |= {role: self._ask(role, part, before) for role in SIDES}
            answers |= self._answer(questions, dict.fromkeys(SIDES, 0), self._alone if alone else self._workers)
        elif alone:
            for side in SIDES:
                sort(side)
            for side in SIDES:
                own(side)
        else:
            self._workers.run([_task(own, side) for side in SIDES])
        self._count_rows(part)
        inexact = set(self._plan.loose).union(*(question.inexact for question in questions.values()))
        inexact = inexact.union(*(window.index.inexact for window in self._windows.values()))
        slots = part.rows * (2 if self._plan.config.self_join else 1)
        return self._candidates(questions, answers, slots, inexact), inexact

    def again(self, part: Push, before: dict[Side, int]) -> Iterator[RangeCandidates | PositionCandidates]:
        """Find candidates for rows that are inserted already; `before` are the rows seen before them."""
        for window in self._windows.values():
            if isinstance(window.index, BandCells) and not (window.index.wide or window.index.narrow):
                window.rebuild_cells()
        questions = {role: self._ask(role, part, before) for role in SIDES}
        answers = self._answer(questions, dict.fromkeys(SIDES, 0), self._workers)
        return self._candidates(questions, answers, part.rows, set())

    # -- steps -----------------------------------------------------------------------------------------------------

    def _sort(self, side: Side, part: Push) -> Run | None:
        start = perf_counter()
        run = self._windows[side].sort(part.tables[self._source(side)])
        self._stats.since("insert", start)
        return run

    def _append(self, side: Side, part: Push, run: Run | None) -> None:
        start, source = perf_counter(), self._source(side)
        self._windows[side].append(part.tables[source], part.times[source], run)
        self._stats.since("insert", start)

    def _ask(self, role: Side, part: Push, before: dict[Side, int], run: Run | None = None) -> ProbeBatch:
        """Put the question; `run` are the keys of the rows of that side, if they were sorted."""
        start, source, stored = perf_counter(), self._source(role), other(role)
        rank, table = part.arrivals.rank(source), part.tables[source]
        if run is not None and not self._finds_soon(role):
            run = None
        question = ask(self._plan, role, stored, table, first=before[role], arrived=before[stored], rank=rank, run=run)
        self._stats.since("keys", start)
        return question

    def _source(self, role: Side) -> Side:
        return "left" if self._plan.config.self_join else role

    def _count_rows(self, part: Push) -> None:
        self._stats.rows_left += part.tables["left"].num_rows
        self._stats.rows_right += part.tables["right"].num_rows

    def _counting(self, inexact: set[int]) -> bool:
        """Whether numbers of candidates are all that is needed of cells."""
        return self._plan.config.output == "count" and self._plan.bound.filter(inexact) is None

    def _answer(
        self,
        questions: dict[Side, ProbeBatch],
        starts: dict[Side, int],
        workers: Workers,
        inexact: Collection[int] = (),
    ) -> dict[Side, Found | FoundPositions]:
        """Put questions to the indexes, from the probe on that `starts` names, by as many threads as pay."""
        start = perf_counter()
        tasks: list[Callable[[], None]] = []
        parts: dict[Side, list[FoundPositions]] = {}
        answers: dict[Side, Found | FoundPositions] = {}
        rest = sum(question.rows - starts[role] for role, question in questions.items())
        share = max(-(-rest // workers.threads), SMALLEST_SEARCH)
        for role, question in questions.items():
            index = self._windows[question.stored].index
            if isinstance(index, Structure):
                answers[role] = search(index, question.probes(), workers)
            elif isinstance(index, BandCells) or self._finds_few(role, index):
                parts[role] = self._parts(role, question, starts[role], share, tasks, inexact)
            elif (
                self._plan.config.output == "count"
                and question.ascending is not None
                and starts[role] == 0
                and index.suits(question.ascending)
            ):
                answers[role] = index.count_ascending(question.ascending, question.probes)
            else:
                answers[role] = search(index, question.probes(), workers)
        workers.run(tasks)
        self._stats.since("probe", start)
        return answers | {role: _joined(found) for role, found in parts.items()}

    def _finds_soon(self, role: Side) -> bool:
        """Whether it can be expected that probes are answered in the order of their keys."""
        counts = self._plan.config.output == "count"
        return self._counting(set(self._plan.loose)) if counts else self._ranges[role] == 0

    def _finds_few(self, role: Side, runs: BiSort) -> bool:
        """Whether the matches of probes of runs are written down at once, not their ranges kept until asked for."""
        if self._ranges[role] > 0:
            self._ranges[role] -= 1
            return False
        return self._plan.config.output != "count" and not runs.far

    def _parts(
        self,
        role: Side,
        question: ProbeBatch,
        start: int,
        share: int,
        tasks: list[Callable[[], None]],
        inexact: Collection[int],
    ) -> list[FoundPositions]:
        """Cut the probes of one side, add a task for each stretch, and return where its answer will be."""
        table, rest, few = self._windows[question.stored].index, question.rows - start, False
        assert not isinstance(table, Structure)  # noqa: S101 - these were searched
        count = max(1, round(rest / share))
        known = self._counts.get(role)
        if known is None or known.size < question.rows:
            known = self._counts[role] = np.empty(question.rows, np.int32)
        find: Callable[[int, int, FoundPositions], None]
        if isinstance(table, BandCells):
            asked = question.cells(table)
            terms = {*inexact, *self._plan.loose, *question.inexact, *table.inexact}
            few = not asked.dims.size and self._counting(terms)
            find = partial(table.count if few else table.find, asked)
        elif (
            question.ascending is not None and rest == question.rows and count == 1 and table.suits(question.ascending)
        ):
            find = partial(table.find_ascending, question.ascending)
        else:
            find = partial(table.find, question.probes())
        found = []
        for part in range(count):
            into = self._found.setdefault((role, part), FoundPositions())
            into.counts, into.only_counts = known, few
            stops = (start + rest * part // count, start + rest * (part + 1) // count)
            tasks.append(_task(find, *stops, into))
            found.append(into)
        return found

    # -- answers ---------------------------------------------------------------------------------------------------

    def _candidates(
        self,
        questions: dict[Side, ProbeBatch],
        answers: dict[Side, Found | FoundPositions],
        slots: int,
        inexact: set[int],
    ) -> Iterator[RangeCandidates | PositionCandidates]:
        found = {role: answer for role, answer in answers.items() if isinstance(answer, FoundPositions)}
        if not isinstance(self._windows["left"].index, BandCells) and (
            len(found) < len(answers) or any(one.done < questions[role].rows for role, one in found.items())
        ):
            yield self._ranges_of(questions, answers, slots)
            return
        if any(one.only_counts for one in found.values()) and not self._counting(inexact):
            # One side's probes turned out to need a filter, which tries the pairs of both.
            found = self._found_again(questions, dict.fromkeys(questions, 0), inexact)
        first = 0
        while first < slots:
            # Slots are answered up to the first probe, of either side, for which there was no room.
            open_slots = [int(q.slots[found[role].done]) for role, q in questions.items() if found[role].done < q.rows]
            last = min([slots, *open_slots])
            sides = {role: (q.slots, found[role], q.first, self.floor(q.stored)) for role, q in questions.items()}
            yield PositionCandidates(sides, first, last, self._workers, self.memory)
            first = last
            if first < slots:
                starts = {role: int(np.searchsorted(q.slots, last)) for role, q in questions.items()}
                found = self._found_again(questions, starts, inexact)

    def _ranges_of(
        self, questions: dict[Side, ProbeBatch], answers: dict[Side, Found | FoundPositions], slots: int
    ) -> RangeCandidates:
        """Answer by ranges of runs, for both sides: some probes have more matches than are worth writing down twice."""
        whole = RangeCandidates(slots, self._workers, self.memory)
        for role, answer in answers.items():
            question = questions[role]
            if isinstance(answer, FoundPositions):
                self._ranges[role] = RANGES_AGAIN
                index = self._windows[question.stored].index
                assert not isinstance(index, BandCells)  # noqa: S101 - both sides have the same structure
                whole.add(role, question.slots, search(index, question.probes(), self._workers))
            else:
                whole.add(role, question.slots, answer)
        return whole

    def _found_again(
        self, questions: dict[Side, ProbeBatch], starts: dict[Side, int], inexact: set[int]
    ) -> dict[Side, FoundPositions]:
        again = self._answer(questions, starts, self._workers, inexact)
        return {role: one for role, one in again.items() if isinstance(one, FoundPositions)}

    def floor(self, side: Side) -> int:
        """Return the ordinal of the oldest row that an index has."""
        return self._windows[side].index.floor


def _task(function: Callable[..., None], *args: object) -> Callable[[], None]:
    return lambda: function(*args)


def _joined(parts: list[FoundPositions]) -> FoundPositions:
    """Put together what neighbouring stretches of probes found, up to the first that was not finished."""
    if len(parts) == 1:
        return parts[0]
    whole = []
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        whole.append(part)
        if following is not None and part.done < following.begin:
            break
    # Weaving reads as many positions at once, also behind the last.
    found = np.concatenate([*(part.found[: part.total] for part in whole), np.empty(LANES, np.uint32)])
    total = sum(part.total for part in whole)
    return FoundPositions(parts[0].begin, whole[-1].done, total, parts[0].counts, found, parts[0].only_counts)
