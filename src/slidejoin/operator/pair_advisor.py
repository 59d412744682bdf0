"""The pair advisor: chooses which terms of several are indexed, by which index, and which of them orders the rows.

Each choice leaves candidates: stored rows that pass the indexed terms and are compared in the others one by one. How
many they are is estimated from a sample of rows, for each term and for terms together, since values are correlated.
"""

from __future__ import annotations

from math import ceil, inf, log2
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slidejoin.index.factory import SEALED
from slidejoin.index.kinds import CELLS, PLANAR, RUNS, kind_of
from slidejoin.operator.selectivity import selectivities
from slidejoin.plan.explanation import explained_index
from slidejoin.plan.index_terms import RANGES, alternatives
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.selectivity import Selectivities
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.index_terms import IndexTerms
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["PairAdvisor"]

ROW_COST = {CELLS: 170.0, RUNS: 250.0, PLANAR: 700.0}
"""Nanoseconds that an index takes for a row, besides what it takes for candidates."""

CANDIDATE_COST, PAIR_COST = 10.0, 2.0
"""Nanoseconds for each candidate that is compared in further terms, and for each where the index answers all terms."""

SCAN_COST = 0.02
"""Nanoseconds that the planar index takes for each row that passes its first key: bounds of blocks are looked at."""

CELL_COST, CROWD_COST = 20.0, 3.0
"""Nanoseconds for each cell after the second one that a closed range touches, and for each row of a cell that is wider
than ranges are."""

EARLY, ENOUGH = 1 << 10, 1 << 20
"""Rows between two checks, which take 1 ms: at least, and while the join is fast; in between they double."""

