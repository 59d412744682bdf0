"""Nearest matches of left rows: chosen from their pairs, merged with those chosen before, and emitted.

Where the index orders rows by the compared value, a walk in that order takes the place of enumeration.

Right rows for the output are rows of the window, rows that were folded, or none.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.index.deferred import NearestProbes, ValueInKey
from slidejoin.index.probe import Probes
from slidejoin.operator.deferred.intervals import folded_from
from slidejoin.operator.deferred.matches import Matches
from slidejoin.operator.deferred.nearness import nearest_first
from slidejoin.operator.ingest.ingest import columns_of
from slidejoin.plan.deferred import NearestRule
from slidejoin.predicate.truth.evaluate import ColumnsBySide
from slidejoin.rows.arrow_buffers import array_of, by_name, empty_of
from slidejoin.rows.stored_tables import int64s
from slidejoin.rows.widths import TableLimit, Widths, widths_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.deferred import NearestRows
    from slidejoin.index.keys import KeyRanges
    from slidejoin.operator.deferred.intervals import Intervals
    from slidejoin.operator.parts import JoinParts
    from slidejoin.plan.key_layout import BranchLayout
    from slidejoin.predicate.ranges.terms import RangeTerm
    from slidejoin.rows.gathered import Gathered
    from slidejoin.rows.payload import Payload
    from slidejoin.stored import StoredValue

__all__ = ["NearestAnswers", "NearestSearch"]

NO_ROWS, ONE = np.empty(0, np.int64), np.int64(1)

NOBODY = -1
"""Instead of the ordinal of a right row: a left row without one."""

PAIR_BYTES = 16


class FoldedRows:
    """Right rows that have expired, but are still among the nearest of left rows that wait.

    Parameters
    ----------
    schema : pyarrow.Schema
        Their columns: those that are emitted or compared by distance.
    payload : Payload
        The rows of the window.

    Attributes
    ----------
    ordinals : (n,) int64
        Ascending.
    table : pyarrow.Table
    end : int
        All rows of the window come from this ordinal on.
    """

    def __init__(self, schema: pa.Schema, payload: Payload) -> None:
        self._payload = payload
        self.ordinals: NDArray[np.int64] = np.empty(0, np.int64)
        self.table = empty_of(schema)
        self.end = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return int(self.table.nbytes) + self.ordinals.nbytes

    def keep(self, ordinals: NDArray[np.int64], end: int) -> None:
        """Keep exactly these rows, (m,) int64, of those before `end`, which may expire then."""
        ordinals = np.unique(ordinals)
        names = self.table.schema.names
        table = self.take(names, ordinals).combine_chunks() if ordinals.size else self.table.slice(0, 0)
        self.ordinals, self.table, self.end = ordinals, table, end

    def take(self, names: Sequence[str], ordinals: NDArray[np.int64]) -> pa.Table:
        """Return columns of right rows, (n,) int64 ordinals, NULLs for nobody."""
        return next(self.tables(names, ordinals, TableLimit(1 << 62, 1 << 62)))[1]

    def tables(
        self, names: Sequence[str], ordinals: NDArray[np.int64], limit: TableLimit, others: Widths | None = None
    ) -> Iterator[tuple[slice, pa.Table]]:
        """Yield columns of right rows within a limit, and which rows these are; at least one table.

        `others` are the widths of the columns that each row gets in addition.
        """
        live = ordinals >= max(self.end, 0)
        here = ordinals[live]
        if not self.ordinals.size and names:
            every = self._payload.gather(names, np.where(live, ordinals, NOBODY))
            yield from self._unfolded(every, limit, others)
            return
        gathered = self._payload.gather(names, here)
        folded = np.flatnonzero(~live & (ordinals != NOBODY))
        places = np.searchsorted(self.ordinals, ordinals[folded])
        stops, rows = [ordinals.size], ordinals.size
        if gathered.nbytes + (0 if others is None else others.nbytes) + folded.size > limit.nbytes or rows > limit.rows:
            stops = limit.stops(self._widths(names, gathered.widths, live, folded, places, others)) or [0]
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(live)])
        start = 0
        for stop in stops:
            table = gathered.table(int(before[start]), int(before[stop]))
            if not names:
                table = _nothing(stop - start)
            elif table.num_rows < stop - start:
                low, high = np.searchsorted(folded, (start, stop))
                old = self.table.select(list(names)).take(array_of(places[low:high]))
                into = np.full(stop - start, NOBODY)
                into[live[start:stop]] = np.arange(table.num_rows)
                into[folded[low:high] - start] = table.num_rows + np.arange(high - low)
                table = _taken(table, old, into)
            yield slice(start, stop), table
            start = stop

    def _unfolded(self, every: Gathered, limit: TableLimit, others: Widths | None) -> Iterator[tuple[slice, pa.Table]]:
        """Yield columns where all rows are in the window, or nobody, see `tables`."""
        rows, start = every.rows, 0
        stops = [rows]
        if every.nbytes + (0 if others is None else others.nbytes) > limit.nbytes or rows > limit.rows:
            stops = limit.stops(every.widths if others is None else every.widths.joined(others)) or [0]
        for stop in stops:
            yield slice(start, stop), every.table(start, stop)
            start = stop

    def _widths(
        self,
        names: Sequence[str],
        live_widths: Widths,
        live: NDArray[np.bool_],
        folded: NDArray[np.int64],
        places: NDArray[np.int64],
        others: Widths | None,
    ) -> Widths:
        every = np.zeros(live.size, np.int64)
        every[live] = live_widths.fixed + (0 if live_widths.varying is None else live_widths.varying)
        if folded.size:
            old = widths_of(self.table.select(list(names)))
            every[folded] = old.fixed + (0 if old.varying is None else old.varying[places])
        widths = Widths(live.size, 0, every)
        return widths if others is None else widths.joined(others)


def _taken(one: pa.Table, two: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    """Return rows of two tables of one schema, counted through both; NULLs for places below 0."""
    rows: Any = pa.array(places, mask=places < 0)
    both = pa.concat_tables([one, two])
    # Chunks are joined first: rows of many are looked up one by one.
    return both.combine_chunks().take(rows)


def _nothing(rows: int) -> pa.Table:
    """Return a table without columns, which still has rows."""
    return pa.table({"": pa.nulls(rows)}).select([])


class Chosen(NamedTuple):
    """The right rows that are chosen for some left rows so far, best first.

    Attributes
    ----------
    counts : (n,) int64
        How many each left row has.
    right : (total,) int64
        Their ordinals, one left row after the other.
    """

    counts: NDArray[np.int64]
    right: NDArray[np.int64]

    @staticmethod
    def none(rows: int) -> Chosen:
        """Return what is chosen for rows without a pair."""
        return Chosen(np.zeros(rows, np.int64), NO_ROWS)

    @property
    def places(self) -> NDArray[np.int64]:
        """The left row of each, (total,) int64."""
        return np.repeat(np.arange(self.counts.size), self.counts)

    def part(self, first: int, last: int) -> Chosen:
        """Return what is chosen for rows first…last-1."""
        begin, count = int(self.counts[:first].sum()), int(self.counts[first:last].sum())
        return Chosen(self.counts[first:last], self.right[begin : begin + count])

    def at(self, places: NDArray[np.int64]) -> Chosen:
        """Return what is chosen for these rows, in this order."""
        counts = self.counts[places]
        begins = (np.cumsum(self.counts) - self.counts)[places]
        return Chosen(counts, np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())).of(
            self.right
        )

    def of(self, right: NDArray[np.int64]) -> Chosen:
        """Return these numbers as places in an array of ordinals."""
        return Chosen(self.counts, right[self.right])

    def behind(self, more: Chosen) -> Chosen:
        """Return these rows and, behind them, further ones."""
        return Chosen(np.concatenate([self.counts, more.counts]), np.concatenate([self.right, more.right]))


class NearestSearch:
    """Finds nearest matches without listing the pairs that they are chosen from.

    Parameters
    ----------
    parts : JoinParts
    rule : NearestRule
    split : RangeTerm
        ``right value <= left value``.
    place : int
        Of the plan's term in whose order right values are.
    """

    def __init__(self, parts: JoinParts, rule: NearestRule, split: RangeTerm, place: int) -> None:
        self._parts, self._rule, self._split, self._place = parts, rule, split, place

    @staticmethod
    def of(parts: JoinParts) -> NearestSearch | None:
        """Return the search of a join; None if distances do not follow from keys.

        They do if both columns are of one type: then both sides' keys are the same numbers, or those of doubles.
        """
        plan, rule = parts.plan, parts.plan.rule
        if not isinstance(rule, NearestRule) or rule.split is None or plan.is_union or plan.bound.never:
            return None
        one, two = rule.split.pair
        plain = all(len(key.parts) == 1 and key.parts[0][0] == 1 for key in (one, two))
        alike = one.space == two.space and one.bias == two.bias and one.step == two.step
        alike = alike and one.parts[0][1].type == two.parts[0][1].type
        places = [place for place, term in enumerate(plan.terms) if rule.orders(term)]
        if not (plain and alike and rule.split.exact and places) or one.space == "hash":
            return None
        term = plan.terms[places[0]]
        same = getattr(term, "pair", None) == rule.split.pair
        return NearestSearch(parts, rule, rule.split, places[0]) if same else None

    def rows(self, left: Intervals, table: pa.Table) -> NearestRows | None:
        """Return the nearest right rows of left rows, given as a table, too; None if pairs have to be listed."""
        plan, window = self._parts.plan, self._parts.windows["right"]
        (layout,) = window.layout.branches
        value = None if layout.closing is not None else self._value_in(layout)
        if value is None:
            return None
        with self._parts.stats.step("keys"):
            probing = self._probes(left, table, layout)
            if probing is None or plan.filter({*plan.loose, *probing.inexact, *window.index.inexact}) is not None:
                return None
        own = left.rows if plan.config.self_join else np.full(left.rows.size, -1)
        batch = NearestProbes(probing.probes, probing.split, probing.values, own, value, self._rule.k)
        with self._parts.stats.step("probe"):
            return window.index.nearest(batch, self._parts.workers)

    def _value_in(self, layout: BranchLayout) -> ValueInKey | None:
        """Return how right values follow from keys; None if keys are not in their order."""
        doubles = self._split.of_doubles("right")
        if layout.of.plain:
            return ValueInKey(-1, 0, -1, doubles) if layout.of.terms == (self._place,) else None
        if layout.of.range != self._place or layout.spread is not None:
            return None
        if self._place in layout.dims:
            return ValueInKey(-1, 0, layout.dims.index(self._place), doubles)
        return ValueInKey((1 << layout.span.bits) - 1, layout.span.base, -1, doubles)

    def _probes(self, left: Intervals, table: pa.Table, layout: BranchLayout) -> _Probing | None:
        """Return left rows as probes; None if some value's range is not one piece, or not exact."""
        plan, columns = self._parts.plan, columns_of(table)
        wanted = [term.ranges("left", columns) for term in plan.terms]
        at, own = self._split.ranges("left", columns), self._split.key("left", columns)
        if not (at.exact and own.exact):
            return None
        inexact = frozenset(number for number, one in zip(plan.numbers, wanted, strict=True) if not one.exact)
        passing = plan.bound.prefilter("left", columns)
        silent = None if passing is None else ~passing
        ranges = layout.ranges(wanted, silent, inexact)
        whole = _in_one_piece(ranges)
        if whole is None:
            return None
        ends = layout.ranges([*wanted[: self._place], at, *wanted[self._place + 1 :]], silent, inexact)
        # Where no key is up to the value, the whole range is above it.
        first = np.iinfo(np.int64).min
        split = np.where(ends.lo[0] <= ends.hi[0], ends.hi[0], first)
        lo, hi = whole
        probes = Probes(
            ordinals=left.rows, lo=lo, hi=hi, seen_from=left.since, seen_to=left.until,
            aux_lo=ranges.aux_lo, aux_hi=ranges.aux_hi, aux_dims=ranges.aux_dims,
        )  # fmt: skip
        return _Probing(probes, split, np.ascontiguousarray(own.values), inexact)


