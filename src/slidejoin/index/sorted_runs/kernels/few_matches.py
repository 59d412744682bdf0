"""Probing sorted runs where probes have few matches each: matches are written at once, ranges are not kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.index.kernels.range_ends import AIMS, BLOCK, OUT_U32_2D, locate_block
from slidejoin.index.kernels.searching import (
    AUX,
    BASE,
    CHECK_AUX,
    CHECK_SEEN,
    CHECKS,
    DIMENSIONS,
    ROWS,
    WORDS_AT,
    passes,
)
from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I32, OUT_U32, U32, U64, kernel
from slidejoin.jit.vectors.memory import load_64
from slidejoin.jit.vectors.words import LANES, copy_positions, keep_positions, keep_seen

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["find_few", "gather"]

LOW_HALF = 0xFFFFFFFF


@kernel(
    I64_2D, OUT_U32_2D, OUT_U32_2D, I32, types.int64, types.int64, I64, I64, OUT_U32, types.int64, OUT_I32, OUT_I32,
    returns=types.int64,
)  # fmt: skip
def keep_block(
    table: NDArray[np.int64],
    starts: NDArray[np.uint32],
    ends: NDArray[np.uint32],
    order: NDArray[np.int32],
    begin: int,
    size: int,
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    kept: NDArray[np.uint32],
    cursor: int,
    places: NDArray[np.int32],
    counts: NDArray[np.int32],
) -> int:
    """Write the matches of a block of probes that need no check but by ordinals; return the next cursor.

    As `find_few`, from place `cursor` of `kept` on; -1 if the room may not suffice.
    """
    columns, runs, first_at = starts.shape[0], table.shape[0], np.int64(kept.ctypes.data)
    room: Any = first_at + ((kept.size - LANES) << 2)
    end: Any = first_at + (cursor << 2)
    for t in range(size):
        i = U64(order[U64(begin + t)])
        before, r = end, U64(0)
        for column in range(columns):
            j = np.int64(starts[U64(column), U64(t)])
            many = np.int64(ends[U64(column), U64(t)]) - j
            words, first = table[r, WORDS_AT] + (j << 3), U64(table[r, BASE] + 1)
            if end + (many << 2) > room:
                return -1
            if table[r, CHECKS] == 0:
                keep_positions(words, first, end)
                for o in range(LANES, many, LANES):
                    keep_positions(words + (o << 3), first, end + (o << 2))
                end += many << 2
            else:
                low, high = seen_from[i] - table[r, BASE], seen_to[i] - table[r, BASE]
                end += keep_seen(words, min(many, LANES), low, high, first, end) << 2
                for o in range(LANES, many, LANES):
                    end += keep_seen(words + (o << 3), min(many - o, LANES), low, high, first, end) << 2
            r += U64(1)
            if r == U64(runs):
                r = U64(0)
        places[i] = (before - first_at) >> 2
        counts[i] = (end - before) >> 2
    behind: int = (end - first_at) >> 2
    return behind


@kernel(
    I64_2D, OUT_U32_2D, OUT_U32_2D, I32, types.int64, types.int64, I64, I64, I64_2D, I64_2D, I64, OUT_U32,
    types.int64, OUT_I32, OUT_I32, returns=types.int64,
)  # fmt: skip
def keep_block_checked(
    table: NDArray[np.int64],
    starts: NDArray[np.uint32],
    ends: NDArray[np.uint32],
    order: NDArray[np.int32],
    begin: int,
    size: int,
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    kept: NDArray[np.uint32],
    cursor: int,
    places: NDArray[np.int32],
    counts: NDArray[np.int32],
) -> int:
    """Do the same, with any checks of candidates."""
    columns, runs, room = starts.shape[0], table.shape[0], kept.size - LANES
    for t in range(size):
        i = U64(order[U64(begin + t)])
        before = cursor
        for column in range(columns):
            r = column % runs
            first, checks = U64(table[r, BASE] + 1), table[r, CHECKS]
            low, high = np.int64(0), table[r, ROWS]
            if checks & CHECK_SEEN:
                low, high = seen_from[i] - table[r, BASE], seen_to[i] - table[r, BASE]
            j: Any = np.int64(starts[U64(column), U64(t)])
            end: Any = np.int64(ends[U64(column), U64(t)])
            if cursor + (end - j) > room:
                return -1
            while j < end:
                offset = load_64(table[r, WORDS_AT] + (j << 3)) & U64(LOW_HALF)
                inside = (low <= np.int64(offset)) & (np.int64(offset) < high)
                if checks & CHECK_AUX and inside:
                    inside = passes(table[r, AUX], table[r, DIMENSIONS], j, i, lows, highs, dims)
                kept[U64(cursor)] = (offset + first) & U64(LOW_HALF)
                cursor += inside
                j += 1
        places[i] = before
        counts[i] = cursor - before
    return cursor


@kernel(
    I64_2D, I64_2D, I64_2D, I32, I64, I64, I64_2D, I64_2D, I64, OUT_U32, OUT_I32, OUT_I32, returns=types.int64
)  # fmt: skip
def find_few(
    table: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    order: NDArray[np.int32],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    kept: NDArray[np.uint32],
    places: NDArray[np.int32],
    counts: NDArray[np.int32],
) -> int:
    """Write the matches of all probes as positions, ``(ordinal + 1) % 2**32``, those of one probe side by side.

    `table`, lo and hi, and `order` as in `index.kernels.range_search.find_ranges`; `seen_from`, `seen_to`, `lows`,
    `highs` and `dims` as in `count_matches`. `kept` (room,) uint32 takes the positions, `places` and `counts` (n,)
    int32 for each probe, in their own order, where its positions begin and how many they are. Returns their total, or
    -1 if the room may not suffice. Expected O(k * runs * n) plus candidates.
    """
    n, columns = order.size, table.shape[0] * lo.shape[0]
    asked, aims = np.empty((2, BLOCK), np.int64), np.zeros((2 * columns * AIMS, BLOCK), np.uint32)
    starts, ends = np.empty((columns, BLOCK), np.uint32), np.empty((columns, BLOCK), np.uint32)
    state, plain, cursor = np.zeros(columns, np.int64), True, 0
    for r in range(table.shape[0]):
        plain &= table[r, CHECKS] < CHECK_AUX
    for begin in range(0, n, BLOCK):
        size = locate_block(table, lo, hi, order, begin, asked, aims, state, starts, ends)
        if plain:
            cursor = keep_block(
                table, starts, ends, order, begin, size, seen_from, seen_to, kept, cursor, places, counts
            )
        else:
            cursor = keep_block_checked(
                table, starts, ends, order, begin, size, seen_from, seen_to, lows, highs, dims, kept, cursor, places,
                counts,
            )  # fmt: skip
        if cursor < 0:
            return -1
    return cursor


@kernel(U32, I32, I32, types.int64, OUT_U32)
def gather(
    kept: NDArray[np.uint32],
    places: NDArray[np.int32],
    counts: NDArray[np.int32],
    at: int,
    found: NDArray[np.uint32],
) -> None:
    """Write the positions that were kept of each probe to `found` from place `at` on, in the probes' own order.

    Eight are copied at a time, so `found` has as many more places. O(probes + positions).
    """
    kept_at, found_at = np.int64(kept.ctypes.data), np.int64(found.ctypes.data) + (at << 2)
    for i in range(counts.size):
        source, count = kept_at + (np.int64(places[U64(i)]) << 2), np.int64(counts[U64(i)])
        copy_positions(source, found_at)
        for o in range(LANES, count, LANES):
            copy_positions(source + (o << 2), found_at + (o << 2))
        found_at += count << 2
