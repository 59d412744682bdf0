"""From batches to the rows of a push: one arrival order, without late rows and rows without event time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.operator.ingest.arrival import Arrivals, arrange, numbers
from slidejoin.operator.ingest.kernels.ordering import part_ranks
from slidejoin.operator.ingest.own_memory import owned
from slidejoin.plan.window_term import OrdinalScope
from slidejoin.predicate.truth.values import Batch
from slidejoin.rows.held_types import held
from slidejoin.rows.reorder import rows_as_given, rows_at
from slidejoin.rows.widths import in_one_chunk
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.operator.ingest.arrival import Clock
    from slidejoin.plan.plan import Plan
    from slidejoin.plan.window_term import TermScope
    from slidejoin.sides import Side

__all__ = ["Ingest", "Push", "columns_of", "parted"]


@dataclass(frozen=True, slots=True)
class Push:
    """Rows of both sides in arrival order, late ones gone: what the operator takes.

    Attributes
    ----------
    tables : dict
        The rows of each side as they are held, in arrival order, each column in one chunk unless it is too large.
    times : dict
        Their event times in ticks, (n,) int64; None for count windows.
    arrivals : Arrivals
        Their places in the order over both sides.
    null_time_rows, late_rows : int
        Rows that were left out.
    left_out : dict from side to pyarrow.Table, or None
        These rows as they were given, where late rows are stored and there are any.
    watermark : int or None
        The join's watermark before these rows; None if there is none.
    marks : (n,) int64, or None
        The watermark after each of these arrivals, where it is not that of their event times alone: of a join that goes
        on without idle sides.
    seen : dict from side to (n,) int64, or None
        Of rows that only probe, and are stored elsewhere: the stored ordinals of the other side that come before each,
        as the first that it does not see, ascending.
    """

    tables: dict[Side, pa.Table]
    times: dict[Side, NDArray[np.int64] | None]
    arrivals: Arrivals
    null_time_rows: int = 0
    late_rows: int = 0
    left_out: dict[Side, pa.Table] | None = None
    watermark: int | None = None
    marks: NDArray[np.int64] | None = None
    seen: dict[Side, NDArray[np.int64]] | None = None

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return self.arrivals.left.size + self.arrivals.right.size


class Ingest:
    """Ingests rows for one plan; all that does not depend on the rows is decided once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._kept = {side: plan.kept_schema(side) for side in SIDES}
        self._as_given = {side: _as_given(plan.taken_schema(side), self._kept[side]) for side in SIDES}
        self._keeps_late = plan.config.late == "emit"

    def take(
        self,
        clock: Clock,
        tables: dict[Side, pa.Table],
        by: tuple[NDArray[np.generic], NDArray[np.generic]] | None = None,
        watermark: int | None = None,
        *,
        own_clock: bool = True,
        own: bool = True,
    ) -> tuple[Push, Clock]:
        """Order the rows, leave out late ones and those without event time, and return them with the clock after them.

        With ``own_clock=False`` rows are late iff they are below `watermark` (None: none is), and the clock stands
        still: that is Spark's notion of time. Of tables that have no memory of their `own` what stays is copied.
        """
        if not own and self._keeps_late:
            tables, own = {side: owned(table) for side, table in tables.items()}, True
        null_time = too_late = 0
        left_out = marks = None
        before = watermark
        arrivals = arrange(tables["left"].num_rows, tables["right"].num_rows, by)
        stored: dict[Side, pa.Table] = {side: self.held(side, tables[side], own=own) for side in SIDES}
        times: dict[Side, NDArray[np.int64] | None] = {"left": None, "right": None}
        scope = self._plan.scope
        if not isinstance(scope, OrdinalScope):
            clock = replace(clock)
            before = clock.watermark if own_clock else watermark
            ticks, null = self._ticks(scope, stored, arrivals)
            all_arrivals = arrivals
            if null is not None:
                null_time = int(null["left"].sum() + null["right"].sum())
                arrivals = arrivals.without(null["left"], null["right"])
                ticks = {side: ticks[side][~null[side]] for side in SIDES}
            if own_clock:
                late = clock.advance(arrivals, ticks["left"], ticks["right"], self_join=self._plan.config.self_join)
            else:
                low = np.iinfo(np.int64).min if watermark is None else watermark
                late = ticks["left"] < low, ticks["right"] < low
            too_late = int(late[0].sum() + late[1].sum())
            marks = clock.marks(late, arrivals) if own_clock else None
            if self._keeps_late and (null_time or too_late):
                left_out = self._left_out(tables, all_arrivals, null, late)
            if too_late:
                arrivals = arrivals.without(*late)
                ticks = {side: ticks[side][~gone] for side, gone in zip(SIDES, late, strict=True)}
            times = {side: ticks[side] for side in SIDES}
        if arrivals.straight:
            stored = {side: in_one_chunk(stored[side]) for side in SIDES}
        else:
            stored = {side: in_one_chunk(rows_at(stored[side], arrivals.places(side))) for side in SIDES}
        return Push(stored, times, arrivals, null_time, too_late, left_out, before, marks), clock

    def held(self, side: Side, table: pa.Table, *, own: bool = True) -> pa.Table:
        """Return the columns of a side's rows that are stored, as they are held: a copy unless memory is its `own`."""
        schema = self._kept[side]
        table = table if table.schema.equals(schema) else table.select(schema.names)
        table = table if own else owned(table)
        return table if self._as_given[side] else held(table)

    def _left_out(
        self,
        tables: dict[Side, pa.Table],
        arrivals: Arrivals,
        null: dict[Side, NDArray[np.bool_]] | None,
        late: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    ) -> dict[Side, pa.Table]:
        """Return the rows without event time and the late ones, of each side in arrival order, as they were given.

        `null` are marks of all rows in arrival order, `late` those of the other rows.
        """
        rows: dict[Side, pa.Table] = {}
        for side, too_late in zip(SIDES, late, strict=True):
            marks = too_late
            if null is not None:
                marks = null[side].copy()
                marks[~marks] = too_late
            # The batch has further columns where texts have codes, and where a feed has combined several.
            given = tables[side].select(self._plan.schema(side).names)
            rows[side] = rows_as_given(given, arrivals.places(side)[marks])
        return rows

    def _ticks(
        self, scope: TermScope, tables: dict[Side, pa.Table], arrivals: Arrivals
    ) -> tuple[dict[Side, NDArray[np.int64]], dict[Side, NDArray[np.bool_]] | None]:
        """Return event times in arrival order, and which of them are NULL; None if there is none."""
        ticks: dict[Side, NDArray[np.int64]] = {}
        null: dict[Side, NDArray[np.bool_]] = {}
        for side in SIDES:
            values, valid = scope.ticks(side, columns_of(tables[side]))
            places = arrivals.places(side)
            ticks[side] = values if arrivals.straight else values[places]
            if valid is not None:
                null[side] = ~valid[places]
        if not null:
            return ticks, None
        return ticks, {side: null.get(side, np.zeros(ticks[side].size, np.bool_)) for side in SIDES}


