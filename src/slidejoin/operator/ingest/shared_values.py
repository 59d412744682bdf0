"""Columns of a few rows over much memory, which other batches share: only what the rows use is checked and copied.

These are entries of a dictionary, and the texts that views point into: 16 rows of a dictionary of 200,000 entries bring
all of these along. What is used is checked before it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.rows.arrow_buffers import buffer_of, chunks_of, values_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["OFFSETS", "check_indices", "shares_values", "used_alone"]

FEW = 1 << 10
"""Entries that a dictionary may have whatever its rows use."""

LITTLE = 1 << 16
"""Bytes that views may point into whatever their rows use."""

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
    return column if all(map(_same, chunks, column.chunks)) else chunks_of(chunks, column.type)


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


def _same(one: object, other: object) -> bool:
    return one is other
