"""Every type beside every other, in every shape of expression: the law's pairs, or a refusal at construction."""

from __future__ import annotations

from datetime import time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import slidejoin as sj
from tests.extremes import Extreme, near, plain_type, reach_of, table_of, unit_of
from tests.law.checks import assert_whoever_probes
from tests.oracle import COMPARATORS, DAY_NS
from tests.predicate.pairs import holding
from tests.strategies import BINARIES, FLOATS, INTEGERS, TEXTS

Node = tuple[Any, ...]

# --------------------------------------------------------------------------------------------------------------------
# Types and their rows

KINDS: dict[str, list[pa.DataType]] = {
    "integer": [*INTEGERS, pa.dictionary(pa.int8(), pa.int64())],
    "float": [pa.float16(), *FLOATS, pa.dictionary(pa.int8(), pa.float64())],
    "decimal": [
        *(pa.decimal32(5, 2), pa.decimal64(18, 0), pa.decimal128(18, 6), pa.decimal128(3, -2), pa.decimal256(18, 18))
    ],
    "naive": [*(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")), pa.date32(), pa.date64()],
    "zoned": [pa.timestamp("s", "UTC"), pa.timestamp("us", "Asia/Kolkata"), pa.timestamp("ns", "UTC")],
    "span": [pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns")],
    "clock": [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    "bool": [pa.bool_(), pa.dictionary(pa.int8(), pa.bool_())],
    "text": list(TEXTS),
    "bytes": [*BINARIES, pa.binary_view()],
}  # fmt: skip
NUMBERS = ("integer", "float", "decimal")
CONSTANTS: dict[str, Any] = {
    "integer": 2,
    "float": 0.5,
    "decimal": Decimal("0.01"),
    "naive": timedelta(seconds=1),
    "zoned": timedelta(microseconds=1),
    "span": timedelta(seconds=-1),
    "clock": time(0, 0, 1),
    "bool": True,
    "text": "a",
    "bytes": b"a",
}
"""Added to columns of a kind or compared with them: a duration for points in time, else a value of that kind."""

COLUMNS = {
    "x": ("col", "left", "x"),
    "y": ("col", "right", "x"),
    "flag of x": ("col", "left", "flag"),
    "flag of y": ("col", "right", "flag"),
}


def samples(kind: pa.DataType) -> list[Any]:
    """NULL, small values that other types have too, and the ends of the type."""
    plain = plain_type(kind)
    if kind in TEXTS or kind in BINARIES:
        return [*(TEXTS | BINARIES)[kind][:3], None]
    if pa.types.is_binary_view(kind):
        return [b"", b"a", None]
    if pa.types.is_boolean(plain):
        return [False, True, None]
    if pa.types.is_floating(plain):
        return [-0.0, 1.0, 2.5, float("inf"), float("nan"), *near(plain, 2**53, 0), None]
    one = DAY_NS if pa.types.is_date(plain) else 10**9 if hasattr(plain, "unit") else 1
    ends = [bound * unit_of(plain) for bound in reach_of(plain)]
    return [raw for content in (0, one, 2 * one, *ends) for raw in near(plain, content, 0)[:1]] + [None]


def rows_of(kind: pa.DataType) -> pa.Table:
    """Those values beside flags."""
    rows = [{"x": raw, "flag": (True, False, None)[i % 3]} for i, raw in enumerate(samples(kind))]
    return table_of({"x": kind, "flag": pa.bool_()}, rows)


# --------------------------------------------------------------------------------------------------------------------
# Shapes: "x" and "y" stand for the columns, "op" for a comparator, "c" for a constant

ONE, TWO, ZERO, NULL = (("lit", value) for value in (1, 2, 0, None))
NOTHING = ("-", TWO, TWO)
SHAPES: dict[str, Node] = {
    "columns": ("op", "x", "y"),
    "turned": ("op", "y", "x"),
    # sums
    "moved": ("op", ("+", "x", "c"), "y"),
    "moved, other side": ("op", "x", ("-", "y", "c")),
    "constant first": ("op", ("+", "c", "x"), "y"),
    "constant minus": ("op", ("-", "c", "x"), "y"),
    "band": ("between", "x", ("-", "y", "c"), ("+", "y", "c")),
    "difference": ("op", ("-", "x", "y"), "c"),
    "sum": ("op", ("+", "x", "y"), "c"),
    "difference of differences": ("op", ("-", "x", "y"), ("-", "y", "x")),
    "distance": ("op", ("abs", ("-", "x", "y")), "c"),
    "distance beside a column": ("op", ("+", ("abs", ("-", "x", "y")), "x"), "y"),
    "one column and the sum": ("op", "x", ("+", "x", "y")),
    # signs and factors
    "negative": ("op", ("neg", "x"), "y"),
    "two negatives": ("op", ("neg", "x"), ("neg", "y")),
    "magnitude": ("op", ("abs", "x"), "y"),
    "double": ("op", ("double", "x"), "y"),
    "two doubles": ("op", ("double", "x"), ("+", ("double", "y"), "c")),
    "twice": ("op", ("*", "x", TWO), "y"),
    "minus three times": ("op", ("*", ("lit", -3), "x"), ("*", TWO, "y")),
    "half": ("op", ("*", "x", ("lit", 0.5)), "y"),
    "no times": ("op", ("*", "x", ZERO), "y"),
    "product": ("op", ("*", "x", "y"), "c"),
    "square": ("op", ("*", "x", "x"), "y"),
    "quotient": ("op", ("/", "x", TWO), "y"),
    "quotient of columns": ("op", ("/", "x", "y"), "c"),
    "divided constant": ("op", ("/", TWO, "x"), "y"),
    "divided by zero": ("op", ("/", "x", ZERO), "y"),
    "remainder": ("op", ("%", "x", ("lit", -2)), "y"),
    "remainder of columns": ("op", ("%", "x", "y"), "c"),
    "remainder of zero": ("op", ("%", "x", ZERO), "y"),
    # what cancels
    "column against nothing": ("op", "x", ("-", "y", "y")),
    "nothing against column": ("op", ("-", "x", "x"), "y"),
    "nothing against nothing": ("op", ("-", "x", "x"), ("-", "y", "y")),
    "nothing added": ("op", ("+", "x", ("-", "y", "y")), "y"),
    "nothing added to both": ("op", ("+", "x", ("-", "x", "x")), ("+", "y", ("-", "y", "y"))),
    "magnitude of nothing": ("op", ("abs", ("-", "x", "x")), "y"),
    "twice nothing": ("op", ("*", TWO, ("-", "x", "x")), "y"),
    "distance of one": ("op", ("abs", ("-", ("+", "x", "y"), "y")), "x"),
    "a side that cancels": ("op", ("-", ("+", "x", "y"), "x"), "y"),
    # constants
    "folded away": ("op", ("+", "x", ("*", "c", NOTHING)), "y"),
    "folded to infinity": ("op", "x", ("+", "y", ("/", ONE, ZERO))),
    "difference to infinity": ("op", ("-", "x", "y"), ("/", ONE, ZERO)),
    "folded to NaN": ("op", "x", ("+", "y", ("/", ZERO, ZERO))),
    "folded to NULL": ("op", "x", ("+", "y", ("%", ONE, ZERO))),
    "column against NULL": ("or", ("op", "x", NULL), ("op", "x", "y")),
    "constants that hold": ("and", ("=", ONE, ONE), ("op", "x", "y")),
    "constants that do not": ("or", ("<", TWO, ONE), ("op", "x", "y")),
    "constants that never hold": ("and", ("<>", ONE, ("lit", 1.0)), ("op", "x", "y")),
    "unknown beside": ("or", NULL, ("op", "x", "y")),
    # one side alone
    "one side": ("op", "x", "c"),
    "one side of time": ("op", "x", ("+", "c", "x")),
    "one side against itself": ("and", ("op", "y", "y"), ("or", ("isnull", "x"), ("not", ("isnull", "y")))),
    "one side and both": ("and", ("op", "c", "x"), ("op", "x", "y")),
    "one side or both": ("or", ("op", "y", "c"), ("op", "x", "y")),
    "of a list": ("and", ("in", "x", ["c", None]), ("op", "x", "y")),
    # conditions
    "not": ("not", ("op", "x", "y")),
    "unknown": ("isnull", ("op", "x", "y")),
    "known": ("not", ("isnull", ("-", "x", "y"))),
    "flag": ("and", "flag of x", ("op", "x", "y")),
    "either flag": ("or", ("not", "flag of y"), ("op", "x", "y")),
    "flags": ("and", ("op", "flag of x", "flag of y"), ("<>", "x", "y")),
    "condition against flag": ("op", ("op", "x", "c"), "flag of y"),
    "conditions of either side": ("op", ("<>", "x", "c"), ("isnull", "y")),
    "conditions of both sides": ("op", ("op", "x", "y"), ("=", "y", "x")),
    # several terms of the same columns
    "moved and columns": ("and", ("op", "x", ("-", "y", "c")), ("<>", "x", "y")),
    "moved or columns": ("or", ("op", "x", ("+", "y", "c")), (">", "x", "y")),
    "two bands": (
        "or",
        ("between", "x", ("-", "y", "c"), "y"),
        ("and", ("op", ("-", "x", "c"), ("+", "y", "c")), ("<", "x", "y")),
    ),
    "sum and difference": ("and", ("op", ("+", "x", "y"), "c"), ("op", ("-", "x", "y"), "c")),
    "distance and moved": ("and", ("<=", ("abs", ("-", "x", "y")), "c"), ("op", ("+", "x", "c"), "y")),
    "distances": ("not", ("or", ("op", ("abs", ("-", "x", "y")), "c"), ("=", ("abs", ("+", "x", "y")), "c"))),
}


UNTYPED = {"folded to NULL", "remainder of zero"}
"""Shapes in which NULL stands for a value: to the oracle it is of every type, to slidejoin of the expression's."""

CAST = {"double", "two doubles"}
"""Shapes in which texts that are no numbers become NULL."""


def filled(shape: Any, names: dict[str, Any]) -> Any:
    """A shape with what its names stand for."""
    if isinstance(shape, str):
        return names.get(shape, shape)
    if isinstance(shape, list):
        return [names["c"][1] if item == "c" else item for item in shape]
    return tuple(filled(part, names) for part in shape) if isinstance(shape, tuple) else shape


def assert_served(shape: str, op: str, left: pa.DataType, right: pa.DataType, constant: Any) -> None:
    """Assert that the join has the law's pairs whoever probes, or is refused where the law has no meaning."""
    names = COLUMNS | {"op": op, "c": ("lit", constant)}
    case = Extreme(filled(SHAPES[shape], names), rows_of(left), rows_of(right))
    try:
        law = holding(case.predicate, case.left, case.right)
    except TypeError:
        law = None
    try:
        case.join()
    except sj.PredicateError:
        untyped = shape in UNTYPED or (shape in CAST and not TEXTS.keys().isdisjoint({left, right}))
        assert law is None or untyped, f"refused\n{case}"
    else:
        assert law is not None, f"taken\n{case}"
        assert_whoever_probes(case, law)


def alike(kind: str) -> list[str]:
    """The kinds that compare with a kind."""
    return list(NUMBERS) if kind in NUMBERS else [kind]


TYPES = [(kind, number) for kind, types in KINDS.items() for number in range(len(types))]


@pytest.mark.parametrize("third", [0, *(pytest.param(third, marks=pytest.mark.nightly) for third in (1, 2))])
@pytest.mark.parametrize(("kind", "number"), TYPES, ids=str)
def test_every_type_in_every_shape(kind: str, number: int, third: int) -> None:
    # All types on the left in all shapes, by day in a third of them, the next types in the others; the type on the
    # right, the comparator and the constant change each time, so that each pair of types, and each comparator, meets
    # most shapes.
    others = [(other, right) for other in alike(kind) for right in KINDS[other]]
    for i, shape in enumerate(SHAPES):
        if (i // 3 + number) % 3 != third:
            continue
        other, right = others[(i + number) % len(others)]
        op = COMPARATORS[(i + i // 6 + number) % 6]
        assert_served(shape, op, KINDS[kind][number], right, CONSTANTS[(kind, other)[i % 2]])


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_that_do_not_mix_in_every_shape(kind: str) -> None:
    others = [other for other in KINDS if other not in alike(kind)]
    for i, shape in enumerate(SHAPES):
        other = others[i % len(others)]
        assert_served(shape, COMPARATORS[i % 6], KINDS[kind][0], KINDS[other][0], CONSTANTS[(kind, other)[i % 2]])


@pytest.mark.nightly
@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_type_beside_every_other_in_every_shape(shape: str, turn: int) -> None:
    ops = COMPARATORS[turn::2]
    pairs = [
        ((kind, left), (other, right))
        for kind in KINDS
        for left in KINDS[kind]
        for other in KINDS
        for right in (KINDS[other] if other in alike(kind) else KINDS[other][:1])
    ]
    for i, ((kind, left), (other, right)) in enumerate(pairs):
        assert_served(shape, ops[i % 3], left, right, CONSTANTS[(kind, other)[(i // 3 + turn) % 2]])
