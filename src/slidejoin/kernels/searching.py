"""Finding where the ranges of a batch of probes begin and end in a sorted run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.kernels.compiling import I32, I64, OUT_I32, U64, inlined, kernel
from slidejoin.kernels.vectors import LANES, count_below

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["locate"]


@inlined
def _first_not_below(keys: NDArray[np.int64], at: int, bound: int) -> int:
    """Return the first place from `at` on whose key is >= `bound`: strides that double, then halve, then one block."""
    n = keys.size
    stride = LANES
    low = at
    while low + stride <= n and keys[U64(low + stride - 1)] < bound:
        low += stride
        stride <<= 1
    # The place is within [low, low + stride): every halving keeps keys[low - 1] < bound.
    stride >>= 1
    while stride >= LANES:
        if low + stride <= n and keys[U64(low + stride - 1)] < bound:
            low += stride
        stride >>= 1
    if low + LANES <= n:
        # All keys of a block are compared and counted, which needs no branch that could be guessed wrong.
        return low + count_below(keys, low, bound)
    while low < n and keys[U64(low)] < bound:
        low += 1
    return low


@kernel(I64, I64, I64, I32, OUT_I32, OUT_I32)
def locate(
    keys: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    order: NDArray[np.int32],
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
) -> None:
    """Write for each probe i the run's places [starts[i], ends[i]) with ``lo[i] <= key <= hi[i]`` (PanJoin, III-E).

    The rebounding search: probes are taken in `order`, ascending by `lo`, and each search starts where the last one
    ended. keys (m,), lo and hi (n,) int64, both ends included, ``lo > hi`` an empty range; order, starts and ends (n,)
    int32. O(n log(m / n)).
    """
    at = 0
    largest = np.iinfo(np.int64).max
    for t in range(order.size):
        i = U64(order[t])
        if lo[i] > hi[i]:
            starts[i] = 0
            ends[i] = 0
            continue
        at = _first_not_below(keys, at, lo[i])
        starts[i] = at
        ends[i] = keys.size if hi[i] == largest else _first_not_below(keys, at, hi[i] + 1)
