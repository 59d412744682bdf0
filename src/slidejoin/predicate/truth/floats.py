"""IEEE doubles: order-preserving keys, and exact or correctly rounded arithmetic with integers."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from slidejoin.predicate.truth.values import INT64_MAX, Values

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["FIRST_KEY", "LAST_KEY", "SAFE", "float_keys", "from_keys", "mixed", "order", "to_float"]

SAFE = 1 << 53
"""Up to here every integer is a double."""
_SAFE_DIGITS = 22
_LOW_BITS = np.int64(INT64_MAX)
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def float_keys(data: NDArray[np.float64]) -> NDArray[np.int64]:
    """Map doubles to int64 in the same order; -0.0 like 0.0. NaN has no place in the order."""
    bits = (data + 0.0).view(np.int64)  # adding 0.0 turns -0.0 into 0.0
    return bits ^ ((bits >> 63) & _LOW_BITS)


def from_keys(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Undo `float_keys`; keys beyond the infinities become infinities."""
    keys = np.clip(keys, FIRST_KEY, LAST_KEY)
    return (keys ^ ((keys >> 63) & _LOW_BITS)).view(np.float64)


FIRST_KEY, LAST_KEY = (int(key) for key in float_keys(np.array([-np.inf, np.inf])))


def _divide(top: int, bottom: int) -> float:
    """Correctly rounded quotient; `bottom` > 0."""
    try:
        return top / bottom
    except OverflowError:
        return math.inf if top > 0 else -math.inf


def to_float(values: Values, scale: int = 0) -> NDArray[np.float64]:
    """Return the nearest doubles of exact values ``unscaled / 10**scale``."""
    data = values.data
    if data.dtype != object and scale == 0:
        return cast("NDArray[np.float64]", data.astype(np.float64))
    low, high = values.limits()
    if data.dtype != object and scale <= _SAFE_DIGITS:
        result = data / float(10**scale)  # one rounding of two exact doubles, if the integer is one
        if low >= -SAFE and high <= SAFE:
            return cast("NDArray[np.float64]", result)
        slow = np.flatnonzero((data > SAFE) | (data < -SAFE))
    else:
        result = np.empty(len(data))
        slow = np.arange(len(data))
    result[slow] = [_divide(int(top), 10**scale) for top in data[slow].tolist()]
    return cast("NDArray[np.float64]", result)


def order(ints: Values, floats: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Compare integers with doubles without rounding: ``(int < float, int = float)``; both False at NaN."""
    low, high = ints.limits()
    if ints.data.dtype == object:
        pairs = list(zip(*(part.tolist() for part in np.broadcast_arrays(ints.data, floats)), strict=True))
        return np.array([a < b for a, b in pairs], np.bool_), np.array([a == b for a, b in pairs], np.bool_)
    nearest = ints.data.astype(np.float64)
    less, equal = nearest < floats, nearest == floats
    if low >= -SAFE and high <= SAFE:
        return less, equal
    # rounding keeps the order, so only ties have to be looked at again; 2**63 is above every int64
    whole = np.where(equal & (floats < 2.0**63), floats, 0.0).astype(np.int64)
    tie_less = (ints.data < whole) | (floats >= 2.0**63)
    return less | (equal & tie_less), equal & (ints.data == whole) & (floats < 2.0**63)


def mixed(op: str, one: Values, two: Values, *, first_exact: bool, second_exact: bool) -> NDArray[np.float64]:
    """Return one correctly rounded ``one op two`` where an operand or both may be integers."""
    left = to_float(one) if first_exact else one.data
    right = to_float(two) if second_exact else two.data
    result: NDArray[np.float64] = np.asarray(_OPERATIONS[op](left, right), np.float64)
    if first_exact and second_exact:
        result = result + 0.0  # 0 / -2 is the integer 0, which has no sign
    slow = np.zeros(1, np.bool_)
    for values, exact in ((one, first_exact), (two, second_exact)):
        if exact and (values.limits()[0] < -SAFE or values.limits()[1] > SAFE):
            slow = slow | ((values.data > SAFE) | (values.data < -SAFE)).astype(np.bool_)
    if not slow.any():
        return result
    rows = np.flatnonzero(np.broadcast_to(slow, result.shape))
    tops, bottoms = (np.broadcast_to(part, result.shape)[rows].tolist() for part in (one.data, two.data))
    result[rows] = [_one_rounding(op, a, b) for a, b in zip(tops, bottoms, strict=True)]
    return result


def _one_rounding(op: str, one: int | float, two: int | float) -> float:  # noqa: PYI041  an int stays one
    """Round ``one op two`` once; either may be a Python int of any size."""
    if one == 0 and two != 0 and isinstance(one, int) and isinstance(two, int):
        return 0.0
    # next to an infinity, NaN or a factor 0 only the sign of an integer counts
    signs = [number if isinstance(number, float) else float((number > 0) - (number < 0)) for number in (one, two)]
    if not all(map(math.isfinite, signs)) or (op in {"*", "/"} and 0 in signs):
        with np.errstate(all="ignore"):
            return float(_OPERATIONS[op](np.float64(signs[0]), np.float64(signs[1])))
    exact = _OPERATIONS[op](Fraction(one), Fraction(two))
    rounded = _divide(exact.numerator, exact.denominator)
    return math.copysign(rounded, -1.0) if exact < 0 else rounded
