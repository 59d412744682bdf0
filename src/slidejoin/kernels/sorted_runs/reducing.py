"""Reducing the values of rows in ranges of sorted runs: sums, smallest and largest values.

Beside a run stand summaries, so that a range costs its ends, not its rows. A record for each place of the run has

- of a channel of whole numbers, the sum of all values before the place: a range is the difference of two;
- of other channels, in which nothing may be subtracted, the reduction of the values of its block of `PLACES` places
  before it, and from it on.

The blocks between the two ends of a range are reduced by a table, a disjoint sparse one: level k holds, on both sides
of each multiple of ``2**k``, the reductions of all blocks up to it, so that any range of blocks is two entries of the
level at which its first and its last block differ. Sums of doubles are rounded once for each addition.

The values themselves lie by ordinal, in blocks of ``2**ROWS_SHIFT`` rows, a line of `channels` int64 for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.common.memory import ask_for, load_64, place_of
from slidejoin.kernels.common.words import load_key
from slidejoin.kernels.jit.compiling import I32, I64, I64_2D, OUT_I64, OUT_I64_2D, U64, inlined, kernel
from slidejoin.kernels.predicate.doubles import bits_of, of_bits
from slidejoin.kernels.sorted_runs.searching import AUX, BASE, CHECK_AUX, CHECKS, DIMENSIONS, SIZE, WORDS_AT, passes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "DOUBLE_SUM", "PLACES", "RECORDS_AT", "ROWS_SHIFT", "SMALLEST", "SUM", "SUMMARY", "TABLE_AT", "TABLE_BLOCKS",
    "VALUES_AT", "fill_levels", "line_up", "reduce_ranges", "summarise",
]  # fmt: skip

PLACES, SHIFT = 16, 4
"""Places of a block."""

ROWS_SHIFT = 12
"""Values of rows lie in blocks of ``2**ROWS_SHIFT`` ordinals."""

SUM, DOUBLE_SUM, SMALLEST = range(3)
"""How two values become one: their sum, that of the doubles whose bits they are, or the smaller of them."""

RECORDS_AT, TABLE_AT, TABLE_BLOCKS, VALUES_AT, SUMMARY = range(5)
"""The summaries of a run as a line of int64: the addresses of records and of the table, the blocks of a level, and, of
a run whose rows are looked at one by one, the address of its values in the order of its keys."""

AHEAD = 8 * PLACES
"""Places whose values are prefetched together: rows of neighbouring keys lie anywhere."""

LANES = 4
"""Doubles that are added up side by side, each lane on its own."""

TOGETHER = 64
"""Probes reduced together: what they read of a run is prefetched first."""

START, END, ONE, TWO, LOW, HIGH, FOUND = range(7)
"""Lines of what was found of ranges: their ends, and the addresses of two records and of two entries of the table."""

ROWS_OF_BLOCK = (1 << ROWS_SHIFT) - 1


@inlined
def joined(one: Any, two: Any, how: Any) -> Any:  # noqa: ANN401 - int64
    """Reduce two values."""
    if how == DOUBLE_SUM:
        return bits_of(of_bits(one) + of_bits(two))
    if how == SUM:
        return one + two
    return min(one, two)


@inlined
def values_of(rows: Any, first: Any, ordinal: Any, line: Any) -> Any:  # noqa: ANN401 - int64
    """Return the address of the values of a row; a line of them takes so many bytes."""
    return rows[U64((ordinal >> ROWS_SHIFT) - first)] + (ordinal & ROWS_OF_BLOCK) * line


@inlined
def around(
    at: Any, place: Any, size: Any, down: Any, how: Any, nothing: Any, records: Any, into: Any, width: Any
) -> Any:  # noqa: ANN401
    """Write the two numbers of each place of a block, for one channel, and return the block's reduction."""
    total: Any = nothing
    for t in range(size):
        records[U64(into + t * width)] = total
        total = joined(total, load_key(at[U64(place + t)] + down), how)
    behind: Any = nothing
    for t in range(size - 1, -1, -1):
        behind = joined(load_key(at[U64(place + t)] + down), behind, how)
        records[U64(into + t * width + 1)] = behind
    return total


