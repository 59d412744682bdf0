"""A piece: consecutive rows of one side, with the addresses of their columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import array_of
from slidejoin.rows.kernels.gathering import GATHER
from slidejoin.rows.widths import SLICE, in_one_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ColumnAddress", "Piece", "column_of"]


class ColumnAddress(NamedTuple):
    """The addresses of one piece's column of fixed width.

    Attributes
    ----------
    values, validity : int
        Addresses of the buffers, 0 for no bitmap.
    offset : int
        Of the first row in both.
    """

    values: int
    validity: int
    offset: int


def column_of(column: pa.ChunkedArray[Any]) -> ColumnAddress | None:
    """Return the addresses of a column, None if it is not of fixed width or in several chunks."""
    kind = column.type
    if column.num_chunks != 1 or not pa.types.is_primitive(kind):
        return None
    if not pa.types.is_boolean(kind) and kind.bit_width // 8 not in GATHER:
        return None
    array: pa.Array[Any] = column.chunk(0)  # type: ignore[assignment]  # the stubs are of pyarrow 20
    validity, values = array.buffers()
    known = 0 if validity is None or array.null_count == 0 else int(validity.address)
    return ColumnAddress(int(values.address), known, int(array.offset))  # type: ignore[union-attr]  # values are never left out


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of one side, immutable.

    Attributes
    ----------
    base : int
        Ordinal of the first row.
    table : pyarrow.Table
        The rows, in arrival order.
    time_max : int or None
        Largest event time in ticks, None for count windows.
    rows : int
        How many.
    """

    base: int
    table: pa.Table
    time_max: int | None
    rows: int = field(init=False)
    _nbytes: list[int] = field(init=False, repr=False, compare=False, default_factory=list)
    _columns: dict[str, ColumnAddress | None] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.table.num_rows)

    @property
    def end(self) -> int:
        """Ordinal after the last row."""
        return self.base + self.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the rows; measured on first use, because that takes Arrow some microseconds a column."""
        if not self._nbytes:
            self._nbytes.append(int(self.table.nbytes))
        return self._nbytes[0]

    def column(self, name: str) -> ColumnAddress | None:
        """Return the addresses of a column of fixed width, None for another kind; cached."""
        if name not in self._columns:
            self._columns[name] = column_of(self.table.column(name))
        return self._columns[name]

    def parts(self) -> Iterator[Piece]:
        """Iterate over the rows in pieces of which each is one Arrow array a column."""
        if self.nbytes <= SLICE.nbytes:
            yield self
            return
        base = self.base
        for part in SLICE.cut(self.table):
            yield Piece(base, in_one_chunk(part), self.time_max)
            base += part.num_rows

    def owned(self) -> Piece:
        """Return the piece without memory shared with other rows: a slice keeps all of its parent alive."""
        if self.table.get_total_buffer_size() <= 2 * self.nbytes + SLACK:
            return self
        return Piece(
            self.base, self.table.take(array_of(np.arange(self.table.num_rows, dtype=np.int64))), self.time_max
        )


SLACK = 4096
"""Bytes that a piece may keep alive beyond twice its own."""
