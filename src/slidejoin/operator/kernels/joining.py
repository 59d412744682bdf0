"""From the pairs of a push to the rows of a join that is not inner, in a count window, where ordinals say what leaves.

Marks are those of `matched`. Only the first of three steps reads memory in random order:

1. The rows of pairs are marked, on the sides that are marked, unless what found them has done it.
2. The marks of the rows that leave are read in order. A row without one leaves with the arrival of its own side that
   displaces its block; sums of the counts of both sides say how many pairs come up to that arrival.
3. Pairs are copied, stretch by stretch, with the lone rows of both sides between, and marks of NULLs are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.index.kernels.view import leaves_with
from slidejoin.jit.compiling import I32, I64, OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.fields import record, records_in
from slidejoin.jit.vectors.vectors import first_one
from slidejoin.jit.vectors.words import OUT_WORDS, WORDS
from slidejoin.operator.kernels.matched import LAST_BIT, bit_of, mark_rows, word_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EVERY_PAIR", "FIRST_PAIRS", "LEAVES", "NO_PAIRS", "WAYS", "join_rows"]

OUT_U8 = types.Array(types.uint8, 1, "C")

NO_PAIRS, EVERY_PAIR, FIRST_PAIRS = range(3)
"""Which pairs are output: none (anti), all (outer), and of each left row the first one (semi)."""

LEAVES = record(
    [
        "ordinal",  # of the first new row
        "window",  # its size
        "leaving",  # the ordinal of the first row that has not left, -1 where none is output
        "lone",  # written: how many lone rows were output
    ]
)
"""What each side has."""

WAYS = record(["pairs", "slide", "marked", ("left", LEAVES), ("right", LEAVES)])
"""How a push becomes output rows: which pairs are kept, by how many rows the window slides, and whether the rows of the
pairs are marked already."""

ways_in = records_in(WAYS)


@inlined
def displaced(leaves: int, seen: int, size: int, slide: int) -> int:
    """Return the first row that has not left after so many rows; `leaves` before, -1 where none is put out."""
    outside = seen - size
    if leaves < 0 or outside <= 0:
        return leaves
    return outside - outside % slide if slide > 1 else outside


@kernel(WORDS, I64, types.int64, types.int64, types.int64, OUT_I64, returns=types.int64)
def find_lone(
    marks: NDArray[np.uint64], blocks: NDArray[np.int64], block: int, first: int, stop: int, lone: NDArray[np.int64]
) -> int:
    """Write which of the rows first…stop-1 have no mark, and return how many; lone (stop - first,) int64. O(rows)."""
    count, begin = 0, first
    while begin < stop:
        # The rows of a word, those before the first one and behind the last one left out.
        end = min((begin | LAST_BIT) + 1, stop)
        bare = ~marks[word_of(blocks, block, begin)] >> U64(begin & LAST_BIT)
        if end - begin <= LAST_BIT:
            bare &= (U64(1) << U64(end - begin)) - U64(1)
        while bare != U64(0):
            lone[U64(count)] = begin + first_one(np.int64(bare))
            count += 1
            bare &= bare - U64(1)
        begin = end
    return count


@kernel(I32, OUT_I64)
def add_up(counts: NDArray[np.int32], sums: NDArray[np.int64]) -> None:
    """Write the sums of the first counts: sums (n + 1,) int64 of counts (n,) int32. O(n)."""
    total: Any = np.int64(0)
    for row in range(counts.size):
        sums[U64(row)] = total
        total += np.int64(counts[U64(row)])
    sums[U64(counts.size)] = total


@kernel(I64, I64, types.int64, types.int64, OUT_I64, OUT_I64, types.int64)
def copy_pairs(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    first: int,
    stop: int,
    out_left: NDArray[np.int64],
    out_right: NDArray[np.int64],
    at: int,
) -> None:
    """Copy pairs first…stop-1 to places from `at` on; both ordinals in one loop take two thirds of the time of two."""
    for pair in range(stop - first):
        out_left[U64(at + pair)] = left[U64(first + pair)]
        out_right[U64(at + pair)] = right[U64(first + pair)]


@kernel(
    I64, types.int64, I64, types.int64, I64, I64, I64, I64, I32, I32, I64, OUT_I64, OUT_I64, OUT_U8, OUT_U8,
    returns=types.int64,
)  # fmt: skip
def put_lone(
    lone_left: NDArray[np.int64],
    lefts: int,
    lone_right: NDArray[np.int64],
    rights: int,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    left_counts: NDArray[np.int32],
    right_counts: NDArray[np.int32],
    ways: NDArray[np.int64],
    out_left: NDArray[np.int64],
    out_right: NDArray[np.int64],
    left_known: NDArray[np.uint8],
    right_known: NDArray[np.uint8],
) -> int:
    """Write pairs, if they are kept, and lone rows behind those of the arrival with which they leave, left ones first.

    `lefts` and `rights` are how many rows are lone. The rest as in `join_rows`. O(pairs + arrivals).
    """
    how = ways_in(ways)[0]
    kept, slide = how.pairs == EVERY_PAIR, how.slide
    many = lefts + rights if kept else 0
    left_sums = np.empty(left_counts.size + 1 if many > 0 else 0, np.int64)
    right_sums = np.empty(right_counts.size + 1 if many > 0 else 0, np.int64)
    if many > 0:
        add_up(left_counts, left_sums)
        add_up(right_counts, right_sums)
    i, j, done, at, never = 0, 0, 0, 0, left_rank.size + right_rank.size
    while i < lefts or j < rights:
        own, other, rank_left, rank_right = 0, 0, never, never
        if i < lefts:
            own = leaves_with(lone_left[U64(i)], how.left.ordinal, how.left.window, slide)
            rank_left = left_rank[U64(own)]
        if j < rights:
            other = leaves_with(lone_right[U64(j)], how.right.ordinal, how.right.window, slide)
            rank_right = right_rank[U64(other)]
        is_left = rank_left < rank_right
        if kept:
            # Before an arrival came all of its side that precede it, and of the other side what is missing in its rank.
            stop = (
                left_sums[U64(rank_right - other)] + right_sums[U64(other + 1)]
                if not is_left
                else (left_sums[U64(own + 1)] + right_sums[U64(rank_left - own)])
            )
            copy_pairs(left, right, done, stop, out_left, out_right, at)
            at += stop - done
            done = stop
        bit = 255 - (1 << (at & 7))
        if is_left:
            out_left[U64(at)], out_right[U64(at)] = lone_left[U64(i)], -1
            right_known[U64(at >> 3)] &= bit
            i += 1
        else:
            out_left[U64(at)], out_right[U64(at)] = -1, lone_right[U64(j)]
            left_known[U64(at >> 3)] &= bit
            j += 1
        at += 1
    if kept:
        copy_pairs(left, right, done, left.size, out_left, out_right, at)
        at += left.size - done
    return at


@kernel(OUT_WORDS, I64, types.int64, I64, OUT_I64, OUT_I64, returns=types.int64)
def take_first(
    marks: NDArray[np.uint64],
    blocks: NDArray[np.int64],
    block: int,
    left: NDArray[np.int64],
    out_left: NDArray[np.int64],
    out_right: NDArray[np.int64],
) -> int:
    """Write each left row of pairs that had no mark, mark it, and return how many these are. O(pairs)."""
    at = 0
    for pair in range(left.size):
        row = int(left[U64(pair)])
        word, bit = word_of(blocks, block, row), bit_of(row)
        known = marks[word]
        out_left[U64(at)] = row
        at += known & bit == U64(0)
        marks[word] = known | bit
    for row in range(at):
        out_right[U64(row)] = -1
    return at


@kernel(
    OUT_WORDS, I64, types.int64, OUT_WORDS, I64, types.int64, I64, I64, I64, I64, I32, I32, OUT_I64, OUT_I64, OUT_I64,
    OUT_U8, OUT_U8, returns=types.int64,
)  # fmt: skip
def join_rows(
    left_marks: NDArray[np.uint64],
    left_blocks: NDArray[np.int64],
    left_block: int,
    right_marks: NDArray[np.uint64],
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
    left_known: NDArray[np.uint8],
    right_known: NDArray[np.uint8],
) -> int:
    """Mark the rows of a push's pairs, and write its output rows: what of the pairs is kept, and what leaves between.

    Marks as in `mark_rows`, of a side that is not marked no blocks; left and right (pairs,) int64 in arrival order of
    their probes; ranks (n,) int64 and counts (n,) int32 of each side's probes; ways, the words of a WAYS; out_left
    and out_right (rows,) int64, room for all pairs and all rows that leave; left_known and right_known (rows / 8,)
    uint8 take Arrow's bits of values that are not NULL. A row leaves a count window with the arrival of its own side
    that displaces its block, behind that arrival's pairs. Returns how many rows were written. O(pairs + arrivals).
    """
    how = ways_in(ways)[0]
    how.left.lone = how.right.lone = 0
    outer = how.pairs == EVERY_PAIR
    for byte in range(left_known.size):
        left_known[U64(byte)], right_known[U64(byte)] = 255, 255 if outer else 0
    if how.pairs == FIRST_PAIRS:
        return take_first(left_marks, left_blocks, left_block, left, out_left, out_right)
    if how.marked != 0:
        pass  # by what found the pairs
    elif left_blocks.size > 0 and right_blocks.size > 0:
        # Both at once: where neighbours set bits of one word, a side waits for its last store while the other goes on.
        for pair in range(left.size):
            one, two = int(left[U64(pair)]), int(right[U64(pair)])
            left_marks[word_of(left_blocks, left_block, one)] |= bit_of(one)
            right_marks[word_of(right_blocks, right_block, two)] |= bit_of(two)
    elif left_blocks.size > 0:
        mark_rows(left_marks, left_blocks, left_block, left)
    else:
        mark_rows(right_marks, right_blocks, right_block, right)
    first_left, first_right = how.left.leaving, how.right.leaving
    stop_left = displaced(first_left, how.left.ordinal + left_counts.size, how.left.window, how.slide)
    stop_right = displaced(first_right, how.right.ordinal + right_counts.size, how.right.window, how.slide)
    lone_left, lone_right = np.empty(stop_left - first_left, np.int64), np.empty(stop_right - first_right, np.int64)
    lefts = find_lone(left_marks, left_blocks, left_block, first_left, stop_left, lone_left)
    rights = find_lone(right_marks, right_blocks, right_block, first_right, stop_right, lone_right)
    how.left.lone, how.right.lone = lefts, rights
    return put_lone(
        lone_left, lefts, lone_right, rights, left, right, left_rank, right_rank, left_counts, right_counts, ways,
        out_left, out_right, left_known, right_known,
    )  # fmt: skip
