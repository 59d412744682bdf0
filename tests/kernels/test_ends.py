"""Ends of ranges of doubles against their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.jit.vectors import doubles as keyed
from slidejoin.predicate.kernels import ends
from slidejoin.predicate.truth.floats import FIRST_KEY, LAST_KEY, float_keys, from_keys

LARGEST = ends.LARGEST
SPECIAL = [0.0, -0.0, 5e-324, 2.0**-1022, 0.1, 1.0, 1e17, 2.0**53, LARGEST, np.inf]
doubles = st.one_of(st.floats(), st.floats(-10, 10), st.sampled_from([*SPECIAL, *(-one for one in SPECIAL), np.nan]))
factors = st.one_of(st.floats(5e-324, LARGEST), st.sampled_from([1e-3, 0.1, 3.0, 7.0, 1000.0, 5e-324, LARGEST]))
Program = list[tuple[int, int, float]]


def found(program: Program, inputs: list[list[float]]) -> tuple[list[int], list[int], int]:
    """Run a program: lower ends, upper ends, and how many could not be told."""
    rows = np.array(inputs, np.float64)
    lo, hi = (np.empty(rows.shape[1], np.int64) for _ in range(2))
    code = np.array([(op, row) for op, row, _ in program], np.int64)
    with np.errstate(all="ignore"):
        odd = ends.find_ends(rows, code, np.array([constant for *_, constant in program], np.float64), lo, hi)
    return lo.tolist(), hi.tolist(), odd


def applied(op: int, value: Any, operand: float) -> Any:
    with np.errstate(all="ignore"):
        if op == ends.UNTIMES:
            return value * operand
        return value / operand if op == ends.UNOVER else value + operand


def check_top(steps: list[tuple[int, float]], bound: float) -> None:
    """Assert that the range for steps, the innermost first, holds exactly the doubles that it should, near its ends."""
    program: Program = [(ends.INPUT, 0, 0.0), *((op, 0, operand) for op, operand in reversed(steps)), (ends.TOP, 0, 0)]
    (lo,), (hi,), _ = found(program, [[bound]])
    near = {FIRST_KEY, LAST_KEY, 0, 1, FIRST_KEY + 1, LAST_KEY - 1}
    near |= {end + step for end in (lo, hi) for step in range(-4, 5) if abs(end) < 2**62 * 1.999}
    keys = np.array(sorted(key for key in near if FIRST_KEY <= key <= LAST_KEY))
    values = from_keys(keys)
    for op, operand in steps:
        values = applied(op, values, operand)
    assert ((lo <= keys) & (keys <= hi)).tolist() == (values <= bound).tolist()


@pytest.mark.nojit
@given(bound=doubles, operand=st.floats(allow_infinity=False, allow_nan=False))
def test_sums(bound: float, operand: float) -> None:
    check_top([(ends.UNPLUS, operand)], bound)


@pytest.mark.parametrize("op", [ends.UNTIMES, ends.UNOVER])
@given(bound=doubles, factor=factors)
def test_products(op: int, bound: float, factor: float) -> None:
    check_top([(op, factor)], bound)


@given(bound=doubles, one=factors, two=doubles.filter(np.isfinite), op=st.sampled_from([ends.UNTIMES, ends.UNOVER]))
def test_bounds_that_a_sum_has_just_reached(bound: float, one: float, two: float, op: int) -> None:
    steps = [(ends.UNPLUS, two), (op, one)]
    value = bound
    for step in steps:
        value = applied(*step[:1], value, step[1])
    check_top(steps, float(value))
    check_top(steps[::-1], bound)


@given(bound=doubles, operand=doubles, sign=st.sampled_from([1.0, -1.0]), top=st.booleans())
def test_infinities_beside_inputs(bound: float, operand: float, sign: float, top: bool) -> None:
    last = ends.TOP if top else ends.BOTTOM
    (lo,), (hi,), odd = found([(ends.INPUT, 0, 0), (ends.UNPLUS_INPUT, 1, sign), (last, 0, 0)], [[bound], [operand]])
    keys = np.array([FIRST_KEY, FIRST_KEY + 1, -2, 0, 1, LAST_KEY - 1, LAST_KEY])
    values = applied(ends.UNPLUS, from_keys(keys) * (1 if top else -1), sign * operand)
    assert ((lo <= keys) & (keys <= hi)).tolist() == (values <= bound).tolist()
    assert odd == 0


@pytest.mark.nojit
def test_what_cannot_be_told_is_counted() -> None:
    program = [(ends.INPUT, 0, 0), (ends.UNPLUS_INPUT, 0, 1), (ends.UNTIMES, 0, 2.0), (ends.TOP, 0, 0)]
    assert found(program, [[1.0, np.inf, -np.inf, np.nan]])[2] == 2


@pytest.mark.nojit
def test_instructions() -> None:
    lo, hi, _ = found(
        [
            (ends.INPUT, 0, 0), (ends.TIMES, 0, 3.0), (ends.PLUS, 0, 1.0), (ends.OVER, 0, 2.0), (ends.TOP, 0, 0),
            (ends.CONSTANT, 0, 5.0), (ends.NEGATE, 0, 0), (ends.BEFORE, 0, 0), (ends.BOTTOM, 0, 0),
        ],
        [[1.0, 7.0, np.nan, 3.0]],
    )  # fmt: skip
    five, eleven = (int(float_keys(np.array([value]))[0]) for value in (5.0, 11.0))
    above = five + 1
    assert (lo, hi) == ([1, above, 1, 1], [0, eleven, 0, 0])
    zero = found([(ends.INPUT, 0, 0), (ends.BEFORE, 0, 0), (ends.TOP, 0, 0)], [[0.0, -0.0, -np.inf]])
    assert zero[1] == [-2, -2, 0]


@pytest.mark.nojit
@given(values=st.lists(doubles, max_size=8))
def test_keys(values: list[float]) -> None:
    data, keys = np.array(values, np.float64), np.empty(len(values), np.int64)
    wrong = keyed.double_keys(data, keys)
    known = ~np.isnan(data)
    assert keys[known].tolist() == float_keys(data)[known].tolist()
    assert wrong == int((~known).sum())


@pytest.mark.nojit
@given(values=st.lists(doubles.filter(lambda one: not np.isnan(one)), max_size=20), power=st.integers(-1000, 1000))
def test_places_keep_the_order(values: list[float], power: int) -> None:
    keys = np.sort(float_keys(np.array([*values, *SPECIAL], np.float64)))
    keys = np.concatenate([[-(2**63)], keys, [2**63 - 1]])
    scale, edge = 2.0**power, 2.0**52
    with np.errstate(all="ignore"):
        last = int(float_keys(np.array([edge / scale]))[0])
    places = np.empty(keys.size, np.int64)
    with np.errstate(all="ignore"):
        keyed.double_places(keys, scale, last, edge, places)
    assert (np.diff(places) >= 0).all()
    calm = (keys <= last) & (keys >= -last - 1)
    near = np.clip(np.floor(from_keys(keys[calm]) * scale), -edge, edge)
    assert places[calm].tolist() == near.astype(np.int64).tolist()
    far = np.unique(keys[(keys > last) & (keys <= LAST_KEY)])
    assert (np.diff(places[np.searchsorted(keys, far)]) > 0).all()
