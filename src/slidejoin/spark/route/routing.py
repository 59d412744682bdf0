"""The routing function: a row's buckets, from the row and the join's fixed parameters alone.

The two rows of a pair share exactly one bucket, to which either is sent once. Rows are divided into groups, and each
group has its place in a grid of buckets, see `slidejoin.spark.job.buckets`:

=========  ====================================  ===================================  ==============================
strategy   group of a left row                   groups of a right row                grid
=========  ====================================  ===================================  ==============================
hash       hash of the equality's keys           the same                             one bucket; spread=g: g x g
cell       the cell of its key on the axis,      the cells that its band overlaps,    one bucket; spread=g: g x g
           of its own if there is an equality    of its own if there is an equality
grid       one for all                           the same                             all buckets, as good as square
broadcast  one for all                           the same                             all buckets in one column
split      one for all                           the same                             a column for each bucket
=========  ====================================  ===================================  ==============================

Packing comes before the state, and a micro-batch that is retried after a crash must be routed as it was the first time;
so nothing here depends on other rows, on counters or on random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from slidejoin.plan.window_term import TimeScope
from slidejoin.predicate.truth.hashes import hashed, mix
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.spark.job.buckets import bucket_of
from slidejoin.spark.route.groups import MOST_CELLS, Groups, cell_of, reached, turns_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.ranges.terms import RangeTerm
    from slidejoin.sides import Side
    from slidejoin.spark.job.buckets import Grid
    from slidejoin.spark.job.strategies import Strategy

__all__ = ["Routes", "equal_keys", "route", "row_hash", "stored_in", "turn_of"]


@dataclass(frozen=True, slots=True)
class Routes:
    """Where rows go: row ``rows[i]`` of a table to bucket number ``buckets[i]``, each (k,) int64."""

    rows: NDArray[np.int64]
    buckets: NDArray[np.int64]


def route(
    plan: Plan, strategy: Strategy, buckets: int, side: Side, table: pa.Table, *, everyone: bool = False
) -> Routes:
    """Return the buckets of one side's rows.

    Rows that can match nothing go nowhere; with `everyone`, which strategies without copies allow, to any one bucket.
    `table` has the columns of that side's packed schema.
    """
    columns = by_name(table)
    passing = plan.bound.prefilter(side, columns)
    rows = np.arange(table.num_rows) if passing is None or everyone else np.flatnonzero(passing)
    grid = strategy.grid(buckets)
    by_row = grid.depth != 1 if side == "left" else grid.columns > 1
    hashes = row_hash(table) if (by_row and not strategy.stores_once) or everyone else None
    terms = [plan.bound.terms[number] for number in strategy.terms]
    groups = Groups()
    if strategy.name == "hash":
        numbers, valid = equal_keys(terms, side, columns, table.num_rows)
        if valid is not None:
            if everyone and hashes is not None:
                numbers = np.where(valid, numbers, hashes)
            else:
                rows = rows[valid[rows]]
        groups = Groups(numbers[rows])
    elif strategy.name == "cell":
        rows, groups = _cells(terms[0], strategy.width, side, columns, rows)
        if len(terms) > 1:
            within, valid = equal_keys(terms[1:], side, columns, table.num_rows)
            paired = np.ones(rows.size, np.bool_) if valid is None else valid[rows]
            rows, groups = rows[paired], groups.inside(within[rows], paired)
    if strategy.stores_once and side == "right":
        return Routes(rows, stored_in(plan, strategy, buckets, side, table)[rows])
    chosen = None if hashes is None else hashes[rows]
    return _left(grid, rows, groups, chosen) if side == "left" else _right(grid, rows, groups, chosen)


def stored_in(plan: Plan, strategy: Strategy, buckets: int, side: Side, table: pa.Table) -> NDArray[np.int64]:
    """Return the number of the bucket that stores each row, (n,) int64, where a row is stored in one.

    Sub-windows take turns; those of rows without a time, or that have no number yet, are not known.
    """
    scope = plan.scope
    if strategy.name == "sub_windows" and isinstance(scope, TimeScope):
        ticks, _ = scope.ticks(side, by_name(table))
        return turn_of(ticks, strategy, buckets)
    return bucket_of(mix(row_hash(table)), buckets)


def turn_of(places: NDArray[np.int64], strategy: Strategy, buckets: int) -> NDArray[np.int64]:
    """Return the number of the bucket that stores the sub-window of each event time, or ordinal, (n,) int64."""
    return places // int(strategy.width) % buckets


def _left(grid: Grid, rows: NDArray[np.int64], groups: Groups, hashes: NDArray[np.int64] | None) -> Routes:
    """Give each row one bucket in every column."""
    turned = []
    for column, (start, size) in enumerate(zip(grid.starts, grid.sizes, strict=True)):
        turns = 0 if groups.first is None else turns_of(groups.first, groups.cells, size, column, grid, groups.within)
        if hashes is not None and grid.depth != 1:
            turns = (turns + grid.ranks(hashes, size)) % size
        turned.append(np.broadcast_to(start + turns, rows.shape))
    return Routes(np.tile(rows, grid.columns), np.concatenate(turned))


def _right(grid: Grid, rows: NDArray[np.int64], groups: Groups, hashes: NDArray[np.int64] | None) -> Routes:
    """Give each row all buckets of its groups in its one column."""
    column: Any = 0
    start: Any = 0
    size: Any = grid.sizes[0]
    if grid.columns > 1 and hashes is not None:
        column = grid.columns_of(hashes)
        start, size = np.array(grid.starts)[column], np.array(grid.sizes)[column]
    if groups.first is None or not grid.depth:
        return _whole_columns(rows, start, size)
    wide = np.zeros(rows.size, np.bool_) if groups.wide is None else groups.wide
    routed = reached(grid, groups, start, size, column)
    chosen = routed >= 0
    # Row by row, so that rows whose event times ascend do so in every bucket.
    found_rows, found_buckets = np.repeat(rows, chosen.sum(axis=1)), routed[chosen]
    if wide.any():
        every = _whole_columns(rows[wide], *(np.broadcast_to(part, rows.shape)[wide] for part in (start, size)))
        return Routes(np.concatenate([found_rows, every.rows]), np.concatenate([found_buckets, every.buckets]))
    return Routes(found_rows, found_buckets)


def _whole_columns(rows: NDArray[np.int64], start: Any, size: Any) -> Routes:  # noqa: ANN401 - a number, or one for each row
    size = np.broadcast_to(size, rows.shape)
    before = np.cumsum(size) - size
    places = np.arange(int(size.sum())) - np.repeat(before, size)
    return Routes(np.repeat(rows, size), places + np.repeat(np.broadcast_to(start, rows.shape), size))


def equal_keys(
    terms: list[RangeTerm], side: Side, columns: Mapping[str, Any], n: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return numbers that are the same for both rows of every pair, and which rows may have a partner."""
    numbers, valid = np.zeros(n, np.int64), None
    for term in terms:
        keys = term.route(side, columns)
        if keys is None:
            msg = f"term {term.label} is no equality"
            raise TypeError(msg)
        numbers = mix(numbers ^ keys.values)
        if keys.valid is not None:
            valid = keys.valid if valid is None else valid & keys.valid
    return numbers, valid


