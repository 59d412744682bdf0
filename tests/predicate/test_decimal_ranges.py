"""Ranges of decimals whose keys count in steps, or are squeezed: no pair is missed, and no key is in two ranges."""

from __future__ import annotations

import random
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.extremes import decimal_of
from tests.predicate.pairs import Node, check

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B = ("col", "left", "a"), ("col", "right", "b")
KINDS = [
    pa.decimal128(38, 18),
    pa.decimal128(38, 0),
    pa.decimal128(18, 9),
    pa.decimal128(10, 2),
    pa.decimal128(18, -3),
    pa.decimal128(19, -3),
    pa.decimal128(17, -1),
    pa.int64(),
]
FORMS = 19
STEP = Decimal("1e-8")
FINE = Decimal("1e-18")
FAR = (9, 18, 20)
WIDE = Context(prec=80)
FACTORS = [Decimal(text) for text in ("1", "1", "2", "5", "1000", "0.5", "5e-9", "1e-10")]


def lit(number: Decimal | int) -> Node:
    return ("lit", number)


def forms(one: Node, near: list[Decimal], sign: str) -> Iterator[Node]:
    """Comparisons of a difference, or a sum, with constants that lie close together."""
    low, middle, high = near
    for difference in ((sign, B, one), (sign, one, B)):
        shifted = ("-", difference, lit(low))
        yield from (
            (">=", B, ("+", one, lit(middle))),
            ("<>", difference, lit(middle)),
            ("in", difference, tuple(near)),
            ("not", ("in", difference, tuple(near))),
            ("between", difference, lit(low), lit(high)),
            (">=", ("abs", shifted), lit(abs(middle))),
            ("<=", ("abs", shifted), lit(abs(middle))),
            ("or", ("=", difference, lit(low)), (">", difference, lit(middle))),
        )
    yield from ((op, one, B) for op in ("=", "<=", ">"))


def column(kind: pa.DataType, numbers: list[Decimal | None]) -> pa.Array[Any]:
    """The values of a type nearest to numbers."""
    if not pa.types.is_decimal(kind):
        return pa.array([None if one is None else min(max(int(one), -(2**63)), 2**63 - 1) for one in numbers], kind)
    most = 10**kind.precision - 1
    unscaled = [None if one is None else int(WIDE.scaleb(one, kind.scale)) for one in numbers]
    return pa.array([None if n is None else decimal_of(min(max(n, -most), most), kind.scale) for n in unscaled], kind)


def tables(kinds: tuple[pa.DataType, pa.DataType], factor: Decimal, near: list[Decimal]) -> tuple[pa.Table, pa.Table]:
    """Rows for which a difference is near those numbers, and a few far out."""
    chosen = random.Random(f"{kinds} {factor} {near}")
    left = [None, *map(Decimal, range(-2, 3)), *(Decimal(f"{sign}5E+{n}") for sign in "+-" for n in FAR)]
    some = [one for one in left if one is not None]
    right: list[Decimal | None] = [None, *chosen.sample(some, 3)]
    for _ in range(20):
        moved = WIDE.multiply(chosen.choice(some), factor * chosen.choice([1, 1, -1]))
        right.append(WIDE.add(moved, chosen.choice(near) + chosen.randrange(-4, 5) * FINE))
    return pa.table({"a": column(kinds[0], left)}), pa.table({"b": column(kinds[1], right)})


@pytest.mark.parametrize("right", [KINDS[0], KINDS[4]], ids=str)
@pytest.mark.parametrize("left", KINDS, ids=str)
def test_every_pair_is_in_one_range(left: pa.DataType, right: pa.DataType) -> None:
    chosen = random.Random(f"{left} {right}")
    for place in range(FORMS):
        factor = chosen.choice(FACTORS)
        units = sorted(chosen.sample(range(1, 10), 3))
        near = [chosen.randrange(-1, 2) * STEP + units[0] * FINE] * 3
        near[1:] = [near[0] + (unit - units[0]) * FINE for unit in units[1:]]
        one: Node = A if factor == 1 else ("*", A, lit(factor))
        check(list(forms(one, near, chosen.choice("--+")))[place], *tables((left, right), factor, near))


def number(text: str, kind: pa.DataType) -> pa.Array[Any]:
    return pa.array([Decimal(one) for one in text.split()], kind)


FULL, ROUND = pa.decimal128(38, 18), pa.decimal128(18, -3)
ABOVE = "1.000000000000000007 1.000000000000000004 1"


@pytest.mark.parametrize(
    ("predicate", "left", "right"),
    [
        (
            (">=", B, ("+", ("*", A, lit(Decimal("5e-9"))), lit(Decimal("3e-9")))),
            pa.array([1]),
            number("0.000000009", FULL),
        ),
        (
            ("between", ("-", B, ("*", A, lit(Decimal("5e-9")))), lit(Decimal("1e-9")), lit(Decimal("6e-9"))),
            pa.array([1]),
            number("0.000000009", FULL),
        ),
        (
            (">=", B, ("+", ("*", A, lit(5)), lit(Decimal("3e-9")))),
            number("0.000000001", pa.decimal128(18, 9)),
            number("0.000000009", FULL),
        ),
        (("<>", ("-", B, A), lit(4 * FINE)), number("1", FULL), number(ABOVE, FULL)),
        (("in", ("-", B, A), (7 * FINE, 4 * FINE)), number("1", FULL), number(ABOVE, FULL)),
        ((">=", ("abs", ("-", ("-", B, A), lit(5 * FINE))), lit(FINE)), number("1", FULL), number(ABOVE, FULL)),
        (("<>", ("-", A, A), ("-", B, lit(3 * FINE))), pa.array([1, 2]), number("0.000000000000000004 0", FULL)),
        (("=", A, B), number("5E+18", ROUND), number("5E+18 5E+20", ROUND)),
        (("<=", A, B), number("5E+18", ROUND), number("5E+18 5E+20", ROUND)),
        (("=", A, B), number("5E+18 4E+18", ROUND), number("5000000000000000000 5", pa.decimal128(38, 0))),
    ],
    ids=range(10),
)
def test_pairs_that_are_close_together(predicate: Node, left: pa.Array[Any], right: pa.Array[Any]) -> None:
    check(predicate, pa.table({"a": left}), pa.table({"b": right}))
