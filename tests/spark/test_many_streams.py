"""Joins of many streams on real Spark: the law, restarts, and static frames, as one operator and as a chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.feeds import Feed, Row, finish
from tests.spark.many import CASES, law, micro_batches, windows

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

SHOWN = {"a": "id", "b": "id_b", "c": "id_c", "d": "id_d"}


def joined(feed: Feed, name: str, *, streaming: bool = True, **options: Any) -> DataFrame:
    from slidejoin.spark import multi_join

    names, on, _ = CASES[name]
    frames = {one: (feed.stream if streaming else feed.static)(one) for one in names}
    options = {"select": [f"{one}.id" for one in names], "partitions": 2} | options
    return multi_join(frames, on=on, window=windows(names), **options)


def ids(feed: Feed, result: str, names: str) -> list[tuple[int, ...]]:
    return sorted(tuple(row[SHOWN[name]] for name in names) for row in feed.rows(result))


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """All queries of this file, side by side, each stopped and started again on its checkpoint."""
    feed = Feed(spark, tmp_path_factory.mktemp("many"))
    batches = micro_batches("abcd")
    for part in (batches[:3], batches[3:]):
        feed.add(part)
        finish(*(feed.start(joined(feed, name), name) for name in CASES))
    return feed


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_law(results: Feed, name: str) -> None:
    names, _, predicate = CASES[name]
    batches = [{one: batch[one] for one in names} for batch in micro_batches("abcd")]
    expected, _ = law(batches, names, predicate)
    assert len(expected) > 20
    assert ids(results, name, names) == expected


def test_static_frames_are_one_micro_batch(results: Feed) -> None:
    names, _, predicate = CASES["one"]
    whole: dict[str, list[Row]] = {one: [] for one in names}
    for batch in micro_batches("abcd"):
        for one in names:
            whole[one] += batch[one]
    expected, counts = law([whole], names, predicate)
    found = joined(results, "one", streaming=False).collect()
    assert sorted(tuple(row[SHOWN[one]] for one in names) for row in found) == expected
    counted = joined(results, "one", streaming=False, output="count").collect()
    assert sorted((row.stream, row[SHOWN[row.stream]], row.match_count) for row in counted) == counts
