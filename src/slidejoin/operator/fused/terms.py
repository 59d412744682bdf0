"""Fused pushes of any terms through cell tables: doubles, NULLs, a band and a comparison, intervals, filters.

Cells are of the keys of one term: of a band or an equality, or of open ranges that are closed by how far the keys of
the other one are from them (`slidejoin.plan.closed_ranges`). Candidates are checked by the other term, whose keys are
stored with the rows of the table as event times are in time windows; and by whole keys where those in cells are
rounded, as doubles are, or lie far apart. Further terms, and filters, are a program on the records of both rows
(`slidejoin.operator.pair_filter`). A push for which that gives up is probed again on the general path, which takes
some of the next ones, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slidejoin.index.kernels.view import ABOVE, BELOW
from slidejoin.index.protocol import CELLS
from slidejoin.operator.fused.cells import (
    BOUNDS,
    CHECKED_HIGH,
    CHECKED_LOW,
    CODE_LENGTH,
    ELIGIBLE,
    FURTHER_BETWEEN,
    FURTHER_COLUMN,
    FURTHER_HIGH,
    FURTHER_LOW,
    GAVE_UP,
    LINES,
    LOWER,
    NO_ROWS,
    REGISTERS,
    SHIFTED,
    SHIFTS_AT,
    SIDES_AT,
    TIME_COLUMN,
    UPPER,
    FusedCells,
)
from slidejoin.operator.fused.common import MOST_TERMS, range_terms, two_columns
from slidejoin.operator.fused.event_times import EventTimes
from slidejoin.operator.fused.kernels.pushing import meet, show
from slidejoin.operator.pair_filter import pair_filter
from slidejoin.plan.closed_ranges import same_keys
from slidejoin.plan.index_terms import alternatives
from slidejoin.plan.kernels.closed_ranges import NEAR, SHIFTS, find_ranges, key_distances, near
from slidejoin.plan.key_layout import TermKeys
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.predicate.truth.values import Batch
from slidejoin.runtime.array_pool import address_of, point
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.cells.band_cells import BandCells
    from slidejoin.operator.ingest.batch_columns import BatchColumns
    from slidejoin.operator.pair_filter import PairFilter
    from slidejoin.operator.parts import JoinParts
    from slidejoin.operator.push import PushBatch
    from slidejoin.operator.window.distances import RowDistances
    from slidejoin.plan.branch import Term
    from slidejoin.plan.key_layout import BranchLayout, KeyLayout
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.bind import BoundFilter
    from slidejoin.predicate.ranges.ranges import Ranges
    from slidejoin.predicate.truth.pair_programs import PairProgram
    from slidejoin.sides import Side

__all__ = ["FusedTerms"]

NOTHING: frozenset[int] = frozenset()

ENDS = 4
"""Lower and upper ends of the ranges of probes, and of those of the second term."""

OF_TERMS = 6
"""Words of the shifts of both terms, behind which is how the first one's ranges are closed, see `find_ranges`."""


class Probed(NamedTuple):
    """What one side's rows probe, (n,) int64 each.

    Attributes
    ----------
    lo, hi
        Ranges of the first term's keys.
    lows, highs
        Those of the second term's; None without one.
    between
        Whether the second term's keys are to lie within these, or beyond them, as those of `<>`.
    """

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    lows: NDArray[np.int64] | None
    highs: NDArray[np.int64] | None
    between: bool = True


class ShiftedKeys(NamedTuple):
    """What one side's rows probe, where `find_ranges` writes it as they do.

    Attributes
    ----------
    one, two : (n,) int64
        Keys of both terms.
    shifts : (SHIFTS,) int64
    """

    one: NDArray[np.int64]
    two: NDArray[np.int64]
    shifts: NDArray[np.int64]


class RoomForEnds:
    """Memory for the ends of one side's ranges, those of both terms: the same until more rows come."""

    def __init__(self) -> None:
        self._ends = np.empty((ENDS, 0), np.int64)
        self.addresses: tuple[int, ...] = ()
        """Where the lower ends of the first term begin, its upper ones, and those of the second term."""

    def grow(self, rows: int) -> None:
        """Make room for so many rows."""
        if not self.addresses or self._ends.shape[1] < rows:
            self._ends = np.empty((ENDS, 2 * rows), np.int64)
            self.addresses = tuple(map(address_of, self._ends))

    def arrays(self, rows: int) -> list[NDArray[np.int64]]:
        """Return arrays of so many rows, for which there is room."""
        return [one[:rows] for one in self._ends]


