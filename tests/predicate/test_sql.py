from __future__ import annotations

import math
import re
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pytest

from slidejoin import PredicateError
from slidejoin.predicate.expression.expr import (
    Abs,
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Compare,
    IsNull,
    Literal,
    Negate,
    Not,
    Or,
)
from slidejoin.predicate.sql_text.sql import parse

A, B, C, F = Column("left", "a"), Column("right", "b"), Column("left", "c"), Column("left", "f")
FIVE = Literal(5)


@pytest.mark.parametrize(
    ("text", "expr"),
    [
        ("l.a = r.b", Compare("=", A, B)),
        ("l.a == r.b", Compare("=", A, B)),
        ("l.a <> r.b", Compare("<>", A, B)),
        ("l.a != r.b", Compare("<>", A, B)),
        ("5 >= l.a", Compare(">=", FIVE, A)),
        (
            "l.a BETWEEN r.b - 5 AND r.b + 5",
            And((Compare(">=", A, Arithmetic("-", B, FIVE)), Compare("<=", A, Arithmetic("+", B, FIVE)))),
        ),
        ("l.a NOT BETWEEN 5 AND r.b", Not(And((Compare(">=", A, FIVE), Compare("<=", A, B))))),
        ("ABS(l.a - r.b) <= 5", Compare("<=", Abs(Arithmetic("-", A, B)), FIVE)),
        ("l.a IN (5, r.b)", Or((Compare("=", A, FIVE), Compare("=", A, B)))),
        ("l.a IN (5)", Compare("=", A, FIVE)),
        ("l.a NOT IN (5, NULL)", Not(Or((Compare("=", A, FIVE), Compare("=", A, Literal(None)))))),
        ("l.a IS NULL", IsNull(A)),
        ("l.a IS NOT NULL", Not(IsNull(A))),
        ("NOT l.a IS NULL", Not(IsNull(A))),
        ("l.a = r.b IS NULL", IsNull(Compare("=", A, B))),
        ("l.f AND (l.f AND l.a = 5)", And((F, F, Compare("=", A, FIVE)))),
        ("l.f OR l.a = 5 OR TRUE", Or((F, Compare("=", A, FIVE), Literal(value=True)))),
        ("l.f OR NOT l.f AND FALSE", Or((F, And((Not(F), Literal(value=False)))))),
        ("(l.a = 5) = l.f", Compare("=", Compare("=", A, FIVE), F)),
        ("CAST(l.a AS DOUBLE) < r.b", Compare("<", Cast(A), B)),
        ("TRY_CAST(l.a AS INTEGER) < r.b", Compare("<", Cast(A, "INT"), B)),
        ("l.a::text < r.b", Compare("<", Cast(A, "VARCHAR"), B)),
        ("CAST(l.a AS NUMERIC(5)) < r.b", Compare("<", Cast(A, "DECIMAL(5, 0)"), B)),
        ("date(l.a) = r.b", Compare("=", Cast(A, "DATE"), B)),
        ("l.a IS DISTINCT FROM r.b", Compare("IS DISTINCT FROM", A, B)),
        ("l.a IS NOT DISTINCT FROM r.b", Compare("IS NOT DISTINCT FROM", A, B)),
        ("l.a <=> r.b", Compare("IS NOT DISTINCT FROM", A, B)),
        ("l.f IS TRUE", Compare("IS NOT DISTINCT FROM", F, Literal(value=True))),
        ("l.f IS NOT FALSE", Not(Compare("IS NOT DISTINCT FROM", F, Literal(value=False)))),
        ("(l.a, 5) = (r.b, l.c)", And((Compare("=", A, B), Compare("=", FIVE, C)))),
        ("(l.a, 5) <> (r.b, l.c)", Or((Compare("<>", A, B), Compare("<>", FIVE, C)))),
        ("(l.a, l.c) IN ((r.b, 5))", And((Compare("=", A, B), Compare("=", C, FIVE)))),
        ("CASE WHEN l.f THEN l.a END < r.b", Compare("<", Call("case", (F, A)), B)),
        ("IF(l.f, l.a, 5) < r.b", Compare("<", Call("case", (F, A, FIVE)), B)),
        ("CASE l.a WHEN 5 THEN l.c ELSE r.b END < 5", Compare("<", Call("case", (Compare("=", A, FIVE), C, B)), FIVE)),
        ("nullif(l.a, 5) < r.b", Compare("<", Call("case", (Compare("=", A, FIVE), Literal(None), A)), B)),
        ("ifnull(l.a, 5) < r.b", Compare("<", Call("coalesce", (A, FIVE)), B)),
        ("l.a NOT LIKE r.b ESCAPE '!'", Not(Call("like", (A, B, Literal("!"))))),
        ("l.a // 5 * 5 < r.b", Compare("<", Arithmetic("*", Arithmetic("//", A, FIVE), FIVE), B)),
        ("l.a DIV 5 < r.b", Compare("<", Arithmetic("//", A, FIVE), B)),
        ("mod(l.a, 5) < r.b", Compare("<", Arithmetic("%", A, FIVE), B)),
        ("l.a || r.b = l.c", Compare("=", Call("||", (A, B)), C)),
        ("EXTRACT(DOW FROM l.a) = 5", Compare("=", Call("dayofweek", (A,)), FIVE)),
        ("date_part('week', l.a) = 5", Compare("=", Call("week", (A,)), FIVE)),
        ("substring(l.a FROM 5 FOR 5) = r.b", Compare("=", Call("substr", (A, FIVE, FIVE)), B)),
        ("trim(LEADING 'x' FROM l.a) = r.b", Compare("=", Call("ltrim", (A, Literal("x"))), B)),
        ("position(r.b IN l.a) = 5", Compare("=", Call("strpos", (A, B)), FIVE)),
        ("l.a = [r.b, 5]", Compare("=", A, Call("list", (B, FIVE)))),
        ("l.a::double < r.b", Compare("<", Cast(A), B)),
        ("-l.a * 5 < r.b", Compare("<", Arithmetic("*", Negate(A), FIVE), B)),
        ("l.a - r.b - 5 < 5", Compare("<", Arithmetic("-", Arithmetic("-", A, B), FIVE), FIVE)),
        ("l.a + r.b % 5 < 5", Compare("<", Arithmetic("+", A, Arithmetic("%", B, FIVE)), FIVE)),
        ("l.a / r.b > 5 -- a comment", Compare(">", Arithmetic("/", A, B), FIVE)),
        ("l.f;", F),
    ],
)
def test_conditions(text, expr):
    assert parse(text) == expr


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("0.10", Decimal("0.10")),
        (".5", Decimal("0.5")),
        ("1e5", Decimal("1e5")),
        ("2.5E-3", Decimal("0.0025")),
        ("-0.0", Decimal("-0.0")),
        ("'it''s \\n'", "it's \\n"),
        ("X'00fF'", b"\x00\xff"),
        ("x''", b""),
        ("NULL", None),
        ("true", True),
        ("DATE '2013-01-31'", date(2013, 1, 31)),
        ("CAST('2013-01-31' AS DATE)", date(2013, 1, 31)),
        ("TIME '12:30:00.5'", time(12, 30, 0, 500_000)),
        ("TIMESTAMP '2013-01-31 12:30:00'", datetime(2013, 1, 31, 12, 30)),
        ("TIMESTAMP '2013-01-31 12:30:00.123456000'", datetime(2013, 1, 31, 12, 30, 0, 123456)),
        ("TIMESTAMP_NTZ '2013-01-31 12:30:00'", datetime(2013, 1, 31, 12, 30)),
        ("TIMESTAMP '2013-01-31T12:30:00+02:00'", datetime(2013, 1, 31, 10, 30, tzinfo=UTC)),
        ("TIMESTAMPTZ '2013-01-31 12:30:00'", datetime(2013, 1, 31, 12, 30, tzinfo=UTC)),
        ("TIMESTAMP WITH TIME ZONE '2013-01-31 12:30:00-05'", datetime(2013, 1, 31, 17, 30, tzinfo=UTC)),
        ("INTERVAL 10 MINUTES", timedelta(minutes=10)),
        ("INTERVAL '10 minutes'", timedelta(minutes=10)),
        ("INTERVAL '1' HOUR", timedelta(hours=1)),
        ("INTERVAL (2) WEEKS", timedelta(weeks=2)),
        ("INTERVAL '1 day 2 hours'", timedelta(hours=26)),
        ("INTERVAL '-1.5 hours'", timedelta(hours=-1.5)),
        ("-INTERVAL '5 ms'", timedelta(milliseconds=-5)),
        ("INTERVAL '1 02:03:04.5'", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("INTERVAL '3000 nanoseconds'", timedelta(microseconds=3)),
        ("CAST('-Infinity' AS DOUBLE)", -math.inf),
        ("CAST('nan' AS DOUBLE)", math.nan),
    ],
)
def test_constants(text, value):
    expr = parse(f"l.a = {text}")
    assert expr == Compare("=", A, Literal(value))
    assert isinstance(expr, Compare)
    assert isinstance(expr.right, Literal)
    assert type(expr.right.value) is type(value)
    assert str(expr.right.value) == str(value)


