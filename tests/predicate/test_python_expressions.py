from __future__ import annotations

import copy
import math
import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import slidejoin as sj
from slidejoin import PredicateError
from slidejoin.predicate import Expression, as_predicate, to_sql
from slidejoin.predicate.expression.expr import Column, Compare, Literal, Negate
from slidejoin.predicate.sql_text.sql import parse

a, b, f = sj.left.a, sj.right.b, sj.left.f


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (a == b, "l.a = r.b"),
        (a != b, "l.a <> r.b"),
        ((a < 5) & (5 < b), "l.a < 5 AND r.b > 5"),  # noqa: SIM300 - a constant on the left is the case
        ((a <= b) | (a >= 5), "l.a <= r.b OR l.a >= 5"),
        (~(a > b), "NOT l.a > r.b"),
        (a.between(b - 5, b + 5), "l.a BETWEEN r.b - 5 AND r.b + 5"),
        (abs(a - b) <= 5, "abs(l.a - r.b) <= 5"),
        ((a - b).abs() <= 5, "abs(l.a - r.b) <= 5"),
        (5 + a - 1 == 2 * b / (3 - a) % 4, "5 + l.a - 1 = 2 * r.b / (3 - l.a) % 4"),
        (6 / a == 7 % b, "6 / l.a = 7 % r.b"),
        (-a < +b, "-l.a < r.b"),
        (a.is_null() & ~b.is_null(), "l.a IS NULL AND r.b IS NOT NULL"),
        (a.is_in([1, b, "x"]), "l.a IN (1, r.b, 'x')"),
        (a.is_in([]), "FALSE"),
        (a.is_in(range(2)), "l.a IN (0, 1)"),
        (a.cast_float() < 0.1, "CAST(l.a AS DOUBLE) < 0.1"),
        (f & True, "l.f AND TRUE"),
        (False | f, "FALSE OR l.f"),
        (True & f & f & f, "TRUE AND l.f AND l.f AND l.f"),
        (sj.left["a b"] < sj.right["é"], 'l."a b" < r."é"'),
        (sj.left._c0 < sj.right["__x__"], "l._c0 < r.__x__"),
        (sj.left.t <= sj.right.t + timedelta(minutes=10), "l.t <= r.t + INTERVAL '10 minutes'"),
        (sj.left.d == date(2013, 1, 31), "l.d = DATE '2013-01-31'"),
        (sj.lit(1) < a, "1 < l.a"),
        (a == sj.lit(None), "l.a = NULL"),
        (-sj.lit(5) < a, "-5 < l.a"),
        (np.int64(5) + a < np.float64(0.1), "5 + l.a < 0.1"),
        (np.float32(0.5) < a, "l.a > 0.5"),
        (7 // a == b // 2, "7 // l.a = r.b // 2"),
        (a.is_distinct_from(b), "l.a IS DISTINCT FROM r.b"),
        (a.is_not_distinct_from(None), "l.a <=> NULL"),
        (a.like("x%"), "l.a LIKE 'x%'"),
        (~a.like(b, escape="!"), "l.a NOT LIKE r.b ESCAPE '!'"),
        (a.cast("numeric(5,2)") < b, "CAST(l.a AS DECIMAL(5, 2)) < r.b"),
        (sj.function("substr", a, 1, 3) == b, "substr(l.a, 1, 3) = r.b"),
        (sj.function("IFNULL", a, b) == 5, "coalesce(l.a, r.b) = 5"),
        (sj.function("nullif", a, b) == 5, "nullif(l.a, r.b) = 5"),
        (sj.function("abs", a) == 5, "abs(l.a) = 5"),
        (sj.function("list", a, 1) == b, "[l.a, 1] = r.b"),
        (sj.function("starts_with", a, "x"), "starts_with(l.a, 'x')"),
        (sj.case((a < b, 1), (f, 2), otherwise=a) == 5, "CASE WHEN l.a < r.b THEN 1 WHEN l.f THEN 2 ELSE l.a END = 5"),
        (sj.case((f, a)) == b, "CASE WHEN l.f THEN l.a END = r.b"),
    ],
)
def test_operators_make_what_sql_text_makes(expression, text):
    assert expression.node == parse(text)


