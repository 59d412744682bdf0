"""Sorting a batch of keys: a radix sort that carries the places along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.kernels.compiling import I64, OUT_I32, OUT_I64, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SMALL", "sorted_order"]

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
