"""Static frames are one large micro-batch: nothing is late, and every type of Spark comes through."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from tests.spark.feeds import Feed, Row, expected, expected_counts
from tests.spark.scenarios import LENGTH, rich_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

L, R = ("col", "left", "x"), ("col", "right", "x")
WINDOW = sj.TimeWindow("10 seconds", on="ts")


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("on", "predicate", "strategy"),
    [
        ("l.x = r.x", ("=", L, R), "auto"),
        ("l.x BETWEEN r.x - 1 AND r.x + 1", ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1))), "auto"),
        ("l.x <> r.x", ("<>", L, R), "auto"),
        ("l.x <> r.x", ("<>", L, R), "broadcast"),
    ],
)
def test_equals_the_oracle(
    spark: SparkSession, feed: Feed, on: str, predicate: tuple[object, ...], strategy: str
) -> None:
    from slidejoin.spark import stream_join

    batches = rich_batches()
    feed.add(batches)
    one: dict[str, list[Row]] = {side: [row for batch in batches for row in batch[side]] for side in ("left", "right")}
    options: dict[str, Any] = {"strategy": strategy, "partitions": 4}
    result = stream_join(feed.static("left"), feed.static("right"), on=on, window=WINDOW, **options)
    assert sorted((row["id"], row["id_right"]) for row in result.collect()) == expected([one], predicate, LENGTH, 0)


@pytest.mark.parametrize(("strategy", "spread"), [("hash", 2), ("grid", 1)])
def test_counts_are_whole(spark: SparkSession, feed: Feed, strategy: str, spread: int) -> None:
    from slidejoin.spark import stream_join

    batches = rich_batches()
    feed.add(batches)
    one: dict[str, list[Row]] = {side: [row for batch in batches for row in batch[side]] for side in ("left", "right")}
    options: dict[str, Any] = {"strategy": strategy, "spread": spread, "partitions": 4, "output": "count"}
    result = stream_join(feed.static("left"), feed.static("right"), on="l.x = r.x", window=WINDOW, **options)
    got = [(row.side, row.id if row.side == "left" else row.id_right, row.match_count) for row in result.collect()]
    assert sorted(got) == expected_counts([one], ("=", L, R), LENGTH, 0)


def test_every_type_comes_through(spark: SparkSession) -> None:
    from slidejoin.spark import stream_join

    left = spark.sql(
        """SELECT id, timestamp '2020-03-08 07:30:00Z' ts, CAST(id AS decimal(12, 3)) AS amount, CAST(id AS float) AS f,
        id > 1 AS flag, CAST(id AS smallint) AS small, CAST(id AS string) AS text,
        CAST(CAST(id AS string) AS binary) AS raw,
        date '2020-01-01' AS day, timestamp_ntz '2020-03-08 02:30:00' AS local, interval '1' second AS span,
        array(1, NULL, id) AS items, named_struct('a', id, 'm', map('k', id)) AS nested, map('k', array(id)) AS by_key,
        CAST(NULL AS array<int>) AS nothing
        FROM range(3)"""
    )
    right = spark.sql("SELECT id AS number, timestamp '2020-03-08 07:30:01Z' AS at FROM range(3)")
    window = sj.TimeWindow("1 second", left_on="ts", right_on="at")
    result = stream_join(left, right, on="l.amount = r.number", window=window)
    assert result.schema.names == [*left.schema.names, "number", "at", "match_time"]
    assert [field.dataType for field in result.schema.fields[:-3]] == [field.dataType for field in left.schema.fields]
    got = sorted(result.collect())
    assert [tuple(row)[: len(left.columns)] for row in got] == [tuple(row) for row in sorted(left.collect())]
    assert {row["match_time"].astimezone(UTC) for row in got} == {datetime(2020, 3, 8, 7, 30, 1, tzinfo=UTC)}


def test_nothing_to_join(spark: SparkSession, feed: Feed) -> None:
    from slidejoin.spark import stream_join

    feed.add([{"left": [(1, 1, None, 0)], "right": []}])
    result = stream_join(feed.static("left"), feed.static("right"), on="l.x = r.x", window=WINDOW)
    assert result.collect() == []
    assert result.columns[-1] == "match_time"


EXPRESSIONS = [
    ("lower(l.name) = substr(r.name, 1, 2)", "hash"),
    ("l.name IS NOT DISTINCT FROM r.name", "hash"),
    ("[l.k, 1] = [r.k, 1] AND l.name < r.name", "hash"),
    ("hour(l.local) BETWEEN r.k - 1 AND r.k + 1", "cell"),
    ("l.day < r.day", "grid"),
    ("l.name LIKE r.name || '%' AND coalesce(l.k, 0) // 2 = r.k % 3", "broadcast"),
]


@pytest.mark.parametrize(("on", "strategy"), EXPRESSIONS, ids=[on for on, _ in EXPRESSIONS])
def test_expressions_are_keys_as_embedded(spark: SparkSession, on: str, strategy: str) -> None:
    from slidejoin.spark import stream_join

    text = """SELECT id, CAST(id % 7 AS int) AS k, timestamp '2020-03-08 07:30:00Z' AS ts,
        element_at(array('', 'a', 'A', 'ab', 'Abc', 'é', NULL), CAST((id * {0}) % 7 + 1 AS int)) AS name,
        CAST(date_add(date '2019-12-25', CAST(id AS int)) AS string) AS day,
        timestamp_ntz '2020-03-08 01:30:00' + make_dt_interval(0, CAST(id % 9 AS int)) AS local FROM range(20)"""
    frames = [spark.sql(text.format(factor)) for factor in (1, 3)]
    options: dict[str, Any] = {"strategy": strategy, "partitions": 4}
    result = stream_join(*frames, on=on, window=sj.TimeWindow("1 second", on="ts"), **options)
    join = sj.StreamJoin(on=on, window=sj.CountWindow(100), output="positions")
    embedded = join.push(*(frame.drop("ts").toArrow() for frame in frames))
    expected_pairs = sorted((row["left"], row["right"]) for row in embedded.to_pylist())
    assert expected_pairs
    assert sorted((row["id"], row["id_right"]) for row in result.collect()) == expected_pairs
