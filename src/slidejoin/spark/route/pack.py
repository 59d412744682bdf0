"""Packing rows into blocks: each task builds one Arrow block for each bucket, so that rows are never sent singly.

A row costs transformWithState about 4 µs whatever it does; a whole block costs no more than a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.operator.ingest.order_by import sort_values
from slidejoin.rows.widths import TableLimit, bytes_of
from slidejoin.spark.route.placing import Placed
from slidejoin.spark.state.blocks import canonical, to_block, to_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["CODES", "NOTHING", "NUMBER", "ORDERS", "pack"]

PACKED_SCHEMA = pa.schema([("bucket", pa.int64()), ("side", pa.int8()), ("block", pa.binary())])  # type: ignore[arg-type]  # the stubs are of pyarrow 20
IN_ORDER_SCHEMA = pa.schema(
    [("sequencer", pa.int64()), *PACKED_SCHEMA, ("task", pa.int64()), ("first", pa.int64()), ("places", pa.binary())]
)
"""For the single sequencer: the task of a block's rows, and their places from its first row on."""

CODES: dict[Side, int] = {"left": 0, "right": 1}
ORDERS: dict[Side, int] = {"left": 2, "right": 3}
"""Codes of blocks that are the order column of all rows that a task packed at once, for the sequencer."""

NOTHING = -1
"""Code of a row without a block: every task calls every bucket, so that windows expire where no row arrives."""

NUMBER = np.dtype("<i4")
"""Number of a row within its task or its micro-batch; earlier totals are sent once."""

FLUSH = TableLimit(rows=1 << 62, nbytes=64 << 20)
"""A task with more input than this writes several blocks for each bucket: a static table may be one partition."""


def pack(spec: SparkJoinSpec, side: Side, batches: Iterator[pa.RecordBatch], task: int = 0) -> Iterator[pa.RecordBatch]:
    """Turn a task's rows of one side into blocks, and call every bucket, or the sequencer, which then calls them.

    Parameters
    ----------
    task : int
        Its number among those of this side.
    """
    calls = spec.buckets[:1] if spec.numbered else spec.buckets
    yield _packed(spec, list(calls), NOTHING, pa.nulls(len(calls), pa.binary()))
    schema = spec.given(side)
    held: list[pa.Table] = []
    packed = size = 0
    for batch in batches:
        for table in FLUSH.cut(canonical(batch, schema)):
            coming = bytes_of(table)
            if held and size + coming > FLUSH.nbytes:
                yield from _flushed(spec, side, held, packed, task)
                packed += sum(one.num_rows for one in held)
                held, size = [], 0
            if table.num_rows:
                held.append(table)
                size += coming
    yield from _flushed(spec, side, held, packed, task)


def _flushed(spec: SparkJoinSpec, side: Side, held: list[pa.Table], first: int, task: int) -> Iterator[pa.RecordBatch]:
    if not held:
        return
    table = pa.concat_tables(held).combine_chunks()
    of = (task, first)
    if spec.order_by is not None:
        order = table.select([spec.order_by])
        # Checks here already which side has NULLs or NaNs there.
        sort_values({side: order}, spec.order_by)
        yield _packed(spec, [spec.buckets[0]], ORDERS[side], to_value(to_block(order)), of)
        table = table.select([name for name in table.column_names if name in spec.packed(side).names])
    for number, rows, copies in Placed(spec, side, table, task, first).blocks():
        places = rows.astype(NUMBER).tobytes() if spec.numbered else b""
        yield _packed(spec, [spec.buckets[number]], CODES[side], to_value(to_block(copies)), of, places)


def _packed(
    spec: SparkJoinSpec,
    buckets: list[int],
    side: int,
    blocks: pa.Array[Any],
    of: tuple[int, int] = (0, 0),
    places: bytes = b"",
) -> pa.RecordBatch:
    columns: list[pa.Array[Any]] = [
        pa.array(buckets, pa.int64()),
        pa.array(np.full(len(buckets), side, np.int8)),
        blocks,
    ]
    if not spec.numbered:
        return pa.RecordBatch.from_arrays(columns, schema=PACKED_SCHEMA)
    same = [pa.array(np.full(len(buckets), number)) for number in (0, *of)]
    columns = [same[0], *columns, *same[1:], pa.array([places] * len(buckets), pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=IN_ORDER_SCHEMA)
