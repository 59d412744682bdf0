"""Columns come out with the type and values that they came in with, however they are held between."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.rows.held_types import check_holdable, held, released

NARROW = pa.dictionary(pa.int8(), pa.string())


def words(batch: int, kind: pa.DataType = NARROW, count: int = 100) -> pa.Array[Any]:
    return pa.array([f"{batch}-{i}" for i in range(count)]).dictionary_encode().cast(kind)


COLUMNS: dict[str, Any] = {
    "narrow dictionaries with more words together than 127": words,
    "the same in a struct": lambda b: pa.StructArray.from_arrays([words(b)], ["f"]),
    "the same in a list": lambda b: pa.ListArray.from_arrays(list(range(101)), words(b)),
    "dictionary of views": lambda b: pa.DictionaryArray.from_arrays(
        pa.array([1, 0, None], pa.uint32()), pa.array(["a", f"b{b}"], pa.string_view())
    ),
    "ordered dictionary": lambda b: pa.DictionaryArray.from_arrays(
        pa.array([1, 0, None], pa.uint16()), pa.array(["a", f"b{b}"]), ordered=True
    ),
    "dictionary with NULL among its words": lambda b: pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None]), pa.array(["a", None] if b % 2 else [None, "a"])
    ),
    "dictionary without words": lambda _: pa.DictionaryArray.from_arrays(
        pa.array([None, None], pa.uint8()), pa.array([], pa.string())
    ),
    "dictionary of numbers": lambda b: pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([b])),
    "large strings": lambda b: pa.array(["a", None, f"x{b}"], pa.large_string()),
    "views": lambda b: pa.array(["a", None, f"a text longer than a view holds inside {b}"], pa.string_view()),
    "binary views": lambda b: pa.array([b"a", None, b"x" * 30 * b], pa.binary_view()),
    "run ends": lambda b: pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([b, None])),
    "struct of a list": lambda b: pa.array([{"a": [1, b], "b": None}, None, {"a": [], "b": "x"}]),
    "list of structs": lambda b: pa.array([[{"x": b}], None, []]),
    "map": lambda b: pa.array([[("k", b)], []], pa.map_(pa.string(), pa.int64())),
    "fixed-size list": lambda b: pa.array([[1, b], None], pa.list_(pa.int16(), 2)),
    "fixed-size binary": lambda b: pa.array([bytes([b, 1]), None], pa.binary(2)),
    "wide decimal": lambda b: pa.array([Decimal(b), None], pa.decimal256(40, 3)),
    "null": lambda _: pa.nulls(3),
    "extension": lambda b: pa.array([uuid.UUID(int=b).bytes, None], pa.uuid()),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_through_windows_counts_and_snapshots(name: str) -> None:
    batches = [COLUMNS[name](b) for b in range(5)]
    kind = batches[0].type
    values = [value for batch in batches for value in batch.to_pylist()]
    window = sj.CountWindow(10_000)
    join = sj.StreamJoin(on="l.k = r.k", window=window, order="strict", select=["l.x"])
    counts = sj.StreamJoin(on="l.k = r.k", window=window, output="count")
    for number, batch in enumerate(batches):
        left = pa.table({"k": pa.array([0] * len(batch)), "x": batch})
        if number == 2:  # from here on the rows are in the window, before they wait
            join.push(right={"k": [7]})
        join.push(left=left)
        counted = counts.push(left=left, right={"k": [1]})
        counted.validate(full=True)
        assert counted.column("x").to_pylist() == [*batch.to_pylist(), None]
        assert counted.schema.field("x").type == kind
    for one in (join, sj.StreamJoin.restore(join.snapshot())):
        out = one.push(right={"k": [0]})
        out.validate(full=True)
        assert out.schema.field("x").type == kind
        assert out.column("x").to_pylist() == values


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_that_wait_are_sorted_whatever_their_columns(name: str) -> None:
    column = COLUMNS[name](1)
    join = sj.StreamJoin(on="l.k = r.k", window=sj.TimeWindow(1000, on="t"), order="strict", select=["l.x"])
    times = [len(column) - i for i in range(len(column))]
    rows = pa.table({"k": [0] * len(column), "t": pa.array(times), "x": column})
    join.push(left=rows, order_by="t")
    again = sj.StreamJoin.restore(join.snapshot())
    for one in (join, again):
        assert one.push(right={"k": [0], "t": [1]}).column("x").to_pylist() == column.to_pylist()[::-1]


def test_held_and_released_are_inverse_and_leave_plain_tables_alone() -> None:
    plain = pa.table({"a": [1], "s": ["x"]})
    assert held(plain) is plain
    for make in COLUMNS.values():
        column = pa.chunked_array([make(1), make(2)]) if make is not words else pa.chunked_array([make(1)])
        table = held(pa.table({"x": column}))
        assert released(table.column("x"), column.type).to_pylist() == column.to_pylist()


def test_ordered_words_keep_their_order() -> None:
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    words = pa.array(["low", "mid", "high"])
    chunk = pa.DictionaryArray.from_arrays(pa.array([2, 0, None], pa.int32()), words, ordered=True)
    out = released(pa.chunked_array([chunk]), kind)
    assert out.type == kind
    assert out.chunk(0).dictionary.to_pylist() == ["low", "high"]  # type: ignore[attr-defined]  # the stubs are of pyarrow 20
    assert out.to_pylist() == ["high", "low", None]


def test_a_column_that_rows_cannot_be_taken_out_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: pa.Table) -> pa.Table:
        msg = "no kernel"
        raise pa.ArrowNotImplementedError(msg)

    check_holdable("left", pa.schema([("x", pa.int64())]), ["x"])
    monkeypatch.setattr("slidejoin.rows.held_types.held", refuse)
    with pytest.raises(sj.PredicateError, match=r"column 'x' of the left side is int64.*leave it out with select="):
        check_holdable("left", pa.schema([("x", pa.int64())]), ["x"])
