"""The second pass of matching: write each probe's matches to their places in the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import (
    AUX,
    BASE,
    CHECK_AUX,
    CHECK_SEEN,
    CHECKS,
    DIMENSIONS,
    ROWS,
    WORDS_AT,
    passes,
)
from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I64, U64, kernel
from slidejoin.jit.vectors.memory import ask_for, load_64
from slidejoin.jit.vectors.words import LANES, spread, write_ordinals, write_seen

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["fill"]

AHEAD = 8
"""Prefetch distance, in probes, of the first rows of their ranges, which are read in random order."""


@kernel(
    I64_2D, I64_2D, I32, types.boolean, I64, I64, I64_2D, I64_2D, I64, I64, I64, types.int64, types.int64, I64,
    OUT_I64, OUT_I64,
)  # fmt: skip
def fill(  # noqa: C901 - one loop over what is checked of candidates
    table: NDArray[np.int64],
    ranges: NDArray[np.int64],
    which: NDArray[np.int32],
    by_line: bool,
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    counts: NDArray[np.int64],
    first: int,
    last: int,
    places: NDArray[np.int64],
    probes: NDArray[np.int64],
    stored: NDArray[np.int64],
) -> None:
    """Write the matches of probes first…last-1, which `count_matches` counted, as (probe's, stored row's ordinal).

    Probe i's ``counts[i]`` pairs go to ``probes[places[i]:]`` and ``stored[places[i]:]``, int64; ordinals (n,) int64 of
    the probes; `which` (n,) int32 says which line of `ranges` is a probe's, or `by_line` which probe a line is of:
    first and last then count lines. The others as in `count_matches`. O(candidates).
    """
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
            found = ranges[row, U64(column)]
            words, base, j, last_j = table[r, WORDS_AT], table[r, BASE], found >> 32, found & 0xFFFFFFFF
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
                # A candidate is written, and kept or overwritten by the next; nothing is written after the last match.
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
