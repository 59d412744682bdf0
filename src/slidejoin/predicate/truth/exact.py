"""Exact integer arithmetic on arrays: int64 where bounds prove that nothing overflows, Python ints otherwise."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.predicate.truth.values import INT64_MAX, INT64_MIN, Values, across, both_valid, fit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["absolute", "compare", "linear", "negate", "plus_minus", "quotient", "remainder", "rescale", "times"]


def _fits(low: int, high: int) -> bool:
    return low >= INT64_MIN and high <= INT64_MAX


def _machine(values: Values) -> bool:
    """Whether values are int64."""
    return bool(values.data.dtype != object)


def _sum_limits(one: Values, two: Values, *, minus: bool) -> tuple[int, int]:
    (a, b), (c, d) = one.limits(), two.limits()
    return (a - d, b - c) if minus else (a + c, b + d)


def _product_limits(one: Values, two: Values) -> tuple[int, int]:
    corners = [a * b for a in one.limits() for b in two.limits()]
    return min(corners), max(corners)


def _apply(
    function: Callable[[Any, Any], Any], one: Values, two: Values, limits: Callable[[], tuple[int, int]]
) -> Values:
    """Apply one operation in int64 if the limits of its result fit, looking at the data once more before giving up."""
    valid = both_valid(one.valid, two.valid)
    if _machine(one) and _machine(two):
        low, high = limits()
        if not _fits(low, high):
            one.tighten()
            two.tighten()
            low, high = limits()
        if _fits(low, high):
            return Values(function(one.data, two.data), valid, low, high)
    return fit(function(one.data.astype(object), two.data.astype(object)), valid)


def plus_minus(one: Values, two: Values, *, minus: bool) -> Values:
    """Return ``one + two`` or ``one - two`` of equal scale."""
    function = operator.sub if minus else operator.add
    return _apply(function, one, two, lambda: _sum_limits(one, two, minus=minus))


def times(one: Values, two: Values) -> Values:
    """Return ``one * two``."""
    return _apply(operator.mul, one, two, lambda: _product_limits(one, two))


def constant(value: int) -> Values:
    """Return one exact value that broadcasts."""
    held = np.empty(1, object)
    held[0] = value
    return fit(held, None)


def rescale(values: Values, digits: int) -> Values:
    """Return ``values * 10**digits``, digits >= 0."""
    return values if digits == 0 else times(values, constant(10**digits))


def negate(values: Values) -> Values:
    """Return ``-values``."""
    return plus_minus(constant(0), values, minus=True)


def absolute(values: Values) -> Values:
    """Return ``abs(values)``."""
    low, high = values.limits()
    if _machine(values) and low > INT64_MIN:
        return Values(np.abs(values.data), values.valid, 0, max(abs(low), abs(high)))
    return fit(np.abs(values.data.astype(object)), values.valid)


def remainder(one: Values, two: Values) -> Values:
    """Return ``one % two`` with the sign of `one`; NULL where `two` is 0."""
    zero = two.data == 0
    valid = both_valid(one.valid, two.valid)
    if _machine(one) and _machine(two):
        # modulo -1 overflows in hardware at the smallest int64, and is 0 like modulo 1
        values = Values(np.fmod(one.data, np.where(zero | (two.data == -1), 1, two.data)), valid)
    else:
        top, bottom = np.broadcast_arrays(one.data.astype(object), np.where(zero, 1, two.data.astype(object)))
        result = np.empty(len(top), object)
        result[:] = [
            (abs(a) % abs(b)) * (-1 if a < 0 else 1) for a, b in zip(top.tolist(), bottom.tolist(), strict=True)
        ]
        values = fit(result, valid)
    return _known_where(values, ~zero.astype(np.bool_))


def quotient(one: Values, two: Values) -> Values:
    """Return ``one // two``, cut off towards zero; NULL where `two` is 0."""
    zero = two.data == 0
    valid = both_valid(one.valid, two.valid)
    top, bottom = one.data, np.where(zero, 1, two.data)
    if not (_machine(one) and _machine(two)) or one.limits()[0] == INT64_MIN:  # which has no opposite in int64
        top, bottom = top.astype(object), bottom.astype(object)
    below = np.abs(top) // np.abs(bottom)
    data = np.where((top < 0) != (bottom < 0), -below, below)
    values = fit(data, valid) if data.dtype == object else Values(data, valid)
    return _known_where(values, ~zero.astype(np.bool_))


def _known_where(values: Values, divided: NDArray[np.bool_]) -> Values:
    """Return quotients that are NULL where nothing was divided; a constant 0 makes all rows unknown."""
    if not divided.all():
        known = across(divided, values.data.shape)
        values.valid = both_valid(values.valid, known)
        values.data = np.where(known, values.data, 0)
    return values


def compare(op: Callable[[Any, Any], Any], one: Values, two: Values) -> NDArray[np.bool_]:
    """Compare unscaled integers of equal scale."""
    result: NDArray[np.bool_] = op(one.data, two.data).astype(np.bool_)
    return result


def linear(parts: list[tuple[int, Values]]) -> Values:
    """Return the sum of ``factor * values`` over `parts`."""
    total: Values | None = None
    for factor, values in parts:
        term = values if factor == 1 else times(values, constant(factor))
        total = term if total is None else plus_minus(total, term, minus=False)
    return total if total is not None else constant(0)
