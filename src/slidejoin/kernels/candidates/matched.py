"""Which rows have a match: set their marks, find those without, and put these between the pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.kernels.jit.compiling import I64, OUT_I64, U64, inlined, kernel, prefetch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "AHEAD", "BLOCK_SHIFT", "OUT_MARKS", "ROWS_OF_BLOCK", "keep_first_matches", "keep_unmarked", "mark_rows",
    "place_of_mark", "put_between",
]  # fmt: skip

BLOCK_SHIFT = 12
"""Marks lie in blocks of ``2**BLOCK_SHIFT`` ordinals, a byte each."""

AHEAD = 16
"""Pairs, from one to the prefetch of another one's mark: marks of stored rows are read in random order."""

MARKS = types.Array(types.uint8, 1, "C", readonly=True)
OUT_MARKS = types.Array(types.uint8, 1, "C")
ROWS_OF_BLOCK = (1 << BLOCK_SHIFT) - 1


@inlined
def place_of_mark(blocks: NDArray[np.int64], first: int, ordinal: int) -> int:
    """Return where the mark of a row lies."""
    return int(blocks[U64((ordinal >> BLOCK_SHIFT) - first)]) + (ordinal & ROWS_OF_BLOCK)


@kernel(OUT_MARKS, I64, types.int64, I64)
def mark_rows(marks: NDArray[np.uint8], blocks: NDArray[np.int64], first: int, ordinals: NDArray[np.int64]) -> None:
    """Set the marks of rows.

    marks (m,) uint8; blocks (b,) int64: the marks of block ``first + i`` of ordinals begin at ``blocks[i]``; ordinals
    (n,) int64, each in one of these blocks, in any order and any number of times. O(n).
    """
    last = ordinals.size - 1
    for n in range(ordinals.size):
        prefetch(marks, place_of_mark(blocks, first, int(ordinals[U64(min(n + AHEAD, last))])))
        marks[U64(place_of_mark(blocks, first, int(ordinals[U64(n)])))] = 1


@kernel(OUT_MARKS, I64, types.int64, I64, OUT_I64, returns=types.int64)
def keep_first_matches(
    marks: NDArray[np.uint8],
    blocks: NDArray[np.int64],
    first: int,
    ordinals: NDArray[np.int64],
    kept: NDArray[np.int64],
) -> int:
    """Mark rows, and write the places of those that had no mark before: of each row the first one.

    See `mark_rows`; kept (n,) int64, of which as many are written as are returned. O(n).
    """
    count, last = 0, ordinals.size - 1
    for n in range(ordinals.size):
        prefetch(marks, place_of_mark(blocks, first, int(ordinals[U64(min(n + AHEAD, last))])))
        place = U64(place_of_mark(blocks, first, int(ordinals[U64(n)])))
        kept[U64(count)] = n
        count += 1 - int(marks[place])
        marks[place] = 1
    return count


@kernel(MARKS, I64, types.int64, I64, OUT_I64, returns=types.int64)
def keep_unmarked(
    marks: NDArray[np.uint8],
    blocks: NDArray[np.int64],
    first: int,
    ordinals: NDArray[np.int64],
    kept: NDArray[np.int64],
) -> int:
    """Write the places of the rows that have no mark.

    See `mark_rows`; kept (n,) int64, of which as many are written as are returned. O(n).
    """
    count = 0
    for n in range(ordinals.size):
        kept[U64(count)] = n
        count += 1 - int(marks[U64(place_of_mark(blocks, first, int(ordinals[U64(n)])))])
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
