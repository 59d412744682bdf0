"""Few rows over large dictionaries and many texts: only what they use is checked, copied and kept."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.ingest.batches import to_table
from tests.law.checks import examples

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 3000
TEXTS = pa.array([None if number % 7 == 5 else f"text number {number}, and more" for number in range(MANY)])
KINDS: dict[str, pa.DataType] = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "string_view": pa.string_view(),
    "binary_view": pa.binary_view(),
}
ENTRIES: dict[str, pa.Array[Any]] = {name: TEXTS.cast(kind) for name, kind in KINDS.items()}
ENTRIES |= {
    "int64": pa.array(range(MANY)),
    "bool": pa.array([number % 3 == 0 for number in range(MANY)]),
    "decimal": pa.array([Decimal(number) / 4 for number in range(MANY)]),
    "fixed": pa.array([b"%08d" % number for number in range(MANY)], pa.binary(8)),
}


def tables(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> dict[str, Any]:
    """The forms of a batch of one column."""
    return {"table": pa.table({"d": column}), "dict": {"d": column}}


@examples(60)
@given(
    name=st.sampled_from(list(ENTRIES)),
    index=st.sampled_from([pa.int16(), pa.uint16(), pa.int32(), pa.uint64()]),
    places=st.lists(st.one_of(st.none(), st.integers(0, MANY - 101)), max_size=20),
    cut=st.integers(0, 100),
    rows=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    known=st.booleans(),
)
def test_values_are_the_same(
    name: str, index: pa.DataType, places: list[int | None], cut: int, rows: tuple[int, int], known: bool
) -> None:
    column: pa.Array[Any] = pa.DictionaryArray.from_arrays(pa.array(places, index), ENTRIES[name].slice(cut)).slice(
        *rows
    )
    for batch in tables(column).values():
        table = to_table(batch, "left", pa.schema([("d", column.type)]) if known else None)
        table.validate(full=True)
        assert table["d"].to_pylist() == column.to_pylist()
        assert table["d"].type == column.type
        assert table["d"].nbytes < 4000


@pytest.mark.parametrize("name", ["string_view", "binary_view"])
@pytest.mark.parametrize("form", ["table", "dict"])
def test_views_keep_their_own_texts(name: str, form: str) -> None:
    column = ENTRIES[name].slice(700, 16)
    assert column.get_total_buffer_size() > 1 << 16
    found = to_table(tables(column)[form], "left", None)["d"]
    assert found.to_pylist() == column.to_pylist()
    assert found.get_total_buffer_size() < 4000


def test_a_large_dictionary_may_be_overwritten() -> None:
    text = np.frombuffer(b"".join(b"%08d" % number for number in range(MANY)), np.uint8).copy()
    offsets, codes = np.arange(0, 8 * MANY + 1, 8, dtype=np.int32), np.array([5, 2900, 5], np.int32)
    join = sj.StreamJoin(on="l.d = r.d", window=sj.CountWindow(10), select=["l.d"])
    entries = pa.Array.from_buffers(pa.string(), MANY, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    indices = pa.Array.from_buffers(pa.int32(), 3, [None, pa.py_buffer(codes)])
    batch = pa.table({"d": pa.DictionaryArray.from_arrays(indices, entries)})
    for _ in range(2):
        join.push(left=batch)
    text[:], codes[:] = 33, 0
    assert join.push(right={"d": ["00002900"]}).to_pydict() == {"d": ["00002900"] * 2}


def wrong_offset(width: Any) -> tuple[pa.Array[Any], Callable[[], None]]:
    offsets = np.arange(0, 2 * MANY + 1, 2, dtype=width)
    kind = pa.string() if width is np.int32 else pa.large_string()
    entries = pa.Array.from_buffers(kind, MANY, [None, pa.py_buffer(offsets), pa.py_buffer(b"ab" * MANY)])

    def spoil() -> None:
        offsets[7] = 1 << 30

    return pa.DictionaryArray.from_arrays(pa.array([1, 6], pa.int32()), entries), spoil


def wrong_index(index: int) -> tuple[pa.Array[Any], Callable[[], None]]:
    codes = np.array([1, 6], np.int32)
    indices = pa.Array.from_buffers(pa.int32(), 2, [None, pa.py_buffer(codes)])

    def spoil() -> None:
        codes[1] = index

    return pa.DictionaryArray.from_arrays(indices, ENTRIES["string"]), spoil


def wrong_view(*, encoded: bool) -> tuple[pa.Array[Any], Callable[[], None]]:
    valid, views, *data = ENTRIES["string_view"].buffers()
    points = np.frombuffer(memoryview(views), np.int32).copy()
    entries = pa.Array.from_buffers(pa.string_view(), MANY, [valid, pa.py_buffer(points), *data])

    def spoil() -> None:
        points[4 * 6 + 3] = 1 << 30

    return pa.DictionaryArray.from_arrays(pa.array([1, 6], pa.int32()), entries) if encoded else entries[:9], spoil


@pytest.mark.parametrize("form", ["table", "dict"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: wrong_offset(np.int32),
        lambda: wrong_offset(np.int64),
        lambda: wrong_index(-1),
        lambda: wrong_index(MANY),
        lambda: wrong_view(encoded=True),
        lambda: wrong_view(encoded=False),
    ],
    ids=["offset", "large offset", "negative index", "index", "view in a dictionary", "view"],
)
def test_what_is_used_is_checked(make: Callable[[], tuple[pa.Array[Any], Callable[[], None]]], form: str) -> None:
    column, spoil = make()
    to_table(tables(column)[form], "left", None)
    spoil()
    for known in (None, pa.schema([("d", column.type)])):
        with pytest.raises(sj.SchemaError, match="column 'd'"):
            to_table(tables(column)[form], "left", known)
