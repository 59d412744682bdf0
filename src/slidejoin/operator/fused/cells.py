"""The short way through tables of cells: one band or equality of whole numbers, in count or time windows."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.cells.band_cells import BandCells
from slidejoin.index.cells.probes import FoundPositions
from slidejoin.kernels.cells.probing import ABOVE, ARRIVED, BELOW, SIZE, SLIDE, VIEW
from slidejoin.kernels.common.atomics import address_of
from slidejoin.kernels.fused.pushing import UNFINISHED, meet
from slidejoin.kernels.fused.small_push import push_briefly
from slidejoin.kernels.fused.work import (
    AFTER,
    ASIDE,
    BEFORE,
    COUNTING,
    FIRST,
    FLOOR_OF,
    INSERTED,
    LEFT,
    ORDINAL,
    PARTS,
    PROBE,
    RIGHT,
    STORED,
    TIMES,
    TOOK,
    WORK,
    WOVEN,
    WRITE,
)
from slidejoin.operator.candidates import PositionCandidates
from slidejoin.operator.fused.batch_columns import BatchColumns
from slidejoin.operator.fused.common import NO_TIMES, FusedPath, around
from slidejoin.operator.fused.event_times import EventTimes
from slidejoin.operator.fused.partner import partner
from slidejoin.operator.fused.probe_side import ProbeSide
from slidejoin.operator.fused.small_push import SmallPush
from slidejoin.operator.ingest.arrival import Arrivals, numbers, rise
from slidejoin.operator.ingest.ingest import Push
from slidejoin.operator.insert_probe import SMALLEST_SPREAD
from slidejoin.operator.probe_batch import EVERYTHING
from slidejoin.sides import SIDES, other
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.fused.partner import Partner
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.sides import Side

__all__ = ["FusedCells"]

NO_ROWS = np.empty(0, np.bool_)
STEPS = (("insert", slice(PROBE)), ("probe", slice(PROBE, WRITE)), ("write", slice(WRITE, PARTS)))


class FusedCells(FusedPath):
    """Pushes into an operator whose plan `serves`; see `push`."""

    kernels = (meet, push_briefly)

    def __init__(self, operator: JoinOperator) -> None:
        plan, self._plain = operator.plan, around(operator.plan)
        super().__init__(operator, self._plain)
        self._work = np.zeros(WORK, np.int64)
        self._words = memoryview(self._work.data)  # items of it are set in a third of the time
        self._address = address_of(self._work)
        self._roles: dict[Side, ProbeSide] = {}
        self._ticking = None if plan.scope is None else EventTimes(plan, plan.scope)
        for role, band in self._plain.items():
            window, view = plan.config.window, np.zeros(VIEW, np.int64)
            size, slide = (
                (window.size(other(role)), window.slide) if isinstance(window, CountWindow) else (EVERYTHING, 1)
            )
            view[[SIZE, SLIDE, BELOW, ABOVE]] = size, slide, band.below, band.above
            one = self._roles[role] = ProbeSide(LEFT if role == "left" else RIGHT, view, FoundPositions())
            if plan.scope is not None:
                self._work[one.at + BEFORE] = plan.scope.length(other(role))
                self._work[one.at + AFTER] = plan.scope.length(role)
        self._work[COUNTING] = self._counting
        self._pairs = 0  # of the last push: there will be about as many in the next one
        served = SmallPush.serves(operator, self._plain)
        self._brief = SmallPush(operator, self._plain, self._roles, self._work, self._go_on) if served else None

    @staticmethod
    def serves(operator: JoinOperator) -> bool:
        """Tell whether what is left out here is absent, of a plan that is `plain`."""
        plan = operator.plan
        return (
            operator.algorithm == "band_cells"
            and (plan.scope is None or EventTimes.serves(plan, plan.scope))
            and len(around(plan)) == len(SIDES)
        )

    @property
    def open(self) -> bool:
        """Whether this is the index that is used now."""
        return isinstance(self._operator.windows["left"].index, BandCells)

    def briefly(self, tables: dict[Side, pa.Table], order_by: str | None) -> pa.Table | None:
        """Take few rows in one call and return what they produce, or take nothing and return None: see `push`."""
        return None if self._brief is None else self._brief.push(tables, order_by)

    def push(
        self, taken: dict[Side, BatchColumns], by: tuple[NDArray[np.generic], NDArray[np.generic]] | None
    ) -> pa.Table | None:
        """Take rows and return what they produce, or take nothing and return None: the operator's way is needed."""
        start, operator = perf_counter(), self._operator
        rows = {side: taken[side].rows for side in SIDES}
        total = rows["left"] + rows["right"]
        if not 0 < total <= operator.largest_slice:
            return None
        helper = self._helper(total)
        indexes, keys = self._indexes(rows), self._places.keys(taken)
        if not (indexes and keys and (by is None or rise(by))):
            return None
        times = arrivals = None
        if self._ticking is not None:
            arrivals = self._arrange(rows, by)
            times = self._ticking.take(taken, arrivals, operator.clock)
            if times is None or operator.slice_rows(total, times) < total:
                return None
        # From here on rows are taken.
        before = {side: operator.windows[side].rows_seen for side in SIDES}
        for role in SIDES:
            self._look_at(role, indexes[other(role)], before)
        try:
            shared = helper is not None and helper.begin(self._work, self._address, keys["left"], keys["right"])
            # What is done here in Python is done while the helper inserts.
            arrivals = arrivals or self._arrange(rows, by)
            now = operator.stats.since("arrive", start)
            self._hold(taken, keys, indexes, times)
            for role in SIDES:
                self._roles[role].make_room(rows[role], self._words)
            room = self._room(total)
            self._words[ASIDE] = by is None or operator.plan.config.order == "none"
            operator.stats.since("insert", now)
            ranks = arrivals.left_rank, arrivals.right_rank
            meet(self._work, shared, keys["left"], keys["right"], *ranks, *room)
        finally:
            if helper is not None:
                helper.end(self._work)
        out = self._written(taken, arrivals, before, indexes, keys, room)
        now = perf_counter()
        operator.stats.rows_left += rows["left"]
        operator.stats.rows_right += rows["right"]
        if operator.clock.watermark is not None:
            operator.expire(operator.clock.watermark)
        operator.settle(before)
        operator.stats.since("expire", now)
        return out

    def _helper(self, rows: int) -> Partner | None:
        """Return the thread that helps with so many rows, roused, if that pays and there is one."""
        helper = partner() if rows >= SMALLEST_SPREAD and self._operator.workers.threads > 1 else None
        if helper is not None:
            helper.rouse()
        return helper

    def _hold(
        self,
        taken: dict[Side, BatchColumns],
        keys: dict[Side, NDArray[np.int64]],
        indexes: dict[Side, BandCells],
        times: dict[Side, NDArray[np.int64]] | None,
    ) -> None:
        """Take rows, without their keys but with their event times, and move the clock on."""
        words = self._words
        if times is None or self._ticking is None:
            for side in SIDES:
                self._hold_side(side, taken[side], None)
            return
        self._ticking.move(self._operator.clock)
        for side in SIDES:
            own, index = times[side], indexes[side]
            if own.size:
                self._hold_side(side, taken[side], int(own.max()))
                index.store(keys[side], own.reshape(-1, 1))
            if index.stored is not None:
                at = self._roles[other(side)].at
                words[at + STORED], words[at + STORED + 1] = address_of(index.stored), index.stored.size
            words[self._roles[side].at + TIMES] = address_of(own)

    def _indexes(self, rows: dict[Side, int]) -> dict[Side, BandCells]:
        """Return the tables of both sides; nothing if they, or so many rows, need the operator's way."""
        indexes: dict[Side, BandCells] = {}
        for side in SIDES:
            window = self._operator.windows[side]
            index = window.index
            if not isinstance(index, BandCells) or index.wide:
                return {}
            if window.outgrown(rows[side]) or window.stretched(rows[side]):
                return {}
            indexes[side] = index
        return indexes

    def _look_at(self, role: Side, index: BandCells, before: dict[Side, int]) -> None:
        """Write down where the table lies that one side's probes look into, and what was before them."""
        one, words, stored = self._roles[role], self._words, other(role)
        one.look_at(index, words)
        one.view[ARRIVED] = words[one.at + FIRST] = before[stored]
        words[one.at + ORDINAL], words[one.at + FLOOR_OF] = before[role], index.floor

    def _room(self, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return memory for the output: for pairs, or for numbers of matches and marks of left rows."""
        memory = self._operator.meeting.memory
        if self._counting:
            return memory.take(rows), np.empty(-(-rows // 8), np.int64)
        places = min(self._pairs + self._pairs // 8 + rows, self._operator.limit.rows)
        return memory.take(places), memory.take(places)

    def account(self) -> None:
        """Count the time of each step since it was last asked for, of both threads together."""
        took, seconds = self._words[TOOK : TOOK + PARTS].tolist(), self._operator.stats.seconds
        self._work[TOOK : TOOK + PARTS] = 0
        for name, parts in STEPS:
            seconds[name] = seconds.get(name, 0.0) + sum(took[parts]) / 1e9

    def _written(
        self,
        taken: dict[Side, BatchColumns],
        arrivals: Arrivals,
        before: dict[Side, int],
        indexes: dict[Side, BandCells],
        keys: dict[Side, NDArray[np.int64]],
        room: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> pa.Table:
        """Go on where the kernel had to stop, and put out what it wrote."""
        operator, pairs = self._operator, self._words[WOVEN]
        if pairs < 0:
            return self._unfinished(taken, arrivals, before, indexes, keys)
        for side in SIDES:
            indexes[side].inserted(keys[side].size)
        self._pairs = pairs
        if self._brief is not None:
            self._brief.pairs = pairs
        start = perf_counter()
        if self._counting:
            marks = room[1].view(np.bool_)[: room[0].size]
            out = self._counts(room[0], taken, arrivals, marks)
        else:
            # Who keeps a table keeps all memory behind it.
            few = 2 * pairs < room[0].size
            left, right = (places[:pairs].copy() if few else places[:pairs] for places in room)
            out = self._matches.table(left, right)
        operator.stats.since("payload", start)
        operator.stats.pairs += pairs
        return out

    def _go_on(
        self,
        tables: dict[Side, pa.Table],
        ranks: tuple[NDArray[np.int64], NDArray[np.int64]],
        before: dict[Side, int],
    ) -> pa.Table:
        """Go on where the kernel of small pushes had to stop, with rows that are kept already, and put out all."""
        taken = {side: BatchColumns(side, tables[side], self._operator.intake) for side in SIDES}
        indexes = {side: index for side in SIDES if isinstance(index := self._operator.windows[side].index, BandCells)}
        arrivals = Arrivals(numbers(taken["left"].rows), numbers(taken["right"].rows), *ranks, straight=True)
        return self._unfinished(taken, arrivals, before, indexes, self._places.keys(taken))

    def _unfinished(
        self,
        taken: dict[Side, BatchColumns],
        arrivals: Arrivals,
        before: dict[Side, int],
        indexes: dict[Side, BandCells],
        keys: dict[Side, NDArray[np.int64]],
    ) -> pa.Table:
        """Insert what is not yet, look again for what was not found or had no room, and put it out."""
        operator, words = self._operator, self._words
        unfinished = words[WOVEN] == UNFINISHED
        for role in SIDES:
            index, rows = indexes[other(role)], keys[other(role)]
            if unfinished:
                index.insert(rows, NO_ROWS, words[self._roles[role].at + INSERTED])
            else:
                index.inserted(rows.size)
        push = Push({side: taken[side].kept for side in SIDES}, NO_TIMES, arrivals)
        if unfinished:
            for one in self._roles.values():
                one.learn(words)
            return self._concatenated(operator.meeting.again(push, before), push)
        return self._concatenated(iter([self._found(push, before)]), push)

    def _found(self, push: Push, before: dict[Side, int]) -> PositionCandidates:
        """Return what was found as candidates yet to be written, in bounded parts: there was no room for all."""
        operator = self._operator
        found = {role: one.joined(self._words) for role, one in self._roles.items()}
        self._pairs = sum(one.total for one in found.values())
        sides = {
            role: (push.arrivals.rank(role), found[role], before[role], operator.meeting.floor(other(role)))
            for role in SIDES
        }
        return PositionCandidates(sides, 0, push.rows, operator.workers, operator.meeting.memory)
