"""The second pass of matching: write each probe's matches to their places in the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import types

from slidejoin.index.kernels.found_rows import PAIRS, PROBE_PAIRS, Pairs, ProbePairs
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
from slidejoin.jit.compiling import I32, I64_2D, U64, group, kernel
from slidejoin.jit.vectors.memory import ask_for, load_64
from slidejoin.jit.vectors.words import LANES, spread, write_ordinals, write_seen

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RangeLines", "fill"]

AHEAD = 8
"""Prefetch distance, in probes, of the first rows of their ranges, which are read in random order."""


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
            words, base, j, last_j = table[r, WORDS_AT], table[r, BASE], both >> 32, both & 0xFFFFFFFF
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
                    offset = np.int64(load_64(words + (j << 3)) & U64(0xFFFFFFFF))
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
