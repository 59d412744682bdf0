"""Event times of a push: late rows, watermarks and departures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, OUT_FLAGS, OUT_I64, U64, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["rank_ages", "run_clocks", "watch_clocks"]

EARLIEST = np.int64(-(1 << 63))

SIGN = np.uint64(1 << 63)
"""With this bit turned signed numbers are unsigned ones in the same order."""


@kernel(I64, I64, I64, I64, types.uint64, OUT_I64, OUT_FLAGS, OUT_FLAGS, returns=types.int64)
def run_clocks(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    lateness: np.uint64,
    clocks: NDArray[np.int64],
    late_left: NDArray[np.bool_],
    late_right: NDArray[np.bool_],
) -> int:
    """Run both sides' clocks over a push, mark the rows that are late, each judged as it arrives, and count them.

    left and right (n,) int64 event times in ticks, in the order of their ranks (n,) int64, together 0, 1, 2, …;
    lateness in ticks; clocks (2,) int64 the largest event time of each side before, EARLIEST for none, and
    after the push. late_left and late_right (n,) bool, or (0,) to count them only. O(rows), without a branch that
    depends on which side comes next.
    """
    lefts, rights = _newest(left, clocks[0]), _newest(right, clocks[1])
    count = _mark_late(left, left_rank, lefts, rights, lateness, late_left)
    count += _mark_late(right, right_rank, rights, lefts, lateness, late_right)
    clocks[0], clocks[1] = lefts[U64(left.size)], rights[U64(right.size)]
    return int(count)


@inlined
def _mark_late(times: Any, ranks: Any, own: Any, others: Any, lateness: Any, late: Any) -> Any:  # noqa: ANN401 - arrays, and uint64
    """Mark the late rows of one side, unless `late` has no room, and count them; `own` and `others` as of `_newest`."""
    count = np.int64(0)
    for i in range(times.size):
        low, time = min(own[U64(i)], others[U64(ranks[U64(i)] - i)]), times[U64(i)]
        # Unsigned, because two times may be farther apart than an int64 can hold.
        behind = (low != EARLIEST) & (_ahead(low, time) > lateness)
        if late.size > 0:
            late[U64(i)] = behind
        count += behind
    return count


@inlined
def _ahead(low: Any, time: Any) -> Any:  # noqa: ANN401 - int64
    """Return by how much a watermark is ahead of a time, 0 if it is not."""
    return (U64(max(low, time)) ^ SIGN) - (U64(time) ^ SIGN)


@inlined
def _newest(times: Any, before: Any) -> Any:  # noqa: ANN401 - an array, int64
    """Return the largest of what was `before` and the first 0, 1, 2, … times."""
    largest = np.empty(times.size + 1, np.int64)
    newest = before
    for i in range(times.size):
        largest[U64(i)] = newest
        newest = max(newest, times[U64(i)])
    largest[U64(times.size)] = newest
    return largest


@kernel(I64, I64, I64, I64, OUT_I64, OUT_I64)
def watch_clocks(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    clocks: NDArray[np.int64],
    lows: NDArray[np.int64],
) -> None:
    """Write the smaller of both sides' largest event times after each arrival: lows (rows,) int64.

    left and right (n,) int64 event times, and ranks (n,) int64, of which one row of each side may share one, as in a
    self-join; clocks as of `run_clocks`. O(rows).
    """
    others = np.full(lows.size, EARLIEST)
    lows[:] = EARLIEST
    for i in range(left.size):
        lows[U64(left_rank[U64(i)])] = left[U64(i)]
    for j in range(right.size):
        others[U64(right_rank[U64(j)])] = right[U64(j)]
    one, two = clocks[0], clocks[1]
    for rank in range(lows.size):
        one, two = max(one, lows[U64(rank)]), max(two, others[U64(rank)])
        lows[U64(rank)] = min(one, two)
    clocks[0], clocks[1] = one, two


@kernel(I64, I64, OUT_I64)
def rank_ages(marks: NDArray[np.int64], ages: NDArray[np.int64], ranks: NDArray[np.int64]) -> None:
    """Write the first place of each age (n,) int64 at which ascending marks (m,) int64 are above it: ranks (n,) int64.

    O(n + m) for ages that ascend, and O(log(m)) more for each that does not.
    """
    at, count = np.int64(0), np.int64(marks.size)
    for n in range(ages.size):
        age = ages[U64(n)]
        if at > 0 and marks[U64(at - 1)] > age:
            low, high = np.int64(0), at - 1
            while low < high:
                middle = (low + high) >> 1
                if marks[U64(middle)] > age:
                    high = middle
                else:
                    low = middle + 1
            at = low
        while at < count and marks[U64(at)] <= age:
            at += 1
        ranks[U64(n)] = at
