"""Finding where the ranges of a batch of probes begin and end in sorted runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.compiling import I32, I64, I64_2D, OUT_I64, OUT_I64_2D, OUT_U32, U64, inlined, kernel
from slidejoin.kernels.memory import load_32, load_64, prefetch_at
from slidejoin.kernels.words import LANES, WORDS, count_below, count_seen, keep_offsets, load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "AUX", "BASE", "CHECKS", "DIMENSIONS", "DIRECTORY", "FIELDS", "KEYS", "LARGEST", "ROWS", "SHIFT", "SIZE",
    "SMALLEST", "STEP", "WORDS_AT", "close_directory", "find", "mark_directory", "passes",
]  # fmt: skip

WORDS_AT, SIZE, SMALLEST, LARGEST, SHIFT, STEP, DIRECTORY, BASE, ROWS, KEYS, AUX, DIMENSIONS, CHECKS = range(13)
"""A run as one line of int64 in a table: kernels take all runs of a chain at once.

Addresses of the words, of the directory (uint32), of whole keys (int64, 0 if the words hold them), of the further
dimensions; how many rows have a key; smallest and largest key; bits that words lack at the end of a key; the same of
the directory's buckets; the run's first ordinal, the ordinals it spans; dimensions; and what to check of a candidate.
"""
FIELDS = 13

CHECK_SEEN, CHECK_AUX = 1, 2
"""What is checked of a candidate: that the probe may see its ordinal; that it passes the further dimensions."""

AHEAD = 16
"""Probes ahead of which words are asked for, and twice that for directories: they are read at random, from memory in
the worst case."""


@kernel(WORDS, types.int64, types.int64, types.int64, OUT_U32)
def mark_directory(words: NDArray[np.uint64], first: int, last: int, step: int, directory: NDArray[np.uint32]) -> None:
    """Note for each bucket of the places first…last-1 where it ends; buckets are the words' upper halves >> `step`.

    `directory` (buckets + 1,) uint32, zeros at first. Stretches come in ascending order. O(last - first).
    """
    shift = U64(32 + step)
    for place in range(first, last):
        directory[(words[U64(place)] >> shift) + U64(1)] = place + 1


@kernel(OUT_U32)
def close_directory(directory: NDArray[np.uint32]) -> None:
    """Give buckets without a word the end of those before them: entry b is the first place of bucket b or later."""
    ended = directory[0]
    for bucket in range(directory.size):
        ended = max(ended, directory[U64(bucket)])
        directory[U64(bucket)] = ended


@inlined
def place_of(words: Any, directory: Any, step: int, bound: Any) -> Any:  # noqa: ANN401 - int64, bound uint64
    """Return the first place with a word >= `bound`, which is no larger than the run's last word."""
    entry = directory + (np.int64(bound >> U64(32 + step)) << 2)
    low = np.int64(load_32(entry))
    size = np.int64(load_32(entry + 4)) - low
    # No branch depends on a word: a bucket of many words is halved, its last eight are compared at once.
    while size > LANES:
        half = size >> 1
        low += half * (load_64(words + ((low + half - 1) << 3)) < bound)
        size -= half
    return low + count_below(words + (low << 3), bound)


@inlined
def refined(keys: int, low: int, high: int, bound: int) -> int:
    """Return the first place from `low` on, `high` at the latest, whose whole key is >= `bound`."""
    while low < high:
        middle = (low + high) >> 1
        if load_key(keys + (middle << 3)) < bound:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def passes(aux: int, width: int, j: int, i: Any, lows: Any, highs: Any, dims: Any) -> bool:  # noqa: ANN401
    """Tell whether stored row j lies in one range of probe i in every dimension of `aux`."""
    piece = 0
    while piece < dims.size:
        d = dims[piece]
        value = load_key(aux + ((j * width + d) << 3))
        inside = False
        while piece < dims.size and dims[piece] == d:
            inside |= (lows[piece, i] <= value) & (value <= highs[piece, i])
            piece += 1
        if not inside:
            return False
    return True


