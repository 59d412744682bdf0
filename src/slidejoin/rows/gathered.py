"""Gathered rows before they become tables: the bytes of texts and of Arrow-held columns are copied table by table.

This first pass gathers a fixed width for each row. Only then are the sizes of the rows known, and how many of them fit
into a table. Rows may be missing: NULL in every column, as the partner of an unmatched row is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.rows.chunk import Fixed, arrow_of
from slidejoin.rows.text import text_lengths
from slidejoin.rows.widths import Widths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.rows.gather import Located

__all__ = ["Gathered", "InRecords", "WithNulls"]


class InRecords(NamedTuple):
    """A column gathered from records.

    Attributes
    ----------
    column : Fixed
    values : (n,) of its type, or (n, 2) words of texts
    marks : (n,) uint8 or None
        0 where it is NULL.
    size : int
        Bytes of the texts, 0 without.
    """

    column: Fixed
    values: NDArray[Any]
    marks: NDArray[np.uint8] | None
    size: int


class Gathered:
    """Columns of some rows, see above.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of these columns.
    rows : int
        How many.
    fixed : int
        Fixed bytes a row of the columns from records.
    held : sequence of InRecords
        These columns.
    others : Located, optional
        The other ones, if there are any.
    """

    __slots__ = ("_fixed", "_held", "_others", "_schema", "_whole", "rows")

    def __init__(
        self, schema: pa.Schema, rows: int, fixed: int, held: Sequence[InRecords], others: Located | None
    ) -> None:
        self._schema, self._fixed, self._held, self._others = schema, fixed, held, others
        self._whole: pa.Table | None = None
        self.rows = rows
        """How many."""

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take as Arrow."""
        texts = sum(one.size for one in self._held)
        others = 0 if self._others is None else self._others.widths.nbytes
        return texts + others + self.rows * self._fixed

    @property
    def widths(self) -> Widths:
        """How wide the rows are."""
        widths = Widths(self.rows, self._fixed)
        for one in self._held:
            if one.column.text:
                widths = widths.joined(Widths(self.rows, 0, text_lengths(one.values)))
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
        columns: dict[str, pa.Array[Any] | pa.ChunkedArray[Any]] = {}
        for column, values, marks, size in self._held:
            if rows == self.rows:
                columns[column.name] = arrow_of(column, values, marks, size)
            else:
                # Copied, otherwise each of the tables would keep the memory of all of them.
                valid = None if marks is None else marks[start:stop]
                columns[column.name] = arrow_of(column, values[start:stop].copy(), valid)
        if self._others is not None:
            table = self._others.rows(start, stop)
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
