"""Long lists of constants: one node and a set, with the answers of the OR of equalities that they stand for."""

from __future__ import annotations

import json
import pickle
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.predicate.expression.expr import Column, Compare, Expr, Literal, Member, Not, Or, walk
from slidejoin.predicate.expression.literals import literal
from slidejoin.predicate.expression.members import LONG, MOST_CONSTANTS, MOST_WRITTEN_OUT, member_of
from slidejoin.predicate.expression.serial import from_json, to_json
from slidejoin.predicate.expression.text import to_sql
from slidejoin.predicate.sql_text.sql import parse, parse_wide
from slidejoin.predicate.truth.evaluate import ColumnsBySide, evaluate
from slidejoin.predicate.truth.resolve import resolve_boolean
from tests import oracle
from tests.law.checks import examples
from tests.predicate.pairs import check

if TYPE_CHECKING:
    from collections.abc import Callable

BIG = 1 << 53
NUMBERS = [0, 1, -1, 5, BIG, BIG + 1, -BIG - 1, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 10**30]
EXACT = [Decimal(text) for text in ("0.1", "0.10", "1.5", "-1.50", "5.0", "9007199254740993.0", "1E+20", "0.001")]
DOUBLES = [0.0, -0.0, 0.1, 1.5, 5.0, float(BIG), 1e20, 1e30, float("inf"), float("-inf"), float("nan")]
DAYS = [date(1970, 1, 1), date(2024, 2, 29), date(1, 1, 1)]
MOMENTS = [datetime(2024, 2, 29), datetime(2024, 2, 29, 12, 0, 0, 5), datetime(1969, 12, 31, 23, 59, 59, 999999)]
TEXTS = ["", "a", "it's", "ä", "z\x00", "--", "x, y)"]

KINDS: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "int64": (pa.int64(), [n for n in NUMBERS if -(1 << 63) <= n < 1 << 63], [*NUMBERS, *EXACT]),
    "uint64": (pa.uint64(), [n for n in NUMBERS if 0 <= n < 1 << 64], [*NUMBERS, *EXACT]),
    "int8": (pa.int8(), [0, 1, -1, 5], [*NUMBERS, *EXACT, float("inf"), float("nan")]),
    "double": (pa.float64(), DOUBLES, [*NUMBERS, *EXACT, *DOUBLES]),
    "float": (pa.float32(), [0.0, 1.5, 5.0, float("inf"), float("nan")], [*NUMBERS, *EXACT, *DOUBLES]),
    "decimal": (pa.decimal128(10, 2), [Decimal("0.10"), Decimal("1.50"), Decimal("5.00")], [*NUMBERS, *EXACT]),
    "long decimal": (pa.decimal128(38, 3), [Decimal("0.001"), Decimal("1E+20"), Decimal(5)], [*NUMBERS, *EXACT]),
    "string": (pa.string(), TEXTS, TEXTS),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), TEXTS, TEXTS),
    "binary": (pa.binary(), [text.encode() for text in TEXTS], [text.encode() for text in TEXTS]),
    "date": (pa.date32(), DAYS, [*DAYS, *MOMENTS]),
    "timestamp": (pa.timestamp("us"), MOMENTS, [*DAYS, *MOMENTS]),
    "seconds": (pa.timestamp("s"), MOMENTS[:1], [*DAYS, *MOMENTS]),
    "instant": (
        pa.timestamp("us", "UTC"),
        [moment.replace(tzinfo=UTC) for moment in MOMENTS],
        [moment.replace(tzinfo=UTC) for moment in MOMENTS],
    ),
    "time": (pa.time64("us"), [time(0), time(12, 30, 0, 1)], [time(0), time(12, 30, 0, 1), time(23, 59)]),
    "duration": (pa.duration("ms"), [timedelta(0), timedelta(days=1)], [timedelta(0), timedelta(microseconds=1)]),
    "boolean": (pa.bool_(), [True, False], [True, False]),
}


def listed(values: list[Any]) -> str:
    return ", ".join(to_sql(literal(value)) for value in values)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[Any], list[Any]]:
    name = draw(st.sampled_from(sorted(KINDS)))
    _, values, constants = KINDS[name]
    rows = draw(st.lists(st.sampled_from([*values, None]), min_size=1, max_size=12))
    some = draw(st.lists(st.sampled_from(constants), min_size=1, max_size=8))
    null = [None] if draw(st.booleans()) else []
    return name, rows, draw(st.permutations([*(some * (LONG + 1)), *null]))


