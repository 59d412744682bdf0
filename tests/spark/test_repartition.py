"""Another number of buckets for a stopped query, on real Spark: it goes on as if nothing had happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from slidejoin.spark import repartition_state, stream_join
from tests.oracle import Oracle, TimeScope
from tests.spark.feeds import SECOND, Clock, Feed, Row, finish, oracle_row
from tests.spark.killing import LATENESS, LENGTH, streams
from tests.spark.test_join_types_on_spark import PREDICATES, Found, ids, ids_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW = sj.TimeWindow("20 seconds", on="ts", lateness="5 seconds")
BEFORE, AFTER = 3, 3
"""Micro-batches before and after."""

JOINS: dict[str, tuple[dict[str, Any], int, int]] = {
    "hash": ({"strategy": "hash", "how": "left"}, 2, 3),
    "cell": ({"strategy": "cell", "how": "inner"}, 2, 3),
}
"""Options, buckets before, buckets after."""


def law(batches: list[dict[str, list[Row]]], strategy: str, how: str) -> Found:
    """The ids of all rows; a micro-batch that only advances the watermark follows each stop."""
    length = LENGTH * SECOND * 1000
    oracle = Oracle(PREDICATES[strategy][1], TimeScope(length, length, "ts", "ts"), how)
    clock, found = Clock(LATENESS * SECOND), []
    for batch in batches:
        rows = {side: [oracle_row(row) for row in batch.get(side, [])] for side in ("left", "right")}
        low = None if clock.watermark is None else clock.watermark * 1000
        found += ids_of(oracle.micro_batch(rows["left"], rows["right"], low))
        if batch:
            clock.advance(batch)
    return sorted(found, key=repr)


def joined(feed: Feed, partitions: int, options: dict[str, Any]) -> DataFrame:
    on = PREDICATES[options["strategy"]][0]
    return stream_join(
        feed.stream("left"), feed.stream("right"), on=on, window=WINDOW, partitions=partitions, **options
    )


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """Queries that have taken the first micro-batches, one after the other."""
    feed = Feed(spark, tmp_path_factory.mktemp("repartition"))
    feed.add(streams(BEFORE))
    finish(*(feed.start(joined(feed, before, options), name) for name, (options, before, _) in JOINS.items()))
    return feed


@pytest.fixture(scope="module")
def gone_on(spark: SparkSession, stopped: Feed) -> Feed:
    """The same, going on with other buckets."""
    feed = stopped
    for name, (_, _, after) in JOINS.items():
        repartition_state(spark, str(feed.folder / f"{name}.checkpoint"), after, str(feed.folder / f"{name}.new"))
    feed.add(streams(BEFORE + AFTER)[BEFORE:])
    queries = []
    for name, (options, _, after) in JOINS.items():
        writer = joined(feed, after, options).writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(feed.folder / f"{name}.new"))
        queries.append(writer.start(str(feed.folder / name)))
    finish(*queries)
    return feed


@pytest.mark.parametrize("name", JOINS)
def test_rows_are_those_of_one_query(gone_on: Feed, spark: SparkSession, name: str) -> None:
    options, _, _ = JOINS[name]
    every = streams(BEFORE + AFTER)
    expected = law([*every[:BEFORE], {}, *every[BEFORE:], {}], options["strategy"], options["how"])
    assert len(expected) > 20
    assert ids(gone_on.rows(name)) == expected
