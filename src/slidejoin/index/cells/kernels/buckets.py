"""The hash function of cell tables, and how far apart keys may be for 32 bits to identify them.

A bucket stores the low 32 bits of a key. The rest follows from its place: a cell's hash is that of its low bits, plus a
step for each 2**32 between the key and 0. Cells with equal low bits are so far apart in the table that no line takes
rows of both, up to `reach_of`: about ``2**28`` times the number of buckets. One multiplication does both, with a
multiplier whose low bits are the step and whose high bits are a fraction of 2**64 for spreading.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numba
import numpy as np

from slidejoin.jit.compiling import U64, inlined
from slidejoin.jit.vectors.vectors import LOW_32

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "BUCKETS",
    "CURSOR",
    "DEEP",
    "FLOOR",
    "GOLDEN",
    "LARGEST",
    "MULTIPLIER",
    "SHIFT",
    "SMALLEST",
    "SPILLS",
    "SPREAD",
    "STATE",
    "STEP",
    "bucket_of",
    "new_state",
    "reach_of",
    "spread_of",
    "step_of",
    "whole_key",
]

FLOOR, SMALLEST, LARGEST, SHIFT, BUCKETS, SPREAD, STEP, MULTIPLIER, CURSOR, SPILLS, DEEP, STATE = range(12)
"""Places in a table's state, int64 (STATE,): ordinals below FLOOR are dead; SMALLEST and LARGEST key ever inserted; a
cell is ``key >> SHIFT``; how many BUCKETS; how many lines from its bucket on a cell may fill, SPREAD; how far apart in
2**32 hashes keys lie that are 2**32 apart, STEP; the MULTIPLIER of `bucket_of`; the pool's next chunk, CURSOR, by its
first line; how many rows came to a full bucket, SPILLS, and whether these were many of the last ones, DEEP."""

WIDEST_SPREAD = 16
BUCKETS_A_SPREAD = 8
"""Buckets of small tables for each line that a cell may fill."""

GOLDEN = 0x9E3779B97F4A7C15
"""2**64 over the golden ratio, the multiplier that spreads numbers in a row evenly."""

CANDIDATES = 32
FINE = 24
HASHES = 1 << 32


def spread_of(buckets: int) -> int:
    """Return how many lines a cell may fill in a table of that many buckets."""
    return min(WIDEST_SPREAD, max(buckets // BUCKETS_A_SPREAD, 1))


def step_of(buckets: int) -> int:
    """Return how far apart the hashes of two cells must be so that no line takes rows of both."""
    return -(-HASHES // buckets) * spread_of(buckets)


def reach_of(buckets: int) -> int:
    """Return how far apart keys may be at most so that 32 bits and the place identify them.

    Examples
    --------
    >>> reach_of(1 << 19) == 2**47 - 1
    True
    """
    return HASHES // step_of(buckets) * HASHES - 1


def new_state(first: int, shift: int, buckets: int, *, wide: bool = False) -> NDArray[np.int64]:
    """Return the state of an empty table, (STATE,) int64, whose rows have ordinals from `first` on.

    In a `wide` one, whose rows are checked by their whole keys, a place need not tell keys apart: cells are spread
    evenly whichever of their bits differ.
    """
    state, ends, step = np.zeros(STATE, np.int64), np.iinfo(np.int64), step_of(buckets)
    state[[FLOOR, SMALLEST, LARGEST, SHIFT, BUCKETS]] = first, ends.max, ends.min, shift, buckets
    state[[SPREAD, STEP]] = spread_of(buckets), step
    state[MULTIPLIER : MULTIPLIER + 1].view(np.uint64)[0] = GOLDEN if wide else _multiplier(32 - shift, step << shift)
    return state


@cache
def _multiplier(bits: int, low: int) -> int:
    """Return a multiplier with those low bits and `bits` high ones that spreads neighbouring cells evenly.

    It is the one, of some near the golden ratio of 2**64, whose continued fraction has the smallest largest term:
    with large terms, cells in a row crowd in some buckets, and with dense keys three times as many of these ran full.
    """
    near = [(((GOLDEN >> (64 - bits)) + 2 * i | 1) << (64 - bits)) + low for i in range(CANDIDATES)]
    return min((one & (2**64 - 1) for one in near), key=lambda one: _largest_term(one, 1 << min(bits, FINE)))


def _largest_term(multiplier: int, most: int) -> int:
    """Return the largest term of the continued fraction of ``multiplier / 2**64``, up to denominators of `most`."""
    above, below, one, two, worst = 1 << 64, multiplier, 0, 1, 0
    while below and two < most:
        term = above // below
        one, two, worst = two, term * two + one, max(worst, term)
        above, below = below, above - term * below
    return worst


def _plain_bucket_of(cell: int, buckets: int, multiplier: int) -> int:
    return (((int(cell) * int(multiplier)) & (2**64 - 1)) >> 32) * int(buckets) >> 32


def _bucket_of(cell: int, buckets: int, multiplier: int) -> int:
    high = (U64(cell) * U64(multiplier)) >> U64(32)
    return np.int64((high * U64(buckets)) >> U64(32))  # type: ignore[return-value]


bucket_of: Callable[[Any, Any, Any], int] = _plain_bucket_of if numba.config.DISABLE_JIT else inlined(_bucket_of)
"""The bucket of a cell: the high half of a product, scaled to any number of buckets below 2**32."""


def _plain_whole_key(word: int, line: int, state: NDArray[np.int64]) -> int:
    smallest, shift, buckets, step = (int(state[at]) for at in (SMALLEST, SHIFT, BUCKETS, STEP))
    key = smallest + ((int(word) - smallest) & LOW_32)
    hashed = ((key >> shift) * int(state[MULTIPLIER]) & (2**64 - 1)) >> 32
    last = -(-((line + 1) << 32) // buckets) - 1
    return key + (((last - hashed) & LOW_32) // step << 32)


def _whole_key(word: int, line: int, state: NDArray[np.int64]) -> int:
    smallest = np.int64(state[SMALLEST])
    key = smallest + np.int64((np.int64(word) - smallest) & LOW_32)
    hashed = np.int64((U64(key >> state[SHIFT]) * U64(state[MULTIPLIER])) >> U64(32))
    last = ((np.int64(line) + 1 << 32) + state[BUCKETS] - 1) // state[BUCKETS] - 1
    return key + (((last - hashed) & LOW_32) // state[STEP] << 32)  # type: ignore[no-any-return]


whole_key = cast("Any", _plain_whole_key if numba.config.DISABLE_JIT else inlined(_whole_key))
"""The key that has those low 32 bits and is in that line: the only one, where all keys lie within `reach_of`.

Its hash is among the STEP ones up to the last of the line; those of keys alike in 32 bits are as far apart.
"""
