"""Functions of numbers: whole and rounded values, signs and roots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.predicate.truth import floats
from slidejoin.predicate.truth.functions.common import Function, Typed, constant_integer, exact_values, refuse
from slidejoin.predicate.truth.types import NUMBERS, Kind, Type
from slidejoin.predicate.truth.values import Values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from slidejoin.predicate.truth.tree import Node

__all__ = ["OF_NUMBERS", "half_away", "rounded_quotient"]

_CALM = 1 << 61
"""Numbers nearer to 0 than this, and half a power of ten, add up to an int64."""
_INT64_POWER = 18
_LARGEST_POWER = 308


def _number(args: Sequence[Node], text: str) -> None:
    if args[0].type.kind not in NUMBERS:
        raise refuse(text, args[0], "a number")


def _check_whole(args: Sequence[Node], text: str) -> Typed:
    _number(args, text)
    to = Type(Kind.FLOAT if args[0].type.kind is Kind.FLOAT else Kind.INT)
    return Typed(to, tuple(args), args[0].reach)


def _whole(
    of_doubles: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    of_integers: Callable[[NDArray[Any], int], NDArray[Any]],
) -> Function:
    def compute(node: Node, values: Sequence[Values]) -> Values:
        one, of = values[0], node.args[0].type
        if of.kind is Kind.FLOAT:
            return Values(of_doubles(one.data), one.valid)
        if of.scale == 0:
            return one
        return exact_values(of_integers(*_calm(one, of.scale)), one.valid)

    return Function(_check_whole, compute)


def _calm(values: Values, digits: int) -> tuple[NDArray[Any], int]:
    """Return unscaled integers in which half of ``10**digits`` can be added without overflow, and that power."""
    low, high = values.limits()
    near = values.data.dtype != object and low > -_CALM and high < _CALM and digits <= _INT64_POWER
    return values.data if near else values.data.astype(object), 10**digits


def rounded_quotient(values: Values, digits: int) -> NDArray[Any]:
    """Return unscaled integers divided by ``10**digits``, ties rounded away from zero."""
    data, unit = _calm(values, digits)
    size = (np.abs(data) + unit // 2) // unit
    result: NDArray[Any] = np.where(data < 0, -size, size)
    return result


def half_away(data: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest whole doubles, ties rounded away from zero."""
    whole = np.trunc(data)
    return np.where(np.abs(data - whole) >= 0.5, whole + np.copysign(1.0, data), whole)  # noqa: PLR2004 - a half


def _check_round(args: Sequence[Node], text: str) -> Typed:
    _number(args, text)
    digits = constant_integer(args[1], text, 0) if len(args) > 1 else 0
    of = args[0].type
    if of.kind is Kind.DECIMAL:
        scale = min(digits, of.scale)
        return Typed(Type(Kind.DECIMAL if scale else Kind.INT, scale), tuple(args), args[0].reach)
    return Typed(of, tuple(args), args[0].reach)


def _round(node: Node, values: Sequence[Values]) -> Values:
    one, of = values[0], node.args[0].type
    digits = int(values[1].data[0]) if len(values) > 1 else 0
    if of.kind is Kind.FLOAT:
        if digits == 0:
            return Values(half_away(one.data), one.valid)
        unit = 10.0**digits if digits <= _LARGEST_POWER else np.inf  # then nothing is rounded
        rounded = half_away(one.data * unit) / unit
        return Values(np.where(np.isfinite(rounded), rounded, one.data), one.valid)
    if of.scale <= digits:
        return one
    return exact_values(rounded_quotient(one, of.scale - digits), one.valid)


def _check_sign(args: Sequence[Node], text: str) -> Typed:
    _number(args, text)
    return Typed(Type(Kind.INT), tuple(args), 1)


def _sign(_node: Node, values: Sequence[Values]) -> Values:
    data = values[0].data
    return exact_values((data > 0).astype(np.int64) - (data < 0).astype(np.int64), values[0].valid)


def _check_sqrt(args: Sequence[Node], text: str) -> Typed:
    _number(args, text)
    return Typed(Type(Kind.FLOAT), tuple(args))


def _sqrt(node: Node, values: Sequence[Values]) -> Values:
    of = node.args[0].type
    data = floats.to_float(values[0], of.scale) if of.exact else values[0].data
    return Values(np.sqrt(data), values[0].valid)


OF_NUMBERS: dict[str, Function] = {
    "floor": _whole(np.floor, lambda data, unit: data // unit),
    "ceil": _whole(np.ceil, lambda data, unit: -(-data // unit)),
    "trunc": _whole(np.trunc, lambda data, unit: np.where(data < 0, -(-data // unit), data // unit)),
    "round": Function(_check_round, _round),
    "sign": Function(_check_sign, _sign),
    "sqrt": Function(_check_sqrt, _sqrt),
}
