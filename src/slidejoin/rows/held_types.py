"""Storage types of Arrow columns, from which rows can be taken and whose pieces can be concatenated.

Arrow can take rows from almost every type. The exceptions are stored as a type with the same values, and made again on
output, wherever they stand in structs, lists and maps:

- views of strings and binary as large strings and binary,
- run-end-encoded values decoded,
- lists by views of such as large lists, extension types over such as these,
- dictionaries with 32-bit indices and without NULL among their entries, nested ones decoded: each batch may bring
  another dictionary, and together they may have more entries than the narrow indices of one can count. Dictionaries of
  nested values, which Arrow cannot unite, are decoded too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import PredicateError
from slidejoin.rows.arrow_buffers import array_of, buffer_of, chunks_of, empty_of
from slidejoin.rows.widths import row_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray


__all__ = [
    "as_lists",
    "check_holdable",
    "held",
    "held_schema",
    "plain",
    "plain_type",
    "released",
    "with_few_entries",
]

MAP: Callable[..., pa.DataType] = pa.map_  # with what the stubs do not let it take: fields, and any order of keys

MANY_ENTRIES = 1 << 16
"""Bytes of a dictionary from which on unused entries are dropped."""


def _held_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind) and _united(kind.value_type):
        return pa.dictionary(pa.int32(), plain_type(kind.value_type), kind.ordered)  # type: ignore[call-overload, no-any-return]  # the stubs are of pyarrow 20
    return plain_type(kind)


def _united(kind: pa.DataType) -> bool:
    """Tell whether Arrow makes one dictionary of several that have entries of this type."""
    return not (
        pa.types.is_nested(kind)
        or pa.types.is_dictionary(kind)
        or pa.types.is_run_end_encoded(kind)
        or pa.types.is_interval(kind)
        or pa.types.is_null(kind)
        or isinstance(kind, pa.BaseExtensionType)
    )


def plain_type(kind: pa.DataType) -> pa.DataType:  # noqa: C901, PLR0911 - one case for each family
    """Return the type without views, runs and dictionaries, at any depth.

    Examples
    --------
    >>> plain_type(pa.list_(pa.dictionary(pa.int8(), pa.string_view())))
    ListType(list<item: large_string>)
    """
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = (field.with_type(plain_type(field.type)) for field in (kind.key_field, kind.item_field))
        return MAP(key, item, kind.keys_sorted)
    if isinstance(kind, pa.BaseExtensionType):
        storage = plain_type(kind.storage_type)
        return kind if storage == kind.storage_type else storage
    if not _is_list(kind):
        return kind
    value = kind.value_field.with_type(plain_type(kind.value_type))  # type: ignore[attr-defined]  # of lists
    if pa.types.is_fixed_size_list(kind):
        fixed: pa.DataType = pa.list_(value, kind.list_size)
        return fixed
    if pa.types.is_list(kind):
        return pa.list_(value)
    if pa.types.is_large_list(kind) or value.type != kind.value_type:  # type: ignore[attr-defined]  # of lists
        return pa.large_list(value)
    return kind


def _is_list(kind: pa.DataType) -> bool:
    return _is_view(kind) or any(
        is_one(kind) for is_one in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


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
    return column if column.type == kind else chunks_of([_plain(chunk, kind) for chunk in column.chunks], kind)


def _held_dictionary(
    chunk: pa.DictionaryArray[Any, Any], kind: pa.DictionaryType[Any, Any, Any]
) -> pa.DictionaryArray[Any, Any]:
    if chunk.type == kind and chunk.dictionary.null_count == 0:
        return chunk
    entries = _plain(chunk.dictionary, kind.value_type)
    if entries.null_count == 0:
        indices = chunk.indices.cast(pa.int32())
    else:
        valid = np.asarray(entries.is_valid())
        moved = pa.array(np.cumsum(valid, dtype=np.int32) - np.int32(1), mask=~valid)
        indices, entries = moved.take(chunk.indices), entries.drop_null()
    return pa.DictionaryArray.from_arrays(indices, entries, ordered=kind.ordered)


def plain(array: pa.Array[Any]) -> pa.Array[Any]:
    """Return an array as its `plain_type`.

    Examples
    --------
    >>> plain(pa.array(["a", None], pa.string_view())).type
    DataType(large_string)
    """
    return _plain(array, plain_type(array.type))


def as_lists(array: pa.Array[Any]) -> pa.Array[Any]:
    """Return lists of any layout, their members plain, as lists whose members lie one behind the other."""
    kind = array.type
    if _is_view(kind):
        return _of_views(array, pa.large_list(kind.value_field.with_type(plain_type(kind.value_type))))
    return plain(array)


def _plain(array: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    own: Any = array
    if array.type == kind:
        return array
    if pa.types.is_dictionary(array.type):
        return _plain(own.dictionary, kind).take(own.indices)
    if pa.types.is_run_end_encoded(array.type):
        rows = np.arange(array.offset, array.offset + len(array))
        places = np.searchsorted(np.asarray(own.run_ends), rows, side="right")
        return _plain(own.values, kind).take(array_of(places.astype(np.int64)))
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage, kind)
    if _is_view(array.type):
        return _of_views(array, kind)
    return _with_members(array, kind, _plain) if pa.types.is_nested(kind) else array.cast(kind)


def _of_views(array: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return lists by views as large lists, (rows,), whose members are plain."""
    own: Any = array
    valid = np.asarray(array.is_valid())
    starts = np.asarray(own.offsets).astype(np.int64)
    sizes = np.where(valid, np.asarray(own.sizes).astype(np.int64), 0)
    ends = np.cumsum(sizes)
    # Member number i of all is the i-th of its list's, behind that list's first one.
    places = np.arange(ends[-1] if ends.size else 0) + np.repeat(starts - ends + sizes, sizes)
    members = _plain(own.values, kind.value_type).take(array_of(places))  # type: ignore[attr-defined]  # of lists
    return _large_lists(kind, sizes, valid, members)


