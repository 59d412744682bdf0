"""Ranges of stored keys, computed from the values of probe rows. All functions here are pure and return int64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.predicate.ranges.keys import Keys, clip, squeeze
from slidejoin.predicate.ranges.pieces import Piece, Pieces, Ranges, apart, finish, intersect, restrict, unite
from slidejoin.predicate.truth import exact, floats
from slidejoin.predicate.truth.values import INT64_MAX, INT64_MIN, Values

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.predicate.ranges.linear import Interval

__all__ = [
    "Keys",
    "Piece",
    "Pieces",
    "Ranges",
    "Scale",
    "around",
    "between",
    "double_bounds",
    "double_keys_around",
    "finish",
    "intersect",
    "restrict",
    "unite",
]

_FAR = 1 << 1100  # stands for infinity among integers: beyond every double
_CALM = 1 << 62


@dataclass(frozen=True, slots=True)
class Scale:
    """How whole numbers become keys of the stored side: ``number = factor * (key + bias) + constant``.

    Where there may be more than 64 bits keys are squeezed, and count in steps, see `keys.squeeze`.
    """

    factor: int = 1
    constant: int = 0
    bias: int = 0
    may_squeeze: bool = False
    step: int = 1


def between(probe: Values, factor: int, intervals: tuple[Interval, ...], scale: Scale) -> Pieces:
    """Return the stored keys with ``scale.factor * key + factor * probe`` in one of `intervals`, row by row.

    Parameters
    ----------
    probe
        Exact values of the probe rows.
    factor
        What they count.
    intervals
        Ascending, disjoint.
    scale
        Of the stored side; its constant and bias are part of the intervals already.
    """
    if not intervals:
        return Pieces([_empty(len(probe.data))])
    ends = [abs(end) for interval in intervals for end in interval if end is not None]
    low, high = probe.limits()
    if probe.data.dtype != object and max(-low, high) * abs(factor) + max(ends, default=0) > INT64_MAX:
        probe.tighten()
        low, high = probe.limits()
    worst = max(-low, high) * abs(factor) + max(ends, default=0)
    if probe.data.dtype == object or worst <= INT64_MAX:
        return _between(probe, factor, intervals, scale)
    if max(ends, default=0) >= _CALM:
        return _between(Values(probe.data.astype(object)), factor, intervals, scale)
    near = _CALM // max(abs(factor), 1)
    wild = (probe.data > near) | (probe.data < -near)
    return _split(probe.data, wild, lambda values: _between(values, factor, intervals, scale))


def _split(data: NDArray[Any], wild: NDArray[np.bool_], compute: Callable[[Values], Pieces]) -> Pieces:
    """Compute few rows far out with Python ints, and the others in int64 as if those were 0."""
    calm = compute(Values(np.where(wild, data.dtype.type(0), data)))
    rows = np.flatnonzero(wild)
    far = compute(Values(data[rows].astype(object)))
    pieces = []
    for (lo, hi), (far_lo, far_hi) in zip(calm.pieces, far.pieces, strict=True):
        pieces.append((_put(lo, rows, far_lo, INT64_MIN, len(data)), _put(hi, rows, far_hi, INT64_MAX, len(data))))
    return Pieces(pieces, calm.exact and far.exact)


def _put(
    near: NDArray[np.int64] | None, rows: NDArray[np.intp], far: NDArray[np.int64] | None, open_end: int, n: int
) -> NDArray[np.int64] | None:
    if near is None and far is None:
        return None
    joined = np.full(n, open_end, np.int64) if near is None else near.copy()
    joined[rows] = open_end if far is None else far
    return joined


def _between(probe: Values, factor: int, intervals: tuple[Interval, ...], scale: Scale) -> Pieces:
    """Move the probe's part to the other side: |k| * key within [low - factor * probe, high - factor * probe]."""
    flip = scale.factor < 0
    base = exact.linear([(factor if flip else -factor, Values(probe.data, None, probe.low, probe.high))])
    pieces, all_exact = [], True
    for interval in reversed(intervals) if flip else intervals:
        low, high = interval
        if flip:
            low, high = (None if high is None else -high), (None if low is None else -low)
        lower = None if low is None else _shift(base, low)
        upper = None if high is None else _shift(base, high)
        piece, piece_exact = _quotient(lower, upper, scale)
        pieces.append(piece)
        all_exact &= piece_exact
    return apart(Pieces(pieces, all_exact), len(probe.data))


def _shift(values: Values, by: int) -> Values:
    return values if by == 0 else exact.plus_minus(values, exact.constant(by), minus=False)


def _empty(n: int) -> Piece:
    return np.ones(n, np.int64), np.zeros(n, np.int64)


