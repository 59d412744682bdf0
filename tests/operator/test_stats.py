"""Counters and times of steps."""

from __future__ import annotations

import json
import time

import pytest

import slidejoin as sj
from slidejoin.operator.stats import Stats


def slow_failure() -> None:
    time.sleep(0.002)
    raise ZeroDivisionError


def test_steps_add_up_even_when_they_fail() -> None:
    stats = Stats()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), stats.step("probe"):
            slow_failure()
    assert stats.seconds["probe"] >= 0.004
    assert json.loads(json.dumps(stats.to_json()))["seconds"].keys() == {"probe"}


def test_steps_that_follow_each_other() -> None:
    stats = Stats()
    start = now = time.perf_counter()
    for name in ("probe", "write", "probe"):
        time.sleep(0.001)
        now = stats.since(name, now)
    assert sum(stats.seconds.values()) == pytest.approx(now - start)
    assert stats.seconds["probe"] >= 0.002
    with stats.step("write"), stats.step("write"):
        pass
    assert sum(stats.seconds.values()) >= now - start


def test_the_readers_time_is_not_the_joins() -> None:
    for output in ("pairs", "count"):
        join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(9), output=output)
        for _ in join.push_iter(left={"a": [1]}, right={"a": [1]}):
            time.sleep(0.2)
        assert sum(join.stats.seconds.values()) < 0.2
        assert {"insert", "probe", "payload", "expire"} <= join.stats.seconds.keys()


def test_counters() -> None:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.TimeWindow(2, on="t"))
    join.push(left={"a": [1, 1, 1], "t": [0, None, 5]}, right={"a": [1, 1], "t": [5, 1]})
    stats = join.stats
    assert (stats.rows_left, stats.rows_right, stats.pairs) == (2, 1, 1)
    assert (stats.late_rows, stats.null_time_rows) == (1, 1)
    assert (stats.window_left, stats.window_right) == (2, 1)
    assert stats.window_bytes > 0