@examples(150)
@given(case=cases())
def test_answers_are_those_of_the_equalities(case: tuple[str, list[Any], list[Any]]) -> None:
    name, rows, constants = case
    schemas: Any = {"left": pa.schema([("x", KINDS[name][0])]), "right": pa.schema([("y", pa.int64())])}
    table = {"x": pa.chunked_array([pa.array(rows, KINDS[name][0])])}
    on = member_of(Column("left", "x"), [literal(value) for value in constants])
    written: Expr = parse(f"l.x IN ({listed(constants)})")
    assert written == on
    law: Any = ("in", ("col", "left", "x"), constants)
    for expr, expected in ((on, law), (Not(on), ("not", law))):
        found = evaluate(resolve_boolean(expr, schemas), ColumnsBySide({"left": table}))
        valid = np.ones(len(rows), np.bool_) if found.valid is None else np.broadcast_to(found.valid, (len(rows),))
        answers = [bool(says) if known else None for says, known in zip(found.data, valid, strict=True)]
        assert answers == [oracle.truth(expected, {"x": row}, {}) for row in rows]


def test_a_long_list_of_another_type_is_refused_as_a_short_one() -> None:
    schemas: Any = {"left": pa.schema([("x", pa.int64()), ("t", pa.date32())]), "right": pa.schema([])}
    for text, message in (
        (f"l.x IN ({'1, ' * 99}'a')", "cannot compare integer with string in l.x = 'a'"),
        (f"l.t IN ({listed(DAYS * 40)}, 'soon')", "cannot read 'soon' in l.t = .soon. as a date"),
    ):
        with pytest.raises(sj.PredicateError, match=message):
            resolve_boolean(parse(text), schemas)


def test_times_in_quotes_are_read_beside_times() -> None:
    schemas: Any = {"left": pa.schema([("t", pa.timestamp("us"))]), "right": pa.schema([])}
    on = parse(f"l.t IN ({', '.join(['NULL', *(repr(str(moment)) for moment in MOMENTS * 40)])})")
    table = {"t": pa.chunked_array([pa.array([*MOMENTS, datetime(2020, 1, 1)])])}
    found = evaluate(resolve_boolean(on, schemas), ColumnsBySide({"left": table}))
    assert found.data.tolist() == [True, True, True, False]
    assert found.valid is not None
    assert found.valid.tolist() == [True, True, True, False]


@pytest.mark.parametrize("count", [LONG, LONG + 1, 500, MOST_WRITTEN_OUT, MOST_WRITTEN_OUT + 1])
@pytest.mark.parametrize("around", ["{}", "NOT ({})", "l.b = 2 OR {} OR l.a = 3", "l.a = r.a AND ({} OR l.b = 1)"])
def test_what_is_kept_is_what_short_lists_were(count: int, around: str) -> None:
    values = [*range(count - 1), None]
    on = parse(around.format(f"l.a IN ({listed(values)})"))
    parts = [Compare("=", Column("left", "a"), literal(value)) for value in values]
    apart = around.format(" OR ".join(map(to_sql, parts)))
    kept = to_json(on)
    assert from_json(json.loads(json.dumps(kept))) == on
    assert parse(to_sql(on, whole=True)) == on
    assert pickle.loads(pickle.dumps(on)) == on
    written = json.dumps(kept)
    if count < MOST_WRITTEN_OUT:  # one is added to the list in one case
        assert '"member"' not in written
        assert to_sql(on, whole=True) == apart
    elif count > MOST_WRITTEN_OUT:
        assert '"member"' in written
        assert len(written) < 40 * count


def test_constants_of_every_type_are_kept() -> None:
    values = [value for _, _, constants in KINDS.values() for value in constants]
    on = member_of(Column("left", "a"), [literal(value) for value in values] * (MOST_WRITTEN_OUT // len(values) + 2))
    assert to_json(on)["node"] == "member"
    assert from_json(json.loads(json.dumps(to_json(on)))) == on


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        (5, "should be objects with a type and a list of values, got 5"),
        ([{"type": "int", "values": "12"}], "should be objects with a type and a list of values"),
        ([{"type": "int", "values": ["x", "1"]}], "cannot read 'x' as a stored constant of type int"),
        ([{"type": "int", "values": [1, "1"]}], "should be a text"),
        ([{"type": "int", "values": ["1"]}], "two or more constants, got 1"),
        ([{"type": [], "values": ["1"]}], "'type' of a stored 'literal' should be one of"),
    ],
)
def test_damaged_lists_are_refused(constants: Any, message: str) -> None:
    column = {"node": "column", "side": "left", "name": "a"}
    with pytest.raises(sj.StateError, match=message):
        from_json({"node": "member", "operand": column, "constants": constants})


