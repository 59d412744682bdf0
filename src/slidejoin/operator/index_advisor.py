"""The index advisor: chooses the index from observed statistics, at planning time and again while the join runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.index.kinds import CELLS, RUNS

if TYPE_CHECKING:
    from slidejoin.plan.plan import Plan

__all__ = ["IndexAdvisor"]

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
