"""The pair advisor: chooses between cells, which index a band alone, and the planar index of it and another range.

Cells are cheaper where few rows are in a probe's band, the planar index where many are. How many these are is estimated
from a sample of the arriving rows of both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.probe_batch import key_ranges
from slidejoin.operator.window.row_keys import term_keys
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["PairAdvisor"]

SAMPLE = 512
"""Rows of each side that are compared with each other: 1 ms."""

CELL_COST, CANDIDATE_COST, PLANAR_COST = 170.0, 7.0, 700.0
"""Nanoseconds that cells take for a row, and for each row in its band; and the planar index for a row."""

CHANGE_COST = 250.0
"""Nanoseconds for each row of the window of changing the index: not done before staying has cost as much."""

STAY = 1.25
"""The other index has to be this many times cheaper."""

ENOUGH = 1 << 15
"""Rows between two checks."""


class PairAdvisor:
    """Watches how many rows are in a band, and tells when the other index would be cheaper.

    Attributes
    ----------
    open : bool
        Whether there is anything to choose: a band that cells can answer, and another range.
    candidates : float or None
        Rows in a probe's band at the last check; None before.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.open = plan.config.algorithm == "auto" and plan.planar and plan.axis is not None and not plan.bound.never
        self.candidates: float | None = None
        self._rows, self._lost = 0, 0.0
        self._costs = 0.0, 0.0

    def better(self, used: str, tables: Mapping[Side, pa.Table], rows: int, stored: Mapping[Side, int]) -> str | None:
        """Return the index to change to, None to stay.

        Parameters
        ----------
        used : str
            The index that is used now.
        tables : dict from side to pyarrow.Table
            Rows that arrive now.
        rows : int
            All rows that the join has had so far.
        stored : dict from side to int
            Rows that are stored.
        """
        new = rows - self._rows
        if new < ENOUGH:
            return None
        seen = self._seen(tables, stored)
        if seen is None:
            return None
        self._rows, self.candidates = rows, seen
        cells, planar = self._costs = CELL_COST + CANDIDATE_COST * seen, PLANAR_COST
        ours, theirs = (cells, planar) if used == "band_cells" else (planar, cells)
        self._lost = self._lost + new * (ours - theirs) if ours > STAY * theirs else 0.0
        if self._lost <= CHANGE_COST * sum(stored.values()):
            return None
        self._lost = 0.0
        return "planar" if used == "band_cells" else "band_cells"

    def _seen(self, tables: Mapping[Side, pa.Table], stored: Mapping[Side, int]) -> float | None:
        """Estimate how many stored rows are in a probe's range of the first term; None if a side has too few rows."""
        plan = self._plan
        source: dict[Side, pa.Table] = {side: tables["left" if plan.config.self_join else side] for side in SIDES}
        if min(table.num_rows for table in source.values()) < SAMPLE:
            return None
        some = {side: table.take(np.arange(SAMPLE) * (table.num_rows // SAMPLE)) for side, table in source.items()}
        found = []
        for role in SIDES:
            rows = term_keys(plan, other(role), some[other(role)])
            ranges = key_ranges(plan, role, some[role], plan.key_layout(other(role), "planar"))
            keys = np.sort(rows.values[0] if rows.kept is None else rows.values[0][rows.kept])
            inside = np.searchsorted(keys, ranges.hi, side="right") - np.searchsorted(keys, ranges.lo)
            found.append(np.maximum(inside, 0).sum() / SAMPLE**2 * stored[other(role)])
        return float(np.mean(found))

    def why(self) -> str | None:
        """Return the observed values and the estimate, in words; None before the first check."""
        if self.candidates is None:
            return None
        cells, planar = self._costs
        return (
            f"{self.candidates:,.0f} rows in the band of a row; expected time a row: cells {cells:,.0f} ns, "
            f"planar index {planar:,.0f} ns"
        )
