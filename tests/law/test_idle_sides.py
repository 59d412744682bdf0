"""Idle sides: which side holds the watermark back, and joins that go on without a side that is silent."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from tests.law.checks import assert_groups, assert_stats, examples, line, lines
from tests.law.join_types import Lines
from tests.law.test_nearest import DIRECTIONS, kept, law_lines
from tests.oracle import Nearest, Oracle, TimeScope
from tests.strategies import cases
from tests.tables import rows_of

if TYPE_CHECKING:
    from slidejoin.operator.ingest.late_rows import LateRows
    from slidejoin.operator.push import PushBatch
    from slidejoin.sides import Side
    from slidejoin.spec.join_options import JoinType
    from tests.oracle import Row, Step

TIMEOUT = 30


class Wall:
    """A wall clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class IdleOracle(Oracle):
    """The law with idle sides: a watermark that goes on without them, and never moves back."""

    def __init__(self, predicate: Any, scope: Any, wall: Wall, how: str = "inner", keep: Nearest | None = None) -> None:
        super().__init__(predicate, scope, how, keep=keep)
        self.wall = wall
        self.heard = dict.fromkeys(("left", "right"), wall.now)
        self.reached: int | None = None

    def watermark(self) -> int | None:
        awake = [self.latest[side] for side in self.heard if self.wall.now - self.heard[side] < TIMEOUT]
        known = [time for time in awake if time is not None]
        if awake and len(known) == len(awake):
            mark = min(known) - self.scope.lateness
            self.reached = mark if self.reached is None else max(self.reached, mark)
        return self.reached

    def _arrive(self, side: str, row: Row, watermark: int | None) -> Step:
        step = super()._arrive(side, row, watermark)
        time = self.scope.time_of(side, row)
        if time is not None:  # late or not, it shows how far its side has come
            self.heard[side] = self.wall.now
            latest = self.latest[side]
            self.latest[side] = time if latest is None else max(latest, time)
        return step


WAITS = st.sampled_from([0, 0, 1, 10, 29, 30, 31, 100])


@pytest.mark.parametrize("how", ["inner", "left", "full", "left_semi", "left_anti"])
@pytest.mark.parametrize("options", [{}, {"topology": "split_join", "threads": 2}], ids=str)
@examples(30)
@given(data=st.data())
def test_idle_sides_against_the_law(options: dict[str, Any], how: JoinType, data: st.DataObject) -> None:
    """Any waits between pushes, restarts, and the rows of a push cut in two at the same time."""
    case = data.draw(cases(window="time", most=14))
    wall = Wall()
    late: dict[str, Any] = {"late": "emit", "idle_timeout": f"{TIMEOUT} seconds", "wall_clock": wall}
    join = case.join(order="strict", how=how, **late, **options)
    oracle, law = IdleOracle(case.predicate, case.window.scope, wall, how), Lines(case, how)
    for push in case.pushes:
        wall.now += data.draw(WAITS)
        sides = [[] if one is None else rows_of(one) for one in (push.left, push.right)]
        steps = oracle.push(sides[0], sides[1], push.order_by)
        found = []
        cut = push.order_by is None and push.left is not None and data.draw(st.booleans())
        for given_ in [{"left": push.left}, {"right": push.right}] if cut else [push.arguments()]:
            found += lines(join.push(**given_))
        assert_groups(found, law.groups(steps), "strict")
        left_out = join.late_rows()
        for side in ("left", "right"):
            expected = [line(step.row) for step in steps if not step.counted and step.side == side]
            assert [line(row) for row in rows_of(getattr(left_out, side))] == expected
        if data.draw(st.booleans()):
            state = join.snapshot()
            wall.now += 10**6  # a time in which nothing could come
            join = sj.StreamJoin.restore(state, wall_clock=wall, topology=options.get("topology", "auto"))
            oracle.heard = {side: heard + 10**6 for side, heard in oracle.heard.items()}
    assert lines(join.finish()) == [law.of(row) for row in oracle.finish()]
    assert_stats(join, oracle)


@examples(40)
@given(data=st.data(), how=st.sampled_from(["inner", "left"]), direction=st.sampled_from(DIRECTIONS))
def test_nearest_matches_beside_idle_sides(data: st.DataObject, how: JoinType, direction: str) -> None:
    """Left rows are answered as they leave, also where they leave without the other side."""
    case, wall = data.draw(cases(window="time", family="int", most=14)), Wall()
    keep = Nearest("a", "a", direction, data.draw(st.sampled_from([1, 2])))
    late: dict[str, Any] = {"late": "emit", "idle_timeout": f"{TIMEOUT} seconds", "wall_clock": wall}
    join = case.join(keep=kept(keep), how=how, **late)
    oracle = IdleOracle(case.predicate, case.window.scope, wall, how, keep)
    for push in case.pushes:
        wall.now += data.draw(WAITS)
        sides = [[] if one is None else rows_of(one) for one in (push.left, push.right)]
        steps = oracle.push(sides[0], sides[1], push.order_by)
        assert lines(join.push(**push.arguments())) == law_lines(case, [row for step in steps for row in step.rows])
        if data.draw(st.booleans()):
            join = sj.StreamJoin.restore(join.snapshot(), wall_clock=wall)
    assert lines(join.finish()) == law_lines(case, oracle.finish())
    assert_stats(join, oracle)


