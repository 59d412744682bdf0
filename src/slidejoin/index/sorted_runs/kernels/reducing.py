"""Reducing the values of rows in ranges of sorted runs: sums, smallest and largest values.

A range of a run that every probe sees as a whole costs its ends, by the summaries of `summarising`. In other runs each
row is looked at, in vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import (
    AUX,
    BASE,
    CHECK_AUX,
    CHECKS,
    CRITERIA,
    DIMENSIONS,
    SIZE,
    WORDS_AT,
    Criteria,
    passes,
)
from slidejoin.index.sorted_runs.kernels.summarising import (
    DOUBLE_SUM,
    PLACES_SHIFT,
    SMALLEST,
    SUM,
    VALUES,
    ValuesInBlocks,
    joined,
    values_of,
)
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

START, END, ONE, TWO, LOW, HIGH, AIMED = range(7)
"""Lines about ranges in a run: their ends, and the addresses of two records and of two entries of the table."""


@inlined
def highest_bit(number: Any) -> Any:  # noqa: ANN401 - int64
    """Return the place of the highest bit of a number from 1 to 2**53."""
    return (bits_of(np.float64(number)) >> 52) - 1023


@inlined
def is_inside(words: Any, place: Any, low: Any, high: Any) -> Any:  # noqa: ANN401 - uint64
    """Return whether the ordinal at a place lies in an interval, its end not included."""
    row = load_64(words + (place << 3)) & U64(0xFFFFFFFF)
    return (low <= row) & (row < high)


@inlined
def seen(words: Any, values: Any, start: Any, end: Any, first: Any, last: Any, how: Any, total: Any) -> Any:  # noqa: ANN401
    """Reduce the values at places start…end-1 of rows whose ordinal within the run is ``first <= o < last``.

    Loops without branches, which become vectors.
    """
    if how == SUM:
        for place in range(start, end):
            total += load_key(values + (place << 3)) if is_inside(words, place, first, last) else 0
    elif how == SMALLEST:
        for place in range(start, end):
            value = load_key(values + (place << 3))
            total = min(total, value) if is_inside(words, place, first, last) else total
    else:
        a, b, c, d = of_bits(total), 0.0, 0.0, 0.0
        place = start
        while place + LANES <= end:
            at = values + (place << 3)
            a += of_bits(load_key(at)) if is_inside(words, place, first, last) else 0.0
            b += of_bits(load_key(at + 8)) if is_inside(words, place + 1, first, last) else 0.0
            c += of_bits(load_key(at + 16)) if is_inside(words, place + 2, first, last) else 0.0
            d += of_bits(load_key(at + 24)) if is_inside(words, place + 3, first, last) else 0.0
            place += LANES
        while place < end:
            a += of_bits(load_key(values + (place << 3))) if is_inside(words, place, first, last) else 0.0
            place += 1
        total = bits_of((a + b) + (c + d))
    return total


class ChannelPlace(NamedTuple):
    """A channel of which nothing may be subtracted: its number, and its place in bytes in records and in the table."""

    number: int
    in_record: int
    in_table: int


@inlined
def between(
    aimed: NDArray[np.int64],
    size: int,
    run: NDArray[np.int64],
    values: ValuesInBlocks,
    channel: ChannelPlace,
    how: int,
    totals: NDArray[np.int64],
) -> None:
    """Add what the ranges of a run have in one channel, see `reduce_whole`."""
    words, base, blocks, first, line = run[WORDS_AT], run[BASE], values.blocks, values.first, values.hows.size << 3
    number, in_record, in_table = U64(channel.number), channel.in_record, channel.in_table
    for t in range(size):
        start, end = aimed[START, U64(t)], aimed[END, U64(t)]
        total: Any = totals[number, U64(t)]
        if start >> PLACES_SHIFT != end >> PLACES_SHIFT:
            inner = joined(load_key(aimed[LOW, U64(t)] + in_table), load_key(aimed[HIGH, U64(t)] + in_table), how)
            ends = joined(load_key(aimed[ONE, U64(t)] + in_record + 8), load_key(aimed[TWO, U64(t)] + in_record), how)
            total = joined(total, joined(ends, inner, how), how)
        else:
            for place in range(start, end):
                ordinal = base + np.int64(load_64(words + (place << 3)) & U64(0xFFFFFFFF))
                total = joined(total, load_key(values_of(blocks, first, ordinal, line) + (channel.number << 3)), how)
        totals[number, U64(t)] = total


@kernel(I64_2D, types.int64, types.int64, types.int64, I64, types.int64, I64, OUT_I64_2D)
def aim(
    ranges: NDArray[np.int64],
    column: int,
    begin: int,
    size: int,
    summary: NDArray[np.int64],
    channels: int,
    absent: NDArray[np.int64],
    aimed: NDArray[np.int64],
) -> None:
    """Write which records and entries of a run's table the ranges of lines begin…begin+size-1 need, and prefetch them.

    `summary` (SUMMARY,) int64 is the run's. `absent` (others,) int64 stands for an entry of the table where there is
    none. `aimed` (AIMED, TOGETHER) int64 takes both ends, the addresses of their records, and of the entries. O(size).
    """
    others = absent.size
    width, nowhere = (channels + others) << 3, np.int64(place_of(absent))
    records, levels, blocks = summary[RECORDS_AT], summary[TABLE_AT], summary[TABLE_BLOCKS]
    for t in range(size):
        both = ranges[U64(begin + t), U64(column)]
        start, end = both >> 32, both & 0xFFFFFFFF
        one, two = records + start * width, records + end * width
        ask_for(one)
        ask_for(two)
        aimed[START, U64(t)], aimed[END, U64(t)], aimed[ONE, U64(t)], aimed[TWO, U64(t)] = start, end, one, two
        # The blocks between those of the ends; none, or a single one, is no branch either.
        low, high = (start >> PLACES_SHIFT) + 1, (end >> PLACES_SHIFT) - 1
        line = levels + (highest_bit((low ^ high) | 1) if low < high else 0) * blocks * (others << 3)
        one, two = line + low * (others << 3), line + high * (others << 3)
        one, two = one if low <= high else nowhere, two if low < high else nowhere
        ask_for(one)
        ask_for(two)
        aimed[LOW, U64(t)], aimed[HIGH, U64(t)] = one, two


@kernel(I64_2D, types.int64, I64, VALUES, OUT_I64_2D)
def reduce_whole(
    aimed: NDArray[np.int64], size: int, run: NDArray[np.int64], values: ValuesInBlocks, totals: NDArray[np.int64]
) -> None:
    """Add to `totals` (channels, TOGETHER) int64 what ranges that were aimed have in a run that is seen as a whole.

    `run` (FIELDS,) int64. O(size * channels), and up to `PLACES` values for a range within one block.
    """
    slot, other, hows = 0, 0, values.hows
    for channel in range(hows.size):
        how, down = hows[U64(channel)], slot << 3
        if how == SUM:
            for t in range(size):
                before, behind = load_key(aimed[ONE, U64(t)] + down), load_key(aimed[TWO, U64(t)] + down)
                totals[U64(channel), U64(t)] += behind - before
            slot += 1
            continue
        # The same twice, see `summarise`.
        if how == SMALLEST:
            between(aimed, size, run, values, ChannelPlace(channel, down, other << 3), SMALLEST, totals)
        else:
            between(aimed, size, run, values, ChannelPlace(channel, down, other << 3), DOUBLE_SUM, totals)
        slot += 2
        other += 1


@kernel(I64, types.int64, types.int64, types.uint64, types.int64, CRITERIA, I64, OUT_I64_2D)
def reduce_each(
    run: NDArray[np.int64],
    values: int,
    places: int,
    i: np.uint64,
    t: int,
    criteria: Criteria,
    hows: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Add to column t of `totals` (channels, TOGETHER) int64 what probe i has at `places` of a run.

    `run` (FIELDS,) int64, `values` the address of what `line_up` wrote, places ``start << 32 | end``.
    O((end - start) * channels).
    """
    seen_from, seen_to, lows, highs, dims = criteria
    words, line, start, end = run[WORDS_AT], run[SIZE] << 3, places >> 32, places & 0xFFFFFFFF
    first, last = U64(max(seen_from[i] - run[BASE], 0)), U64(max(seen_to[i] - run[BASE], 0))
    for channel in range(hows.size if run[CHECKS] < CHECK_AUX else 0):
        at, how, total = values + channel * line, hows[U64(channel)], totals[U64(channel), U64(t)]
        totals[U64(channel), U64(t)] = seen(words, at, start, end, first, last, how, total)
    for place in range(start, end if run[CHECKS] >= CHECK_AUX else start):
        if is_inside(words, place, first, last) and passes(run[AUX], run[DIMENSIONS], place, i, lows, highs, dims):
            for channel in range(hows.size):
                value, total = load_key(values + channel * line + (place << 3)), totals[U64(channel), U64(t)]
                totals[U64(channel), U64(t)] = joined(total, value, hows[U64(channel)])


