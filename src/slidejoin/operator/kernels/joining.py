"""From the pairs of a push to the rows of a join that is not inner, in a count window, where ordinals say what leaves.

Marks are those of `matched`. Only the first of three steps reads memory in random order:

1. The rows of pairs are marked, on the sides that are marked, unless what matched them has done it.
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
from slidejoin.jit.vectors.fields import ARRAY, i64_in, record, records_in, u64_in
from slidejoin.jit.vectors.memory import i32_at, i64_at, u8_at
from slidejoin.jit.vectors.vectors import first_one
from slidejoin.operator.kernels.matched import (
    LAST_BIT,
    MARKS,
    Marks,
    bit_of,
    keep_first_matches,
    mark_rows,
    word_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EVERY_PAIR", "FIRST_PAIRS", "JOINING", "NO_PAIRS", "SIDE_ROWS", "join_rows"]

NO_PAIRS, EVERY_PAIR, FIRST_PAIRS = range(3)
"""Which pairs are output: none (anti), all (outer), and of each left row the first one (semi)."""

SIDE_ROWS = record(
    [
        "ordinal",  # of the first new row
        "window",  # its size
        "leaving",  # the ordinal of the first row that has not left, -1 where none is output
        "lone",  # written: how many lone rows were output
        ("marks", ARRAY),  # marks of rows, see `Marks`
        ("blocks", ARRAY),  # none of a side that is not marked
        "first_block",
        "pairs",  # address of the ordinals of the pairs, in arrival order of their probes
        "rank",  # address of the ranks of the probes
        ("counts", ARRAY),  # pairs of each probe, int32
        "out",  # address of the room for the rows
        "known",  # address of that for Arrow's bits of ordinals that are not NULL
    ]
)
"""What each side has."""

JOINING = record(
    [
        "output",  # which pairs are output
        "slide",  # by how many rows the window slides
        "marked",  # whether the rows of the pairs have their marks already
        "pairs",  # how many
        "room",  # for rows: for all pairs and all rows that leave
        ("left", SIDE_ROWS),
        ("right", SIDE_ROWS),
    ]
)
"""How a push becomes output rows."""

joinings_in = records_in(JOINING)


@inlined
def displaced(leaves: int, seen: int, size: int, slide: int) -> int:
    """Return the first row that has not left after so many rows; `leaves` before, -1 where none is output."""
    outside = seen - size
    if leaves < 0 or outside <= 0:
        return leaves
    return outside - outside % slide if slide > 1 else outside


@kernel(MARKS, types.int64, types.int64, OUT_I64, returns=types.int64)
def find_lone(marks: Marks, first: int, stop: int, lone: NDArray[np.int64]) -> int:
    """Write which of the rows first…stop-1 have no mark, and return how many; lone (stop - first,) int64. O(rows)."""
    count, begin = 0, first
    while begin < stop:
        # The rows of a word, those before the first one and behind the last one left out.
        end = min((begin | LAST_BIT) + 1, stop)
        bare = ~marks.words[word_of(marks, begin)] >> U64(begin & LAST_BIT)
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


@inlined
def _marks_of(side: np.record) -> Marks:
    """Return the marks of one side's rows."""
    return Marks(u64_in(side.marks), i64_in(side.blocks), side.first_block)


