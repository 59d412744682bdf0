"""The further dimensions of runs and probes.

A run has them, or whole keys, in the order of its words. How far the ranges of a batch of probes reach in them tells
which runs need not be looked through. Three probes, one further dimension; the second has no range of keys::

    probe   keys     dimension 0            10   20   30   40   50   60
      0     5…9      10…40                   ├──────────────┤
      1     empty    0…99
      2     7…8      20…60                        ├───────────────────┤
                                                  ╞═════════╡
    any probe looks for 10…60: runs without such values are skipped
    every probe takes 20…40: rows of a run with these values alone are not checked
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64_2D, U64, inlined, kernel
from slidejoin.jit.vectors.words import WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["find_reach", "gather_further", "take_further"]

LOW_HALF = 0xFFFFFFFF


@inlined
def bound(values: Any, rows: Any, ends: Any) -> None:  # noqa: ANN401 - arrays, int64
    """Write the smallest and the largest of so many values of each dimension; there is one at least."""
    for d in range(values.shape[1]):
        least = most = values[U64(0), U64(d)]
        for row in range(1, rows):
            value = values[U64(row), U64(d)]
            least, most = min(least, value), max(most, value)
        ends[U64(0), U64(d)], ends[U64(1), U64(d)] = least, most


@kernel(WORDS, types.int64, I64_2D, OUT_I64_2D, OUT_I64_2D)
def gather_further(
    words: NDArray[np.uint64],
    size: int,
    values: NDArray[np.int64],
    out: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> None:
    """Write the values of the rows that the first `size` words name, and their bounds.

    values (rows, d) int64 in arrival order; out (size, d) int64, size at least 1; ends (2, d) int64: the smallest and
    the largest value of each dimension. O(size * d).
    """
    for place in range(size):
        row = words[U64(place)] & U64(LOW_HALF)
        for d in range(values.shape[1]):
            out[U64(place), U64(d)] = values[row, U64(d)]
    bound(out, size, ends)


@kernel(WORDS, types.int64, types.uint64, types.uint64, I64_2D, OUT_I64_2D, OUT_I64_2D, returns=types.int64)
def take_further(
    words: NDArray[np.uint64],
    size: int,
    low: np.uint64,
    high: np.uint64,
    values: NDArray[np.int64],
    out: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> int:
    """Write the values of those of the first `size` words whose offset is ``low <= o < high``; return how many.

    values (size, d) int64 in the order of the words; out (m, d) int64 with room for one row more than are taken; ends
    (2, d) int64: bounds as of `gather_further`, if any are taken. O(size * d), without a branch that depends on a word.
    """
    taken = 0
    for place in range(size):
        row = words[U64(place)] & U64(LOW_HALF)
        for d in range(values.shape[1]):
            out[U64(taken), U64(d)] = values[U64(place), U64(d)]
        taken += (low <= row) & (row < high)
    if taken > 0:
        bound(out, taken, ends)
    return taken


@kernel(I64_2D, I64_2D, I64_2D, I64_2D, I64, OUT_I64_2D)
def find_reach(
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    aux_lo: NDArray[np.int64],
    aux_hi: NDArray[np.int64],
    dims: NDArray[np.int64],
    reach: NDArray[np.int64],
) -> None:
    """Narrow or widen the bounds of each dimension by the ranges of all probes that have a range of keys.

    Parameters
    ----------
    lo, hi : (k, n) int64
        Ranges of keys; empty where ``lo > hi``.
    aux_lo, aux_hi : (p, n) int64
        Ranges of the further dimensions.
    dims : (p,) int64
        Which dimension each of them is of.
    reach : (4, d) int64
        The lowest and the highest value that any probe looks for, which are widened; and the values between which every
        probe takes all, which are narrowed. Several ranges of a dimension leave gaps: nothing is covered then.
    """
    looks = np.zeros(lo.shape[1], np.uint8)
    for piece in range(lo.shape[0]):
        for i in range(looks.size):
            looks[U64(i)] |= lo[U64(piece), U64(i)] <= hi[U64(piece), U64(i)]
    for piece in range(dims.size):
        d = dims[piece]
        low, high, inner_low, inner_high = reach[0, d], reach[1, d], reach[2, d], reach[3, d]
        for i in range(looks.size):
            if looks[U64(i)]:
                begin, end = aux_lo[U64(piece), U64(i)], aux_hi[U64(piece), U64(i)]
                low, inner_low = min(low, begin), max(inner_low, begin)
                high, inner_high = max(high, end), min(inner_high, end)
        reach[0, d], reach[1, d], reach[2, d], reach[3, d] = low, high, inner_low, inner_high
