"""The window of one side: compute keys, insert rows into index and payload, expire them. Both sides use this class."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from slidejoin.index.factory import Keyspace, make_index
from slidejoin.index.protocol import Index, Occupancy, Unfit
from slidejoin.operator.window.distances import Distances
from slidejoin.operator.window.matched_rows import MatchedRows
from slidejoin.plan.key_layout import TermKeys
from slidejoin.predicate.truth.values import Batch
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.rows.payload import Payload
from slidejoin.rows.piece import Piece
from slidejoin.rows.widths import SLICE, TableLimit, in_one_chunk
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.keys import Prepared
    from slidejoin.index.part_format import SealedPart
    from slidejoin.operator.window.distances import RowDistances
    from slidejoin.plan.branch import Branch
    from slidejoin.plan.composite import Extent
    from slidejoin.plan.index_terms import IndexTerms
    from slidejoin.plan.key_layout import KeyLayout
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["SideWindow", "branch_keys", "term_keys", "too_far"]

LONGEST = 1 << 29
"""Ordinals that an index with a place for each may span: 32-bit positions can distinguish as many."""


def _expected(plan: Plan, side: Side) -> int:
    """Return how many rows of a side a window is going to have, 0 if time decides."""
    window = plan.config.window
    # Rows wait for those of the other side that are answered as they leave.
    return sum(window.capacity(one) or 0 for one in ((side,) if plan.rule is None else SIDES))


def too_far(span: int, rows: int, plan: Plan) -> bool:
    """Tell whether `rows` rows of a time window span too many ordinals for an index that has a place for each.

    A few old rows would keep the places of all newer ones, and positions can distinguish `LONGEST` rows.
    """
    return span > min(plan.tuning.ordinal_spread * (rows + plan.tuning.largest_slice), LONGEST)


def term_keys(plan: Plan, side: Side, table: pa.Table) -> list[TermKeys]:
    """Compute the keys of a side's rows in each branch, and which rows can match there at all."""
    each = [branch_keys(branch, side, table) for branch in plan.branches]
    if len(each) == 1:
        return each
    return [keys._replace(inexact=plan.counted(number, keys.inexact)) for number, keys in enumerate(each)]


def branch_keys(branch: Branch, side: Side, table: pa.Table) -> TermKeys:
    """Compute the keys of a side's rows for one branch; its terms are counted from 0."""
    columns = Batch(table)
    passing = branch.bound.prefilter(side, columns)
    values, inexact = [], set()
    for number, term in zip(branch.numbers, branch.terms, strict=True):
        key = term.key(side, columns)
        if key.valid is not None:
            passing = key.valid if passing is None else passing & key.valid
        if not key.exact:
            inexact.add(number)
        values.append(key.values)
    return TermKeys(tuple(values), passing, frozenset(inexact), table.num_rows)


