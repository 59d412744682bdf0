"""Fused pushes through cell tables: bands and equalities of integers, in count or time windows."""

from __future__ import annotations

from operator import is_
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slidejoin.index.answer import MatchPositions
from slidejoin.index.cells.kernels.probing import MARGIN
from slidejoin.index.factory import cell_table
from slidejoin.index.kernels.view import ABOVE, ARRIVED, BELOW, SIZE, SLIDE, VIEW
from slidejoin.index.protocol import CELLS
from slidejoin.jit.vectors.fields import LENGTH, word, words_for
from slidejoin.operator.candidates import PositionCandidates
from slidejoin.operator.fused.common import (
    NO_TIMES,
    FusedPush,
    arrived,
    given_once,
    key_columns,
    keys_say_all,
    near,
    range_terms,
)
from slidejoin.operator.fused.event_times import EventTimes
from slidejoin.operator.fused.kernels.packing import pack_keys
from slidejoin.operator.fused.kernels.pushing import UNFINISHED, meet, show
from slidejoin.operator.fused.kernels.work import LEFT, PARTS, PROBE, PROGRAM, RIGHT, ROLE, STRETCHES, WORK, WRITE
from slidejoin.operator.fused.packing import PackedKeys, composite_columns
from slidejoin.operator.fused.partner import partner
from slidejoin.operator.output import JoinedRows
from slidejoin.operator.slices import slice_rows
from slidejoin.runtime.array_pool import address_of, point
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import BandCells
    from slidejoin.operator.fused.common import SortValues
    from slidejoin.operator.fused.partner import Partner
    from slidejoin.operator.ingest.arrival import Arrivals
    from slidejoin.operator.ingest.batch_columns import BatchColumns
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.parts import JoinParts
    from slidejoin.operator.push import PushBatch
    from slidejoin.predicate.ranges.terms import ShiftedColumn
    from slidejoin.sides import Side

__all__ = ["FusedCells", "ProbeSide"]

FARTHEST = (1 << 63) - 1

# -- the words of a push's work ----------------------------------------------------------------------------------------

# Those that Python sets and reads, where they are in the record of kernels; what each is for is said there, in
# `operator.fused.kernels.work`. Those of a role are counted from where it begins: the right role's `first` is
# ``words[ROLES["right"] + FIRST]``, and how many probes it has is ``words[ROLES["right"] + PROBES + LENGTH]``.

ROLES: dict[Side, int] = {"left": word(WORK, "roles", LEFT), "right": word(WORK, "roles", RIGHT)}
"""Where the words of each role begin; those below are counted from there."""

TABLE = tuple(word(ROLE, "table", part) for part in ("slots", "pool", "state"))
ELIGIBLE, FIRST, VIEWED, COUNTS = (word(ROLE, name) for name in ("eligible", "first", "viewed", "counts"))
PROBES, MATCHES, STORED = (word(ROLE, name) for name in ("probes", "matches", "stored"))
ORDINAL, FLOOR, INSERTED = (word(ROLE, name) for name in ("ordinal", "floor", "inserted"))
TIMES, TIME_COLUMN, BEFORE, AFTER = (word(ROLE, name) for name in ("times", "time_column", "before", "after"))
STORED_COLUMNS, REACH, WIDE = (word(ROLE, name) for name in ("stored_columns", "reach", "wide"))
BEYOND, DONE, TOTAL = (word(ROLE, name) for name in ("beyond", "done", "total"))
LOWER, UPPER = word(ROLE, "lower"), word(ROLE, "upper")
CHECKED_LOW, CHECKED_HIGH = word(ROLE, "checked_low"), word(ROLE, "checked_high")
FURTHER_LOW, FURTHER_HIGH = word(ROLE, "further_low"), word(ROLE, "further_high")
FURTHER_BETWEEN, FURTHER_COLUMN = word(ROLE, "further_between"), word(ROLE, "further_column")
SHIFTED = tuple(word(ROLE, "shifted", part) for part in ("one", "two", "shifts"))
SHIFTS_AT = word(ROLE, "shifted", "shifts")
BOUNDS = tuple(word(ROLE, "bounds", part) for part in ("low", "high", "lows", "highs"))
MARKS, BLOCKS, FIRST_BLOCK = (word(ROLE, name) for name in ("marks", "blocks", "first_block"))
"""Words of a role; each of TABLE is an ARRAY, and so are PROBES, MATCHES, STORED, MARKS and BLOCKS."""

