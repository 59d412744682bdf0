"""Late rows, stored for the caller: what ``late="emit"`` has besides a counter."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slidejoin.sides import Side

__all__ = ["KeptLateRows", "LateRows"]


class LateRows(NamedTuple):
    """The rows that took no part in the join, with all columns of their side, each side in arrival order.

    Rows that came below the watermark, and rows whose event time is NULL: the column of event times tells them apart.

    Attributes
    ----------
    left, right : pyarrow.Table
        With the schema of the side; without columns while that is not known. A self-join has left rows only.
    """

    left: pa.Table
    right: pa.Table


class KeptLateRows:
    """The late rows of a join that nobody has taken yet; the calls of the join add and take them, one at a time."""

    def __init__(self) -> None:
        self._tables: dict[Side, list[pa.Table]] = {"left": [], "right": []}

    def add(self, rows: Mapping[Side, pa.Table]) -> None:
        """Keep the late rows of one push."""
        for side, table in rows.items():
            if table.num_rows:
                self._tables[side].append(table)

    def rows(self, schemas: Mapping[Side, pa.Schema]) -> LateRows:
        """Return the rows that are stored; `schemas` are those of the sides that are known."""
        empty = {side: empty_of(schemas[side]) if side in schemas else pa.table({}) for side in SIDES}
        left, right = (pa.concat_tables([empty[side], *self._tables[side]]) for side in SIDES)
        return LateRows(left, right)

    def take(self, schemas: Mapping[Side, pa.Schema]) -> LateRows:
        """Return the rows that are stored, and forget them."""
        rows = self.rows(schemas)
        self._tables = {"left": [], "right": []}
        return rows

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(table.nbytes for tables in self._tables.values() for table in tables)
