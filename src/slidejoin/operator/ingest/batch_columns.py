"""The columns of one side of a push, each read from Arrow once.

Getting the memory of an Arrow column takes some 3 µs, and the sort column, the keys and the stored columns are often
the same: in small pushes that is a good part of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.operator.ingest.order_by import plain_places, sort_values
from slidejoin.predicate.truth.values import WHOLE
from slidejoin.rows.arrow_buffers import values_in
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.ingest.ingest import Ingest
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.ranges.terms import ShiftedColumn
    from slidejoin.sides import Side

__all__ = ["BatchColumns", "ColumnPlaces"]


class BatchColumns:
    """Rows of one side as they were given.

    Parameters
    ----------
    side : {"left", "right"}
    table : pyarrow.Table
        With the side's schema.
    intake : Ingest
        Knows how rows are held.
    """

    __slots__ = ("_intake", "_side", "_stored", "_words", "rows", "table")

    def __init__(self, side: Side, table: pa.Table, intake: Ingest) -> None:
        self._side, self.table, self._intake = side, table, intake
        self.rows: int = table.num_rows
        self._words: dict[int, NDArray[np.int64] | None] = {}
        self._stored: pa.Table | None = None

    def words(self, place: int) -> NDArray[np.int64] | None:
        """Return the values of the column at that place, (n,) int64 whatever they mean; None if some are NULL.

        Its values must be of 64 bits each.
        """
        words = self._words
        if place in words:
            return words[place]
        column = self.table.column(place)
        values = words[place] = None if column.null_count else values_in(column, np.int64)
        return values

    @property
    def stored(self) -> pa.Table:
        """The rows as they are held."""
        if self._stored is None:
            self._stored = self._intake.held(self._side, self.table)
        return self._stored


class ColumnPlaces:
    """The places of the columns, in tables as given, that need no check but for NULLs.

    Parameters
    ----------
    plan : Plan
    plain : mapping of side to tuple of ShiftedColumn
        The columns of each side whose values are keys: one, or those of all terms of a composite key.
    """

    def __init__(self, plan: Plan, plain: Mapping[Side, Sequence[ShiftedColumn]]) -> None:
        self._keys = {
            side: [(one, _whole(plan.taken_schema(side), one.column)) for one in columns]
            for side, columns in plain.items()
        }
        self._order: dict[str, tuple[int, ...]] = {}

    def keys(self, taken: Mapping[Side, BatchColumns]) -> dict[Side, NDArray[np.int64]]:
        """Return the keys of both sides, (n,) int64, where these are one column's; nothing if some are NULL or large.

        Large ones need more than 64 bits.
        """
        keys: dict[Side, NDArray[np.int64]] = {}
        for side in SIDES:
            own = _keys(taken[side], *self._keys[side][0])
            if own is None:
                return {}
            keys[side] = own
        return keys

    def parts(self, taken: Mapping[Side, BatchColumns]) -> dict[Side, list[NDArray[np.int64]]]:
        """Return the keys of each term of a composite key on both sides; nothing if some are NULL or large."""
        parts: dict[Side, list[NDArray[np.int64]]] = {}
        for side in SIDES:
            parts[side] = []
            for plain, place in self._keys[side]:
                own = _keys(taken[side], plain, place)
                if own is None:
                    return {}
                parts[side].append(own)
        return parts

    def sort_values(self, taken: Mapping[Side, BatchColumns], name: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return what `sort_values` does; the place of a column is looked up once."""
        places = self._order.get(name)
        if places is None:
            places = self._order[name] = plain_places({side: taken[side].table for side in SIDES}, name)
        if places:
            left, right = taken["left"].words(places[0]), taken["right"].words(places[1])
            if left is not None and right is not None:
                return left, right
        return sort_values({side: taken[side].table for side in SIDES}, name)


def _keys(taken: BatchColumns, plain: ShiftedColumn, place: int | None) -> NDArray[np.int64] | None:
    """Return the keys of a column, in that place if its values in memory are keys."""
    return plain.keys(taken.stored.column(plain.column)) if place is None else taken.words(place)


def _whole(schema: pa.Schema, name: str) -> int | None:
    """Return the place of a column if its values in memory are keys, None if they are not."""
    place: int = schema.get_field_index(name)
    return place if schema.field(place).type.id in WHOLE else None
