"""The real tasks of `slidejoin bench tasks` on Spark; here because of the session that all tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slidejoin.bench.task_definitions import task_named
from slidejoin.bench.tasks import _spark_speeds

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.nightly  # half a minute each
@pytest.mark.parametrize("name", ["sensors", "trades", "flights", "sessions", "offers"])
def test_both_joins_on_spark_find_the_pairs_of_the_embedded_one(spark: SparkSession, name: str, tmp_path: Path):
    task = task_named(name)
    task = task.scaled(100 / sum(task.sizes))
    own, ours = _spark_speeds(spark, task, tmp_path, 1, 3)  # raises where the numbers of pairs differ
    assert own.pairs == ours.pairs > 10
    assert own.ratio == pytest.approx(ours.rows_per_second / own.rows_per_second)
