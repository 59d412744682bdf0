"""Merging the rows of two sides into one arrival order, and parting them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import FLAGS, I32, I64, OUT_I64, U64, inlined, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["MERGE_RANKS", "RISE", "part_ranks", "split_order"]


@inlined
def _merge_rest(
    left: Any,  # noqa: ANN401 - this and the following ones arrays
    right: Any,  # noqa: ANN401
    left_rank: Any,  # noqa: ANN401
    right_rank: Any,  # noqa: ANN401
    i: Any,  # noqa: ANN401 - this and the following ones int64
    j: Any,  # noqa: ANN401
    p: Any,  # noqa: ANN401
    q: Any,  # noqa: ANN401
) -> None:
    """Write the ranks of rows i…p of the left and j…q of the right side, before which i + j rows come."""
    while i < p and j < q:
        left_rank[U64(i)] = i + j
        right_rank[U64(j)] = i + j
        left_rank[U64(p)] = p + q + 1
        right_rank[U64(q)] = p + q + 1
        first = left[U64(i)] <= right[U64(j)]
        last = left[U64(p)] <= right[U64(q)]
        i += first
        j += not first
        q -= last
        p -= not last
    while i <= p and j <= q:
        if left[U64(i)] <= right[U64(j)]:
            left_rank[U64(i)] = i + j
            i += 1
        else:
            right_rank[U64(j)] = i + j
            j += 1
    for rest in range(i, p + 1):
        left_rank[U64(rest)] = rest + j
    for rest in range(j, q + 1):
        right_rank[U64(rest)] = rest + i


def _merger(kind: Any) -> Callable[[NDArray[Any], NDArray[Any], NDArray[np.int64], NDArray[np.int64]], None]:  # noqa: ANN401 - Numba's types are untyped
    """Return the kernel for sort values of one type; see `MERGE_RANKS`."""
    values = types.Array(kind, 1, "C", readonly=True)

    @kernel(values, values, OUT_I64, OUT_I64)
    def merge_ranks(
        left: NDArray[Any], right: NDArray[Any], left_rank: NDArray[np.int64], right_rank: NDArray[np.int64]
    ) -> None:
        n, m = np.int64(left.size), np.int64(right.size)
        # Right rows before the left one in the middle come before all left rows from there on.
        half, cut, high = n >> 1, np.int64(0), m if n > 0 else np.int64(0)
        while cut < high:
            middle = (cut + high) >> 1
            if right[U64(middle)] < left[U64(half)]:
                cut = middle + 1
            else:
                high = middle
        # Both parts from both ends at once: each step waits for the one before it, so four chains take the time of
        # one. Both ranks are written and one of them stays: so there is no branch, which random alternation would
        # mispredict.
        i, j, p, q = np.int64(0), np.int64(0), half - 1, cut - 1
        a, b, c, d = half, cut, n - 1, m - 1
        while i < p and j < q and a < c and b < d:
            left_rank[U64(i)] = i + j
            right_rank[U64(j)] = i + j
            left_rank[U64(p)] = p + q + 1
            right_rank[U64(q)] = p + q + 1
            left_rank[U64(a)] = a + b
            right_rank[U64(b)] = a + b
            left_rank[U64(c)] = c + d + 1
            right_rank[U64(d)] = c + d + 1
            one = left[U64(i)] <= right[U64(j)]
            two = left[U64(p)] <= right[U64(q)]
            three = left[U64(a)] <= right[U64(b)]
            four = left[U64(c)] <= right[U64(d)]
            i += one
            j += not one
            q -= two
            p -= not two
            a += three
            b += not three
            d -= four
            c -= not four
        _merge_rest(left, right, left_rank, right_rank, i, j, p, q)
        _merge_rest(left, right, left_rank, right_rank, a, b, c, d)

    compiled: Callable[..., None] = merge_ranks
    return compiled


def _riser(kind: Any) -> Callable[[NDArray[Any], NDArray[Any]], bool]:  # noqa: ANN401 - see `_merger`
    """Return the kernel for sort values of one type; see `RISE`."""
    values = types.Array(kind, 1, "C", readonly=True)

    @kernel(values, values, returns=types.boolean)
    def rise(left: NDArray[Any], right: NDArray[Any]) -> bool:
        falls = 0
        for i in range(1, left.size):
            falls += left[U64(i)] < left[U64(i - 1)]
        for j in range(1, right.size):
            falls += right[U64(j)] < right[U64(j - 1)]
        return falls == 0

    compiled: Callable[..., bool] = rise
    return compiled


RISE = {np.dtype(np.int64): _riser(types.int64), np.dtype(np.float64): _riser(types.float64)}
"""For each dtype the kernel ``rise(left, right)``: whether both (n,) and (m,) ascend. O(n + m)."""

MERGE_RANKS = {np.dtype(np.int64): _merger(types.int64), np.dtype(np.float64): _merger(types.float64)}
"""For each dtype the kernel ``merge_ranks(left, right, left_rank, right_rank)``: each row's place in the stable order
of both sides, left first on ties. left (n,) and right (m,) ascending, without NaN; left_rank (n,) and right_rank (m,)
int64. O(n + m)."""


@kernel(I32, types.int64, OUT_I64, OUT_I64, OUT_I64, OUT_I64)
def split_order(
    order: NDArray[np.int32],
    left_rows: int,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
) -> None:
    """Split one order over both sides: the places in each side's batch, and their ranks in the order.

    order (n + m,) int32, rows of the left side counted from 0, those of the right from `left_rows`; left and left_rank
    (n,), right and right_rank (m,) int64. O(n + m).
    """
    i, j = 0, 0
    for rank in range(order.size):
        place = order[U64(rank)]
        if place < left_rows:
            left[U64(i)] = place
            left_rank[U64(i)] = rank
            i += 1
        else:
            right[U64(j)] = place - left_rows
            right_rank[U64(j)] = rank
            j += 1


@kernel(I64, FLAGS, I64, FLAGS, OUT_I64, OUT_I64, OUT_I64)
def part_ranks(
    rank: NDArray[np.int64],
    here: NDArray[np.bool_],
    other_rank: NDArray[np.int64],
    other_here: NDArray[np.bool_],
    stored: NDArray[np.int64],
    probing: NDArray[np.int64],
    seen: NDArray[np.int64],
) -> None:
    """Write the ranks of a side's rows that are stored here among all such, of its others, and what these see.

    rank (n,) and other_rank (m,) int64 ascending, here (n,) and other_here (m,) bool; stored (k,), probing and seen
    (n - k,) int64: how many rows of the other side that are stored here come before each. O(n + m).
    """
    j, met, own = 0, 0, 0
    for i in range(rank.size):
        while j < other_rank.size and other_rank[U64(j)] < rank[U64(i)]:
            met += other_here[U64(j)]
            j += 1
        if here[U64(i)]:
            stored[U64(own)] = own + met
            own += 1
        else:
            probing[U64(i - own)] = i + j - own - met
            seen[U64(i - own)] = met
