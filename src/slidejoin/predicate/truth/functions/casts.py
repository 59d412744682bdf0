"""CAST to any type. What cannot be cast becomes NULL: a stream does not stop for one row."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import PredicateError
from slidejoin.predicate.truth import exact, floats
from slidejoin.predicate.truth.functions.common import Typed, exact_values, of_text, text_of
from slidejoin.predicate.truth.functions.numbers import half_away, rounded_quotient
from slidejoin.predicate.truth.tree import BOOLEAN, Node
from slidejoin.predicate.truth.types import NAIVE_TIMES, NUMBERS, SECONDS_A_DAY, UNIT_SCALE, Kind, Type
from slidejoin.predicate.truth.values import Values, both_valid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["check_cast", "compute_cast", "to_varchar"]

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TARGETS: dict[str, Type] = {
    "BOOLEAN": BOOLEAN,
    "FLOAT": Type(Kind.FLOAT),
    "DOUBLE": Type(Kind.FLOAT),
    "VARCHAR": Type(Kind.STRING),
    "DATE": Type(Kind.DATE),
    "TIMESTAMP": Type(Kind.TIMESTAMP, 6),
    **{name: Type(Kind.INT) for name in _BITS},
}
_WRITTEN = frozenset({Kind.STRING, Kind.BOOL, Kind.INT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})
_SOURCES = {
    Kind.BOOL: NUMBERS | {Kind.BOOL, Kind.STRING},
    Kind.INT: NUMBERS | {Kind.BOOL, Kind.STRING},
    Kind.FLOAT: NUMBERS | {Kind.BOOL, Kind.STRING},
    Kind.DECIMAL: NUMBERS | {Kind.BOOL, Kind.STRING},
    Kind.STRING: _WRITTEN,
    Kind.DATE: NAIVE_TIMES | {Kind.STRING},
    Kind.TIMESTAMP: NAIVE_TIMES | {Kind.STRING},
}
_DECIMAL = re.compile(r"DECIMAL\((\d+), (\d+)\)")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_TIME = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?", re.ASCII)
"""Times without an offset: engines differ on whether they heed it."""
_NOT_FINITE = {"inf", "infinity", "nan"}
_YES, _NO = frozenset({"true", "t", "yes", "y", "1"}), frozenset({"false", "f", "no", "n", "0"})
_PLAIN: dict[Kind, tuple[str, pa.DataType]] = {
    Kind.INT: (r"\A-?\d{1,18}\z", pa.int64()),
    Kind.FLOAT: (r"\A-?\d{1,17}(\.\d{1,17})?\z", pa.float64()),
    Kind.DATE: (r"\A[1-9]\d{3}-\d{2}-\d{2}\z", pa.date32()),
    Kind.TIMESTAMP: (r"\A[1-9]\d{3}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}\z", pa.timestamp("s")),
}
"""Texts that Arrow reads as we do, 20 times as fast as one by one."""
_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_DAY, _DAY_10_000 = 1 - _EPOCH, date.max.toordinal() + 1 - _EPOCH
_MOST_DIGITS = 4000
_SINGLE_END = 2.0**128
_MOST_PLACES = 60
"""A number of more places before the point than this fits no type."""


def check_cast(arg: Node, target: str, text: str) -> Typed:
    """Return the types of ``CAST(arg AS target)``.

    Raises
    ------
    PredicateError
        If there is no such cast.
    """
    match = _DECIMAL.fullmatch(target)
    to = Type(Kind.DECIMAL, int(match[2])) if match else _TARGETS[target]
    if arg.type.kind not in _SOURCES[to.kind] and not arg.is_null:
        hint = ""
        if to.kind is Kind.STRING and arg.type.kind is Kind.FLOAT:
            hint = ": engines write floats differently, so their texts do not compare; cast to DECIMAL first"
        elif arg.type.kind is Kind.INSTANT:
            hint = ": its date depends on a time zone; convert it in the stream before the join"
        raise PredicateError(f"cannot cast {arg.text} of type {arg.type} to {target} in {text}{hint}")
    reach = _limit(target) + 1 if to.kind is Kind.INT else 10 ** int(match[1]) if match else 0
    if to.kind in NAIVE_TIMES:
        factor = 10**to.scale
        reach = max(arg.reach * factor // 10**arg.type.scale, 10_000 * 366 * SECONDS_A_DAY * factor) + SECONDS_A_DAY
    return Typed(to, (arg,), reach)


def _limit(target: str) -> int:
    return (1 << (_BITS[target] - 1)) - 1


def compute_cast(node: Node, values: Sequence[Values]) -> Values:  # noqa: PLR0911 - one case for each type
    """Return the values of a cast; the node's value is its target."""
    (arg,), (one,), target = node.args, values, str(node.value)
    if arg.is_null:
        return one
    if arg.type.kind is Kind.STRING and node.type.kind is not Kind.STRING:
        return _from_text(one, target, node.type)
    match node.type.kind:
        case Kind.BOOL:
            return Values((one.data != 0).astype(np.bool_), one.valid)
        case Kind.INT:
            low, high = -_limit(target) - 1, _limit(target)
            return _to_integer(one, arg.type, low, high)
        case Kind.FLOAT:
            data = floats.to_float(_integers(one), arg.type.scale) if arg.type.kind is not Kind.FLOAT else one.data
            return _to_single(data, one.valid) if target == "FLOAT" else Values(data, one.valid)
        case Kind.DECIMAL:
            return _to_decimal(one, arg.type, node)
        case Kind.STRING:
            return _write(one, arg.type)
        case Kind.DATE:
            return exact_values(one.data // (10**arg.type.scale * SECONDS_A_DAY) * SECONDS_A_DAY, one.valid)
        case _:
            if arg.type.scale > node.type.scale:
                return exact_values(one.data // 10 ** (arg.type.scale - node.type.scale), one.valid)
            return exact.rescale(one, node.type.scale - arg.type.scale)


def to_varchar(arg: Node, text: str) -> Node:
    """Return an operand as text, as where strings are put together."""
    if arg.type.kind is Kind.STRING:
        return arg
    typed = check_cast(arg, "VARCHAR", text)
    return Node("cast", typed.type, typed.args, "VARCHAR", sides=arg.sides, text=arg.text)


def _integers(values: Values) -> Values:
    return Values(values.data.astype(np.int64), values.valid) if values.data.dtype == np.bool_ else values


def _within(data: NDArray[Any], valid: NDArray[np.bool_] | None, low: int, high: int) -> Values:
    inside = ((data >= low) & (data <= high)).astype(np.bool_)
    return exact_values(data, valid if inside.all() else both_valid(valid, inside))


def _to_integer(one: Values, of: Type, low: int, high: int) -> Values:
    if of.kind is Kind.FLOAT:
        whole = np.rint(one.data)  # ties go to the even neighbour, as in DuckDB
        inside = (whole >= float(low)) & (whole < float(high + 1))
        valid = one.valid if inside.all() else both_valid(one.valid, inside)
        return exact_values(np.where(inside, whole, 0.0).astype(np.int64), valid)
    values = _integers(one)
    return _within(rounded_quotient(values, of.scale) if of.scale else values.data, values.valid, low, high)


def _to_single(data: NDArray[np.float64], valid: NDArray[np.bool_] | None) -> Values:
    """Return the nearest singles; NULL where finite doubles are too large."""
    singles = data.astype(np.float32).astype(np.float64)
    lost = np.isinf(singles) & ~np.isinf(data)
    return Values(singles, both_valid(valid, ~lost) if lost.any() else valid)


def _to_decimal(one: Values, of: Type, node: Node) -> Values:
    most = 10 ** int(_decimal_digits(node)) - 1
    scale = node.type.scale
    if of.kind is Kind.FLOAT:
        whole = half_away(one.data * 10.0**scale)
        inside = np.abs(whole) < float(most + 1)
        valid = one.valid if inside.all() else both_valid(one.valid, inside)
        return exact_values(_whole_numbers(np.where(inside, whole, 0.0)), valid)
    values = _integers(one)
    if of.scale > scale:
        return _within(rounded_quotient(values, of.scale - scale), values.valid, -most, most)
    wider = exact.rescale(values, scale - of.scale)
    return _within(wider.data, wider.valid, -most, most)


def _whole_numbers(data: NDArray[np.float64]) -> NDArray[Any]:
    """Return whole doubles as integers, Python's where some do not fit int64."""
    if not data.size or np.abs(data).max() < 2.0**63:
        return data.astype(np.int64)
    result = np.empty(data.size, object)
    result[:] = [int(number) for number in data.tolist()]
    return result


def _decimal_digits(node: Node) -> str:
    match = _DECIMAL.fullmatch(str(node.value))
    assert match is not None  # noqa: S101 - checked before
    return match[1]


def _write(one: Values, of: Type) -> Values:
    if of.kind is Kind.STRING:
        return one
    if (of.kind is Kind.INT and one.data.dtype != object) or of.kind is Kind.BOOL:
        array: Any = pa.array(one.data, mask=None if one.valid is None else ~one.valid)
        if array.type in {pa.int64(), pa.bool_()}:
            return of_text(array.cast(pa.large_string()))
    if of.kind in NAIVE_TIMES:
        return of_text(pa.array(_moments(one.data, of), pa.large_string(), mask=_mask(one)))
    written = [_digits(int(number), of.scale) for number in one.data.tolist()]
    return of_text(pa.array(written, pa.large_string(), mask=_mask(one)))


def _moments(ticks: NDArray[Any], of: Type) -> list[str]:
    """Return dates or timestamps as texts, (n,), with as many digits of a second as there are."""
    day = SECONDS_A_DAY * 10**of.scale
    days = (ticks // day).astype(np.int64)
    dates: list[str] = np.datetime_as_string(days.astype("datetime64[D]")).tolist()
    for at in np.flatnonzero((days < _FIRST_DAY) | (days >= _DAY_10_000)).tolist():
        year, rest = dates[at][:-6], dates[at][-6:]
        dates[at] = f"{year}{rest}" if int(year) > 0 else f"{1 - int(year):04d}{rest} (BC)"
    if of.kind is Kind.DATE:
        return dates
    clock = (ticks - days.astype(ticks.dtype) * day).astype(np.int64)
    unit = next(name for name, scale in UNIT_SCALE.items() if scale == of.scale)
    clocks = np.datetime_as_string(clock.astype(f"datetime64[{unit}]")).tolist()
    cut = [text[11:].rstrip("0").rstrip(".") if "." in text else text[11:] for text in clocks]
    return [f"{date} {text}" for date, text in zip(dates, cut, strict=True)]


def _mask(one: Values) -> NDArray[np.bool_] | None:
    return None if one.valid is None else np.broadcast_to(~one.valid, (len(one.data),)).copy()


def _digits(number: int, scale: int) -> str:
    if scale == 0:
        return str(number)
    digits = str(abs(number)).rjust(scale + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _from_text(one: Values, target: str, to: Type) -> Values:
    """Read texts: the usual ones by Arrow, the others one by one, each different one once."""
    array = text_of(one)
    data, valid = _plain(array, target, to)
    rest = np.flatnonzero(~valid & array.is_valid().to_numpy(zero_copy_only=False))
    if not len(rest):
        return _as_values(data, valid, to)
    encoded = array.take(pa.array(rest)).dictionary_encode()
    made = [_READERS[to.kind](text, target, to) for text in encoded.dictionary.to_pylist()]
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    held = np.empty(len(made), object)
    held[:] = [0 if value is None else value for value in made]
    if to.exact and to.kind is not Kind.BOOL:
        data = data.astype(object)
    data[rest] = held[codes]
    valid[rest] = np.array([value is not None for value in made], np.bool_)[codes]
    return _as_values(data, valid, to)


def _as_values(data: NDArray[Any], valid: NDArray[np.bool_], to: Type) -> Values:
    if to.kind in {Kind.BOOL, Kind.FLOAT}:
        return Values(data, valid)
    return exact_values(data, valid)


def _plain(array: Any, target: str, to: Type) -> tuple[NDArray[Any], NDArray[np.bool_]]:  # noqa: ANN401 - see `text_of`
    """Return the values of texts in the usual form, 0 elsewhere, and where these are."""
    data: NDArray[Any] = np.zeros(len(array), {Kind.BOOL: np.bool_, Kind.FLOAT: np.float64}.get(to.kind, np.int64))
    nowhere = np.zeros(len(array), np.bool_)
    if to.kind not in _PLAIN or target == "FLOAT":
        return data, nowhere
    pattern, arrow = _PLAIN[to.kind]
    fits = pc.match_substring_regex(array, pattern).fill_null(False)  # noqa: FBT003  Arrow's signature
    try:
        read = pc.if_else(fits, array, pa.scalar(None, array.type)).cast(arrow)
    except pa.ArrowInvalid:  # such as February 30
        return data, nowhere
    words = read.cast(pa.int32()) if to.kind is Kind.DATE else read if to.kind is Kind.FLOAT else read.cast(pa.int64())
    data = words.fill_null(0).to_numpy(zero_copy_only=False).astype(data.dtype)
    unit = {Kind.DATE: SECONDS_A_DAY, Kind.TIMESTAMP: 10**to.scale}.get(to.kind, 1)
    some: NDArray[np.bool_] = fits.to_numpy(zero_copy_only=False).copy()
    if to.kind is Kind.INT:
        some &= (data >= -_limit(target) - 1) & (data <= _limit(target))
    return np.where(some, data, data.dtype.type(0)) * unit, some


def _number_in(text: str) -> str | None:
    """Return the number that a text is, without spaces around it; None if it is none."""
    cut = text.strip(" \t\n\v\f\r")
    return cut if len(cut) <= _MOST_DIGITS and _NUMBER.fullmatch(cut) else None


def _scaled(value: Decimal, scale: int) -> int:
    """Return ``value * 10**scale``, ties rounded away from zero."""
    if not value or value.adjusted() + scale < -1:
        return 0
    sign, digits, exponent = value.as_tuple()
    number, power = int("".join(map(str, digits))), int(exponent) + scale
    unit: int = 10 ** abs(power)
    size = number * unit if power >= 0 else (number + unit // 2) // unit
    return -size if sign else size


def _read_number(text: str, target: str, to: Type) -> int | None:
    written = _number_in(text)
    if written is None:
        return None
    try:
        value = Decimal(written)
    except InvalidOperation:  # an exponent of more than 18 digits
        return None
    if value.adjusted() > _MOST_PLACES:
        return None
    match = _DECIMAL.fullmatch(target)
    low, high = (
        (-_limit(target) - 1, _limit(target)) if match is None else (1 - 10 ** int(match[1]), 10 ** int(match[1]) - 1)
    )
    number = _scaled(value, to.scale)
    return number if low <= number <= high else None


def _read_double(text: str, target: str, _to: Type) -> float | None:
    cut = text.strip(" \t\n\v\f\r")
    if cut.lower().lstrip("+-") in _NOT_FINITE and not cut.startswith(("+-", "-+", "--", "++")):
        return float(cut)
    if _number_in(cut) is None:
        return None
    number = float(cut)
    return _nearest_single(number, cut) if target == "FLOAT" else number


def _nearest_single(number: float, text: str) -> float:
    """Return the single nearest to a number, given the double nearest to it, which may lie between two singles."""
    with np.errstate(over="ignore"):
        near = np.float32(number)
        neighbour = np.nextafter(near, np.float32(math.copysign(math.inf, number - float(near))))
        # Beyond the largest single it is as if there were a next one.
        low, high = sorted(min(max(float(one), -_SINGLE_END), _SINGLE_END) for one in (near, neighbour))
        if number - low != high - number or (exact := Decimal(text)) == (halfway := Decimal(number)):
            return float(near)
        return float(np.float32(high if exact > halfway else low))


def _read_boolean(text: str, _target: str, _to: Type) -> bool | None:
    lowered = text.lower()
    return True if lowered in _YES else False if lowered in _NO else None


def _read_time(text: str, target: str, to: Type) -> int | None:
    match = _TIME.fullmatch(text.strip(" \t\n\v\f\r"))
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    try:
        at = datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - naive times are meant
    except ValueError:
        return None
    seconds = (at.toordinal() - _EPOCH) * SECONDS_A_DAY
    if target == "DATE":
        return seconds
    micros = int((match[7] or "").ljust(6, "0")[:6])
    unit: int = 10**to.scale
    return (seconds + hour * 3600 + minute * 60 + second) * unit + micros


_READERS: dict[Kind, Callable[[str, str, Type], Any]] = {
    Kind.BOOL: _read_boolean,
    Kind.INT: _read_number,
    Kind.DECIMAL: _read_number,
    Kind.FLOAT: _read_double,
    Kind.DATE: _read_time,
    Kind.TIMESTAMP: _read_time,
}
