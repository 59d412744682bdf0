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

from slidejoin.kernels.common.memory import ask_for, load_64
from slidejoin.kernels.common.words import load_key
from slidejoin.kernels.jit.compiling import I32, I64, I64_2D, OUT_I64, OUT_I64_2D, U64, inlined, kernel
from slidejoin.kernels.predicate.doubles import bits_of, of_bits
from slidejoin.kernels.sorted_runs.searching import AUX, BASE, CHECK_AUX, CHECKS, DIMENSIONS, WORDS_AT, passes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "DOUBLE_SUM", "PLACES", "RECORDS_AT", "ROWS_SHIFT", "SMALLEST", "SUM", "SUMMARY", "TABLE_AT", "TABLE_BLOCKS",
    "fill_levels", "reduce_ranges", "summarise",
]  # fmt: skip

PLACES, SHIFT = 16, 4
"""Places of a block."""

ROWS_SHIFT = 12
"""Values of rows lie in blocks of ``2**ROWS_SHIFT`` ordinals."""

SUM, DOUBLE_SUM, SMALLEST = range(3)
"""How two values become one: their sum, that of the doubles whose bits they are, or the smaller of them."""

RECORDS_AT, TABLE_AT, TABLE_BLOCKS, SUMMARY = range(4)
"""The summaries of a run as a line of int64: addresses of records and of the table, and the blocks of a level."""

AHEAD = 8 * PLACES
"""Places whose values are prefetched together: rows of neighbouring keys lie anywhere."""

TOGETHER = 64
"""Probes reduced together: what they read of a run is prefetched first."""

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
            stop = min(start + PLACES, end)
            slot, other = 0, (start >> SHIFT) * others
            for channel in range(channels):
                how, down = hows[U64(channel)], channel << 3
                into = start * width + slot
                if how == SUM:
                    total: Any = sums[U64(channel)]
                    for place in range(start, stop):
                        records[U64(into)] = total
                        total += load_key(at[U64(place - begin)] + down)
                        into += width
                    sums[U64(channel)] = total
                    slot += 1
                else:
                    total = nothings[U64(channel)]
                    for place in range(start, stop):
                        records[U64(into)] = total
                        total = joined(total, load_key(at[U64(place - begin)] + down), how)
                        into += width
                    totals[U64(other)] = total
                    total = nothings[U64(channel)]
                    for place in range(stop - 1, start - 1, -1):
                        into -= width
                        total = joined(load_key(at[U64(place - begin)] + down), total, how)
                        records[U64(into + 1)] = total
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


@inlined
def kept(words: Any, place: Any, low: Any, high: Any) -> Any:  # noqa: ANN401 - uint64
    """Tell whether the ordinal at a place lies in an interval, its end not included."""
    row = load_64(words + (place << 3)) & U64(0xFFFFFFFF)
    return (low <= row) & (row < high)


