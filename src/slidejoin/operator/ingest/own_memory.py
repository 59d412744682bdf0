"""Batches whose memory others own: checked before anything reads them by address, and copied where rows stay.

Arrow shares the memory of NumPy arrays, of Polars and pandas frames, and of whatever gives an Arrow stream. Its owner
may write into it as soon as the call that took the rows has returned.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import SchemaError
from slidejoin.operator.ingest.shared_values import OFFSETS, check_indices, shares_values, used_alone
from slidejoin.rows.arrow_buffers import chunks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["checked", "owned", "owned_column", "places_of_shared", "places_to_check"]

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
    """Return the places of the columns whose values are located by offsets, indices or lengths."""
    return tuple(place for place, kind in enumerate(schema.types) if not _fixed(kind))


def places_of_shared(schema: pa.Schema) -> tuple[int, ...]:
    """Return the places of the columns whose values may be few over much memory."""
    return tuple(place for place, kind in enumerate(schema.types) if shares_values(kind))


def checked(table: pa.Table, places: tuple[int, ...], shared: tuple[int, ...], side: str) -> pa.Table:
    """Check what locates values: offsets, indices, lengths of children. Return the table.

    Its few rows have left behind what they do not use of large dictionaries. Whether texts are UTF-8 is not checked in
    large batches.

    Parameters
    ----------
    places : tuple of int
        Those of `places_to_check`: columns of fixed width have nothing of the kind.
    shared : tuple of int
        Those of `places_of_shared`.

    Raises
    ------
    SchemaError
        Naming the column and what is wrong.
    """
    for place in shared:
        column = table.column(place)
        with _refused(table, place, side):
            used = used_alone(column)
        if used is not column:
            table = table.set_column(place, table.field(place), used)
    if places:
        _check_places(table, places, side)
    return table


def _check_places(table: pa.Table, places: tuple[int, ...], side: str) -> None:
    if table.num_rows <= FEW:
        # All at once: to get at a column takes as long as to check it. What else is wrong is of no matter here.
        with suppress(pa.ArrowException, ValueError):
            table.validate(full=True)
            return
    for place in places:
        column = table.column(place)
        with _refused(table, place, side):
            for chunk in column.chunks:
                _check(chunk)


@contextmanager
def _refused(table: pa.Table, place: int, side: str) -> Iterator[None]:
    try:
        yield
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
            check_indices(array)  # type: ignore[arg-type]  # of dictionaries, by its type
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
