from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slidejoin.rows.gather import Gather
from slidejoin.rows.payload import Payload
from slidejoin.rows.piece import Piece
from slidejoin.rows.text import is_text
from tests.narrow import tune

KINDS = [
    pa.int8(),
    pa.uint16(),
    pa.int32(),
    pa.int64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.decimal128(12, 2),
    pa.string(),
    pa.binary(),
    pa.large_string(),
    pa.large_binary(),
    pa.binary(3),
    pa.list_(pa.int32()),
    pa.dictionary(pa.int8(), pa.string()),
    pa.null(),
]


def column(kind: pa.DataType, rows: int, seed: int, *, nulls: bool) -> pa.Array[Any]:
    drawn = np.random.default_rng(seed).integers(0, 5, rows).tolist()
    values: list[object] = [None if nulls and value == 4 else value for value in drawn]
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    if pa.types.is_list(kind):
        return pa.array([None if value is None else [value] * value for value in drawn], kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([None if value is None else f"{value:3}".encode() for value in values], kind)
    # Of up to 24 bytes: some fit into a record, some do not.
    text = pa.array([None if value is None else str(value) * value * 6 for value in values], pa.string())
    if pa.types.is_dictionary(kind):
        return text.dictionary_encode().cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if value is None else value == 1 for value in values], kind)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.array(values, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    if is_text(kind):
        return text.cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else Decimal(str(value)) for value in values], kind)
    return pa.array(values, pa.int64()).cast(kind)


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    first=st.sampled_from([0, 7, 1 << 40]),
    cut=st.integers(0, 9),
    limit=st.sampled_from([1, 8, 4096]),
    merge=st.booleans(),
    data=st.data(),
)
def test_rows_of_any_pieces_are_those_of_the_whole(
    kind: pa.DataType,
    sizes: list[int],
    first: int,
    cut: int,
    limit: int,
    data: st.DataObject,
    *,
    merge: bool,
    nulls: bool,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, chunk_rows=limit)
        payload = Payload(pa.schema([("a", kind)]), merge=merge)
    tables, base = [], first
    for number, size in enumerate(sizes):
        # A slice: rows do not begin where their buffers do, nor at a whole byte of a bitmap.
        table = pa.table({"a": column(kind, size + cut, number, nulls=nulls and number % 3 > 0)}).slice(cut)
        payload.append(Piece(base, table, None), 40)
        tables.append(table)
        base += size
    asked = data.draw(st.lists(st.integers(0, base - first - 1), max_size=50))
    got = payload.take(["a"], np.array(asked, np.int64) + first)
    whole = pa.concat_tables(tables).column("a").to_pylist()
    assert got.column("a").type == kind
    got.validate(full=True)
    assert got.column("a").to_pylist() == [whole[place] for place in asked]
    back = pa.concat_tables([piece.table for piece in payload])
    back.validate(full=True)
    assert back.column("a").to_pylist() == whole
    assert payload.rows == len(whole)


@pytest.mark.nojit
@pytest.mark.parametrize("merge", [False, True])
def test_addresses_read_the_same_without_compilation(merge: bool) -> None:
    schema = pa.schema([("a", pa.int16()), ("b", pa.bool_()), ("s", pa.string()), ("f", pa.float32())])
    payload = Payload(schema, merge=merge)
    names = ["in the record", "", "not in the record at all"]
    first = {"a": [-1, None, 3], "b": [True, False, None], "s": names, "f": [0.5, None, -2.0]}
    payload.append(Piece(5, pa.table(first, schema), None), 0)
    payload.append(Piece(8, pa.table({"a": [9], "b": [True], "s": [None], "f": [1.0]}, schema), None), 0)
    got = payload.take(["b", "a", "f", "s"], np.array([8, 5, 6, 7, 8]))
    assert got.to_pydict() == {
        "b": [True, True, False, None, True],
        "a": [9, -1, None, 3, 9],
        "f": [1.0, 0.5, None, -2.0, 1.0],
        "s": [None, *names, None],
    }


def test_pieces_far_apart_take_no_memory_for_what_is_between():
    table = pa.table({"l": pa.array([[1], None, [2, 3]], pa.list_(pa.int64()))})
    far = 1 << 50
    gather = Gather([Piece(5, table, None), Piece(far, table, None)])
    rows = gather.locate(["l"], np.array([far + 2, 5, far, 7, 6]))
    assert rows.rows(0, 5).to_pylist() == [{"l": one} for one in ([2, 3], [1], [1], [2, 3], None)]