@kernel(I64_2D, I64_2D, I32, CRITERIA, I64_2D, VALUES, OUT_I64_2D)
def reduce_ranges(  # noqa: C901 - one loop over runs
    table: NDArray[np.int64],
    ranges: NDArray[np.int64],
    order: NDArray[np.int32],
    criteria: Criteria,
    summaries: NDArray[np.int64],
    values: ValuesInBlocks,
    totals: NDArray[np.int64],
) -> None:
    """Write the reductions of the values of all rows that each probe has in its ranges; totals (channels, n) int64.

    `table` (runs, FIELDS), `ranges` (n, k * runs) and `order` (n,) are as `find_ranges` has them. `summaries` (runs,
    SUMMARY) int64 are what the checks of each run need. O(k * runs * channels) a probe, plus the rows in ranges of runs
    that are not seen as a whole, or whose rows are checked one by one.
    """
    hows, nothings = values.hows, values.nothings
    runs, channels, columns, n = table.shape[0], hows.size, ranges.shape[1], order.size
    # What the next column needs is prefetched while this one is reduced.
    aimed, later = np.empty((AIMED, TOGETHER), np.int64), np.empty((AIMED, TOGETHER), np.int64)
    part, absent, others = np.empty((channels, TOGETHER), np.int64), np.empty(channels, np.int64), 0
    for channel in range(channels):
        if hows[U64(channel)] != SUM:
            absent[U64(others)] = nothings[U64(channel)]
            others += 1
    absent = absent[:others]
    if n > 0 and columns > 0 and table[0, CHECKS] == 0:
        aim(ranges, 0, 0, min(TOGETHER, n), summaries[0], channels, absent, later)
    for begin in range(0, n, TOGETHER):
        size = min(TOGETHER, n - begin)
        for channel in range(channels):
            part[U64(channel), :] = nothings[U64(channel)]
        for column in range(columns):
            r = column % runs
            aimed, later = later, aimed
            last = column + 1 == columns
            to = begin + TOGETHER if last else begin
            many, next_column = min(TOGETHER, n - to), 0 if last else column + 1
            if many > 0 and table[next_column % runs, CHECKS] == 0:
                aim(ranges, next_column, to, many, summaries[next_column % runs], channels, absent, later)
            if table[r, CHECKS] == 0:
                reduce_whole(aimed, size, table[r], values, part)
                continue
            for t in range(size):
                i, places = U64(order[U64(begin + t)]), ranges[U64(begin + t), U64(column)]
                reduce_each(table[r], summaries[r, VALUES_AT], places, i, t, criteria, hows, part)
        for t in range(size):
            i = U64(order[U64(begin + t)])
            for channel in range(channels):
                totals[U64(channel), i] = part[U64(channel), U64(t)]
