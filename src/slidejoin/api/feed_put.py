"""The rows of one `put` of a `Feed`, and several of them as one push with the same arrival order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from slidejoin.operator.ingest.arrival import arrange
from slidejoin.operator.ingest.order_by import sort_values
from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.rows.held_types import plain_type
from slidejoin.rows.reorder import rows_as_given
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.sides import Side

__all__ = ["ARRIVAL", "Put", "combined"]

Number = TypeVar("Number", bound=np.generic)

ARRIVAL = "slidejoin: place in the order of arrival"
"""The column by which the rows of a combined push are ordered; it is in no output."""


class Put:
    """The rows of one put, in the order in which they arrive.

    Parameters
    ----------
    tables : dict from side to pyarrow.Table
        With the schemas of their sides; a side that was not given is missing.
    order_by : str, optional
        See `slidejoin.StreamJoin.push`.

    Attributes
    ----------
    sampled : dict from side to pair of (n,) int64
        Places of the rows that take part in the estimate of what is lost, and their numbers in the sample.
    levels : dict from side to (rows,) int8
        How likely each row is to match, see `slidejoin.api.shedding`; nothing where that is not known.

    Raises
    ------
    SchemaError
        If the rows cannot be ordered by `order_by`.
    """

    __slots__ = ("_by", "_ranks", "levels", "order_by", "sampled", "tables")

    def __init__(self, tables: dict[Side, pa.Table], order_by: str | None = None) -> None:
        self.tables, self.order_by = tables, order_by
        self.sampled: dict[Side, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self.levels: dict[Side, NDArray[np.int8]] = {}
        self._ranks: dict[Side, NDArray[np.int64]] | None = None
        self._by = None if order_by is None else sort_values(tables, order_by)

    @property
    def ordered(self) -> bool:
        """Whether the rows arrive in another order than all left ones, then all right ones."""
        return self._by is not None

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return sum(table.num_rows for table in self.tables.values())

    @property
    def cost(self) -> int:
        """What it takes of the queue's capacity: its rows, or 1 without any, so that no queue grows for ever."""
        return max(self.rows, 1)

    def rows_of(self, side: Side) -> int:
        """Rows of one side."""
        return self.tables[side].num_rows if side in self.tables else 0

    def ranks(self, side: Side) -> NDArray[np.int64]:
        """Return the place in the arrival order of this put of each row of a side, (rows,) int64."""
        if self._by is not None:
            if self._ranks is None:
                self._ranks = self._ordered(self._by)
            return self._ranks[side]
        first = 0 if side == "left" else self.rows_of("left")
        return np.arange(first, first + self.rows_of(side))

    def _ordered(self, by: tuple[NDArray[Any], NDArray[Any]]) -> dict[Side, NDArray[np.int64]]:
        arrivals = arrange(self.rows_of("left"), self.rows_of("right"), by)
        ranks: dict[Side, NDArray[np.int64]] = {}
        for side, table in self.tables.items():
            ranks[side] = np.empty(table.num_rows, np.int64)
            ranks[side][arrivals.places(side)] = arrivals.rank(side)
        return ranks

    def by_side(self, values: NDArray[Number]) -> dict[Side, NDArray[Number]]:
        """Return for each side the values of its rows, which are given in arrival order, (rows,)."""
        return {side: values[self.ranks(side)] for side in self.tables}

    def in_order(self, values: Mapping[Side, NDArray[Number]]) -> NDArray[Number]:
        """Return the values of the rows of all sides, (rows,) each, in arrival order."""
        parts = [values[side] for side in self.tables]
        ordered = np.empty(self.rows, parts[0].dtype)
        for side, part in zip(self.tables, parts, strict=True):
            ordered[self.ranks(side)] = part
        return ordered

    def keep(self, marks: Mapping[Side, NDArray[np.bool_]]) -> dict[Side, NDArray[np.int64]]:
        """Keep the marked rows of each side, (rows,) bool, and return the numbers of sampled rows that were dropped."""
        if self._by is not None:
            ranks = {side: self.ranks(side)[mark] for side, mark in marks.items()}
            owned = np.zeros(self.rows, np.int64)
            for own in ranks.values():
                owned[own] = 1
            places = np.cumsum(owned) - 1
            self._ranks = {side: places[own] for side, own in ranks.items()}
        lost: dict[Side, NDArray[np.int64]] = {}
        for side, mark in marks.items():
            self.tables[side] = rows_as_given(self.tables[side], np.flatnonzero(mark))
            if side in self.levels:
                self.levels[side] = self.levels[side][mark]
            if side in self.sampled:
                at, numbers = self.sampled[side]
                stay = mark[at]
                lost[side] = numbers[~stay]
                self.sampled[side] = (np.cumsum(mark) - 1)[at[stay]], numbers[stay]
        return lost


def combined(puts: Sequence[Put], schemas: Mapping[Side, pa.Schema]) -> tuple[dict[Side, pa.Table], str | None]:
    """Return the tables of both sides of one push that is the same as these puts, one after the other.

    Returns
    -------
    tables : dict from side to pyarrow.Table
        With the column `ARRIVAL` behind the others, if the rows have to be ordered.
    order_by : str or None
        That column, or None.
    """
    tables: dict[Side, pa.Table] = {}
    counts = {side: np.array([put.rows_of(side) for put in puts]) for side in SIDES}
    for side in SIDES:
        parts = [put.tables[side] for put in puts if put.rows_of(side)]
        tables[side] = _together(parts) if parts else empty_of(schemas[side])
    with_right, with_left = np.flatnonzero(counts["right"]), np.flatnonzero(counts["left"])
    straight = not with_right.size or not with_left.size or with_left[-1] <= with_right[0]
    if straight and not any(put.ordered for put in puts):
        return tables, None
    for side in SIDES:
        ranks = _ranks(puts, counts, side)
        column: pa.Array[Any] = pa.array(ranks)
        tables[side] = tables[side].append_column(ARRIVAL, column)
    return tables, ARRIVAL


def _together(parts: list[pa.Table]) -> pa.Table:
    """Return tables one behind the other, with one chunk a column where Arrow can combine those of its type."""
    whole = pa.concat_tables(parts)
    combined = all(plain_type(kind) == kind for kind in whole.schema.types)
    return whole.combine_chunks() if combined else whole


def _ranks(puts: Sequence[Put], counts: Mapping[Side, NDArray[np.int64]], side: Side) -> NDArray[np.int64]:
    """Return the places of one side's rows in the order of all puts, (rows,) int64."""
    own, others = (counts["left"], counts["right"]) if side == "left" else (counts["right"], counts["left"])
    # Before a row come the rows of its side that are before it, and the other side's: of earlier puts, and, for a
    # right row, the left ones of its own put.
    before = np.cumsum(others) - (others if side == "left" else 0)
    ranks: NDArray[np.int64] = np.arange(own.sum()) + np.repeat(before, own)
    ends = np.cumsum(own)
    totals = np.cumsum(own + others) - (own + others)
    for number, put in enumerate(puts):
        if put.ordered and own[number]:
            ranks[ends[number] - own[number] : ends[number]] = totals[number] + put.ranks(side)
    return ranks
