"""Durations as text, from and to `datetime.timedelta`: ``10 minutes``, ``1 day 2 hours``, ``01:30:00``."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from slidejoin.errors import nearest

__all__ = ["format_duration", "parse_duration"]

_MICROSECONDS = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_SHORT = {
    "w": "week",
    "d": "day",
    "h": "hour",
    "hr": "hour",
    "min": "minute",
    "m": "minute",
    "s": "second",
    "sec": "second",
    "ms": "millisecond",
    "msec": "millisecond",
    "us": "microsecond",
    "usec": "microsecond",
    "ns": "nanosecond",
}
_FACTORS = {**{unit: Fraction(n) for unit, n in _MICROSECONDS.items()}, "nanosecond": Fraction(1, 1000)}
_CALENDAR = frozenset({"month", "mon", "quarter", "year", "y", "yr", "decade", "century", "centurie"})
_PART = re.compile(r"\s*([+-]?)\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([^\W\d_]+)")
_CLOCK = re.compile(r"\s*([+-]?)(?:([0-9]+)\s+)?([0-9]+):([0-9]{1,2})(?::([0-9]{1,2}(?:\.[0-9]+)?))?\s*")


def parse_duration(text: str) -> timedelta:
    """Read a duration: numbers with units, added up, or ``[days ]hours:minutes[:seconds]``.

    Units are weeks to nanoseconds, in singular, plural or short; a sign belongs to its number.

    Raises
    ------
    ValueError
        If the text is no duration, has months or years (they have no fixed length), is finer than a microsecond,
        or beyond what a timedelta holds.

    Examples
    --------
    >>> parse_duration("1 day 2 hours")
    datetime.timedelta(days=1, seconds=7200)
    """
    total = _clock(text)
    if total is None:
        total = _parts(text)
    if total.denominator != 1:
        msg = f"the duration {text!r} is finer than a microsecond; give whole microseconds"
        raise ValueError(msg)
    try:
        return timedelta(microseconds=int(total))
    except OverflowError:
        msg = f"the duration {text!r} is too long; the longest is 999999999 days"
        raise ValueError(msg) from None


def format_duration(value: timedelta) -> str:
    """Return the shortest exact text of `value` in one unit, which `parse_duration` reads back.

    Examples
    --------
    >>> format_duration(timedelta(minutes=10))
    '10 minutes'
    """
    total = value // timedelta(microseconds=1)
    if total == 0:
        return "0 seconds"
    unit = next(u for u, size in _MICROSECONDS.items() if u != "week" and total % size == 0)
    count = total // _MICROSECONDS[unit]
    return f"{count} {unit}" if abs(count) == 1 else f"{count} {unit}s"


def _clock(text: str) -> Fraction | None:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    sign, days, hours, minutes, seconds = match.groups()
    total = (
        Fraction(days or 0) * _FACTORS["day"]
        + Fraction(hours) * _FACTORS["hour"]
        + Fraction(minutes) * _FACTORS["minute"]
        + Fraction(seconds or 0) * _FACTORS["second"]
    )
    return -total if sign == "-" else total


def _parts(text: str) -> Fraction:
    total, position = Fraction(0), 0
    while match := _PART.match(text, position):
        sign, number, unit = match.groups()
        total += Fraction(sign + number.rstrip(".")) * _factor(unit, text)
        position = match.end()
    if position == 0 or text[position:].strip():
        msg = (
            f"cannot read the duration {text!r}: write numbers with units, "
            "such as '10 minutes' or '1 day 2 hours', or a clock time such as '01:30:00'"
        )
        raise ValueError(msg)
    return total


def _factor(unit: str, text: str) -> Fraction:
    name = unit.lower()
    for candidate in (name, name.removesuffix("s")):
        known = _SHORT.get(candidate, candidate)
        if known in _FACTORS:
            return _FACTORS[known]
        if known in _CALENDAR:
            msg = f"the duration {text!r} has {unit!r}, which has no fixed length; use weeks, days or smaller units"
            raise ValueError(msg)
    units = ", ".join(f"{u}s" for u in _FACTORS)
    msg = (
        f"unknown unit {unit!r} in the duration {text!r}; the units are {units}, as in '10 minutes' or '1 hour 30 "
        f"minutes'.{nearest(name, _FACTORS)}"
    )
    raise ValueError(msg)
