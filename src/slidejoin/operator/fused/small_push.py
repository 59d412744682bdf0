"""Small pushes in one call of a kernel: what the short way does in Python, done by addresses.

A push of sixteen rows spends two microseconds on its rows and forty on calls. Here each column is asked once where it
lies, one kernel does the rest (`kernels.fused.small_push`), and the result is cut from a table that was made for many of
them. What does not fit, such as NULLs or the first rows of a chunk or of a larger table, takes the short way.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.index.cells.band_cells import BandCells
from slidejoin.kernels.common.atomics import address_of
from slidejoin.kernels.fused.small_push import (
    BRIEF,
    GATHERED,
    LEFT_SIDE,
    MOST_COLUMNS,
    OF_COLUMN,
    ORDERED,
    PLACES,
    PUT,
    RANKS,
    RIGHT_SIDE,
    TAKEN,
    UNORDERED,
    WRITTEN,
    push_briefly,
)
from slidejoin.kernels.fused.work import LEFT, RIGHT, VIEWED, WOVEN
from slidejoin.operator.fused.columns import AT, Block, SmallPushSide
from slidejoin.operator.ingest.order_by import plain_places
from slidejoin.predicate.truth.values import WHOLE
from slidejoin.sides import SIDES, other
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from slidejoin.operator.fused.columns import ColumnAddresses
    from slidejoin.operator.fused.probe_side import ProbeSide
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.ranges.terms import Around
    from slidejoin.sides import Side

__all__ = ["SmallPush"]

MOST_ROWS = 1 << 10
"""Rows of a push that is small: larger ones need more room for results than is kept for others."""

BLOCK_PLACES = 1 << 12
"""Pairs of a table from which results are cut: who keeps one of them keeps up to 64 KiB for two columns."""


class SmallPush:
    """Pushes into an operator whose plan `serves`; see `push`.

    Parameters
    ----------
    operator : JoinOperator
    plain : mapping of side to Around
        The column of each side whose values are keys.
    roles : mapping of side to ProbeSide
    work : (WORK,) int64
        Of the short way, with its constants.
    rest : callable
        Goes on where the kernel had to stop: ``rest(tables, ranks, before)``.
    """

    def __init__(
        self,
        operator: JoinOperator,
        plain: Mapping[Side, Around],
        roles: Mapping[Side, ProbeSide],
        work: NDArray[np.int64],
        rest: Callable[[dict[Side, pa.Table], tuple[NDArray[np.int64], NDArray[np.int64]], dict[Side, int]], pa.Table],
    ) -> None:
        self._operator, self._roles, self._work, self._rest = operator, roles, work, rest
        self._work_words = memoryview(work.data)
        self._brief = np.zeros(BRIEF, np.int64)
        words = self._words = memoryview(self._brief.data)
        plan = operator.plan
        self._left, self._right = (
            SmallPushSide(side, operator, plain[side].column, words, roles[other(side)], self._work_words)
            for side in SIDES
        )
        self._ranks = np.empty(MOST_ROWS, np.int64), np.empty(MOST_ROWS, np.int64)
        words[LEFT_SIDE + RANKS], words[RIGHT_SIDE + RANKS] = map(address_of, self._ranks)
        self._gathers = plan.config.output == "pairs"
        self._ordinals = np.empty((2, BLOCK_PLACES), np.int64)
        if self._gathers:
            words[WRITTEN], words[WRITTEN + 1] = map(address_of, self._ordinals)
        # Where the address of each column that is put out is written down.
        self._out, self._dtypes = _put_out(plan, operator, words) if self._gathers else ([WRITTEN, WRITTEN + 1], [])
        self._dtypes = self._dtypes or [np.dtype(np.int64)] * 2
        self._block = Block(plan.layout.schema, self._dtypes, 1)
        self._columns: dict[str | None, tuple[ColumnAddresses, ColumnAddresses] | None] = {
            None: (self._left.columns, self._right.columns)
        }
        window = plan.config.window
        assert isinstance(window, CountWindow)  # noqa: S101 - looked at by `serves`
        self._sizes, self._slide = (window.left, window.right), window.slide
        self._roomy, self._aside = False, plan.config.order == "none"
        self.pairs = 0
        """Of the last push: there will be about as many in the next one."""

    @staticmethod
    def serves(operator: JoinOperator, plain: Mapping[Side, Around]) -> bool:
        """Tell whether everything that small pushes leave out is absent, of a join that takes the short way."""
        plan = operator.plan
        if plan.scope is not None or plan.config.output == "count":
            return False
        for side in SIDES:
            schema, held, names = plan.schema(side), operator.windows[side].payload.plain, plan.layout.names(side)
            kept = {column.name: column for column in held}
            if not 0 < len(held) <= MOST_COLUMNS or len(names) > MOST_COLUMNS:
                return False
            kinds = [(schema.field(column.name).type, column.kind) for column in held]
            if any(given != kind or pa.types.is_boolean(kind) for given, kind in kinds):
                return False
            if schema.field(plain[side].column).type.id not in WHOLE or not kept.keys() >= set(names):
                return False
        return plan.config.output == "positions" or bool(plan.layout.columns)

    def push(self, tables: dict[Side, pa.Table], order_by: str | None) -> pa.Table | None:
        """Take rows and return what they produce, or take nothing and return None: the short way is needed."""
        start = perf_counter()
        operator, left, right = self._operator, tables["left"], tables["right"]
        lefts, rights = left.num_rows, right.num_rows
        room = min(self.pairs + self.pairs // 8 + lefts + rights, operator.limit.rows)
        if not 0 < lefts + rights <= min(MOST_ROWS, operator.largest_slice) or room > BLOCK_PLACES:
            return None
        columns = self._columns[order_by] if order_by in self._columns else self._look_up(tables, order_by)
        if not (columns and self._left.look(left, lefts, columns[0]) and self._right.look(right, rights, columns[1])):
            return None
        if self._gathers and not (self._left.finds() and self._right.finds()):
            return None
        self._aim(room, order_by)
        operator.stats.since("arrive", start)
        push_briefly(self._work, self._brief)
        pairs = self._work_words[WOVEN]
        return None if pairs == UNORDERED else self._put_out(tables, lefts, rights, pairs)

    def _aim(self, room: int, order_by: str | None) -> None:
        """Write down where so many pairs go, and how they are ordered."""
        words, work, block, schema = self._words, self._work_words, self._block, self._operator.plan.layout.schema
        if block.used + room > block.places:
            block = self._block = Block(schema, self._dtypes, BLOCK_PLACES)
        used = block.used
        for at, (address, width) in zip(self._out, block.columns, strict=True):
            words[at] = address + used * width
        words[ORDERED], words[PLACES] = order_by is not None, room
        words[PUT] = order_by is None or self._aside
        if not (self._roomy and work[LEFT + VIEWED] and work[RIGHT + VIEWED]):
            for role in self._roles.values():
                role.make_room(MOST_ROWS, work)
            self._roomy = True

    def _put_out(self, tables: dict[Side, pa.Table], lefts: int, rights: int, pairs: int) -> pa.Table:
        """Take notice of what the kernel did, and return what it wrote, or go on where it had to stop."""
        start, operator, one, two = perf_counter(), self._operator, self._left, self._right
        before: dict[Side, int] = {"left": one.window.rows_seen, "right": two.window.rows_seen}
        for half, rows in ((one, lefts), (two, rights)):
            if rows:
                half.window.rows_seen += rows
                half.payload.wrote(rows)
        stats = operator.stats
        stats.rows_left += lefts
        stats.rows_right += rights
        if pairs < 0:
            out = self._rest(tables, (self._ranks[0][:lefts].copy(), self._ranks[1][:rights].copy()), before)
            self.pairs = out.num_rows
            operator.settle(before)
            return out
        self.pairs, block = pairs, self._block
        stats.pairs += pairs
        out = block.table.slice(block.used, pairs)
        block.used += pairs
        self._expire(one, lefts, self._sizes[0])
        self._expire(two, rights, self._sizes[1])
        operator.choose()
        stats.since("expire", start)
        return out

    def _expire(self, half: SmallPushSide, rows: int, size: int) -> None:
        """Take notice of the rows that the kernel has inserted on one side, and let old ones leave."""
        window, payload = half.window, half.payload
        index = window.index
        assert isinstance(index, BandCells)  # noqa: S101 - `look` has looked
        index.inserted(rows)
        outside = window.rows_seen - size
        if outside > 0:
            outside -= outside % self._slide
            index.expire(outside)
            if payload.chunks and payload.chunks[0].end <= outside:
                payload.expire(outside)

    def _look_up(
        self, tables: dict[Side, pa.Table], name: str | None
    ) -> tuple[ColumnAddresses, ColumnAddresses] | None:
        """Return which columns are looked at in pushes that are sorted by that one; None if these do not fit."""
        found = None
        if name is not None:
            places = plain_places(tables, name)
            found = (self._left.ordered(places[0]), self._right.ordered(places[1])) if places else None
            self._columns[name] = found
        return found


def _put_out(plan: Plan, operator: JoinOperator, words: memoryview) -> tuple[list[int], list[np.dtype[Any]]]:
    """Write down where the columns stand in records that are put out; return where their addresses go, and types."""
    counts, out, dtypes = dict.fromkeys(SIDES, 0), [], []
    for side, name, _ in plan.layout.columns:
        records = operator.windows[side].payload.records
        number = [column.name for column in records.columns].index(name)
        at = AT[side] + GATHERED + counts[side] * OF_COLUMN
        dtype = records.columns[number].dtype
        words[at], words[at + 1] = records.offsets[number], dtype.itemsize
        counts[side] += 1
        out.append(at + 2)
        dtypes.append(dtype)
    for side, count in counts.items():
        words[AT[side] + TAKEN] = count
    return out, dtypes
