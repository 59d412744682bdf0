"""Rows dealt to cores in turn: core c of k stores the ordinals c, c + k, c + 2k, …, and counts them from 0 on.

So each core tells from its own number and from how many rows there were which ones it stores, which of these a probe
sees, and which have left (SplitJoin, sections 3 and 4: storage by arbitration without a coordinator).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from slidejoin.index.kernels.view import ARRIVED, OWN, SIZE, SLIDE
from slidejoin.index.keys import KeyRanges, RowKeys
from slidejoin.index.probe import ProbeBatch
from slidejoin.index.protocol import Occupancy

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NO_END", "core_occupancy", "core_probes", "core_rows", "number_in_core", "probes_in_turn"]

NO_END = 1 << 62
"""More rows than any window holds: the size in the view of a window of time."""

Ordinals = TypeVar("Ordinals", int, "NDArray[np.int64]")


def number_in_core(ordinal: Ordinals, core: int, cores: int) -> Ordinals:
    """Return how many of the ordinals before that one a core stores: the number of the first one from there on.

    Examples
    --------
    >>> [number_in_core(ordinal, 1, 3) for ordinal in range(6)]
    [0, 0, 1, 1, 1, 2]
    """
    return (ordinal + (cores - 1 - core)) // cores


def core_rows(rows: RowKeys, first: int, core: int, cores: int) -> RowKeys:
    """Return the keys of those rows that a core stores; the first of `rows` has that ordinal."""
    mine = slice((core - first) % cores, None, cores)
    return RowKeys(
        np.ascontiguousarray(rows.keys[mine]),
        np.ascontiguousarray(rows.aux[mine]),
        None if rows.matchable is None else np.ascontiguousarray(rows.matchable[mine]),
        rows.inexact,
        tuple(core_rows(one, first, core, cores) for one in rows.branches),
    )


def core_probes(batch: ProbeBatch, core: int, cores: int, least: int = 0) -> tuple[ProbeBatch, bool]:
    """Return the probes as a core sees them, and whether their view shows no row too many.

    A view can say that of each window's last rows so many are seen; where a core's share of them varies, or where only
    ordinals from `least` on are requested, it shows more than `ProbeBatch.probes` does.
    """
    whole, window = batch.probes, batch.view
    first = whole.seen_from if least == 0 else np.maximum(whole.seen_from, least)
    seen_from = number_in_core(first, core, cores)
    seen_to = number_in_core(whole.seen_to, core, cores)
    size, slide = int(window[SIZE]), int(window[SLIDE])
    view = window.copy()
    view[[ARRIVED, SLIDE, OWN]] = 0, 1, 1
    exact = least == 0 and (size >= NO_END or (slide == 1 and size % cores == 0))
    view[SIZE] = size if size >= NO_END else -(-(size + slide - 1) // cores)
    ranges = batch.ranges
    mine = ProbeBatch(
        first=batch.first, rank=seen_to, view=view,
        ranges=lambda: ranges, since=seen_from,
    )  # fmt: skip
    return mine, exact


def probes_in_turn(batch: ProbeBatch, core: int, cores: int) -> ProbeBatch:
    """Return every k-th probe, which sees the same rows; they are numbered from 0 on."""
    mine, whole, view = slice(core, None, cores), batch.probes, batch.view.copy()
    view[[ARRIVED, OWN]] = 0, 1
    seen_from, ranges = np.ascontiguousarray(whole.seen_from[mine]), _ranges_in_turn(batch.ranges, mine)
    return ProbeBatch(
        first=0, rank=np.ascontiguousarray(whole.seen_to[mine]), view=view,
        ranges=lambda: ranges, since=seen_from,
    )  # fmt: skip


def _ranges_in_turn(ranges: KeyRanges, mine: slice) -> KeyRanges:
    lo, hi, aux_lo, aux_hi = (
        np.ascontiguousarray(ends[:, mine]) for ends in (ranges.lo, ranges.hi, ranges.aux_lo, ranges.aux_hi)
    )
    branches = tuple(_ranges_in_turn(branch, mine) for branch in ranges.branches)
    return KeyRanges(lo, hi, aux_lo, aux_hi, ranges.aux_dims, ranges.inexact, branches)


def core_occupancy(window: Occupancy, core: int, cores: int) -> Occupancy:
    """Return which rows of a window a core has, about."""
    capacity = None if window.capacity is None else -(-window.capacity // cores)
    first, following = (number_in_core(ordinal, core, cores) for ordinal in (window.first, window.next))
    return Occupancy(first, following, -(-window.rows // cores), capacity)
