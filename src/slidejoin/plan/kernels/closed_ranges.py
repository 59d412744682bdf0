"""Closed ranges: how far two keys of each row are apart, and the ranges that follow from it.

See `slidejoin.plan.closed_ranges` for what is computed and why it is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.jit.compiling import I64, OUT_I64, U64, kernel
from slidejoin.jit.vectors.shifting import OPEN_HIGH, OPEN_LOW

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["NEAR", "SHIFTS", "find_ranges", "key_distances", "near"]

NEAR = 1 << 60
"""Values nearer to 0 than this, constants no farther from it, and distances up to twice as far add up to an int64."""

SHIFTS = 9
"""Words of the shifts of two terms, see `find_ranges`."""


@kernel(I64, I64, OUT_I64, returns=types.boolean)
def key_distances(one: NDArray[np.int64], two: NDArray[np.int64], ends: NDArray[np.int64]) -> bool:
    """Write the smallest and the largest ``two[i] - one[i]``; return False if some do not fit int64.

    one and two (n,) int64, at least one row; ends (2,) int64. O(n).
    """
    low, high, wrong = OPEN_HIGH, OPEN_LOW, 0
    for i in range(one.size):
        a, b = one[U64(i)], two[U64(i)]
        apart = b - a
        low, high = min(low, apart), max(high, apart)
        wrong |= (b ^ a) & (b ^ apart)
    ends[0], ends[1] = low, high
    return wrong >= 0


@kernel(I64, I64, returns=types.boolean)
def near(one: NDArray[np.int64], two: NDArray[np.int64]) -> bool:
    """Tell whether the keys of two terms, (n,) int64 each, lie within ±NEAR. O(n)."""
    far = 0
    for i in range(one.size):
        far += (one[U64(i)] >= NEAR) | (one[U64(i)] <= -NEAR) | (two[U64(i)] >= NEAR) | (two[U64(i)] <= -NEAR)
    return far == 0


@kernel(I64, I64, I64, OUT_I64, OUT_I64, OUT_I64, OUT_I64)
def find_ranges(
    one: NDArray[np.int64],
    two: NDArray[np.int64],
    shifts: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
) -> None:
    """Write the ranges lo…hi of the first term's keys, closed or not, and the ranges lows…highs of the second one's.

    Parameters
    ----------
    one, two
        (n,) int64, the probes' own keys of both terms, `near`.
    shifts
        (SHIFTS,) int64: of the first term the sign, and the lower and the upper end that are added to it; open or
        within ±NEAR; the same of the second one; whether the first term's ranges are closed by the second one's, and
        by which distances of stored rows: within ±2 * NEAR.
    lo, hi, lows, highs
        (n,) int64; ``lo > hi`` is empty.

    O(n).
    """
    n = one.size
    sign, below, above = shifts[0], shifts[1], shifts[2]
    its_sign, its_below, its_above = shifts[3], shifts[4], shifts[5]
    closing, low, high = shifts[6] != 0, shifts[7], shifts[8]
    for i in range(n):
        lows[U64(i)] = OPEN_LOW if its_below == OPEN_LOW else its_below + its_sign * two[U64(i)]
    for i in range(n):
        highs[U64(i)] = OPEN_HIGH if its_above == OPEN_HIGH else its_above + its_sign * two[U64(i)]
    for i in range(n):
        own = OPEN_LOW if below == OPEN_LOW else below + sign * one[U64(i)]
        lo[U64(i)] = own if its_below == OPEN_LOW or not closing else max(own, lows[U64(i)] - high)
    for i in range(n):
        own = OPEN_HIGH if above == OPEN_HIGH else above + sign * one[U64(i)]
        hi[U64(i)] = own if its_above == OPEN_HIGH or not closing else min(own, highs[U64(i)] - low)
