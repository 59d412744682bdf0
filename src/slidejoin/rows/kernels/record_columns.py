"""Columns of records, written where the buffers of Arrow arrays are: values, offsets and bytes of texts, bitmaps.

Three rows of a column of texts are read behind two that are there already, into buffers with room for eight::

    bitmap     1 1 1 0 1 . . .          row 3 is NULL
    offsets    0 2 5 9 9 12 . . .       of row 2 the bytes 5…8
    bytes      "abcdefghijkl…"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, U64, group, inlined, kernel
from slidejoin.jit.vectors.memory import load_8, load_64, prefetch_at, put_8, put_32, put_64
from slidejoin.rows.kernels.batch_rows import BITS, TEXT_32, Place
from slidejoin.rows.kernels.copying import copy_8, copy_16, copy_32, copy_64, copy_128, copy_bytes, store_64
from slidejoin.rows.kernels.records import LONG, SHORT, text_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BIT",
    "DATA",
    "KIND",
    "OFFSET",
    "READ",
    "ROOM",
    "SPARE",
    "VALID",
    "VALUES",
    "RecordSource",
    "read_columns",
    "read_some",
]

OFFSET, KIND, VALUES, VALID, BIT, DATA, ROOM, READ = range(8)
"""Of each column that is read: its offset in a record; its kind, see `batch_rows`; the addresses of the values (of
texts, their offsets) and of the bitmap, 0 without one; its number among the columns of the records, which is the bit of
its marks; of texts, the address of their bytes and for how many there is room, besides `SPARE`."""

SPARE = 16
"""Bytes behind a text that may be overwritten."""

BLOCK = 64
"""Rows that are read together, column by column, while the next ones are fetched from memory."""

LINE = 6
"""A cache line is ``2**LINE`` bytes."""

AHEAD = 8
"""Prefetch distance, in texts, of the bytes of long ones."""


class RecordSource(NamedTuple):
    """Where rows are.

    Attributes
    ----------
    ring : (u,) int64
        Row ``o`` lies at ``ring[(o >> shift) & (u - 1)] + o * stride``; u is a power of two.
    marks : (u + 1,) int64
        As many addresses of marks, 0 where all is whole, and last how many bytes of marks a row has, see `batch_rows`.
    shift, stride : int
    missing : int
        The address of a record of zeros, for missing rows.
    """

    ring: NDArray[np.int64]
    marks: NDArray[np.int64]
    shift: int
    stride: int
    missing: int


RECORD_SOURCE = group(RecordSource, I64, I64, types.int64, types.int64, types.int64)


@inlined
def take_fixed(rows: Place, at: Place, count: Place, offset: Place, target: Place, width: Place) -> None:  # noqa: C901
    """Copy a column of the records at so many addresses."""
    if width == 8:  # noqa: PLR2004 - bytes, as below
        for n in range(count):
            copy_64(target + n * 8, rows[U64(at + n)] + offset)
    elif width == 4:  # noqa: PLR2004
        for n in range(count):
            copy_32(target + n * 4, rows[U64(at + n)] + offset)
    elif width == 16:  # noqa: PLR2004
        for n in range(count):
            copy_128(target + n * 16, rows[U64(at + n)] + offset)
    elif width == 2:  # noqa: PLR2004
        for n in range(count):
            copy_16(target + n * 2, rows[U64(at + n)] + offset)
    elif width == 1:
        for n in range(count):
            copy_8(target + n, rows[U64(at + n)] + offset)
    else:
        for n in range(count):
            copy_bytes(target + n * width, rows[U64(at + n)] + offset, width)


@inlined
def take_bits(rows: Place, at: Place, count: Place, offset: Place, target: Place) -> None:
    """Write the bytes of a column, 0 or 1, as bits; the first one is the lowest of a byte."""
    for begin in range(0, count, 8):
        byte = np.int64(0)
        for n in range(begin, min(begin + 8, count)):
            byte |= np.int64(load_8(rows[U64(at + n)] + offset)) << (n - begin)
        put_8(target + (begin >> 3), byte)


@inlined
def put_end(offsets: Place, kind: Place, row: Place, end: Place) -> None:
    """Write where a text ends."""
    if kind == TEXT_32:
        put_32(offsets + 4 * (row + 1), end)
    else:
        put_64(offsets + 8 * (row + 1), end)


@inlined
def take_block_texts(rows: Place, at: Place, count: Place, columns: Place, c: Place, row: Place, used: Place) -> Place:
    """Write the texts of a column and their ends, from that row of the array on; return the bytes used after them."""
    offset, kind = columns[c, OFFSET], columns[c, KIND]
    offsets, data = columns[c, VALUES], columns[c, DATA]
    for n in range(count):
        text, ahead = rows[U64(at + n)] + offset, rows[U64(at + min(n + AHEAD, count - 1))] + offset
        if load_8(ahead) == LONG:
            prefetch_at(np.int64(load_64(ahead + 8)))
        low, high = U64(load_64(text)), U64(load_64(text + 8))
        length = text_length(low)
        if length > SHORT:
            copy_bytes(data + used, np.int64(high), length)
        else:
            # Always all sixteen bytes: the next text overwrites the excess.
            store_64(data + used, low >> U64(8) | high << U64(56))
            store_64(data + used + 8, high >> U64(8))
        used += length
        put_end(offsets, kind, row + n, used)
    return used


@inlined
def take_marks(marks: Place, at: Place, count: Place, number: Place, target: Place) -> None:
    """Write the bitmap of a column of rows whose marks are at so many addresses; 0 for none, -1 for a missing row."""
    place, bit = number >> 3, number & 7
    for begin in range(0, count, 8):
        byte = np.int64(0)
        for n in range(begin, min(begin + 8, count)):
            own = marks[U64(at + n)]
            valid = np.int64(own == 0)
            if own > 0:
                valid = np.int64(load_8(own + place)) >> bit & 1
            byte |= valid << (n - begin)
        put_8(target + (begin >> 3), byte)


@inlined
def fitting(rows: Place, at: Place, count: Place, columns: Place, used: Place, left: Place, fixed: Place) -> Place:  # noqa: C901
    """Return how many of a block's rows fit: their texts into the room for these, all bytes into what is `left`."""
    fits = left >= count * fixed
    left -= count * fixed
    for c in range(columns.shape[0]):
        if columns[c, KIND] < BITS:
            size = np.int64(0)
            for n in range(count):
                size += text_length(U64(load_64(rows[U64(at + n)] + columns[c, OFFSET])))
            left -= size
            fits &= used[c] + size <= columns[c, ROOM]
    if fits and left >= 0:
        return count
    left += count * fixed
    for c in range(columns.shape[0]):
        if columns[c, KIND] < BITS:
            for n in range(count):
                left += text_length(U64(load_64(rows[U64(at + n)] + columns[c, OFFSET])))
    sizes = used.copy()
    for n in range(count):
        left -= fixed
        fits = True
        for c in range(columns.shape[0]):
            if columns[c, KIND] < BITS:
                length = text_length(U64(load_64(rows[U64(at + n)] + columns[c, OFFSET])))
                left -= length
                sizes[c] += length
                fits &= sizes[c] <= columns[c, ROOM]
        if left < 0 or not fits:
            return np.int64(n)
    return np.int64(count)


