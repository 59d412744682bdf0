"""In which order the rows of each stream probe the others: chosen from how many rows each step finds.

A step costs a probe for each wide row that reaches it, and each match makes one more row for the steps behind it. So an
order is good if steps that find little come first (MJoin, Viglas, Naughton and Burger, VLDB 2003). How much a step
finds is counted while it is in use. For other steps it follows from a sample of the windows, link by link; links of
several streams to one are taken to be independent.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.operator.selectivity import passes, rows_at_places
from slidejoin.plan.multiway.scope import NEWEST, UNTIL
from slidejoin.plan.window_term import saturating_add
from slidejoin.predicate.expression.streams import wide_name
from slidejoin.rows.arrow_buffers import array_of, by_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.operator.multiway.figures import StepFigure
    from slidejoin.operator.multiway.stream_window import StreamWindow
    from slidejoin.plan.multiway.multi_plan import MultiPlan, Step
    from slidejoin.plan.plan import Plan

__all__ = ["OrderAdvisor"]

FIRST_LOOK = 1 << 12
"""Rows after which orders are chosen again for the first time."""

SMALLEST_LOOK = 1 << 16
"""Rows between two looks at least; for larger windows as many as they hold. A look at three streams takes 10 ms."""

PROBES, STORED, LEAST = 128, 2048, 32
"""Rows of the samples, at most, and at least of either. A pair that passes is four rows of a window of 2**20."""

ENOUGH = 1 << 10
"""Probes of a step from which on its counted matches are trusted more than a sample."""

BETTER = 0.8
"""Another order is taken if it costs at most this part: new indexes have to be filled."""

MATCH = 0.5
"""What a match costs, in probes."""

EXPECTED = {"equality": 1.0, "band": 4.0}
"""Matches a probe before any rows have come; others find a part of the window."""

PART = {"ranges": 0.3, "scope": 0.9, "numbers": 0.9, "not-equal": 1.0, "all": 1.0}
UNKNOWN_ROWS = 1 << 16
"""Rows of a time window, before any have come."""

MOST_APART = 4
"""Windows between two looks, at most; one after a change of orders, and twice as many after each look without one."""

MOST_CHECKED = 1 << 12
"""Pairs of a sample that are within all ranges and are checked by the conditions that are none, at most."""

FILTERED = 0.3
"""Of the candidates of a link, how many a condition of several streams leaves, before it is measured."""


class StepEstimate(NamedTuple):
    """What a step finds.

    Attributes
    ----------
    matches : float
        For each probe.
    source : str
        Where that is from: "counted", "sampled" or "expected".
    """

    matches: float
    source: str


class OrderAdvisor:
    """Chooses the order of probing for each stream, and again when the figures change.

    Attributes
    ----------
    due : int
        Rows of the join from which on orders are looked at again.
    changes : int
        How often an order was changed.
    """

    def __init__(self, plan: MultiPlan) -> None:
        self._plan = plan
        self.due = FIRST_LOOK
        self.changes = 0
        self._apart = 1
        self._sampled: dict[tuple[int, int], float] = {}
        self._counted: dict[tuple[int, frozenset[int]], float] = {}

    def initial(self) -> list[tuple[int, ...]]:
        """Return an order for each stream before any rows have come, from the shapes of the terms."""
        return [self._best(stream)[0] for stream in self._plan.streams]

    def choose(
        self,
        orders: Sequence[tuple[int, ...]],
        windows: Sequence[StreamWindow],
        figures: Mapping[tuple[int, frozenset[int]], StepFigure],
        rows: int,
    ) -> list[tuple[int, ...]]:
        """Return the orders from now on; `figures` are those since the last look, `rows` those of the join so far."""
        self.due = rows + self._apart * max(SMALLEST_LOOK, sum(window.payload.rows for window in windows))
        if len(self._plan.streams) == 2:  # noqa: PLR2004 - there is but one order
            return list(orders)
        self._counted = {key: one.rate for key, one in figures.items() if one.probes >= ENOUGH}
        self._sampled = self._samples(windows)
        chosen = []
        for stream, present in zip(self._plan.streams, orders, strict=True):
            order, cost = self._best(stream)
            if order != present and cost > BETTER * self.cost(stream, present):
                order = present
            self.changes += order != present
            chosen.append(order)
        self._apart = 1 if chosen != list(orders) else min(2 * self._apart, MOST_APART)
        return chosen

    # -- estimates -----------------------------------------------------------------------------------------------------

    def cost(self, stream: int, order: Sequence[int]) -> float:
        """Return what a row of the stream costs, in probes."""
        cost, rows, bound = 0.0, 1.0, frozenset({stream})
        for stored in order:
            matches = rows * self.estimate(stored, bound).matches
            cost += rows + MATCH * matches
            rows, bound = matches, bound | {stored}
        return cost

    def estimate(self, stored: int, bound: frozenset[int]) -> StepEstimate:
        """Return how many rows of a stream a wide row of those streams finds."""
        counted = self._counted.get((stored, bound))
        if counted is not None:
            return StepEstimate(counted, "counted")
        plan, source = self._plan, "sampled"
        window = plan.spec.windows[stored]
        rows = float(window.capacity("right") or UNKNOWN_ROWS)
        share = 1.0
        linked = [one for one in bound if plan.linked(stored, frozenset({one}))]
        for one in linked:
            rate = self._sampled.get((one, stored))
            if rate is None:
                rate, source = _expected(plan.step(stored, frozenset({one})).plan, rows) / rows, "expected"
            share *= rate
        conjuncts = plan.links(stored, bound)
        single = {number for one in linked for number in plan.links(stored, frozenset({one}))}
        share *= FILTERED ** sum(len(plan.conjuncts[number].streams) > 1 for number in set(conjuncts) - single)
        return StepEstimate(rows * share, source)

    def _best(self, stream: int) -> tuple[tuple[int, ...], float]:
        others = [other for other in self._plan.streams if other != stream]
        costs = {order: self.cost(stream, order) for order in permutations(others)}
        best = min(costs, key=lambda order: costs[order])
        return best, costs[best]

    def _samples(self, windows: Sequence[StreamWindow]) -> dict[tuple[int, int], float]:
        """Return which part of a stream's window a row of another stream finds, for each pair that is compared."""
        plan = self._plan
        samples = {
            number: (
                rows_at_places(window.payload, _newest(window.payload.rows)),
                rows_at_places(window.payload, _evenly(window.payload.rows)),
            )
            for number, window in enumerate(windows)
            if window.payload.rows >= LEAST
        }
        sampled = {}
        for probing, (newest, _) in samples.items():
            for stored, (_, rows) in samples.items():
                if stored == probing or not plan.linked(stored, frozenset({probing})):
                    continue
                step = plan.step(stored, frozenset({probing}))
                passing = _passing(plan, step, probing, newest, rows)
                # Half a pair where there was none: it may be rare, but it is not impossible.
                sampled[probing, stored] = max(passing, 0.5) / (newest.num_rows * rows.num_rows)
        return sampled


