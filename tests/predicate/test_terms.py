"""Evaluation and range terms against the law: every pair, both probe sides."""

from __future__ import annotations

import os
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slidejoin.predicate.bind import BoundPredicate, bind
from slidejoin.predicate.sql_text.sql import parse
from tests.predicate.pairs import check, columns
from tests.strategies import FAMILIES, FLOATS, INTEGERS, Family, predicates, tables

Node = tuple[Any, ...]
ROWS = 6


@st.composite
def any_family(draw: st.DrawFn) -> tuple[Node, pa.Table, pa.Table]:
    """A predicate over two families of types, and two tables of their types."""
    families = {name: draw(st.sampled_from(list(FAMILIES.values()))) for name in "ab"}
    return draw(predicates(families)), draw(table_of(families)), draw(table_of(families))


@st.composite
def table_of(draw: st.DrawFn, families: dict[str, Family]) -> pa.Table:
    kinds = {name: draw(st.sampled_from(list(family.domains.items()))) for name, family in families.items()}
    return draw(tables(kinds, ROWS, ordered=False))


@settings(max_examples=2 * settings.default.max_examples)
@given(any_family())
def test_every_pair_of_every_type(case):
    check(*case)


NUMBERS = {"a": FAMILIES["number"], "b": Family("number", INTEGERS | FLOATS)}
CONSTANTS = [0, 1, -2, 3, 0.5, -0.1, Decimal("0.25"), 2**53 + 1, 2**64, 1e300]


def operands() -> st.SearchStrategy[Node]:
    column = st.tuples(st.just("col"), st.sampled_from(["left", "right"]), st.sampled_from("ab"))
    constant = st.sampled_from(CONSTANTS).map(lambda value: ("lit", value))
    return st.recursive(
        column | column | constant,
        lambda inner: (
            st.tuples(st.sampled_from("++--*/"), inner, inner)
            | st.tuples(st.sampled_from(["neg", "abs", "abs", "double"]), inner)
        ),
        max_leaves=4,
    )


@st.composite
def arithmetic_cases(draw: st.DrawFn) -> tuple[Node, pa.Table, pa.Table]:
    compare = st.sampled_from(["=", "<", "<=", ">", ">=", "<>"])
    parts = [(draw(compare), draw(operands()), draw(operands())) for _ in range(draw(st.integers(1, 3)))]
    predicate = parts[0] if len(parts) == 1 else (draw(st.sampled_from(["and", "or"])), *parts)
    return predicate, draw(table_of(NUMBERS)), draw(table_of(NUMBERS))


@settings(max_examples=2 * settings.default.max_examples)
@given(arithmetic_cases())
def test_any_arithmetic(case):
    check(*case)


# Bands and their relatives over doubles and integers, with constants on either side of everything.


@st.composite
def shifted(draw: st.DrawFn, column: Node) -> Node:
    for _ in range(draw(st.integers(0, 2))):
        constant = ("lit", draw(st.sampled_from([5, 0.5, 0.1, -1, 2, 1e16])))
        column = draw(
            st.sampled_from(
                [
                    *((op, column, constant) for op in "+-*/"),
                    *((op, constant, column) for op in "+-"),
                    ("neg", column),
                ]
            )
        )
    return column


@st.composite
def band_cases(draw: st.DrawFn) -> tuple[Node, pa.Table, pa.Table]:
    def one() -> Node:
        left, right = ("col", "left", draw(st.sampled_from("ab"))), ("col", "right", draw(st.sampled_from("ab")))
        if draw(st.booleans()):
            left, right = right, left
        first, second = draw(shifted(left)), draw(shifted(right))
        bounds = [("lit", draw(st.sampled_from([5, 0.5, 0.1, -1, 2, 1e16]))) for _ in range(2)]
        compare = draw(st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]))
        return draw(
            st.sampled_from(
                [
                    ("between", first, ("-", right, bounds[0]), ("+", right, bounds[1])),
                    (compare, ("abs", ("-", first, second)), bounds[0]),
                    (compare, ("-", first, second), bounds[0]),
                    (compare, first, second),
                ]
            )
        )

    parts = [one() for _ in range(draw(st.integers(1, 4)))]
    predicate = parts[0] if len(parts) == 1 else (draw(st.sampled_from(["and", "or"])), *parts)
    return predicate, draw(table_of(NUMBERS)), draw(table_of(NUMBERS))


@settings(max_examples=2 * settings.default.max_examples)
@given(band_cases())
def test_bands_with_constants_anywhere(case):
    check(*case)


# --------------------------------------------------------------------------------------------------------------------
# By example

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("i", pa.int32()),
        ("u", pa.uint64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(10, 2)),
        ("t", pa.timestamp("us")),
        ("s", pa.string()),
        ("flag", pa.bool_()),
    ]
)


