"""Row widths in Arrow bytes, and how many rows fit into one table.

Used wherever rows are divided: output tables, candidates that are filtered at once, and on Spark frames and blocks.
Rows are measured one by one, since one text of 9 KB may be among short ones; a row wider than the limit becomes a table
of its own. Offsets give the bytes between any two values, also in lists of lists, so n rows are measured in O(n)
whatever their contents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import from_buffer
from slidejoin.tuning import tuning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = [
    "SLICE",
    "TABLE",
    "TEXTS",
    "TableLimit",
    "Widths",
    "block_limit",
    "bytes_of",
    "fixed_width",
    "frame_limit",
    "in_one_chunk",
    "packed_limit",
    "row_bytes",
    "segment_column_bytes",
    "varies",
    "widths_of",
]

TEXTS = {pa.string().id: 4, pa.binary().id: 4, pa.large_string().id: 8, pa.large_binary().id: 8}
LISTS = {pa.list_(pa.null()).id: 4, pa.map_(pa.int8(), pa.null()).id: 4, pa.large_list(pa.null()).id: 8}
VIEWS = {pa.string_view().id: 16, pa.binary_view().id: 16}
LIST_VIEWS = {pa.list_view(pa.null()).id: 8, pa.large_list_view(pa.null()).id: 16}
PLACES = TEXTS | LISTS | VIEWS | LIST_VIEWS
"""Bytes of the offsets or views of a value, by the types' numbers."""

FIRST = np.zeros(1, np.int64)

INLINE = 12
"""Bytes of a text that are stored inline in a view."""


class Widths(NamedTuple):
    """Bytes of some rows.

    Attributes
    ----------
    rows : int
        How many.
    fixed : int
        Bytes that each of them takes.
    varying : (rows,) int64 or None
        Bytes that each takes besides; None if all take the same.
    """

    rows: int
    fixed: int
    varying: NDArray[np.int64] | None = None

    def joined(self, other: Widths) -> Widths:
        """Return the widths of as many rows with the columns of both."""
        known = [one.varying for one in (self, other) if one.varying is not None]
        return Widths(self.rows, self.fixed + other.fixed, sum(known[1:], known[0]) if known else None)

    def at(self, rows: NDArray[np.int64]) -> Widths:
        """Return the widths of these rows, (n,) int64, in this order."""
        return Widths(rows.size, self.fixed, None if self.varying is None else self.varying[rows])

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.rows * self.fixed + (0 if self.varying is None else int(self.varying.sum()))


