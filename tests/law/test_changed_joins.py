"""A restored join with other output columns, another order, other lengths of its window: what is exact, and when."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from tests.law.checks import ORDERS, assert_groups, examples, lines, pair_lines, same_tables
from tests.oracle import CountScope, TimeScope
from tests.strategies import Case, WindowCase, cases, count_windows, time_windows

if TYPE_CHECKING:
    from tests.oracle import Oracle

SIDES = ("left", "right")


def forget(oracle: Oracle, scope: CountScope | TimeScope, *, self_join: bool) -> None:
    """Take away the rows that have left a window, as the law says: of a self-join those of which both roles have."""
    gone = {}
    for side in SIDES:
        kept = oracle.kept[side]
        if isinstance(scope, CountScope):
            first = scope.first_visible(side, len(kept))
            gone[side] = {one.ordinal for one in kept if one.ordinal < first}
        else:
            mark, length = oracle.watermark(), scope.left if side == "left" else scope.right
            gone[side] = {one.ordinal for one in kept if mark is not None and mark > one.time + length}
    if self_join:
        gone = dict.fromkeys(SIDES, gone["left"] & gone["right"])
    for side in SIDES:
        for one in oracle.kept[side]:
            if one.ordinal in gone[side]:
                one.row = {}  # its ordinal stays
    visible = oracle._visible
    setattr(oracle, "_visible", lambda side: [one for one in visible(side) if one.row])  # noqa: B010 - of this one


def assert_continues(case: Case, window: WindowCase, at: int, order: str, *, forgetful: bool) -> None:
    """Assert that a join restored with another window gives the pairs of a law that had it from the start.

    With `forgetful` rows that had left the former window at that moment are gone.
    """
    old = case.join(order=order)
    case.results(old, case.pushes[:at])
    new = sj.StreamJoin.restore(old.snapshot(), window=window.window)
    assert new._state.config.window == window.window
    # What is late does not depend on lengths.
    oracle = replace(case, window=window).oracle()
    replace(case, pushes=case.pushes[:at]).steps(oracle)
    if forgetful:
        forget(oracle, case.window.scope, self_join=case.self_join)
    rest = case.pushes[at:]
    for table, steps in zip(case.results(new, rest), replace(case, pushes=rest).steps(oracle), strict=True):
        assert_groups(lines(table), pair_lines(steps), order)


def shrunk(data: st.DataObject, scope: CountScope | TimeScope) -> WindowCase:
    """A window that shows no more than another one."""
    if isinstance(scope, CountScope):
        left, right = (data.draw(st.integers(1, size)) for size in (scope.left, scope.right))
        return WindowCase(sj.CountWindow(left=left, right=right), CountScope(left, right))
    left, right = (data.draw(st.integers(0, size)) for size in (scope.left, scope.right))
    made = TimeScope(left, right, scope.left_on, scope.right_on, scope.lateness)
    window = sj.TimeWindow(left=left, right=right, on="ts", lateness=scope.lateness)
    return WindowCase(window, made)


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize("kind", ["count", "time"])
@examples(40)
@given(data=st.data())
def test_a_shorter_window_is_exact_at_once(kind: str, self_join: bool, data: st.DataObject) -> None:
    case = data.draw(cases(family="int", self_join=self_join, most=16))
    case.window = data.draw(count_windows(8) if kind == "count" else time_windows("int"))
    if kind == "time":
        case = with_integer_times(case)
    at, order = data.draw(st.integers(0, len(case.pushes))), data.draw(st.sampled_from(ORDERS))
    assert_continues(case, shrunk(data, case.window.scope), at, order, forgetful=False)


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize("kind", ["count", "time"])
@examples(40)
@given(data=st.data())
def test_any_window_is_exact_but_for_rows_that_had_left(kind: str, self_join: bool, data: st.DataObject) -> None:
    case = data.draw(cases(family="int", self_join=self_join, most=16))
    case.window = data.draw(count_windows(5) if kind == "count" else time_windows("int"))
    if kind == "time":
        case = with_integer_times(case)
    window = data.draw(count_windows(12) if kind == "count" else time_windows("int"))
    if kind == "time":
        scope = replace(window.scope, lateness=case.window.scope.lateness)
        shown = sj.TimeWindow(left=scope.left, right=scope.right, on="ts", lateness=scope.lateness)
        window = WindowCase(shown, scope)
    at, order = data.draw(st.integers(0, len(case.pushes))), data.draw(st.sampled_from(ORDERS))
    assert_continues(case, window, at, order, forgetful=True)


def with_integer_times(case: Case) -> Case:
    """The case with event times that are numbers, so that lengths are."""

    def numbered(table: pa.Table | None) -> pa.Table | None:
        if table is None or pa.types.is_integer(table.schema.field("ts").type):
            return table
        plain = pa.array([one % 7 for one in range(table.num_rows)], pa.int64())
        return table.set_column(table.schema.get_field_index("ts"), "ts", plain)

    pushes = [replace(push, left=numbered(push.left), right=numbered(push.right)) for push in case.pushes]
    return replace(case, left=numbered(case.left), right=numbered(case.right), pushes=pushes)


@examples(40)
@given(case=cases(most=14), data=st.data())
def test_another_selection_order_suffix_and_aliases(case: Case, data: st.DataObject) -> None:
    """The state holds all columns, so any selection continues exactly, as strings of another alias too."""
    at = data.draw(st.integers(0, len(case.pushes)))
    columns = [f"{alias}.{name}" for alias in "xy" for name in case.left.column_names]
    select = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(columns), unique=True, max_size=4)))
    changes: dict[str, Any] = {"select": select, "order": "strict", "suffix": " of y", "aliases": ("x", "y")}
    old = case.join(order=data.draw(st.sampled_from(ORDERS)))
    case.results(old, case.pushes[:at])
    new = sj.StreamJoin.restore(old.snapshot(), **changes)
    whole = case.join(order="strict", suffix=" of y")
    case.results(whole, case.pushes[:at])
    rest = case.pushes[at:]
    names = [
        name[2:] if name[0] == "x" or name[2:] not in case.left.column_names else f"{name[2:]} of y"
        for name in select or []
    ]
    for one, other in zip(case.results(new, rest), case.results(whole, rest), strict=True):
        assert same_tables(one, other if select is None else other.select(names))


SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("s", pa.string()), ("ts", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table([ids, [1] * len(ids), [f"row {one}" for one in ids], ids], schema=SCHEMA)


def joined(window: sj.CountWindow | sj.TimeWindow, **options: Any) -> sj.StreamJoin:
    return sj.StreamJoin(on="l.k = r.k", window=window, schemas=(SCHEMA, SCHEMA), order="strict", **options)


def test_a_selection_among_the_columns_that_are_held() -> None:
    join = joined(sj.CountWindow(9), select=["l.id", "r.s"])
    join.push(left=rows(1, 2))
    state = join.snapshot()
    again = sj.StreamJoin.restore(state, select=["r.s", "r.k", "l.k"])
    assert again.push(right=rows(5)).to_pydict() == {"s_right": ["row 5"] * 2, "k_right": [1, 1], "k": [1, 1]}
    assert repr(again).count("select=['r.s', 'r.k', 'l.k']") == 1
    # A second state holds what the second selection needs.
    with pytest.raises(sj.StateError, match=r"select= needs l\.id, which the snapshot does not hold: of the left rows"):
        sj.StreamJoin.restore(again.snapshot(), select=["l.id"])
    with pytest.raises(sj.StateError, match=r"select= needs l\.s, l\.ts, .* it has l\.id, l\.k, the columns that"):
        sj.StreamJoin.restore(state, select=["l.s", "l.ts"])
    with pytest.raises(sj.PredicateError, match=r"Did you mean 'l\.ts'"):
        sj.StreamJoin.restore(state, select=["l.tss"])
    with pytest.raises(sj.PredicateError, match="output columns 'k' would appear twice"):
        sj.StreamJoin.restore(state, select=["l.k", "r.k"], suffix="")


def test_aliases_rename_a_selection() -> None:
    join = joined(sj.CountWindow(9), select=["l.id", "r.s"])
    join.push(left=rows(1))
    again = sj.StreamJoin.restore(join.snapshot(), aliases=("bids", "asks"))
    assert again.push(right=rows(5)).to_pydict() == {"id": [1], "s_right": ["row 5"]}
    assert "bids.k = asks.k" in again.explain()


# rows 1 to 8 have come, of which a window of three shows 6, 7, 8; then 9, 10, 11, 12 come
#
# window of 5 from the start        4..8    5..9     6..10    7..11    8..12
# restored with it                  6..8    6..9     6..10    7..11    8..12      the same from the second row on
def test_a_longer_count_window_fills_up(caplog: pytest.LogCaptureFixture) -> None:
    join, whole = joined(sj.CountWindow(3)), joined(sj.CountWindow(5))
    for one in (join, whole):
        one.push(left=rows(*range(1, 9)))
    with caplog.at_level(logging.WARNING, logger="slidejoin"):
        again = sj.StreamJoin.restore(join.snapshot(), window=sj.CountWindow(5))
    (message,) = caplog.messages
    assert message.startswith("CountWindow(5) shows more left rows than CountWindow(3), which the snapshot had")
    assert message.endswith("pairs with these are missing until 2 more left rows have arrived")
    for number in range(9, 13):
        found, law = (it.push(right=rows(0)).column("id").to_pylist() for it in (again, whole))
        assert found == [at for at in law if at >= 6]
        assert (found == law) == (number >= 11)
        for it in (again, whole):
            it.push(left=rows(number))


def test_a_longer_time_window_fills_up(caplog: pytest.LogCaptureFixture) -> None:
    join, whole = joined(sj.TimeWindow(3, on="ts")), joined(sj.TimeWindow(5, on="ts"))
    for one in (join, whole):
        one.push(left=rows(*range(1, 9)), right=rows(8))
    with caplog.at_level(logging.WARNING, logger="slidejoin"):
        again = sj.StreamJoin.restore(join.snapshot(), window=sj.TimeWindow(5, on="ts"))
    assert "until the watermark has advanced by 2 ticks of the event times" in caplog.text
    for number in range(8, 13):
        found, law = (it.push(right=rows(number)).column("id").to_pylist() for it in (again, whole))
        assert found == [at for at in law if at >= 5]
        # At 8 and 9 rows 3 and 4 are missing, which had left.
        assert (found == law) == (number >= 10)
        for it in (again, whole):
            it.push(left=rows(number + 1))


def test_nothing_is_logged_where_nothing_had_left(caplog: pytest.LogCaptureFixture) -> None:
    for old, new in (
        (sj.CountWindow(9), sj.CountWindow(20)),
        (sj.CountWindow(3), sj.CountWindow(2)),
        (sj.TimeWindow(100, on="ts"), sj.TimeWindow(200, on="ts")),
        (sj.TimeWindow(3, on="ts"), sj.TimeWindow(2, on="ts")),
    ):
        join = joined(old)
        join.push(left=rows(*range(1, 9)), right=rows(8))
        sj.StreamJoin.restore(join.snapshot(), window=new)
    assert caplog.messages == []


def test_rows_that_wait_for_the_other_side() -> None:
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(3), order="strict")
    for number in range(1, 9):
        join.push(left=rows(number))
    state = join.snapshot()
    again = sj.StreamJoin.restore(state, window=sj.CountWindow(2), select=["r.id", "l.id"])
    assert again.push(right=rows(5)).column("id").to_pylist() == [7, 8]
    with pytest.raises(sj.PredicateError, match="the left side has no column 'idd'"):
        sj.StreamJoin.restore(state, select=["l.idd"])


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (sj.CountWindow(3), sj.TimeWindow(3, on="ts"), r"CountWindow\(3\), a window counted in rows; .* is of time"),
        (sj.TimeWindow(3, on="ts"), sj.TimeWindow(3, on="id"), "left_on=ts, the new one has left_on=id"),
        (sj.TimeWindow(3, on="ts"), sj.TimeWindow(3, on="ts", lateness=1), "lateness=0, the new one has lateness=1"),
    ],
    ids=str,
)
def test_windows_that_cannot_continue(old: Any, new: Any, text: str) -> None:
    join = joined(old)
    join.push(left=rows(1), right=rows(1))
    with pytest.raises(sj.StateError, match=f"{text}.*create a new StreamJoin, or restore without it"):
        sj.StreamJoin.restore(join.snapshot(), window=new)


def test_a_join_that_is_not_inner_keeps_its_window_and_may_change_the_rest() -> None:
    join = joined(sj.CountWindow(2), how="left")
    join.push(left=rows(1, 2))
    state = join.snapshot()
    text = r"how='left': the snapshot records which rows matched within CountWindow\(2\), .* Create a new Str"
    with pytest.raises(sj.StateError, match=text):
        sj.StreamJoin.restore(state, window=sj.CountWindow(1))
    again = sj.StreamJoin.restore(state, select=["r.id", "l.id"], suffix=" of r")
    assert again.push(left=rows(3)).to_pydict() == {"id of r": [None], "id": [1]}


def test_arguments_are_checked_as_those_of_a_new_join() -> None:
    state = joined(sj.CountWindow(3)).snapshot()
    with pytest.raises(sj.ArgumentError, match="order must be one of"):
        sj.StreamJoin.restore(state, order="sorted")
    with pytest.raises(sj.ArgumentError, match="window must be a CountWindow or a TimeWindow, got 5"):
        sj.StreamJoin.restore(state, window=5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'how'"):
        sj.StreamJoin.restore(state, how="left")
    positions = joined(sj.CountWindow(3), output="positions").snapshot()
    with pytest.raises(sj.ArgumentError, match=r"select=.* chooses columns, but output='positions'"):
        sj.StreamJoin.restore(positions, select=["l.id"])
