"""Strings and binary come out of records as Arrow takes them out of the whole column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.rows.payload import Payload
from slidejoin.rows.piece import Piece
from slidejoin.rows.row_reader import texts_by_number
from tests.narrow import tune

KINDS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]

TEXTS = st.none() | st.integers(0, 40).map(lambda n: "abcdefgh" * (n // 8) + "ijklmnop"[: n % 8]) | st.text(max_size=20)


def arrow(kind: pa.DataType, texts: list[str | None]) -> pa.Array[Any]:
    return pa.array([None if text is None else text.encode() for text in texts], pa.binary()).cast(kind)


def one_by_one(payload: Payload, array: pa.Array[Any], sizes: list[int]) -> None:
    """Append an array to an empty payload in slices of these sizes, and what remains."""
    start = 0
    for size in [*sizes, len(array)]:
        part = array.slice(start, size)
        if len(part):
            payload.append(Piece(start, pa.table({"a": part}), None), 0)
        start += len(part)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=60),
    sizes=st.lists(st.integers(1, 9), max_size=8),
    block=st.sampled_from([1, 64, 4096]),
    largest=st.sampled_from([50, 1000, 1 << 31]),
    data=st.data(),
)
def test_rows_are_those_that_arrow_takes(
    kind: pa.DataType, texts: list[str | None], sizes: list[int], block: int, largest: int, data: st.DataObject
) -> None:
    whole = arrow(kind, texts)
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, text_block=block, largest_text_block=2 * block)
        payload = Payload(pa.schema([("a", kind)]))
        one_by_one(payload, whole, sizes)
        asked = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=100))
        got = payload.take(["a"], np.array(asked, np.int64)).column("a")
        (back,) = payload
        words = payload.chunks[0].rows["0"][: len(texts)].copy()
    got.validate(full=True)
    assert got.type == kind
    assert got.to_pylist() == whole.take(pa.array(asked, pa.int64())).to_pylist()
    assert got.num_chunks <= 1
    numbers = np.where(np.asarray(whole.is_valid()), np.arange(len(texts)), -1)
    chunks = texts_by_number(words, numbers, kind, largest).column(0).chunks
    assert [text for chunk in chunks for text in chunk.to_pylist()] == whole.to_pylist()
    assert all(chunk.nbytes <= largest + 9 * len(chunk) + 9 or len(chunk) == 1 for chunk in chunks)
    back.table.validate(full=True)
    assert back.table.column("a").to_pylist() == whole.to_pylist()
    assert payload.nbytes == 16 * len(texts) + sum(
        len(text or "") for text in whole.cast(pa.binary()).to_pylist() if len(text or "") > 15
    )


def test_a_column_in_several_chunks() -> None:
    payload = Payload(pa.schema([("a", pa.string())]))
    chunks = pa.chunked_array([["x" * 20, "y"], pa.array([], pa.string()), [None, "z" * 16]])
    payload.append(Piece(0, pa.table({"a": chunks}), None), 0)
    assert payload.take(["a"], np.array([3, 2, 1, 0])).column("a").to_pylist() == ["z" * 16, None, "y", "x" * 20]


def test_no_byte_is_read_behind_a_text() -> None:
    # Memory of exactly the bytes that there are: words must not reach beyond its end.
    data = np.frombuffer(b"abcdefghijklmno", np.uint8).copy()
    offsets = np.array([0, 3, 3, 15], np.int32)
    array = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    payload = Payload(pa.schema([("a", pa.string())]))
    payload.append(Piece(0, pa.table({"a": array}), None), 0)
    assert payload.take(["a"], np.array([2, 1, 0])).column("a").to_pylist() == ["defghijklmno", "", "abc"]


def test_a_long_text_among_short_ones_moves_nothing() -> None:
    payload = Payload(pa.schema([("a", pa.string())]))
    long = "x" * 3_000_000
    payload.append(Piece(0, pa.table({"a": ["a", "b" * 16]}), None), 0)
    first = payload.chunks[0].heap.blocks[0].ctypes.data
    payload.append(Piece(2, pa.table({"a": [long, "c" * 17]}), None), 0)
    assert payload.chunks[0].heap.blocks[0].ctypes.data == first
    assert payload.take(["a"], np.array([2, 1, 3, 0])).column("a").to_pylist() == [long, "b" * 16, "c" * 17, "a"]
