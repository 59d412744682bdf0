"""Windows, counted in rows or in event time: they decide which pairs are in scope.

A window here is only a description, checked when it is created. It is applied in `operator/ingest/arrival.py` (late
rows), `operator/window/` (expiry) and `plan/window_term.py` (the scope of a time window is one more range term).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from slidejoin.arguments import column_name, shown, whole_number
from slidejoin.errors import ArgumentError, ArgumentTypeError, StateError, nearest
from slidejoin.stored import StoredValue

if TYPE_CHECKING:
    from slidejoin.sides import Side

__all__ = [
    "EVERYTHING",
    "CountWindow",
    "Span",
    "TableWindow",
    "TimeWindow",
    "Window",
    "length_of",
    "window_from_json",
]

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
LONG = 10_000
"""From here on digits are shown in groups."""

LARGEST = (1 << 62) - 1
"""Rows of a window: ordinals are 64-bit integers, and two of them must add up."""

LONGEST = (1 << 61) - 1
"""A lateness, in ticks, by which no row is late."""

EVERYTHING = 1 << 62
"""More rows than any window of time can hold."""

LONGEST_LENGTH = 1 << 200
"""Of a stored window: longer ones mean the same long before."""

PART = re.compile(r"\s*(\d+)\s*([a-zA-Zµ]+)\s*(?:,|and\b)?")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A length of time in nanoseconds, read from a timedelta or from text such as ``"10 minutes"``."""

    nanoseconds: int

    def ticks(self, scale: int) -> int:
        """Whole ticks of ``10**-scale`` seconds; differences of event times are whole ticks, so nothing is lost."""
        return self.nanoseconds // int(10 ** (9 - scale))

    def __str__(self) -> str:
        """Return the span as people write it, which `length_of` reads back: ``1 hour 30 minutes``."""
        if self.nanoseconds == 0:
            return "0 seconds"
        parts, rest = [], self.nanoseconds
        for name, size in reversed(NANOSECONDS.items()):
            # Weeks only where nothing is left over: ten days are no week and three days.
            if rest >= size and not (name == "week" and rest % size):
                count, rest = divmod(rest, size)
                parts.append(f"{count} {name}{'' if count == 1 else 's'}")
        return " ".join(parts)


def _digits(rows: int) -> str:
    """Return a number as Python writes it, in groups where it is long."""
    return f"{rows:_}" if rows >= LONG else str(rows)


Length: TypeAlias = int | Span
Given: TypeAlias = int | timedelta | str | Span


EXAMPLES = "'10 minutes' or '1 hour 30 minutes'"
EXPECTED = f"text such as {EXAMPLES}, a timedelta, or an integer for integer columns"
NO_FIXED_LENGTH = ("month", "mon", "quarter", "year", "y")


def length_of(given: Given, what: str) -> Length:
    """Read a length or lateness: ticks of an integer column as int, a time as timedelta or text.

    Raises
    ------
    ArgumentError
        For a negative value, text that is not a time, or anything else.
    """
    length: Length
    ticks = whole_number(given)
    if ticks is not None:
        length = ticks
    elif isinstance(given, Span):
        length = given
    elif isinstance(given, timedelta):
        microseconds = (given.days * 86_400 + given.seconds) * 1_000_000 + given.microseconds
        # A pandas Timedelta is a timedelta with nanoseconds below its microseconds.
        length = Span(microseconds * 1_000 + int(getattr(given, "nanoseconds", 0)))
    elif isinstance(given, str):
        length = _parse(given, what)
    else:
        msg = f"{what} must be {EXPECTED}; got {shown(given)}"
        raise ArgumentTypeError(msg)
    if (length.nanoseconds if isinstance(length, Span) else length) < 0:
        msg = f"{what} must not be negative, got {shown(given)}; write {EXPECTED}"
        raise ArgumentError(msg)
    return length


def _parse(text: str, what: str) -> Span:
    total, at = 0, 0
    stripped = text.rstrip()
    while at < len(stripped):
        part = PART.match(stripped, at)
        if part is None:
            break
        total += int(part[1]) * _nanoseconds(part[2], text, what)
        at = part.end()
    if at == 0 or at < len(stripped):
        msg = f"{what} must be whole numbers with units, such as {EXAMPLES}; got {shown(text)}"
        raise ArgumentError(msg)
    return Span(total)


