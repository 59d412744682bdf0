"""However the same arrivals are cut into pushes, the output is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.law.checks import ORDERS, assert_groups, count_lines, examples, lines, pair_lines
from tests.strategies import Case, Push, cases

if TYPE_CHECKING:
    from tests.law.checks import Line

Arrivals = list[tuple[str, int]]  # (side, row of that side's table)


@st.composite
def arrivals(draw: st.DrawFn, case: Case) -> Arrivals:
    """An interleaving of the rows of both sides (of the left alone in a self-join)."""
    right = 0 if case.self_join else case.right.num_rows
    sides = draw(st.permutations(["left"] * case.left.num_rows + ["right"] * right))
    seen = {"left": 0, "right": 0}
    made = []
    for side in sides:
        made.append((side, seen[side]))
        seen[side] += 1
    return made


def slices(case: Case, part: Arrivals) -> Push:
    """A part of the arrivals in which no right row comes before a left one, as a push."""
    pieces = {}
    for side, table in (("left", case.left), ("right", case.right)):
        at = [row for arrived, row in part if arrived == side]
        pieces[side] = table.slice(at[0], len(at)) if at else None
    return Push(pieces["left"], pieces["right"])


@st.composite
def cut(draw: st.DrawFn, case: Case, order: Arrivals) -> list[Push]:
    """The arrivals as pushes: cut wherever a left row follows a right one, and anywhere else by choice."""
    parts: list[Arrivals] = []
    for i, arrival in enumerate(order):
        must = i == 0 or (order[i - 1][0] == "right" and arrival[0] == "left")
        if must or draw(st.integers(0, 3)) == 0:
            parts.append([])
        parts[-1].append(arrival)
    return [slices(case, part) for part in parts]


def ordered(case: Case, order: Arrivals) -> tuple[Case, Push]:
    """The same arrivals as a single push, put in order by a column."""
    places: dict[str, list[int]] = {"left": [], "right": []}
    for place, (side, _) in enumerate(order):
        places[side].append(place)
    sides = [
        table.append_column("seq", pa.array(places[side], pa.int32()))
        for side, table in (("left", case.left), ("right", case.right))
    ]
    made = Case(case.predicate, case.window, sides[0], sides[1], as_text=case.as_text)
    return made, Push(sides[0], sides[1], "seq")


def output(case: Case, pushes: list[Push], **options: str) -> list[Line]:
    """The whole output of a join."""
    return [one for table in case.results(case.join(**options), pushes) for one in lines(table)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("self_join", [False, True])
@examples(40)
@given(data=st.data())
def test_two_cuts_give_the_same(order: str, self_join: bool, data: st.DataObject) -> None:
    case = data.draw(cases(self_join=self_join, most=14))
    sequence = data.draw(arrivals(case))
    one, two = data.draw(cut(case, sequence)), data.draw(cut(case, sequence))
    case.pushes = [slices(case, [arrival]) for arrival in sequence]
    groups = [group for steps in case.steps(case.oracle()) for group in pair_lines(steps)]
    for pushes in (one, two):
        assert_groups(output(case, pushes, order=order), groups, order)
    if order == "strict":
        assert output(case, one, order=order) == output(case, two, order=order)


@examples(40)
@given(data=st.data())
def test_counts_do_not_depend_on_the_cut(data: st.DataObject) -> None:
    case = data.draw(cases(most=14))
    sequence = data.draw(arrivals(case))
    one = data.draw(cut(case, sequence))
    case.pushes = [slices(case, [arrival]) for arrival in sequence]
    expected = [one for steps in case.steps(case.oracle()) for one in count_lines(case, steps)]
    assert output(case, one, output="count") == expected


@examples(40)
@given(data=st.data())
def test_one_ordered_push_is_the_same_as_row_by_row(data: st.DataObject) -> None:
    plain = data.draw(cases(most=14))
    sequence = data.draw(arrivals(plain))
    case, push = ordered(plain, sequence)
    single = [slices(case, [arrival]) for arrival in sequence]
    assert output(case, [push], order="strict") == output(case, single, order="strict")


@examples(40)
@given(case=cases(most=14), data=st.data())
def test_chunks_of_a_batch_do_not_matter(case: Case, data: st.DataObject) -> None:
    def in_chunks(table: pa.Table | None) -> pa.Table | None:
        if table is None:
            return None
        at = data.draw(st.integers(0, table.num_rows))
        return pa.concat_tables([table.slice(0, at), table.slice(at, 0), table.slice(at)])

    pushes = [Push(in_chunks(push.left), in_chunks(push.right), push.order_by) for push in case.pushes]
    assert output(case, pushes, order="strict") == output(case, case.pushes, order="strict")
