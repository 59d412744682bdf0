"""Rows of CSV and JSON that fit are read in blocks, others one by one: with the same values."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from slidejoin.errors import SlideJoinError
from slidejoin.pipeline.ddl import schema_of_ddl
from slidejoin.pipeline.text_rows import ISO_TIME, ZONE, MisfitError, read_csv, read_json, times_of

SCHEMA = schema_of_ddl(
    "i INT, l BIGINT, d DOUBLE, s STRING, t TIMESTAMP, n TIMESTAMP_NTZ, a DATE, b BOOLEAN, c DECIMAL(6, 2)", "schema"
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

GOOD = [
    ["1", "2", "0.5", "x y", "2026-01-01T12:00:00Z", "2026-01-01 12:00", "2026-01-01", "true", "1.25"],
    ["-1", "9223372036854775807", "1e3", '"q, ""r"""', "2026-01-01T13:00:00.5+01:00", "2026-01-01", "1969-12-31",
     "FALSE", "7"],
    ["", "", "", "", "", "", "", "", ""],
    ["5", "6", "NaN", "é", "2026-01-01", "2026-01-01T12:00:00", "2000-02-29", "True", "-9999.99"],
]  # fmt: skip
VALUES = [
    [1, 2, 0.5, "x y", NOON, NOON.replace(tzinfo=None), date(2026, 1, 1), True, Decimal("1.25")],
    [-1, 2**63 - 1, 1e3, 'q, "r"', NOON.replace(microsecond=500_000), datetime(2026, 1, 1), date(1969, 12, 31), False, Decimal(7)],  # noqa: E501
    [None] * 9,
    [5, 6, None, "é", NOON.replace(hour=0), NOON.replace(tzinfo=None), date(2000, 2, 29), True, Decimal("-9999.99")],
]  # fmt: skip


def csv(rows: list[list[str]], **options: str) -> Any:
    data = pa.py_buffer(("\n".join(",".join(row) for row in rows) + "\n").encode())
    return read_csv(data, SCHEMA, {"escape": '"'} | options, "a.csv")


def plain(table: pa.Table) -> list[list[Any]]:
    assert table.schema.equals(SCHEMA)
    return [[None if one != one else one for one in row.values()] for row in table.to_pylist()]


def test_rows_that_fit():
    rows = csv(GOOD)
    assert (plain(rows.table), rows.bad) == (VALUES, 0)
    named = csv([["one"] * 9, *GOOD], header="true")
    assert (plain(named.table), named.bad) == (VALUES, 0)
    assert csv(GOOD[:0]).table.num_rows == 0


def test_what_fits_of_bad_rows_stays():
    bad = [
        ["one", "2", "0.5", "x", "noon", "", "2026-02-30", "yes", "1.234"],
        ["1", "9223372036854775808", "half", "x"],
        [*GOOD[0], "more"],
        ["2147483648", "", "", "", "", "", "", "", "123456"],
    ]
    rows = csv([*GOOD, *bad])
    assert rows.bad == 4
    assert plain(rows.table) == [
        *VALUES,
        [None, 2, 0.5, "x", None, None, None, None, Decimal("1.23")],
        [1, None, None, "x", None, None, None, None, None],
        VALUES[0],
        [None] * 9,
    ]
    dropped = csv([*GOOD, *bad], mode="DROPMALFORMED")
    assert (plain(dropped.table), dropped.bad) == (VALUES, 4)
    with pytest.raises(SlideJoinError, match=r"row 5 of a.csv is not as its schema says, and mode is FAILFAST"):
        csv([*GOOD, *bad], mode="FAILFAST")


def test_lines_of_json():
    good = (
        '{"i": 1, "l": 2, "d": 0.5, "s": "x y", "t": "2026-01-01T12:00:00Z", "n": "2026-01-01 12:00", '
        '"a": "2026-01-01", "b": true, "c": 1.25, "unknown": [1]}'
    )
    rows = read_json(pa.py_buffer(f"{good}\n\n{{}}\n".encode()), SCHEMA, {}, "a.json")
    assert (plain(rows.table), rows.bad) == ([VALUES[0], [None] * 9], 0)
    lines = [good, '{"i": "1", "s": 5, "t": 1767268800, "d": "NaN"}', "{", "7", f"[{good}, {{}}]", '{"i": 1.5, "b": 1}']
    rows = read_json(pa.py_buffer("\n".join(lines).encode()), SCHEMA, {}, "a.json")
    assert rows.bad == 4
    assert plain(rows.table) == [
        VALUES[0],
        [None, None, None, "5", NOON, None, None, None, None],
        [None] * 9,
        [None] * 9,
        VALUES[0],
        [None] * 9,
        [None] * 9,
    ]
    with pytest.raises(SlideJoinError, match=r"row 2 of a.json is not as its schema says"):
        read_json(pa.py_buffer("\n".join(lines).encode()), SCHEMA, {"mode": "FAILFAST"}, "a.json")
    whole = read_json(pa.py_buffer(f"[{good},\n{good}]".encode()), SCHEMA, {"multiline": "true"}, "a.json")
    assert (plain(whole.table), whole.bad) == ([VALUES[0]] * 2, 0)


def test_nested_json():
    schema = schema_of_ddl("p STRUCT<x: INT, y: ARRAY<STRING>>, m MAP<STRING, DOUBLE>, z BINARY", "schema")
    text = '{"p": {"x": 1, "y": ["a", null]}, "m": {"k": 1.5}, "z": "eA=="}\n{"p": {"x": "no"}}\n'
    rows = read_json(pa.py_buffer(text.encode()), schema, {}, "a.json")
    assert rows.bad == 1
    assert rows.table.to_pylist() == [
        {"p": {"x": 1, "y": ["a", None]}, "m": [("k", 1.5)], "z": b"x"},
        {"p": None, "m": None, "z": None},
    ]


def test_times_that_end_in_z_are_those_of_the_pattern() -> None:
    random, taken = Random(3), 0
    forms = ("2026-01-01T00:00:00Z", "2026-01-01 23:59:59.123456Z", "2026-12-31T12:30:00.1Z", "0001-01-01T00:00:00.00Z")
    for _ in range(5_000):
        signs = list(random.choice(forms))
        for _ in range(random.choice([1, 1, 2, 3])):
            place = random.randrange(len(signs))
            signs[place : place + random.choice([0, 1, 1])] = random.choice(["", *"0123456789-:T Z.+tz"])
        text = "".join(signs)
        try:
            times_of(pa.chunked_array([[text]]), pa.timestamp("us", "UTC"))
            fits = True
        except MisfitError:
            fits = False
        # The pattern alone also lets the 31st of February through, but nothing else fits.
        assert not fits or re.match(ISO_TIME + f"(?:{ZONE}|$)", text), text
        taken += fits
    assert 100 < taken < 4_000