def _nanoseconds(word: str, text: str, what: str) -> int:
    unit = SHORT.get(word.replace("µ", "u")) or word.lower().removesuffix("s")
    if unit in NANOSECONDS:
        return NANOSECONDS[unit]
    if unit in NO_FIXED_LENGTH:
        hint = f" A {unit} has no fixed length: write weeks, days or smaller units"
    else:
        hint = " Did you mean 'min', for minutes?" if word == "m" else nearest(unit, NANOSECONDS)
    msg = (
        f"{what}: unknown unit {shown(word)} in {shown(text)}; the units are {', '.join(NANOSECONDS)}, as in "
        f"{EXAMPLES}.{hint}"
    )
    raise ArgumentError(msg)


def _check_sides(kind: str, name: str, both: object, left: object, right: object) -> None:
    """Check that a window is given for both sides in one, or for each."""
    if (both is None) == (left is None and right is None) or (left is None) != (right is None):
        msg = (
            f"give {kind}({name}) or {kind}(left=…, right=…), got {name}={shown(both)}, left={shown(left)}, "
            f"right={shown(right)}"
        )
        raise ArgumentError(msg)


@dataclass(frozen=True, slots=True, init=False)
class CountWindow:
    """The last rows of each side.

    An arriving left row sees the last `right` right rows that arrived before it, an arriving right row the last `left`
    left rows.

    Parameters
    ----------
    size : int, optional
        Rows stored on both sides, at least 1.
    left, right : int, optional
        Rows stored of each side, instead of `size`.
    slide : int, default 1
        Rows leave in whole blocks of this many, once all rows of a block are outside. 1 is exact.

    Raises
    ------
    ArgumentError
        For sizes or slides below 1, or a slide larger than a size.

    Examples
    --------
    >>> CountWindow(1000)
    CountWindow(1000)
    """

    left: int
    right: int
    slide: int

    has_watermark: ClassVar[bool] = False
    expires: ClassVar[bool] = True
    """Whether rows that are looked for leave the window."""
    kind: ClassVar[str] = "counted in rows"
    departure: ClassVar[str] = "when they have left the window"

    def __init__(
        self, size: int | None = None, *, left: int | None = None, right: int | None = None, slide: int = 1
    ) -> None:
        _check_sides("CountWindow", "size", size, left, right)
        sizes = {"left": size if left is None else left, "right": size if right is None else right, "slide": slide}
        for name, value in sizes.items():
            rows = whole_number(value)
            if rows is None or not 1 <= rows <= LARGEST:
                # Who gave one size knows no left and right.
                which = "size" if size is not None and name != "slide" else name
                most = f" and at most {LARGEST:,}" if rows is not None and rows > LARGEST else ""
                msg = f"CountWindow {which} must be a whole number of rows, at least 1{most}, got {shown(value)}"
                raise (ArgumentTypeError if rows is None else ArgumentError)(msg)
            object.__setattr__(self, name, rows)
        if self.slide > min(self.left, self.right):
            sizes_text = f"{self.left} and {self.right} rows"
            msg = (
                f"CountWindow slide must not be larger than the window, got slide {self.slide} for {sizes_text}; "
                "give 1 for an exact window"
            )
            raise ArgumentError(msg)

    def __repr__(self) -> str:
        given = {"left": self.left, "right": self.right} if self.left != self.right else {"": self.left}
        if self.slide != 1:
            given["slide"] = self.slide
        shown_ = (f"{name}={_digits(rows)}" if name else _digits(rows) for name, rows in given.items())
        return f"CountWindow({', '.join(shown_)})"

    def __str__(self) -> str:
        """Return the window in words."""
        alike = self.left == self.right
        sides = f"{self.left:,} rows of each side" if alike else f"{self.left:,} left and {self.right:,} right rows"
        return f"the last {sides}" + ("" if self.slide == 1 else f", which leave in blocks of {self.slide:,}")

    def of_stream(self) -> str:
        """Return the window of one stream of many in words."""
        slide = f", in blocks of {self.slide:,}" if self.slide > 1 else ""
        return f"the last {self.right:,} row{'' if self.right == 1 else 's'}{slide}"

    def to_json(self) -> dict[str, Any]:
        """Return the window as plain JSON values, see `window_from_json`."""
        return {"kind": "count", "left": self.left, "right": self.right, "slide": self.slide}

    @property
    def alike(self) -> bool:
        """Whether both sides have the same window."""
        return self.left == self.right

    @property
    def lateness(self) -> Length:
        """0: no row is late."""
        return 0

    def without_lateness(self) -> CountWindow:
        """Return the window for rows at rest: this one, as no row is late."""
        return self

    def event_times(self, side: Side) -> tuple[str, ...]:  # noqa: ARG002 - see `TimeWindow`
        """Return no column: rows have no event times."""
        return ()

    def size(self, side: Side) -> int:
        """Rows stored of that side."""
        return self.left if side == "left" else self.right

    def sampled(self, rate: float) -> CountWindow:
        """Return the window of a sample of the rows: of as many sampled rows as the window has rows."""
        left, right = (max(round(size * rate), 1) for size in (self.left, self.right))
        return CountWindow(left=left, right=right)

    def capacity(self, side: Side) -> int | None:
        """Return how many rows of a side the window holds; None where time decides."""
        return self.size(side)

    def view(self, stored: Side) -> tuple[int, int]:
        """Return how many of the newest stored rows a probe sees, and in blocks of how many they expire."""
        return self.size(stored), self.slide

    def first(self, side: Side, arrived: int) -> int:
        """Return the first ordinal of a side that is in the window after so many of its rows."""
        outside = arrived - (self.left if side == "left" else self.right)
        return outside - outside % self.slide if outside > 0 else 0


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TableWindow(CountWindow):
    """What a stream sees of a table on its right: all rows, which stay. Its own rows leave as they arrive.

    No user gives it: it belongs to `slidejoin.TableJoin`.

    Parameters
    ----------
    rows : int
        Of the table.
    """

    expires: ClassVar[bool] = False
    departure: ClassVar[str] = "as they arrive"

    def __init__(self, rows: int) -> None:
        for name, value in (("left", 0), ("right", max(rows, 1)), ("slide", 1)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"TableWindow({self.right})"

    def __str__(self) -> str:
        """Return the window in words."""
        return f"all of a table of up to {self.right:,} rows"

    def sampled(self, rate: float) -> CountWindow:
        """Return the window of a sample of the rows."""
        return TableWindow(round(self.right * rate))


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
    ArgumentError
        For negative or unreadable lengths, or missing columns.

    Examples
    --------
    >>> TimeWindow("10 minutes", on="ts", lateness="1 minute")
    TimeWindow('10 minutes', on='ts', lateness='1 minute')
    """

    left: Length
    right: Length
    left_on: str
    right_on: str
    lateness: Length

    has_watermark: ClassVar[bool] = True
    expires: ClassVar[bool] = True
    kind: ClassVar[str] = "of time"
    departure: ClassVar[str] = "when the watermark has passed their time plus length"

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
        _check_sides("TimeWindow", "length", length, left, right)
        if (on is None) == (left_on is None and right_on is None) or (left_on is None) != (right_on is None):
            msg = (
                f"name the event-time column: on=…, or left_on=… and right_on=…; got on={shown(on)}, "
                f"left_on={shown(left_on)}, right_on={shown(right_on)}"
            )
            raise ArgumentError(msg)
        set_ = object.__setattr__
        for name, given in (("left", left), ("right", right)):
            value = length if given is None else given
            what = "TimeWindow length" if given is None else f"TimeWindow {name}"
            set_(self, name, length_of(value, what))  # type: ignore[arg-type]
        set_(self, "lateness", length_of(lateness, "TimeWindow lateness"))
        for name, column in (("left_on", left_on), ("right_on", right_on)):
            given_as, value = ("on", on) if column is None else (name, column)
            set_(self, name, column_name(f"TimeWindow {given_as}", value))

    def __repr__(self) -> str:
        def shown(length: Length) -> str:
            return repr(str(length)) if isinstance(length, Span) else repr(length)

        given = [shown(self.left)] if self.left == self.right else [f"left={shown(self.left)}"]
        if self.left != self.right:
            given.append(f"right={shown(self.right)}")
        if self.left_on == self.right_on:
            given.append(f"on={self.left_on!r}")
        else:
            given += [f"left_on={self.left_on!r}", f"right_on={self.right_on!r}"]
        if self.lateness != 0:
            given.append(f"lateness={shown(self.lateness)}")
        return f"TimeWindow({', '.join(given)})"

    def __str__(self) -> str:
        """Return the window in words."""
        alike = self.left == self.right
        lengths = f"{self.left}" if alike else f"{self.left} for left rows, {self.right} for right rows,"
        same = self.left_on == self.right_on
        columns = self.left_on if same else f"{self.left_on} (left) and {self.right_on} (right)"
        late = self.lateness.nanoseconds if isinstance(self.lateness, Span) else self.lateness
        return f"{lengths} on {columns}" + (f", lateness {self.lateness}" if late else "")

    def of_stream(self) -> str:
        """Return the window of one stream of many in words."""
        return str(self)

    def to_json(self) -> dict[str, Any]:
        """Return the window as plain JSON values, spans as ``{"ns": …}``; see `window_from_json`."""

        def plain(length: Length) -> int | dict[str, int]:
            return {"ns": length.nanoseconds} if isinstance(length, Span) else length

        return {
            "kind": "time",
            "left": plain(self.left),
            "right": plain(self.right),
            "left_on": self.left_on,
            "right_on": self.right_on,
            "lateness": plain(self.lateness),
        }

    @property
    def alike(self) -> bool:
        """Whether both sides have the same window."""
        return self.left == self.right and self.left_on == self.right_on

    def on(self, side: Side) -> str:
        """Return the event-time column of that side."""
        return self.left_on if side == "left" else self.right_on

    def without_lateness(self) -> TimeWindow:
        """Return the window for rows at rest: with a lateness by which no row is late."""
        spans = isinstance(self.left, Span) or isinstance(self.right, Span)
        return TimeWindow(
            left=self.left, right=self.right, left_on=self.left_on, right_on=self.right_on,
            lateness=Span(LONGEST) if spans else LONGEST,
        )  # fmt: skip

    def event_times(self, side: Side) -> tuple[str, ...]:
        """Return the event-time column of that side."""
        return (self.on(side),)

    def sampled(self, rate: float) -> TimeWindow:  # noqa: ARG002 - see `CountWindow`
        """Return the window of a sample of the rows: of the same time."""
        return self

    def capacity(self, side: Side) -> int | None:  # noqa: ARG002 - see `CountWindow`
        """Return None: time decides how many rows of a side the window holds."""
        return None

    def view(self, stored: Side) -> tuple[int, int]:  # noqa: ARG002 - see `CountWindow`
        """Return that a probe sees all stored rows, as far as their number goes: a term compares the times."""
        return EVERYTHING, 1

    def first(self, side: Side, arrived: int) -> int:  # noqa: ARG002 - see `CountWindow`
        """Return 0: no number of rows makes others expire."""
        return 0


Window: TypeAlias = CountWindow | TimeWindow


def window_from_json(data: object) -> Window:
    """Read what `to_json` of a window wrote.

    Raises
    ------
    StateError
        If it is no window.
    """
    stored = StoredValue(data, "the window in the state")

    def given(one: StoredValue) -> Length:
        return Span(one["ns"].whole(0, LONGEST_LENGTH)) if isinstance(one.value, dict) else one.whole(0, LONGEST_LENGTH)

    kind = stored["kind"].text()
    try:
        if kind == "count":
            left, right, slide = (stored[name].whole(1, LARGEST) for name in ("left", "right", "slide"))
            return CountWindow(left=left, right=right, slide=slide)
        if kind == "time":
            return TimeWindow(
                left=given(stored["left"]),
                right=given(stored["right"]),
                left_on=stored["left_on"].text(),
                right_on=stored["right_on"].text(),
                lateness=given(stored["lateness"]),
            )
    except ArgumentError as error:
        msg = f"the window in the state cannot be: {error}"
        raise StateError(msg) from error
    msg = f"the state has a window of unknown kind {kind!r}; expected 'count' or 'time'"
    raise StateError(msg)
