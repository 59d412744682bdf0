"""Join types on real Spark: with timers, restarts, static frames, and operators that follow."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from tests.oracle import Oracle, TimeScope
from tests.spark.feeds import SECOND, Clock, Feed, Row, finish, oracle_row
from tests.spark.scenarios import LATENESS, LENGTH, rich_batches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

L, R = ("col", "left", "x"), ("col", "right", "x")
NAMES = ("<>", ("col", "left", "name"), ("col", "right", "name"))
BAND = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
PREDICATES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "hash": ("l.x = r.x AND l.name <> r.name", ("and", ("=", L, R), NAMES)),
    "cell": ("l.x BETWEEN r.x - 1 AND r.x + 1 AND l.name <> r.name", ("and", BAND, NAMES)),
    "grid": ("l.x < r.x AND l.name <> r.name", ("and", ("<", L, R), NAMES)),
    "broadcast": ("l.x < r.x AND l.name <> r.name", ("and", ("<", L, R), NAMES)),
}
WINDOW = sj.TimeWindow("10 seconds", on="ts", lateness="5 seconds")
JOINS: dict[str, dict[str, Any]] = {
    "hash": {"how": "left", "strategy": "hash"},
    "full": {"how": "full", "strategy": "cell"},
    "scattered": {"how": "full", "strategy": "grid", "partitions": 4},
    "spread": {"how": "right", "strategy": "cell", "spread": 2, "partitions": 4},
    "semi": {"how": "left_semi", "strategy": "cell"},
    "anti": {"how": "left_anti", "strategy": "broadcast"},
    "self": {"how": "full", "strategy": "hash", "self_join": True},
}
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
        found.append([(left and left["id"], right and right["id"]) for left, right in output])
        if batch:
            clock.advance(batch)
    return found


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
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, batches: list[dict[str, list[Row]]]
) -> tuple[Feed, Mapping[str, StreamingQuery]]:
    """All queries of this file, run side by side: a micro-batch spends most of its time waiting."""
    feed = Feed(spark, tmp_path_factory.mktemp("join_types"))
    feed.add(batches)
    queries = {name: feed.start(joined(feed, **options), name) for name, options in JOINS.items()}
    finish(*queries.values())
    return feed, queries


@pytest.mark.parametrize("name", JOINS)
def test_rows_are_those_of_the_law(
    streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]], name: str
) -> None:
    options = JOINS[name]
    self_join = options.get("self_join", False)
    given = [{"left": batch["left"]} for batch in batches] if self_join else batches
    expected = [one for rows in law(given, options["strategy"], options["how"], self_join=self_join) for one in rows]
    assert len(expected) > 20
    assert ids(streams[0].rows(name)) == sorted(expected, key=repr)