@inlined
def _put_lone(how: np.record, lone_left: NDArray[np.int64], lone_right: NDArray[np.int64]) -> int:
    """Write pairs, if all are output, and lone rows behind those of the arrival with which they leave, left ones first.

    The lone rows of each side are as many as the record says. O(pairs + arrivals).
    """
    one, two, slide, every, pairs = how.left, how.right, int(how.slide), how.output == EVERY_PAIR, int(how.pairs)
    lefts, rights, bytes_of_bits = int(one.lone), int(two.lone), (how.room >> 3) + 1
    left, right = i64_at(one.pairs, pairs), i64_at(two.pairs, pairs)
    out_left, out_right = i64_at(one.out, how.room), i64_at(two.out, how.room)
    left_known, right_known = u8_at(one.known, bytes_of_bits), u8_at(two.known, bytes_of_bits)
    left_counts, right_counts = (
        i32_at(one.counts.address, one.counts.length), i32_at(two.counts.address, two.counts.length)
    )  # fmt: skip
    left_rank, right_rank = i64_at(one.rank, left_counts.size), i64_at(two.rank, right_counts.size)
    left_first, left_size, right_first, right_size = one.ordinal, one.window, two.ordinal, two.window
    many = lefts + rights if every else 0
    left_sums = np.empty(left_counts.size + 1 if many > 0 else 0, np.int64)
    right_sums = np.empty(right_counts.size + 1 if many > 0 else 0, np.int64)
    if many > 0:
        add_up(left_counts, left_sums)
        add_up(right_counts, right_sums)
    i, j, done, at, never = 0, 0, 0, 0, left_rank.size + right_rank.size
    while i < lefts or j < rights:
        own, other, rank_left, rank_right = 0, 0, never, never
        if i < lefts:
            own = leaves_with(lone_left[U64(i)], left_first, left_size, slide)
            rank_left = left_rank[U64(own)]
        if j < rights:
            other = leaves_with(lone_right[U64(j)], right_first, right_size, slide)
            rank_right = right_rank[U64(other)]
        is_left = rank_left < rank_right
        if every:
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
    if every:
        copy_pairs(left, right, done, pairs, out_left, out_right, at)
        at += pairs - done
    return at


@inlined
def _take_first(how: np.record) -> int:
    """Write each left row of pairs that had no mark, mark it, and return how many these are. O(pairs)."""
    left, out_left, out_right = (
        i64_at(how.left.pairs, how.pairs), i64_at(how.left.out, how.room), i64_at(how.right.out, how.room)
    )  # fmt: skip
    rows: int = keep_first_matches(_marks_of(how.left), left, out_right)
    for row in range(rows):
        out_left[U64(row)], out_right[U64(row)] = left[U64(out_right[U64(row)])], -1
    return rows


@inlined
def _mark_pairs(how: np.record) -> None:
    """Mark the rows of pairs, on the sides that are marked."""
    left, right = i64_at(how.left.pairs, how.pairs), i64_at(how.right.pairs, how.pairs)
    lefts, rights = _marks_of(how.left), _marks_of(how.right)
    if lefts.blocks.size > 0 and rights.blocks.size > 0:
        # Both at once: where neighbours set bits of one word, a side waits for its last store while the other goes on.
        for pair in range(left.size):
            one, two = int(left[U64(pair)]), int(right[U64(pair)])
            lefts.words[word_of(lefts, one)] |= bit_of(one)
            rights.words[word_of(rights, two)] |= bit_of(two)
    elif lefts.blocks.size > 0:
        mark_rows(lefts, left)
    else:
        mark_rows(rights, right)


@inlined
def _lone_rows(side: np.record, slide: int) -> NDArray[np.int64]:
    """Return room with the rows of one side that leave without a match; set how many these are."""
    first = int(side.leaving)
    stop = displaced(first, side.ordinal + side.counts.length, side.window, slide)
    lone = np.empty(stop - first, np.int64)
    side.lone = find_lone(_marks_of(side), first, stop, lone)
    return lone


@kernel(OUT_I64, returns=types.int64)
def join_rows(words: NDArray[np.int64]) -> int:
    """Mark the rows of a push's pairs, and write its output rows: those of pairs, and what leaves between them.

    words: of a JOINING. A row leaves a count window with the arrival of its own side that displaces its block, behind
    that arrival's pairs. Returns how many rows were written. O(pairs + arrivals).
    """
    how = joinings_in(words)[0]
    outer, size = how.output == EVERY_PAIR, (how.room >> 3) + 1
    left_known, right_known = u8_at(how.left.known, size), u8_at(how.right.known, size)
    for byte in range(size):
        left_known[U64(byte)], right_known[U64(byte)] = 255, 255 if outer else 0
    how.left.lone = how.right.lone = 0
    if how.output == FIRST_PAIRS:
        return _take_first(how)
    if how.marked == 0:
        _mark_pairs(how)
    lone_left = _lone_rows(how.left, how.slide)
    lone_right = _lone_rows(how.right, how.slide)
    return _put_lone(how, lone_left, lone_right)
