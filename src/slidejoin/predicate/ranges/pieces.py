"""Sets of ranges for a batch of probe rows, and their union and intersection.

A piece is one range for each probe: arrays (or an open end, None) of the lowest and the highest key, empty where the
lowest is above the highest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from slidejoin.predicate.truth.values import INT64_MAX, INT64_MIN, across

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["Piece", "Pieces", "Ranges", "apart", "finish", "intersect", "restrict", "unite"]

Piece: TypeAlias = tuple["NDArray[np.int64] | None", "NDArray[np.int64] | None"]


@dataclass(slots=True)
class Ranges:
    """Ranges of the other side's keys in which the partners of each probe row lie.

    Attributes
    ----------
    lo, hi
        int64 (k, n), both ends included; for each row ascending and disjoint; empty ones are lo = 1, hi = 0 and come
        last.
    exact
        False if an end was moved so that pairs must be rechecked.
    """

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    exact: bool


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of one comparison, ascending and disjoint for each row."""

    pieces: list[Piece]
    exact: bool = True


def apart(these: Pieces, n: int) -> Pieces:
    """Join pieces that meet at an end of int64 because keys were clipped to it."""
    if these.exact or len(these.pieces) == 1:
        return these
    return _tidy(these.pieces, len(these.pieces), n, exact=False)


def restrict(these: Pieces, valid: NDArray[np.bool_] | None, n: int) -> Pieces:
    """Make the pieces of unknown probes empty."""
    if valid is None:
        return these
    pieces: list[Piece] = []
    for lo, hi in these.pieces:
        low = np.where(valid, INT64_MIN if lo is None else lo, 1)
        high = np.where(valid, INT64_MAX if hi is None else hi, 0)
        pieces.append((across(low, (n,)), across(high, (n,))))
    return Pieces(pieces, these.exact)


def intersect(one: Pieces, two: Pieces, n: int) -> Pieces:
    """Return the intersection."""
    crossed = [(_pick(np.maximum, a[0], b[0]), _pick(np.minimum, a[1], b[1])) for a in one.pieces for b in two.pieces]
    exact = one.exact and two.exact
    if len(crossed) == 1:
        return Pieces(crossed, exact)
    return _tidy(crossed, len(one.pieces) + len(two.pieces) - 1, n, exact=exact)


def _pick(
    choose: Callable[[Any, Any], Any], one: NDArray[np.int64] | None, two: NDArray[np.int64] | None
) -> NDArray[np.int64] | None:
    if one is None or two is None:
        return two if one is None else one
    picked: NDArray[np.int64] = choose(one, two)
    return picked


def unite(one: Pieces, two: Pieces, n: int, most: int) -> Pieces:
    """Return the union, overlapping pieces joined, so that no key is in two of them.

    Beyond `most` pieces the last ones are joined across their gaps.
    """
    return _tidy([*one.pieces, *two.pieces], most, n, exact=one.exact and two.exact)


def _stack(pieces: list[Piece], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    lo, hi = np.empty((len(pieces), n), np.int64), np.empty((len(pieces), n), np.int64)
    for number, (low, high) in enumerate(pieces):
        lo[number] = INT64_MIN if low is None else low
        hi[number] = INT64_MAX if high is None else high
    return lo, hi


def _tidy(pieces: list[Piece], most: int, n: int, *, exact: bool) -> Pieces:
    lo, hi = _stack(pieces, n)
    _kernel()(lo, hi, True, most)  # noqa: FBT003 - a kernel takes no names
    return Pieces(list(zip(lo[:most], hi[:most], strict=True)), exact)


@cache
def _kernel() -> Callable[..., None]:
    from slidejoin.predicate.kernels.ends import tidy_pieces  # noqa: PLC0415 - loads Numba, which planning does not need

    return tidy_pieces


def finish(these: Pieces, n: int) -> Ranges:
    """Return the pieces as the arrays that an index takes."""
    lo, hi = _stack(these.pieces, n)
    empty = lo > hi
    if empty.any():
        if len(lo) > 1:
            _kernel()(lo, hi, False, len(lo))  # noqa: FBT003 - as above
        else:
            lo[empty], hi[empty] = 1, 0
    return Ranges(lo, hi, these.exact)
