"""The setting that makes checkpoints on a local disk cheap: where it is made, and queries that go to it and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import slidejoin as sj
from slidejoin.spark.driver.checkpoints import MANAGER, local_checkpoints
from tests.spark.feeds import expected, finish
from tests.spark.scenarios import LATENESS, LENGTH, rich_batches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.feeds import Feed


@pytest.fixture
def unset(spark: SparkSession) -> Iterator[None]:
    manager = spark.conf.get(MANAGER)
    spark.conf.unset(MANAGER)
    yield
    spark.conf.set(MANAGER, manager)


@pytest.mark.usefixtures("unset")
def test_is_for_local_folders_and_sessions_without_a_manager(spark: SparkSession, tmp_path: Path) -> None:
    assert not local_checkpoints(spark, str(tmp_path), "hdfs://nowhere:8020/matches")
    assert not local_checkpoints(spark, "s3://bucket/matches")
    assert spark.conf.get(MANAGER, None) is None
    assert local_checkpoints(spark, str(tmp_path), tmp_path.as_uri())
    assert str(spark.conf.get(MANAGER)).endswith(".FileSystemBasedCheckpointFileManager")
    spark.conf.set(MANAGER, "org.example.Own")
    assert not local_checkpoints(spark, str(tmp_path))
    assert spark.conf.get(MANAGER) == "org.example.Own"


@pytest.mark.nightly
@pytest.mark.usefixtures("unset")
def test_a_query_may_change_to_it_and_back(spark: SparkSession, feed: Feed) -> None:
    batches = rich_batches(idle=())
    x = ("col", "right", "x")
    law = expected(
        batches, ("between", ("col", "left", "x"), ("-", x, ("lit", 1)), ("+", x, ("lit", 1))), LENGTH, LATENESS
    )
    from slidejoin.spark import stream_join

    for place in range(0, len(batches), 2):
        feed.add(batches[place : place + 2])
        if place == 2:
            assert local_checkpoints(spark, str(feed.folder))
        elif place:
            spark.conf.unset(MANAGER)
        window = sj.TimeWindow("10 seconds", on="ts", lateness="5 seconds")
        matches = stream_join(
            feed.stream("left"), feed.stream("right"), on="l.x BETWEEN r.x - 1 AND r.x + 1", window=window
        )
        finish(feed.start(matches, "changing"))
    assert feed.pairs("changing") == law
