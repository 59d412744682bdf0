"""Intervals of right rows that left rows of a count window meet: which they see as they arrive, and as they expire.

A window of the last left row and of the last two right rows, the next row displacing the oldest one::

    arrival order    l0  r0  r1  l1  r2  l2
    ranks of l0…l2    0           3       5
    right rows before 0           2       3
    since             0           0       1      l2 no longer sees r0
    expires with     l1          l2
    until             2           3              l0 met r0 and r1, l1 met r0 to r2

The interval of a left row is ``since <= o < until``, over the ordinals o of right rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numba import types

from slidejoin.index.kernels.view import first_in_window, leaves_with
from slidejoin.jit.compiling import I64, OUT_I64, U64, group, kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SlidingRows", "begin_intervals", "end_intervals"]


class SlidingRows(NamedTuple):
    """The window of one side: its last `size` rows, which expire in blocks of `slide`; of a self-join or not."""

    size: int
    slide: int
    self_join: bool


SLIDING_ROWS = group(SlidingRows, types.int64, types.int64, types.boolean)


@kernel(I64, types.int64, SLIDING_ROWS, OUT_I64)
def begin_intervals(ranks: NDArray[np.int64], right: int, window: SlidingRows, since: NDArray[np.int64]) -> None:
    """Write the first right row that each arriving left row sees: since (n,) int64.

    ranks (n,) int64 ascending are the left rows' places in the order over both sides, before which `right` right rows
    had arrived; the window is that of right rows. O(n).
    """
    for row in range(ranks.size):
        before = right + ranks[U64(row)] - (0 if window.self_join else row)
        since[U64(row)] = first_in_window(before, window.size, window.slide)


@kernel(I64, types.int64, types.int64, types.int64, SLIDING_ROWS, OUT_I64, OUT_I64)
def end_intervals(
    ranks: NDArray[np.int64],
    left: int,
    right: int,
    begin: int,
    window: SlidingRows,
    rows: NDArray[np.int64],
    until: NDArray[np.int64],
) -> None:
    """Write the left rows from ordinal `begin` on, and for each the first right row that it does not see as it expires.

    ranks as of `begin_intervals`, of rows with ordinals from `left` on; the window is that of left rows. A row expires
    with the one that displaces its block. Of two streams it sees the right rows before that one, of a self-join that
    one too. rows and until (n,) int64. O(n).
    """
    for n in range(rows.size):
        row = begin + n
        place = leaves_with(row, left, window.size, window.slide)
        rows[U64(n)] = row
        until[U64(n)] = left + place + 1 if window.self_join else right + ranks[U64(place)] - place
