"""Event times of a push: check for late rows, and filter the rows found by the scope of each probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.kernels.jit.compiling import I64, OUT_I32, OUT_I64, OUT_U32, U64, kernel, prefetch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["keep_in_scope", "run_clocks"]

AHEAD = 16
EARLIEST, LATEST = -(1 << 63), (1 << 63) - 1


@kernel(I64, I64, I64, I64, types.int64, OUT_I64, returns=types.boolean)
def run_clocks(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    lateness: int,
    clocks: NDArray[np.int64],
) -> bool:
    """Run both sides' clocks over a push and return whether no row is late, each judged as it arrives.

    left and right (n,) int64 event times in ticks, in the order of their ranks (n,) int64, together 0, 1, 2, …;
    lateness in ticks, at least 0; clocks (2,) int64 the largest event time of each side before, EARLIEST for none,
    and after the push if no row was late. O(rows).
    """
    left_clock, right_clock = clocks[0], clocks[1]
    i, j = 0, 0
    while i < left.size or j < right.size:
        low = min(left_clock, right_clock)
        is_left = j >= right.size or (i < left.size and left_rank[U64(i)] < right_rank[U64(j)])
        time = left[U64(i)] if is_left else right[U64(j)]
        # Unsigned, because two times may be farther apart than an int64 can hold.
        if low != EARLIEST and time < low and U64(low) - U64(time) > U64(lateness):
            return False
        if is_left:
            left_clock = max(left_clock, time)
            i += 1
        else:
            right_clock = max(right_clock, time)
            j += 1
    clocks[0], clocks[1] = left_clock, right_clock
    return True


@kernel(
    OUT_U32, types.int64, OUT_I32, types.int64, types.int64, I64, types.int64, I64, types.int64, types.int64,
    returns=types.int64,
)  # fmt: skip
def keep_in_scope(
    found: NDArray[np.uint32],
    place: int,
    counts: NDArray[np.int32],
    begin: int,
    end: int,
    stored: NDArray[np.int64],
    columns: int,
    times: NDArray[np.int64],
    before: int,
    after: int,
) -> int:
    """Filter the rows that probes begin…end-1 found by event time; return how many are in scope.

    found (places,) uint32 positions, one probe after the other from `place` on, are compacted; counts (n,) int32 are
    updated; stored (rows * columns,) int64, rows a power of two: the event time of the row with position p stands at
    ``(p & (rows - 1)) * columns``; times (n,) int64 of the probes, which see rows from `before` ticks earlier to
    `after` ticks later. O(found).
    """
    mask, take, at, total = stored.size // columns - 1, place, place, place
    for i in range(begin, end):
        total += counts[U64(i)]
    earliest, latest = EARLIEST + before, LATEST - after
    for i in range(begin, end):
        low = max(times[U64(i)], earliest) - before
        high = min(times[U64(i)], latest) + after
        start = at
        for _ in range(counts[U64(i)]):
            prefetch(stored, (int(found[U64(min(take + AHEAD, total - 1))]) & mask) * columns)
            position = found[U64(take)]
            time = stored[U64((int(position) & mask) * columns)]
            found[U64(at)] = position
            at += (low <= time) & (time <= high)
            take += 1
        counts[U64(i)] = at - start
    return at - place
