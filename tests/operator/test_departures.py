"""With which arrival each row leaves its window: against the moment at which the law puts it out as unmatched."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.ingest.order_by import sort_values
from slidejoin.operator.slices import slices_of
from slidejoin.operator.window.departures import AgingRows, departures_of
from slidejoin.sides import SIDES
from tests.law.checks import examples
from tests.narrow import set_limits
from tests.strategies import Case, cases

if TYPE_CHECKING:
    from slidejoin.operator.window.departures import Departures
    from slidejoin.sides import Side
    from tests.oracle import Output, Step

NEVER = ("lit", False)
Leaving = list[list[tuple[str, int]]]


def leaving(steps: list[Step]) -> Leaving:
    """Which rows the law puts out with each arrival that counts, as side and id; no row has a match."""
    return [unmatched(step.rows) for step in steps if step.counted]


def unmatched(rows: list[Output]) -> list[tuple[str, int]]:
    """Output rows that have one side, as that side and the id."""
    return [("left", left["id"]) if left else ("right", right["id"]) for left, right in rows]


class Driver:
    """Feeds departures with the slices of pushes, as the operator does."""

    def __init__(self, case: Case, sides: tuple[Side, ...]) -> None:
        self.case, self.join = case, case.join()
        operator = self.join._state.operator
        assert operator is not None
        self.operator = operator
        self.departures: Departures = departures_of(self.operator.plan, sides)  # type: ignore[assignment]
        self.ids: dict[str, list[int]] = {"left": [], "right": []}

    def push(self, number: int, most: int) -> Leaving:
        """What leaves with each arrival of a push that counts, in slices of so many rows."""
        case, push = self.case, self.case.pushes[number]
        right = case.left if case.self_join else case.right
        tables: dict[Side, pa.Table] = {
            "left": case.left.slice(0, 0) if push.left is None else push.left,
            "right": right.slice(0, 0) if push.right is None or case.self_join else push.right,
        }
        by = None if push.order_by is None else sort_values(tables, push.order_by)
        made: Leaving = []
        for part in slices_of(self.operator.plan, self.operator.prepare(tables, by), most):
            first = {side: len(self.ids[side]) for side in SIDES}
            for side in SIDES:
                source = part.tables["left" if case.self_join else side]
                self.ids[side] += source.column("id").to_pylist()
            found = self.departures.arrive(part.arrivals, part.times, first)
            known: Leaving = [[] for _ in range(part.rows)]
            assert found.ranks.tolist() == sorted(found.ranks.tolist())
            for rank, by_left, ordinal in zip(*(one.tolist() for one in found), strict=True):
                side = "left" if by_left else "right"
                known[rank].append((side, self.ids[side][ordinal]))
            made += known
        return made

    def rest(self) -> list[tuple[str, int]]:
        """What has not left."""
        return [
            (side, self.ids[side][ordinal])
            for side in self.departures.sides
            for ordinal in self.departures.remaining(side, len(self.ids[side])).tolist()
        ]


def assert_departures(case: Case, sides: tuple[Side, ...], most: int) -> None:
    how = "full" if len(sides) > 1 else sides[0]
    case = replace(case, predicate=NEVER, as_text=True)
    driver, oracle = Driver(case, sides), case.oracle(how)
    for number, steps in enumerate(case.steps(oracle)):
        assert driver.push(number, most) == leaving(steps)
    assert driver.rest() == unmatched(oracle.finish())


@pytest.mark.parametrize("sides", [("left",), ("right",), ("left", "right")], ids=str)
@examples(20)
@given(case=cases(most=24), most=st.sampled_from([1, 3, 1 << 18]), collected=st.sampled_from([1, 3, 1 << 12]))
def test_against_the_oracle(sides: tuple[Side, ...], case: Case, most: int, collected: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, COLLECTED_ROWS=collected, SMALLEST_SLICE=1)
        assert_departures(case, sides, most)


@examples(20)
@given(case=cases(most=16, self_join=True), most=st.sampled_from([1, 3, 1 << 18]))
def test_of_a_self_join(case: Case, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, SMALLEST_SLICE=1)
        assert_departures(case, ("left", "right"), most)


@examples(20)
@given(case=cases(most=16, window="time"), data=st.data())
def test_loaded_in_the_middle(case: Case, data: st.DataObject) -> None:
    """What has left follows from the clock: departures that are loaded go on as those that saw all rows."""
    case = replace(case, predicate=NEVER, as_text=True)
    driver, oracle = Driver(case, SIDES), case.oracle("full")
    for number, steps in enumerate(case.steps(oracle)):
        push = case.pushes[number]
        if data.draw(st.booleans()):
            driver.departures = departures_of(driver.operator.plan, SIDES)  # type: ignore[assignment]
            driver.departures.load(driver.operator.windows, driver.operator.clock)
        again = Driver(case, SIDES)  # takes the rows without moving the clock of the join
        again.ids, again.departures = driver.ids, driver.departures
        again.operator.clock = replace(driver.operator.clock)
        assert again.push(number, 1 << 18) == leaving(steps)
        driver.join.push(**push.arguments(self_join=case.self_join))


@given(
    parts=st.lists(st.lists(st.integers(-3, 6), max_size=9), max_size=6),
    collected=st.sampled_from([1, 3, 100]),
    data=st.data(),
)
def test_rows_leave_once_and_all_of_them(parts: list[list[int]], collected: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, COLLECTED_ROWS=collected)
        waiting: dict[int, int] = {}
        rows, first = AgingRows(), 0
        for part in parts:
            rows.add(first, np.array(part, np.int64))
            waiting |= dict(enumerate(part, first))
            first += len(part) + data.draw(st.integers(0, 1))  # some rows of a restored window have left
            limit = data.draw(st.integers(-4, 7))
            gone = dict(zip(*(one.tolist() for one in rows.take_below(limit)), strict=True))
            assert gone == {ordinal: time for ordinal, time in waiting.items() if time < limit}
            waiting = {ordinal: time for ordinal, time in waiting.items() if time >= limit}
            assert rows.ordinals().tolist() == sorted(waiting)
            assert rows.rows == len(waiting)
            assert rows.nbytes == 8 * collected + 16 * len(waiting)


def test_a_count_window_by_hand() -> None:
    """Size 2, blocks of 2: rows 0 and 1 leave with row 3, rows 2 and 3 with row 5, all in one push."""
    rows = pa.table({"id": range(7), "o": range(0, 14, 2)})
    join = sj.StreamJoin(on="l.id = r.id", window=sj.CountWindow(2, slide=2), schemas=(rows.schema, rows.schema))
    operator = join._state.operator
    assert operator is not None
    departures = departures_of(operator.plan, ("left",))
    assert departures is not None
    push = operator.prepare({"left": rows, "right": rows.slice(0, 1)})
    found = departures.arrive(push.arrivals, push.times, {"left": 0, "right": 0})
    assert found.ranks.tolist() == [3, 3, 5, 5]
    assert found.ordinals.tolist() == [0, 1, 2, 3]
    assert found.by_left.all()
    assert departures.remaining("left", 7).tolist() == [4, 5, 6]
