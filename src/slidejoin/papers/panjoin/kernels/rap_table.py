"""Partitions by splitters: routing rows to them, and adjusting the splitters (PanJoin, III-B.1 and III-E).

Partition i takes the keys that are larger than splitter i - 1 and no larger than splitter i, `splitters` (P - 1,) int64
ascending: the first has no lower end, the last no upper one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, U64, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OUT_I32_2D", "adjust_splitters", "find_partitions", "find_ranges", "spread_splitters"]

OUT_I32_2D = types.Array(types.int32, 2, "C")

FAR = 1 << 61
"""Half of a distance up to which the whole one fits 64 bits."""


@inlined
def _rebound(splitters: Any, start: Any, key: Any) -> Any:  # noqa: ANN401
    """Return the partition of a key: the rebounding binary search from partition `start` on, see Fig. 6.

    Steps are doubled in the forward phase, in the direction of the key, until they have passed it; the backward phase
    is a binary search between the last two. O(log(distance)).
    """
    n, step = splitters.size, np.int64(1)
    low = high = start
    if start < n and splitters[U64(start)] < key:
        low = start + 1
        while low + step <= n and splitters[U64(low + step - 1)] < key:
            low += step
            step <<= 1
        high = min(low + step - 1, n)
    else:
        while step <= high and splitters[U64(high - step)] >= key:
            high -= step
            step <<= 1
        low = max(high - step + 1, 0)
    while low < high:
        middle = (low + high) >> 1
        if splitters[U64(middle)] < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(I64, I64, OUT_I32)
def find_partitions(splitters: NDArray[np.int64], keys: NDArray[np.int64], targets: NDArray[np.int32]) -> None:
    """Write the partition of each key, (n,) int64 best in ascending order, into `targets` (n,) int32. O(n)."""
    partition = np.int64(0)
    for row in range(keys.size):
        partition = _rebound(splitters, partition, keys[U64(row)])
        targets[U64(row)] = partition


@kernel(I64, I32, I64_2D, I64_2D, types.int64, OUT_I32_2D, OUT_I32_2D)
def find_ranges(
    splitters: NDArray[np.int64],
    order: NDArray[np.int32],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    begin: int,
    lows: NDArray[np.int32],
    highs: NDArray[np.int32],
) -> None:
    """Write the partitions of both ends of ranges, see `papers.panjoin.kernels.llat.PartitionScan`. O(probes)."""
    for piece in range(lo.shape[0]):
        low = high = np.int64(0)
        for t in range(order.size):
            i = U64(begin + order[U64(t)])
            if lo[U64(piece), i] <= hi[U64(piece), i]:
                low = _rebound(splitters, low, lo[U64(piece), i])
                high = _rebound(splitters, max(low, high), hi[U64(piece), i])
            lows[U64(piece), U64(t)], highs[U64(piece), U64(t)] = low, high


@inlined
def _between(smallest: Any, largest: Any, part: Any) -> Any:  # noqa: ANN401 - int64 and float64
    """Return the key that lies at a part of the way, 0 to 1, from the smallest to the largest one."""
    middle = (largest >> 1) - (smallest >> 1)
    if middle < FAR:
        key = smallest + np.int64(np.float64(largest - smallest) * part)
    else:
        way = np.int64(np.float64(middle) * part)
        key = smallest + way + way
    return min(key, largest)


@kernel(types.int64, types.int64, OUT_I64)
def spread_splitters(smallest: int, largest: int, splitters: NDArray[np.int64]) -> None:
    """Write splitters (P - 1,) int64 of P partitions of the same width: before any row is known. O(P)."""
    for j in range(splitters.size):
        splitters[U64(j)] = _between(np.int64(smallest), np.int64(largest), (j + 1) / (splitters.size + 1))


@kernel(I64, I64, I64, OUT_I64)
def adjust_splitters(
    counts: NDArray[np.int64], smallest: NDArray[np.int64], largest: NDArray[np.int64], splitters: NDArray[np.int64]
) -> None:
    """Write new splitters by which the rows of the old partitions would be spread evenly: Algorithm 1.

    `counts`, `smallest` and `largest` (Q,) int64 are the histograms of the old partitions, `splitters` (P - 1,) int64;
    P may differ from Q. The j-th one, with bal_j = N/P * j rows up to it, lies in the partition i for which
    ``sum[i-1] < bal_j <= sum[i]``, at ``min_i + (bal_j - sum[i-1]) / count_i * (max_i - min_i)``. The paper's line 7
    has no ``min_i``: it would be a distance from the partition's smallest key, and every splitter would end near 0
    (its worst case has min_1 = 0, so that there it makes no difference). Its line 2 begins with j = 0, for which there
    is no bal_j, here j = 1; and the loop ends at j = P - 1, since bal_P is the end of all. O(P + Q).
    """
    partitions, total, before, j = np.int64(splitters.size + 1), np.int64(0), np.int64(0), np.int64(1)
    for i in range(counts.size):
        total += counts[U64(i)]
    for i in range(counts.size):
        rows = counts[U64(i)]
        # Whole numbers: both sides times P, so that nothing is rounded.
        while j < partitions and rows > 0 and total * j <= (before + rows) * partitions:
            part = (total * j - before * partitions) / (rows * partitions)
            splitters[U64(j - 1)] = _between(smallest[U64(i)], largest[U64(i)], part)
            j += 1
        before += rows
