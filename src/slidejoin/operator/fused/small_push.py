"""Fused pushes of a few rows: what `cells` does in Python, done by kernels on addresses.

A push of sixteen rows spends two microseconds on its rows and forty on calls. Here the address of each column is taken
once, one kernel does the rest (`kernels.small_push`), and the result is a slice of a preallocated table. Whatever
does not fit, such as a key that is NULL or the first rows of a chunk or of a larger table, is left to `cells`.

A batch's columns are located by one call, of the Arrow C data interface: PyArrow makes an object for each column that
is read singly, a microsecond each; a batch is exported whole in less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from slidejoin.index.factory import cell_table
from slidejoin.jit.vectors.fields import word, words_for
from slidejoin.operator.fused.cells import ROLES, STORED_COLUMNS, VIEWED, WOVEN
from slidejoin.operator.fused.cells import STORED as STORED_VALUES
from slidejoin.operator.fused.common import key_columns, near
from slidejoin.operator.fused.kernels.small_push import SIDE, SMALL, order_small, push_small
from slidejoin.operator.fused.kernels.work import LEFT, RIGHT
from slidejoin.operator.fused.packing import COLUMNS, KeyPacking, composite_columns
from slidejoin.operator.ingest.arrival import Arrivals, numbers
from slidejoin.operator.ingest.order_by import plain_places
from slidejoin.operator.slices import slice_rows
from slidejoin.plan.output_schema import together
from slidejoin.predicate.truth.values import WHOLE
from slidejoin.rows.kernels.batch_rows import PLACE
from slidejoin.rows.kernels.exported import LISTED
from slidejoin.rows.kernels.record_columns import VALUES
from slidejoin.rows.output_block import OutputBlock
from slidejoin.rows.payload import ExportedBatch
from slidejoin.runtime.array_pool import address_of, point
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import BandCells
    from slidejoin.index.protocol import Index
    from slidejoin.operator.fused.cells import FusedCells, ProbeSide
    from slidejoin.operator.parts import JoinParts
    from slidejoin.operator.push import PushBatch
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.ranges.terms import ShiftedColumn
    from slidejoin.rows.chunk import Chunk
    from slidejoin.sides import Side

__all__ = ["AT", "ListedColumns", "SmallPush", "SmallPushSide"]

AT: dict[Side, int] = {"left": word(SMALL, "sides", LEFT), "right": word(SMALL, "sides", RIGHT)}
"""Where the words of a side begin, see `slidejoin.operator.fused.kernels.small_push`."""

ROWS, SEEN, EXPORTED, LISTS, BY, KEY, RANKS, PACK = (
    word(SIDE, name) for name in ("rows", "seen", "exported", "lists", "by", "key", "ranks", "packing")
)
TIMES, LATEST = word(SIDE, "times"), word(SIDE, "latest")
FIRST, STRIDE, OWN_MARKS, STORED, HEAP = (word(SIDE, name) for name in ("first", "stride", "marks", "stored", "heap"))
RING, ALL_MARKS, SHIFT, READ, USED, FIXED = (
    word(SIDE, name) for name in ("ring", "all_marks", "shift", "read", "used", "fixed")
)
"""Words of a side."""

ORDERED, ASIDE, PLACES, LEFT_OUT, RIGHT_OUT = (
    word(SMALL, name) for name in ("ordered", "aside", "places", "left_out", "right_out")
)
ROW, BUDGET, MISSING, WAS_READ = (word(SMALL, name) for name in ("row", "budget", "missing", "read"))
STRICT, SELF_JOIN, TIMED, LATENESS, CLOCKS = (
    word(SMALL, name) for name in ("strict", "self_join", "timed", "lateness", "clocks")
)
"""Words of both sides."""

VIEWS = tuple(at + VIEWED for at in ROLES.values())

ListedColumns: TypeAlias = "NDArray[np.int64]"
"""(n, LISTED) columns that are read: the place of each, the bytes of a value, and where its address is stored."""


class SmallPushSide:
    """One side of small pushes: the addresses of its columns, its window and its records.

    `keys` are the columns whose values are keys, or parts of them, by the words of the side that get their addresses.
    """

    def __init__(
        self, side: Side, parts: JoinParts, keys: dict[int, str], words: memoryview, role: ProbeSide, work: memoryview
    ) -> None:
        plan, window = parts.plan, parts.windows[side]
        self.window, self.payload, self._words, self._at = window, window.payload, words, AT[side]
        schema = plan.taken_schema(side)
        # For each column that is read as it is, by its place: the bytes of a value, and where its address is stored.
        self._places: dict[int, tuple[int, list[int]]] = {}
        for at, name in keys.items():
            self._want(schema, name, at)
        # Columns are stored as they are given, from their places there.
        self._given = [schema.get_field_index(column.name) for column in self.payload.records.columns]
        words[self._at + STRIDE] = self.payload.stride
        self.columns = self.ordered(None)
        self._listed: ListedColumns | None = None
        self.exported = ExportedBatch()
        words[self._at + EXPORTED] = self.exported.address
        # The table that the other side's probes search, and the words of the work with its addresses.
        self._role, self._work = role, work
        self._slots = self._pool = np.empty(0, np.uint32)
        self._index: Index | None = None
        self.table: BandCells | None = None
        """The table that the last `look` saw."""
        self._timed, self._packed = TIMES in keys, KEY not in keys
        self._ring = np.empty(0, np.int64)  # what the other side's probes check event times by
        self._seen = self._stored = np.empty((0, 0), np.int64)
        self._first = self._marks = self._mark_bytes = 0
        self._version = -1

    def _want(self, schema: pa.Schema, name: str, at: int) -> None:
        place = schema.get_field_index(name)
        _, wanted = self._places.setdefault(place, (schema.field(place).type.bit_width // 8, []))
        wanted.append(self._at + at)

    def ordered(self, by: int | None) -> ListedColumns:
        """Return the list of columns to read, with the one in place `by` that rows are sorted by; see `look`."""
        listed = [(place, width, at) for place, (width, ats) in self._places.items() for at in ats]
        if by is not None:
            listed.append((by, 8, self._at + BY))
        return np.array(listed, np.int64).reshape(-1, LISTED)

    def look(self, table: pa.Table, rows: int, listed: ListedColumns) -> bool:
        """Set all addresses that a push of these rows needs but those of its columns; return False if it does not fit.

        The batch with the `listed` columns is exported for `order_small`; the caller releases it in any case.
        """
        words, at, window, payload = self._words, self._at, self.window, self.payload
        if window.index is not self._index:
            self._index, self.table = window.index, cell_table(window.index)
        cells, seen = self.table, window.rows_seen
        if cells is None or (cells.wide and not self._packed) or cells.is_full(seen + rows):
            return False
        if cells.slots is not self._slots or cells.pool is not self._pool:
            self._role.look_at(cells, self._work)
            self._slots, self._pool = cells.slots, cells.pool
        if (self._timed or cells.wide) and not self._has_room(cells, rows):
            return False
        words[at + ROWS], words[at + SEEN] = rows, seen
        if not rows:
            return True
        chunk, batches = payload.room(rows), table.to_batches()
        if chunk is None or len(batches) != 1:
            return False
        self.exported.export(batches[0])
        if listed is not self._listed:
            self._listed = listed
            point(words, at + LISTS, listed)
        if chunk.stored is not self._seen:
            self._look_at(chunk)
        words[at + FIRST] = self._first + seen * words[at + STRIDE]
        words[at + OWN_MARKS] = self._marks and self._marks + seen * self._mark_bytes
        return True

    def _has_room(self, cells: BandCells, rows: int) -> bool:
        """Tell whether event times and keys of rows have room where those who probe them check them."""
        ring, window = cells.stored, self.window
        if ring is None or ring.shape[0] < window.rows_seen + rows - cells.floor or window.stretched(rows):
            return False
        if ring is not self._ring:
            self._ring = ring
            point(self._work, self._role.at + STORED_VALUES, ring.reshape(-1))
            self._work[self._role.at + STORED_COLUMNS] = ring.shape[1]
        return True

    def _look_at(self, chunk: Chunk) -> None:
        """Set where the rows of a chunk are stored."""
        words, at, marks = self._words, self._at, chunk.marks
        self._seen, self._first = chunk.stored, self.payload.directory.address(chunk)
        self._marks = 0 if marks is None else self.payload.directory.marks_at(chunk)
        self._mark_bytes = 0 if marks is None else marks.shape[1]
        self._stored = chunk.stored.copy()
        self._stored[:, PLACE] = self._given
        point(words, at + STORED, self._stored)
        words[at + HEAP] = chunk.heap.at

    @property
    def latest(self) -> int | None:
        """The latest event time of the rows of the push; None in a count window."""
        return self._words[self._at + LATEST] if self._timed else None

    def finds(self) -> bool:
        """Set the addresses of the records by ordinal; return False without such."""
        directory = self.payload.directory
        ring = directory.ring
        if ring is None:
            return False
        if directory.version != self._version:
            at, words = self._at, self._words
            point(words, at + RING, ring)
            words[at + ALL_MARKS], words[at + SHIFT] = address_of(directory.marks), directory.shift
            self._version = directory.version
        return True


class SmallPush:
    """Pushes of few rows through tables of cells, see `slidejoin.operator.push`.

    Parameters
    ----------
    parts : JoinParts
    cells : FusedCells
        Its work is shared, and it continues where the kernel has to stop.
    """

    kernels = (order_small, push_small)

    def __init__(self, parts: JoinParts, cells: FusedCells) -> None:
        self._parts, self._cells, plan = parts, cells, parts.plan
        self._largest = plan.tuning.small_push_rows
        self._work_words = memoryview(cells.work.data)
        self._small = words_for(SMALL)
        words = self._words = memoryview(self._small.data)
        sides, composite = cells.probe_sides, composite_columns(plan)
        self._packing = self._packed_keys(composite) if composite else None
        self._times = cells.times
        self._left, self._right = (
            SmallPushSide(side, parts, _read_columns(plan, side), words, sides[other(side)], self._work_words)
            for side in SIDES
        )
        self._ranks = np.empty(self._largest, np.int64), np.empty(self._largest, np.int64)
        words[AT["left"] + RANKS], words[AT["right"] + RANKS] = map(address_of, self._ranks)
        # The rows of a join that is not inner are made out of pairs first.
        inner = parts.join_type is None
        self._tables = parts.pair_tables if inner else None
        self._block_places = plan.tuning.small_push_pairs if self._tables is None else self._tables.places
        self._positions = inner and plan.config.output == "positions"
        self._ordinals = np.empty((2, self._block_places), np.int64)
        words[LEFT_OUT], words[RIGHT_OUT] = map(address_of, self._ordinals)
        words[STRICT], words[SELF_JOIN] = plan.config.order == "strict", plan.config.self_join
        words[TIMED], words[LATENESS] = self._times is not None, getattr(plan.scope, "lateness", 0)
        self._block: OutputBlock | None = None
        self._begins = [0, 0]
        if self._tables is not None:
            self._nothing = np.zeros(max(one.payload.stride for one in (self._left, self._right)) + 1, np.uint8)
            words[MISSING], words[BUDGET] = address_of(self._nothing), 1 << 62
            for side, reader in self._tables.readers.items():
                words[AT[side] + FIXED] = reader.fixed
        self._columns: dict[str | None, tuple[ListedColumns, ListedColumns] | None] = {
            None: (self._left.columns, self._right.columns)
        }
        # In a time window the rows of a push tell how many are in a slice: so many at least.
        most = slice_rows(plan, {}) if self._times is None else plan.tuning.smallest_slice
        self._most_rows = min(self._largest, most)
        self._places = 0
        """Pairs that the accepted push has room for."""
        self._roomy, self._aside, self._unsorted_aside = False, plan.config.order == "none", not plan.config.self_join

    def _packed_keys(self, composite: Mapping[Side, tuple[ShiftedColumn, ...]]) -> KeyPacking:
        """Make room for composite keys, and return how they are packed."""
        at = {side: AT[side] + PACK for side in SIDES}
        packing = KeyPacking(self._parts.plan, self._parts.windows, composite, self._words, at)
        # Kept, since the kernels know only addresses.
        self._room = {side: np.empty((3, self._largest), np.int64) for side in SIDES}
        for side, room in self._room.items():
            packing.give_room(side, room)
            self._words[AT[side] + KEY] = address_of(room[0])
        return packing

    @staticmethod
    def serves(parts: JoinParts) -> bool:
        """Tell whether a join that `FusedCells` serves needs nothing that small pushes do not support."""
        plan = parts.plan
        if plan.config.output == "count":
            return False
        for side in SIDES:
            schema, payload = plan.taken_schema(side), parts.windows[side].payload
            columns = payload.records.columns
            if payload.keeps_pieces or any(schema.field(column.name).type != column.kind for column in columns):
                return False
            if any(schema.field(name).type.id not in WHOLE for name in _read_columns(plan, side).values()):
                return False
        return plan.config.output == "positions" or parts.pair_tables is not None

    # -- accept ------------------------------------------------------------------------------------------------------

    def accepts(self, batch: PushBatch) -> bool:
        """Tell whether the rows are few and in order, their keys not NULL, and fit behind the newest ones."""
        rows, by = batch.left_rows + batch.right_rows, batch.order_by
        # Room for as many pairs as the last push had, and more.
        self._places = min(self._cells.expected + self._cells.expected // 8 + rows, self._parts.limit.rows)
        if not 0 < rows <= self._most_rows or self._places > self._block_places:
            return False
        if self._packing is not None and not self._packing.look():
            return False
        columns = self._columns[by] if by in self._columns else self._look_up(batch)
        left, right, tables = self._left, self._right, batch.tables
        words, clock = self._words, batch.clock
        words[ORDERED] = by is not None
        if self._times is not None:
            if not clock.plain:
                return False
            words[CLOCKS], words[CLOCKS + 1] = clock.left, clock.right
        accepted = False
        try:
            accepted = bool(
                columns
                and left.look(tables["left"], batch.left_rows, columns[0])
                and right.look(tables["right"], batch.right_rows, columns[1])
                and (self._tables is None or (left.finds() and right.finds()))
                and order_small(self._small)
            )
        finally:
            if not accepted:
                self._release()
        return accepted

    def _release(self) -> None:
        self._left.exported.release()
        self._right.exported.release()

    def _look_up(self, batch: PushBatch) -> tuple[ListedColumns, ListedColumns] | None:
        """Return which columns are read in pushes that are sorted by one; None if these do not fit."""
        listed, name = None, batch.order_by
        if name is not None:
            places = plain_places(batch.tables, name)
            listed = (self._left.ordered(places[0]), self._right.ordered(places[1])) if places else None
            self._columns[name] = listed
        return listed

    # -- run ---------------------------------------------------------------------------------------------------------

    def run(self, batch: PushBatch, first: dict[Side, int]) -> pa.Table:
        """Insert the rows, probe, and return what they produced, see `slidejoin.operator.push`."""
        left, right = self._left, self._right
        try:
            self._aim(self._places, ordered=batch.order_by is not None)
            push_small(self._cells.work, self._small)
        finally:
            self._release()
        pairs = self._work_words[WOVEN]
        for side, rows in ((left, batch.left_rows), (right, batch.right_rows)):
            if rows and not side.window.shared:
                side.payload.wrote(rows, side.latest)
        if self._times is not None:
            ends = self._words[CLOCKS], self._words[CLOCKS + 1]
            batch.clock_after = batch.clock.moved(*ends, batch.left_rows, batch.right_rows)
        if pairs < 0:
            return self._go_on(batch, first)
        for table, rows in ((left.table, batch.left_rows), (right.table, batch.right_rows)):
            if table is not None:  # it was there when the push was accepted
                table.inserted(rows)
        self._cells.expected = pairs
        if self._block is None:
            return self._joined(batch, first, pairs)
        if self._tables is None:
            return self._block.take(pairs)
        if self._words[WAS_READ] == pairs:
            return self._tables.taken(self._block, pairs)
        self._tables.drop()  # there was too little room for texts
        return together(list(self._tables.tables(*self._ordinals[:, :pairs])), self._parts.plan.layout.schema)

    def _joined(self, batch: PushBatch, first: dict[Side, int], pairs: int) -> pa.Table:
        """Output the rows of a join that is not inner out of so many pairs."""
        ordinals = self._ordinals[0, :pairs], self._ordinals[1, :pairs]
        times = None if self._times is None else self._times.of_batch(batch)
        return self._cells.joined(ordinals, self._arrivals(batch), first, times)

    def _arrivals(self, batch: PushBatch) -> Arrivals:
        """Return the arrival order, in memory of the next push."""
        lefts, rights = batch.left_rows, batch.right_rows
        ranks = self._ranks[0][:lefts], self._ranks[1][:rights]
        return Arrivals(numbers(lefts), numbers(rights), *ranks, straight=True)

    def _aim(self, places: int, *, ordered: bool) -> None:
        """Set where so many pairs go, and how they are ordered."""
        words, work, block = self._words, self._work_words, self._block
        if self._tables is not None:
            shared = self._tables.shared(places)
            if shared is not block:
                self._block = block = shared
                for side in self._tables.readers:
                    columns, used = self._tables.part(block, side)
                    point(words, AT[side] + READ, columns)
                    words[AT[side] + USED] = address_of(used)
            words[ROW] = block.rows
        elif self._positions:
            if block is None or block.rows + places > block.places:
                schema = self._parts.plan.layout.schema
                self._block = block = OutputBlock(schema, (0, 1), (8, 8), (False, False), self._block_places, (0, 0))
                self._begins = block.columns[:, VALUES].tolist()
            one, two = self._begins
            words[LEFT_OUT], words[RIGHT_OUT] = one + 8 * block.rows, two + 8 * block.rows
        words[PLACES], words[ASIDE] = places, self._aside or (self._unsorted_aside and not ordered)
        if not (self._roomy and work[VIEWS[0]] and work[VIEWS[1]]):
            for probing in self._cells.probe_sides.values():
                probing.make_room(self._largest, work)
            self._roomy = True

    def _go_on(self, batch: PushBatch, first: dict[Side, int]) -> pa.Table:
        """Continue where the kernel had to stop, with rows that are stored already."""
        known = self._arrivals(batch)
        arrivals = replace(known, left_rank=known.left_rank.copy(), right_rank=known.right_rank.copy())
        tables = {side: table for side in SIDES if (table := cell_table(self._parts.windows[side].index)) is not None}
        times = None if self._times is None else self._times.of_batch(batch)
        return self._cells.go_on(batch.columns, arrivals, first, tables, self._cells.keys(batch.columns), times)


def _read_columns(plan: Plan, side: Side) -> dict[int, str]:
    """Return the columns of keys, or their parts, and event times, by the words of a side that get their addresses."""
    composite, scope = composite_columns(plan), plan.scope
    timed = {} if scope.counted is not None else {TIMES: scope.columns(side)[0]}
    if not composite:
        return {KEY: key_columns(plan, near)[side][0].column, **timed}
    return {**{PACK + COLUMNS[term]: one.column for term, one in enumerate(composite[side])}, **timed}