def members(expr: Expr) -> list[int]:
    return [len(node.constants) for node in walk(expr) if isinstance(node, Member)]


def test_equalities_in_a_row_are_a_list() -> None:
    apart = [Compare("=", Column("left", "a"), Literal(number)) for number in range(LONG + 1)]
    text = " OR ".join(map(to_sql, apart))
    assert members(parse(text)) == [LONG + 1]
    assert members(parse(text.rpartition(" OR ")[0])) == []
    expression = sj.left.a == 0
    for number in range(1, 100):
        expression = expression | (sj.left.a == number)
    assert members((expression | (sj.left.b == 1)).node) == [100]
    assert members(sj.left.a.is_in(range(100)).node) == [100]
    assert members(sj.left.a.is_in(np.arange(100)).node) == [100]
    assert members(parse_wide(text.replace("l.a", "a.k") + " OR b.k = 1", ("a", "b"))) == [LONG + 1]


@pytest.mark.parametrize(
    "text",
    [
        "l.s IN ({}) -- l.s IN (",
        "l.s = 'l.s IN (' AND l.s IN ({})",
        'l."a IN (" = 1 AND l.s IN\n({})',
        "l.s in({}) AND l.s = 'it''s IN ('",
        "`l`.`IN (` = 1 OR l.s NOT IN ( {} )",
        "/* IN ( */ l.s IN ({})",
        "{{# IN ( #}} l.s IN ({})",
    ],
)
@pytest.mark.parametrize(
    "items",
    [["'it''s'", "'--'", "''"], ["-1", "1.5e3", ".5", "5.", "null"], ["DATE '2024-02-29'", "date'2024-01-01'"]],
)
def test_lists_in_texts_are_those_that_the_parser_reads(text: str, items: list[str]) -> None:
    one = parse(text.format(", ".join(items * 40)))
    few: list[Any] = [parse(f"l.s = {item}") for item in items]
    found = [node for node in walk(one) if isinstance(node, Member)]
    assert len(found) == 1
    assert found[0].constants.values == tuple(part.right.value for part in few * 40)


@pytest.mark.parametrize("last", ["1 + 1", "l.b", "(2)", "CAST(1 AS INT)", "+1", "- 1", "'a' || 'b'", "X'00'"])
def test_lists_of_other_things_are_read_as_well(last: str) -> None:
    on = parse(f"l.a IN ({', '.join(['5'] * 80)}, {last})")
    assert isinstance(on, Or | Member)
    assert len(on.parts if isinstance(on, Or) else on.constants) in {81, 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("l.a IN ({})\n AND l.b = = 2", r"at '=' \(line 2, column 12\)"),
        ("l.a IN ({}) AND l.b = = 2", r"at '=' \(line 1, column 419\), after .*l.a IN \(… 100 values\) AND"),
        ("l.a IN ({}) = l.b = 1", r"comparisons cannot be chained: l.a IN \(… 100 values\)"),
        ("(l.a, l.b) IN ({})", r"… 100 values is compared with a row of values"),
        ("l.a IN ({}) AND x = 1", "the column x has no side"),
        ("l.a IN ({}) AND 'open", "a quote is never closed"),
        ("l.a IN (5, {}", "cannot read the predicate at"),
    ],
)
def test_errors_have_the_places_of_the_text(text: str, message: str) -> None:
    with pytest.raises(sj.PredicateError, match=message):
        parse(text.format(", ".join(["17"] * 100)))


