"""Ids of pairs depend on both rows alone: not on the strategy, the columns selected, or how rows come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from slidejoin.errors import ArgumentError, PredicateError
from tests.spark.scenarios import rich_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.feeds import Feed

WINDOW = sj.TimeWindow("10 seconds", on="ts")
ON = "l.x = r.x AND l.id BETWEEN r.id - 100000 AND r.id + 100000"


def ids_of(result: DataFrame) -> dict[tuple[int | None, int | None], str]:
    rows = result.collect()
    made = {(row["id"], row["id_right"]): row["pair"] for row in rows}
    assert len(made) == len(rows)
    return made


def test_ids_are_those_of_the_rows_in_every_strategy_and_in_streams(spark: SparkSession, feed: Feed) -> None:
    from slidejoin.spark import stream_join

    batches = rich_batches()
    feed.add(batches)
    left, right = feed.static("left"), feed.static("right")

    def joined(left: DataFrame, right: DataFrame, **options: Any) -> DataFrame:
        return stream_join(left, right, on=ON, window=WINDOW, partitions=4, pair_id="pair", **options)

    ids = ids_of(joined(left, right, strategy="hash", how="full"))
    matched = {pair: made for pair, made in ids.items() if None not in pair}
    assert 0 < len(matched) < len(ids)
    assert len(set(ids.values())) == len(ids)
    assert all(len(made) == 32 and int(made, 16) >= 0 for made in ids.values())
    assert ids_of(joined(left, right, strategy="grid", select=["l.id", "r.id"])) == matched
    query = feed.start(joined(feed.stream("left"), feed.stream("right"), strategy="cell"), "streamed_ids")
    assert query.exception() is None
    streamed = {(row["id"], row["id_right"]): row["pair"] for row in feed.rows("streamed_ids")}
    assert streamed
    assert streamed == {pair: matched[pair] for pair in streamed}


def test_ids_stay_what_they_are(spark: SparkSession) -> None:
    """They are in sinks: another value for the same rows would be another pair."""
    from slidejoin.spark import stream_join

    query = (
        "SELECT id, timestamp '2026-01-01 00:00:00.000001Z' AS ts, 'ä' AS text, 1.5D AS number, "
        "CAST(NULL AS int) AS no, array(1, NULL) AS items, date '2026-01-01' AS day, "
        "CAST(7 AS decimal(20, 2)) AS amount, true AS flag, "
        "named_struct('at', timestamp '2026-01-01 00:00:00.000001Z') AS nested, X'00FF' AS raw FROM range(2)"
    )
    expected = {0: "402b4f4f47db2a04dc7e853159e4f044", 1: "16de6533b54e10f74f2c27bcf2926d0f"}
    zone = spark.conf.get("spark.sql.session.timeZone")
    for other in (zone, "Asia/Tokyo"):
        spark.conf.set("spark.sql.session.timeZone", str(other))
        try:
            rows = spark.sql(query)
            result = stream_join(rows, on="l.id < r.id", window=WINDOW, how="left", self_join=True, pair_id="it")
            assert {row["id"]: row["it"] for row in result.collect()} == expected, other
        finally:
            spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"how": "left_semi"}, 1),
        ({"how": "left_anti"}, 1),
        ({"output": "count"}, 4),
        ({"output": sj.Aggregate(n="count")}, 2),
        ({"keep": sj.Nearest("l.ts", "r.ts"), "how": "left"}, 2),
    ],
)
def test_rows_that_are_no_pairs_have_ids(spark: SparkSession, options: dict[str, Any], rows: int) -> None:
    from slidejoin.spark import stream_join

    left = spark.sql("SELECT id, timestamp '2026-01-01' AS ts FROM range(2)")
    right = spark.sql("SELECT id, timestamp '2026-01-01' AS ts FROM range(1, 3)")
    result = stream_join(left, right, on="l.id = r.id", window=WINDOW, pair_id="pair", **options)
    assert "__slidejoin" not in " ".join(result.columns)
    ids = [row["pair"] for row in result.collect()]
    assert (len(ids), len(set(ids))) == (rows, rows)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 AS a, CAST(NULL AS int) AS b", "CAST(NULL AS int) AS a, 1 AS b"),
        ("'ab' AS a, 'c' AS b", "'a' AS a, 'bc' AS b"),
        ("array(1, NULL) AS a, 1 AS b", "array(NULL, 1) AS a, 1 AS b"),
        ("named_struct('x', CAST(NULL AS int), 'y', 1) AS a", "named_struct('x', 1, 'y', CAST(NULL AS int)) AS a"),
    ],
)
def test_different_rows_have_different_ids(spark: SparkSession, one: str, other: str) -> None:
    from slidejoin.spark import stream_join

    rows = spark.sql(
        f"SELECT timestamp '2026-01-01' AS ts, {one} UNION ALL SELECT timestamp '2026-01-01' AS ts, {other}"
    )
    alone = stream_join(rows, rows, on="l.ts < r.ts", window=WINDOW, how="left", select=["l.ts"], pair_id="pair")
    assert len({row["pair"] for row in alone.collect()}) == 2


def test_a_name_that_cannot_be(spark: SparkSession) -> None:
    from slidejoin.spark import explain_join, stream_join

    rows = spark.sql("SELECT 1 AS id, timestamp '2026-01-01' AS ts")
    with pytest.raises(PredicateError, match="pair_id='id': the result has a column of that name; give another, or le"):
        stream_join(rows, rows, on="l.id = r.id", window=WINDOW, pair_id="id")
    with pytest.raises(ArgumentError, match="pair_id must be the name of a column, got ''"):
        explain_join(rows, rows, on="l.id = r.id", window=WINDOW, pair_id="")
    twice = rows.selectExpr("*", "2 AS id")
    with pytest.raises(
        PredicateError, match="pair_id='pair' is made of all columns, and two are named 'id'; rename one"
    ):
        stream_join(twice, twice, on="l.ts = r.ts", window=WINDOW, pair_id="pair")
    plain = explain_join(rows, rows, on="l.id = r.id", window=WINDOW).row_bytes["left"]
    with_ids = explain_join(rows, rows, on="l.id = r.id", window=WINDOW, pair_id="pair").row_bytes["left"]
    assert plain is not None
    assert with_ids == plain + 16
