"""Records: gathering columns from rows in row format, and storing texts as words.

A record has one place for each column. Gathering a row then reads one or two cache lines, however many of its columns
are wanted; separate columns would be a line each.

A text (or binary) is two words of 64 bits in its record::

    up to 15 bytes    the length in the lowest byte of the first word, then the bytes themselves
    more              LONG in that byte, the length in the other seven; the second word is the address of the bytes
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import U64, group, inlined
from slidejoin.jit.vectors.memory import load_8, load_32, load_64

__all__ = ["LONG", "SHORT", "TEXT", "TEXT_ARRAY", "TextArray", "offset_of", "short_words", "text_length"]

TEXT = 16
"""Bytes of a text in its record."""

SHORT = 15
"""Bytes of a text that fit into its record."""

LONG = 255


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
