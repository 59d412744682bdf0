"""Which rows have a match: set their marks, find those without, and put these between the pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I32, I64, OUT_I64, U32, U64, group, inlined, kernel
from slidejoin.jit.vectors.vectors import LOW_32
from slidejoin.jit.vectors.words import OUT_WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BLOCK_SHIFT", "MARKS", "ROWS_OF_BLOCK", "Marks", "bit_of", "keep_first_matches", "keep_unmarked", "mark_matches",
    "mark_probes", "mark_rows", "put_between", "word_of",
]  # fmt: skip

BLOCK_SHIFT = 12
"""Marks lie in blocks of ``2**BLOCK_SHIFT`` ordinals, a bit each: those of a window of a million rows take 128 KiB,
which stay in a near cache while pairs set them in random order. Bytes took twice the time."""

ROWS_OF_BLOCK = (1 << BLOCK_SHIFT) - 1

LAST_BIT = 63
"""Of a word of marks."""

U32_OF = np.uint32


class Marks(NamedTuple):
    """The marks of one side's rows.

    Attributes
    ----------
    words : (m,) uint64
    blocks : (b,) int64
        The marks of block ``first + i`` of ordinals begin at word ``blocks[i]``; none where nothing is marked.
    """

    words: NDArray[np.uint64]
    blocks: NDArray[np.int64]
    first: int


MARKS = group(Marks, OUT_WORDS, I64, types.int64)


@inlined
def word_of(marks: Marks, ordinal: int) -> np.uint64:
    """Return which word has the mark of a row."""
    return U64(int(marks.blocks[U64((ordinal >> BLOCK_SHIFT) - marks.first)]) + ((ordinal & ROWS_OF_BLOCK) >> 6))


@inlined
def bit_of(ordinal: int) -> np.uint64:
    """Return the bit of a row in its word."""
    return U64(1) << U64(ordinal & 63)


@kernel(MARKS, I64)
def mark_rows(marks: Marks, ordinals: NDArray[np.int64]) -> None:
    """Set the marks of rows, (n,) int64, in any order and any number of times. O(n)."""
    for n in range(ordinals.size):
        ordinal = int(ordinals[U64(n)])
        marks.words[word_of(marks, ordinal)] |= bit_of(ordinal)


@kernel(MARKS, U32, types.int64, types.int64, types.int64)
def mark_matches(marks: Marks, positions: NDArray[np.uint32], begin: int, end: int, base: int) -> None:
    """Set the marks of matches by their positions, see `merge_pairs`, at places begin…end-1. O(end - begin)."""
    start = U32_OF((base + 1) & LOW_32)
    for place in range(begin, end):
        ordinal = base + ((int(positions[U64(place)]) - int(start)) & LOW_32)
        marks.words[word_of(marks, ordinal)] |= bit_of(ordinal)


@kernel(MARKS, I32, types.int64)
def mark_probes(marks: Marks, counts: NDArray[np.int32], ordinal: int) -> None:
    """Set the marks of probes that have matches: counts (n,) int32, the first one of the row `ordinal`. O(n)."""
    begin, end = ordinal, ordinal + counts.size
    while begin < end:
        stop, bits = min((begin | LAST_BIT) + 1, end), U64(0)
        for row in range(begin, stop):
            bits |= U64(counts[U64(row - ordinal)] > 0) << U64(row & LAST_BIT)
        marks.words[word_of(marks, begin)] |= bits
        begin = stop


@kernel(MARKS, I64, OUT_I64, returns=types.int64)
def keep_first_matches(marks: Marks, ordinals: NDArray[np.int64], places: NDArray[np.int64]) -> int:
    """Mark rows, and write the places of those that had no mark before: of each row the first one.

    Ordinals and places (n,) int64, of which as many are written as are returned. O(n).
    """
    count = 0
    for n in range(ordinals.size):
        ordinal = int(ordinals[U64(n)])
        word, bit = word_of(marks, ordinal), bit_of(ordinal)
        known = marks.words[word]
        places[U64(count)] = n
        count += known & bit == U64(0)
        marks.words[word] = known | bit
    return count


@kernel(MARKS, I64, OUT_I64, returns=types.int64)
def keep_unmarked(marks: Marks, ordinals: NDArray[np.int64], places: NDArray[np.int64]) -> int:
    """Write the places of the rows that have no mark, as `keep_first_matches` does. O(n)."""
    count = 0
    for n in range(ordinals.size):
        ordinal = int(ordinals[U64(n)])
        places[U64(count)] = n
        count += marks.words[word_of(marks, ordinal)] & bit_of(ordinal) == U64(0)
    return count


@kernel(I64, I64, I64, I64, I64, OUT_I64, OUT_I64)
def put_between(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    places: NDArray[np.int64],
    left_rows: NDArray[np.int64],
    right_rows: NDArray[np.int64],
    out_left: NDArray[np.int64],
    out_right: NDArray[np.int64],
) -> None:
    """Copy pairs and put rows between them.

    left and right (n,) int64 of the pairs; left_rows and right_rows (d,) int64 of the rows, each behind so many pairs
    as its place says, ascending; out_left and out_right (n + d,) int64. O(n + d).
    """
    done = 0
    for row in range(places.size + 1):
        stop = places[U64(row)] if row < places.size else left.size
        for n in range(done, stop):
            out_left[U64(n + row)] = left[U64(n)]
            out_right[U64(n + row)] = right[U64(n)]
        done = stop
        if row < places.size:
            out_left[U64(stop + row)] = left_rows[U64(row)]
            out_right[U64(stop + row)] = right_rows[U64(row)]
