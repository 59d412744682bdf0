"""A pair's answer never depends on which of its rows probes: mixed types, rows on either side of the ends of ranges."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extremes import Extreme, extremes_of
from tests.law.checks import assert_self_join, assert_whoever_probes, examples

Node = tuple[Any, ...]
A, X = ("col", "left", "a"), ("col", "right", "x")


def lit(value: Any) -> Node:
    return ("lit", value)


ALGORITHMS = st.sampled_from(["auto", "auto", "auto", "bi_sort", "planar", "bplus_tree", "nested_loop"])


@examples(300)
@given(case=extremes_of(), algorithm=ALGORITHMS, as_text=st.booleans())
def test_whoever_probes(case: Extreme, algorithm: str, as_text: bool) -> None:
    assert_whoever_probes(case, algorithm=algorithm, as_text=as_text)


@examples(300)
@given(case=extremes_of(topics=("number", "number"), focused=True))
def test_whoever_probes_among_numbers(case: Extreme) -> None:
    assert_whoever_probes(case)


@examples(60)
@given(case=extremes_of(alike=True))
def test_self_joins(case: Extreme) -> None:
    assert_self_join(case)


@pytest.mark.nightly
@settings(max_examples=20_000, derandomize=False)
@given(case=extremes_of(), algorithm=ALGORITHMS, as_text=st.booleans())
def test_whoever_probes_many_times(case: Extreme, algorithm: str, as_text: bool) -> None:
    assert_whoever_probes(case, algorithm=algorithm, as_text=as_text)


@pytest.mark.nightly
@settings(max_examples=3000, derandomize=False)
@given(case=extremes_of(alike=True))
def test_self_joins_many_times(case: Extreme) -> None:
    assert_self_join(case)


# --------------------------------------------------------------------------------------------------------------------
# By example: whole numbers between two doubles and beyond all of them

BEYOND: list[Node] = [
    ("and", (">", A, ("-", X, lit(1000))), ("<", A, ("+", X, lit(1000)))),
    ("or", ("<", A, ("-", X, lit(0.1))), (">", A, X)),
    ("and", (">=", A, ("-", X, lit(1000))), ("<", A, ("*", X, lit(2)))),
    ("and", ("=", A, ("-", X, lit(1000))), ("<>", A, X)),
    (">", ("-", A, lit(0.5)), ("-", X, lit(1000))),
    ("<=", ("abs", ("-", A, X)), lit(1000)),
    (">=", ("abs", ("+", ("-", A, lit(1000)), X)), lit(1000)),
    ("<=", ("+", X, ("*", A, lit(10**310))), ("/", lit(1), lit(0))),
]


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()], ids=str)
@pytest.mark.parametrize("predicate", BEYOND, ids=str)
@pytest.mark.parametrize("value", [2.0**53, 1.7e18, 2.0**63])
def test_whole_numbers_between_two_doubles(predicate: Node, value: float, kind: pa.DataType) -> None:
    top = 2**63 - 1 if kind == pa.int64() else 2**64 - 1
    near = [int(value) + moved + step for moved in (-2048, -1000, 0, 1000) for step in (-257, -2, -1, 0, 1, 2, 257)]
    near = sorted({min(number, top) for number in near} | {-(2**63) if kind == pa.int64() else 0})
    left = pa.table({"id": range(len(near)), "a": pa.array(near, kind)})
    right = pa.table({"id": [0, 1, 2], "x": [value, -value, value + 2048.0]})
    assert_whoever_probes(Extreme(predicate, left, right))
