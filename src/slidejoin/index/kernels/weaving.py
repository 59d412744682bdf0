"""Merge ("weave") the matches of both sides into pairs in arrival order, and check them before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.jit.compiling import (
    I32,
    I64,
    I64_2D,
    OUT_I32,
    OUT_I64,
    OUT_U32,
    U32,
    U64,
    inlined,
    kernel,
    prefetch,
)
from slidejoin.jit.vectors.vectors import LOW_32, fill_lanes, widen_lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_found", "weave", "weave_counts"]

U32_OF = np.uint32
AHEAD = 16


@inlined
def _write(
    found: NDArray[np.uint32],
    take: int,
    count: int,
    base: int,
    ordinal: int,
    probes: NDArray[np.int64],
    stored: NDArray[np.int64],
    at: int,
    end: int,
) -> None:
    """Write one probe's pairs, eight at a time; beyond the last pair up to `end`, where another thread may write."""
    first = U32_OF((base + 1) & LOW_32)
    if at + count + 8 <= end:
        # Eight are written even for a probe without matches: this avoids a branch that would be mispredicted.
        widen_lanes(found, take, first, base, stored, at)
        fill_lanes(probes, at, ordinal)
        done = 8
        while done < count:
            widen_lanes(found, take + done, first, base, stored, at + done)
            fill_lanes(probes, at + done, ordinal)
            done += 8
        return
    for place in range(count):
        stored[U64(at + place)] = base + ((int(found[U64(take + place)]) - int(first)) & LOW_32)
        probes[U64(at + place)] = ordinal


@kernel(
    I64, I32, U32, types.int64, types.int64, I64, I32, U32, types.int64, types.int64,
    types.int64, types.int64, types.int64, types.int64, types.int64, types.int64, OUT_I64, OUT_I64,
    types.int64, types.int64,
)  # fmt: skip
def weave(
    left_rank: NDArray[np.int64],
    left_counts: NDArray[np.int32],
    left_found: NDArray[np.uint32],
    left_first: int,
    left_base: int,
    right_rank: NDArray[np.int64],
    right_counts: NDArray[np.int32],
    right_found: NDArray[np.uint32],
    right_first: int,
    right_base: int,
    i: int,
    j: int,
    left_take: int,
    right_take: int,
    left_end: int,
    right_end: int,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    at: int,
    end: int,
) -> None:
    """Write the pairs of left probes i…left_end-1 and right probes j…right_end-1 in the order of their ranks.

    A side's probes have ascending ranks (n,) int64, counts (n,) int32, and what they found as positions uint32, one
    probe after the other, from `take` on; the ordinal of probe i is first + i, and positions count from base + 1, the
    oldest stored ordinal. left and right (pairs,) int64 take the ordinals of each pair's rows in places at…end-1.
    Eight places are read at a time, so `found` is padded by as many. O(probes + pairs).
    """
    while i < left_end or j < right_end:
        if j >= right_end or (i < left_end and left_rank[U64(i)] < right_rank[U64(j)]):
            count = int(left_counts[U64(i)])
            _write(left_found, left_take, count, left_base, left_first + i, left, right, at, end)
            left_take += count
            i += 1
        else:
            count = int(right_counts[U64(j)])
            _write(right_found, right_take, count, right_base, right_first + j, right, left, at, end)
            right_take += count
            j += 1
        at += count


@kernel(OUT_U32, OUT_I32, types.int64, types.int64, I64_2D, I64_2D, I64_2D, I64, returns=types.int64)
def check_found(
    found: NDArray[np.uint32],
    counts: NDArray[np.int32],
    begin: int,
    end: int,
    stored: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
) -> int:
    """Filter the rows that probes begin…end-1 found: keep those in one range of the probe in every dimension.

    found (places,) uint32 positions, one probe after the other from 0 on, are compacted; counts (n,) int32 are updated;
    stored (rows, d) int64, rows a power of two: the row with position p stands at ``p & (rows - 1)``. Dimension
    ``dims[p]`` of it has the range [lows[p, i], highs[p, i]] of probe i among those that it may lie in; dims ascends.
    Returns how many are left. O(found * dims).
    """
    mask, take, at = stored.shape[0] - 1, 0, 0
    total = 0
    for i in range(begin, end):
        total += counts[U64(i)]
    for i in range(begin, end):
        start = at
        for _ in range(counts[U64(i)]):
            prefetch(stored, (int(found[U64(min(take + AHEAD, total - 1))]) & mask) * stored.shape[1])
            row = U64(int(found[U64(take)]) & mask)
            piece, inside = 0, True
            while inside and piece < dims.size:
                d = dims[piece]
                inside = False
                while piece < dims.size and dims[piece] == d:
                    value = stored[row, d]
                    inside |= (lows[piece, i] <= value) & (value <= highs[piece, i])
                    piece += 1
            found[U64(at)] = found[U64(take)]
            at += inside
            take += 1
        counts[U64(i)] = at - start
    return at


@kernel(
    I64, I32, I64, I32, types.int64, types.int64, types.int64, types.int64, OUT_I64,
    types.Array(types.boolean, 1, "C"),
)  # fmt: skip
def weave_counts(
    left_rank: NDArray[np.int64],
    left_counts: NDArray[np.int32],
    right_rank: NDArray[np.int64],
    right_counts: NDArray[np.int32],
    i: int,
    j: int,
    left_end: int,
    right_end: int,
    matches: NDArray[np.int64],
    is_left: NDArray[np.bool_],
) -> None:
    """Write the match counts of left probes i…left_end-1 and right probes j…right_end-1 to the places of their ranks.

    Ranks (n,) int64 of each side, together 0, 1, 2, …; counts (n,) int32; matches (rows,) int64 and is_left (rows,)
    bool, written. O(probes).
    """
    for probe in range(i, left_end):
        place = U64(left_rank[U64(probe)])
        matches[place] = left_counts[U64(probe)]
        is_left[place] = True
    for probe in range(j, right_end):
        place = U64(right_rank[U64(probe)])
        matches[place] = right_counts[U64(probe)]
        is_left[place] = False
