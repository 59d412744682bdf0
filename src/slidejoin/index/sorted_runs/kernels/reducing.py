"""Reducing the values of rows in ranges of sorted runs: sums, smallest and largest values.

A range of a run that every probe sees as a whole costs its ends, by the summaries of `summarising`. In other runs each
row is looked at, in vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import (
    AUX,
    BASE,
    CHECK_AUX,
    CHECKS,
    DIMENSIONS,
    SIZE,
    WORDS_AT,
    passes,
)
from slidejoin.index.sorted_runs.kernels.summarising import DOUBLE_SUM, PLACES_SHIFT, SMALLEST, SUM, joined, values_of
from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I64_2D, U64, inlined, kernel
from slidejoin.jit.vectors.doubles import bits_of, of_bits
from slidejoin.jit.vectors.memory import ask_for, load_64, place_of
from slidejoin.jit.vectors.words import load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RECORDS_AT", "SUMMARY", "TABLE_AT", "TABLE_BLOCKS", "VALUES_AT", "reduce_ranges"]

RECORDS_AT, TABLE_AT, TABLE_BLOCKS, VALUES_AT, SUMMARY = range(5)
"""What a run is reduced by, as a line of int64: the addresses of records and of the table, the blocks of a level, and,
of a run whose rows are looked at one by one, the address of its values in the order of its keys."""

TOGETHER = 64
"""Probes reduced together: what they read of a run is prefetched while another one is read."""

LANES = 4
"""Doubles that are added up side by side, each lane on its own."""

START, END, ONE, TWO, LOW, HIGH, FOUND = range(7)
"""Lines of what was found of ranges: their ends, and the addresses of two records and of two entries of the table."""


@inlined
def highest_bit(number: Any) -> Any:  # noqa: ANN401 - int64
    """Return the place of the highest bit of a number from 1 to 2**53."""
    return (bits_of(np.float64(number)) >> 52) - 1023


@inlined
def kept(words: Any, place: Any, low: Any, high: Any) -> Any:  # noqa: ANN401 - uint64
    """Tell whether the ordinal at a place lies in an interval, its end not included."""
    row = load_64(words + (place << 3)) & U64(0xFFFFFFFF)
    return (low <= row) & (row < high)


@inlined
def seen(words: Any, values: Any, start: Any, end: Any, first: Any, last: Any, how: Any, total: Any) -> Any:  # noqa: ANN401
    """Reduce the values at places start…end-1 of rows whose ordinal within the run is ``first <= o < last``.

    Loops without branches, which become vectors.
    """
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


@inlined
def between(
    found: NDArray[np.int64],
    size: int,
    down: int,
    of_table: int,
    how: int,
    words: int,
    base: int,
    rows: NDArray[np.int64],
    first: int,
    line: int,
    of_row: int,
    totals: NDArray[np.int64],
    channel: np.uint64,
) -> None:
    """Add what `found` ranges have in one channel of which nothing may be subtracted, see `reduce_whole`."""
    for t in range(size):
        start, end = found[START, U64(t)], found[END, U64(t)]
        total: Any = totals[channel, U64(t)]
        if start >> PLACES_SHIFT != end >> PLACES_SHIFT:
            inner = joined(load_key(found[LOW, U64(t)] + of_table), load_key(found[HIGH, U64(t)] + of_table), how)
            ends = joined(load_key(found[ONE, U64(t)] + down + 8), load_key(found[TWO, U64(t)] + down), how)
            total = joined(total, joined(ends, inner, how), how)
        else:
            for place in range(start, end):
                ordinal = base + np.int64(load_64(words + (place << 3)) & U64(0xFFFFFFFF))
                total = joined(total, load_key(values_of(rows, first, ordinal, line) + of_row), how)
        totals[channel, U64(t)] = total


@kernel(I64_2D, types.int64, types.int64, types.int64, I64_2D, types.int64, types.int64, I64, OUT_I64_2D)
def aim(
    ranges: NDArray[np.int64],
    column: int,
    begin: int,
    size: int,
    summaries: NDArray[np.int64],
    r: int,
    channels: int,
    absent: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Write which records and entries of a run's table the ranges of lines begin…begin+size-1 need, and prefetch them.

    `absent` (others,) int64 stands for an entry of the table where there is none. `found` (FOUND, TOGETHER) int64 takes
    both ends, the addresses of their records, and of the entries. O(size).
    """
    others = absent.size
    width, nowhere = (channels + others) << 3, np.int64(place_of(absent))
    records, levels, blocks = summaries[r, RECORDS_AT], summaries[r, TABLE_AT], summaries[r, TABLE_BLOCKS]
    for t in range(size):
        both = ranges[U64(begin + t), U64(column)]
        start, end = both >> 32, both & 0xFFFFFFFF
        one, two = records + start * width, records + end * width
        ask_for(one)
        ask_for(two)
        found[START, U64(t)], found[END, U64(t)], found[ONE, U64(t)], found[TWO, U64(t)] = start, end, one, two
        # The blocks between those of the ends; none, or a single one, is no branch either.
        low, high = (start >> PLACES_SHIFT) + 1, (end >> PLACES_SHIFT) - 1
        line = levels + (highest_bit((low ^ high) | 1) if low < high else 0) * blocks * (others << 3)
        one, two = line + low * (others << 3), line + high * (others << 3)
        one, two = one if low <= high else nowhere, two if low < high else nowhere
        ask_for(one)
        ask_for(two)
        found[LOW, U64(t)], found[HIGH, U64(t)] = one, two


