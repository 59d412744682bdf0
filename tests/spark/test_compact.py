"""Rows written compactly come back bit for bit, whatever their types."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from slidejoin.spark.state.compact import from_compact, to_compact

LOW, HIGH = -(2**63), 2**63 - 1
NAN = np.array([0x7FF8_0000_0000_1234], np.uint64).view(np.float64)[0]

COLUMNS = {
    "int8": pa.array([-128, None, 127], pa.int8()),
    "uint8": pa.array([0, None, 255], pa.uint8()),
    "int16": pa.array([-32768, 0, 32767], pa.int16()),
    "int32": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
    "uint32": pa.array([0, 1, 2**32 - 1], pa.uint32()),
    "int64": pa.array([LOW, None, HIGH], pa.int64()),
    "uint64": pa.array([0, None, 2**64 - 1], pa.uint64()),
    "float16": pa.array(np.array([0.5, -0.0, np.inf], np.float16)),
    "float32": pa.array([1.5, None, float("-inf")], pa.float32()),
    "float64": pa.array([-0.0, NAN, 5e-324], pa.float64()),
    "boolean": pa.array([True, None, False]),
    "decimal": pa.array([Decimal("-1.25"), None, Decimal("99999999999999.75")], pa.decimal128(18, 2)),
    "date": pa.array([LOW >> 40, None, 0], pa.int32()).view(pa.date32()),
    "seconds": pa.array([LOW, None, HIGH], pa.int64()).view(pa.timestamp("s")),
    "micros": pa.array([LOW, None, HIGH], pa.int64()).view(pa.timestamp("us", "UTC")),
    "nanos": pa.array([LOW, None, HIGH], pa.int64()).view(pa.timestamp("ns")),
    "time": pa.array([0, None, 86_399_999_999], pa.int64()).view(pa.time64("us")),
    "duration": pa.array([LOW, None, HIGH], pa.int64()).view(pa.duration("us")),
    "text": pa.array(["", None, "größer " * 50]),
    "large text": pa.array(["a", None, "b"], pa.large_string()),
    "bytes": pa.array([b"\x00", None, b"\xff" * 300], pa.binary()),
    "nothing": pa.nulls(3),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": ""}]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
}


def same(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables have the same bits; NaN is not equal to itself."""
    bits = pa.schema([pa.field(f.name, pa.int64() if f.type == pa.float64() else f.type) for f in left.schema])
    as_bits = [
        pa.table(
            [c.combine_chunks().view(f.type) if f.type != c.type else c for c, f in zip(t.columns, bits, strict=True)],
            bits,
        )
        for t in (left, right)
    ]
    return bool(left.schema == right.schema and as_bits[0].equals(as_bits[1]))


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("rows", [slice(None), slice(1, 2), slice(0, 0)], ids=["all", "one", "none"])
def test_values_of_every_type_come_back(name: str, rows: slice) -> None:
    table = pa.table({name: COLUMNS[name][rows]})
    assert same(from_compact(to_compact(table), table.schema, table.num_rows), table)


def test_columns_keep_their_order_whatever_they_are_called() -> None:
    names = ["b.a", "", "0", "a", "ä"]
    table = pa.table([pa.array([place, None]) for place in range(5)], names=names)
    assert same(from_compact(to_compact(table), table.schema, table.num_rows), table)


def test_rows_in_several_pieces_come_back_as_one() -> None:
    part = pa.table({"x": pa.array([1, 2]), "name": pa.array(["a", None])})
    table = from_compact(to_compact(pa.concat_tables([part, part])), part.schema, 2 * part.num_rows)
    assert table.column("name").num_chunks == 1
    assert same(table, pa.concat_tables([part, part]).combine_chunks())


def test_times_and_counters_shrink_to_bits() -> None:
    counter = np.arange(100_000) + 10**12
    table = pa.table({"i": counter, "ts": pa.array(counter * 1000).view(pa.timestamp("us", "UTC"))})
    assert to_compact(table).size < table.nbytes / 8


def test_other_columns_are_refused() -> None:
    table = pa.table({"x": pa.array([1])})
    with pytest.raises(pa.ArrowInvalid, match="1 columns, expected 2"):
        from_compact(to_compact(table), pa.schema([("x", pa.int64()), ("y", pa.int64())]), table.num_rows)
