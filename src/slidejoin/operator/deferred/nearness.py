"""The order of right values by their distance to a left one, exactly, where doubles would round it or make it infinite.

Whole numbers, decimals and times have exact distances. The distance of two doubles is the sum of two, its rounded value
and what that lacks (Møller 1965, Knuth 4.2.2); rounding keeps the order, so the second one decides only where the first
ones are equal. A distance beyond the largest double is halved first, which is exact as both values are large then.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.predicate.truth.evaluate import ColumnsBySide, evaluate, truth
from slidejoin.predicate.truth.floats import SAFE, to_float

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.plan.deferred import NearestRule
    from slidejoin.predicate.truth.tree import Node
    from slidejoin.predicate.truth.values import Values

__all__ = ["nearest_first"]


def nearness(
    rule: NearestRule, columns: ColumnsBySide, equal: NDArray[np.bool_]
) -> tuple[list[NDArray[Any]], NDArray[np.bool_]]:
    """Return of pairs by what they are to be sorted, nearest first, and which have a distance at all.

    Parameters
    ----------
    rule : NearestRule
    columns : ColumnsBySide
        The two columns for each pair.
    equal : (n,) bool
        Where the two values are equal.

    Returns
    -------
    keys : list of (n,) arrays
        The first one decides, then the next. Where all are equal on one side of a left value, right values are equal.
    known : (n,) bool
    """
    n = equal.size
    if rule.distance.type.exact:
        distance = evaluate(rule.distance, columns)
        data = np.broadcast_to(distance.data, (n,))
        if data.dtype == object:
            data = np.unique(data, return_inverse=True)[1].reshape(n)
        return [data], _known(distance, n)
    nodes = rule.distance.args[0].args
    left, right = (evaluate(node, columns) for node in nodes)
    known = _known(left, n) & _known(right, n)
    if any(map(_wide, nodes, (left, right))):
        ranks, known = _ranked(left, right, known)
        return [ranks], known
    one, two = (
        np.broadcast_to(to_float(values) if node.type.exact else values.data, (n,))
        for node, values in zip(nodes, (left, right), strict=True)
    )
    keys = _of_doubles(one, two)
    for key in keys:
        key[equal] = 0.0  # also of infinities, whose difference is NaN
    return keys, known & ~(np.isnan(one) | np.isnan(two))


def _known(values: Values, n: int) -> NDArray[np.bool_]:
    """Return where values are not NULL, (n,) bool."""
    return np.ones(n, np.bool_) if values.valid is None else np.broadcast_to(values.valid, (n,))


def _wide(node: Node, values: Values) -> bool:
    """Return whether some are integers that are no doubles."""
    if not node.type.exact:
        return False
    low, high = values.limits()
    return low < -SAFE or high > SAFE


def _of_doubles(one: NDArray[np.float64], two: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the distances of doubles as sort keys: rounded, beyond the largest double, and what these lack."""
    rounded = np.abs(one - two)
    beyond = np.isinf(rounded)
    if not beyond.any():
        return [rounded, _lacking(one, two)]
    # Not with an infinity: the other value may be so small that halving rounds it.
    scale = np.where(beyond & np.isfinite(one) & np.isfinite(two), 0.5, 1.0)
    one, two = one * scale, two * scale
    halved = np.where(beyond, np.abs(one - two), 0.0)
    # On the one side where an infinity has other values, the one between is nearer: to the largest the larger one.
    lacking = np.where(np.isinf(halved), np.where(np.isinf(one), -np.sign(one) * two, 0.0), _lacking(one, two))
    return [rounded, halved, lacking]


def _lacking(one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``abs(one - two)`` less the double nearest to it, where that is finite."""
    apart = one - two
    other = one - apart
    rest = (one - (apart + other)) + (other - two)
    return np.where(apart < 0, -rest, rest)


def _ranked(left: Values, right: Values, known: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return ranks of the distances of integers and doubles, and which are known, (n,) each; by exact fractions."""
    n = known.size
    pairs = zip(*(np.broadcast_to(values.data, (n,)).tolist() for values in (left, right)), strict=True)
    exact = [_exactly(one, two) for one, two in pairs]
    ranks = {distance: rank for rank, distance in enumerate(sorted({one for one in exact if one is not None}))}
    known = known & np.array([one is not None for one in exact], np.bool_)
    return np.array([0 if one is None else ranks[one] for one in exact], np.int64), known


def _exactly(one: float, two: float) -> tuple[bool, Fraction | float] | None:
    """Return whether the distance of an integer and a double is infinite, and in which order it is; None of NaN."""
    if math.isnan(one) or math.isnan(two):
        return None
    if math.isinf(one):
        return True, -two if one > 0 else two  # as in `_of_doubles`
    return (True, 0) if math.isinf(two) else (False, abs(Fraction(one) - Fraction(two)))


def nearest_first(
    rule: NearestRule, places: NDArray[np.int64], right: NDArray[np.int64], columns: ColumnsBySide
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return of pairs the first k of each place: places ascending, nearest first.

    Parameters
    ----------
    rule : NearestRule
    places : (n,) int64
        The left row of each pair.
    right : (n,) int64
        Ordinals of the right rows.
    columns : ColumnsBySide
        The two columns for each pair.
    """
    n = places.size
    below, equal = truth(rule.below, columns, n), truth(rule.equal, columns, n)
    with np.errstate(all="ignore"):
        distances, known = nearness(rule, columns, equal)
    if not known.all():
        places, right, below = places[known], right[known], below[known]
        distances = [one[known] for one in distances]
    order = np.lexsort((-right, ~below, *reversed(distances), places))
    places, right = places[order], right[order]
    starts = (
        np.flatnonzero(np.concatenate([np.ones(1, np.bool_), places[1:] != places[:-1]]))
        if places.size
        else np.empty(0, np.int64)
    )
    rank = np.arange(places.size) - np.repeat(starts, np.diff(np.append(starts, places.size)))
    first = rank < rule.k
    return places[first], right[first]
