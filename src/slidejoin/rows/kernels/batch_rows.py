"""Rows of a batch that the Arrow C data interface has handed out, written into records.

A value of fixed width goes as it is, a bit as a byte, a text as two words, see `records`. Marks say what is not NULL:
a bit for each column, some bytes a row, apart from the records, since most rows have no NULL::

    batch         k      s        b        record (k, s, b)      marks (b, s, k)
                  5    "ab"     true       5 | 2 "ab" | 1        1 1 1
                  6    NULL     false      6 | 0      | 0        1 0 1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numba import types

from slidejoin.jit.compiling import OUT_I64_2D, U64, group, inlined, kernel
from slidejoin.jit.vectors.flowing import LINE, fence, flow_line
from slidejoin.jit.vectors.memory import i64_at, load_8, load_32, load_64, put_8
from slidejoin.rows.kernels.copying import copy_8, copy_16, copy_32, copy_64, copy_128, copy_bytes, store_64
from slidejoin.rows.kernels.exported import BUFFERS, CHILD_COUNT, CHILDREN, LENGTH, NULL_COUNT, OFFSET, STRUCTURE
from slidejoin.rows.kernels.records import LONG, SHORT, short_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

Place: TypeAlias = Any
"""An array, or an integer, plain or of 64 bits."""

__all__ = [
    "BITS",
    "HEAP",
    "KIND",
    "LACKS",
    "LONG_BYTES",
    "NULLS",
    "PLACE",
    "STORED",
    "TEXT_32",
    "TEXT_64",
    "Place",
    "RecordRoom",
    "stage_of",
    "store_rows",
]

PLACE, KIND, AT, NULLS, LACKS, STORED = range(6)
"""Of each stored column: its place in the batch, its kind, its offset in a record; whether it has marks, as soon as it
has had a NULL; and whether it lacks them, which the kernel writes."""

BITS, TEXT_32, TEXT_64 = -1, -4, -8
"""Kinds: of a bit, and of texts by the bytes of their offsets; any other kind is the bytes of a value."""

NEXT, END, LONG_BYTES, HEAP = range(4)
"""Memory for long texts: the address of the next free byte, of the end, and how many bytes rows have of them."""

LEAST, NEAREST = 64, 1 << 13
"""Rows whose records are written together, column by column: so many at least, whole lines of the cache; or a few times
as many, as long as they have so few bytes that they stay in the nearest cache."""


class RecordRoom(NamedTuple):
    """Where rows are written.

    Attributes
    ----------
    target, stride : int
        The address of the first row's record, and bytes from one to the next.
    marks : int
        The address of its marks, 0 without any.
    heap : int
        The address of the memory for long texts, (HEAP,) int64.
    stage : int
        The address of memory of `stage_of`, if records are to be written past the caches; 0 otherwise.
    """

    target: int
    stride: int
    marks: int
    heap: int
    stage: int


RECORD_ROOM = group(RecordRoom, *[types.int64] * 5)


@inlined
def bit_at(bits: Place, place: Place) -> Place:
    """Return a bit of Arrow's, 0 or 1."""
    return np.int64(U64(load_8(bits + (place >> 3))) >> U64(place & 7) & U64(1))


@inlined
def any_clear(bits: Place, begin: Place, end: Place) -> Place:
    """Tell whether one of the bits from `begin` on, before `end`, is 0."""
    place = begin
    while place < end:
        if place & 7 == 0 and place + 8 <= end:
            if load_8(bits + (place >> 3)) != 255:  # noqa: PLR2004 - all of a byte
                return True
            place += 8
        else:
            if bit_at(bits, place) == 0:
                return True
            place += 1
    return False


@inlined
def text_offset(offsets: Place, kind: Place, row: Place) -> Place:
    """Return where a text begins, by the kind of its column."""
    return np.int64(load_32(offsets + 4 * row)) if kind == TEXT_32 else np.int64(load_64(offsets + 8 * row))


@inlined
def ready(exported: Place, columns: Place, first: Place, rows: Place, heap: Place) -> Place:
    """Tell whether rows can be written, and write what they lack, see `store_rows`."""
    structure = i64_at(exported, STRUCTURE)
    children = i64_at(structure[CHILDREN], structure[CHILD_COUNT])
    fits, long = True, np.int64(0)
    for c in range(columns.shape[0]):
        column = i64_at(children[U64(columns[c, PLACE])], STRUCTURE)
        buffers, begin, kind = i64_at(column[BUFFERS], 3), column[OFFSET] + first, columns[c, KIND]
        bitmap = buffers[0]
        columns[c, LACKS] = 0
        if (
            columns[c, NULLS] == 0
            and bitmap != 0
            and column[NULL_COUNT] != 0
            and any_clear(bitmap, begin, begin + rows)
        ):
            columns[c, LACKS], fits = 1, False
        if kind < BITS:
            before = text_offset(buffers[1], kind, begin)
            for row in range(begin + 1, begin + rows + 1):
                after = text_offset(buffers[1], kind, row)
                length = after - before
                long += length if length > SHORT else 0
                before = after
    heap[U64(LONG_BYTES)] = long
    return fits and long <= heap[U64(END)] - heap[U64(NEXT)]


