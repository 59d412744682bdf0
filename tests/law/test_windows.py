"""Which pairs are in scope: windows by example, with their time lines, and by property on longer streams."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from tests.law.checks import assert_counts, assert_pairs, examples
from tests.strategies import TIME_FAMILIES as TIMES
from tests.strategies import Case, Push, WindowCase, array, count_windows, cuts, pushes, time_windows
from tests.tables import ids

ANY = "l.id >= 0 OR r.id >= 0"


def joined(
    window: sj.CountWindow | sj.TimeWindow, *given_: dict[str, Any], on: str = ANY
) -> list[list[tuple[int, int]]]:
    """The pairs (left id, right id) of each push; a push is {"left": times, "right": times}, ids are 0, 1, 2, …"""
    seen = {"left": 0, "right": 0}
    join, found = None, []
    for push in given_:
        batches = {}
        for side in ("left", "right"):
            if side not in push:
                continue
            column = push[side] if isinstance(push[side], pa.Array) else pa.array(push[side], pa.int64())
            start = seen[side]
            seen[side] += len(column)
            batches[side] = pa.table({"id": range(start, seen[side]), "ts": column})
        if join is None:
            schema = next(iter(batches.values())).schema
            join = sj.StreamJoin(on=on, window=window, order="strict", schemas=(schema, schema))
        found.append(ids(join.push(**batches)))
    return found


# left   0 1 2 3 4            right 0 sees the last two: 3 and 4
# right            0
def test_count_window_is_what_arrived_last() -> None:
    assert joined(sj.CountWindow(2), {"left": [0] * 5}, {"right": [0]})[1] == [(3, 0), (4, 0)]


# left   0         1          left 0 sees nothing; right 0..2 see left 0; left 1 sees the last two right rows: 1 and 2
# right    0 1 2      3       right 3 sees left 1 only (window of one left row)
def test_sizes_per_side() -> None:
    window = sj.CountWindow(left=1, right=2)
    assert joined(window, {"left": [0]}, {"right": [0] * 3}, {"left": [0]}, {"right": [0]}) == [
        [],
        [(0, 0), (0, 1), (0, 2)],
        [(1, 1), (1, 2)],
        [(1, 3)],
    ]


# window 3, slide 2: blocks are (0 1)(2 3)(4 5)
#
# left   0 1 2 3   4   5      right 0: the last three are 1 2 3, but 0 leaves with 1, so it stays
# right          0   1   2    right 1: the last three are 2 3 4, block (0 1) is gone; right 2: block (2 3) waits for 3
def test_rows_leave_in_whole_blocks() -> None:
    window = sj.CountWindow(3, slide=2)
    found = joined(
        window, {"left": [0] * 4}, {"right": [0]}, {"left": [0]}, {"right": [0]}, {"left": [0]}, {"right": [0]}
    )
    assert found[1] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert found[3] == [(2, 1), (3, 1), (4, 1)]
    assert found[5] == [(2, 2), (3, 2), (4, 2), (5, 2)]


# one push of more rows than the window: each row sees the rows before it, not the end of the batch
#
# left   0   1   2   3        order: l0 r0 l1 r1 l2 r2 l3 r3
# right    0   1   2   3
def test_a_push_larger_than_the_window() -> None:
    times = [0, 2, 4, 6]
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
    join = sj.StreamJoin(on=ANY, window=sj.CountWindow(1), order="strict", schemas=(schema, schema))
    left = pa.table({"id": range(4), "ts": times}, schema)
    right = pa.table({"id": range(4), "ts": [t + 1 for t in times]}, schema)
    assert ids(join.push(left=left, right=right, order_by="ts")) == [
        (0, 0),
        (1, 0),
        (1, 1),
        (2, 1),
        (2, 2),
        (3, 2),
        (3, 3),
    ]


# ties of order_by: left first
def test_ties_of_order_by_put_left_first() -> None:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
    join = sj.StreamJoin(on=ANY, window=sj.CountWindow(9), output="count", schemas=(schema, schema))
    rows = pa.table({"id": [0, 1], "ts": [5, 5]}, schema)
    counted = join.push(left=rows, right=rows, order_by="ts")
    assert counted.column("side").to_pylist() == ["left", "left", "right", "right"]
    assert counted.column("match_count").to_pylist() == [0, 0, 2, 2]


# left rows stay 2, right rows stay 1
#
# time    0   1   2   3   4
# left        0                  r - l <= 2: up to time 3
# right   0   1   2   3   4      l - r <= 1: from time 0
@pytest.mark.parametrize("right_first", [False, True])
def test_both_ends_of_a_time_window_are_in(right_first: bool) -> None:
    window = sj.TimeWindow(left=2, right=1, left_on="ts", right_on="ts", lateness=100)
    rights, lefts = {"right": [-1, 0, 1, 2, 3, 4]}, {"left": [1]}
    given_ = (rights, lefts) if right_first else (lefts, rights)
    assert joined(window, *given_)[1] == [(0, 1), (0, 2), (0, 3), (0, 4)]


def test_length_zero_is_the_same_instant() -> None:
    assert joined(sj.TimeWindow(0, on="ts"), {"left": [1, 2, 2]}, {"right": [2, 3]})[1] == [(1, 0), (2, 0)]


# lateness 1; the watermark is min(largest left, largest right) - 1
#
# left   5        4   3       watermark 4 after right 9: left 4 is in time, left 3 is late
# right      9           3    right 3 is late as well
def test_late_rows_are_not_tried() -> None:
    window = sj.TimeWindow(100, on="ts", lateness=1)
    assert joined(window, {"left": [5]}, {"right": [9]}, {"left": [4, 3]}, {"right": [3]}, {"right": [8]}) == [
        [],
        [(0, 0)],
        [(1, 0)],
        [],
        [(0, 2), (1, 2)],
    ]


# an early row is late at once when its own push raised the watermark before it
def test_lateness_is_decided_row_by_row() -> None:
    assert joined(sj.TimeWindow(9, on="ts"), {"left": [5, 5]}, {"right": [5, 4, 5]})[1] == [
        (0, 0),
        (1, 0),
        (0, 2),
        (1, 2),
    ]


# one idle side: no watermark, nothing is late, nothing expires
def test_an_idle_side_holds_the_watermark() -> None:
    found = joined(sj.TimeWindow(1, on="ts"), {"left": [0, 100, 3, 50]}, {"right": [3]})
    assert found[1] == [(2, 0)]


# the same with rows enough to be sealed apart from the later one
def test_an_idle_side_keeps_whole_sub_windows() -> None:
    found = joined(sj.TimeWindow(1, on="ts"), {"left": [3] * 8}, {"left": [100]}, {"left": [200]}, {"right": [3]})
    assert found[3] == [(i, 0) for i in range(8)]


# a sub-window stays as long as its last row may be needed: left 10 meets right 15, watermark 15, and not right 16
#
# left   10 x 8            15
# right             15           15   16
def test_a_sub_window_stays_until_its_end() -> None:
    window = sj.TimeWindow(left=5, right=0, left_on="ts", right_on="ts")
    found = joined(
        window, {"left": [10] * 8}, {"right": [15]}, {"left": [15]}, {"right": [15]}, {"left": [16]}, {"right": [16]}
    )
    assert found[3] == [(i, 1) for i in range(9)]
    assert found[5] == [(8, 2), (9, 2)]


# a row may be far before the newest and still meet its partners, as long as it is not late
def test_out_of_order_rows_meet_within_lateness() -> None:
    window = sj.TimeWindow(1, on="ts", lateness=50)
    assert joined(window, {"left": [0, 40]}, {"right": [40]}, {"right": [0]}, {"left": [1]})[2:] == [[(0, 1)], [(2, 1)]]


def test_null_times_are_not_taken() -> None:
    assert joined(sj.TimeWindow(9, on="ts"), {"left": [None, 1]}, {"right": [1, None]})[1] == [(1, 0)]


def test_times_before_1970() -> None:
    stamps = pa.array([datetime(1960, 1, 1), datetime(1960, 1, 1, 0, 10)])
    assert joined(sj.TimeWindow("10 minutes", on="ts"), {"left": stamps}, {"right": stamps})[1] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
    ]
    assert joined(sj.TimeWindow("9 minutes", on="ts"), {"left": stamps}, {"right": stamps})[1] == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    "length",
    ["10 minutes", "600 seconds", "10 min", "600000 ms", timedelta(minutes=10)],
    ids=str,
)
def test_lengths_of_time(length: str | timedelta) -> None:
    lefts = pa.array([datetime(2013, 1, 1)])
    rights = pa.array([datetime(2013, 1, 1, 0, 10), datetime(2013, 1, 1, 0, 10, 0, 1)])
    assert joined(sj.TimeWindow(length, on="ts"), {"left": lefts}, {"right": rights})[1] == [(0, 0)]


def test_dates_and_units_mix_exactly() -> None:
    days = pa.table({"id": [0, 1], "day": pa.array([date(1970, 1, 1), date(1970, 1, 2)])})
    stamps = pa.table({"id": [0, 1, 2], "at": pa.array([86_400 * 10**9 - 1, 86_400 * 10**9, 1], pa.timestamp("ns"))})
    join = sj.StreamJoin(
        on=ANY,
        window=sj.TimeWindow(left=timedelta(0), right="1 day", left_on="day", right_on="at", lateness="3 days"),
        order="strict",
        schemas=(days.schema, stamps.schema),
    )
    # day 1 minus stamp 0 is one nanosecond, day 1 minus stamp 2 is one nanosecond short of a day
    assert ids(join.push(left=days, right=stamps)) == [(1, 0), (1, 1), (1, 2)]


LOW, HIGH = -(2**63), 2**63 - 1


def test_event_times_at_the_ends_of_int64() -> None:
    assert joined(sj.TimeWindow(1, on="ts"), {"left": [LOW, LOW]}, {"right": [LOW, LOW + 1]})[1] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
    ]
    assert joined(sj.TimeWindow(1, on="ts"), {"left": [HIGH]}, {"right": [HIGH - 2, HIGH - 1, HIGH]})[1] == [
        (0, 1),
        (0, 2),
    ]
    assert joined(sj.TimeWindow(HIGH, on="ts"), {"left": [LOW]}, {"right": [-2, -1, 0]})[1] == [(0, 0), (0, 1)]


@pytest.mark.parametrize("length", [2**64 - 1, 2**64, 10**30])
def test_lengths_beyond_64_bits(length: int) -> None:
    window = sj.TimeWindow(length, on="ts", lateness=length)
    assert joined(window, {"left": [HIGH]}, {"right": [HIGH, LOW]}, {"left": [LOW]})[1:] == [
        [(0, 0), (0, 1)],
        [(1, 0), (1, 1)],
    ]


TRUE = ("=", ("lit", 1), ("lit", 1))
SAME = ("=", ("col", "left", "k"), ("col", "right", "k"))


@st.composite
def scoped(draw: st.DrawFn, window: WindowCase, family: str) -> Case:
    """A longer stream whose predicate is simple, so that the window decides."""
    rows = draw(st.integers(1, 60))
    made = {}
    for side in ("left", "right"):
        kind = draw(st.sampled_from(list(TIMES[family])))
        times = draw(st.lists(st.sampled_from([*TIMES[family][kind] * 4, None]), min_size=rows, max_size=rows))
        keys = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
        made[side] = pa.table(
            {
                "id": range(rows),
                "a": keys,
                "b": keys,
                "k": keys,
                "ts": array(times, kind),
                "o": pa.array(keys, pa.int16()),
            }
        )
    predicate = draw(st.sampled_from([TRUE, SAME, ("<", ("col", "left", "k"), ("col", "right", "k"))]))
    case = Case(predicate, window, made["left"], made["right"])
    case.pushes = draw(pushes(made["left"], made["right"], most=8))
    return case


@examples(40)
@given(data=st.data())
def test_count_windows_against_the_oracle(data: st.DataObject) -> None:
    assert_pairs(data.draw(scoped(data.draw(count_windows(25)), "int")), "strict")


@pytest.mark.parametrize("family", TIMES)
@examples(30)
@given(data=st.data())
def test_time_windows_against_the_oracle(family: str, data: st.DataObject) -> None:
    case = data.draw(scoped(data.draw(time_windows(family)), family))
    assert_pairs(case, "strict")
    assert_counts(case)


@examples(10)
@given(data=st.data())
def test_many_small_pushes(data: st.DataObject) -> None:
    """Sub-windows are sealed, merged and dropped on the way: a few hundred pushes of a few rows."""
    chosen = data.draw(st.randoms(use_true_random=False))
    rows = 400
    table = pa.table(
        {
            "id": range(rows),
            "a": [chosen.randrange(12) for _ in range(rows)],
            "b": [chosen.randrange(12) for _ in range(rows)],
            "ts": [i // 4 + chosen.randrange(-2, 3) for i in range(rows)],
            "o": pa.array([0] * rows, pa.int16()),
        }
    )
    window = data.draw(st.one_of(count_windows(60), time_windows("int")))
    near = ("<=", ("abs", ("-", ("col", "left", "a"), ("col", "right", "b"))), ("lit", 1))
    case = Case(near, window, table, table.slice(0, rows - 7))
    at = {"left": data.draw(cuts(rows, 120)), "right": data.draw(cuts(rows - 7, 120))}
    for i in range(120):
        pieces = [
            side.slice(at[name][i], at[name][i + 1] - at[name][i])
            for name, side in (("left", case.left), ("right", case.right))
        ]
        case.pushes.append(Push(*pieces, data.draw(st.sampled_from([None, "ts"]))))
    assert_pairs(case, "strict")
