"""How far the ranges of a batch of probes reach in the further dimensions.

Three probes, one further dimension; the second probe has no range of keys and does not count::

    probe   keys     dimension 0            10   20   30   40   50   60
      0     5…9      10…40                   ├──────────────┤
      1     empty    0…99
      2     7…8      20…60                        ├───────────────────┤
                                                  ╞═════════╡
    any probe looks for 10…60: runs without such values are skipped
    every probe takes 20…40: rows of a run with these values alone are not checked
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64_2D, U64, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["find_reach"]


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
