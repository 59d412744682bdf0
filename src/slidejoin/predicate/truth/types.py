"""Which Arrow types predicates support, and which of them can be compared or combined.

Everything comparable is one of three things: an exact number (an unscaled integer and a power of ten; integers,
decimals, dates, times, durations and booleans), an IEEE double, or a string of bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa
from pyarrow import types as pat

from slidejoin.errors import PredicateError

__all__ = ["Kind", "Type", "arithmetic", "check_comparable", "reach_of", "type_of"]


class Kind(Enum):
    """What a value means; the value of each member is how messages call it."""

    BOOL = "boolean"
    INT = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TIMESTAMP = "timestamp without time zone"
    INSTANT = "timestamp with time zone"
    DATE = "date"
    TIME = "time of day"
    DURATION = "duration"
    STRING = "string"
    BINARY = "binary"
    LIST = "list"
    NULL = "NULL"
    OTHER = "payload only"


NUMBERS = frozenset({Kind.INT, Kind.DECIMAL, Kind.FLOAT})
NAIVE_TIMES = frozenset({Kind.TIMESTAMP, Kind.DATE})
POINTS_IN_TIME = frozenset({Kind.TIMESTAMP, Kind.DATE, Kind.INSTANT})
BYTES = frozenset({Kind.STRING, Kind.BINARY})
EXACT = frozenset(
    {Kind.BOOL, Kind.INT, Kind.DECIMAL, Kind.TIMESTAMP, Kind.INSTANT, Kind.DATE, Kind.TIME, Kind.DURATION}
)
UNIT_SCALE = {"s": 0, "ms": 3, "us": 6, "ns": 9}
SECONDS_A_DAY = 86_400
MAX_DECIMAL_DIGITS = 38
ONE_WORD_DIGITS = 18
"""Decimals of so many digits fit into 64 bits, whatever they are."""
LISTS = (pat.is_list, pat.is_large_list, pat.is_fixed_size_list, pat.is_list_view, pat.is_large_list_view)


@dataclass(frozen=True, slots=True)
class Type:
    """Kind and scale: an exact value is ``unscaled / 10**scale``, times in seconds, dates as their midnight."""

    kind: Kind
    scale: int = 0
    element: Type | None = None
    """Of a list, the type of its elements."""
    name: str = field(default="", compare=False, repr=False)
    """Of a type that can only be payload, how Arrow calls it."""

    def __str__(self) -> str:
        """Return how error messages call this type."""
        if self.name:
            return self.name
        return self.kind.value if self.element is None else f"list of {self.element} values"

    @property
    def exact(self) -> bool:
        """Whether values are unscaled integers."""
        return self.kind in EXACT


def _is_bytes(arrow: pa.DataType) -> Kind | None:
    if pat.is_string(arrow) or pat.is_large_string(arrow) or pat.is_string_view(arrow):
        return Kind.STRING
    if (
        pat.is_binary(arrow)
        or pat.is_large_binary(arrow)
        or pat.is_binary_view(arrow)
        or pat.is_fixed_size_binary(arrow)
    ):
        return Kind.BINARY
    return None


def type_of(arrow: pa.DataType) -> Type:  # noqa: C901, PLR0911  one line for each family reads best
    """Return the meaning of an Arrow type; `Kind.OTHER` for types that can only be payload.

    Examples
    --------
    >>> type_of(pa.timestamp("us", "UTC"))
    Type(kind=<Kind.INSTANT: 'timestamp with time zone'>, scale=6, element=None)
    """
    if pat.is_dictionary(arrow) or pat.is_run_end_encoded(arrow):
        return type_of(arrow.value_type)
    if pat.is_boolean(arrow):
        return Type(Kind.BOOL)
    if pat.is_integer(arrow):
        return Type(Kind.INT)
    if pat.is_floating(arrow):
        return Type(Kind.FLOAT)
    if pat.is_decimal(arrow):
        return Type(Kind.DECIMAL, max(arrow.scale, 0)) if arrow.precision <= MAX_DECIMAL_DIGITS else _other(arrow)
    if pat.is_timestamp(arrow):
        return Type(Kind.TIMESTAMP if arrow.tz is None else Kind.INSTANT, UNIT_SCALE[arrow.unit])
    if pat.is_date(arrow):
        return Type(Kind.DATE)
    if pat.is_time(arrow):
        return Type(Kind.TIME, UNIT_SCALE[arrow.unit])
    if pat.is_duration(arrow):
        return Type(Kind.DURATION, UNIT_SCALE[arrow.unit])
    if any(is_one(arrow) for is_one in LISTS):
        element = type_of(arrow.value_type)  # type: ignore[attr-defined]  # of lists
        return _other(arrow) if element.kind is Kind.OTHER else Type(Kind.LIST, 0, element)
    kind = _is_bytes(arrow)
    return Type(kind) if kind is not None else _other(arrow)


def _other(arrow: pa.DataType) -> Type:
    return Type(Kind.OTHER, name=str(arrow))


def reach_of(arrow: pa.DataType) -> int:
    """Return the largest magnitude that an unscaled value of an exact Arrow type can have."""
    if pat.is_dictionary(arrow) or pat.is_run_end_encoded(arrow):
        return reach_of(arrow.value_type)
    if pat.is_boolean(arrow):
        return 1
    if pat.is_decimal(arrow):
        return int(10 ** (arrow.precision - min(arrow.scale, 0)))
    if pat.is_date32(arrow):
        return SECONDS_A_DAY << 31
    bits = int(arrow.bit_width)
    return (1 << bits) - 1 if pat.is_unsigned_integer(arrow) else 1 << (bits - 1)


def check_comparable(op: str, left: Type, right: Type, text: str, what: str = "a value of this type") -> None:
    """Raise unless values of the two types may stand on both sides of a comparator; `what` names one that may not.

    Raises
    ------
    PredicateError
        Saying what was compared, and what to do instead.
    """
    kinds = {left.kind, right.kind}
    if Kind.NULL in kinds and Kind.OTHER not in kinds:
        return
    if Kind.OTHER in kinds:
        raise PredicateError(
            f"cannot compare in {text}: {what} can be selected and tested with IS NULL, but not compared; compare "
            "numbers (decimals to 38 digits), times, booleans, strings, binary or lists of these"
        )
    if kinds == {Kind.LIST}:
        _check_lists(op, left, right, text)
        return
    if kinds <= NUMBERS or kinds <= NAIVE_TIMES or len(kinds) == 1:
        return
    if Kind.INSTANT in kinds and kinds <= POINTS_IN_TIME:
        raise PredicateError(
            f"cannot compare {left} with {right} in {text}: give both a time zone or neither: convert one of the "
            "columns first (pyarrow.compute.assume_timezone or local_timestamp; on Spark CAST(... AS TIMESTAMP))"
        )
    raise PredicateError(
        f"cannot compare {left} with {right} in {text}: both sides must be of one kind "
        "(numbers, times, booleans, strings or binary); convert one of the columns first"
    )


def _check_lists(op: str, left: Type, right: Type, text: str) -> None:
    if op in {"<", "<=", ">", ">="}:
        raise PredicateError(f"cannot order lists with {op} in {text}: they can be compared with = and <> only")
    one, two = left.element or Type(Kind.NULL), right.element or Type(Kind.NULL)
    if {one.kind, two.kind} <= NUMBERS and (one.kind is Kind.FLOAT) != (two.kind is Kind.FLOAT):
        raise PredicateError(
            f"cannot compare a {left} with a {right} in {text}: give both elements of one type, in the stream before"
        )
    check_comparable(op, one, two, text, f"a {left if one.kind is Kind.OTHER else right}")


def arithmetic(op: str, left: Type, right: Type, text: str) -> Type:
    """Return the type of ``left op right``.

    Raises
    ------
    PredicateError
        If there is no such operation.
    """
    kinds = {left.kind, right.kind}
    if Kind.NULL in kinds and kinds - {Kind.NULL} <= NUMBERS | POINTS_IN_TIME | {Kind.DURATION}:
        return Type(Kind.NULL)
    if kinds <= NUMBERS:
        return _number(op, left, right, text)
    kind = _time(op, left, right)
    if kind is not None:
        return Type(kind, left.scale + right.scale if op == "*" else max(left.scale, right.scale))
    if Kind.INSTANT in kinds and kinds <= POINTS_IN_TIME:
        hint = "give both a time zone or neither"
    elif kinds & POINTS_IN_TIME and kinds & NUMBERS:
        hint = "add a duration instead of a number, for example INTERVAL '5' MINUTE or a timedelta"
    else:
        hint = (
            "arithmetic is for numbers (+ - * / %, and // on integers), timestamp - timestamp, "
            "timestamp + duration, duration + duration and duration * integer"
        )
    raise PredicateError(f"there is no {left} {op} {right} in {text}: {hint}")


def _number(op: str, left: Type, right: Type, text: str) -> Type:
    kinds = {left.kind, right.kind}
    if op == "//":
        if kinds == {Kind.INT}:
            return Type(Kind.INT)
        raise PredicateError(
            f"there is no {left} // {right} in {text}: // takes integers only, since engines differ on others. "
            "Write floor(x / y), or x / y"
        )
    if op == "/" or Kind.FLOAT in kinds:
        return Type(Kind.FLOAT)
    scale = left.scale + right.scale if op == "*" else max(left.scale, right.scale)
    return Type(Kind.DECIMAL if Kind.DECIMAL in kinds else Kind.INT, scale)


def _time(op: str, left: Type, right: Type) -> Kind | None:
    """Kind of an operation with times in it, None if there is none."""
    one, two = left.kind, right.kind
    if op == "*" and {one, two} == {Kind.DURATION, Kind.INT}:
        return Kind.DURATION
    if op not in {"+", "-"}:
        return None
    if two is Kind.DURATION and (one in POINTS_IN_TIME or one is Kind.DURATION):
        return Kind.TIMESTAMP if one is Kind.DATE else one
    if op == "+" and one is Kind.DURATION and two in POINTS_IN_TIME:
        return Kind.TIMESTAMP if two is Kind.DATE else two
    same_clock = {one, two} <= NAIVE_TIMES or {one, two} == {Kind.INSTANT}
    return Kind.DURATION if op == "-" and same_clock else None
