"""Event times as whole ticks, and the scope of a pair as a range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.plan.window_term import TimeScope, saturating_add

LOW, HIGH = -(2**63), 2**63 - 1
ENDS = st.one_of(st.integers(-3, 3), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]), st.integers(LOW, HIGH))


@given(st.lists(ENDS), ENDS)
def test_saturating_add(values: list[int], amount: int) -> None:
    got = saturating_add(np.array(values, np.int64), amount)
    assert got.tolist() == [min(max(value + amount, LOW), HIGH) for value in values]


def scope(left: pa.DataType, right: pa.DataType, window: sj.TimeWindow) -> TimeScope:
    return TimeScope.bind(window, pa.schema([("ts", left)]), pa.schema([("ts", right)]))


@given(st.lists(ENDS, min_size=1), st.lists(ENDS, min_size=1), st.integers(0, HIGH), st.integers(0, HIGH))
def test_ranges_are_the_law(left: list[int], right: list[int], a: int, b: int) -> None:
    term = scope(pa.int64(), pa.int64(), sj.TimeWindow(left=a, right=b, on="ts"))
    tables = {"left": {"ts": pa.array(left, pa.int64())}, "right": {"ts": pa.array(right, pa.int64())}}
    for probe, stored in (("left", "right"), ("right", "left")):
        ranges = term.ranges(probe, tables[probe])
        keys = term.key(stored, tables[stored])
        assert keys.exact
        for i, low, high in zip(range(10**6), ranges.lo[0].tolist(), ranges.hi[0].tolist(), strict=False):
            for j, key in enumerate(keys.values.tolist()):
                at, other = (left[i], right[j]) if probe == "left" else (left[j], right[i])
                assert (low <= key <= high) == (other - at <= a and at - other <= b)


@pytest.mark.parametrize(
    ("left", "right", "scale"),
    [
        (pa.int8(), pa.uint64(), None),
        (pa.timestamp("s"), pa.timestamp("us"), 6),
        (pa.date32(), pa.date64(), 0),
        (pa.date32(), pa.timestamp("ns"), 9),
        (pa.timestamp("ms", "UTC"), pa.timestamp("s", "Europe/Berlin"), 3),
    ],
    ids=str,
)
def test_ticks_of_the_finer_unit(left: pa.DataType, right: pa.DataType, scale: int | None) -> None:
    length: Any = 5 if scale is None else "1 day"
    bound = scope(left, right, sj.TimeWindow(length, on="ts"))
    assert bound.scale == scale
    assert bound.length("left") == bound.length("right") == (5 if scale is None else 86_400 * 10**scale)
    for side, kind in (("left", left), ("right", right)):
        column = pa.array([0, None, 1]).cast(pa.int32() if kind == pa.date32() else pa.int64())
        column = column if scale is None else (pa.array([0, None, 86_400_000]) if kind == pa.date64() else column)
        ticks, valid = bound.ticks(side, {"ts": column.cast(kind)})
        unit = 1 if scale is None else 86_400 * 10**scale if "date" in str(kind) else 10 ** (scale - _scale(kind))
        assert valid is not None
        assert (ticks[[0, 2]].tolist(), valid.tolist()) == ([0, unit], [True, False, True])


def _scale(kind: Any) -> int:
    return {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]


TEXT = "a timedelta or text such as '10 minutes'"


@pytest.mark.parametrize(
    ("left", "right", "window", "text"),
    [
        ({"t": pa.int8()}, {"ts": pa.int8()}, 1, "the left side has no event-time column 'ts'; its columns are t."),
        ({"ts": pa.float64()}, {"ts": pa.int8()}, 1, "event-time column 'ts' of the left side is double; use an int"),
        ({"ts": pa.int8()}, {"ts": pa.date32()}, 1, "the event times of the two sides are not comparable: int8 and"),
        ({"ts": pa.timestamp("s")}, {"ts": pa.timestamp("s", "UTC")}, "1 s", "event times of the two sides are not"),
        ({"ts": pa.date32()}, {"ts": pa.date32()}, 1, f"so lengths and lateness are {TEXT}; got 1"),
        ({"ts": pa.int8()}, {"ts": pa.int8()}, "1 s", "so lengths and lateness are an integer; got 1 second"),
    ],
)
def test_errors(left: dict[str, Any], right: dict[str, Any], window: Any, text: str) -> None:
    with pytest.raises(sj.PredicateError) as error:
        TimeScope.bind(sj.TimeWindow(window, on="ts"), pa.schema(left), pa.schema(right))
    assert text in str(error.value)


def test_times_that_do_not_fit() -> None:
    bound = scope(pa.uint64(), pa.int64(), sj.TimeWindow(1, on="ts"))
    with pytest.raises(sj.SchemaError, match=f"event time {2**63} in column 'ts' does not fit 64 signed bits; cast it"):
        bound.ticks("left", {"ts": pa.array([1, 2**63], pa.uint64())})
    fine = scope(pa.timestamp("s"), pa.timestamp("ns"), sj.TimeWindow("1 s", on="ts"))
    last = HIGH // 10**9
    assert fine.ticks("left", {"ts": pa.array([last, -last], pa.timestamp("s"))})[0].tolist() == [
        last * 10**9,
        -last * 10**9,
    ]
    for bad in (last + 1, -last - 2):
        with pytest.raises(sj.SchemaError, match="'ts' does not fit 64 bits in the other side's finer unit; cast that"):
            fine.ticks("left", {"ts": pa.array([bad], pa.timestamp("s"))})
