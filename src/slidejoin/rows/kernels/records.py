"""Records: gathering columns from rows in row format, and storing texts as words.

A record has one place for each column. Gathering a row then reads one or two cache lines, however many of its columns
are wanted; separate columns would be a line each.

A text (or binary) is two words of 64 bits in its record::

    up to 15 bytes    the length in the lowest byte of the first word, then the bytes themselves
    more              LONG in that byte, the length in the other seven; the second word is the address of the bytes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, U64, group, inlined, kernel
from slidejoin.jit.vectors.memory import load_8, load_32, load_64, prefetch_at
from slidejoin.rows.kernels.copying import copy_8, copy_16, copy_32, copy_64, copy_128, copy_bytes, store_64

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "LONG", "SHORT", "TEXT", "TEXT_ARRAY", "TextArray", "gather_rows", "offset_of", "short_words", "take_texts",
    "text_length",
]  # fmt: skip

TEXT = 16
"""Bytes of a text in its record; as a width it marks a text for `gather_rows`."""

SHORT = 15
"""Bytes of a text that fit into its record."""

LONG = 255

BLOCK = 64
"""Rows prefetched together: while one block is copied, the next one is being fetched from memory."""

LINE = 6
"""A cache line is ``2**LINE`` bytes."""

AHEAD = 8
"""Prefetch distance, in long texts, of their bytes."""


class TextArray(NamedTuple):
    """An array of texts where Arrow has it: text i is the bytes from its i-th offset to the next one.

    Attributes
    ----------
    offsets, width : int
        The address of the first text's offset, and the bytes of an offset: 4 or 8.
    rows : int
    data, size : int
        The address of the bytes, and how many they are.
    """

    offsets: int
    width: int
    rows: int
    data: int
    size: int


TEXT_ARRAY: Any = group(TextArray, *[types.int64] * 5)


@inlined
def offset_of(texts: Any, row: Any) -> Any:  # noqa: ANN401 - Numba's types are untyped
    """Return where a text begins among the bytes; of `rows`, where the last one ends."""
    at = texts.offsets + texts.width * row
    return np.int64(load_32(at)) if texts.width == 4 else np.int64(load_64(at))  # noqa: PLR2004 - bytes


@inlined
def text_length(word: np.uint64) -> np.int64:
    """Return the length of a text from its first word."""
    tag = word & U64(255)
    return np.int64(word >> U64(8)) if tag == U64(LONG) else np.int64(tag)


@inlined
def _copy_column(rows: NDArray[np.int64], at: int, count: int, width: int, offset: int, target: int) -> np.int64:  # noqa: C901
    """Copy one column of the rows at these addresses; return the bytes of its texts."""
    size = np.int64(0)
    if width == 8:  # noqa: PLR2004 - bytes
        for n in range(count):
            copy_64(target + n * 8, rows[U64(at + n)] + offset)
    elif width == TEXT:
        for n in range(count):
            source = rows[U64(at + n)] + offset
            copy_128(target + n * TEXT, source)
            size += text_length(U64(load_64(source)))
    elif width == 4:  # noqa: PLR2004
        for n in range(count):
            copy_32(target + n * 4, rows[U64(at + n)] + offset)
    elif width == 2:  # noqa: PLR2004
        for n in range(count):
            copy_16(target + n * 2, rows[U64(at + n)] + offset)
    elif width == 1:
        for n in range(count):
            copy_8(target + n, rows[U64(at + n)] + offset)
    else:
        for n in range(count):
            copy_bytes(target + n * width, rows[U64(at + n)] + offset, width)
    return size


@kernel(I64, types.int64, types.int64, types.int64, I64, I64_2D, OUT_I64)
def gather_rows(
    addresses: NDArray[np.int64],
    shift: int,
    mask: int,
    stride: int,
    ordinals: NDArray[np.int64],
    columns: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """Copy columns of the rows with these ordinals (n,) int64, in this order, each to an array of its own.

    Row ``o`` lies at ``addresses[(o >> shift) & mask] + o * stride``: addresses (u,) int64 are those that ordinal 0
    would have. columns (c, 3) int64: the offset in the record, the width in bytes, and the
    address of the array that is written. sizes (c,) int64 become the bytes of all texts of a column, if
    it has such. O(n * c).
    """
    wanted = columns.shape[0]
    first, last = columns[0, 0], columns[0, 0]
    for c in range(wanted):
        first = min(first, columns[c, 0])
        last = max(last, columns[c, 0] + columns[c, 1] - 1)
        sizes[c] = 0
    rows = np.empty(2 * BLOCK, np.int64)
    blocks = (ordinals.size + BLOCK - 1) // BLOCK
    for block in range(blocks + 1):
        # The half of `rows` that the previous block has not used.
        at = (block & 1) * BLOCK
        start = block * BLOCK
        for n in range(start, min(start + BLOCK, ordinals.size)):
            ordinal = ordinals[U64(n)]
            row = addresses[U64((ordinal >> shift) & mask)] + ordinal * stride
            rows[U64(at + n - start)] = row
            for line in range((row + first) >> LINE, ((row + last) >> LINE) + 1):
                prefetch_at(line << LINE)
        if block > 0:
            start -= BLOCK
            count = min(BLOCK, ordinals.size - start)
            for c in range(wanted):
                offset, width, target = columns[c, 0], columns[c, 1], columns[c, 2]
                sizes[c] += _copy_column(rows, BLOCK - at, count, width, offset, target + start * width)


@inlined
def short_words(data: int, begin: int, length: int, size: int) -> tuple[np.uint64, np.uint64]:
    """Return the words of a text of up to SHORT bytes, which begins in the `size` bytes at the address `data`."""
    low, high = U64(0), U64(0)
    if begin + TEXT <= size:
        low, high = U64(load_64(data + begin)), U64(load_64(data + begin + 8))
    else:
        # Words would reach beyond the memory.
        for place in range(length):
            byte = U64(load_8(data + begin + place)) << U64(8 * (place & 7))
            if place < 8:  # noqa: PLR2004 - bytes of a word
                low |= byte
            else:
                high |= byte
    if length < 8:  # noqa: PLR2004
        low, high = low & ((U64(1) << U64(8 * length)) - U64(1)), U64(0)
    else:
        high &= (U64(1) << U64(8 * (length - 8))) - U64(1)
    return U64(length) | low << U64(8), low >> U64(56) | high << U64(8)


def _take_texts(texts: NDArray[np.uint64], data: int, offsets: NDArray[np.int64]) -> None:
    at, count = np.int64(0), texts.shape[0]
    for n in range(count):
        later = U64(min(n + AHEAD, count - 1))
        if texts[later, 0] & U64(255) == U64(LONG):
            prefetch_at(np.int64(texts[later, 1]))
        i = U64(n)
        offsets[i] = at
        low, high = texts[i, 0], texts[i, 1]
        length = text_length(low)
        if length > SHORT:
            copy_bytes(data + at, np.int64(high), length)
        else:
            # Always all sixteen bytes: the next text overwrites the excess.
            store_64(data + at, low >> U64(8) | high << U64(56))
            store_64(data + at + 8, high >> U64(8))
        at += length
    offsets[U64(count)] = at


TEXTS = types.Array(types.uint64, 2, "C", readonly=True)

take_texts = {
    width: kernel(TEXTS, types.int64, types.Array(kind, 1, "C"))(_take_texts)
    for width, kind in ((4, types.int32), (8, types.int64))
}
"""For offsets of 4 and of 8 bytes the kernel ``take(texts, data, offsets)``: it writes texts one after the other.

texts (n, 2) uint64 are the words of records; data is an address with room for TEXT bytes more than all of them; offsets
(n + 1,) int32 or int64 become those of an Arrow array. O(n + bytes)."""
