"""Packing rows into blocks: each task builds one Arrow block for each bucket, so that rows are never sent singly.

A row costs transformWithState about 4 µs whatever it does; a whole block costs no more than a row.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.operator.ingest.order_by import sort_values, sort_values_of
from slidejoin.predicate.expression.streams import wide_name
from slidejoin.predicate.truth.evaluate import ColumnsBySide, truth
from slidejoin.predicate.truth.hashes import mix
from slidejoin.rows.arrow_buffers import array_of, by_name
from slidejoin.rows.widths import block_limit, bytes_of, packed_limit, widths_of
from slidejoin.spark.job.buckets import bucket_of
from slidejoin.spark.job.streams_spec import routing_terms, streams_plan_of
from slidejoin.spark.route.copies import Placed, first_id
from slidejoin.spark.route.everywhere import shared_blocks
from slidejoin.spark.route.routing import row_hash
from slidejoin.spark.state.blocks import canonical, to_block, to_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.job.streams_spec import StreamsSpec

__all__ = ["CODES", "EVERY_BUCKET", "NOTHING", "NUMBER", "ORDERS", "pack", "pack_streams"]

PACKED_SCHEMA = pa.schema([("bucket", pa.int64()), ("side", pa.int8()), ("block", pa.binary())])  # type: ignore[arg-type]  # the stubs are of pyarrow 20
IN_ORDER_SCHEMA = pa.schema(
    [("sequencer", pa.int64()), *PACKED_SCHEMA, ("task", pa.int64()), ("first", pa.int64()), ("places", pa.binary())]
)
"""For the single sequencer: the task of a block's rows, and their places from its first row on."""

FIELDS = {"bucket": pa.int64(), "side": pa.int8(), "task": pa.int64(), "first": pa.int64(), "block": pa.binary()}

STREAMS_SCHEMA = pa.schema([pa.field(name, kind) for name, kind in FIELDS.items()])
"""Of many streams: a block, its stream, the task that packed it, and the place of its first row in the task."""

CODES: dict[Side, int] = {"left": 0, "right": 1}
ORDERS: dict[Side, int] = {"left": 2, "right": 3}
"""Codes of blocks that are the order column of all rows that a task packed at once, for the sequencer."""

NOTHING = -1
"""Code of a row without a block: every task calls every bucket, so that windows expire where no row arrives."""

EVERY_BUCKET = -1
"""Instead of the id of a bucket: the sequencer passes such a block to all."""

NUMBER = np.dtype("<i4")
"""Number of a row within its task or its micro-batch; earlier totals are sent once."""


def pack(spec: SparkJoinSpec, side: Side, batches: Iterator[pa.RecordBatch], task: int = 0) -> Iterator[pa.RecordBatch]:
    """Turn a task's rows of one side into blocks, and call every bucket, or the sequencer, which then calls them.

    Parameters
    ----------
    task : int
        Its number among those of this side.
    """
    calls = spec.buckets[:1] if spec.numbered else spec.buckets
    yield _packed(spec, list(calls), NOTHING, pa.nulls(len(calls), pa.binary()))
    for first, table in _tables(spec.given(side), batches):
        yield from _blocks(spec, side, table, (task, first))


