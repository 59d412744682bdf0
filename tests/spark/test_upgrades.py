"""Queries go on from the checkpoints of every release, see tests/upgrades."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.feeds import Feed
from tests.upgrades import archives
from tests.upgrades.jobs import run_query, settled, show_later

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BY_DAY = ("spark-grid", "spark-sub-windows")


@pytest.mark.parametrize(
    ("release", "name"),
    [
        pytest.param(release, name, marks=[] if name in BY_DAY else [pytest.mark.nightly])
        for release, name in archives.all_of("query")
    ],
)
def test_queries_go_on_from_the_checkpoints_of_every_release(
    spark: SparkSession, tmp_path: Path, release: str, name: str
) -> None:
    archives.unpack(archives.archive_of(release, name), tmp_path)
    settled(tmp_path)
    show_later(tmp_path)
    rows = run_query(Feed(spark, tmp_path), name)
    assert len(rows) > 20
    assert rows == archives.fixture(release, name)["expected"]
