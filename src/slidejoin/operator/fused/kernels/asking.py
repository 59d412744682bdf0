"""A small push against sorted runs: from its keys to the positions of all matches in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import BASE, CHECK_SEEN, CHECKS, ROWS, Criteria
from slidejoin.index.kernels.view import ARRIVED, first_seen
from slidejoin.index.sorted_runs.kernels.few_matches import FewMatches, find_few, gather
from slidejoin.jit.compiling import I64, OUT_I32, OUT_I64_2D, OUT_U32, U64, kernel
from slidejoin.jit.vectors.shifting import shift_ends
from slidejoin.jit.vectors.words import WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ask_runs"]

LOW_HALF = 0xFFFFFFFF


@kernel(
    OUT_I64_2D, I64, types.int64, I64, I64, I64, I64, WORDS, types.int64, OUT_U32, OUT_I32, OUT_U32,
    returns=types.int64,
)  # fmt: skip
def ask_runs(
    table: NDArray[np.int64],
    keys: NDArray[np.int64],
    sign: int,
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    rank: NDArray[np.int64],
    view: NDArray[np.int64],
    sorted_words: NDArray[np.uint64],
    first_row: int,
    kept: NDArray[np.uint32],
    counts: NDArray[np.int32],
    found: NDArray[np.uint32],
) -> int:
    """Write the matches of all probes as positions, ``(ordinal + 1) % 2**32``, one probe after the other.

    `table` (runs, FIELDS) int64, whose CHECKS are set here. Probe i asks for keys as `jit.vectors.shifting` says
    of ``keys[i]``, (n,) int64 within ±CALM; `rank` (n,) int64 and `view` tell which rows it sees, see
    `slidejoin.index.kernels.view`. `sorted_words` (n,) uint64 have in their lower halves the probes in order of
    their keys, from `first_row` on. `kept` (places,) uint32 is scratch, and `found`, as large, takes the positions;
    counts (n,) int32 how many each probe has. Returns their total, or -1 if the room may not suffice.
    Expected O(k * runs * n) plus candidates.
    """
    n, runs = keys.size, table.shape[0]
    if n == 0 or runs == 0:
        counts[:n] = 0
        return 0
    lo, hi = np.empty((lows.size, n), np.int64), np.empty((lows.size, n), np.int64)
    shift_ends(keys, sign, lows, highs, lo, hi)
    seen_from, seen_to = np.empty(n, np.int64), np.empty(n, np.int64)
    order, places = np.empty(n, np.int32), np.empty(n, np.int32)
    for i in range(n):
        seen = view[U64(ARRIVED)] + rank[U64(i)] - i
        seen_from[U64(i)], seen_to[U64(i)] = first_seen(view, seen, 0), seen
        order[U64(i)] = np.int64(sorted_words[U64(i)] & U64(LOW_HALF)) - first_row
    for r in range(runs):
        whole = table[r, BASE] >= seen_from[n - 1] and table[r, BASE] + table[r, ROWS] <= seen_to[0]
        table[r, CHECKS] = 0 if whole else CHECK_SEEN
    nothing = np.empty((0, n), np.int64)
    criteria = Criteria(seen_from, seen_to, nothing, nothing, np.empty(0, np.int64))
    total = find_few(table, lo, hi, order, criteria, FewMatches(kept, places, counts))
    if total >= 0:
        gather(FewMatches(kept, places, counts[:n]), 0, found)
    return total