def test_an_idle_join_puts_rows_out_without_its_other_side() -> None:
    """The fused path goes on where the general one has moved the clock by a late row."""
    wall = Wall()
    join = timed(wall, how="left", order="none", output="positions")
    assert join._state.operator.fused is not None
    found = []
    for wait, push in (
        (0, {"left": rows(5), "right": rows(5)}),
        (40, {"left": rows(20)}),  # the right side is idle: row 0 has matched, and leaves
        (1, {"left": rows(30), "right": rows(9)}),  # the right row is late, and says how far its side has come
        (1, {"right": rows(31)}),
        (1, {"left": rows(40)}),
        (1, {"left": rows(41), "right": rows(60)}),
        (1, {"left": rows(70), "right": rows(61)}),
    ):
        wall.now += wait
        found.append(join.push(**push).to_pydict())
    assert [one["left"] for one in found] == [[0], [], [1], [2], [], [], [3, 4]]
    assert [one["right"] for one in found] == [[0], [], [None], [1], [], [], [None, None]]
    assert join.finish().to_pydict() == {"left": [5], "right": [None]}


SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64())])


def rows(*times: int | None) -> pa.Table:
    return pa.table([pa.array([1] * len(times)), pa.array(times, pa.int64())], schema=SCHEMA)


def timed(wall: Wall | None = None, **options: Any) -> sj.StreamJoin:
    made: dict[str, Any] = {"on": "l.k = r.k", "window": sj.TimeWindow(5, on="ts"), "schemas": (SCHEMA, SCHEMA)}
    if wall is not None:
        made |= {"idle_timeout": "30 seconds", "wall_clock": wall, "late": "emit"}
    return sj.StreamJoin(**made | options)


def late_times(rows: LateRows) -> tuple[list[Any], list[Any]]:
    return rows.left.column("ts").to_pylist(), rows.right.column("ts").to_pylist()


# wall clock   0 s     10 s    20 s    50 s          60 s
# left         ts 5    ts 6    ts 7    ts 9
# right        ts 5                                  ts 6 is late, ts 9 is not
# watermark    5       5       5       9             9
def test_a_side_that_comes_back() -> None:
    wall = Wall()
    join = timed(wall)
    marks = []
    for wait, push in (
        (0, {"left": rows(5), "right": rows(5)}),
        (10, {"left": rows(6)}),
        (10, {"left": rows(7)}),
        (30, {"left": rows(9)}),
        (10, {"right": rows(6, 9)}),
    ):
        wall.now += wait
        join.push(**push)
        marks.append(join.stats.watermark)
    assert marks == [5, 5, 5, 9, 9]
    assert late_times(join.late_rows()) == ([], [6])
    assert join.stats.event_time_right == 9


def test_a_side_that_lags_holds_the_watermark_again_but_does_not_move_it_back() -> None:
    wall = Wall()
    join = timed(wall)
    join.push(left=rows(5), right=rows(5))
    wall.now += 40
    join.push(left=rows(100))
    join.push(right=rows(50))  # late, but the side is awake: from here on it counts
    join.push(left=rows(200))
    assert (join.stats.watermark, join.stats.held_by) == (100, "right")
    join.push(right=rows(120))
    assert join.stats.watermark == 120
    assert late_times(join.late_rows()) == ([], [50])


def test_both_sides_idle_stand_still() -> None:
    wall = Wall()
    join = timed(wall)
    join.push(left=rows(7), right=rows(5))
    wall.now += 100
    join.push()
    assert (join.stats.watermark, join.stats.held_by) == (5, None)
    # One comes back, and counts alone.
    join.push(left=rows(8))
    assert join.stats.watermark == 8


def test_a_side_that_never_had_a_row() -> None:
    wall = Wall()
    join = timed(wall)
    join.push(left=rows(*range(100)))
    assert (join.stats.watermark, join.stats.held_by, join.stats.window_left) == (None, "right", 100)
    wall.now += 30
    join.push(left=rows(100_000))
    assert join.stats.watermark == 100_000
    assert late_times(join.late_rows()) == ([], [])
    join.push(left=rows(7), right=rows(8, 100_000))
    assert late_times(join.late_rows()) == ([7], [8])


def test_rows_of_an_idle_join_leave_its_window() -> None:
    wall = Wall()
    join = timed(wall)
    join.push(left=rows(1), right=rows(1))
    for number in range(0, 400_000, 20_000):
        wall.now += 10
        join.push(left=rows(*range(number, number + 20_000)))
    assert join.stats.window_left < 60_000
    held = timed()
    held.push(left=rows(1), right=rows(1))
    for number in range(0, 400_000, 20_000):
        held.push(left=rows(*range(number, number + 20_000)))
    assert held.stats.window_left == 400_000  # the first one was late