def terms(on: str) -> list[str]:
    return [term.label for term in bound_to(on).terms]


def bound_to(on: str) -> BoundPredicate:
    return bind(parse(on), SCHEMA, SCHEMA)


BAND = ["band l.k ~ r.k"]


@pytest.mark.parametrize(
    "on",
    [
        "l.k BETWEEN r.k - 5 AND r.k + 5",
        "abs(l.k - r.k) <= 5",
        "abs(r.k - l.k) < 6",
        "l.k <= r.k + 5 AND r.k - l.k <= 5",
        "NOT (l.k > r.k + 5 OR l.k < r.k - 5)",
        "abs(l.k - r.k) + 1 <= 6",
        "2 * abs(l.k - r.k) <= 11",
        "-5 <= r.k - l.k AND l.k >= r.k - 5",
    ],
)
def test_one_band_however_it_is_written(on):
    found = bound_to(on)
    assert [term.label for term in found.terms] == BAND
    (term,) = found.terms
    assert (term.exact, term.pieces, term.band_width) == (True, 1, 10)
    assert found.residual == ()
    ranges = term.ranges("right", {"k": pa.array([100, None])})
    assert (ranges.lo.tolist(), ranges.hi.tolist(), ranges.exact) == ([[95, 1]], [[105, 0]], True)


@pytest.mark.parametrize(
    ("on", "labels"),
    [
        ("l.k = r.k", ["equality l.k ~ r.k"]),
        ("l.k < r.k AND l.i > r.i", ["ranges l.k ~ r.k", "ranges l.i ~ r.i"]),
        ("l.k < r.k AND l.s = r.s", ["equality l.s ~ r.s", "ranges l.k ~ r.k"]),
        ("l.k <> r.k AND abs(l.i - r.i) <= 1", ["band l.i ~ r.i", "not-equal l.k ~ r.k"]),
        ("l.f BETWEEN r.f - 5 AND r.f + 5", ["band l.f ~ r.f"]),
        ("l.f + 1 < r.f * 2", ["ranges l.f + 1 ~ r.f * 2"]),
        ("l.k + l.i < r.k - r.i + 3", ["ranges l.i + l.k ~ r.i - r.k"]),
        ("l.k BETWEEN r.k AND r.k + 5 OR l.k BETWEEN r.k + 3 AND r.k + 9", BAND),
        ("abs(l.k - r.k) >= 5", ["ranges l.k ~ r.k"]),
        ("l.k * r.k < 5", []),
        ("l.s <> r.s", []),
        ("l.k < r.k OR l.i < r.i", []),
        ("l.k - l.k < r.k - r.k", ["ranges l.k - l.k ~ r.k - r.k"]),
        ("l.flag = r.flag", ["equality l.flag ~ r.flag"]),
        ("l.k <= 2 * r.k AND l.k >= r.k", ["band l.k ~ r.k"]),
        ("l.t - r.t BETWEEN INTERVAL '-5' MINUTE AND INTERVAL '5' MINUTE", ["band l.t ~ r.t"]),
    ],
)
def test_labels_best_first(on, labels):
    assert terms(on) == labels


def test_parts_of_a_predicate():
    found = bound_to("l.flag AND r.k > 0 AND l.k < r.k AND l.k * r.k < 5 AND 1 = 1")
    assert found.columns("left") == ("flag", "k")
    assert found.columns("right") == ("k",)
    assert not found.never
    assert len(found.residual) == 1
    assert found.filters_side("left")
    flags = {"flag": pa.array([True, False, None]), "k": pa.array([1, 2, 3])}
    assert found.prefilter("left", flags).tolist() == [True, False, False]
    rest = found.filter(())
    assert rest.columns("left") == rest.columns("right") == ("k",)
    assert rest.holds({"k": pa.array([1, 5])}, {"k": pa.array([4, 6])}, 2).tolist() == [True, False]
    assert bound_to("l.k < r.k").filter(()) is None
    assert bound_to("l.k < r.k").filter([0]).holds(flags, flags, 3).tolist() == [False] * 3
    assert bound_to("l.k < r.k").prefilter("left", flags) is None


@pytest.mark.parametrize("on", ["1 = 2 AND l.k = r.k", "l.k = r.k AND NULL", "l.k = r.k AND 1 < NULL", "NOT TRUE"])
def test_constant_parts_that_are_never_true(on):
    assert bound_to(on).never


@pytest.mark.parametrize("on", ["1 = 1 AND l.k = r.k", "l.k = r.k AND (NULL OR TRUE)"])
def test_constant_parts_that_are_always_true(on):
    found = bound_to(on)
    assert not found.never
    assert found.filter(()) is None


ENDS = [-(2**63), -(2**63) + 3, -1, 0, 2**63 - 4, 2**63 - 1]
COLUMN = {side: ("col", side, "a") for side in ("left", "right")}


