"""The pair advisor: chooses which terms of several are indexed, by which index, and which of them orders the rows.

Each choice leaves candidates: stored rows that pass the indexed terms and are compared in the others one by one. How
many they are is estimated from a sample of rows, for each term and for terms together, since values are correlated.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from slidejoin.operator.selectivity import selectivities
from slidejoin.plan.index_terms import RANGES, alternatives

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from slidejoin.operator.selectivity import Selectivities
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.index_terms import IndexTerms
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["PairAdvisor"]

ROW_COST = {"band_cells": 170.0, "bi_sort": 250.0, "planar": 700.0}
"""Nanoseconds that an index takes for a row, besides what it takes for candidates."""

CANDIDATE_COST, PAIR_COST = 10.0, 2.0
"""Nanoseconds for each candidate that is compared in further terms, and for each where the index answers all terms."""

SCAN_COST = 0.02
"""Nanoseconds that the planar index takes for each row that passes its first key: bounds of blocks are looked at."""

CHANGE_COST = 250.0
"""Nanoseconds for each row of the window of changing the index: not done before staying has cost as much."""

STAY = 1.25
"""Another choice has to be this many times cheaper."""

EARLY, ENOUGH = 1 << 10, 1 << 18
"""Rows between two checks, which take 1 ms: at least, and while the join is fast; in between they double."""

PATIENCE = 1.0
"""Seconds from one check to the next, however few rows came: a wrong choice may be a thousand times slower."""

NAMES = {"band_cells": "cells", "bi_sort": "sorted runs", "planar": "planar index"}


class Estimate(NamedTuple):
    """What a choice is expected to cost.

    Attributes
    ----------
    cost : float
        Nanoseconds a row.
    candidates : float
        Stored rows that pass the indexed terms, for a row.
    chosen : IndexTerms
    """

    cost: float
    candidates: float
    chosen: IndexTerms


class PairAdvisor:
    """Estimates the candidates of each choice of indexed terms, and tells when another one would be cheaper.

    Attributes
    ----------
    open : bool
        Whether there is anything to choose that the `IndexAdvisor` does not.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._choices = alternatives(plan.terms, plan.config.window)
        several = _several(plan) and not plan.branches
        self.open = plan.config.algorithm == "auto" and several and not plan.bound.never
        self._estimates: list[Estimate] = []
        self._at, self._rows, self._lost, self._checked = 0, 0, 0.0, 0.0

    def due(self, rows: int) -> bool:
        """Tell whether it is time for a check; the join has had so many rows, those that come included."""
        new = rows - self._at
        if new < min(EARLY, ENOUGH):
            return False
        if new < min(ENOUGH, self._at) and perf_counter() - self._checked < PATIENCE:
            return False
        self._at, self._rows = rows, new
        return True

    def better(
        self, used: IndexTerms, tables: Mapping[Side, pa.Table], windows: Mapping[Side, SideWindow]
    ) -> IndexTerms | None:
        """Return what to change to, None to stay; called when a check is `due`.

        Parameters
        ----------
        used : IndexTerms
            What is indexed now.
        tables : dict from side to pyarrow.Table
            Rows that arrive now.
        windows : dict from side to SideWindow
        """
        seen = selectivities(self._plan, tables, windows)
        self._checked = perf_counter()
        if seen is None:
            return None
        self._estimates = sorted((self._estimate(chosen, seen) for chosen in self._choices), key=lambda one: one.cost)
        ours, best = self._of(used), self._estimates[0]
        if ours is None or ours.cost <= STAY * best.cost:
            self._lost = 0.0
            return None
        self._lost += self._rows * (ours.cost - best.cost)
        if self._lost <= CHANGE_COST * sum(window.payload.rows for window in windows.values()):
            return None
        self._lost = 0.0
        return best.chosen

    def _estimate(self, chosen: IndexTerms, seen: Selectivities) -> Estimate:
        plan = self._plan
        candidates, cost = seen.rows(chosen.places), ROW_COST[chosen.algorithm]
        if chosen.algorithm == "planar":
            cost += SCAN_COST * seen.rows(chosen.key)
        if len(chosen.places) < len(plan.terms) or chosen.algorithm == "band_cells":
            cost += CANDIDATE_COST * candidates
        elif plan.config.output != "count":
            cost += PAIR_COST * candidates
        return Estimate(cost, candidates, chosen)

    def _of(self, used: IndexTerms) -> Estimate | None:
        return next((one for one in self._estimates if one.chosen == used), None)

    def why(self, used: IndexTerms) -> str | None:
        """Return the estimates of what is used and of the best other choices, in words; None before the first check."""
        ours = self._of(used)
        if ours is None:
            return None
        others: dict[str, Estimate] = {}
        for one in self._estimates:
            if one is not ours:
                others.setdefault(one.chosen.algorithm, one)
        told = [f"{ours.candidates:,.1f} candidates a row in the indexed terms, {ours.cost:,.0f} ns expected"]
        told += [self._told(one) for one in others.values()]
        return "; ".join(told)

    def _told(self, one: Estimate) -> str:
        labels = " and ".join(self._plan.terms[place].label for place in one.chosen.places)
        return f"{NAMES[one.chosen.algorithm]} on {labels}: {one.candidates:,.1f} candidates, {one.cost:,.0f} ns"


def _several(plan: Plan) -> bool:
    """Tell whether several terms are worth an index, and no index of the plan answers all of them but the window's."""
    shapes = [term.shape for term in plan.terms]
    if plan.axis is None:
        return sum(shape in RANGES for shape in shapes) + ("equality" in shapes) > 1
    answered = plan.index_terms(plan.algorithm).key
    return any(shape in ("band", "ranges") for place, shape in enumerate(shapes) if place not in answered)
