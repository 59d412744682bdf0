"""Searching sorted runs for probes with few matches each: these are written down at once, ranges are not kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.kernels.compiling import I32, I64, I64_2D, OUT_I32, OUT_U32, U64, kernel
from slidejoin.kernels.memory import load_32, load_64, prefetch_at
from slidejoin.kernels.searching import (
    AUX,
    BASE,
    CHECK_AUX,
    CHECKS,
    DIMENSIONS,
    DIRECTORY,
    KEYS,
    LARGEST,
    ROWS,
    SHIFT,
    SIZE,
    SMALLEST,
    STEP,
    WORDS_AT,
    passes,
    place_of,
    refined,
)
from slidejoin.kernels.words import HALF_LANES, LANES, OUT_WORDS, WORDS, count_below, count_seen, keep_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["find_few", "gather"]

LOW_HALF = 0xFFFFFFFF

LATER = 32
"""Probes ahead of which words are asked for, at the place that the directory gives: it is looked up once, then."""


@kernel(
    I64_2D, I64_2D, I64_2D, I32, I64, I64, I64_2D, I64_2D, I64, OUT_WORDS, returns=types.int64
)  # fmt: skip
def find_few(  # noqa: C901, PLR0912, PLR0915 - one loop: what is near in it stays in registers
    table: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    order: NDArray[np.int32],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    pairs: NDArray[np.uint64],
) -> int:
    """Write the matches of all probes, run by run, as ``probe << 32 | (ordinal + 1) % 2**32``.

    `table`, `seen_from`, `seen_to`, `lows`, `highs` and `dims` are those of `kernels.searching.find`; lo and hi (k, n)
    int64 are in the probes' own order, and `order` (n,) int32 says in which order they are taken. `pairs` (places,)
    uint64. Returns how many pairs there are, or -1 if there may be more than places.
    Expected O(k * runs * n) plus candidates, see `find`.
    """
    n, runs, cursor, room = order.size, table.shape[0], 0, pairs.size - LANES
    pairs_at = np.int64(pairs.ctypes.data)
    one = U64(1)
    guesses = np.empty(n + LATER, np.int64)
    low_of, high_of = np.empty(n, np.int64), np.empty(n, np.int64)
    for column in range(lo.shape[0] * runs):
        piece, r = column // runs, column % runs
        if r == 0:
            for t in range(n):
                low_of[t] = lo[piece, U64(order[U64(t)])]
                high_of[t] = hi[piece, U64(order[U64(t)])]
        words, size, directory = table[r, WORDS_AT], table[r, SIZE], table[r, DIRECTORY]
        smallest, largest, shift, step = table[r, SMALLEST], table[r, LARGEST], U64(table[r, SHIFT]), table[r, STEP]
        base, rows, keys, checks = table[r, BASE], table[r, ROWS], table[r, KEYS], table[r, CHECKS]
        aux, width = table[r, AUX], table[r, DIMENSIONS]
        first_position, bucket_shift = U64(base + 1), shift + U64(step)
        for t in range(min(LATER, n)):
            later = min(max(low_of[U64(t)], smallest), largest)
            guesses[U64(t)] = load_32(directory + (np.int64(U64(int(later) - int(smallest)) >> bucket_shift) << 2))
        for t in range(n):
            later = min(max(low_of[U64(min(t + LATER, n - 1))], smallest), largest)
            soon = np.int64(load_32(directory + (np.int64(U64(int(later) - int(smallest)) >> bucket_shift) << 2)))
            guesses[U64(t + LATER)] = soon
            prefetch_at(words + (soon << 3))
            prefetch_at(words + (soon << 3) + 64)
            i = U64(order[U64(t)])
            low, high = low_of[U64(t)], high_of[U64(t)]
            if low > high or high < smallest or low > largest:
                continue
            first = U64(int(max(low, smallest)) - int(smallest)) >> shift
            bound = first << U64(32)
            guess = guesses[U64(t)]
            at = words + (guess << 3)
            # Two lines hold most buckets, and the whole of a narrow range.
            start = guess + count_below(at, bound) + count_below(at + 64, bound)
            if start == guess + 16:
                start = place_of(words, directory, step, bound)
            end = size
            if high < largest:
                last = U64(int(high) - int(smallest)) >> shift
                past = (last + one) << U64(32)
                end = guess + count_below(at, past) + count_below(at + 64, past)
                if end == guess + 16:
                    end = size
                    if past <= load_64(words + ((size - 1) << 3)):
                        end = place_of(words, directory, step, past)
                if keys != 0 and end > start and load_64(words + ((end - 1) << 3)) >> U64(32) == last:
                    end = refined(keys, place_of(words, directory, step, last << U64(32)), end, int(high) + 1)
            if keys != 0 and start < end and load_64(words + (start << 3)) >> U64(32) == first:
                start = refined(keys, start, end, low)
            if cursor + (end - start) > room:
                return -1
            found = end - start
            if checks < CHECK_AUX and found <= LANES:
                if checks != 0:
                    found = count_seen(words + (start << 3), found, seen_from[i] - base, seen_to[i] - base)
                # All or nothing is written without a branch on which; two comparisons would be one.
                if found * (end - start - found) == 0:
                    at, to = words + (start << 3), pairs_at + (cursor << 3)
                    keep_pairs(at, first_position, i << U64(32), to)
                    if found > HALF_LANES:
                        keep_pairs(at + 8 * HALF_LANES, first_position, i << U64(32), to + 8 * HALF_LANES)
                    cursor += found
                    continue
            seen_low, seen_high = np.int64(0), rows
            if checks != 0:
                seen_low, seen_high = seen_from[i] - base, seen_to[i] - base
            for j in range(start, end):
                offset = load_64(words + (j << 3)) & U64(LOW_HALF)
                inside = (seen_low <= np.int64(offset)) & (np.int64(offset) < seen_high)
                if checks & CHECK_AUX and inside:
                    inside = passes(aux, width, j, i, lows, highs, dims)
                pairs[U64(cursor)] = (i << U64(32)) | ((offset + first_position) & U64(LOW_HALF))
                cursor += inside
    return cursor


@kernel(WORDS, types.int64, types.int64, OUT_I32, OUT_I32, OUT_U32)
def gather(
    pairs: NDArray[np.uint64],
    size: int,
    at: int,
    counts: NDArray[np.int32],
    places: NDArray[np.int32],
    found: NDArray[np.uint32],
) -> None:
    """Write the positions of the first `size` pairs to `found` from place `at` on, one probe after the other.

    counts (n,) int32 takes how many each probe has; places (n,) int32 is scratch. Pairs of one probe keep their order.
    """
    counts[:] = 0
    for p in range(size):
        counts[pairs[U64(p)] >> U64(32)] += 1
    total = at
    for i in range(counts.size):
        places[U64(i)] = total
        total += counts[U64(i)]
    for p in range(size):
        pair = pairs[U64(p)]
        i = pair >> U64(32)
        found[U64(places[i])] = pair & U64(LOW_HALF)
        places[i] += 1
