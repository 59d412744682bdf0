"""Batches of other types than their side's, of NULLs alone, and with invalid memory."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.operator.ingest.batches import DECLARED, to_table

DAY = dt.datetime(2024, 1, 2)

EXACT: list[tuple[pa.DataType, pa.DataType, list[Any]]] = [
    (pa.int64(), pa.float64(), [1, None, 2**53]),
    (pa.int8(), pa.int64(), [1, None, -128]),
    (pa.uint8(), pa.int16(), [255]),
    (pa.int64(), pa.int32(), [7, None]),
    (pa.float32(), pa.float64(), [1.5, None, float("inf")]),
    (pa.float64(), pa.float32(), [1.5, None]),
    (pa.large_string(), pa.string(), ["a", None]),
    (pa.string(), pa.large_string(), ["a", None]),
    (pa.string_view(), pa.string(), ["a" * 20, None]),
    (pa.string(), pa.string_view(), ["a" * 20, None]),
    (pa.binary(), pa.large_binary(), [b"\xff", None]),
    (pa.timestamp("us"), pa.timestamp("ns"), [DAY, None]),
    (pa.timestamp("ns"), pa.timestamp("s"), [DAY, None]),
    (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), [DAY.replace(tzinfo=dt.UTC), None]),
    (pa.date32(), pa.date64(), [dt.date(2024, 1, 2), None]),
    (pa.duration("s"), pa.duration("us"), [dt.timedelta(seconds=3)]),
    (pa.time32("s"), pa.time64("us"), [dt.time(1, 2, 3)]),
    (pa.decimal128(5, 2), pa.decimal128(20, 4), [Decimal("1.25"), None]),
    (pa.decimal128(20, 4), pa.decimal128(5, 2), [Decimal("1.2500"), None]),
    (pa.int64(), pa.decimal128(5, 2), [3, None]),
    (pa.dictionary(pa.int32(), pa.string()), pa.string(), ["a", None, "a"]),
    (pa.string(), pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"]),
    (pa.dictionary(pa.int8(), pa.large_string()), pa.dictionary(pa.int32(), pa.string()), ["a", None]),
    *((pa.null(), kind, [None, None]) for kind in (pa.string(), pa.int8(), pa.list_(pa.int8()), pa.string_view())),
    (pa.null(), pa.dictionary(pa.int32(), pa.string()), [None]),
]


@pytest.mark.parametrize(("given", "kind", "values"), EXACT, ids=str)
def test_values_are_taken_as_another_type_where_nothing_is_lost(
    given: pa.DataType, kind: pa.DataType, values: list[Any]
) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", kind)])
    table = to_table(pa.table({"k": range(len(values)), "v": pa.array(values, given)}), "left", schema)
    table.validate(full=True)
    assert table.schema == schema
    assert table.to_pydict()["v"] == values


LOST: list[tuple[pa.DataType, pa.DataType, list[Any], str]] = [
    (
        pa.int64(),
        pa.float64(),
        [2**53 + 1],
        "not all of its values can be: Integer value 9007199254740993 not in range",
    ),
    (pa.int64(), pa.int8(), [128], "not all of its values can be: Integer value 128 not in range"),
    (pa.float64(), pa.float32(), [0.1], "not all of its values can be: values would be rounded to float"),
    (pa.timestamp("us"), pa.timestamp("s"), [DAY.replace(microsecond=1)], "not all of its values can be: .*lose data"),
    (pa.decimal128(9, 4), pa.decimal128(5, 2), [Decimal("1.2345")], "not all of its values can be: .*data loss"),
    (pa.float64(), pa.int64(), [1.0], "expected int64 as schemas= said; cast it"),
    (pa.string(), pa.int64(), ["1"], "expected int64 as schemas= said; cast it"),
    (pa.binary(), pa.string(), [b"a"], "expected string as schemas= said; cast it"),
    (pa.timestamp("us", "UTC"), pa.timestamp("us"), [DAY], r"expected timestamp\[us\] as schemas= said; cast it"),
    (pa.list_(pa.int8()), pa.list_(pa.int16()), [[1]], "as schemas= said; cast it"),
    (pa.int64(), pa.null(), [1], "expected null as schemas= said, which had only NULLs in it; give schemas= with"),
]


@pytest.mark.parametrize(("given", "kind", "values", "said"), LOST, ids=str)
def test_what_would_be_lost_is_refused(given: pa.DataType, kind: pa.DataType, values: list[Any], said: str) -> None:
    with pytest.raises(sj.SchemaError, match=rf"column 'v' of the left batch is .*{said}"):
        to_table(pa.table({"v": pa.array(values, given)}), "left", pa.schema([("v", kind)]), known_from=DECLARED)


BATCHES: dict[str, Any] = {
    "dict": {"k": [1], "note": [None]},
    "pandas": pd.DataFrame({"k": [1], "note": [None]}),
    "Polars": pl.DataFrame({"k": [1], "note": [None]}),
    "Arrow": pa.table({"k": [1], "note": pa.nulls(1)}),
}


@pytest.mark.parametrize("form", BATCHES)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.int32(), pa.list_(pa.int8())])
@pytest.mark.parametrize("declared", [True, False])
def test_a_column_of_nulls_alone(form: str, kind: pa.DataType, declared: bool) -> None:
    left, right = pa.schema([("k", pa.int64()), ("note", kind)]), pa.schema([("k", pa.int64())])
    join = sj.StreamJoin(
        on="l.k = r.k", window=sj.CountWindow(10), schemas=(left, right) if declared else None, select=["l.k", "l.note"]
    )
    many = sj.MultiJoin(
        {"l": sj.CountWindow(10), "r": sj.CountWindow(10)},
        on="l.k = r.k",
        schemas={"l": left, "r": right} if declared else None,
        select=["l.k", "l.note"],
    )
    if not declared:
        join.push(left=left.empty_table())
        many.push(l=left.empty_table())
    join.push(left=BATCHES[form])
    many.push(l=BATCHES[form])
    for out in (join.push(right={"k": [1]}), many.push(r={"k": [1]})):
        assert out.to_pylist() == [{"k": 1, "note": None}]
        assert out.schema.field("note").type == kind
    with sj.Feed(sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(9), schemas=(left, right))) as feed:
        feed.put(left=BATCHES[form], right={"k": [1]})
    assert [table["note"].type for table in feed] == [kind]


# -- invalid memory --------------------------------------------------------------------------------------------------


class Foreign:
    """An object that gives a batch as an Arrow stream, as it is."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.table.__arrow_c_stream__(schema)


