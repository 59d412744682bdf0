"""Advisors: what the index is, chosen from what rows have cost so far, when the join is planned and while it runs.

The `IndexAdvisor` chooses between cells and sorted runs of one comparison by matches a row; the `PairAdvisor` chooses
which terms of several are indexed, by a sample of rows.
"""

from __future__ import annotations

from math import ceil, inf, log2
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slidejoin.index.factory import SEALED
from slidejoin.index.protocol import CELLS, PLANAR, RUNS, kind_of
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

__all__ = ["IndexAdvisor", "PairAdvisor"]

RUN_COST, RUN_PAIR_COST = 90.0, 2.0
"""Nanoseconds that sorted runs take for a row, and for each output match."""

SMALL_PUSH = 1 << 13
"""Rows of a push up to which runs may have a fused path too (`operator.fused`)."""

CELL_COST, CELL_PAIR_COST, CROWDED_COST = 35.0, 2.2, 0.025
"""The same for cells, and the cost of the square of a row's matches, times the fraction of rows behind full buckets:
one in ten for even keys, nearly all where each cell has a hundred rows, but few where a few cells have most of them."""

COMPOSITE_RUN_PAIR_COST, COMPOSITE_CELL_PAIR_COST = 4.0, 7.0
"""Nanoseconds for each output match of a composite key, as measured in large pushes."""

ALONE = 1 << 10
"""Rows of a push up to which one thread does all of it, on whichever index: each row takes twice as long."""

FAR, FAR_CROWDED_COST = 1 << 17, 0.09
"""Rows of a window from which on it is out of the caches for small pushes, and the cost of crowded rows of cells
then."""

COUNTED_RUN_COST, COUNTED_RUN_PAIR_COST, COUNTED_PAIR_COST = 120.0, 0.4, 1.4
"""Nanoseconds a row for runs, and a match for both, where matches are only counted."""

STAY = 1.25
"""The other index has to be this many times cheaper."""


