"""A small push against sorted runs: from its keys to the positions of all matches in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import BASE, CHECK_SEEN, CHECKS, ROWS, Criteria
from slidejoin.index.kernels.view import ARRIVED, VIEW, first_seen
from slidejoin.index.sorted_runs.kernels.matches import FewMatches, find_few, gather
from slidejoin.jit.compiling import I64, OUT_I64, OUT_I64_2D, U64, kernel
from slidejoin.jit.vectors.fields import ARRAY, WORD, i64_in, record, records_in, u32_in
from slidejoin.jit.vectors.memory import i32_at, i64_at, place_of
from slidejoin.jit.vectors.shifting import shift_ends
from slidejoin.jit.vectors.words import WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RUN_PROBES", "probe_runs"]

LOW_HALF = 0xFFFFFFFF

RUN_PROBES = record(
    [
        "sign",  # a probe matches the keys from ``sign * key + low`` to ``sign * key + high``, one of each
        ("lows", ARRAY),
        ("highs", ARRAY),
        ("seen", WORD, VIEW),  # which rows it sees, see `index.kernels.view`
        ("scratch", ARRAY),  # room for positions, uint32
        ("positions", ARRAY),  # as large: of the matches, ``(ordinal + 1) % 2**32``, one probe after the other
        "counts",  # address of the room for how many each has, int32
    ]
)
"""The probes of one side, and their matches."""

run_probes_in = records_in(RUN_PROBES)


@kernel(OUT_I64_2D, OUT_I64, I64, I64, WORDS, types.int64, returns=types.int64)
def probe_runs(
    table: NDArray[np.int64],
    words: NDArray[np.int64],
    keys: NDArray[np.int64],
    rank: NDArray[np.int64],
    sorted_words: NDArray[np.uint64],
    first_row: int,
) -> int:
    """Write the positions of the matches of all probes; return how many, or -1 if the room may not suffice.

    `table` (runs, FIELDS) int64, whose CHECKS are set here; words: of RUN_PROBES; keys (n,) int64 within ±CALM, and
    their ranks, (n,) int64. `sorted_words` (n,) uint64 have below bit 32 the probes in order of their keys,
    from `first_row` on. Expected O(k * runs * n) plus candidates.
    """
    probes, n, runs = run_probes_in(words)[0], keys.size, table.shape[0]
    counts, view = i32_at(probes.counts, n), i64_at(place_of(probes.seen), VIEW)
    if n == 0 or runs == 0:
        counts[:] = 0
        return 0
    lows, highs, scratch = i64_in(probes.lows), i64_in(probes.highs), u32_in(probes.scratch)
    lo, hi = np.empty((lows.size, n), np.int64), np.empty((lows.size, n), np.int64)
    shift_ends(keys, probes.sign, lows, highs, lo, hi)
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
    matches = FewMatches(scratch, places, counts)
    total = find_few(table, lo, hi, order, criteria, matches)
    if total >= 0:
        gather(matches, 0, u32_in(probes.positions))
    return total