def _cells(
    term: RangeTerm, width: float, side: Side, columns: Mapping[str, Any], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Groups]:
    """Return the rows that have a cell, and their cells."""
    if side == "left":
        keys = term.key("left", columns)
        if keys.valid is not None:
            rows = rows[keys.valid[rows]]
        return rows, Groups(cell_of(term, "left", keys.values[rows], width), cells=True)
    ranges = term.ranges("right", columns)
    lo, hi = ranges.lo[0], ranges.hi[0]
    rows = rows[lo[rows] <= hi[rows]]
    # Both ends go the same monotone way to their cells, so a partner's key lies in a cell between theirs.
    first, last = (cell_of(term, "left", end[rows], width) for end in (lo, hi))
    wide = last - first >= MOST_CELLS
    return rows, Groups(first, np.where(wide, first, last), wide, cells=True)


def row_hash(table: pa.Table) -> NDArray[np.int64]:
    """Return a hash of each row, (n,) int64; nested columns do not count."""
    numbers = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        words = _words(column.combine_chunks())
        if words is not None:
            numbers = mix(numbers ^ words)
    return numbers


def _words(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> NDArray[np.int64] | None:
    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    if pat.is_boolean(kind):
        array, kind = array.cast(pa.int8()), pa.int8()
    if pat.is_null(kind):
        return None
    if pat.is_primitive(kind):
        whole = array.view({8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width])
        words: NDArray[np.int64] = whole.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return words
    if pat.is_decimal(kind):
        array = array.view(pa.binary(kind.byte_width))
    elif not (pat.is_string(kind) or pat.is_large_string(kind) or pat.is_binary(kind) or pat.is_large_binary(kind)):
        return None
    values = hashed(array)
    return values.data if values.valid is None else np.where(values.valid, values.data, 0)