@pytest.mark.parametrize("shift", [0, 1, 5, 2**62, 2**63, 2**64, -5])
@pytest.mark.parametrize("compare", ["=", "<", "<=", ">", ">=", "<>"])
def test_bounds_beyond_int64_are_open_ends(shift, compare):
    numbers = pa.table({"a": ENDS})
    found = check((compare, COLUMN["left"], ("+", COLUMN["right"], ("lit", shift))), numbers, numbers)
    assert found.terms[0].ranges("right", columns(numbers)).exact
    check(("<=", ("abs", ("-", COLUMN["left"], COLUMN["right"])), ("lit", shift)), numbers, numbers)


def test_keys_that_do_not_fit_are_squeezed_and_rechecked():
    numbers = pa.table({"a": ENDS})
    found = check(
        ("<", ("*", COLUMN["left"], COLUMN["left"]), ("*", COLUMN["right"], COLUMN["right"])), numbers, numbers
    )
    keys = found.terms[0].key("left", columns(numbers))
    assert not keys.exact
    assert [min(key, 2**62) for key in keys.values.tolist()] == [2**62, 2**62, 1, 0, 2**62, 2**62]


def test_unsigned_keys_all_fit():
    numbers = pa.table({"a": pa.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64())})
    found = check(("=", COLUMN["left"], COLUMN["right"]), numbers, numbers)
    assert found.terms[0].key("left", columns(numbers)).exact
    check(("<", COLUMN["left"], ("+", COLUMN["right"], ("lit", 1))), numbers, pa.table({"a": ENDS}))


def test_multiplying_by_a_negative_constant_flips():
    numbers = pa.table({"a": [-3, -1, 0, 2]})
    for number in (-2, -1, Decimal("-0.5"), 3):
        check(("<=", ("*", COLUMN["left"], ("lit", number)), ("+", COLUMN["right"], ("lit", 1))), numbers, numbers)


def test_reversed_bounds_are_an_empty_band():
    numbers = pa.table({"a": [1, 2]})
    band = ("between", COLUMN["left"], ("+", COLUMN["right"], ("lit", 5)), ("-", COLUMN["right"], ("lit", 5)))
    (term,) = check(band, numbers, numbers).terms
    found = term.ranges("left", columns(numbers))
    assert (found.lo.tolist(), found.hi.tolist()) == ([[1, 1]], [[0, 0]])
    check(("<=", ("abs", ("-", COLUMN["left"], COLUMN["right"])), ("lit", -1)), numbers, numbers)


def test_or_of_many_bands_keeps_to_sixteen_ranges():
    numbers = pa.table({"a": list(range(0, 60, 2))})
    doubles = pa.table({"a": [float(n) for n in range(0, 60, 2)]})
    points = [("=", COLUMN["left"], ("+", COLUMN["right"], ("lit", 2 * n))) for n in range(20)]
    (exact,) = check(("or", *points), numbers, numbers).terms
    assert (exact.pieces, exact.exact) == (20, True)
    (rounded,) = check(("or", *points), doubles, doubles).terms
    assert (rounded.pieces, rounded.exact) == (16, False)


def test_a_float_band_means_what_is_written_whichever_row_probes():
    lefts = pa.table({"a": [0.1 + 0.2, 0.3, 1e16, 5e-324, 1.7e308]})
    rights = pa.table({"a": [0.1, -4.7, 0.30000000000000004, 1e16 + 2, -1.7e308]})
    (term,) = check(("<=", ("-", COLUMN["left"], COLUMN["right"]), ("lit", 5)), lefts, rights).terms
    assert (term.label, term.exact) == ("ranges l.a ~ r.a", True)
    check(("=", ("-", COLUMN["left"], COLUMN["right"]), ("lit", Decimal("0.2"))), lefts, rights)


@pytest.mark.parametrize(
    ("on", "exact"),
    [
        ("l.f < r.f", True),
        ("l.f + 1 <= r.f * 2", True),
        ("l.k < r.f", True),
        ("l.f - r.f <= 5", True),
        ("abs(l.f - r.f) <= 5", True),
        ("l.k / 2 BETWEEN r.f - 5 AND r.f", True),
        ("l.s = r.s", False),
    ],
)
def test_only_hashes_need_a_recheck(on, exact):
    assert bound_to(on).terms[0].exact is exact


