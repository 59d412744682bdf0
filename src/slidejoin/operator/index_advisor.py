"""The index advisor: chooses the index from observed statistics, at planning time and again while the join runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slidejoin.plan.plan import Plan

__all__ = ["IndexAdvisor"]

RUN_COST, RUN_PAIR_COST, PUSH_COST = 90.0, 2.0, 400_000.0
"""Nanoseconds that sorted runs take for a row, for each match that is put out, and for a push whatever its size."""

SMALL_PUSH, SMALL_PUSH_COST = 1 << 13, 125_000.0
"""Rows of a push up to which runs may have a short way too (`operator.fused`), and what a push costs there beyond
what it costs cells."""

CELL_COST, CELL_PAIR_COST, CROWDED_COST = 35.0, 2.2, 0.025
"""The same of cells, and what the square of a row's matches costs as far as rows lie behind full buckets: one in ten of
even keys, and nearly all where each cell has a hundred rows, but few where a few cells have most of them."""

ALONE = 1 << 10
"""Rows of a push up to which one thread does all of it, on whichever index: each row takes twice as long."""

FAR, FAR_CROWDED_COST = 1 << 17, 0.09
"""Rows of a window from which on small pushes find it out of the caches, and what crowded rows of cells cost then."""

COUNTED_RUN_COST, COUNTED_RUN_PAIR_COST, COUNTED_PAIR_COST = 120.0, 0.4, 1.4
"""Nanoseconds a row of runs, and of both a match, where matches are only counted."""

CHANGE_COST = 30.0
"""Nanoseconds for each row of the window that changing takes: not done before staying has cost as much."""

STAY = 1.25
"""The other index has to be this many times cheaper."""

ENOUGH = 1 << 14
"""Rows that have to be seen before anything is looked at, or looked at again."""


class IndexAdvisor:
    """Watches matches per row, and says when the other index would serve better.

    Cells read their rows one by one, runs find them side by side; so runs serve many matches, whether these are counted
    or put out. For small pushes cells do.

    Attributes
    ----------
    open : bool
        Whether there is anything to choose.
    due : int
        Rows that the join has had when it is to be looked at next.
    """

    def __init__(self, plan: Plan) -> None:
        config = plan.config
        # With further terms, or a filter, runs look at row by row too; a time scope most runs pass as a whole.
        alone = all(term.shape == "scope" for term in plan.terms[1:])
        self._counts = config.output == "count"
        # Pairs that are checked by more than the key are not copied side by side.
        alone = alone if self._counts else len(plan.terms) == 1
        served = alone and plan.bound.filter(plan.loose) is None
        # Without terms beside the first one, as it is to be here, a time scope is what keeps runs from a short way.
        self._short = plan.scope is None
        self.open = config.algorithm == "auto" and plan.axis is not None and served and not plan.bound.never
        self.due = ENOUGH
        self._begins = True
        self._rows = self._pairs = self._pushes = self._spilled = 0
        self._cells = self._runs = self._lost = 0.0
        self._crowded = 1.0
        self.seen: float | None = None
        """Matches per row when it was last looked at; None before."""

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
            Rows that found their bucket full, since there are any; None of runs, then what was known of cells counts.

        Examples
        --------
        >>> from types import SimpleNamespace as Some
        >>> bound = Some(filter=lambda loose: None, never=False)
        >>> config = Some(output="count", algorithm="auto")
        >>> plan = Some(config=config, axis=1, loose=(), bound=bound, terms=(1,), scope=None)
        >>> advisor = IndexAdvisor(plan)
        >>> advisor.better("band_cells", rows=0, pairs=0, pushes=0, window=0)
        >>> advisor.better("band_cells", rows=100_000, pairs=50_000_000, pushes=1, window=1000)
        'bi_sort'
        """
        self.due = rows + ENOUGH
        if self._begins:
            # What was there before, moved from another index or restored, says nothing of what comes.
            self._begin(rows, pairs, pushes, spilled)
            return None
        new = rows - self._rows
        if spilled is not None:
            self._crowded = min(1.0, max(0, spilled - self._spilled) / new)
        self.seen = (pairs - self._pairs) / new
        self._cells, self._runs = self._estimates(self.seen, (pushes - self._pushes) / new, window)
        cells = used == "band_cells"
        ours, other = (self._cells, self._runs) if cells else (self._runs, self._cells)
        lost = self._lost + new * (ours - other) if ours > STAY * other else 0.0
        change = lost > CHANGE_COST * window
        if change:
            self._begins, self._lost = True, 0.0
        elif new >= window // 8:
            # What comes from here on is judged by itself.
            self._begin(rows, pairs, pushes, spilled)
            self._lost = lost
        return ("bi_sort" if cells else "band_cells") if change else None

    def begin_anew(self) -> None:
        """Leave out of account what comes until it is looked at next: an index was made anew of rows that were here."""
        self._begins = True

    def _begin(self, rows: int, pairs: int, pushes: int, spilled: int | None) -> None:
        self._begins = False
        self._rows, self._pairs, self._pushes, self._spilled = rows, pairs, pushes, spilled or 0

    def _estimates(self, seen: float, pushes: float, window: int) -> tuple[float, float]:
        """Return what cells and runs take for a row with so many matches and its part of a push, nanoseconds."""
        small, alone = (self._short and pushes * rows >= 1 for rows in (SMALL_PUSH, ALONE))
        push, both = (SMALL_PUSH_COST if small else PUSH_COST) * pushes, 2 if alone else 1
        crowded = (FAR_CROWDED_COST if alone and window > FAR else CROWDED_COST) * (self._crowded * seen) ** 2
        if self._counts:
            return (
                CELL_COST + COUNTED_PAIR_COST * seen + crowded,
                COUNTED_RUN_COST + COUNTED_RUN_PAIR_COST * seen + push,
            )
        cells, runs = CELL_COST + CELL_PAIR_COST * seen, RUN_COST + RUN_PAIR_COST * seen
        return both * cells + crowded, both * runs + push

    def why(self) -> str | None:
        """Return what was seen and the estimate that follows, in words; None if nothing was looked at yet."""
        if self.seen is None:
            return None
        return (
            f"{self.seen:,.1f} matches a row; expected time a row: cells {self._cells:,.0f} ns, sorted runs "
            f"{self._runs:,.0f} ns"
        )
