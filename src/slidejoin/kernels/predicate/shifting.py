"""The key ranges of band probes: ranges around values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.kernels.jit.compiling import I64, OUT_I64_2D, U64, kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CALM", "OPEN_HIGH", "OPEN_LOW", "shift_ends"]

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