class TableLimit(NamedTuple):
    """The size limit of one table.

    Attributes
    ----------
    rows, nbytes : int
        At most; a row that is wider is a table of its own.
    """

    rows: int
    nbytes: int

    def most_rows(self, fixed: int) -> int:
        """Return how many rows one table has at most, if each takes `fixed` bytes or more; at least 1."""
        return max(min(self.rows, self.nbytes // fixed), 1) if fixed else self.rows

    def stops(self, widths: Widths) -> list[int]:
        """Cut rows into tables, and return where each ends; nothing without rows.

        Examples
        --------
        >>> TableLimit(100, 10).stops(Widths(5, 1, np.array([1, 1, 90, 3, 4])))
        [2, 3, 5]
        >>> TableLimit(2, 10).stops(Widths(5, 1))
        [2, 4, 5]
        """
        rows = widths.rows
        if widths.varying is None:
            step = self.most_rows(widths.fixed)
            return [*range(step, rows, step), rows] if rows else []
        ends = np.cumsum(widths.varying + widths.fixed)
        stops: list[int] = []
        stop = done = 0
        while stop < rows:
            fitting = int(np.searchsorted(ends, done + self.nbytes, side="right"))
            stop = min(max(fitting, stop + 1), stop + self.rows)
            stops.append(stop)
            done = int(ends[stop - 1])
        return stops

    def cut(self, table: pa.Table) -> Iterator[pa.Table]:
        """Iterate over the rows of a table, in slices of it; an empty one is one slice."""
        if table.num_rows <= self.rows and bytes_of(table) <= self.nbytes:
            yield table
            return
        start = 0
        for stop in self.stops(widths_of(table)):
            yield table.slice(start, stop - start)
            start = stop


TABLE = TableLimit(rows=1 << 20, nbytes=64 << 20)
"""Output tables, and candidates that are filtered at once: up to 64 bytes a row their number is the limit."""


def frame_limit() -> TableLimit:
    """Return what is passed between Python and Java at once."""
    return TableLimit(tuning().frame_rows, tuning().frame_bytes)


def block_limit() -> TableLimit:
    """Return how large one block is at most."""
    return TableLimit(1 << 62, tuning().frame_bytes)


def packed_limit() -> TableLimit:
    """Return how much of its input a task of Spark packs at once."""
    return TableLimit(1 << 62, tuning().packed_bytes)


def segment_column_bytes() -> int:
    """Return how many bytes one column of a segment of a state has at most."""
    return tuning().segment_column_bytes


SLICE = TableLimit(rows=1 << 62, nbytes=1 << 30)
"""Rows that are held or compared as one Arrow array a column: one of strings or lists ends at 2 GiB."""


def chunked(table: pa.Table) -> bool:
    """Tell whether some column has several chunks; looked at batch by batch, which takes a tenth of the time."""
    return len(table.to_batches()) > 1


def in_one_chunk(table: pa.Table) -> pa.Table:
    """Return the table with one chunk a column, unless it is so large that Arrow may have no room for that."""
    return table if chunked(table) and table.nbytes > SLICE.nbytes else table.combine_chunks()


def widths_of(table: pa.Table, *, entries: bool = False) -> Widths:
    """Measure the rows of a table. O(rows).

    An entry of a dictionary counts for each row that has it if `entries` is set, as when it is decoded; else not at
    all, because tables share them.
    """
    varying = None
    for column in table.columns:
        if varies(column.type, entries=entries):
            parts = [row_bytes(chunk, np.arange(len(chunk)), entries=entries) for chunk in column.chunks]
            lengths = np.concatenate([np.empty(0, np.int64), *parts])
            varying = lengths if varying is None else varying + lengths
    return Widths(table.num_rows, sum(fixed_width(field.type) for field in table.schema), varying)


def bytes_of(table: pa.Table) -> int:
    """Return the bytes of all rows of a table, those of `widths_of` together. O(columns)."""
    nbytes = 0
    for column in table.columns:
        nbytes += len(column) * fixed_width(column.type)
        if varies(column.type):
            nbytes += sum(
                int(_between(chunk, FIRST, np.array([len(chunk)]), entries=False)[0]) for chunk in column.chunks
            )
    return nbytes


def fixed_width(kind: pa.DataType) -> int:
    """Return the fixed bytes of each value of a type: of a text, those of its offset.

    Examples
    --------
    >>> fixed_width(pa.int32()), fixed_width(pa.bool_()), fixed_width(pa.string()), fixed_width(pa.list_(pa.int64(), 3))
    (4, 1, 4, 24)
    """
    if isinstance(kind, pa.BaseExtensionType):
        return fixed_width(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _member_width(kind.value_type)
    if _in_fields(kind):
        return sum(fixed_width(kind.field(number).type) for number in range(kind.num_fields))
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:
        return PLACES.get(kind.id, 0)


def _member_width(kind: pa.DataType) -> int:
    # At least 1, though NULLs take nothing: the members of lists are numbered, and their numbers end at 2**31 too.
    return max(fixed_width(kind), 1)


def _in_fields(kind: pa.DataType) -> bool:
    """Tell whether each value has a place in all of several arrays."""
    return bool(pa.types.is_struct(kind) or (pa.types.is_union(kind) and kind.mode == "sparse"))


def varies(kind: pa.DataType, *, entries: bool = False) -> bool:
    """Tell whether values of a type take different numbers of bytes; for `entries` see `widths_of`."""
    if isinstance(kind, pa.BaseExtensionType):
        return varies(kind.storage_type, entries=entries)
    if pa.types.is_dictionary(kind):
        return entries
    if pa.types.is_fixed_size_list(kind):
        return varies(kind.value_type, entries=entries)
    if _in_fields(kind):
        return any(varies(kind.field(number).type, entries=entries) for number in range(kind.num_fields))
    try:
        return int(kind.bit_width) < 0
    except ValueError:
        return not pa.types.is_null(kind)


def row_bytes(array: pa.Array[Any], rows: NDArray[np.int64], *, entries: bool = False) -> NDArray[np.int64]:
    """Return the bytes of values of an array beyond the `fixed_width` of their type, (n,) int64; see `widths_of`."""
    return _between(array, rows, rows + 1, entries=entries)


def _between(
    array: pa.Array[Any], starts: NDArray[np.int64], ends: NDArray[np.int64], *, entries: bool
) -> NDArray[np.int64]:
    """Return the bytes of the values starts…ends-1 of an array beyond their fixed widths, all (n,) int64."""
    kind = array.type
    if not (len(array) and varies(kind, entries=entries)):
        return np.zeros(starts.size, np.int64)
    if isinstance(array, pa.ExtensionArray):
        return _between(array.storage, starts, ends, entries=entries)
    if pa.types.is_fixed_size_list(kind):
        first, size = array.offset, int(kind.list_size)
        return _between(array.values, (first + starts) * size, (first + ends) * size, entries=entries)  # type: ignore[attr-defined]  # of lists
    if kind.id in TEXTS or kind.id in LISTS:
        offsets = _words(array, 1, f"i{PLACES[kind.id]}", len(array) + 1)
        begin, end = offsets[starts].astype(np.int64), offsets[ends].astype(np.int64)
        return end - begin if kind.id in TEXTS else _members(array.values, begin, end, entries=entries)  # type: ignore[attr-defined]  # of lists
    lengths = np.zeros(starts.size, np.int64)
    if _in_fields(kind):
        for number in range(kind.num_fields):
            lengths += _between(array.field(number), starts, ends, entries=entries)  # type: ignore[attr-defined]  # of fields
    elif bool((ends - starts == 1).all()):
        lengths += _each(array, starts, entries=entries)
    else:
        each = _each(array, np.arange(len(array)), entries=entries)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(each)])
        lengths += before[ends] - before[starts]
    return lengths


def _members(
    values: pa.Array[Any], starts: NDArray[np.int64], ends: NDArray[np.int64], *, entries: bool
) -> NDArray[np.int64]:
    """Return the bytes of the members starts…ends-1 of lists."""
    return (ends - starts) * _member_width(values.type) + _between(values, starts, ends, entries=entries)


def _each(array: pa.Array[Any], rows: NDArray[np.int64], *, entries: bool) -> NDArray[np.int64]:
    """Return the bytes of values of a type that is not contiguous, (n,) int64."""
    kind = array.type
    if kind.id in VIEWS:
        lengths = _words(array, 1, "i4", len(array), 4)[rows, 0].astype(np.int64)
        return np.where(lengths > INLINE, lengths, 0)
    if kind.id in LIST_VIEWS:
        word = f"i{LIST_VIEWS[kind.id] // 2}"
        starts, sizes = (_words(array, buffer, word, len(array))[rows].astype(np.int64) for buffer in (1, 2))
        return _members(array.values, starts, starts + sizes, entries=entries)  # type: ignore[attr-defined]  # of lists
    if pa.types.is_dictionary(kind):
        indices, values = array.indices, array.dictionary  # type: ignore[attr-defined]  # of dictionaries, by its type
        if len(values) == 0:
            return np.zeros(rows.size, np.int64)
        places = _words(indices, 1, kind.index_type.to_pandas_dtype(), len(array))[rows]
        # What lies under a NULL may be any number.
        places = np.minimum(places.astype(np.uint64), len(values) - 1).astype(np.int64)
        return fixed_width(kind.value_type) + row_bytes(values, places, entries=entries)
    # Runs and dense unions: an even share.
    return np.full(rows.size, -(-int(array.nbytes) // len(array)), np.int64)


def _words(array: pa.Array[Any], buffer: int, dtype: Any, count: int, each: int = 1) -> NDArray[Any]:  # noqa: ANN401
    """Return (count,) values of one of an array's buffers, from its first row on; (count, each) of several words."""
    size = np.dtype(dtype).itemsize * each
    words = from_buffer(array.buffers()[buffer], dtype, count * each, array.offset * size)
    return words if each == 1 else words.reshape(count, each)
