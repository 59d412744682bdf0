"""The constants of SQL text: numbers, and texts behind a type name such as ``DATE '2013-01-31'``."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from slidejoin.errors import PredicateError
from slidejoin.predicate.expression.durations import parse_duration
from slidejoin.predicate.expression.literals import MAX_EXPONENT, literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from slidejoin.predicate.expression.expr import Literal

__all__ = ["NOT_FINITE", "TYPES", "binary", "interval", "number", "typed"]

# Texts that CAST('…' AS DOUBLE) turns into a constant; finite ones are written as numbers.
NOT_FINITE = frozenset({"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "nan"})


def number(text: str) -> Literal:
    """Return a number as written: an int if it is digits alone, an exact decimal otherwise.

    Raises
    ------
    PredicateError
        If it is no number, or beyond every type.
    """
    if text.isdecimal() and len(text) <= MAX_EXPONENT:
        return literal(int(text))
    try:
        return literal(Decimal(text))
    except InvalidOperation:
        msg = f"cannot read the number {text!r}; numbers look like 5, 0.5 or 5e-3"
        raise PredicateError(msg) from None


def binary(digits: str) -> Literal:
    """Return the bytes of ``X'digits'``; PredicateError if they are no pairs of hexadecimal digits."""
    try:
        return literal(bytes.fromhex(digits))
    except ValueError:
        msg = f"X'{digits}' is no binary constant; it takes two hexadecimal digits for each byte, as in X'00FF'"
        raise PredicateError(msg) from None


def interval(text: str, written: str) -> Literal:
    """Return a duration; `written` is the whole piece, for the error."""
    try:
        return literal(parse_duration(text))
    except ValueError as error:
        msg = f"cannot use {written}: {error}"
        raise PredicateError(msg) from None


def typed(kind: str, text: str) -> Literal:
    """Return ``kind 'text'``, with kind one of `TYPES`."""
    convert, example = TYPES[kind]
    written = f"{kind} '{text}'"
    fraction = text.partition(".")[2][:9]
    digits = fraction[: next((i for i, c in enumerate(fraction) if not c.isdecimal()), len(fraction))]
    if digits[6:].strip("0"):
        msg = f"{written} is finer than a microsecond; constants have at most six digits after the point"
        raise PredicateError(msg)
    try:
        return literal(convert(text.strip()))
    except PredicateError:
        raise
    except ValueError:
        msg = f"cannot read {written}; it is written like {example}"
        raise PredicateError(msg) from None


def _zoned(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _naive(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    if value.tzinfo is not None:
        msg = "an offset where none belongs"
        raise ValueError(msg)
    return value


_TIMESTAMP = "TIMESTAMP '2013-01-31 12:00:00'"
_INSTANT = "TIMESTAMPTZ '2013-01-31 12:00:00+00:00'"
TYPES: dict[str, tuple[Callable[[str], date | time], str]] = {
    "DATE": (date.fromisoformat, "DATE '2013-01-31'"),
    "TIME": (time.fromisoformat, "TIME '12:00:00'"),
    "TIMESTAMP": (datetime.fromisoformat, _TIMESTAMP),
    "DATETIME": (datetime.fromisoformat, _TIMESTAMP),
    "TIMESTAMPNTZ": (_naive, _TIMESTAMP),
    "TIMESTAMPTZ": (_zoned, _INSTANT),
    "TIMESTAMPLTZ": (_zoned, _INSTANT),
}