COUNTING, ASIDE, WOVEN, GAVE_UP, TOOK = (word(WORK, name) for name in ("counting", "aside", "woven", "gave_up", "took"))
PROGRAM_AT = word(WORK, "program")
LINES = tuple(PROGRAM_AT + word(PROGRAM, part) for part in ("code", "constants", "columns"))
CODE_LENGTH, SIDES_AT, REGISTERS = (
    PROGRAM_AT + place
    for place in (word(PROGRAM, "code", "length"), word(PROGRAM, "sides"), word(PROGRAM, "registers"))
)
"""Words of both roles; each of LINES, the parts of a program, is an ARRAY."""


class ProbeSide:
    """One side as probes: `at` is where its words of the work begin."""

    def __init__(self, at: int, view: NDArray[np.int64], most: int) -> None:
        self.at = at
        self._most = most
        self.view = view
        self.matches = MatchPositions()
        self._table: tuple[NDArray[Any], ...] = ()

    def look_at(self, index: BandCells, words: memoryview) -> None:
        """Set the address of the probed table."""
        known = self._table
        table: tuple[NDArray[Any], ...] = (index.slots, index.pool, index.state)
        if known and all(map(is_, table, known)):
            return
        self._table = table
        # The rows of a wide table are checked by their whole keys, however far these lie apart.
        words[self.at + REACH] = FARTHEST if index.wide else index.reach
        words[self.at + WIDE] = index.wide
        for place, array in zip(TABLE, table, strict=True):
            point(words, self.at + place, array)

    def make_room(self, probes: int, words: memoryview) -> None:
        """Make room for matches: four a probe, or as many as were needed before."""
        matches, places = self.matches, 4 * probes + 2 * STRETCHES * MARGIN
        if matches.counts.size < probes or matches.positions.size < places or not words[self.at + VIEWED]:
            matches.counts = np.empty(max(2 * probes, matches.counts.size), np.int32)
            matches.room(places)
            words[self.at + VIEWED], words[self.at + COUNTS] = address_of(self.view), address_of(matches.counts)
            point(words, self.at + MATCHES, matches.positions)

    def learn(self, words: memoryview) -> None:
        """Make more room the next time if there was too little."""
        probes, done = words[self.at + PROBES + LENGTH], sum(words[self.at + DONE : self.at + DONE + STRETCHES])
        if 0 < done < probes:
            # Room is taken by all candidates, also by those that a check has left out since.
            places = min(2 * self.matches.positions.size * probes // done, self._most) + 2 * STRETCHES * MARGIN
            self.matches.positions = np.empty(places, np.uint32)
            words[self.at + VIEWED] = 0

    def joined(self, words: memoryview) -> MatchPositions:
        """Return the matches of the probes, all stretches concatenated; all were answered."""
        end, matches = 0, self.matches
        for stretch in range(STRETCHES):
            total, beyond = words[self.at + TOTAL + stretch], words[self.at + BEYOND + stretch]
            matches.positions[end : end + total] = matches.positions[beyond : beyond + total]
            end += total
        matches.begin, matches.done, matches.total = 0, words[self.at + PROBES + LENGTH], end
        return matches


NO_ROWS, NO_VALUES = np.empty(0, np.bool_), np.empty((0, 1), np.int64)
STEPS = (("insert", slice(PROBE)), ("probe", slice(PROBE, WRITE)), ("write", slice(WRITE, PARTS)))


class AcceptedCells(NamedTuple):
    """What `accepts` knows of a batch.

    Attributes
    ----------
    keys : dict from side to (n,) int64
    tables : dict from side to BandCells
    times : dict from side to (n,) int64, or None
        Event times; of a time window rows are in order already.
    by : pair of arrays or None
        Values that both sides are sorted by.
    helper : Partner or None
        A second thread, woken up.
    """

    keys: dict[Side, NDArray[np.int64]]
    tables: dict[Side, BandCells]
    times: dict[Side, NDArray[np.int64]] | None
    arrivals: Arrivals | None
    by: SortValues
    helper: Partner | None


class FusedCells(FusedPush):
    """Pushes through tables of cells, see `slidejoin.operator.push`."""

    kernels: tuple[Callable[..., Any], ...] = (meet, show, pack_keys)
    takes_wide = False
    """Whether tables may be wide though keys are not packed."""

    def __init__(self, parts: JoinParts, columns: Mapping[Side, tuple[ShiftedColumn, ...]] | None = None) -> None:
        plan, bands = parts.plan, key_columns(parts.plan, near)
        composite = composite_columns(plan)
        super().__init__(parts, columns or composite or bands)
        self._largest = slice_rows(plan, {})
        self.work = words_for(WORK)
        """The words of the work of a push for kernels, see `slidejoin.operator.fused.kernels.work`."""
        self._words = memoryview(self.work.data)  # items of it are set in a third of the time
        self._address = address_of(self.work)
        self._marking = False  # whether the kernel marks the rows of the push's pairs
        self.probe_sides: dict[Side, ProbeSide] = {}
        self.times = EventTimes.of(plan)
        """The event times of rows; None in a count window."""
        for role in SIDES:
            view = np.zeros(VIEW, np.int64)
            view[[SIZE, SLIDE]] = plan.config.window.view(other(role))
            if role in bands:
                view[[BELOW, ABOVE]] = bands[role][0].around or (0, 0)
            one = self.probe_sides[role] = ProbeSide(ROLES[role], view, self._parts.plan.tuning.cell_matches)
            if self.times is not None:
                self._words[one.at + BEFORE] = plan.scope.length(other(role))
                self._words[one.at + AFTER] = plan.scope.length(role)
        self._packed = PackedKeys(plan, parts.windows, composite) if composite else None
        self._words[COUNTING] = self._counting
        self.expected = 0
        """Pairs of the last push, an estimate for the next one."""
        self.counted: int | None = None
        """Pairs of the last push, if the kernel counted all of them; of a join that outputs counts."""
        self.unfit = False
        """Whether the last batch was not accepted because of its keys, or tables of these."""
        self.programmed = False
        """Whether pairs of the last batch that was accepted are checked by a program."""
        self._accepted: AcceptedCells | None = None
        self._lasted = 0  # nanoseconds that the kernel took for the last push, or would have taken on one thread

    @staticmethod
    def serves(parts: JoinParts) -> bool:
        """Tell whether a plan that is `plain` needs nothing that is not supported here."""
        plan = parts.plan
        return (
            parts.algorithm == CELLS
            and keys_say_all(plan)
            and not any(plan.bound.filters_side(side) for side in SIDES)
            and (plan.composite is not None or range_terms(plan) == (0,))
            and EventTimes.serves(plan)
            and bool(key_columns(plan, near) or composite_columns(plan))
        )

    # -- accept ------------------------------------------------------------------------------------------------------

    def accepts(self, batch: PushBatch) -> bool:
        """Tell whether the rows are in order, in time, have plain keys, and find room in both tables."""
        self.unfit = False
        if not 0 < batch.rows <= self._largest:
            return False
        tables = self._tables(batch)
        if not tables:
            return False
        helper = self._helper(batch.rows)
        keys = {} if self._squeezed else self.keys(batch.columns)
        if not keys:
            self.unfit = True
            return False
        rising, by = self._rising(batch)
        if not rising:
            return False
        times = arrivals = None
        if self.times is not None:
            arrivals = self._arrange(batch, by)
            times = self.times.take(batch, arrivals)
            if times is None or slice_rows(self._parts.plan, times) < batch.rows:
                return False
        self._accepted = AcceptedCells(keys, tables, times, arrivals, by, helper)
        return True

    def _helper(self, rows: int) -> Partner | None:
        """Return the thread that helps with so many rows, woken up, if that pays and there is one."""
        tuning = self._parts.plan.tuning
        pays = rows >= tuning.push_spread or self._lasted > tuning.push_spread_nanoseconds
        helper = partner() if pays and self._parts.workers.threads > 1 else None
        if helper is not None:
            helper.rouse()
        return helper

    def _tables(self, batch: PushBatch) -> dict[Side, BandCells]:
        """Return the tables of both sides; nothing if they need to be replaced first, also for so many rows."""
        tables: dict[Side, BandCells] = {}
        for side in SIDES:
            window, rows = self._parts.windows[side], batch.rows_of(side)
            table = cell_table(window.index)
            wide = table is not None and table.wide and self._packed is None and not self.takes_wide
            self.unfit |= wide
            if table is None or wide or window.stretched(rows):
                return {}
            if table.is_full(window.rows_seen + rows) and window.outgrown(rows):
                return {}
            tables[side] = table
        return tables

    # -- run ---------------------------------------------------------------------------------------------------------

    def run(self, batch: PushBatch, first: dict[Side, int]) -> pa.Table:
        """Insert the rows, probe, and return what they produced, see `slidejoin.operator.push`."""
        start = perf_counter()
        accepted, self._accepted = self._accepted, None
        assert accepted is not None  # noqa: S101 - `accepts` came before
        keys, tables, times, arrivals, by, helper = accepted
        stats = self._parts.stats
        for role in SIDES:
            self._look_at(role, tables[other(role)], first)
        self._marking = False
        try:
            shared = helper is not None and helper.begin(self.work, self._address, keys["left"], keys["right"])
            # This Python code runs while the helper inserts, and then probes.
            arrivals = arrivals or self._arrange(batch, by)
            now = stats.since("arrive", start)
            self._store_values(keys, tables, times)
            for role in SIDES:
                self._look_at_probes(role, tables[other(role)])
                self.probe_sides[role].make_room(keys[role].size, self._words)
            room = self._room(batch.rows)
            arrays = keys["left"], keys["right"], arrivals.left_rank, arrivals.right_rank, *room
            if shared and not self.programmed:
                show(self.work, *arrays)
            self._hold_rows(batch, first, times)
            if self.programmed:
                # It reads the rows that probe, too.
                self._set_program()
                if shared:
                    show(self.work, *arrays)
            unsorted_aside = by is None and not self._self_join
            self._words[ASIDE] = unsorted_aside or self._parts.plan.config.order == "none"
            self._marking = True  # an interrupt may come while marks are being shown
            self._marking = self._show_marks()
            stats.since("insert", now)
            began = perf_counter_ns()
            meet(self.work, shared, *arrays)
            self._lasted = (perf_counter_ns() - began) * (2 if shared else 1)
        finally:
            if helper is not None:
                helper.end(self.work)
            if self._marking:
                # Marks may move before the next push, and a small one sets none of these words.
                for one in self.probe_sides.values():
                    self._words[one.at + BLOCKS + LENGTH] = 0
        return self._written(batch.columns, arrivals, first, tables, keys, room, times)

    def _hold_rows(self, batch: PushBatch, first: dict[Side, int], times: dict[Side, NDArray[np.int64]] | None) -> None:
        for side in SIDES:
            if batch.rows_of(side):
                own = None if times is None else int(times[side].max())
                self._hold(side, batch.columns[side], first[side], own)

    def _set_program(self) -> None:
        """Set the program by which pairs are checked, where the push is `programmed`, see `FusedTerms`."""

    def _show_marks(self) -> bool:
        """Let the kernel mark the rows of pairs, where that is for it to do, and tell whether it is."""
        to_mark = None if self._join_type is None else self._join_type.to_mark()
        if to_mark is None:
            return False
        for side, matched in to_mark.items():
            at, (marks, blocks, first) = self.probe_sides[side].at, matched.view
            point(self._words, at + MARKS, marks)
            point(self._words, at + BLOCKS, blocks)
            self._words[at + FIRST_BLOCK] = first
        return True

    def _store_values(
        self,
        keys: dict[Side, NDArray[np.int64]],
        tables: dict[Side, BandCells],
        times: dict[Side, NDArray[np.int64]] | None,
    ) -> None:
        """Store what matches are checked by with the rows of the tables: event times, and keys if these are wide."""
        words = self._words
        for side in SIDES:
            table, own = tables[side], None if times is None else times[side]
            if keys[side].size:
                dims = self._dimensions(side, own)
                if dims is not None or table.wide:
                    whole = self._whole_keys(side, keys[side])
                    table.store(whole, NO_VALUES if dims is None else dims.reshape(whole.size, -1))
            at = self.probe_sides[other(side)].at
            if table.stored is not None:
                point(words, at + STORED, table.stored.reshape(-1))
                words[at + STORED_COLUMNS] = table.stored.shape[1]
            if own is not None:
                words[self.probe_sides[side].at + TIMES] = address_of(own)

    def _eligible(self, side: Side) -> NDArray[np.bool_]:  # noqa: ARG002 - see `FusedTerms`
        """Return which rows of one side may match anything, (n,) bool, or (0,) for all."""
        return NO_ROWS

    def _whole_keys(self, side: Side, keys: NDArray[np.int64]) -> NDArray[np.int64]:  # noqa: ARG002 - see `FusedTerms`
        """Return the keys by which rows of one side are checked in a wide table, (n,) int64."""
        return keys

    def _dimensions(self, side: Side, times: NDArray[np.int64] | None) -> NDArray[np.int64] | None:  # noqa: ARG002 - likewise
        """Return the further dimensions of the rows of one side, (n,) or (n, dims) int64; None without one."""
        return times

    def _look_at(self, role: Side, table: BandCells, first: dict[Side, int]) -> None:
        """Set the address of the table that one side's probes search, and what inserting rows into it needs."""
        one, words, stored = self.probe_sides[role], self._words, other(role)
        one.look_at(table, words)
        words[one.at + FIRST] = first[stored]
        # Ranks count a row of a self-join as a left one before it probes as a right one, for which it is not there.
        one.view[ARRIVED] = first[stored] - (self._self_join and role == "right")
        words[one.at + ORDINAL], words[one.at + FLOOR] = first[role], table.floor

    def _look_at_probes(self, role: Side, table: BandCells) -> None:  # noqa: ARG002 - see `FusedTerms`
        """Set the addresses of what one side's rows probe."""
        if self._packed is not None:
            at = self.probe_sides[role].at
            self._words[at + LOWER], self._words[at + UPPER] = self._packed.ends(role)

    def _room(self, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return memory for the output: for pairs, or for numbers of matches and marks of left rows."""
        memory = self._parts.memory
        if self._counting:
            return memory.take(rows), np.empty(-(-rows // 8), np.int64)
        places = min(self.expected + self.expected // 8 + rows, self._parts.limit.rows)
        return memory.take(places), memory.take(places)

    def account(self) -> None:
        """Add the time of each step since the last call, of both threads together."""
        took, seconds = self._words[TOOK : TOOK + PARTS].tolist(), self._parts.stats.seconds
        self.work[TOOK : TOOK + PARTS] = 0
        for name, parts in STEPS:
            seconds[name] = seconds.get(name, 0.0) + sum(took[parts]) / 1e9

    # -- output ------------------------------------------------------------------------------------------------------

    def _written(
        self,
        columns: Mapping[Side, BatchColumns],
        arrivals: Arrivals,
        first: dict[Side, int],
        tables: dict[Side, BandCells],
        keys: dict[Side, NDArray[np.int64]],
        room: tuple[NDArray[np.int64], NDArray[np.int64]],
        times: dict[Side, NDArray[np.int64]] | None,
    ) -> pa.Table:
        """Output the pairs of the kernel, or continue where it had to stop."""
        pairs = self._words[WOVEN]
        if pairs < 0:
            return self.go_on(columns, arrivals, first, tables, keys, times)
        for side in SIDES:
            tables[side].inserted(keys[side].size)
        self.expected = pairs
        start = perf_counter()
        self._in_order(room[0][:pairs], room[1][:pairs], arrivals, first)
        if self._counting:
            self.counted = pairs
            marks = room[1].view(np.bool_)[: room[0].size]
            out = self._counts(room[0], columns, arrivals, marks)
        elif self._join_type is not None:
            out = self.joined((room[0][:pairs], room[1][:pairs]), arrivals, first, times, marked=self._marking)
        else:
            # A reference to a table keeps all its memory.
            few = 2 * pairs < room[0].size
            left, right = (places[:pairs].copy() if few else places[:pairs] for places in room)
            out = self._output.table(left, right)
        self._parts.stats.since("payload", start)
        return out

    def joined(
        self,
        pairs: tuple[NDArray[np.int64], NDArray[np.int64]],
        arrivals: Arrivals,
        first: Mapping[Side, int],
        times: Mapping[Side, NDArray[np.int64]] | None = None,
        *,
        marked: bool = False,
    ) -> pa.Table:
        """Output the rows of a join that is not inner: of the push's pairs, (n,) int64 ordinals, and of what leaves.

        `marked` says whether the rows of the pairs have their marks.
        """
        assert self._join_type is not None  # noqa: S101 - nothing leaves otherwise
        counts = {side: self.probe_sides[side].matches.counts[: arrivals.rank(side).size] for side in SIDES}
        rows = self._join_type.fused(pairs, arrivals, times or NO_TIMES, first, counts, marked=marked)
        if rows.known is None and (rows.left is pairs[0] or rows.right is pairs[1]):
            rows = JoinedRows(rows.left.copy(), rows.right.copy())  # a reference to a table keeps all its memory
        return self._output.joined(rows)

    def keys(self, columns: Mapping[Side, BatchColumns]) -> dict[Side, NDArray[np.int64]]:
        """Return the keys of both sides, (n,) int64, until the next call; nothing if some are NULL or have no room."""
        if self._packed is None:
            return self._places.keys(columns)
        parts = self._places.parts(columns)
        return self._packed.keys(parts) if parts else {}

    def go_on(
        self,
        columns: Mapping[Side, BatchColumns],
        arrivals: Arrivals,
        first: dict[Side, int],
        tables: dict[Side, BandCells],
        keys: dict[Side, NDArray[np.int64]],
        times: Mapping[Side, NDArray[np.int64]] | None = None,
    ) -> pa.Table:
        """Continue where the kernel had to stop: insert remaining rows, repeat probes that had no room, output."""
        words = self._words
        unfinished = words[WOVEN] == UNFINISHED
        for role in SIDES:
            table, rows = tables[other(role)], keys[other(role)]
            if unfinished:
                table.insert_places(rows, self._eligible(other(role)), words[self.probe_sides[role].at + INSERTED])
            else:
                table.inserted(rows.size)
        push = arrived(columns, arrivals, times)
        if unfinished:
            for one in self.probe_sides.values():
                if not words[GAVE_UP]:
                    one.learn(words)
            again = given_once(push) if self._self_join else push
            out = self._concatenated(self._parts.shared.probe_again(again, first), push, first)
        else:
            out = self._concatenated(iter([self._matches(push, first)]), push, first)
        if not self._counting:
            self.expected = out.num_rows
        return out

    def _matches(self, push: Push, first: dict[Side, int]) -> PositionCandidates:
        """Return the matches as candidates to be written in bounded parts: there was no room for all."""
        parts = self._parts
        matches = {role: one.joined(self._words) for role, one in self.probe_sides.items()}
        sides = {
            role: (push.arrivals.rank(role), matches[role], first[role], parts.windows[other(role)].index.floor)
            for role in SIDES
        }
        return PositionCandidates(sides, 0, push.rows, parts.workers, parts.memory)
