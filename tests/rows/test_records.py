"""Rows of any columns go into records and come out of them as Arrow takes them out of the whole table."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.rows.kernels.batch_rows import BITS
from slidejoin.rows.output_block import OutputBlock
from slidejoin.rows.payload import Payload
from slidejoin.rows.row_reader import UNLIMITED, RowReader
from slidejoin.runtime.array_pool import ArrayPool
from tests.law.checks import examples
from tests.narrow import tune

KINDS: list[tuple[pa.DataType, Any]] = [
    (pa.int8(), lambda n: n % 100),
    (pa.uint16(), lambda n: n),
    (pa.int32(), lambda n: -n),
    (pa.float64(), lambda n: n / 4),
    (pa.float16(), lambda n: float(n % 64)),
    (pa.bool_(), lambda n: n % 3 == 0),
    (pa.date32(), lambda n: n),
    (pa.time64("us"), lambda n: n),
    (pa.timestamp("ns", "UTC"), lambda n: n),
    (pa.duration("s"), lambda n: n),
    (pa.decimal32(7, 2), lambda n: Decimal(n) / 4),
    (pa.decimal128(20, 2), lambda n: Decimal(-n) / 4),
    (pa.decimal256(40, 2), lambda n: Decimal(n) / 4),
    (pa.month_day_nano_interval(), lambda n: (n % 12, n % 28, n)),
    (pa.binary(3), lambda n: f"{n % 1000:03}".encode()),
    (pa.binary(100), lambda n: f"{n:0100}".encode()),  # too wide for records
    (pa.string(), lambda n: "é" * (n % 12)),
    (pa.large_binary(), lambda n: b"x" * (n % 40)),
    (pa.list_(pa.int8()), lambda n: [n % 100] * (n % 3)),
]


def table_of(kinds: list[int], rows: int, nulls: int, first: int) -> pa.Table:
    """Rows in which every so-many-th value is NULL, none if that is 0; slices of memory that begins before them."""
    columns = {}
    for place, (kind, value) in enumerate(KINDS[number] for number in kinds):
        numbers = range(first - 3, first + rows)
        values = [None if nulls and (n + place) % nulls == 0 else value(max(n, 0)) for n in numbers]
        columns[str(place)] = pa.array(values, kind).slice(3)
    return pa.table(columns)


@pytest.mark.nojit
@examples(60)
@given(
    kinds=st.lists(st.integers(0, len(KINDS) - 1), min_size=1, max_size=10),
    steps=st.lists(
        st.tuples(st.integers(1, 140), st.sampled_from([0, 0, 2, 5]), st.booleans()), min_size=1, max_size=5
    ),
    chunk=st.sampled_from([2, 64, 4096]),
    past_caches=st.booleans(),
    data=st.data(),
)
def test_rows_are_those_that_arrow_takes(
    kinds: list[int], steps: list[tuple[int, int, bool]], chunk: int, past_caches: bool, data: st.DataObject
) -> None:
    pieces: list[pa.Table] = []
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, chunk_rows=chunk, text_block=64, flowing_rows=1 if past_caches else 1 << 40, flowing_window=1)
        end = 0
        for rows, nulls, halves in steps:
            whole = table_of(kinds, rows, nulls, end)
            pieces.append(pa.concat_tables([whole.slice(0, rows // 2), whole.slice(rows // 2)]) if halves else whole)
            end += rows
        payload, base = Payload(pieces[0].schema), 0
        for piece in pieces:
            payload.append_rows(base, piece, None, end)
            base += piece.num_rows
    everything = pa.concat_tables(pieces).combine_chunks()
    asked = np.array(data.draw(st.lists(st.integers(0, end - 1), max_size=150)), np.int64)
    taken = payload.take(everything.schema.names, asked)
    taken.validate(full=True)
    assert taken.to_pylist() == everything.take(pa.array(asked)).to_pylist()
    assert pa.concat_tables([piece.table for piece in payload]).to_pylist() == everything.to_pylist()
    names = [column.name for column in payload.records.columns]
    if names:
        reader, asked = RowReader(payload.directory, payload.schema, names), np.where(asked % 7 == 3, -1, asked)
        check_blocks(reader, everything.select(names), asked)


def check_blocks(reader: RowReader, table: pa.Table, asked: np.ndarray[Any, Any]) -> None:
    """Rows, of which some are missing, are read into blocks of which results are cut, as far as there is room."""
    rows = table.take(pa.array(asked, mask=asked < 0)).to_pylist()
    for shared in (False, True):
        texts, kinds = [400 if kind < BITS else 0 for kind in reader.kinds], reader.kinds
        order, memory = range(len(kinds)), ArrayPool(np.int64)
        block = OutputBlock(table.schema, order, kinds, [True] * len(kinds), 400, texts, memory.take, shared=shared)
        reader.aim(block.columns)
        done = 0
        for part in (asked[:20], asked[20:]) if shared else (asked,):
            read = reader.read(part, block.columns, block.rows, block.used, UNLIMITED)
            out = block.take(read)
            out.validate(full=True)
            assert out.to_pylist() == rows[done : done + read]
            if read < part.size:
                assert any(kind < BITS for kind in kinds)
                return
            done += read


def test_a_budget_ends_with_a_row() -> None:
    payload = Payload(pa.schema([("n", pa.int64()), ("s", pa.string())]))
    payload.append_rows(0, pa.table({"n": range(300), "s": ["x" * 20] * 300}), None, 300)
    reader = RowReader(payload.directory, payload.schema, ["n", "s"])
    block = OutputBlock(payload.schema, [0, 1], reader.kinds, reader.nulls, 300, [0, 9000], shared=False)
    reader.aim(block.columns)
    # 8 bytes, 4 of an offset and 20 of a text a row.
    assert reader.read(np.arange(300), block.columns, 0, block.used, 100 * 32 + 31) == 100
    assert block.take(100).column("n").to_pylist() == list(range(100))
