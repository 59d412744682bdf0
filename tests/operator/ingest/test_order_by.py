"""Columns by which a push is ordered."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.ingest.order_by import sort_values


def ordered(left: pa.Array[Any], right: pa.Array[Any]) -> list[Any]:
    values = sort_values({"left": pa.table({"o": left}), "right": pa.table({"o": right})}, "o")
    assert values[0].dtype == values[1].dtype
    every = [*left.to_pylist(), *right.to_pylist()]
    return [every[i] for i in np.argsort(np.concatenate(values), kind="stable")]


BIG = 2**53 + 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([3, 1, 2], pa.int8()), pa.array([2, 0], pa.uint64())),
        (pa.array([2**64 - 1, 0], pa.uint64()), pa.array([2**63 - 1, -1])),
        (pa.array([BIG, BIG - 1]), pa.array([float(BIG), 0.5])),
        (pa.array([0.1, -0.0], pa.float32()), pa.array([0.0, 0.1])),
        (pa.array([1.5, -2.0], pa.float16()), pa.array([1], pa.int16())),
        (pa.array([Decimal("0.1"), Decimal("0.3")]), pa.array([0.1, 0.3])),
        (pa.array([Decimal("1.5")], pa.decimal256(40, 2)), pa.array([1, 2])),
        (pa.array([True, False]), pa.array([False, True])),
        (pa.array([5, 1], pa.duration("s")), pa.array([4_999_999, 5_000_001], pa.duration("us"))),
    ],
    ids=lambda a: str(a.type),
)
def test_mixtures_are_exact(left: pa.Array[Any], right: pa.Array[Any]) -> None:
    plain = ordered(left, right)
    assert plain == sorted([*left.to_pylist(), *right.to_pylist()])  # type: ignore[type-var]


def test_times_of_any_unit() -> None:
    left = pa.array([dt.date(2020, 1, 2), dt.date(2020, 1, 1)])
    right = pa.array([dt.datetime(2020, 1, 1, 12), dt.datetime(2020, 1, 2)], pa.timestamp("ns"))
    assert ordered(left, right) == [dt.date(2020, 1, 1), right[0].as_py(), dt.date(2020, 1, 2), right[1].as_py()]
    far, near = pa.array([2**60], pa.timestamp("s")), pa.array([2**62], pa.timestamp("ns"))
    values = sort_values({"left": pa.table({"o": far}), "right": pa.table({"o": near})}, "o")
    assert values[0][0] == 2**60 * 10**9 > values[1][0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.floats(allow_nan=False)))
def test_integers_and_floats(left: list[int], right: list[float]) -> None:
    values = sort_values({"left": pa.table({"o": pa.array(left, pa.int64())}), "right": pa.table({"o": right})}, "o")
    every: list[Any] = [*left, *right]
    assert np.argsort(np.concatenate(values), kind="stable").tolist() == sorted(
        range(len(every)), key=every.__getitem__
    )


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        ({"x": [1]}, {"o": [1]}, "order_by='o': the left batch has no such column; it has x."),
        ({"o": [1]}, {"oo": [1], "x": [1]}, "order_by='o': the right batch has no such column; it has oo, x."),
        ({"o": [1, None, None]}, {}, "order_by='o': 2 rows of the left batch are NULL in it and cannot be ordered"),
        ({}, {"o": [float("nan")]}, "order_by='o': 1 rows of the right batch are NaN in it and cannot be ordered"),
        ({"o": [[1]]}, {}, "that column of the left batch is list<item: int64>, which has no order; order by a number"),
        ({"o": ["x"]}, {"o": [b"x"]}, "order_by='o': string and binary have no common order; cast one of the columns"),
        ({"o": [1]}, {"o": [True]}, "order_by='o': number and boolean have no common order; cast one of the columns"),
        (
            {"o": pa.array([1], pa.timestamp("s"))},
            {"o": pa.array([1], pa.timestamp("s", "UTC"))},
            "time and time with zone have no common order",
        ),
    ],
    ids=[
        "no column left",
        "no column right",
        "NULL",
        "NaN",
        "list",
        "string and binary",
        "number and boolean",
        "naive and zoned",
    ],
)
def test_errors(left: dict[str, Any], right: dict[str, Any], text: str) -> None:
    with pytest.raises(sj.SchemaError) as error:
        sort_values({"left": pa.table(left), "right": pa.table(right)}, "o")
    assert text in str(error.value)


def test_sides_without_rows_need_no_column() -> None:
    values = sort_values({"left": pa.table({}), "right": pa.table({"o": [1.5]})}, "o")
    assert [v.tolist() for v in values] == [[], [1.5]]
    assert [v.size for v in sort_values({"left": pa.table({}), "right": pa.table({})}, "o")] == [0, 0]


def test_int64_columns_are_taken_as_they_are() -> None:
    left = pa.chunked_array([[1, 2], [], [3]])
    tables = {"left": pa.table({"o": left}), "right": pa.table({"o": pa.array([7, 8, 9])}).slice(1, 2)}
    values = sort_values(tables, "o")
    assert [v.tolist() for v in values] == [[1, 2, 3], [8, 9]]
    assert np.shares_memory(values[1], tables["right"].column("o").chunk(0).to_numpy())
    with pytest.raises(sj.SchemaError, match="1 rows of the right batch are NULL"):
        sort_values({"left": pa.table({"o": left}), "right": pa.table({"o": pa.array([7, None])})}, "o")
