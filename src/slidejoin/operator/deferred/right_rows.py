"""Right rows for the output: those of the window, those that were folded, and none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import array_of, empty_of
from slidejoin.rows.widths import TableLimit, Widths, widths_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from slidejoin.rows.payload import Payload

__all__ = ["NOBODY", "FoldedRows"]

NOBODY = -1
"""Instead of the ordinal of a right row: a left row without one."""


class FoldedRows:
    """Right rows that have left the window, but are still among the nearest of left rows that wait.

    Parameters
    ----------
    schema : pyarrow.Schema
        Their columns: those that are output or compared by distance.
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
        """Keep exactly these rows, (m,) int64, of those before `end`, which may leave the window then."""
        kept = np.unique(ordinals)
        table = self.take(self.table.schema.names, kept).combine_chunks() if kept.size else self.table.slice(0, 0)
        self.ordinals, self.table, self.end = kept, table, end

    def take(self, names: Sequence[str], ordinals: NDArray[np.int64]) -> pa.Table:
        """Return columns of right rows, (n,) int64 ordinals, NULLs for nobody."""
        return next(self.tables(names, ordinals, TableLimit(1 << 62, 1 << 62)))[1]

    def tables(
        self, names: Sequence[str], ordinals: NDArray[np.int64], limit: TableLimit, beside: Widths | None = None
    ) -> Iterator[tuple[slice, pa.Table]]:
        """Yield columns of right rows within a limit, and which rows these are; at least one table.

        `beside` are the widths of what stands beside each row.
        """
        live = ordinals >= max(self.end, 0)
        here = ordinals[live]
        gathered = self._payload.gather(names, here)
        folded = np.flatnonzero(~live & (ordinals != NOBODY))
        places = np.searchsorted(self.ordinals, ordinals[folded])
        stops, rows = [ordinals.size], ordinals.size
        if gathered.nbytes + (0 if beside is None else beside.nbytes) + folded.size > limit.nbytes or rows > limit.rows:
            stops = limit.stops(self._widths(names, gathered.widths, live, folded, places, beside)) or [0]
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

    def _widths(
        self,
        names: Sequence[str],
        live_widths: Widths,
        live: NDArray[np.bool_],
        folded: NDArray[np.int64],
        places: NDArray[np.int64],
        beside: Widths | None,
    ) -> Widths:
        every = np.zeros(live.size, np.int64)
        every[live] = live_widths.fixed + (0 if live_widths.varying is None else live_widths.varying)
        if folded.size:
            old = widths_of(self.table.select(list(names)))
            every[folded] = old.fixed + (0 if old.varying is None else old.varying[places])
        widths = Widths(live.size, 0, every)
        return widths if beside is None else widths.beside(beside)


def _taken(one: pa.Table, two: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    """Return rows of two tables of one schema, counted through both; NULLs for places below 0."""
    rows: Any = pa.array(places, mask=places < 0)
    both = pa.concat_tables([one, two])
    # Chunks are put together first: rows of many are looked up one by one.
    return both.combine_chunks().take(rows)


def _nothing(rows: int) -> pa.Table:
    """Return a table without columns, which still has rows."""
    return pa.table({"": pa.nulls(rows)}).select([])
