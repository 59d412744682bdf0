"""Counting the matches of probes that are sorted by their own keys, with ranges around those keys.

The beginnings and the ends of the ranges are two ascending sequences, so a run is read sequentially for each. The count
of a run whose rows are all visible to every probe is the length of the range; for other runs the range is stored, see
`index.sorted_runs.kernels.visibility`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.index.kernels.range_ends import AIMS, BLOCK, ORDERED, Ordered, aim_around, ask_ahead, locate, scratch_for
from slidejoin.index.kernels.searching import CHECKS
from slidejoin.jit.compiling import I64_2D, OUT_I64, U64, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["count_around"]

OUT_U64_2D = types.Array(types.uint64, 2, "C")


@kernel(I64_2D, ORDERED, OUT_I64, OUT_U64_2D)
def count_around(
    table: NDArray[np.int64], probes: Ordered, counts: NDArray[np.int64], ranges: NDArray[np.uint64]
) -> None:
    """Write how many rows lie in the ranges of all probes, in runs without checks, and the ranges in those with them.

    `table` (runs, FIELDS) int64 of runs whose words contain whole keys. `counts` (n,) int64 and `ranges` (checked runs,
    n) uint64, ``start << 32 | end``, are in arrival order. Expected O(runs * n).
    """
    runs, n, words = table.shape[0], probes.size, probes.words
    scratch = scratch_for(runs)
    aims, starts, ends = scratch.aims, scratch.starts, scratch.ends
    totals = np.empty(BLOCK, np.int64)
    turn = 0
    aim_around(table, probes, 0, aims, 0)
    for r in range(runs):
        ask_ahead(table, r, min(BLOCK, n), 0, aims, 2 * r * AIMS)
    for begin in range(0, n, BLOCK):
        size = min(BLOCK, n - begin)
        aim_around(table, probes, begin + BLOCK, aims, 1 - turn)
        totals[:] = 0
        checked: Any = U64(0)
        for r in range(runs):
            locate(table, r, size, turn, r, scratch)
            run = U64(r)
            if table[r, CHECKS] == 0:
                for t in range(size):
                    totals[U64(t)] += np.int64(ends[run, U64(t)]) - np.int64(starts[run, U64(t)])
            else:
                for t in range(size):
                    i = words[U64(begin + t)] & U64(0xFFFFFFFF)
                    ranges[checked, i] = (U64(starts[run, U64(t)]) << U64(32)) | U64(ends[run, U64(t)])
                checked += U64(1)
        for t in range(size):
            counts[words[U64(begin + t)] & U64(0xFFFFFFFF)] = totals[U64(t)]
        turn = 1 - turn
