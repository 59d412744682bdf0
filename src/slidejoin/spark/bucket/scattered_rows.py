"""Rows that may match in several buckets: whether they match in none of these.

With ``grid``, ``broadcast`` or ``spread=`` a row goes to several buckets. All of them have the same watermark, so in
the micro-batch in which the row can match no more each says what it knows: the bucket in which it is at home, if it has
no match there, sends the row; every other one, if the row has a match in it, the row's id. Both go to one task, by a
hash of the id, and the row is output if no id came. Pairs pass the same exchange. So there is no second state::

    home bucket      no partner ─▶ row, id ─┐
    other bucket     a partner  ─▶ id ──────┼─▶ one task: rows without an id of theirs ─▶ result
    other bucket     no partner             │
    all buckets      pairs ─────────────────┘
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from slidejoin.rows.widths import frame_limit
from slidejoin.sides import SIDES
from slidejoin.spark.bucket.exchange import IDS, among, block_of, divided, frame_of, result_schema
from slidejoin.spark.state.blocks import open_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["elsewhere_frames", "gathered", "known_frames", "pair_frame"]

PAIRS = 0
"""Code of a block of result rows."""

ALONE: dict[Side, int] = {"left": 1, "right": 2}
"""Codes of blocks of rows that have no match where they are at home."""

MATCHED: dict[Side, int] = {"left": 3, "right": 4}
"""Codes of blocks of ids of rows that have a match elsewhere."""


def pair_frame(spec: SparkJoinSpec, bucket: int, result: pa.Table) -> pd.DataFrame:
    """Return result rows of a bucket as a block."""
    return frame_of(bucket, PAIRS, block_of(result, result_schema(spec)))


def known_frames(
    spec: SparkJoinSpec, role: Side, result: pa.Table, alone: pa.Table, elsewhere: pa.Table
) -> Iterator[pd.DataFrame]:
    """Yield what a bucket knows of rows that depart, as blocks for the tasks that put it together.

    Parameters
    ----------
    result, alone : pyarrow.Table
        Rows that are at home here and have no match: as result rows, and as they are stored.
    elsewhere : pyarrow.Table
        The ids of rows that have a match here and are at home elsewhere.
    """
    rows = result
    for field in IDS:
        rows = rows.append_column(field.name, alone.column(field.name))
    schema = pa.schema([*result_schema(spec), *IDS])
    yield from divided(spec, ALONE[role], rows, schema)
    yield from elsewhere_frames(spec, role, elsewhere)


def elsewhere_frames(spec: SparkJoinSpec, role: Side, ids: pa.Table) -> Iterator[pd.DataFrame]:
    """Yield the ids of rows that have a match in a bucket and are at home elsewhere."""
    yield from divided(spec, MATCHED[role], ids, IDS)


def gathered(spec: SparkJoinSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put together what all buckets know: yield pairs as they come, and rows that have no partner in any bucket."""
    schema = result_schema(spec)
    with_ids = pa.schema([*schema, *IDS])
    alone: dict[Side, list[pa.RecordBatch]] = {side: [] for side in SIDES}
    matched: dict[Side, list[pa.RecordBatch]] = {side: [] for side in SIDES}
    for batch in batches:
        for kind, block in zip(batch.column("kind").to_pylist(), batch.column("block"), strict=True):
            if kind == PAIRS:
                yield open_block(block.as_buffer(), schema)
                continue
            for side in SIDES:
                if kind == ALONE[side]:
                    alone[side].append(open_block(block.as_buffer(), with_ids))
                elif kind == MATCHED[side]:
                    matched[side].append(open_block(block.as_buffer(), IDS))
    for side in SIDES:
        rows = pa.Table.from_batches(alone[side], schema=with_ids)
        ids = pa.Table.from_batches(matched[side], schema=IDS)
        without = rows.filter(pa.array(~among(rows, ids))) if ids.num_rows else rows
        for part in frame_limit().cut(without.select(schema.names)):
            yield from part.combine_chunks().to_batches()