@pytest.mark.parametrize(
    ("value", "normal"),
    [
        (0.1, Decimal("0.1")),
        (-0.0, Decimal("-0.0")),
        (math.inf, math.inf),
        (math.nan, math.nan),
        (Decimal("NaN"), math.nan),
        (Decimal("-Infinity"), -math.inf),
        (True, True),
        (np.True_, True),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float16(0.5), Decimal("0.5")),
        (np.float32(0.1), Decimal("0.10000000149011612")),
        (np.str_("x"), "x"),
        (np.bytes_(b"x"), b"x"),
        (bytearray(b"x"), b"x"),
        (time(12, 30), time(12, 30)),
        (datetime(2013, 1, 31, 12, tzinfo=timezone(timedelta(hours=2))), datetime(2013, 1, 31, 10, tzinfo=UTC)),
        (np.datetime64("2013-01-31"), date(2013, 1, 31)),
        (np.datetime64("2013-01"), date(2013, 1, 1)),
        (np.datetime64("2013-01-31T12:00:00.000001000", "ns"), datetime(2013, 1, 31, 12, 0, 0, 1)),
        (np.timedelta64(10, "m"), timedelta(minutes=10)),
        (np.datetime64("NaT"), None),
        (pd.NaT, None),
        (pd.Timestamp("2013-01-31 12:00", tz="America/New_York"), datetime(2013, 1, 31, 17, tzinfo=UTC)),
        (pd.Timedelta("10min"), timedelta(minutes=10)),
    ],
)
def test_constants_in_normal_form(value, normal):
    node = sj.lit(value).node
    assert node == Literal(normal)
    assert isinstance(node, Literal)
    assert type(node.value) is type(normal)
    assert str(node.value) == str(normal)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "a value of type list cannot be used in a predicate: [1, 2]"),
        ((1, 2), "Use .is_in([...]) for a choice of values."),
        (np.array([1]), "a value of type ndarray cannot be used in a predicate"),
        (Fraction(1, 3), "a value of type Fraction cannot be used in a predicate"),
        (1j, "a value of type complex cannot be used"),
        (10**400, "an integer constant has more than 400 digits"),
        (Decimal("1e401"), "the constant 1E+401 is out of range: exponents go from -400 to 400"),
        (time(12, tzinfo=UTC), "the time of day 12:00:00+00:00 has a zone"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))), "lies outside the years 1 to 9999 in UTC"),
        (np.timedelta64(1, "M"), "has no fixed length; use weeks, days or smaller units"),
        (np.datetime64(1, "ns"), "is finer than a microsecond; give whole microseconds"),
        (np.datetime64("99999-01-01"), "is out of range: timestamps go from the year 1 to 9999"),
        (pd.Timestamp(1), "is finer than a microsecond"),
        (pd.Timedelta(1), "is finer than a microsecond"),
        (sj.left, "slidejoin.left is a whole side; name one of its columns, as in slidejoin.left.id"),
    ],
)
def test_other_values_are_refused(value, message):
    with pytest.raises(PredicateError, match=re.escape(message)):
        a < value  # noqa: B015 - the comparison is the case


def test_and_or_not_and_chains_are_refused_with_the_way_out():
    hint = re.escape("Use & | ~ and parentheses instead of and, or, not: (a < b) & (c < d)")
    for wrong in (
        lambda: (a < b) and (a > 1),
        lambda: (a < b) or (a > 1),
        lambda: not (a < b),
        lambda: 1 < a < 5,
        lambda: a in [b, f],
        lambda: bool(a),
    ):
        with pytest.raises(PredicateError, match=hint):
            wrong()