@inlined
def read_some(  # noqa: C901, PLR0912
    source: Place, ordinals: Place, columns: Place, row: Place, used: Place, budget: Place, fixed: Place
) -> Place:
    """Read columns of rows, see `read_columns`."""
    ring, marks, shift, stride, missing = source
    wanted, total, mask, width = columns.shape[0], ordinals.size, ring.size - 1, marks[U64(marks.size - 1)]
    first, last, marked = columns[0, OFFSET], columns[0, OFFSET], False
    for c in range(wanted):
        size = columns[c, KIND] if columns[c, KIND] > 0 else np.int64(1 if columns[c, KIND] == BITS else SPARE)
        first, last = min(first, columns[c, OFFSET]), max(last, columns[c, OFFSET] + size - 1)
        marked |= columns[c, VALID] != 0
        if columns[c, KIND] < BITS:
            put_end(columns[c, VALUES], columns[c, KIND], row - 1, used[c])
    rows, own, left = np.empty(2 * BLOCK, np.int64), np.empty(2 * BLOCK, np.int64), np.int64(budget)
    done = np.int64(0)
    for block in range((total + BLOCK - 1) // BLOCK + 1):
        # The half of `rows` that the previous block has not used.
        at, start = (block & 1) * BLOCK, block * BLOCK
        for n in range(start, min(start + BLOCK, total)):
            ordinal, record, mark = ordinals[U64(n)], missing, np.int64(-1)
            if ordinal >= 0:
                unit = U64((ordinal >> shift) & mask)
                record, mark = ring[unit] + ordinal * stride, np.int64(0)
                if marked and marks[unit] != 0:
                    mark = marks[unit] + ordinal * width
                    prefetch_at(mark)
            rows[U64(at + n - start)], own[U64(at + n - start)] = record, mark
            for line in range((record + first) >> LINE, ((record + last) >> LINE) + 1):
                prefetch_at(line << LINE)
        if block == 0:
            continue
        at, start = BLOCK - at, start - BLOCK
        count = min(BLOCK, total - start)
        fits = fitting(rows, at, count, columns, used, left, fixed)
        to = row + start
        for c in range(wanted):
            kind, offset = columns[c, KIND], columns[c, OFFSET]
            if kind == BITS:
                take_bits(rows, at, fits, offset, columns[c, VALUES] + (to >> 3))
            elif kind > 0:
                take_fixed(rows, at, fits, offset, columns[c, VALUES] + to * kind, kind)
            else:
                end = take_block_texts(rows, at, fits, columns, c, to, used[c])
                left -= end - used[c]
                used[c] = end
            if columns[c, VALID] != 0:
                take_marks(own, at, fits, columns[c, BIT], columns[c, VALID] + (to >> 3))
        left -= fits * fixed
        done += fits
        if fits < count:
            break
    return done


@kernel(RECORD_SOURCE, I64, I64_2D, types.int64, OUT_I64, types.int64, types.int64, returns=types.int64)
def read_columns(
    source: RecordSource,
    ordinals: NDArray[np.int64],
    columns: NDArray[np.int64],
    row: int,
    used: NDArray[np.int64],
    budget: int,
    fixed: int,
) -> int:
    """Read columns of the rows with these ordinals, in this order, and return how many rows there was room for.

    Parameters
    ----------
    source : RecordSource
    ordinals : (n,) int64
        -1 for a row that is missing: it is NULL where there is a bitmap.
    columns : (c, READ) int64
        What is read, and where it goes; one column at least.
    row : int
        At which row of the arrays the first one goes, a multiple of 8.
    used : (c,) int64
        The bytes of texts that a column has, advanced.
    budget, fixed : int
        Bytes that all rows may take, and the fixed ones of a row.

    O(n * c + bytes).
    """
    return int(read_some(source, ordinals, columns, row, used, budget, fixed))
