"""Windows as descriptions: what they are read from, how they are shown, and what is refused."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.spec.window import NANOSECONDS, Span, length_of, window_from_json

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("10 minutes", 600 * SECOND),
        ("1 minute", 60 * SECOND),
        ("0 s", 0),
        ("1h30min", 5400 * SECOND),
        ("1 hour, 5 seconds", 3605 * SECOND),
        ("1 day and 1 ns", 86400 * SECOND + 1),
        ("2 WEEKS", 14 * 86400 * SECOND),
        ("  7 us ", 7000),
        ("7µs", 7000),
        ("3 ms 4 ns", 3_000_004),
        ("1 second 1 second", 2 * SECOND),
    ],
)
def test_text(text: str, nanoseconds: int) -> None:
    assert length_of(text, "x") == Span(nanoseconds)


@given(st.integers(0, 10**22))
def test_a_span_is_shown_as_text_that_reads_back(nanoseconds: int) -> None:
    assert length_of(str(Span(nanoseconds)), "x") == Span(nanoseconds)


@given(st.timedeltas(min_value=timedelta(0)))
def test_timedeltas_are_exact(given_: timedelta) -> None:
    assert length_of(given_, "x") == Span(given_ // timedelta(microseconds=1) * 1000)


def test_nanoseconds_of_pandas_are_kept() -> None:
    assert length_of(pd.Timedelta("1s 5ns"), "x") == Span(SECOND + 5)


KIND = r"must be text such as '10 minutes' or '1 hour 30 minutes', a timedelta, or an integer for integer columns"
TEXT = r"must be whole numbers with units, such as '10 minutes' or '1 hour 30 minutes'"


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        ("", f"length {TEXT}; got ''"),
        ("  ", f"length {TEXT}; got '  '"),
        ("10", f"length {TEXT}; got '10'"),
        ("minutes", f"length {TEXT}; got 'minutes'"),
        ("-1 s", f"length {TEXT}; got '-1 s'"),
        ("1.5 h", f"length {TEXT}; got '1.5 h'"),
        (
            "10 parsec",
            "length: unknown unit 'parsec' in '10 parsec'; the units are nanosecond, .*, as in '10 minutes'",
        ),
        ("10 minuets", "unknown unit 'minuets'.* Did you mean 'minute'?"),
        ("5 S", "unknown unit 'S'"),
        (1.5, f"length {KIND}; got 1.5"),
        (True, f"length {KIND}; got True"),
        (None, f"length {KIND}; got None"),
        (-1, "length must not be negative, got -1"),
        (timedelta(-1), "length must not be negative, got datetime.timedelta"),
    ],
)
def test_what_is_no_length(given_: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        length_of(given_, "length")


def test_ticks_round_down_because_times_are_whole_ticks() -> None:
    span = Span(1_999_999_999)
    assert [span.ticks(scale) for scale in (0, 3, 6, 9)] == [1, 1999, 1_999_999, 1_999_999_999]


WINDOWS: list[Any] = [
    sj.CountWindow(5),
    sj.CountWindow(left=7, right=3, slide=3),
    sj.TimeWindow(5, on="ts"),
    sj.TimeWindow("90 minutes", on="ts", lateness=timedelta(days=1)),
    sj.TimeWindow(left="1 ns", right=timedelta(weeks=2), left_on="a b", right_on='c"d'),
]


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_windows_survive_repr_json_pickle_and_copy(window: Any) -> None:
    names = {"CountWindow": sj.CountWindow, "TimeWindow": sj.TimeWindow}
    assert eval(repr(window), names) == window  # noqa: S307 - that is what a repr is for
    assert window_from_json(window.to_json()) == window
    assert pickle.loads(pickle.dumps(window)) == window
    assert copy.deepcopy(window) == window
    assert len({window, copy.copy(window)}) == 1
    with pytest.raises(AttributeError):
        window.left = 5


def test_sides() -> None:
    assert [WINDOWS[1].size(side) for side in ("left", "right")] == [7, 3]
    assert [WINDOWS[4].on(side) for side in ("left", "right")] == ["a b", 'c"d']


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, r"give CountWindow\(size\) or CountWindow\(left=…, right=…\), got size=None, left=None, right=None"),
        ({"size": 1, "left": 1, "right": 1}, r"give CountWindow\(size\)"),
        ({"right": 1}, r"give CountWindow\(size\)"),
        ({"size": 0}, "CountWindow size must be a whole number of rows, at least 1, got 0"),
        ({"left": 1, "right": "x"}, "CountWindow right must be a whole number of rows, at least 1, got 'x'"),
        ({"size": 1, "slide": 2}, "slide must not be larger than the window, got slide 2 for 1 and 1 rows"),
    ],
)
def test_bad_count_windows(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        sj.CountWindow(**arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"on": "ts"}, r"give TimeWindow\(length\) or TimeWindow\(left=…, right=…\), got length=None"),
        ({"left": 1, "on": "ts"}, r"give TimeWindow\(length\)"),
        ({"length": 1}, "name the event-time column: on=…, or left_on=… and right_on=…; got on=None"),
        ({"length": 1, "on": "a", "left_on": "b", "right_on": "c"}, "name the event-time column"),
        ({"length": 1, "left_on": "b"}, "name the event-time column"),
        ({"length": 1, "on": ""}, "TimeWindow on must be the name of a column, got ''"),
        ({"length": 1, "on": 5}, "TimeWindow on must be the name of a column, got 5"),
        ({"left": 1, "right": -1, "on": "ts"}, "TimeWindow right must not be negative, got -1"),
        ({"length": 1, "on": "ts", "lateness": "x"}, "TimeWindow lateness must be"),
    ],
)
def test_bad_time_windows(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        sj.TimeWindow(**arguments)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"kind": "round"}, "the state has a window of unknown kind 'round'; expected 'count' or 'time'"),
        (
            {"kind": "count", "left": 0, "right": 1, "slide": 1},
            "left of the window in the state should be a",
        ),
        ({"kind": "time", "left": 0}, "the window in the state lacks right"),
        ({}, "the window in the state lacks kind"),
    ],
)
def test_windows_of_a_damaged_state(data: dict[str, Any], text: str) -> None:
    with pytest.raises(sj.StateError, match=text):
        window_from_json(data)


def test_units_ascend_by_whole_factors() -> None:
    sizes = list(NANOSECONDS.values())
    assert all(big % small == 0 for small, big in pairwise(sizes))


def test_windows_of_both_kinds_answer_the_same_questions() -> None:
    """Nobody has to ask of which kind a window is: beyond its own fields each has what the other has."""
    one, two = ({name for name in dir(kind) if not name.startswith("_")} for kind in (sj.CountWindow, sj.TimeWindow))
    assert (one - two, two - one) == ({"size", "slide"}, {"on", "left_on", "right_on"})
    counted, timed = sj.CountWindow(left=4, right=8, slide=2), sj.TimeWindow(5, left_on="a", right_on="b", lateness=1)
    assert [window.event_times("left") for window in (counted, timed)] == [(), ("a",)]
    assert [window.lateness for window in (counted, timed)] == [0, 1]
    assert [window.alike for window in (counted, timed, sj.CountWindow(3), sj.TimeWindow(5, on="a"))] == [
        False, False, True, True
    ]  # fmt: skip
    assert [window.sampled(0.25) for window in (counted, timed)] == [sj.CountWindow(left=1, right=2), timed]
    assert [window.of_stream() for window in (counted, timed)] == ["the last 8 rows, in blocks of 2", str(timed)]
    assert [window.has_watermark for window in (counted, timed)] == [False, True]
