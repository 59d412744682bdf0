"""Compact encoding of rows for the state: Parquet with delta encoded columns.

Rows of a segment are sorted by time, so times and counters shrink to bits and keys to the bits that they use: 24 bytes
of a key, a counter and a timestamp become 6.5 in 45 ns a row. Unencoded they would be 15 after Spark's compression, and
every byte is written to the changelog, and again to each snapshot of the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet
from pyarrow import types as pat

from slidejoin.rows.arrow_buffers import chunks_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["from_compact", "nullable", "to_compact"]

ROWS_WITHOUT_BYTES = 1 << 26
"""So many rows a segment may have whatever its bytes are: times and keys that rise evenly take hardly any."""

WORDS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def to_compact(table: pa.Table) -> pa.Buffer:
    """Write rows; `from_compact` needs their schema to read them."""
    columns, encodings, texts = [], {}, []
    for number, column in enumerate(table.columns):
        name, plain = str(number), _plain(column.type)
        columns.append(column if plain == column.type else _viewed(column, plain))
        if pat.is_integer(plain):
            encodings[name] = "DELTA_BINARY_PACKED"
        elif pat.is_floating(plain) or pat.is_fixed_size_binary(plain):
            encodings[name] = "BYTE_STREAM_SPLIT"
        elif pat.is_string(plain) or pat.is_binary(plain):
            texts.append(name)
    sink = pa.BufferOutputStream()
    parquet.write_table(
        pa.table(columns, names=[str(number) for number in range(len(columns))]),
        sink,
        row_group_size=max(table.num_rows, 1),
        use_dictionary=texts,  # type: ignore[arg-type]  # the stubs are of pyarrow 20
        column_encoding=encodings,
        compression="none",  # Spark compresses what it writes
        write_statistics=False,
        store_schema=False,
    )
    return sink.getvalue()


def from_compact(data: pa.Buffer, schema: pa.Schema, rows: int) -> pa.Table:
    """Read so many rows that `to_compact` wrote.

    Nothing is read before the file says that it has as many rows, all of them as they were written: compressed ones
    could unpack to any size.

    Raises
    ------
    pyarrow.ArrowException
        If they are no rows of that schema.
    """
    file = parquet.ParquetFile(pa.BufferReader(data))
    known = file.metadata
    if known.num_rows != rows or rows > max(ROWS_WITHOUT_BYTES, 8 * data.size):
        msg = f"{data.size} bytes with {known.num_rows} rows, expected {rows}"
        raise pa.ArrowInvalid(msg)
    for group in range(known.num_row_groups):
        chunks = [known.row_group(group).column(number) for number in range(known.num_columns)]
        if any(chunk.compression != "UNCOMPRESSED" for chunk in chunks):
            msg = "the rows are compressed, which no version of slidejoin does"
            raise pa.ArrowInvalid(msg)
    table = file.read(use_threads=False)
    if table.num_columns != len(schema):
        msg = f"{table.num_columns} columns, expected {len(schema)}"
        raise pa.ArrowInvalid(msg)
    columns = []
    for column, field in zip(table.columns, schema, strict=True):
        plain = _plain(field.type)
        values = column if column.type == plain else column.cast(plain)
        columns.append(values if plain == field.type else _viewed(values, field.type))
    whole = pa.table(columns, schema=schema).combine_chunks()
    whole.validate()
    return whole


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values of a type are written: numbers of the same bits, as Parquet lacks some types."""
    if pat.is_decimal(kind):
        return pa.binary(kind.byte_width)
    if pat.is_primitive(kind) and not pat.is_boolean(kind) and kind not in (pa.float32(), pa.float64()):
        return WORDS.get(kind.bit_width, kind)
    return nullable(kind)


def nullable(kind: pa.DataType, inner: Callable[[pa.DataType], pa.DataType] | None = None) -> pa.DataType:
    """Return a nested type all of whose fields may be NULL, their own types changed by `inner`; others as they are.

    Within a struct that is NULL they are, whatever Spark says of them, and Parquet then refuses to write them.
    """
    of = nullable if inner is None else inner
    if pat.is_struct(kind):
        return pa.struct([pa.field(field.name, of(field.type)) for field in kind])
    if pat.is_map(kind):
        return pa.map_(of(kind.key_type), of(kind.item_type))
    return pa.list_(of(kind.value_type)) if pat.is_list(kind) else kind


def _viewed(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any]:
    return chunks_of(
        [_nested(chunk, kind) if pat.is_nested(kind) else chunk.view(kind) for chunk in column.chunks], kind
    )


def _nested(array: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return nested values as those of a type that differs in what may be NULL, which no cast does if there are any."""
    batch = pa.RecordBatch.from_arrays([array], names=["0"])
    return pa.ipc.read_record_batch(batch.serialize(), pa.schema([pa.field("0", kind)])).column(0)
