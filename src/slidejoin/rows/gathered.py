"""Gathered rows before they become tables: their bytes are copied table by table.

Only their widths are measured first, so that it is known how many fit into a table. Rows may be missing: NULL in every
column, as the partner of an unmatched row is.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import chunks_of, empty_of
from slidejoin.rows.widths import Widths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.rows.gather import Located
    from slidejoin.rows.row_reader import RowReader

__all__ = ["Gathered"]


class Gathered:
    """Columns of some rows, see above.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of these columns.
    ordinals : (n,) int64
        The rows, -1 for a missing one.
    held : RowReader, optional
        The columns that records hold, if there are any.
    others : Located, optional
        The other ones of the rows that are not missing, if there are any.
    """

    def __init__(
        self, schema: pa.Schema, ordinals: NDArray[np.int64], held: RowReader | None, others: Located | None
    ) -> None:
        self._schema, self._ordinals, self._held, self._others = schema, ordinals, held, others
        self._whole: pa.Table | None = None
        self.rows = ordinals.size
        """How many."""

    @cached_property
    def _present(self) -> NDArray[np.bool_] | None:
        """Which rows are not missing, None if none is."""
        present = self._ordinals >= 0
        return None if bool(present.all()) else present

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
        if self._others is None:
            return widths
        others = self._others.widths
        if others.varying is not None and self._present is not None:
            varying = np.zeros(self.rows, np.int64)
            varying[self._present] = others.varying
            others = others._replace(varying=varying)
        return widths.joined(others._replace(rows=self.rows))

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
        tables = [] if self._others is None else [self._of_others(self._others, start, stop)]
        if self._held is not None:
            tables.append(self._held.table(self._ordinals[start:stop], self._texts[:, start:stop]))
        for table in tables:
            columns |= dict(zip(table.column_names, table.columns, strict=True))
        for field in self._schema:
            if field.name not in columns:  # all rows are missing
                columns[field.name] = chunks_of([pa.nulls(rows, field.type)], field.type)
        return pa.Table.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)

    def _of_others(self, others: Located, start: int, stop: int) -> pa.Table:
        if self._present is None:
            return others.rows(start, stop)
        present = self._present[start:stop]
        first = int(self._present[:start].sum())
        table = others.rows(first, first + int(present.sum()))
        # With the mask, what stands at the place of a missing row means nothing.
        places: Any = pa.array(np.cumsum(present) - 1, mask=~present)
        return table if bool(present.all()) else table.combine_chunks().take(places)
