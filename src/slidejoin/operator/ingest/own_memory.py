"""Batches whose memory others own: checked before anything reads them by address, and copied where rows stay.

Arrow shares the memory of NumPy arrays, of Polars and pandas frames, and of whatever gives an Arrow stream. Its owner
may write into it as soon as the call that took the rows has returned.

A few rows may lie over much memory, which other batches share: entries of a dictionary, and the texts that views point
into. Only what the rows use is checked and copied: 16 rows of a dictionary of 200,000 entries bring all of these along.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import SchemaError
from slidejoin.rows.arrow_buffers import buffer_of, chunks_of, values_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["checked", "owned", "owned_column", "places_of_shared", "places_to_check", "shares_values", "used_alone"]

FEW = 1 << 10
"""Rows up to which Arrow checks everything in a microsecond or two; of more it takes too long for texts. A dictionary
may have as many entries whatever its rows use."""

LITTLE = 1 << 16
"""Bytes that a table may bring along whatever its own are: to add these up takes longer than to copy so much."""

OFFSETS: tuple[tuple[Callable[[pa.DataType], bool], type[np.integer[Any]]], ...] = (
    (pa.types.is_string, np.int32),
    (pa.types.is_binary, np.int32),
    (pa.types.is_large_string, np.int64),
    (pa.types.is_large_binary, np.int64),
)


def shares_values(kind: pa.DataType) -> bool:
    """Tell whether the rows of a column of this type may be few over much memory that slicing it does not leave out."""
    return pa.types.is_dictionary(kind) or _is_view(kind)


def used_alone(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return a column that `shares_values` with what its rows use alone, where they are few; else the column itself.

    Raises
    ------
    pyarrow.ArrowException, ValueError
        If indices, views or offsets of what is used are wrong.
    """
    chunks = [_used_alone(chunk) for chunk in column.chunks]
    return column if all(map(is_, chunks, column.chunks)) else chunks_of(chunks, column.type)


def _used_alone(chunk: Any) -> pa.Array[Any]:  # noqa: ANN401 - an array whose type decides what it has
    if _is_view(chunk.type):
        if not _brings_much(chunk):
            return chunk  # type: ignore[no-any-return]
        chunk.validate(full=True)
        return _unshared(chunk)
    entries = chunk.dictionary
    if len(entries) <= max(FEW, 4 * len(chunk)) and not _brings_much(entries):
        return chunk  # type: ignore[no-any-return]
    chunk.validate()
    places = np.unique(check_indices(chunk))
    used: pa.Array[Any] = pa.Array.from_buffers(chunk.indices.type, places.size, [None, buffer_of(places)])
    taken = _taken(entries, used)
    if taken is None:
        return chunk  # type: ignore[no-any-return]
    # NULLs have no entry, so they stay NULL.
    indices = pc.index_in(chunk.indices, value_set=used).cast(chunk.type.index_type)
    made: pa.Array[Any] = pa.DictionaryArray.from_arrays(indices, taken, ordered=chunk.type.ordered)
    return made


def _brings_much(array: pa.Array[Any]) -> bool:
    """Return whether an array has much memory in addition to that of its values."""
    own = 32 * len(array) if _is_view(array.type) else 2 * array.nbytes
    return array.get_total_buffer_size() > LITTLE + own


def _taken(entries: pa.Array[Any], used: pa.Array[Any]) -> pa.Array[Any] | None:
    """Return some entries of a dictionary, checked; None of types whose entries are located in more than one step."""
    kind = entries.type
    if (width := next((width for is_one, width in OFFSETS if is_one(kind)), None)) is not None:
        _check_used_offsets(entries, values_in(pa.chunked_array([used]), used.type.to_pandas_dtype()), width)
        return entries.take(used)
    if _is_view(kind):
        # Arrow takes no views: they are taken as 16 bytes each, which point into the same memory.
        valid, views, *data = entries.buffers()
        taken = pa.Array.from_buffers(pa.binary(16), len(entries), [valid, views], offset=entries.offset).take(used)
        points: pa.Array[Any] = pa.Array.from_buffers(kind, len(taken), [*taken.buffers(), *data], offset=taken.offset)
        points.validate(full=True)
        return _unshared(points)
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        return entries.take(used)
    return None


def _check_used_offsets(entries: pa.Array[Any], used: NDArray[Any], width: type[np.integer[Any]]) -> None:
    _, offsets, data = entries.buffers()
    if offsets is None or not used.size:
        return
    # By their unsigned indices, beyond which there are none: `validate` and `check_indices` have seen to that.
    places = used.astype(np.int64) + entries.offset
    stops = np.frombuffer(memoryview(offsets), np.dtype(width))
    first, last = stops[places], stops[places + 1]
    if first.min() < 0 or (last < first).any() or last.max() > (0 if data is None else data.size):
        msg = "offsets of its dictionary fall or lie outside of its memory"
        raise ValueError(msg)


def check_indices(array: pa.DictionaryArray[Any, Any]) -> NDArray[Any]:
    """Return the indices of a dictionary's rows, without NULLs, which are those of entries that there are.

    Raises
    ------
    ValueError
        With an index of which there is no entry.
    """
    indices = array.indices.drop_null() if array.indices.null_count else array.indices
    values = values_in(pa.chunked_array([indices]), indices.type.to_pandas_dtype())
    if values.size and (values.min() < 0 or int(values.max()) >= len(array.dictionary)):
        msg = f"index {int(values.min() if values.min() < 0 else values.max())} of {len(array.dictionary)} entries"
        raise ValueError(msg)
    return values


def _unshared(views: pa.Array[Any]) -> pa.Array[Any]:
    """Return checked views over memory of their own."""
    plain: pa.DataType = pa.large_string() if pa.types.is_string_view(views.type) else pa.large_binary()
    return views.cast(plain).cast(views.type)


def _is_view(kind: pa.DataType) -> bool:
    return pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)


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
    """Check what locates values: lengths, offsets, indices, and that memory has room for them. Return the table.

    Its few rows have left behind what they do not use of large dictionaries. Whether texts are UTF-8 is not checked in
    large batches.

    Parameters
    ----------
    places : tuple of int
        Those of `places_to_check`: columns of fixed width have lengths alone.
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
    few = bool(places) and table.num_rows <= FEW
    try:
        # All at once: to get at a column takes as long as to check it.
        table.validate(full=few)
    except (pa.ArrowException, ValueError):
        # What else is wrong, such as a decimal of too many digits, is of no matter here.
        for place in range(table.num_columns):
            with _refused(table, place, side):
                table.column(place).validate()
    else:
        if few:
            return table
    for place in places:
        column = table.column(place)
        with _refused(table, place, side):
            for chunk in column.chunks:
                _check(chunk)
    return table


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
