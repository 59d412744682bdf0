"""Nearest matches and aggregates on real Spark: with timers, a restart, static frames, and an operator that follows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from tests.oracle import Aggregates, CountScope, Nearest, Oracle, TimeScope
from tests.spark.feeds import SECOND, Clock, Feed, Row, asked, finish, oracle_row, underway
from tests.spark.scenarios import LATENESS, LENGTH, rich_batches
from tests.spark.test_join_types_on_spark import PREDICATES, WINDOW

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.oracle import Output

Batches = list[dict[str, list[Row]]]
Found = list[tuple[Any, ...]]

SUMS = sj.Aggregate(n="count", total="sum(r.x)", low="min(r.name)", first="min(r.ts)", mean="mean(r.x)")
EPOCH = datetime(2026, 1, 1)
COLUMNS = {"n": None, "total": "x", "low": "name", "first": "ts", "mean": "x"}
FUNCTIONS = {"n": "count", "total": "sum", "low": "min", "first": "min", "mean": "mean"}
ASOF, EITHER = Nearest("ts", "ts", "backward", 1), Nearest("x", "x", "nearest", 2)

JOINS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "asof": (
        {"keep": sj.Nearest("l.ts", "r.ts"), "how": "left", "strategy": "hash"},
        {"keep": ASOF, "how": "left"},
    ),
    "sums": (
        {"output": SUMS, "strategy": "cell"},
        {"aggregates": Aggregates({name: (function, COLUMNS[name]) for name, function in FUNCTIONS.items()})},
    ),
    "parts": (
        {"keep": sj.Nearest("l.ts", "r.ts", "nearest", k=2), "how": "left", "strategy": "grid", "partitions": 4},
        {"keep": Nearest("ts", "ts", "nearest", 2), "how": "left"},
    ),
    "summed parts": (
        {"output": SUMS, "strategy": "hash", "spread": 2, "partitions": 4},
        {"aggregates": Aggregates({name: (function, COLUMNS[name]) for name, function in FUNCTIONS.items()})},
    ),
    "self": (
        {"keep": sj.Nearest("l.x", "r.x", "nearest", k=2), "strategy": "broadcast", "self_join": True},
        {"keep": EITHER, "self_join": True},
    ),
}
"""Joins as `stream_join` takes them, and as the law does. Of parts, several buckets answer a left row."""

STREAMED = ("asof", "sums", "parts")


COUNTED = {"window": sj.CountWindow(left=20, right=10), "order_by": "id", "partitions": 2}


def oracle_of(name: str) -> Oracle:
    scope = TimeScope(LENGTH * 1000, LENGTH * 1000, "ts", "ts")
    return Oracle(PREDICATES[JOINS[name][0]["strategy"]][1], scope, **JOINS[name][1])


def rows_of(batch: dict[str, list[Row]], name: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of a micro-batch; those of one event time arrive by their values, of which the id comes first."""
    sides = ("left",) if "self_join" in JOINS[name][0] else ("left", "right")
    return {side: [oracle_row(row) for row in sorted(batch.get(side, []), key=lambda row: row[0])] for side in sides}


def law(batches: Batches, name: str) -> list[Found]:
    """The answers of each micro-batch; behind the batches comes one that only advances the watermark."""
    oracle, clock, found = oracle_of(name), Clock(LATENESS), []
    for batch in [*batches, {}]:
        rows, low = rows_of(batch, name), None if clock.watermark is None else clock.watermark * 1000
        found.append(told(oracle.micro_batch(rows["left"], rows.get("right", []), low)))
        if batch:
            clock.advance(batch)
    return found


def told(output: list[Output]) -> Found:
    """The id of the left row, and the id of the right one or the aggregates."""
    found: Found = []
    for left, right in output:
        assert left is not None
        values = list((right or {"id": None}).values()) if right is None or "n" in right else [right["id"]]
        found.append((left["id"], *(getattr(value, "ns", value) for value in values)))
    return sorted(found, key=repr)


def answers(rows: list[dict[str, Any]]) -> Found:
    found: Found = []
    for row in rows:
        values = [row[name] for name in COLUMNS] if "n" in row else [row["id_right"]]
        plain = (round(one.timestamp() * 1e6) * 1000 if hasattr(one, "timestamp") else one for one in values)
        found.append((row["id"], *plain))
    return sorted(found, key=repr)


