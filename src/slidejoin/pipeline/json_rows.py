"""Rows as lines of JSON and as cells of CSV, in the form in which Spark writes them."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["json_lines", "json_objects", "time_texts"]


def time_texts(column: pa.ChunkedArray[Any], *, exact: bool = False) -> pa.ChunkedArray[Any]:
    """Return timestamps as texts in ISO 8601: to the millisecond, or finer where some are or if they are `exact`.

    Examples
    --------
    >>> time_texts(pa.chunked_array([pa.array([1_500_000], pa.timestamp("us", "UTC"))])).to_pylist()
    ['1970-01-01T00:00:01.500Z']
    """
    kind = column.type
    per_ms = {"s": 0, "ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]
    ticks = column.cast(pa.int64())
    whole = not exact and (
        per_ms <= 1 or bool(pc.all(pc.equal(pc.multiply(pc.divide(ticks, per_ms), per_ms), ticks), min_count=0).as_py())
    )
    shown: Any = column.cast(pa.timestamp("ms" if whole else kind.unit, kind.tz))
    return cast("pa.ChunkedArray[Any]", pc.strftime(shown, "%Y-%m-%dT%H:%M:%S" + ("Z" if kind.tz else "")))


def json_lines(table: pa.Table) -> str:
    """Return each row as an object on a line of its own, without its NULLs.

    Examples
    --------
    >>> print(json_lines(pa.table({"a": [1, None], "b": [b"x", None], "c": [0.5, float("nan")]})), end="")
    {"a":1,"b":"eA==","c":0.5}
    {"c":"NaN"}
    """
    names = _names(table)
    columns = [_texts(column) for column in table.columns]
    return "".join(
        "{" + ",".join(name + text for name, text in zip(names, row, strict=True) if text is not None) + "}\n"
        for row in zip(*columns, strict=True)
    )


def json_objects(table: pa.Table) -> list[str]:
    """Return each row as an object, with its NULLs, and times to their last digit.

    Examples
    --------
    >>> json_objects(pa.table({"a": [1, None], "b": ["x", None]}))
    ['{"a":1,"b":"x"}', '{"a":null,"b":null}']
    """
    columns = [_texts(column, exact=True) for column in table.columns]
    filled = [
        [name + ("null" if text is None else text) for text in column]
        for name, column in zip(_names(table), columns, strict=True)
    ]
    return ["{" + ",".join(row) + "}" for row in zip(*filled, strict=True)]


def _names(table: pa.Table) -> list[str]:
    return [json.dumps(name, ensure_ascii=False) + ":" for name in table.column_names]


def _texts(column: pa.ChunkedArray[Any], *, exact: bool = False) -> list[str | None]:
    """Return the values of a column as JSON, None for NULL."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        joined: Any = pc.binary_join_element_wise
        quoted = joined('"', time_texts(column, exact=exact), '"', "")
        return cast("list[str | None]", quoted.to_pylist())
    if pa.types.is_integer(kind):
        return column.cast(pa.string()).to_pylist()
    written = _writer(kind)
    return [None if value is None else written(value) for value in column.to_pylist()]


def _writer(kind: pa.DataType) -> Callable[[Any], str]:
    if pa.types.is_floating(kind):
        return _number
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return json.encoder.encode_basestring
    return lambda value: json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _plain(value: Any) -> Any:  # noqa: ANN401, PLR0911 - one case for each kind of value
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list) and value and all(isinstance(one, tuple) for one in value):
        return {str(key): _plain(one) for key, one in value}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
