"""``output="positions"``: the pairs of the law as ordinals of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given

import slidejoin as sj
from tests.law.checks import ORDERS, assert_groups, assert_stats, examples, line
from tests.strategies import Case, cases

if TYPE_CHECKING:
    from tests.law.checks import Line
    from tests.oracle import Step

SCHEMA = pa.schema([("left", pa.int64()), ("right", pa.int64())])


class Ordinals:
    """Numbers the rows that count, in arrival order; a row is known by its id."""

    def __init__(self, case: Case) -> None:
        self.self_join = case.self_join
        self.numbers: dict[tuple[str, int], int] = {}
        self.next = {"left": 0, "right": 0}

    def lines(self, step: Step) -> list[Line]:
        if step.counted:
            self.numbers[step.side, step.row["id"]] = self.next[step.side]
            self.next[step.side] += 1
        right = "left" if self.self_join else "right"
        return [line([self.numbers["left", a["id"]], self.numbers[right, b["id"]]]) for a, b in step.rows]


def assert_positions(case: Case, order: str, **options: object) -> None:
    """Assert that every push gives the ordinals of the law's pairs."""
    join, oracle, ordinals = case.join(order=order, output="positions", **options), case.oracle(), Ordinals(case)
    for table, steps in zip(case.results(join), case.steps(oracle), strict=True):
        assert table.schema.equals(SCHEMA)
        got = [line(pair) for pair in zip(*table.to_pydict().values(), strict=True)]
        assert_groups(got, [ordinals.lines(step) for step in steps], order)
    assert join.finish().schema.equals(SCHEMA)
    assert_stats(join, oracle)


@pytest.mark.parametrize("order", ORDERS)
@examples(25)
@given(case=cases(most=20))
def test_positions_are_ordinals(order: str, case: Case) -> None:
    assert_positions(case, order)


@examples(15)
@given(case=cases(self_join=True))
def test_positions_of_a_self_join(case: Case) -> None:
    assert_positions(case, "strict")


def test_columns_cannot_be_chosen() -> None:
    with pytest.raises(ValueError, match=r"output='positions' has none but left and right"):
        sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(3), output="positions", select=["l.a"])


def test_rows_that_wait_for_the_other_side_give_an_empty_table() -> None:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(3), output="positions")
    assert join.push(left={"a": [7, 8]}).schema.equals(SCHEMA)
    assert join.push(right={"a": [8]}).to_pydict() == {"left": [1], "right": [0]}
