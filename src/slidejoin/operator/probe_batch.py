"""The rows of one side as questions to the other side's index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.cells.probes import CellProbes
from slidejoin.index.protocol import FAR, Ascending, Probes
from slidejoin.kernels.cells.probing import ARRIVED, OWN, SIZE, SLIDE, VIEW
from slidejoin.operator.ingest.ingest import columns_of
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import BandCells
    from slidejoin.index.sorted_runs.run import Run
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["EVERYTHING", "ProbeBatch", "ask"]

EVERYTHING = 1 << 62
"""More rows than any window of time can hold."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The ranges of n probes.

    Attributes
    ----------
    lo, hi : (k, n) int64
        Ranges of the indexed key, see `Probes`.
    lows, highs : (p, n) int64
        Ranges of the further dimensions.
    dims : (p,) int64
        Which dimension each of those is of, ascending.
    inexact : set of int
        Terms whose ranges are not the whole truth for these rows.
    """

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    dims: NDArray[np.int64]
    inexact: set[int]


@dataclass(slots=True)
class ProbeBatch:
    """What a batch of n probes asks, whatever the index.

    Attributes
    ----------
    role, stored : {"left", "right"}
        The side that asks, and the one that is asked.
    first, arrived : int
        Ordinal of the first probe; rows of the stored side from before this batch.
    rank, slots : (n,) int64
        Place of each probe in the arrival order, by rows and by probes: a row of a self-join probes twice.
    """

    plan: Plan
    role: Side
    stored: Side
    table: pa.Table
    first: int
    arrived: int
    rank: NDArray[np.int64]
    slots: NDArray[np.int64]
    ascending: Ascending | None = None
    """The question to sorted runs if the probes were sorted already; then their ranges may never be needed."""
    _asking: Asking | None = None

    @property
    def asking(self) -> Asking:
        """The probes' ranges, worked out when they are first asked for."""
        if self._asking is None:
            self._asking = _asking(self.plan, self.role, self.table)
        return self._asking

    @property
    def inexact(self) -> set[int]:
        """Terms whose ranges are not the whole truth for these rows."""
        return set() if self.ascending is not None else self.asking.inexact

    @property
    def rows(self) -> int:
        """Probes."""
        return self.rank.size

    def probes(self) -> Probes:
        """Put the question to sorted runs."""
        asking = self.asking
        # Of the rows before it, a probe sees those of the other side: all of them in a self-join.
        seen_to = (
            self.rank + self.arrived
            if self.plan.config.self_join
            else self.rank - np.arange(-self.arrived, self.rows - self.arrived)
        )
        return Probes(
            ordinals=np.arange(self.first, self.first + self.rows),
            lo=np.ascontiguousarray(asking.lo),
            hi=np.ascontiguousarray(asking.hi),
            seen_from=self.plan.seen_from(self.stored, seen_to),
            seen_to=seen_to,
            aux_lo=asking.lows,
            aux_hi=asking.highs,
            aux_dims=asking.dims,
        )

    def cells(self, table: BandCells) -> CellProbes:
        """Put the question to a table of cells."""
        asking, view = self.asking, self._view()
        lo, hi, lows, highs, dims = asking.lo[0], asking.hi[0], asking.lows, asking.highs, asking.dims
        if table.wide:
            # The key itself is the last thing to check, and mostly the only one: then nothing is copied.
            below, above, last = asking.lo[:1], asking.hi[:1], np.array([table.dims])
            if dims.size:
                below, above, last = (np.concatenate(two) for two in ((lows, below), (highs, above), (dims, last)))
            lows, highs, dims = np.ascontiguousarray(below), np.ascontiguousarray(above), last
        if table.axis.place is not None:
            nobody = lo > hi
            lo, hi = table.axis.places(lo), table.axis.places(hi)
            if nobody.any():
                lo, hi = np.where(nobody, 1, lo), np.where(nobody, 0, hi)
        return CellProbes(np.ascontiguousarray(lo), np.ascontiguousarray(hi), self.rank, view, lows, highs, dims)

    def _view(self) -> NDArray[np.int64]:
        """Return what the probes see of the stored side, as kernels take it."""
        window, view = self.plan.config.window, np.zeros(VIEW, np.int64)
        size, slide = EVERYTHING, 1
        if isinstance(window, CountWindow):
            size, slide = window.size(self.stored), window.slide
        view[[ARRIVED, SIZE, SLIDE, OWN]] = self.arrived, size, slide, self.plan.config.self_join
        return view

    def put_in_order(self, run: Run) -> None:
        """Put the question in the order of the probes' own keys, if their ranges lie around those."""
        term = self.plan.terms[0]
        plain = run.size == self.rows and run.wide is None and not run.inexact and len(self.plan.terms) == 1
        around = term.around(self.role) if plain and isinstance(term, RangeTerm) else None
        if (
            around is None
            or max(abs(run.smallest), abs(run.largest_key)) >= FAR
            or max(around.below, around.above) >= FAR
        ):
            return
        arrived, self_join = self.arrived, self.plan.config.self_join
        to = arrived + int(self.rank[0]), arrived + int(self.rank[-1]) - (0 if self_join else self.rows - 1)
        begin, end = (self.plan.seen_at(self.stored, seen) for seen in to)
        self.ascending = Ascending(run, around.below, around.above, self.rank, self._view(), (begin, end, *to))


def ask(
    plan: Plan, role: Side, stored: Side, table: pa.Table, *, first: int, arrived: int, rank: NDArray[np.int64],
    run: Run | None = None,
) -> ProbeBatch:  # fmt: skip
    """Turn the rows of one side into questions to the other.

    `rank` (n,) int64 is their place among all arrivals; `run` are their keys, if they were sorted and the other side's
    are too.
    """
    slots = rank * 2 + (role == "right") if plan.config.self_join else rank
    question = ProbeBatch(plan, role, stored, table, first, arrived, rank, slots)
    if run is not None:
        question.put_in_order(run)
    if question.ascending is None:
        _ = question.asking
    return question


def _asking(plan: Plan, role: Side, table: pa.Table) -> Asking:
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
    return Asking(
        lo=lo,
        hi=hi,
        lows=_stacked([ranges.lo for ranges in asked[1:]], rows),
        highs=_stacked([ranges.hi for ranges in asked[1:]], rows),
        dims=np.array(dims, np.int64),
        inexact=inexact,
    )


def _stacked(ranges: list[NDArray[np.int64]], rows: int) -> NDArray[np.int64]:
    return np.concatenate(ranges) if ranges else np.empty((0, rows), np.int64)