def _quotient(lower: Values | None, upper: Values | None, scale: Scale) -> tuple[Piece, bool]:
    """Return the keys with ``lower <= abs(factor) * key <= upper``, as int64."""
    factor = abs(scale.factor)
    lo, hi = (None if end is None else end.data for end in (lower, upper))
    if factor > INT64_MAX:
        lo, hi = (None if end is None else end.astype(object) for end in (lo, hi))
    if factor != 1:
        lo = None if lo is None else lo // factor + (lo % factor != 0)
        hi = None if hi is None else hi // factor
    if scale.may_squeeze:
        low, one = (None, True) if lo is None else squeeze(lo, scale.step)
        high, two = (None, True) if hi is None else squeeze(hi, scale.step)
        return (low, high), one and two
    if all(end is None or end.dtype != object for end in (lo, hi)):
        return (lo, hi), True
    # A lower end above int64, or an upper one below, leaves nothing.
    nothing = np.zeros(max(len(end) for end in (lo, hi) if end is not None), np.bool_)
    if lo is not None:
        nothing |= (lo > INT64_MAX).astype(np.bool_)
        lo = clip(lo.astype(object))
    if hi is not None:
        nothing |= (hi < INT64_MIN).astype(np.bool_)
        hi = clip(hi.astype(object))
    if nothing.any():
        lo = np.where(nothing, 1, INT64_MIN if lo is None else lo)
        hi = np.where(nothing, 0, INT64_MAX if hi is None else hi)
    return (lo, hi), True


def around(op: str, below: NDArray[np.int64], above: NDArray[np.int64]) -> list[Piece]:
    """Return the keys k with ``k op v`` given the largest key <= v and the smallest >= v.

    Keys are those of doubles, where stepping by one cannot overflow.
    """
    match op:
        case "<=":
            return [(None, below)]
        case "<":
            return [(None, above - 1)]
        case ">=":
            return [(above, None)]
        case ">":
            return [(below + 1, None)]
        case "=":
            return [(above, below)]
        case _:
            return [(None, above - 1), (below + 1, None)]


def double_keys_around(values: Values, *, integers: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the keys of the nearest doubles at or below, and at or above, doubles or whole numbers."""
    if not integers:
        keys = floats.float_keys(values.data)
        return keys, keys
    nearest = floats.to_float(values)
    keys = floats.float_keys(nearest)
    less, equal = floats.order(values, nearest)
    return keys - less, keys + ~(less | equal)


def double_bounds(op: str, data: NDArray[np.float64], scale: Scale) -> Pieces:
    """Return the stored keys whose whole number N has ``N op data``; `data` without NaN."""
    wild = ~(np.abs(data) < float(_CALM))
    if wild.any():
        return _split_doubles(op, data, wild, scale)
    return _double_bounds(op, np.floor(data).astype(np.int64), np.ceil(data).astype(np.int64), scale)


def _double_bounds(op: str, below: NDArray[Any], above: NDArray[Any], scale: Scale) -> Pieces:
    ends: list[tuple[NDArray[Any] | None, NDArray[Any] | None]] = []
    match op:
        case "<=":
            ends = [(None, below)]
        case "<":
            ends = [(None, above - 1)]
        case ">=":
            ends = [(above, None)]
        case ">":
            ends = [(below + 1, None)]
        case "=":
            ends = [(above, below)]
        case _:
            ends = [(None, above - 1), (below + 1, None)]
    shift = -scale.constant - scale.factor * scale.bias
    pieces, all_exact = [], True
    for low, high in reversed(ends) if scale.factor < 0 else ends:
        lower = None if low is None else _shift(Values(low), shift)
        upper = None if high is None else _shift(Values(high), shift)
        if scale.factor < 0:
            lower, upper = (None if end is None else exact.negate(end) for end in (upper, lower))
        piece, piece_exact = _quotient(lower, upper, scale)
        pieces.append(piece)
        all_exact &= piece_exact
    return apart(Pieces(pieces, all_exact), len(below))


def _split_doubles(op: str, data: NDArray[np.float64], wild: NDArray[np.bool_], scale: Scale) -> Pieces:
    far = _FAR * (abs(scale.constant) + abs(scale.factor) + 1)

    def compute(values: Values) -> Pieces:
        if values.data.dtype != object:
            return _double_bounds(
                op, np.floor(values.data).astype(np.int64), np.ceil(values.data).astype(np.int64), scale
            )
        whole = np.empty((2, len(values.data)), object)
        for row, number in enumerate(values.data.tolist()):
            if math.isinf(number):
                whole[:, row] = far if number > 0 else -far
            else:
                whole[:, row] = math.floor(number), math.ceil(number)
        return _double_bounds(op, whole[0], whole[1], scale)

    return _split(data, wild, compute)
