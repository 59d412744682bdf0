"""Finding where the ranges of a block of probes begin and end in sorted runs.

One run after the other, so that its parameters stay in registers; for few probes at a time, so that what was prefetched
while the block before was searched is still in a near cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import (
    DIRECTORY,
    KEYS,
    LARGEST,
    SHIFT,
    SIZE,
    SMALLEST,
    STEP,
    WORDS_AT,
    place_of,
    refined,
)
from slidejoin.jit.compiling import I32, I64_2D, OUT_I64, OUT_I64_2D, U64, group, inlined, kernel
from slidejoin.jit.vectors.memory import ask_for, load_32, load_64
from slidejoin.jit.vectors.words import LANES, WORDS, count_lines, load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "AIMS",
    "BLOCK",
    "FIRST",
    "GUESS",
    "ORDERED",
    "PAST",
    "Ordered",
    "Scratch",
    "aim_around",
    "ask_ahead",
    "guess",
    "locate",
    "locate_block",
    "scratch_for",
]

BLOCK = 128
"""Probes of a block; 64 to 512 take about the same."""

OUT_U32_2D = types.Array(types.uint32, 2, "C")

FIRST, PAST, GUESS, GUESS_PAST, AIMS = range(5)
"""Lines of aims, one number a probe, for each run and each of two blocks in turn: the upper half of the first word that
a range may have, that of the first one behind it, and for both the place by the directory, at a line's beginning."""

LINES = 2 * LANES
"""Words of the lines that are prefetched."""

READY = 1

FEW_SLOW = 2
"""If this fraction, 2**-2, of the ends of a block are behind the lines of their starts, ends are prefetched too."""


class Scratch(NamedTuple):
    """What is known of a block of probes, and of the next one; each of `columns` is a range in a run.

    Attributes
    ----------
    bounds : (2, BLOCK) int64
        The keys at which ranges begin and end.
    aims : (2 * columns * AIMS, BLOCK) uint32
        For both blocks in turn, zeros at first.
    state : (columns,) int64
        Whether ends are looked up ahead, zeros at first.
    starts, ends : (columns, BLOCK) uint32
        The places at which ranges begin and end.
    """

    bounds: NDArray[np.int64]
    aims: NDArray[np.uint32]
    state: NDArray[np.int64]
    starts: NDArray[np.uint32]
    ends: NDArray[np.uint32]


SCRATCH = group(Scratch, OUT_I64_2D, OUT_U32_2D, OUT_I64, OUT_U32_2D, OUT_U32_2D)


class Ordered(NamedTuple):
    """Probes in the order of their keys, with ranges around them: from a key less `below` to the key and `above`.

    Attributes
    ----------
    words : (n + PAD,) uint64
        Of a run that holds all of them, with whole keys.
    size : int
        How many they are, n.
    origin : int
        The smallest key of that run.
    below, above : int
    """

    words: NDArray[np.uint64]
    size: int
    origin: int
    below: int
    above: int


ORDERED = group(Ordered, WORDS, *[types.int64] * 4)


@inlined
def key_at(keys: Any, place: Any) -> Any:  # noqa: ANN401
    """Return the whole key at a place."""
    return load_key(keys + (place << 3))


@kernel(I64_2D, types.int64, OUT_I64_2D, types.int64, types.int64, OUT_U32_2D)
def aim(
    table: NDArray[np.int64], r: int, bounds: NDArray[np.int64], at: int, size: int, aims: NDArray[np.uint32]
) -> None:
    """Write which words begin and end the ranges of keys `bounds` (2, size) int64 in a run, to lines `at` and after."""
    smallest, largest, shift = table[r, SMALLEST], table[r, LARGEST], U64(table[r, SHIFT])
    for t in range(size):
        low, high = bounds[0, U64(t)], bounds[1, U64(t)]
        lower = U64(int(min(max(low, smallest), largest)) - int(smallest)) >> shift
        upper = U64(int(min(max(high, smallest), largest)) - int(smallest)) >> shift
        aims[U64(at + FIRST), U64(t)] = lower + U64(low > largest)
        aims[U64(at + PAST), U64(t)] = upper + U64(high >= smallest)


