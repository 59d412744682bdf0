"""Output columns with room for many rows, which kernels write by address; a result is a slice of them.

To make an Arrow array takes some microseconds, to slice a table of twenty columns one: so the results of small pushes
are slices of one table, each behind the one before. Results of many rows have arrays of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import buffer_of
from slidejoin.rows.kernels.batch_rows import BITS
from slidejoin.rows.kernels.record_columns import DATA, KIND, READ, ROOM, SPARE, VALID, VALUES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["OutputBlock", "bitmap"]


class OutputBlock:
    """Memory of output columns.

    Parameters
    ----------
    schema : pyarrow.Schema
    order : sequence of int
        Which of the columns below each of the schema's is.
    kinds : sequence of int
        Of each column, see `rows.kernels.batch_rows`.
    nullable : sequence of bool
        Which columns have a bitmap.
    places : int
        Rows for which there is room.
    texts : sequence of int
        Of each column for how many bytes of texts there is room.
    lend : callable, optional
        Returns an array of so many int64, for what is not shared.
    shared : bool, default True
        Whether results are slices of one table, or one table is made of all rows.

    Attributes
    ----------
    columns : (c, READ) int64
        Where each column is written, see `rows.kernels.record_columns`.
    used : (c,) int64
        The bytes of texts that each column has.
    rows : int
        How many rows there are; the next ones begin there, at a multiple of 8.
    """

    def __init__(
        self,
        schema: pa.Schema,
        order: Sequence[int],
        kinds: Sequence[int],
        nullable: Sequence[bool],
        places: int,
        texts: Sequence[int],
        lend: Callable[[int], NDArray[np.int64]] | None = None,
        *,
        shared: bool = True,
    ) -> None:
        self._schema, self._order, lend = schema, order, None if shared else lend
        self.places, self.rows = -(-places // 8) * 8, 0
        self.columns = np.zeros((len(kinds), READ), np.int64)
        self.columns[:, KIND], self.used = kinds, np.zeros(len(kinds), np.int64)
        self._buffers: list[list[pa.Buffer | None]] = []
        for number, (kind, null) in enumerate(zip(kinds, nullable, strict=True)):
            bits = bitmap(self.places) if null else None
            # Arrow looks at the last offset of texts, before it is written.
            values = _memory(_size(kind, self.places), lend, clear=shared and kind < BITS)
            self._buffers.append([bits, values])
            self.columns[number, [VALID, VALUES]] = 0 if bits is None else bits.address, values.address
            if kind < BITS:
                data = _memory(texts[number] + SPARE, lend)
                self._buffers[-1].append(data)
                self.columns[number, [DATA, ROOM]] = data.address, texts[number]
        self._table = self._made(self.places, self._buffers) if shared else None

    def take(self, rows: int) -> pa.Table:
        """Return so many rows that were written."""
        first = self.rows
        self.rows = first + rows + 7 & ~7
        if self._table is None:
            used = self.used.tolist()
            return self._made(rows, [self._exact(number, rows, size) for number, size in enumerate(used)])
        return self._table.slice(first, rows)

    def _exact(self, number: int, rows: int, used: int) -> list[pa.Buffer | None]:
        """Return the memory of so many rows of a column without what is behind them: Arrow would write some of it."""
        bits, values, *data = self._buffers[number]
        size = _size(int(self.columns[number, KIND]), rows)
        return [
            bits and bits.slice(0, rows + 7 >> 3),
            values and values.slice(0, size),
            *(one and one.slice(0, used) for one in data),
        ]

    def _made(self, rows: int, buffers: Sequence[list[pa.Buffer | None]]) -> pa.Table:
        arrays: list[pa.Array[Any]] = [
            pa.Array.from_buffers(field.type, rows, buffers[place], 0 if buffers[place][0] is None else -1)
            for field, place in zip(self._schema, self._order, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self._schema)


def _size(kind: int, rows: int) -> int:
    """Return the bytes of so many values; of texts those of their offsets."""
    return rows + 7 >> 3 if kind == BITS else abs(kind) * (rows + (kind < 0))


def bitmap(places: int) -> pa.Buffer:
    """Return memory of so many bits that kernels write later.

    A table counts its NULLs at once, and a slice of rows that are all NULL, or none, is not counted again: one of the
    bits is 1 and another is 0.
    """
    bits = np.zeros((places >> 3) + 1, np.uint8)
    bits[0] = 1
    return buffer_of(bits)


def _memory(size: int, lend: Callable[[int], NDArray[np.int64]] | None, *, clear: bool = False) -> pa.Buffer:
    if clear or lend is None:
        return buffer_of((np.zeros if clear else np.empty)(size, np.uint8))
    return buffer_of(lend((size >> 3) + 1))
