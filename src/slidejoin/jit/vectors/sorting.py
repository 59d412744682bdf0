"""Radix sort of a batch of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.jit.compiling import I32, I64, OUT_I32, OUT_I64, U64, kernel
from slidejoin.jit.vectors.words import OUT_WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BITS", "SMALL", "settle", "sort_words", "sorted_order"]

SMALL = 256
"""Below this many rows NumPy's comparison sort is faster: a radix pass clears 2,048 counters first."""

BITS = 11
BUCKETS = 1 << BITS


@kernel(I64, types.int64, types.int64, OUT_I32, OUT_I64, OUT_I64, OUT_I32)
def radix_order(
    keys: NDArray[np.int64],
    smallest: int,
    passes: int,
    order: NDArray[np.int32],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    spare: NDArray[np.int32],
) -> None:
    """Write into `order` the places of `keys` in ascending order, least significant digit first; ties keep their order.

    `keys` (n,) int64, `order` and `spare` (n,) int32, `left` and `right` (n,) int64 scratch. `passes` digits of 11 bits
    cover ``max(keys) - smallest``, which may use all 64 bits. O(passes * n).
    """
    n = keys.size
    starts = np.empty(BUCKETS, np.int64)
    for i in range(n):
        left[i] = keys[i] - smallest
        order[i] = i
    for digit in range(passes):
        shift = digit * BITS
        for b in range(BUCKETS):
            starts[b] = 0
        for i in range(n):
            starts[(left[i] >> shift) & (BUCKETS - 1)] += 1
        total = 0
        for b in range(BUCKETS):
            count = starts[b]
            starts[b] = total
            total += count
        for i in range(n):
            b = (left[i] >> shift) & (BUCKETS - 1)
            to = starts[b]
            starts[b] = to + 1
            right[to] = left[i]
            spare[to] = order[i]
        for i in range(n):
            left[i] = right[i]
            order[i] = spare[i]


def sorted_order(keys: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the places of `keys` (n,) int64 in ascending order, as (n,) int32; ties keep their order.

    Examples
    --------
    >>> sorted_order(np.array([30, 10, 20, 10])).tolist()
    [1, 3, 2, 0]
    """
    n = keys.size
    if n == 0:
        return np.empty(0, np.int32)
    smallest, largest = int(keys.min()), int(keys.max())
    passes = -(-(largest - smallest).bit_length() // BITS)
    # Differences of 2**63 and more wrap to negative int64, which a shift would smear; NumPy takes those.
    if n < SMALL or largest - smallest > np.iinfo(np.int64).max:
        return np.argsort(keys, kind="stable").astype(np.int32)
    order, spare = np.empty(n, np.int32), np.empty(n, np.int32)
    radix_order(keys, smallest, passes, order, np.empty(n, np.int64), np.empty(n, np.int64), spare)
    return order


@kernel(I64, I32, types.boolean, types.int64, types.int64, types.int64, OUT_WORDS, OUT_WORDS)
def sort_words(
    keys: NDArray[np.int64],
    chosen: NDArray[np.int32],
    every: bool,
    smallest: int,
    shift: int,
    passes: int,
    words: NDArray[np.uint64],
    spare: NDArray[np.uint64],
) -> None:
    """Write the words of some keys into `words`, sorted by their upper halves; ties stay in arrival order.

    The word of row i is ``(keys[i] - smallest) >> shift`` and below it i, 32 bits each. Rows are those `chosen` (m,)
    int32, or `every` row of keys (n,) int64. `words` and `spare` have room for them; as many `passes` of 11 bits as the
    upper halves need, none to leave them as they come. O(passes * m).
    """
    m = keys.size if every else chosen.size
    # An odd number of passes ends in the other array than it began with.
    source, target = (spare, words) if passes & 1 else (words, spare)
    starts = np.zeros((3, BUCKETS), np.int64)
    mask, half = U64(BUCKETS - 1), U64(32)
    for i in range(m):
        row = i if every else int(chosen[U64(i)])
        distance = U64(int(keys[U64(row)]) - int(smallest)) >> U64(shift)
        source[U64(i)] = (distance << half) | U64(row)
        starts[0, distance & mask] += 1
        starts[1, (distance >> U64(BITS)) & mask] += 1
        starts[2, (distance >> U64(2 * BITS)) & mask] += 1
    for digit in range(passes):
        total = 0
        for b in range(BUCKETS):
            count = starts[digit, b]
            starts[digit, b] = total
            total += count
        down = U64(32 + digit * BITS)
        for i in range(m):
            word = source[U64(i)]
            b = (word >> down) & mask
            to = starts[digit, b]
            starts[digit, b] = to + 1
            target[U64(to)] = word
        source, target = target, source


@kernel(I64, types.int64, OUT_WORDS, OUT_I64, returns=types.boolean)
def settle(keys: NDArray[np.int64], most: int, words: NDArray[np.uint64], ascending: NDArray[np.int64]) -> bool:
    """Put sorted words whose upper halves are equal into the order of their whole keys, and write those.

    `words` (m,) uint64 point into `keys` (n,) int64; `ascending` (m,) int64 is written. Insertion sort; gives up and
    returns False after `most` moves, as both arrays are no good then. O(m + most).
    """
    moves, low_half = 0, U64(0xFFFFFFFF)
    for i in range(ascending.size):
        word = words[U64(i)]
        key = keys[word & low_half]
        j = i
        while j > 0 and ascending[U64(j - 1)] > key:
            ascending[U64(j)], words[U64(j)] = ascending[U64(j - 1)], words[U64(j - 1)]
            j -= 1
            moves += 1
        ascending[U64(j)], words[U64(j)] = key, word
        if moves > most:
            return False
    return True
