"""Records of Avro: what is read is what was written, and what is damaged says so, alone."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slidejoin.errors import ConfigError
from slidejoin.pipeline.avro_records import UNFIT, UNFRAMED, AvroRows, avro_rows
from slidejoin.pipeline.source import MISSING, OnlySparkError

SIDE = {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]}
SCHEMA = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": ["null", "int"]},
        {"name": "price", "type": ["double", "null"]},
        {"name": "flag", "type": "boolean"},
        {"name": "word", "type": ["null", "string"], "default": None},
        {"name": "raw", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "side", "type": SIDE},
        {"name": "other_side", "type": ["null", "Side"]},
        {"name": "cents", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "either", "type": ["int", "long"]},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "levels", "type": {"type": "map", "values": {"type": "long", "logicalType": "timestamp-millis"}}},
        {"name": "best", "type": ["null", {"type": "record", "name": "Level", "fields": [
            {"name": "k", "type": "float"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ]}]},
    ],
}  # fmt: skip
US = pa.timestamp("us", "UTC")
COLUMNS = pa.schema(
    [
        ("id", pa.int64()), ("small", pa.int32()), ("price", pa.float64()), ("flag", pa.bool_()), ("word", pa.string()),
        ("raw", pa.binary()), ("side", pa.string()), ("other_side", pa.string()), ("cents", pa.decimal128(9, 2)),
        ("day", pa.date32()), ("ms", US), ("us", US), ("local", pa.timestamp("us")), ("either", pa.int64()),
        ("tags", pa.list_(pa.string())), ("levels", pa.map_(pa.string(), US)),
        ("best", pa.struct([("k", pa.float32()), ("at", US)])),
    ]
)  # fmt: skip
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
IN_MS = TIMES.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
LONGS = st.integers(-(2**63), 2**63 - 1)
NULL = st.none()
ORDERS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "id": LONGS,
        "small": NULL | st.integers(-(2**31), 2**31 - 1),
        "price": NULL | st.floats(allow_nan=False),
        "flag": st.booleans(),
        "word": NULL | st.text(max_size=5),
        "raw": st.binary(min_size=4, max_size=4),
        "side": st.sampled_from(["BUY", "SELL"]),
        "other_side": NULL | st.sampled_from(["BUY", "SELL"]),
        "cents": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
        "day": st.dates(),
        "ms": IN_MS,
        "us": NULL | TIMES,
        "local": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
        "either": LONGS,
        "tags": st.lists(NULL | st.text(max_size=3), max_size=3),
        "levels": st.dictionaries(st.text(max_size=3), IN_MS, max_size=2),
        "best": NULL | st.fixed_dictionaries({"k": st.floats(width=32, allow_nan=False), "at": IN_MS}),
    }
)


def rows_of(schema: Any = SCHEMA) -> AvroRows:
    return avro_rows(json.dumps(schema), "sources.a.schema")


def written(row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), row)
    return out.getvalue()


@given(st.lists(ORDERS, max_size=4), st.data())
def test_what_is_written_is_read_and_what_is_damaged_is_said(orders: list[dict[str, Any]], data: st.DataObject) -> None:
    values: list[bytes | None] = list(map(written, orders))
    made = rows_of()
    table, bad = made.read(values)
    assert table.schema == COLUMNS
    assert bad == {}
    expected = [order | {"levels": list(order["levels"].items())} for order in orders]
    assert table.to_pylist() == expected
    # A cut, a byte too many, NULL: only that record is left out, wherever it is.
    whole = values[0] if values else b""
    assert whole is not None
    wrong = data.draw(st.sampled_from([None, b"", whole[:-1], whole + b"\0"]))
    place = data.draw(st.integers(0, len(values)))
    table, bad = made.read([*values[:place], wrong, *values[place:]])
    assert bad == {place: MISSING if wrong is None else UNFIT}
    assert table.to_pylist() == expected
    framed = [b"\0\0\0\0\7" + value for value in values if value is not None]
    table, bad = made.read([*framed, b"\0\0\0\0\7", b"\0\0\0", b"\1\0\0\0\7", b"\0\0\0\0\x08"], registry=True, ids=(7,))
    assert table.to_pylist() == expected
    assert [bad[place] for place in sorted(bad)] == [UNFIT, UNFRAMED, UNFRAMED, "its schema has the number 8"]


def test_times_beyond_years_are_of_their_record_alone() -> None:
    time = {"type": "long", "logicalType": "timestamp-millis"}
    made = rows_of({"type": "record", "name": "T", "fields": [{"name": "t", "type": time}]})
    table, bad = made.read([b"\2", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1", b"\4"])
    assert table["t"].cast(pa.int64()).to_pylist() == [1000, 2000]
    assert bad == {1: UNFIT}


@given(st.binary(max_size=60))
@example(b"")
def test_any_bytes_are_a_record_or_none(value: bytes) -> None:
    table, bad = rows_of().read([value])
    assert (table.num_rows, len(bad)) in {(1, 0), (0, 1)}


def test_what_is_no_schema_or_no_column_is_said() -> None:
    def record(kind: object) -> dict[str, object]:
        return {"type": "record", "name": "Node", "fields": [{"name": "x", "type": kind}]}

    for schema, error, text in [
        ("long", OnlySparkError, "sources.a.schema: a schema that is not of a record is read by Spark alone."),
        (record(["null", "Node"]), OnlySparkError, "sources.a.schema: Node contains itself, and is no column."),
        (record(["int", "string"]), OnlySparkError, "sources.a.schema: a union of 2 types is read by Spark alone."),
        (record("lnog"), ConfigError, "sources.a.schema: no schema of Avro: UnknownType"),
        (
            {"type": "record", "name": "Node", "fields": []},
            ConfigError,
            "sources.a.schema: the record Node has no fields",
        ),
        (record({"type": "array", "items": "null"}), OnlySparkError, "sources.a.schema: an array of null is read by"),
    ]:
        with pytest.raises(error) as ended:
            rows_of(schema)
        assert text in str(ended.value)
    table, _ = rows_of(record({"type": "int", "logicalType": "date"})).read([b"\2"])
    assert table.to_pydict() == {"x": [date(1970, 1, 2)]}
