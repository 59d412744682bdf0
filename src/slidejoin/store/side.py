"""The window of one side: rows, index and expiry together. Both sides are this one class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.arrays import by_name
from slidejoin.index.band_cells import LONGEST, BandCells
from slidejoin.index.bi_sort import BiSort, build_run
from slidejoin.index.foreseeing import cells_growth, new_cells, runs_growth, widens
from slidejoin.index.structure import Structure, make_structure
from slidejoin.options import STRUCTURES
from slidejoin.store.payload import Payload
from slidejoin.store.piece import Piece
from slidejoin.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.bi_sort import Run
    from slidejoin.plan import Plan
    from slidejoin.predicate.expr import Side

__all__ = ["LARGEST_SLICE", "SideWindow", "run_of", "too_far"]

FIRST_ROWS = 64
"""Rows that a table of cells is first made for."""

LARGEST_SLICE = 1 << 18
"""Rows of both sides that are inserted before their probes."""

LOADED_AT_ONCE = 1 << 11
"""Rows that are put at once into a window that is loaded."""

LARGE = 1 << 16

CROWDED = 1.5
"""Rows of a table, over the number that it was made for, from which on a larger one is made."""

ROOMY = 1.25
"""Rows that a table was made for, over those that a time window has had since, from which on a smaller one is made."""

SMALLEST_ROOMY = 1 << 12
"""Rows that a table was made for below which it stays as it is."""

FARTHEST = 4
"""A table may span this many times the rows that live; one row far ahead in time could else make it grow for ever."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """The keys of some rows of one side, ready for an index.

    Attributes
    ----------
    keys : (n,) int64
        Of the indexed term.
    aux : (n, d) int64
        Of the others.
    kept : (n,) bool or None
        Rows that may match anything; None for all.
    inexact : frozenset of int
        Terms of which some key was clipped.
    """

    keys: NDArray[np.int64]
    aux: NDArray[np.int64]
    kept: NDArray[np.bool_] | None
    inexact: frozenset[int]


def keyed(plan: Plan, side: Side, table: pa.Table) -> Keyed:
    """Compute the keys of a side's rows."""
    columns = by_name(table)
    kept = plan.bound.prefilter(side, columns)
    keys = []
    inexact = set()
    for number, term in enumerate(plan.terms):
        key = term.key(side, columns)
        if key.valid is not None:
            kept = key.valid if kept is None else kept & key.valid
        if not key.exact:
            inexact.add(plan.numbers[number])
        keys.append(key.values)
    aux = np.stack(keys[1:], axis=1) if len(keys) > 1 else np.empty((table.num_rows, 0), np.int64)
    return Keyed(np.ascontiguousarray(keys[0]), np.ascontiguousarray(aux), kept, frozenset(inexact))


def run_of(plan: Plan, side: Side, table: pa.Table, base: int) -> Run:
    """Compute the keys of one piece of a side's rows and sort them; `base` is the ordinal of its first row."""
    rows = keyed(plan, side, table)
    return build_run(base, table.num_rows, rows.keys, rows.aux, rows.kept, rows.inexact)


def too_far(span: int, rows: int) -> bool:
    """Tell whether `rows` rows of a time window span too many ordinals for an index that has a place for each.

    Few old ones that stay would keep the places of all that came after them, and positions tell `LONGEST` rows apart.
    """
    return span > min(FARTHEST * (rows + LARGEST_SLICE), LONGEST)