def _as_given(given: pa.Schema, held: pa.Schema) -> bool:
    """Whether rows are held as the types that they come with; each batch may bring its own dictionary."""
    return all(field.type == given.field(field.name).type and not pa.types.is_dictionary(field.type) for field in held)


def columns_of(table: pa.Table) -> Batch:
    """Return the columns by their names, each looked up and loaded on first use."""
    return Batch(table)


def parted(
    push: Push, stored: Mapping[Side, NDArray[np.bool_]], first: Mapping[Side, int], *, self_join: bool
) -> tuple[Push, Push]:
    """Return the rows of a push that are stored here, and those that only probe, see `Push.seen`.

    Where several operators share a join's windows, each has all rows of a push and stores some. A pair is found once,
    by the operator that stores its earlier row, since all of them put the rows in one order::

        arrival order       l0   r1   l2   r3   r4
        operator A stores   l0                  r4      r1 and r3 see l0 there, l2 sees nothing
        operator B stores        r1   l2   r3           l2 sees r1, r3 and r4 see l2, l0 sees nothing

    Parameters
    ----------
    push : Push
    stored : dict from side to (n,) bool
        Which rows of each side are stored here, in the order of the batches that the push was made of.
    first : dict from side to int
        The ordinal that the first row of each side gets which is stored here.
    self_join : bool
        Whether rows of one side see each other.
    """
    arrivals = push.arrivals
    here = {side: stored[side][arrivals.places(side)] for side in SIDES}
    ranks: dict[Side, NDArray[np.int64]] = {}
    probing: dict[Side, NDArray[np.int64]] = {}
    seen: dict[Side, NDArray[np.int64]] = {}
    for side, marks in here.items():
        few, that = np.count_nonzero(marks), other(side)
        ranks[side], probing[side], met = (np.empty(size, np.int64) for size in (few, *2 * [marks.size - few]))
        part_ranks(arrivals.rank(side), marks, arrivals.rank(that), here[that], ranks[side], probing[side], met)
        met = np.flatnonzero(~marks) - numbers(met.size) if self_join else met
        seen[side] = met + first["left" if self_join else that]
    rest = _only(push, {side: ~marks for side, marks in here.items()}, probing)
    return _only(push, here, ranks), replace(rest, seen=seen)


def _only(push: Push, marks: Mapping[Side, NDArray[np.bool_]], ranks: Mapping[Side, NDArray[np.int64]]) -> Push:
    """Return the marked rows of a push, which are marked in arrival order, with their ranks among each other."""
    times = {side: None if its is None else its[marks[side]] for side, its in push.times.items()}
    tables = {side: push.tables[side].filter(pa.array(marks[side])).combine_chunks() for side in SIDES}
    left, right = (push.arrivals.places(side)[marks[side]] for side in SIDES)
    return replace(push, tables=tables, times=times, arrivals=Arrivals(left, right, ranks["left"], ranks["right"]))
