"""Three-valued logic, correct rounding and exact comparison, value by value."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.predicate.bind import bind
from slidejoin.predicate.expression.expr import Arithmetic, Column, Literal
from slidejoin.predicate.sql_text.sql import parse
from slidejoin.predicate.truth import exact, floats, hashes
from slidejoin.predicate.truth.evaluate import ColumnsBySide, evaluate
from slidejoin.predicate.truth.orders import PREFIX_REACH, prefixes
from slidejoin.predicate.truth.resolve import resolve
from slidejoin.predicate.truth.values import Values

FLAGS = {"p": pa.array([True, True, True, False, False, False, None, None, None])}
OTHER = {"p": pa.array([True, False, None] * 3)}
FLAG_SCHEMA = pa.schema([("p", pa.bool_())])


def logic(on: str) -> list[bool]:
    found = bind(parse(on), FLAG_SCHEMA, FLAG_SCHEMA).filter(())
    return list(found.holds(FLAGS, OTHER, 9))


@pytest.mark.parametrize(
    ("on", "true_at"),
    [
        ("l.p OR r.p", {0, 1, 2, 3, 6}),
        ("NOT (l.p AND r.p)", {1, 3, 4, 5, 7}),
        ("(l.p AND r.p) OR (NOT l.p AND NOT r.p)", {0, 4}),
        ("(l.p AND r.p) IS NULL", {2, 6, 8}),
        ("(l.p OR r.p) IS NULL", {5, 7, 8}),
        ("(NOT l.p) IS NULL OR (r.p AND l.p)", {0, 6, 7, 8}),
        ("NOT (l.p IS NULL OR r.p IS NULL) OR FALSE", {0, 1, 3, 4}),
        ("(l.p = r.p) IS NULL", {2, 5, 6, 7, 8}),
        ("l.p OR NULL OR r.p", {0, 1, 2, 3, 6}),
    ],
)
def test_three_valued_logic(on, true_at):
    assert {row for row, holds in enumerate(logic(on)) if holds} == true_at


WIDE = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63), 2**64 + 3, 10**310]),
    st.integers(-(2**70), 2**70),
)
DOUBLES = st.one_of(st.floats(), st.sampled_from([2.0**53, 2.0**63, -(2.0**63), 0.5, -0.0, 5e-324, math.inf]))


def whole(numbers: list[int]) -> Values:
    held = np.empty(len(numbers), object)
    held[:] = numbers
    small = all(-(2**63) <= number < 2**63 for number in numbers)
    return Values(held.astype(np.int64) if small else held)


@given(st.lists(st.tuples(WIDE, DOUBLES), min_size=1, max_size=5))
def test_integers_and_doubles_compare_exactly(pairs):
    ints, doubles = whole([i for i, _ in pairs]), np.array([f for _, f in pairs])
    less, equal = floats.order(ints, doubles)
    assert less.tolist() == [i < f for i, f in pairs]
    assert equal.tolist() == [i == f for i, f in pairs]


def once(op: str, one: Any, two: Any) -> float:
    """The exact result, rounded once; finite operands, no division by zero."""
    a, b = Fraction(one), Fraction(two)
    result = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else a}[op]
    try:
        return result.numerator / result.denominator
    except OverflowError:
        return math.inf if result > 0 else -math.inf


@given(st.sampled_from("+-*/"), st.lists(st.tuples(WIDE, DOUBLES.filter(math.isfinite)), min_size=1, max_size=5))
def test_one_rounding_for_each_operation(op, pairs):
    pairs = [(i, f) for i, f in pairs if f != 0] or [(1, 1.0)]
    ints, doubles = whole([i for i, _ in pairs]), Values(np.array([f for _, f in pairs]))
    with np.errstate(all="ignore"):
        first = floats.mixed(op, ints, doubles, first_exact=True, second_exact=False)
        second = floats.mixed(op, doubles, ints, first_exact=False, second_exact=True)
    assert first.tolist() == [once(op, i, f) for i, f in pairs]
    for got, (i, f) in zip(second.tolist(), pairs, strict=True):
        assert got == (once(op, f, i) if i or op != "/" else math.copysign(math.inf, f))


@given(st.lists(st.tuples(WIDE, WIDE), min_size=1, max_size=4))
def test_exact_arithmetic(pairs):
    one, two = whole([a for a, _ in pairs]), whole([b for _, b in pairs])
    assert exact.plus_minus(one, two, minus=False).data.tolist() == [a + b for a, b in pairs]
    assert exact.plus_minus(one, two, minus=True).data.tolist() == [a - b for a, b in pairs]
    assert exact.times(one, two).data.tolist() == [a * b for a, b in pairs]
    assert exact.absolute(one).data.tolist() == [abs(a) for a, _ in pairs]
    assert exact.negate(one).data.tolist() == [-a for a, _ in pairs]
    rest = exact.remainder(one, two)
    known = [True] * len(pairs) if rest.valid is None else rest.valid.tolist()
    assert known == [b != 0 for _, b in pairs]
    for got, valid, (a, b) in zip(rest.data.tolist(), known, pairs, strict=True):
        assert not valid or got == int(math.copysign(1, a) if a == 0 else (1 if a > 0 else -1)) * (abs(a) % abs(b))


@given(st.lists(WIDE, min_size=1, max_size=4), st.integers(0, 30))
def test_nearest_doubles_of_decimals(numbers, scale):
    assert floats.to_float(whole(numbers), scale).tolist() == [once("/", n, 10**scale) for n in numbers]


@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=6))
def test_float_keys_keep_the_order(numbers):
    data = np.array(numbers)
    keys = floats.float_keys(data)
    for (a, key_a), (b, key_b) in itertools.combinations(zip(numbers, keys.tolist(), strict=True), 2):
        assert (a < b, a == b) == (key_a < key_b, key_a == key_b)
    assert floats.from_keys(keys).tolist() == numbers


def test_object_arithmetic_comes_back_to_int64():
    numbers = Values(np.array([2**62, -(2**62)]))
    wide = exact.times(numbers, exact.constant(4))
    assert wide.data.dtype == object
    assert exact.plus_minus(wide, exact.times(numbers, exact.constant(3)), minus=True).data.dtype == np.int64


def test_what_lies_under_a_null_does_not_count():
    ends = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([1, 2**63 - 1]))])
    assert ends.null_count == 1
    schema = pa.schema([("a", pa.int64())])
    node = resolve(Arithmetic("+", Column("left", "a"), Literal(5)), {"left": schema, "right": schema})
    values = evaluate(node, ColumnsBySide({"left": {"a": ends}}))
    assert values.data.dtype == np.int64
    assert (values.data[0], values.valid.tolist()) == (6, [True, False])


def test_hashes_tell_bytes_apart():
    words = [bytes(letters) for size in range(3) for letters in itertools.product((0, 1, 97, 255), repeat=size)]
    found = hashes.hashed(pa.array(words, pa.binary())).data
    assert len(set(found.tolist())) == len(words)
    assert found.min() < -(2**60)
    assert found.max() > 2**60


def test_mixed_numbers_spread():
    buckets = np.bincount(hashes.mix(np.arange(0, 64_000, 64)) & 7, minlength=8)
    assert buckets.min() > 90


@given(
    st.lists(st.binary(max_size=11) | st.sampled_from([b"", b"\xff" * 9, b"a\0", b"a"]), max_size=8), st.integers(0, 3)
)
def test_prefixes_keep_the_order_of_bytes(values, skipped):
    array = pa.array(values, pa.large_binary()).slice(min(skipped, len(values)))
    found = prefixes(array)
    assert found.dtype == np.int64
    assert (abs(found) <= PREFIX_REACH).all()
    for one, first in zip(array.to_pylist(), found.tolist(), strict=True):
        for two, second in zip(array.to_pylist(), found.tolist(), strict=True):
            assert first <= second or one > two
            if one[:7].ljust(7, b"\0") != two[:7].ljust(7, b"\0"):
                assert first != second
