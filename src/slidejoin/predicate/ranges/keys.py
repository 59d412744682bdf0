"""Index keys: one int64 for each row of a side, in the order of the values that a term compares."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.predicate.truth import exact
from slidejoin.predicate.truth.evaluate import ColumnsBySide, evaluate
from slidejoin.predicate.truth.types import Kind
from slidejoin.predicate.truth.values import (
    CALM,
    INT64_MAX,
    INT64_MIN,
    WHOLE,
    Column,
    Values,
    both_valid,
    in_steps,
    load,
)
from slidejoin.rows.arrow_buffers import values_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from slidejoin.predicate.truth.tree import Node
    from slidejoin.predicate.truth.types import Type
    from slidejoin.sides import Side

__all__ = [
    "Absent",
    "Key",
    "Keys",
    "clip",
    "exact_key",
    "is_null",
    "key_values",
    "keys_of_doubles",
    "node_key",
    "plain_keys",
    "squeeze",
    "stepped",
    "stored_keys",
]

_UINT64_REACH = (1 << 64) - 1
_HALF = 1 << 63
SQUEEZED = 1 << 62
"""Numbers nearer to 0 are their own keys."""
_FRACTION, _WORD_DIGITS = 8, 18
"""Digits behind the point that steps keep at least, and digits for which a word has room."""
_FIRST_PLACE, _BITS, _FARTHEST = 62, 55, (1 << 190) - 1


@dataclass(slots=True)
class Keys:
    """Keys of the rows of one side.

    Attributes
    ----------
    values
        int64 (n,), in the order of the compared values.
    valid
        bool (n,), False for rows that match nothing (NULL, NaN); None if all may match.
    exact
        False if a value did not fit and was squeezed, see `squeeze`: then pairs must be rechecked.
    """

    values: NDArray[np.int64]
    valid: NDArray[np.bool_] | None
    exact: bool


class Absent(NamedTuple):
    """Where rows without a value are stored, for comparisons such as ``r.e IS NULL OR l.x <= r.e``.

    Attributes
    ----------
    high : bool
        Whether ranges of this key are open upwards, as those of ``r.e`` are, or downwards, as those of ``l.x``.
    open : bool
        Whether NULL is an open end: it is stored beyond all values, in the ranges of all probes that have a value.
    stored : bool
        Whether a probe whose NULL is an open end matches rows without a value too: these are stored at the other end.
    """

    high: bool
    open: bool
    stored: bool

    @property
    def near(self) -> int:
        """The end to which ranges are open."""
        return INT64_MAX if self.high else INT64_MIN

    @property
    def far(self) -> int:
        """The other end."""
        return INT64_MIN if self.high else INT64_MAX


@dataclass(frozen=True, slots=True)
class Key:
    """The indexed value of a side.

    Attributes
    ----------
    side
        Left or right.
    space
        "exact": an integer combination of unscaled exact values; "float": a double by its order-preserving bits;
        "hash": 64 bits of strings or binary.
    parts
        (factor, node) pairs; a single one with factor 1 unless the space is "exact".
    step
        How many units a key counts: more than one of decimals with so many digits that a word has no room for them,
        see `stepped`.
    absent
        Where rows without a value are stored, if NULL may match; None if it matches nothing. There is a single part
        then, with factor 1.
    """

    side: Side
    space: Literal["exact", "float", "hash"]
    parts: tuple[tuple[int, Node], ...]
    step: int = field(default=1, compare=False)
    absent: Absent | None = None

    @property
    def bias(self) -> int:
        """What is subtracted from the value to make it fit int64: 2**63 for an unsigned 64-bit column, else 0."""
        factor, node = self.parts[0]
        wide = node.op == "column" and node.reach == _UINT64_REACH
        return _HALF if self.space == "exact" and len(self.parts) == 1 and factor == 1 and wide else 0

    @property
    def approximate(self) -> bool:
        """Whether different values can have one key, so that pairs must be rechecked."""
        return self.space == "hash" or any(node.op == "prefix" for _, node in self.parts)

    @property
    def may_squeeze(self) -> bool:
        """Whether there can be values that do not fit int64: then keys are what `squeeze` returns."""
        reach = sum(abs(factor) * node.reach for factor, node in self.parts)
        if self.bias or self.space != "exact":
            return False
        return reach > _HALF or (reach == _HALF and not self._bare)

    @property
    def calm(self) -> bool:
        """Whether all values that are int64 are nearer to 0 than `CALM`, by their type or as they are loaded."""
        reach = sum(abs(factor) * node.reach for factor, node in self.parts)
        return reach <= CALM or (self._bare and self.may_squeeze)

    @property
    def _bare(self) -> bool:
        factor, node = self.parts[0]
        return len(self.parts) == 1 and factor == 1 and node.op == "column"

    @property
    def text(self) -> str:
        """The name in labels."""
        if len(self.parts) == 1 and self.parts[0][0] == 1:
            return self.parts[0][1].text
        words = [f"{'' if abs(factor) == 1 else f'{abs(factor)}*'}{_atom_text(node)}" for factor, node in self.parts]
        signs = ["-" if factor < 0 else "+" for factor, _ in self.parts]
        joined = " ".join(f"{sign} {word}" for sign, word in zip(signs, words, strict=True))
        return joined.removeprefix("+ ")


def _atom_text(node: Node) -> str:
    return node.text if node.op in {"column", "abs", "double", "prefix"} else f"({node.text})"


def exact_key(side: Side, parts: tuple[tuple[int, Node], ...]) -> Key:
    """Return the key of an integer combination."""
    alone = len(parts) == 1 and parts[0][0] == 1 and parts[0][1].op == "column"
    return Key(side, "exact", parts, _step_of(parts[0][1]) if alone else 1)


def _step_of(column: Node) -> int:
    """Return how many units a key of a column counts.

    A word has no room for 10 in units of decimal(38, 18). In steps of 10**10 it has, up to 11 billion with eight digits
    after the point.
    """
    if column.type.kind is not Kind.DECIMAL or column.reach <= _HALF:
        return 1
    before_the_point = len(str(column.reach)) - 1 - column.type.scale
    digits = max(_FRACTION, _WORD_DIGITS - before_the_point)
    return int(10 ** max(column.type.scale - digits, 0))


def node_key(side: Side, space: Literal["float", "hash"], node: Node) -> Key:
    """Return the key of one double, or of one string or binary value."""
    return Key(side, space, ((1, node),))


def key_values(key: Key, source: ColumnsBySide) -> Values:
    """Return the key of each row before it is clipped: exact values, less the bias; or float keys; or hashes.

    NaN counts as not valid.
    """
    node = key.parts[0][1]
    if key.bias:
        return source.biased(node)
    if key.space == "exact":
        return exact.linear([(factor, _integers(part, source)) for factor, part in key.parts])
    if key.space == "hash":
        return source.hashes(node)
    values = evaluate(node, source)
    keys, wrong = keys_of_doubles(values.data)
    return Values(keys, without_nan(values) if wrong else values.valid)


def keys_of_doubles(data: NDArray[np.float64]) -> tuple[NDArray[np.int64], bool]:
    """Return the keys of doubles, (n,) int64, and whether some are NaN, whose keys are undefined."""
    keys = np.empty(data.shape, np.int64)
    return keys, _double_keys()(np.ascontiguousarray(data), keys) > 0


def plain_keys(column: Column, meaning: Type, step: int = 1) -> NDArray[np.int64] | None:
    """Return the keys of a column that is an exact key by itself, (n,) int64; None if NULLs or far ones need more.

    Shares the memory of 64-bit columns in one chunk; others are converted, dates to their midnight.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slidejoin.predicate.truth.types import type_of
    >>> plain_keys(pa.array([1, 2], pa.date32()), type_of(pa.date32())).tolist()
    [86400, 172800]
    """
    if type(column) is pa.ChunkedArray and column.type.id in WHOLE and column.null_count == 0:
        return values_in(column, np.int64)  # in a third of the time, which matters for small pushes
    if step > 1:
        counted = in_steps(column, step)
        return None if counted is None or counted.valid is not None else counted.data
    values = load(column, meaning)
    fits = values.valid is None and values.data.dtype == np.int64
    return np.ascontiguousarray(values.data) if fits else None


@cache
def _double_keys() -> Callable[..., int]:
    from slidejoin.jit.vectors.doubles import double_keys  # noqa: PLC0415 - loads Numba, which planning does not need

    return double_keys


def _with_absent(key: Key, absent: Absent, values: Values, source: ColumnsBySide) -> Keys:
    """Return the keys of stored rows, those without a value among them."""
    data, same = squeeze(values.data) if key.may_squeeze else (values.data, True)
    if values.valid is None:
        return Keys(data, None, same)
    nothing = ~values.valid
    missing = is_null(key, values, source)
    beyond = missing if absent.open and missing is not None else np.zeros_like(nothing)
    far = nothing & ~beyond if absent.stored else np.zeros_like(nothing)
    valid = values.valid | beyond | far
    data = np.where(beyond, absent.near, np.where(far, absent.far, data))
    return Keys(data, None if valid.all() else valid, same)


def is_null(key: Key, values: Values, source: ColumnsBySide) -> NDArray[np.bool_] | None:
    """Return where the key of each row, whose `values` are given, is NULL, which NaN is not; None if nowhere."""
    valid = evaluate(key.parts[0][1], source).valid if key.space == "float" else values.valid
    return None if valid is None or valid.all() else ~valid


def without_nan(values: Values) -> NDArray[np.bool_] | None:
    """Return where doubles are neither NULL nor NaN."""
    wrong = np.isnan(values.data)
    return both_valid(values.valid, ~wrong) if wrong.any() else values.valid


def _integers(node: Node, source: ColumnsBySide) -> Values:
    values = evaluate(node, source)
    if values.data.dtype == np.bool_:
        return Values(values.data.astype(np.int64), values.valid, 0, 1)
    return values


def clip(data: NDArray[np.object_]) -> NDArray[np.int64]:
    """Move Python ints that do not fit to the ends of int64."""
    return np.minimum(np.maximum(data, INT64_MIN), INT64_MAX).astype(np.int64)


def stepped(number: int, step: int) -> int:
    """Return the place of a number among multiples of a step, those in between being odd.

    A multiple has a key of its own, so that ranges between any ends hold just the multiples that they should.

    Examples
    --------
    >>> [stepped(number, 10) for number in (-1, 0, 9, 10, 20)]
    [-1, 0, 1, 2, 4]
    """
    if step == 1:
        return number
    whole, rest = divmod(number, step)
    return 2 * whole + (rest > 0)


def squeeze(data: NDArray[Any], step: int = 1) -> tuple[NDArray[np.int64], bool]:
    """Return integers of any size as int64 that never fall where these rise, and whether each has a key of its own.

    They are counted in steps first, see `stepped`. Numbers nearer to 0 than 2**62 stay. Of others 56 bits count, the
    first of which is 1, and where it is::

        2**62 + (its place - 62) * 2**55 + the other 55 bits

    So the keys of numbers that are far apart differ, and keys are no farther apart than their numbers.

    Examples
    --------
    >>> keys, same = squeeze(np.array([5, -(10**30), 10**30, 10**30 + 10**20], object))
    >>> bool((np.diff(keys[[1, 0, 2, 3]]) > 0).all()), same
    (True, False)
    """
    same = True
    if step > 1:
        places = np.empty(data.size, object)
        places[:] = [stepped(number, step) for number in data.tolist()]
        same, data = not bool((places % 2).any()), places
    far = np.flatnonzero((data >= SQUEEZED) | (data <= -SQUEEZED))
    if not far.size:
        return data.astype(np.int64, copy=False), same
    keys = np.array(data)
    keys[far] = [_squeezed(number) for number in data[far].tolist()]
    return keys.astype(np.int64, copy=False), False


def _squeezed(number: int) -> int:
    size = min(abs(number), _FARTHEST)
    place = size.bit_length() - 1
    key = SQUEEZED + ((place - _FIRST_PLACE - 1) << _BITS) + (size >> (place - _BITS))
    return key if number > 0 else -key


def stored_keys(key: Key, source: ColumnsBySide) -> Keys:
    """Return the keys of stored rows."""
    counted = source.in_steps(key.parts[0][1], key.step) if key.step > 1 and key.absent is None else None
    if counted is not None:
        return Keys(counted.data, counted.valid, exact=True)
    with np.errstate(all="ignore"):
        values = key_values(key, source)
    if key.absent is not None:
        return _with_absent(key, key.absent, values, source)
    if key.may_squeeze:
        keys, same = squeeze(values.data, key.step)
        return Keys(keys, values.valid, exact=same)
    return Keys(values.data, values.valid, exact=True)
