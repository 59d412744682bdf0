# ruff: noqa: E501 - a table reads best with one line to a row
"""What every Arrow type does, end to end: each line of the table of types, with its ends and its ties."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import slidejoin as sj
from tests.strategies import array
from tests.tables import ids

Pairs = list[tuple[int, int]]


def pairs_of(on: str, left: pa.Array[Any], right: pa.Array[Any]) -> Pairs:
    """The positions of the rows that match."""
    tables = [pa.table({"id": range(len(column)), "x": column}) for column in (left, right)]
    join = sj.StreamJoin(on=on, window=sj.CountWindow(1000), schemas=(tables[0].schema, tables[1].schema))
    return sorted(ids(join.push(left=tables[0], right=tables[1])))


def check(on: str, left: pa.Array[Any], right: pa.Array[Any], expected: Pairs) -> None:
    """Assert the pairs, whichever side probes."""
    assert pairs_of(on, left, right) == expected
    swapped = on.replace("l.", "@.").replace("r.", "l.").replace("@.", "r.")
    assert pairs_of(swapped, right, left) == sorted((b, a) for a, b in expected)


I8, I64, U64 = pa.int8(), pa.int64(), pa.uint64()
F32, F64 = pa.float32(), pa.float64()
LINES: list[Any] = [
    # narrow and unsigned integers do not wrap around
    ("int8 ends", "l.x < r.x", (I8, [-128, 127]), (I8, [-128, 127]), [(0, 1)]),
    ("int8 band past the end", "l.x BETWEEN r.x - 5 AND r.x + 5", (I8, [-128, 127, 122]), (I8, [127]), [(1, 0), (2, 0)]),
    ("int8 sum", "l.x + r.x = 254", (I8, [127, -2]), (I8, [127]), [(0, 0)]),
    ("uint8 below zero", "l.x - 1 < r.x", (pa.uint8(), [0, 1]), (pa.uint8(), [0]), [(0, 0)]),
    ("uint8 difference", "l.x - r.x = -1", (pa.uint8(), [0, 255]), (pa.uint8(), [1, 0]), [(0, 0)]),
    ("int64 against uint64", "l.x = r.x", (I64, [-1, 2**63 - 1]), (U64, [2**64 - 1, 2**63 - 1]), [(1, 1)]),
    ("uint64 order", "l.x < r.x", (I64, [-1, 0]), (U64, [0, 2**63]), [(0, 0), (0, 1), (1, 1)]),
    ("uint64 above int64", "l.x < r.x", (U64, [2**63, 2**63 + 1, 2**64 - 1]), (U64, [2**63 + 1]), [(0, 0)]),
    ("uint64 equal above int64", "l.x = r.x", (U64, [2**63, 2**64 - 1]), (U64, [2**64 - 1, 2**63 + 1]), [(1, 0)]),
    ("int64 product", "l.x * 4 > r.x", (I64, [2**62]), (U64, [2**64 - 1, 0]), [(0, 0), (0, 1)]),
    ("beyond int64 is not its end", "l.x * 4 <= r.x", (I64, [2**62, 1]), (I64, [2**63 - 1]), [(1, 0)]),
    ("a square beyond int64", "l.x * l.x <= r.x", (I64, [2**32, -3]), (I64, [2**63 - 1]), [(1, 0)]),
    ("two squares beyond int64", "l.x * l.x < r.x * r.x", (I64, [2**32, -3]), (I64, [2**32 + 1, 2**32]), [(0, 0), (1, 0), (1, 1)]),
    ("abs beyond int64", "abs(l.x) <= r.x", (I64, [-(2**63), -5]), (I64, [2**63 - 1]), [(1, 0)]),
    ("abs beyond int64 against uint64", "abs(l.x) = r.x", (I64, [-(2**63), -5]), (U64, [2**63, 2**63 - 1, 5]), [(0, 0), (1, 2)]),
    ("minus beyond int64", "-l.x <= r.x", (I64, [-(2**63), -5]), (I64, [2**63 - 1]), [(1, 0)]),
    ("two keys beyond int64", "l.x * 4 = r.x * 4", (I64, [2**62, 2**62 + 1]), (I64, [2**62 + 1]), [(1, 0)]),
    ("a key below int64", "l.x * 3 >= r.x", (I64, [-(2**62), -1]), (I64, [-(2**63)]), [(1, 0)]),
    ("wide decimals", "l.x <= r.x", (pa.decimal128(18, 0), [10**18 - 1, 0]), (pa.decimal128(18, 6), [Decimal("999999999999.999999")]), [(1, 0)]),
    ("int64 saturates open", "l.x <= r.x + 1", (I64, [2**63 - 1]), (I64, [2**63 - 1, 2**63 - 2, 2**63 - 3]), [(0, 0), (0, 1)]),
    ("a literal beyond int64", "l.x < 9223372036854775808 AND r.x > -9223372036854775809", (I64, [2**63 - 1]), (I64, [-(2**63)]), [(0, 0)]),
    # floats
    ("float32 widens exactly", "l.x = r.x", (F32, [0.1, 0.5]), (F64, [0.1, 0.5]), [(1, 1)]),
    ("float32 against literal", "l.x = 0.5 AND r.x = 0.5", (F32, [0.5]), (F64, [0.5]), [(0, 0)]),
    ("float16", "l.x <= r.x", (pa.float16(), [0.5, 2.0]), (F32, [0.5, math.nan]), [(0, 0)]),
    ("NaN matches nothing", "l.x <> r.x OR l.x = r.x", (F64, [math.nan, 1.0]), (F64, [math.nan, 1.0]), [(1, 1)]),
    ("NaN is not NULL", "l.x IS NULL OR r.x IS NULL", (F64, [math.nan, None]), (F64, [math.nan]), [(1, 0)]),
    ("-0.0 = 0.0", "l.x = r.x", (F64, [-0.0, 0.0]), (F64, [0.0, -0.0]), [(0, 0), (0, 1), (1, 0), (1, 1)]),
    ("-0.0 is not below 0.0", "l.x < r.x", (F64, [-0.0]), (F64, [0.0, 5e-324]), [(0, 1)]),
    ("infinities", "l.x < r.x", (F64, [-math.inf, math.inf]), (F64, [-math.inf, -1e308, math.inf]), [(0, 1), (0, 2)]),
    ("infinities in a band", "l.x BETWEEN r.x - 1 AND r.x + 1", (F64, [math.inf, 1.0]), (F64, [math.inf, 2.0]), [(0, 0), (1, 1)]),
    # inf - inf is NaN, so abs() <= 1 is unknown there
    ("infinities in abs", "abs(l.x - r.x) <= 1", (F64, [math.inf, 1.0]), (F64, [math.inf, 2.0]), [(1, 1)]),
    # each operation rounds once: 0.1 + 0.2 = 0.30000000000000004
    ("arithmetic as written", "l.x + 0.2 = r.x", (F64, [0.1]), (F64, [0.30000000000000004, 0.3]), [(0, 0)]),
    ("arithmetic as written, moved", "l.x = r.x - 0.2", (F64, [0.1, 0.10000000000000003]), (F64, [0.30000000000000004, 0.3]), [(1, 0)]),
    ("absorbed", "l.x + 1 = r.x", (F64, [2.0**53]), (F64, [2.0**53, 2.0**53 + 2]), [(0, 0)]),
    # ints against floats are exact
    ("int against float", "l.x = r.x", (I64, [2**53, 2**53 + 1]), (F64, [2.0**53]), [(0, 0)]),
    ("int above float", "l.x > r.x", (I64, [2**53, 2**53 + 1]), (F64, [2.0**53]), [(1, 0)]),
    ("int64 end against float", "l.x < r.x", (I64, [2**63 - 1]), (F64, [2.0**63, math.inf, math.nan]), [(0, 0), (0, 1)]),
    ("uint64 end against float", "l.x = r.x", (U64, [2**64 - 1]), (F64, [2.0**64]), []),
    ("int plus a decimal literal is exact", "l.x + 1.0 = r.x", (I64, [2**53 + 1]), (I64, [2**53 + 2, 2**53]), [(0, 0)]),
    # division is a double, modulo takes the sign of the dividend
    ("int division", "l.x / 2 = r.x", (I64, [3]), (F64, [1.5, 1.0]), [(0, 0)]),
    ("division by zero", "1 / l.x > r.x", (I64, [0, 1]), (F64, [1e308, 0.0]), [(0, 0), (0, 1), (1, 1)]),
    ("zero by zero", "l.x / r.x <> 7", (I64, [0, 1]), (I64, [0]), [(1, 0)]),
    ("modulo", "l.x % 3 = r.x", (I64, [-7, 7]), (I8, [-1, 1]), [(0, 0), (1, 1)]),
    ("modulo by zero", "l.x % r.x IS NULL", (I64, [5]), (I64, [0, 3]), [(0, 0)]),
    # decimals
    ("decimal scales", "l.x = r.x", (pa.decimal128(5, 2), [Decimal("1.50")]), (pa.decimal128(9, 4), [Decimal("1.5000"), Decimal("1.5001")]), [(0, 0)]),
    ("decimal against int", "l.x < r.x", (pa.decimal128(5, 2), [Decimal("1.99"), Decimal("2.00")]), (I64, [2]), [(0, 0)]),
    ("decimal against literal", "l.x >= 0.1 AND r.x < 0.1", (pa.decimal128(5, 2), [Decimal("0.10"), Decimal("0.09")]), (pa.decimal128(5, 2), [Decimal("0.09")]), [(0, 0)]),
    ("decimal against float", "l.x = r.x", (pa.decimal128(5, 2), [Decimal("0.10")]), (F64, [0.1]), [(0, 0)]),
    ("decimal of 18 digits", "l.x < r.x", (pa.decimal128(18, 0), [10**18 - 2]), (pa.decimal128(18, 0), [10**18 - 1, 10**18 - 2]), [(0, 0)]),
    ("decimal product", "l.x * r.x = 0.0001", (pa.decimal128(5, 2), [Decimal("0.01")]), (pa.decimal128(5, 2), [Decimal("0.01"), Decimal("0.02")]), [(0, 0)]),
    ("decimal band", "abs(l.x - r.x) <= 0.01", (pa.decimal128(5, 2), [Decimal("1.00")]), (pa.decimal128(6, 3), [Decimal("1.010"), Decimal("1.011")]), [(0, 0)]),
    ("decimal256", "l.x = r.x", (pa.decimal256(5, 1), [Decimal("1.5")]), (pa.decimal128(5, 2), [Decimal("1.50")]), [(0, 0)]),
    ("negative scale", "l.x = r.x", (pa.decimal128(3, -2), [Decimal(300)]), (pa.int16(), [300]), [(0, 0)]),
    # times
    ("units s to ns", "l.x < r.x", (pa.timestamp("s"), [1]), (pa.timestamp("ns"), [10**9, 10**9 + 1]), [(0, 1)]),
    ("beyond ns is not its end", "l.x <= r.x", (pa.timestamp("s"), [2**40, 1]), (pa.timestamp("ns"), [2**63 - 1]), [(1, 0)]),
    ("units at the end of ns", "l.x < r.x", (pa.timestamp("s"), [2**40]), (pa.timestamp("ns"), [2**63 - 1]), []),
    ("before 1970", "l.x = r.x", (pa.timestamp("ms"), [-1]), (pa.timestamp("us"), [-1000, -1]), [(0, 0)]),
    ("date against timestamp", "l.x = r.x", (pa.date32(), [1]), (pa.timestamp("ms"), [86_400_000, 86_400_001]), [(0, 0)]),
    ("date32 against date64", "l.x = r.x", (pa.date32(), [1, -1]), (pa.date64(), [86_400_000, -86_400_000]), [(0, 0), (1, 1)]),
    ("zoned is an instant", "l.x = r.x", (pa.timestamp("s", "UTC"), [5]), (pa.timestamp("s", "America/New_York"), [5, 18_005]), [(0, 0)]),
    ("time of day", "l.x < r.x", (pa.time32("s"), [1]), (pa.time64("ns"), [10**9, 10**9 + 1]), [(0, 1)]),
    ("duration", "l.x <= r.x", (pa.duration("s"), [1]), (pa.duration("us"), [999_999, 10**6]), [(0, 1)]),
    ("timestamps apart", "l.x - r.x <= INTERVAL '1 second'", (pa.timestamp("s"), [5]), (pa.timestamp("ms"), [4000, 3999]), [(0, 0)]),
    ("interval added", "l.x <= r.x + INTERVAL '1 second'", (pa.timestamp("s"), [5]), (pa.timestamp("ms"), [4000, 3999]), [(0, 0)]),
    ("day apart", "l.x - r.x = INTERVAL '1 day'", (pa.date32(), [1]), (pa.date64(), [0, 86_400_000]), [(0, 0)]),
    ("a time as text", "l.x >= '1970-01-02' AND r.x < '1970-01-01 00:00:01'", (pa.date32(), [0, 1]), (pa.timestamp("us"), [0, 10**6]), [(1, 0)]),
    # text and binary: equality only
    ("strings", "l.x = r.x", (pa.string(), ["a", "", "ß"]), (pa.large_string(), ["ß", "A", ""]), [(1, 2), (2, 0)]),
    ("strings that differ", "l.x <> r.x", (pa.string(), ["a", None]), (pa.string_view(), ["a", "b"]), [(0, 1)]),
    ("binary", "l.x = r.x", (pa.binary(), [b"a\x00", b"a"]), (pa.binary(2), [b"a\x00"]), [(0, 0)]),
    ("dictionary of strings", "l.x = r.x", (pa.dictionary(pa.int8(), pa.string()), ["b", "a", None]), (pa.string(), ["a", "b"]), [(0, 1), (1, 0)]),
    ("dictionary of ints", "l.x < r.x", (pa.dictionary(pa.int8(), pa.int64()), [5, 1]), (pa.int32(), [2]), [(1, 0)]),
    # bool: false is below true
    ("bool order", "l.x < r.x", (pa.bool_(), [False, True, None]), (pa.bool_(), [False, True]), [(0, 1)]),
    ("bool is a condition", "l.x AND NOT r.x", (pa.bool_(), [False, True, None]), (pa.bool_(), [False, True]), [(1, 0)]),
    # NULL
    ("NULL = NULL is unknown", "l.x = r.x", (I64, [None, 1]), (I64, [None, 1]), [(1, 1)]),
    ("NOT of unknown", "NOT (l.x = r.x)", (I64, [None, 1]), (I64, [None, 2]), [(1, 1)]),
    ("a literal NULL", "l.x = r.x OR l.x = NULL", (I64, [1]), (I64, [1, 2]), [(0, 0)]),
    ("IS NULL of other types", "l.x IS NULL AND r.x IS NOT NULL", (pa.list_(I64), [None, [1]]), (pa.null(), [None]), []),
]  # fmt: skip


@pytest.mark.nojit
@pytest.mark.parametrize(("on", "left", "right", "expected"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_comparison(on: str, left: Any, right: Any, expected: Pairs) -> None:
    check(on, array(left[1], left[0]), array(right[1], right[0]), expected)


REFUSED = [
    ("number against text", "l.x = r.x", pa.int64(), pa.string()),
    ("text against binary", "l.x = r.x", pa.string(), pa.binary()),
    ("naive against zoned", "l.x = r.x", pa.timestamp("s"), pa.timestamp("s", "UTC")),
    ("date against zoned", "l.x = r.x", pa.date32(), pa.timestamp("s", "UTC")),
    ("timestamp against int", "l.x = r.x", pa.timestamp("s"), pa.int64()),
    ("bool against int", "l.x = r.x", pa.bool_(), pa.int8()),
    ("duration against int", "l.x = r.x", pa.duration("s"), pa.int64()),
    ("time of day against timestamp", "l.x = r.x", pa.time32("s"), pa.timestamp("s")),
    ("sum of text", "l.x + r.x = 1", pa.string(), pa.string()),
    ("sum of timestamps", "l.x + r.x = l.x", pa.timestamp("s"), pa.timestamp("s")),
    ("whole quotient of floats", "l.x // 2 = r.x", pa.float64(), pa.float64()),
    ("decimal beyond 38 digits", "l.x = r.x", pa.decimal256(39, 0), pa.decimal256(39, 0)),
    ("order of lists", "l.x < r.x", pa.list_(pa.int64()), pa.list_(pa.int64())),
    ("struct", "l.x = r.x", pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64())])),
    ("null type", "l.x = r.x", pa.null(), pa.int64()),
    ("month intervals", "l.x = r.x", pa.month_day_nano_interval(), pa.month_day_nano_interval()),
    ("number as condition", "l.x AND r.x", pa.int64(), pa.bool_()),
    ("bad time as text", "l.x > '1970-13-01' AND r.x = r.x", pa.timestamp("s"), pa.timestamp("s")),
]


@pytest.mark.parametrize(("on", "left", "right"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_at_construction(on: str, left: pa.DataType, right: pa.DataType) -> None:
    schemas = (pa.schema([("x", left)]), pa.schema([("x", right)]))
    with pytest.raises(sj.PredicateError):
        sj.StreamJoin(on=on, window=sj.CountWindow(2), schemas=schemas)


PAYLOADS = [
    pa.array([[1, None], None, []], pa.list_(pa.int64())),
    pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": ""}], pa.struct([("a", pa.int8()), ("b", pa.string())])),
    pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    pa.array([None] * 3, pa.null()),
    pa.array([pa.MonthDayNano([1, 2, 3]), None, pa.MonthDayNano([0, 0, 0])], pa.month_day_nano_interval()),
    pa.array([Decimal(10) ** 30, None, Decimal(-1)], pa.decimal128(38, 0)),
    pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
    pa.array(["x", None, "y"], pa.dictionary(pa.int8(), pa.string())),
    pa.array(["x", None, "longer than twelve bytes"], pa.string_view()),
    pa.array([b"ab", None, b"cd"], pa.binary(2)),
    pa.array([0, None, 2**63 - 1], pa.timestamp("ns", "America/New_York")),
    pa.array([time(1), None, time(2)], pa.time64("us")),
    pa.array([timedelta(1), None, timedelta(-1)], pa.duration("ms")),
    pa.array([date(1, 1, 1), None, date(9999, 12, 31)], pa.date32()),
    pa.array([datetime(1, 1, 1), None, datetime(9999, 12, 31)], pa.timestamp("us")),
    pa.array([1.5, None, math.inf], pa.float16()),
    pa.array([True, None, False]),
]


@pytest.mark.parametrize("column", PAYLOADS, ids=lambda column: str(column.type))
def test_every_type_is_carried(column: pa.Array[Any]) -> None:
    rows = pa.table({"id": range(3), "x": column})
    join = sj.StreamJoin(on="l.id = r.id", window=sj.CountWindow(5), order="strict", schemas=(rows.schema, rows.schema))
    join.push(left=rows.slice(0, 1))
    join.push(left=rows.slice(1))
    join = sj.StreamJoin.restore(join.snapshot())
    found = join.push(right=rows)
    assert found.schema.types == [*rows.schema.types] * 2
    found.validate(full=True)
    for name in ("x", "x_right"):
        assert pa.concat_arrays(found.column(name).chunks).to_pylist() == column.to_pylist()


def test_extension_columns_are_carried() -> None:
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, b"1" * 16], pa.binary(16)))
    rows = pa.table({"id": [0, 1], "x": column})
    join = sj.StreamJoin(on="l.id = r.id", window=sj.CountWindow(5), schemas=(rows.schema, rows.schema))
    join.push(left=rows)
    found = join.push(right=rows.slice(1))
    assert found.schema.field("x").type == pa.uuid()
    assert found.column("x_right").to_pylist() == rows.column("x").to_pylist()[1:]


@pytest.mark.parametrize("rows", [1, 20])
def test_dictionaries_may_differ_from_batch_to_batch(rows: int) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("id", pa.int64()), ("x", kind)])
    join = sj.StreamJoin(on="l.x = r.x", window=sj.CountWindow(100), schemas=(schema, schema))
    for start, words in ((0, ["a", "b"]), (rows, ["b", "c"]), (2 * rows, ["c", "a"])):
        column = array([words[i % 2] for i in range(rows)], kind)
        join.push(left=pa.table({"id": range(start, start + rows), "x": column}, schema))
    found = join.push(right=pa.table({"id": [0], "x": array(["b"], kind)}, schema))
    assert set(found.column("x").to_pylist()) == {"b"}
    assert found.num_rows == (rows + 1) // 2 + (rows // 2)
