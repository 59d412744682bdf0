"""Summaries of the values of a run's rows, by which a range of the run costs its ends, not its rows.

A record for each place of the run has

- of a channel of whole numbers, the sum of all values before the place: a range is the difference of two;
- of other channels, in which nothing may be subtracted, the reductions of the values of its block of `PLACES` places
  that lie before it, and of those from it on.

The blocks between the two ends of a range are reduced by a table, a disjoint sparse one: level k holds, on both sides
of each multiple of ``2**k``, the reductions of all blocks up to it, so that any range of blocks is two entries of the
level at which its first and its last block differ. Sums of doubles are rounded once for each addition.

The values themselves lie by ordinal, in blocks of ``2**ROWS_SHIFT`` rows, a line of one int64 for each channel a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, OUT_I64, OUT_I64_2D, U64, group, inlined, kernel
from slidejoin.jit.vectors.doubles import bits_of, of_bits
from slidejoin.jit.vectors.memory import ask_for, load_64
from slidejoin.jit.vectors.words import load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "DOUBLE_SUM", "PLACES", "PLACES_SHIFT", "ROWS_SHIFT", "SMALLEST", "SUM", "VALUES", "ValuesInBlocks", "fill_levels",
    "joined", "line_up", "summarise", "values_of",
]  # fmt: skip

PLACES, PLACES_SHIFT = 16, 4
"""Places of a block."""

ROWS_SHIFT = 12
"""Values of rows lie in blocks of ``2**ROWS_SHIFT`` ordinals."""

ROWS_OF_BLOCK = (1 << ROWS_SHIFT) - 1

SUM, DOUBLE_SUM, SMALLEST = range(3)
"""How two values become one: their sum, that of the doubles whose bits they are, or the smaller of them."""

AHEAD = 8 * PLACES
"""Places whose values are prefetched together: rows of neighbouring keys lie anywhere."""


class ValuesInBlocks(NamedTuple):
    """The values of rows by ordinal.

    Attributes
    ----------
    blocks : (b,) int64
        The addresses of the values of blocks of rows.
    first : int
        The number of the first of these blocks.
    hows, nothings : (channels,) int64
        How values of a channel are reduced, and what no value is.
    """

    blocks: NDArray[np.int64]
    first: int
    hows: NDArray[np.int64]
    nothings: NDArray[np.int64]


VALUES = group(ValuesInBlocks, I64, types.int64, I64, I64)


@inlined
def joined(one: Any, two: Any, how: Any) -> Any:  # noqa: ANN401 - int64
    """Reduce two values."""
    if how == DOUBLE_SUM:
        return bits_of(of_bits(one) + of_bits(two))
    if how == SUM:
        return one + two
    return min(one, two)


@inlined
def values_of(blocks: Any, first: Any, ordinal: Any, line: Any) -> Any:  # noqa: ANN401 - int64
    """Return the address of the values of a row; a line of them takes so many bytes."""
    return blocks[U64((ordinal >> ROWS_SHIFT) - first)] + (ordinal & ROWS_OF_BLOCK) * line


@inlined
def around(
    at: NDArray[np.int64],
    place: int,
    size: int,
    down: int,
    how: int,
    nothing: int,
    records: NDArray[np.int64],
    width: int,
) -> int:
    """Write the two numbers of each place of a block, for one channel, and return the block's reduction.

    `records` begin with the first of them, and have `width` numbers a place.
    """
    total: Any = nothing
    for t in range(size):
        records[U64(t * width)] = total
        total = joined(total, load_key(at[U64(place + t)] + down), how)
    behind: Any = nothing
    for t in range(size - 1, -1, -1):
        behind = joined(load_key(at[U64(place + t)] + down), behind, how)
        records[U64(t * width + 1)] = behind
    whole: int = total
    return whole


@inlined
def close(
    size: int,
    width: int,
    others: int,
    hows: NDArray[np.int64],
    nothings: NDArray[np.int64],
    sums: NDArray[np.int64],
    records: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Write the record behind the last place."""
    into, other = size * width, (size >> PLACES_SHIFT) * others
    for channel in range(hows.size):
        if hows[U64(channel)] == SUM:
            records[U64(into)] = sums[U64(channel)]
            into += 1
        else:
            open_block = size & (PLACES - 1) != 0
            records[U64(into)] = totals[U64(other)] if open_block else nothings[U64(channel)]
            records[U64(into + 1)] = nothings[U64(channel)]
            into += 2
            other += 1


@kernel(types.int64, types.int64, types.int64, VALUES, OUT_I64, OUT_I64)
def summarise(
    words: int, size: int, base: int, values: ValuesInBlocks, records: NDArray[np.int64], totals: NDArray[np.int64]
) -> None:
    """Write the record of each place of a run and of the end, and the reduction of each block of places.

    The run has `size` words at an address and begins at the ordinal `base`. `records` ((size + 1) * width,) int64: one
    number for a channel that is `SUM`, two for others; `totals` (blocks * others,) int64. O(size * channels).
    """
    blocks, first, hows, nothings = values
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
            line = values_of(blocks, first, ordinal, channels << 3)
            at[U64(place - begin)] = line
            ask_for(line)
        for start in range(begin, end, PLACES):
            many, slot, other = min(PLACES, end - start), 0, (start >> PLACES_SHIFT) * others
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
                # The same twice, so that neither loop looks for each value how it is reduced.
                if how == SMALLEST:
                    whole = around(at, start - begin, many, down, SMALLEST, nothing, records[into:], width)
                else:
                    whole = around(at, start - begin, many, down, DOUBLE_SUM, nothing, records[into:], width)
                totals[U64(other)] = whole
                slot += 2
                other += 1
    close(size, width, others, hows, nothings, sums, records, totals)


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


@kernel(types.int64, types.int64, types.int64, VALUES, OUT_I64_2D)
def line_up(words: int, size: int, base: int, values: ValuesInBlocks, out: NDArray[np.int64]) -> None:
    """Write the values of a run's rows in the order of its keys, (channels, size) int64; see `summarise`. O(size)."""
    blocks, first = values.blocks, values.first
    for place in range(size):
        ordinal = base + np.int64(load_64(words + (place << 3)) & U64(0xFFFFFFFF))
        line = values_of(blocks, first, ordinal, out.shape[0] << 3)
        for channel in range(out.shape[0]):
            out[U64(channel), U64(place)] = load_key(line + (channel << 3))