def _large_lists(
    kind: pa.DataType, sizes: NDArray[np.int64], valid: NDArray[np.bool_], members: pa.Array[Any]
) -> pa.Array[Any]:
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    marks = None if valid.all() else buffer_of(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, sizes.size, [marks, buffer_of(offsets)], -1, children=[members])


def _with_members(
    array: pa.Array[Any], kind: pa.DataType, change: Callable[[pa.Array[Any], pa.DataType], pa.Array[Any]]
) -> pa.Array[Any]:
    """Return structs, lists or maps with other members, which `change` makes of those that they have."""
    own: Any = array
    if pa.types.is_struct(kind):
        children = [change(own.field(number), field.type) for number, field in enumerate(kind)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    of: Any = kind
    member = pa.struct([of.key_field, of.item_field]) if pa.types.is_map(kind) else of.value_type
    count = 1 if pa.types.is_fixed_size_list(kind) else 2
    buffers = array.buffers()[:count]
    members = change(own.values, member)
    return pa.Array.from_buffers(kind, len(array), buffers, -1, array.offset, children=[members])


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
    own: Any = chunk
    if chunk.type == kind:
        return chunk
    if pa.types.is_dictionary(kind):
        # So that narrow indices suffice longer.
        indices, entries = _used(own) if pa.types.is_dictionary(chunk.type) else _entries(chunk)
        return pa.DictionaryArray.from_arrays(
            indices.cast(kind.index_type), _released_whole(entries, kind.value_type), ordered=kind.ordered
        )
    if pa.types.is_run_end_encoded(kind):
        ends, values = _runs(chunk)
        of_runs: Any = ends.cast(kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(of_runs, _released_whole(values, kind.value_type), type=kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _released_whole(chunk, kind.storage_type))
    if _is_view(kind):
        return _as_views(chunk, kind)
    return _with_members(chunk, kind, _released_whole) if pa.types.is_nested(kind) else chunk.cast(kind)


def _entries(values: pa.Array[Any]) -> tuple[pa.Array[Any], pa.Array[Any]]:
    """Return values as indices into entries, and these."""
    try:
        encoded: Any = values.dictionary_encode()
    except pa.ArrowNotImplementedError:  # nested values: each is an entry
        places = np.arange(len(values))
        return pa.array(places, mask=np.asarray(values.is_null())), values
    return encoded.indices, encoded.dictionary


def _runs(values: pa.Array[Any]) -> tuple[pa.Array[Any], pa.Array[Any]]:
    """Return where runs of equal values end, and the value of each."""
    try:
        encoded: Any = pc.run_end_encode(values, run_end_type=pa.int64())  # type: ignore[attr-defined]  # the stubs are of pyarrow 20
    except pa.ArrowNotImplementedError:  # nested values: each is a run
        return array_of(np.arange(1, len(values) + 1)), values
    return encoded.run_ends, encoded.values


def _as_views(chunk: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return large lists as lists by views."""
    own: Any = chunk
    word = pa.int32() if pa.types.is_list_view(kind) else pa.int64()
    offsets = np.asarray(own.offsets)
    starts, sizes = (pa.array(places).cast(word).buffers()[1] for places in (offsets[:-1], np.diff(offsets)))
    marks = None
    if chunk.null_count:
        marks = buffer_of(np.packbits(np.asarray(chunk.is_valid()), bitorder="little"))
    members = _released_whole(own.values, kind.value_type)  # type: ignore[attr-defined]  # of lists
    return pa.Array.from_buffers(kind, len(chunk), [marks, starts, sizes], -1, children=[members])


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
