"""Lists compared as wholes: each becomes bytes, the same ones for equal lists of two types that compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.predicate.truth import exact, floats
from slidejoin.predicate.truth.functions.common import (
    Function,
    Typed,
    common_type,
    converted,
    rows_of_all,
    side_by_side,
)
from slidejoin.predicate.truth.tree import Node
from slidejoin.predicate.truth.types import BYTES, Kind, Type
from slidejoin.predicate.truth.values import Values, load, validity
from slidejoin.rows.arrow_buffers import from_buffer
from slidejoin.rows.held_types import as_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["LISTS", "encoded", "encoding", "same_elements"]

_NULL, _WORD, _LONG, _BYTES, _LONGEST = range(5)
"""What the bytes of an element begin with: NULL, a number of 64 bits, a longer one, bytes with their length, or one
of the numbers that decimals of far apart scales have in common units."""
_SIZES = {_WORD: 8, _LONG: 32, _LONGEST: 160}
_WORD_SIZE = _SIZES[_WORD]


def same_elements(one: Type, two: Type) -> Type:
    """Return the type in which the elements of two lists that compare are the same."""
    if one.kind is Kind.LIST and two.kind is Kind.LIST and one.element and two.element:
        return Type(Kind.LIST, 0, same_elements(one.element, two.element))
    return Type(one.kind if two.kind is Kind.NULL else two.kind, max(one.scale, two.scale))


def encoding(arg: Node, element: Type) -> Node:
    """Return the node of a list's bytes, its elements taken as of type `element`."""
    return Node("encoded", Type(Kind.BINARY), (arg,), element, sides=arg.sides, text=arg.text)


def encoded(node: Node, values: Values) -> Values:
    """Return the bytes of lists: of a column's, or of those that an expression lists."""
    element = node.value
    assert isinstance(element, Type)  # noqa: S101 - see `encoding`
    of = node.args[0].type.element or Type(Kind.NULL)
    if isinstance(values.data, _Listed):
        return values.data.encode(of, element)
    made, valid = _of_array(values.data, of, element), values.valid
    return Values(made if valid is None else pc.if_else(pa.array(valid), made, pa.scalar(None, made.type)), valid)


class _Listed:
    """Lists that an expression makes: the i-th values of each of `parts`."""

    def __init__(self, parts: Sequence[Values]) -> None:
        self._parts = parts
        self._n = rows_of_all(parts)

    def __len__(self) -> int:
        return self._n

    def encode(self, of: Type, to: Type) -> Values:
        arrays = [_elements(part, of, to) for part in self._parts]
        arrays = [pa.repeat(array[0], self._n) if len(array) == 1 != self._n else array for array in arrays]
        if not arrays:
            return Values(pa.array([b""], pa.large_binary()))
        return Values(side_by_side(arrays, nulls=True))


def _of_array(array: Any, of: Type, to: Type) -> pa.Array[Any]:  # noqa: ANN401 - see `with_nulls`
    """Return the bytes of each list of an array, anything where it is NULL."""
    whole = pa.large_list(array.type.value_type)
    # Arrow has no cast of lists of one size that keeps NULLs apart from their elements.
    padded = pa.types.is_fixed_size_list(array.type) and array.null_count
    lists: Any = pa.array(array.to_pylist(), whole) if padded else array.cast(whole)
    ends = lists.offsets.to_numpy()
    elements = lists.values.slice(int(ends[0]), int(ends[-1] - ends[0]))
    inner = Values(as_lists(elements), validity(elements)) if of.kind is Kind.LIST else load(elements, of)
    made = _elements(inner, of, to)
    places = (
        from_buffer(made.buffers()[1], np.int64, len(made) + 1, made.offset * 8) if len(made) else np.zeros(1, np.int64)
    )
    offsets = np.ascontiguousarray(places[ends - ends[0]])
    return pa.Array.from_buffers(pa.large_binary(), len(lists), [None, _buffer(offsets), made.buffers()[2]])


