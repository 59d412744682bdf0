"""Arrow tables to the rows of the oracle and back to comparable results."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.oracle import Clock, Day, Instant, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.oracle import Row, Step

NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def values_of(column: Any) -> list[Any]:
    """A column as Python values; times as the oracle's exact integers, whatever their unit."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return values_of(column.dictionary_decode())
    if pa.types.is_timestamp(kind):
        scale, zoned = NS[kind.unit], kind.tz is not None
        return [None if v is None else Instant(v * scale, zoned) for v in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_date32(kind):
        return [None if v is None else Day(v) for v in column.cast(pa.int32()).to_pylist()]
    if pa.types.is_date64(kind):
        return [None if v is None else Day(v // 86_400_000) for v in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_time32(kind):
        return [None if v is None else Clock(v * NS[kind.unit]) for v in column.cast(pa.int32()).to_pylist()]
    if pa.types.is_time64(kind):
        return [None if v is None else Clock(v * NS[kind.unit]) for v in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_duration(kind):
        return [None if v is None else Span(v * NS[kind.unit]) for v in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_float16(kind):
        return [None if v is None else float(v) for v in column.to_pylist()]
    plain: list[Any] = column.to_pylist()
    return plain


def rows_of(table: pa.Table | pa.RecordBatch) -> list[Row]:
    """The rows of a table as the oracle's dicts.

    >>> rows_of(pa.table({"id": [1], "ts": pa.array([2], pa.timestamp("ms"))}))
    [{'id': 1, 'ts': Instant(ns=2000000, zoned=False)}]
    """
    columns = {name: values_of(table.column(i)) for i, name in enumerate(table.column_names)}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)] if columns else []


def ids(table: pa.Table, left: str = "id", right: str = "id_right") -> list[tuple[Any, Any]]:
    """The pairs of a result as (left id, right id), in output order."""
    return list(zip(table.column(left).to_pylist(), table.column(right).to_pylist(), strict=True))


def groups_of(steps: Iterable[Step]) -> list[list[tuple[Any, Any]]]:
    """The oracle's pairs as (left id, right id), a list for each probe that found any."""
    groups = [[(left and left["id"], right and right["id"]) for left, right in step.rows] for step in steps]
    return [group for group in groups if group]


def flat(groups: Iterable[list[Any]]) -> list[Any]:
    """All members of all groups, in order."""
    return list(itertools.chain.from_iterable(groups))


def same_groups(got: list[Any], groups: list[list[Any]]) -> bool:
    """Whether `got` is the groups one after the other, each in any order."""
    if len(got) != sum(map(len, groups)):
        return False
    start = 0
    for group in groups:
        if sorted(got[start : start + len(group)]) != sorted(group):
            return False
        start += len(group)
    return True
