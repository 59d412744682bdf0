"""A chunk: consecutive rows of one side that are freed together, stored as records in row format.

Gathering a row then reads one or two cache lines; separate columns would be one line each, and strings two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.rows.kernels.batch_rows import BITS, NULLS
from slidejoin.rows.kernels.gathering import GATHER
from slidejoin.rows.piece import Piece
from slidejoin.rows.text import Heap, is_text
from slidejoin.rows.widths import SLICE, TEXTS, in_one_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["Chunk", "Fixed", "Records", "records_of"]

LINE = 64
"""Bytes of a cache line."""

PADDED = 8
"""Records are made as long as a cache line where that takes at most this many bytes."""

BOOLEAN = pa.bool_().id

WIDEST, ALIGNED = 64, (1, 2, 4, 8, 16)
"""Bytes of the widest values that records hold, and of those that lie at a multiple of them."""

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
    text : bool
        Whether it is of strings or binary, whose bytes are stored elsewhere if they are many.
    """

    name: str
    place: int
    kind: pa.DataType
    dtype: np.dtype[Any]
    text: bool = False

    @property
    def code(self) -> int:
        """How its values are copied, see `rows.kernels.batch_rows`."""
        return -TEXTS[self.kind.id] if self.text else BITS if self.kind.id == BOOLEAN else self.dtype.itemsize


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
        kind, width = field.type, _width(field.type)
        if is_text(kind):
            columns.append(Fixed(field.name, place, kind, WORDS, text=True))
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            columns.append(Fixed(field.name, place, kind, np.dtype(kind.to_pandas_dtype())))
        elif 0 < width <= WIDEST:
            columns.append(Fixed(field.name, place, kind, np.dtype(f"u{width}" if width in GATHER else f"V{width}")))
    widths = [column.dtype.itemsize for column in columns]
    offsets, end = [0] * len(columns), 0
    # The widest first, and odd ones last: then each of the others lies at a multiple of its width.
    for number in sorted(range(len(columns)), key=lambda number: (widths[number] not in ALIGNED, -widths[number])):
        offsets[number] = end
        end += widths[number]
    unit = min(8, max((width for width in widths if width in ALIGNED), default=1))
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
    heap : Heap
        The bytes of long texts.
    marks : (capacity, bytes) uint8 or None
        A bit for each of them, 1 where it is not NULL; None while all are.
    at : int
        The address of the first record.
    stored : (columns, STORED) int64
        Where each of them is, and whether it has NULLs, see `rows.kernels.batch_rows`; another array whenever that
        changes, or the heap.
    pieces : list of Piece
        The other columns.
    """

    __slots__ = ("at", "base", "end", "heap", "limit", "marks", "origin", "pieces", "rows", "stored", "time_max")

    def __init__(
        self, base: int, origin: int, limit: int, rows: NDArray[np.void], heap: Heap, stored: NDArray[np.int64]
    ) -> None:
        self.base = self.end = base
        self.origin = origin
        self.limit = limit
        self.time_max: int | None = None
        self.rows, self.heap = rows, heap
        self.at = int(rows.ctypes.data)
        self.marks: NDArray[np.uint8] | None = None
        self.stored = stored.copy()
        self.pieces: list[Piece] = []

    def mark(self, columns: Sequence[int]) -> None:
        """Keep marks of columns that had no NULL so far."""
        if self.marks is None:
            self.marks = np.full((self.limit - self.origin, len(self.stored) + 7 >> 3), 255, np.uint8)
        self.stored = self.stored.copy()
        self.stored[columns, NULLS] = 1

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
        self.heap, self.stored = self.heap.emptied(), self.stored.copy()


def _width(kind: pa.DataType) -> int:
    """Return the bytes that a value of fixed width takes in a record, a bit's is one; 0 for other types."""
    if pa.types.is_boolean(kind):
        return 1
    plain = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_interval(kind)
    return kind.bit_width // 8 if plain or pa.types.is_fixed_size_binary(kind) else 0
