"""Every row has one home, and all of its partners go there too: a count is whole in that bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slidejoin.spark.route.copies import with_homes
from tests.spark.test_routing import DOUBLES, INTEGERS, routed, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from slidejoin.sides import Side

NEAR = st.none() | st.integers(-40, 40)
CASES: dict[str, tuple[str, pa.DataType, Any, Callable[[Any, Any], bool]]] = {
    "both ways alike": ("abs(l.a - r.a) <= 2", pa.int64(), INTEGERS, lambda a, b: abs(a - b) <= 2),
    "one way": ("l.a BETWEEN r.a AND r.a + 5", pa.int64(), NEAR, lambda a, b: b <= a <= b + 5),
    "far apart": ("l.a - r.a BETWEEN 30 AND 33", pa.int64(), NEAR, lambda a, b: 30 <= a - b <= 33),
    "other units": ("l.a * 2 BETWEEN r.a AND r.a + 3", pa.int64(), NEAR, lambda a, b: b <= a * 2 <= b + 3),
    "the other sign": ("l.a + r.a BETWEEN -1 AND 1", pa.int64(), NEAR, lambda a, b: -1 <= a + b <= 1),
    "small integers": (
        "l.a BETWEEN r.a - 3 AND r.a + 3", pa.int8(), st.none() | st.integers(-128, 127), lambda a, b: abs(a - b) <= 3
    ),
    "doubles": (
        "l.a BETWEEN r.a - 0.1 AND r.a + 0.1", pa.float64(), DOUBLES, lambda a, b: b - 0.1 <= a <= b + 0.1
    ),
    "filtered": ("abs(l.a - r.a) <= 2 AND l.a > 0", pa.int64(), NEAR, lambda a, b: abs(a - b) <= 2 and a > 0),
}  # fmt: skip


def places_of(join: tuple[Any, Any, int], side: Side, rows: pa.Table) -> tuple[list[int], list[set[int]]]:
    """The home of each row, and all of its buckets."""
    plan, strategy, count = join
    copies, _, at_home = with_homes(plan, strategy, count, side, rows)
    homes, places = [-1] * rows.num_rows, [set[int]() for _ in range(rows.num_rows)]
    for copy, here in zip(copies.tolist(), at_home.tolist(), strict=True):
        row, bucket = divmod(copy, count)
        assert bucket not in places[row], "a row goes to a bucket once"
        places[row].add(bucket)
        if here:
            assert homes[row] == -1, "a row has one home"
            homes[row] = bucket
    assert -1 not in homes
    return homes, places


@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
@settings(max_examples=30)
def test_all_partners_of_a_row_are_at_its_home(case: str, data: st.DataObject) -> None:
    on, kind, values, holds = CASES[case]
    left, right = (data.draw(st.lists(values, max_size=10)) for _ in range(2))
    join = routed(on, kind, "cell", data.draw(st.integers(1, 17)))
    (left_homes, from_left), (right_homes, from_right) = (
        places_of(join, side, table(rows, kind)) for side, rows in (("left", left), ("right", right))
    )
    for a, home, places in zip(left, left_homes, from_left, strict=True):
        for b, others_home, others_places in zip(right, right_homes, from_right, strict=True):
            if a is not None and b is not None and holds(a, b):
                assert home in others_places, (a, b)
                assert others_home in places, (a, b)


def test_rows_of_one_quantity_are_copied_as_little_as_for_pairs() -> None:
    join = routed("abs(l.a - r.a) <= 50", pa.int64(), "cell", 8)
    rows = table(list(range(0, 400_000, 7)), pa.int64())
    for side in ("left", "right"):
        copies, _, _ = with_homes(*join, side, rows)
        assert copies.size < 1.26 * rows.num_rows
