"""Functions of times: parts of dates, and times cut off to a unit. Zoned timestamps are taken in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.errors import PredicateError, nearest
from slidejoin.predicate.truth import floats
from slidejoin.predicate.truth.functions.common import COUNT_REACH, Function, Typed, exact_values, refuse
from slidejoin.predicate.truth.types import POINTS_IN_TIME, SECONDS_A_DAY, Kind, Type
from slidejoin.predicate.truth.values import Values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from slidejoin.predicate.truth.tree import Node

__all__ = ["OF_TIMES"]


class _Moment:
    """Times taken apart; each part is computed when it is first read."""

    def __init__(self, values: Values, scale: int) -> None:
        self._unit = 10**scale
        self._ticks: NDArray[Any] = values.data
        self._seconds: NDArray[Any] = self._ticks // self._unit
        self.days: NDArray[np.int64] = (self._seconds // SECONDS_A_DAY).astype(np.int64)

    @property
    def second_of_day(self) -> NDArray[np.int64]:
        rest: NDArray[Any] = self._seconds - self.days.astype(self._seconds.dtype) * SECONDS_A_DAY
        return rest.astype(np.int64)

    @property
    def months(self) -> NDArray[np.int64]:
        """Months since January 1970."""
        return self.days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)

    @property
    def year(self) -> NDArray[np.int64]:
        return self.months // 12 + 1970

    @property
    def isodow(self) -> NDArray[np.int64]:
        """Monday is 1, Sunday 7."""
        return (self.days + 3) % 7 + 1

    @property
    def thursday(self) -> NDArray[np.int64]:
        """The day that says to which year an ISO week belongs."""
        return self.days + 4 - self.isodow

    def fraction(self, digits: int) -> NDArray[np.int64]:
        """Return the second of the minute with so many digits after the point, without the point."""
        rest: NDArray[np.int64] = (self._ticks - self._seconds * self._unit).astype(np.int64)
        finer: int = 10**digits // self._unit
        cut: NDArray[np.int64] = rest * finer if finer else rest // (self._unit // 10**digits)
        result: NDArray[np.int64] = self.second_of_day % 60 * 10**digits + cut
        return result


def _first_day(months: NDArray[np.int64]) -> NDArray[np.int64]:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _year_of(days: NDArray[np.int64]) -> NDArray[np.int64]:
    return days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64)


_DATE_PARTS: dict[str, Callable[[_Moment], NDArray[np.int64]]] = {
    "year": lambda at: at.year,
    "isoyear": lambda at: _year_of(at.thursday) + 1970,
    "quarter": lambda at: at.months % 12 // 3 + 1,
    "month": lambda at: at.months % 12 + 1,
    "week": lambda at: (at.thursday - _first_day(_year_of(at.thursday) * 12)) // 7 + 1,
    "day": lambda at: at.days - _first_day(at.months) + 1,
    "dayofyear": lambda at: at.days - _first_day(at.months // 12 * 12) + 1,
    "dayofweek": lambda at: at.isodow % 7,
    "isodow": lambda at: at.isodow,
}
_CLOCK_PARTS: dict[str, Callable[[_Moment], NDArray[np.int64]]] = {
    "hour": lambda at: at.second_of_day // 3600,
    "minute": lambda at: at.second_of_day // 60 % 60,
    "second": lambda at: at.second_of_day % 60,
    "millisecond": lambda at: at.fraction(3),
    "microsecond": lambda at: at.fraction(6),
}
_DAYS_CUT: dict[str, Callable[[_Moment], NDArray[np.int64]]] = {
    "year": lambda at: _first_day(at.months // 12 * 12),
    "quarter": lambda at: _first_day(at.months // 3 * 3),
    "month": lambda at: _first_day(at.months),
    "week": lambda at: at.days + 1 - at.isodow,
    "day": lambda at: at.days,
}
_SECONDS_CUT = {"hour": 3600, "minute": 60, "second": 1}
_DIGITS_CUT = {"millisecond": 3, "microsecond": 6}
_UNITS = (*_DAYS_CUT, *_SECONDS_CUT, *_DIGITS_CUT)


def _part(part: Callable[[_Moment], NDArray[np.int64]], kinds: frozenset[Kind], takes: str) -> Function:
    def check(args: Sequence[Node], text: str) -> Typed:
        if args[0].type.kind not in kinds:
            raise refuse(text, args[0], takes)
        return Typed(Type(Kind.INT), tuple(args), COUNT_REACH)

    def compute(node: Node, values: Sequence[Values]) -> Values:
        return exact_values(part(_Moment(values[0], node.args[0].type.scale)), values[0].valid)

    return Function(check, compute)


def _check_epoch(args: Sequence[Node], text: str) -> Typed:
    if args[0].type.kind not in POINTS_IN_TIME:
        raise refuse(text, args[0], "a date or a timestamp")
    return Typed(Type(Kind.FLOAT), tuple(args))


def _epoch(node: Node, values: Sequence[Values]) -> Values:
    return Values(floats.to_float(values[0], node.args[0].type.scale), values[0].valid)


def _unit_of(arg: Node, text: str) -> str:
    unit = arg.value.decode().lower().removesuffix("s") if isinstance(arg.value, bytes) else ""
    if unit not in _UNITS:
        raise PredicateError(
            f"there is no unit {arg.text} in {text}; the units are {', '.join(_UNITS)}, each a constant in quotes."
            f"{nearest(unit, _UNITS)}"
        )
    return unit


def _check_trunc(args: Sequence[Node], text: str) -> Typed:
    unit, of = _unit_of(args[0], text), args[1].type
    if of.kind not in POINTS_IN_TIME:
        raise refuse(text, args[1], "a date or a timestamp")
    scale = min(of.scale, _DIGITS_CUT.get(unit, 0))
    reach = args[1].reach // 10 ** (of.scale - scale) + 400 * SECONDS_A_DAY  # cut off downwards, by a year at most
    kind = Kind.INSTANT if of.kind is Kind.INSTANT else Kind.TIMESTAMP
    return Typed(Type(kind, scale), tuple(args), reach)


def _trunc(node: Node, values: Sequence[Values]) -> Values:
    unit, (_, one), of = _unit_of(node.args[0], node.text), values, node.args[1].type
    if unit in _DIGITS_CUT:
        return exact_values(one.data // 10 ** (of.scale - node.type.scale), one.valid)
    if unit in _SECONDS_CUT:
        size = _SECONDS_CUT[unit]
        return exact_values(one.data // (10**of.scale * size) * size, one.valid)
    days = _DAYS_CUT[unit](_Moment(one, of.scale))
    if len(days) and max(-int(days.min()), int(days.max())) >= (1 << 62) // SECONDS_A_DAY:
        return exact_values(days.astype(object) * SECONDS_A_DAY, one.valid)
    return exact_values(days * SECONDS_A_DAY, one.valid)


OF_TIMES: dict[str, Function] = {
    "date_trunc": Function(_check_trunc, _trunc),
    "epoch": Function(_check_epoch, _epoch),
    **{name: _part(part, POINTS_IN_TIME, "a date or a timestamp") for name, part in _DATE_PARTS.items()},
    **{
        name: _part(part, POINTS_IN_TIME | {Kind.TIME}, "a date, a timestamp or a time of day")
        for name, part in _CLOCK_PARTS.items()
    },
}
