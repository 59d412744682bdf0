"""Pairs in arrival order, merged from the matches of both sides; and checks of these matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numba import types

from slidejoin.jit.compiling import (
    I32,
    I64,
    I64_2D,
    OUT_FLAGS,
    OUT_I32,
    OUT_I64,
    OUT_U32,
    U32,
    U64,
    group,
    inlined,
    kernel,
    prefetch,
)
from slidejoin.jit.vectors.vectors import LOW_32, fill_lanes, widen_lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "PROBE_STRETCH", "ProbeStretch", "SideCounts", "SideMatches", "filter_positions", "merge_counts", "merge_pairs",
    "order_strictly", "put_in_order",
]  # fmt: skip

U32_OF = np.uint32
Value: TypeAlias = Any
"""An array, or an integer of 64 bits."""

FEW_STORED = 32
"""Rows that are sorted one by one."""
AHEAD = 16


class SideCounts(NamedTuple):
    """How many matches the n probes of a side have.

    Attributes
    ----------
    ranks : (n,) int64
        Places in the arrival order, ascending.
    counts : (n,) int32
    """

    ranks: NDArray[np.int64]
    counts: NDArray[np.int32]


class SideMatches(NamedTuple):
    """The matches of the n probes of a side.

    Attributes
    ----------
    ranks, counts
        As of `SideCounts`.
    positions : uint32
        One probe after the other, padded by eight places: so many are read at a time.
    first, base : int
        The ordinal of probe i is first + i; positions count from base + 1, the oldest stored ordinal.
    take : int
        Where the positions of the first probe to be written begin.
    """

    ranks: NDArray[np.int64]
    counts: NDArray[np.int32]
    positions: NDArray[np.uint32]
    first: int
    base: int
    take: int


class ProbeStretch(NamedTuple):
    """Left probes i…left_end-1 and right probes j…right_end-1."""

    i: int
    j: int
    left_end: int
    right_end: int


SIDE_COUNTS, PROBE_STRETCH = group(SideCounts, I64, I32), group(ProbeStretch, *[types.int64] * 4)
SIDE_MATCHES = group(SideMatches, I64, I32, U32, types.int64, types.int64, types.int64)


@inlined
def _write(
    matches: SideMatches,
    i: int,
    take: int,
    probes: NDArray[np.int64],
    stored: NDArray[np.int64],
    at: int,
    end: int,
) -> int:
    """Write one probe's pairs, eight at a time, beyond the last one at most up to `end`; return how many they are."""
    positions, base, ordinal, count = matches.positions, matches.base, matches.first + i, int(matches.counts[U64(i)])
    first = U32_OF((base + 1) & LOW_32)
    if at + count + 8 <= end:
        # Eight are written even for a probe without matches: this avoids a branch that would be mispredicted.
        widen_lanes(positions, take, first, base, stored, at)
        fill_lanes(probes, at, ordinal)
        done = 8
        while done < count:
            widen_lanes(positions, take + done, first, base, stored, at + done)
            fill_lanes(probes, at + done, ordinal)
            done += 8
        return count
    for place in range(count):
        stored[U64(at + place)] = base + ((int(positions[U64(take + place)]) - int(first)) & LOW_32)
        probes[U64(at + place)] = ordinal
    return count


@kernel(SIDE_MATCHES, SIDE_MATCHES, PROBE_STRETCH, OUT_I64, OUT_I64, types.int64, types.int64)
def merge_pairs(
    ours: SideMatches,
    theirs: SideMatches,
    stretch: ProbeStretch,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    at: int,
    end: int,
) -> None:
    """Write the pairs of a stretch of probes in the order of their ranks, `ours` being the left ones.

    left and right (pairs,) int64 take the ordinals of each pair's rows in places at…end-1. O(probes + pairs).
    """
    i, j, left_end, right_end = stretch
    left_rank, right_rank, left_take, right_take = ours.ranks, theirs.ranks, ours.take, theirs.take
    while i < left_end or j < right_end:
        if j >= right_end or (i < left_end and left_rank[U64(i)] < right_rank[U64(j)]):
            count = _write(ours, i, left_take, left, right, at, end)
            left_take += count
            i += 1
        else:
            count = _write(theirs, j, right_take, right, left, at, end)
            right_take += count
            j += 1
        at += count


