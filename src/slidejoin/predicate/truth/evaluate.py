"""Vectorised evaluation of typed trees over whole columns, in SQL's three-valued logic.

Constants are values of shape (1,), which broadcast. NULL and NaN make a comparison unknown.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from slidejoin.predicate.truth import exact, floats
from slidejoin.predicate.truth.functions import compute_call, encoded
from slidejoin.predicate.truth.functions.casts import compute_cast
from slidejoin.predicate.truth.functions.common import rows_of_all, spread
from slidejoin.predicate.truth.hashes import hash_values, hashed
from slidejoin.predicate.truth.members import MemberSet, evaluate_member
from slidejoin.predicate.truth.orders import PREFIX_REACH, codes, prefixes
from slidejoin.predicate.truth.tree import COMPARATORS, Node, column_of
from slidejoin.predicate.truth.types import BYTES, Kind, Type
from slidejoin.predicate.truth.values import (
    Column,
    Values,
    across,
    aligned,
    both_valid,
    in_steps,
    literal_values,
    load,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from slidejoin.sides import Side

__all__ = ["ColumnsBySide", "evaluate", "truth"]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARE_BYTES: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_FLOAT_ARITHMETIC = frozenset("+-*/")


class ColumnsBySide:
    """The columns of one evaluation, loaded once each when first needed."""

    __slots__ = ("_columns", "_loaded")

    def __init__(self, columns: Mapping[Side, Mapping[str, Column]]) -> None:
        self._columns = columns
        self._loaded: dict[tuple[Side, str], Values] = {}

    def column(self, node: Node) -> Values:
        """Return the values of a column node."""
        side, name = key = column_of(node)
        values = self._loaded.get(key)
        if values is None:
            values = self._loaded[key] = values_of(self._columns[side], name, node.type)
        return values

    def biased(self, node: Node) -> Values:
        """Return an unsigned 64-bit column as ``value - 2**63``."""
        side, name = column_of(node)
        return load(self._columns[side][name], node.type, biased=True)

    def in_steps(self, node: Node, step: int) -> Values | None:
        """Return a column of decimals counted in steps, see `values.in_steps`."""
        side, name = column_of(node)
        return in_steps(self._columns[side][name], step)

    def hashes(self, node: Node) -> Values:
        """Return 64-bit hashes of strings or binary, or the codes of any values, as int64."""
        if node.op == "column":
            side, name = column_of(node)
            return hashed(self._columns[side][name])
        if node.op == "codes":
            arg, to = node.args[0], node.value
            assert isinstance(to, Type)  # noqa: S101 - see the making of the node
            of_bytes = arg.type.kind in BYTES
            return Values(codes(self.hashes(arg) if of_bytes else evaluate(arg, self), arg.type, to))
        values = evaluate(node, self)
        return Values(hash_values(values.data), values.valid)


def truth(node: Node, source: ColumnsBySide, n: int) -> NDArray[np.bool_]:
    """Return where a boolean node is true (neither false nor unknown), shape (n,)."""
    with np.errstate(all="ignore"):
        values = evaluate(node, source)
    known = values.data if values.valid is None else values.data & values.valid
    return across(known, (n,))


def evaluate(node: Node, source: ColumnsBySide) -> Values:
    """Return the values of a node; shape (1,) or that of the columns."""
    return source.column(node) if node.op == "column" else aligned(_computed(node, source))


def _computed(node: Node, source: ColumnsBySide) -> Values:  # noqa: PLR0911  one line for each kind of node
    if node.op == "literal":
        return literal_values(node.value, node.type.kind)
    if node.op in {"and", "or"}:
        return _connect(node, source)
    args = [evaluate(arg, source) for arg in node.args]
    if node.op in COMPARATORS:
        return _compare(node, *args)
    if node.op in _OF_ONE_NODE:
        return _OF_ONE_NODE[node.op](node, args)
    if node.op == "not":
        return Values(~args[0].data, args[0].valid)
    if node.op == "isnull":
        valid = args[0].valid
        return Values(np.zeros(len(args[0].data), np.bool_) if valid is None else ~valid)
    if node.op == "double":
        return Values(floats.to_float(args[0], node.args[0].type.scale), args[0].valid)
    if len(args) == 1:
        return _unary(node, args[0])
    return _arithmetic(node, *args)


_OF_ONE_NODE: dict[str, Callable[[Node, list[Values]], Values]] = {
    "same": lambda node, args: _same(node, *args),
    "call": compute_call,
    "member": lambda node, args: _member(node, args[0]),
    "cast": compute_cast,
    "encoded": lambda node, args: encoded(node, args[0]),
    "rescale": lambda node, args: exact.rescale(args[0], node.type.scale - node.args[0].type.scale),
    "prefix": lambda _, args: Values(prefixes(args[0].data), args[0].valid, -PREFIX_REACH, PREFIX_REACH),
}


def _member(node: Node, arg: Values) -> Values:
    assert isinstance(node.value, MemberSet)  # noqa: S101 - see the making of the node
    return evaluate_member(node.value, node.args[0].type.kind, arg)


def _connect(node: Node, source: ColumnsBySide) -> Values:
    """AND and OR: a part that decides (false, true) wins over unknown."""
    decides = node.op == "or"
    decided: Any = np.zeros(1, np.bool_)
    unknown: Any = None
    for arg in node.args:
        values = evaluate(arg, source)
        says = values.data if decides else ~values.data
        if values.valid is not None:
            says = says & values.valid
            unknown = ~values.valid if unknown is None else unknown | ~values.valid
        decided = decided | says
    valid = None if unknown is None else decided | ~unknown
    return Values(decided if decides else ~decided, valid)


def _unary(node: Node, arg: Values) -> Values:
    if node.type.kind is Kind.FLOAT:
        return Values(-arg.data if node.op == "negate" else np.abs(arg.data), arg.valid)
    return exact.negate(arg) if node.op == "negate" else exact.absolute(arg)


def _arithmetic(node: Node, one: Values, two: Values) -> Values:
    first, second = node.args
    if node.type.kind is Kind.FLOAT and node.op in _FLOAT_ARITHMETIC:
        data = floats.mixed(node.op, one, two, first_exact=first.type.exact, second_exact=second.type.exact)
        return Values(data, both_valid(one.valid, two.valid))
    if node.type.kind is Kind.FLOAT:
        doubles = [
            floats.to_float(values, arg.type.scale) if arg.type.exact else values.data
            for values, arg in ((one, first), (two, second))
        ]
        return Values(np.fmod(*doubles), both_valid(one.valid, two.valid))
    if node.op == "*":
        return exact.times(one, two)
    if node.op == "//":
        return exact.quotient(one, two)
    one = exact.rescale(one, node.type.scale - first.type.scale)
    two = exact.rescale(two, node.type.scale - second.type.scale)
    if node.op == "%":
        return exact.remainder(one, two)
    return exact.plus_minus(one, two, minus=node.op == "-")


def _compare(node: Node, one: Values, two: Values) -> Values:
    first, second = (arg.type for arg in node.args)
    valid = both_valid(one.valid, two.valid)
    compare = _COMPARE[node.op]
    kinds = {first.kind, second.kind}
    if kinds & {Kind.STRING, Kind.BINARY}:
        return Values(_compare_bytes(node.op, one, two), valid)
    if Kind.FLOAT not in kinds:
        scale = max(first.scale, second.scale)
        one, two = exact.rescale(one, scale - first.scale), exact.rescale(two, scale - second.scale)
        return Values(exact.compare(compare, one, two), valid)
    for values, meaning in ((one, first), (two, second)):
        if meaning.kind is Kind.FLOAT:
            wrong = np.isnan(values.data)
            if wrong.any():
                valid = both_valid(valid, ~wrong)
    if first.kind is second.kind:
        return Values(compare(one.data, two.data), valid)
    swap = first.kind is Kind.FLOAT
    less, equal = floats.order(two, one.data) if swap else floats.order(one, two.data)
    # the comparator applied to the sign of the difference: -1, 0 or 1
    sign = np.where(equal, 0, np.where(less != swap, -1, 1))
    return Values(compare(sign, 0), valid)


def _compare_bytes(op: str, one: Values, two: Values) -> NDArray[np.bool_]:
    """Compare large-binary arrays, or an array and a constant of length 1, by their bytes; NULL anyhow."""
    n = rows_of_all([one, two])
    left, right = spread(one.data, n), spread(two.data, n)
    result = pc.fill_null(_COMPARE_BYTES[op](left, right), False)  # noqa: FBT003  Arrow's signature
    bools: NDArray[np.bool_] = result.to_numpy(zero_copy_only=False)
    return bools


def _same(node: Node, one: Values, two: Values) -> Values:
    """IS NOT DISTINCT FROM: NULL is NULL, NaN is NaN, and nothing is unknown."""
    equal = _compare(Node("=", node.type, node.args), one, two)
    same = equal.data if equal.valid is None else equal.data & equal.valid
    if one.valid is not None and two.valid is not None:
        same = same | ~(one.valid | two.valid)
    if all(arg.type.kind is Kind.FLOAT for arg in node.args):
        nan = np.isnan(one.data) & np.isnan(two.data)
        valid = both_valid(one.valid, two.valid)
        same = same | (nan if valid is None else nan & valid)
    return Values(same)
