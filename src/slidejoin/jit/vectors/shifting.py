"""The key ranges of band probes: ranges around values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, OUT_I64_2D, U64, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CALM", "OPEN_HIGH", "OPEN_LOW", "shift_ends", "unite_ends"]

CALM = 1 << 62
"""Values nearer to 0 than this and ends that are no farther from it add up to an int64."""

OPEN_LOW, OPEN_HIGH = -(1 << 63), (1 << 63) - 1
"""These ends stay where they are, whatever the value."""


@kernel(I64, types.int64, I64, I64, OUT_I64_2D, OUT_I64_2D, returns=types.boolean)
def shift_ends(
    values: NDArray[np.int64],
    sign: int,
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
) -> bool:
    """Write the ends ``lows[k] + sign * values[i]`` and ``highs[k] + sign * values[i]`` of each row's ranges.

    values (n,) int64; sign 1 or -1; lows and highs (k,) int64, open or within ±CALM; lo and hi (k, n) int64. Returns
    False, ends undefined, if a value is not within ±CALM. O(k * n).
    """
    far = 0
    for i in range(values.size):
        far += (values[U64(i)] >= CALM) | (values[U64(i)] <= -CALM)
    if far:
        return False
    for k in range(lows.size):
        low, high = lows[k], highs[k]
        for i in range(values.size):
            lo[U64(k), U64(i)] = low if low == OPEN_LOW else low + sign * values[U64(i)]
        for i in range(values.size):
            hi[U64(k), U64(i)] = high if high == OPEN_HIGH else high + sign * values[U64(i)]
    return True


@kernel(I64, I64, I64, I64, OUT_I64_2D, OUT_I64_2D)
def _unite_two(
    values: NDArray[np.int64],
    signs: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
) -> None:
    """Do what `unite_ends` does with two ranges, without a branch."""
    low_one, high_one, sign_one = lows[0], highs[0], signs[0]
    low_two, high_two, sign_two = lows[1], highs[1], signs[1]
    for i in range(values.size):
        value = values[U64(i)]
        one = low_one if low_one == OPEN_LOW else low_one + sign_one * value
        end = high_one if high_one == OPEN_HIGH else high_one + sign_one * value
        two = low_two if low_two == OPEN_LOW else low_two + sign_two * value
        last = high_two if high_two == OPEN_HIGH else high_two + sign_two * value
        begin, begin_last = min(one, two), max(one, two)
        end_first, end_last = (last, end) if two < one else (end, last)
        joined = begin_last <= end_first
        lo[0, U64(i)] = begin
        hi[0, U64(i)] = max(end_first, end_last) if joined else end_first
        lo[1, U64(i)] = 1 if joined else begin_last
        hi[1, U64(i)] = 0 if joined else end_last


@kernel(I64, I64, I64, I64, OUT_I64_2D, OUT_I64_2D, returns=types.boolean)
def unite_ends(
    values: NDArray[np.int64],
    signs: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
) -> bool:
    """Write the ranges ``lows[k] + signs[k] * values[i]`` to ``highs[k] + signs[k] * values[i]``, joined.

    As `shift_ends`, but each range has a sign of its own, so that the order in which they lie is another for each row:
    they ascend, those that overlap are one, and empty ones, (1, 0), come last. O(k * n) if about in order.
    """
    far, pieces = 0, lows.size
    for i in range(values.size):
        far += (values[U64(i)] >= CALM) | (values[U64(i)] <= -CALM)
    if far:
        return False
    if pieces == 2:  # noqa: PLR2004 - the common case: X above one bound, or Y above another
        _unite_two(values, signs, lows, highs, lo, hi)
        return True
    begins, ends = np.empty(pieces, np.int64), np.empty(pieces, np.int64)
    for i in range(values.size):
        value = values[U64(i)]
        for k in range(pieces):
            low = lows[U64(k)] if lows[U64(k)] == OPEN_LOW else lows[U64(k)] + signs[U64(k)] * value
            high = highs[U64(k)] if highs[U64(k)] == OPEN_HIGH else highs[U64(k)] + signs[U64(k)] * value
            at = k
            while at > 0 and begins[U64(at - 1)] > low:
                begins[U64(at)], ends[U64(at)] = begins[U64(at - 1)], ends[U64(at - 1)]
                at -= 1
            begins[U64(at)], ends[U64(at)] = low, high
        last = 0
        for k in range(1, pieces):
            if begins[U64(k)] <= ends[U64(last)]:
                ends[U64(last)] = max(ends[U64(last)], ends[U64(k)])
            else:
                last += 1
                begins[U64(last)], ends[U64(last)] = begins[U64(k)], ends[U64(k)]
        for k in range(pieces):
            lo[U64(k), U64(i)] = begins[U64(k)] if k <= last else 1
            hi[U64(k), U64(i)] = ends[U64(k)] if k <= last else 0
    return True
