"""Streaming joins on real Spark say what the law says, and their results are streams to go on with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import slidejoin as sj
from tests.spark.feeds import SECOND, Clock, Feed, Row, asked, expected, expected_counts, finish
from tests.spark.scenarios import LATENESS, LENGTH, rich_batches

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.smoke

L, R = ("col", "left", "x"), ("col", "right", "x")
BAND = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
PREDICATES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "hash": (
        "l.x = r.x AND l.name <> r.name",
        ("and", ("=", L, R), ("<>", ("col", "left", "name"), ("col", "right", "name"))),
    ),
    "cell": ("l.x BETWEEN r.x - 1 AND r.x + 1", BAND),
    "broadcast": ("l.x < r.x", ("<", L, R)),
    "sub_windows": ("l.x < r.x", ("<", L, R)),
}
WINDOW = sj.TimeWindow(left="10 seconds", right="10 seconds", on="ts", lateness="5 seconds")


@pytest.fixture(scope="module")
def batches() -> list[dict[str, list[Row]]]:
    return rich_batches()


@pytest.fixture(scope="module")
def streams(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[dict[str, list[Row]]],
) -> tuple[Feed, Mapping[str, StreamingQuery]]:
    """All queries of this file, run side by side: a micro-batch spends most of its time waiting."""
    from pyspark.sql.functions import window

    from slidejoin.spark import stream_join

    feed = Feed(spark, tmp_path_factory.mktemp("streams"))
    feed.add(batches)
    wanted, queries = asked(request), {}
    for strategy, (on, _) in PREDICATES.items():
        if strategy != "cell" and f"test_equals_the_oracle[{strategy}]" not in wanted:
            continue
        joined = stream_join(
            feed.stream("left"), feed.stream("right"), on=on, window=WINDOW, strategy=strategy, partitions=3
        )
        queries[strategy] = feed.start(joined, strategy)
    if "test_self_join_never_pairs_a_row_with_itself" in wanted:
        selfish = stream_join(
            feed.stream("left"),
            on="a.x BETWEEN b.x AND b.x + 1",
            window=WINDOW,
            self_join=True,
            aliases=("a", "b"),
            select=["b.id", "a.id"],
        )
        queries["self"] = feed.start(selfish, "self")
    on = PREDICATES["cell"][0]
    counts = stream_join(
        feed.stream("left"), feed.stream("right"), on=on, window=WINDOW, output="count", select=["l.id", "r.id"]
    )
    queries["counts"] = feed.start(counts, "counts")
    finish(*queries.values())
    first = stream_join(
        feed.stream("left").withWatermark("ts", "5 seconds"),
        feed.stream("right"),
        on="l.x = r.x",
        window=WINDOW,
        select=["l.id", "l.x", "r.id"],
    )
    counted = first.groupBy(window("match_time", "10 seconds")).count().select("window.start", "count")
    queries["windows"] = feed.start(counted, "windows")
    second = stream_join(
        first.withColumnRenamed("match_time", "first_time"),
        feed.stream("right"),
        on="l.x = r.x + 1",
        window=sj.TimeWindow("3 seconds", left_on="first_time", right_on="ts"),
        select=["l.id", "l.id_right", "r.id"],
        suffix="_second",
    )
    queries["second"] = feed.start(second, "second")
    finish(*queries.values())
    return feed, queries


@pytest.mark.parametrize(
    "strategy",
    ["cell", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("hash", "broadcast", "sub_windows"))],
)
def test_equals_the_oracle(
    streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]], strategy: str
) -> None:
    feed, _ = streams
    law = expected(batches, PREDICATES[strategy][1], LENGTH, LATENESS)
    assert len(law) > 20
    assert feed.pairs(strategy) == law


def test_watermark_is_the_one_of_the_law(
    streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]
) -> None:
    _, queries = streams
    clock, low = Clock(LATENESS), []
    for batch in batches:
        low.append(clock.value)
        clock.advance(batch)
    told = [progress["eventTime"]["watermark"] for progress in queries["cell"].recentProgress[: len(batches)]]
    assert [value == "1970-01-01T00:00:00.000Z" for value in told] == [value == 0 for value in low]
    assert told[-1] == f"1970-01-01T00:00:{low[-1] // SECOND:02}.000Z"


def test_counts_are_whole(streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]) -> None:
    rows = streams[0].rows("counts")
    got = [(row["side"], row["id"] if row["side"] == "left" else row["id_right"], row["match_count"]) for row in rows]
    assert sorted(got) == expected_counts(batches, BAND, LENGTH, LATENESS)
    assert list(rows[0]) == ["side", "id", "id_right", "match_count", "match_time"]


def test_match_time_is_the_later_event_time(streams: tuple[Feed, Any], spark: SparkSession) -> None:
    rows = streams[0].rows("cell")
    assert rows
    assert all(row["match_time"] == max(row["ts"], row["ts_right"]) for row in rows)


def test_columns_are_left_then_right_then_match_time(streams: tuple[Feed, Any], spark: SparkSession) -> None:
    row = streams[0].rows("cell")[0]
    assert list(row) == ["id", "x", "name", "ts", "id_right", "x_right", "name_right", "ts_right", "match_time"]


@pytest.mark.nightly  # a static frame with itself in test_odd_names, and without Spark in test_operator
def test_self_join_never_pairs_a_row_with_itself(
    streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]
) -> None:
    only_left = [{"left": batch["left"]} for batch in batches]
    law = expected(only_left, ("between", L, R, ("+", R, ("lit", 1))), LENGTH, LATENESS, self_join=True)
    assert len(law) > 20
    assert streams[0].pairs("self", "id", "id_right") == law


def test_windowed_aggregation_follows(
    streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]
) -> None:
    """Append mode gives a window once the watermark has passed it, so all windows before that are there, and whole."""
    feed, _ = streams
    pairs = expected(batches, ("=", L, R), LENGTH, LATENESS)
    times = {row[0]: row[3] for batch in batches for rows in batch.values() for row in rows}
    clock = Clock(LATENESS)
    for batch in batches:
        clock.advance(batch)
    law: dict[int, int] = {}
    for left, right in pairs:
        start = max(times[left] or 0, times[right] or 0) // (10 * SECOND) * 10
        if start >= 0 and (start + 10) * SECOND <= clock.value:
            law[start] = law.get(start, 0) + 1
    got = {round(row["start"].timestamp()): row["count"] for row in feed.rows("windows")}
    assert law
    assert {start: count for start, count in got.items() if start >= 0} == law


def test_second_join_follows(
    streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]
) -> None:
    """The second join sees each pair of the first as a row at its match time; nothing of it is late."""
    feed, _ = streams
    every = {row[0]: row for batch in batches for rows in batch.values() for row in rows}
    clock, arrived = Clock(LATENESS), []
    for batch in batches:
        low = clock.watermark
        arrived += [row for row in batch["right"] if row[3] is not None and (low is None or row[3] >= low)]
        clock.advance(batch)
    law = []
    for left, right in expected(batches, ("=", L, R), LENGTH, LATENESS):
        at = max(time for time in (every[left][3], every[right][3]) if time is not None)
        law += [
            (left, right, number)
            for number, x, _, time in arrived
            if x is not None and every[left][1] == x + 1 and time is not None and abs(time - at) <= 3 * SECOND
        ]
    assert law
    assert sorted((row["id"], row["id_right"], row["id_second"]) for row in feed.rows("second")) == sorted(law)
