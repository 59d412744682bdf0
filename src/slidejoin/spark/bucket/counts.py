"""Summing the counts of a row over several buckets: one output row for each input row.

Each copy of a row has counted its pairs in its bucket. One copy is at home: its output row stays, and the counts of
the others are added to it, within the same micro-batch. Counts are sent as blocks, like rows before the join::

    bucket of the row's home  ─▶ block of (result columns, row) ─┐
    another bucket            ─▶ block of (row, match_count)    ─┴─▶ match_count summed by row ─▶ result
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.rows.widths import frame_limit
from slidejoin.spark.bucket.results import result_rows
from slidejoin.spark.job.join_spec import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["at_home", "partial_frame", "sum_counts"]

OTHERS = (ROW_ID, "match_count")
"""What is sent of a row that has its count elsewhere: its id, and the count. A row at home has more columns."""


def at_home(spec: SparkJoinSpec, table: pa.Table) -> tuple[pa.Table, int]:
    """Return the count rows that are at home in this bucket, where they are complete, and their sum."""
    lines = table.filter(pc.coalesce(*(table.column(place) for place in spec.helpers)))
    return lines, pc.sum(lines.column(spec.places[-1])).as_py() or 0


def partial_frame(spec: SparkJoinSpec, table: pa.Table) -> pd.DataFrame:
    """Return the operator's count rows as blocks, for each home bucket one of rows at home and one of other counts."""
    row_id, at_home = (
        pc.coalesce(*(table.column(place) for place in places)) for places in (spec.helpers[:2], spec.helpers[2:])
    )
    count = table.column(spec.places[-1])
    others = pa.Table.from_arrays([row_id, count], names=list(OTHERS))
    elsewhere = pc.and_not(pc.greater(count, 0), at_home)  # type: ignore[call-overload]  # the stubs are of pyarrow 20
    own = result_rows(spec, table.filter(at_home))
    lines = own.append_column(ROW_ID, row_id.filter(at_home))
    blocks = [*_blocks(spec, lines), *_blocks(spec, others.filter(elsewhere))]
    return pd.DataFrame(blocks, columns=["home", "block"])


def _blocks(spec: SparkJoinSpec, lines: pa.Table) -> Iterator[tuple[int, bytes]]:
    """Yield rows as blocks, one for each home bucket."""
    count = len(spec.buckets)
    homes = (lines.column(ROW_ID).to_numpy() % count).astype(np.min_scalar_type(count))
    order = np.argsort(homes, kind="stable")
    ends = np.searchsorted(homes[order], np.arange(count), "right").tolist()
    places: pa.Array[Any] = pa.array(order)
    lines = lines.take(places).combine_chunks()
    for number, (start, end) in enumerate(pairwise([0, *ends])):
        if end > start:
            yield spec.buckets[number], _written(lines.slice(start, end - start))


def sum_counts(blocks: pa.Table) -> pa.Table:
    """Return the result's rows of one home bucket from its blocks, in chunks of which each is a frame."""
    tables = [pa.ipc.open_stream(block.as_buffer()).read_all() for block in blocks.column("block")]
    own = pa.concat_tables([table for table in tables if table.num_columns > len(OTHERS)])
    others = [table for table in tables if table.num_columns == len(OTHERS)]
    sums = own.column("match_count").to_numpy().copy()
    if others:
        counted = pa.concat_tables(others)
        rows = own.column(ROW_ID).to_numpy()
        order = np.argsort(rows)
        # A late row is late in all of its buckets, so every row with a count has one at home.
        places = order[np.searchsorted(rows, counted.column(ROW_ID).to_numpy(), sorter=order)]
        np.add.at(sums, places, counted.column("match_count").to_numpy())
    summed = own.set_column(own.column_names.index("match_count"), "match_count", pa.array(sums))
    return pa.concat_tables([part.combine_chunks() for part in frame_limit().cut(summed.drop_columns([ROW_ID]))])


def _written(lines: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, lines.schema) as writer:
        writer.write_table(lines)
    data: bytes = sink.getvalue().to_pybytes()
    return data
