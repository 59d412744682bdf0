"""The two passes of matching: count the matches of each probe, then write them where they belong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.compiling import I32, I64, I64_2D, OUT_I64, U64, inlined, kernel, prefetch

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["count_checked", "count_plain", "fill_checked", "fill_plain"]

AHEAD = 16
"""Probes ahead of which the first offset is asked for: offsets are read at random, from memory in the worst case."""


@kernel(I32, I32, OUT_I64)
def count_plain(starts: NDArray[np.int32], ends: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
    """Add to `counts` (n,) int64 the length of each probe's range: a range is its own count (PanJoin, III-D). O(n)."""
    for i in range(starts.size):
        counts[i] += ends[i] - starts[i]


@kernel(I32, types.int64, I32, I32, I64, types.int64, types.int64, OUT_I64, OUT_I64, OUT_I64)
def fill_plain(
    offsets: NDArray[np.int32],
    base: int,
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
    ordinals: NDArray[np.int64],
    first: int,
    last: int,
    cursors: NDArray[np.int64],
    probes: NDArray[np.int64],
    stored: NDArray[np.int64],
) -> None:
    """Write each match of probes first…last-1 as (probe's ordinal, stored row's ordinal) from `cursors` on.

    starts, ends (n,) int32 places in the run; offsets (m,) int32 rows relative to `base`; ordinals (n,) int64 of the
    probes; cursors (n,) int64 next free place of each probe, moved on; probes and stored (total,) int64, written
    side by side. O(matches).
    """
    for n in range(first, last):
        prefetch(offsets, np.int64(starts[U64(min(n + AHEAD, last - 1))]))
        i = U64(n)
        at, ordinal = cursors[i], ordinals[i]
        for j in range(starts[i], ends[i]):
            probes[U64(at)] = ordinal
            stored[U64(at)] = base + offsets[U64(j)]
            at += 1
        cursors[i] = at


@inlined
def _passes(
    aux: NDArray[np.int64],
    j: np.integer[Any],
    i: np.integer[Any],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
) -> bool:
    """Tell whether stored row j lies in one range of probe i in every dimension of `aux`."""
    piece = 0
    while piece < dims.size:
        d = dims[piece]
        inside = False
        while piece < dims.size and dims[piece] == d:
            value = aux[j, d]
            inside |= (lows[piece, i] <= value) & (value <= highs[piece, i])
            piece += 1
        if not inside:
            return False
    return True


@kernel(I32, I64_2D, types.int64, I32, I32, I64, I64, I64_2D, I64_2D, I64, OUT_I64)
def count_checked(
    offsets: NDArray[np.int32],
    aux: NDArray[np.int64],
    base: int,
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Add to `counts` the rows of each probe's range that it may see and that pass every further dimension.

    A probe i sees ordinals seen_from[i] <= o < seen_to[i]. Dimension ``dims[p]`` of aux (m, d) must lie in one of its
    ranges [lows[p, i], highs[p, i]], ends included; dims (p,) int64 is ascending. O(candidates).
    """
    for n in range(starts.size):
        prefetch(offsets, np.int64(starts[U64(min(n + AHEAD, starts.size - 1))]))
        i = U64(n)
        low, high = seen_from[i] - base, seen_to[i] - base
        found = 0
        for j in range(starts[i], ends[i]):
            offset = offsets[U64(j)]
            if low <= offset < high and _passes(aux, U64(j), i, lows, highs, dims):
                found += 1
        counts[i] += found


@kernel(
    I32, I64_2D, types.int64, I32, I32, I64, I64, I64_2D, I64_2D, I64,
    I64, types.int64, types.int64, OUT_I64, OUT_I64, OUT_I64,
)  # fmt: skip
def fill_checked(
    offsets: NDArray[np.int32],
    aux: NDArray[np.int64],
    base: int,
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    first: int,
    last: int,
    cursors: NDArray[np.int64],
    probes: NDArray[np.int64],
    stored: NDArray[np.int64],
) -> None:
    """Write the matches that `count_checked` counts, as `fill_plain` writes them. O(candidates)."""
    for n in range(first, last):
        prefetch(offsets, np.int64(starts[U64(min(n + AHEAD, last - 1))]))
        i = U64(n)
        low, high = seen_from[i] - base, seen_to[i] - base
        at, ordinal = cursors[i], ordinals[i]
        for j in range(starts[i], ends[i]):
            offset = offsets[U64(j)]
            if low <= offset < high and _passes(aux, U64(j), i, lows, highs, dims):
                probes[U64(at)] = ordinal
                stored[U64(at)] = base + offset
                at += 1
        cursors[i] = at
