"""Tables of a stored state: Arrow streams that somebody else may have written.

A damaged table can crash the process later, when a kernel follows an offset: every value is looked at as it is read. A
table is as large as its bytes say: compressed buffers, which could unpack to any size, are never written and are
refused, and so are more rows than bytes can hold where columns take none, such as NULLs.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import StateError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_values", "int64s", "table_from_bytes"]

ROWS_WITHOUT_BYTES = 1 << 24
"""So many rows a table may have whatever its bytes are; each further one takes at least a bit."""

HEADER_TYPE, HEADER, DATA, COMPRESSION = 1, 2, 1, 3
"""Numbers of fields, as Arrow's Message.fbs declares them."""

DICTIONARY_BATCH, RECORD_BATCH = 2, 3


def table_from_bytes(data: bytes, what: str = "a table") -> pa.Table:
    """Read an Arrow stream, and look at every value.

    Raises
    ------
    StateError
        If it cannot be read, or holds what no table may hold; `what` names it.
    """
    try:
        for message in pa.ipc.MessageReader.open_stream(data):
            if _is_compressed(memoryview(message.metadata)):
                msg = f"{what} has compressed buffers, which no version of slidejoin writes"
                raise StateError(msg)
        with pa.ipc.open_stream(data) as reader:
            table = reader.read_all()
        check_values(table, len(data), what)
    except (pa.ArrowException, OSError, struct.error, ValueError, IndexError) as error:
        if isinstance(error, StateError):
            raise
        msg = f"{what} cannot be read: {error}"
        raise StateError(msg) from error
    return table


MOST_SCALE = 1000
"""Far more digits behind the point than any decimal has; Arrow dies of a cast to a scale of thousands of millions."""


def check_values(table: pa.Table, nbytes: int, what: str) -> None:
    """Check every offset, index and value of a table that was read from so many bytes.

    Raises
    ------
    StateError
        If a value is none of its type, or there are more rows than the bytes can hold; `what` names the table.
    """
    if table.num_rows > max(ROWS_WITHOUT_BYTES, 8 * nbytes):
        msg = f"{what} says that its {nbytes:,} bytes are {table.num_rows:,} rows"
        raise StateError(msg)
    try:
        table.validate(full=True)
        for column in table.schema:
            _check_scales(column.type, column.name)
    except pa.ArrowException as error:
        msg = f"{what} has values that are none: {error}"
        raise StateError(msg) from error


def _is_compressed(message: memoryview) -> bool:
    """Tell whether a message of an Arrow stream has compressed buffers, by its metadata alone: a flatbuffer."""
    root = struct.unpack_from("<I", message, 0)[0]
    kind, header = _place(message, root, HEADER_TYPE), _place(message, root, HEADER)
    if kind is None or header is None or message[kind] not in (DICTIONARY_BATCH, RECORD_BATCH):
        return False
    batch = _behind(message, header)
    if message[kind] == DICTIONARY_BATCH:
        data = _place(message, batch, DATA)
        if data is None:
            return False
        batch = _behind(message, data)
    return _place(message, batch, COMPRESSION) is not None


def _place(data: memoryview, table: int, field: int) -> int | None:
    """Return where a field of a flatbuffer's table is; None if the table lacks it."""
    entries = table - struct.unpack_from("<i", data, table)[0]
    size, entry = struct.unpack_from("<H", data, entries)[0], 4 + 2 * field
    offset = struct.unpack_from("<H", data, entries + entry)[0] if entry + 2 <= size else 0
    return table + offset if offset else None


def _behind(data: memoryview, place: int) -> int:
    """Follow an offset of a flatbuffer."""
    return place + int(struct.unpack_from("<I", data, place)[0])


def int64s(column: pa.ChunkedArray[Any], least: int, most: int, what: str) -> NDArray[np.int64]:
    """Return a column of whole numbers, none of them NULL or out of bounds, as (n,) int64 of its own.

    Raises
    ------
    StateError
        If it is anything else; `what` names it.
    """
    if column.type != pa.int64() or column.null_count:
        msg = f"{what} should be whole numbers, got {column.null_count} NULLs among {len(column)} of {column.type}"
        raise StateError(msg)
    values: NDArray[np.int64] = np.array(column, np.int64)
    if values.size and (int(values.min()) < least or int(values.max()) > most):
        msg = f"{what} should be from {least} to {most}, got {int(values.min())} to {int(values.max())}"
        raise StateError(msg)
    return values


def _check_scales(kind: pa.DataType, what: str) -> None:
    """Refuse decimals, also within other types, with a scale that no row can have had."""
    if pa.types.is_decimal(kind) and abs(kind.scale) > MOST_SCALE:
        msg = f"column {what!r} has the type {kind}"
        raise pa.ArrowInvalid(msg)
    if pa.types.is_dictionary(kind):
        _check_scales(kind.value_type, what)
    for place in range(kind.num_fields):
        _check_scales(kind.field(place).type, what)
