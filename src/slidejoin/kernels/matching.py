"""The second pass of matching: writing each probe's matches where they belong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.kernels.compiling import I32, I64, I64_2D, OUT_I64, U32, U64, kernel
from slidejoin.kernels.memory import load_64, prefetch_at
from slidejoin.kernels.searching import AHEAD, AUX, BASE, CHECK_SEEN, CHECKS, DIMENSIONS, ROWS, WORDS_AT, passes
from slidejoin.kernels.words import LANES, spread, write_kept, write_ordinals

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["fill"]


@kernel(
    I64_2D, I64_2D, U32, I32, types.boolean, I64, I64, I64_2D, I64_2D, I64, I64, I64, types.int64, types.int64, I64,
    OUT_I64, OUT_I64,
)  # fmt: skip
def fill(
    table: NDArray[np.int64],
    ranges: NDArray[np.int64],
    kept: NDArray[np.uint32],
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
    """Write the matches of probes first…last-1, which `find` counted, as (probe's ordinal, stored row's ordinal).

    Probe i's ``counts[i]`` pairs go to ``probes[places[i]:]`` and ``stored[places[i]:]``, int64; ordinals (n,) int64 of
    the probes; `which` (n,) int32 says which line of `ranges` is a
    probe's, or `by_line` which probe a line is of: first and last then count lines. The others as in `find`, in
    arrival order. O(candidates).
    """
    runs, columns = table.shape[0], ranges.shape[1]
    probes_at, stored_at, kept_at = (
        np.int64(probes.ctypes.data),
        np.int64(stored.ctypes.data),
        np.int64(kept.ctypes.data),
    )
    for n in range(first, last):
        ahead = U64(min(n + AHEAD, last - 1))
        i, row, later = U64(n), U64(which[U64(n)]), U64(which[ahead])
        if by_line:
            i, row, later = row, i, ahead
        at, end = places[i], places[i] + counts[i]
        for column in range(columns):
            r, found = column % runs, ranges[row, column]
            prefetch_at(kept_at + ((-1 - ranges[later, column]) >> 4 << 2))
            if found < 0:
                # Written even if there are none: no branch to guess wrong for ranges of up to eight rows.
                lanes = (-1 - found) & 15
                write_kept(kept_at + ((-1 - found) >> 4 << 2), lanes, table[r, BASE], stored_at + (at << 3))
                spread(ordinals[i], lanes, probes_at + (at << 3))
                at += lanes
                continue
            words, base, j, last_j = table[r, WORDS_AT], table[r, BASE], found >> 32, found & 0xFFFFFFFF
            if table[r, CHECKS] == 0:
                while j < last_j:
                    lanes = min(last_j - j, LANES)
                    write_ordinals(words + (j << 3), lanes, base, stored_at + (at << 3))
                    spread(ordinals[i], lanes, probes_at + (at << 3))
                    at += lanes
                    j += LANES
                continue
            low, high = max(seen_from[i] - base, 0), min(seen_to[i] - base, table[r, ROWS])
            by_seen = table[r, CHECKS] == CHECK_SEEN
            # A candidate is written and kept, or written over by the next; after the last match none is.
            while j < last_j and at < end:
                offset = np.int64(load_64(words + (j << 3)) & U64(0xFFFFFFFF))
                inside = (low <= offset) & (offset < high)
                if not by_seen and inside:
                    inside = passes(table[r, AUX], table[r, DIMENSIONS], j, i, lows, highs, dims)
                probes[U64(at)] = ordinals[i]
                stored[U64(at)] = base + offset
                at += inside
                j += 1