def spoiled(kind: str, rows: int) -> pa.Table:
    """Return a table whose column ``s`` has been made invalid behind Arrow's back."""
    if kind == "indices":
        memory = np.zeros(rows, np.int32)
        codes = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(memory)])
        column: Any = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]))
        memory[rows // 2] = 10**6
    else:
        memory = np.arange(rows + 1, dtype=np.int64 if kind == "large" else np.int32)
        buffers = [None, pa.py_buffer(memory), pa.py_buffer(b"x" * rows)]
        if kind == "list":
            child = pa.array(np.zeros(rows, np.int8))
            column = pa.Array.from_buffers(pa.list_(pa.int8()), rows, buffers[:2], children=[child])
        else:
            column = pa.Array.from_buffers(pa.large_string() if kind == "large" else pa.string(), rows, buffers)
        memory[rows // 2] = 10**9
    return pa.table({"k": np.zeros(rows, np.int64), "s": column})


@pytest.mark.parametrize("form", ["table", "stream", "dict"])
@pytest.mark.parametrize("rows", [4, 5000])
@pytest.mark.parametrize("kind", ["indices", "offsets", "large", "list"])
@pytest.mark.parametrize("known", [True, False])
def test_invalid_memory_is_refused(kind: str, rows: int, form: str, known: bool) -> None:
    table = spoiled(kind, rows)
    schemas = (table.schema, pa.schema([("k", pa.int64())])) if known else None
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(10), schemas=schemas)
    batch = {"table": table, "stream": Foreign(table), "dict": {"k": table["k"], "s": table["s"]}}[form]
    said = (
        r"the left batch cannot be read.*'s'" if form == "dict" else "column 's' of the left batch has invalid memory"
    )
    with pytest.raises(sj.SchemaError, match=said):
        join.push(left=batch)
    assert join.stats.rows_left == 0


def short(rows: int) -> pa.Table:
    """Return a table whose column ``x`` has memory for one value, as a damaged message says."""
    whole, sink = pa.table({"k": np.zeros(rows, np.int64), "x": np.arange(rows) * 1.5}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole)
    message = bytearray(sink.getvalue().to_pybytes())
    at = message.rfind(struct.pack("<q", 8 * rows), 0, -16 * rows)  # the length of the last buffer
    message[at : at + 8] = struct.pack("<q", 8)
    return pa.ipc.open_stream(pa.py_buffer(bytes(message))).read_all()


@pytest.mark.parametrize("form", ["table", "slice", "batch"])
@pytest.mark.parametrize("rows", [16, 5000])
@pytest.mark.parametrize("known", [True, False])
def test_numbers_without_memory_are_refused(rows: int, form: str, known: bool) -> None:
    table = short(rows)
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(10), schemas=(table.schema,) * 2 if known else None)
    batch = {"table": table, "slice": table.slice(8, 4), "batch": table.to_batches()[0]}[form]
    with pytest.raises(sj.SchemaError, match="column 'x' of the left batch has invalid memory"):
        join.push(left=batch)
    assert join.stats.rows_left == 0