def _elements(values: Values, of: Type, to: Type) -> pa.Array[Any]:
    """Return the bytes of each element, large binary without NULLs; none begins like another."""
    n = len(values.data)
    if to.kind is Kind.LIST:
        part = to.element or Type(Kind.NULL)
        return _framed(_of_array(values.data, of.element or part, part), values.valid)
    if to.kind in BYTES and of.kind in BYTES:
        return _framed(values.data, values.valid)
    words = _words(values, of, to)
    if words is None or n == 0:
        return pa.array([_long(number, known) for number, known in _numbers(values, of, to)], pa.large_binary())
    cells = np.empty((n, 1 + _WORD_SIZE), np.uint8)
    cells[:, 0] = _WORD
    cells[:, 1:] = np.ascontiguousarray(words).view(np.uint8).reshape(n, _WORD_SIZE)
    if values.valid is not None:
        cells[~values.valid] = _NULL
    return _fixed(cells)


def _words(values: Values, of: Type, to: Type) -> NDArray[np.int64] | None:
    """Return elements as 64-bit integers; None if they do not fit."""
    if of.kind is Kind.NULL:
        return np.zeros(len(values.data), np.int64)
    if to.kind is Kind.FLOAT:
        keys: NDArray[np.int64] = np.where(
            np.isnan(values.data), np.int64(np.iinfo(np.int64).max), floats.float_keys(values.data)
        )
        return keys
    if values.data.dtype == np.bool_:
        whole: NDArray[np.int64] = values.data.astype(np.int64)
        return whole
    wide: NDArray[Any] = exact.rescale(values, to.scale - of.scale).data
    return None if wide.dtype == object else wide


def _numbers(values: Values, of: Type, to: Type) -> list[tuple[int, bool]]:
    factor = 10 ** (to.scale - of.scale)
    valid = np.ones(len(values.data), np.bool_) if values.valid is None else values.valid
    return [(int(number) * factor, bool(known)) for number, known in zip(values.data.tolist(), valid, strict=True)]


def _long(number: int, known: bool) -> bytes:
    """Return what `_elements` writes for a number, if need be a longer one."""
    if not known:
        return bytes([_NULL] * (1 + _WORD_SIZE))
    kind = next(kind for kind, size in _SIZES.items() if abs(number) < 1 << 8 * size - 1 or number == -(1 << 63))
    return bytes([kind]) + number.to_bytes(_SIZES[kind], "little", signed=True)


def _framed(array: Any, valid: NDArray[np.bool_] | None) -> pa.Array[Any]:  # noqa: ANN401 - see `with_nulls`
    """Return binary values with their lengths before them."""
    n = len(array)
    heads = np.empty((n, 1 + _WORD_SIZE), np.uint8)
    heads[:, 0] = _BYTES
    lengths = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype("<i8")
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
        heads[~valid, 0] = _NULL
    heads[:, 1:] = np.ascontiguousarray(lengths).view(np.uint8).reshape(n, _WORD_SIZE)
    body = array if valid is None else pc.if_else(pa.array(valid), array, pa.scalar(b"", array.type))
    made: pa.Array[Any] = side_by_side([_fixed(heads), body], nulls=True)
    return made


def _buffer(numbers: NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(np.ascontiguousarray(numbers).data)


def _fixed(cells: NDArray[np.uint8]) -> pa.Array[Any]:
    """Return the rows of an array of bytes, (n, k), as large binary."""
    n, size = cells.shape
    offsets = np.arange(n + 1, dtype=np.int64) * size
    return pa.Array.from_buffers(pa.large_binary(), n, [None, _buffer(offsets), _buffer(cells)])


def _check(args: Sequence[Node], text: str) -> Typed:
    element = common_type(args, text)
    made, _ = converted(args, element)
    return Typed(Type(Kind.LIST, 0, element), made)


def _list(_node: Node, values: Sequence[Values]) -> Values:
    return Values(_Listed(values))


LISTS: dict[str, Function] = {"list": Function(_check, _list)}
