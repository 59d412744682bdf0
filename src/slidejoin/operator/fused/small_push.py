"""Fused pushes of a few rows: what `cells` does in Python, done by kernels on addresses.

A push of sixteen rows spends two microseconds on its rows and forty on calls. Here the address of each column is taken
once, one kernel does the rest (`kernels.small_push`), and the result is a slice of a preallocated table. Whatever
does not fit, such as NULLs or the first rows of a chunk or of a larger table, is left to `cells`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.index.factory import cell_table
from slidejoin.jit.vectors.fields import word, words_for
from slidejoin.operator.fused.columns import AT, ResultBlock, SmallPushSide
from slidejoin.operator.fused.common import around
from slidejoin.operator.fused.kernels.small_push import GATHERED, MOST_COLUMNS, SIDE, SMALL, order_small, push_small
from slidejoin.operator.fused.packing import COLUMNS, KeyPacking, composite_columns
from slidejoin.operator.fused.words import ROLES, VIEWED, WOVEN
from slidejoin.operator.ingest.arrival import Arrivals, numbers
from slidejoin.operator.ingest.order_by import plain_places
from slidejoin.operator.slices import slice_rows
from slidejoin.predicate.truth.values import WHOLE
from slidejoin.runtime.array_pool import address_of
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from slidejoin.operator.fused.cells import FusedCells
    from slidejoin.operator.fused.columns import ListedColumns
    from slidejoin.operator.parts import JoinParts
    from slidejoin.operator.push import PushBatch
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.ranges.terms import ShiftedColumn
    from slidejoin.sides import Side

__all__ = ["SmallPush"]

MOST_ROWS = 1 << 10
"""Most rows of a small push: larger ones need more room for results than is preallocated."""

BLOCK_PLACES = 1 << 12
"""Pairs of a table from which results are sliced: each of them keeps up to 64 KiB for two columns alive."""


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
        self._work_words = memoryview(cells.work.data)
        self._small = words_for(SMALL)
        words = self._words = memoryview(self._small.data)
        sides, composite = cells.probe_sides, composite_columns(plan)
        self._packing = self._packed_keys(composite) if composite else None
        self._left, self._right = (
            SmallPushSide(side, parts, _key_columns(plan, side), words, sides[other(side)], self._work_words)
            for side in SIDES
        )
        self._ranks = np.empty(MOST_ROWS, np.int64), np.empty(MOST_ROWS, np.int64)
        words[AT["left"] + RANKS], words[AT["right"] + RANKS] = map(address_of, self._ranks)
        # The rows of a join that is not inner are made out of pairs first.
        self._inner = parts.join_type is None
        self._gathers = plan.config.output == "pairs" and self._inner
        self._ordinals = np.empty((2, BLOCK_PLACES), np.int64)
        if self._gathers or not self._inner:
            words[LEFT_OUT], words[RIGHT_OUT] = map(address_of, self._ordinals)
        # Where the address of each output column is stored.
        self._out, self._dtypes = _output_columns(plan, parts, words) if self._gathers else ([LEFT_OUT, RIGHT_OUT], [])
        self._dtypes = self._dtypes or [np.dtype(np.int64)] * 2
        self._block = ResultBlock(plan.layout.schema, self._dtypes, 1) if self._inner else None
        self._columns: dict[str | None, tuple[ListedColumns, ListedColumns] | None] = {
            None: (self._left.columns, self._right.columns)
        }
        self._most_rows = min(MOST_ROWS, slice_rows(plan, {}))
        self._places = 0
        """Pairs that the accepted push has room for."""
        self._roomy, self._aside = False, plan.config.order == "none"

    def _packed_keys(self, composite: Mapping[Side, tuple[ShiftedColumn, ...]]) -> KeyPacking:
        """Make room for composite keys, and return how they are packed."""
        at = {side: AT[side] + PACK for side in SIDES}
        packing = KeyPacking(self._parts.plan, self._parts.windows, composite, self._words, at)
        # Kept, since the kernels know only addresses.
        self._room = {side: np.empty((3, MOST_ROWS), np.int64) for side in SIDES}
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
            kept = {column.name: column for column in held}
            if not 0 < len(held) <= MOST_COLUMNS or len(names) > MOST_COLUMNS:
                return False
            kinds = [(schema.field(column.name).type, column.kind) for column in held]
            if any(given != kind or pa.types.is_boolean(kind) for given, kind in kinds):
                return False
            whole = all(schema.field(name).type.id in WHOLE for name in _key_columns(plan, side).values())
            if not whole or not kept.keys() >= set(names):
                return False
        return plan.config.output == "positions" or bool(plan.layout.columns)

    # -- accept ------------------------------------------------------------------------------------------------------

    def accepts(self, batch: PushBatch) -> bool:
        """Tell whether the rows are few and in order, without NULLs, and fit behind the newest ones."""
        rows, by = batch.left_rows + batch.right_rows, batch.order_by
        # Room for as many pairs as the last push had, and more.
        self._places = min(self._cells.expected + self._cells.expected // 8 + rows, self._parts.limit.rows)
        if not 0 < rows <= self._most_rows or self._places > BLOCK_PLACES:
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
        found, name = None, batch.order_by
        if name is not None:
            places = plain_places(batch.tables, name)
            found = (self._left.ordered(places[0]), self._right.ordered(places[1])) if places else None
            self._columns[name] = found
        return found

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
                block = self._block = ResultBlock(self._parts.plan.layout.schema, self._dtypes, BLOCK_PLACES)
            for at, (address, width) in zip(self._out, block.columns, strict=True):
                words[at] = address + block.used * width
        words[PLACES], words[ASIDE] = places, not ordered or self._aside
        if not (self._roomy and work[VIEWS[0]] and work[VIEWS[1]]):
            for side in self._cells.probe_sides.values():
                side.make_room(MOST_ROWS, work)
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
        return {KEY: around(plan)[side].column}
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