def calls(do: Callable[[], Any]) -> int:
    """How many Python functions a call calls."""
    count = 0

    def seen(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        do()
    finally:
        sys.setprofile(before)
    return count


def test_reading_and_planning_take_few_calls_a_constant() -> None:
    def planned(count: int) -> None:
        join = sj.StreamJoin(f"l.a = r.a AND l.b IN ({listed(list(range(count)))})", sj.CountWindow(5), threads=1)
        join.push(left={"a": [1], "b": [7]}, right={"a": [1]})
        join.explain()

    planned(100)
    written = calls(lambda: listed(list(range(8000))))
    few, many = calls(lambda: planned(1000)), calls(lambda: planned(9000))
    assert many - few - written < 15 * 8000


def test_too_many_constants_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_CONSTANTS > 1_000_000
    monkeypatch.setattr("slidejoin.predicate.expression.members.MOST_CONSTANTS", 1000)
    doubled = sj.left.a.is_in(range(600))
    with pytest.raises(sj.PredicateError, match="a list has 1,200 constants, the limit are 1,000"):
        doubled | doubled


LONG_LIST = ", ".join(map(str, range(0, 20_000, 2)))


@pytest.mark.parametrize(
    "on",
    [
        "l.k = r.k AND l.x IN ({})",
        "l.k = r.k AND l.x NOT IN ({})",
        "l.k = r.k AND (l.x IN ({}) OR r.x < 3)",
        "l.k = r.k AND l.x + r.x IN ({})",
        "l.k = r.k AND l.x + r.x NOT IN ({})",
        "l.k = r.k AND NOT (r.x IN ({}) AND l.x > 2)",
    ],
)
def test_pairs_are_those_of_the_law(on: str) -> None:
    rows = [{"k": number % 3, "x": None if number == 4 else number} for number in range(12)]
    table = pa.Table.from_pylist(rows)
    few = ", ".join(map(str, range(0, 40, 2)))
    expected = sj.StreamJoin(on.format(few), sj.CountWindow(100), threads=1, output="positions", order="strict")
    pairs = expected.push(left=table, right=table)
    assert 0 < pairs.num_rows < 48
    join = sj.StreamJoin(on.format(LONG_LIST), sj.CountWindow(100), threads=1, output="positions", order="strict")
    half = join.push(left=table)
    restored = sj.StreamJoin.restore(join.snapshot())
    assert pa.concat_tables([half, restored.push(right=table)]).equals(pairs)
    assert "IN (0, 2, 4, … 10,000 values)" in restored.explain()


SIDES: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "integers": (pa.int64(), [0, 1, 5, -7, 40, None], list(range(-90, 90, 2))),
    "uint64": (pa.uint64(), [0, 1, 5, 2**64 - 1], [*range(80), 2**64 - 1, 1 - 2**64]),
    "decimals": (
        pa.decimal128(10, 2),
        [Decimal("0.10"), Decimal("1.50"), Decimal("5.00"), None],
        [Decimal(number) / 20 for number in range(-99, 99)],
    ),
    "long decimals": (
        pa.decimal128(38, 18),
        [Decimal("1E-18"), Decimal(1), Decimal("1.000000000000000004"), Decimal("5E+19")],
        [*(number * Decimal("1E-18") for number in range(-9, 9, 3)), *range(70), Decimal("5E+19")],
    ),
    "doubles": (
        pa.float64(),
        [0.0, -0.0, 0.1, 1.5, 5.0, float("inf"), float("nan"), None],
        [n / 10 for n in range(90)],
    ),
    "timestamps": (pa.timestamp("us"), [*MOMENTS, None], [timedelta(microseconds=n) for n in range(-9, 99)]),
}


OF_TIMES = ["difference", "negated"]
OPERANDS = [*OF_TIMES, "sum", "absolute", "scaled", "and", "or"]


@pytest.mark.parametrize(
    ("name", "operand"),
    [(name, operand) for name in SIDES for operand in (OF_TIMES if name == "timestamps" else OPERANDS)],
)
def test_lists_of_both_sides_are_ranges(name: str, operand: str) -> None:
    kind, values, constants = SIDES[name]
    one, two = ("col", "left", "x"), ("col", "right", "y")
    difference = ("-", one, two)
    listed = {
        "difference": ("in", difference, constants),
        "sum": ("in", ("+", two, one), constants),
        "absolute": ("in", ("abs", difference), constants),
        "scaled": ("in", ("-", ("*", two, ("lit", -3)), one), constants),
        "negated": ("not", ("in", difference, constants)),
        "and": ("and", ("in", difference, constants), ("in", ("+", one, two), [*constants, None])),
        "or": ("or", ("in", difference, constants[:66]), ("in", difference, constants[9:])),
    }[operand]
    left, right = pa.table({"x": pa.array(values, kind)}), pa.table({"y": pa.array(values[::-1], kind)})
    what = check(listed, left, right)
    assert bool(what.terms) == (operand != "negated")


def test_joins_of_many_streams_take_long_lists() -> None:
    windows = {name: sj.CountWindow(9) for name in "abc"}
    on = "a.k = b.k AND b.k = c.k AND a.x IN ({}) AND b.x + c.x NOT IN ({})"
    rows = {"k": [1, 1, 2, 2], "x": [1, 2, 3, 4]}
    found = []
    for values in (LONG_LIST, ", ".join(map(str, range(0, 40, 2)))):
        join = sj.MultiJoin(windows, on=on.format(values, values), threads=1)
        found.append(join.push(a=rows, b=rows, c=rows).sort_by([(f"{name}", "ascending") for name in ("k", "x")]))
    assert found[0].num_rows == 4
    assert found[0].equals(found[1])
