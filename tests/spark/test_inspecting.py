"""What a checkpoint holds, read back by Spark's state reader: real checkpoints, and folders that are none."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from slidejoin.cli.app import as_document
from slidejoin.errors import StateError
from slidejoin.spark import inspect_state
from slidejoin.spark.job.checks import check_session
from tests.spark.feeds import Feed, finish
from tests.spark.killing import query, streams

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def ended(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A join that has taken three micro-batches of 24 rows a side."""
    folder = tmp_path_factory.mktemp("ended")
    Feed(spark, folder).add(streams(3))
    query(spark, folder).awaitTermination()
    return folder


def test_buckets_and_segments_are_those_of_the_state(spark: SparkSession, ended: Path) -> None:
    info = inspect_state(spark, str(ended / "checkpoint"))
    (join,) = info.joins
    assert (info.first_batch, info.batch, join.operator, join.stores, join.arrived) == (0, info.last_batch, 0, 2, None)
    assert join.described["on"] == "l.x >= r.x - 1 AND l.x <= r.x + 1"
    assert (join.described["strategy"], join.described["partitions"]) == ("cell of width 8, in turns", 2)
    assert "20 seconds" in join.described["window"]
    assert [bucket.partition for bucket in join.buckets] != [join.buckets[0].partition] * 2
    # of the last micro-batch with rows: those before it were at most at 108 s, 5 s of lateness off
    assert {bucket.watermark_ms for bucket in join.buckets} == {103_000}
    sides = ("left", "right")
    timed = {side: [row for batch in streams(3) for row in batch[side] if row[3] is not None] for side in sides}
    # a left row is in one bucket, a right one in as many as its band overlaps; those without a key are nowhere
    assert 0 < join.rows("left") <= len(timed["left"])
    assert 0 < join.rows("right") <= 2 * len(timed["right"])
    spans = spark.read.format("statestore").option("stateVarName", "segments").load(str(ended / "checkpoint"))
    kept = {(row["key"][0], row["user_map_key"][0]): len(row["user_map_value"][0]) for row in spans.collect()}
    assert sum(kept.values()) == join.bytes == sum(bucket.bytes for bucket in join.buckets)
    assert len(kept) == len(join.segments)


def test_earlier_versions_can_be_seen(spark: SparkSession, ended: Path) -> None:
    first = inspect_state(spark, str(ended / "checkpoint"), batch=0)
    assert first.batch == 0
    assert {bucket.version for bucket in first.joins[0].buckets} == {1}
    assert {bucket.watermark_ms for bucket in first.joins[0].buckets} == {0}
    with pytest.raises(StateError, match=r"has the state after micro-batches 0 to \d, not after 99"):
        inspect_state(spark, str(ended / "checkpoint"), batch=99)


def test_everything_is_plain_values_for_machines(spark: SparkSession, ended: Path) -> None:
    info = inspect_state(spark, str(ended / "checkpoint"))
    plain = json.loads(json.dumps(as_document(info, 5)))
    assert plain["bytes_on_disk"] == 5
    assert plain["joins"][0]["bytes"] == info.joins[0].bytes
    assert plain["joins"][0]["buckets"][1]["left_rows"] == info.joins[0].buckets[1].rows("left")
    assert plain["joins"][0]["buckets"][1]["segments"][0] == asdict(info.joins[0].buckets[1].segments[0])


def test_folders_that_are_no_checkpoint(spark: SparkSession, ended: Path, tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"nothing at .*/missing; expected the checkpoint folder of a streaming query"):
        inspect_state(spark, str(tmp_path / "missing"))
    with pytest.raises(StateError, match="is not the checkpoint of a streaming query with state; expected the query's"):
        inspect_state(spark, str(ended / "left"))


def test_checkpoint_of_another_query(spark: SparkSession, feed: Feed) -> None:
    feed.add(streams(1))
    finish(feed.start(feed.stream("left").dropDuplicates(["id"]), "distinct"))
    with pytest.raises(StateError, match="has no state of a slidejoin join; its stateful operators are dedupe"):
        inspect_state(spark, str(feed.folder / "distinct.checkpoint"))


def test_number_of_versions_is_told(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    kept = "spark.sql.streaming.minBatchesToRetain"
    caplog.set_level("INFO", logger="slidejoin.spark.job.checks")
    advised = spark.conf.get(kept)
    spark.conf.set(kept, "100")
    try:
        check_session(spark)
        assert f"{kept} is 100: the checkpoint keeps the rows of that many micro-batches" in caplog.text
        caplog.clear()
    finally:
        spark.conf.set(kept, str(advised))
    check_session(spark)
    assert not caplog.records
