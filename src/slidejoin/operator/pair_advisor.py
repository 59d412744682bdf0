"""The pair advisor: chooses between cells, which index one term of several, and an index of two terms and more.

Cells are cheaper where few rows are in a probe's band, or equal to it; the planar index of a band and another range,
or the index of equalities and ranges together, where many are. How many these are is estimated from a sample of the
arriving rows of both sides.
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

SAMPLE, LEAST_SAMPLE = 512, 128
"""Rows of each side that are compared with each other, at most and at least: 1 ms."""

CELL_COST, CANDIDATE_COST, PLANAR_COST, RUN_COST = 170.0, 7.0, 700.0, 250.0
"""Nanoseconds that cells take for a row, and for each row in its band or group; and the planar index and sorted runs
for a row."""

CHANGE_COST = 250.0
"""Nanoseconds for each row of the window of changing the index: not done before staying has cost as much."""

STAY = 1.25
"""The other index has to be this many times cheaper."""

ENOUGH = 1 << 15
"""Rows between two checks."""


class PairAdvisor:
    """Watches how many rows are in a band or equal to a row, and tells when the other index would be cheaper.

    Attributes
    ----------
    open : bool
        Whether there is anything to choose: a band that cells can answer and another range, or equalities and ranges.
    candidates : float or None
        Rows in a probe's band, or equal to it, at the last check; None before.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        two = (plan.planar and plan.axis is not None) or plan.group_axes is not None
        self.open = plan.config.algorithm == "auto" and two and not plan.bound.never
        self._other = "planar" if plan.planar else "bi_sort"
        self._other_cost = PLANAR_COST if plan.planar else RUN_COST
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
        cells, other_cost = self._costs = CELL_COST + CANDIDATE_COST * seen, self._other_cost
        ours, theirs = (cells, other_cost) if used == "band_cells" else (other_cost, cells)
        self._lost = self._lost + new * (ours - theirs) if ours > STAY * theirs else 0.0
        if self._lost <= CHANGE_COST * sum(stored.values()):
            return None
        self._lost = 0.0
        return self._other if used == "band_cells" else "band_cells"

    def _seen(self, tables: Mapping[Side, pa.Table], stored: Mapping[Side, int]) -> float | None:
        """Estimate how many stored rows cells would find for a probe; None if a side has too few rows."""
        plan = self._plan
        source: dict[Side, pa.Table] = {side: tables["left" if plan.config.self_join else side] for side in SIDES}
        sizes = {side: min(table.num_rows, SAMPLE) for side, table in source.items()}
        if min(sizes.values()) < LEAST_SAMPLE:
            return None
        some = {
            side: table.take(np.arange(sizes[side]) * (table.num_rows // sizes[side])) for side, table in source.items()
        }
        found = []
        for role in SIDES:
            rows = term_keys(plan, other(role), some[other(role)])
            layout = plan.key_layout(other(role), "band_cells", plan.key_extents([rows]))
            ranges, stored_rows = key_ranges(plan, role, some[role], layout), layout.rows(rows)
            keys = np.sort(stored_rows.keys if stored_rows.kept is None else stored_rows.keys[stored_rows.kept])
            inside = np.searchsorted(keys, ranges.hi, side="right") - np.searchsorted(keys, ranges.lo)
            found.append(np.maximum(inside, 0).sum() / sizes["left"] / sizes["right"] * stored[other(role)])
        return float(np.mean(found))

    def why(self) -> str | None:
        """Return the observed values and the estimate, in words; None before the first check."""
        if self.candidates is None:
            return None
        cells, other_cost = self._costs
        where = "equal to a row" if self._plan.axes is None else "in the band of a row"
        other_index = "planar index" if self._plan.planar else "sorted runs"
        return (
            f"{self.candidates:,.0f} rows {where}; expected time a row: cells {cells:,.0f} ns, {other_index} "
            f"{other_cost:,.0f} ns"
        )
