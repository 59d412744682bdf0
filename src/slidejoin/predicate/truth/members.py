"""Long lists of constants as sets: sorted arrays of numbers, hash sets of texts.

A value is looked up in them in the time that the logarithm of their length takes, or at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.predicate.truth.types import BYTES, Kind
from slidejoin.predicate.truth.values import INT64_MAX, INT64_MIN, Values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from slidejoin.predicate.expression.expr import Scalar

__all__ = ["MemberSet", "double_of", "evaluate_member", "is_unknown", "unscaled_set"]


@dataclass(frozen=True, eq=False)
class MemberSet:
    """The constants that values of one type are looked up in.

    Attributes
    ----------
    digest
        What follows from the constants alone; sets of equal ones are equal.
    members
        Unscaled ints in the values' scale, doubles, or bytes; without NULL and NaN.
    unknown
        Whether NULL or NaN is one of the constants, so that a value that is not among them is unknown.
    """

    digest: bytes
    members: frozenset[Any]
    unknown: bool

    def __eq__(self, other: object) -> bool:
        """Compare the constants, by their digest."""
        return isinstance(other, MemberSet) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"MemberSet({self.digest.hex()})"

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """Those that fit into 64 bits, in order."""
        fitting = [member for member in self.members if INT64_MIN <= member <= INT64_MAX]
        return np.sort(np.array(fitting, np.int64))

    @cached_property
    def doubles(self) -> NDArray[np.float64]:
        """The doubles in order."""
        return np.sort(np.array(list(self.members), np.float64))

    @cached_property
    def texts(self) -> pa.Array[Any]:
        """The texts, for whole columns."""
        return pa.array(list(self.members), pa.large_binary())

    def has(self, data: Any, kind: Kind) -> NDArray[np.bool_]:  # noqa: ANN401 - see `Values`
        """Return bool (n,): where a value is one of the members."""
        if kind in BYTES:
            if len(data) > len(self.members):
                return cast("NDArray[np.bool_]", pc.is_in(data, self.texts).to_numpy(zero_copy_only=False))
            return np.fromiter((value in self.members for value in data.to_pylist()), np.bool_, len(data))
        if data.dtype == object:
            return np.fromiter((value in self.members for value in data.tolist()), np.bool_, len(data))
        return _in_order(data, self.doubles if kind is Kind.FLOAT else self.words)


def _in_order(data: NDArray[Any], members: NDArray[Any]) -> NDArray[np.bool_]:
    if not members.size:
        return np.zeros(len(data), np.bool_)
    places = np.searchsorted(members, data)
    result: NDArray[np.bool_] = members[np.minimum(places, members.size - 1)] == data
    return result


def evaluate_member(members: MemberSet, kind: Kind, values: Values) -> Values:
    """Return where values of a kind equal one of the members, in three-valued logic."""
    result, valid = members.has(values.data, kind), values.valid
    if kind is Kind.FLOAT:
        nan = np.isnan(values.data)
        if nan.any():
            valid = ~nan if valid is None else valid & ~nan
    if valid is not None:
        result = result & valid
    return Values(result, result if members.unknown else valid)


def is_unknown(value: Scalar) -> bool:
    """Whether a comparison with a constant is unknown: with NULL and NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def unscaled_set(constants: Iterable[tuple[int, int]], scale: int) -> set[int]:
    """Return exact constants, each an unscaled int and its scale, as ints of one scale, where they are whole."""
    unscaled = set()
    for value, own in constants:
        if own <= scale:
            unscaled.add(value * 10 ** (scale - own))
        elif value % 10 ** (own - scale) == 0:
            unscaled.add(value // 10 ** (own - scale))
    return unscaled


def double_of(value: Scalar) -> float | None:
    """Return the double that equals a number: of a decimal the nearest one, of an int itself; None if there is none."""
    if isinstance(value, Decimal):
        return float(value)
    assert isinstance(value, int | float)  # noqa: S101 - numbers alone meet doubles
    try:
        double = float(value)
    except OverflowError:
        return None
    return double if math.isinf(double) or double == value else None