def _tables(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Yield a task's rows in tables that are packed at once, each after the number of rows before it."""
    held: list[pa.Table] = []
    first = size = 0
    limit = packed_limit()
    for batch in batches:
        for table in limit.cut(canonical(batch, schema)):
            coming = bytes_of(table)
            if held and size + coming > limit.nbytes:
                yield first, pa.concat_tables(held).combine_chunks()
                first += sum(one.num_rows for one in held)
                held, size = [], 0
            if table.num_rows:
                held.append(table)
                size += coming
    if held:
        yield first, pa.concat_tables(held).combine_chunks()


def _blocks(spec: SparkJoinSpec, side: Side, table: pa.Table, of: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    if spec.order_by is not None:
        order = table.select([spec.order_by])
        # Checks here already which side has NULLs or NaNs there.
        sort_values({side: order}, spec.order_by)
        yield _packed(spec, [spec.buckets[0]], ORDERS[side], to_value(to_block(order)), of)
        table = table.select([name for name in table.column_names if name in spec.packed(side).names])
    blocks: Iterator[tuple[Sequence[int], NDArray[np.int64], pa.Table]]
    if spec.probes_everywhere:
        blocks = shared_blocks(spec, side, table, np.arange(table.num_rows) + first_id(side, *of))
    else:
        placed = Placed(spec, side, table, *of).blocks()
        blocks = (([number], rows, copies) for number, rows, copies in placed)
    for numbers, rows, copies in blocks:
        places = rows.astype(NUMBER).tobytes() if spec.numbered else b""
        buckets = [spec.buckets[number] for number in numbers]
        block = to_value(to_block(copies))
        for bucket in [EVERY_BUCKET] if spec.numbered and len(buckets) > 1 else buckets:
            yield _packed(spec, [bucket], CODES[side], block, of, places)


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


def pack_streams(
    spec: StreamsSpec, stream: int, batches: Iterator[pa.RecordBatch], task: int = 0
) -> Iterator[pa.RecordBatch]:
    """Turn a task's rows of one stream into blocks, each for the bucket of its key, and call every bucket.

    All streams share the key. A row whose key is NULL, or that fails the condition on its own stream, can be in no
    combination and is not sent. Where rows are counted it is: to any bucket, by a hash of the row. Rows of count
    windows all go to the one bucket.
    """
    yield _packed_streams(list(spec.buckets), NOTHING, (task, 0), pa.nulls(len(spec.buckets), pa.binary()))
    for first, table in _tables(spec.packed(stream), batches):
        yield from _stream_blocks(spec, stream, table, (task, first))


def _stream_blocks(spec: StreamsSpec, stream: int, table: pa.Table, of: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    if spec.order_by is not None:
        # Checks here already which stream has NULLs or NaNs there.
        sort_values_of({spec.streams[stream]: table.select([spec.order_by])}, spec.order_by)
    rows, buckets = places_of(spec, stream, table)
    order = np.argsort(buckets, kind="stable")  # rows of a bucket stay in their order
    rows, buckets = rows[order], buckets[order]
    for first, last in pairwise([0, *block_limit().stops(widths_of(table).at(rows))]):
        ends = [0, *(np.flatnonzero(np.diff(buckets[first:last])) + 1).tolist(), last - first]
        for start, stop in pairwise(first + end for end in ends):
            if start < stop:
                chosen: NDArray[np.int64] = rows[start:stop]
                copies = table.take(array_of(chosen))
                bucket = spec.buckets[int(buckets[start])]
                yield _packed_streams([bucket], stream, (of[0], of[1] + int(chosen[0])), to_value(to_block(copies)))


def places_of(spec: StreamsSpec, stream: int, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows that are sent, and the number of the bucket of each, both (k,) int64."""
    n, count = table.num_rows, len(spec.buckets)
    every = np.arange(n)
    if spec.numbered:
        return every, np.zeros(n, np.int64)
    plan, columns = streams_plan_of(spec), by_name(table)
    numbers, sent = np.zeros(n, np.int64), np.ones(n, np.bool_)
    for terms in routing_terms(spec):
        # The first stream is on the left of all of them, and has the same numbers in each.
        keys = terms[0].route("left", columns) if stream == 0 else terms[stream - 1].route("right", columns)
        if keys is None:
            msg = "rows are routed by equalities"
            raise TypeError(msg)
        numbers = mix(numbers ^ keys.values)
        if keys.valid is not None:
            sent &= keys.valid
    if spec.config.output == "count":
        numbers = np.where(sent, numbers, row_hash(table))
        return every, bucket_of(numbers, count)
    if stream in plan.own:
        wide = {wide_name(spec.streams[stream], name): column for name, column in columns.items()}
        sent &= truth(plan.own[stream], ColumnsBySide({"left": wide}), n)
    rows = np.flatnonzero(sent)
    return rows, bucket_of(numbers[rows], count)


def _packed_streams(buckets: list[int], side: int, of: tuple[int, int], blocks: pa.Array[Any]) -> pa.RecordBatch:
    same = [pa.array(np.full(len(buckets), number)) for number in of]
    columns = [pa.array(buckets, pa.int64()), pa.array(np.full(len(buckets), side, np.int8)), *same, blocks]
    return pa.RecordBatch.from_arrays(columns, schema=STREAMS_SCHEMA)
