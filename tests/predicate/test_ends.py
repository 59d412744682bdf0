"""Exact ends of ranges of doubles: the law on either side of each end, a few doubles far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slidejoin.predicate.truth.floats import FIRST_KEY, LAST_KEY, float_keys, from_keys
from tests.predicate.pairs import bound, check, columns

if TYPE_CHECKING:
    from slidejoin.sides import Side

Node = tuple[Any, ...]
F64, F32, I64 = pa.float64(), pa.float32(), pa.int64()
COLUMN: dict[Side, Node] = {"left": ("col", "left", "a"), "right": ("col", "right", "a")}
LARGEST = float(np.finfo(np.float64).max)

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-2, 2),
    st.integers(-100, 100).map(float),
    st.integers(0, 10**5).map(lambda cents: cents / 100),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 0.1, 2.0**53, 1e17, 1e300, LARGEST, -LARGEST]),
    st.sampled_from([float("inf"), float("-inf"), float("nan")]),
)
constants = st.one_of(
    st.sampled_from([0.1, 0.5, 1, -1, 3, 5, 7.3, 1000, 1e-3, 1e16, 1e17, 1e300, 1e-300, 5e-324, 2**53, LARGEST, 0.0]),
    st.floats(-1e3, 1e3, allow_subnormal=False),
)


@st.composite
def chains(draw: st.DrawFn, column: Node) -> Node:
    """A column with up to two constants around it."""
    for _ in range(draw(st.integers(0, 2))):
        constant = ("lit", draw(constants))
        column = draw(
            st.sampled_from(
                [*((op, column, constant) for op in "+-*/"), *((op, constant, column) for op in "+-*"), ("neg", column)]
            )
        )
    return column


@st.composite
def cases(draw: st.DrawFn) -> tuple[Node, pa.DataType, pa.DataType, list[float], list[float]]:
    """A comparison or a band, the types of its sides, and a few values for the probes of each."""
    first, second = draw(chains(COLUMN["left"])), draw(chains(COLUMN["right"]))
    if draw(st.booleans()):
        first, second = second, first
    low, high = (("lit", draw(constants)) for _ in range(2))
    compare = draw(st.sampled_from(["=", "<", "<=", ">", ">="]))
    predicate = draw(
        st.sampled_from(
            [
                (compare, first, second),
                (compare, ("-", first, second), low),
                (compare, ("+", low, first), second),
                ("<=", ("abs", ("-", first, second)), high),
                ("between", first, ("-", second, low), ("+", second, high)),
                ("and", (">", ("-", first, low), second), ("<=", first, ("*", second, high))),
            ]
        )
    )
    kinds: st.SearchStrategy[pa.DataType] = st.sampled_from([F64, F64, F64, F32, I64])
    some = st.lists(numbers, min_size=1, max_size=3)
    return predicate, draw(kinds), draw(kinds), draw(some), draw(some)


def column_of(values: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Table:
    """Values as a column of that type, rounded to it."""
    with np.errstate(all="ignore"):
        if kind == I64:
            calm = np.where(np.isfinite(values), np.clip(values, -(2.0**63), 2.0**63 - 1024), 7.0)
            return pa.table({"a": pa.array(np.rint(calm).astype(np.int64))})
        return pa.table({"a": pa.array(values.astype("f4" if kind == F32 else "f8"), kind)})


def around(values: np.ndarray[Any, Any], kind: pa.DataType) -> np.ndarray[Any, Any]:
    """The neighbours of values among those of a type, four on either side."""
    steps = np.arange(-4, 5)[:, None]
    with np.errstate(all="ignore"):
        if kind == I64:
            return (np.rint(values) + steps).ravel()
        if kind == F32:
            bits = (values.astype("f4") + np.float32(0)).view(np.int32)
            keys = np.clip((bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64) + steps, -0x7F800001, 0x7F800000)
            whole = keys.astype(np.int32)
            return (whole ^ ((whole >> 31) & 0x7FFFFFFF)).view("f4").astype("f8").ravel()
        return from_keys(np.clip(float_keys(values) + steps, FIRST_KEY, LAST_KEY)).ravel()


def undone(node: Node, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """About where a chain's column lies if the chain has those values."""
    with np.errstate(all="ignore"):
        while node[0] != "col":
            if node[0] == "neg":
                node, values = node[1], -values
                continue
            op, one, two = node
            inner, constant = (two, float(one[1])) if one[0] == "lit" else (one, float(two[1]))
            values = {
                "+": values - constant,
                "-": constant - values if inner is two else values + constant,
                "*": values / constant,
                "/": values * constant,
            }[op]
            node = inner
    return values