def test_a_minus_before_a_parenthesis_is_an_operation():
    assert parse("l.a = -(5)") == Compare("=", A, Negate(FIVE))


@pytest.mark.parametrize("name", ["a b", "1st", "é", 'q"', "select", ""])
def test_names_in_double_quotes_and_backticks(name):
    expr = Compare("<", Column("left", name), Column("right", name))
    double = '"' + name.replace('"', '""') + '"'
    assert parse(f"l.{double} < r.`{name}`") == expr


def test_names_of_columns_keep_their_case():
    assert parse("l.Price < r.pRICE") == Compare("<", Column("left", "Price"), Column("right", "pRICE"))


def test_aliases_match_exactly_first_then_regardless_of_case():
    assert parse("DC1.a < dc2.b", ("dc1", "Dc2")) == Compare("<", A, B)
    assert parse("X.a < x.b", ("X", "x")) == Compare("<", A, B)
    assert parse("left.a < right.b", ("left", "right")) == Compare("<", A, B)
    assert parse('"my side".a < r.b', ("my side", "r")) == Compare("<", A, B)
    with pytest.raises(PredicateError, match="unknown side 'L'"):
        parse('"L".a < r.b')


CAN = "A predicate is made of columns, constants, + - * / // % ||, functions, CAST, CASE"


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", ["the predicate is an empty text; write a condition such as 'l.a < r.b'"]),
        ("a = r.b", ["the column a has no side; write l.a or r.a"]),
        ('l.a = "x"', ['the column "x" has no side', "If a string was meant, it takes single quotes: 'x'"]),
        ("l = 1", ["l is a side, not a column; name one of its columns, as in l.id"]),
        ("l.* = 1", ["l.* stands for many columns; name one, as in l.id"]),
        ("x.a = 1", ["unknown side 'x' in x.a; the sides are 'l' (left) and 'r' (right)."]),
        ("l.a.b = 1", ["l.a.b is a field inside a column"]),
        ("l.a + 1", ["A predicate is a condition, not the value l.a + 1. Compare it with something"]),
        ("5", ["A predicate is a condition, not the value 5."]),
        ("l.f AND l.a - 1", ["AND takes conditions, not the value l.a - 1"]),
        ("l.f OR 'x'", ["OR takes conditions, not the value 'x'"]),
        ("NOT 1", ["NOT takes conditions, not the value 1"]),
        ("(l.a = r.b) + 1 > 2", ["+ takes values, not the condition l.a = r.b", CAN]),
        ("abs(l.a < 2) = 1", ["abs takes values, not the condition l.a < 2", CAN]),
        ("l.a < r.b < 3", ["comparisons cannot be chained: l.a < r.b < 3", "a < r.b AND r.b < c"]),
        ("l.f = NOT l.g", ["comparisons cannot be chained: l.f = NOT l.g"]),
        ("l.a BETWEEN 1 AND 2 IS NULL", ["put one in parentheses if its truth value is meant"]),
        ("l.a IN (SELECT 1)", ["l.a IN (SELECT 1) cannot be used", "IN takes a list of values"]),
        ("l.a = (SELECT 1)", ["(SELECT 1) cannot be used", "a predicate sees one left and one right row"]),
        ("EXISTS (SELECT 1)", ["EXISTS(SELECT 1) cannot be used", "one left and one right row"]),
        ("row_number() OVER () = 1", ["ROW_NUMBER() OVER () cannot be used", "nothing to aggregate over"]),
        ("sum(l.a) = 1", ["nothing to aggregate over"]),
        ("abss(l.a) = 1", ["unknown function abss in abss(l.a)", "Did you mean 'abs'?"]),
        ("cbrt(l.a) = 1", ["unknown function cbrt", "The functions are abs, coalesce, greatest"]),
        ("epock(l.a) = 1", ["unknown function epock", "Did you mean 'epoch'?"]),
        ("ln(l.a) = 1", ["its last bit differs from machine to machine"]),
        ("l.s SIMILAR TO 'x'", ["write [NOT] LIKE, or match the expression into a boolean column"]),
        ("lpad(l.s, 3, 'x') = 'a'", ["build the string as a column of the stream first"]),
        ("l.s = r.s COLLATE nocase", ["write lower(x) on both sides to overlook case"]),
        ("date_diff('day', l.a, r.b) = 1", ["l.a - r.b < INTERVAL '1 day'"]),
        ("EXTRACT(century FROM l.a) = 1", ["there is no part CENTURY of a time", "the parts are day, dayofweek"]),
        ("nvl2(l.a, 1, 2) = 1", ["unknown function nvl2"]),
        ("coalesce() = 1", ["cannot read the predicate at ')'"]),
        ("octet_length(l.s, 1) = 1", ["octet_length takes 1 value, got 2"]),
        ("floor(l.a, 2) = 1", ["has something that cannot be used in a predicate: decimals"]),
        ("CASE WHEN l.a + 1 THEN 1 END = 1", ["CASE WHEN takes conditions, not the value l.a + 1"]),
        (
            "(l.a, l.b) < (r.a, r.b)",
            ["rows of values are compared by = and <> only", "write a < c OR (a = c AND b < d)"],
        ),
        ("(l.a, l.b) = (r.a, r.b, 1)", ["a row of 2 values is compared with one of 3"]),
        ("(l.a, l.b) = r.a", ["r.a is compared with a row of values; write one too"]),
        ("(l.a, l.b) IS NULL", ["a row of values is compared with another"]),
        ("l.a = current_date", ["unknown function current_date"]),
        ("abs(l.a, 2) = 1", ["cannot read the predicate at ')' (line 1, column 11), after 'abs(l.a, 2'"]),
        ("l.a ^ 2 = 4", ["bits cannot be computed"]),
        ("l.a = ?", ["put the value itself into the text"]),
        ("l.a[1] = 2", ["make the inner value a column of its own first"]),
        ("l.a BETWEEN SYMMETRIC 1 AND 2", ["only plain BETWEEN low AND high is supported"]),
        ("CAST(l.a AS UTINYINT) = 1", ["there is no cast to UTINYINT", "values can be cast to BOOLEAN, TINYINT"]),
        ("l.a::INT[] = r.a", ["there is no cast to", "Cast the column in its stream before the join"]),
        ("CAST(l.a AS DECIMAL(39, 2)) = 1", ["decimals have 1 to 38 digits"]),
        ("l.a = CAST('1.5' AS DOUBLE)", ["the text '1.5' cannot be cast to DOUBLE: write the number itself"]),
        ("l.t = INTERVAL '1 month'", ["'month', which has no fixed length; use weeks, days or smaller units"]),
        ("l.t = INTERVAL 1 YEAR", ["'year', which has no fixed length"]),
        ("l.t = INTERVAL 5 parsec", ["unknown unit 'parsec'", "the units are weeks, days, hours"]),
        ("l.t = INTERVAL '5 minuets'", ["unknown unit 'minuets'", "Did you mean 'minute'?"]),
        ("l.t = INTERVAL 'soon'", ["cannot read the duration 'soon'"]),
        ("l.t = INTERVAL '1 ns'", ["is finer than a microsecond"]),
        ("l.t = INTERVAL '9999999999 days'", ["is too long; the longest is 999999999 days"]),
        ("l.t = INTERVAL l.a MINUTES", ["write a constant such as INTERVAL '10 minutes'"]),
        ("l.t = INTERVAL '1 2:03:04' DAY TO SECOND", ["write a constant such as INTERVAL '10 minutes'"]),
        ("l.t = DATE '2013-02-30'", ["cannot read DATE '2013-02-30'; it is written like DATE '2013-01-31'"]),
        ("l.t = TIMESTAMP_NTZ '2013-02-03 00:00Z'", ["it is written like TIMESTAMP '2013-01-31 12:00:00'"]),
        ("l.t = TIMESTAMP '2013-02-03 00:00:00.1234567'", ["is finer than a microsecond"]),
        ("l.t = TIME '12:00:00+01'", ["the time of day 12:00:00+01:00 has a zone"]),
        ("l.a = X'0'", ["X'0' is no binary constant; it takes two hexadecimal digits for each byte"]),
        ("l.a = 1e999", ["the constant 1E+999 is out of range"]),
        (f"l.a = {'9' * 500}", ["is out of range"]),
        ("l.f && l.g", ["cannot read the predicate at '&&' (line 1, column 5), after 'l.f '. Write AND"]),
        ("SELECT 1", ["A predicate is the condition alone, without SELECT, FROM or WHERE"]),
        ("l.a = 5 l", ["cannot read the predicate at 'l' (line 1, column 9)"]),
        ("l.a =\n = 3", ["at '=' (line 2, column 2)"]),
        ("l.a = 'x", ["a quote is never closed"]),
        ("l.a = 1; l.a = 2", ["the predicate should be one condition, got 2 separated by ';'", "Join them by AND"]),
        ("-- nothing", ["there is no condition in the predicate '-- nothing'"]),
        ("(" * 300 + "l.f" + ")" * 300, ["the predicate is nested too deeply to be read"]),
        ("NOT " * 150 + "l.f", ["nested"]),
    ],
)
def test_what_cannot_be_is_refused_with_the_piece_and_the_way_out(text, pieces):
    with pytest.raises(PredicateError) as caught:
        parse(text)
    for piece in pieces:
        assert piece in str(caught.value)