def test_missing_parentheses_are_named():
    with pytest.raises(PredicateError, match=re.escape("put every comparison in parentheses: (a < b) & (c < d)")):
        a < 5 & b > 3  # noqa: B015


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: a == None, "l.a = NULL is never true; write .is_null()"),  # noqa: E711
        (lambda: a != None, "l.a <> NULL is never true; write .is_null(), or ~x.is_null() for the opposite"),  # noqa: E711
        (lambda: a**2, "the operator ** cannot be used in a predicate. A predicate is made of columns"),
        (lambda: a.cast("uuid"), "there is no cast to uuid; values can be cast to BOOLEAN"),
        (lambda: sj.function("lowe", a), "unknown function lowe. Did you mean 'lower'?"),
        (lambda: sj.function("lower", a, b), "lower takes 1 value, got 2"),
        (sj.case, "CASE has no WHEN"),
        (lambda: sj.case((a + 1, 5)), "CASE WHEN takes conditions, not the value l.a + 1"),
        (lambda: 2**a, "the operator ** cannot be used"),
        (lambda: ~(a + 1), "NOT takes conditions, not the value l.a + 1"),
        (lambda: (a < b) + 1, "+ takes values, not the condition l.a < r.b"),
        (lambda: -(a < b), "- takes values, not the condition l.a < r.b"),
        (lambda: a.is_in("abc"), "is_in takes a list of values, got 'abc'; for one value write =="),
        (lambda: a.is_in(5), "is_in takes a list of values, got 5"),
        (lambda: sj.left[5], "a column is named by a text, got 5; write left['name']"),
        (lambda: sj.lit("1.5").cast_float(), "the text '1.5' cannot be cast to DOUBLE"),
    ],
)
def test_other_mistakes(wrong, message):
    with pytest.raises(PredicateError, match=re.escape(message)):
        wrong()


def test_expressions_cannot_be_hashed():
    with pytest.raises(TypeError, match="unhashable"):
        {a}  # noqa: B018


def test_names_of_protocols_are_no_columns():
    with pytest.raises(AttributeError, match=re.escape("are written in brackets: left['__wrapped__']")):
        sj.left.__wrapped__  # noqa: B018
    assert copy.copy(a).node == Column("left", "a")


def test_repr_is_the_text():
    assert repr(a.between(b - 5, b)) == "Expression('l.a >= r.b - 5 AND l.a <= r.b')"
    assert repr(sj.right) == "slidejoin.right"


def test_the_longest_duration_has_no_negative():
    assert (-sj.lit(timedelta.max)).node == Negate(Literal(timedelta.max))


def test_predicates_are_taken_as_text_expression_or_node():
    expr = Compare("<", Column("left", "a"), Column("right", "b"))
    assert as_predicate("x.a < y.b", ("x", "y")) == expr
    assert as_predicate(a < b) == expr
    assert as_predicate(expr) == expr


@pytest.mark.parametrize(
    ("on", "aliases", "message"),
    [
        (True, ("l", "r"), "on= takes SQL text or an expression, got True. Write 'l.a < r.b', or sj.left.a"),
        (None, ("l", "r"), "on= takes SQL text or an expression, got None. Write"),
        (a + 1, ("l", "r"), "A predicate is a condition, not the value l.a + 1"),
        ("l.a < r.b", ("l", "l"), "aliases= takes two different names"),
        ("l.a < r.b", ("l",), "aliases= takes two different names, of the left and the right side, as in ('l', 'r')"),
        ("l.a < r.b", "lr", "got 'lr'"),
        ("l.a < r.b", ("", "r"), "got ('', 'r')"),
    ],
)
def test_what_is_no_predicate_is_refused(on, aliases, message):
    with pytest.raises(PredicateError, match=re.escape(message)):
        as_predicate(on, aliases)


def test_depth_is_limited():
    deep = a
    for _ in range(150):
        deep = deep + 1
    with pytest.raises(PredicateError, match="nested more than 100 levels deep"):
        as_predicate(deep < b)


def test_expression_is_typed_for_users():
    assert isinstance(a < b, Expression)
    assert to_sql((a < b).node, ("x", "y")) == "x.a < y.b"
