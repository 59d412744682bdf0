"""Cutting a push into slices, so that no more rows are inserted before their probes than the windows hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.ingest.arrival import Arrivals
from slidejoin.operator.ingest.ingest import Push
from slidejoin.rows.widths import SLICE, TableLimit, Widths, chunked, in_one_chunk, widths_of
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["slice_rows", "slices_of"]


def slice_rows(plan: Plan, times: Mapping[Side, NDArray[np.int64] | None]) -> int:
    """Return how many rows a slice may have: as many as the windows hold, else probes search rows that they never see.

    `times` are the event times of all rows, (n,) int64 for each side; None for count windows.
    """
    return min(max(plan.scope.at_once(times), plan.tuning.smallest_slice), plan.tuning.largest_slice)


def slices_of(plan: Plan, push: Push, most: int | None) -> Iterator[Push]:
    """Cut a push into slices of its arrival order, of up to `most` rows, if that is given."""
    arrivals, total = push.arrivals, push.rows
    rows, large = slice_rows(plan, push.times), any(map(chunked, push.tables.values()))
    rows = min(rows, plan.most_probes, rows if most is None else most)
    if 0 < total <= rows and not large:
        yield push
        return
    # A table too large for one Arrow array a column is small enough in slices.
    widths = _widths_of(push) if large else Widths(total, 0)
    first = 0
    for last in TableLimit(rows, SLICE.nbytes).stops(widths):
        cut = {side: slice(*np.searchsorted(arrivals.rank(side), (first, last))) for side in SIDES}
        tables = {
            side: in_one_chunk(push.tables[side].slice(cut[side].start, cut[side].stop - cut[side].start))
            for side in SIDES
        }
        times: dict[Side, NDArray[np.int64] | None] = {"left": None, "right": None}
        for side in SIDES:
            whole = push.times[side]
            times[side] = None if whole is None else whole[cut[side]]
        yield Push(
            tables,
            times,
            Arrivals(
                arrivals.left[cut["left"]],
                arrivals.right[cut["right"]],
                arrivals.left_rank[cut["left"]] - first,
                arrivals.right_rank[cut["right"]] - first,
            ),
            watermark=push.watermark,
            marks=None if push.marks is None else push.marks[first:last],
            seen=None if push.seen is None else {side: push.seen[side][cut[side]] for side in SIDES},
        )
        first = last


def _widths_of(push: Push) -> Widths:
    """Return how wide rows are, in arrival order."""
    every = np.zeros(push.rows, np.int64)
    for side in SIDES:
        widths = widths_of(push.tables[side])
        every[push.arrivals.rank(side)] = widths.fixed + (0 if widths.varying is None else widths.varying)
    return Widths(push.rows, 0, every)
