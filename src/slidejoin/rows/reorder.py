"""Rows of a table in another order, or some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.rows.held_types import held, released, with_few_entries
from slidejoin.rows.widths import SLICE, chunked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["rows_as_given", "rows_at"]


def rows_at(table: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    """Return the rows at these places of a table, (n,) int64, in this order.

    Arrow concatenates chunks before it takes rows from them. Where that may be too large for one array, the rows are
    taken in parts, and the table has several chunks again.
    """
    if places.size == 0 or not chunked(table) or table.nbytes <= SLICE.nbytes:
        rows: pa.Array[Any] = pa.array(places)
        return table.take(rows)
    from slidejoin.rows.gather import taken  # noqa: PLC0415 - loads Numba, which waiting rows do not need

    return pa.concat_tables(taken([pa.Table.from_batches([batch]) for batch in table.to_batches()], places, SLICE))


def rows_as_given(table: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    """Return the rows at these places as `rows_at` does, of any types that rows can be taken out of, with their types.

    A few rows of a large dictionary do not keep all of it.
    """
    rows = rows_at(held(table), places)
    columns = [
        released(with_few_entries(column) if pa.types.is_dictionary(column.type) else column, field.type)
        for column, field in zip(rows.columns, table.schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)
