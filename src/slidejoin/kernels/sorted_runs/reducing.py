"""Reducing the values of rows in ranges of sorted runs: sums, smallest and largest values.

Beside a run stand the values of its rows in key order, and a tree over them: an entry of a level is the reduction of
`FAN_OUT` entries of the level below. So a range of a run that a probe sees as a whole costs its ends, not its rows.
Nothing is ever subtracted, so that sums of doubles are rounded once for each addition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types

from slidejoin.kernels.common.memory import load_64
from slidejoin.kernels.common.words import load_key
from slidejoin.kernels.jit.compiling import I32, I64, I64_2D, OUT_I64, U64, inlined, kernel
from slidejoin.kernels.predicate.doubles import bits_of, of_bits
from slidejoin.kernels.sorted_runs.searching import AUX, BASE, CHECK_AUX, CHECKS, DIMENSIONS, WORDS_AT, passes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DOUBLE_SUM", "FAN_OUT", "SMALLEST", "SUM", "reduce_level", "reduce_ranges"]

FAN_OUT, SHIFT = 16, 4
"""Entries of a level for each one above."""

SUM, DOUBLE_SUM, SMALLEST = range(3)
"""How two values become one: their sum, that of the doubles whose bits they are, or the smaller of them."""

LANES = 4
"""Doubles that are added up side by side, each lane on its own."""


@inlined
def joined(one: Any, two: Any, how: Any) -> Any:  # noqa: ANN401 - int64
    """Reduce two values."""
    if how == DOUBLE_SUM:
        return bits_of(of_bits(one) + of_bits(two))
    if how == SUM:
        return one + two
    return min(one, two)


@kernel(I64, types.int64, OUT_I64)
def reduce_level(below: NDArray[np.int64], how: int, level: NDArray[np.int64]) -> None:
    """Write a level of a tree: each entry is the reduction of `FAN_OUT` values below, the last one of what is left.

    below (n,), level (ceil(n / FAN_OUT),) int64. O(n).
    """
    for at in range(level.size):
        first = at << SHIFT
        total = below[U64(first)]
        for place in range(first + 1, min(first + FAN_OUT, below.size)):
            total = joined(total, below[U64(place)], how)
        level[U64(at)] = total


@inlined
def within(tree: Any, line: Any, start: Any, end: Any, how: Any, total: Any) -> Any:  # noqa: ANN401
    """Reduce the values at places start…end-1 by the levels of a tree, whose addresses are a line of `tree`."""
    level, at = 0, tree[line, 0]
    while start < end:
        climbs = level + 1 < tree.shape[1] and tree[line, level + 1] != 0 and end - start >= FAN_OUT
        while start < end and (not climbs or start & (FAN_OUT - 1) != 0):
            total = joined(total, load_key(at + (start << 3)), how)
            start += 1
        while start < end and end & (FAN_OUT - 1) != 0:
            end -= 1
            total = joined(total, load_key(at + (end << 3)), how)
        if start < end:
            start, end, level = start >> SHIFT, end >> SHIFT, level + 1
            at = tree[line, level]
    return total


@inlined
def kept(words: Any, place: Any, low: Any, high: Any) -> Any:  # noqa: ANN401 - uint64
    """Tell whether the ordinal at a place lies in an interval, its end not included."""
    row = load_64(words + (place << 3)) & U64(0xFFFFFFFF)
    return (low <= row) & (row < high)


@inlined
def seen(words: Any, values: Any, start: Any, end: Any, low: Any, high: Any, how: Any, total: Any) -> Any:  # noqa: ANN401
    """Reduce the values at places start…end-1 of rows whose ordinal within the run is ``low <= o < high``.

    Loops without branches, which become vectors.
    """
    first, last = U64(max(low, 0)), U64(max(high, 0))
    if how == SUM:
        for place in range(start, end):
            total += load_key(values + (place << 3)) if kept(words, place, first, last) else 0
    elif how == SMALLEST:
        for place in range(start, end):
            value = load_key(values + (place << 3))
            total = min(total, value) if kept(words, place, first, last) else total
    else:
        a, b, c, d = of_bits(total), 0.0, 0.0, 0.0
        place = start
        while place + LANES <= end:
            at = values + (place << 3)
            a += of_bits(load_key(at)) if kept(words, place, first, last) else 0.0
            b += of_bits(load_key(at + 8)) if kept(words, place + 1, first, last) else 0.0
            c += of_bits(load_key(at + 16)) if kept(words, place + 2, first, last) else 0.0
            d += of_bits(load_key(at + 24)) if kept(words, place + 3, first, last) else 0.0
            place += LANES
        while place < end:
            a += of_bits(load_key(values + (place << 3))) if kept(words, place, first, last) else 0.0
            place += 1
        total = bits_of((a + b) + (c + d))
    return total


@kernel(
    I64_2D, I64_2D, I32, I64, I64, I64_2D, I64_2D, I64, I64_2D, types.int64, types.int64, OUT_I64
)  # fmt: skip
def reduce_ranges(
    table: NDArray[np.int64],
    ranges: NDArray[np.int64],
    order: NDArray[np.int32],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    tree: NDArray[np.int64],
    how: int,
    nothing: int,
    totals: NDArray[np.int64],
) -> None:
    """Write the reduction of the values of all rows that each probe has in its ranges; totals (n,) int64.

    `table` (runs, FIELDS), `ranges` (n, k * runs) and `order` (n,) are as `ranging.find_ranges` has them, the arrays
    after it as `ranging.count_matches`. `tree` (runs, levels) int64 are the addresses of the values of each run and of
    the levels above, 0 for none. `nothing` is what a probe without a row has. O(k * runs * log(run)) a probe, plus the
    rows in ranges of runs that are not seen as a whole, or whose rows are checked one by one.
    """
    runs = table.shape[0]
    for t in range(order.size):
        probe = int(order[U64(t)])
        i = U64(probe)
        total: Any = nothing
        r = U64(0)
        for column in range(ranges.shape[1]):
            found = ranges[U64(t), U64(column)]
            start, end = found >> 32, found & 0xFFFFFFFF
            checks = table[r, CHECKS]
            if start < end:
                if checks == 0:
                    total = within(tree, r, start, end, how, total)
                else:
                    low, high = seen_from[i] - table[r, BASE], seen_to[i] - table[r, BASE]
                    words, values = table[r, WORDS_AT], tree[r, 0]
                    if checks < CHECK_AUX:
                        total = seen(words, values, start, end, low, high, how, total)
                    else:
                        first, last = U64(max(low, 0)), U64(max(high, 0))
                        for place in range(start, end):
                            if kept(words, place, first, last) and passes(
                                table[r, AUX], table[r, DIMENSIONS], place, i, lows, highs, dims
                            ):
                                total = joined(total, load_key(values + (place << 3)), how)
            r += U64(1)
            if r == U64(runs):
                r = U64(0)
        totals[i] = total
