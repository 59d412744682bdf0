"""Decimals of 19 to 38 digits as keys, bands, orders, nearest columns and aggregates, against the law.

Their keys are one word: the number itself where it fits, else its first bits, and then pairs are compared once more.
Streams begin with numbers that fit, so that both ways, and the change from one to the other, are seen.
"""

from __future__ import annotations

import random
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.predicate.ranges.keys import squeeze
from tests.extremes import decimal_of
from tests.law.checks import assert_counts, assert_pairs
from tests.law.join_types import assert_join_type
from tests.law.test_aggregates import Chosen, assert_aggregates
from tests.law.test_nearest import assert_nearest
from tests.oracle import Aggregates, CountScope, Nearest, TimeScope
from tests.strategies import Case, Push, WindowCase

A, B, P, Q = (("col", side, name) for name in "ap" for side in ("left", "right"))
HALF = ("lit", Decimal("0.5"))
PREDICATES: dict[str, Any] = {
    "equality": ("=", A, B),
    "null-safe equality": ("same", A, B),
    "band": ("between", A, ("-", B, HALF), ("+", B, HALF)),
    "distance": ("<=", ("abs", ("-", A, B)), ("lit", 10**19)),
    "inequality": (">", A, B),
    "inequalities": ("and", ("<", A, B), (">=", P, Q)),
    "not equal": ("and", ("<>", A, B), ("=", P, Q)),
    "two equalities and a band": ("and", ("=", A, B), ("between", P, ("-", Q, ("lit", 1)), ("+", Q, ("lit", 1)))),
    "arithmetic": ("<", ("+", ("*", A, ("lit", 3)), P), ("-", B, ("*", Q, ("lit", 2**40)))),
    "constants": ("and", ("in", A, (12, Decimal("12.5"), 10**19)), ("<=", A, B)),
    "or": ("or", ("=", A, B), ("between", P, ("-", Q, HALF), Q)),
}
KINDS = [
    (pa.decimal128(38, 0), pa.decimal128(38, 18)),
    (pa.decimal128(38, 18), pa.decimal128(38, 18)),
    (pa.decimal128(38, 18), pa.decimal128(10, 2)),
    (pa.decimal256(38, 4), pa.decimal128(20, 2)),
    (pa.decimal128(38, 0), pa.int64()),
    (pa.decimal128(38, 2), pa.float64()),
    (pa.decimal128(19, -3), pa.uint64()),
    (pa.decimal128(18, -3), pa.decimal128(18, -3)),
]
SIZES = (0, 1, 2, 12, 13, Decimal("12.5"), 10**18, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, 2**64 + 1, 10**19, 10**33)
WINDOWS = {
    "count": WindowCase(sj.CountWindow(left=20, right=13, slide=4), CountScope(20, 13, 4)),
    "time": WindowCase(
        sj.TimeWindow(left=9, right=7, left_on="ts", right_on="ts", lateness=2), TimeScope(9, 7, "ts", "ts", 2)
    ),
}


