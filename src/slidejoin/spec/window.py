"""Which pairs are in scope: windows counted in rows or in event time.

A window here is only a description, checked when it is made. What it means for rows is in `arrival.py` (late rows),
`store/` (expiry) and `plan.py` (the scope of a time window is one more range term).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from slidejoin.errors import StateError, nearest

if TYPE_CHECKING:
    from slidejoin.sides import Side

__all__ = ["CountWindow", "Span", "TimeWindow", "Window", "window_from_json", "window_to_json"]

NANOSECONDS = {
    "nanosecond": 1,
    "microsecond": 1_000,
    "millisecond": 1_000_000,
    "second": 1_000_000_000,
    "minute": 60_000_000_000,
    "hour": 3_600_000_000_000,
    "day": 86_400_000_000_000,
    "week": 604_800_000_000_000,
}
SHORT = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second", "sec": "second"}
SHORT |= {"min": "minute", "h": "hour", "d": "day", "w": "week"}
PART = re.compile(r"\s*(\d+)\s*([a-zA-Zµ]+)\s*(?:,|and\b)?")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A length of time in nanoseconds, read from a timedelta or from text such as ``"10 minutes"``."""

    nanoseconds: int

    def ticks(self, scale: int) -> int:
        """Whole ticks of ``10**-scale`` seconds; differences of event times are whole ticks, so nothing is lost."""
        return self.nanoseconds // int(10 ** (9 - scale))

    def __str__(self) -> str:
        """Return the span in the largest unit that divides it, as text that `length_of` reads back."""
        for name, size in reversed(NANOSECONDS.items()):
            if self.nanoseconds % size == 0:
                count = self.nanoseconds // size
                return f"{count} {name}{'' if count == 1 else 's'}"
        raise AssertionError  # every integer is a multiple of one nanosecond


Length: TypeAlias = int | Span
Given: TypeAlias = int | timedelta | str | Span


def length_of(given: Given, what: str) -> Length:
    """Read a length or lateness: ticks of an integer column as int, a time as timedelta or text.

    Raises
    ------
    ValueError
        For a negative value, text that is not a time, or anything else.
    """
    expected = "an integer (for integer columns), a timedelta or text such as '10 minutes'"
    if isinstance(given, bool) or not isinstance(given, (int, timedelta, str, Span)):
        msg = f"{what} must be {expected}, got {given!r}"
        raise ValueError(msg)  # noqa: TRY004 - the contract names ValueError for every wrong window
    length: Length
    if isinstance(given, timedelta):
        microseconds = (given.days * 86_400 + given.seconds) * 1_000_000 + given.microseconds
        # A pandas Timedelta is a timedelta with nanoseconds below its microseconds.
        length = Span(microseconds * 1_000 + int(getattr(given, "nanoseconds", 0)))
    elif isinstance(given, str):
        length = _parse(given, what, expected)
    else:
        length = given
    if (length.nanoseconds if isinstance(length, Span) else length) < 0:
        msg = f"{what} must not be negative, got {given!r}"
        raise ValueError(msg)
    return length


def _parse(text: str, what: str, expected: str) -> Span:
    total, at = 0, 0
    stripped = text.rstrip()
    while at < len(stripped):
        part = PART.match(stripped, at)
        if part is None:
            msg = f"{what} must be {expected}, got {text!r}"
            raise ValueError(msg)
        word = part[2].replace("µ", "u")
        unit = SHORT.get(word) or word.lower().removesuffix("s")
        if unit not in NANOSECONDS:
            msg = f"{what}: unknown unit {part[2]!r} in {text!r}; use one of {', '.join(NANOSECONDS)}."
            raise ValueError(msg + nearest(unit, NANOSECONDS))
        total += int(part[1]) * NANOSECONDS[unit]
        at = part.end()
    if at == 0:
        msg = f"{what} must be {expected}, got {text!r}"
        raise ValueError(msg)
    return Span(total)


@dataclass(frozen=True, slots=True, init=False)
class CountWindow:
    """The last rows of each side.

    An arriving left row sees the last `right` right rows that arrived before it, an arriving right row the last `left`
    left rows.

    Parameters
    ----------
    size : int, optional
        Rows kept on both sides, at least 1.
    left, right : int, optional
        Rows kept of each side, instead of `size`.
    slide : int, default 1
        Rows leave in whole blocks of this many, once all rows of a block are outside. 1 is exact.

    Raises
    ------
    ValueError
        For sizes or slides below 1, or a slide larger than a size.

    Examples
    --------
    >>> CountWindow(1000)
    CountWindow(left=1000, right=1000, slide=1)
    """

    left: int
    right: int
    slide: int

    def __init__(
        self, size: int | None = None, *, left: int | None = None, right: int | None = None, slide: int = 1
    ) -> None:
        if (size is None) == (left is None and right is None) or (left is None) != (right is None):
            msg = f"give CountWindow(size) or CountWindow(left=…, right=…), got {size=}, {left=}, {right=}"
            raise ValueError(msg)
        sizes = {"left": size if left is None else left, "right": size if right is None else right, "slide": slide}
        for name, value in sizes.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                msg = f"CountWindow {name} must be a whole number of rows, at least 1, got {value!r}"
                raise ValueError(msg)
            object.__setattr__(self, name, value)
        if slide > min(self.left, self.right):
            sizes_text = f"{self.left} and {self.right} rows"
            msg = f"CountWindow slide must not be larger than the window, got slide {slide} for {sizes_text}"
            raise ValueError(msg)

    def __repr__(self) -> str:
        return f"CountWindow(left={self.left}, right={self.right}, slide={self.slide})"

    def size(self, side: Side) -> int:
        """Rows kept of that side."""
        return self.left if side == "left" else self.right


