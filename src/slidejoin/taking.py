"""The rows that one side brings to a push, each column looked at once.

Getting at the memory of an Arrow column takes some 3 µs, and the sort column, the keys and what is kept are often the
same ones: in small pushes that is a good part of all time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.arrays import values_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.intake import Intake
    from slidejoin.predicate.expr import Side

__all__ = ["Taken", "of_64_bits"]

BITS = 64


def of_64_bits(kind: pa.DataType) -> bool:
    """Tell whether values of that type are 64 bits each, side by side in memory."""
    return pa.types.is_primitive(kind) and bool(kind.bit_width == BITS)


class Taken:
    """Rows of one side as they were given.

    Parameters
    ----------
    side : {"left", "right"}
    table : pyarrow.Table
        With the side's schema.
    intake : Intake
        Knows how rows are held.
    """

    __slots__ = ("_intake", "_kept", "_side", "_words", "rows", "table")

    def __init__(self, side: Side, table: pa.Table, intake: Intake) -> None:
        self._side, self.table, self._intake = side, table, intake
        self.rows: int = table.num_rows
        self._words: dict[int, NDArray[np.int64] | None] = {}
        self._kept: pa.Table | None = None

    def words(self, place: int) -> NDArray[np.int64] | None:
        """Return the values of the column at that place, (n,) int64 whatever they mean; None if some are NULL.

        Its type must be `of_64_bits`.
        """
        words = self._words
        if place in words:
            return words[place]
        column = self.table.column(place)
        found = words[place] = None if column.null_count else values_in(column, np.int64)
        return found

    @property
    def kept(self) -> pa.Table:
        """The rows as they are held."""
        if self._kept is None:
            self._kept = self._intake.held(self._side, self.table)
        return self._kept
