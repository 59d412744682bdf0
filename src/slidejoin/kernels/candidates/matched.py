"""Which rows have a match: set their marks, find those without, and put these between the pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.kernels.common.fields import offsets
from slidejoin.kernels.jit.compiling import I32, I64, OUT_I64, U64, inlined, kernel, prefetch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "BLOCK_SHIFT",
    "EVERY_PAIR",
    "FIRST_PAIRS",
    "KEPT_PAIRS",
    "LEAVING",
    "LONE",
    "NO_PAIRS",
    "ORDINALS",
    "SIZES",
    "SLIDE_BY",
    "WAYS",
    "join_rows",
    "keep_first_matches",
    "keep_unmarked",
    "mark_rows",
    "put_between",
]

BLOCK_SHIFT = 12
"""Marks lie in blocks of ``2**BLOCK_SHIFT`` ordinals, a byte each."""

AHEAD = 16
"""Pairs, from one to the prefetch of another one's mark: marks of stored rows are read in random order."""

MARKS = types.Array(types.uint8, 1, "C", readonly=True)
OUT_MARKS = types.Array(types.uint8, 1, "C")
ROWS_OF_BLOCK = (1 << BLOCK_SHIFT) - 1


NO_PAIRS, EVERY_PAIR, FIRST_PAIRS = range(3)
"""Which pairs are output: none (anti), all (outer), and of each left row the first one (semi)."""

KEPT_PAIRS, SLIDE_BY, ORDINALS, SIZES, LEAVING, LONE, WAYS = offsets(1, 1, 2, 2, 2, 2)
"""How a push becomes output rows: which pairs are kept; by how many rows the window slides; for left and right rows
each the ordinal of the first new one, the size of the window, the ordinal of the first row that has not left, -1 where
none is put out; and, written, how many lone rows were put out."""


@inlined
def _place(blocks: NDArray[np.int64], first: int, ordinal: int) -> int:
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
        prefetch(marks, _place(blocks, first, int(ordinals[U64(min(n + AHEAD, last))])))
        marks[U64(_place(blocks, first, int(ordinals[U64(n)])))] = 1


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
        prefetch(marks, _place(blocks, first, int(ordinals[U64(min(n + AHEAD, last))])))
        place = U64(_place(blocks, first, int(ordinals[U64(n)])))
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
        count += 1 - int(marks[U64(_place(blocks, first, int(ordinals[U64(n)])))])
    return count


@inlined
def _mark(marks: NDArray[np.uint8], blocks: NDArray[np.int64], first: int, ordinals: NDArray[np.int64]) -> None:
    """Set the marks of rows, of a side that is marked."""
    last = ordinals.size - 1
    for n in range(ordinals.size if blocks.size > 0 else 0):
        prefetch(marks, _place(blocks, first, int(ordinals[U64(min(n + AHEAD, last))])))
        marks[U64(_place(blocks, first, int(ordinals[U64(n)])))] = 1


@inlined
def _copy(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    done: int,
    stop: int,
    out_left: NDArray[np.int64],
    out_right: NDArray[np.int64],
    at: int,
) -> int:
    """Copy pairs done…stop-1 to places from `at` on, and return the place behind them."""
    for pair in range(done, stop):
        out_left[U64(at)], out_right[U64(at)] = left[U64(pair)], right[U64(pair)]
        at += 1
    return at


@inlined
def _displaced(leaves: int, seen: int, size: int, slide: int) -> int:
    """Return the first row that has not left after so many rows; `leaves` before, -1 where none is put out."""
    outside = seen - size
    if leaves < 0 or outside <= 0:
        return leaves
    return outside - outside % slide if slide > 1 else outside


@kernel(
    OUT_MARKS, I64, types.int64, OUT_MARKS, I64, types.int64, I64, I64, I64, I64, I32, I32, OUT_I64, OUT_I64, OUT_I64,
    returns=types.int64,
)  # fmt: skip
def join_rows(
    left_marks: NDArray[np.uint8],
    left_blocks: NDArray[np.int64],
    left_block: int,
    right_marks: NDArray[np.uint8],
    right_blocks: NDArray[np.int64],
    right_block: int,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    left_counts: NDArray[np.int32],
    right_counts: NDArray[np.int32],
    ways: NDArray[np.int64],
    out_left: NDArray[np.int64],
    out_right: NDArray[np.int64],
) -> int:
    """Mark the rows of a push's pairs, and write its output rows: what of the pairs is kept, and what leaves between.

    Marks as in `mark_rows`, of a side that is not marked no blocks; left and right (pairs,) int64 in arrival order of
    their probes; ranks (n,) int64 and counts (n,) int32 of each side's probes; ways (WAYS,) int64, see above; out_left
    and out_right (rows,) int64, room for all pairs and all rows that leave. A row leaves a count window with the
    arrival of its own side that displaces its block, behind that arrival's pairs. Returns how many rows were written.
    O(pairs + arrivals).
    """
    semi, kept = ways[U64(KEPT_PAIRS)] == FIRST_PAIRS, ways[U64(KEPT_PAIRS)] != NO_PAIRS
    if not semi:
        _mark(left_marks, left_blocks, left_block, left)
        _mark(right_marks, right_blocks, right_block, right)
    slide, left_leaves, right_leaves = ways[U64(SLIDE_BY)], ways[U64(LEAVING)], ways[U64(LEAVING + 1)]
    i, j, pair, done, at = 0, 0, 0, 0, 0
    ways[U64(LONE)] = ways[U64(LONE + 1)] = 0
    # What comes with each arrival: its pairs, and then the rows that it displaces, which are left ones or right ones.
    while (i < left_rank.size or j < right_rank.size) and not semi:
        left_stop, right_stop = left_leaves, right_leaves
        if j >= right_rank.size or (i < left_rank.size and left_rank[U64(i)] < right_rank[U64(j)]):
            pair += left_counts[U64(i)]
            i += 1
            left_stop = _displaced(left_leaves, ways[U64(ORDINALS)] + i, ways[U64(SIZES)], slide)
        else:
            pair += right_counts[U64(j)]
            j += 1
            right_stop = _displaced(right_leaves, ways[U64(ORDINALS + 1)] + j, ways[U64(SIZES + 1)], slide)
        while left_leaves < left_stop or right_leaves < right_stop:
            is_left = left_leaves < left_stop
            if is_left:
                marked = left_marks[U64(_place(left_blocks, left_block, left_leaves))]
            else:
                marked = right_marks[U64(_place(right_blocks, right_block, right_leaves))]
            if marked == 0:
                if kept:
                    at = _copy(left, right, done, pair, out_left, out_right, at)
                    done = pair
                out_left[U64(at)], out_right[U64(at)] = left_leaves if is_left else -1, -1 if is_left else right_leaves
                at += 1
                ways[U64(LONE if is_left else LONE + 1)] += 1
            left_leaves += is_left
            right_leaves += not is_left
    if not semi:
        return _copy(left, right, done, left.size, out_left, out_right, at) if kept else at
    last = left.size - 1
    for pair in range(left.size):
        prefetch(left_marks, _place(left_blocks, left_block, int(left[U64(min(pair + AHEAD, last))])))
        place = U64(_place(left_blocks, left_block, int(left[U64(pair)])))
        out_left[U64(at)], out_right[U64(at)] = left[U64(pair)], -1
        at += left_marks[place] == 0
        left_marks[place] = 1
    return at


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
