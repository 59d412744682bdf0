"""Which index serves best, by what has been seen: decided when a join is planned, and again while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slidejoin.plan import Plan

__all__ = ["Chooser"]

RUN_COST, PAIR_COST = 100.0, 2.0
"""Nanoseconds: what sorted runs take for a row beyond what cells take, and cells for each match that they count. Runs
count a range by its ends, however many matches it has."""

RUN_COST_OF_PAIRS, WRITTEN_COST = 220.0, 6.0
"""The same where pairs are put out, and what cells take for each more than runs, whose rows lie side by side. At 45
matches a row cells were 1.5 times as fast, at 100, where cells chain, runs 1.7 times."""

PUSH_COST = 250_000.0
"""Nanoseconds that a push into runs takes beyond one into cells, whatever its size."""

STAY = 2.0
"""The other index has to be this many times cheaper: changing costs as much as some hundred thousand rows."""

ENOUGH = 1 << 14
"""Rows that have to be seen before anything is changed, and between two changes an eighth of the window too."""


class Chooser:
    """Watches matches per row, and says when the other index would serve better.

    Cells read their rows one by one, runs find them side by side; so runs serve many matches, whether these are counted
    or put out. For small pushes cells always do.
    """

    def __init__(self, plan: Plan) -> None:
        config = plan.config
        # With further terms, or a filter, runs look at row by row too; a time scope most runs pass as a whole.
        alone = all(term.shape == "scope" for term in plan.terms[1:])
        self._counts = config.output == "count"
        # Pairs that are checked by more than the key are not copied side by side.
        alone = alone if self._counts else len(plan.terms) == 1
        served = alone and plan.bound.filter(plan.loose) is None
        self.open = config.algorithm == "auto" and plan.axis is not None and served and not plan.bound.never
        self._rows = self._pairs = self._pushes = 0
        self._run_cost = 0.0
        self.seen: float | None = None
        """Matches per row when it was last decided; None before."""

    def better(self, used: str, rows: int, pairs: int, window: int) -> str | None:
        """Return the index to change to, None to stay; `rows` and `pairs` are all that the join has had so far.

        Asked once after every push.

        Examples
        --------
        >>> from types import SimpleNamespace as Some
        >>> bound = Some(filter=lambda loose: None, never=False)
        >>> plan = Some(config=Some(output="count", algorithm="auto"), axis=1, loose=(), bound=bound, terms=(1,))
        >>> Chooser(plan).better("band_cells", 100_000, 50_000_000, 1000)
        'bi_sort'
        """
        self._pushes += 1
        new = rows - self._rows
        if not self.open or new < max(ENOUGH, window // 8):
            return None
        self.seen = (pairs - self._pairs) / new
        self._run_cost = RUN_COST if self._counts else RUN_COST_OF_PAIRS + PUSH_COST * self._pushes / new
        self._rows, self._pairs, self._pushes = rows, pairs, 0
        if used == "band_cells":
            return "bi_sort" if self._of_cells > STAY * self._run_cost else None
        return "band_cells" if STAY * self._of_cells < self._run_cost else None

    @property
    def _of_cells(self) -> float:
        """What cells take more for a row's matches, nanoseconds."""
        return (PAIR_COST if self._counts else WRITTEN_COST) * (self.seen or 0.0)

    def why(self) -> str | None:
        """Return what was seen and the estimate that follows, in words; None if nothing was decided by it yet."""
        if self.seen is None:
            return None
        what, cells = "counted" if self._counts else "found", f"{self._of_cells:,.0f} ns a row more"
        return (
            f"{self.seen:,.1f} matches a row were {what} of late, which take cells {cells}; "
            f"sorted runs take about {self._run_cost:,.0f} more for a row whatever it matches"
        )