@kernel(I64_2D, ORDERED, types.int64, OUT_U32_2D, types.int64)
def aim_around(table: NDArray[np.int64], probes: Ordered, begin: int, aims: NDArray[np.uint32], turn: int) -> None:
    """Write which words begin and end the ranges around the keys of the block from `begin` on, in every run."""
    words, origin, below, above = probes.words, probes.origin, probes.below, probes.above
    size = min(BLOCK, max(0, probes.size - begin))
    for r in range(table.shape[0]):
        smallest = int(table[r, SMALLEST])
        top = int(table[r, LARGEST]) - smallest + 1
        low, high = origin - below - smallest, origin + above - smallest + 1
        at = (2 * r + turn) * AIMS
        for t in range(size):
            distance = np.int64(words[U64(begin + t)] >> U64(32))
            first: Any = min(max(distance + low, 0), top)
            past: Any = min(max(distance + high, 0), top)
            aims[U64(at + FIRST), U64(t)], aims[U64(at + PAST), U64(t)] = first, past


@inlined
def guess(words: Any, directory: Any, step: Any, bound: Any) -> Any:  # noqa: ANN401 - int64, the last two uint64
    """Return the line of the first word of a bucket by the directory, and prefetch it and the next."""
    place = np.int64(load_32(directory + (np.int64(U64(bound) >> step) << 2))) & -LANES
    ask_for(words + (place << 3))
    ask_for(words + (place << 3) + 64)
    return place


@kernel(I64_2D, types.int64, types.int64, types.int64, OUT_U32_2D, types.int64)
def ask_ahead(table: NDArray[np.int64], r: int, size: int, which: int, aims: NDArray[np.uint32], at: int) -> None:
    """Look the words of a block up in the directory, the first ones (`which` is 0) or those behind ranges (1)."""
    words, directory, step = table[r, WORDS_AT], table[r, DIRECTORY], U64(table[r, STEP])
    for t in range(size):
        aims[U64(at + GUESS + which), U64(t)] = guess(words, directory, step, aims[U64(at + FIRST + which), U64(t)])


@kernel(I64_2D, types.int64, types.int64, types.int64, types.int64, SCRATCH)
def locate(table: NDArray[np.int64], r: int, size: int, turn: int, column: int, scratch: Scratch) -> None:
    """Write the places where ranges of a block begin and end in a run, and start the lookup of the next block.

    `turn` says which of the two blocks in the scratch this is. Once ends are far from starts, they are prefetched too,
    from the next block on.
    """
    at, soon = (2 * column + turn) * AIMS, (2 * column + 1 - turn) * AIMS
    aims, starts, ends, far = scratch.aims, scratch.starts, scratch.ends, scratch.state[U64(column)] == READY
    words, directory, step = table[r, WORDS_AT], table[r, DIRECTORY], table[r, STEP]
    top = (U64(int(table[r, LARGEST]) - int(table[r, SMALLEST])) >> U64(table[r, SHIFT])) + U64(1)
    first, past, place, end_place = U64(at + FIRST), U64(at + PAST), U64(at + GUESS), U64(at + GUESS)
    if far:
        end_place = U64(at + GUESS_PAST)
    first_soon, place_soon = U64(soon + FIRST), U64(soon + GUESS)
    whole, slow, down = table[r, SIZE], 0, U64(step)
    for t in range(size):
        aims[place_soon, U64(t)] = guess(words, directory, down, aims[first_soon, U64(t)])
        bound, beyond = U64(aims[first, U64(t)]) << U64(32), U64(aims[past, U64(t)]) << U64(32)
        near = np.int64(aims[place, U64(t)])
        below = count_lines(words + (near << 3), bound)
        start = near + below
        if below == LINES:
            start = place_of(words, directory, step, bound)
        near = np.int64(aims[end_place, U64(t)])
        below = count_lines(words + (near << 3), beyond)
        end = near + below
        if below == LINES:
            end = whole
            if U64(aims[past, U64(t)]) != top:
                slow += 1
                end = place_of(words, directory, step, beyond)
        starts[U64(column), U64(t)] = start
        ends[U64(column), U64(t)] = max(start, end)
    if far or slow > size >> FEW_SLOW:
        ask_ahead(table, r, size, 1, aims, soon)
        scratch.state[U64(column)] = READY


