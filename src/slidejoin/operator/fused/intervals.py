"""Fused pushes of closed ranges through cell tables: a value between two columns, and intervals that overlap.

Each side has two columns, one for each term. Ranges of the first one's keys are closed by how far the second one's are
from them (`slidejoin.plan.closed_ranges`), and what cells find is checked by the second one, which stands beside the
table as event times do in time windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.kernels.common.atomics import address_of
from slidejoin.kernels.fused.pushing import meet
from slidejoin.kernels.fused.work import CHECKED, LOWER, UPPER
from slidejoin.kernels.predicate.closing import NEAR, close_ranges, key_distances
from slidejoin.operator.fused.cells import FusedCells
from slidejoin.operator.fused.common import interval_columns
from slidejoin.plan.closed_ranges import same_keys
from slidejoin.plan.key_layout import TermKeys
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import BandCells
    from slidejoin.operator.ingest.batch_columns import BatchColumns
    from slidejoin.operator.parts import JoinParts
    from slidejoin.operator.push import PushBatch
    from slidejoin.operator.window.distances import Found
    from slidejoin.sides import Side

__all__ = ["FusedIntervals"]

LO, HI, LOWS, HIGHS, ENDS = range(5)
"""The closed ranges of probes, those of the second term, and how many arrays that is."""


class FusedIntervals(FusedCells):
    """Pushes of a join on two terms that close each other's ranges, see `slidejoin.operator.push`."""

    kernels = (meet, key_distances, close_ranges)

    def __init__(self, parts: JoinParts) -> None:
        plan = parts.plan
        columns = interval_columns(parts)
        super().__init__(parts, columns)
        self._same = {side: same_keys(plan.terms[0], plan.terms[1], side) for side in SIDES}
        # For each order of the two terms, the shifts as `close_ranges` takes them.
        self._shifts: dict[Side, dict[tuple[int, int], NDArray[np.int64]]] = {}
        for side, both in columns.items():
            ends = [[one.shift.sign, int(one.shift.lows[0]), int(one.shift.highs[0])] for one in both]
            self._shifts[side] = {
                (0, 1): np.array([*ends[0], *ends[1]], np.int64),
                (1, 0): np.array([*ends[1], *ends[0]], np.int64),
            }
        self._ends: dict[Side, NDArray[np.int64]] = dict.fromkeys(SIDES, np.empty((ENDS, 0), np.int64))
        self._columns: dict[Side, NDArray[np.int64]] = {}
        self._distances: dict[Side, Found] = {}

    @staticmethod
    def serves(parts: JoinParts) -> bool:
        """Tell whether a plan that is `plain` is one of two terms that may close each other's ranges."""
        return len(interval_columns(parts)) == len(SIDES)

    def keys(self, columns: Mapping[Side, BatchColumns]) -> dict[Side, NDArray[np.int64]]:
        """Return the keys of both sides, (n,) int64, and compute the ranges that they probe.

        Nothing if no ranges are closed now, some values are NULL or too large, or ranges become much wider: then the
        general path takes the push, and other terms may be indexed.
        """
        windows = self._parts.windows
        pair = windows["left"].chosen.pair
        if pair is None or windows["right"].chosen.pair != pair:
            return {}
        parts = self._places.parts(columns)
        if not parts:
            return {}
        for side, values in parts.items():
            window = windows[side]
            found = window.distances.of(TermKeys(tuple(values), None, frozenset(), values[0].size))
            if window.distances.lengthened(pair, found):
                return {}
            self._distances[side] = found
        for side, values in parts.items():
            low, high = windows[other(side)].distances.closing(pair, self._distances[other(side)]).distance
            if low > high:
                low = high = 0  # no row is stored
            if max(-low, high) > 2 * NEAR:
                return {}
            rows = values[0].size
            if self._ends[side].shape[1] < rows:
                self._ends[side] = np.empty((ENDS, 2 * rows), np.int64)
            ends = [one[:rows] for one in self._ends[side]]
            own = values[pair[0]], values[pair[1]]
            if not close_ranges(*own, self._shifts[side][pair], int(low), int(high), *ends):
                return {}
            self._columns[side] = own[1]
        return {side: values[pair[0]] for side, values in parts.items()}

    def run(self, batch: PushBatch, first: dict[Side, int]) -> pa.Table:
        """Insert the rows, probe, and return what they produced, see `slidejoin.operator.push`."""
        for side in SIDES:
            self._parts.windows[side].measure(self._distances[side], first[side], batch.rows_of(side))
        return super().run(batch, first)

    def _beside(self, side: Side, times: NDArray[np.int64] | None) -> NDArray[np.int64] | None:  # noqa: ARG002 - none
        """Return the second term's keys of the rows of one side, (n,) int64; None if they are the first one's."""
        return None if self._same[side] else self._columns[side]

    def _look_at(self, role: Side, table: BandCells, first: dict[Side, int]) -> None:
        """Set the addresses of the ranges, and of what is checked, beside all others."""
        super()._look_at(role, table, first)
        at, words, ends = self.probe_sides[role].at, self._words, self._ends[role]
        words[at + LOWER], words[at + UPPER] = address_of(ends[LO]), address_of(ends[HI])
        # Where both keys of the stored rows are one, the closed range says everything.
        same = self._same[other(role)]
        words[at + CHECKED] = 0 if same else address_of(ends[LOWS])
        words[at + CHECKED + 1] = 0 if same else address_of(ends[HIGHS])
