"""What ``output="count"`` gives: for each arrival a row with the columns of its side and the number of its pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import array_of, empty_of, values_in
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.operator.ingest.arrival import Arrivals
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["CountTables"]


class CountTables:
    """Lays out numbers of pairs beside the rows that produced them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._names = {side: plan.layout.names(side) for side in SIDES}
        self._empty_right = empty_of(plan.kept_schema("right"))
        # Arrivals often alternate the same way in every push; text for each row costs more than all else here.
        self._is_left: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._sides = pa.nulls(0, pa.string())

    def table(
        self,
        matches: NDArray[np.int64],
        tables: dict[Side, pa.Table],
        arrivals: Arrivals,
        is_left: NDArray[np.bool_] | None = None,
    ) -> pa.Table:
        """Return the output table of (n,) int64 numbers of pairs, in arrival order; `tables` in order of each side.

        `is_left` (n,) bool tells which arrivals are left rows, if that is known already.
        """
        layout = self._plan.layout
        if is_left is None:
            is_left = np.zeros(matches.size, np.bool_)
            is_left[arrivals.left_rank] = True
        sides, numbers = self._side_names(is_left), array_of(matches)
        if not self._names["left"] and not self._names["right"]:
            return pa.Table.from_arrays([sides, numbers], schema=layout.schema)
        gathered: dict[Side, pa.Table] = {}
        for side in SIDES:
            alone = side == "right" and self._plan.config.self_join
            source = (self._empty_right if alone else tables[side]).select(self._names[side])
            gathered[side] = _spread(source, arrivals.rank(side), is_left if side == "left" else ~is_left)
        return layout.counts(gathered["left"], gathered["right"], sides, numbers)

    def _side_names(self, is_left: NDArray[np.bool_]) -> pa.Array:
        if not _same(is_left, self._is_left):
            indices = pa.Array.from_buffers(pa.int8(), is_left.size, [None, pa.py_buffer((~is_left).view(np.int8))])
            names = pa.DictionaryArray.from_arrays(indices, pa.array(["left", "right"]))
            self._is_left, self._sides = is_left, names.cast(pa.string())
        return self._sides


def _same(marks: NDArray[np.bool_], others: NDArray[np.bool_]) -> bool:
    """Tell whether both (n,) and (m,) bool are the same, eight values at a time."""
    if marks.size != others.size or marks.size % 8:
        return np.array_equal(marks, others)
    return bool((marks.view(np.int64) == others.view(np.int64)).all())


def _spread(source: pa.Table, rank: NDArray[np.int64], mine: NDArray[np.bool_]) -> pa.Table:
    """Put rows where they belong among all arrivals, NULL in between.

    `rank` (m,) int64 are the places of the source's rows; `mine` (n,) bool tells which those are. The right columns of
    a self-join have no rows.
    """
    columns, places = [], None
    known = None
    for column in source.columns:
        kind = column.type
        if source.num_rows and column.null_count == 0 and pa.types.is_primitive(kind) and kind.bit_width % 8 == 0:
            if known is None:
                known = pa.py_buffer(np.packbits(mine, bitorder="little"))
            values = values_in(column, f"u{kind.bit_width // 8}")
            spread = np.zeros(mine.size, values.dtype)
            spread[rank] = values
            columns.append(pa.Array.from_buffers(kind, mine.size, [known, pa.py_buffer(spread)]))
            continue
        if places is None:
            among = np.zeros(mine.size, np.int64)
            among[rank] = np.arange(rank.size)
            places = pa.array(among, mask=~mine)
        columns.append(column.take(places))
    return pa.Table.from_arrays(columns, names=source.column_names)
