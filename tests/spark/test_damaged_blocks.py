"""Blocks and numbers of rows on their way between tasks: what is damaged is refused before a kernel sees it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slidejoin.errors import StateError
from slidejoin.spark.route.pack import NUMBER
from slidejoin.spark.route.sequencing import Totals, numbers_of
from slidejoin.spark.state.blocks import open_block, to_block


def test_damaged_blocks_between_tasks_are_refused() -> None:
    """Whatever is changed in a block: an error of ours, or rows whose offsets can be trusted."""
    inner = pa.struct([pa.field("a", pa.string(), nullable=False)])
    kinds = [
        pa.int64(),
        pa.string(),
        pa.list_(pa.binary()),
        pa.map_(pa.string(), inner),
        pa.decimal128(20, 2),
        pa.bool_(),
    ]
    schema = pa.schema([pa.field(str(number), kind) for number, kind in enumerate(kinds)])
    rows = {"0": 1, "1": "\N{SNOWMAN}xyz", "2": [b"ab", None], "3": [("k", {"a": "v"})], "4": 1, "5": True}
    table = pa.Table.from_pylist([rows, {**dict.fromkeys(rows), "1": "b"}, rows], schema=schema)
    block = to_block(table).to_pybytes()
    assert open_block(block, schema).to_pylist() == table.to_pylist()
    chosen, refused = random.Random(0), 0
    for _ in range(400):
        damaged = bytearray(block)
        for _ in range(chosen.randint(1, 3)):
            damaged[chosen.randrange(len(block))] = chosen.choice([0, 1, 127, 128, 255])
        try:
            batch = open_block(bytes(damaged), schema)
        except StateError as error:
            assert "on its way between tasks is damaged" in str(error)  # noqa: PT017 - some pass
            refused += 1
        else:
            backwards: pa.Array[Any] = pa.array(np.arange(batch.num_rows)[::-1])
            assert batch.take(backwards).num_rows == batch.num_rows
    assert refused > 40
    with pytest.raises(StateError, match="a block of 5 bytes on its way between tasks is damaged"):
        open_block(b"short", schema)


@pytest.mark.parametrize("damage", [b"", b"\xff" * 16, bytes(8), (9).to_bytes(4, "little") * 4])
def test_damaged_numbers_of_rows_are_refused(damage: bytes) -> None:
    totals = Totals({"left": 5, "right": 7}, {"left": 8, "right": 9})
    numbers = np.array([[0, 2], [0, 2]], NUMBER).tobytes()
    assert [found.tolist() for found in numbers_of(numbers, "left", totals, 2)] == [[5, 7], [7, 9]]
    assert Totals.from_bytes(totals.to_bytes()) == totals
    with pytest.raises(StateError, match="the numbers of 2 rows on their way to a bucket are damaged"):
        numbers_of(damage, "left", totals, 2)
    for wrong in (damage, Totals(totals.after, totals.before).to_bytes()):
        with pytest.raises(StateError, match="totals of rows on their way to a bucket are damaged"):
            Totals.from_bytes(wrong)