@kernel(I64_2D, types.int64, types.int64, types.int64, types.int64, SCRATCH)
def refine(table: NDArray[np.int64], r: int, size: int, at: int, column: int, scratch: Scratch) -> None:
    """Refine places by whole keys, in a run whose words lack the lower bits of keys."""
    bounds, aims, starts, ends = scratch.bounds, scratch.aims, scratch.starts, scratch.ends
    words, directory, step, keys = table[r, WORDS_AT], table[r, DIRECTORY], table[r, STEP], table[r, KEYS]
    smallest, largest = table[r, SMALLEST], table[r, LARGEST]
    past = U64(at + PAST)
    for t in range(size):
        start: Any = np.int64(starts[U64(column), U64(t)])
        end: Any = np.int64(ends[U64(column), U64(t)])
        low, high = bounds[0, U64(t)], bounds[1, U64(t)]
        if start >= end or low > high:
            ends[U64(column), U64(t)] = start
            continue
        last = U64(aims[past, U64(t)]) - U64(1)
        # Many rows of one key are usual: then the places are right as they are.
        if high < largest and load_64(words + ((end - 1) << 3)) >> U64(32) == last and key_at(keys, end - 1) > high:
            end = refined(keys, place_of(words, directory, step, last << U64(32)), end, int(high) + 1)
        if low > smallest and start < end and key_at(keys, start) < low:
            start = refined(keys, start, end, low)
        starts[U64(column), U64(t)] = start
        ends[U64(column), U64(t)] = max(start, end)


@inlined
def take_bounds(lo: Any, hi: Any, order: Any, begin: Any, piece: Any, size: Any, bounds: Any) -> None:  # noqa: ANN401
    """Write the ends of one range of each probe of a block to `bounds`, see `Scratch`."""
    for t in range(size):
        i = U64(order[U64(begin + t)])
        bounds[0, U64(t)], bounds[1, U64(t)] = lo[U64(piece), i], hi[U64(piece), i]


@kernel(I64_2D, I64_2D, I64_2D, I32, types.int64, SCRATCH, types.int64)
def take_aim(
    table: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    order: NDArray[np.int32],
    begin: int,
    scratch: Scratch,
    turn: int,
) -> None:
    """Aim the block of probes from `begin` on at all runs."""
    size, runs, bounds = min(BLOCK, max(0, order.size - begin)), table.shape[0], scratch.bounds
    for piece in range(lo.shape[0]):
        take_bounds(lo, hi, order, begin, piece, size, bounds)
        for r in range(runs):
            aim(table, r, bounds, (2 * (piece * runs + r) + turn) * AIMS, size, scratch.aims)


@kernel(I64_2D, I64_2D, I64_2D, I32, types.int64, SCRATCH, returns=types.int64)
def locate_block(
    table: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    order: NDArray[np.int32],
    begin: int,
    scratch: Scratch,
) -> int:
    """Write where the ranges of the probes begin…begin+BLOCK-1 begin and end in all runs; return how many these are.

    `table` (runs, FIELDS) int64; lo and hi (k, n) int64; `order` (n,) int32, in which probes are taken, block by block
    from the first on. The `scratch` has k * runs columns, range by range one for each run.
    """
    n, runs = order.size, table.shape[0]
    columns, turn = lo.shape[0] * runs, begin // BLOCK & 1
    size = min(BLOCK, n - begin)
    if begin == 0:
        take_aim(table, lo, hi, order, 0, scratch, 0)
        for column in range(columns):
            ask_ahead(table, column % runs, size, 0, scratch.aims, 2 * column * AIMS)
    take_aim(table, lo, hi, order, begin + BLOCK, scratch, 1 - turn)
    for column in range(columns):
        r = column % runs
        locate(table, r, size, turn, column, scratch)
        if table[r, KEYS] != 0:
            take_bounds(lo, hi, order, begin, column // runs, size, scratch.bounds)
            refine(table, r, size, (2 * column + turn) * AIMS, column, scratch)
    return size


@inlined
def scratch_for(columns: int) -> Scratch:
    """Return the scratch for so many columns."""
    return Scratch(
        np.empty((2, BLOCK), np.int64),
        np.zeros((2 * columns * AIMS, BLOCK), np.uint32),
        np.zeros(columns, np.int64),
        np.empty((columns, BLOCK), np.uint32),
        np.empty((columns, BLOCK), np.uint32),
    )
