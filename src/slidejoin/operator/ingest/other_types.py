"""Columns of another type than their side's, taken where nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.rows.arrow_buffers import chunks_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["as_type", "family", "takes"]

FAMILIES: dict[str, Callable[[pa.DataType], bool]] = {
    "null": pa.types.is_null,
    "boolean": pa.types.is_boolean,
    "integer": pa.types.is_integer,
    "float": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "timestamp": pa.types.is_timestamp,
    "date": pa.types.is_date,
    "time": pa.types.is_time,
    "duration": pa.types.is_duration,
    "string": lambda kind: any(
        is_(kind) for is_ in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    ),
    "binary": lambda kind: any(
        is_(kind) for is_ in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    ),
}

WIDER = {("integer", "float"), ("integer", "decimal")}
"""Kinds of numbers whose values may be those of another kind."""


def family(kind: pa.DataType) -> str:
    """Return the kind of values of a type, "other" where no other type has the same."""
    return next((name for name, is_one in FAMILIES.items() if is_one(kind)), "other")


def takes(given: str, wanted: str) -> bool:
    """Tell whether values of one family may be those of another."""
    return (given == wanted != "other") or given == "null" or (given, wanted) in WIDER


def as_type(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any] | None:
    """Return the column as another type; None if such values are not taken as that type.

    Raises
    ------
    pyarrow.ArrowException
        If a value would not be the same.
    """
    if pa.types.is_null(column.type):
        return chunks_of([pa.nulls(len(column)).cast(kind)], kind)
    if isinstance(kind, pa.BaseExtensionType) or isinstance(column.type, pa.BaseExtensionType):
        return None
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type != plain:
        if not takes(family(column.type), family(plain)) or _zone(column.type) != _zone(plain):
            return None
        column = _exact(column, plain)
    if not pa.types.is_dictionary(kind):
        return column
    encoded: Any = pc.dictionary_encode(column)
    return chunks_of(
        [
            pa.DictionaryArray.from_arrays(one.indices.cast(kind.index_type), one.dictionary, ordered=kind.ordered)
            for one in encoded.chunks
        ],
        kind,
    )


def _zone(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _exact(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any]:
    if pa.types.is_decimal(kind) and pa.types.is_integer(column.type):
        # Arrow asks for as many digits as the type may have, whatever the values need.
        column = column.cast(
            pa.decimal256(76, kind.scale) if pa.types.is_decimal256(kind) else pa.decimal128(38, kind.scale)
        )
    out = column.cast(kind)
    if pa.types.is_floating(kind) and pa.types.is_floating(column.type):
        back = out.cast(column.type)
        # NaN is no other value than NaN.
        same = pc.or_kleene(pc.equal(back, column), pc.is_nan(column))
        if pc.all(same, min_count=0).as_py() is False:
            msg = f"values would be rounded to {kind}"
            raise pa.ArrowInvalid(msg)
    return out
