"""Chains of probes through cell tables: what the rows of a stretch produce with all other streams, in one call.

A block of rows at a time probes one stream after the other, so what a step finds is still in the caches when it probes
the next one: (1) the keys of the wide rows are read from the records of the stream that has them; (2) the table of the
stored stream is probed, and in a time window what was found is checked by event times; (3) the wide rows become wider.
The parameters of all steps are in one array of addresses and numbers, the *work* of a stretch, so a thread needs no
interpreter for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.index.cells.kernels.placing import FLOOR
from slidejoin.index.cells.kernels.probing import MARGIN, count_cells, find_cells
from slidejoin.index.cells.kernels.table import I64_OF
from slidejoin.index.kernels.view import VIEW
from slidejoin.jit.compiling import OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.atomics import now
from slidejoin.jit.vectors.fields import offsets
from slidejoin.jit.vectors.memory import (
    i32_at,
    i64_at,
    i64_table_at,
    load_8,
    load_16,
    load_32,
    load_64,
    prefetch_at,
    u32_at,
)
from slidejoin.jit.vectors.shifting import OPEN_HIGH, OPEN_LOW
from slidejoin.operator.fused.kernels.packing import keep_between
from slidejoin.operator.multiway.kernels.widening import rank_probes, widen_found
from slidejoin.plan.kernels.closing import NEAR

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "CHAIN",
    "CHAINS",
    "COUNTING",
    "FIRST",
    "FIRST_CHAIN",
    "FIRST_STEP",
    "LENGTH",
    "MATCHED",
    "MOST_STEPS",
    "MOVED",
    "OUT",
    "OWNER",
    "OWN_TIMES",
    "PROBED",
    "PRODUCERS",
    "RANKS",
    "RECORDS",
    "SCRATCH",
    "SEEN",
    "STEP",
    "STEPS",
    "STORED",
    "STREAMS",
    "TABLE",
    "TIMED",
    "TIME_LINES",
    "TOOK",
    "TOO_DENSE",
    "TOO_FAR",
    "UNFITTING",
    "VIEWED",
    "scratch_of",
    "walk_chains",
    "work_of",
]

MOST_STEPS = 5
"""Steps of a chain: a join has up to six streams."""

(
    TABLE,  # the table that is probed: addresses and sizes of its slots, its pool and its state
    VIEWED,  # what the probes see of it
    OWNER,  # which of the rows of a wide row has the key, by its place in the chain
    RECORDS,  # the records of that stream: address of their addresses, how many, shift, stride, the key's offset, bytes
    MOVED,  # how ranges follow from a key: its sign, and the lower and the upper end that are added to it
    SEEN,  # how many stored rows had arrived before each arrival: address, values; and before the slice
    STORED,  # event times beside the table: address of values, how many, how many of each row, and which of these it is
    LENGTH,  # of the stored stream's time window, in ticks
    PROBED,  # wide rows that probed, and those of the present block
    MATCHED,  # the wider rows that they became, and those of the present block
    TOOK,  # nanoseconds
    STEP,  # words of a step
) = offsets(6, VIEW, 1, 6, 3, 3, 4, 1, 2, 2, 1, line=8)

STEPS, FIRST, RANKS, PRODUCERS, OWN_TIMES, STREAMS, FIRST_STEP, CHAIN = offsets(
    1, 1, 2, 2, 2, MOST_STEPS + 1, MOST_STEPS * STEP, line=8
)
"""Words of a chain: how many STEPS it has; the ordinal of the FIRST row of its stream in the stretch, the RANKS of all
of these (address, rows), and which of them may produce anything (PRODUCERS: address of their places, or 0 for all; how
many); their event times (OWN_TIMES: address, and the length of their stream's time window); the STREAMS whose rows a
combination has, by number, in the order of the chain; and its steps."""

CHAINS, COUNTING, TIMED, OUT, SCRATCH, FIRST_CHAIN = offsets(1, 1, 1, 2, 1, line=8)
"""Words of the work: how many CHAINS it has; whether combinations are only COUNTING; how many lines of event times wide
rows have (TIMED: TIME_LINES, or 0 in windows of rows); where they go OUT (address of
(streams + 1, places) int64, places): their ranks, and then the ordinals of each stream, or, if they are counted, of
(arrivals,) int64 that their numbers are added to; memory of `scratch_of` words; and then the chains."""

UNFITTING, TOO_DENSE, TOO_FAR = -1, -2, -3
"""Why `walk_chains` stopped: there were not places for all combinations; one row has too many partners for a block; a
key is too far from 0 to add to it."""

BLOCK = 512
"""Rows that are taken through all steps together."""

ROOM = 4096
"""Wide rows of a block at any step."""

AHEAD = 16
"""Prefetch distance of records, in rows."""

ENDLESS = 1 << 62
LOW, HIGH, RANK, COUNTS, FOUND, LEVELS = offsets(ROOM, ROOM, ROOM, ROOM // 2, ROOM + MARGIN)
"""Scratch memory, in words: the ends of the ranges of the wide rows of a step, their places, how much they find, what
that is; and for each number of steps the rows before the next one: their producers, and line by line their event times,
if there are any, and their ordinals."""

NEWEST, UNTIL, TIME_LINES = range(3)
"""The lines of event times: the largest of a wide row, the smallest of its times plus lengths, and how many these are,
see `slidejoin.plan.multiway.scope`."""


def work_of(chains: int) -> int:
    """Return the words of the work of so many chains."""
    return FIRST_CHAIN + chains * CHAIN


def scratch_of(steps: int) -> int:
    """Return the words of scratch memory for chains of so many steps."""
    return LEVELS + sum((level + 2 + TIME_LINES) * ROOM for level in range(steps + 1))


@inlined
def _level(scratch: int, level: int) -> int:
    """Return the address of the wide rows that so many steps have led to."""
    before = LEVELS + ROOM * (level * (level - 1) // 2 + (2 + TIME_LINES) * level)
    return scratch + 8 * before


@inlined
def _value(address: int, width: int) -> int:
    """Read a signed integer of so many bytes."""
    if width == 8:  # noqa: PLR2004 - bytes
        return I64_OF(U64(load_64(address)))
    if width == 4:  # noqa: PLR2004
        return (I64_OF(load_32(address)) ^ (1 << 31)) - (1 << 31)
    if width == 2:  # noqa: PLR2004
        return (I64_OF(load_16(address)) ^ (1 << 15)) - (1 << 15)
    return (I64_OF(load_8(address)) ^ (1 << 7)) - (1 << 7)


@inlined
def _later(time: int, length: int) -> int:
    """Return a time plus a length, or the end of int64."""
    return time + length if time <= OPEN_HIGH - length else OPEN_HIGH


@inlined
def _earlier(time: int, length: int) -> int:
    return time - length if time >= OPEN_LOW + length else OPEN_LOW


@inlined
def _find_ranges(
    work: NDArray[np.int64], step: int, ordinals: NDArray[np.int64], lo: NDArray[np.int64], hi: NDArray[np.int64]
) -> bool:
    """Write the ranges that follow from the keys of the rows with these ordinals; return False if one is too far."""
    ring = i64_at(work[U64(step + RECORDS)], work[U64(step + RECORDS + 1)])
    shift, mask = int(work[U64(step + RECORDS + 2)]), int(work[U64(step + RECORDS + 1)]) - 1
    stride, offset, width = work[U64(step + RECORDS + 3)], work[U64(step + RECORDS + 4)], work[U64(step + RECORDS + 5)]
    sign, low, high = work[U64(step + MOVED)], work[U64(step + MOVED + 1)], work[U64(step + MOVED + 2)]
    n, far = ordinals.size, 0
    for i in range(n + AHEAD):
        if i < n:
            ordinal = ordinals[U64(i)]
            lo[U64(i)] = address = ring[U64((ordinal >> shift) & mask)] + ordinal * stride + offset
            prefetch_at(address)
        if i >= AHEAD:
            at = U64(i - AHEAD)
            key = _value(lo[at], width)
            far += (key >= NEAR) | (key <= -NEAR)
            lo[at] = OPEN_LOW if low == OPEN_LOW else low + sign * key
            hi[at] = OPEN_HIGH if high == OPEN_HIGH else high + sign * key
    return far == 0


@inlined
def _keep_in_scope(
    work: NDArray[np.int64], step: int, values: NDArray[np.int64], counts: NDArray[np.int32],
    found: NDArray[np.uint32], lo: NDArray[np.int64], hi: NDArray[np.int64],
) -> int:  # fmt: skip
    """Keep what wide rows found within their scope; return how much that is. lo and hi (n,) int64 are overwritten."""
    length, n = work[U64(step + LENGTH)], lo.size
    for i in range(n):
        lo[U64(i)], hi[U64(i)] = _earlier(values[U64(NEWEST), U64(i)], length), values[U64(UNTIL), U64(i)]
    stored, columns = i64_at(work[U64(step + STORED)], work[U64(step + STORED + 1)]), work[U64(step + STORED + 2)]
    column, between = work[U64(step + STORED + 3)], True
    kept: int = keep_between(found, 0, counts, 0, n, stored, columns, column, lo, hi, between)
    return kept


@inlined
def _take_times(work: NDArray[np.int64], step: int, values: NDArray[np.int64]) -> None:
    """Take the event times of the rows in the last line into those of the wide rows."""
    stored, columns = i64_at(work[U64(step + STORED)], work[U64(step + STORED + 1)]), work[U64(step + STORED + 2)]
    mask, column, length = stored.size // columns - 1, work[U64(step + STORED + 3)], work[U64(step + LENGTH)]
    last = values.shape[0] - 1
    for i in range(values.shape[1]):
        time = stored[U64(((values[U64(last), U64(i)] + 1) & mask) * columns + column)]
        values[U64(NEWEST), U64(i)] = max(values[U64(NEWEST), U64(i)], time)
        values[U64(UNTIL), U64(i)] = min(values[U64(UNTIL), U64(i)], _later(time, length))


@inlined
def _take_step(work: NDArray[np.int64], chain: int, number: int, n: int, counting: int) -> int:
    """Let n wide rows take a step; return how many wider ones they become, or why they do not."""
    began, step, scratch = now(), chain + FIRST_STEP + number * STEP, work[U64(SCRATCH)]
    own, wider, timed = _level(scratch, number), _level(scratch, number + 1), int(work[U64(TIMED)])
    producers, values = i64_at(own, n), i64_table_at(own + 8 * ROOM, timed + number + 1, n)
    lo, hi, rank = i64_at(scratch + 8 * LOW, n), i64_at(scratch + 8 * HIGH, n), i64_at(scratch + 8 * RANK, n)
    counts, found = i32_at(scratch + 8 * COUNTS, n), u32_at(scratch + 8 * FOUND, 2 * (ROOM + MARGIN))
    if not _find_ranges(work, step, values[timed + work[U64(step + OWNER)]], lo, hi):
        return TOO_FAR
    ranks = i64_at(work[U64(chain + RANKS)], work[U64(chain + RANKS + 1)])
    before = i64_at(work[U64(step + SEEN)], work[U64(step + SEEN + 1)])
    rank_probes(before, ranks, producers, work[U64(step + SEEN + 2)], rank)
    slots, pool = u32_at(work[U64(step)], work[U64(step + 1)]), u32_at(work[U64(step + 2)], work[U64(step + 3)])
    state, view = i64_at(work[U64(step + 4)], work[U64(step + 5)]), work[step + VIEWED : step + VIEWED + VIEW]
    if counting != 0 and timed == 0:
        count_cells(slots, pool, state, lo, hi, rank, view, 0, n, found, 0, ENDLESS, counts)
        total = 0
        for i in range(n):
            total += counts[U64(i)]
    else:
        done, total = find_cells(slots, pool, state, lo, hi, rank, view, 0, n, found, 0, ROOM, counts)
        if done < n:
            return TOO_DENSE
        if timed != 0 and total > 0:
            total = _keep_in_scope(work, step, values, counts, found, lo, hi)
        if counting == 0:
            widest = i64_table_at(wider + 8 * ROOM, timed + number + 2, total)
            widen_found(producers, values, counts, found, int(state[FLOOR]), 0, n, i64_at(wider, total), widest)
            if timed != 0:
                _take_times(work, step, widest)
    work[U64(step + PROBED + 1)], work[U64(step + MATCHED + 1)] = n, total
    work[U64(step + TOOK)] += now() - began
    return total


@inlined
def _put(work: NDArray[np.int64], chain: int, n: int, at: int) -> None:
    """Write the combinations of a block to their places."""
    steps, lines = int(work[U64(chain + STEPS)]), int(work[U64(chain + STEPS)]) + 1
    level = _level(work[U64(SCRATCH)], steps)
    producers, ordinals = i64_at(level, n), i64_table_at(level + 8 * (ROOM + work[U64(TIMED)] * n), lines, n)
    ranks = i64_at(work[U64(chain + RANKS)], work[U64(chain + RANKS + 1)])
    out = i64_table_at(work[U64(OUT)], lines + 1, work[U64(OUT + 1)])
    for i in range(n):
        out[U64(0), U64(at + i)] = ranks[U64(producers[U64(i)])]
    for line in range(lines):
        stream = work[U64(chain + STREAMS + line)] + 1
        for i in range(n):
            out[U64(stream), U64(at + i)] = ordinals[U64(line), U64(i)]


@inlined
def _add(work: NDArray[np.int64], chain: int, n: int) -> None:
    """Add what the wide rows of a block have found in the last step to the numbers of their producers."""
    scratch = work[U64(SCRATCH)]
    producers = i64_at(_level(scratch, work[U64(chain + STEPS)] - 1), n)
    counts, matches = i32_at(scratch + 8 * COUNTS, n), i64_at(work[U64(OUT)], work[U64(OUT + 1)])
    ranks = i64_at(work[U64(chain + RANKS)], work[U64(chain + RANKS + 1)])
    for i in range(n):
        matches[U64(ranks[U64(producers[U64(i)])])] += counts[U64(i)]


@inlined
def _begin(work: NDArray[np.int64], chain: int, begin: int, n: int) -> None:
    """Write the n rows of a block as wide rows of one row each."""
    level, listed, first = _level(work[U64(SCRATCH)], 0), work[U64(chain + PRODUCERS)], work[U64(chain + FIRST)]
    timed = int(work[U64(TIMED)])
    producers, values = i64_at(level, n), i64_table_at(level + 8 * ROOM, timed + 1, n)
    if listed == 0:
        for i in range(n):
            producers[U64(i)] = begin + i
    else:
        producers[:] = i64_at(listed + 8 * begin, n)
    for i in range(n):
        values[U64(timed), U64(i)] = first + producers[U64(i)]
    if timed != 0:
        times = i64_at(work[U64(chain + OWN_TIMES)], work[U64(chain + RANKS + 1)])
        length = work[U64(chain + OWN_TIMES + 1)]
        for i in range(n):
            time = times[U64(producers[U64(i)])]
            values[U64(NEWEST), U64(i)], values[U64(UNTIL), U64(i)] = time, _later(time, length)


@inlined
def _take_steps(work: NDArray[np.int64], chain: int, n: int) -> tuple[int, int]:
    """Let n wide rows take all steps; return how many there are before the last one and behind it, or why not."""
    steps, last = int(work[U64(chain + STEPS)]), 0
    for number in range(steps):
        step = chain + FIRST_STEP + number * STEP
        work[U64(step + PROBED + 1)] = work[U64(step + MATCHED + 1)] = 0
        if n > 0:
            last, n = n, _take_step(work, chain, number, n, int(work[U64(COUNTING)]) * (number == steps - 1))
    return last, n


@inlined
def _sum_up(work: NDArray[np.int64], chain: int) -> None:
    """Add the figures of a block to those of the steps."""
    for number in range(work[U64(chain + STEPS)]):
        step = chain + FIRST_STEP + number * STEP
        work[U64(step + PROBED)] += work[U64(step + PROBED + 1)]
        work[U64(step + MATCHED)] += work[U64(step + MATCHED + 1)]


@inlined
def _walk(work: NDArray[np.int64], chain: int, at: int) -> int:
    """Follow one chain; return the place behind its combinations, or why it stopped."""
    rows, counting, begin, block = int(work[U64(chain + PRODUCERS + 1)]), work[U64(COUNTING)] != 0, 0, BLOCK
    while begin < rows:
        taken = min(block, rows - begin)
        _begin(work, chain, begin, taken)
        last, total = _take_steps(work, chain, taken)
        if total == TOO_DENSE and taken > 1:
            block = taken // 2
            continue
        if total < 0:
            return total
        if counting:
            _add(work, chain, last if total > 0 else 0)
        elif at + total > work[U64(OUT + 1)]:
            return UNFITTING
        else:
            _put(work, chain, total, at)
            at += total
        _sum_up(work, chain)
        begin += taken
    return at


@kernel(OUT_I64, returns=types.int64)
def walk_chains(work: NDArray[np.int64]) -> int:
    """Follow all chains of the work, (n,) int64; return how many combinations there are, or why it stopped.

    Combinations stand chain by chain, those of each in the order of their producers. If it stops, what has been written
    is of no use. O(rows + combinations, of each step).
    """
    at = 0
    for chain in range(work[U64(CHAINS)]):
        at = _walk(work, FIRST_CHAIN + chain * CHAIN, at)
        if at < 0:
            break
    return at