class _Probing(NamedTuple):
    """Left rows as probes: their ranges, the keys up to their values, these values, and terms that are not exact."""

    probes: Probes
    split: NDArray[np.int64]
    values: NDArray[np.int64]
    inexact: frozenset[int]


def _in_one_piece(ranges: KeyRanges) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return ranges of keys as one each, (1, n); None if there is something between the pieces of one."""
    lo, hi = ranges.lo[:1], ranges.hi[:1]
    for more_lo, more_hi in zip(ranges.lo[1:], ranges.hi[1:], strict=True):
        some = more_lo <= more_hi
        # Pieces ascend, and empty ones come last.
        if not bool((~some | (more_lo == hi[0] + 1)).all()):
            return None
        hi = np.where(some, more_hi, hi)
    return np.ascontiguousarray(lo), np.ascontiguousarray(hi)


class NearestAnswers:
    """Answers left rows with their nearest matches; those that were folded are stored until their left row expires.

    Parameters
    ----------
    parts : JoinParts
    """

    def __init__(self, parts: JoinParts) -> None:
        rule = parts.plan.rule
        assert isinstance(rule, NearestRule)  # noqa: S101 - see `DeferredPath`
        self._rule, self._parts = rule, parts
        self._matches, self._search = Matches(parts), NearestSearch.of(parts)
        names = dict.fromkeys([*parts.plan.layout.names("right"), rule.right])
        stored = parts.plan.kept_schema("right")
        schema = pa.schema([stored.field(name) for name in names])
        self._right = FoldedRows(schema, parts.windows["right"].payload)
        self._folded, self._first = Chosen.none(0), 0

    @property
    def nbytes(self) -> int:
        """Bytes of what was folded, and of the latest rows."""
        latest = 0 if self._parts.latest is None else self._parts.latest.nbytes
        return self._right.nbytes + self._folded.counts.nbytes + self._folded.right.nbytes + latest

    def growth(self, rows: int) -> int:  # noqa: ARG002 - see `AggregateAnswers`
        """Return by how many bytes so many right rows make answers grow at most, in addition to the windows."""
        return 0

    @property
    def most_rows(self) -> int:
        """Left rows that are answered at once at most."""
        return max(self._parts.limit.rows // self._rule.k, 1)

    # -- answers -------------------------------------------------------------------------------------------------------

    def tables(self, left: Intervals, order: NDArray[np.int64] | None) -> Iterator[pa.Table]:
        """Answer left rows and yield the output, rows in the `order` of their places, (n,) int64, if that is given."""
        rows, last = left.rows, self._latest(left)
        if last is not None and self._rule.outer and order is None:
            # One row for each, whether it has a partner or not.
            without = int(np.count_nonzero(last == NOBODY))
            self._parts.stats.pairs += last.size - without
            self._parts.stats.unmatched_left += without
            yield from self._output(rows, last)
            return
        chosen = self._chosen(left, last)
        if order is not None:
            chosen, rows = chosen.at(order), rows[order]
        # As-of joins mostly have one pair for each row.
        each = self._rule.k == 1 and chosen.right.size == rows.size
        one, two = rows if each else rows[chosen.places], chosen.right
        self._parts.stats.pairs += two.size
        if self._rule.outer:
            alone = NO_ROWS if each else np.flatnonzero(chosen.counts == 0)
            self._parts.stats.unmatched_left += alone.size
            at = (np.cumsum(chosen.counts) - chosen.counts)[alone]
            one, two = np.insert(one, at, rows[alone]), np.insert(two, at, NOBODY)
        if one.size:
            yield from self._output(one, two)

    def _latest(self, left: Intervals) -> NDArray[np.int64] | None:
        """Return the right row of each left row, (n,) int64, `NOBODY` for none, where the latest rows of keys tell."""
        latest = self._parts.latest
        if latest is None or not left.rows.size:
            return None
        with self._parts.stats.step("probe"):
            return latest.rows(*left, partial(self._matches.probing, left))

    def _chosen(self, left: Intervals, last: NDArray[np.int64] | None) -> Chosen:
        """Return the nearest matches of left rows in their intervals, and of what was folded; `last` if these tell."""
        if not left.rows.size:
            return Chosen.none(0)
        if last is not None:
            if last.min() > NOBODY:
                return Chosen(np.broadcast_to(ONE, last.size), last)
            some = last != NOBODY
            return Chosen(some.astype(np.int64), last[some])
        table = self._matches.probing(left)
        pairs = [(NO_ROWS, NO_ROWS)]
        rows = None if self._search is None else self._search.rows(left, table)
        if rows is not None:
            some = np.arange(self._rule.k) < rows.counts[:, None]
            pairs.append((np.repeat(np.arange(left.rows.size), rows.counts), rows.ordinals[some]))
        else:
            for places, right in self._matches.of(left, table):
                pairs.append(self._first_of(left.rows, places, right))
        old = self._folded_of(left.rows)
        pairs.append((old.places, old.right))
        places, right = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
        if sum(one.size > 0 for one, _ in pairs) > 1:
            places, right = self._first_of(left.rows, places, right)
        return Chosen(np.bincount(places, minlength=left.rows.size), right)

    def _first_of(
        self, rows: NDArray[np.int64], places: NDArray[np.int64], right: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return of pairs, (n,) int64, the first k of each left row, by place, nearest first."""
        rule, n = self._rule, places.size
        if n == 0:
            return places, right
        with self._parts.stats.step("filter"):
            values = self._parts.windows["left"].payload.take([rule.left], rows[places])
            others = self._right.take([rule.right], right)
            return nearest_first(
                rule, places, right, ColumnsBySide({"left": by_name(values), "right": by_name(others)})
            )

    def _output(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Iterator[pa.Table]:
        """Yield the output rows of pairs, (n,) int64 ordinals, within the limit of a table."""
        plan, limit = self._parts.plan, self._parts.limit
        if plan.config.output == "positions":
            step = limit.most_rows(PAIR_BYTES)
            for start in range(0, left.size, step):
                two = right[start : start + step]
                some = self._rule.outer and int(two.min()) == NOBODY
                ordinals: pa.Array[Any] = pa.array(two, mask=two == NOBODY) if some else array_of(two)
                yield pa.Table.from_arrays([array_of(left[start : start + step]), ordinals], schema=plan.layout.schema)
            return
        if self._parts.pair_tables is not None and not self._right.ordinals.size:
            yield from self._parts.output().tables(left, np.where(right >= max(self._right.end, 0), right, NOBODY))
            return
        names = {side: plan.layout.names(side) for side in ("left", "right")}
        payload = self._parts.windows["left"].payload
        step = limit.most_rows(payload.width(names["left"]))
        for start in range(0, left.size, step):
            with self._parts.stats.step("payload"):
                gathered = payload.gather(names["left"], left[start : start + step])
            for cut, table in self._right.tables(names["right"], right[start : start + step], limit, gathered.widths):
                yield plan.layout.pairs(gathered.table(cut.start, cut.stop), table)

    # -- what was folded -----------------------------------------------------------------------------------------------

    def _folded_of(self, rows: NDArray[np.int64]) -> Chosen:
        """Return what was folded of left rows, ascending."""
        if not self._folded.counts.size:
            return Chosen.none(rows.size)
        first, last = (int(at) for at in np.searchsorted(rows, (self._first, self._first + self._folded.counts.size)))
        folded = self._folded.at(rows[first:last] - self._first)
        return Chosen.none(first).behind(folded).behind(Chosen.none(rows.size - last))

    def fold(self, left: Intervals, end: int) -> None:
        """Choose among the right rows before `end` for all left rows that wait, so that they may leave the window."""
        if self._parts.latest is not None:
            self._parts.latest.give_up()  # it would answer rows that expire later, and lacks right rows to come
        chosen = Chosen.none(0)
        for first in range(0, left.rows.size, self.most_rows):
            part = left.part(first, first + self.most_rows)
            chosen = chosen.behind(self._chosen(part, self._latest(part)))
        self._right.keep(chosen.right, end)
        self._folded, self._first = chosen, int(left.rows[0]) if left.rows.size else 0

    def forget(self, ordinal: int) -> None:
        """Forget the left rows before that ordinal."""
        gone = min(max(ordinal - self._first, 0), self._folded.counts.size)
        if gone:
            # Views: the memory goes with the last of them, or with the next fold.
            self._folded = self._folded.part(gone, self._folded.counts.size)
            self._first += gone
        if not self._folded.right.size and self._right.ordinals.size:
            self._right.keep(NO_ROWS, self._right.end)

    # -- state ---------------------------------------------------------------------------------------------------------

    def saved(self) -> tuple[dict[str, int], list[pa.Table]]:
        """Return what was folded, as numbers and tables."""
        numbers = {"first": self._first, "end": self._right.end}
        counts = pa.table({"count": array_of(np.ascontiguousarray(self._folded.counts))})
        right = pa.table({"right": array_of(np.ascontiguousarray(self._folded.right))})
        ordinals = pa.table({"ordinal": array_of(self._right.ordinals)})
        return numbers, [counts, right, ordinals, self._right.table]

    def load(self, stored: StoredValue, tables: list[pa.Table], waiting: range, until: int) -> None:
        """Take what `saved` returned; these left rows wait, and right rows before `until` may have been folded.

        Raises
        ------
        StateError
            If that cannot have been folded.
        """
        end = stored["end"].whole(0, until)
        counts = int64s(tables[0].column(0), 0, self._rule.k, "the numbers of nearest rows")
        right = int64s(tables[1].column(0), 0, end - 1, "the nearest rows")
        ordinals = int64s(tables[2].column(0), 0, end - 1, "the ordinals of right rows that were nearest")
        known = bool((ordinals[1:] > ordinals[:-1]).all()) and tables[3].num_rows == ordinals.size
        if not known or int(counts.sum()) != right.size or not bool(np.isin(right, ordinals).all()):
            msg = f"{right.size} nearest rows of {counts.size} left rows differ from the {ordinals.size} stored ones"
            raise StateError(msg)
        self._folded, self._first = Chosen(counts, right), folded_from(stored, counts.size, waiting)
        self._right.ordinals, self._right.end = ordinals, end
        self._right.table = tables[3].cast(self._right.table.schema)
        if self._parts.latest is not None:
            if counts.size:
                self._parts.latest.give_up()
            self._parts.latest.load()

    @property
    def schemas(self) -> list[pa.Schema]:
        """The schemas of the saved tables."""
        numbers = [pa.schema([(name, pa.int64())]) for name in ("count", "right", "ordinal")]
        return [*numbers, empty_of(self._right.table.schema).schema]
