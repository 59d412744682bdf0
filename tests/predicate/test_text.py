from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings

from slidejoin.predicate import to_sql
from slidejoin.predicate.expression.expr import (
    Arithmetic,
    Column,
    Compare,
    Expr,
    IsNull,
    Literal,
    Negate,
    Not,
    Scalar,
    columns_of,
    walk,
)
from slidejoin.predicate.sql_text.dialect import SlideJoinSql
from slidejoin.predicate.sql_text.sql import parse

from .expressions import conditions

A, B = Column("left", "a"), Column("right", "b")


@given(conditions)
@settings(max_examples=8 * settings.default.max_examples, deadline=None)
def test_what_is_written_reads_back_as_the_same_expression(expr: Expr) -> None:
    assert parse(to_sql(expr)) == expr


@given(conditions)
@settings(max_examples=settings.default.max_examples, deadline=None)
def test_other_aliases_read_back_too(expr: Expr) -> None:
    aliases = ("dc 1", "R")
    assert parse(to_sql(expr, aliases), aliases) == expr


@pytest.mark.parametrize(
    "text",
    [
        "l.a - (r.b - 5) <= 3 * (l.c + 1)",
        "l.a - r.b - 5 < l.a * l.b / l.c % 2",
        "(l.p OR r.q) AND NOT (l.p AND r.q)",
        "l.p OR r.q AND l.s",
        "NOT NOT l.p",
        "(NOT l.p) = (l.a < r.b)",
        "(l.p OR r.q) IS NOT NULL",
        "l.a + 1 IS NULL",
        "-(-l.a) < -abs(r.b) AND l.a <> -5 AND l.a - -5 < -(5)",
        'l."a b" = r."c""d"',
        "l.d = DATE '2013-01-31' AND l.t = TIME '12:30:00' AND l.s = 'it''s' AND l.x = X'00FF'",
        "l.a < CAST('inf' AS DOUBLE) AND CAST(l.a AS DOUBLE) / 2 > 0.1",
    ],
)
def test_no_parentheses_but_the_needed(text):
    assert to_sql(parse(text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(minutes=10), "INTERVAL '10 minutes'"),
        (timedelta(days=-1), "INTERVAL '-1 day'"),
        (timedelta(microseconds=1), "INTERVAL '1 microsecond'"),
        (timedelta(0), "INTERVAL '0 seconds'"),
        (datetime(2013, 1, 31, 12), "TIMESTAMP '2013-01-31 12:00:00'"),
        (datetime(2013, 1, 31, 12, tzinfo=UTC), "TIMESTAMPTZ '2013-01-31 12:00:00+00:00'"),
        (Decimal("1E+5"), "1E+5"),
        (Decimal("5.0"), "5.0"),
        (Decimal(5), "5."),
        (None, "NULL"),
        (True, "TRUE"),
    ],
)
def test_constants(value, text):
    assert to_sql(Literal(value)) == text


def test_a_minus_before_a_constant_stays_an_operation_when_it_is_one():
    assert to_sql(Compare("=", Negate(Literal(-5)), Negate(Negate(A)))) == "-(-5) = -(-l.a)"


def test_every_keyword_can_be_the_name_of_a_column():
    words = {word.lower() for word in SlideJoinSql.Tokenizer.KEYWORDS if word.replace("_", "").isalpha()}
    assert len(words) > 200
    for word in words:
        expr = Compare("<", Column("left", word), Column("right", word.upper()))
        assert parse(to_sql(expr)) == expr


def test_columns_of_a_side_in_order_of_appearance():
    expr = parse("r.b < l.c + l.a AND l.c > 1 AND NOT (r.d IS NULL OR l.z)")
    assert columns_of(expr, "left") == ("c", "a", "z")
    assert columns_of(expr, "right") == ("b", "d")


def test_walk_visits_nodes_before_their_operands_in_the_order_of_the_text():
    expr = Not(IsNull(Arithmetic("+", A, B)))
    assert list(walk(expr)) == [expr, expr.operand, Arithmetic("+", A, B), A, B]


def test_constants_are_the_same_only_if_they_compute_the_same():
    values: list[Scalar] = [
        1,
        True,
        Decimal(1),
        Decimal("1.0"),
        1.0,
        "1",
        b"1",
        0.0,
        -0.0,
        None,
        math.nan,
        Decimal("0.0"),
        Decimal("-0.0"),
    ]
    nodes = [Literal(value) for value in values]
    assert len(set(nodes)) == len(values)
    assert nodes == [Literal(value) for value in values]
    assert Literal(math.nan) == Literal(float("nan"))
    assert Literal(1) != 1


@pytest.mark.parametrize("more", ["5", "-5", "5.5", "'x'", "l.a", "INTERVAL '2 seconds'"])
@pytest.mark.parametrize("first", ["(INTERVAL '1 day')", "(l.t - INTERVAL '1 day')"])
def test_an_interval_does_not_swallow_what_is_added_to_it(first: str, more: str) -> None:
    expr = parse(f"l.b = {first} + {more}")
    assert parse(to_sql(expr)) == expr
