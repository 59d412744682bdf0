"""What both short ways do alike: putting rows in order, keeping them, and putting out what they found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.operator.fused.batch_columns import BatchColumns, ColumnPlaces
from slidejoin.operator.ingest.arrival import Arrivals, merge
from slidejoin.operator.output import PairOutput
from slidejoin.plan.output_schema import together
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.operator.output import Candidates
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.ranges.terms import Around, Beside
    from slidejoin.sides import Side

__all__ = ["NO_TIMES", "SIDES", "FusedPath", "around", "beside", "plain"]

NO_TIMES: dict[Side, NDArray[np.int64] | None] = {"left": None, "right": None}


class FusedPath:
    """Pushes into an operator of a `plain` plan.

    `kernels` are those that it calls and the operator's way does not.

    Parameters
    ----------
    operator : JoinOperator
    keys : mapping of side to Around or Beside
        The column of each side whose values are keys.
    """

    kernels: tuple[Callable[..., Any], ...]

    def __init__(self, operator: JoinOperator, keys: Mapping[Side, Around | Beside]) -> None:
        self._operator, plan = operator, operator.plan
        self._counting = plan.config.output == "count"
        self._counted_columns = bool(plan.layout.columns)
        self._matches = PairOutput(
            plan, operator.windows, operator.stats, (), operator.count_tables, operator.workers, operator.limit
        )
        held = {side: operator.windows[side].payload.plain for side in SIDES}
        self._places = ColumnPlaces(plan, keys, held)
        # Used again for every push: fresh memory costs a page fault for each 4 KiB.
        self._ranks = (np.empty(0, np.int64), np.empty(0, np.int64))

    def sort_values(self, taken: dict[Side, BatchColumns], name: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return what `operator.ingest.order_by.sort_values` does; where a column stands is looked up once."""
        return self._places.sort_values(taken, name)

    def _arrange(self, rows: dict[Side, int], by: tuple[NDArray[np.generic], NDArray[np.generic]] | None) -> Arrivals:
        """Put rows in order whose sort values rise."""
        most = max(rows.values())
        if by is not None and self._ranks[0].size < most:
            self._ranks = (np.empty(2 * most, np.int64), np.empty(2 * most, np.int64))
        left, right = self._ranks
        return merge(rows["left"], rows["right"], by, (left[: rows["left"]], right[: rows["right"]]))

    def _hold_side(self, side: Side, taken: BatchColumns, time_max: int | None) -> None:
        """Take the rows of one side, without their keys."""
        window, columns = self._operator.windows[side], self._places.held(side, taken)
        if columns:
            window.hold_values(columns, taken.rows, time_max)
        else:
            window.hold(taken.kept, time_max)

    def _counts(
        self, matches: NDArray[np.int64], taken: dict[Side, BatchColumns], arrivals: Arrivals, marks: NDArray[np.bool_]
    ) -> pa.Table:
        """Put out the number of pairs of each arrival, (n,) int64; `marks` (n,) bool tell the left ones."""
        tables = {side: taken[side].kept for side in SIDES} if self._counted_columns else {}
        operator = self._operator
        found = list(operator.count_tables.tables(matches, tables, arrivals, operator.limit, marks))
        return together(found, operator.plan.layout.schema)

    def _concatenated(self, found: Iterator[Candidates], push: Push) -> pa.Table:
        """Put out what was found in parts."""
        if self._counting:
            counts = map(self._matches.counted, found)
            tables = list(self._matches.counts(counts, push.tables, push.arrivals))
        else:
            tables = [table for candidates in found for table in self._matches.pairs(candidates)]
        return together(tables, self._operator.plan.layout.schema)


def plain(operator: JoinOperator) -> bool:
    """Tell whether what any short way leaves out is absent, but for what it asks of the comparison itself."""
    plan = operator.plan
    config, bound = plan.config, plan.bound
    return (
        not config.self_join
        and config.memory_limit is None
        and (config.order != "strict" or config.output == "count")
        and [term.shape for term in plan.terms[1:]] == ([] if plan.scope is None else ["scope"])
        and not bound.never
        and bound.filter(plan.loose) is None
        and not any(bound.filters_side(side) for side in SIDES)
    )


def around(plan: Plan) -> dict[Side, Around]:
    """Return, for each side that has it, the column whose values are keys, and the ends of ranges around them."""
    term = plan.terms[0]
    found = {role: term.around(role) if isinstance(term, RangeTerm) else None for role in SIDES}
    return {role: one for role, one in found.items() if one is not None}


def beside(plan: Plan) -> dict[Side, Beside]:
    """Return, for each side that has it, the column whose values are keys, and how ranges follow from them."""
    term = plan.terms[0]
    found = {role: term.beside(role) if isinstance(term, RangeTerm) else None for role in SIDES}
    return {role: one for role, one in found.items() if one is not None}
