"""Summing the counts of a row over several buckets: one output row for each input row.

Each copy of a row has counted its pairs in its bucket. One copy is at home: its output row stays, and the counts of
the others are added to it, within the same micro-batch. Counts are sent as blocks, like rows before the join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.rows.gather import taken
from slidejoin.rows.widths import frame_limit
from slidejoin.spark.bucket.results import result_rows

if TYPE_CHECKING:
    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["at_home", "partial_frame", "sum_counts"]


def at_home(spec: SparkJoinSpec, table: pa.Table) -> tuple[pa.Table, int]:
    """Return the count rows that are at home in this bucket, where they are complete, and their sum."""
    lines = table.filter(pc.coalesce(*(table.column(place) for place in spec.helpers)))
    return lines, pc.sum(lines.column(spec.places[-1])).as_py() or 0


def partial_frame(spec: SparkJoinSpec, table: pa.Table) -> pd.DataFrame:
    """Return the operator's count rows as blocks, one for each home bucket."""
    row_id, at_home = (
        pc.coalesce(*(table.column(place) for place in places)) for places in (spec.helpers[:2], spec.helpers[2:])
    )
    result = result_rows(spec, table)
    lines = result.append_column("row", row_id).append_column("at_home", at_home)
    counted = pc.greater(result.column("match_count"), 0)  # type: ignore[call-overload]  # the stubs are of pyarrow 20
    lines = lines.filter(pc.or_(at_home, counted))
    count = len(spec.buckets)
    homes = lines.column("row").to_numpy() % count
    order = np.argsort(homes, kind="stable")
    ends = np.searchsorted(homes[order], np.arange(count), "right").tolist()
    places: pa.Array[Any] = pa.array(order)
    lines = lines.take(places).combine_chunks()
    blocks = []
    start = 0
    for number, end in enumerate(ends):
        if end > start:
            blocks.append((spec.buckets[number], _written(lines.slice(start, end - start))))
        start = end
    return pd.DataFrame(blocks, columns=["home", "block"])


def sum_counts(blocks: pa.Table) -> pa.Table:
    """Return the result's rows of one home bucket from its blocks, in chunks of which each is a frame."""
    tables = [pa.ipc.open_stream(block.as_buffer()).read_all() for block in blocks.column("block")]
    numbers = pa.concat_tables([table.select(["row", "at_home", "match_count"]) for table in tables])
    rows = numbers.column("row").to_numpy()
    order = np.argsort(rows, kind="stable")
    starts = np.flatnonzero(np.diff(rows[order], prepend=rows.min() - 1))
    sums = np.add.reduceat(numbers.column("match_count").to_numpy()[order], starts)
    # A late row is late in all of its buckets, so every row with a count has one at home.
    home = order[numbers.column("at_home").to_numpy()[order]]
    lines = [table.drop_columns(["row", "at_home"]) for table in tables]
    place = lines[0].column_names.index("match_count")
    parts, start = [], 0
    for part in taken(lines, home, frame_limit()):
        stop = start + part.num_rows
        parts.append(part.set_column(place, "match_count", pa.array(sums[start:stop])).combine_chunks())
        start = stop
    return pa.concat_tables(parts)


def _written(lines: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, lines.schema) as writer:
        writer.write_table(lines)
    data: bytes = sink.getvalue().to_pybytes()
    return data
