"""Rows whose partners are found in several buckets: whether all of these have found none.

With ``grid``, ``broadcast`` or ``spread=`` a row goes to several buckets. All of them have the same watermark, so in
the micro-batch in which it can find no partner any more each says what it knows: the bucket in which it is at home, if
it has found none there, sends the row; every other one, if it has found one, the row's id. Both go to one task, by a
hash of the id, and the row is output if no id came. Pairs pass the same exchange. So there is no second state::

    home bucket      no partner ─▶ row, id ─┐
    other bucket     a partner  ─▶ id ──────┼─▶ one task: rows without an id of theirs ─▶ result
    other bucket     no partner             │
    all buckets      pairs ─────────────────┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from slidejoin.predicate.truth.hashes import mix
from slidejoin.sides import SIDES
from slidejoin.spark.job.grids import bucket_of
from slidejoin.spark.job.join_spec import BATCH, ROW_ID
from slidejoin.spark.job.results import MATCH_TIME
from slidejoin.spark.state.blocks import FRAME, canonical, open_block, to_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["IDS", "gathered", "known_frames", "pair_frame"]

PAIRS = 0
"""Code of a block of result rows."""

ALONE: dict[Side, int] = {"left": 1, "right": 2}
"""Codes of blocks of rows that have found no partner where they are at home."""

MATCHED: dict[Side, int] = {"left": 3, "right": 4}
"""Codes of blocks of ids of rows that have found a partner elsewhere."""

IDS = pa.schema([(ROW_ID, pa.int64()), (BATCH, pa.int64())])


def pair_frame(spec: SparkJoinSpec, bucket: int, result: pa.Table) -> pd.DataFrame:
    """Return result rows of a bucket as a block."""
    return _frame([(bucket, PAIRS, _written(result, result_schema(spec)))])


def known_frames(
    spec: SparkJoinSpec, role: Side, result: pa.Table, alone: pa.Table, elsewhere: pa.Table
) -> Iterator[pd.DataFrame]:
    """Yield what a bucket knows of rows that depart, as blocks for the tasks that put it together.

    Parameters
    ----------
    result, alone : pyarrow.Table
        Rows that are at home here and have found no partner: as result rows, and as they are kept.
    elsewhere : pyarrow.Table
        The ids of rows that have found a partner here and are at home elsewhere.
    """
    rows = result
    for field in IDS:
        rows = rows.append_column(field.name, alone.column(field.name))
    schema = pa.schema([*result_schema(spec), *IDS])
    yield from _divided(spec, ALONE[role], rows, schema)
    yield from _divided(spec, MATCHED[role], elsewhere, IDS)


def gathered(spec: SparkJoinSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put together what all buckets know: yield pairs as they come, and rows that have no partner in any bucket."""
    schema = result_schema(spec)
    kept = pa.schema([*schema, *IDS])
    alone: dict[Side, list[pa.RecordBatch]] = {side: [] for side in SIDES}
    found: dict[Side, list[pa.RecordBatch]] = {side: [] for side in SIDES}
    for batch in batches:
        for kind, block in zip(batch.column("kind").to_pylist(), batch.column("block"), strict=True):
            if kind == PAIRS:
                yield open_block(block.as_buffer(), schema)
                continue
            for side in SIDES:
                if kind == ALONE[side]:
                    alone[side].append(open_block(block.as_buffer(), kept))
                elif kind == MATCHED[side]:
                    found[side].append(open_block(block.as_buffer(), IDS))
    for side in SIDES:
        rows = pa.Table.from_batches(alone[side], schema=kept)
        ids = pa.Table.from_batches(found[side], schema=IDS)
        without = rows.filter(pa.array(~_among(rows, ids))) if ids.num_rows else rows
        for part in FRAME.cut(without.select(schema.names)):
            yield from part.combine_chunks().to_batches()


def result_schema(spec: SparkJoinSpec) -> pa.Schema:
    """Return the schema of the result in Arrow's types."""
    columns = zip(spec.columns, spec.names, strict=True)
    fields = [pa.field(out, spec.schema(side).field(name).type) for (side, name), out in columns]
    if not spec.numbered:
        fields.append(pa.field(MATCH_TIME, pa.timestamp("us", tz="UTC")))
    return pa.schema(fields)


def _among(rows: pa.Table, ids: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which rows have one of these ids, (n,) bool."""
    # Most ids are of rows that their own bucket has not sent, since it has found a partner, too.
    own, others = (np.asarray(table.column(ROW_ID)) for table in (rows, ids))
    known = np.append(np.sort(own), -1)
    ids = ids.filter(pa.array(known[np.searchsorted(known[:-1], others)] == others))
    every = [np.concatenate([np.asarray(table.column(name)) for table in (rows, ids)]) for name in IDS.names]
    order = np.lexsort(every)
    changes = np.zeros(order.size, np.bool_)
    changes[1:] = np.any([np.diff(column[order]) != 0 for column in every], axis=0)
    groups = np.empty(order.size, np.int64)
    groups[order] = np.cumsum(changes)
    has = np.zeros(order.size, np.bool_)
    has[groups[rows.num_rows :]] = True
    among: np.ndarray[tuple[int], np.dtype[np.bool_]] = has[groups[: rows.num_rows]]
    return among


def _divided(spec: SparkJoinSpec, kind: int, rows: pa.Table, schema: pa.Schema) -> Iterator[pd.DataFrame]:
    """Yield rows as blocks, each for the task of their ids."""
    if not rows.num_rows:
        return
    count = len(spec.buckets)
    numbers = np.asarray(rows.column(ROW_ID)) ^ mix(np.asarray(rows.column(BATCH)).astype(np.int64))
    homes = bucket_of(mix(numbers), count)
    for number in range(count):
        own = homes == number
        if own.any():
            for part in FRAME.cut(rows.filter(pa.array(own))):
                yield _frame([(spec.buckets[number], kind, _written(part, schema))])


def _written(rows: pa.Table, schema: pa.Schema) -> bytes:
    block: bytes = to_block(canonical(rows, schema)).to_pybytes()
    return block


def _frame(lines: list[tuple[int, int, bytes]]) -> pd.DataFrame:
    frame = pd.DataFrame(lines, columns=["home", "kind", "block"])
    return frame.astype({"kind": np.int8})
