"""Which rows meet in which bucket: a pure function of the row and of the join's fixed parameters.

Every pair meets in exactly one bucket. A left row goes to one bucket; a right row to every bucket in which a partner
may be, once to each:

=========  ====================================  ==================================================
strategy   left row                              right row
=========  ====================================  ==================================================
hash       hash of the equality's keys           the same
cell       the cell of its key on the axis       the cells that its band overlaps
broadcast  hash of the whole row                 every bucket
=========  ====================================  ==================================================

Packing comes before the state, and a micro-batch that runs again after a crash must go where it went the first time;
so nothing here depends on other rows, on counters or on chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from slidejoin.arrays import by_name
from slidejoin.errors import nearest
from slidejoin.predicate.hashes import hashed, mix
from slidejoin.spark.checks import SparkJoinError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.plan import Plan
    from slidejoin.predicate.bind import BoundPredicate
    from slidejoin.predicate.expr import Side
    from slidejoin.predicate.terms import RangeTerm
    from slidejoin.spark.wiring import Wiring

__all__ = ["STRATEGIES", "Routes", "Strategy", "choose_strategy", "route"]

STRATEGIES = ("auto", "hash", "cell", "broadcast")

BANDS_A_CELL = 4
"""Width of a cell in band widths: a right row is then copied 1.25 times on average."""

MOST_CELLS = 8
"""A band over more cells goes to every bucket: far out on the axis of doubles one step may be many cells."""

LARGEST = (1 << 63) - 1
FARTHEST_CELL = float(1 << 62)


@dataclass(frozen=True, slots=True)
class Strategy:
    """How rows are routed, decided when the join is built.

    Attributes
    ----------
    name : str
        hash, cell or broadcast.
    terms : tuple of int
        Numbers of the predicate's terms that route.
    width : int or float
        Of a cell, on the axis of the left key.
    """

    name: str
    terms: tuple[int, ...] = ()
    width: int | float = 0

    def __str__(self) -> str:
        """Return the strategy as it is compared with that of a checkpoint."""
        return f"{self.name} of width {self.width}" if self.name == "cell" else self.name


@dataclass(frozen=True, slots=True)
class Routes:
    """Where rows go: row ``rows[i]`` of a table to bucket number ``buckets[i]``, each (k,) int64."""

    rows: NDArray[np.int64]
    buckets: NDArray[np.int64]


def choose_strategy(name: str, bound: BoundPredicate) -> Strategy:
    """Return the strategy of that name for a predicate, or for ``auto`` the cheapest that it allows.

    Raises
    ------
    SparkJoinError
        For an unknown name, or a strategy for which the predicate has no term.
    """
    if name not in STRATEGIES:
        msg = f"strategy must be one of {', '.join(map(repr, STRATEGIES))}; got {name!r}."
        raise SparkJoinError(msg + nearest(str(name), STRATEGIES))
    equal = tuple(number for number, term in enumerate(bound.terms) if term.shape == "equality")
    if name == "hash" or (name == "auto" and equal):
        if not equal:
            msg = (
                "strategy 'hash' needs an equality between the sides, such as l.key = r.key; "
                f"the predicate has {_terms(bound)}. Use strategy='auto', 'cell' or 'broadcast'"
            )
            raise SparkJoinError(msg)
        return Strategy("hash", equal)
    bands = [number for number, term in enumerate(bound.terms) if term.shape == "band" and term.band_width is not None]
    if name == "cell" or (name == "auto" and bands):
        if not bands:
            msg = (
                "strategy 'cell' needs a band of constant width between the sides, such as "
                f"l.x BETWEEN r.x - 5 AND r.x + 5; the predicate has {_terms(bound)}. Use strategy='auto' or "
                "'broadcast'"
            )
            raise SparkJoinError(msg)
        width = bound.terms[bands[0]].band_width or 0
        return Strategy("cell", (bands[0],), width * BANDS_A_CELL or 1)
    return Strategy("broadcast")


def _terms(bound: BoundPredicate) -> str:
    return ", ".join(term.label for term in bound.terms) or "no comparison that gives ranges"


def route(wiring: Wiring, plan: Plan, side: Side, table: pa.Table) -> Routes:
    """Return the buckets of one side's rows; rows that can match nothing go nowhere, unless they are counted.

    `table` has the columns of that side's packed schema.
    """
    columns = by_name(table)
    kept = plan.bound.prefilter(side, columns)
    counted = wiring.config.output == "count"
    rows = np.arange(table.num_rows) if kept is None or counted else np.flatnonzero(kept)
    count, strategy = len(wiring.buckets), wiring.strategy
    terms = [plan.bound.terms[number] for number in strategy.terms]
    if strategy.name == "hash":
        numbers, valid = _equal_keys(terms, side, columns, table.num_rows)
        if valid is not None:
            if counted:
                numbers = np.where(valid, numbers, row_hash(table))
            else:
                rows = rows[valid[rows]]
        return Routes(rows, bucket_of(numbers[rows], count))
    if strategy.name == "cell":
        return _cells(terms[0], strategy.width, side, columns, rows, count)
    if side == "left":
        return Routes(rows, bucket_of(row_hash(table)[rows], count))
    return Routes(np.repeat(rows, count), np.tile(np.arange(count), rows.size))


def bucket_of(numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the bucket of well spread numbers."""
    return (numbers.view(np.uint64) % np.uint64(count)).astype(np.int64)