OPEN, MOST_CELLS = float(1 << 62), 1e6
"""Wider ranges of integers than this are open, as are those of doubles that are that wide; and more cells than a probe
reads."""


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

    Parameters
    ----------
    plan : Plan
    sealed : bool, default False
        Whether only indexes are chosen whose parts can be sealed: Spark's segments are such parts.

    Attributes
    ----------
    open : bool
        Whether there is anything to choose that the `IndexAdvisor` does not.
    closing : tuple of pair of int
        Places of terms whose ranges may be closed, each with the term that closes them; none if there is nothing to
        choose.
    lost : float
        Nanoseconds that staying has cost beyond the best choice since the last change.
    """

    def __init__(self, plan: Plan, *, sealed: bool = False) -> None:
        self._plan = plan
        every = alternatives(plan.terms, plan.config.window)
        self._choices = [one for one in every if not sealed or one.algorithm in SEALED]
        several = _several(plan, sealed=sealed) and not plan.is_union and plan.rule is None
        self.open = plan.config.algorithm == "auto" and several and not plan.bound.never
        pairs = {chosen.pair: None for chosen in self._choices if chosen.pair is not None}
        self.closing = tuple(pairs) if self.open else ()
        self.lost = 0.0
        self._estimates: list[Estimate] = []
        self._at, self._checked = 0, 0.0

    def knows(self, chosen: IndexTerms) -> bool:
        """Tell whether this is one of the choices."""
        return chosen in self._choices

    def due(self, rows: int, lengthened: Callable[[], bool]) -> int:
        """Return how many rows a check is about, 0 if it is not time for one.

        The join has had so many `rows`, those that come included. `lengthened` tells whether what is indexed now may
        suddenly be far worse.
        """
        new = rows - self._at
        waits = new < min(EARLY, ENOUGH) or (
            new < min(ENOUGH, self._at) and perf_counter() - self._checked < self._plan.tuning.terms_patience
        )
        if waits and not lengthened():
            return 0
        self._at = rows
        return new

    def better(
        self, used: IndexTerms, tables: Mapping[Side, pa.Table], windows: Mapping[Side, SideWindow], rows: int
    ) -> IndexTerms | None:
        """Return what to change to, None to stay.

        Parameters
        ----------
        used : IndexTerms
            What is indexed now.
        tables : dict from side to pyarrow.Table
            Rows that arrive now.
        windows : dict from side to SideWindow
        rows : int
            Rows since the last check, those that arrive now included.
        """
        seen = selectivities(self._plan, tables, windows, self.closing)
        self._checked = perf_counter()
        if seen is None:
            return None
        choices = [one for chosen in self._choices if (one := _sized(chosen, seen)) is not None]
        if used.pair is not None and used not in choices:
            choices.append(used)
        self._estimates = sorted((self._estimate(chosen, seen) for chosen in choices), key=lambda one: one.cost)
        ours, best = self._of(used), self._estimates[0]
        if ours is None or ours.cost <= self._plan.tuning.terms_stay * best.cost:
            self.lost = 0.0
            return None
        self.lost += rows * (ours.cost - best.cost)
        if self.lost <= self._plan.tuning.terms_change_cost * sum(window.payload.rows for window in windows.values()):
            return None
        self.lost = 0.0
        return best.chosen

    def _estimate(self, chosen: IndexTerms, seen: Selectivities) -> Estimate:
        plan, cost = self._plan, ROW_COST[chosen.algorithm]
        if chosen.pair is not None:
            candidates = seen.rows((*chosen.equal, chosen.pair))
            if chosen.widths is not None:
                cost += _cells_cost(chosen.widths, seen.widths(chosen.pair), candidates)
        else:
            candidates = seen.rows(chosen.places)
        if chosen.algorithm == PLANAR:
            cost += SCAN_COST * seen.rows(chosen.key)
        if len(chosen.places) < len(plan.terms) or kind_of(chosen.algorithm).fixed_width:
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
        sentences = [f"{ours.candidates:,.1f} candidates a row in the indexed terms, {ours.cost:,.0f} ns expected"]
        sentences += [self._described(one) for one in others.values()]
        return "; ".join(sentences)

    def _described(self, one: Estimate) -> str:
        index = explained_index(self._plan.terms, one.chosen)
        return f"{index}: {one.candidates:,.1f} candidates, {one.cost:,.0f} ns"


def _sized(chosen: IndexTerms, seen: Selectivities) -> IndexTerms | None:
    """Return a choice with cells as wide as closed ranges mostly are; None if these are open, or no cells serve."""
    if chosen.pair is None:
        return chosen
    medians = {side: float(np.median(widths)) for side, widths in seen.widths(chosen.pair).items()}
    if not medians or max(medians.values()) >= OPEN:
        return None
    if not kind_of(chosen.algorithm).fixed_width:
        return chosen
    # Where one side is not probed now, as wide as the other one's.
    widest = max(medians.values())
    left, right = (_power_of_two(medians.get(side, widest)) for side in SIDES)
    return chosen._replace(widths=(left, right))


def _power_of_two(width: float) -> float:
    """Return the power of two from that width on; 0 of ranges of one key, or empty ones."""
    return 2.0 ** ceil(log2(width)) if width > 0 else 0.0


def _cells_cost(cells: tuple[float, float], widths: Mapping[Side, NDArray[np.float64]], candidates: float) -> float:
    """Return the nanoseconds that a row takes because ranges are wider, or narrower, than the cells of that width."""
    costs = [0.0]
    for side, width in zip(SIDES, cells, strict=True):
        if side in widths:
            touched = widths[side] / width if width else np.where(widths[side] > 0, inf, 1.0)
            times = np.minimum(touched, MOST_CELLS)
            costs.append(float(CELL_COST * np.maximum(times - 2, 0).mean()))
            costs[-1] += CROWD_COST * candidates * max(float(np.median(1 / np.maximum(times, 1 / MOST_CELLS))) - 2, 0)
    return max(costs)


def _several(plan: Plan, *, sealed: bool) -> bool:
    """Tell whether several terms are worth an index, and no index of the plan answers all of them but the window's."""
    shapes = [term.shape for term in plan.terms]
    if plan.axis is None:
        return sum(shape in RANGES for shape in shapes) + ("equality" in shapes) > 1
    answered = (plan.sealed_terms if sealed else plan.index_terms(plan.algorithm)).key
    return any(shape in ("band", "ranges") for place, shape in enumerate(shapes) if place not in answered)
