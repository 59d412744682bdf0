"""Two inequalities on streams of real life on Spark, whole results against DuckDB; see also the demo's tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

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

MICRO_BATCHES = 2


def streamed(feed: Feed, streams: Streams, schema: str) -> list[DataFrame]:
    """The streams as Spark's, of files that are a micro-batch each; event times are timestamps there."""
    frames, rows = [], -(-streams.left.num_rows // MICRO_BATCHES)
    for side, table in streams.tables.items():
        at = table[streams.time].cast(pa.timestamp("s")).cast(pa.timestamp("us", tz="UTC"))
        timed = table.set_column(table.schema.get_field_index(streams.time), streams.time, at)
        folder = feed.folder / side
        folder.mkdir()
        for number in range(MICRO_BATCHES):
            file = folder / f"{number}.parquet"
            pq.write_table(timed.slice(number * rows, rows), file)
            # Spark takes them in the order of their times.
            os.utime(file, (1_000_000_000 + number,) * 2)
        reader = feed.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        frames.append(reader.parquet(str(folder)))
    return frames


@pytest.mark.parametrize(
    ("streams", "schema"),
    [
        (taxi_trips, "pickup_datetime timestamp, trip_distance double, fare_amount double, id long"),
        (readings, "rp long, cp long, second timestamp, id long"),
    ],
)
def test_equals_duckdb(feed: Feed, streams: Callable[[], Streams], schema: str) -> None:
    given = streams()
    window = sj.TimeWindow(f"{given.seconds} seconds", on=given.time)
    result = stream_join(
        *streamed(feed, given, schema), on=given.on, window=window, self_join=given.self_join, partitions=2,
        select=["l.id", "r.id"],
    )  # fmt: skip
    finish(feed.start(result, "found"))
    pairs = pq.read_table(feed.folder / "found")
    sums = sums_of(pairs["id"].to_numpy(), pairs["id_right"].to_numpy(), given.left.num_rows)
    expected, _ = given.found_by_duckdb().within("seconds", given.seconds)
    assert pairs.num_rows > 50_000
    assert np.array_equal(sums, expected)
