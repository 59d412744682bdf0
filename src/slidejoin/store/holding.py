"""How Arrow columns are held, so that rows can be taken out of them.

Arrow takes rows out of almost every type. The exceptions are held as a type with the same values and given their own
back on the way out: views of strings and binary (also inside structs and lists) as large strings and binary,
run-end-encoded columns decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import PredicateError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["check_holdable", "held", "held_schema", "released"]


def _held_type(kind: pa.DataType) -> pa.DataType:  # noqa: PLR0911 - one case for each family
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_run_end_encoded(kind):
        return _held_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_held_type(field.type)) for field in kind])
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_held_type(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_held_type(kind.value_type)), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_held_type(kind.value_type)))
    return kind


def held_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with each type as it is held."""
    return pa.schema([field.with_type(_held_type(field.type)) for field in schema])


def held(table: pa.Table) -> pa.Table:
    """Return the table with its columns as they are held."""
    schema = held_schema(table.schema)
    if schema.equals(table.schema):
        return table
    columns = []
    for column, field in zip(table.columns, schema, strict=True):
        if pa.types.is_run_end_encoded(column.type):
            decoded = [pc.run_end_decode(chunk) for chunk in column.chunks]
            column = pa.chunked_array(decoded, column.type.value_type)  # noqa: PLW2901 - the same column, decoded
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def released(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a held column as the type that it came with."""
    if column.type == kind:
        return column
    if pa.types.is_run_end_encoded(kind):
        plain = column if column.type == kind.value_type else column.cast(kind.value_type)
        chunks = [pc.run_end_encode(chunk, run_end_type=kind.run_end_type) for chunk in plain.chunks]
        return pa.chunked_array(chunks, kind)
    return column.cast(kind)


def check_holdable(side: str, schema: pa.Schema, names: Iterable[str]) -> None:
    """Refuse columns that Arrow cannot take rows out of.

    Raises
    ------
    PredicateError
        Naming the column.
    """
    for name in names:
        kind = schema.field(name).type
        try:
            empty = held(pa.schema([schema.field(name)]).empty_table())
            released(empty.take(pa.array([], pa.int64())).column(0), kind)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
            msg = (
                f"column {name!r} of the {side} side is {kind}, which Arrow cannot take rows out of; "
                "leave it out with select=, or convert it to another type"
            )
            raise PredicateError(msg) from error