@pytest.mark.parametrize(
    ("on", "label"),
    [
        ("l.f * 1000 BETWEEN r.f - 5 AND r.f + 5", "band l.f * 1000 ~ r.f"),
        ("abs(l.f / 7 - r.f * 3) <= 1", "band l.f / 7 ~ r.f * 3"),
        ("l.f + 1 <= r.f AND l.f >= r.f * 0.5", "band l.f ~ r.f"),
        ("l.f + 1 <= r.f AND l.f + 1 >= r.f * 0.5", "band l.f + 1 ~ r.f"),
        ("l.f <> r.f OR l.f + 1 < r.f", "ranges l.f ~ r.f"),
        ("-l.f <= r.f AND l.f <= r.f", "band l.f ~ r.f"),
    ],
)
def test_keys_are_freed_of_no_more_than_they_must_be(on, label):
    assert terms(on) == [label]


def test_keys_of_plain_columns_are_not_copied():
    numbers = pa.array(range(10))
    keys = bound_to("abs(l.k - r.k) <= 5").terms[0].key("left", {"k": numbers}).values
    assert keys.__array_interface__["data"][0] == numbers.buffers()[1].address


def test_the_axis_of_a_band():
    (exact,) = bound_to("abs(l.k - r.k) <= 5").terms
    keys = exact.ranges("right", {"k": pa.array([100])})
    assert exact.axis(keys.lo[0]).tolist() == [95]
    (rounded,) = bound_to("abs(l.f - r.f) <= 5").terms
    assert rounded.band_width == 10.0
    found = rounded.ranges("right", {"f": pa.array([100.0, -0.0])})
    np.testing.assert_allclose(rounded.axis(found.lo[0]), [95, -5], rtol=1e-12)
    np.testing.assert_allclose(rounded.axis(found.hi[0]), [105, 5], rtol=1e-12)
    assert rounded.axis(rounded.key("left", {"f": pa.array([-0.0, -1.5])}).values).tolist() == [0.0, -1.5]
    (open_end,) = bound_to("l.f <= r.f").terms
    assert open_end.axis(open_end.ranges("right", {"f": pa.array([1.0])}).lo[0]).tolist() == [-np.inf]


@pytest.mark.parametrize(
    ("on", "width"),
    [
        ("l.k = r.k", 0),
        ("l.k BETWEEN r.k - 5 AND r.k + 7", 12),
        ("2 * l.k BETWEEN r.k - 5 AND r.k + 5", 5),
        ("l.f BETWEEN r.f - 0.5 AND 2 + r.f", 2.5),
        ("abs(l.t - r.t) <= INTERVAL '1' SECOND", 2_000_000),
        ("l.k <= r.k", None),
        ("l.k <= 2 * r.k AND l.k >= r.k", None),
        ("l.s = r.s", None),
    ],
)
def test_band_width(on, width):
    assert bound_to(on).terms[0].band_width == width


@pytest.mark.parametrize(
    ("on", "widths"),
    [
        ("l.k * 1000 BETWEEN r.k - 5 AND r.k + 5", (0, 10)),
        ("l.f BETWEEN (r.f - 5) / 1000 AND (r.f + 5) / 1000", (0.01, 10)),
        ("l.f * 1000 BETWEEN r.f - 5 AND r.f + 5", (10, 10)),
        ("l.k BETWEEN r.f - 1 AND r.f + 1", (2, 2)),
        ("l.s = r.s", None),
    ],
)
def test_widths_on_either_side(on, widths):
    assert bound_to(on).terms[0].widths == widths


ROUTES = """
import pyarrow as pa
from slidejoin.predicate.bind import bind
from slidejoin.predicate.sql_text.sql import parse
words = ["", "a", "naïve", "a" * 99]
schema = pa.schema([("s", pa.string())])
term = bind(parse("l.s = r.s"), schema, schema).terms[0]
for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary()):
    print(*term.route("left", {"s": pa.array([word.encode() for word in words]).cast(kind)}).values)
print(*term.route("right", {"s": pa.array(words).dictionary_encode()}).values)
"""


def test_routes_of_strings_are_the_same_in_every_process_layout_and_mode():
    lines = set()
    for changed in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2", "NUMBA_DISABLE_JIT": "1"}):
        done = subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", "-c", ROUTES],
            env=os.environ | changed,
            capture_output=True,
            text=True,
            check=True,
        )
        lines |= set(done.stdout.splitlines())
    assert len(lines) == 1
    assert len(set(lines.pop().split())) == 4


def test_routes_agree_across_kinds_of_number():
    found = bind(parse("l.a = r.a"), pa.schema([("a", pa.int64())]), pa.schema([("a", pa.float64())])).terms[0]
    left = found.route("left", {"a": pa.array([0, 1, 2**53, None])})
    right = found.route("right", {"a": pa.array([-0.0, 1.0, 2.0**53, 0.5])})
    assert left.values[:3].tolist() == right.values[:3].tolist()
    assert left.valid.tolist() == right.valid.tolist() == [True, True, True, False]
    assert bound_to("l.k < r.k").terms[0].route("left", {"k": pa.array([1])}) is None