def joined(feed: Feed, name: str, *, static: bool = False, **options: Any) -> DataFrame:
    from slidejoin.spark import stream_join

    given, frame = JOINS[name][0], feed.static if static else feed.stream
    frames = [frame("left")] if "self_join" in given else [frame("left"), frame("right")]
    return stream_join(
        *frames, **{"on": PREDICATES[given["strategy"]][0], "window": WINDOW, "partitions": 3} | given | options
    )


@pytest.fixture(scope="module")
def batches() -> Batches:
    return rich_batches()


@pytest.fixture(scope="module")
def streams(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, batches: Batches
) -> tuple[Feed, Mapping[str, StreamingQuery]]:
    """All queries of this file, run side by side: a micro-batch spends most of its time waiting."""
    from pyspark.sql.functions import window

    feed = Feed(spark, tmp_path_factory.mktemp("left_answers"))
    feed.add(batches)
    wanted = asked(request)
    names = [name for name in STREAMED if name == "asof" or f"test_answers_are_those_of_the_law[{name}]" in wanted]
    queries = {name: feed.start(joined(feed, name), name) for name in names}
    if "test_count_windows" in wanted:
        queries["counted"] = feed.start(joined(feed, "asof", **COUNTED), "counted")
    if "test_a_windowed_aggregation_follows" in wanted:
        counted = joined(feed, "sums").groupBy(window("match_time", "10 seconds")).sum("n")
        queries["windows"] = feed.start(counted.toDF("window", "pairs").select("window.start", "pairs"), "windows")
    finish(*queries.values())
    return feed, queries


@pytest.mark.parametrize("name", ["asof", pytest.param("sums", marks=pytest.mark.nightly), "parts"])
def test_answers_are_those_of_the_law(
    streams: tuple[Feed, Any], spark: SparkSession, batches: Batches, name: str
) -> None:
    expected = [one for rows in law(batches, name) for one in rows]
    assert len(expected) > 20
    assert answers(streams[0].rows(name)) == sorted(expected, key=repr)


def test_columns_and_match_time(streams: tuple[Feed, Any], spark: SparkSession) -> None:
    """A left row is over at its time plus its length, whatever the times of its pairs."""
    rows = streams[0].rows("asof")
    assert list(rows[0]) == ["id", "x", "name", "ts", "id_right", "x_right", "name_right", "ts_right", "match_time"]
    assert {row["id_right"] is None for row in rows} == {True, False}
    assert all(row["match_time"] - row["ts"] == timedelta(seconds=10) for row in rows)
    kinds = {field.name: field.dataType.simpleString() for field in joined(streams[0], "sums", static=True).schema}
    assert kinds == {
        "id": "bigint",
        "x": "bigint",
        "name": "string",
        "ts": "timestamp",
        "n": "bigint",
        "total": "bigint",
        "low": "string",
        "first": "timestamp",
        "mean": "double",
        "match_time": "timestamp",
    }
    some = joined(streams[0], "sums", static=True, select=["l.name"], output=sj.Aggregate(ts="max(r.ts)"))
    assert some.columns == ["name", "ts", "match_time"]
    assert some.count() == joined(streams[0], "sums", static=True).count()


@pytest.mark.nightly  # behind an inner join it follows in test_streams
def test_a_windowed_aggregation_follows(streams: tuple[Feed, Any], spark: SparkSession, batches: Batches) -> None:
    """None of the answers is late for it."""
    times = {row[0]: row[3] for batch in batches for rows in batch.values() for row in rows}
    clock = Clock(LATENESS)
    for batch in batches:
        clock.advance(batch)
    counts: dict[int, int] = {}
    for row in [one for rows in law(batches, "sums") for one in rows]:
        start = ((times[row[0]] or 0) + LENGTH) // (10 * SECOND) * 10
        if start >= 0 and (start + 10) * SECOND <= clock.value:
            counts[start] = counts.get(start, 0) + row[1]
    got = {round(row["start"].timestamp()): row["pairs"] for row in streams[0].rows("windows")}
    assert len(counts) > 1
    assert {start: count for start, count in got.items() if start >= 0} == counts