@kernel(
    I64_2D, types.int64, I64_2D, types.int64, I64, types.int64, I64, OUT_I64_2D
)  # fmt: skip
def reduce_whole(
    found: NDArray[np.int64],
    size: int,
    table: NDArray[np.int64],
    r: int,
    rows: NDArray[np.int64],
    first: int,
    hows: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Add to `totals` (channels, TOGETHER) int64 what ranges that `aim` found have in a run that is seen as a whole.

    The rest as in `reduce_ranges`. O(size * channels), and up to `PLACES` values for a range within one block.
    """
    slot, other, line = 0, 0, hows.size << 3
    for channel in range(hows.size):
        how, down, of_row = hows[U64(channel)], slot << 3, channel << 3
        if how == SUM:
            for t in range(size):
                before, behind = load_key(found[ONE, U64(t)] + down), load_key(found[TWO, U64(t)] + down)
                totals[U64(channel), U64(t)] += behind - before
            slot += 1
            continue
        # The same twice, see `summarise`.
        if how == SMALLEST:
            between(
                found, size, down, other << 3, SMALLEST, table[r, WORDS_AT], table[r, BASE], rows, first, line,
                of_row, totals, U64(channel),
            )  # fmt: skip
        else:
            between(
                found, size, down, other << 3, DOUBLE_SUM, table[r, WORDS_AT], table[r, BASE], rows, first,
                line, of_row, totals, U64(channel),
            )  # fmt: skip
        slot += 2
        other += 1


@kernel(
    I64_2D, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64, types.uint64, I64_2D, I64_2D,
    I64, I64, OUT_I64_2D, types.int64,
)  # fmt: skip
def reduce_each(
    table: NDArray[np.int64],
    r: int,
    values: int,
    start: int,
    end: int,
    low: int,
    high: int,
    i: np.uint64,
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    hows: NDArray[np.int64],
    totals: NDArray[np.int64],
    t: int,
) -> None:
    """Add to column t of `totals` (channels, TOGETHER) int64 what probe i has at places start…end-1 of a run.

    It sees the offsets ``low <= o < high``. The values are those of `line_up`. O((end - start) * channels).
    """
    words, line = table[r, WORDS_AT], table[r, SIZE] << 3
    first, last = U64(max(low, 0)), U64(max(high, 0))
    for channel in range(hows.size if table[r, CHECKS] < CHECK_AUX else 0):
        at, how, total = values + channel * line, hows[U64(channel)], totals[U64(channel), U64(t)]
        totals[U64(channel), U64(t)] = seen(words, at, start, end, first, last, how, total)
    for place in range(start, end if table[r, CHECKS] >= CHECK_AUX else start):
        if kept(words, place, first, last) and passes(table[r, AUX], table[r, DIMENSIONS], place, i, lows, highs, dims):
            for channel in range(hows.size):
                value, total = load_key(values + channel * line + (place << 3)), totals[U64(channel), U64(t)]
                totals[U64(channel), U64(t)] = joined(total, value, hows[U64(channel)])


@kernel(
    I64_2D, I64_2D, I32, I64, I64, I64_2D, I64_2D, I64, I64_2D, I64, types.int64, I64, I64, OUT_I64_2D
)  # fmt: skip
def reduce_ranges(  # noqa: C901 - one loop over runs
    table: NDArray[np.int64],
    ranges: NDArray[np.int64],
    order: NDArray[np.int32],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    summaries: NDArray[np.int64],
    rows: NDArray[np.int64],
    first: int,
    hows: NDArray[np.int64],
    nothings: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Write the reductions of the values of all rows that each probe has in its ranges; totals (channels, n) int64.

    `table` (runs, FIELDS), `ranges` (n, k * runs) and `order` (n,) are as `find_ranges` has them, the arrays after it
    as `count_matches` of `range_search`. `summaries` (runs, SUMMARY) int64 are what the checks of each run need; `rows`
    and the rest as `summarise` takes them. O(k * runs * channels) a probe, plus the rows in ranges of runs that are not
    seen as a whole, or whose rows are checked one by one.
    """
    runs, channels, columns, n = table.shape[0], hows.size, ranges.shape[1], order.size
    # What the next column needs is prefetched while this one is reduced.
    found, later = np.empty((FOUND, TOGETHER), np.int64), np.empty((FOUND, TOGETHER), np.int64)
    part, absent, others = np.empty((channels, TOGETHER), np.int64), np.empty(channels, np.int64), 0
    for channel in range(channels):
        if hows[U64(channel)] != SUM:
            absent[U64(others)] = nothings[U64(channel)]
            others += 1
    absent = absent[:others]
    if n > 0 and columns > 0 and table[0, CHECKS] == 0:
        aim(ranges, 0, 0, min(TOGETHER, n), summaries, 0, channels, absent, later)
    for begin in range(0, n, TOGETHER):
        size = min(TOGETHER, n - begin)
        for channel in range(channels):
            part[U64(channel), :] = nothings[U64(channel)]
        for column in range(columns):
            r = column % runs
            found, later = later, found
            last = column + 1 == columns
            to = begin + TOGETHER if last else begin
            many, next_column = min(TOGETHER, n - to), 0 if last else column + 1
            if many > 0 and table[next_column % runs, CHECKS] == 0:
                aim(ranges, next_column, to, many, summaries, next_column % runs, channels, absent, later)
            checks = table[r, CHECKS]
            if checks == 0:
                reduce_whole(found, size, table, r, rows, first, hows, part)
                continue
            for t in range(size):
                i, both = U64(order[U64(begin + t)]), ranges[U64(begin + t), U64(column)]
                low, high = seen_from[i] - table[r, BASE], seen_to[i] - table[r, BASE]
                reduce_each(
                    table, r, summaries[r, VALUES_AT], both >> 32, both & 0xFFFFFFFF, low, high, i, lows, highs, dims,
                    hows, part, t,
                )  # fmt: skip
        for t in range(size):
            i = U64(order[U64(begin + t)])
            for channel in range(channels):
                totals[U64(channel), i] = part[U64(channel), U64(t)]
