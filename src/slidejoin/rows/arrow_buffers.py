"""Zero-copy conversion between Arrow and NumPy through buffers.

Arrow's own `to_numpy` and `pa.array` load pandas where it is installed, half a second for the first push of a process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["array_of", "buffer_of", "by_name", "chunks_of", "empty_of", "from_buffer", "values_in"]

# Functions with what the stubs do not let them take: Arrow's buffers, NumPy's arrays, and types not known beforehand.
from_buffer: Callable[..., NDArray[Any]] = np.frombuffer
buffer_of: Callable[[Any], pa.Buffer] = pa.py_buffer
chunks_of: Callable[..., pa.ChunkedArray[Any]] = pa.chunked_array


def values_in(column: pa.ChunkedArray[Any], dtype: str | type[Any] | np.dtype[Any]) -> NDArray[Any]:
    """Return the values of a column of fixed width, (n,) of `dtype`, which is as wide; those of NULLs mean nothing.

    A single chunk's memory is shared, of several one copy is made.

    Examples
    --------
    >>> values_in(pa.chunked_array([[1, 2], [3]]), np.int64).tolist()
    [1, 2, 3]
    """
    if column.num_chunks == 1:
        array: pa.Array[Any] = column.chunk(0)  # type: ignore[assignment]  # the stubs are of pyarrow 20
        if not array.offset and len(array):
            # What most columns are, in half the time: small pushes look at six of them.
            return from_buffer(array.buffers()[1], dtype, len(array))
        return _values(array, dtype)
    chunks = [_values(chunk, dtype) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, dtype)


def _values(array: pa.Array[Any], dtype: str | type[Any] | np.dtype[Any]) -> NDArray[Any]:
    count, buffer = len(array), array.buffers()[1]
    if count == 0 or buffer is None:
        return np.zeros(count, dtype)
    return from_buffer(buffer, dtype, array.offset + count)[array.offset :]


def array_of(values: NDArray[np.int64]) -> pa.Array[Any]:
    """Return (n,) int64 values, which lie side by side, as an Arrow array that shares their memory.

    Examples
    --------
    >>> array_of(np.array([4, 5])).to_pylist()
    [4, 5]
    """
    return pa.Array.from_buffers(pa.int64(), values.size, [None, buffer_of(values)], 0)


def empty_of(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; ``schema.empty_table()`` would load pandas."""
    # Kept by the schema's identity: a push of one side needs three.
    known = _empty.get(id(schema))
    if known is None or known[0] is not schema:
        if len(_empty) >= MOST_EMPTY:
            _empty.clear()
        known = schema, pa.Table.from_arrays([_no_values(field.type) for field in schema], schema=schema)
        _empty[id(schema)] = known
    return known[1]


_empty: dict[int, tuple[pa.Schema, pa.Table]] = {}

MOST_EMPTY = 1 << 10


def _no_values(kind: pa.DataType) -> pa.Array[Any] | pa.ChunkedArray[Any]:
    # Arrow makes wrong arrays of lists of run-end-encoded values: their members have marks of NULLs.
    if pa.types.is_nested(kind) and "run_end_encoded" in str(kind):
        return chunks_of([], kind)
    none: pa.Array[Any] = pa.nulls(0, kind)  # type: ignore[call-overload]  # the stubs know no type in general
    return none


def by_name(table: pa.Table) -> dict[str, pa.ChunkedArray[Any]]:
    """Return the columns of a table by their names.

    Examples
    --------
    >>> list(by_name(pa.table({"a": [1], "b": [2]})))
    ['a', 'b']
    """
    return dict(zip(table.column_names, table.columns, strict=True))
