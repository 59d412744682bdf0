"""The window of one side: rows that come and leave, over an index. Both sides are this one class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.index.cells.band_cells import BandCells
from slidejoin.index.sorted_runs.bi_sort import BiSort
from slidejoin.operator.window.indexed import IndexedRows
from slidejoin.operator.window.keys import keyed, run_of
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.rows.piece import Piece
from slidejoin.rows.widths import SLICE, TableLimit, in_one_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.sorted_runs.bi_sort import Run

__all__ = ["SideWindow"]

LOADED_AT_ONCE = 1 << 11
"""Rows that are put at once into a window that is loaded."""


class SideWindow(IndexedRows):
    """Rows of one side that arriving rows of the other side may still see."""

    # -- coming --------------------------------------------------------------------------------------------------------

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
            parts = TableLimit(max(rows // 8, LOADED_AT_ONCE), SLICE.nbytes)
            for part in map(in_one_chunk, parts.cut(table.slice(start, rows))):
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

    # -- leaving -------------------------------------------------------------------------------------------------------

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
