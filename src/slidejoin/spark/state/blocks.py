"""Blocks: rows as Arrow record batches without the schema, which both ends know."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pat

from slidejoin.errors import StateError
from slidejoin.rows.arrow_buffers import buffer_of
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spark.job.column_names import task_column
from slidejoin.spark.state.compact import from_compact, nullable
from slidejoin.spark.state.records import WHAT_TO_DO

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "canonical",
    "open_block",
    "open_sealed",
    "read_block",
    "seal",
    "to_block",
    "to_value",
    "unsealed",
]

LARGEST_VALUE = (1 << 31) - 1

MAGIC, MAGIC_WITHOUT_OWNER = 0x32534A53, 0x31534A53
"""The second is that of the previous format, whose checksum is of the bytes alone."""

HEADER = np.dtype([("magic", "<u4"), ("crc", "<u4"), ("size", "<u8")])
"""A header of 16 bytes before the sealed bytes."""


def canonical(batch: pa.RecordBatch | pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the schema's columns of a batch in the schema's types: zones, large types and the like are unified.

    They have their own names there or those that tasks get, see `task_column`.
    """
    columns, names = [], set(batch.schema.names)
    for number, field in enumerate(schema):
        column = batch.column(field.name if field.name in names else task_column(number, field.name))
        columns.append(column if column.type == field.type else column.cast(field.type))
    if not columns:
        return pa.table({"": pa.nulls(batch.num_rows)}).select([])
    return pa.Table.from_arrays(columns, schema=schema)


def to_block(table: pa.Table) -> pa.Buffer:
    """Write a table as one record batch without its schema."""
    batches = table.combine_chunks().to_batches()
    if not batches:
        batches = [
            pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)
        ]
    if len(batches) > 1:
        # Only columns beyond 2 GiB of characters stay in several pieces.
        msg = (
            f"{table.num_rows} rows of one bucket do not fit one Arrow batch; use smaller micro-batches or more buckets"
        )
        raise StateError(msg)
    return batches[0].serialize()


def to_value(block: pa.Buffer) -> pa.Array[Any]:
    """Return an array of one binary value, without a copy.

    Raises
    ------
    SparkJoinError
        If the block is too large for that: then it is a single row, as blocks of several are bounded.
    """
    if block.size > LARGEST_VALUE:
        msg = (
            f"a row takes {block.size} bytes with those packed with it, but a binary value of Spark holds at most "
            f"{LARGEST_VALUE}; omit its large column with select="
        )
        raise SparkJoinError(msg)
    return pa.Array.from_buffers(pa.binary(), 1, [None, buffer_of(np.array([0, block.size], np.int32)), block])


def open_block(block: bytes | pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Read what `to_block` wrote, without a copy.

    Lengths and offsets are checked, as kernels trust them: a block comes from disk or over the network. Texts need not
    be UTF-8, which Spark does not promise.

    Raises
    ------
    StateError
        If these are no rows of that schema.
    """
    data = pa.py_buffer(block) if isinstance(block, bytes) else block
    try:
        batch = read_block(data, schema)
        pa.ipc.read_record_batch(data, _checked_schema(schema)).validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        msg = f"a block of {data.size} bytes on its way between tasks is damaged: {error}. Start the query again"
        raise StateError(msg) from error
    return batch


def read_block(block: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Read what `to_block` wrote, without a copy and without a check."""
    return pa.ipc.read_record_batch(block, schema)


@lru_cache(maxsize=64)
def _checked_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema under which a block of another one is checked."""
    return pa.schema([pa.field(str(number), _checked_type(one.type)) for number, one in enumerate(schema)])


def _checked_type(kind: pa.DataType) -> pa.DataType:
    """Return a type of the same layout: of texts as bytes, of nested types all of whose fields may be NULL."""
    if pat.is_string(kind):
        return pa.binary()
    if pat.is_large_string(kind):
        return pa.large_binary()
    return nullable(kind, _checked_type)


def seal(block: pa.Buffer | bytes, owner: bytes) -> bytes:
    """Put a checksum before bytes that have to outlive their writer, over them and their owner."""
    data = memoryview(block)
    header = np.array([(MAGIC, zlib.crc32(data, zlib.crc32(owner)), len(data))], HEADER)
    return b"".join([header.tobytes(), data])


def unsealed(parts: Iterable[bytes], what: str, owner: bytes) -> memoryview:
    """Return the bytes that `seal` put a checksum before; they may come in several parts.

    Raises
    ------
    StateError
        If a part is missing or the bytes are not those that were written for this owner; `what` names them.
    """
    pieces = list(parts)
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if len(data) < HEADER.itemsize:
        msg = f"{what} is damaged: it has {len(data)} bytes, fewer than its header. {WHAT_TO_DO}"
        raise StateError(msg)
    header = np.frombuffer(data, HEADER, 1)[0]
    body = memoryview(data)[HEADER.itemsize :]
    if header["magic"] not in {MAGIC, MAGIC_WITHOUT_OWNER}:
        msg = f"{what} is not a segment of slidejoin, or of another format. {WHAT_TO_DO}"
        raise StateError(msg)
    start = zlib.crc32(owner) if header["magic"] == MAGIC else 0
    if header["size"] != len(body) or header["crc"] != zlib.crc32(body, start):
        msg = (
            f"{what} is damaged: its {len(body)} bytes do not match the checksum of the {header['size']} that were "
            f"written. {WHAT_TO_DO}"
        )
        raise StateError(msg)
    return body


def open_sealed(parts: Iterable[bytes], schema: pa.Schema, what: str, owner: bytes, rows: int) -> pa.Table:
    """Read so many sealed rows, see `slidejoin.spark.state.compact`, that may come in several parts.

    Raises
    ------
    StateError
        If they are damaged, see `unsealed`, or no rows of that schema.
    """
    body = unsealed(parts, what, owner)
    try:
        return from_compact(pa.py_buffer(body), schema, rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        msg = f"{what} cannot be read as rows of the join's schema: {error}"
        raise StateError(msg) from error