@kernel(OUT_U32, OUT_I32, types.int64, types.int64, I64_2D, I64_2D, I64_2D, I64, returns=types.int64)
def filter_positions(
    positions: NDArray[np.uint32],
    counts: NDArray[np.int32],
    begin: int,
    end: int,
    stored: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
) -> int:
    """Filter the matches of probes begin…end-1: keep those in one range of the probe in every dimension.

    positions (places,) uint32, one probe after the other from 0 on, are compacted; counts (n,) int32 are updated;
    stored (rows, d) int64, rows a power of two: the row with position p is at ``p & (rows - 1)``. Dimension
    ``dims[p]`` of it has the range [lows[p, i], highs[p, i]] of probe i among those that it may lie in; dims ascends.
    Returns how many are left. O(positions * dims).
    """
    mask, take, at = stored.shape[0] - 1, 0, 0
    total = 0
    for i in range(begin, end):
        total += counts[U64(i)]
    for i in range(begin, end):
        start = at
        for _ in range(counts[U64(i)]):
            prefetch(stored, (int(positions[U64(min(take + AHEAD, total - 1))]) & mask) * stored.shape[1])
            row = U64(int(positions[U64(take)]) & mask)
            piece, inside = 0, True
            while inside and piece < dims.size:
                d = dims[piece]
                inside = False
                while piece < dims.size and dims[piece] == d:
                    value = stored[row, d]
                    inside |= (lows[piece, i] <= value) & (value <= highs[piece, i])
                    piece += 1
            positions[U64(at)] = positions[U64(take)]
            at += inside
            take += 1
        counts[U64(i)] = at - start
    return at


@kernel(SIDE_COUNTS, SIDE_COUNTS, PROBE_STRETCH, OUT_I64, OUT_FLAGS)
def merge_counts(
    ours: SideCounts,
    theirs: SideCounts,
    stretch: ProbeStretch,
    matches: NDArray[np.int64],
    is_left: NDArray[np.bool_],
) -> None:
    """Write the match counts of a stretch of probes to the places of their ranks, `ours` being the left ones.

    The ranks of both are together 0, 1, 2, …; matches (rows,) int64 and is_left (rows,) bool are written. O(probes).
    """
    (left_rank, left_counts), (right_rank, right_counts) = ours, theirs
    for probe in range(stretch.i, stretch.left_end):
        place = U64(left_rank[U64(probe)])
        matches[place] = left_counts[U64(probe)]
        is_left[place] = True
    for probe in range(stretch.j, stretch.right_end):
        place = U64(right_rank[U64(probe)])
        matches[place] = right_counts[U64(probe)]
        is_left[place] = False


@inlined
def probed_by_left(
    left: Value,
    right: Value,
    left_rank: Value,
    right_rank: Value,
    first_left: Value,
    first_right: Value,
) -> Value:
    """Tell whether the left row of a pair came later than the right one."""
    return right < first_right or (
        left >= first_left and left_rank[U64(left - first_left)] > right_rank[U64(right - first_right)]
    )


@inlined
def put_in_order(
    left: Value,
    right: Value,
    left_rank: Value,
    right_rank: Value,
    first_left: Value,
    first_right: Value,
) -> None:
    """Sort the pairs of each probe by the stored rows, see `order_strictly`."""
    begin, pairs = np.int64(0), left.size
    while begin < pairs:
        by_left = probed_by_left(left[U64(begin)], right[U64(begin)], left_rank, right_rank, first_left, first_right)
        probes, stored = (left, right) if by_left else (right, left)
        probe, end = probes[U64(begin)], begin + 1
        while (
            end < pairs
            and probes[U64(end)] == probe
            and by_left
            == probed_by_left(left[U64(end)], right[U64(end)], left_rank, right_rank, first_left, first_right)
        ):
            end += 1
        if end - begin > FEW_STORED:
            stored[begin:end].sort()
        else:
            for at in range(begin + 1, end):
                row, to = stored[U64(at)], at
                while to > begin and stored[U64(to - 1)] > row:
                    stored[U64(to)] = stored[U64(to - 1)]
                    to -= 1
                stored[U64(to)] = row
        begin = end


@kernel(OUT_I64, OUT_I64, I64, I64, types.int64, types.int64)
def order_strictly(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    first_left: int,
    first_right: int,
) -> None:
    """Sort the pairs of each probe by the arrival of the stored rows.

    left and right (n,) int64 are the ordinals of pairs, those of a probe side by side. The newest rows are those from
    `first_left` and `first_right` on, whose places in the arrival order are the ranks. A pair's probe is the one of its
    rows that came later. O(n log n).
    """
    put_in_order(left, right, left_rank, right_rank, first_left, first_right)
