"""``late="emit"`` on Spark: late rows are rows of the result, each once, whichever buckets it went to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import ArgumentError, PredicateError
from tests.spark.feeds import SECOND, Clock, Feed, Row, expected, finish
from tests.spark.scenarios import LATENESS, LENGTH, rich_batches
from tests.spark.stores import Query, wire
from tests.spark.test_operator import CASES, LAYOUTS, WINDOW, streams

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def late_ids(batches: list[dict[str, list[Row]]], lateness: int = LATENESS) -> list[tuple[str, int]]:
    """The side and id of each row that the law leaves out, sorted."""
    clock, found = Clock(lateness), []
    for batch in batches:
        low = clock.watermark
        for side, rows in batch.items():
            found += [(side, row[0]) for row in rows if row[3] is None or (low is not None and row[3] < low)]
        clock.advance(batch)
    return sorted(found)


def split(rows: list[dict[str, Any]]) -> tuple[list[tuple[int, int]], list[tuple[str, int]]]:
    """The pairs of a result, and its late rows, whose other side is NULL."""
    pairs, late = [], []
    for row in rows:
        side = row["late_side"]
        if not isinstance(side, str):
            pairs.append((row["id"], row["id_right"]))
            continue
        own, other = ("id", "id_right") if side == "left" else ("id_right", "id")
        assert row[other] is None or row[other] != row[other]
        late.append((side, int(row[own])))
    return sorted(pairs), sorted(late)


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize(("strategy", "partitions", "spread"), LAYOUTS)
@given(batches=streams(), tasks=st.integers(1, 2))
@settings(max_examples=4)
def test_each_late_row_comes_once(
    tmp_path_factory: pytest.TempPathFactory,
    strategy: str,
    partitions: int,
    spread: int,
    self_join: bool,
    batches: list[dict[str, list[Row]]],
    tasks: int,
) -> None:
    on, predicate = CASES[strategy]
    spec = wire(
        tmp_path_factory.mktemp("cache"), on, WINDOW, strategy, partitions, spread, self_join=self_join, late="emit"
    )
    assert spec.emits_late
    query = Query(spec, LATENESS, tasks)
    if self_join:
        batches = [{"left": batch["left"]} for batch in batches]
    for batch in batches:
        query.micro_batch(batch)
    pairs, late = split(query.rows)
    assert late == late_ids(batches)
    assert pairs == expected(batches, predicate, LENGTH, LATENESS, self_join=self_join)


def test_rows_of_another_stateful_operator_are_judged_by_the_watermark_before(tmp_path: Path) -> None:
    spec = replace(wire(tmp_path, "l.x = r.x", WINDOW, "hash", late="emit"), derived=frozenset({"right"}))
    query = Query(spec)
    for batch in (
        {"left": [(1, 1, None, 10 * SECOND)], "right": [(2, 1, None, 10 * SECOND)]},
        {"left": [(3, 1, None, 20 * SECOND)], "right": [(4, 1, None, 20 * SECOND)]},
        {"left": [(5, 1, None, 15 * SECOND)], "right": [(6, 1, None, 15 * SECOND), (7, 1, None, 9 * SECOND)]},
    ):
        query.micro_batch(batch)
    pairs, late = split(query.rows)
    assert late == [("left", 5), ("right", 7)]
    assert (3, 6) in pairs


def test_a_state_without_late_rows_goes_on_with_them(tmp_path: Path) -> None:
    """The join is the same: its state does not depend on what becomes of late rows."""
    batches = rich_batches()
    query = Query(wire(tmp_path, "l.x = r.x", WINDOW, "hash"), LATENESS)
    for batch in batches[:3]:
        query.micro_batch(batch)
    before = [row | {"late_side": None} for row in query.rows]
    query.spec, query.rows = wire(tmp_path, "l.x = r.x", WINDOW, "hash", late="emit"), []
    for batch in batches[3:]:
        query.micro_batch(batch)
    law = [one for one in late_ids(batches) if one not in late_ids(batches[:3])]
    pairs, late = split(before + query.rows)
    assert law
    assert late == law
    assert pairs == expected(batches, ("=", ("col", "left", "x"), ("col", "right", "x")), LENGTH, LATENESS)


def test_on_real_spark_with_a_restart(feed: Feed) -> None:
    """One query into one sink, with the sides of late rows as folders; stopped once and started again."""
    from slidejoin.spark import stream_join

    window = sj.TimeWindow("10 seconds", on="ts", lateness="5 seconds")

    def joined() -> DataFrame:
        left, right = feed.stream("left"), feed.stream("right")
        on = CASES["cell"][0]
        return stream_join(left, right, on=on, window=window, partitions=3, late="emit", select=["r.id", "l.id", "l.x"])

    batches = rich_batches()
    for part in (batches[:3], batches[3:]):
        feed.add(part)
        finish(feed.start(joined(), "late"))
    rows = feed.rows("late")
    assert list(rows[0]) == ["id_right", "id", "x", "match_time", "late_side"]
    pairs, late = split(rows)
    assert len(late) > 3
    # A restart moves the watermark by a micro-batch without rows.
    assert late == late_ids([*batches[:3], {"left": [], "right": []}, *batches[3:]])
    assert pairs == expected(batches, CASES["cell"][1], LENGTH, LATENESS)
    known = {row[0]: row for batch in batches for row in (*batch["left"], *batch["right"])}
    for row in rows:
        if row["late_side"] == "left":
            assert row["x"] == known[row["id"]][1]
            time = known[row["id"]][3]
            assert (row["match_time"] is None) == (time is None)


def test_static_frames_have_only_rows_without_time(feed: Feed) -> None:
    from slidejoin.spark import stream_join

    batches = rich_batches()
    feed.add(batches)
    result = stream_join(
        feed.static("left"), feed.static("right"), on="l.x < r.x", window=WINDOW, late="emit", partitions=2
    )
    _, late = split([row.asDict() for row in result.collect()])
    law = [(side, row[0]) for batch in batches for side, rows in batch.items() for row in rows if row[3] is None]
    assert late == sorted(law)
    assert law


def test_what_is_refused(spark: SparkSession, feed: Feed) -> None:
    from slidejoin.spark import explain_join, stream_join
    from slidejoin.spark.job.checks import SparkJoinError

    feed.add([{"left": [], "right": []}])
    left, right = feed.static("left"), feed.static("right")
    options: dict[str, Any] = {"on": "l.x = r.x", "window": WINDOW, "late": "emit"}
    with pytest.raises(
        SparkJoinError, match="late='emit' is for output='pairs' of an inner join on Spark; got output='count'"
    ):
        stream_join(left, right, **options, output="count")
    with pytest.raises(SparkJoinError, match="of an inner join on Spark; got output='pairs', how='left'"):
        stream_join(left, right, **options, how="left")
    with pytest.raises(
        ArgumentError, match=r"late='emit' is for a TimeWindow; rows of CountWindow\(5\) are never late"
    ):
        stream_join(left, right, **options | {"window": sj.CountWindow(5)}, order_by="id")
    with pytest.raises(PredicateError, match="late='emit' adds a column 'late_side', and an input has one too"):
        stream_join(left.withColumnRenamed("name", "late_side"), right, **options)
    with pytest.raises(SparkJoinError, match="late='emit' is for a join of two; many streams"):
        explain_join({"a": left, "b": right}, on="a.x = b.x", window={"a": WINDOW, "b": WINDOW}, late="emit")
    assert explain_join(left, right, **options).strategy == "hash"