@kernel(
    I64_2D, types.int64, types.int64, I64_2D, types.int64, types.int64, I64_2D, I64, types.int64, I64, I64,
    OUT_I64_2D, OUT_I64_2D,
)  # fmt: skip
def reduce_whole(  # noqa: C901, PLR0912 - one loop for each way to reduce
    ranges: NDArray[np.int64],
    column: int,
    begin: int,
    table: NDArray[np.int64],
    r: int,
    size: int,
    summaries: NDArray[np.int64],
    rows: NDArray[np.int64],
    first: int,
    hows: NDArray[np.int64],
    nothings: NDArray[np.int64],
    found: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Add to `totals` (channels, TOGETHER) int64 what lines begin…begin+size-1 have in a run that is seen as a whole.

    `found` (4, TOGETHER) int64 is scratch: the records of both ends, and the entries of the table, 0 for none. The
    rest as in `reduce_ranges`. O(size * channels), and up to `PLACES` values for a range within one block.
    """
    channels, width, others = hows.size, 0, 0
    for channel in range(channels):
        width += 1 if hows[U64(channel)] == SUM else 2
        others += hows[U64(channel)] != SUM
    records, levels, blocks = summaries[r, RECORDS_AT], summaries[r, TABLE_AT], summaries[r, TABLE_BLOCKS]
    for t in range(size):
        both = ranges[U64(begin + t), U64(column)]
        start, end = both >> 32, both & 0xFFFFFFFF
        one, two = records + start * (width << 3), records + end * (width << 3)
        ask_for(one)
        ask_for(two)
        found[0, U64(t)], found[1, U64(t)] = one, two
        before, behind = start >> SHIFT, end >> SHIFT
        # No block lies between the ends of most ranges that are short.
        found[2, U64(t)] = found[3, U64(t)] = 0
        if others > 0 and behind - before > 1:
            low, high = before + 1, behind - 1
            level = highest_bit(low ^ high) if low < high else 0
            one = levels + ((level * blocks + low) * others << 3)
            ask_for(one)
            found[2, U64(t)] = one
            if low < high:
                two = levels + ((level * blocks + high) * others << 3)
                ask_for(two)
                found[3, U64(t)] = two
    slot, other = 0, 0
    for channel in range(channels):
        how, nothing = hows[U64(channel)], nothings[U64(channel)]
        down, of_table = slot << 3, other << 3
        if how == SUM:
            for t in range(size):
                totals[U64(channel), U64(t)] += load_key(found[1, U64(t)] + down) - load_key(found[0, U64(t)] + down)
            slot += 1
            continue
        for t in range(size):
            both = ranges[U64(begin + t), U64(column)]
            start, end = both >> 32, both & 0xFFFFFFFF
            total: Any = nothing
            if start >> SHIFT != end >> SHIFT:
                total = joined(load_key(found[0, U64(t)] + down + 8), load_key(found[1, U64(t)] + down), how)
                if found[2, U64(t)] != 0:
                    total = joined(total, load_key(found[2, U64(t)] + of_table), how)
                if found[3, U64(t)] != 0:
                    total = joined(total, load_key(found[3, U64(t)] + of_table), how)
            else:
                words, base = table[r, WORDS_AT], table[r, BASE]
                for place in range(start, end):
                    ordinal = base + np.int64(load_64(words + (place << 3)) & U64(0xFFFFFFFF))
                    at = values_of(rows, first, ordinal, channels << 3) + (channel << 3)
                    total = joined(total, load_key(at), how)
            totals[U64(channel), U64(t)] = joined(totals[U64(channel), U64(t)], total, how)
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
    after it as `ranging.count_matches`. `summaries` (runs, SUMMARY) int64 are those of the runs that are seen as a
    whole; `rows` and the rest as `summarise` takes them. O(k * runs * channels) a probe, plus the rows in ranges of
    runs that are not seen as a whole, or whose rows are checked one by one.
    """
    runs, channels = table.shape[0], hows.size
    found, part = np.empty((4, TOGETHER), np.int64), np.empty((channels, TOGETHER), np.int64)
    for begin in range(0, order.size, TOGETHER):
        size = min(TOGETHER, order.size - begin)
        for channel in range(channels):
            part[U64(channel), :] = nothings[U64(channel)]
        for column in range(ranges.shape[1]):
            r = column % runs
            checks = table[r, CHECKS]
            if checks == 0:
                reduce_whole(
                    ranges, column, begin, table, r, size, summaries, rows, first, hows, nothings, found, part
                )
                continue
            words, base = table[r, WORDS_AT], table[r, BASE]
            for t in range(size):
                i = U64(order[U64(begin + t)])
                both = ranges[U64(begin + t), U64(column)]
                low, high = U64(max(seen_from[i] - base, 0)), U64(max(seen_to[i] - base, 0))
                for place in range(both >> 32, both & 0xFFFFFFFF):
                    if kept(words, place, low, high) and (
                        checks < CHECK_AUX or passes(table[r, AUX], table[r, DIMENSIONS], place, i, lows, highs, dims)
                    ):
                        ordinal = base + np.int64(load_64(words + (place << 3)) & U64(0xFFFFFFFF))
                        at = values_of(rows, first, ordinal, channels << 3)
                        for channel in range(channels):
                            value = load_key(at + (channel << 3))
                            part[U64(channel), U64(t)] = joined(part[U64(channel), U64(t)], value, hows[U64(channel)])
        for t in range(size):
            i = U64(order[U64(begin + t)])
            for channel in range(channels):
                totals[U64(channel), i] = part[U64(channel), U64(t)]
