"""Two inequalities on streams of real life on Spark, whole results against DuckDB; see also the demo's tests."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slidejoin as sj
from slidejoin.spark import stream_join
from tests.real_data import readings, sums_of, taxi_trips
from tests.spark.feeds import finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from tests.real_data import Streams
    from tests.spark.feeds import Feed

pytest.importorskip("duckdb")

REAL = [
    (taxi_trips, "pickup_datetime timestamp, trip_distance double, fare_amount double, id long"),
    (readings, "rp long, cp long, second timestamp, id long"),
]
"""SPO-Join's Q2 and Q1, and the schema of their rows."""

ROWS = 2_000
"""Rows of each stream in the test that also runs by day."""


def streamed(feed: Feed, streams: Streams, schema: str, micro_batches: int) -> list[DataFrame]:
    """The streams as Spark's, of files that are a micro-batch each; event times are timestamps there."""
    frames, rows = [], -(-streams.left.num_rows // micro_batches)
    for side, table in streams.tables.items():
        at = table[streams.time].cast(pa.timestamp("s")).cast(pa.timestamp("us", tz="UTC"))
        timed = table.set_column(table.schema.get_field_index(streams.time), streams.time, at)
        folder = feed.folder / side
        folder.mkdir()
        for number in range(micro_batches):
            file = folder / f"{number}.parquet"
            pq.write_table(timed.slice(number * rows, rows), file)
            # Spark takes them in the order of their times.
            os.utime(file, (1_000_000_000 + number,) * 2)
        reader = feed.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        frames.append(reader.parquet(str(folder)))
    return frames


def compare(feed: Feed, given: Streams, schema: str, micro_batches: int, **options: Any) -> int:
    """Join streams with a window of time, compare the whole result with DuckDB's, and return how many pairs it has."""
    window = sj.TimeWindow(f"{given.seconds} seconds", on=given.time)
    result = stream_join(
        *streamed(feed, given, schema, micro_batches), on=given.on, window=window, self_join=given.self_join,
        partitions=2, select=["l.id", "r.id"], **options,
    )  # fmt: skip
    query = feed.start(result, "found")
    finish(query)
    # Rows of later micro-batches meet those of earlier ones, which are in the state.
    assert sum(one["numInputRows"] > 0 for one in query.recentProgress) == micro_batches
    pairs = pq.read_table(feed.folder / "found")
    sums = sums_of(pairs["id"].to_numpy(), pairs["id_right"].to_numpy(), given.left.num_rows)
    expected, _ = given.found_by_duckdb().within("seconds", given.seconds)
    assert np.array_equal(sums, expected)
    return pairs.num_rows


@pytest.mark.parametrize(("streams", "schema"), REAL)
def test_equals_duckdb(feed: Feed, streams: Callable[[], Streams], schema: str) -> None:
    assert compare(feed, streams(), schema, 2) > 50_000


@pytest.mark.parametrize(("streams", "schema"), REAL)
def test_spo_join_equals_duckdb(feed: Feed, streams: Callable[[], Streams], schema: str) -> None:
    """SPO-Join as its paper describes it: whole sub-windows in buckets, and a PO-Join structure in each of these."""
    whole = streams()
    left = whole.left.slice(0, ROWS)
    given = replace(whole, left=left, right=left if whole.self_join else whole.right.slice(0, ROWS))
    assert compare(feed, given, schema, 4, algorithm="po_join", strategy="sub_windows") > 20_000
