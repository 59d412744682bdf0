"""Counting the matches of probes that are sorted by their own keys, with ranges around those keys.

The beginnings and the ends of the ranges are two ascending sequences, so a run is read sequentially for each. The count
of a run whose rows are all visible to every probe is the length of the range; for other runs the range is kept, see
`index.sorted_runs.kernels.visibility`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.index.kernels.range_ends import AIMS, BLOCK, aim_around, ask_ahead, locate
from slidejoin.index.kernels.searching import CHECKS
from slidejoin.jit.compiling import I64_2D, OUT_I64, U64, kernel
from slidejoin.jit.vectors.words import WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["tally"]

OUT_U64_2D = types.Array(types.uint64, 2, "C")


@kernel(I64_2D, WORDS, types.int64, types.int64, types.int64, types.int64, OUT_I64, OUT_U64_2D)
def tally(
    table: NDArray[np.int64],
    probes: NDArray[np.uint64],
    n: int,
    origin: int,
    below: int,
    above: int,
    counts: NDArray[np.int64],
    ranges: NDArray[np.uint64],
) -> None:
    """Write how many rows lie in the ranges of all probes, in runs without checks, and the ranges in those with them.

    `table` (runs, FIELDS) int64 of runs whose words contain whole keys. `probes` (n,) uint64 are words of such a run
    with the smallest key `origin`: probe i asks for keys from its own less `below` to its own and `above`. `counts`
    (n,) int64 and `ranges` (checked runs, n) uint64, ``start << 32 | end``, are in arrival order. Expected O(runs * n).
    """
    runs = table.shape[0]
    aims, state = np.zeros((2 * runs * AIMS, BLOCK), np.uint32), np.zeros(runs, np.int64)
    starts, ends = np.empty((1, BLOCK), np.uint32), np.empty((1, BLOCK), np.uint32)
    totals = np.empty(BLOCK, np.int64)
    turn = 0
    aim_around(table, probes, 0, min(BLOCK, n), origin, below, above, aims, 0)
    for r in range(runs):
        ask_ahead(table, r, min(BLOCK, n), 0, aims, 2 * r * AIMS)
    for begin in range(0, n, BLOCK):
        size = min(BLOCK, n - begin)
        later = min(BLOCK, max(0, n - begin - BLOCK))
        aim_around(table, probes, begin + BLOCK, later, origin, below, above, aims, 1 - turn)
        totals[:] = 0
        checked: Any = U64(0)
        for r in range(runs):
            at, soon = (2 * r + turn) * AIMS, (2 * r + 1 - turn) * AIMS
            slow = locate(table, r, size, state[r] != 0, aims, at, soon, starts, ends, 0)
            # Once ends are far from starts they are prefetched too, from the next block on.
            if state[r] != 0 or slow > size >> 2:
                ask_ahead(table, r, size, 1, aims, soon)
                state[r] = 1
            if table[r, CHECKS] == 0:
                for t in range(size):
                    totals[U64(t)] += np.int64(ends[0, U64(t)]) - np.int64(starts[0, U64(t)])
            else:
                for t in range(size):
                    i = probes[U64(begin + t)] & U64(0xFFFFFFFF)
                    ranges[checked, i] = (U64(starts[0, U64(t)]) << U64(32)) | U64(ends[0, U64(t)])
                checked += U64(1)
        for t in range(size):
            counts[probes[U64(begin + t)] & U64(0xFFFFFFFF)] = totals[U64(t)]
        turn = 1 - turn