@dataclass(frozen=True, slots=True, init=False)
class TimeWindow:
    """Pairs whose event times are near: ``r - l <= left`` and ``l - r <= right``, both ends included.

    Parameters
    ----------
    length : int, timedelta or str, optional
        How long rows of both sides stay: an integer for integer columns, a timedelta or text such as ``"10 minutes"``
        for timestamps and dates. Text is whole numbers with units from nanoseconds to weeks: ``"1 hour 30 minutes"``,
        ``"500 ms"``; a minute is ``min``, not ``m``.
    left, right : int, timedelta or str, optional
        How long rows of each side stay, instead of `length`.
    on, left_on, right_on : str, optional
        The event-time column of both sides, or of each.
    lateness : int, timedelta or str, default 0
        How far event times may lie behind the largest seen on their side.

    Raises
    ------
    ValueError
        For negative or unreadable lengths, or missing columns.

    Examples
    --------
    >>> TimeWindow("10 minutes", on="ts", lateness="1 minute")
    TimeWindow(left='10 minutes', right='10 minutes', left_on='ts', right_on='ts', lateness='1 minute')
    """

    left: Length
    right: Length
    left_on: str
    right_on: str
    lateness: Length

    def __init__(
        self,
        length: Given | None = None,
        *,
        on: str | None = None,
        left: Given | None = None,
        right: Given | None = None,
        left_on: str | None = None,
        right_on: str | None = None,
        lateness: Given = 0,
    ) -> None:
        if (length is None) == (left is None and right is None) or (left is None) != (right is None):
            msg = f"give TimeWindow(length) or TimeWindow(left=…, right=…), got {length=}, {left=}, {right=}"
            raise ValueError(msg)
        if (on is None) == (left_on is None and right_on is None) or (left_on is None) != (right_on is None):
            msg = f"name the event-time column: on=…, or left_on=… and right_on=…; got {on=}, {left_on=}, {right_on=}"
            raise ValueError(msg)
        set_ = object.__setattr__
        for name, given in (("left", left), ("right", right)):
            value = length if given is None else given
            what = "TimeWindow length" if given is None else f"TimeWindow {name}"
            set_(self, name, length_of(value, what))  # type: ignore[arg-type]
        set_(self, "lateness", length_of(lateness, "TimeWindow lateness"))
        for name, column in (("left_on", left_on or on), ("right_on", right_on or on)):
            if not isinstance(column, str) or not column:
                msg = f"TimeWindow {name} must be the name of a column, got {column!r}"
                raise ValueError(msg)
            set_(self, name, column)

    def __repr__(self) -> str:
        def shown(length: Length) -> str:
            return repr(str(length)) if isinstance(length, Span) else repr(length)

        return (
            f"TimeWindow(left={shown(self.left)}, right={shown(self.right)}, left_on={self.left_on!r}, "
            f"right_on={self.right_on!r}, lateness={shown(self.lateness)})"
        )

    def on(self, side: Side) -> str:
        """Return the event-time column of that side."""
        return self.left_on if side == "left" else self.right_on


Window: TypeAlias = CountWindow | TimeWindow


def window_to_json(window: Window) -> dict[str, Any]:
    """Return the window as plain JSON values; spans as ``{"ns": …}``."""
    if isinstance(window, CountWindow):
        return {"kind": "count", "left": window.left, "right": window.right, "slide": window.slide}

    def plain(length: Length) -> int | dict[str, int]:
        return {"ns": length.nanoseconds} if isinstance(length, Span) else length

    return {
        "kind": "time",
        "left": plain(window.left),
        "right": plain(window.right),
        "left_on": window.left_on,
        "right_on": window.right_on,
        "lateness": plain(window.lateness),
    }


def window_from_json(data: dict[str, Any]) -> Window:
    """Read what `window_to_json` wrote."""

    def given(value: int | dict[str, int]) -> Length:
        return Span(value["ns"]) if isinstance(value, dict) else value

    try:
        if data["kind"] == "count":
            return CountWindow(left=data["left"], right=data["right"], slide=data["slide"])
        if data["kind"] == "time":
            return TimeWindow(
                left=given(data["left"]),
                right=given(data["right"]),
                left_on=data["left_on"],
                right_on=data["right_on"],
                lateness=given(data["lateness"]),
            )
    except (KeyError, TypeError, ValueError) as error:
        msg = f"the window in the state cannot be read: {data!r}"
        raise StateError(msg) from error
    msg = f"the state has a window of unknown kind {data['kind']!r}; expected 'count' or 'time'"
    raise StateError(msg)
