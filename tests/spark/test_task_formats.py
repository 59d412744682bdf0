"""The format of the state of Spark's own join in `slidejoin bench tasks`; tests/bench/test_tasks runs it at night."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.bench import tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_format_of_sparks_state_is_set_for_one_query(spark: SparkSession) -> None:
    before = spark.conf.get(tasks.STATE_FORMAT)
    with tasks._state_format(spark, "4") as known:
        assert known
        assert spark.conf.get(tasks.STATE_FORMAT) == "4"
    assert spark.conf.get(tasks.STATE_FORMAT) == before != "4"
    with tasks._state_format(spark, None) as known:
        assert known
        assert spark.conf.get(tasks.STATE_FORMAT) == before


def test_a_format_that_this_spark_does_not_have_is_left_out(spark: SparkSession) -> None:
    before = spark.conf.get(tasks.STATE_FORMAT)
    with tasks._state_format(spark, "99") as known:
        assert not known
        assert spark.conf.get(tasks.STATE_FORMAT) == before
