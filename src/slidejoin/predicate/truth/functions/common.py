"""What all functions share: their declaration, one type for several values, and choosing between values row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import PredicateError
from slidejoin.predicate.truth.tree import Node, literal
from slidejoin.predicate.truth.types import BYTES, NAIVE_TIMES, NUMBERS, Kind, Type
from slidejoin.predicate.truth.values import Values, across, fit, validity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "COUNT_REACH",
    "Function",
    "Typed",
    "choose",
    "common_type",
    "constant_integer",
    "converted",
    "exact_values",
    "known",
    "of_bytes",
    "of_text",
    "refuse",
    "rows_of_all",
    "side_by_side",
    "spread",
    "text_of",
    "with_nulls",
]

COUNT_REACH = 1 << 48
"""No length, place or part of a date is farther from 0."""


class Typed(NamedTuple):
    """A call whose types are known.

    Attributes
    ----------
    type
        Of the result.
    args
        The operands, converted where the function needs it.
    reach
        Largest magnitude of the result, if that is exact.
    """

    type: Type
    args: tuple[Node, ...]
    reach: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """A function of predicates.

    Attributes
    ----------
    check
        Takes the operands and the text of the call; returns its types, or raises PredicateError.
    compute
        Takes the node of the call and the values of its operands, each of shape (n,) or (1,); returns the result.
    """

    check: Callable[[Sequence[Node], str], Typed]
    compute: Callable[[Node, Sequence[Values]], Values]


def refuse(text: str, arg: Node, takes: str) -> PredicateError:
    """Return the error for an operand of a wrong type."""
    return PredicateError(f"cannot use {arg.text} of type {arg.type} in {text}: it takes {takes}")


def constant_integer(arg: Node, text: str, least: int | None = None) -> int:
    """Return the whole number that a constant operand is; PredicateError if it is none."""
    value = arg.value
    some = arg.op == "literal" and arg.type.kind is Kind.INT and isinstance(value, int)
    if not some or not isinstance(value, int) or abs(value) > 1 << 31 or (least is not None and value < least):
        wanted = "a constant whole number" if least is None else f"a constant whole number of at least {least}"
        raise refuse(text, arg, f"{wanted} there; compute others into a column of the stream first")
    return value


def common_type(args: Sequence[Node], text: str) -> Type:
    """Return the one type to which all operands can be converted; that of NULL if all are NULL."""
    types = [arg.type for arg in args if not arg.is_null]
    kinds = {one.kind for one in types}
    scale = max((one.scale for one in types if one.exact), default=0)
    if not kinds:
        return Type(Kind.NULL)
    if kinds <= NUMBERS:
        kind = next(kind for kind in (Kind.FLOAT, Kind.DECIMAL, Kind.INT) if kind in kinds)
        return Type(kind, 0 if kind is Kind.FLOAT else scale)
    if len(kinds) > 1 and kinds <= NAIVE_TIMES:
        return Type(Kind.TIMESTAMP, scale)
    if len(kinds) == 1 and not kinds & {Kind.LIST, Kind.OTHER}:
        return Type(types[0].kind, scale)
    names = " and ".join(dict.fromkeys(str(one) for one in types))
    raise PredicateError(
        f"{text} mixes values that have no type in common: {names}. Cast them to one type (lists and nested columns "
        "can be compared as whole columns only)"
    )


def converted(args: Sequence[Node], to: Type) -> tuple[tuple[Node, ...], int]:
    """Return operands as nodes of one type, and the largest magnitude that an exact one can have."""
    made, reach = [], 0
    for arg in args:
        if arg.is_null:
            made.append(literal(None, to, arg.text))
        elif arg.type == to or not to.exact:
            made.append(arg if arg.type == to else Node("double", to, (arg,), sides=arg.sides, text=arg.text))
        else:
            factor = 10 ** (to.scale - arg.type.scale)
            reach = max(reach, arg.reach * factor)
            made.append(Node("rescale", to, (arg,), sides=arg.sides, reach=arg.reach * factor, text=arg.text))
        reach = max(reach, made[-1].reach)
    return tuple(made), reach


def rows_of_all(values: Sequence[Values]) -> int:
    """Return how many rows operands have together, constants with columns: 1 if all are constants."""
    lengths = {len(one.data) for one in values}
    return next((length for length in lengths if length != 1), 1)


def with_nulls(values: Values) -> Any:  # noqa: ANN401 - an array whose kind pyarrow's stubs cannot tell
    """Return strings or binary as an array that is NULL where the values are."""
    data: pa.Array[Any] = values.data
    if values.valid is None or data.null_count:
        return data
    return pc.if_else(pa.array(np.ascontiguousarray(values.valid)), data, pa.scalar(None, data.type))


def text_of(values: Values) -> Any:  # noqa: ANN401 - see `with_nulls`
    """Return strings as an Arrow array of strings, without a copy."""
    return with_nulls(values).view(pa.large_string())


def of_text(array: Any) -> Values:  # noqa: ANN401 - what Arrow's functions return
    """Return an Arrow array of strings as values."""
    return of_bytes(array.cast(pa.large_string()).view(pa.large_binary()))


def of_bytes(array: pa.Array[Any]) -> Values:
    """Return a large binary array as values."""
    return Values(array, validity(array))


def side_by_side(arrays: Sequence[Any], *, nulls: bool) -> Any:  # noqa: ANN401 - see `with_nulls`
    """Return binary values put together row by row; NULL where one is NULL, or NULLs as no bytes unless `nulls`."""
    # Arrow 26 loses rows that are NULL throughout with "skip".
    how: Any = "emit_null" if nulls else "replace"
    join: Any = pc.binary_join_element_wise
    return join(*arrays, pa.scalar(b"", pa.large_binary()), null_handling=how, null_replacement="")


def spread(array: pa.Array[Any], n: int) -> Any:  # noqa: ANN401 - an array or a scalar
    """Return an array of one value as a scalar where the others are n rows."""
    return array[0] if len(array) == 1 and n != 1 else array


def choose(first: NDArray[np.bool_], one: Values, two: Values, kind: Kind) -> Values:
    """Return the values of `one` where `first` is true, and of `two` elsewhere; all of one type."""
    if kind in BYTES:
        n = next((length for length in (len(first), len(one.data), len(two.data)) if length != 1), 1)
        mask = pa.array(np.broadcast_to(first, (n,)).copy())
        return of_bytes(pc.if_else(mask, spread(with_nulls(one), n), spread(with_nulls(two), n)))
    data = np.where(first, one.data, two.data)
    valid = None
    if one.valid is not None or two.valid is not None:
        known = [np.ones(1, np.bool_) if values.valid is None else values.valid for values in (one, two)]
        valid = across(np.where(first, *known), data.shape)
    if data.dtype == object:
        return fit(data, valid)
    return Values(data, valid)


def exact_values(data: NDArray[Any], valid: NDArray[np.bool_] | None) -> Values:
    """Return integers as exact values, 0 where NULL."""
    if valid is not None:
        data = np.where(valid, data, data.dtype.type(0) if data.dtype != object else 0)
    return fit(data, valid) if data.dtype == object else Values(data.astype(np.int64, copy=False), valid)


def known(values: Values) -> NDArray[np.bool_]:
    """Return where a condition is true."""
    data: NDArray[np.bool_] = values.data if values.valid is None else values.data & values.valid
    return data
