"""Join types on real Spark: with timers, restarts, static frames, and operators that follow."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from tests.oracle import CountScope, Oracle, TimeScope
from tests.spark.feeds import SECOND, Clock, Feed, Row, asked, finish, oracle_row, underway
from tests.spark.scenarios import LATENESS, LENGTH, rich_batches

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from slidejoin.spark import Watch
    from tests.oracle import Output

L, R = ("col", "left", "x"), ("col", "right", "x")
NAMES = ("<>", ("col", "left", "name"), ("col", "right", "name"))
BAND = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
PREDICATES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "hash": ("l.x = r.x AND l.name <> r.name", ("and", ("=", L, R), NAMES)),
    "cell": ("l.x BETWEEN r.x - 1 AND r.x + 1 AND l.name <> r.name", ("and", BAND, NAMES)),
    "grid": ("l.x < r.x AND l.name <> r.name", ("and", ("<", L, R), NAMES)),
    "broadcast": ("l.x < r.x AND l.name <> r.name", ("and", ("<", L, R), NAMES)),
    "split": ("l.x < r.x AND l.name <> r.name", ("and", ("<", L, R), NAMES)),
}
WINDOW = sj.TimeWindow("10 seconds", on="ts", lateness="5 seconds")
JOINS: dict[str, dict[str, Any]] = {
    "hash": {"how": "left", "strategy": "hash"},
    "full": {"how": "full", "strategy": "cell"},
    "scattered": {"how": "full", "strategy": "grid", "partitions": 4},
    "spread": {"how": "right", "strategy": "cell", "spread": 2, "partitions": 4},
    "semi": {"how": "left_semi", "strategy": "cell"},
    "once": {"how": "left_semi", "strategy": "grid", "partitions": 4},
    "anti": {"how": "left_anti", "strategy": "broadcast"},
    "self": {"how": "full", "strategy": "hash", "self_join": True},
    "elsewhere": {"how": "full", "strategy": "split", "partitions": 3},
    "po_join": {"how": "full", "strategy": "split", "partitions": 3, "algorithm": "po_join"},
}
STREAMED = [name for name in JOINS if name != "spread"]
"""Those that are streams too: of two that are put together by an exchange, one."""
BY_NIGHT = ("hash", "scattered", "semi", "once", "self", "anti", "po_join")
"""Those that are streams at night, and static frames by day."""
Found = list[tuple[int | None, int | None]]


def law(batches: list[dict[str, list[Row]]], strategy: str, how: str, *, self_join: bool = False) -> list[Found]:
    """The ids of each micro-batch's rows; behind the batches comes one that only advances the watermark."""
    oracle = Oracle(
        PREDICATES[strategy][1], TimeScope(LENGTH * 1000, LENGTH * 1000, "ts", "ts"), how, self_join=self_join
    )
    clock, found = Clock(LATENESS), []
    for batch in [*batches, {}]:
        rows = {side: [oracle_row(row) for row in batch.get(side, [])] for side in ("left", "right")}
        low = None if clock.watermark is None else clock.watermark * 1000
        output = oracle.micro_batch(rows["left"], rows["right"], low)
        found.append(ids_of(output))
        if batch:
            clock.advance(batch)
    return found


def ids_of(output: list[Output]) -> Found:
    return [(left["id"] if left else None, right["id"] if right else None) for left, right in output]


def ids(rows: list[dict[str, Any]]) -> Found:
    return sorted(((row["id"], row.get("id_right")) for row in rows), key=repr)


def joined(feed: Feed, *, static: bool = False, **options: Any) -> DataFrame:
    from slidejoin.spark import stream_join

    frame = feed.static if static else feed.stream
    frames = [frame("left")] if options.get("self_join") else [frame("left"), frame("right")]
    return stream_join(*frames, on=PREDICATES[options["strategy"]][0], window=WINDOW, **{"partitions": 3} | options)


@pytest.fixture(scope="module")
def batches() -> list[dict[str, list[Row]]]:
    return rich_batches()


