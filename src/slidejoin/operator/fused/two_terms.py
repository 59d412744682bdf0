"""Fused pushes of two terms through cell tables: a band and a comparison, a value between two columns.

Each side has two columns, one for each term. Cells are of the first one's keys: of a band, or of open ranges that are
closed by how far the second one's keys are from them (`slidejoin.plan.closed_ranges`). What cells find is checked by
the second term, whose keys stand beside the table as event times do in time windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.kernels.common.atomics import address_of
from slidejoin.kernels.common.view import ABOVE, BELOW
from slidejoin.kernels.fused.pushing import meet
from slidejoin.kernels.fused.work import CHECKED, LOWER, UPPER
from slidejoin.kernels.predicate.closing import NEAR, find_ranges, key_distances
from slidejoin.operator.fused.cells import FusedCells
from slidejoin.operator.fused.common import two_columns
from slidejoin.plan.closed_ranges import same_keys
from slidejoin.plan.key_layout import TermKeys
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import BandCells
    from slidejoin.operator.ingest.batch_columns import BatchColumns
    from slidejoin.operator.parts import JoinParts
    from slidejoin.operator.push import PushBatch
    from slidejoin.operator.window.distances import Found
    from slidejoin.sides import Side

__all__ = ["FusedTwoTerms"]

LO, HI, LOWS, HIGHS, ENDS = range(5)
"""The ranges of probes, those of the second term, and how many arrays that is."""


class FusedTwoTerms(FusedCells):
    """Pushes of a join on two terms, one of which is found and the other checked, see `slidejoin.operator.push`."""

    kernels = (meet, key_distances, find_ranges)

    def __init__(self, parts: JoinParts) -> None:
        plan = parts.plan
        columns = two_columns(parts)
        super().__init__(parts, columns)
        for one in self.probe_sides.values():
            one.view[[BELOW, ABOVE]] = 0  # ranges are given, as they are of two terms
        self._same = {side: same_keys(plan.terms[0], plan.terms[1], side) for side in SIDES}
        # For each order of the two terms, the shifts as `find_ranges` takes them.
        self._shifts: dict[Side, dict[tuple[int, int], NDArray[np.int64]]] = {}
        for side, both in columns.items():
            ends = [[one.shift.sign, int(one.shift.lows[0]), int(one.shift.highs[0])] for one in both]
            self._shifts[side] = {
                (0, 1): np.array([*ends[0], *ends[1]], np.int64),
                (1, 0): np.array([*ends[1], *ends[0]], np.int64),
            }
        self._ends: dict[Side, NDArray[np.int64]] = dict.fromkeys(SIDES, np.empty((ENDS, 0), np.int64))
        self._columns: dict[Side, NDArray[np.int64]] = {}
        self._closed = False
        self._distances: dict[Side, Found] = {}

    @staticmethod
    def serves(parts: JoinParts) -> bool:
        """Tell whether a plan that is `plain` is one of two terms of which cells may answer one."""
        return len(two_columns(parts)) == len(SIDES)

    def keys(self, columns: Mapping[Side, BatchColumns]) -> dict[Side, NDArray[np.int64]]:
        """Return the keys of both sides, (n,) int64, and compute the ranges that they probe.

        Nothing if no cells are used now, some values are NULL or too large, or closed ranges become much wider: then
        the general path takes the push, and other terms may be indexed.
        """
        windows = self._parts.windows
        chosen, pair = windows["left"].chosen, windows["left"].chosen.pair
        if chosen.range is None or chosen.algorithm != "band_cells" or windows["right"].chosen != chosen:
            return {}
        parts = self._places.parts(columns)
        if not parts:
            return {}
        for side, values in parts.items():
            window = windows[side]
            found = window.distances.of(TermKeys(tuple(values), None, frozenset(), values[0].size))
            if pair is not None and window.distances.lengthened(pair, found):
                return {}
            self._distances[side] = found
        self._closed = pair is not None
        first, second = pair or (chosen.range, 1 - chosen.range)
        for side, values in parts.items():
            if not self._find_ranges(side, first, second, values):
                return {}
            self._columns[side] = values[second]
        return {side: values[first] for side, values in parts.items()}

    def _find_ranges(self, side: Side, first: int, second: int, values: Sequence[NDArray[np.int64]]) -> bool:
        """Compute the ranges of both terms that one side's rows probe; False if some values are too large."""
        low = high = 0.0
        if self._closed:
            distances = self._parts.windows[other(side)].distances
            low, high = distances.closing((first, second), self._distances[other(side)]).distance
            if low > high:
                low = high = 0  # no row is stored
            if max(-low, high) > 2 * NEAR:
                return False
        rows = values[0].size
        if self._ends[side].shape[1] < rows:
            self._ends[side] = np.empty((ENDS, 2 * rows), np.int64)
        ends = [one[:rows] for one in self._ends[side]]
        shifts = self._shifts[side][first, second]
        return find_ranges(values[first], values[second], shifts, self._closed, int(low), int(high), *ends)

    def run(self, batch: PushBatch, first: dict[Side, int]) -> pa.Table:
        """Insert the rows, probe, and return what they produced, see `slidejoin.operator.push`."""
        for side in SIDES:
            self._parts.windows[side].measure(self._distances[side], first[side], batch.rows_of(side))
        return super().run(batch, first)

    def _beside(self, side: Side, times: NDArray[np.int64] | None) -> NDArray[np.int64] | None:  # noqa: ARG002 - none
        """Return the second term's keys of the rows of one side, (n,) int64; None if nothing is checked by them."""
        return None if self._answered(side) else self._columns[side]

    def _answered(self, side: Side) -> bool:
        """Whether the ranges of one side's keys say everything: closed ones do, where both keys are one."""
        return self._closed and self._same[side]

    def _look_at(self, role: Side, table: BandCells, first: dict[Side, int]) -> None:
        """Set the addresses of the ranges, and of what is checked, beside all others."""
        super()._look_at(role, table, first)
        at, words, ends = self.probe_sides[role].at, self._words, self._ends[role]
        words[at + LOWER], words[at + UPPER] = address_of(ends[LO]), address_of(ends[HI])
        answered = self._answered(other(role))
        words[at + CHECKED] = 0 if answered else address_of(ends[LOWS])
        words[at + CHECKED + 1] = 0 if answered else address_of(ends[HIGHS])