class SideWindow:
    """Rows of one side that arriving rows of the other side may still see, and the index over their keys.

    Parameters
    ----------
    plan : Plan
        The bound join.
    side : {"left", "right"}
        Whose rows.
    payload : Payload, optional
        Of the left window of a self-join, for the right one: the rows are stored once.
    merge : bool, default True
        Whether sub-windows are merged.
    chosen : IndexTerms
        The index to begin with, and the terms that it answers.
    closing : sequence of pair of int
        Places of terms whose ranges may be closed, each with the term that closes them.
    make_index : callable
        Makes an empty index, see `slidejoin.operator.topology.join_topology`.
    indexed : bool, default True
        Whether the rows are looked for by their keys; if not, the index stays empty.
    bounded : bool, default True
        Whether a count window says how many rows there are at most; if not, they stay until the operator expires them.
    marked : bool, default False
        Whether it is marked which rows have a match.

    Attributes
    ----------
    indexed : bool
        Whether the rows are looked for by their keys.
    rows_seen : int
        Ordinal of the next row. The operator assigns ordinals, before it appends rows.
    chosen : IndexTerms
        The index in use and the terms that it answers.
    layout : KeyLayout
        How the keys of the plan's terms are laid out for the index.
    distances : Distances
        How far the keys of such terms are apart.
    index_changes : int
        How often the rows were put into another index, or one of other terms.
    matched : MatchedRows or None
        Which rows have a match, where that is marked.
    """

    def __init__(
        self,
        plan: Plan,
        side: Side,
        payload: Payload | None = None,
        *,
        chosen: IndexTerms,
        merge: bool = True,
        closing: Sequence[tuple[int, int]] = (),
        make_index: Callable[[str, Keyspace, Occupancy], Index] = make_index,
        indexed: bool = True,
        bounded: bool = True,
        marked: bool = False,
    ) -> None:
        self.plan = plan
        self._make_index = make_index
        self.side: Side = side
        self.shared = payload is not None
        if payload is None:
            payload = Payload(plan.kept_schema(side), merge, _expected(plan, side), plan.tuning)
        self.payload = payload
        self.merge = merge
        self.rows_seen = 0
        self.index_changes = 0
        self._capacity = plan.config.window.capacity(side) if bounded else None
        self.indexed = indexed
        self.distances = Distances(plan.terms, side, closing)
        self.chosen = chosen
        self.layout: KeyLayout = self._closed(plan.key_layout(side, chosen))
        self.index: Index = self._new_index(chosen.algorithm)
        self.matched = MatchedRows() if marked else None
        self._marked_chunks = self._expired_chunks = self.payload.chunks

    def _new_index(self, algorithm: str, next_row: int | None = None) -> Index:
        """Return an empty index for keys of the present layout."""
        options, branches = self.plan.config.options, self.layout.branches
        merge, tuning = self.merge, self.plan.tuning
        of = [Keyspace(len(one.dims), one.axis, options, merge, (), one.time, tuning) for one in branches]
        if len(of) > 1:
            each = tuple((one.algorithm, own) for one, own in zip(branches, of, strict=True))
            return self._make_index(algorithm, Keyspace(0, None, options, self.merge, each), self._occupancy(next_row))
        of[0] = of[0]._replace(at_rest=not self.plan.config.window.expires)
        return self._make_index(algorithm, of[0], self._occupancy(next_row))

    @property
    def first(self) -> int:
        """Ordinal of the oldest stored row."""
        return min(self.payload.first(self.rows_seen), self.rows_seen)

    def _occupancy(self, next_row: int | None = None) -> Occupancy:
        """Return which ordinals are stored, before the row `next_row` if that is given."""
        end = self.rows_seen if next_row is None else next_row
        return Occupancy(min(self.payload.first(end), end), end, self.payload.rows, self._capacity)

    # -- coming --------------------------------------------------------------------------------------------------------

    def start_at(self, ordinal: int) -> None:
        """Give the first row that ordinal; the window is empty."""
        self.rows_seen = ordinal
        self.index = self._new_index(self.index.name)
        if self.matched is not None:
            self.matched.start_at(ordinal)

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one: rows that have expired already."""
        self.rows_seen = ordinal
        if not self.shared:
            self.payload.skip_to(ordinal)
        self.index.skip_to(ordinal)

    def prepare(self, table: pa.Table, first: int) -> Prepared:
        """Compute the keys of rows, the first with that ordinal, and prepare them for the index.

        If the layout of keys has no room for theirs, the stored rows move to an index with a wider one first.
        """
        keys = term_keys(self.plan, self.side, table)
        self.measure(self.distances.of(keys[0]), first, table.num_rows)
        if not self.layout.fits(keys):
            self._lay_out(self.chosen, first, keys)
        return self.index.prepare(self.layout.rows(keys), first)

    def append(
        self, table: pa.Table, times: NDArray[np.int64] | None, first: int, prepared: Prepared | None = None
    ) -> None:
        """Take the newest rows, in arrival order, the first with that ordinal; they may be prepared already.

        `times` are their event times in ticks, (n,) int64.
        """
        if table.num_rows == 0:
            return
        if not self.indexed:
            self.hold(table, first, None if times is None else int(times.max()))
            return
        prepared = self.take(table, times, first, prepared)
        # The right window of a self-join holds rows that the left one has taken.
        self.index.insert(prepared, self.payload.rows)
        self.refit()

    def take(
        self, table: pa.Table, times: NDArray[np.int64] | None, first: int, prepared: Prepared | None = None
    ) -> Prepared:
        """Do all of `append` but the insertion into the index, and return what has to be inserted; then `refit`."""
        prepared = self.prepare(table, first) if prepared is None else prepared
        self._replace(self._refitted(Unfit.FULL, table.num_rows, first), first)
        self.hold(table, first, None if times is None else int(times.max()))
        return prepared

    def load(self, table: pa.Table, stretches: Sequence[tuple[int, int]], rows_seen: int) -> None:
        """Load rows with their former ordinals: the first and the number of each stretch; the window is empty."""
        start, scope = 0, self.plan.scope
        self.start_at(stretches[0][0] if stretches else rows_seen)
        for first, rows in stretches:
            self.skip_to(first)
            # In parts, because only whole sub-windows expire.
            most = max(rows // 8, self.plan.tuning.loaded_rows) if self.plan.config.window.expires else rows
            parts = TableLimit(most, SLICE.nbytes)
            for part in map(in_one_chunk, parts.cut(table.slice(start, rows))):
                ordinal = self.rows_seen
                self.rows_seen += part.num_rows
                self.append(part, scope.times(self.side, by_name(part)), ordinal)
            start += rows
        self.skip_to(rows_seen)

    def hold(self, table: pa.Table, first: int, time_max: int | None = None) -> None:
        """Store the newest rows without their keys, which the index gets separately."""
        if not self.shared:
            self.payload.append_rows(first, table, time_max, self.payload.rows + table.num_rows)

    def begin(self, layout: KeyLayout) -> None:
        """Set the layout of the keys of parts that are attached; the window is empty."""
        self.layout = self._closed(layout)
        self.index = self._new_index(self.index.name)

    def attach(self, table: pa.Table, part: SealedPart | None, distances: RowDistances, time_max: int | None) -> None:
        """Take rows whose keys were sealed before; their ordinals follow those that are here.

        Rows that are not looked for have no keys. `distances` are those between the keys of the rows.
        """
        self.measure(distances, self.rows_seen, table.num_rows)
        if part is not None:
            self._replace(self._refitted(Unfit.FULL, table.num_rows))
        if not self.shared:
            self.payload.append(Piece(self.rows_seen, table, time_max), self.payload.rows + table.num_rows)
        if part is not None:
            self.index.attach(part, self.rows_seen, self.payload.rows)
        self.rows_seen += table.num_rows

    # -- leaving -------------------------------------------------------------------------------------------------------

    def expire(self, ordinal: int) -> None:
        """Drop whole sub-windows before that ordinal."""
        self.index.expire(ordinal)
        chunks = self.payload.chunks
        if not self.shared and chunks and chunks[0].end <= ordinal:
            self.payload.expire(ordinal)
        if self.matched is not None:  # small pushes of other joins save the call
            self._forget_marks()

    def expire_below(self, oldest: int, payload_oldest: int) -> None:
        """Drop sub-windows of a time window whose event times all lie below `oldest`, rows below `payload_oldest`."""
        if not self.shared:
            self.payload.expire_below(payload_oldest)
        # The payload has another list since rows were dropped; an index that goes by ordinals expires no others.
        if self.payload.chunks is self._expired_chunks and type(self.index).expire_below is Index.expire_below:
            return
        self._expired_chunks = self.payload.chunks
        self.index.expire_below(self.time_dimension, oldest, self.first)
        old = self.index
        if (smaller := self._refitted(Unfit.SPARSE)) is not None:
            self._replace(smaller)
            if self.index.nbytes > old.nbytes:
                self.index = old  # with fewer buckets, overflow lines took more than was saved
        self._forget_marks()

    def _forget_marks(self) -> None:
        """Forget the marks of rows that the payload has dropped since the last call: it has another list then."""
        if self.matched is not None and self.payload.chunks is not self._marked_chunks:
            self._marked_chunks = self.payload.chunks
            self.matched.keep_only(self.payload.stretches)

    @property
    def time_dimension(self) -> int:
        """The further dimension of the index that event times are, -1 for the key; only in a time window."""
        place = [term.shape for term in self.plan.terms].index("scope")
        return self.layout.dims.index(place) if place in self.layout.dims else -1

    @property
    def borrows(self) -> bool:
        """Whether rows may be slices of larger memory, see `own`."""
        return self.payload.keeps_pieces and not self.shared

    def own(self, ordinal: int) -> None:
        """Free the rows from that ordinal on of larger memory that they are slices of."""
        self.payload.own(ordinal)

    # -- another index for the same rows -------------------------------------------------------------------------------

    def stretched(self, coming: int = 0) -> bool:
        """Whether so many more rows would stretch the index, see `too_far`; those of a count window never do."""
        counted = self.plan.scope.counted is not None
        return not counted and too_far(self.rows_seen + coming - self.first, self.payload.rows + coming, self.plan)

    def measure(self, distances: RowDistances, first: int, rows: int) -> None:
        """Take the distances of the newest rows, the first with that ordinal, before any probe sees them."""
        self.distances.add(distances, first, rows, min(self.payload.first(first), first), self.payload.rows)

    def lengthened(self, table: pa.Table) -> bool:
        """Whether rows that come would make closed ranges much wider, see `Distances.lengthened`."""
        pair = self.chosen.pair
        if pair is None or not table.num_rows:
            return False
        return self.distances.lengthened(pair, self.distances.of(term_keys(self.plan, self.side, table)[0]))

    @property
    def hashed(self) -> bool:
        """Whether a key does not say all about its terms, so that candidates are compared in these again."""
        return not set(self.layout.dims).isdisjoint(self.chosen.key)

    def outgrown(self, coming: int) -> bool:
        """Whether so many more rows need another index first."""
        return self._refitted(Unfit.FULL, coming) is not None

    def change_index(self, chosen: IndexTerms) -> None:
        """Put the rows into another index, or one of other terms."""
        self.index_changes += 1
        self._lay_out(chosen, self.rows_seen)

    def _lay_out(self, chosen: IndexTerms, next_row: int, coming: Sequence[TermKeys] = ()) -> None:
        """Put the rows before `next_row` into an index whose layout of keys has room for them and for those to come."""
        extents: dict[int, Extent] = {}
        if self.plan.laid_out(chosen):
            stored = (term_keys(self.plan, self.side, table) for _, table in self._live(next_row))
            extents = self.plan.key_extents(chain(stored, [coming] if coming else []), chosen)
        self.chosen = chosen
        self.layout = self._closed(self.plan.key_layout(self.side, chosen, extents))
        self._replace(self._new_index(chosen.algorithm, next_row), next_row)

    def _closed(self, layout: KeyLayout) -> KeyLayout:
        """Return a layout of the terms in use that closes ranges, if these are closed."""
        pair = self.chosen.pair
        return layout if pair is None else layout.closed(partial(self.distances.closing, pair))

    def relieve(self) -> bool:
        """Rebuild the index with more room if keys crowd in it, and tell whether that was done."""
        roomier = self._refitted(Unfit.CROWDED)
        self._replace(roomier)
        return roomier is not None

    def look_up(self) -> None:
        """Look for rows by their keys from now on: those that are here are inserted into the index."""
        self.indexed = True
        self._lay_out(self.chosen, self.rows_seen)

    def refit(self) -> None:
        """Rebuild the index if it cannot distinguish its keys."""
        self._replace(self._refitted(Unfit.INDISTINCT))

    def _refitted(self, why: Unfit, coming: int = 0, next_row: int | None = None) -> Index | None:
        """Return what `Index.refitted` does of the rows before `next_row`, all if it is not given."""
        return self.index.refitted(self._occupancy(next_row), why, coming) if self.index.refits else None

    def _replace(self, new: Index | None, next_row: int | None = None) -> None:
        """Insert the rows, those before `next_row` if that is given, into an empty index, which is used from now on."""
        end = self.rows_seen if next_row is None else next_row
        while new is not None:
            for base, table in self._live(end):
                new.skip_to(base)
                rows = new.prepare(self.layout.rows(term_keys(self.plan, self.side, table)), base)
                new.insert(rows, table.num_rows)
            new.skip_to(end)
            self.index = new
            new = new.refitted(self._occupancy(end), Unfit.INDISTINCT)

    def _live(self, end: int) -> Iterator[tuple[int, pa.Table]]:
        """Iterate over the rows before an ordinal, with the ordinal of the first row of each table."""
        for piece in self.payload:
            # In a self-join the payload may be ahead: it takes the rows of a push with the left window.
            rows = min(piece.table.num_rows, end - piece.base)
            if rows > 0:
                yield piece.base, piece.table.slice(0, rows)

    # -- memory --------------------------------------------------------------------------------------------------------

    def growth(self, table: pa.Table, *, closely: bool) -> int:
        """Return by how many bytes these rows, as they are held, make rows and index grow at most.

        The exact computation also uses the rows' keys, which takes some 100 ns a row.
        """
        keys = None
        if closely and self.indexed:
            of_terms = term_keys(self.plan, self.side, table)
            if self.layout.fits(of_terms):
                rows = self.layout.rows(of_terms)
                keys = rows.keys if rows.matchable is None else rows.keys[rows.matchable]
        held = 0 if self.shared else self.payload.growth(table)
        if self.matched is not None:
            held += self.matched.growth(self.rows_seen, table.num_rows)
        if not self.indexed:
            return held
        return held + self.index.growth(self._occupancy(), table.num_rows, keys)

    @property
    def nbytes(self) -> int:
        """Bytes of rows, index and marks."""
        marks = 0 if self.matched is None else self.matched.nbytes
        return self.index.nbytes + marks + (0 if self.shared else self.payload.nbytes)