def _equal_keys(
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
    term: RangeTerm, width: float, side: Side, columns: Mapping[str, Any], rows: NDArray[np.int64], count: int
) -> Routes:
    if side == "left":
        keys = term.key("left", columns)
        if keys.valid is not None:
            rows = rows[keys.valid[rows]]
        return Routes(rows, bucket_of(mix(_cell(term, keys.values[rows], width)), count))
    ranges = term.ranges("right", columns)
    lo, hi = ranges.lo[0], ranges.hi[0]
    rows = rows[lo[rows] <= hi[rows]]
    # Both ends go the same monotone way to their cells, so a partner's key lies in a cell between theirs.
    first, last = (_cell(term, end[rows], width) for end in (lo, hi))
    wide = last - first >= MOST_CELLS
    last = np.where(wide, first, last)
    found_rows, found_buckets = [], []
    earlier: list[NDArray[np.int64]] = []
    for step in range(int((last - first).max(initial=0)) + 1):
        there = ~wide & (first + step <= last)
        buckets = np.where(there, bucket_of(mix(first + step), count), -1)
        # Two cells of one row may lie in one bucket: the row goes there once.
        new = there & np.logical_and.reduce([buckets != before for before in earlier]) if earlier else there
        found_rows.append(rows[new])
        found_buckets.append(buckets[new])
        earlier.append(buckets)
    everywhere = rows[wide]
    found_rows.append(np.repeat(everywhere, count))
    found_buckets.append(np.tile(np.arange(count), everywhere.size))
    return Routes(np.concatenate(found_rows), np.concatenate(found_buckets))


def _cell(term: RangeTerm, keys: NDArray[np.int64], width: float) -> NDArray[np.int64]:
    places = term.axis(keys)
    if places.dtype == np.int64:
        cells: NDArray[np.int64] = places.astype(np.int64, copy=False) // np.int64(min(int(width), LARGEST))
        return cells
    with np.errstate(over="ignore"):
        return np.clip(np.floor(places / width), -FARTHEST_CELL, FARTHEST_CELL).astype(np.int64)


def row_hash(table: pa.Table) -> NDArray[np.int64]:
    """Return a hash of each row, (n,) int64; nested columns do not count."""
    numbers = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        words = _words(column.combine_chunks())
        if words is not None:
            numbers = mix(numbers ^ words)
    return numbers


def _words(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64] | None:
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