def _expected(plan: Plan, rows: float) -> float:
    """Return how many rows of a window a probe finds by the shape of the terms, the narrowest of several counting."""
    return float(
        sum(
            min(EXPECTED.get(term.shape, rows * PART.get(term.shape, 1.0)) for term in branch.terms)
            for branch in plan.branches
        )
    )


def _newest(rows: int) -> NDArray[np.int64]:
    return np.arange(max(0, rows - PROBES), rows)


def _evenly(rows: int) -> NDArray[np.int64]:
    taken = min(rows, STORED)
    return np.arange(taken) * rows // max(taken, 1)


def _passing(plan: MultiPlan, step: Step, probing: int, probes: pa.Table, stored: pa.Table) -> int:
    """Return how many of the pairs of a sample fulfil a step's conditions."""
    name = plan.spec.streams[probing]
    columns = {wide_name(name, column): probes.column(column) for column in step.left.get(probing, [])}
    if plan.scopes:
        ticks, _ = plan.scopes[probing].ticks("right", by_name(probes))
        columns[NEWEST], columns[UNTIL] = (
            pa.chunked_array([array_of(np.ascontiguousarray(own))])
            for own in (ticks, saturating_add(ticks, plan.scopes[probing].right_length))
        )
    wide = pa.Table.from_arrays(list(columns.values()), names=list(columns))
    inside = np.zeros((wide.num_rows, stored.num_rows), np.bool_)
    for one in step.plan.branches:
        inside |= np.logical_and.reduce(passes(one, "left", wide, stored))
    # Ranges may hold more than what matches, and some conditions are no ranges.
    condition = step.plan.filter(step.plan.loose)
    candidates = int(np.count_nonzero(inside))
    if condition is None or not candidates:
        return candidates
    left, right = (places[:MOST_CHECKED] for places in np.nonzero(inside))
    of_left, of_right = (
        by_name(table.take(array_of(np.ascontiguousarray(places)))) for table, places in ((wide, left), (stored, right))
    )
    pairs = int(np.count_nonzero(condition.holds(of_left, of_right, left.size)))
    return candidates * pairs // left.size
