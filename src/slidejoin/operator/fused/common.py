"""The steps that all fused pushes share: order the rows, store them, output the matches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from slidejoin.index.kernels.arrival_pairs import order_strictly
from slidejoin.operator.ingest.arrival import Arrivals, merge, numbers, rise
from slidejoin.operator.ingest.batch_columns import ColumnPlaces
from slidejoin.operator.ingest.ingest import Push
from slidejoin.plan.output_schema import together
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.ingest.batch_columns import BatchColumns
    from slidejoin.operator.output import Candidates
    from slidejoin.operator.parts import JoinParts
    from slidejoin.operator.push import PushBatch
    from slidejoin.plan.branch import Term
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.ranges.terms import ShiftedColumn
    from slidejoin.sides import Side

__all__ = [
    "NO_TIMES",
    "FusedPush",
    "SortValues",
    "arrived",
    "columns_of_terms",
    "given_once",
    "in_reach",
    "key_columns",
    "keys_say_all",
    "near",
    "plain",
    "range_terms",
    "two_columns",
]

OPEN_LOW, OPEN_HIGH = -(1 << 63), (1 << 63) - 1

REACH = 1 << 60
"""Ends no farther from 0 than this are within reach of kernels, see `slidejoin.plan.kernels.closed_ranges`."""

MOST_TERMS = 2
"""Terms that a fused push answers where keys are not composite."""

SortValues: TypeAlias = "tuple[NDArray[Any], NDArray[Any]] | None"

NO_TIMES: dict[Side, NDArray[np.int64] | None] = {"left": None, "right": None}


class FusedPush:
    """The base class of all fused pushes.

    `kernels` are those that it calls and the general path does not.

    Parameters
    ----------
    parts : JoinParts
        Of a join whose plan is `plain`.
    keys : mapping of side to tuple of ShiftedColumn
        The columns of each side whose values are keys: one, or those of all terms of a composite key.
    """

    kernels: tuple[Callable[..., Any], ...]

    def __init__(self, parts: JoinParts, keys: Mapping[Side, Sequence[ShiftedColumn]]) -> None:
        self._parts, plan = parts, parts.plan
        self._counting = plan.config.output == "count"
        self._strict = plan.config.order == "strict" and not self._counting
        self._counted_columns = bool(plan.layout.columns)
        self._join_type = parts.join_type
        self._output = parts.output()
        compared = [term for term in plan.terms if isinstance(term, RangeTerm)]
        self._may_squeeze = any(key.may_squeeze for term in compared for key in term.pair)
        self._places = ColumnPlaces(plan, keys)
        self._self_join = plan.config.self_join
        # Reused for every push: fresh memory costs a page fault for each 4 KiB.
        self._ranks = (np.empty(0, np.int64), np.empty(0, np.int64))

    @property
    def _squeezed(self) -> bool:
        """Whether some stored key is not its number, so that what it matches is checked on the general path."""
        windows = self._parts.windows
        return self._may_squeeze and bool(windows["left"].index.inexact or windows["right"].index.inexact)

    def _rising(self, batch: PushBatch) -> tuple[bool, SortValues]:
        """Tell whether both sides are sorted, and return the values that they are sorted by; None without."""
        by = None if batch.order_by is None else self._places.sort_values(batch.columns, batch.order_by)
        return by is None or rise(by), by

    def _arrange(self, batch: PushBatch, by: SortValues) -> Arrivals:
        """Merge sides whose sort values ascend; each row of a self-join probes as a left one, then as a right one."""
        most = max(batch.left_rows, batch.right_rows)
        if self._self_join:
            if self._ranks[0].size < most:
                self._ranks = (np.arange(0, 4 * most, 2), np.arange(1, 4 * most, 2))
            places, (left, right) = numbers(most), self._ranks
            return Arrivals(places, places, left[:most], right[:most], straight=True)
        if by is not None and self._ranks[0].size < most:
            self._ranks = (np.empty(2 * most, np.int64), np.empty(2 * most, np.int64))
        left, right = self._ranks
        return merge(batch.left_rows, batch.right_rows, by, (left[: batch.left_rows], right[: batch.right_rows]))

    def _hold(self, side: Side, columns: BatchColumns, first: int, time_max: int | None) -> None:
        """Store the rows of one side, without their keys."""
        self._parts.windows[side].hold(columns.stored, first, time_max)

    def _in_order(
        self, left: NDArray[np.int64], right: NDArray[np.int64], arrivals: Arrivals, first: Mapping[Side, int]
    ) -> None:
        """Put the pairs of each probe into the promised order."""
        if self._strict:
            order_strictly(left, right, arrivals.left_rank, arrivals.right_rank, first["left"], first["right"])

    def _counts(
        self,
        matches: NDArray[np.int64],
        columns: Mapping[Side, BatchColumns],
        arrivals: Arrivals,
        marks: NDArray[np.bool_],
    ) -> pa.Table:
        """Output the number of pairs of each arrival, (n,) int64; `marks` (n,) bool are True for left rows."""
        tables = {side: columns[side].stored for side in SIDES} if self._counted_columns else {}
        parts = self._parts
        counted = list(parts.count_tables.tables(matches, tables, arrivals, parts.limit, marks))
        return together(counted, parts.plan.layout.schema)

    def _concatenated(self, parts: Iterator[Candidates], push: Push, first: Mapping[Side, int]) -> pa.Table:
        """Output matches that come in parts; the ordinals of the rows are `first` and those after it."""
        if self._counting:
            tables = list(self._output.counts(map(self._output.counted, parts), push.tables, push.arrivals))
        elif self._join_type is not None:
            departed = self._join_type.arrive(push.arrivals, push.times, first)
            tables = list(self._join_type.tables(self._output, parts, departed))
        else:
            tables = [table for candidates in parts for table in self._output.pairs(candidates)]
        return together(tables, self._parts.plan.layout.schema)


def arrived(
    columns: Mapping[Side, BatchColumns], arrivals: Arrivals, times: Mapping[Side, NDArray[np.int64]] | None = None
) -> Push:
    """Return the rows in the form of the general path, for the steps that use it."""
    return Push({side: columns[side].stored for side in SIDES}, dict(times or NO_TIMES), arrivals)


def given_once(push: Push) -> Push:
    """Return the rows of a self-join, which are both sides here, as they are given: as left ones."""
    rows, none = numbers(push.arrivals.left.size), numbers(0)
    tables: dict[Side, pa.Table] = {"left": push.tables["left"], "right": push.tables["right"].slice(0, 0)}
    return replace(push, tables=tables, arrivals=Arrivals(rows, none, rows, none))


def plain(parts: JoinParts) -> bool:
    """Tell whether a plan needs nothing that no fused push supports; the comparisons themselves are checked by each."""
    plan = parts.plan
    config, bound = plan.config, plan.bound
    once = not config.self_join or (config.how == "inner" and config.output != "count")
    return not plan.is_union and once and not bound.never


def keys_say_all(plan: Plan) -> bool:
    """Tell whether pairs are checked by nothing but one term, or two, or a composite key, and by the time window."""
    key = range_terms(plan)[:MOST_TERMS] if plan.composite is None else plan.composite.terms
    further = [term.shape for place, term in enumerate(plan.terms) if place not in key]
    return further == ([] if plan.scope.term is None else ["scope"]) and plan.bound.filter(plan.loose) is None


def range_terms(plan: Plan) -> tuple[int, ...]:
    """Return the places of the terms that compare the sides, not of the window's."""
    return tuple(place for place, term in enumerate(plan.terms) if isinstance(term, RangeTerm))


