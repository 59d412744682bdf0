"""``output="count"``: one line for each arrival, in arrival order, with the number of pairs that it produced."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

import slidejoin as sj
from tests.law.checks import ORDERS, assert_counts, examples
from tests.strategies import Case, cases


@examples(40)
@given(case=cases(window="count"))
def test_count_window(case: Case) -> None:
    assert_counts(case)


@examples(40)
@given(case=cases(window="time"))
def test_time_window(case: Case) -> None:
    assert_counts(case)


@examples(40)
@given(case=cases(self_join=True))
def test_self_join_adds_the_roles_up(case: Case) -> None:
    assert_counts(case)


@pytest.mark.parametrize("order", ORDERS)
@examples(40)
@given(case=cases(most=25))
def test_arrival_order_whatever_the_order(order: str, case: Case) -> None:
    assert_counts(case, order=order)


def test_columns_by_hand() -> None:
    left = pa.table({"id": [1, 2], "x": [5, 6]})
    right = pa.table({"id": [7, 8], "y": [5, 5]})
    join = sj.StreamJoin(on="l.x = r.y", window=sj.CountWindow(9), output="count", schemas=(left.schema, right.schema))
    assert join.push(left=left, right=right).to_pydict() == {
        "side": ["left", "left", "right", "right"],
        "id": [1, 2, None, None],
        "x": [5, 6, None, None],
        "id_right": [None, None, 7, 8],
        "y": [None, None, 5, 5],
        "match_count": [0, 0, 1, 1],
    }
    assert join.stats.pairs == 2


def test_filtered_rows_are_counted_with_zero() -> None:
    rows = pa.table({"id": [1, 2, None]})
    join = sj.StreamJoin(
        on="l.id = r.id AND l.id > 1", window=sj.CountWindow(9), output="count", schemas=(rows.schema, rows.schema)
    )
    assert join.push(left=rows, right=rows).column("match_count").to_pylist() == [0, 0, 0, 0, 1, 0]


def test_late_rows_and_rows_without_time_have_no_line() -> None:
    # watermark 10 once both sides have seen 10: row 9 is late, the one without time is not taken
    rows = pa.table({"id": [1, 2, 3], "ts": [10, 9, None]})
    join = sj.StreamJoin(
        on="l.id <> r.id", window=sj.TimeWindow(5, on="ts"), output="count", schemas=(rows.schema, rows.schema)
    )
    first = join.push(left=rows.slice(0, 1), right=rows.slice(0, 1))
    second = join.push(left=rows.slice(1), right=rows.slice(1))
    assert first.column("match_count").to_pylist() == [0, 0]
    assert second.num_rows == 0
    assert (join.stats.late_rows, join.stats.null_time_rows) == (2, 2)


def test_huge_counts_are_never_enumerated() -> None:
    # 2 * 10**4 by 10**4 rows, all of which match: 2 * 10**8 pairs would not pass within any patience
    rows = 10_000
    table = pa.table({"x": pa.array([1] * rows, pa.int8())})
    join = sj.StreamJoin(
        on="l.x <= r.x", window=sj.CountWindow(2 * rows), output="count", schemas=(table.schema, table.schema)
    )
    join.push(left=table)
    join.push(left=table)
    assert set(join.push(right=table).column("match_count").to_pylist()) == {2 * rows}
    assert join.stats.pairs == 2 * rows * rows
