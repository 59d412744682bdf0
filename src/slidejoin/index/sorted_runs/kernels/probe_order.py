"""The order in which many probes are taken: nearly ascending by a key, so that they read a run from end to end.

Six keys in stretches of 2**4 from 100 on, one of them below::

    place       0    1     2     3     4     5
    key       130   40   101   131   100   115
    stretch     1          0     1     0     0
    order     1, then 2 4 5, then 0 3
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, OUT_I32, U64, group, kernel
from slidejoin.jit.vectors.sorting import BITS, BUCKETS
from slidejoin.jit.vectors.words import OUT_WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KeyStretches", "rough_order"]


class KeyStretches(NamedTuple):
    """How keys are ordered.

    Attributes
    ----------
    least, most : int
        Probes that look for no key from `least` to `most` are left out.
    smallest, shift : int
        There are 2**22 stretches of 2**shift keys from `smallest` on.
    """

    least: int
    most: int
    smallest: int
    shift: int


KEY_STRETCHES = group(KeyStretches, *[types.int64] * 4)


@kernel(I64, I64, I64, KEY_STRETCHES, OUT_I32, OUT_WORDS, OUT_WORDS, returns=types.int64)
def rough_order(
    keys: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    stretches: KeyStretches,
    order: NDArray[np.int32],
    one: NDArray[np.uint64],
    two: NDArray[np.uint64],
) -> int:
    """Write the places of `keys` (n,) int64 into `order` (n,) int32, in ascending order of stretches of keys.

    What lies outside comes before and behind the stretches. Within a stretch, and outside, keys stay as they come. lo
    and hi (n,) int64 are the ranges of the probes. Returns how many there are. `one` and `two` (n,) uint64 are scratch.
    O(n).
    """
    least, most, smallest, shift = stretches
    starts = np.zeros((2, BUCKETS), np.int64)
    mask, low_half = U64(BUCKETS - 1), U64(0xFFFFFFFF)
    n, below, inside, above = keys.size, 0, 0, 0
    # Many may lie outside: they would all wait for one counter.
    for i in range(n):
        key = keys[U64(i)]
        if hi[U64(i)] < least or lo[U64(i)] > most:
            continue
        if key < smallest:
            order[U64(below)] = i
            below += 1
            continue
        # Differences of 2**63 and more are right as unsigned numbers.
        stretch = U64(int(key) - int(smallest)) >> U64(shift)
        if stretch >= U64(BUCKETS * BUCKETS):
            above += 1
            two[U64(n - above)] = U64(i)
        else:
            one[U64(inside)] = (stretch << U64(32)) | U64(i)
            starts[0, stretch & mask] += 1
            starts[1, stretch >> U64(BITS)] += 1
            inside += 1
    first, second = 0, below
    for b in range(BUCKETS):
        in_first, in_second = starts[0, b], starts[1, b]
        starts[0, b], starts[1, b] = first, second
        first += in_first
        second += in_second
    for at in range(inside):
        b = (one[U64(at)] >> U64(32)) & mask
        two[U64(starts[0, b])] = one[U64(at)]
        starts[0, b] += 1
    for at in range(inside):
        b = two[U64(at)] >> U64(32 + BITS)
        order[U64(starts[1, b])] = two[U64(at)] & low_half
        starts[1, b] += 1
    for at in range(above):
        order[U64(second + at)] = two[U64(n - 1 - at)]
    return second + above