def value_of(kind: pa.DataType, number: Decimal | int) -> Any:
    """The value of a type nearest to a number."""
    if pa.types.is_floating(kind):
        return float(number)
    if not pa.types.is_decimal(kind):
        bits = kind.bit_width
        low, high = (
            (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
        return min(max(int(number), low), high)
    unscaled = int(number * 1000) * 10 ** max(kind.scale, 0) // 1000 // 10 ** max(-kind.scale, 0)
    most = 10**kind.precision - 1
    return decimal_of(min(max(unscaled, -most), most), kind.scale)


def column(chosen: random.Random, kind: pa.DataType, rows: int) -> pa.Array[Any]:
    """Numbers that fit 64 bits for half of the rows, then any; NULLs among them."""
    values: list[Any] = []
    for row in range(rows):
        sizes = SIZES[:5] if row < rows // 2 else SIZES
        number = chosen.choice(sizes) * chosen.choice([1, 1, 1, -1])
        values.append(None if chosen.random() < 0.1 else value_of(kind, number))
    return pa.array(values, kind)


def case_of(
    predicate: Any, kinds: tuple[pa.DataType, pa.DataType], window: str, *, self_join: bool = False, rows: int = 40
) -> Case:
    """Two streams out of a seeded generator, in a few pushes."""
    chosen = random.Random(f"{predicate} {kinds} {window}")
    left, right = (
        pa.table(
            {
                "id": range(rows),
                "a": column(chosen, kind, rows),
                "p": column(chosen, kind, rows),
                "ts": [i // 3 + chosen.randrange(4) for i in range(rows)],
                "o": column(chosen, pa.decimal128(38, 3), rows).fill_null(Decimal("0.001")),
            }
        )
        for kind in kinds
    )
    case = Case(predicate, WINDOWS[window], left, left if self_join else right, self_join=self_join)
    for i, (start, end) in enumerate(pairwise([0, 1, 3, 9, 20, 21, 33, rows])):
        pieces = [side.slice(start, end - start) for side in (case.left, case.right)]
        case.pushes.append(Push(*pieces, "o" if i % 3 == 2 else None))
    return case


@pytest.mark.nojit
@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: f"{kinds[0]} {kinds[1]}")
@pytest.mark.parametrize("predicate", PREDICATES)
def test_pairs(predicate: str, kinds: tuple[pa.DataType, pa.DataType]) -> None:
    window = ("count", "time")[(len(predicate) + KINDS.index(kinds)) % 2]
    assert_pairs(case_of(PREDICATES[predicate], kinds, window), "probe")


@pytest.mark.parametrize("algorithm", ["bi_sort", "planar", "bplus_tree", "nested_loop"])
@pytest.mark.parametrize("predicate", ["equality", "band", "inequalities"])
def test_any_index(predicate: str, algorithm: str) -> None:
    assert_pairs(case_of(PREDICATES[predicate], KINDS[1], "count"), "strict", algorithm=algorithm)


@pytest.mark.parametrize("predicate", ["equality", "band", "inequalities"])
def test_counts_and_self_joins(predicate: str) -> None:
    assert_counts(case_of(PREDICATES[predicate], KINDS[0], "count"))
    assert_pairs(case_of(PREDICATES[predicate], KINDS[1], "time", self_join=True), "strict")


@pytest.mark.parametrize("sizes", [(3, 0), (0, 3), (1, 2)], ids=str)
def test_numbers_closer_than_a_step(sizes: tuple[int, int]) -> None:
    fine, unit = pa.decimal128(38, 18), Decimal("1e-18")
    left = pa.table({"a": pa.array([Decimal(1), Decimal("1.00000001"), Decimal(2)], fine)})
    right = pa.table({"a": pa.array([1 + n * unit for n in (7, 4, 0)], fine)})
    difference = ("-", B, A)
    for predicate in (
        ("<>", difference, ("lit", 4 * unit)),
        ("in", difference, (7 * unit, 4 * unit)),
        (">=", ("abs", ("-", difference, ("lit", 5 * unit))), ("lit", unit)),
    ):
        case = Case(predicate, WINDOWS["count"], left, right)
        first = [side.slice(0, size) for side, size in zip((left, right), sizes, strict=True)]
        rest = [side.slice(size) for side, size in zip((left, right), sizes, strict=True)]
        case.pushes += [Push(*first, None), Push(*rest, None)]
        assert_pairs(case, "probe")
        assert_counts(case)


@pytest.mark.parametrize("how", ["left", "full", "left_anti"])
def test_rows_without_a_match(how: str) -> None:
    between = lambda join: sj.StreamJoin.restore(join.snapshot())  # noqa: E731
    assert_join_type(case_of(PREDICATES["equality"], KINDS[2], "count"), how, "probe", between=between)
    assert_join_type(case_of(PREDICATES["band"], KINDS[1], "time"), how, "probe")


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("kinds", [*KINDS[:3], KINDS[4]], ids=str)
def test_nearest(kinds: tuple[pa.DataType, pa.DataType], direction: str) -> None:
    case = case_of(("=", ("col", "left", "id"), ("col", "left", "id")), kinds, "count")
    for k, restart in ((1, False), (2, True)):
        assert_nearest(case, Nearest("a", "a", direction, k), "left", restart=restart)


def test_aggregates() -> None:
    law = {"n": ("count", None), "s": ("sum", "a"), "low": ("min", "a"), "high": ("max", "a"), "m": ("mean", "a")}
    given = {name: f"{function}({'r.' + of if of else '*'})" for name, (function, of) in law.items()}
    for predicate in ("band", "inequality"):
        case = case_of(PREDICATES[predicate], KINDS[1], "count")
        assert_aggregates(case, Chosen(sj.Aggregate(**given), Aggregates(law)), restart=True)


def test_many_streams() -> None:
    chosen = random.Random(3)
    rows = {
        name: column(chosen, kind, 24)
        for name, kind in zip("abc", (KINDS[1][0], pa.decimal128(38, 4), pa.int64()), strict=True)
    }
    on = "a.k = b.k AND b.k BETWEEN c.k - 0.5 AND c.k + 0.5"
    join = sj.MultiJoin({name: sj.CountWindow(100) for name in rows}, on=on)
    found = []
    for first, last in pairwise([0, 5, 12, 24]):
        tables = {
            name: pa.table({"i": range(first, last), "k": one.slice(first, last - first)}) for name, one in rows.items()
        }
        out = join.push(**tables)
        found += list(zip(*(out.column(place).to_pylist() for place in (0, 2, 4)), strict=True))
    a, b, c = (one.to_pylist() for one in rows.values())
    half = Decimal("0.5")
    law = [
        (i, j, k)
        for i, one in enumerate(a)
        for j, two in enumerate(b)
        for k, three in enumerate(c)
        if None not in (one, two, three) and one == two and abs(int(two * 10**4) - three * 10**4) <= int(half * 10**4)
    ]
    assert sorted(found) == law
    assert law


def test_sums_beyond_38_digits_are_refused() -> None:
    most = decimal_of(10**38 - 1, 0)
    right = pa.table({"v": pa.array([most, most], pa.decimal128(38, 0))})
    join = sj.StreamJoin("l.k = 1", sj.CountWindow(10), output=sj.Aggregate(s="sum(r.v)"))
    join.push(right=right)
    join.push(left=pa.table({"k": [1]}))
    with pytest.raises(sj.AggregateOverflowError, match=r"s=sum\(r.v\) of left row 0 .* does not fit its type"):
        join.finish()


def test_keys_are_in_the_order_of_numbers_and_no_farther_apart() -> None:
    chosen = random.Random(1)
    numbers = sorted(
        {sign * max(2**place + chosen.randrange(-3, 4), 0) for place in range(200) for sign in (1, -1) for _ in "123"}
    )
    held = np.array([*numbers, None], object)[:-1]
    keys, same = squeeze(held)
    assert not same
    assert (keys[1:] >= keys[:-1]).all()
    apart = [two - one for one, two in pairwise(map(int, keys))]
    assert all(key <= two - one for key, (one, two) in zip(apart, pairwise(numbers), strict=True))
    near = np.abs(held) < 2**62
    assert (keys[near.astype(bool)] == held[near.astype(bool)].astype(np.int64)).all()
    assert squeeze(held[near.astype(bool)])[1]


@pytest.mark.parametrize("step", [10, 10**10])
def test_multiples_of_a_step_have_keys_of_their_own(step: int) -> None:
    numbers = [step * whole + rest for whole in range(-3, 4) for rest in (0, 1, step - 1)]
    held = np.array([*numbers, None], object)[:-1]
    keys, same = squeeze(held, step)
    assert not same
    assert keys.tolist() == [2 * (number // step) + (number % step > 0) for number in numbers]
    assert squeeze(held[::3], step)[1]
