"""Result rows as frames, which is what Spark takes from a bucket.

A frame is converted column by column: Arrow memory passes as it is, but not that of nested columns, whose values would
become Python objects. A result that has such columns leaves the buckets as blocks, which one more step on the same
task opens::

    bucket ─▶ frames ─▶ result
    bucket ─▶ frames of blocks ─▶ mapInArrow ─▶ result with nested columns
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from slidejoin.spark.state.blocks import canonical, open_block, to_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spark.job.streams_spec import StreamsSpec

__all__ = ["result_batches", "to_frame"]


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