class SideWindow:
    """Rows of one side that arriving rows of the other side may still see."""

    def __init__(
        self, plan: Plan, side: Side, payload: Payload | None = None, *, merge: bool = True, algorithm: str = "bi_sort"
    ) -> None:
        self.plan = plan
        self.side: Side = side
        self.shared = payload is not None
        self.payload = Payload(plan.kept_schema(side), merge) if payload is None else payload
        self.merge = merge
        self.rows_seen = self.made_at = 0
        """Ordinals of the row to come, and of the row that was to come when the table of cells was made."""
        self.roomy = False
        self.index: BiSort | BandCells | Structure = self._index(algorithm)

    def start_at(self, ordinal: int) -> None:
        """Give the first row that ordinal; no row is here yet."""
        self.rows_seen = ordinal
        self.index = self._index(self.index.name)

    def skip_to(self, ordinal: int) -> None:
        """Leave out the ordinals before that one: rows that have left already."""
        self.rows_seen = ordinal
        if not self.shared:
            self.payload.skip_to(ordinal)
        self.index.skip_to(ordinal)

    def _index(
        self, algorithm: str, coming: int = 0, *, rows: int = 0, wide: bool = False
    ) -> BiSort | BandCells | Structure:
        """Return an empty index for the rows from the window's first on, `rows` or those that are here and come."""
        plan, dims = self.plan, len(self.plan.terms) - 1
        if algorithm in STRUCTURES:
            asked, window = plan.config.options, plan.config.window
            options = asked if asked is not None and asked.name == algorithm else STRUCTURES[algorithm]()
            return make_structure(
                options, dims, window.size(self.side) if isinstance(window, CountWindow) else None, self.first
            )
        if algorithm != "band_cells" or plan.axes is None:
            return BiSort(dims, merge=self.merge, options=plan.config.options)
        self.made_at = self.rows_seen
        return BandCells(
            plan.axes[self.side], dims, rows or self._cell_rows(coming), self.first, wide=wide, roomy=self.roomy
        )

    def _cell_rows(self, more: int = 0) -> int:
        """Rows that a table of cells should be made for, with so many rows to come."""
        live, window = self.rows_seen - self.first + more, self.plan.config.window
        # Small tables grow fourfold, so that a row is inserted 1.3 times on average; large ones twofold: memory.
        rows = max(FIRST_ROWS, (4 if live < LARGE else 2) * live)
        if isinstance(window, CountWindow):
            # The rows of one slice are inserted before the oldest ones leave, and find room among these.
            size = window.size(self.side)
            rows = size if 2 * rows > size else rows
        return rows

    def sort(self, table: pa.Table) -> Run | None:
        """Sort the keys of the rows that come next, for `append`; None if they need not be sorted."""
        if table.num_rows == 0 or not isinstance(self.index, BiSort):
            return None
        return run_of(self.plan, self.side, table, self.rows_seen)

    def append(self, table: pa.Table, times: NDArray[np.int64] | None, run: Run | None = None) -> None:
        """Take the newest rows, in arrival order, whose keys may be sorted already.

        `times` are their event times in ticks, (n,) int64.
        """
        if table.num_rows == 0:
            return
        time_max = None if times is None else int(times.max())
        run = self.sort(table) if run is None else run
        if run is not None:
            self.append_run(table, run, time_max)
            return
        rows, coming = keyed(self.plan, self.side, table), table.num_rows
        if self.outgrown(coming):
            self.rebuild_cells(coming)
        self.hold(table, time_max)
        index = self.index
        assert not isinstance(index, BiSort)  # noqa: S101 - sorted runs were given theirs
        index.append(rows.keys, rows.kept, rows.aux, rows.inexact)
        if isinstance(index, BandCells) and not (index.wide or index.narrow):
            self.rebuild_cells()

    def load(self, table: pa.Table, stretches: Sequence[tuple[int, int]], rows_seen: int) -> None:
        """Take rows with the ordinals that they had: the first and the number of each stretch; no row is here yet."""
        start, scope = 0, self.plan.scope
        self.start_at(stretches[0][0] if stretches else rows_seen)
        for first, rows in stretches:
            self.skip_to(first)
            # In parts, because only whole sub-windows expire.
            step = max(rows // 8, LOADED_AT_ONCE)
            for at in range(start, start + rows, step):
                part = table.slice(at, min(step, start + rows - at)).combine_chunks()
                self.append(part, None if scope is None else scope.ticks(self.side, by_name(part))[0])
            start += rows
        self.skip_to(rows_seen)

    def hold(self, table: pa.Table, time_max: int | None = None) -> None:
        """Take the newest rows without their keys, which the index is given apart."""
        if not self.shared:
            self.payload.append_rows(self.rows_seen, table, time_max, self.payload.rows + table.num_rows)
        self.rows_seen += table.num_rows

    def hold_values(self, values: Sequence[NDArray[np.generic]], rows: int, time_max: int | None = None) -> None:
        """Take the newest rows without their keys, given as `Payload.append_values` takes them."""
        self.payload.append_values(self.rows_seen, values, rows, time_max, self.payload.rows + rows)
        self.rows_seen += rows

    def append_run(self, table: pa.Table, run: Run, time_max: int | None) -> None:
        """Take rows whose keys are sorted already; their ordinals follow those that are here."""
        assert isinstance(self.index, BiSort)  # noqa: S101 - who sorts keys has chosen sorted runs
        run = self.index.rebased(run, self.rows_seen)
        if not self.shared:
            self.payload.append(Piece(run.base, table, time_max), self.payload.rows + table.num_rows)
        self.index.append(run, self.payload.rows)
        self.rows_seen += run.rows

    # -- another index for the same rows -----------------------------------------------------------------------------

    def outgrown(self, coming: int) -> bool:
        """Whether so many more rows are better put into a larger table of cells."""
        index = self.index
        return (
            isinstance(index, BandCells)
            and self.rows_seen + coming - index.floor > CROWDED * index.rows
            and self._cell_rows(coming) > index.rows
        )

    def growth(self, table: pa.Table, *, closely: bool) -> int:
        """Return by how many bytes these rows, as they are held, make rows and index grow at most.

        A table of cells that is made anew counts whole, because the old one is there until it is done. Looked at
        closely, the rows' keys tell more, which takes some 100 ns a row.
        """
        index, coming, rows = self.index, table.num_rows, 0 if self.shared else self.payload.growth(table)
        if isinstance(index, Structure):
            return rows + index.growth(coming)
        keys = self._keys_to_come(table) if closely else None
        if isinstance(index, BiSort):
            return rows + runs_growth(index, coming, keys)
        wide, before = widens(index, keys), self.rows_seen - self.first
        # It may be made anew in any of the slices that the rows are cut into, and small ones grow by more.
        made_for = max(self._cell_rows(coming), self._cell_rows(min(coming, max(LARGE - 1 - before, 0))))
        crowded = self.rows_seen + coming - index.floor > CROWDED * index.rows
        if not wide and not (crowded and made_for > index.rows):
            return rows + cells_growth(index, coming, keys)
        columns = index.dims + (index.wide or wide)
        return rows + new_cells(made_for, self.payload.rows + coming, before + coming, columns)

    def _keys_to_come(self, table: pa.Table) -> NDArray[np.int64]:
        """Return the indexed keys of rows that may match, (m,) int64."""
        rows = keyed(self.plan, self.side, table)
        return rows.keys if rows.kept is None else rows.keys[rows.kept]

    def rebuild_cells(self, coming: int = 0, rows: int = 0) -> None:
        """Make the table anew: for more rows or fewer, or for keys that it does not tell apart."""
        old = self.index
        assert isinstance(old, BandCells)  # noqa: S101 - its callers have looked
        wide = not old.fits(rows or self._cell_rows(coming))
        new = self._index("band_cells", coming, rows=rows, wide=wide)
        new.expire(old.floor)
        self._refill(new)

    def make_roomier(self) -> None:
        """Make the table of cells anew with more buckets for as many rows, and so each that is made from here on."""
        assert isinstance(self.index, BandCells)  # noqa: S101 - its callers have looked
        self.roomy = True
        self.rebuild_cells(rows=self.index.rows)

    def _fit(self) -> None:
        """Make a smaller table of cells if it was too large for as long as rows stay: tables grow by doubling."""
        old, span = self.index, self.rows_seen - self.first
        if not isinstance(old, BandCells) or old.rows < SMALLEST_ROOMY or self.first < self.made_at:
            return
        if old.rows > ROOMY * max(span, FIRST_ROWS):
            self.rebuild_cells(rows=max(span, FIRST_ROWS))
            if self.index.nbytes > old.nbytes:
                self.index = old  # what lies behind few buckets took more than it gave

    def _refill(self, new: BiSort | BandCells | Structure) -> None:
        """Insert the rows of the window into an empty index of another kind than runs, which takes the place of its."""
        assert not isinstance(new, BiSort)  # noqa: S101 - a plan that has cells has them always
        self.index = new
        for base, table in self._live():
            rows = keyed(self.plan, self.side, table)
            new.skip_to(base)
            new.append(rows.keys, rows.kept, rows.aux, rows.inexact)
        new.skip_to(self.rows_seen)
        if isinstance(new, BandCells) and not (new.wide or new.narrow):
            self.rebuild_cells()

    def turn_into(self, algorithm: str) -> None:
        """Put the rows into another index, one of `slidejoin.algorithms()`."""
        if algorithm != "bi_sort":
            self._refill(self._index(algorithm))
            return
        runs = BiSort(len(self.plan.terms) - 1, merge=self.merge, options=self.plan.config.options)
        for base, table in self._live():
            runs.append(run_of(self.plan, self.side, table, base), table.num_rows)
        self.index = runs

    def _live(self) -> Iterator[tuple[int, pa.Table]]:
        """Iterate over the rows of the index, with the ordinal of the first row of each table."""
        for piece in self.payload:
            # In a self-join the payload may be ahead: it takes the rows of a push with the left window.
            rows = min(piece.table.num_rows, self.rows_seen - piece.base)
            if rows > 0:
                yield piece.base, piece.table.slice(0, rows)

    def stretched(self, coming: int = 0) -> bool:
        """Whether so many more rows would stretch the index, see `too_far`; those of a count window never do."""
        rows = self.payload.rows + coming
        return self.plan.scope is not None and too_far(self.rows_seen + coming - self.first, rows)

    # -- leaving -------------------------------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """Ordinal of the oldest row kept."""
        return min(self.payload.first(self.rows_seen), self.rows_seen)

    def expire(self, ordinal: int) -> None:
        """Drop whole sub-windows before that ordinal."""
        self.index.expire(ordinal)
        if not self.shared:
            self.payload.expire(ordinal)

    def expire_below(self, oldest: int, payload_oldest: int) -> None:
        """Drop sub-windows of a time window whose event times all lie below `oldest`, rows below `payload_oldest`."""
        if not self.shared:
            self.payload.expire_below(payload_oldest)
        if isinstance(self.index, BiSort):
            dimension = [term.shape for term in self.plan.terms].index("scope") - 1
            self.index.expire_below(dimension, oldest)
        else:
            self.index.expire(self.first)
            self._fit()

    def own(self, ordinal: int) -> None:
        """Free the rows from that ordinal on of larger memory that they are slices of."""
        if not self.shared:
            self.payload.own(ordinal)

    @property
    def nbytes(self) -> int:
        """Bytes of rows and index."""
        return self.index.nbytes + (0 if self.shared else self.payload.nbytes)