@pytest.fixture(scope="module")
def streams(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[dict[str, list[Row]]],
) -> tuple[Feed, Mapping[str, StreamingQuery], Watch]:
    """All queries of this file, side by side but for the watched one: to watch costs as much as a small micro-batch."""
    feed = Feed(spark, tmp_path_factory.mktemp("join_types"))
    feed.add(batches)
    from pyspark.sql.functions import window

    from slidejoin.spark import watch

    wanted = asked(request)
    queries = {}
    with watch(spark) as watching:
        queries["full"] = feed.start(joined(feed, **JOINS["full"]), "full")
        finish(queries["full"])
        deadline = time.monotonic() + 60
        # Listeners are called a little after a micro-batch has ended.
        while not any(one.batch_id == len(batches) for one in watching.recent) and time.monotonic() < deadline:
            time.sleep(0.1)
    others = [name for name in STREAMED if name != "full"]
    by_day = [name for name in others if f"test_rows_are_those_of_the_law[{name}]" in wanted]
    queries |= {name: feed.start(joined(feed, **JOINS[name]), name) for name in by_day}
    if "test_windowed_aggregation_follows" in wanted:
        counted = joined(feed, **JOINS["hash"]).groupBy(window("match_time", "10 seconds")).count()
        queries["windows"] = feed.start(counted.select("window.start", "count"), "windows")
    finish(*queries.values())
    return feed, queries, watching


def expected_of(batches: list[dict[str, list[Row]]], name: str) -> list[Found]:
    how, self_join = JOINS[name]["how"], JOINS[name].get("self_join", False)
    given = [{"left": batch["left"]} for batch in batches] if self_join else batches
    return law(given, JOINS[name]["strategy"], how, self_join=self_join)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] if name in BY_NIGHT else []) for name in STREAMED]
)
def test_rows_are_those_of_the_law(
    streams: tuple[Feed, Any, Any], spark: SparkSession, batches: list[dict[str, list[Row]]], name: str
) -> None:
    expected = [one for rows in expected_of(batches, name) for one in rows]
    assert len(expected) > 20
    assert ids(streams[0].rows(name)) == sorted(expected, key=repr)


def test_match_time_of_an_unmatched_row_is_its_time_plus_its_length(
    streams: tuple[Feed, Any, Any], spark: SparkSession
) -> None:
    lone = [row for row in streams[0].rows("full") if row["id"] is None or row["id_right"] is None]
    assert {row["id"] is None for row in lone} == {True, False}
    assert all(row["match_time"] - (row["ts"] or row["ts_right"]) == timedelta(seconds=10) for row in lone)


@pytest.mark.nightly  # behind an inner join it follows in test_streams
def test_windowed_aggregation_follows(
    streams: tuple[Feed, Any, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]
) -> None:
    """Rows without a partner are counted too: none of them is late for the aggregation."""
    times = {row[0]: row[3] for batch in batches for rows in batch.values() for row in rows}
    clock = Clock(LATENESS)
    for batch in batches:
        clock.advance(batch)
    counts: dict[int, int] = {}
    for left, right in [one for rows in expected_of(batches, "hash") for one in rows]:
        at = max(times[one] or 0 for one in (left, right) if one) + (LENGTH if right is None else 0)
        start = at // (10 * SECOND) * 10
        if start >= 0 and (start + 10) * SECOND <= clock.value:
            counts[start] = counts.get(start, 0) + 1
    got = {round(row["start"].timestamp()): row["count"] for row in streams[0].rows("windows")}
    assert len(counts) > 1
    assert {start: count for start, count in got.items() if start >= 0} == counts


@pytest.mark.smoke
@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.nightly) for name in ("full", "scattered")), "once"]
)
def test_each_micro_batch_is_that_of_the_law_also_after_a_restart(
    spark: SparkSession, tmp_path: Path, batches: list[dict[str, list[Row]]], name: str
) -> None:
    """The query is stopped between micro-batches, and once more when it has read all; the last one brings no rows."""
    feed, found = Feed(spark, tmp_path), {}

    def take(rows: DataFrame, batch: int) -> None:
        found[batch] = ids([row.asDict() for row in rows.collect()])

    for part in (batches[:3], batches[3:]):
        feed.add(part)
        writer = joined(feed, **JOINS[name]).writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        underway(query)
        finish(query)
    # Before the restart too, a micro-batch without rows follows the last one.
    every = expected_of([*batches[:3], {}, *batches[3:]], name)
    expected = [sorted(rows, key=repr) for rows in every]
    assert [rows for _, rows in sorted(found.items()) if rows] == [rows for rows in expected if rows]


