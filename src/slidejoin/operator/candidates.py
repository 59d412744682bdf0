"""Candidates, rows before they are filtered, slot by slot: ranges of sorted runs, or positions from other indexes.

Where no other side's probes are answered with them, `candidates_of` yields those of one window's probes in turn.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import MatchPositions
from slidejoin.index.kernels.arrival_pairs import ProbeStretch, SideMatches, merge_pairs
from slidejoin.index.kernels.expansion import SIDE, STAGES, fill_both
from slidejoin.index.protocol import Request
from slidejoin.operator.ingest.arrival import numbers
from slidejoin.operator.kernels.probe_matches import ProbeMatches, keep_flagged
from slidejoin.rows.widths import Widths
from slidejoin.runtime.threads import Workers
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from slidejoin.index.answer import Answer, BatchMatches, InRanges
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index
    from slidejoin.operator.pair_filter import PairFilter
    from slidejoin.rows.widths import TableLimit
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.sides import Side

__all__ = ["NO_PROBES", "PositionCandidates", "ProbeCandidates", "RangeCandidates", "candidates_of", "written"]


class RangeCandidates:
    """Candidates in two passes: each side's index has counted its own, and they are written in arrival order.

    Parameters
    ----------
    slots : int
    workers, memory : Workers, ArrayPool
        What writes pairs down, and into what.
    """

    def __init__(self, slots: int, workers: Workers, memory: ArrayPool) -> None:
        self.slots = slots
        self.counts: NDArray[np.int64] = np.zeros(slots, np.int64)
        self._found: list[tuple[Side, NDArray[np.int64], BatchMatches]] = []
        self._workers, self._memory = workers, memory

    def add(self, role: Side, slots: NDArray[np.int64], answer: BatchMatches) -> None:
        """Add the answer for the probes of one side; `slots` (n,) int64 ascending, one for each probe."""
        self.counts[slots] = answer.counts
        self._found.append((role, np.ascontiguousarray(slots), answer))

    @property
    def total(self) -> int:
        """Candidates of all slots."""
        return int(self.counts.sum())

    def write(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the (left, right) ordinals of the candidates of slots first…last-1, each thread a stretch of them."""
        ends = np.cumsum(self.counts[first:last])
        total = int(ends[-1]) if ends.size else 0
        left, right = self._memory.take(total), self._memory.take(total)
        parts = max(1, min(self._workers.threads, total // self._workers.tuning.write_spread))
        cuts = {first, last, *(first + int(np.searchsorted(ends, total * part // parts)) for part in range(1, parts))}
        stops = sorted(cuts)
        ranges = [answer.in_ranges for _, _, answer in self._found]
        simple = [one for one in ranges if one is not None]
        if len(simple) == len(ranges):
            self._workers.run(
                [self._stretch(*stretch, first, ends, left, right, simple) for stretch in pairwise(stops)]
            )
            return left, right
        places = np.concatenate([np.zeros(1, np.int64), ends])
        fills: list[Callable[[], None]] = []
        for role, slots, answer in self._found:
            begin, end = (int(at) for at in np.searchsorted(slots, (first, last)))
            own = np.zeros(slots.size, np.int64)
            own[begin:end] = places[slots[begin:end] - first]
            rows = (left, right) if role == "left" else (right, left)
            # Otherwise each side by a thread of its own, which may hand parts of its work to others.
            bounds = np.searchsorted(slots, stops).tolist() if answer.divisible else [begin, end]
            fills += [partial(answer.fill, low, high, own, *rows) for low, high in pairwise(bounds) if low < high]
        (self._workers if parts > 1 else Workers(1)).run(fills)
        return left, right

    def _stretch(
        self,
        begin: int,
        end: int,
        first: int,
        ends: NDArray[np.int64],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        ranges: list[InRanges],
    ) -> Callable[[], None]:
        """Return a task that writes the candidates of slots begin…end-1; `ranges` are the answers, in that order."""
        sides = {role: (slots, answer) for role, slots, answer in self._found}
        # Answers of a side that was searched in parts have bounds within.
        cuts = {begin, end}
        for slots, answer in sides.values():
            bounds = [int(slots[bound]) for bound in answer.bounds if bound < slots.size]
            cuts |= {bound for bound in bounds if begin < bound < end}
        calls = []
        for start, stop in pairwise(sorted(cuts)):
            probes = {role: (np.zeros(SIDE, np.int64), 0, 0) for role in SIDES}
            for (role, (slots, _)), found_ranges in zip(sides.items(), ranges, strict=True):
                low, high = (int(place) for place in np.searchsorted(slots, (start, stop)))
                probes[role] = found_ranges.described(slots, low, high)
            calls.append((probes["left"], probes["right"], int(ends[start - first - 1]) if start > first else 0))

        def run() -> None:
            stages = np.empty(STAGES, np.int64)
            for (ours, i, end_i), (theirs, j, end_j), at in calls:
                fill_both(ours, theirs, ProbeStretch(i, j, end_i, end_j), left, right, at, stages)

        return run

    def by_left(self) -> NDArray[np.bool_]:
        """Whether the probe of each slot is a left row, (slots,)."""
        mask = np.zeros(self.slots, np.bool_)
        for role, slots, _ in self._found:
            mask[slots] = role == "left"
        return mask


class PositionCandidates:
    """Candidates in one pass: those of each side's probes, which are merged into arrival order.

    Parameters
    ----------
    sides : dict
        For each side the slots of its probes (n,) int64, their matches, the ordinal of the first probe, and the floor
        of the probed table.
    first, last : int
        The slots that are answered.
    workers, memory : Workers, ArrayPool
        What writes pairs down, and into what.
    """

    def __init__(
        self,
        sides: dict[Side, tuple[NDArray[np.int64], MatchPositions, int, int]],
        first: int,
        last: int,
        workers: Workers,
        memory: ArrayPool,
    ) -> None:
        self._sides = sides
        self._first = first
        self.slots = last - first
        self._workers = workers
        self._memory = memory
        self._bounds = {side: self._probes(side, first, last) for side in sides}
        self._count()

    def _count(self) -> None:
        """Count the candidates of each side's probes."""
        cuts = {side: slice(*bounds) for side, bounds in self._bounds.items()}
        self._totals = {side: int(one[1].counts[cuts[side]].sum()) for side, one in self._sides.items()}
        self.total = sum(self._totals.values())

    def narrow(self, condition: PairFilter) -> bool:
        """Keep those for which a condition holds, each thread those of a stretch of probes.

        Returns False, and changes nothing, if pairs have to be evaluated.
        """
        flags: dict[Side, NDArray[np.bool_]] = {}
        stretches: list[tuple[Side, tuple[int, int], int]] = []
        for side, (_, answer, _, _) in self._sides.items():
            begin, end = self._bounds[side]
            before = int(answer.counts[answer.begin : begin].sum())
            ends = np.cumsum(answer.counts[begin:end]) + before
            flags[side] = np.empty(int(ends[-1]) if ends.size else before, np.bool_)
            total = flags[side].size - before
            parts = max(1, min(2 * self._workers.threads, total // self._workers.tuning.condition_spread))
            stops = [
                begin,
                *(begin + int(np.searchsorted(ends, before + total * n // parts)) for n in range(1, parts)),
                end,
            ]
            for low, high in pairwise(stops):
                if low < high:
                    stretches.append((side, (low, high), int(ends[low - 1 - begin]) if low > begin else before))
        answers = [False] * len(stretches)

        def check(number: int) -> None:
            side, probes, take = stretches[number]
            _, answer, first, floor = self._sides[side]
            answers[number] = condition.holds_matches(side, answer, probes, take, (first, floor), flags[side])

        self._workers.run([partial(check, number) for number in range(len(stretches))])
        if not all(answers):
            return False
        remaining = [0] * len(stretches)

        def keep(number: int) -> None:
            side, probes, take = stretches[number]
            answer = self._sides[side][1]
            remaining[number] = keep_flagged(ProbeMatches(answer.positions, answer.counts, *probes, take), flags[side])

        self._workers.run([partial(keep, number) for number in range(len(stretches))])
        # What a stretch keeps is moved to where the one before it ends.
        ends_at: dict[Side, int] = {}
        for (side, _, take), count in zip(stretches, remaining, strict=True):
            positions, at = self._sides[side][1].positions, ends_at.get(side, take)
            if at < take:
                positions[at : at + count] = positions[take : take + count]
            ends_at[side] = at + count
        self._count()
        return True

    def _probes(self, side: Side, first: int, last: int) -> tuple[int, int]:
        """Return which probes of one side are in slots first…last-1."""
        slots = self._sides[side][0]
        begin = 0 if first == 0 else int(slots.searchsorted(first))
        return begin, slots.size if not slots.size or slots[-1] < last else int(slots.searchsorted(last))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Candidates of each slot, (slots,)."""
        counts = np.zeros(self.slots, np.int64)
        for side, (slots, answer, _, _) in self._sides.items():
            cut = slice(*self._bounds[side])
            counts[slots[cut] - self._first] = answer.counts[cut]
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
        least = self._workers.tuning.write_spread
        if self._workers.threads > 1 and self.total >= 2 * least:
            parts = min(self._workers.threads, self.total // least)
            stops = [first + (last - first) * part // parts for part in range(parts + 1)]
        # Where each stretch begins, on both sides: its probes, their matches, and the pairs before it.
        begins = {side: [self._probes(side, 0, stop)[1] for stop in stops] for side in self._sides}
        takes = {side: self._takes(side, begins[side]) for side in self._sides}
        at = [sum(takes[side][part] - takes[side][0] for side in takes) for part in range(len(stops))]
        left, right = self._memory.take(at[-1]), self._memory.take(at[-1])
        self._workers.run([self._stretch(part, begins, takes, at, left, right) for part in range(len(stops) - 1)])
        return left, right

    def _takes(self, side: Side, begins: list[int]) -> list[int]:
        """Return how many candidates of one side come before each of these probes."""
        answer = self._sides[side][1]
        takes, probe, total = [], answer.begin, 0
        for begin in begins[:-1]:
            total += int(answer.counts[probe:begin].sum()) if probe < begin else 0
            takes.append(total)
            probe = begin
        if (begins[0], begins[-1]) == self._bounds[side]:
            return [*takes, takes[0] + self._totals[side]]
        return [*takes, total + int(answer.counts[probe : begins[-1]].sum())]

    def _stretch(
        self,
        part: int,
        begins: dict[Side, list[int]],
        takes: dict[Side, list[int]],
        at: list[int],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
    ) -> Callable[[], None]:
        def matches(side: Side) -> SideMatches:
            slots, answer, first, floor = self._sides[side]
            return SideMatches(slots, answer.counts, answer.positions, first, floor, takes[side][part])

        def run() -> None:
            (i, end_i), (j, end_j) = (begins[side][part : part + 2] for side in SIDES)
            stretch = ProbeStretch(i, j, end_i, end_j)
            merge_pairs(matches("left"), matches("right"), stretch, left, right, at[part], at[part + 1])

        return run


NO_PROBES = np.empty(0, np.int64)


@dataclass(frozen=True)
class ProbeCandidates:
    """Candidates of consecutive probes, and the first of these; also as positions, where the index returns these.

    A slot is a probe, counted from the first; the left ordinals of candidates are places of probes in the batch.
    """

    first: int
    positions: MatchPositions | None
    make: Callable[[], RangeCandidates | PositionCandidates]

    @cached_property
    def of(self) -> RangeCandidates | PositionCandidates:
        """The candidates; whoever takes positions needs them in no other form."""
        return self.make()


def candidates_of(
    index: Index,
    batch: ProbeBatch,
    workers: Workers,
    memory: ArrayPool,
    *,
    only_counts: bool = False,
    lock: AbstractContextManager[object] | None = None,
) -> Iterator[ProbeCandidates]:
    """Yield the candidates of all probes of a batch, whose first ordinal is 0, in turn.

    Parameters
    ----------
    index : Index
        Of the window that is probed.
    batch : ProbeBatch
    workers, memory : Workers, ArrayPool
        What looks candidates up and writes them, and into what.
    only_counts : bool
        Whether only their numbers are needed.
    lock : context manager, optional
        Held while the index is probed, where several threads probe it.
    """
    rows, held = len(batch), nullcontext() if lock is None else lock

    def answer(start: int) -> Answer:
        request = Request(start, rows, only_counts, only_counts, workers, lasting=True)
        with held:
            probing = index.probe(batch, request)
        for task in probing.tasks:
            task()
        return probing.answer()

    slots, earliest = numbers(rows), answer(0)
    positions = earliest.positions
    if positions is None or positions.done < rows:
        ranges = earliest.ranges
        if ranges is None:
            with held:
                ranges = index.ranges(batch, workers)
        if ranges is not None:
            whole = RangeCandidates(rows, workers, memory)
            whole.add("left", slots, ranges)
            yield ProbeCandidates(0, None, lambda: whole)
            return
    first = 0
    while first < rows and positions is not None:
        # Up to the first probe for which there was no room.
        last = positions.done
        sides: dict[Side, tuple[NDArray[np.int64], MatchPositions, int, int]] = {
            "left": (slots, positions, 0, index.floor),
            "right": (NO_PROBES, MatchPositions(), 0, 0),
        }
        yield ProbeCandidates(first, positions, partial(PositionCandidates, sides, first, last, workers, memory))
        first = last
        if first < rows:
            positions = answer(first).positions


def written(
    of: RangeCandidates | PositionCandidates, limit: TableLimit
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield candidates as (places of probes, ordinals of stored rows), all of a probe at once.

    No more than the limit has rows at once, unless they are of one probe.
    """
    stops = [of.slots]
    if of.total > limit.rows:
        stops = limit._replace(rows=of.slots, nbytes=limit.rows).stops(Widths(of.slots, 0, of.counts))
    first = 0
    for last in stops if of.total else []:
        yield of.write(first, last)
        first = last