@kernel(types.int64, types.int64, types.int64, I64, types.int64, I64, I64, OUT_I64, OUT_I64)
def summarise(
    words: int,
    size: int,
    base: int,
    rows: NDArray[np.int64],
    first: int,
    hows: NDArray[np.int64],
    nothings: NDArray[np.int64],
    records: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Write the record of each place of a run and of the end, and the reduction of each block of places.

    The run has `size` words at an address and begins at the ordinal `base`. `rows` (b,) int64 are the addresses of the
    values of blocks of rows, from block `first` on. `hows` and `nothings` (channels,) int64 say how values of a channel
    are reduced, and what no value is. `records` ((size + 1) * width,) int64: one number for a channel that is `SUM`,
    two for others; `totals` (blocks * others,) int64. O(size * channels).
    """
    channels = hows.size
    sums, at = np.zeros(channels, np.int64), np.empty(AHEAD, np.int64)
    width, others = 0, 0
    for channel in range(channels):
        width += 1 if hows[U64(channel)] == SUM else 2
        others += hows[U64(channel)] != SUM
    for begin in range(0, size, AHEAD):
        end = min(begin + AHEAD, size)
        for place in range(begin, end):
            ordinal = base + np.int64(load_64(words + (place << 3)) & U64(0xFFFFFFFF))
            line = values_of(rows, first, ordinal, channels << 3)
            at[U64(place - begin)] = line
            ask_for(line)
        for start in range(begin, end, PLACES):
            many, slot, other = min(PLACES, end - start), 0, (start >> SHIFT) * others
            for channel in range(channels):
                how, nothing, down = hows[U64(channel)], nothings[U64(channel)], channel << 3
                into = start * width + slot
                if how == SUM:
                    total: Any = sums[U64(channel)]
                    for t in range(many):
                        records[U64(into + t * width)] = total
                        total += load_key(at[U64(start - begin + t)] + down)
                    sums[U64(channel)] = total
                    slot += 1
                    continue
                # The same twice, so that neither loop asks for each value how it is reduced.
                if how == SMALLEST:
                    whole = around(at, start - begin, many, down, SMALLEST, nothing, records, into, width)
                else:
                    whole = around(at, start - begin, many, down, DOUBLE_SUM, nothing, records, into, width)
                totals[U64(other)] = whole
                slot += 2
                other += 1
    into, other = size * width, (size >> SHIFT) * others
    for channel in range(channels):
        if hows[U64(channel)] == SUM:
            records[U64(into)] = sums[U64(channel)]
            into += 1
        else:
            open_block = size & (PLACES - 1) != 0
            records[U64(into)] = totals[U64(other)] if open_block else nothings[U64(channel)]
            records[U64(into + 1)] = nothings[U64(channel)]
            into += 2
            other += 1


@kernel(I64, OUT_I64_2D)
def fill_levels(hows: NDArray[np.int64], levels: NDArray[np.int64]) -> None:
    """Write the levels of a disjoint sparse table above its first line, which holds the reductions of all blocks.

    `levels` (k, blocks * others) int64, where 2**k is at least the number of blocks. O(k * blocks * others).
    """
    others = 0
    for how in hows:
        others += how != SUM
    blocks = levels.shape[1] // max(others, 1)
    for level in range(1, levels.shape[0]):
        half, line = 1 << level, U64(level)
        for middle in range(half, blocks, 2 * half):
            other = 0
            for how in hows:
                if how != SUM:
                    total: Any = levels[0, U64((middle - 1) * others + other)]
                    levels[line, U64((middle - 1) * others + other)] = total
                    for block in range(middle - 2, middle - half - 1, -1):
                        total = joined(levels[0, U64(block * others + other)], total, how)
                        levels[line, U64(block * others + other)] = total
                    total = levels[0, U64(middle * others + other)]
                    levels[line, U64(middle * others + other)] = total
                    for block in range(middle + 1, min(middle + half, blocks)):
                        total = joined(total, levels[0, U64(block * others + other)], how)
                        levels[line, U64(block * others + other)] = total
                    other += 1


@inlined
def highest_bit(number: Any) -> Any:  # noqa: ANN401 - int64
    """Return the place of the highest bit of a number from 1 to 2**53."""
    return (bits_of(np.float64(number)) >> 52) - 1023


@kernel(types.int64, types.int64, types.int64, I64, types.int64, OUT_I64_2D)
def line_up(
    words: int, size: int, base: int, rows: NDArray[np.int64], first: int, values: NDArray[np.int64]
) -> None:
    """Write the values of a run's rows in the order of its keys, (channels, size) int64; see `summarise`. O(size)."""
    for place in range(size):
        ordinal = base + np.int64(load_64(words + (place << 3)) & U64(0xFFFFFFFF))
        line = values_of(rows, first, ordinal, values.shape[0] << 3)
        for channel in range(values.shape[0]):
            values[U64(channel), U64(place)] = load_key(line + (channel << 3))


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
    found: Any, size: Any, down: Any, of_table: Any, how: Any, nothing: Any, words: Any, base: Any, rows: Any,
    first: Any, line: Any, of_row: Any, totals: Any, channel: Any,
) -> None:  # noqa: ANN401
    """Add what `found` ranges have in one channel of which nothing may be subtracted, see `reduce_whole`."""
    for t in range(size):
        start, end = found[START, U64(t)], found[END, U64(t)]
        total: Any = totals[channel, U64(t)]
        if start >> SHIFT != end >> SHIFT:
            inner = joined(
                load_key(found[LOW, U64(t)] + of_table), load_key(found[HIGH, U64(t)] + of_table), how
            )
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
        low, high = (start >> SHIFT) + 1, (end >> SHIFT) - 1
        line = levels + (highest_bit((low ^ high) | 1) if low < high else 0) * blocks * (others << 3)
        one, two = line + low * (others << 3), line + high * (others << 3)
        one, two = one if low <= high else nowhere, two if low < high else nowhere
        ask_for(one)
        ask_for(two)
        found[LOW, U64(t)], found[HIGH, U64(t)] = one, two


