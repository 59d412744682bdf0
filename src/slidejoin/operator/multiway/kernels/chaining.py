"""Chains of probes through cell tables: what the rows of a stretch produce with all other streams, in one call.

A block of rows at a time probes one stream after the other, so what a step finds is still in the caches when it probes
the next one: (1) the keys of the wide rows are read from the records of the stream that has them; (2) the table of the
stored stream is probed, and in a time window matches are checked by event times; (3) the wide rows become wider.
The parameters of all steps are in one record of addresses and numbers, the *work* of a stretch, so a thread needs no
interpreter for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.index.cells.kernels.buckets import FLOOR
from slidejoin.index.cells.kernels.probing import MARGIN, CellRanges, count_cells, find_cells
from slidejoin.index.cells.kernels.table import I64_OF, Cells
from slidejoin.index.kernels.view import VIEW
from slidejoin.jit.compiling import OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.atomics import now
from slidejoin.jit.vectors.fields import ARRAY, WORD, i64_in, record, records_in, u32_in
from slidejoin.jit.vectors.memory import (
    i32_at,
    i64_at,
    i64_table_at,
    load_8,
    load_16,
    load_32,
    load_64,
    place_of,
    prefetch_at,
    u32_at,
)
from slidejoin.jit.vectors.shifting import OPEN_HIGH, OPEN_LOW
from slidejoin.operator.fused.kernels.work import LINE, TABLE
from slidejoin.operator.kernels.probe_matches import ProbeMatches, StoredValues, keep_between
from slidejoin.operator.multiway.kernels.widening import WideRows, rank_probes, widen_matches
from slidejoin.plan.kernels.closed_ranges import NEAR

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "CHAIN",
    "CHAINS",
    "MOST_STEPS",
    "STEP",
    "TIME_LINES",
    "TOO_DENSE",
    "TOO_FAR",
    "UNFITTING",
    "scratch_of",
    "walk_chains",
]

MOST_STEPS = 5
"""Steps of a chain: a join has up to six streams."""

STEP = record(
    [
        ("table", TABLE),  # the table that is probed
        ("viewed", WORD, VIEW),  # what the probes see of it
        "owner",  # which of the rows of a wide row has the key, by its place in the chain
        ("ring", ARRAY),  # ring of addresses of the records of that stream, see `gather_rows`
        "shift",  # by how much ordinals are shifted for it
        "stride",  # bytes from one record to the next
        "offset",  # of the key in a record
        "width",  # of the key, in bytes
        "sign",  # of a key in the range that it probes
        "low",  # what is added to the key at the lower end
        "high",  # and at the upper end
        ("seen", ARRAY),  # how many stored rows had arrived before each arrival
        "arrived",  # and before the slice
        ("stored", ARRAY),  # values of the stored rows, in a time window
        "stored_columns",  # how many of each row
        "time_column",  # which of these is the event time
        "length",  # of the stored stream's time window, in ticks
        "probed",  # wide rows that probed
        "block_probed",  # those of the present block
        "matched",  # the wider rows that they became
        "block_matched",  # those of the present block
        "took",  # nanoseconds
        LINE,
    ]
)
"""What each step has."""

CHAIN = record(
    [
        "step_count",
        "first",  # the ordinal of the first row of its stream in the stretch
        ("ranks", ARRAY),  # of all rows of the stream in the stretch
        ("producers", ARRAY),  # places of those that may produce anything; without an address, so many from the first
        "own_times",  # address of the event times of all
        "own_length",  # of their stream's time window
        ("streams", WORD, MOST_STEPS + 1),  # whose rows a combination has, by number, in the order of the chain
        ("steps", STEP, MOST_STEPS),
        LINE,
    ]
)
"""What each chain has."""

CHAINS = record(
    [
        "chain_count",
        "counting",  # whether combinations are only counted
        "timed",  # lines of event times that wide rows have: TIME_LINES, or 0 in windows of rows
        "out",  # address of (streams + 1, places) int64 for ranks and then ordinals, or of (arrivals,) for numbers
        "places",  # of that room
        "scratch",  # address of `scratch_of` words
        ("chains", CHAIN, MOST_STEPS + 1),
    ]
)
"""The whole work: combinations go out as their ranks, and then the ordinals of each stream; if they are counted, their
numbers are added up for each arrival."""

chains_in = records_in(CHAINS)

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
LOW, HIGH, RANK, COUNTS = range(0, 4 * ROOM, ROOM)
POSITIONS = COUNTS + ROOM // 2
LEVELS = POSITIONS + ROOM + MARGIN
"""Scratch memory, in words: the ends of the ranges of the wide rows of a step, their places, how many matches they
have, and their positions; and for each number of steps the rows before the next one: their producers, and line by line
their event times, if there are any, and their ordinals."""

NEWEST, UNTIL, TIME_LINES = range(3)
"""The lines of event times: the largest of a wide row, the smallest of its times plus lengths, and how many these are,
see `slidejoin.plan.multiway.scope`."""


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
def _find_ranges(step: np.record, ordinals: NDArray[np.int64], lo: NDArray[np.int64], hi: NDArray[np.int64]) -> bool:
    """Write the ranges that follow from the keys of the rows with these ordinals; return False if one is too far."""
    ring, shift, mask = i64_in(step.ring), int(step.shift), int(step.ring.length) - 1
    stride, offset, width = step.stride, step.offset, step.width
    sign, low, high = step.sign, step.low, step.high
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
    step: np.record, values: NDArray[np.int64], matches: ProbeMatches, lo: NDArray[np.int64], hi: NDArray[np.int64]
) -> int:
    """Keep the matches of wide rows within their scope; return how many remain. lo and hi (n,) int64 are scratch."""
    length = step.length
    for i in range(lo.size):
        lo[U64(i)], hi[U64(i)] = _earlier(values[U64(NEWEST), U64(i)], length), values[U64(UNTIL), U64(i)]
    stored = StoredValues(i64_in(step.stored), step.stored_columns)
    remaining: int = keep_between(matches, stored, step.time_column, lo, hi, True)  # noqa: FBT003 - a kernel's
    return remaining


@inlined
def _take_times(step: np.record, values: NDArray[np.int64]) -> None:
    """Take the event times of the rows in the last line into those of the wide rows."""
    stored, columns, column, length = i64_in(step.stored), step.stored_columns, step.time_column, step.length
    mask, last = stored.size // columns - 1, values.shape[0] - 1
    for i in range(values.shape[1]):
        time = stored[U64(((values[U64(last), U64(i)] + 1) & mask) * columns + column)]
        values[U64(NEWEST), U64(i)] = max(values[U64(NEWEST), U64(i)], time)
        values[U64(UNTIL), U64(i)] = min(values[U64(UNTIL), U64(i)], _later(time, length))


@inlined
def _take_step(work: np.record, chain: np.record, number: int, n: int, counting: int) -> int:
    """Let n wide rows take a step; return how many wider ones they become, or why they do not."""
    began, step, scratch = now(), chain.steps[U64(number)], work.scratch
    own, wider, timed = _level(scratch, number), _level(scratch, number + 1), int(work.timed)
    producers, values = i64_at(own, n), i64_table_at(own + 8 * ROOM, timed + number + 1, n)
    lo, hi, rank = i64_at(scratch + 8 * LOW, n), i64_at(scratch + 8 * HIGH, n), i64_at(scratch + 8 * RANK, n)
    counts, positions = i32_at(scratch + 8 * COUNTS, n), u32_at(scratch + 8 * POSITIONS, 2 * (ROOM + MARGIN))
    if not _find_ranges(step, values[timed + step.owner], lo, hi):
        return TOO_FAR
    rank_probes(i64_in(step.seen), i64_in(chain.ranks), producers, step.arrived, rank)
    state = i64_in(step.table.state)
    cells = Cells(u32_in(step.table.slots), u32_in(step.table.pool), state)
    ranges = CellRanges(lo, hi, rank, i64_at(place_of(step.viewed), VIEW))
    if counting != 0 and timed == 0:
        count_cells(cells, ranges, 0, n, positions, 0, ENDLESS, counts)
        total = 0
        for i in range(n):
            total += counts[U64(i)]
    else:
        done, total = find_cells(cells, ranges, 0, n, positions, 0, ROOM, counts)
        if done < n:
            return TOO_DENSE
        if timed != 0 and total > 0:
            total = _keep_in_scope(step, values, ProbeMatches(positions, counts, 0, n, 0), lo, hi)
        if counting == 0:
            widest = i64_table_at(wider + 8 * ROOM, timed + number + 2, total)
            matches, room = ProbeMatches(positions, counts, 0, n, 0), WideRows(i64_at(wider, total), widest)
            widen_matches(WideRows(producers, values), matches, int(state[FLOOR]), room)
            if timed != 0:
                _take_times(step, widest)
    step.block_probed, step.block_matched = n, total
    step.took += now() - began
    return total


@inlined
def _put(work: np.record, chain: np.record, n: int, at: int) -> None:
    """Write the combinations of a block to their places."""
    steps, ranks = int(chain.step_count), i64_in(chain.ranks)
    level, lines = _level(work.scratch, steps), steps + 1
    producers, ordinals = i64_at(level, n), i64_table_at(level + 8 * (ROOM + work.timed * n), lines, n)
    out = i64_table_at(work.out, lines + 1, work.places)
    for i in range(n):
        out[U64(0), U64(at + i)] = ranks[U64(producers[U64(i)])]
    for line in range(lines):
        stream = chain.streams[U64(line)] + 1
        for i in range(n):
            out[U64(stream), U64(at + i)] = ordinals[U64(line), U64(i)]


@inlined
def _add(work: np.record, chain: np.record, n: int) -> None:
    """Add what the wide rows of a block have matched in the last step to the numbers of their producers."""
    producers, ranks = i64_at(_level(work.scratch, chain.step_count - 1), n), i64_in(chain.ranks)
    counts, matches = i32_at(work.scratch + 8 * COUNTS, n), i64_at(work.out, work.places)
    for i in range(n):
        matches[U64(ranks[U64(producers[U64(i)])])] += counts[U64(i)]


@inlined
def _begin(work: np.record, chain: np.record, begin: int, n: int) -> None:
    """Write the n rows of a block as wide rows of one row each."""
    level, listed, first, timed = _level(work.scratch, 0), chain.producers.address, chain.first, int(work.timed)
    producers, values = i64_at(level, n), i64_table_at(level + 8 * ROOM, timed + 1, n)
    if listed == 0:
        for i in range(n):
            producers[U64(i)] = begin + i
    else:
        producers[:] = i64_at(listed + 8 * begin, n)
    for i in range(n):
        values[U64(timed), U64(i)] = first + producers[U64(i)]
    if timed != 0:
        times, length = i64_at(chain.own_times, chain.ranks.length), chain.own_length
        for i in range(n):
            time = times[U64(producers[U64(i)])]
            values[U64(NEWEST), U64(i)], values[U64(UNTIL), U64(i)] = time, _later(time, length)


@inlined
def _take_steps(work: np.record, chain: np.record, n: int) -> tuple[int, int]:
    """Let n wide rows take all steps; return how many there are before the last one and behind it, or why not."""
    steps, last = int(chain.step_count), 0
    for number in range(steps):
        step = chain.steps[U64(number)]
        step.block_probed = step.block_matched = 0
        if n > 0:
            last, n = n, _take_step(work, chain, number, n, int(work.counting) * (number == steps - 1))
    return last, n


@inlined
def _sum_up(chain: np.record) -> None:
    """Add the figures of a block to those of the steps."""
    for number in range(chain.step_count):
        step = chain.steps[U64(number)]
        step.probed += step.block_probed
        step.matched += step.block_matched


@inlined
def _walk(work: np.record, chain: np.record, at: int) -> int:
    """Follow one chain; return the place behind its combinations, or why it stopped."""
    rows, counting, begin, block = int(chain.producers.length), work.counting != 0, 0, BLOCK
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
        elif at + total > work.places:
            return UNFITTING
        else:
            _put(work, chain, total, at)
            at += total
        _sum_up(chain)
        begin += taken
    return at


@kernel(OUT_I64, returns=types.int64)
def walk_chains(words: NDArray[np.int64]) -> int:
    """Follow all chains of the work, the words of CHAINS; return how many combinations there are, or why it stopped.

    Combinations stand chain by chain, those of each in the order of their producers. If it stops, what has been written
    is of no use. O(rows + combinations, of each step).
    """
    work, at = chains_in(words)[0], 0
    for number in range(work.chain_count):
        at = _walk(work, work.chains[U64(number)], at)
        if at < 0:
            break
    return at
