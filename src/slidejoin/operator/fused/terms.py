"""Fused pushes of one or two terms of any keys through cell tables: doubles, a band and a comparison, intervals.

Cells are of the keys of one term: of a band or an equality, or of open ranges that are closed by how far the keys of
the other one are from them (`slidejoin.plan.closed_ranges`). What cells find is checked by the other term, whose keys
stand beside the table as event times do in time windows; and by whole keys where those in cells are rounded, as doubles
are, or lie far apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slidejoin.kernels.common.atomics import address_of
from slidejoin.kernels.common.view import ABOVE, BELOW
from slidejoin.kernels.fused.pushing import meet
from slidejoin.kernels.fused.work import CHECKED, FURTHER, LOWER, UPPER
from slidejoin.kernels.predicate.closing import NEAR, find_ranges, key_distances
from slidejoin.operator.fused.cells import FusedCells
from slidejoin.operator.fused.common import range_terms, two_columns
from slidejoin.operator.fused.event_times import EventTimes
from slidejoin.plan.closed_ranges import same_keys
from slidejoin.plan.index_terms import alternatives
from slidejoin.plan.key_layout import TermKeys
from slidejoin.rows.arrow_buffers import by_name
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

__all__ = ["FusedTerms"]

LO, HI, LOWS, HIGHS, ENDS = range(5)
"""The ranges of probes, those of the second term, and how many arrays that is."""


class Probed(NamedTuple):
    """What one side's rows probe, (n,) int64 each.

    Attributes
    ----------
    lo, hi
        Ranges of the first term's keys.
    lows, highs
        Those of the second term's; None without one.
    """

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    lows: NDArray[np.int64] | None
    highs: NDArray[np.int64] | None


class FusedTerms(FusedCells):
    """Pushes of a join on one or two terms, one of which is in cells, see `slidejoin.operator.push`."""

    kernels = (meet, key_distances, find_ranges)
    takes_wide = True

    def __init__(self, parts: JoinParts) -> None:
        plan, columns = parts.plan, two_columns(parts.plan)
        super().__init__(parts, columns or dict.fromkeys(SIDES, ()))
        for one in self.probe_sides.values():
            one.view[[BELOW, ABOVE]] = 0  # ranges are given
        self._terms = range_terms(plan)
        self._needed = {side: _places_of(parts, side) for side in SIDES}
        two = len(self._terms) > 1
        self._same = {side: two and same_keys(plan.terms[0], plan.terms[1], side) for side in SIDES}
        # For each order of two terms, the shifts as `find_ranges` takes them, where keys are columns of integers.
        self._shifts: dict[Side, dict[tuple[int, int], NDArray[np.int64]]] = {}
        for side, both in columns.items():
            ends = [[one.shift.sign, int(one.shift.lows[0]), int(one.shift.highs[0])] for one in both]
            self._shifts[side] = {
                (0, 1): np.array([*ends[0], *ends[1]], np.int64),
                (1, 0): np.array([*ends[1], *ends[0]], np.int64),
            }
        self._ends: dict[Side, NDArray[np.int64]] = dict.fromkeys(SIDES, np.empty((ENDS, 0), np.int64))
        # Of the batch that was accepted last.
        self._rows: dict[Side, Mapping[str, Any]] = {}
        self._whole: dict[Side, NDArray[np.int64]] = {}
        self._further: dict[Side, NDArray[np.int64]] = {}
        self._probed: dict[Side, Probed] = {}
        self._placed: dict[Side, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self._distances: dict[Side, Found] = {}
        self._closed = False

    @staticmethod
    def serves(parts: JoinParts) -> bool:
        """Tell whether a plan that is `plain` is one of one or two terms of which cells may answer one."""
        plan, places = parts.plan, range_terms(parts.plan)
        if plan.composite is not None or plan.config.algorithm not in {"auto", "band_cells"}:
            return False
        if any(plan.terms[place].pieces != 1 or not plan.terms[place].exact for place in places):  # type: ignore[attr-defined]
            return False
        if len(places) == 1:
            timed = plan.scope is None or EventTimes.serves(plan, plan.scope)
            return parts.algorithm == "band_cells" and places == (0,) and timed
        cells = any(one.algorithm == "band_cells" for one in alternatives(plan.terms, plan.config.window))
        return places == (0, 1) and plan.scope is None and parts.algorithm in {"planar", "band_cells"} and cells

    # -- accept ------------------------------------------------------------------------------------------------------

    def keys(self, columns: Mapping[Side, BatchColumns]) -> dict[Side, NDArray[np.int64]]:
        """Return the places of both sides' keys in cells, (n,) int64, and compute the ranges that they probe.

        Nothing if no cells are used now, some values are NULL or too large, or closed ranges become much wider: then
        the general path takes the push, and other terms may be indexed.
        """
        windows = self._parts.windows
        chosen, pair = windows["left"].chosen, windows["left"].chosen.pair
        if chosen.range is None or chosen.algorithm != "band_cells" or windows["right"].chosen != chosen:
            return {}
        every = self._values(columns)
        if not every:
            return {}
        for side, values in every.items():
            window = windows[side]
            found = window.distances.of(TermKeys(tuple(values), None, frozenset(), values[0].size))
            if pair is not None and window.distances.lengthened(pair, found):
                return {}
            self._distances[side] = found
        self._closed = pair is not None
        first, second = chosen.range, next((place for place in self._terms if place != chosen.range), None)
        places: dict[Side, NDArray[np.int64]] = {}
        for side, values in every.items():
            probed = self._ranges(side, first, second, values)
            own, stored = windows[side].layout.axis, windows[other(side)].layout.axis
            if probed is None or own is None or stored is None:
                return {}
            self._probed[side], self._whole[side] = probed, values[first]
            self._placed[side] = stored.places_of(probed.lo, probed.hi)
            places[side] = own.places(values[first])
            if second is not None:
                self._further[side] = values[second]
        return places

    def _values(self, columns: Mapping[Side, BatchColumns]) -> dict[Side, list[NDArray[np.int64]]]:
        """Return the keys of each term on both sides, (n,) int64 each; nothing if some are NULL or not exact."""
        if self._shifts:
            return self._places.parts(columns)
        every: dict[Side, list[NDArray[np.int64]]] = {}
        for side in SIDES:
            table = columns[side].table
            if any(table.column(place).null_count for place in self._needed[side]):
                return {}
            rows, every[side] = by_name(columns[side].kept), []
            self._rows[side] = rows
            for place in self._terms:
                key = self._parts.plan.terms[place].key(side, rows)
                if key.valid is not None or not key.exact:
                    return {}
                every[side].append(np.ascontiguousarray(key.values))
        return every

    def _ranges(self, side: Side, first: int, second: int | None, values: Sequence[NDArray[np.int64]]) -> Probed | None:
        """Compute the ranges of both terms that one side's rows probe; None if some values are too large."""
        distances = self._parts.windows[other(side)].distances
        closing = (
            None
            if second is None or not self._closed
            else distances.closing((first, second), self._distances[other(side)])
        )
        if not self._shifts or second is None:
            asked = [self._parts.plan.terms[place].ranges(side, self._rows[side]) for place in self._terms]
            if not all(one.exact and one.lo.shape[0] == 1 for one in asked):
                return None
            own = asked[first] if closing is None else closing.closed(asked)
            lo, hi = np.ascontiguousarray(own.lo[0]), np.ascontiguousarray(own.hi[0])
            if second is None:
                return Probed(lo, hi, None, None)
            return Probed(lo, hi, *(np.ascontiguousarray(end[0]) for end in (asked[second].lo, asked[second].hi)))
        low, high = (0.0, 0.0) if closing is None else closing.distance
        if low > high:
            low = high = 0  # no row is stored
        if max(-low, high) > 2 * NEAR:
            return None
        rows_here = values[0].size
        if self._ends[side].shape[1] < rows_here:
            self._ends[side] = np.empty((ENDS, 2 * rows_here), np.int64)
        ends = [one[:rows_here] for one in self._ends[side]]
        shifts = self._shifts[side][first, second]
        fit = find_ranges(values[first], values[second], shifts, closing is not None, int(low), int(high), *ends)
        return Probed(*ends) if fit else None

    # -- run ---------------------------------------------------------------------------------------------------------

    def run(self, batch: PushBatch, first: dict[Side, int]) -> pa.Table:
        """Insert the rows, probe, and return what they produced, see `slidejoin.operator.push`."""
        for side in SIDES:
            self._parts.windows[side].measure(self._distances[side], first[side], batch.rows_of(side))
        return super().run(batch, first)

    def _whole_keys(self, side: Side, keys: NDArray[np.int64]) -> NDArray[np.int64]:  # noqa: ARG002 - places of these
        """Return the keys by which rows of one side are checked where those in cells are not exact, (n,) int64."""
        return self._whole[side]

    def _beside(self, side: Side, times: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Return the second term's keys of one side's rows, or times, (n,) int64; None if nothing is checked."""
        if len(self._terms) == 1:
            return times
        return None if self._answered(side) else self._further[side]

    def _answered(self, side: Side) -> bool:
        """Whether the ranges of one side's keys say everything: closed ones do, where both keys are one."""
        return self._closed and self._same[side]

    def _look_at(self, role: Side, table: BandCells, first: dict[Side, int]) -> None:
        """Set the addresses of the ranges, and of what is checked, beside all others."""
        super()._look_at(role, table, first)
        at, words, probed = self.probe_sides[role].at, self._words, self._probed[role]
        words[at + LOWER], words[at + UPPER] = map(address_of, self._placed[role])
        words[at + CHECKED], words[at + CHECKED + 1] = map(address_of, (probed.lo, probed.hi)) if table.wide else (0, 0)
        checked = probed.lows is not None and probed.highs is not None and not self._answered(other(role))
        words[at + FURTHER], words[at + FURTHER + 1] = (
            map(address_of, (probed.lows, probed.highs)) if checked else (0, 0)  # type: ignore[arg-type]
        )


def _places_of(parts: JoinParts, side: Side) -> tuple[int, ...]:
    """Return the places of the columns of one side that the predicate reads."""
    schema = parts.plan.taken_schema(side)
    names = parts.plan.bound.columns(side)
    return tuple(schema.get_field_index(name) for name in names if name in schema.names)
