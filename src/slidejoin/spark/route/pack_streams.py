"""Packing the rows of many streams: each row into one block, for the bucket of the key that all streams share.

A row whose key is NULL, or that fails the condition on its own stream, can be in no combination and is not sent. Where
rows are counted it is: to any bucket, by a hash of the row. Rows of count windows all go to the one bucket.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.operator.ingest.order_by import sort_values_of
from slidejoin.predicate.expression.streams import wide_name
from slidejoin.predicate.truth.evaluate import ColumnsBySide, truth
from slidejoin.predicate.truth.hashes import mix
from slidejoin.rows.arrow_buffers import array_of, by_name
from slidejoin.rows.widths import bytes_of, widths_of
from slidejoin.spark.job.grids import bucket_of
from slidejoin.spark.job.streams_spec import routing_terms, streams_plan_of
from slidejoin.spark.route.pack import FLUSH, NOTHING
from slidejoin.spark.route.routing import row_hash
from slidejoin.spark.state.blocks import BLOCK, canonical, to_block, to_value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from slidejoin.spark.job.streams_spec import StreamsSpec

__all__ = ["pack_streams", "places_of"]

FIELDS = {"bucket": pa.int64(), "side": pa.int8(), "task": pa.int64(), "first": pa.int64(), "block": pa.binary()}

SCHEMA = pa.schema([pa.field(name, kind) for name, kind in FIELDS.items()])
"""A block, its stream, the task that packed it, and the place of its first row among those that the task packed."""


def pack_streams(
    spec: StreamsSpec, stream: int, batches: Iterator[pa.RecordBatch], task: int = 0
) -> Iterator[pa.RecordBatch]:
    """Turn a task's rows of one stream into blocks, and call every bucket."""
    yield _packed(list(spec.buckets), NOTHING, (task, 0), pa.nulls(len(spec.buckets), pa.binary()))
    schema = spec.packed(stream)
    held: list[pa.Table] = []
    packed = size = 0
    for batch in batches:
        for table in FLUSH.cut(canonical(batch, schema)):
            coming = bytes_of(table)
            if held and size + coming > FLUSH.nbytes:
                yield from _blocks(spec, stream, held, (task, packed))
                packed += sum(one.num_rows for one in held)
                held, size = [], 0
            if table.num_rows:
                held.append(table)
                size += coming
    yield from _blocks(spec, stream, held, (task, packed))


def _blocks(spec: StreamsSpec, stream: int, held: list[pa.Table], of: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    if not held:
        return
    table = pa.concat_tables(held).combine_chunks()
    if spec.order_by is not None:
        # Checks here already which stream has NULLs or NaNs there.
        sort_values_of({spec.streams[stream]: table.select([spec.order_by])}, spec.order_by)
    rows, buckets = places_of(spec, stream, table)
    order = np.argsort(buckets, kind="stable")  # rows of a bucket stay in their order
    rows, buckets = rows[order], buckets[order]
    for first, last in pairwise([0, *BLOCK.stops(widths_of(table).at(rows))]):
        ends = [0, *(np.flatnonzero(np.diff(buckets[first:last])) + 1).tolist(), last - first]
        for start, stop in pairwise(first + end for end in ends):
            if start < stop:
                chosen: NDArray[np.int64] = rows[start:stop]
                copies = table.take(array_of(chosen))
                bucket = spec.buckets[int(buckets[start])]
                yield _packed([bucket], stream, (of[0], of[1] + int(chosen[0])), to_value(to_block(copies)))


def places_of(spec: StreamsSpec, stream: int, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows that are sent, and the number of the bucket of each, both (k,) int64."""
    n, count = table.num_rows, len(spec.buckets)
    every = np.arange(n)
    if spec.numbered:
        return every, np.zeros(n, np.int64)
    plan, columns = streams_plan_of(spec), by_name(table)
    numbers, kept = np.zeros(n, np.int64), np.ones(n, np.bool_)
    for terms in routing_terms(spec):
        # The first stream is on the left of all of them, and has the same numbers in each.
        keys = terms[0].route("left", columns) if stream == 0 else terms[stream - 1].route("right", columns)
        if keys is None:
            msg = "rows are routed by equalities"
            raise TypeError(msg)
        numbers = mix(numbers ^ keys.values)
        if keys.valid is not None:
            kept &= keys.valid
    if spec.config.output == "count":
        numbers = np.where(kept, numbers, row_hash(table))
        return every, bucket_of(numbers, count)
    if stream in plan.own:
        wide = {wide_name(spec.streams[stream], name): column for name, column in columns.items()}
        kept &= truth(plan.own[stream], ColumnsBySide({"left": wide}), n)
    rows = np.flatnonzero(kept)
    return rows, bucket_of(numbers[rows], count)


def _packed(buckets: list[int], side: int, of: tuple[int, int], blocks: pa.Array[Any]) -> pa.RecordBatch:
    same = [pa.array(np.full(len(buckets), number)) for number in of]
    columns = [pa.array(buckets, pa.int64()), pa.array(np.full(len(buckets), side, np.int8)), *same, blocks]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