class IndexAdvisor:
    """Watches matches per row, and tells when the other index would be cheaper.

    Cells read rows one by one, in runs they are contiguous; so runs suit many matches, whether these are counted or
    output. Cells suit small pushes.

    Parameters
    ----------
    plan : Plan
    changes : bool, default True
        Whether the index may be changed at all.

    Attributes
    ----------
    open : bool
        Whether there is anything to choose.
    due : int
        Rows that the join has had at the next check.
    """

    def __init__(self, plan: Plan, *, changes: bool = True) -> None:
        config = plan.config
        # With further terms, or a filter, runs check row by row too; most runs pass a time scope as a whole.
        key = plan.index_terms(RUNS).key
        further = [term for place, term in enumerate(plan.terms) if place not in key]
        self._counts = config.output == "count"
        # Pairs that need checks beyond the key are not copied as ranges.
        alone = all(term.shape == "scope" for term in further) if self._counts else not further
        served = alone and plan.axis is not None and plan.filter(plan.loose) is None
        # Without further terms, as here, a time scope or a composite key prevents the fused path of runs.
        self._short = plan.scope.counted is not None and plan.composite is None
        self._pair_costs = CELL_PAIR_COST, RUN_PAIR_COST
        if plan.composite is not None:
            self._pair_costs = COMPOSITE_CELL_PAIR_COST, COMPOSITE_RUN_PAIR_COST
        self.open = changes and config.algorithm == "auto" and served and not plan.bound.never
        self._tuning = plan.tuning
        self.due = self._tuning.index_check_rows
        self._begins = True
        self._rows = self._pairs = self._pushes = self._spilled = 0
        self._cells = self._runs = self._lost = 0.0
        self._crowded = 1.0
        self.seen: float | None = None
        """Matches per row at the last check; None before."""

    def better(
        self, used: str, *, rows: int, pairs: int, pushes: int, window: int, spilled: int | None = None
    ) -> str | None:
        """Return the index to change to, None to stay.

        Parameters
        ----------
        used : str
            The index that is used now.
        rows, pairs, pushes : int
            All that the join has had so far.
        window : int
            Rows that are stored.
        spilled : int, optional
            Rows that did not fit into their bucket so far; None for runs, then the last value of cells counts.

        Examples
        --------
        >>> from types import SimpleNamespace as Some
        >>> from slidejoin.tuning import Tuning
        >>> config, bound = Some(output="count", algorithm="auto"), Some(never=False)
        >>> plan = Some(config=config, axis=1, loose=(), bound=bound, terms=(1,), composite=None)
        >>> plan.scope, plan.tuning = Some(counted=1), Tuning()
        >>> plan.index_terms, plan.filter = lambda algorithm: Some(key=(0,)), lambda inexact: None
        >>> advisor = IndexAdvisor(plan)
        >>> advisor.better("band_cells", rows=0, pairs=0, pushes=0, window=0)
        >>> advisor.better("band_cells", rows=100_000, pairs=50_000_000, pushes=1, window=1000)
        'bi_sort'
        """
        self.due = rows + self._tuning.index_check_rows
        if self._begins:
            # Rows moved from another index or restored say nothing about the rows to come.
            self._begin(rows, pairs, pushes, spilled)
            return None
        new = rows - self._rows
        if spilled is not None:
            self._crowded = min(1.0, max(0, spilled - self._spilled) / new)
        self.seen = (pairs - self._pairs) / new
        self._cells, self._runs = self._estimates(self.seen, (pushes - self._pushes) / new, window)
        cells = used == CELLS
        ours, other = (self._cells, self._runs) if cells else (self._runs, self._cells)
        lost = self._lost + new * (ours - other) if ours > STAY * other else 0.0
        change = lost > self._tuning.index_change_cost * window
        if change:
            self._begins, self._lost = True, 0.0
        elif new >= window // 8:
            # Rows from here on are judged separately.
            self._begin(rows, pairs, pushes, spilled)
            self._lost = lost
        return (RUNS if cells else CELLS) if change else None

    def begin_again(self) -> None:
        """Ignore the rows until the next check: an index was rebuilt from existing rows."""
        self._begins = True

    def _begin(self, rows: int, pairs: int, pushes: int, spilled: int | None) -> None:
        self._begins = False
        self._rows, self._pairs, self._pushes, self._spilled = rows, pairs, pushes, spilled or 0

    def _estimates(self, seen: float, pushes: float, window: int) -> tuple[float, float]:
        """Return the nanoseconds that cells and runs take for a row with so many matches and its share of a push."""
        small, alone = (self._short and pushes * rows >= 1 for rows in (SMALL_PUSH, ALONE))
        costs = self._tuning.runs_small_push_cost, self._tuning.runs_push_cost
        push, both = costs[0 if small else 1] * pushes, 2 if alone else 1
        crowded = (FAR_CROWDED_COST if alone and window > FAR else CROWDED_COST) * (self._crowded * seen) ** 2
        if self._counts:
            return (
                CELL_COST + COUNTED_PAIR_COST * seen + crowded,
                COUNTED_RUN_COST + COUNTED_RUN_PAIR_COST * seen + push,
            )
        cells, runs = CELL_COST + self._pair_costs[0] * seen, RUN_COST + self._pair_costs[1] * seen
        return both * cells + crowded, both * runs + push

    def why(self) -> str | None:
        """Return the observed values and the estimate, in words; None before the first check."""
        if self.seen is None:
            return None
        return (
            f"{self.seen:,.1f} matches a row; expected time a row: cells {self._cells:,.0f} ns, sorted runs "
            f"{self._runs:,.0f} ns"
        )


ROW_COST = {CELLS: 170.0, RUNS: 250.0, PLANAR: 700.0}
"""Nanoseconds that an index takes for a row, besides what it takes for candidates."""

CANDIDATE_COST, PAIR_COST = 10.0, 2.0
"""Nanoseconds for each candidate that is compared in further terms, and for each where the index answers all terms."""

SCAN_COST = 0.02
"""Nanoseconds that the planar index takes for each row that passes its first key: bounds of blocks are looked at."""

AT_REST_COST, AT_REST_ROW_COST = 80.0, 3.0
"""Nanoseconds that the index of a table takes for a row, and for each row that its walk looks at: the matches, where
the range of the second key is open at an end, else the rows in the range of the first one."""

MORE_CELLS_COST, CROWD_COST = 20.0, 3.0
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
        if chosen.algorithm == PLANAR and not plan.config.window.expires:
            both = all(getattr(plan.terms[chosen.places[-1]], "ends", (True, True)))
            return Estimate(
                AT_REST_COST + AT_REST_ROW_COST * (seen.rows(chosen.key) if both else candidates), candidates, chosen
            )
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
            costs.append(float(MORE_CELLS_COST * np.maximum(times - 2, 0).mean()))
            costs[-1] += CROWD_COST * candidates * max(float(np.median(1 / np.maximum(times, 1 / MOST_CELLS))) - 2, 0)
    return max(costs)


def _several(plan: Plan, *, sealed: bool) -> bool:
    """Tell whether several terms are worth an index, and no index of the plan answers all of them but the window's."""
    shapes = [term.shape for term in plan.terms]
    if plan.axis is None:
        return sum(shape in RANGES for shape in shapes) + ("equality" in shapes) > 1
    answered = (plan.sealed_terms if sealed else plan.index_terms(plan.algorithm)).key
    return any(shape in ("band", "ranges") for place, shape in enumerate(shapes) if place not in answered)
