"""Functions of strings: letters, pieces, lengths, and strings put together. Characters are Unicode code points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.predicate.truth.functions.casts import to_varchar
from slidejoin.predicate.truth.functions.common import (
    COUNT_REACH,
    Function,
    Typed,
    constant_integer,
    exact_values,
    of_bytes,
    of_text,
    refuse,
    rows_of_all,
    side_by_side,
    spread,
    text_of,
    with_nulls,
)
from slidejoin.predicate.truth.functions.patterns import against_each, check_strings, place_in
from slidejoin.predicate.truth.types import BYTES, Kind, Type
from slidejoin.predicate.truth.values import Values, across, both_valid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slidejoin.predicate.truth.tree import Node

__all__ = ["OF_STRINGS"]

SPACES = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""What is cut off unless characters are named: Unicode's space separators; neither tabs nor line ends."""

_STRING, _COUNT = Type(Kind.STRING), Type(Kind.INT)


def _check(args: Sequence[Node], text: str) -> Typed:
    check_strings(args[:1], text)
    return Typed(_STRING, tuple(args))


def _plain(function: Callable[[Any], Any]) -> Function:
    return Function(_check, lambda _node, values: of_text(function(text_of(values[0]))))


def _trimmed(function: Callable[..., Any]) -> Function:
    def check(args: Sequence[Node], text: str) -> Typed:
        check_strings(args, text)
        for arg in args[1:]:
            _constant(arg, text)
        return Typed(_STRING, tuple(args))

    def compute(_node: Node, values: Sequence[Values]) -> Values:
        letters = values[1].data[0].as_py().decode() if len(values) > 1 else SPACES
        return of_text(function(text_of(values[0]), characters=letters)) if letters else values[0]

    return Function(check, compute)


def _constant(arg: Node, text: str) -> None:
    if not isinstance(arg.value, bytes):
        raise refuse(text, arg, "a constant there; compute others into a column of the stream first")


def _check_length(args: Sequence[Node], text: str) -> Typed:
    if args[0].type.kind not in BYTES:
        raise refuse(text, args[0], "a string or binary")
    return Typed(_COUNT, tuple(args), COUNT_REACH)


def _length(node: Node, values: Sequence[Values]) -> Values:
    if node.value == "length" and node.args[0].type.kind is Kind.STRING:
        return _counts(pc.utf8_length(text_of(values[0])), values[0])
    return _counts(pc.binary_length(values[0].data), values[0])


def _counts(result: Any, of: Values) -> Values:  # noqa: ANN401 - what Arrow's functions return
    return exact_values(result.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), of.valid)


def _check_piece(args: Sequence[Node], text: str) -> Typed:
    check_strings(args[:1], text)
    constant_integer(args[1], text)
    for length in args[2:]:
        constant_integer(length, text, 0)
    return Typed(_STRING, tuple(args))


def _piece(name: str, first: int, length: int | None) -> tuple[int, int | None]:
    """Return where a piece begins and ends, as Python's slices count."""
    if name == "left":
        return 0, first
    if name == "right":
        # Of a negative number, all but so many of the first.
        return (-first, None) if first else (0, 0)
    if first > 0:
        return first - 1, None if length is None else first - 1 + length
    if first == 0:  # the place before the first character, which counts as one
        return 0, None if length is None else max(length - 1, 0)
    end = None if length is None or first + length >= 0 else first + length
    return first, end


def _slice(node: Node, values: Sequence[Values]) -> Values:
    first, *length = (int(value.data[0]) for value in values[1:])
    start, stop = _piece(str(node.value), first, length[0] if length else None)
    return of_text(pc.utf8_slice_codeunits(text_of(values[0]), start=start, stop=stop))


def _check_replace(args: Sequence[Node], text: str) -> Typed:
    check_strings(args, text)
    for arg in args[1:]:
        _constant(arg, text)
    return Typed(_STRING, tuple(args))


def _replace(_node: Node, values: Sequence[Values]) -> Values:
    pattern, new = (value.data[0].as_py().decode() for value in values[1:])
    if not pattern:
        return values[0]
    return of_text(pc.replace_substring(text_of(values[0]), pattern=pattern, replacement=new))


def _check_place(args: Sequence[Node], text: str) -> Typed:
    check_strings(args, text)
    return Typed(_COUNT, tuple(args), COUNT_REACH)


def _find(_node: Node, values: Sequence[Values]) -> Values:
    places = against_each(text_of(values[0]), text_of(values[1]), place_in, np.int64)
    valid = both_valid(values[0].valid, values[1].valid)
    return exact_values(places, None if valid is None else across(valid, places.shape))


def _check_joined(args: Sequence[Node], text: str) -> Typed:
    if {arg.type.kind for arg in args if not arg.is_null} == {Kind.BINARY}:
        return Typed(Type(Kind.BINARY), tuple(args))
    return Typed(_STRING, tuple(arg if arg.is_null else to_varchar(arg, text) for arg in args))


def _joined(node: Node, values: Sequence[Values]) -> Values:
    parts = [values_ for arg, values_ in zip(node.args, values, strict=True) if not arg.is_null]
    if not parts:
        return Values(pa.array([b""], pa.large_binary()))
    n = rows_of_all(parts)
    arrays = [spread(with_nulls(part), n) for part in parts]
    if all(isinstance(array, pa.Scalar) for array in arrays):
        arrays[0] = pa.repeat(arrays[0], n)
    return of_bytes(side_by_side(arrays, nulls=node.value == "||"))


OF_STRINGS: dict[str, Function] = {
    "lower": _plain(pc.utf8_lower),
    "upper": _plain(pc.utf8_upper),
    "trim": _trimmed(pc.utf8_trim),
    "ltrim": _trimmed(pc.utf8_ltrim),
    "rtrim": _trimmed(pc.utf8_rtrim),
    "length": Function(_check_length, _length),
    "octet_length": Function(_check_length, _length),
    "substr": Function(_check_piece, _slice),
    "left": Function(_check_piece, _slice),
    "right": Function(_check_piece, _slice),
    "replace": Function(_check_replace, _replace),
    "strpos": Function(_check_place, _find),
    "||": Function(_check_joined, _joined),
    "concat": Function(_check_joined, _joined),
}
