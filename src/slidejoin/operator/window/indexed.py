"""One side's rows under an index: which index that is, how large, and when it is made anew for the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.index.cells.band_cells import LONGEST, BandCells
from slidejoin.index.cells.growth import cells_growth, new_cells, runs_growth, widens
from slidejoin.index.sorted_runs.bi_sort import BiSort
from slidejoin.index.structure import Structure, make_structure
from slidejoin.operator.window.keys import keyed, run_of
from slidejoin.rows.payload import Payload
from slidejoin.spec.options import STRUCTURES
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["CROWDED", "LARGEST_SLICE", "IndexedRows", "too_far"]

FIRST_ROWS = 64
"""Rows that a table of cells is first made for."""

LARGEST_SLICE = 1 << 18
"""Rows of both sides that are inserted before their probes."""

LARGE = 1 << 16
"""Rows of a window from which on its table grows twofold, not fourfold."""

CROWDED = 1.5
"""Rows of a table, over the number that it was made for, from which on a larger one is made."""

ROOMY = 1.25
"""Rows that a table was made for, over those that a time window has had since, from which on a smaller one is made."""

SMALLEST_ROOMY = 1 << 12
"""Rows that a table was made for below which it stays as it is."""

FARTHEST = 4
"""A table may span this many times the rows that live; one row far ahead in time could else make it grow for ever."""


def too_far(span: int, rows: int) -> bool:
    """Tell whether `rows` rows of a time window span too many ordinals for an index that has a place for each.

    Few old ones that stay would keep the places of all that came after them, and positions tell `LONGEST` rows apart.
    """
    return span > min(FARTHEST * (rows + LARGEST_SLICE), LONGEST)


class IndexedRows:
    """Rows of one side, and the index over them.

    Parameters
    ----------
    plan : Plan
        The bound join.
    side : {"left", "right"}
        Whose rows.
    payload : Payload, optional
        Of the left window of a self-join, for the right one: the rows are kept once.
    merge : bool, default True
        Whether sub-windows are merged.
    algorithm : str
        The index, one of `slidejoin.algorithms()`.
    """

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

    @property
    def first(self) -> int:
        """Ordinal of the oldest row kept."""
        return min(self.payload.first(self.rows_seen), self.rows_seen)

    # -- which index, and for how many rows ----------------------------------------------------------------------------

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

    def outgrown(self, coming: int) -> bool:
        """Whether so many more rows are better put into a larger table of cells."""
        index = self.index
        return (
            isinstance(index, BandCells)
            and self.rows_seen + coming - index.floor > CROWDED * index.rows
            and self._cell_rows(coming) > index.rows
        )

    def stretched(self, coming: int = 0) -> bool:
        """Whether so many more rows would stretch the index, see `too_far`; those of a count window never do."""
        rows = self.payload.rows + coming
        return self.plan.scope is not None and too_far(self.rows_seen + coming - self.first, rows)

    # -- foreseeing memory ---------------------------------------------------------------------------------------------

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

    # -- another index for the same rows -------------------------------------------------------------------------------

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
