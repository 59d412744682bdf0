"""Storage types of Arrow columns, from which rows can be taken and whose pieces can be concatenated.

Arrow can take rows from almost every type. The exceptions are stored as a type with the same values, and cast back on
output:

- views of strings and binary (also inside structs and lists) as large strings and binary,
- run-end-encoded columns decoded,
- dictionaries with 32-bit indices and without NULL among their entries, those inside structs and lists decoded: each
  batch may bring another dictionary, and together they may have more entries than the narrow indices of one can count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import PredicateError
from slidejoin.rows.arrow_buffers import array_of, chunks_of, empty_of
from slidejoin.rows.widths import row_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


__all__ = ["check_holdable", "held", "held_schema", "released", "with_few_entries"]

MANY_ENTRIES = 1 << 16
"""Bytes of a dictionary from which on unused entries are dropped."""


def _held_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), _plain_type(kind.value_type), kind.ordered)  # type: ignore[call-overload, no-any-return]  # the stubs are of pyarrow 20
    return _plain_type(kind)


def _plain_type(kind: pa.DataType) -> pa.DataType:  # noqa: PLR0911 - one case for each family
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        fixed: pa.DataType = pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)), kind.list_size)
        return fixed
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    return kind


def held_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with each type as it is held."""
    return pa.schema([field.with_type(_held_type(field.type)) for field in schema])


def held(table: pa.Table) -> pa.Table:
    """Return the table with its columns as they are held."""
    schema = held_schema(table.schema)
    if schema.equals(table.schema) and not any(pa.types.is_dictionary(field.type) for field in schema):
        return table
    columns = [_held(column, field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _held(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any]:
    if pa.types.is_dictionary(kind):
        return chunks_of([_held_dictionary(chunk, kind) for chunk in column.chunks], kind)  # type: ignore[arg-type]  # chunks of dictionaries, by their type
    if pa.types.is_run_end_encoded(column.type):
        decoded = [pc.run_end_decode(chunk) for chunk in column.chunks]  # type: ignore[attr-defined]  # the stubs are of pyarrow 20
        column = chunks_of(decoded, column.type.value_type)
    return column if column.type == kind else column.cast(kind)


def _held_dictionary(
    chunk: pa.DictionaryArray[Any, Any], kind: pa.DictionaryType[Any, Any, Any]
) -> pa.DictionaryArray[Any, Any]:
    if chunk.dictionary.null_count == 0:
        if chunk.type == kind:
            return chunk
        indices, entries = chunk.indices.cast(pa.int32()), chunk.dictionary
    else:
        valid = np.asarray(chunk.dictionary.is_valid())
        moved = pa.array(np.cumsum(valid, dtype=np.int32) - np.int32(1), mask=~valid)
        indices, entries = moved.take(chunk.indices), chunk.dictionary.drop_null()
    return pa.DictionaryArray.from_arrays(indices, entries.cast(kind.value_type), ordered=kind.ordered)


def released(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any]:
    """Return a held column as its original type.

    Where the entries of a chunk are too many for the indices of a dictionary, it becomes several chunks.
    """
    if column.type == kind:
        return column
    return chunks_of([part for chunk in column.chunks for part in _released(chunk, kind)], kind)


def _released(chunk: pa.Array[Any], kind: pa.DataType) -> Iterator[pa.Array[Any]]:
    try:
        yield _released_whole(chunk, kind)
    except pa.ArrowInvalid:
        if len(chunk) < 2:  # noqa: PLR2004 - one row cannot be cut
            raise
        # Taken, not sliced: a slice of lists keeps, and casts, all of their members.
        for rows in np.array_split(np.arange(len(chunk)), 2):
            yield from _released(chunk.take(array_of(rows)), kind)


def _released_whole(chunk: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    if pa.types.is_dictionary(kind):
        # So that narrow indices suffice longer.
        indices, entries = _used(chunk)  # type: ignore[arg-type]  # of dictionaries, by its type
        return pa.DictionaryArray.from_arrays(
            indices.cast(kind.index_type), entries.cast(kind.value_type), ordered=kind.ordered
        )
    if pa.types.is_run_end_encoded(kind):
        plain = chunk if chunk.type == kind.value_type else chunk.cast(kind.value_type)
        return pc.run_end_encode(plain, run_end_type=kind.run_end_type)  # type: ignore[attr-defined, no-any-return]  # the stubs are of pyarrow 20
    return chunk.cast(kind)


def _used(chunk: pa.DictionaryArray[Any, Any]) -> tuple[pa.Array[Any], pa.Array[Any]]:
    """Return the indices of a dictionary's values among its used entries, and these, in their order."""
    used, indices = np.unique(chunk.indices.fill_null(0).to_numpy(zero_copy_only=False), return_inverse=True)
    mask = None if chunk.null_count == 0 else np.asarray(chunk.indices.is_null())
    entries = chunk.dictionary.take(pa.array(used)) if len(chunk.dictionary) else chunk.dictionary
    return pa.array(indices.reshape(-1), mask=mask), entries


def with_few_entries(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return a dictionary column without the entries that it does not use, where they are many bytes.

    A few rows of a large dictionary would bring all of it along, and rows of several dictionaries all of these.
    """
    return chunks_of([_with_few_entries(chunk) for chunk in column.chunks], column.type)  # type: ignore[arg-type]  # chunks of dictionaries, by their type


def _with_few_entries(chunk: pa.DictionaryArray[Any, Any]) -> pa.DictionaryArray[Any, Any]:
    shared = int(chunk.dictionary.nbytes)
    if shared <= MANY_ENTRIES or int(row_bytes(chunk, np.arange(len(chunk)), entries=True).sum()) >= shared:
        return chunk
    indices, entries = _used(chunk)
    return pa.DictionaryArray.from_arrays(indices.cast(chunk.type.index_type), entries, ordered=chunk.type.ordered)


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
            empty = held(empty_of(pa.schema([schema.field(name)])))
            released(empty.take(pa.nulls(0, pa.int64())).column(0), kind)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
            msg = (
                f"column {name!r} of the {side} side is {kind}, which Arrow cannot take rows out of; "
                "leave it out with select=, or convert it to another type"
            )
            raise PredicateError(msg) from error