@kernel(
    I64_2D, I64_2D, I64_2D, I32, I64, I64, I64_2D, I64_2D, I64, OUT_I64_2D, OUT_U32, OUT_I64
)  # fmt: skip
def find(  # noqa: C901, PLR0912, PLR0915 - one loop: what is near in it stays in registers
    table: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    order: NDArray[np.int32],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    ranges: NDArray[np.int64],
    kept: NDArray[np.uint32],
    counts: NDArray[np.int64],
) -> None:
    """Write the places of every probe's ranges in every run, and how many rows of them are matches.

    `table` (runs, FIELDS) int64; lo and hi (k, n) int64, both ends included, ``lo > hi`` an empty range. Probes come
    in any order, best in that of their keys: each reads a line of every run, from memory at worst. `order` (n,) int32
    says which probe each is among `lows` and `highs`. `counts` (n,) int64. `ranges` (n, k * runs) int64 takes
    ``start << 32 | end`` of a range of more than eight rows. The matches of a shorter one, whose line is at hand now,
    go to `kept`, uint32 with room for eight a range and eight more, and `ranges` takes ``-1 - (place << 4 | matches)``.
    A run whose CHECKS are 0 is counted by its range alone (PanJoin, III-D); of others each candidate j of probe i needs
    ``seen_from[i] <= ordinal < seen_to[i]``, and dimension ``dims[p]`` in one of the ranges [lows[p, i], highs[p, i]].
    Expected O(k * runs * n) plus candidates, for keys of any distribution O(k * runs * n * log(largest run)).
    """
    n, runs, cursor = counts.size, table.shape[0], np.int64(0)
    kept_at = np.int64(kept.ctypes.data)
    for t in range(n):
        counts[t] = 0
    for column in range(lo.shape[0] * runs):
        piece, r = column // runs, column % runs
        words, size, directory = table[r, WORDS_AT], table[r, SIZE], table[r, DIRECTORY]
        smallest, largest, shift, step = table[r, SMALLEST], table[r, LARGEST], U64(table[r, SHIFT]), table[r, STEP]
        base, rows, keys, checks = table[r, BASE], table[r, ROWS], table[r, KEYS], table[r, CHECKS]
        aux, width = table[r, AUX], table[r, DIMENSIONS]
        for t in range(n):
            later = lo[piece, U64(min(t + AHEAD, n - 1))]
            if smallest < later <= largest:
                entry = directory + (np.int64(U64(int(later) - int(smallest)) >> shift >> U64(step)) << 2)
                soon = words + (np.int64(load_32(entry)) << 3)
                prefetch_at(soon)
                prefetch_at(soon + 64)
            i = U64(t)
            low, high = lo[piece, i], hi[piece, i]
            if low > high or high < smallest or low > largest:
                ranges[i, column] = -1
                continue
            # A difference of 2**63 and more is right as an unsigned number.
            first = U64(int(low) - int(smallest)) >> shift if low > smallest else U64(0)
            bound = first << U64(32)
            guess = np.int64(load_32(directory + (np.int64(first >> U64(step)) << 2)))
            at = words + (guess << 3)
            # Two lines hold most buckets, and the whole of a narrow range.
            start = guess + count_below(at, bound) + count_below(at + 64, bound)
            if start == guess + 16:
                start = place_of(words, directory, step, bound)
            end = size
            if high < largest:
                last = U64(int(high) - int(smallest)) >> shift
                past = (last + U64(1)) << U64(32)
                end = guess + count_below(at, past) + count_below(at + 64, past)
                if end == guess + 16:
                    end = size if past > load_64(words + ((size - 1) << 3)) else place_of(words, directory, step, past)
                if keys != 0 and end > start and load_64(words + ((end - 1) << 3)) >> U64(32) == last:
                    end = refined(keys, place_of(words, directory, step, last << U64(32)), end, int(high) + 1)
            if keys != 0 and start < end and load_64(words + (start << 3)) >> U64(32) == first:
                start = refined(keys, start, end, low)
            low, high = np.int64(0), rows
            if checks != 0:
                low, high = max(seen_from[i] - base, 0), min(seen_to[i] - base, rows)
            if end - start > LANES:
                ranges[i, column] = (start << 32) | end
                found = end - start
                if checks == CHECK_SEEN:
                    found = 0
                    for j in range(start, end, LANES):
                        found += count_seen(words + (j << 3), min(end - j, LANES), low, high)
                elif checks != 0:
                    found = 0
                    for j in range(start, end):
                        offset = np.int64(load_64(words + (j << 3)) & U64(0xFFFFFFFF))
                        if low <= offset < high and passes(aux, width, j, U64(order[i]), lows, highs, dims):
                            found += 1
                counts[i] += found
                continue
            found = end - start
            if checks == 0:
                keep_offsets(words + (start << 3), kept_at + (cursor << 2))
            else:
                found = 0
                # Two without a branch that could be guessed wrong: most ranges have no more.
                for step_of_two in range(2):
                    j = start + step_of_two
                    offset = np.int64(load_64(words + (j << 3)) & U64(0xFFFFFFFF))
                    inside = (j < end) & (low <= offset) & (offset < high)
                    if checks != CHECK_SEEN and inside:
                        inside = passes(aux, width, j, U64(order[i]), lows, highs, dims)
                    kept[U64(cursor + found)] = offset
                    found += inside
                for j in range(start + 2, end):
                    offset = np.int64(load_64(words + (j << 3)) & U64(0xFFFFFFFF))
                    inside = (low <= offset) & (offset < high)
                    if checks != CHECK_SEEN and inside:
                        inside = passes(aux, width, j, U64(order[i]), lows, highs, dims)
                    kept[U64(cursor + found)] = offset
                    found += inside
            ranges[i, column] = -1 - ((cursor << 4) | found)
            counts[i] += found
            cursor += found