def test_the_fused_path_serves_while_no_side_is_idle() -> None:
    wall, taken = Wall(), list[int]()
    join = timed(wall, order="none")
    fused = join._state.operator.fused
    assert fused is not None
    run = fused.run

    def counted(batch: PushBatch, first: dict[Side, int]) -> pa.Table:
        taken.append(batch.rows)
        return run(batch, first)

    setattr(fused, "run", counted)  # noqa: B010 - of this one
    for wait in (0, 10, 10, 100, 1):
        wall.now += wait
        time = int(wall.now)
        join.push(left=rows(time), right=rows(time))
    # By the fourth push both had been idle for long, and the fifth one finds them awake.
    assert taken == [2, 2, 2, 2]
    assert join.stats.late_rows == 0


def test_what_is_refused() -> None:
    for options, text in (
        ({"idle_timeout": 30}, "idle_timeout is a time by the wall clock, longer than 0, such as '30 seconds'.*got 30"),
        ({"idle_timeout": "0 seconds"}, "idle_timeout is a time by the wall clock, longer than 0.*got '0 seconds'"),
        ({"idle_timeout": "soon"}, "idle_timeout must be whole numbers with units"),
        ({"idle_timeout": timedelta(seconds=-1)}, "idle_timeout must not be negative"),
        ({"idle_timeout": "1 s", "window": sj.CountWindow(5)}, r"CountWindow\(5\) has no watermark"),
        ({"idle_timeout": "1 s", "self_join": True}, "a self-join has one stream"),
        ({"wall_clock": 5}, "wall_clock must be a function that returns seconds, such as time.monotonic; got 5"),
    ):
        with pytest.raises(sj.ArgumentError, match=text):
            timed(**options)
    assert "idle_timeout='1 minute 30 seconds'" in repr(timed(idle_timeout=timedelta(seconds=90)))


# -- figures and log -------------------------------------------------------------------------------------------------


def test_figures_of_the_watermark() -> None:
    start = datetime(2026, 1, 5, 12)
    times = [start, start + timedelta(milliseconds=1500)]
    for kind, zone in ((pa.timestamp("us"), ""), (pa.timestamp("ns", "Europe/Berlin"), "Z")):
        join = sj.StreamJoin(on="l.k = r.k", window=sj.TimeWindow("1 minute", on="ts", lateness="1 second"))
        batches = [pa.table({"k": [1], "ts": pa.array([time], pa.timestamp("us")).cast(kind)}) for time in times]
        join.push(left=batches[1])
        assert join.stats.held_by is None  # not planned yet
        join.push(right=batches[0])
        stats = join.stats
        assert (stats.watermark, stats.held_by) == (f"2026-01-05T11:59:59.000{zone}", "right")
        assert stats.event_time_left == f"2026-01-05T12:00:01.500{zone}"
        assert stats.to_json()["event_time_right"] == f"2026-01-05T12:00:00.000{zone}"
        assert any(one.split() == ["held_by:", "right"] for one in str(stats).splitlines())
    counted = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(5), schemas=(SCHEMA, SCHEMA))
    assert "watermark" not in str(counted.stats)


def test_a_far_side_is_logged_once_a_stretch(caplog: pytest.LogCaptureFixture) -> None:
    """Both lengths and the lateness are 13 together."""
    window = sj.TimeWindow(5, on="ts", lateness=3)
    with caplog.at_level(logging.INFO, logger="slidejoin"):
        join = timed(window=window)
        join.push(left=rows(10), right=rows(10))
        join.push(left=rows(23))
        assert caplog.messages == []
        join.push(left=rows(24))
        join.push(left=rows(25))
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith("the right side holds the watermark at 7: the left side is 14 ahead")
        join.push(right=rows(25))
        join.push(right=rows(60))
        assert len(caplog.messages) == 2
        assert caplog.messages[1].startswith("the left side holds the watermark at 22: the right side is 35 ahead")


def test_a_side_without_rows_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="slidejoin"):
        join = timed()
        join.push(left=rows(1000))
        join.push(left=rows(1010))
        assert caplog.messages == []
        join.push(left=rows(1011))
        join.push(left=rows(1012))
    assert [message.split(":")[0] for message in caplog.messages] == [
        "the right side has had no row while the left side came from 1000 to 1011"
    ]


def test_an_idle_side_is_logged_and_not_blamed(caplog: pytest.LogCaptureFixture) -> None:
    wall = Wall()
    with caplog.at_level(logging.INFO, logger="slidejoin"):
        join = timed(wall)
        join.push(left=rows(1), right=rows(1))
        wall.now += 60
        join.push(left=rows(100))
        join.push(left=rows(200))
    assert caplog.messages == ["the right side is idle: the watermark goes on without it until it has a row"]


def test_the_oracle_is_the_plain_one_while_nobody_is_idle() -> None:
    scope = TimeScope(5, 5, "ts", "ts")
    one, two = IdleOracle(("lit", True), scope, Wall()), Oracle(("lit", True), scope)
    for oracle in (one, two):
        oracle.push([{"ts": 4}, {"ts": 9}], [{"ts": 7}, {"ts": 3}])
    assert one.watermark() == two.watermark() == 7
    assert one.late_rows == two.late_rows == 1
