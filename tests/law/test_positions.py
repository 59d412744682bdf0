"""``output="positions"``: the pairs of the law as ordinals of their rows."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from tests.law.checks import ORDERS, assert_groups, assert_stats, count_lines, examples, line, lines, pair_lines
from tests.narrow import A, B, set_limits
from tests.oracle import TimeScope
from tests.strategies import Case, Push, WindowCase, cases, cuts

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
    with pytest.raises(ValueError, match=r"output='positions' has only its own two, left and right"):
        sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(3), output="positions", select=["l.a"])


def test_rows_that_wait_for_the_other_side_give_an_empty_table() -> None:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(3), output="positions")
    assert join.push(left={"a": [7, 8]}).schema.equals(SCHEMA)
    assert join.push(right={"a": [8]}).to_pydict() == {"left": [1], "right": [0]}


# -- restart of a window from which rows in the middle have left -------------------------------------------------------

ALGORITHMS = ["band_cells", "bi_sort"]
SMALL = {"SMALLEST_LIMIT": 4, "LOADED_AT_ONCE": 3, "SMALLEST_SLICE": 5, "FIRST_ROWS": 2}


@st.composite
def drifting(draw: st.DrawFn, *, self_join: bool = False) -> Case:
    """A time window over streams whose event times go on, but for a few rows far ahead, which stay."""
    rows = draw(st.integers(20, 60))
    sides = []
    for _ in ("left", "right"):
        steps = draw(st.lists(st.sampled_from([0, 0, 1, 1, 2, -1]), min_size=rows, max_size=rows))
        far = draw(st.sets(st.integers(0, rows - 1), max_size=3))
        times = [time + 1000 * (i in far) for i, time in enumerate(accumulate(steps))]
        keys = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
        names = [f"{key}" * key for key in keys]
        sides.append(pa.table({"id": range(rows), "a": keys, "s": names, "ts": times}))
    left, right = sides[0], sides[0 if self_join else 1]
    lengths = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    lateness = 1000 if self_join else draw(st.sampled_from([0, 2]))
    window = sj.TimeWindow(left=lengths[0], right=lengths[1], left_on="ts", right_on="ts", lateness=lateness)
    case = Case(
        draw(st.sampled_from([("=", A, B), ("between", A, ("-", B, ("lit", 1)), B)])),
        WindowCase(window, TimeScope(*lengths, "ts", "ts", lateness)),
        left,
        right,
        self_join=self_join,
    )
    parts = draw(st.integers(4, 12))
    at = [draw(cuts(rows, parts)) for _ in ("left", "right")]
    for i in range(parts):
        pieces = (table.slice(cut[i], cut[i + 1] - cut[i]) for table, cut in zip((left, right), at, strict=True))
        case.pushes.append(Push(*pieces, draw(st.sampled_from([None, "ts"]))))
    return case


def assert_restarts(case: Case, output: str, data: st.DataObject) -> None:
    """Assert that a join restored now and then from a snapshot obeys the law, ordinals included."""
    join = case.join(order="strict", output=output, algorithm=data.draw(st.sampled_from(ALGORITHMS)))
    oracle, ordinals = case.oracle(), Ordinals(case)
    for push, steps in zip(case.pushes, case.steps(oracle), strict=True):
        if data.draw(st.booleans()):
            join = sj.StreamJoin.restore(join.snapshot(), algorithm=data.draw(st.sampled_from(ALGORITHMS)))
        got = lines(join.push(**push.arguments(self_join=case.self_join)))
        numbered = [ordinals.lines(step) for step in steps]
        if output == "count":
            assert got == count_lines(case, steps)
        else:
            groups = numbered if output == "positions" else pair_lines(steps)
            assert got == [one for group in groups for one in group]
    assert_stats(join, oracle)


@pytest.mark.parametrize("output", ["positions", "pairs", "count"])
@examples(40)
@given(case=drifting(), data=st.data())
def test_restarts(output: str, case: Case, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **SMALL)
        assert_restarts(case, output, data)


@pytest.mark.parametrize("output", ["positions", "pairs"])
@examples(25)
@given(case=drifting(self_join=True), data=st.data())
def test_restarts_of_a_self_join(output: str, case: Case, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **SMALL)
        assert_restarts(case, output, data)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ordinals_after_rows_in_the_middle_have_left(algorithm: str) -> None:
    """Sizes as they are in use: chunks of 4,096 rows, one row far ahead, and all between it and the last ones gone."""
    rows, options = 4096, {"output": "positions", "order": "strict"}
    join = sj.StreamJoin(on="l.k = r.k", window=sj.TimeWindow(500, on="ts"), algorithm=algorithm, **options)
    again = None
    for start in range(0, 10 * rows, rows):
        batch = pa.table({"k": [i % 1009 for i in range(rows)], "ts": [(start + i) // 4 for i in range(rows)]})
        ahead = batch.set_column(
            1, "ts", pa.array([10**8 if start + i == 5 else (start + i) // 4 for i in range(rows)])
        )
        out = join.push(left=ahead, right=batch)
        if again is not None:
            assert out.num_rows > 0
            assert again.push(left=ahead, right=batch).equals(out)
        if start == 6 * rows:
            again = sj.StreamJoin.restore(join.snapshot(), algorithm=algorithm)
            for one in (join, again):
                assert one._state.operator.windows["left"].payload.stretches == [(0, rows), (6 * rows, rows)]


def test_stretches_that_share_a_unit_of_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a snapshot may have them that was written with smaller chunks."""
    options = {"on": "l.k = r.k", "window": sj.TimeWindow(10, on="ts"), "order": "strict"}
    join = sj.StreamJoin(**options)
    with monkeypatch.context() as patch:
        set_limits(patch, **SMALL)
        small = sj.StreamJoin(**options)
        for i in range(0, 60, 4):
            batch = {"k": range(i, i + 4), "ts": [1000 if i == 8 else i] * 4}
            other = {"k": range(i, i + 4), "ts": [i] * 4}
            small.push(left=batch, right=other)
            join.push(left=batch, right=other)
        again = sj.StreamJoin.restore(small.snapshot())
    assert len(small._state.operator.windows["left"].payload.stretches) == 2
    wide = sj.StreamJoin.restore(small.snapshot())
    for i in range(60, 20_000, 997):
        batch = {"k": [*range(8, 12), *range(i, i + 997)], "ts": [1000] * 4 + [1000 + i] * 997}
        whole = join.push(left=batch, right=batch)
        assert again.push(left=batch, right=batch).equals(whole)
        assert wide.push(left=batch, right=batch).equals(whole)