class Served(NamedTuple):
    """What follows from the terms that are indexed, as long as keys are laid out as they are.

    Attributes
    ----------
    laid_out : tuple of KeyLayout
        Of both windows. Of the same terms others follow when values come that had no room.
    fits : bool
        Whether cells answer them, with a check.
    composite : bool
        Whether cells have composite keys.
    closing : pair of int, or None
        Places of the term whose ranges are closed, and of the one that closes them.
    pair : pair of int
        The place of the first term, and of the second; None without one.
    condition : BoundFilter or None
        What they leave to check.
    open_layouts : tuple of BranchLayout
        Of composite keys, how they are laid out on both sides without what closes their ranges.
    """

    laid_out: tuple[KeyLayout, KeyLayout]
    fits: bool
    composite: bool
    closing: tuple[int, int] | None
    pair: tuple[int, int | None]
    condition: BoundFilter | None
    open_layouts: tuple[BranchLayout, ...] = ()


class FusedTerms(FusedCells):
    """Pushes of a join on any terms, one of which is in cells, see `slidejoin.operator.push`.

    NULLs, NaN and filters of one side are no matter: such rows are held, and neither inserted into cells nor matched.

    Parameters
    ----------
    parts : JoinParts
    before : FusedCells, optional
        Takes the pushes whose keys are plain; then only others are taken.
    """

    kernels = (meet, show, near, key_distances, find_ranges)
    takes_wide = True

    def __init__(self, parts: JoinParts, before: FusedCells | None = None) -> None:
        plan, columns = parts.plan, two_columns(parts.plan)
        super().__init__(parts, columns or dict.fromkeys(SIDES, ()))
        for probing in self.probe_sides.values():
            probing.view[[BELOW, ABOVE]] = 0  # ranges are given
        self._before = before
        self._terms = range_terms(plan)
        self._filters = any(plan.bound.filters_side(side) for side in SIDES)
        self._plain = False
        # Where a push is probed again, all that a program may have checked is checked of what the general path finds.
        inexact = {*plan.loose, *(plan.numbers[place] for place in _programmable(plan))}
        self._output = parts.output(inexact)
        self._time = next((place for place, term in enumerate(plan.terms) if term.shape == "scope"), None)
        one, two = self._terms[0], self._terms[-1]
        # For each order of two terms, the shifts as `find_ranges` takes them, where keys are columns of integers.
        self._shifts: dict[Side, dict[tuple[int, int], NDArray[np.int64]]] = {}
        for side, both in columns.items():
            ends = [[of.shift.sign, int(of.shift.lows[0]), int(of.shift.highs[0])] for of in both]
            self._shifts[side] = {
                (one, two): np.array([*ends[0], *ends[1], *[0] * (SHIFTS - OF_TERMS)], np.int64),
                (two, one): np.array([*ends[1], *ends[0], *[0] * (SHIFTS - OF_TERMS)], np.int64),
            }
        self._ends: dict[Side, RoomForEnds] = {side: RoomForEnds() for side in SIDES}
        self._served: Served | None = None
        # Of the batch that was accepted last.
        self._rows: dict[Side, Mapping[str, Any]] = {}
        self._eligible_rows: dict[Side, NDArray[np.bool_] | None] = dict.fromkeys(SIDES)
        self._whole: dict[Side, NDArray[np.int64]] = {}
        self._keys: dict[Side, TermKeys] = {}
        self._probed: dict[Side, Probed | ShiftedKeys] = {}
        self._placed: dict[Side, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self._distances: dict[Side, RowDistances] = {}
        self._closed = False
        self._pair: tuple[int, int | None] = (0, None)
        self._program: PairProgram | None = None
        self._bound: PairFilter | None = None  # keeps what the work has the addresses of
        self._rest = 0  # pushes for which no program is run

    @staticmethod
    def serves(parts: JoinParts) -> bool:
        """Tell whether cells may answer one term of a plan that is `plain`, and a program what two terms leave open."""
        plan, places = parts.plan, range_terms(parts.plan)
        if plan.config.algorithm not in {"auto", CELLS} or not any(_served(plan.terms[at]) for at in places):
            return False
        if not EventTimes.serves(plan):
            return False
        condition = _condition(plan, _programmable(plan))
        if condition is not None and (
            condition.program is None or condition.rest is not None or not pair_filter(condition.program, parts.windows)
        ):
            return False
        if len(places) == 1:
            return parts.algorithm == CELLS and places == (0,)
        every = alternatives(plan.terms, plan.config.window)
        return any(one.algorithm == CELLS for one in every)

    # -- accept ------------------------------------------------------------------------------------------------------

    def accepts(self, batch: PushBatch) -> bool:
        """Tell whether the rows are in order, in time, have keys of one term in cells, and find room in both tables."""
        if self._before is not None and not self._before.unfit:
            return False
        return super().accepts(batch)

    def keys(self, columns: Mapping[Side, BatchColumns]) -> dict[Side, NDArray[np.int64]]:
        """Return the places of both sides' keys in cells, (n,) int64, and compute the ranges that they probe.

        Nothing if no cells are used now, some values are too large, or closed ranges become much wider: then the
        general path takes the push, and other terms may be indexed.
        """
        windows, served = self._parts.windows, self._serving()
        if not served.fits or windows["left"].index.inexact or windows["right"].index.inexact:
            return {}  # what matches a clipped key is evaluated on the general path
        self._closed, self._pair = served.closing is not None, served.pair
        self._keys = self._term_keys(columns) if self._look_for_program(served.condition) else {}
        if not self._keys:
            return {}
        for side, keys in self._keys.items():
            window = windows[side]
            distances = window.distances.of(keys)
            if served.closing is not None and window.distances.lengthened(served.closing, distances):
                return {}
            self._distances[side] = distances
        return self._packed_places(served) if served.composite else self._term_places()

    def _serving(self) -> Served:
        """Return what follows from the terms that are indexed now."""
        left, right, known = *self._parts.windows.values(), self._served
        if known is None or known.laid_out[0] is not left.layout or known.laid_out[1] is not right.layout:
            known = self._served = self._serving_terms((left.layout, right.layout))
        return known

    def _serving_terms(self, laid_out: tuple[KeyLayout, KeyLayout]) -> Served:
        plan, (own, others) = self._parts.plan, (window.chosen for window in self._parts.windows.values())
        closing = own.pair
        composite = len(own.key) > 1
        fits = own.algorithm == CELLS and own == others
        fits = fits and all(_served(plan.terms[place]) for place in (*own.key, *(closing or ())))
        if not fits:
            return Served(laid_out, fits, composite, closing, (0, None), None)
        pair = (own.key[0], self._checked()) if closing is None else closing
        left_open = {place for place in self._terms if place not in pair}
        layouts: tuple[BranchLayout, ...] = ()
        if composite:  # all that the keys of either side do not say all about
            dims = {place for layout in laid_out for place in layout.dims}
            left_open = dims - {self._time, pair[1]}
            if closing is not None and not dims.isdisjoint(own.key):
                left_open |= {*closing}  # closed ranges do not say all either, and the side of one key stores no second
            layouts = tuple(replace(layout.branches[0], closing=None) for layout in laid_out)
        return Served(laid_out, fits, composite, closing, pair, _condition(plan, sorted(left_open)), layouts)

    def _checked(self) -> int | None:
        """Return a term by which candidates are checked, one whose keys are stored on both sides; None without."""
        terms, (left, right) = self._parts.plan.terms, (self._parts.windows[side].layout.dims for side in SIDES)
        return next((at for at in left if at in right and at != self._time and _served(terms[at])), None)

    def _look_for_program(self, condition: BoundFilter | None) -> bool:
        """Take the program of what keys leave open; return False if there is none, or it gave up not long ago."""
        self._program = None if condition is None else condition.program
        self.programmed = condition is not None
        self._words[CODE_LENGTH] = self._words[GAVE_UP] = 0
        if condition is None:
            return True
        self._rest -= self._rest > 0
        return self._program is not None and condition.rest is None and not self._rest

    def _term_places(self) -> dict[Side, NDArray[np.int64]]:
        """Return the places of the keys of one term, (n,) int64; nothing if some ranges are not exact."""
        places: dict[Side, NDArray[np.int64]] = {}
        windows, (first, second) = self._parts.windows, self._pair
        for side, keys in self._keys.items():
            probed = self._ranges(side, first, second, keys)
            own, stored = windows[side].layout.axis, windows[other(side)].layout.axis
            if probed is None or own is None or stored is None:
                return {}
            if isinstance(probed, ShiftedKeys) and stored.place is not None:
                lo, hi, lows, highs = self._ends[side].arrays(keys.rows)
                find_ranges(*probed, lo, hi, lows, highs)
                probed = Probed(lo, hi, lows, highs)
            self._probed[side], self._whole[side] = probed, keys.values[first]
            if isinstance(probed, Probed):
                self._placed[side] = stored.places_of(probed.lo, probed.hi)
            places[side] = own.places(keys.values[first])
        return places

    def _packed_places(self, served: Served) -> dict[Side, NDArray[np.int64]]:
        """Return the places of composite keys, (n,) int64; nothing if some have no room in the layouts."""
        places: dict[Side, NDArray[np.int64]] = {}
        terms, windows = self._parts.plan.terms, self._parts.windows
        if not all(windows[side].layout.fits((keys,)) for side, keys in self._keys.items()):
            return {}
        layouts = dict(zip(SIDES, served.open_layouts, strict=True))
        for side, keys in self._keys.items():
            own, stored = layouts[side], layouts[other(side)]
            eligible = self._eligible_rows[side]
            of_terms = [term.ranges(side, self._rows[side]) for term in terms]
            if own.axis is None or stored.axis is None or not all(one.exact for one in of_terms):
                return {}
            closed = of_terms
            if served.closing is not None:
                closing = windows[other(side)].distances.closing(served.closing, self._distances[other(side)])
                closed = [*of_terms]
                closed[closing.range] = closing.closed(of_terms)
            ranges = stored.ranges(closed, None if eligible is None else ~eligible, NOTHING)
            if ranges.lo.shape[0] > 1:
                return {}
            lo, hi, packed = np.ascontiguousarray(ranges.lo[0]), np.ascontiguousarray(ranges.hi[0]), own.rows(keys).keys
            second = self._pair[1]
            probed = Probed(lo, hi, None, None) if second is None else _further(lo, hi, of_terms[second])
            if probed is None:
                return {}
            self._probed[side], self._whole[side] = probed, packed
            self._placed[side] = stored.axis.places_of(lo, hi)
            places[side] = own.axis.places(packed)
        return places

    def _term_keys(self, columns: Mapping[Side, BatchColumns]) -> dict[Side, TermKeys]:
        """Return the keys of each term, at its place in the plan, on both sides; nothing if some are not exact."""
        self._eligible_rows = dict.fromkeys(SIDES)
        self._plain = bool(self._shifts) and not self._filters and len(self._parts.windows["left"].chosen.key) == 1
        if self._plain:
            parts = self._places.parts(columns)
            if parts and all(near(*parts[side]) for side in SIDES):
                return {side: self._at_places(parts[side], columns[side].rows, None) for side in SIDES}
            self._plain = False
        every, plan = {}, self._parts.plan
        for side in SIDES:
            rows, values = Batch(columns[side].stored), []
            eligible = plan.bound.prefilter(side, rows)
            for place in self._terms:
                key = plan.terms[place].key(side, rows)
                if not key.exact:
                    return {}
                if key.valid is not None:
                    eligible = key.valid if eligible is None else eligible & key.valid
                values.append(np.ascontiguousarray(key.values))
            self._rows[side] = rows
            self._eligible_rows[side] = None if eligible is None else np.ascontiguousarray(eligible)
            every[side] = self._at_places(values, columns[side].rows, self._eligible_rows[side])
        return every

    def _at_places(
        self, values: Sequence[NDArray[np.int64]], rows: int, eligible: NDArray[np.bool_] | None
    ) -> TermKeys:
        """Return keys of the terms, (n,) int64 each, at the places of these; event times are not among them."""
        if len(self._parts.plan.terms) > len(self._terms):
            known, none = dict(zip(self._terms, values, strict=True)), np.zeros(rows, np.int64)
            values = [known.get(place, none) for place in range(len(self._parts.plan.terms))]
        return TermKeys(tuple(values), eligible, NOTHING, rows)

    def _ranges(self, side: Side, first: int, second: int | None, keys: TermKeys) -> Probed | ShiftedKeys | None:
        """Compute the ranges of both terms that one side's rows probe; None if some values are too large."""
        distances = self._parts.windows[other(side)].distances
        closing = (
            None
            if second is None or not self._closed
            else distances.closing((first, second), self._distances[other(side)])
        )
        if not self._plain or second is None:
            of_terms = {place: self._range(side, place, keys) for place in (first, second) if place is not None}
            if not all(one.exact for one in of_terms.values()):
                return None
            own, eligible = of_terms[first] if closing is None else closing.closed(of_terms), self._eligible_rows[side]
            lo, hi = np.ascontiguousarray(own.lo[0]), np.ascontiguousarray(own.hi[0])
            if eligible is not None:
                lo, hi = np.where(eligible, lo, 1), np.where(eligible, hi, 0)
            return Probed(lo, hi, None, None) if second is None else _further(lo, hi, of_terms[second])
        low, high = (0.0, 0.0) if closing is None else closing.distance
        if low > high:
            low = high = 0  # no row is stored
        if max(-low, high) > 2 * NEAR:
            return None
        shifts = self._shifts[side][first, second]
        shifts[OF_TERMS:] = closing is not None, int(low), int(high)
        self._ends[side].grow(keys.rows)
        return ShiftedKeys(keys.values[first], keys.values[second], shifts)

    def _range(self, side: Side, place: int, keys: TermKeys) -> Ranges:
        """Return the ranges of one term that one side's rows probe; those of NULLs are any."""
        term = self._parts.plan.terms[place]
        ranges = term.ranges_of_keys(side, keys.values[place]) if isinstance(term, RangeTerm) else None
        return term.ranges(side, self._rows[side]) if ranges is None else ranges

    # -- run ---------------------------------------------------------------------------------------------------------

    def run(self, batch: PushBatch, first: dict[Side, int]) -> pa.Table:
        """Insert the rows, probe, and return what they produced, see `slidejoin.operator.push`."""
        for side in SIDES:
            self._parts.windows[side].measure(self._distances[side], first[side], batch.rows_of(side))
        if not self.programmed:
            return super().run(batch, first)
        with np.errstate(all="ignore"):  # as plain Python, the kernel would warn
            out = super().run(batch, first)
        if self._words[GAVE_UP]:
            self._rest = self._parts.plan.tuning.program_rest
        return out

    def _set_program(self) -> None:
        """Set the addresses of the program by which pairs are checked, and of the columns that it reads."""
        words, program = self._words, self._program
        assert program is not None  # noqa: S101 - the push is `programmed`
        self._bound = pair_filter(program, self._parts.windows)
        if self._bound is None:
            words[CODE_LENGTH] = -1  # records cannot be located by their ordinals now
            return
        code, constants, columns, sides, registers = self._bound.code
        for at, lines in zip(LINES, (code, constants, columns), strict=True):
            point(words, at, lines)
        words[SIDES_AT], words[REGISTERS] = address_of(sides), registers

    def _eligible(self, side: Side) -> NDArray[np.bool_]:
        """Return which rows of one side may match anything, (n,) bool, or (0,) for all."""
        eligible = self._eligible_rows[side]
        return NO_ROWS if eligible is None else eligible

    def _whole_keys(self, side: Side, keys: NDArray[np.int64]) -> NDArray[np.int64]:  # noqa: ARG002 - places of these
        """Return the keys by which rows of one side are checked where those in cells are not exact, (n,) int64."""
        return self._whole[side]

    def _dimensions(self, side: Side, times: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Return the further dimensions of one side's rows, (n,) or (n, dims) int64; None without one."""
        dims, keys = self._parts.windows[side].layout.dims, self._keys[side].values
        own = [keys[place] if times is None or place != self._time else times for place in dims]
        if len(own) < 2:  # noqa: PLR2004 - to be put side by side
            return own[0] if own else None
        return np.stack(own, axis=1)

    def _answered(self, side: Side) -> bool:
        """Whether the ranges of one side's keys say everything: closed ones do, where both keys are one."""
        first, second = self._pair
        terms = self._parts.plan.terms
        return self._closed and second is not None and same_keys(terms[first], terms[second], side)

    def _look_at(self, role: Side, table: BandCells, first: dict[Side, int]) -> None:
        """Set which of the rows that are inserted may match anything, after all others."""
        super()._look_at(role, table, first)
        eligible = self._eligible_rows[other(role)]
        self._words[self.probe_sides[role].at + ELIGIBLE] = 0 if eligible is None else address_of(eligible)

    def _look_at_probes(self, role: Side, table: BandCells) -> None:
        """Set the addresses of the ranges that one side's rows probe, and of what is checked."""
        at, words, probed = self.probe_sides[role].at, self._words, self._probed[role]
        if isinstance(probed, ShiftedKeys):
            # Their places are the keys themselves.
            ends, between = self._ends[role].addresses, True
            low, high, *further = ends
            words[at + LOWER], words[at + UPPER] = low, high
            for place, array in zip(SHIFTED, probed, strict=True):
                words[at + place] = address_of(array)
            for place, address in zip(BOUNDS, ends, strict=True):
                words[at + place] = address
        else:
            words[at + SHIFTS_AT] = 0
            words[at + LOWER], words[at + UPPER] = map(address_of, self._placed[role])
            low, high = address_of(probed.lo), address_of(probed.hi)
            further = [address_of(one) for one in (probed.lows, probed.highs) if one is not None]
            between = probed.between
        words[at + CHECKED_LOW], words[at + CHECKED_HIGH] = low if table.wide else 0, high
        if further and not self._answered(other(role)):
            words[at + FURTHER_LOW], words[at + FURTHER_HIGH] = further
            words[at + FURTHER_BETWEEN] = between
            words[at + FURTHER_COLUMN] = self._parts.windows[other(role)].layout.dims.index(self._pair[1])
        else:
            words[at + FURTHER_LOW] = 0
        if self._time is not None:
            words[at + TIME_COLUMN] = self._parts.windows[other(role)].layout.dims.index(self._time)


def _programmable(plan: Plan) -> tuple[int, ...]:
    """Return the places of terms that a program may check: of two that are each one range or the like, none."""
    places = range_terms(plan)
    few = len(places) <= MOST_TERMS and all(_served(plan.terms[place]) for place in places)
    return () if few else places


def _condition(plan: Plan, places: Sequence[int]) -> BoundFilter | None:
    """Return what is left to check on pairs if cells answer no term in these places; None if nothing is."""
    return plan.bound.filter({*plan.loose, *(plan.numbers[place] for place in places)})


def _served(term: Term) -> bool:
    """Tell whether what a term finds is one range, or all but one; where it is not exact, pairs are checked again."""
    return isinstance(term, RangeTerm) and (term.pieces == 1 or term.shape == "not-equal")


def _further(lo: NDArray[np.int64], hi: NDArray[np.int64], second: Ranges) -> Probed | None:
    """Return what rows probe, with the second term's ranges, (k, n); None if these have a form of their own."""
    if second.lo.shape[0] == 1:
        return Probed(lo, hi, np.ascontiguousarray(second.lo[0]), np.ascontiguousarray(second.hi[0]))
    below, above = second.hi[0], second.lo[1]
    # Rows that match nothing have empty ranges of the first term already.
    if second.lo.shape[0] > 2 or not ((below < above - 1) | (lo > hi)).all():  # noqa: PLR2004 - to both sides of a key
        return None
    return Probed(lo, hi, below + 1, above - 1, between=False)
