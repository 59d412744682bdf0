from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.predicate.expression.durations import format_duration, parse_duration


@given(st.timedeltas())
def test_what_is_written_reads_back(value):
    assert parse_duration(format_duration(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10 minutes", timedelta(minutes=10)),
        ("10minutes", timedelta(minutes=10)),
        ("1 Hour", timedelta(hours=1)),
        ("1 week 1 day", timedelta(days=8)),
        ("1h30m", timedelta(minutes=90)),
        ("5 ms", timedelta(milliseconds=5)),
        ("2 secs", timedelta(seconds=2)),
        (".5 s", timedelta(milliseconds=500)),
        ("-1 day +2 hours", timedelta(hours=-22)),
        ("01:30", timedelta(minutes=90)),
        ("-00:00:00.25", timedelta(milliseconds=-250)),
        ("2 01:00:00", timedelta(hours=49)),
        ("0.1 seconds", timedelta(milliseconds=100)),
    ],
)
def test_durations(text, value):
    assert parse_duration(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read the duration '': write numbers with units, such as '10 minutes'"),
        ("10", "cannot read the duration '10'"),
        ("10 minutes or so", "cannot read the duration '10 minutes or so'"),
        ("3 months", "the duration '3 months' has 'months', which has no fixed length; use weeks, days or smaller"),
        ("2 centuries", "has 'centuries', which has no fixed length"),
        ("1 hor", "unknown unit 'hor' in the duration '1 hor'; the units are weeks, days, hours"),
        ("0.5 us", "the duration '0.5 us' is finer than a microsecond; give whole microseconds"),
        ("1000000000 days", "is too long; the longest is 999999999 days"),
    ],
)
def test_what_is_no_duration(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_duration(text)
