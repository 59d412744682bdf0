"""Functions, casts and choices against DuckDB: random expressions over random rows, value by value."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.predicate.bind import bind
from slidejoin.predicate.sql_text.sql import parse
from tests.predicate.engines import DATABASE, by_duckdb, by_slidejoin, same

ROWS = 6
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("j", pa.int32()),
        ("f", pa.float64()),
        ("g", pa.float64()),
        ("d", pa.decimal128(7, 2)),
        ("e", pa.decimal128(5, 1)),
        ("s", pa.string()),
        ("p", pa.string()),
        ("z", pa.string()),
        ("t", pa.timestamp("us")),
        ("y", pa.date32()),
        ("b", pa.bool_()),
    ]
)
TEXTS = [
    "",
    " ",
    "a",
    "A",
    "ab",
    "aab",
    " a b ",
    "a%b",
    "a_",
    "é",
    "É",
    "ßẞ",
    "naïve",
    "İ",
    "\U0001f600a",
    "x" * 12,
    "\t",
]
PATTERNS = ["", "%", "_", "a%", "%b", "%a%", "a_", "_%_", "é", "É%", "a!%b", "%\U0001f600%", ".*", "a\\b", "[a]%"]
WRITTEN = [
    *("12", " 12 ", "-7", "+3", "12.5", "-2.5", "0.5", "1e3", "1e-1", ".5", "1.", "", "abc", "12a", "1.005"),
    "99999999999",
    *("inf", "-Infinity", "NaN", "true", "F", "yes", "TRUE ", "1e400", "-0"),
    *("2024-01-05", "2024-1-5", "2024-02-30", "2024-01-05 10:11:12", "2024-01-05T10:11:12.1234567"),
    *("2024-01-05 10:11", "2024-01-05 25:00:00", "1960-12-31 23:59:59.5", "2024-01-05x"),
]  # fmt: skip
FLOATS = [
    -2.5,
    -1.5,
    -0.5,
    -0.0,
    0.0,
    0.49999999999999994,
    0.5,
    1.25,
    2.5,
    3.7,
    1e17,
    -1e300,
    math.inf,
    -math.inf,
    math.nan,
]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.sampled_from([-7, -3, -1, 0, 1, 2, 3, 10, 300, 2**31, -(2**40)]),
    "j": st.sampled_from([-3, -2, -1, 0, 1, 2, 7]),
    "f": st.sampled_from(FLOATS) | st.floats(-1e6, 1e6),
    "g": st.sampled_from([-2.0, 0.0, 0.3, 2.0, math.nan]),
    "d": st.integers(-3000, 3000).map(lambda cents: Decimal(cents).scaleb(-2)),
    "e": st.integers(-30, 30).map(lambda tenths: Decimal(tenths).scaleb(-1)),
    "s": st.sampled_from(TEXTS)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
    "p": st.sampled_from(PATTERNS),
    "z": st.sampled_from(WRITTEN),
    "t": st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)) | st.just(datetime(1969, 12, 29)),
    "y": st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    "b": st.booleans(),
}

Text = tuple[str, str]
"""An expression for slidejoin, and for DuckDB."""


def both(text: str) -> Text:
    return text, text


def made(form: str, *parts: Text, theirs: str | None = None) -> Text:
    """A form with its parts put in, and what DuckDB calls it."""
    ours, other = ([part[side] for part in parts] for side in (0, 1))
    return form.format(*ours), (theirs or form).format(*other)


@st.composite
def integers(draw: st.DrawFn, depth: int = 2) -> Text:
    if depth == 0:
        return both(draw(st.sampled_from(["l.i", "l.j", "2", "-3"])))
    form = draw(
        st.sampled_from(
            ["i"] * 2
            + ["//", "%", "length", "strpos", "part", "date part", "choice", "sign", "cast", "whole", "octets"]
        )
    )
    less = depth - 1
    match form:
        case "i":
            return draw(integers(0))
        case "//" | "%":
            one, two = draw(integers(less)), draw(integers(0))
            return made(f"({{}} {form} {{}})", one, two, theirs=f"({{}} {form} nullif({{}}, 0))")
        case "length":
            return made("length({})", draw(strings(less)))
        case "octets":
            return made("octet_length({})", draw(strings(less)), theirs="strlen({})")
        case "strpos":
            return made(
                "strpos({}, {})", draw(strings(less)), draw(st.sampled_from(["'a'", "''", "l.s", "'é'"]).map(both))
            )
        case "part":
            part = draw(st.sampled_from(["hour", "minute", "second", "millisecond", "microsecond", "year", "isodow"]))
            return made(f"EXTRACT({part} FROM {{}})", draw(times(less)))
        case "date part":
            names = [
                "year",
                "month",
                "day",
                "quarter",
                "week",
                "dayofweek",
                "isodow",
                "dayofyear",
                "isoyear",
                "weekday",
            ]
            return made(f"{draw(st.sampled_from(names))}({{}})", draw(times(less) | st.just(both("l.y"))))
        case "choice":
            return draw(choices(integers(less), less))
        case "sign":
            return made("sign({})", draw(integers(less) | decimals(less) | floats(less)))
        case "whole":
            # DuckDB gives a DECIMAL(p, 0), which it divides otherwise.
            form = f"{draw(st.sampled_from(['floor', 'ceil', 'trunc', 'round']))}({{}})"
            return made(form, draw(decimals(less)), theirs=f"CAST({form} AS BIGINT)")
        case _:
            to = draw(st.sampled_from(["TINYINT", "SMALLINT", "INT", "BIGINT"]))
            of = draw(integers(less) | decimals(less) | floats(less) | st.sampled_from(["l.b", "l.z"]).map(both))
            return made(f"CAST({{}} AS {to})", of, theirs=f"TRY_CAST({{}} AS {to})")


@st.composite
def decimals(draw: st.DrawFn, depth: int = 2) -> Text:
    if depth == 0:
        return both(draw(st.sampled_from(["l.d", "l.e", "1.05", "-0.3"])))
    less = depth - 1
    match draw(st.sampled_from(["d", "d", "%", "round", "choice", "cast"])):
        case "d":
            return draw(decimals(0))
        case "%":
            one, two = draw(decimals(0)), draw(decimals(0))
            return made("({} % {})", one, two, theirs="({} % nullif({}, 0))")
        case "round":
            return made(f"round({{}}, {draw(st.integers(0, 3))})", draw(decimals(less)))
        case "choice":
            return draw(choices(decimals(0), less))
        case _:
            of = draw(decimals(0) | st.sampled_from(["l.i", "l.z", "l.b"]).map(both))
            return made("CAST({} AS DECIMAL(6, 1))", of, theirs="TRY_CAST({} AS DECIMAL(6, 1))")


@st.composite
def floats(draw: st.DrawFn, depth: int = 2) -> Text:
    if depth == 0:
        return both(draw(st.sampled_from(["l.f", "l.g"])))
    less = depth - 1
    match draw(st.sampled_from(["f", "f", "%", "whole", "round", "sqrt", "choice", "cast", "epoch", "mixed"])):
        case "f":
            return draw(floats(0))
        case "%":
            theirs = "if({1} = 0 AND {0} IS NOT NULL, CAST('NaN' AS DOUBLE), {0} % {1})"
            return made("({} % {})", draw(floats(less)), draw(floats(0) | integers(0)), theirs=theirs)
        case "whole":
            return made(f"{draw(st.sampled_from(['floor', 'ceil', 'trunc', 'round']))}({{}})", draw(floats(less)))
        case "round":
            return made(f"round({{}}, {draw(st.integers(0, 3))})", draw(floats(0)))
        case "sqrt":
            return made("sqrt({})", draw(floats(less)), theirs="sqrt({})")
        case "choice":
            return draw(choices(floats(less), less))
        case "mixed":
            return made("coalesce({}, {})", draw(floats(0)), draw(integers(0)))
        case "epoch":
            return made("epoch({})", draw(times(less)))
        case _:
            to = draw(st.sampled_from(["DOUBLE", "FLOAT"]))
            of = draw(floats(0) | integers(0) | st.sampled_from(["l.z", "l.b", "l.d"]).map(both))
            return made(f"CAST({{}} AS {to})", of, theirs=f"TRY_CAST({{}} AS {to})")


@st.composite
def strings(draw: st.DrawFn, depth: int = 2) -> Text:
    if depth == 0:
        return both(draw(st.sampled_from(["l.s", "l.p", "'aB'", "''"])))
    less = depth - 1
    match draw(
        st.sampled_from(["s", "s", "case", "trim", "piece", "ends", "replace", "||", "concat", "choice", "cast"])
    ):
        case "s":
            return draw(strings(0))
        case "case":
            return made(f"{draw(st.sampled_from(['lower', 'upper']))}({{}})", draw(strings(less)))
        case "trim":
            letters = draw(st.sampled_from(["", ", 'a'", ", 'a '", ", ''", ", 'é'"]))
            return made(f"{draw(st.sampled_from(['trim', 'ltrim', 'rtrim']))}({{}}{letters})", draw(strings(less)))
        case "piece":
            length = draw(st.sampled_from(["", ", 0", ", 1", ", 2", ", 9"]))
            return made(f"substr({{}}, {draw(st.integers(-5, 5))}{length})", draw(strings(less)))
        case "ends":
            return made(
                f"{draw(st.sampled_from(['left', 'right']))}({{}}, {draw(st.integers(-4, 4))})", draw(strings(less))
            )
        case "replace":
            what = draw(st.sampled_from(["'a', 'bc'", "'a', ''", "'', 'x'", "'é', '.'"]))
            return made(f"replace({{}}, {what})", draw(strings(less)))
        case "||":
            of = st.sampled_from(["l.i", "l.b", "l.y", "l.d", "NULL"]).map(both)
            return made("({} || {})", draw(strings(less)), draw(strings(0) | of))
        case "concat":
            of = st.sampled_from(["l.i", "l.b", "l.t", "l.e"]).map(both)
            return made("concat({}, {}, {})", draw(of), draw(strings(less)), draw(strings(0)))
        case "choice":
            return draw(choices(strings(less), less))
        case _:
            of = draw(st.sampled_from(["l.i", "l.b", "l.y", "l.t", "l.d", "l.e", "l.s"]).map(both))
            return made("CAST({} AS VARCHAR)", of)


@st.composite
def times(draw: st.DrawFn, depth: int = 2) -> Text:
    if depth == 0:
        return both("l.t")
    less = depth - 1
    match draw(st.sampled_from(["t", "trunc", "trunc", "choice", "cast"])):
        case "t":
            return both("l.t")
        case "trunc":
            unit = draw(
                st.sampled_from(
                    [
                        "year",
                        "quarter",
                        "month",
                        "week",
                        "day",
                        "hour",
                        "minute",
                        "second",
                        "millisecond",
                        "microsecond",
                    ]
                )
            )
            return made(f"date_trunc('{unit}', {{}})", draw(times(less) | st.just(both("l.y"))))
        case "choice":
            return draw(choices(times(less), less))
        case _:
            to = draw(st.sampled_from(["DATE", "TIMESTAMP"]))
            # DuckDB has infinite dates.
            text = ("l.z", "if(l.z ILIKE '%inf%', NULL, l.z)")
            of = draw(times(less) | st.sampled_from([both("l.y"), text]))
            return made(f"CAST({{}} AS {to})", of, theirs=f"TRY_CAST({{}} AS {to})")


@st.composite
def choices(draw: st.DrawFn, value: st.SearchStrategy[Text], depth: int) -> Text:
    one, two = draw(value), draw(value)
    match draw(st.sampled_from(["case", "case else", "if", "coalesce", "greatest", "least"])):
        case "case":
            return made("CASE WHEN {} THEN {} WHEN l.b THEN {} END", draw(conditions(depth)), one, two)
        case "case else":
            return made("CASE WHEN {} THEN {} ELSE {} END", draw(conditions(depth)), one, two)
        case "if":
            return made("if(l.b, {}, {})", one, two)
        case name:
            return made(f"{name}({{}}, {{}})", one, two)


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> Text:
    """Conditions without floats: to DuckDB NaN is equal to itself."""
    less = max(depth - 1, 0)
    match draw(st.sampled_from(["compare", "compare", "like", "test", "null", "bool", "list"])):
        case "compare":
            kind = draw(st.sampled_from([integers, strings, decimals, times]))
            op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]))
            return made(f"({{}} {op} {{}})", draw(kind(less)), draw(kind(0)))
        case "like":
            how = draw(st.sampled_from(["LIKE", "NOT LIKE", "ILIKE"]))
            pattern = draw(st.sampled_from(["l.p", "'a%'", "'%a'", "'%a_'", "l.p || '%'", "'a!%%' ESCAPE '!'"]))
            return made(f"({{}} {how} {pattern})", draw(strings(less)))
        case "test":
            name = draw(st.sampled_from(["starts_with", "ends_with", "contains"]))
            return made(f"{name}({{}}, {{}})", draw(strings(less)), draw(strings(0)))
        case "null":
            return made("({} IS NULL)", draw(strings(less) | integers(less) | times(less)))
        case "list":
            one, two = draw(integers(0)), draw(integers(0))
            return made("([{}, l.i] {} [l.j, {}])", one, both(draw(st.sampled_from(["=", "<>"]))), two)
        case _:
            return draw(st.sampled_from(["l.b", "(l.b IS NOT TRUE)", "CAST(l.i AS BOOLEAN)", "(NOT l.b)"]).map(both))


VALUE = integers() | decimals() | floats() | strings() | times() | conditions()


@st.composite
def tables(draw: st.DrawFn, rows: int = ROWS) -> pa.Table:
    return pa.table(
        {
            name: pa.array([draw(st.none() | of if n == 0 else of) for n in range(rows)], SCHEMA.field(name).type)
            for name, of in VALUES.items()
        }
    ).select(SCHEMA.names)


@given(VALUE, tables())
def test_values_are_those_of_duckdb(text, table):
    ours, theirs = by_slidejoin(text[0], table), by_duckdb(text[1], table)
    assert all(map(same, ours, theirs)), (text[0], list(zip(ours, theirs, strict=True)))


KEYS: dict[str, list[Text]] = {
    "number": [
        *(both(text) for text in ("{0}.i", "{0}.j + 1", "{0}.i * 2 - {0}.j", "abs({0}.i)", "length({0}.s)", "{0}.d")),
        *(both(text) for text in ("month({0}.t)", "dayofyear({0}.y)", "coalesce({0}.i, {0}.j, 3)", "round({0}.d, 1)")),
        *(
            both(text)
            for text in ("greatest({0}.i, {0}.j)", "CASE WHEN {0}.b THEN {0}.i ELSE {0}.d END", "sign({0}.d)")
        ),
        ("CAST({0}.z AS INT)", "TRY_CAST({0}.z AS INT)"),
        ("{0}.i // {0}.j", "{0}.i // nullif({0}.j, 0)"),
        ("{0}.i % 3", "{0}.i % 3"),
    ],
    "string": [
        *(both(text) for text in ("{0}.s", "{0}.p", "lower({0}.s)", "substr({0}.s, 1, 1)", "{0}.s || {0}.p", "{0}.z")),
        *(both(text) for text in ("trim({0}.s)", "coalesce({0}.s, {0}.p)", "CAST({0}.i AS VARCHAR)", "concat({0}.y)")),
    ],
    "time": [
        *(both(text) for text in ("{0}.t", "{0}.y", "date_trunc('year', {0}.t)", "CAST({0}.t AS DATE)")),
        *(both(text) for text in ("date_trunc('month', {0}.y)", "greatest({0}.t, {0}.y)", "{0}.t + INTERVAL '1 day'")),
    ],
    "flag": [
        both(text)
        for text in ("{0}.b", "{0}.s LIKE {0}.p", "{0}.i IS NULL", "starts_with({0}.s, 'a')", "{0}.i < {0}.j")
    ],
    "list": [both(text) for text in ("[{0}.i, {0}.j]", "[{0}.j, 1]")],
}
COMPARATORS = ["=", "=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


def of_side(key: Text, side: str) -> Text:
    return key[0].format(side), key[1].format(side)


@st.composite
def comparisons(draw: st.DrawFn) -> Text:
    """A comparison of an expression of each side, or a row of two."""
    kind = draw(st.sampled_from(list(KEYS)))
    one, two = (draw(st.sampled_from(KEYS[kind])) for _ in range(2))
    sides = draw(st.permutations(["l", "r"]))
    op = draw(st.sampled_from([op for op in COMPARATORS if kind != "list" or op[0] not in "<>" or op == "<>"]))
    if kind == "number" and draw(st.booleans()):
        low = of_side(two, sides[1])
        return made("{} BETWEEN {} - 1 AND {} + 1", of_side(one, sides[0]), low, low)
    return made(f"({{}}) {op} ({{}})", of_side(one, sides[0]), of_side(two, sides[1]))


@st.composite
def joins(draw: st.DrawFn) -> Text:
    parts = [draw(comparisons()) for _ in range(draw(st.integers(1, 3)))]
    joined = draw(st.sampled_from([" AND ", " AND ", " OR "]))
    return joined.join(f"({part[0]})" for part in parts), joined.join(f"({part[1]})" for part in parts)


def pairs_by_duckdb(on: str, left: pa.Table, right: pa.Table) -> list[tuple[int, int]]:
    with DATABASE.cursor() as database:
        database.register("l", numbered(left))
        database.register("r", numbered(right))
        return sorted(database.execute(f"SELECT l.n, r.n FROM l JOIN r ON {on}").fetchall())  # noqa: S608


def numbered(table: pa.Table) -> pa.Table:
    return table.append_column("n", pa.array(range(table.num_rows)))


@given(joins(), tables(), tables(), st.integers(0, ROWS))
def test_joins_are_those_of_duckdb(on, left, right, cut):
    join = sj.StreamJoin(on=on[0], window=sj.CountWindow(100), output="positions", order="none")
    found = [join.push(left=left.slice(0, cut), right=right), join.push(left=left.slice(cut))]
    pairs = [(row["left"], row["right"]) for table in found for row in table.to_pylist()]
    assert sorted(pairs) == pairs_by_duckdb(on[1], left, right)


@pytest.mark.parametrize(
    ("on", "label"),
    [
        ("lower(l.s) = r.s", "equality lower(l.s) ~ r.s"),
        ("l.s < r.s", "ranges l.s ~ r.s"),
        ("l.s IS NOT DISTINCT FROM r.s", "equality l.s ~ r.s"),
        ("l.i <=> r.d", "equality l.i ~ r.d"),
        ("year(l.t) BETWEEN r.i - 1 AND r.i + 1", "band year(l.t) ~ r.i"),
        ("date_trunc('DAY', l.t) = CAST(r.t AS DATE)", "equality date_trunc('DAY', l.t) ~ CAST(r.t AS DATE)"),
        ("coalesce(l.i, 0) < r.j", "ranges coalesce(l.i, 0) ~ r.j"),
        ("l.f % 2 < r.g", "ranges l.f % 2 ~ r.g"),
        ("[l.i, 1] = [r.i, r.j]", "equality [l.i, 1] ~ [r.i, r.j]"),
        ("CASE WHEN l.b THEN l.s END >= r.s || 'x'", "ranges CASE WHEN l.b THEN l.s END ~ r.s || 'x'"),
    ],
)
def test_expressions_of_one_side_are_keys(on, label):
    assert [term.label for term in bind(parse(on), SCHEMA, SCHEMA).terms] == [label]
