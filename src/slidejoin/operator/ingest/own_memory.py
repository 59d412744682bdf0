"""Batches whose memory others own: checked before anything reads them by address, and copied where rows stay.

Arrow shares the memory of NumPy arrays, of Polars and pandas frames, and of whatever gives an Arrow stream. Its owner
may write into it as soon as the call that took the rows has returned.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import SchemaError
from slidejoin.rows.arrow_buffers import chunks_of, values_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["check_buffers", "owned", "owned_column", "places_to_check"]

FEW = 1 << 10
"""Rows up to which Arrow checks everything in a microsecond or two; of more it takes too long for texts."""

LITTLE = 1 << 16
"""Bytes that a table may bring along whatever its own are: to add these up takes longer than to copy so much."""

SLACK = 4096
"""Bytes beyond twice its own that a column may bring along without being cut out first."""


def owned(table: pa.Table) -> pa.Table:
    """Return the table with its values in memory of its own. O(bytes of its rows)."""
    if not table.num_rows:
        return table
    nbytes = table.get_total_buffer_size()
    if nbytes <= LITTLE or nbytes <= 2 * table.nbytes + SLACK:
        # Batch by batch: to get at a column takes as long as to copy a thousand of its rows.
        manager = pa.default_cpu_memory_manager()
        return pa.Table.from_batches([batch.copy_to(manager) for batch in table.to_batches()], table.schema)
    return pa.Table.from_arrays([owned_column(column) for column in table.columns], schema=table.schema)


def owned_column(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return the column with its values in memory of its own."""
    return chunks_of([_owned(chunk) for chunk in column.chunks], column.type)


def _owned(array: pa.Array[Any]) -> pa.Array[Any]:
    if array.get_total_buffer_size() > 2 * array.nbytes + SLACK:
        # A few rows of a large array. Entries of dictionaries and texts of views are still those of others.
        with suppress(pa.ArrowNotImplementedError):  # of unions, which are copied whole
            array = pa.concat_arrays([array, array.slice(0, 0)])
    return array.copy_to(pa.default_cpu_memory_manager())


def places_to_check(schema: pa.Schema) -> tuple[int, ...]:
    """Return the places of the columns whose values are found by offsets, indices or lengths."""
    return tuple(place for place, kind in enumerate(schema.types) if not _fixed(kind))


def check_buffers(table: pa.Table, places: tuple[int, ...], side: str) -> None:
    """Check what values are found by: offsets, indices, lengths of children.

    `places` are those of `places_to_check`: columns of fixed width have nothing of the kind. Whether texts are UTF-8 is
    not checked in large batches.

    Raises
    ------
    SchemaError
        Naming the column and what is wrong.
    """
    if not places:
        return
    if table.num_rows <= FEW:
        # All at once: to get at a column takes as long as to check it. What else is wrong is of no matter here.
        with suppress(pa.ArrowException, ValueError):
            table.validate(full=True)
            return
    for place in places:
        column = table.column(place)
        try:
            for chunk in column.chunks:
                _check(chunk)
        except (pa.ArrowException, ValueError) as error:
            msg = (
                f"column {table.schema.names[place]!r} of the {side} batch has invalid memory: {error}; none of its "
                "rows was taken. What made the batch wrote wrong offsets, indices or lengths"
            )
            raise SchemaError(msg) from error


def _fixed(kind: pa.DataType) -> bool:
    return pa.types.is_primitive(kind) or pa.types.is_null(kind) or pa.types.is_decimal(kind)


def _check(array: pa.Array[Any]) -> None:
    kind = array.type
    if len(array) > FEW:
        if pa.types.is_dictionary(kind):
            _check_indices(array)  # type: ignore[arg-type]  # of dictionaries, by its type
            _check(array.dictionary)  # type: ignore[attr-defined]
            return
        if (width := next((width for is_one, width in OFFSETS if is_one(kind)), None)) is not None:
            array.validate()
            _check_offsets(array, width)
            return
    array.validate(full=True)


def _check_offsets(array: pa.Array[Any], width: type[np.integer[Any]]) -> None:
    buffer = array.buffers()[1]
    if buffer is None:
        return
    offsets: NDArray[Any] = np.frombuffer(memoryview(buffer), np.dtype(width))[
        array.offset : array.offset + len(array) + 1
    ]
    if offsets.size and (offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any()):
        msg = "its offsets fall"
        raise ValueError(msg)


def _check_indices(array: pa.DictionaryArray[Any, Any]) -> None:
    indices = array.indices.drop_null() if array.indices.null_count else array.indices
    values = values_in(pa.chunked_array([indices]), indices.type.to_pandas_dtype())
    if values.size and (values.min() < 0 or int(values.max()) >= len(array.dictionary)):
        msg = f"index {int(values.min() if values.min() < 0 else values.max())} of {len(array.dictionary)} entries"
        raise ValueError(msg)


OFFSETS: tuple[tuple[Callable[[pa.DataType], bool], type[np.integer[Any]]], ...] = (
    (pa.types.is_string, np.int32),
    (pa.types.is_binary, np.int32),
    (pa.types.is_large_string, np.int64),
    (pa.types.is_large_binary, np.int64),
)
