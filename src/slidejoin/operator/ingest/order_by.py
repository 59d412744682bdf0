"""The sort keys of a push: values of the order column, comparable between the sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from slidejoin.errors import SchemaError, nearest
from slidejoin.rows.arrow_buffers import chunks_of, values_in
from slidejoin.rows.held_types import plain, plain_type
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.sides import Side

__all__ = ["plain_places", "sort_values", "sort_values_of"]

Named = TypeVar("Named", bound=str)

PLAIN = {kind.id for kind in (pa.int64(), pa.timestamp("us"), pa.duration("us"), pa.time64("us"))}
"""Types whose order is that of 64-bit integers; their units and zones are the same if the types are."""

SCALES = {"s": 0, "ms": 3, "us": 6, "ns": 9}

TEXTS = dict.fromkeys(
    (kind.id for kind in (pa.string(), pa.large_string(), pa.string_view())), "string"
) | dict.fromkeys((kind.id for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1))), "binary")
"""How errors call the types that are ordered by their bytes, by the types' numbers."""


def sort_values(tables: Mapping[Side, pa.Table], name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return for each side an array of sort values, both of one dtype.

    Columns of one type, all integers, and times of any units compare as they are; other mixtures of numbers are
    compared as Python numbers, which is exact and slower.

    Raises
    ------
    SchemaError
        If a side with rows lacks the column, has NULL or NaN in it, or the types have no common order.
    """
    left, right = (_plain(tables[side], name) if side in tables else None for side in SIDES)
    if left is not None and right is not None and left.type == right.type:
        return values_in(left, np.int64), values_in(right, np.int64)
    by_side = sort_values_of(tables, name)
    empty = next((np.empty(0, values.dtype) for values in by_side.values()), np.empty(0, np.int64))
    return by_side.get("left", empty), by_side.get("right", empty)


def sort_values_of(tables: Mapping[Named, pa.Table], name: str) -> dict[Named, NDArray[Any]]:
    """Return arrays of sort values of one dtype for the tables that have rows, see `sort_values`."""
    columns = {}
    for side, table in tables.items():
        if table.num_rows == 0:
            continue
        if name not in table.column_names:
            msg = f"order_by={name!r}: the {side} batch has no such column; it has {', '.join(table.column_names)}."
            raise SchemaError(msg + nearest(name, table.column_names))
        columns[side] = _values(table.column(name), name, side)
    both = list(columns.values())
    other = next((kind for kind, _, _ in both if kind != both[0][0]), None)
    if other is not None:
        msg = f"order_by={name!r}: {both[0][0]} and {other} have no common order; cast one of the columns"
        raise SchemaError(msg)
    arrays = [_aligned(values, scale, max(s for _, _, s in both)) for _, values, scale in both]
    if len({array.dtype for array in arrays}) > 1:
        arrays = [np.array(array.tolist(), dtype=object) for array in arrays]
    return dict(zip(columns, arrays, strict=True))


def plain_places(tables: Mapping[Side, pa.Table], name: str) -> tuple[int, ...]:
    """Return the places of the column on both sides, if it needs no check but for NULLs; else nothing.

    That is so for all batches with these schemas.
    """
    places = tuple(tables[side].schema.get_field_index(name) for side in SIDES)
    if min(places) < 0:
        return ()
    left, right = (tables[side].schema.field(place).type for side, place in zip(SIDES, places, strict=True))
    return places if left == right and left.id in PLAIN else ()


def _plain(table: pa.Table, name: str) -> pa.ChunkedArray[Any] | None:
    """Return a column whose values in memory are sort values, None for others."""
    place = table.schema.get_field_index(name)
    if place < 0:
        return None
    column = table.column(place)
    return None if column.null_count or column.type.id not in PLAIN else column


def _values(  # noqa: C901, PLR0911, PLR0912 - one case for each family of types
    column: pa.ChunkedArray[Any], name: str, side: str
) -> tuple[str, NDArray[Any], int]:
    """Return the kind of order, the values and their decimal scale."""
    if pa.types.is_dictionary(column.type) or pa.types.is_run_end_encoded(column.type):
        column = chunks_of([plain(chunk) for chunk in column.chunks], plain_type(column.type))
    kind = column.type
    if column.null_count and not pa.types.is_null(kind):
        raise _unordered(name, side, column.null_count, "NULL")
    if pa.types.is_boolean(kind):
        return "boolean", column.cast(pa.int8()).to_numpy().astype(np.int64), 0
    if pa.types.is_unsigned_integer(kind):
        values = column.to_numpy()
        small = values.size == 0 or values.max() <= np.iinfo(np.int64).max
        return "number", values.astype(np.int64 if small else object), 0
    if pa.types.is_integer(kind):
        return "number", column.to_numpy().astype(np.int64), 0
    if pa.types.is_floating(kind):
        values = column.to_numpy().astype(np.float64)
        if np.isnan(values).any():
            raise _unordered(name, side, int(np.isnan(values).sum()), "NaN")
        return "number", values, 0
    if pa.types.is_decimal(kind):
        return "number", np.array(column.to_pylist(), dtype=object), 0
    if pa.types.is_timestamp(kind):
        order = "time with zone" if kind.tz else "time"
        return order, values_in(column, np.int64), SCALES[kind.unit]
    if pa.types.is_date(kind):
        days = column.cast(pa.date32()).cast(pa.int32()).to_numpy().astype(np.int64)
        return "time", days * 86_400, 0
    if pa.types.is_time(kind):
        ticks = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
        return "time of day", ticks.to_numpy().astype(np.int64), SCALES[kind.unit]
    if pa.types.is_duration(kind):
        return "duration", values_in(column, np.int64), SCALES[kind.unit]
    if kind.id in TEXTS:
        return TEXTS[kind.id], _bytes(column), 0
    msg = (
        f"order_by={name!r}: that column of the {side} batch is {kind}, which has no order; order by a number, "
        "boolean, time, duration, string or binary"
    )
    raise SchemaError(msg)


def _unordered(name: str, side: str, rows: int, what: str) -> SchemaError:
    return SchemaError(
        f"order_by={name!r}: {rows} rows of the {side} batch are {what} in it and cannot be ordered; drop them first"
    )


def _bytes(column: pa.ChunkedArray[Any]) -> NDArray[Any]:
    """Return the bytes of each string or binary value, in whose order they sort, (n,) of Python objects."""
    wide = chunks_of([plain(chunk).cast(pa.large_binary()) for chunk in column.chunks], pa.large_binary())
    values = np.empty(len(wide), object)
    values[:] = wide.to_pylist()
    return values


def _aligned(values: NDArray[Any], scale: int, finest: int) -> NDArray[Any]:
    if scale == finest:
        return values
    factor = 10 ** (finest - scale)
    if values.size and max(int(values.max()), -int(values.min())) > np.iinfo(np.int64).max // factor:
        return np.array([int(value) * factor for value in values], dtype=object)
    scaled: NDArray[Any] = values * factor
    return scaled
