"""Constants in normal form: every value that a user can write becomes one of the types of `Scalar`."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from slidejoin.arguments import is_unicode, shown
from slidejoin.errors import PredicateError
from slidejoin.predicate.expression.expr import Literal, Scalar

__all__ = ["MAX_EXPONENT", "literal", "unicode_text"]

# Doubles end at 1.8e308 and begin at 4.9e-324. Beyond, exact arithmetic would only spend memory.
MAX_EXPONENT = 400


def literal(value: object) -> Literal:
    """Return the node of a constant, in normal form.

    A finite float becomes the Decimal of its shortest text (a narrower NumPy float is widened to a double first);
    infinities and NaN stay floats. Zoned datetimes are moved to UTC. NumPy and pandas scalars become plain Python
    values, NaT becomes NULL.

    Raises
    ------
    PredicateError
        If the value has no such form: a container, months, nanoseconds that are no whole microseconds, a time of day
        with a zone, a number of more than about 400 digits.

    Examples
    --------
    >>> literal(0.1)
    Literal(value=Decimal('0.1'))
    """
    return Literal(_scalar(value))


def _scalar(value: Any) -> Scalar:  # noqa: ANN401, C901, PLR0911, PLR0912 - one line for each type there is
    match value:
        case None:
            return None
        case bool() | np.bool_():
            return bool(value)
        case np.datetime64() | np.timedelta64():
            return _numpy_time(value)
        case int() | np.integer():
            return _integer(int(value))
        case float() | np.floating():
            return _double(float(value))
        case Decimal():
            return _decimal(value)
        case str():
            return unicode_text(str(value))
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case datetime():
            return _datetime(value)
        case date():
            return date(value.year, value.month, value.day)
        case time():
            return _time(value)
        case timedelta():
            return _timedelta(value)
        case _:
            raise PredicateError(_not_a_constant(value))


def unicode_text(text: str) -> str:
    """Return the text; PredicateError if it cannot be written as UTF-8, as half of a pair of surrogates."""
    if not is_unicode(text):
        msg = f"{_shorten(ascii(text))} is not valid Unicode: it has half of a surrogate pair; decode it again"
        raise PredicateError(msg)
    return text


def _not_a_constant(value: object) -> str:
    kind = type(value).__name__
    hint = " Use .is_in([...]) for a choice of values." if isinstance(value, list | tuple | set | frozenset) else ""
    return (
        f"a value of type {kind} cannot be used in a predicate: {shown(value)}. Constants are None, bool, "
        f"int, float, Decimal, str, bytes, date, datetime, time, timedelta and NumPy scalars of these.{hint}"
    )


def _shorten(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[:length] + "…"


def _integer(value: int) -> int:
    if abs(value) >= 10**MAX_EXPONENT:
        msg = f"an integer constant has more than {MAX_EXPONENT} digits; no column can hold such a number"
        raise PredicateError(msg)
    return value


def _double(value: float) -> Scalar:
    if math.isnan(value):
        return math.nan  # the one NaN object, so that equal nodes compare equal
    return value if math.isinf(value) else Decimal(repr(value))


def _decimal(value: Decimal) -> Scalar:
    if value.is_nan():
        return math.nan
    if value.is_infinite():
        return math.copysign(math.inf, value)
    lowest = value.as_tuple().exponent
    if abs(value.adjusted()) > MAX_EXPONENT or abs(int(lowest)) > MAX_EXPONENT:
        msg = (
            f"the constant {_shorten(str(value))} is out of range: exponents go from -{MAX_EXPONENT} to "
            f"{MAX_EXPONENT}, and doubles end at 1.8e308"
        )
        raise PredicateError(msg)
    return Decimal(value)


def _datetime(value: datetime) -> datetime | None:
    if value != value:  # noqa: PLR0124 - pandas.NaT is a datetime, and unequal to itself
        return None
    if getattr(value, "nanosecond", 0):
        raise PredicateError(_too_fine(value))
    plain = datetime.combine(date(value.year, value.month, value.day), value.time()).replace(fold=0)
    offset = value.utcoffset()
    if offset is None:
        return plain
    try:
        return plain.replace(tzinfo=UTC) - offset
    except OverflowError:
        msg = f"the timestamp {value} lies outside the years 1 to 9999 in UTC"
        raise PredicateError(msg) from None


def _time(value: time) -> time:
    if value.tzinfo is not None:
        msg = f"the time of day {value} has a zone; columns of times have none: drop it with .replace(tzinfo=None)"
        raise PredicateError(msg)
    return time(value.hour, value.minute, value.second, value.microsecond)


def _timedelta(value: timedelta) -> timedelta | None:
    if value != value:  # noqa: PLR0124 - not-a-time values are unequal to themselves
        return None
    if getattr(value, "nanoseconds", 0):
        raise PredicateError(_too_fine(value))
    return timedelta(value.days, value.seconds, value.microseconds)


def _numpy_time(value: np.datetime64 | np.timedelta64) -> Scalar:
    if np.isnat(value):
        return None
    unit, _ = np.datetime_data(value.dtype)
    instant = isinstance(value, np.datetime64)
    if unit == "generic" or (unit in {"Y", "M"} and not instant):
        msg = f"{value!r} has no fixed length; use weeks, days or smaller units"
        raise PredicateError(msg)
    name = "datetime64" if instant else "timedelta64"
    coarse = value.astype(f"{name}[{'D' if instant and unit in {'Y', 'M', 'W', 'D'} else 'us'}]")
    if coarse != value:
        raise PredicateError(_too_fine(value))
    plain = coarse.item()
    if isinstance(plain, int):
        msg = f"{value!r} is out of range: timestamps go from the year 1 to 9999, durations to 999999999 days"
        raise PredicateError(msg)
    return plain  # type: ignore[no-any-return]  # date, datetime or timedelta


def _too_fine(value: object) -> str:
    return f"the constant {value} is finer than a microsecond; give whole microseconds"
