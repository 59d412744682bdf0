"""``output="count"``: one row for each arrival, with the columns of its side and its number of matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import array_of, buffer_of, empty_of, values_in
from slidejoin.rows.widths import Widths, bytes_of, fixed_width, varies, widths_of
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from slidejoin.operator.ingest.arrival import Arrivals
    from slidejoin.plan.plan import Plan
    from slidejoin.rows.widths import TableLimit
    from slidejoin.sides import Side

__all__ = ["CountTables", "pairs_in", "spread"]

LINE = 24
"""Bytes of a row without columns: the side's name with its offset, and the number of pairs."""


def pairs_in(out: pa.Table) -> int:
    """Return the number of pairs that an output table of counts has: its last column tells that of each row."""
    return int(values_in(out.column(out.num_columns - 1), np.int64).sum())


class CountTables:
    """Lays out numbers of pairs next to the rows that produced them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._names = {side: plan.layout.names(side) for side in SIDES}
        self._empty_right = empty_of(plan.kept_schema("right"))
        schemas = {side: plan.kept_schema(side) for side in SIDES}
        kinds = {side: {name: schemas[side].field(name).type for name in self._names[side]} for side in SIDES}
        # Each row has a value in all columns, NULL in those of the other side.
        self._fixed = LINE + sum(fixed_width(kind) for side in SIDES for kind in kinds[side].values())
        self._varying = {side: [name for name, kind in kinds[side].items() if varies(kind)] for side in SIDES}
        # The right columns of a self-join are NULL.
        self._sides_with_rows = SIDES[:1] if plan.config.self_join else SIDES
        # Arrivals often alternate the same way in every push; building text for each row costs more than all else here.
        self._is_left: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._sides: pa.Array[Any] = pa.nulls(0, pa.string())

    def tables(
        self,
        matches: NDArray[np.int64],
        tables: dict[Side, pa.Table],
        arrivals: Arrivals,
        limit: TableLimit,
        is_left: NDArray[np.bool_] | None = None,
    ) -> Iterator[pa.Table]:
        """Yield (n,) int64 numbers of pairs next to the arrivals, in their order, in tables within the limit.

        `tables` are the rows in the order of each side, and `is_left` (n,) bool tells which arrivals are left rows, if
        that is known already.
        """
        if is_left is None:
            is_left = np.zeros(matches.size, np.bool_)
            is_left[arrivals.left_rank] = True
        start = 0
        for stop in self._stops(matches.size, tables, arrivals, limit):
            yield self._table(matches[start:stop], tables, arrivals, is_left[start:stop], start)
            start = stop

    def _stops(self, rows: int, tables: dict[Side, pa.Table], arrivals: Arrivals, limit: TableLimit) -> list[int]:
        """Return where tables end, in arrivals."""
        fixed = Widths(rows, self._fixed)
        sides = [side for side in self._sides_with_rows if self._varying[side]]
        varying = {side: tables[side].select(self._varying[side]) for side in sides}
        if fixed.nbytes + sum(map(bytes_of, varying.values())) <= limit.nbytes:
            return limit.stops(fixed)
        every = np.zeros(rows, np.int64)
        for side, table in varying.items():
            nbytes = widths_of(table).varying
            if nbytes is not None:
                every[arrivals.rank(side)] = nbytes
        return limit.stops(Widths(rows, self._fixed, every))

    def _table(
        self,
        matches: NDArray[np.int64],
        tables: dict[Side, pa.Table],
        arrivals: Arrivals,
        is_left: NDArray[np.bool_],
        first: int,
    ) -> pa.Table:
        """Return the output table of consecutive arrivals, (n,) each, from the one with number `first` on."""
        layout = self._plan.layout
        sides, numbers = self._side_names(is_left), array_of(matches)
        if not self._names["left"] and not self._names["right"]:
            return pa.Table.from_arrays([sides, numbers], schema=layout.schema)
        gathered: dict[Side, pa.Table] = {}
        for side in SIDES:
            rank = arrivals.rank(side)
            source = tables[side] if side in self._sides_with_rows else self._empty_right
            if matches.size < arrivals.left_rank.size + arrivals.right_rank.size:
                low, high = np.searchsorted(rank, (first, first + matches.size)).tolist()
                source, rank = source.slice(low, high - low), rank[low:high] - first
            mine = is_left if side == "left" else ~is_left
            gathered[side] = spread(source.select(self._names[side]), rank, mine)
        return layout.counts(gathered["left"], gathered["right"], sides, numbers)

    def _side_names(self, is_left: NDArray[np.bool_]) -> pa.Array[Any]:
        if not _same(is_left, self._is_left):
            indices = pa.Array.from_buffers(pa.int8(), is_left.size, [None, buffer_of((~is_left).view(np.int8))])
            names = pa.DictionaryArray.from_arrays(indices, pa.array(["left", "right"]))
            self._is_left, self._sides = is_left, names.cast(pa.string())
        return self._sides


def _same(marks: NDArray[np.bool_], others: NDArray[np.bool_]) -> bool:
    """Tell whether both (n,) and (m,) bool are the same, eight values at a time."""
    if marks.size != others.size or marks.size % 8:
        return np.array_equal(marks, others)
    return bool((marks.view(np.int64) == others.view(np.int64)).all())


def spread(source: pa.Table, rank: NDArray[np.int64], mine: NDArray[np.bool_]) -> pa.Table:
    """Place rows among all arrivals, with NULL in between.

    `rank` (m,) int64 are the places of the source's rows; `mine` (n,) bool tells which those are. The right columns of
    a self-join have no rows.
    """
    columns: list[pa.Array[Any] | pa.ChunkedArray[Any]] = []
    places: pa.Array[Any] | None = None
    rows = source.num_rows
    begin = int(mine.argmax()) if rows else 0
    together = rows > 0 and bool(mine[begin : begin + rows].all())
    known = None
    for column in source.columns:
        kind = column.type
        if rows and column.null_count == 0 and pa.types.is_primitive(kind) and kind.bit_width % 8 == 0:
            if known is None:
                known = buffer_of(np.packbits(mine, bitorder="little"))
            values = values_in(column, f"u{kind.bit_width // 8}")
            every = np.zeros(mine.size, values.dtype)
            every[rank] = values
            columns.append(pa.Array.from_buffers(kind, mine.size, [known, buffer_of(every)]))
            continue
        if together and not isinstance(kind, pa.DictionaryType | pa.BaseExtensionType):
            # Rows that arrived at once; many do.
            around = [pa.nulls(count, kind) for count in (begin, mine.size - begin - rows)]
            columns.append(pa.concat_arrays([around[0], *column.chunks, around[1]]))
            continue
        if places is None:
            among = np.zeros(mine.size, np.int64)
            among[rank] = np.arange(rank.size)
            places = pa.array(among, mask=~mine)
        columns.append(column.take(places))  # type: ignore[arg-type]  # the stubs are of pyarrow 20
    return pa.Table.from_arrays(columns, names=source.column_names)