@kernel(
    I64_2D, types.int64, I64_2D, types.int64, I64, types.int64, I64, I64, OUT_I64_2D
)  # fmt: skip
def reduce_whole(
    found: NDArray[np.int64],
    size: int,
    table: NDArray[np.int64],
    r: int,
    rows: NDArray[np.int64],
    first: int,
    hows: NDArray[np.int64],
    nothings: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Add to `totals` (channels, TOGETHER) int64 what the ranges that `aim` found have in a run that is seen as a whole.

    The rest as in `reduce_ranges`. O(size * channels), and up to `PLACES` values for a range within one block.
    """
    slot, other, line = 0, 0, hows.size << 3
    for channel in range(hows.size):
        how, nothing, down, of_row = hows[U64(channel)], nothings[U64(channel)], slot << 3, channel << 3
        if how == SUM:
            for t in range(size):
                totals[U64(channel), U64(t)] += load_key(found[TWO, U64(t)] + down) - load_key(found[ONE, U64(t)] + down)
            slot += 1
            continue
        # The same twice, see `summarise`.
        if how == SMALLEST:
            between(
                found, size, down, other << 3, SMALLEST, nothing, table[r, WORDS_AT], table[r, BASE], rows, first, line,
                of_row, totals, U64(channel),
            )  # fmt: skip
        else:
            between(
                found, size, down, other << 3, DOUBLE_SUM, nothing, table[r, WORDS_AT], table[r, BASE], rows, first,
                line, of_row, totals, U64(channel),
            )  # fmt: skip
        slot += 2
        other += 1


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

    `table` (runs, FIELDS), `ranges` (n, k * runs) and `order` (n,) are as `ranging.find_ranges` has them, the arrays
    after it as `ranging.count_matches`. `summaries` (runs, SUMMARY) int64 are those of the runs, of what
    each is needed for; `rows` and the rest as `summarise` takes them. O(k * runs * channels) a probe, plus the rows in ranges of
    runs that are not seen as a whole, or whose rows are checked one by one.
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
                reduce_whole(found, size, table, r, rows, first, hows, nothings, part)
                continue
            words, base, line = table[r, WORDS_AT], table[r, BASE], table[r, SIZE] << 3
            for t in range(size):
                i = U64(order[U64(begin + t)])
                both = ranges[U64(begin + t), U64(column)]
                start, end = both >> 32, both & 0xFFFFFFFF
                low, high = U64(max(seen_from[i] - base, 0)), U64(max(seen_to[i] - base, 0))
                if checks >= CHECK_AUX:
                    for place in range(start, end):
                        if kept(words, place, low, high) and passes(
                            table[r, AUX], table[r, DIMENSIONS], place, i, lows, highs, dims
                        ):
                            for channel in range(channels):
                                value = load_key(summaries[r, VALUES_AT] + channel * line + (place << 3))
                                part[U64(channel), U64(t)] = joined(
                                    part[U64(channel), U64(t)], value, hows[U64(channel)]
                                )
                    continue
                for channel in range(channels):
                    at, how, total = summaries[r, VALUES_AT] + channel * line, hows[U64(channel)], part[U64(channel), U64(t)]
                    part[U64(channel), U64(t)] = seen(words, at, start, end, low, high, how, total)
        for t in range(size):
            i = U64(order[U64(begin + t)])
            for channel in range(channels):
                totals[U64(channel), i] = part[U64(channel), U64(t)]