@pytest.mark.nightly  # a join of pairs is started again in test_join_types_on_spark, answers in test_left_answers
def test_each_micro_batch_is_that_of_the_law_also_after_a_restart(
    spark: SparkSession, tmp_path: Path, batches: Batches
) -> None:
    """The query is stopped between micro-batches, and once more when it has read all; the last one brings no rows."""
    feed, found = Feed(spark, tmp_path), {}

    def take(rows: DataFrame, batch: int) -> None:
        found[batch] = answers([row.asDict() for row in rows.collect()])

    for part in (batches[:3], batches[3:]):
        feed.add(part)
        writer = joined(feed, "asof").writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        underway(query)
        finish(query)
    # Before the restart too, a micro-batch without rows follows the last one.
    expected = law([*batches[:3], {}, *batches[3:]], "asof")
    assert any(expected[:4])
    assert any(expected[4:])
    assert [rows for _, rows in sorted(found.items()) if rows] == [rows for rows in expected if rows]


@pytest.mark.parametrize("name", ["sums", "self", "parts", "summed parts"])
def test_static_frames_are_one_micro_batch(
    streams: tuple[Feed, Any], spark: SparkSession, batches: Batches, name: str
) -> None:
    oracle, every = oracle_of(name), {side: [row for batch in batches for row in batch[side]] for side in batches[0]}
    rows = rows_of(every, name)
    output = oracle.micro_batch(rows["left"], rows.get("right", []), None) + oracle.finish()
    assert answers([row.asDict() for row in joined(streams[0], name, static=True).collect()]) == told(output)


@pytest.mark.nightly  # without Spark in test_left_answers
def test_count_windows(streams: tuple[Feed, Any], spark: SparkSession, batches: Batches) -> None:
    """What has not been displaced waits."""
    oracle, found = Oracle(PREDICATES["hash"][1], CountScope(20, 10), "left", keep=ASOF), []
    for batch in batches:
        rows = rows_of(batch, "asof")
        found += oracle.micro_batch(rows["left"], rows["right"], None, "id")
    got = streams[0].rows("counted")
    assert "match_time" not in got[0]
    assert len(got) > 20
    assert answers(got) == told(found)


def test_explaining(streams: tuple[Feed, Any], spark: SparkSession) -> None:
    from slidejoin.spark import explain_join

    frames = [streams[0].stream(side) for side in ("left", "right")]
    text = str(explain_join(*frames, on="l.x = r.x", window=WINDOW, keep=sj.Nearest("l.ts", "r.ts"), how="left"))
    assert "left rows: answered as they leave, in the one bucket that has all partners of a row" in text
    assert "output: the nearest pair of each left row by abs(l.ts - r.ts), backward" in text
    text = str(explain_join(*frames, on="l.x < r.x", window=WINDOW, output=sj.Aggregate(n="count"), partitions=9))
    assert "strategy: broadcast" in text
    assert "output: Aggregate(n='count(*)') of each left row, as the row leaves" in text


def test_distances_of_doubles_are_exact_where_several_buckets_answer(spark: SparkSession) -> None:
    """Rounded and infinite ones hide which right row is nearer: each bucket has some of them."""
    from slidejoin.spark import stream_join

    inf = float("inf")
    left = [inf, -inf, 1e17, -1e17, 1.0, 2.0, 1.7e308, -1.7e308, 0.0, -(2.0**61)]
    right = [5.0, 7.0, 6.0, 0.0, 1.0, -(2.0**53), 2.0**53 + 2, -1.2e308, -1.7e308, 1.7e308, inf, -inf, 0.1]
    rows: dict[str, list[dict[str, Any]]] = {
        side: [{"id": at, "x": x, "ts": EPOCH} for at, x in enumerate(values)]
        for side, values in (("left", left), ("right", right))
    }
    oracle = Oracle(("=", ("lit", 1), ("lit", 1)), CountScope(100, 100), "left", keep=Nearest("x", "x", "nearest", 2))
    oracle.push(left=rows["left"], right=rows["right"])
    frames = [
        spark.createDataFrame([tuple(row.values()) for row in rows[side]], "id long, x double, ts timestamp")
        for side in ("left", "right")
    ]
    joined_rows = stream_join(
        *frames, on="l.id < r.id + 100", window=WINDOW, strategy="grid", partitions=2, how="left",
        keep=sj.Nearest("l.x", "r.x", "nearest", k=2), select=["l.x", "r.x"],
    ).collect()  # fmt: skip
    expected = [(one["x"], None if two is None else two["x"]) for one, two in oracle.finish() if one is not None]
    assert sorted((row["x"], row["x_right"]) for row in joined_rows) == sorted(expected)
