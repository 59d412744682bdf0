"""Which index serves best, by what has been seen: decided when a join is planned, and again while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slidejoin.plan import Plan

__all__ = ["Chooser"]

RUN_COST, PAIR_COST = 100.0, 2.0
"""Nanoseconds: what sorted runs take for a row beyond what cells take, and cells for each match that they count. Runs
count a range by its ends, however many matches it has."""

STAY = 2.0
"""The other index has to be this many times cheaper: changing costs as much as some hundred thousand rows."""

ENOUGH = 1 << 14
"""Rows that have to be seen before anything is changed, and between two changes an eighth of the window too."""


class Chooser:
    """Watches matches per row, and says when the other index would serve better.

    Only numbers of matches make a difference: written out, a pair costs about the same from either index.
    """

    def __init__(self, plan: Plan) -> None:
        config = plan.config
        # With further terms, or a filter, runs look at row by row too; a time scope most runs pass as a whole.
        alone = all(term.shape == "scope" for term in plan.terms[1:])
        counts = config.output == "count" and alone and plan.bound.filter(plan.loose) is None
        self.open = config.algorithm == "auto" and plan.axis is not None and counts and not plan.bound.never
        self._rows = self._pairs = 0
        self.seen: float | None = None
        """Matches per row when it was last decided; None before."""

    def better(self, used: str, rows: int, pairs: int, window: int) -> str | None:
        """Return the index to change to, None to stay; `rows` and `pairs` are all that the join has had so far.

        Examples
        --------
        >>> from types import SimpleNamespace as Some
        >>> bound = Some(filter=lambda loose: None, never=False)
        >>> plan = Some(config=Some(output="count", algorithm="auto"), axis=1, loose=(), bound=bound, terms=(1,))
        >>> Chooser(plan).better("band_cells", 100_000, 50_000_000, 1000)
        'bi_sort'
        """
        if not self.open or rows - self._rows < max(ENOUGH, window // 8):
            return None
        self.seen = (pairs - self._pairs) / (rows - self._rows)
        self._rows, self._pairs = rows, pairs
        cells = PAIR_COST * self.seen
        if used == "band_cells":
            return "bi_sort" if cells > STAY * RUN_COST else None
        return "band_cells" if STAY * cells < RUN_COST else None

    def why(self) -> str | None:
        """Return what was seen and the estimate that follows, in words; None if nothing was decided by it yet."""
        if self.seen is None:
            return None
        cells = f"{PAIR_COST * self.seen:,.0f} ns a row"
        return (
            f"{self.seen:,.1f} matches a row were counted of late, which take cells {cells}; "
            f"sorted runs take about {RUN_COST:,.0f} more for a row but nothing for a match"
        )