def columns_of_terms(
    terms: Sequence[Term], fits: Callable[[ShiftedColumn], bool] | None
) -> dict[Side, tuple[ShiftedColumn, ...]]:
    """Return, for both sides, the columns that ranges of terms follow from; nothing if some do not, or do not fit."""
    columns: dict[Side, tuple[ShiftedColumn, ...]] = {}
    for side in SIDES:
        own = [term.shifted_column(side) for term in terms if isinstance(term, RangeTerm)]
        columns[side] = tuple(one for one in own if one is not None and (fits is None or fits(one)))
        if len(columns[side]) < len(terms):
            return {}
    return columns


def key_columns(
    plan: Plan, fits: Callable[[ShiftedColumn], bool] | None = None
) -> dict[Side, tuple[ShiftedColumn, ...]]:
    """Return, for both sides, the column whose values are keys, and how ranges follow; nothing of composite keys."""
    return {} if plan.composite is not None else columns_of_terms(plan.terms[:1], fits)


def near(column: ShiftedColumn) -> bool:
    """Tell whether ranges are around the values of a column, and not far."""
    return column.around is not None


def two_columns(plan: Plan) -> dict[Side, tuple[ShiftedColumn, ...]]:
    """Return, for both sides, the columns of two terms that are shifts of integers; else nothing."""
    terms = [plan.terms[place] for place in range_terms(plan)]
    return columns_of_terms(terms, in_reach) if len(terms) == MOST_TERMS else {}


def in_reach(column: ShiftedColumn) -> bool:
    """Tell whether a probe's range of that term is one whose ends are open or near."""
    shift = column.shift
    if shift.lows.size != 1:
        return False
    low, high = int(shift.lows[0]), int(shift.highs[0])
    return (low == OPEN_LOW or abs(low) <= REACH) and (high == OPEN_HIGH or abs(high) <= REACH)
