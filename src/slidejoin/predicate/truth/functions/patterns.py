"""LIKE and the other tests of a string against a pattern, which may differ from row to row."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import PredicateError
from slidejoin.predicate.truth.functions.common import Function, Typed, refuse, rows_of_all, text_of
from slidejoin.predicate.truth.tree import BOOLEAN
from slidejoin.predicate.truth.types import Kind
from slidejoin.predicate.truth.values import Values, across, both_valid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from slidejoin.predicate.truth.tree import Node

__all__ = ["PATTERNS", "against_each", "check_strings", "place_in"]

_NEVER = r"[^\x00-\x{10FFFF}]"
"""What no string matches: a pattern that ends with its escape character."""


def check_strings(args: Sequence[Node], text: str) -> None:
    """Raise PredicateError unless all operands are strings."""
    for arg in args:
        if arg.type.kind is not Kind.STRING:
            raise refuse(text, arg, "strings; write CAST(x AS VARCHAR)")


@lru_cache(maxsize=4096)
def _regular(pattern: str, escape: str) -> str:
    """Return the regular expression of a LIKE pattern."""
    pieces, letters = [], iter(pattern)
    for letter in letters:
        if letter == escape:
            following = next(letters, None)
            if following is None:
                return _NEVER
            pieces.append(_quoted(following))
        else:
            pieces.append({"%": ".*", "_": "."}.get(letter) or _quoted(letter))
    return rf"(?s)\A{''.join(pieces)}\z"


def _quoted(letter: str) -> str:
    """Return a letter as a regular expression of RE2, which takes a backslash before ASCII signs only."""
    if letter.isalnum() or letter == "_" or ord(letter) > 127:  # noqa: PLR2004 - the end of ASCII
        return letter
    return f"\\x{ord(letter):02x}"


def against_each(
    strings: Any,  # noqa: ANN401 - see `with_nulls`
    patterns: Any,  # noqa: ANN401 - see `with_nulls`
    test: Callable[[Any, str], Any],
    dtype: type[Any] = np.bool_,
) -> NDArray[Any]:
    """Return ``test(strings, pattern)`` row by row, calling `test` once for each different pattern.

    Parameters
    ----------
    strings, patterns
        Arrays of strings, (n,) or (1,).
    test
        Takes an array of strings and one pattern; returns an array of as many results.
    dtype
        Of the results; 0 where either is NULL.
    """
    n = next((length for length in (len(strings), len(patterns)) if length != 1), 1)
    if len(patterns) == 1:
        matches = (
            np.zeros(len(strings), dtype)
            if patterns[0].as_py() is None
            else _filled(test(strings, patterns[0].as_py()), dtype)
        )
        return across(matches, (n,))
    if len(strings) == 1:
        strings = pa.repeat(strings[0], n)
    encoded = patterns.dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    places = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[places], np.arange(len(encoded.dictionary) + 1))
    result = np.zeros(n, dtype)
    for number, pattern in enumerate(encoded.dictionary.to_pylist()):
        rows = places[ends[number] : ends[number + 1]]
        result[rows] = _filled(test(strings.take(pa.array(rows)), pattern), dtype)
    return result


def _filled(result: Any, dtype: type[Any]) -> NDArray[Any]:  # noqa: ANN401 - what Arrow's functions return
    if isinstance(result, np.ndarray):
        return result
    filled: NDArray[Any] = result.fill_null(False if dtype is np.bool_ else 0).to_numpy(zero_copy_only=False)
    return filled.astype(dtype, copy=False)


def _test(test: Callable[[Any, str], Any]) -> Function:
    def check(args: Sequence[Node], text: str) -> Typed:
        check_strings(args, text)
        return Typed(BOOLEAN, tuple(args))

    def compute(_node: Node, values: Sequence[Values]) -> Values:
        data = against_each(text_of(values[0]), text_of(values[1]), test)
        return _result(data, values)

    return Function(check, compute)


def _result(data: NDArray[Any], values: Sequence[Values]) -> Values:
    valid = both_valid(values[0].valid, values[1].valid)
    n = rows_of_all(values[:2])
    return Values(across(data, (n,)), None if valid is None else across(valid, (n,)))


def _check_like(args: Sequence[Node], text: str) -> Typed:
    check_strings(args, text)
    escape = args[2].value if len(args) > 2 else b""  # noqa: PLR2004 - the third, if given
    if not isinstance(escape, bytes) or len(escape.decode()) > 1:
        raise PredicateError(f"cannot use {args[2].text} in {text}: ESCAPE takes a constant of one character")
    pattern = args[1].value
    if isinstance(pattern, bytes) and _regular(pattern.decode(), escape.decode()) == _NEVER:
        raise PredicateError(f"the pattern {args[1].text} in {text} ends with its escape character; write it twice")
    return Typed(BOOLEAN, tuple(args))


def _like(*, fold: bool) -> Function:
    def compute(_node: Node, values: Sequence[Values]) -> Values:
        escape = values[2].data[0].as_py().decode() if len(values) > 2 else ""  # noqa: PLR2004 - see above
        strings, patterns = text_of(values[0]), text_of(values[1])
        if fold:
            strings, patterns = pc.utf8_lower(strings), pc.utf8_lower(patterns)
            escape = escape.lower()

        def test(some: Any, pattern: str) -> Any:  # noqa: ANN401 - Arrow's arrays
            inside = pattern.strip("%")
            if not inside or (escape and escape in pattern) or "%" in inside or "_" in inside:
                return pc.match_substring_regex(some, _regular(pattern, escape))
            begins, ends = not pattern.startswith("%"), not pattern.endswith("%")
            if begins and ends:
                return pc.equal(some, pa.scalar(pattern, pa.large_string()))
            if begins or ends:
                return (pc.starts_with if begins else pc.ends_with)(some, inside)
            return pc.match_substring(some, inside)

        return _result(against_each(strings, patterns, test), values)

    return Function(_check_like, compute)


def place_in(strings: Any, wanted: str) -> NDArray[np.int64]:  # noqa: ANN401 - Arrow's arrays
    """Where a string first has another one in it, in characters from 1; 0 if it has not."""
    places = pc.find_substring(strings, wanted).fill_null(-1)
    at: NDArray[np.int64] = places.to_numpy(zero_copy_only=False).astype(np.int64) + 1
    # Arrow counts bytes.
    wide = pc.not_equal(pc.binary_length(strings), pc.utf8_length(strings)).fill_null(False)  # noqa: FBT003
    rows = np.flatnonzero((at > 1) & wide.to_numpy(zero_copy_only=False))
    at[rows] = [text.find(wanted) + 1 for text in strings.take(pa.array(rows)).to_pylist()]
    return at


PATTERNS: dict[str, Function] = {
    "like": _like(fold=False),
    "ilike": _like(fold=True),
    "starts_with": _test(pc.starts_with),
    "ends_with": _test(pc.ends_with),
    "contains": _test(pc.match_substring),
}
"""Tests of strings."""
