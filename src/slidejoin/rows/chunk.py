"""A chunk: consecutive rows of one side that are freed together, stored as records in row format.

Gathering a row then reads one or two cache lines; separate columns would be one line each, and strings two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import buffer_of, from_buffer, values_in
from slidejoin.rows.kernels.gathering import GATHER
from slidejoin.rows.piece import Piece
from slidejoin.rows.text import Heap, is_text, text_arrays
from slidejoin.rows.widths import SLICE, in_one_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["Chunk", "Fixed", "Records", "arrow_of", "records_of", "validity_of"]

LINE = 64
"""Bytes of a cache line."""

PADDED = 8
"""Records are made as long as a cache line where that takes at most this many bytes."""

BOOLEAN = pa.bool_().id

WORDS = np.dtype((np.uint64, 2))
"""How a text is stored in its record, see `rows.kernels.records`."""


class Fixed(NamedTuple):
    """A column that records hold.

    Attributes
    ----------
    name, place : str and int
        Of the column in the schema.
    kind : pyarrow.DataType
        Its type.
    dtype : numpy.dtype
        The type that its values are stored as: booleans as bytes.
    direct : bool
        Whether the values lie in memory as NumPy has them.
    text : bool
        Whether it is of strings or binary, whose bytes are stored elsewhere if they are many.
    """

    name: str
    place: int
    kind: pa.DataType
    dtype: np.dtype[Any]
    direct: bool
    text: bool = False

    def source(self, column: pa.ChunkedArray[Any]) -> NDArray[Any]:
        """Return the values of a column; whatever lies under a NULL."""
        if self.direct and not column.null_count:
            return values_in(column, self.dtype)
        array = _one_array(column)
        buffer = array.buffers()[1]
        if len(array) == 0 or buffer is None:
            return np.zeros(len(array), self.dtype)
        if pa.types.is_boolean(self.kind):
            return _unpacked(buffer, array.offset, len(array))
        return from_buffer(buffer, self.dtype, len(array), array.offset * self.dtype.itemsize)


class Records(NamedTuple):
    """The columns of records, and their memory layout.

    Attributes
    ----------
    columns : tuple of Fixed
        In the order of the schema.
    dtype : numpy.dtype
        Of a record, with a field for each column, named by its number.
    offsets : tuple of int
        Bytes of the record that come before each column.
    """

    columns: tuple[Fixed, ...]
    dtype: np.dtype[np.void]
    offsets: tuple[int, ...]

    def memory(self, capacity: int) -> NDArray[np.void]:
        """Return room for so many records, which begins at a cache line."""
        stride = self.dtype.itemsize
        if stride == 0:
            return np.empty(capacity, self.dtype)
        room = np.empty(capacity * stride + LINE, np.uint8)
        skip = -room.ctypes.data % LINE
        return room[skip : skip + capacity * stride].view(self.dtype)


def records_of(schema: pa.Schema) -> Records:
    """Return the record layout for a schema; other columns are stored in pieces of Arrow."""
    columns = []
    for place, field in enumerate(schema):
        kind = field.type
        if pa.types.is_boolean(kind):
            columns.append(Fixed(field.name, place, kind, np.dtype(np.uint8), direct=False))
        elif is_text(kind):
            columns.append(Fixed(field.name, place, kind, WORDS, direct=False, text=True))
        elif pa.types.is_primitive(kind) and kind.bit_width // 8 in GATHER:
            direct = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            dtype = np.dtype(kind.to_pandas_dtype()) if direct else np.dtype(f"u{kind.bit_width // 8}")
            columns.append(Fixed(field.name, place, kind, dtype, direct))
    offsets, end = [0] * len(columns), 0
    # The widest first: then each lies at a multiple of its width.
    for number in sorted(range(len(columns)), key=lambda number: -columns[number].dtype.itemsize):
        offsets[number] = end
        end += columns[number].dtype.itemsize
    unit = min(8, max((column.dtype.itemsize for column in columns), default=1))
    stride = -(-end // unit) * unit
    padding = -stride % LINE
    dtype = np.dtype(
        {
            "names": [str(number) for number in range(len(columns))],
            "formats": [column.dtype for column in columns],
            "offsets": offsets,
            "itemsize": stride + (padding if stride > PADDED and padding <= PADDED else 0),
        }
    )
    return Records(tuple(columns), dtype, tuple(offsets))


class Chunk:
    """Rows ``base <= ordinal < end``; filled up to the ordinal `limit`, then the next one is opened.

    Attributes
    ----------
    origin : int
        The ordinal whose values would be first in memory, at most `base`.
    time_max : int or None
        Largest event time in ticks, None for count windows and without rows.
    rows : (capacity,) records
        The columns that records hold.
    values : list of (capacity,) arrays
        Each of these columns: a field of the records, of texts (capacity, 2) words.
    heap : Heap
        The bytes of long texts.
    valid : list of (capacity,) uint8 or None
        Where they are not NULL; None while all are not.
    whole : bool
        Whether none of these values is NULL.
    pieces : list of Piece
        The other columns.
    """

    __slots__ = ("base", "end", "heap", "limit", "origin", "pieces", "rows", "time_max", "valid", "values", "whole")

    def __init__(self, base: int, origin: int, limit: int, rows: NDArray[np.void], heap: Heap) -> None:
        self.base = self.end = base
        self.origin = origin
        self.limit = limit
        self.time_max: int | None = None
        self.rows, self.heap = rows, heap
        self.values: list[NDArray[Any]] = [rows[name] for name in rows.dtype.names or ()]
        self.valid: list[NDArray[np.uint8] | None] = [None] * len(self.values)
        self.whole = True
        self.pieces: list[Piece] = []

    def mark(self, column: int, start: int, valid: NDArray[np.uint8]) -> bool:
        """Record which of the newest rows are not NULL; return whether these are the chunk's first marks."""
        marks, place = self.valid[column], start - self.origin
        fresh = marks is None
        if marks is None:
            marks = self.valid[column] = np.ones(self.limit - self.origin, np.uint8)
            self.whole = False
        marks[place : place + valid.size] = valid
        return fresh

    def add(self, table: pa.Table) -> int:
        """Add the other columns of the newest rows; return by how many bytes they grew.

        Neighbours are concatenated while the older is less than twice the newer, and all once the chunk is full:
        O(log) copies of a row. Wide rows stay in several pieces, because each is one Arrow array a column.
        """
        pieces, before = self.pieces, sum(piece.nbytes for piece in self.pieces)
        for piece in Piece(self.end, in_one_chunk(table), None).parts():
            pieces.append(piece)
            while len(pieces) > 1:
                older, newer = pieces[-2], pieces[-1]
                if older.rows >= 2 * newer.rows and newer.end < self.limit:
                    break
                if older.nbytes + newer.nbytes > SLICE.nbytes:
                    break
                both = pa.concat_tables([older.table, newer.table]).combine_chunks()
                pieces[-2:] = [Piece(older.base, both, None)]
        return sum(piece.nbytes for piece in pieces) - before

    def clear(self) -> None:
        """Remove the rows; the next ones follow them."""
        self.base, self.time_max, self.pieces = self.end, None, []
        self.heap = self.heap.emptied()

    def table(self, schema: pa.Schema, fixed: Sequence[Fixed]) -> pa.Table:
        """Return a copy of the rows."""
        columns: dict[str, Any] = {}
        rows = slice(self.base - self.origin, self.end - self.origin)
        for column, values, valid in zip(fixed, self.values, self.valid, strict=True):
            columns[column.name] = arrow_of(column, values[rows].copy(), None if valid is None else valid[rows])
        if self.pieces:
            others = in_one_chunk(pa.concat_tables([piece.table for piece in self.pieces]))
            columns |= dict(zip(others.schema.names, others.columns, strict=True))
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def arrow_of(
    column: Fixed, values: NDArray[Any], valid: NDArray[np.uint8] | None, size: int | None = None
) -> pa.Array[Any] | pa.ChunkedArray[Any]:
    """Return values (n,) and marks (n,) uint8 of what is not NULL as an Arrow array that shares the values.

    Of texts, (n, 2) words with `size` bytes if that is known, the bytes are copied; there may be several arrays.
    """
    if column.text:
        return text_arrays(column.kind, values, size, valid)
    marks = None if valid is None or valid.all() else _packed(valid)
    data = _packed(values) if column.kind.id == BOOLEAN else buffer_of(values)
    return pa.Array.from_buffers(column.kind, values.size, [marks, data], -1 if marks is not None else 0)


def validity_of(column: pa.ChunkedArray[Any]) -> NDArray[np.uint8]:
    """Return 1 where a column is not NULL, 0 where it is, (n,) uint8."""
    marks = [_marks_of(chunk) for chunk in column.chunks]
    return marks[0] if len(marks) == 1 else np.concatenate([np.empty(0, np.uint8), *marks])


def _marks_of(array: pa.Array[Any]) -> NDArray[np.uint8]:
    bitmap = array.buffers()[0]
    return np.ones(len(array), np.uint8) if bitmap is None else _unpacked(bitmap, array.offset, len(array))


def _one_array(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)  # type: ignore[return-value]  # the stubs are of pyarrow 20


def _unpacked(buffer: pa.Buffer, offset: int, rows: int) -> NDArray[np.uint8]:
    first, skipped = offset // 8, offset % 8
    data = from_buffer(buffer, np.uint8, (skipped + rows + 7) // 8, first)
    return np.unpackbits(data, count=skipped + rows, bitorder="little")[skipped:]


def _packed(marks: NDArray[Any]) -> pa.Buffer:
    return buffer_of(np.packbits(marks, bitorder="little"))
