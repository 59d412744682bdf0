"""A hash table of cells: rows whose keys lie in one cell of the axis share a bucket of one cache line.

A bucket has 16 words of 32 bits: seven keys, a link, seven positions, and the newest position behind the link::

    word   0 … 6                  7      8 … 14                    15
           key, its low 32 bits   link   position: ordinal + 1     newest position in the linked bucket of the pool

A position is dead once its ordinal lies below the floor, and an insert overwrites any dead one: nothing is ever sorted,
merged or expired. A bucket whose seven rows all live is copied to the pool, linked, and starts again: so the chain
behind a bucket runs from newer to older rows, and ends where the newest position is dead.
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
    "LARGEST",
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

FLOOR, SMALLEST, LARGEST, SHIFT, BUCKETS, CURSOR, SPILLS, STATE = range(8)
"""Places in a table's state, int64 (STATE,): ordinals below FLOOR are dead; SMALLEST and LARGEST key ever inserted; a
cell is ``key >> SHIFT``; how many BUCKETS; the pool's next bucket, CURSOR; how many SPILLS so far."""

AHEAD = 16
"""Rows ahead of which a bucket is asked for: 8 and 24 took 3 to 6 % longer, and doing without three times as long."""

U32_OF = np.uint32
FLAGS: Any = types.Array(types.boolean, 1, "C", readonly=True)
_GOLDEN = 0x9E3779B97F4A7C15


def _plain_bucket_of(cell: int, buckets: int) -> int:
    return (((int(cell) * _GOLDEN) & (2**64 - 1)) >> 32) * int(buckets) >> 32


def _bucket_of(cell: int, buckets: int) -> int:
    high = (U64(cell) * U64(_GOLDEN)) >> U64(32)
    return np.int64((high * U64(buckets)) >> U64(32))  # type: ignore[return-value]


bucket_of: Callable[[Any, Any], int] = _plain_bucket_of if numba.config.DISABLE_JIT else inlined(_bucket_of)
"""The bucket of a cell, by a multiplicative hash scaled to any number of buckets below 2**32."""


@inlined
def _spill(slots: NDArray[np.uint32], pool: NDArray[np.uint32], place: int, chunk: int, floor: np.uint32) -> None:
    """Copy a full bucket to the pool's bucket `chunk`, link it, and empty it."""
    to = chunk * WORDS
    newest = int(slots[U64(place + 8)])
    for word in range(WORDS):
        value = int(slots[U64(place + word)])
        pool[U64(to + word)] = U32_OF(value)
        if LINK < word < NEWEST and (value - newest) & LOW_32 < HALF:
            newest = value
    for word in range(8, NEWEST):
        slots[U64(place + word)] = U32_OF((int(floor) - 1) & LOW_32)
    slots[U64(place + LINK)] = U32_OF(chunk)
    slots[U64(place + NEWEST)] = U32_OF(newest)


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
    ordinals first, first + 1, …; kept (n,) bool, the rows that may match anything, or (0,) for all. O(n).
    """
    shift, buckets, floor = state[SHIFT], state[BUCKETS], U32_OF((state[FLOOR] + 1) & LOW_32)
    chunk, smallest, largest = state[CURSOR], state[SMALLEST], state[LARGEST]
    n, room, j = keys.size, pool.size // WORDS, start
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
            if chunk >= room:
                chunk = 0
            if room == 0 or dead_lanes(pool, chunk * WORDS, floor) & ALL_SLOTS != ALL_SLOTS:
                break
            _spill(slots, pool, place, chunk, floor)
            chunk += 1
            state[SPILLS] += 1
            free = ALL_SLOTS
        slot = place + first_one(free)
        slots[U64(slot)] = U32_OF(key & LOW_32)
        slots[U64(slot + 8)] = U32_OF((first + j + 1) & LOW_32)
        smallest, largest = min(smallest, key), max(largest, key)
        j += 1
    state[CURSOR], state[SMALLEST], state[LARGEST] = chunk, smallest, largest
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
