"""Gathered rows before they become tables: their bytes are copied table by table.

Only their widths are found first, so that it is known how many of them fit into a table. Rows may be missing: NULL in
every column, as the partner of an unmatched row is.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.rows.widths import Widths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.rows.gather import Located
    from slidejoin.rows.row_reader import RowReader

__all__ = ["Gathered", "WithNulls"]


class Gathered:
    """Columns of some rows, see above.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of these columns.
    ordinals : (n,) int64
        The rows.
    held : RowReader, optional
        The columns that records hold, if there are any.
    others : Located, optional
        The other ones, if there are any.
    """

    def __init__(
        self, schema: pa.Schema, ordinals: NDArray[np.int64], held: RowReader | None, others: Located | None
    ) -> None:
        self._schema, self._ordinals, self._held, self._others = schema, ordinals, held, others
        self._whole: pa.Table | None = None
        self.rows = ordinals.size
        """How many."""

    @cached_property
    def _texts(self) -> NDArray[np.int64]:
        """Bytes of the texts of records, (columns, rows)."""
        return np.empty((0, self.rows), np.int64) if self._held is None else self._held.lengths(self._ordinals)

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take as Arrow."""
        others = 0 if self._others is None else self._others.widths.nbytes
        return int(self._texts.sum()) + others + self.rows * (0 if self._held is None else self._held.fixed)

    @property
    def widths(self) -> Widths:
        """How wide the rows are."""
        texts = self._texts.sum(axis=0) if len(self._texts) else None
        widths = Widths(self.rows, 0 if self._held is None else self._held.fixed, texts)
        return widths if self._others is None else widths.joined(self._others.widths)

    def complete(self, most: int) -> None:
        """Copy the remaining bytes, if the rows have no more than so many."""
        if self.nbytes <= most:
            self._whole = self.table(0, self.rows)

    def table(self, start: int, stop: int) -> pa.Table:
        """Return the rows start…stop-1."""
        if self._whole is not None:
            return self._whole if stop - start == self.rows else self._whole.slice(start, stop - start)
        rows = stop - start
        if not self._schema.names:
            # A table without columns still has rows.
            return pa.table({"": pa.nulls(rows)}).select([])
        if rows == 0:
            return empty_of(self._schema)
        columns: dict[str, pa.ChunkedArray[Any]] = {}
        tables = [] if self._others is None else [self._others.rows(start, stop)]
        if self._held is not None:
            tables.append(self._held.table(self._ordinals[start:stop], self._texts[:, start:stop]))
        for table in tables:
            columns |= dict(zip(table.column_names, table.columns, strict=True))
        return pa.Table.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)


class WithNulls:
    """Rows of which those that are present have been gathered; has what output needs of `Gathered`.

    Parameters
    ----------
    gathered : Gathered
        The rows that are present, in their order.
    present : (n,) bool
        Which of the rows these are.
    fixed : int
        Bytes that a missing row takes.
    """

    def __init__(self, gathered: Gathered, present: NDArray[np.bool_], fixed: int) -> None:
        self._gathered, self._present, self._fixed = gathered, present, fixed
        # How many are present before each row, and before the end.
        self._before = np.concatenate([np.zeros(1, np.int64), np.cumsum(present)])
        self.rows = present.size
        """How many."""

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take as Arrow."""
        return self._gathered.nbytes + self._fixed * (self.rows - self._gathered.rows)

    @property
    def widths(self) -> Widths:
        """How wide the rows are."""
        of_present = self._gathered.widths
        every = np.full(self.rows, self._fixed, np.int64)
        every[self._present] = of_present.fixed + (0 if of_present.varying is None else of_present.varying)
        return Widths(self.rows, 0, every)

    def table(self, start: int, stop: int) -> pa.Table:
        """Return the rows start…stop-1."""
        first, last = int(self._before[start]), int(self._before[stop])
        table = self._gathered.table(first, last)
        if last - first == stop - start:
            return table
        # With the mask, what stands at the place of a missing row means nothing.
        places = pa.array(self._before[start:stop] - first, mask=~self._present[start:stop])
        return table.combine_chunks().take(places)
