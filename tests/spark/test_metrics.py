"""The figures of queries under the fixed names: those that the micro-batches reported, added up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import slidejoin as sj
from slidejoin.spark import multi_join, stream_join, watch
from slidejoin.watch.spark_totals import QueryTotals
from tests.spark.feeds import SECOND, finish
from tests.spark.scenarios import rich_batches

if TYPE_CHECKING:
    from slidejoin.spark import JoinProgress
    from tests.spark.feeds import Feed

ON = "l.x = r.x"
WINDOW = sj.TimeWindow("10 seconds", on="ts", lateness="5 seconds")


def test_a_query_has_the_sums_of_its_micro_batches(feed: Feed) -> None:
    batches = rich_batches(idle=())
    feed.add(batches)
    result = stream_join(feed.stream("left"), feed.stream("right"), on=ON, window=WINDOW, partitions=3)
    seen: list[JoinProgress] = []
    with watch(feed.spark, seen.append):
        query = feed.start(result, "out")
        finish(query)
        deadline = time.monotonic() + 30
        while sum(one.pairs for one in seen) < len(feed.pairs("out")) and time.monotonic() < deadline:
            time.sleep(0.1)
    reading = sj.metrics(query)
    for side in ("left", "right"):
        assert reading.value("slidejoin_rows_total", side=side) == sum(getattr(one, f"rows_{side}") for one in seen)
        assert reading.value("slidejoin_window_rows", side=side) == getattr(seen[-1], f"window_{side}")
    assert reading.value("slidejoin_pairs_total") == len(feed.pairs("out")) > 0
    assert reading.value("slidejoin_late_rows_total", side="") == sum(one.late_rows for one in seen) > 0
    assert reading.value("slidejoin_null_time_rows_total") == sum(one.null_time_rows for one in seen) > 0
    assert reading.value("slidejoin_window_bytes") == seen[-1].window_bytes > 0
    assert reading.value("slidejoin_cache_rebuilds_total") == sum(one.rebuilt for one in seen)
    assert reading.value("slidejoin_micro_batches_total") == len(seen)
    buckets = reading.of("slidejoin_bucket_rows")
    assert len(buckets) == seen[-1].buckets
    assert sum(buckets.values()) == sum(reading.of("slidejoin_window_rows").values())
    assert reading.value("slidejoin_bucket_skew") == pytest.approx(seen[-1].skew_window)
    histogram = reading.histogram("slidejoin_push_seconds")
    assert histogram is not None
    assert histogram.count == len(seen)
    assert histogram.sum == pytest.approx(sum(one.batch_seconds for one in seen))
    steps = reading.of("slidejoin_step_seconds_total")
    assert steps["probe"] == pytest.approx(sum(one.seconds.get("probe", 0) for one in seen), abs=1e-3)
    newest = {
        side: max(row[3] for batch in batches for row in batch[side] if row[3] is not None and row[1] is not None)
        for side in ("left", "right")
    }
    assert reading.of("slidejoin_event_time_seconds") == {side: at / SECOND for side, at in newest.items()}
    assert reading.of("slidejoin_watermark_seconds") == {side: at / SECOND - 5 for side, at in newest.items()}
    held = {
        side: float(newest["left"] != newest["right"] and at == min(newest.values())) for side, at in newest.items()
    }
    assert reading.of("slidejoin_watermark_held_by") == held
    # Taken again, nothing is counted twice; from the start, nothing is missing.
    assert sj.metrics(query).value("slidejoin_pairs_total") == reading.value("slidejoin_pairs_total")
    totals = QueryTotals()
    assert totals.catch_up(query)
    assert not totals.catch_up(query)
    other = totals.reading()
    assert other.at(0.0).values == reading.at(0.0).values


def test_a_join_of_many_streams_has_one_stream_on_the_left(feed: Feed) -> None:
    for number, batch in enumerate(rich_batches(idle=())[:3]):
        feed.add([batch | {"third": batch["left"]}])
        assert feed.files == number + 1
    names = ("left", "right", "third")
    joined = multi_join(
        {name: feed.stream(name) for name in names},
        on="left.x = right.x AND right.x = third.x",
        window=dict.fromkeys(names, sj.TimeWindow("10 seconds", on="ts")),
        partitions=2,
    )
    query = feed.start(joined, "many")
    finish(query)
    reading = sj.metrics(query)
    assert reading.value("slidejoin_pairs_total") == len(feed.rows("many")) > 0
    rows = reading.of("slidejoin_rows_total")
    assert rows["right"] > rows["left"] > 0
    assert reading.of("slidejoin_event_time_seconds") == {}