def stored_near(predicate: Node, probe: Side, probes: pa.Table, kind: pa.DataType) -> pa.Table | None:
    """Rows of the other side near every end of the probes' ranges; None if the comparison gives none."""
    empty = column_of(np.empty(0), kind)
    sides = (probes, empty) if probe == "left" else (empty, probes)
    what = bound(predicate, *sides)
    near = [np.array([0.0, np.nan, np.inf, -np.inf, 1.0])]
    for term in what.terms:
        found = term.ranges(probe, columns(probes))
        key = term.pair[1 if probe == "left" else 0]
        ends = np.concatenate([found.lo.ravel(), found.hi.ravel()])
        values = from_keys(ends) if key.space == "float" else ends.astype(float)
        near += [around(undone(node, values), kind) for node in chains_in(predicate, key.side)]
    return column_of(np.unique(np.concatenate(near)), kind) if what.terms else None


def chains_in(node: Node, side: Side) -> list[Node]:
    """The subtrees around a side's column that have nothing else but constants in them, innermost first."""
    if node[0] == "col":
        return [node] if node[1] == side else []
    if node[0] == "lit":
        return []
    found = [inner for part in node[1:] for inner in chains_in(part, side)]
    single = node[0] in "+-*/" and sum(part[0] == "lit" for part in node[1:]) == 1
    if found and (single or node[0] == "neg") and found[-1] in node[1:]:
        return [*found, node]
    return found


@settings(max_examples=6 * settings.default.max_examples)
@given(cases())
@example((("<=", ("+", COLUMN["left"], ("lit", 1e17)), COLUMN["right"]), F64, F64, [5.0], [1e17, 0.0]))
@example((("<=", ("*", COLUMN["left"], ("lit", 1e-3)), COLUMN["right"]), F64, F64, [5.0], [0.0, 5e-324]))
@example((("=", ("-", COLUMN["left"], COLUMN["right"]), ("lit", 1)), I64, F64, [2.0**53 + 2], [2.0**53]))
@example((("<=", ("-", COLUMN["left"], COLUMN["right"]), ("lit", 5)), F64, F64, [np.inf], [np.inf, -np.inf]))
def test_the_law_holds_on_either_side_of_every_end(case):
    predicate, left_kind, right_kind, lefts, rights = case
    kinds: dict[Side, pa.DataType] = {"left": left_kind, "right": right_kind}
    for probe, values in (("left", lefts), ("right", rights)):
        stored: Side = "right" if probe == "left" else "left"
        probes = column_of(np.array(values), kinds[probe])
        rows = stored_near(predicate, probe, probes, kinds[stored])
        if rows is not None:
            check(predicate, *((probes, rows) if probe == "left" else (rows, probes)))


BANDS: list[Node] = [
    ("between", COLUMN["left"], ("-", COLUMN["right"], ("lit", 0.5)), ("+", COLUMN["right"], ("lit", 0.5))),
    ("<=", ("abs", ("-", COLUMN["left"], COLUMN["right"])), ("lit", 0.1)),
    ("<", ("abs", ("-", ("*", COLUMN["left"], ("lit", 1000)), COLUMN["right"])), ("lit", 7.3)),
    ("<=", ("+", COLUMN["left"], ("lit", 1e17)), COLUMN["right"]),
    ("=", ("/", COLUMN["left"], ("lit", 3)), COLUMN["right"]),
    ("=", ("/", COLUMN["left"], ("lit", 3)), ("+", COLUMN["right"], ("lit", 1))),
]


@pytest.mark.parametrize("predicate", BANDS, ids=str)
@given(values=st.lists(numbers, min_size=1, max_size=20))
def test_doubles_are_never_checked_again(predicate, values):
    rows = pa.table({"a": values})
    for term in bound(predicate, rows, rows).terms:
        assert term.exact
        for side in ("left", "right"):
            assert term.ranges(side, columns(rows)).exact
            assert term.key(side, columns(rows)).exact


def test_integers_beyond_the_exact_doubles_are_checked_again():
    large, small = (pa.table({"a": [number]}) for number in (2**53 + 1, 2**53 - 1))
    near, far = (pa.table({"a": [number]}) for number in (2.0**51, 2.0**53))
    (moved,) = bound(("<=", ("-", COLUMN["left"], COLUMN["right"]), ("lit", 0.5)), large, far).terms
    for probe, rows, exact in (
        ("left", large, False),
        ("left", small, True),
        ("right", far, False),
        ("right", near, True),
    ):
        assert moved.ranges(probe, columns(rows)).exact is exact
