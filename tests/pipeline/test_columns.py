"""Rows and columns of a source: expressions mean what they mean on Spark, or are left to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.pipeline.columns import Shape
from slidejoin.pipeline.ddl import as_spark_reads, schema_of_ddl
from slidejoin.pipeline.source import OnlySparkError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TABLE = pa.table(
    {
        "i": pa.array([7, -7, None], pa.int32()),
        "x": [2.5, -2.5, None],
        "s": ["Ab", "", None],
        "t": pa.array([NOON] * 3, pa.timestamp("us", "UTC")),
        "p": pa.array([{"q": 1}] * 3, pa.struct([("q", pa.int64())])),
    }
)


def shape(columns: list[str] | None, where: str | None = None) -> Shape:
    return Shape(TABLE.schema, columns, where, "a")


def test_names_need_nothing():
    chosen = shape(["s", "*"])
    assert chosen.schema.names == ["s", "i", "x", "s", "t", "p"]
    some = shape(["t", "i"])
    some.narrow(["i"])
    assert some.needed == ("i",)
    assert some.apply(TABLE).equals(TABLE.select(["i"]))
    assert shape(None).apply(TABLE) is TABLE


@pytest.mark.parametrize(
    ("expression", "values", "kind"),
    [
        ("CAST(x AS INT)", [2, -2, None], pa.int32()),
        ("CAST(i AS STRING)", ["7", "-7", None], pa.string()),
        ("CAST('2026-01-01 13:00:00+01:00' AS TIMESTAMP)", [NOON] * 3, pa.timestamp("us", "UTC")),
        ("CAST(1767268800 AS TIMESTAMP)", [NOON] * 3, pa.timestamp("us", "UTC")),
        ("i + 1", [8, -6, None], pa.int32()),
        ("i % 4", [3, -3, None], pa.int32()),
        ("i / 2", [3.5, -3.5, None], pa.float64()),
        ("floor(x)", [2, -3, None], pa.int64()),
        ("coalesce(i, 0)", [7, -7, 0], pa.int32()),
        ("CASE WHEN i > 0 THEN 'more' ELSE lower(s) END", ["more", "", None], pa.string()),
        ("IF(i > 0 AND s = 'Ab', 1, NULL)", [1, None, None], pa.int32()),
        ("s LIKE 'A%'", [True, False, None], pa.bool_()),
        ("i BETWEEN -7 AND 0", [False, True, None], pa.bool_()),
        ("x IN (2.5, 3)", [True, False, None], pa.bool_()),
        ("i <=> NULL", [False, False, True], pa.bool_()),
    ],
)
def test_values_are_those_of_spark(expression: str, values: list[Any], kind: pa.DataType):
    made = shape([f"{expression} AS made"]).apply(TABLE)
    assert made.column("made").to_pylist() == values
    assert made.schema.field("made").type == kind


def test_rows_are_chosen():
    chosen = shape(["* EXCEPT (p, t)", "I * 2 AS twice"], "X > 0 OR s IS NULL")
    assert chosen.apply(TABLE).to_pylist() == [
        {"i": 7, "x": 2.5, "s": "Ab", "twice": 14},
        {"i": None, "x": None, "s": None, "twice": None},
    ]
    assert set(chosen.needed) == {"i", "x", "s"}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("explode(s)", "sources.a.columns: EXPLODE(s) in 'explode(s)' is computed by Spark alone."),
        ("p.q", "sources.a.columns: a field of a struct in 'p.q' is computed by Spark alone."),
        ("i / x", "sources.a.columns: a division by anything but a number in 'i / x' is computed by Spark alone."),
        (
            "CAST(x AS STRING)",
            "sources.a.columns: a cast of DOUBLE to TEXT in 'CAST(x AS STRING)' is computed by Spark",
        ),
        ("s + TRUE", "sources.a.columns: 's + TRUE' is understood by Spark alone, if at all: Binder Error: "),
        (r"s LIKE 'a\\_'", "sources.a.columns: a pattern with a backslash in "),
    ],
)
def test_what_may_mean_something_else_is_left_to_spark(expression: str, message: str):
    with pytest.raises(OnlySparkError) as refused:
        shape([expression])
    assert str(refused.value).startswith(message)


def test_what_nobody_understands():
    with pytest.raises(
        ConfigError, match=r"sources.a.columns: there is no column 'nothing'; the columns are i, x, s, t"
    ):
        shape(["nothing"])
    with pytest.raises(ConfigError, match=r"sources.a.where: there is no column 'y', which 'y > 1' names; the columns"):
        shape(None, "y > 1")
    with pytest.raises(ConfigError, match=r"sources.a.where: 'x >' is no expression in SQL: "):
        shape(None, "x >")
    full = pa.table({"i": pa.array([2**31 - 1], pa.int32())})
    with pytest.raises(SlideJoinError, match=r"sources.a: Out of Range Error: Overflow"):
        Shape(full.schema, ["i + i AS j"], None, "a").apply(full)


def test_schemas_in_sql():
    schema = schema_of_ddl("struct<`a b`: INT, c: ARRAY<STRUCT<d: DECIMAL(5,1)>>>", "key")
    assert schema.names == ["a b", "c"]
    assert schema.field("c").type.value_type.field(0).type == pa.decimal128(5, 1)
    assert schema_of_ddl("d DECIMAL -- ten digits", "key").field("d").type == pa.decimal128(10, 0)
    for text, message in (
        ("a", "key: 'a' is no schema in SQL; expected one such as"),
        ("a INT b", "key: 'a INT b' is no schema in SQL"),
        ("a INTERVAL", "key: a job in one process cannot read the type INTERVAL, which column a has; use another type"),
    ):
        with pytest.raises(ConfigError) as refused:
            schema_of_ddl(text, "key")
        assert str(refused.value).startswith(message)
    plain = as_spark_reads(
        pa.schema(
            [
                ("a", pa.dictionary(pa.int8(), pa.large_string())),
                ("b", pa.timestamp("ms", "Asia/Tokyo")),
                ("c", pa.date64()),
            ]
        )
    )
    assert plain.types == [pa.string(), pa.timestamp("us", "UTC"), pa.date32()]