def test_a_long_chain_of_one_connective_is_no_depth():
    expr = parse(" OR ".join(f"l.{'ab'[n % 2]} = {n}" for n in range(3000)))
    assert isinstance(expr, Or)
    assert expr.parts[::2999] == (Compare("=", A, Literal(0)), Compare("=", Column("left", "b"), Literal(2999)))


def test_the_nearest_alias_is_named():
    with pytest.raises(PredicateError, match=re.escape("the sides are 'trips' (left) and 'weather' (right). Did you")):
        parse("trip.a < weather.b", ("trips", "weather"))


def test_sqlglot_is_loaded_only_for_text():
    code = """
import sys
import slidejoin as sj
from slidejoin.predicate import as_predicate
as_predicate(sj.left.a < sj.right.b)
before = "sqlglot" in sys.modules
as_predicate("l.a < r.b")
print(before, "sqlglot" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(
    ("constant", "advice"),
    [
        ("0x1", "cannot read 0x1: write 1 if a number was meant, or X'01' for binary"),
        ("0XfF", "cannot read 0XfF: write 255 if a number was meant, or X'FF' for binary"),
        ("1_000", "Write numbers in decimal, like 5, 0.5 or 5e-3, without signs in between and letters behind"),
        ("0b1", "Write numbers in decimal, like 5, 0.5 or 5e-3"),
        ("5L", "Write numbers in decimal, like 5, 0.5 or 5e-3"),
        ("1.5d", "Write numbers in decimal, like 5, 0.5 or 5e-3"),
        ("b'1'", "Write text like 'abc', and binary in hexadecimal, like X'00FF'"),
        ("E'x'", "Write text like 'abc', and binary in hexadecimal, like X'00FF'"),
    ],
)
def test_constants_of_other_languages(constant: str, advice: str) -> None:
    with pytest.raises(PredicateError, match=re.escape(advice)):
        parse(f"l.a = {constant} AND r.b = 2")


def test_hexadecimal_in_names_and_texts_is_none() -> None:
    found = parse("l.b0x1 = '0x1' AND l.\"0x1\" = X'01'")
    assert found == parse("(l.b0x1 = '0x1') AND (l.`0x1` = x'01')")
