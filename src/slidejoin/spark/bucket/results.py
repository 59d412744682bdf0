"""The rows of the result, from output tables of the operator, and as frames, which Spark takes from a bucket.

A frame is converted column by column: Arrow memory passes as it is, but not that of nested columns, whose values would
become Python objects. A result that has such columns leaves the buckets as blocks, which one more step on the same
task opens::

    bucket ─▶ frames ─▶ result
    bucket ─▶ frames of blocks ─▶ mapInArrow ─▶ result with nested columns
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.spark.job.join_spec import LATE_SIDE, MATCH_TIME
from slidejoin.spark.state.blocks import canonical, open_block, to_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.job.streams_spec import StreamsSpec

__all__ = [
    "latest_times",
    "result_batches",
    "result_rows",
    "rows_with_time",
    "to_frame",
    "with_late_side",
]


def result_rows(spec: SparkJoinSpec | StreamsSpec, table: pa.Table) -> pa.Table:
    """Return the result's columns, and of a time window behind them the latest of the event times.

    For ``output="count"`` a row has one event time, the others are NULL: the same rule gives it.
    """
    columns = [table.column(place) for place in spec.places]
    if not spec.times:
        return pa.Table.from_arrays(columns, names=list(spec.names))
    kind = table.column(spec.times[0]).type
    return pa.Table.from_arrays([*columns, latest_times(spec, table).cast(kind)], names=[*spec.names, MATCH_TIME])


def latest_times(spec: SparkJoinSpec | StreamsSpec, table: pa.Table) -> pa.ChunkedArray[Any]:
    """Return the latest of the event times of each row of the operator's output, as int64."""
    # On integers, because pyarrow has no such kernel for timestamps with a zone; the casts copy nothing.
    times = [table.column(place).cast(pa.int64()) for place in spec.times]
    latest: Any = pc.max_element_wise(*times, skip_nulls=True)
    return cast("pa.ChunkedArray[Any]", latest)


def rows_with_time(spec: SparkJoinSpec, side: Side, rows: pa.Table, times: NDArray[np.int64] | None) -> pa.Table:
    """Return rows of one side as result rows, with NULLs for the other side.

    Parameters
    ----------
    times : (n,) int64, optional
        Their match times, in microseconds; none in a count window.
    """
    columns = [
        rows.column(name) if own == side else pa.nulls(rows.num_rows, spec.schema(own).field(name).type)
        for own, name in spec.columns
    ]
    names = list(spec.names)
    if times is not None:
        columns.append(pa.array(times).cast(pa.timestamp("us", tz="UTC")))
        names.append(MATCH_TIME)
    return pa.Table.from_arrays(columns, names=names)


def with_late_side(spec: SparkJoinSpec, table: pa.Table) -> pa.Table:
    """Add the column of the sides of late rows to other rows of the result, where late rows are output."""
    return table.append_column(LATE_SIDE, pa.nulls(table.num_rows, pa.string())) if spec.emits_late else table


def to_frame(spec: SparkJoinSpec | StreamsSpec, table: pa.Table) -> pd.DataFrame:
    """Return result rows as a pandas frame on top of Arrow memory, or as one block if the result has nested columns."""
    if spec.nested is not None:
        return pd.DataFrame({"block": [to_block(canonical(table, spec.nested)).to_pybytes()]})
    frame: pd.DataFrame = table.combine_chunks().to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def result_batches(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the blocks that `to_frame` made."""
    for batch in batches:
        for block in batch.column("block"):
            yield open_block(block.as_buffer(), schema)
