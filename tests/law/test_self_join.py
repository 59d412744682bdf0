"""A self-join: rows are given once and act as both sides; never a row with itself."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

import slidejoin as sj
from tests.law.checks import ORDERS, assert_pairs, examples
from tests.strategies import Case, cases
from tests.tables import ids


@pytest.mark.parametrize("order", ORDERS)
@examples(40)
@given(case=cases(self_join=True, most=16))
def test_against_the_oracle(order: str, case: Case) -> None:
    assert_pairs(case, order)


def self_join(on: str, window: sj.CountWindow | sj.TimeWindow, rows: pa.Table, **options: str) -> sj.StreamJoin:
    return sj.StreamJoin(
        on=on, window=window, self_join=True, order="strict", schemas=(rows.schema, rows.schema), **options
    )


# arrival   0   1   2   3
# a         5   5   7   6         window of the last 2
#
# 1: as left 5 <= 5 with 0, as right 5 <= 5 with 0    3: as left 6 <= 7 with 2, as right 5 <= 6 with 1
def test_first_as_left_then_as_right() -> None:
    rows = pa.table({"id": range(4), "a": [5, 5, 7, 6]})
    join = self_join("l.a <= r.a", sj.CountWindow(2), rows)
    assert ids(join.push(left=rows)) == [(1, 0), (0, 1), (0, 2), (1, 2), (3, 2), (1, 3)]
    assert join.stats.pairs == 6


def test_a_row_never_meets_itself() -> None:
    rows = pa.table({"id": range(3), "a": [1, 1, 1]})
    assert ids(self_join("l.id = r.id", sj.CountWindow(9), rows).push(left=rows)) == []


def test_single_side_filters_apply_by_role() -> None:
    rows = pa.table({"id": range(4), "a": [0, 1, 0, 1]})
    join = self_join("l.a = 0 AND r.a = 1", sj.CountWindow(9), rows)
    assert ids(join.push(left=rows)) == [(0, 1), (2, 1), (0, 3), (2, 3)]


def test_sizes_by_role() -> None:
    # as left each row sees the last right row (1), as right the last two left rows
    rows = pa.table({"id": range(4)})
    join = self_join("l.id >= 0", sj.CountWindow(left=2, right=1), rows)
    assert ids(join.push(left=rows)) == [(1, 0), (0, 1), (2, 1), (0, 2), (1, 2), (3, 2), (1, 3), (2, 3)]


def test_the_watermark_of_the_only_stream() -> None:
    rows = pa.table({"id": range(4), "ts": [5, 9, 4, 8]})
    join = self_join("l.ts < r.ts", sj.TimeWindow(4, on="ts", lateness=1), rows)
    # watermark 8 after row 1: row 2 is late, row 3 is in time and 8 - 5 <= 4
    assert ids(join.push(left=rows)) == [(0, 1), (3, 1), (0, 3)]
    assert join.stats.late_rows == 1


def test_columns_carry_the_suffix() -> None:
    rows = pa.table({"id": [1, 2], "a": [1, 1]})
    join = self_join("dc1.a = dc2.a", sj.CountWindow(2), rows, aliases=("dc1", "dc2"))
    assert join.push(left=rows).to_pydict() == {"id": [2, 1], "a": [1, 1], "id_right": [1, 2], "a_right": [1, 1]}


def test_right_rows_are_refused() -> None:
    rows = pa.table({"id": [1]})
    join = self_join("l.id < r.id", sj.CountWindow(2), rows)
    with pytest.raises((ValueError, TypeError), match="self"):
        join.push(right=rows)
