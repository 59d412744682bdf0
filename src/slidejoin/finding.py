"""Asking both indexes, and what they found slot by slot: ranges of sorted runs, or rows of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.band_cells import BandCells, FoundInCells
from slidejoin.index.bi_sort import BiSort
from slidejoin.kernels.weaving import weave
from slidejoin.parallel.probing import search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from slidejoin.index.probing import Found
    from slidejoin.parallel.probing import Workers
    from slidejoin.plan import Plan
    from slidejoin.predicate.expr import Side
    from slidejoin.questions import Question
    from slidejoin.stats import Stats
    from slidejoin.store.side import SideWindow

__all__ = ["FoundInWindows", "Searcher", "WovenCells"]

LANES = 8
"""Positions that are read at once, so that `found` has to be longer by as many."""

SMALLEST_PART = 1 << 13
"""Pairs that are worth a thread of their own when they are written."""

SMALLEST_SEARCH = 1 << 11
"""Probes of cells that are worth one."""


class FoundInWindows:
    """Candidates by two passes: each side's index has counted its own, and writes them where they belong."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.counts: NDArray[np.int64] = np.zeros(slots, np.int64)
        self._found: list[tuple[Side, NDArray[np.int64], Found]] = []

    def add(self, role: Side, slots: NDArray[np.int64], found: Found) -> None:
        """Add what the probes of one side found; `slots` (n,) int64 ascending, one for each probe."""
        self.counts[slots] = found.counts
        self._found.append((role, slots, found))

    @property
    def total(self) -> int:
        """Candidates of all slots."""
        return int(self.counts.sum())

    def write(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the (left, right) ordinals of the candidates of slots first…last-1."""
        counts = self.counts[first:last]
        total = int(counts.sum())
        starts = np.cumsum(counts) - counts
        left, right = np.empty(total, np.int64), np.empty(total, np.int64)
        for role, slots, found in self._found:
            begin, end = (int(at) for at in np.searchsorted(slots, (first, last)))
            places = np.zeros(slots.size, np.int64)
            places[begin:end] = starts[slots[begin:end] - first]
            found.fill(begin, end, places, *((left, right) if role == "left" else (right, left)))
        return left, right

    def by_left(self) -> NDArray[np.bool_]:
        """Whether the probe of each slot is a left row, (slots,)."""
        mask = np.zeros(self.slots, np.bool_)
        for role, slots, _ in self._found:
            mask[slots] = role == "left"
        return mask


class WovenCells:
    """Candidates in one pass: each side's probes have found theirs, which are woven into the arrival order.

    Parameters
    ----------
    sides : dict
        For each side the slots of its probes (n,) int64, what they found, the ordinal of the first of them, and the
        floor of the table that they looked into.
    first, last : int
        The slots that are answered.
    """

    def __init__(
        self,
        sides: dict[Side, tuple[NDArray[np.int64], FoundInCells, int, int]],
        first: int,
        last: int,
        workers: Workers,
    ) -> None:
        self._sides = sides
        self._first = first
        self.slots = last - first
        self._workers = workers
        self._bounds = {side: self._probes(side, first, last) for side in sides}
        self._totals = {
            side: int(found.counts[slice(*self._bounds[side])].sum()) for side, (_, found, _, _) in sides.items()
        }
        self.total = sum(self._totals.values())

    def _probes(self, side: Side, first: int, last: int) -> tuple[int, int]:
        """Return which probes of one side are in slots first…last-1."""
        slots = self._sides[side][0]
        begin = 0 if first == 0 else int(np.searchsorted(slots, first))
        return begin, slots.size if not slots.size or slots[-1] < last else int(np.searchsorted(slots, last))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Candidates of each slot, (slots,)."""
        counts = np.zeros(self.slots, np.int64)
        for side, (slots, found, _, _) in self._sides.items():
            cut = slice(*self._bounds[side])
            counts[slots[cut] - self._first] = found.counts[cut]
        return counts

    def by_left(self) -> NDArray[np.bool_]:
        """Whether the probe of each slot is a left row, (slots,)."""
        mask = np.zeros(self.slots, np.bool_)
        mask[self._sides["left"][0][slice(*self._bounds["left"])] - self._first] = True
        return mask

    def write(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the (left, right) ordinals of the candidates of slots first…last-1, each thread a stretch of them."""
        first, last = first + self._first, last + self._first
        stops = [first, last]
        if self._workers.threads > 1 and self.total >= 2 * SMALLEST_PART:
            parts = min(self._workers.threads, self.total // SMALLEST_PART)
            stops = [first + (last - first) * part // parts for part in range(parts + 1)]
        # Where each stretch begins, on both sides: its probes, what they found, and the pairs before it.
        begins = {side: [self._probes(side, 0, stop)[1] for stop in stops] for side in self._sides}
        takes = {side: self._takes(side, begins[side]) for side in self._sides}
        at = [sum(takes[side][part] - takes[side][0] for side in takes) for part in range(len(stops))]
        left, right = np.empty(at[-1], np.int64), np.empty(at[-1], np.int64)
        self._workers.run([self._stretch(part, begins, takes, at, left, right) for part in range(len(stops) - 1)])
        return left, right

    def _takes(self, side: Side, begins: list[int]) -> list[int]:
        found = self._sides[side][1]
        takes, probe = [], found.begin
        total = 0
        for begin in begins:
            total += int(found.counts[probe:begin].sum())
            takes.append(total)
            probe = begin
        return takes

    def _stretch(
        self,
        part: int,
        begins: dict[Side, list[int]],
        takes: dict[Side, list[int]],
        at: list[int],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
    ) -> Callable[[], None]:
        (slots, ours, first, floor), (their_slots, theirs, their_first, their_floor) = (
            self._sides["left"],
            self._sides["right"],
        )

        def run() -> None:
            weave(
                slots, ours.counts, ours.found, first, floor,
                their_slots, theirs.counts, theirs.found, their_first, their_floor,
                begins["left"][part], begins["right"][part], takes["left"][part], takes["right"][part],
                begins["left"][part + 1], begins["right"][part + 1], left, right, at[part], at[part + 1],
            )  # fmt: skip

        return run


class Searcher:
    """Puts the questions of both sides to both indexes."""

    def __init__(self, plan: Plan, windows: dict[Side, SideWindow], workers: Workers) -> None:
        self._plan = plan
        self._windows = windows
        self._workers = workers
        # Used again for every push: fresh memory costs a page fault for each 4 KiB.
        self._memory: dict[tuple[Side, int], FoundInCells] = {}
        self._counts: dict[Side, NDArray[np.int32]] = {}

    def find(
        self, questions: dict[Side, Question], slots: int, stats: Stats, *, counting: bool
    ) -> Iterator[FoundInWindows | WovenCells]:
        """Yield candidates for all slots in turn; with `counting` only their numbers are needed."""
        if isinstance(self._windows["left"].index, BandCells):
            yield from self._find_in_cells(questions, slots, stats, counting=counting)
            return
        found = FoundInWindows(slots)
        with stats.step("probe"):
            for role, question in questions.items():
                index = self._windows[question.stored].index
                assert isinstance(index, BiSort)  # noqa: S101 - both sides have the same kind
                found.add(role, question.slots, search(index, question.probes(self._plan), self._workers))
        yield found

    def _find_in_cells(
        self, questions: dict[Side, Question], slots: int, stats: Stats, *, counting: bool
    ) -> Iterator[WovenCells]:
        first, starts = 0, dict.fromkeys(questions, 0)
        while first < slots:
            with stats.step("probe"):
                answers = self._answer(questions, starts, counting=counting)
                # Slots are answered up to the first probe, of either side, for which there was no room.
                last = slots
                for question, found in answers.values():
                    if found.done < question.rows:
                        last = min(last, int(question.slots[found.done]))
                sides = {}
                for role, (question, found) in answers.items():
                    floor = self._windows[question.stored].index
                    assert isinstance(floor, BandCells)  # noqa: S101 - both sides have the same kind
                    sides[role] = (question.slots, found, question.first, floor.floor)
                woven = WovenCells(sides, first, last, self._workers)
            yield woven
            first = last
            starts = {role: int(np.searchsorted(question.slots, last)) for role, question in questions.items()}

    def _answer(
        self, questions: dict[Side, Question], starts: dict[Side, int], *, counting: bool
    ) -> dict[Side, tuple[Question, FoundInCells]]:
        rest = {role: question.rows - starts[role] for role, question in questions.items()}
        share = max(-(-sum(rest.values()) // self._workers.threads), SMALLEST_SEARCH)
        tasks: list[Callable[[], None]] = []
        parts: dict[Side, list[FoundInCells]] = {}
        for role, question in questions.items():
            table = self._windows[question.stored].index
            assert isinstance(table, BandCells)  # noqa: S101 - both sides have the same kind
            asked = question.cells(self._plan, table)
            count = max(1, round(rest[role] / share))
            stops = [starts[role] + rest[role] * part // count for part in range(count + 1)]
            parts[role] = []
            for part in range(count):
                into = self._memory.setdefault((role, part), FoundInCells())
                into.counts = self._room(role, question.rows)
                parts[role].append(into)
                if counting and not asked.dims.size:
                    tasks.append(_task(table.count, asked, stops[part], stops[part + 1], into))
                else:
                    tasks.append(_task(table.find, asked, stops[part], stops[part + 1], into))
        self._workers.run(tasks)
        return {role: (question, _joined(parts[role])) for role, question in questions.items()}

    def _room(self, role: Side, rows: int) -> NDArray[np.int32]:
        """Memory for the counts of one side's probes."""
        known = self._counts.get(role)
        if known is None or known.size < rows:
            known = self._counts[role] = np.empty(rows, np.int32)
        return known


def _task(function: Callable[..., None], *args: object) -> Callable[[], None]:
    return lambda: function(*args)


def _joined(parts: list[FoundInCells]) -> FoundInCells:
    """Put together what neighbouring stretches of probes found, up to the first that was not finished."""
    if len(parts) == 1:
        return parts[0]
    whole = []
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        whole.append(part)
        if following is not None and part.done < following.begin:
            break
    found = np.concatenate([*(part.found[: part.total] for part in whole), np.empty(LANES, np.uint32)])
    return FoundInCells(parts[0].begin, whole[-1].done, sum(part.total for part in whole), parts[0].counts, found)
