"""Queries go on from checkpoints that an earlier version wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.former import QUERIES, ran, unpacked

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BY_DAY = ("full", "counted")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in BY_DAY else [pytest.mark.nightly]) for name in QUERIES]
)
def test_the_rest_of_the_rows_is_that_of_the_law(spark: SparkSession, tmp_path: Path, name: str) -> None:
    query = QUERIES[name]()
    feed, given = unpacked(spark, name, tmp_path)
    feed.add(query.batches[query.before :])
    rest = ran(feed, query)
    assert given
    assert rest
    assert sorted([*given, *rest], key=repr) == sorted(query.law(), key=repr)
