"""The cell table: a hash table in which rows whose keys are in one cell share a bucket of one cache line.

A bucket has 16 words of 32 bits: seven keys, a link, seven positions, and the newest position beyond the bucket::

    word   0 … 6                  7      8 … 14                    15
           key, its low 32 bits   link   position: ordinal + 1     newest position of the bucket's rows beyond it

A position is dead once its ordinal is below the floor, and an insert overwrites any dead one: nothing is ever sorted,
merged, moved or deleted. Rows whose bucket is full of live ones overflow into the lines that follow, one after the
other, which are buckets of other cells: most of those are empty where some are full. The link then says how many lines
these are, and which of them took the last row. No more than SPREAD lines belong to one bucket (see `buckets`). Rows of
still denser cells go to a pool of chunks of `LINES` lines each, filled upwards; the first line links to the chunk
before::

    link   31        30 … 8                   7 … 4                                0 … 3
           chained   the newest chunk         line of it, or behind the bucket,    lines behind the bucket
                     by its number            that took the last row               that have rows of it

The link is valid only while the newest position beyond the bucket is live. Rows overflow in arrival order, so that
position is in the chunk that the link names, and a chunk whose rows are all dead is free for any bucket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numba import types

from slidejoin.index.cells.kernels.buckets import (
    BUCKETS,
    CURSOR,
    DEEP,
    FLOOR,
    LARGEST,
    MULTIPLIER,
    SHIFT,
    SMALLEST,
    SPILLS,
    SPREAD,
    bucket_of,
)
from slidejoin.jit.compiling import FLAGS, I64, OUT_I64, OUT_U32, U32, U64, group, inlined, kernel, prefetch
from slidejoin.jit.vectors.vectors import LOW_32, borrowed, dead_lanes, first_one

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "ALL_SLOTS",
    "CELLS",
    "CHAINED",
    "HALF",
    "I64_OF",
    "LINES",
    "LINK",
    "NEWEST",
    "SLOTS",
    "U32_OF",
    "WORDS",
    "Cells",
    "insert_cells",
    "sweep_cells",
]

WORDS, SLOTS, LINK, POSITIONS, NEWEST = 16, 7, 7, 8, 15
ALL_SLOTS = (1 << SLOTS) - 1
HALF = 1 << 31

LINES = 4
"""Lines of a chunk of the pool."""

CHAINED = 1 << 31

AHEAD = 16
"""Prefetch distance of a bucket, in rows: 24 and 32 differ by 2 %; no prefetching takes three times as long."""

NEAR = 7
"""Prefetch distance of the line behind a full bucket, in rows, if one row in `OFTEN` needs it."""

OFTEN = 32

U32_OF: Callable[[Any], Any] = np.uint32
I64_OF = cast("Callable[[Any], int]", np.int64)


class Cells(NamedTuple):
    """A table that is probed.

    Attributes
    ----------
    slots : (lines * WORDS,) uint32
        The buckets, and the lines behind the last one.
    pool : (lines * WORDS,) uint32
        The chunks.
    state : (STATE,) int64
        See `index.cells.kernels.buckets`.
    """

    slots: NDArray[np.uint32]
    pool: NDArray[np.uint32]
    state: NDArray[np.int64]


CELLS = group(Cells, U32, U32, I64)


@inlined
def _ask_behind(slots: NDArray[np.uint32], place: int, bottom: int) -> None:
    """Prefetch the overflow line that took the last row of a bucket, if there is one."""
    link = I64_OF(slots[U64(place + LINK)])
    if (I64_OF(slots[U64(place + NEWEST)]) - bottom) & LOW_32 < HALF and link < CHAINED:
        prefetch(slots, place + ((link >> 4) & 15) * WORDS)


@inlined
def _find_room(slots: NDArray[np.uint32], head: int, link: int, spread: int, floor: np.uint32) -> tuple[int, int, int]:
    """Look for room in the lines behind a full bucket; return its new link, the line's place and its free slots, or 0.

    It begins with the line that took the last row, and wraps around: rows die in arrival order.
    """
    more, at, free = link & 15, (link >> 4) & 15, 0
    for _ in range(more):
        free = dead_lanes(slots, head + at * WORDS, floor) & ALL_SLOTS
        if free != 0:
            break
        at = at + 1 if at < more else 1
    while free == 0 and more + 1 < spread:
        more += 1
        at = more
        free = dead_lanes(slots, head + at * WORDS, floor) & ALL_SLOTS
    return at << 4 | more, head + at * WORDS, free


@inlined
def _open_chunk(
    pool: NDArray[np.uint32], cursor: int, link: int, newest: int, bottom: int, floor: np.uint32
) -> tuple[int, int]:
    """Take the chunk at the cursor for a bucket with that link; return its first line and the next cursor.

    Returns a line of -1 if there is none, or if it has live rows: then the pool is too small.
    """
    room = pool.size // (WORDS * LINES) * LINES
    line = 0 if cursor >= room else cursor
    dead = 0 if room == 0 else ALL_SLOTS
    if room != 0:
        for one in range(line, line + LINES):
            dead &= dead_lanes(pool, one * WORDS, floor)
    if dead != ALL_SLOTS:
        return -1, line
    chained = link >= CHAINED
    pool[U64(line * WORDS + LINK)] = U32_OF((link & (CHAINED - 1)) >> 4)
    pool[U64(line * WORDS + NEWEST)] = U32_OF(newest if chained else (bottom - 1) & LOW_32)
    return line, line + LINES


@kernel(OUT_U32, OUT_U32, OUT_I64, I64, FLAGS, types.int64, types.int64, returns=types.int64)
def insert_cells(  # noqa: C901 - one path through an insert, seen whole
    slots: NDArray[np.uint32],
    pool: NDArray[np.uint32],
    state: NDArray[np.int64],
    keys: NDArray[np.int64],
    matchable: NDArray[np.bool_],
    start: int,
    first: int,
) -> int:
    """Insert rows start, start + 1, … and return where it stopped: at the end, or at a row that needs a larger pool.

    The arrays are those of `Cells`; keys (n,) int64 of the rows with the ordinals first, first + 1, …; matchable (n,)
    bool, the rows that may match anything, or (0,) for all. Of the pool, whole chunks are used. O(n).
    """
    slots, pool, state = borrowed(slots), borrowed(pool), borrowed(state)
    keys, matchable = borrowed(keys), borrowed(matchable)
    shift, buckets, bottom = state[SHIFT], state[BUCKETS], int((state[FLOOR] + 1) & LOW_32)
    multiplier, spread, floor, cursor = state[MULTIPLIER], int(state[SPREAD]), U32_OF(bottom), int(state[CURSOR])
    smallest, largest, deep, beyond = state[SMALLEST], state[LARGEST], state[DEEP] != 0, 0
    n, j = keys.size, start
    for i in range(start, min(start + AHEAD, n)):
        prefetch(slots, bucket_of(keys[U64(i)] >> shift, buckets, multiplier) * WORDS)
    while j < n:
        prefetch(slots, bucket_of(keys[U64(min(j + AHEAD, n - 1))] >> shift, buckets, multiplier) * WORDS)
        if deep:
            _ask_behind(slots, bucket_of(keys[U64(min(j + NEAR, n - 1))] >> shift, buckets, multiplier) * WORDS, bottom)
        if matchable.size > 0 and not matchable[U64(j)]:
            j += 1
            continue
        key, position = keys[U64(j)], U32_OF((first + j + 1) & LOW_32)
        head = bucket_of(key >> shift, buckets, multiplier) * WORDS
        place, free = head, dead_lanes(slots, head, floor) & ALL_SLOTS
        if free == 0:
            newest = I64_OF(slots[U64(head + NEWEST)])
            now = link = I64_OF(slots[U64(head + LINK)]) if (newest - bottom) & LOW_32 < HALF else 0
            if link < CHAINED:
                now, place, free = _find_room(slots, head, link, spread, floor)
            if free == 0:
                line = (link & (CHAINED - 1)) >> 4
                if link >= CHAINED:
                    free = dead_lanes(pool, line * WORDS, floor) & ALL_SLOTS
                    line += free == 0
                if link < CHAINED or (free == 0 and line % LINES == 0):
                    line, cursor = _open_chunk(pool, cursor, link, newest, bottom, floor)
                    if line < 0:
                        break
                now, place = CHAINED | line << 4 | (spread - 1), -1
                slot = line * WORDS + first_one(free if free != 0 else ALL_SLOTS)
                pool[U64(slot)], pool[U64(slot + POSITIONS)] = U32_OF(key & LOW_32), position
            slots[U64(head + LINK)], slots[U64(head + NEWEST)] = U32_OF(now), position
            beyond += 1
        if place >= 0:
            slot = place + first_one(free)
            slots[U64(slot)], slots[U64(slot + POSITIONS)] = U32_OF(key & LOW_32), position
        smallest, largest = min(smallest, key), max(largest, key)
        j += 1
    state[CURSOR], state[SMALLEST], state[LARGEST] = cursor, smallest, largest
    state[SPILLS] += beyond
    state[DEEP] = beyond * OFTEN > j - start
    return j


@kernel(OUT_U32, types.int64, types.int64, types.int64)
def sweep_cells(words: NDArray[np.uint32], first: int, last: int, floor: int) -> None:
    """Renew the dead positions of buckets first…last-1, which would seem live after 2**31 more rows.

    words (buckets * 16,) uint32, of a table or of its pool; positions below `floor`, an ordinal, are dead. O(buckets).
    """
    bound = U32_OF((floor + 1) & LOW_32)
    for bucket in range(first, last):
        place = bucket * WORDS
        dead = dead_lanes(words, place, bound)
        while dead != 0:
            words[U64(place + POSITIONS + first_one(dead))] = U32_OF(floor & LOW_32)
            dead &= dead - 1
