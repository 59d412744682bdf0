"""Writing the matches of probes in sorted runs.

Where probes have few matches each, they are written as they are located, and ranges are not stored. Else ranges are
located and counted first, and a second pass writes each probe's matches to their places in the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.index.kernels.found_rows import PAIRS, PROBE_PAIRS, Pairs, ProbePairs
from slidejoin.index.kernels.range_ends import BLOCK, SCRATCH, Scratch, locate_block, scratch_for
from slidejoin.index.kernels.searching import (
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
from slidejoin.jit.compiling import I32, I64_2D, OUT_I32, OUT_U32, U64, group, kernel
from slidejoin.jit.vectors.memory import ask_for, load_64
from slidejoin.jit.vectors.words import (
    LANES,
    copy_positions,
    keep_positions,
    keep_seen,
    spread,
    write_ordinals,
    write_seen,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FewMatches", "RangeLines", "fill", "find_few", "gather"]

AHEAD = 8
"""Prefetch distance, in probes, of the first rows of their ranges, which are read in random order."""

LOW_HALF = 0xFFFFFFFF


class FewMatches(NamedTuple):
    """The matches of n probes, in any order of probes.

    Attributes
    ----------
    positions : (room,) uint32
        ``(ordinal + 1) % 2**32`` of the rows, those of one probe side by side.
    places, counts : (n,) int32
        For each probe where its positions begin, and how many they are.
    """

    positions: NDArray[np.uint32]
    places: NDArray[np.int32]
    counts: NDArray[np.int32]


FEW_MATCHES = group(FewMatches, OUT_U32, OUT_I32, OUT_I32)


@kernel(
    I64_2D, SCRATCH, I32, types.int64, types.int64, CRITERIA, FEW_MATCHES, types.int64, returns=types.int64
)  # fmt: skip
def write_block(
    table: NDArray[np.int64],
    scratch: Scratch,
    order: NDArray[np.int32],
    begin: int,
    size: int,
    criteria: Criteria,
    matches: FewMatches,
    cursor: int,
) -> int:
    """Write the matches of a block of probes that need no check but by ordinals; return the next cursor.

    As `find_few`, from place `cursor` of the positions on; -1 if the room may not suffice.
    """
    starts, ends, seen_from, seen_to = scratch.starts, scratch.ends, criteria.seen_from, criteria.seen_to
    positions, places, counts = matches
    columns, runs, first_at = starts.shape[0], table.shape[0], np.int64(positions.ctypes.data)
    room: Any = first_at + ((positions.size - LANES) << 2)
    end: Any = first_at + (cursor << 2)
    for t in range(size):
        i = U64(order[U64(begin + t)])
        before, r = end, U64(0)
        for column in range(columns):
            j = np.int64(starts[U64(column), U64(t)])
            many = np.int64(ends[U64(column), U64(t)]) - j
            words, first = table[r, WORDS_AT] + (j << 3), U64(table[r, BASE] + 1)
            if end + (many << 2) > room:
                return -1
            if table[r, CHECKS] == 0:
                keep_positions(words, first, end)
                for o in range(LANES, many, LANES):
                    keep_positions(words + (o << 3), first, end + (o << 2))
                end += many << 2
            else:
                low, high = seen_from[i] - table[r, BASE], seen_to[i] - table[r, BASE]
                end += keep_seen(words, min(many, LANES), low, high, first, end) << 2
                for o in range(LANES, many, LANES):
                    end += keep_seen(words + (o << 3), min(many - o, LANES), low, high, first, end) << 2
            r += U64(1)
            if r == U64(runs):
                r = U64(0)
        places[i] = (before - first_at) >> 2
        counts[i] = (end - before) >> 2
    behind: int = (end - first_at) >> 2
    return behind


@kernel(
    I64_2D, SCRATCH, I32, types.int64, types.int64, CRITERIA, FEW_MATCHES, types.int64, returns=types.int64
)  # fmt: skip
def write_block_checked(
    table: NDArray[np.int64],
    scratch: Scratch,
    order: NDArray[np.int32],
    begin: int,
    size: int,
    criteria: Criteria,
    matches: FewMatches,
    cursor: int,
) -> int:
    """Do the same, with any checks of candidates."""
    starts, ends = scratch.starts, scratch.ends
    seen_from, seen_to, lows, highs, dims = criteria
    positions, places, counts = matches
    columns, runs, room = starts.shape[0], table.shape[0], positions.size - LANES
    for t in range(size):
        i = U64(order[U64(begin + t)])
        before = cursor
        for column in range(columns):
            r = column % runs
            first, checks = U64(table[r, BASE] + 1), table[r, CHECKS]
            low, high = np.int64(0), table[r, ROWS]
            if checks & CHECK_SEEN:
                low, high = seen_from[i] - table[r, BASE], seen_to[i] - table[r, BASE]
            j: Any = np.int64(starts[U64(column), U64(t)])
            end: Any = np.int64(ends[U64(column), U64(t)])
            if cursor + (end - j) > room:
                return -1
            while j < end:
                offset = load_64(table[r, WORDS_AT] + (j << 3)) & U64(LOW_HALF)
                inside = (low <= np.int64(offset)) & (np.int64(offset) < high)
                if checks & CHECK_AUX and inside:
                    inside = passes(table[r, AUX], table[r, DIMENSIONS], j, i, lows, highs, dims)
                positions[U64(cursor)] = (offset + first) & U64(LOW_HALF)
                cursor += inside
                j += 1
        places[i] = before
        counts[i] = cursor - before
    return cursor


@kernel(I64_2D, I64_2D, I64_2D, I32, CRITERIA, FEW_MATCHES, returns=types.int64)
def find_few(
    table: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    order: NDArray[np.int32],
    criteria: Criteria,
    matches: FewMatches,
) -> int:
    """Write the matches of all probes, and return their total, or -1 if the room may not suffice.

    `table`, lo and hi, and `order` as in `index.kernels.range_search.find_ranges`. Expected O(k * runs * n) plus
    candidates.
    """
    n, scratch, plain, cursor = order.size, scratch_for(table.shape[0] * lo.shape[0]), True, 0
    for r in range(table.shape[0]):
        plain &= table[r, CHECKS] < CHECK_AUX
    for begin in range(0, n, BLOCK):
        size = locate_block(table, lo, hi, order, begin, scratch)
        if plain:
            cursor = write_block(table, scratch, order, begin, size, criteria, matches, cursor)
        else:
            cursor = write_block_checked(table, scratch, order, begin, size, criteria, matches, cursor)
        if cursor < 0:
            return -1
    return cursor


@kernel(FEW_MATCHES, types.int64, OUT_U32)
def gather(matches: FewMatches, at: int, out: NDArray[np.uint32]) -> None:
    """Write the positions of each probe to `out` from place `at` on, in the probes' own order.

    Eight are copied at a time, so `out` has as many more places. O(probes + positions).
    """
    positions, places, counts = matches
    first, to = np.int64(positions.ctypes.data), np.int64(out.ctypes.data) + (at << 2)
    for i in range(counts.size):
        source, count = first + (np.int64(places[U64(i)]) << 2), np.int64(counts[U64(i)])
        copy_positions(source, to)
        for o in range(LANES, count, LANES):
            copy_positions(source + (o << 2), to + (o << 2))
        to += count << 2


# -- the second pass ---------------------------------------------------------------------------------------------------


class RangeLines(NamedTuple):
    """The ranges of n probes.

    Attributes
    ----------
    ranges : (n, columns) int64
        A line for each probe, as `find_ranges` writes it.
    which : (n,) int32
        The line of each probe, or the probe of each line.
    by_line : bool
        Whether it is the second.
    """

    ranges: NDArray[np.int64]
    which: NDArray[np.int32]
    by_line: bool


RANGE_LINES = group(RangeLines, I64_2D, I32, types.boolean)


@kernel(I64_2D, RANGE_LINES, CRITERIA, PROBE_PAIRS, types.int64, types.int64, PAIRS)
def fill(  # noqa: C901 - one loop over what is checked of candidates
    table: NDArray[np.int64],
    located: RangeLines,
    criteria: Criteria,
    placed: ProbePairs,
    first: int,
    last: int,
    pairs: Pairs,
) -> None:
    """Write the matches of probes first…last-1, which `count_matches` counted; by line they count lines. O(candidates).

    `table` and `criteria` as in `count_matches`.
    """
    ranges, which, by_line = located
    seen_from, seen_to, lows, highs, dims = criteria
    (ordinals, counts, places), (probes, stored) = placed, pairs
    runs, columns = table.shape[0], ranges.shape[1]
    probes_at, stored_at = np.int64(probes.ctypes.data), np.int64(stored.ctypes.data)
    for n in range(first, last):
        ahead = U64(min(n + AHEAD, last - 1))
        i, row, later = U64(n), U64(which[U64(n)]), U64(which[ahead])
        if by_line:
            i, row, later = row, i, ahead
        at, end, ordinal, r = places[i], places[i] + counts[i], ordinals[i], U64(0)
        for column in range(columns):
            soon = table[r, WORDS_AT] + (ranges[later, U64(column)] >> 32 << 3)
            ask_for(soon)
            ask_for(soon + 64)
            both = ranges[row, U64(column)]
            words, base, j, last_j = table[r, WORDS_AT], table[r, BASE], both >> 32, both & LOW_HALF
            checks = table[r, CHECKS]
            if checks == 0:
                while j < last_j:
                    lanes = min(last_j - j, LANES)
                    write_ordinals(words + (j << 3), lanes, base, stored_at + (at << 3))
                    spread(ordinal, lanes, probes_at + (at << 3))
                    at += lanes
                    j += LANES
            elif checks < CHECK_AUX:
                low, high = seen_from[i] - base, seen_to[i] - base
                while j < last_j:
                    lanes = write_seen(words + (j << 3), min(last_j - j, LANES), low, high, base, stored_at + (at << 3))
                    spread(ordinal, lanes, probes_at + (at << 3))
                    at += lanes
                    j += LANES
            else:
                low, high = np.int64(0), table[r, ROWS]
                if checks & CHECK_SEEN:
                    low, high = seen_from[i] - base, seen_to[i] - base
                # A candidate stays or is overwritten by the next; nothing is written after the last match.
                while j < last_j and at < end:
                    offset = np.int64(load_64(words + (j << 3)) & U64(LOW_HALF))
                    inside = (low <= offset) & (offset < high)
                    if inside:
                        inside = passes(table[r, AUX], table[r, DIMENSIONS], j, i, lows, highs, dims)
                    probes[U64(at)] = ordinal
                    stored[U64(at)] = base + offset
                    at += inside
                    j += 1
            r += U64(1)
            if r == U64(runs):
                r = U64(0)
