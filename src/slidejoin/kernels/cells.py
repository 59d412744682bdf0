"""A hash table of cells: rows whose keys lie in one cell of the axis share a bucket of one cache line.

A bucket has 16 words of 32 bits: seven keys, a link, seven positions, and the newest position behind the link::

    word   0 … 6                  7      8 … 14                    15
           key, its low 32 bits   link   position: ordinal + 1     newest position behind the link

A position is dead once its ordinal lies below the floor, and an insert overwrites any dead one: nothing is ever sorted,
merged or expired. A bucket whose seven rows all live is copied to a line of the pool, linked, and starts again. Lines
of one bucket lie side by side in chunks of `LINES`, filled upwards; each of them links to the chunk behind. So the
chain behind a bucket runs from newer to older rows, one dependent read from memory for every four lines, and ends where
the newest position is dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import types

from slidejoin.kernels.compiling import I64, OUT_I64, OUT_U32, U64, inlined, kernel, prefetch
from slidejoin.kernels.vectors import LOW_32, dead_lanes, first_one

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "BUCKETS",
    "CURSOR",
    "FLOOR",
    "GOLDEN",
    "HALF",
    "LARGEST",
    "LINES",
    "LINK",
    "NEWEST",
    "SHIFT",
    "SLOTS",
    "SMALLEST",
    "SPILLS",
    "STATE",
    "WORDS",
    "bucket_of",
    "insert_cells",
    "sweep_cells",
]

WORDS, SLOTS, LINK, NEWEST = 16, 7, 7, 15
ALL_SLOTS = (1 << SLOTS) - 1
HALF = 1 << 31

LINES = 4
"""Lines of a chunk of the pool."""

FLOOR, SMALLEST, LARGEST, SHIFT, BUCKETS, CURSOR, SPILLS, STATE = range(8)
"""Places in a table's state, int64 (STATE,): ordinals below FLOOR are dead; SMALLEST and LARGEST key ever inserted; a
cell is ``key >> SHIFT``; how many BUCKETS; the pool's next chunk, CURSOR, by its first line; how many SPILLS so far."""

AHEAD = 16
"""Rows ahead of which a bucket is asked for: 8 and 24 took 3 to 6 % longer, and doing without three times as long."""

U32_OF = np.uint32
FLAGS: Any = types.Array(types.boolean, 1, "C", readonly=True)
GOLDEN = 0x9E3779B97F4A7C15


def _plain_bucket_of(cell: int, buckets: int) -> int:
    return (((int(cell) * GOLDEN) & (2**64 - 1)) >> 32) * int(buckets) >> 32


def _bucket_of(cell: int, buckets: int) -> int:
    high = (U64(cell) * U64(GOLDEN)) >> U64(32)
    return np.int64((high * U64(buckets)) >> U64(32))  # type: ignore[return-value]


bucket_of: Callable[[Any, Any], int] = _plain_bucket_of if numba.config.DISABLE_JIT else inlined(_bucket_of)
"""The bucket of a cell, by a multiplicative hash scaled to any number of buckets below 2**32."""


@inlined
def _spill(slots: NDArray[np.uint32], pool: NDArray[np.uint32], place: int, line: int, floor: int) -> None:
    """Copy a full bucket to a line of the pool, link it, and empty it."""
    to, link, behind = line * WORDS, int(slots[U64(place + LINK)]), int(slots[U64(place + NEWEST)])
    newest = int(slots[U64(place + 8)])
    for word in range(WORDS):
        value = int(slots[U64(place + word)])
        pool[U64(to + word)] = U32_OF(value)
        if LINK < word < NEWEST and (value - newest) & LOW_32 < HALF:
            newest = value
    if line % LINES != 0:
        # One more line of the chunk at the head of the chain: all of them link to the chunk behind it.
        behind, link = int(pool[U64(to - WORDS + NEWEST)]), int(pool[U64(to - WORDS + LINK)])
    pool[U64(to + LINK)], pool[U64(to + NEWEST)] = U32_OF(link), U32_OF(behind)
    for word in range(8, NEWEST):
        slots[U64(place + word)] = U32_OF((floor - 1) & LOW_32)
    slots[U64(place + LINK)], slots[U64(place + NEWEST)] = U32_OF(line), U32_OF(newest)


