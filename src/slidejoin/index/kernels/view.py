"""Views: which stored rows a batch of probes sees in a count window, and with which arrival a row leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.jit.compiling import I64, OUT_I64, U64, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ABOVE", "ARRIVED", "BELOW", "OWN", "SIZE", "SLIDE", "VIEW", "first_in_window", "first_seen", "leaves_with",
    "see_rows", "view_of",
]  # fmt: skip

ARRIVED, SIZE, SLIDE, OWN, BELOW, ABOVE, VIEW = range(7)
"""Places in a view, int64 (VIEW,), which says what probes see of the stored side: how many of its rows had ARRIVED
before these; of those before a probe it sees the last SIZE, in blocks of SLIDE rows; OWN is 1 if ranks count the stored
rows alone, as in a self-join, and 0 if they count the probes as well. The ranges are ``lo - BELOW`` to ``hi + ABOVE``,
both at least 0, and stay at the ends of int64 where they would pass them."""


def view_of(arrived: int, size: int, slide: int, *, own: bool = False) -> NDArray[np.int64]:
    """Return a view with these numbers, and ranges as they are given."""
    return np.array((arrived, size, slide, own, 0, 0), np.int64)


@inlined
def first_in_window(seen_to: int, size: int, slide: int) -> int:
    """Return the first of the ordinals before `seen_to` that a window of so many rows still has."""
    first = max(seen_to - size, 0)
    if slide > 1:
        first -= first % slide
    return first


@inlined
def leaves_with(row: int, first: int, size: int, slide: int) -> int:
    """Return which of the new rows of its side, the first of which is `first`, displaces the block of a row."""
    last = row if slide == 1 else (row // slide + 1) * slide - 1
    return last + size - first


@inlined
def first_seen(view: NDArray[np.int64], seen_to: int, bottom: int) -> int:
    """Return the first ordinal of those before `seen_to`, and from `bottom` on, that a view shows."""
    return max(first_in_window(seen_to, int(view[SIZE]), int(view[SLIDE])), bottom)


@kernel(I64, I64, OUT_I64, OUT_I64)
def see_rows(
    rank: NDArray[np.int64], view: NDArray[np.int64], seen_from: NDArray[np.int64], seen_to: NDArray[np.int64]
) -> None:
    """Write of each probe which stored rows it sees: those with ordinals seen_from…seen_to-1, both (n,) int64.

    `rank` (n,) int64 are the places of the probes in the arrival order; `view` (VIEW,) int64.
    """
    for i in range(rank.size):
        to = rank[U64(i)] + view[ARRIVED] - (0 if view[OWN] != 0 else i)
        seen_to[U64(i)] = to
        seen_from[U64(i)] = first_in_window(int(to), int(view[SIZE]), int(view[SLIDE]))
