"""The rows of one side as questions to the other side's index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.band_cells import Asked
from slidejoin.index.probing import Probes
from slidejoin.intake import columns_of
from slidejoin.kernels.probing_cells import ARRIVED, OWN, SIZE, SLIDE, VIEW
from slidejoin.window import CountWindow

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.band_cells import BandCells
    from slidejoin.plan import Plan
    from slidejoin.predicate.expr import Side

__all__ = ["EVERYTHING", "Question", "ask"]

EVERYTHING = 1 << 62
"""More rows than any window of time can hold."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a batch of n probes asks, whatever the index.

    Attributes
    ----------
    stored : {"left", "right"}
        The side that is asked.
    first, arrived : int
        Ordinal of the first probe; rows of the stored side from before this batch.
    rank, slots : (n,) int64
        Place of each probe in the arrival order, by rows and by probes: a row of a self-join probes twice.
    lo, hi : (k, n) int64
        Ranges of the indexed key, see `Probes`.
    lows, highs : (p, n) int64
        Ranges of the further dimensions.
    dims : (p,) int64
        Which dimension each of those is of, ascending.
    inexact : set of int
        Terms whose ranges are not the whole truth for these rows.
    """

    stored: Side
    first: int
    arrived: int
    rank: NDArray[np.int64]
    slots: NDArray[np.int64]
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    dims: NDArray[np.int64]
    inexact: set[int]

    @property
    def rows(self) -> int:
        """Probes."""
        return self.rank.size

    def probes(self, plan: Plan) -> Probes:
        """Put the question to sorted runs."""
        # Of the rows before it, a probe sees those of the other side: all of them in a self-join.
        seen_to = (
            self.rank + self.arrived
            if plan.config.self_join
            else self.rank - np.arange(-self.arrived, self.rows - self.arrived)
        )
        return Probes(
            ordinals=np.arange(self.first, self.first + self.rows),
            lo=np.ascontiguousarray(self.lo),
            hi=np.ascontiguousarray(self.hi),
            seen_from=plan.seen_from(self.stored, seen_to),
            seen_to=seen_to,
            aux_lo=self.lows,
            aux_hi=self.highs,
            aux_dims=self.dims,
        )

    def cells(self, plan: Plan, table: BandCells) -> Asked:
        """Put the question to a table of cells."""
        window, view = plan.config.window, np.zeros(VIEW, np.int64)
        size, slide = EVERYTHING, 1
        if isinstance(window, CountWindow):
            size, slide = window.size(self.stored), window.slide
        view[[ARRIVED, SIZE, SLIDE, OWN]] = self.arrived, size, slide, plan.config.self_join
        lo, hi, lows, highs, dims = self.lo[0], self.hi[0], self.lows, self.highs, self.dims
        if table.wide:
            # The key itself is the last thing to check, and mostly the only one: then nothing is copied.
            below, above, last = self.lo[:1], self.hi[:1], np.array([table.dims])
            if dims.size:
                below, above, last = (np.concatenate(two) for two in ((lows, below), (highs, above), (dims, last)))
            lows, highs, dims = np.ascontiguousarray(below), np.ascontiguousarray(above), last
        if table.axis.place is not None:
            nobody = lo > hi
            lo, hi = table.axis.places(lo), table.axis.places(hi)
            if nobody.any():
                lo, hi = np.where(nobody, 1, lo), np.where(nobody, 0, hi)
        return Asked(np.ascontiguousarray(lo), np.ascontiguousarray(hi), self.rank, view, lows, highs, dims)


def ask(
    plan: Plan, role: Side, stored: Side, table: pa.Table, *, first: int, arrived: int, rank: NDArray[np.int64]
) -> Question:
    """Turn the rows of one side into questions to the other; `rank` (n,) int64 is their place among all arrivals."""
    columns, rows = columns_of(table), table.num_rows
    asked = [term.ranges(role, columns) for term in plan.terms]
    inexact = {number for number, ranges in zip(plan.numbers, asked, strict=True) if not ranges.exact}
    lo, hi = asked[0].lo, asked[0].hi
    kept = plan.bound.prefilter(role, columns)
    silent = None if kept is None else ~kept
    for ranges in asked[1:]:
        nothing: NDArray[np.bool_] = np.all(ranges.lo > ranges.hi, axis=0)
        silent = nothing if silent is None else silent | nothing
    if silent is not None and silent.any():
        lo, hi = np.where(silent, 1, lo), np.where(silent, 0, hi)
    dims = [d for d, ranges in enumerate(asked[1:]) for _ in range(ranges.lo.shape[0])]
    return Question(
        stored=stored,
        first=first,
        arrived=arrived,
        rank=rank,
        slots=rank * 2 + (role == "right") if plan.config.self_join else rank,
        lo=lo,
        hi=hi,
        lows=_stacked([ranges.lo for ranges in asked[1:]], rows),
        highs=_stacked([ranges.hi for ranges in asked[1:]], rows),
        dims=np.array(dims, np.int64),
        inexact=inexact,
    )


def _stacked(ranges: list[NDArray[np.int64]], rows: int) -> NDArray[np.int64]:
    return np.concatenate(ranges) if ranges else np.empty((0, rows), np.int64)
