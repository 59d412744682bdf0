"""How wide rows are is told by their values alone, and tables are cut where the next row has no room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slidejoin.rows import reorder, widths
from slidejoin.rows.reorder import rows_at
from slidejoin.rows.widths import TableLimit, Widths, bytes_of, fixed_width, in_one_chunk, row_bytes, varies, widths_of

texts = st.text("aé", max_size=20)
POINT = pa.struct([("x", pa.int32()), ("name", pa.string())])
KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int16(): st.integers(0, 9),
    pa.bool_(): st.booleans(),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.null(): st.none(),
    pa.string(): texts,
    pa.large_binary(): st.binary(max_size=20),
    pa.string_view(): texts,
    pa.list_(pa.int64()): st.lists(st.integers(0, 9), max_size=5),
    pa.list_(pa.null()): st.lists(st.none(), max_size=5),
    pa.list_(pa.bool_()): st.lists(st.booleans(), max_size=5),
    pa.large_list(pa.string()): st.lists(texts, max_size=3),
    pa.list_(pa.list_(pa.string_view())): st.lists(st.lists(texts, max_size=3), max_size=3),
    pa.list_(pa.string(), 2): st.lists(texts, min_size=2, max_size=2),
    pa.list_view(pa.string()): st.lists(texts, max_size=3),
    pa.list_(pa.list_view(pa.int8())): st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3),
    pa.map_(pa.string(), pa.int64()): st.lists(st.tuples(texts, st.integers(0, 9)), max_size=3),
    POINT: st.fixed_dictionaries({"x": st.integers(0, 9), "name": texts}),
    pa.list_(POINT): st.lists(st.fixed_dictionaries({"x": st.integers(0, 9), "name": texts}), max_size=3),
}


def size(value: Any, kind: pa.DataType) -> int:
    """The bytes of one value as Arrow: its own width or that of its place, and what is in it; each member counts."""
    if pa.types.is_null(kind):
        return 0
    if pa.types.is_struct(kind):
        return sum(size(value and value[field.name], field.type) for field in kind)
    if pa.types.is_fixed_size_list(kind):
        return sum(max(size(one, kind.value_type), 1) for one in value or [None] * kind.list_size)
    if pa.types.is_map(kind):
        pairs = [size(key, kind.key_type) + size(item, kind.item_type) for key, item in value or ()]
        return 4 + sum(pairs)
    if hasattr(kind, "value_type"):
        place = {pa.types.is_large_list: 8, pa.types.is_list_view: 8, pa.types.is_list: 4}
        own = next(width for check, width in place.items() if check(kind))
        return own + sum(max(size(one, kind.value_type), 1) for one in value or ())
    if pa.types.is_string_view(kind):
        length = len((value or "").encode())
        return 16 + (length if length > 12 else 0)
    if pa.types.is_string(kind) or pa.types.is_large_binary(kind):
        data = value or b""
        return (4 if pa.types.is_string(kind) else 8) + len(data.encode() if isinstance(data, str) else data)
    return -(-kind.bit_width // 8)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_widths_are_those_of_the_values(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | KINDS[kind], max_size=12))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=3)))
    # Slices: rows do not begin where their buffers do.
    chunks = [
        pa.array([None, *values], kind)[1 + a : 1 + b] for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True)
    ]
    table = pa.table({"n": np.arange(len(values)), "a": pa.chunked_array(chunks, kind)})
    expected = [8 + size(value, kind) for value in values]
    found = widths_of(table)
    assert found.fixed == 8 + fixed_width(kind)
    assert (found.varying is not None) == varies(kind)
    assert (found.fixed + (np.zeros(len(values)) if found.varying is None else found.varying)).tolist() == expected
    assert bytes_of(table) == found.nbytes == sum(expected)
    whole = pa.array(values, kind)
    if len(values):
        rows = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20)), np.int64)
        assert (row_bytes(whole, rows) + fixed_width(kind)).tolist() == [size(values[row], kind) for row in rows]


def test_entries_of_dictionaries_count_when_asked() -> None:
    entries = pa.array(["a" * 9, "", "b" * 1000])
    column = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1, 2], pa.int8()), entries)
    table = pa.table({"d": column})
    assert widths_of(table) == Widths(4, 1)
    counted = widths_of(table, entries=True).varying
    assert counted is not None
    assert counted.tolist() == [1004, 13, 4, 1004]
    # Under a NULL an index may be any number.
    wild = pa.Array.from_buffers(pa.int8(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(b"\x00\x99")])
    nulls = pa.DictionaryArray.from_arrays(wild, entries)
    assert row_bytes(nulls, np.arange(2), entries=True)[0] == 13
    nothing = pa.DictionaryArray.from_arrays(pa.nulls(2, pa.int8()), pa.array([], pa.string()))
    assert row_bytes(nothing, np.arange(2), entries=True).tolist() == [0, 0]


def test_what_has_no_bytes_of_its_own_has_an_even_share() -> None:
    runs = pc.run_end_encode(pa.array([1, 1, 1, 2]))  # type: ignore[attr-defined]  # the stubs are of pyarrow 20
    assert bytes_of(pa.table({"r": runs})) >= 24
    dense = pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["a" * 99])]
    )
    assert row_bytes(dense, np.arange(2)).tolist() == [-(-dense.nbytes // 2)] * 2
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "bb" * 9])])
    assert row_bytes(union, np.arange(2)).tolist() == [1, 18]
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [4]), pa.array([[1.0] * 4] * 2, pa.list_(pa.float32(), 4))
    )
    assert widths_of(pa.table({"t": tensors})) == Widths(2, 16)


# -- cutting -----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 9) | st.sampled_from([0, 100]), max_size=30),
    st.integers(0, 3),
    st.integers(1, 6),
    st.integers(1, 25),
)
@example([100], 0, 1, 1)
def test_a_table_ends_where_the_next_row_has_no_room(varying: list[int], fixed: int, rows: int, nbytes: int) -> None:
    limit, n = TableLimit(rows, nbytes), len(varying)
    for even in (False, True):
        sizes = [fixed] * n if even else [fixed + one for one in varying]
        stops = limit.stops(Widths(n, fixed, None if even else np.array(varying, np.int64)))
        starts = [0, *stops[:-1]]
        assert stops[-1:] == ([n] if n else [])
        for start, stop in zip(starts, stops, strict=False):
            assert stop - start == 1 or (stop - start <= rows and sum(sizes[start:stop]) <= nbytes)
            assert stop == n or stop - start == rows or sum(sizes[start : stop + 1]) > nbytes


@given(st.lists(st.text("a", max_size=30), max_size=30), st.integers(1, 80))
def test_slices_are_the_table(values: list[str], nbytes: int) -> None:
    table = pa.table({"s": pa.array(values, pa.string()), "n": pa.array(range(len(values)), pa.int64())})
    parts = list(TableLimit(7, nbytes).cut(table))
    assert pa.concat_tables(parts).equals(table)
    assert all(
        part.num_rows == 1 or (part.num_rows <= 7 and bytes_of(part) <= nbytes) for part in parts if part.num_rows
    )


# -- more than Arrow has room for in one array, with a lower bound -----------------------------------------------------


@given(
    st.lists(st.lists(texts, max_size=6), min_size=1, max_size=4),
    st.sampled_from([pa.string(), pa.list_(pa.string()), pa.dictionary(pa.int32(), pa.string())]),
    st.integers(1, 60),
    st.data(),
)
def test_rows_of_several_chunks_are_taken_in_parts(
    batches: list[list[str]], kind: pa.DataType, nbytes: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (widths, reorder):
            patch.setattr(module, "SLICE", TableLimit(1 << 62, nbytes))
        tables = []
        for number, batch in enumerate(batches):
            column: pa.Array[Any] = pa.array(
                [[text] for text in batch] if pa.types.is_list(kind) else batch,
                pa.list_(pa.string()) if pa.types.is_list(kind) else pa.string(),
            )
            if pa.types.is_dictionary(kind):
                column = column.dictionary_encode()
            tables.append(pa.table({"a": column, "n": pa.array([number] * len(batch), pa.int64())}))
        table = pa.concat_tables(tables)
        rows = table.num_rows
        places = data.draw(st.permutations(range(rows)))
        got = rows_at(table, np.array(places, np.int64))
        assert got.schema == table.schema
        got.validate(full=True)
        every = table.to_pylist()
        assert got.to_pylist() == [every[place] for place in places]
        assert in_one_chunk(table).to_pylist() == every
        assert in_one_chunk(table).column("a").num_chunks <= 1 or table.nbytes > nbytes
