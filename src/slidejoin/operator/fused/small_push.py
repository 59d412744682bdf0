"""Fused pushes of a few rows: what `cells` does in Python, done by kernels on addresses.

A push of sixteen rows spends two microseconds on its rows and forty on calls. Here the address of each column is taken
once, one kernel does the rest (`kernels.small_push`), and the result is a slice of a preallocated table. Whatever
does not fit, such as NULLs or the first rows of a chunk or of a larger table, is left to `cells`.

A batch's columns are located by one call, of the Arrow C data interface: PyArrow makes an object for each column that
is read singly, a microsecond each; a batch is exported whole in less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from slidejoin.index.factory import cell_table
from slidejoin.jit.vectors.fields import word, words_for
from slidejoin.operator.fused.cells import ROLES, VIEWED, WOVEN
from slidejoin.operator.fused.common import key_columns, near
from slidejoin.operator.fused.kernels.small_push import (
    GATHERED,
    HELD,
    MOST_COLUMNS,
    SIDE,
    SMALL,
    order_small,
    push_small,
)
from slidejoin.operator.fused.kernels.work import LEFT, RIGHT
from slidejoin.operator.fused.packing import COLUMNS, KeyPacking, composite_columns
from slidejoin.operator.ingest.arrival import Arrivals, numbers
from slidejoin.operator.ingest.order_by import plain_places
from slidejoin.operator.slices import slice_rows
from slidejoin.predicate.truth.values import WHOLE
from slidejoin.rows.arrow_buffers import buffer_of
from slidejoin.rows.exported import ExportedBatch
from slidejoin.rows.kernels.exported import LISTED
from slidejoin.runtime.array_pool import address_of, point
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

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

__all__ = ["AT", "ListedColumns", "ResultBlock", "SmallPush", "SmallPushSide"]

AT: dict[Side, int] = {"left": word(SMALL, "sides", LEFT), "right": word(SMALL, "sides", RIGHT)}
"""Where the words of a side begin, see `slidejoin.operator.fused.kernels.small_push`."""

ROWS, SEEN, EXPORTED, LISTS, BY = (word(SIDE, name) for name in ("rows", "seen", "exported", "lists", "by"))
FIRST, STRIDE, HELD_COLUMNS, RING, SHIFT = (
    word(SIDE, name) for name in ("first", "stride", "columns", "ring", "shift")
)
HELD_AT = tuple(word(SIDE, "held", number) for number in range(MOST_COLUMNS))
VALUES, HELD_OFFSET, HELD_WIDTH = (word(HELD, name) for name in ("values", "offset", "width"))
"""Words of a side, and of a column that is stored."""


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
        # For each column that is read, by its place: the bytes of a value, and where its address is stored.
        self._places: dict[int, tuple[int, list[int]]] = {}
        for at, name in keys.items():
            self._want(schema, name, at)
        records = self.payload.records
        for number, (column, offset) in enumerate(zip(records.columns, records.offsets, strict=True)):
            at = HELD_AT[number]
            self._want(schema, column.name, at + VALUES)
            words[self._at + at + HELD_OFFSET], words[self._at + at + HELD_WIDTH] = offset, column.dtype.itemsize
        words[self._at + HELD_COLUMNS], words[self._at + STRIDE] = len(records.columns), records.dtype.itemsize
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
        self._ring = np.empty(0, np.int64)
        self._chunk: Chunk | None = None
        self._first = 0

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
        if cells is None or cells.wide or cells.is_full(seen + rows):
            return False
        if cells.slots is not self._slots or cells.pool is not self._pool:
            self._role.look_at(cells, self._work)
            self._slots, self._pool = cells.slots, cells.pool
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
        if chunk is not self._chunk:
            self._chunk, self._first = chunk, payload.directory.address(chunk)
        words[at + FIRST] = self._first + seen * words[at + STRIDE]
        return True

    def finds(self) -> bool:
        """Set the addresses of the records by ordinal; return False if columns may have NULLs."""
        directory = self.payload.directory
        ring = directory.ring
        if ring is None or not directory.whole:
            return False
        if ring is not self._ring:
            at, words = self._at, self._words
            point(words, at + RING, ring)
            words[at + SHIFT] = directory.shift
            self._ring = ring
        return True


class ResultBlock:
    """A table with room for the results of many pushes, and the addresses of its columns."""

    def __init__(self, schema: pa.Schema, dtypes: list[np.dtype[Any]], places: int) -> None:
        arrays = [np.empty(places, dtype) for dtype in dtypes]
        columns = [
            pa.Array.from_buffers(field.type, places, [None, buffer_of(array)], 0)
            for field, array in zip(schema, arrays, strict=True)
        ]
        self.table = pa.Table.from_arrays(columns, schema=schema)
        self.columns = [(address_of(array), array.itemsize) for array in arrays]
        self.places, self.used = places, 0


KEY, RANKS, TAKEN, PACK = (word(SIDE, name) for name in ("key", "ranks", "taken", "packing"))
GATHERED_COLUMNS = tuple(word(SIDE, "gathered", number) for number in range(MOST_COLUMNS))
OFFSET, WIDTH, TARGET = (word(GATHERED, name) for name in ("offset", "width", "target"))
ORDERED, ASIDE, PLACES, LEFT_OUT, RIGHT_OUT = (
    word(SMALL, name) for name in ("ordered", "aside", "places", "left_out", "right_out")
)
"""Words of a side, of a column that is taken out, and of both sides."""

VIEWS = tuple(at + VIEWED for at in ROLES.values())


class SmallPush:
    """Pushes of few rows through tables of cells, in count windows, see `slidejoin.operator.push`.

    Parameters
    ----------
    parts : JoinParts
    cells : FusedCells
        Its work is shared, and it continues where the kernel has to stop.
    """

    kernels = (order_small, push_small)

    def __init__(self, parts: JoinParts, cells: FusedCells) -> None:
        self._parts, self._cells, plan = parts, cells, parts.plan
        self._largest, self._block_places = plan.tuning.small_push_rows, plan.tuning.small_push_pairs
        self._work_words = memoryview(cells.work.data)
        self._small = words_for(SMALL)
        words = self._words = memoryview(self._small.data)
        sides, composite = cells.probe_sides, composite_columns(plan)
        self._packing = self._packed_keys(composite) if composite else None
        self._left, self._right = (
            SmallPushSide(side, parts, _key_columns(plan, side), words, sides[other(side)], self._work_words)
            for side in SIDES
        )
        self._ranks = np.empty(self._largest, np.int64), np.empty(self._largest, np.int64)
        words[AT["left"] + RANKS], words[AT["right"] + RANKS] = map(address_of, self._ranks)
        # The rows of a join that is not inner are made out of pairs first.
        self._inner = parts.join_type is None
        self._gathers = plan.config.output == "pairs" and self._inner
        self._ordinals = np.empty((2, self._block_places), np.int64)
        if self._gathers or not self._inner:
            words[LEFT_OUT], words[RIGHT_OUT] = map(address_of, self._ordinals)
        # Where the address of each output column is stored.
        self._out, self._dtypes = _output_columns(plan, parts, words) if self._gathers else ([LEFT_OUT, RIGHT_OUT], [])
        self._dtypes = self._dtypes or [np.dtype(np.int64)] * 2
        self._block = ResultBlock(plan.layout.schema, self._dtypes, 1) if self._inner else None
        self._columns: dict[str | None, tuple[ListedColumns, ListedColumns] | None] = {
            None: (self._left.columns, self._right.columns)
        }
        self._most_rows = min(self._largest, slice_rows(plan, {}))
        self._places = 0
        """Pairs that the accepted push has room for."""
        self._roomy, self._aside = False, plan.config.order == "none"

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
        if plan.scope.counted is None or plan.config.output == "count":
            return False
        for side in SIDES:
            schema, held, names = plan.taken_schema(side), parts.windows[side].payload.plain, plan.layout.names(side)
            stored = {column.name for column in held}
            if not 0 < len(held) <= MOST_COLUMNS or len(names) > MOST_COLUMNS:
                return False
            kinds = [(schema.field(column.name).type, column.kind) for column in held]
            if any(given != kind or pa.types.is_boolean(kind) for given, kind in kinds):
                return False
            whole = all(schema.field(name).type.id in WHOLE for name in _key_columns(plan, side).values())
            if not whole or not stored >= set(names):
                return False
        return plan.config.output == "positions" or bool(plan.layout.columns)

    # -- accept ------------------------------------------------------------------------------------------------------

    def accepts(self, batch: PushBatch) -> bool:
        """Tell whether the rows are few and in order, without NULLs, and fit behind the newest ones."""
        rows, by = batch.left_rows + batch.right_rows, batch.order_by
        # Room for as many pairs as the last push had, and more.
        self._places = min(self._cells.expected + self._cells.expected // 8 + rows, self._parts.limit.rows)
        if not 0 < rows <= self._most_rows or self._places > self._block_places:
            return False
        if self._packing is not None and not self._packing.look():
            return False
        columns = self._columns[by] if by in self._columns else self._look_up(batch)
        left, right, tables = self._left, self._right, batch.tables
        self._words[ORDERED] = by is not None
        try:
            return bool(
                columns
                and left.look(tables["left"], batch.left_rows, columns[0])
                and right.look(tables["right"], batch.right_rows, columns[1])
                and (not self._gathers or (left.finds() and right.finds()))
                and order_small(self._small)
            )
        finally:
            # The tables keep their memory, whose addresses are written by now.
            left.exported.release()
            right.exported.release()

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
        self._aim(self._places, ordered=batch.order_by is not None)
        push_small(self._cells.work, self._small)
        pairs = self._work_words[WOVEN]
        for side, rows in ((left, batch.left_rows), (right, batch.right_rows)):
            if rows:
                side.payload.wrote(rows)
        if pairs < 0:
            return self._go_on(batch, first)
        for table, rows in ((left.table, batch.left_rows), (right.table, batch.right_rows)):
            if table is not None:  # it was there when the push was accepted
                table.inserted(rows)
        self._cells.expected, block = pairs, self._block
        if block is None:
            return self._joined(batch, first, pairs)
        out = block.table.slice(block.used, pairs)
        block.used += pairs
        return out

    def _joined(self, batch: PushBatch, first: dict[Side, int], pairs: int) -> pa.Table:
        """Output the rows of a join that is not inner out of so many pairs."""
        ordinals = self._ordinals[0, :pairs], self._ordinals[1, :pairs]
        return self._cells.joined(ordinals, self._arrivals(batch), first)

    def _arrivals(self, batch: PushBatch) -> Arrivals:
        """Return the arrival order, in memory of the next push."""
        lefts, rights = batch.left_rows, batch.right_rows
        ranks = self._ranks[0][:lefts], self._ranks[1][:rights]
        return Arrivals(numbers(lefts), numbers(rights), *ranks, straight=True)

    def _aim(self, places: int, *, ordered: bool) -> None:
        """Set where so many pairs go, and how they are ordered."""
        words, work, block = self._words, self._work_words, self._block
        if block is not None:
            if block.used + places > block.places:
                block = self._block = ResultBlock(self._parts.plan.layout.schema, self._dtypes, self._block_places)
            for at, (address, width) in zip(self._out, block.columns, strict=True):
                words[at] = address + block.used * width
        words[PLACES], words[ASIDE] = places, not ordered or self._aside
        if not (self._roomy and work[VIEWS[0]] and work[VIEWS[1]]):
            for side in self._cells.probe_sides.values():
                side.make_room(self._largest, work)
            self._roomy = True

    def _go_on(self, batch: PushBatch, first: dict[Side, int]) -> pa.Table:
        """Continue where the kernel had to stop, with rows that are stored already."""
        known = self._arrivals(batch)
        arrivals = replace(known, left_rank=known.left_rank.copy(), right_rank=known.right_rank.copy())
        tables = {side: table for side in SIDES if (table := cell_table(self._parts.windows[side].index)) is not None}
        return self._cells.go_on(batch.columns, arrivals, first, tables, self._cells.keys(batch.columns))


def _key_columns(plan: Plan, side: Side) -> dict[int, str]:
    """Return the columns whose values are keys, or parts of them, by the words of a side that get their addresses."""
    composite = composite_columns(plan)
    if not composite:
        return {KEY: key_columns(plan, near)[side][0].column}
    return {PACK + COLUMNS[term]: one.column for term, one in enumerate(composite[side])}


def _output_columns(plan: Plan, parts: JoinParts, words: memoryview) -> tuple[list[int], list[np.dtype[Any]]]:
    """Set the places in records of the output columns; return where their addresses go, and their types."""
    counts, out, dtypes = dict.fromkeys(SIDES, 0), [], []
    for side, name, _ in plan.layout.columns:
        records = parts.windows[side].payload.records
        number = [column.name for column in records.columns].index(name)
        at = AT[side] + GATHERED_COLUMNS[counts[side]]
        dtype = records.columns[number].dtype
        words[at + OFFSET], words[at + WIDTH] = records.offsets[number], dtype.itemsize
        counts[side] += 1
        out.append(at + TARGET)
        dtypes.append(dtype)
    for side, count in counts.items():
        words[AT[side] + TAKEN] = count
    return out, dtypes
