"""The figures of every kind of join are those that the join itself has."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.errors import ArgumentTypeError, JoinClosedError
from slidejoin.watch.collect import passed_terms

BASE = datetime(2026, 1, 1, tzinfo=UTC)
EPOCH = BASE.timestamp()


def rows(name: str, values: list[int], seconds: list[float | None]) -> pa.Table:
    times = [None if one is None else BASE + timedelta(seconds=one) for one in seconds]
    return pa.table({name: pa.array(values, pa.int64()), "ts": pa.array(times, pa.timestamp("us", "UTC"))})


def timed(**options: Any) -> sj.StreamJoin:
    window = sj.TimeWindow("1 minute", on="ts", lateness="5 seconds")
    return sj.StreamJoin(on="l.a = r.b", window=window, **options)


def test_a_stream_join_has_its_counters():
    join = timed()
    join.push(left=rows("a", [1, 2], [10, 30]), right=rows("b", [1, 2, 9], [20, None, 20]))
    join.push(right=rows("b", [2], [3]))
    reading, stats = sj.metrics(join), join.stats
    assert reading.of("slidejoin_rows_total") == {"left": stats.rows_left, "right": stats.rows_right} == {
        "left": 2.0, "right": 2.0,
    }  # fmt: skip
    assert reading.value("slidejoin_pairs_total") == stats.pairs == 1
    assert reading.value("slidejoin_late_rows_total", side="") == stats.late_rows == 1
    assert reading.value("slidejoin_null_time_rows_total") == stats.null_time_rows == 1
    assert reading.of("slidejoin_window_rows") == {"left": 2.0, "right": 2.0}
    assert reading.value("slidejoin_window_bytes") == stats.window_bytes
    assert reading.value("slidejoin_index_changes_total") == 0
    assert set(reading.of("slidejoin_step_seconds_total")) == set(join.stats.seconds)
    assert reading.value("slidejoin_unmatched_rows_total", side="left") is None
    assert reading.value("slidejoin_feed_rows") is None
    assert reading.value("slidejoin_bucket_skew") is None


def test_event_times_say_who_holds_the_watermark():
    join = timed()
    assert sj.metrics(join).of("slidejoin_watermark_held_by") == {}
    join.push(left=rows("a", [1], [30]), right=rows("b", [], []))
    reading = sj.metrics(join)
    assert reading.of("slidejoin_event_time_seconds") == {"left": EPOCH + 30}
    assert reading.of("slidejoin_watermark_held_by") == {"left": 0.0, "right": 1.0}
    join.push(right=rows("b", [1], [50]))
    reading = sj.metrics(join)
    assert reading.of("slidejoin_watermark_seconds") == {"left": EPOCH + 25, "right": EPOCH + 45}
    assert reading.of("slidejoin_watermark_held_by") == {"left": 1.0, "right": 0.0}
    assert reading.of("slidejoin_lag_seconds")["left"] == pytest.approx(time.time() - EPOCH - 30, abs=60)


@pytest.mark.parametrize("window", [sj.CountWindow(10), sj.TimeWindow(10, on="t")])
def test_a_join_without_times_of_day_has_no_figures_of_them(window: Any):
    join = sj.StreamJoin(on="l.a = r.a", window=window)
    join.push({"a": [1], "t": [5]}, {"a": [1], "t": [5]})
    reading = sj.metrics(join)
    assert reading.value("slidejoin_pairs_total") == 1
    assert not [sample.name for sample in reading.samples() if "lag" in sample.name or "event_time" in sample.name]


def test_pushes_are_counted_by_their_time():
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(100))
    start = time.perf_counter()
    for _ in range(5):
        join.push({"a": [1]}, {"a": [1]})
    for table in join.push_iter({"a": [1]}):
        time.sleep(0.05)  # which is not of the join
        assert table.num_rows
    join.push_iter({"a": [1]}).close()  # type: ignore[attr-defined]  # an iterator of pushes has it
    asyncio.run(join.push_async({"a": [1]}))
    whole = time.perf_counter() - start
    histogram = sj.metrics(join).histogram("slidejoin_push_seconds")
    assert histogram is not None
    assert histogram.count == 8
    assert 0 < histogram.sum < whole - 0.05
    with pytest.raises(sj.SchemaError):
        join.push({"b": [1]})
    assert sj.metrics(join).value("slidejoin_push_seconds") == 8


def test_an_outer_join_counts_rows_without_a_match():
    join = timed(how="full")
    join.push(left=rows("a", [1, 7], [10, 20]), right=rows("b", [1, 8, 9], [10, 20, 20]))
    join.finish()
    assert sj.metrics(join).of("slidejoin_unmatched_rows_total") == {"left": 1.0, "right": 2.0}


def test_a_self_join_has_one_side():
    join = sj.StreamJoin(on="l.a = r.a", window=sj.TimeWindow("1 minute", on="ts"), self_join=True)
    join.push(rows("a", [1, 1], [10, 20]))
    reading = sj.metrics(join)
    assert reading.of("slidejoin_rows_total") == {"left": 2.0}
    assert reading.of("slidejoin_window_rows") == {"left": 2.0}
    assert reading.of("slidejoin_watermark_held_by") == {"left": 0.0}


def test_a_join_of_many_streams_has_its_streams():
    window = sj.TimeWindow("1 minute", on="ts", lateness="5 seconds")
    join = sj.MultiJoin({"x": window, "y": window, "z": window}, on="x.a = y.a AND y.a = z.a")
    assert sj.metrics(join).of("slidejoin_rows_total") == {"x": 0.0, "y": 0.0, "z": 0.0}
    join.push(x=rows("a", [1], [30]), y=rows("a", [1], [10]), z=rows("a", [1], [20]))
    reading, stats = sj.metrics(join), join.stats
    assert reading.of("slidejoin_rows_total") == stats.rows == {"x": 1, "y": 1, "z": 1}
    assert reading.value("slidejoin_pairs_total") == stats.pairs
    assert reading.of("slidejoin_watermark_seconds") == {"x": EPOCH + 25, "y": EPOCH + 5, "z": EPOCH + 15}
    assert reading.of("slidejoin_watermark_held_by") == {"x": 0.0, "y": 1.0, "z": 0.0}
    assert reading.value("slidejoin_push_seconds") == 1


def test_a_table_join_has_rows_of_the_stream_and_of_the_table():
    join = sj.TableJoin({"low": [0, 10], "high": [9, 99]}, on="l.q BETWEEN r.low AND r.high")
    assert sj.metrics(join).value("slidejoin_rows_total", side="left") == 0
    join.push({"q": [5, 50, 500]})
    reading = sj.metrics(join)
    assert reading.of("slidejoin_rows_total") == {"left": 3.0}
    assert reading.of("slidejoin_window_rows") == {"right": 2.0}
    assert reading.value("slidejoin_pairs_total") == 2
    assert reading.value("slidejoin_late_rows_total", side="") is None


def test_a_feed_has_its_queue_and_its_join():
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(100))
    with sj.Feed(join, capacity=1000, overload="shed", shed="oldest") as feed:
        feed.put({"a": [1, 2]}, {"a": [2]})
        table = feed.get()
        assert table is not None
        assert table.num_rows == 1
        reading = sj.metrics(feed)
        assert reading.value("slidejoin_feed_capacity_rows") == 1000
        assert reading.value("slidejoin_feed_rows") == 0
        assert reading.of("slidejoin_feed_dropped_rows_total") == {"left": 0.0, "right": 0.0}
        assert reading.of("slidejoin_rows_total") == {"left": 2.0, "right": 1.0}
        assert reading.value("slidejoin_push_seconds") == 1


def test_another_index_is_counted():
    join = sj.StreamJoin(on="l.a BETWEEN r.a - 1 AND r.a + 1", window=sj.CountWindow(1000), output="count")
    join.push({"a": [1]}, {"a": [1]})
    assert sj.metrics(join).value("slidejoin_index_changes_total") == 0
    operator = join._state.operator
    assert operator is not None
    operator._change_to(operator.plan.index_terms("bi_sort"))
    assert sj.metrics(join).value("slidejoin_index_changes_total") == 1
    join.push({"a": [1]}, {"a": [1]})
    assert sj.metrics(join).value("slidejoin_pairs_total") == 4


def test_other_threads_read_while_rows_are_pushed():
    join = timed()
    stop, seen, failed = threading.Event(), [0.0], []

    def look() -> None:
        try:
            while not stop.is_set():
                reading = sj.metrics(join)
                seen.append(reading.value("slidejoin_pairs_total") or 0.0)
        except Exception as error:  # noqa: BLE001 - what a thread raises is lost otherwise
            failed.append(error)

    watching = threading.Thread(target=look)
    watching.start()
    for number in range(200):
        join.push(left=rows("a", [1], [number / 10]), right=rows("b", [1], [number / 10]))
    stop.set()
    watching.join()
    assert failed == []
    assert seen == sorted(seen)
    assert sj.metrics(join).value("slidejoin_pairs_total") == join.stats.pairs


def test_a_call_from_within_the_join_is_refused():
    caught: list[BaseException] = []

    def clock() -> float:
        try:
            sj.metrics(join)
        except JoinClosedError as error:
            caught.append(error)
        return 0.0

    window = sj.TimeWindow("1 minute", on="ts")
    join = sj.StreamJoin(on="l.a = r.b", window=window, idle_timeout="1 minute", wall_clock=clock)
    caught.clear()
    join.push(left=rows("a", [1], [1]), right=rows("b", [1], [1]))
    join.push(left=rows("a", [1], [1]))
    assert "from within another call" in str(caught[0])


@pytest.mark.parametrize("source", [None, 3, "join", pa.table({"a": [1]})])
def test_anything_else_is_refused(source: Any):
    with pytest.raises(ArgumentTypeError, match="metrics takes a StreamJoin"):
        sj.metrics(source)


# -- terms -------------------------------------------------------------------------------------------------------------


def test_the_shares_of_terms_are_those_of_the_rows():
    join = sj.StreamJoin(on="l.a = r.a AND l.b < r.b", window=sj.CountWindow(1000), aliases=("l", "r"))
    side = {"a": [number % 4 for number in range(600)], "b": list(range(600))}
    assert passed_terms(join) == []
    join.push(side, side)
    shares = dict(passed_terms(join))
    assert shares["l.a = r.a"] == pytest.approx(1 / 4, abs=0.01)
    assert shares["l.b < r.b"] == pytest.approx(1 / 2, abs=0.02)


@pytest.mark.filterwarnings("ignore::slidejoin.errors.NoIndexWarning")
@pytest.mark.parametrize("on", ["l.a = r.a OR l.b < r.b", "l.s LIKE r.s"])
def test_terms_are_left_out_where_their_shares_are_not_known(on: str):
    join = sj.StreamJoin(on=on, window=sj.CountWindow(1000))
    side = {"a": range(200), "b": range(200), "s": ["x"] * 200}
    join.push(side, side)
    assert passed_terms(join) == []


@pytest.mark.parametrize("options", [{"how": "full"}, {"keep": sj.Nearest("l.b", "r.b")}, {"self_join": True}])
def test_terms_of_other_joins_are_known_too(options: dict[str, Any]):
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(1000), **options)
    side = {"a": [number % 4 for number in range(600)], "b": range(600)}
    join.push(*([side] if "self_join" in options else [side, side]))
    assert dict(passed_terms(join))["l.a = r.a"] == pytest.approx(1 / 4, abs=0.01)
