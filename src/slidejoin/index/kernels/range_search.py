"""Finding the ranges of matches in sorted runs, and counting the rows in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.index.kernels.ages import ask_for_ages, count_from
from slidejoin.index.kernels.range_ends import BLOCK, locate_block, scratch_for
from slidejoin.index.kernels.searching import (
    AGES,
    AUX,
    BASE,
    CHECK_AUX,
    CHECK_SEEN,
    CHECKS,
    CRITERIA,
    DIMENSIONS,
    ROWS,
    WORDS_AT,
    Criteria,
    passes,
)
from slidejoin.jit.compiling import I32, I64_2D, OUT_I64, OUT_I64_2D, U64, inlined, kernel
from slidejoin.jit.vectors.memory import load_64
from slidejoin.jit.vectors.words import LANES, count_seen

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["count_matches", "find_ranges"]

SHORT = 4 * LANES
"""Rows up to which checking each is faster than counting by ages."""

AHEAD = 6
"""Prefetch distance, in probes, of the data for ages."""


@kernel(I64_2D, I64_2D, I64_2D, I32, OUT_I64_2D, OUT_I64)
def find_ranges(
    table: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    order: NDArray[np.int32],
    ranges: NDArray[np.int64],
    sums: NDArray[np.int64],
) -> None:
    """Write where the ranges of all probes begin and end in all runs, as ``start << 32 | end``.

    `table` (runs, FIELDS) int64; lo and hi (k, n) int64, both ends included, ``lo > hi`` an empty range; `order` (n,)
    int32, how probes are taken, best in that of their keys. `ranges` (n, k * runs) int64 has a line for each probe
    in that order, and `sums` (k * runs,) int64 takes how many rows are in the ranges of a column.
    Expected O(k * runs * n), for keys of any distribution O(k * runs * n * log(largest run)).
    """
    n, columns = order.size, table.shape[0] * lo.shape[0]
    scratch = scratch_for(columns)
    starts, ends = scratch.starts, scratch.ends
    sums[:] = 0
    for begin in range(0, n, BLOCK):
        size = locate_block(table, lo, hi, order, begin, scratch)
        for column in range(columns):
            many: Any = 0
            for t in range(size):
                start, end = np.int64(starts[U64(column), U64(t)]), np.int64(ends[U64(column), U64(t)])
                ranges[U64(begin + t), U64(column)] = (start << 32) | end
                many += end - start
            sums[column] += many


@inlined
def _ask_ahead(table: Any, ranges: Any, line: Any, i: Any, seen_from: Any, seen_to: Any) -> None:  # noqa: ANN401
    """Prefetch the data for ages in the wide ranges of probe i, which are a line of `ranges`."""
    runs, r = table.shape[0], U64(0)
    for column in range(ranges.shape[1]):
        if table[r, CHECKS] == CHECK_SEEN and table[r, AGES] != 0:
            both = ranges[line, U64(column)]
            start, end = both >> 32, both & 0xFFFFFFFF
            if end - start > SHORT:
                low, high = seen_from[i] - table[r, BASE], seen_to[i] - table[r, BASE]
                if 0 < low < table[r, ROWS]:
                    ask_for_ages(table[r, AGES], start, end, low)
                if 0 < high < table[r, ROWS]:
                    ask_for_ages(table[r, AGES], start, end, high)
        r += U64(1)
        if r == U64(runs):
            r = U64(0)


@kernel(I64_2D, I64_2D, I32, CRITERIA, OUT_I64)
def count_matches(  # noqa: C901, PLR0912 - one loop over what is checked of candidates
    table: NDArray[np.int64],
    ranges: NDArray[np.int64],
    order: NDArray[np.int32],
    criteria: Criteria,
    counts: NDArray[np.int64],
) -> None:
    """Write how many matches each probe has; counts (n,) int64 in the probes' own order, like the criteria.

    A run whose CHECKS are 0 is counted by its range alone (PanJoin, III-D); in others each candidate is checked, but
    AGES tell how many are seen without that. O(k * runs * n), plus candidates in runs that have no ages.
    """
    seen_from, seen_to, lows, highs, dims = criteria
    runs, columns, by_ages = table.shape[0], ranges.shape[1], False
    for run in range(runs):
        by_ages |= table[U64(run), AGES] != 0
    for t in range(order.size):
        i = U64(order[U64(t)])
        if by_ages:
            later = U64(min(t + AHEAD, order.size - 1))
            _ask_ahead(table, ranges, later, U64(order[later]), seen_from, seen_to)
        total: Any = np.int64(0)
        r = U64(0)
        for column in range(columns):
            both = ranges[U64(t), U64(column)]
            j, end = both >> 32, both & 0xFFFFFFFF
            checks, base = table[r, CHECKS], table[r, BASE]
            low: Any = np.int64(0)
            high: Any = table[r, ROWS]
            if checks & CHECK_SEEN:
                low, high = seen_from[i] - base, seen_to[i] - base
            if checks == 0:
                total += end - j
            elif checks < CHECK_AUX:
                if end - j > SHORT and table[r, AGES] != 0:
                    if low < table[r, ROWS] and high > 0:
                        total += end - j if low <= 0 else count_from(table[r, AGES], j, end, low)
                        if high < table[r, ROWS]:
                            total -= count_from(table[r, AGES], j, end, max(low, high))
                else:
                    while j < end:
                        total += count_seen(table[r, WORDS_AT] + (j << 3), min(end - j, LANES), low, high)
                        j += LANES
            else:
                while j < end:
                    offset = np.int64(load_64(table[r, WORDS_AT] + (j << 3)) & U64(0xFFFFFFFF))
                    if low <= offset < high and passes(table[r, AUX], table[r, DIMENSIONS], j, i, lows, highs, dims):
                        total += 1
                    j += 1
            r += U64(1)
            if r == U64(runs):
                r = U64(0)
        counts[i] = total
