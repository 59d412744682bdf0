"""Columns that are written into records past the caches, beside NumPy's copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.rows.kernels.writing import put_columns, stage_of
from tests.law.checks import examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

DTYPES = [np.int8, np.int16, np.int32, np.int64, np.float64, np.uint8]


@pytest.mark.nojit
@examples(100)
@given(
    kinds=st.lists(st.sampled_from(DTYPES), min_size=1, max_size=4),
    rows=st.sampled_from([0, 1, 7, 127, 128, 129, 400]),
    first=st.integers(0, 9), seed=st.integers(0, 1 << 16),
)  # fmt: skip
def test_columns_of_records(kinds: list[type], rows: int, first: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = np.dtype([(str(number), one) for number, one in enumerate(kinds)])
    room = np.zeros((rows + first + 3) * kind.itemsize + 64, np.uint8)
    skip = -room.ctypes.data % 64
    records = room[skip : skip + (rows + first + 3) * kind.itemsize].view(kind)
    columns: list[NDArray[Any]] = [rng.integers(0, 100, rows).astype(one) for one in kinds]
    assert kind.fields is not None
    layout = np.array([(kind.fields[name][1], kind.fields[name][0].itemsize) for name in kind.names or ()], np.int64)
    sources = np.array([column.ctypes.data for column in columns], np.int64)
    stride = kind.itemsize
    put_columns(sources, layout, records.ctypes.data + first * stride, stride, rows, stage_of(stride))
    for name, column in zip(kind.names or (), columns, strict=True):
        assert records[name][first : first + rows].tolist() == column.tolist()
        assert not records[name][:first].any()
        assert not records[name][first + rows :].any()


def test_records_of_many_columns() -> None:
    """Their stage is so large that memory that is freed is no longer there."""
    rows, many = 1000, 600
    values = np.arange(rows * many).reshape(many, rows)
    kind = np.dtype([(str(number), np.int64) for number in range(many)])
    room = np.zeros(rows * kind.itemsize + 64, np.uint8)
    skip = -room.ctypes.data % 64
    records = room[skip : skip + rows * kind.itemsize].view(kind)
    layout = np.array([(8 * number, 8) for number in range(many)], np.int64)
    sources = np.array([column.ctypes.data for column in values], np.int64)
    put_columns(sources, layout, records.ctypes.data, kind.itemsize, rows, stage_of(kind.itemsize))
    assert np.array_equal(records.view(np.int64).reshape(rows, many), values.T)