@inlined
def _is_free(pool: NDArray[np.uint32], line: int, floor: np.uint32) -> bool:
    """Tell whether every row in the chunk that begins with that line is dead."""
    dead = ALL_SLOTS
    for one in range(line, line + LINES):
        dead &= dead_lanes(pool, one * WORDS, floor)
    return dead == ALL_SLOTS


@kernel(OUT_U32, OUT_U32, OUT_I64, I64, FLAGS, types.int64, types.int64, returns=types.int64)
def insert_cells(
    slots: NDArray[np.uint32],
    pool: NDArray[np.uint32],
    state: NDArray[np.int64],
    keys: NDArray[np.int64],
    kept: NDArray[np.bool_],
    start: int,
    first: int,
) -> int:
    """Insert rows start, start + 1, … and return where it stopped: at the end, or at a row that needs a larger pool.

    slots and pool (buckets * 16,) uint32; state (STATE,) int64, kept up to date; keys (n,) int64 of the rows with the
    ordinals first, first + 1, …; kept (n,) bool, the rows that may match anything, or (0,) for all. Of the pool, whole
    chunks are used. O(n).
    """
    shift, buckets, bottom = state[SHIFT], state[BUCKETS], int((state[FLOOR] + 1) & LOW_32)
    floor, cursor = U32_OF(bottom), int(state[CURSOR])
    smallest, largest = state[SMALLEST], state[LARGEST]
    n, room, j = keys.size, pool.size // (WORDS * LINES) * LINES, start
    for i in range(start, min(start + AHEAD, n)):
        prefetch(slots, bucket_of(keys[U64(i)] >> shift, buckets) * WORDS)
    while j < n:
        prefetch(slots, bucket_of(keys[U64(min(j + AHEAD, n - 1))] >> shift, buckets) * WORDS)
        if kept.size > 0 and not kept[U64(j)]:
            j += 1
            continue
        key = keys[U64(j)]
        place = bucket_of(key >> shift, buckets) * WORDS
        free = dead_lanes(slots, place, floor) & ALL_SLOTS
        if free == 0:
            line = int(slots[U64(place + LINK)]) + 1
            if (int(slots[U64(place + NEWEST)]) - bottom) & LOW_32 >= HALF or line % LINES == 0:
                cursor = 0 if cursor >= room else cursor
                if room == 0 or not _is_free(pool, cursor, floor):
                    break
                line, cursor = cursor, cursor + LINES
            _spill(slots, pool, place, line, bottom)
            state[SPILLS] += 1
            free = ALL_SLOTS
        slot = place + first_one(free)
        slots[U64(slot)] = U32_OF(key & LOW_32)
        slots[U64(slot + 8)] = U32_OF((first + j + 1) & LOW_32)
        smallest, largest = min(smallest, key), max(largest, key)
        j += 1
    state[CURSOR], state[SMALLEST], state[LARGEST] = cursor, smallest, largest
    return j


@kernel(OUT_U32, types.int64, types.int64, types.int64)
def sweep_cells(words: NDArray[np.uint32], first: int, last: int, floor: int) -> None:
    """Renew the dead positions of buckets first…last-1, which would seem alive after 2**31 more rows.

    words (buckets * 16,) uint32, of a table or of its pool; positions below `floor`, an ordinal, are dead. O(buckets).
    """
    bound = U32_OF((floor + 1) & LOW_32)
    for bucket in range(first, last):
        place = bucket * WORDS
        dead = dead_lanes(words, place, bound)
        while dead != 0:
            words[U64(place + 8 + first_one(dead))] = U32_OF(floor & LOW_32)
            dead &= dead - 1
