"""Rows are found by their ordinals whatever was appended, merged and expired."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.rows.chunk import records_of
from slidejoin.rows.payload import Payload
from slidejoin.rows.piece import Piece
from tests.narrow import tune

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def piece(base: int, rows: int, time_max: int | None = None) -> Piece:
    numbers = list(range(base, base + rows))
    return Piece(base, pa.table({"n": numbers, "s": [text(i) for i in numbers]}, SCHEMA), time_max)


def text(number: int) -> str:
    """A text of that row, some short and some long."""
    return f"row {number}" + number % 30 * "."


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=20),
    st.lists(st.integers(0, 10**6), max_size=30),
    st.booleans(),
    st.sampled_from([2, 8, 4096]),
    st.data(),
)
def test_take_after_any_sequence(
    steps: list[tuple[int, bool]], asked: list[int], merge: bool, limit: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, chunk_rows=limit)
        payload, end = Payload(SCHEMA, merge), 3
        for rows, expires in steps:
            payload.append(piece(end, rows), 0)
            end += rows
            if expires:
                payload.expire(data.draw(st.integers(0, end)))
    first = payload.pieces[0].base if payload.pieces else end
    assert [p.base for p in payload] == [first, *(p.end for p in payload)][: len(payload.pieces)]
    assert payload.rows == end - first
    assert payload.nbytes == sum(payload.growth(p.table) for p in payload)
    ordinals = [first + i % payload.rows for i in asked] if payload.rows else []
    for wanted in (ordinals, sorted(ordinals)):
        table = payload.take(["s", "n"], np.array(wanted, np.int64))
        assert table.schema.names == ["s", "n"]
        assert table.column("n").to_pylist() == wanted
        assert table.column("s").to_pylist() == [text(i) for i in wanted]


def test_no_columns_still_have_rows() -> None:
    payload = Payload(SCHEMA)
    payload.append(piece(0, 3), 3)
    assert payload.take([], np.array([0, 2, 2, 1])).num_rows == 4
    assert Payload(SCHEMA).take(["n"], np.empty(0, np.int64)).num_rows == 0


def test_pieces_stay_few_over_thousands_of_appends() -> None:
    payload = Payload(SCHEMA)
    for i in range(10_000):
        payload.append(piece(i, 1), min(i, 5000))
        payload.expire(i - 5000)
    assert len(payload.pieces) < 30
    assert 5000 <= payload.rows < 5000 + 4096


def test_pieces_leave_by_time_wherever_they_stand() -> None:
    payload = Payload(SCHEMA, merge=False)
    for base, time_max in ((0, 10), (2, 99), (4, 30), (6, 40)):
        payload.append(piece(base, 2, time_max), 8)
    payload.expire_below(31)
    assert [kept.base for kept in payload] == [2, 6]
    assert payload.rows == 4
    taken = payload.take(["n"], np.array([7, 2, 6, 3]))
    assert taken.column("n").to_pylist() == [7, 2, 6, 3]


def test_merged_pieces_keep_the_largest_time() -> None:
    payload = Payload(SCHEMA)
    for base, time_max in ((0, 10), (2, 3)):
        payload.append(piece(base, 2, time_max), 0)
    assert [(p.base, p.end, p.time_max) for p in payload] == [(0, 4, 10)]


def test_a_slice_is_copied_out_of_larger_memory() -> None:
    whole = piece(0, 10_000)
    payload = Payload(SCHEMA, merge=False)
    payload.append(Piece(0, whole.table.slice(5000, 10), None), 0)
    payload.append(Piece(10, whole.table.slice(6000, 10), None), 0)
    payload.own(10)
    before, after = (p.table.get_total_buffer_size() for p in payload)
    assert before > 100_000
    assert after < 2_000
    assert payload.take(["n"], np.array([10, 0])).column("n").to_pylist() == [6000, 5000]
    payload.own(0)
    assert payload.pieces[0].table.get_total_buffer_size() < 2_000
    own = payload.pieces[0]
    assert own.owned() is own


KEPT = pa.schema([("n", pa.int64()), ("x", pa.int16()), ("b", pa.bool_()), ("s", pa.string())])


def value_of(ordinal: int) -> tuple[int, int | None, bool | None, str]:
    """What the row with that ordinal holds; some columns begin to have NULLs, and stop."""
    some = ordinal % 3 or not 20 < ordinal < 60
    return ordinal, ordinal % 1000 if some else None, ordinal % 2 == 0 if some else None, text(ordinal)


def rows_of(base: int, rows: int, time_max: int | None, names: list[str]) -> Piece:
    columns = zip(*(value_of(i) for i in range(base, base + rows)), strict=True)
    table = pa.table(dict(zip(KEPT.names, columns, strict=True)), KEPT)
    return Piece(base, table.select(names), time_max)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9), st.integers(0, 12)), min_size=1, max_size=25),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([["n", "x", "b", "s"], ["n"], ["s"], ["b", "x"]]),
    st.sampled_from([0, 5, 2**41 + 3]),
    st.booleans(),
)
def test_a_window_in_time_against_a_dict(
    steps: list[tuple[int, int, int]], limit: int, names: list[str], first: int, rare: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, chunk_rows=limit, directory_spread=1 if rare else 16, directory_units=2)
        schema = pa.schema([KEPT.field(name) for name in names])
        payload, end = Payload(schema), first
        if rare:
            payload.append(rows_of(end, 3, 10**9, names), 1)  # stays for ever, and makes the rest far away
            end += 3
        for rows, time, oldest in steps:
            payload.append(rows_of(end, rows, time, names), payload.rows + rows)
            end += rows
            payload.expire_below(oldest)
            kept = [i for piece in payload for i in range(piece.base, piece.end)]
            assert payload.rows == len(kept)
            assert payload.first(-1) == (kept[0] if kept else -1)
            # What is young enough has not left; what has left does not come back.
            assert time < oldest or kept[-rows:] == list(range(end - rows, end))
            expected = [{name: value_of(i)[KEPT.names.index(name)] for name in names} for i in kept]
            assert payload.take(names, np.array(kept, np.int64)).to_pylist() == expected
            for place, begin in enumerate(kept):
                if kept[-1] - begin == len(kept) - 1 - place:  # none of those behind it is missing
                    found = payload.between(names, begin, kept[-1] + 1)
                    assert found.schema == schema
                    assert found.to_pylist() == expected[place:]
            assert payload.between(names, end, end).to_pylist() == []
            assert pa.concat_tables([schema.empty_table(), *(p.table for p in payload)]).to_pylist() == expected


def test_memory_of_a_chunk_that_has_left_serves_the_next_one() -> None:
    payload = Payload(pa.schema([("n", pa.int64())]))
    addresses = set()
    for base in range(0, 40 * 4096, 1024):
        payload.append(Piece(base, pa.table({"n": np.arange(base, base + 1024)}), None), 8192)
        payload.expire(base + 1024 - 8192)
        addresses.add(payload.chunks[-1].rows.ctypes.data)
    assert len(addresses) <= 5
    assert payload.nbytes == payload.rows * 8
    live = np.arange(payload.first(0), 40 * 4096)
    assert payload.take(["n"], live).column("n").to_pylist() == live.tolist()


def test_chunks_grow_with_the_window() -> None:
    payload = Payload(pa.schema([("n", pa.int8())]))
    payload.append(Piece(0, pa.table({"n": pa.nulls(10, pa.int8())}), None), 10)
    assert payload.chunks[-1].limit == 4096
    payload.append(Piece(10, pa.table({"n": pa.array(np.zeros(10**6, np.int8))}), None), 10**6 + 10)
    assert payload.chunks[-1].limit - payload.chunks[-1].origin == 16384
    payload.append(Piece(10**6 + 10, pa.table({"n": pa.array(np.ones(10**6, np.int8))}), None), 10**8)
    assert payload.chunks[-1].limit - payload.chunks[-1].origin == 65536
    taken = payload.take(["n"], np.array([9, 10, 10**6 + 9, 10**6 + 10, 2 * 10**6 + 9]))
    assert taken.column("n").to_pylist() == [None, 0, 0, 1, 1]


def test_chunks_of_a_window_of_known_size_are_of_one_size() -> None:
    payload, sizes = Payload(pa.schema([("n", pa.int64())]), expected=1 << 20), set()
    for base in range(0, 3 << 20, 1 << 18):
        payload.append(Piece(base, pa.table({"n": np.arange(base, base + (1 << 18))}), None), payload.rows + (1 << 18))
        payload.expire(base + (1 << 18) - (1 << 20))
        sizes |= {one.rows.size for one in payload.chunks}
    assert sizes == {1 << 15}
    wide = Payload(pa.schema([(f"n{number}", pa.int64()) for number in range(512)]), expected=1 << 40)
    wide.append(Piece(0, pa.table({name: [1] for name in wide.schema.names}), None), 1)
    assert wide.chunks[-1].rows.nbytes <= 16 << 20  # the smallest chunk of such rows
    assert payload.take(["n"], np.array([5 << 19])).column("n").to_pylist() == [5 << 19]


def test_tables_given_out_do_not_change_when_memory_is_used_again() -> None:
    payload = Payload(pa.schema([("n", pa.int64())]))
    payload.append(Piece(0, pa.table({"n": np.zeros(4096, np.int64)}), None), 4096)
    (before,) = payload
    payload.expire(4096)
    payload.append(Piece(4096, pa.table({"n": np.ones(4096, np.int64)}), None), 4096)
    assert before.table.column("n").unique().to_pylist() == [0]


def test_records_are_aligned_and_no_longer_than_they_need_be() -> None:
    def stride(*kinds: pa.DataType) -> int:
        return records_of(pa.schema([(str(n), kind) for n, kind in enumerate(kinds)])).dtype.itemsize

    assert [stride(pa.int8()), stride(pa.int32()), stride(pa.string()), stride()] == [1, 4, 16, 0]
    assert stride(pa.bool_(), pa.int32()) == 8
    assert stride(pa.int16(), pa.int64()) == 16
    assert stride(*[pa.int64()] * 3, pa.string(), pa.large_binary()) == 64  # 56 would lie in two lines as often as not
    assert stride(*[pa.int64()] * 6) == 48
    mixed = records_of(pa.schema([("a", pa.int8()), ("b", pa.string()), ("c", pa.int32()), ("d", pa.list_(pa.int8()))]))
    assert [column.name for column in mixed.columns] == ["a", "b", "c"]
    assert mixed.offsets == (20, 0, 16)
    assert mixed.memory(10).ctypes.data % 64 == 0


def test_expired_texts_give_their_memory_back() -> None:
    payload = Payload(SCHEMA)
    blocks = set()
    for base in range(0, 40 * 4096, 1024):
        table = pa.table({"n": np.arange(base, base + 1024), "s": [f"{i:020}" for i in range(base, base + 1024)]})
        payload.append(Piece(base, table, None), 8192)
        payload.expire(base + 1024 - 8192)
        blocks |= {block.ctypes.data for block in payload.chunks[-1].heap.blocks}
        assert payload.nbytes == payload.rows * (24 + 20)
    assert len(blocks) <= 40
    assert payload.rows <= 8192 + 4096
    payload.expire(40 * 4096)
    assert payload.nbytes == 0