@inlined
def put_fixed(source: Place, target: Place, stride: Place, rows: Place, width: Place) -> None:  # noqa: C901
    """Copy so many values that lie side by side into records."""
    if width == 8:  # noqa: PLR2004 - bytes, as below
        for n in range(rows):
            copy_64(target + n * stride, source + n * 8)
    elif width == 4:  # noqa: PLR2004
        for n in range(rows):
            copy_32(target + n * stride, source + n * 4)
    elif width == 16:  # noqa: PLR2004
        for n in range(rows):
            copy_128(target + n * stride, source + n * 16)
    elif width == 2:  # noqa: PLR2004
        for n in range(rows):
            copy_16(target + n * stride, source + n * 2)
    elif width == 1:
        for n in range(rows):
            copy_8(target + n * stride, source + n)
    else:
        for n in range(rows):
            copy_bytes(target + n * stride, source + n * width, width)


@inlined
def put_text(target: Place, data: Place, begin: Place, length: Place, size: Place, heap: Place) -> None:
    """Write one text; a long one into the heap, which has room."""
    if length > SHORT:
        to = heap[U64(NEXT)]
        copy_bytes(to, data + begin, length)
        store_64(target, U64(LONG) | U64(length) << U64(8))
        store_64(target + 8, U64(to))
        heap[U64(NEXT)] = to + length
    else:
        low, high = short_words(data, begin, length, size)
        store_64(target, low)
        store_64(target + 8, high)


@inlined
def put_marks(bitmap: Place, begin: Place, rows: Place, marks: Place, width: Place, number: Place) -> None:
    """Clear the marks of a column's NULLs, in `width` bytes of each row."""
    for n in range(rows):
        if bit_at(bitmap, begin + n) == 0:
            at = marks + n * width + (number >> 3)
            put_8(at, np.int64(load_8(at)) & (255 ^ (1 << (number & 7))))


@inlined
def block_of(stride: Place) -> Place:
    """Return how many rows are written together."""
    return np.int64(LEAST * max(1, min(8, NEAREST // (LEAST * max(stride, 1)))))


@inlined
def write_rows(  # noqa: C901
    exported: Place, columns: Place, first: Place, rows: Place, target: Place, stride: Place, marks: Place, heap: Place
) -> None:
    """Write rows that are `ready`, see `store_rows`."""
    structure = i64_at(exported, STRUCTURE)
    children = i64_at(structure[CHILDREN], structure[CHILD_COUNT])
    width, block = (columns.shape[0] + 7) >> 3, block_of(stride)
    for start in range(0, rows, block):
        count = min(block, rows - start)
        if marks != 0:
            for byte in range(start * width, (start + count) * width):
                put_8(marks + byte, np.int64(255))
        for c in range(columns.shape[0]):
            column = i64_at(children[U64(columns[c, PLACE])], STRUCTURE)
            buffers, begin, kind = i64_at(column[BUFFERS], 3), column[OFFSET] + first + start, columns[c, KIND]
            bitmap, values = buffers[0], buffers[1]
            to = target + start * stride + columns[c, AT]
            if kind == BITS:
                for n in range(count):
                    put_8(to + n * stride, bit_at(values, begin + n))
            elif kind > 0:
                put_fixed(values + begin * kind, to, stride, count, kind)
            else:
                size = text_offset(values, kind, column[OFFSET] + column[LENGTH])
                before = text_offset(values, kind, begin)
                for n in range(count):
                    after = text_offset(values, kind, begin + n + 1)
                    length = after - before
                    if bitmap != 0 and bit_at(bitmap, begin + n) == 0:
                        length = np.int64(0)  # whatever lies under a NULL
                    put_text(to + n * stride, buffers[2], before, length, size, heap)
                    before = after
            if columns[c, NULLS] != 0 and bitmap != 0:
                put_marks(bitmap, begin, count, marks + start * width, width, c)


@kernel(types.int64, OUT_I64_2D, types.int64, types.int64, RECORD_ROOM, returns=types.boolean)
def store_rows(exported: int, columns: NDArray[np.int64], first: int, rows: int, room: RecordRoom) -> bool:
    """Write so many rows of a batch, from the `first` on, into records; return whether they fit.

    If they do not, nothing is written but what they lack: marks of columns, and bytes for long texts.

    Parameters
    ----------
    exported : int
        Address of the batch, see `exported`.
    columns : (c, STORED) int64
        What is stored.
    first, rows : int
    room : RecordRoom

    O(rows * c + bytes).
    """
    target, stride, marks, stage = room.target, room.stride, room.marks, room.stage
    heap = i64_at(room.heap, HEAP)
    if not ready(exported, columns, first, rows, heap):
        return False
    done, width = np.int64(0), (columns.shape[0] + 7) >> 3
    if stage != 0:
        stage = (stage + (LINE - 1)) & -LINE
        while done < rows and (target + done * stride) & (LINE - 1) and done < LINE:
            done += 1
        if (target + done * stride) & (LINE - 1):
            done = np.int64(rows)
        write_rows(exported, columns, first, done, target, stride, marks, heap)
        block = block_of(stride)
        while rows - done >= block:
            own = marks + done * width if marks != 0 else np.int64(0)
            write_rows(exported, columns, first + done, block, stage, stride, own, heap)
            to = target + done * stride
            for line in range(0, block * stride, LINE):
                flow_line(stage + line, to + line)
            done += block
        fence()
    own = marks + done * width if marks != 0 else np.int64(0)
    write_rows(exported, columns, first + done, rows - done, target + done * stride, stride, own, heap)
    return True


def stage_of(stride: int) -> NDArray[np.int64]:
    """Return memory in which `store_rows` puts rows together, for records that lie `stride` bytes apart."""
    return np.empty((max(NEAREST, LEAST * stride) + LINE) // 8 + 1, np.int64)