@pytest.mark.parametrize("name", JOINS)
def test_static_frames_are_one_micro_batch(
    streams: tuple[Feed, Any, Any], spark: SparkSession, batches: list[dict[str, list[Row]]], name: str
) -> None:
    options = JOINS[name]
    rows = {side: [oracle_row(row) for batch in batches for row in batch[side]] for side in ("left", "right")}
    self_join = options.get("self_join", False)
    scope = TimeScope(LENGTH * 1000, LENGTH * 1000, "ts", "ts")
    oracle = Oracle(PREDICATES[options["strategy"]][1], scope, options["how"], self_join=self_join)
    output = oracle.micro_batch(rows["left"], [] if self_join else rows["right"], None) + oracle.finish()
    got = [row.asDict() for row in joined(streams[0], static=True, **options).collect()]
    assert ids(got) == sorted(ids_of(output), key=repr)


@pytest.mark.parametrize("how", ["full", "left_semi"])
def test_count_windows(
    streams: tuple[Feed, Any, Any], spark: SparkSession, batches: list[dict[str, list[Row]]], how: str
) -> None:
    from slidejoin.spark import stream_join

    frames = [streams[0].static(side).orderBy("id").coalesce(1) for side in ("left", "right")]
    window = sj.CountWindow(left=20, right=10)
    result = stream_join(*frames, on=PREDICATES["hash"][0], window=window, order_by="id", how=how)
    rows = {side: [oracle_row(row) for batch in batches for row in batch[side]] for side in ("left", "right")}
    oracle = Oracle(PREDICATES["hash"][1], CountScope(20, 10), how)
    output = oracle.micro_batch(rows["left"], rows["right"], None, "id") + oracle.finish()
    assert "match_time" not in result.columns
    got = [row.asDict() for row in result.collect()]
    assert ids(got) == sorted(ids_of(output), key=repr)


def test_a_selection_of_columns(streams: tuple[Feed, Any, Any], spark: SparkSession) -> None:
    result = joined(streams[0], static=True, select=["r.id", "l.name"], **JOINS["full"])
    assert result.columns == ["id_right", "name", "match_time"]
    assert result.count() == len(joined(streams[0], static=True, **JOINS["full"]).collect())
    semi = joined(streams[0], static=True, select=["l.name"], **JOINS["semi"])
    assert semi.columns == ["name", "match_time"]


@pytest.mark.nightly  # homes of counts and of left answers are in test_inspecting
def test_homes_of_a_semi_join_are_seen_in_a_checkpoint(streams: tuple[Feed, Any, Any], spark: SparkSession) -> None:
    """They are part of its join: the operator behind that of the buckets, which keeps the ids of the last rows."""
    from slidejoin.spark import inspect_state

    (join,) = inspect_state(spark, str(streams[0].folder / "once.checkpoint")).joins
    assert (join.operator, join.homes, len(join.buckets), len(join.ids)) == (1, 0, 4, 4)
    assert 0 < sum(home.rows("ids") for home in join.ids) < join.rows("left")
    assert "\n  homes: operator 0, keep " in repr(join)


def test_watching_counts_rows_without_a_partner(
    streams: tuple[Feed, Any, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]
) -> None:
    """Also in the last micro-batch, in which timers call the buckets."""
    _, queries, watching = streams
    seen = {one.batch_id: one.unmatched for one in watching.recent if one.query_id == str(queries["full"].id)}
    expected = [sum(None in row for row in rows) for rows in expected_of(batches, "full")]
    assert expected[-1] > 0
    assert [seen.get(batch, 0) for batch in range(len(expected))] == expected
