"""Join types under a watermark that stands still within a push, as in a bucket on Spark; state in and out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.join_operator import JoinOperator
from slidejoin.plan.union_plan import plan_join
from slidejoin.rows.arrow_buffers import by_name, empty_of
from slidejoin.sides import SIDES
from tests.law.checks import examples, lines
from tests.law.join_types import HOWS, Lines
from tests.strategies import Case, cases
from tests.tables import rows_of

if TYPE_CHECKING:
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side


def plan_of(case: Case, how: str) -> Plan:
    """The plan of such a join, on Spark: texts have no codes."""
    config = replace(case.join()._state.config, how=how)
    return plan_join(config, case.left.schema, case.left.schema if case.self_join else case.right.schema)


def restored(operator: JoinOperator) -> JoinOperator:
    """Another operator with the same rows and marks."""
    again, rows = JoinOperator(operator.plan), {}
    for side, window in operator.windows.items():
        pieces = [piece.table for piece in window.payload]
        table = pa.concat_tables([empty_of(operator.plan.kept_schema(side)), *pieces])
        rows[side] = (table, window.payload.stretches, window.rows_seen)
    again.load(rows)
    for side in SIDES:
        marks = operator.matched(side)
        assert (marks is None) == (again.windows[side].matched is None)
        if marks is not None:
            again.load_matched(side, marks)
    return again


@pytest.mark.parametrize("how", HOWS)
@examples(15)
@given(case=cases(most=20, window="time"), data=st.data())
def test_against_the_oracle(how: str, case: Case, data: st.DataObject) -> None:
    plan, oracle, expected = plan_of(case, how), case.oracle(how), Lines(case, how)
    scope = plan.scope
    assert scope is not None
    operator, watermark = JoinOperator(plan), None
    since: dict[Side, int | None] = {}
    for push in case.pushes:
        tables: dict[Side, pa.Table] = {
            "left": case.left.slice(0, 0) if push.left is None else push.left,
            "right": case.right.slice(0, 0) if push.right is None else push.right,
        }
        ticks = {side: scope.ticks(side, by_name(table))[0] for side, table in tables.items()}
        taken = operator.prepare(tables, (ticks["left"], ticks["right"]), watermark, own_clock=False)
        found = [line for table in operator.push_iter(taken, None, own_clock=False) for line in lines(table)]
        until: dict[Side, int | None] = {
            side: None if watermark is None else scope.oldest(side, watermark) for side in SIDES
        }
        if watermark is not None:
            found += [line for table in operator.unmatched(since, until) for line in lines(table)]
            operator.expire(watermark)
            since = until
        law = oracle.micro_batch(rows_of(tables["left"]), rows_of(tables["right"]), nanoseconds(case, watermark), None)
        assert sorted(found) == sorted(expected.of(row) for row in law)
        known = [int(times.max()) for times in ticks.values() if times.size]
        if len(known) == len(SIDES) and data.draw(st.booleans()):
            watermark = max(min(known), min(known) if watermark is None else watermark)
        if data.draw(st.booleans()):
            operator = restored(operator)
    rest = [line for table in operator.unmatched(since, {}) for line in lines(table)]
    assert sorted(rest) == sorted(expected.of(row) for row in oracle.finish())


def nanoseconds(case: Case, watermark: int | None) -> int | None:
    """A watermark in ticks of the join in the unit of the oracle."""
    plan = plan_of(case, "inner")
    scale = getattr(plan.scope, "scale", None)
    return watermark if watermark is None or scale is None else watermark * 10 ** (9 - scale)


def test_marks_of_rows_that_stay() -> None:
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(9), how="left", schemas=(schema, schema))
    join.push(left={"k": [1, 2, 3], "ts": [0, 0, 0]}, right={"k": [3, 1], "ts": [0, 0]})
    operator = join._state.operator
    assert operator is not None
    assert np.array_equal(operator.matched("left"), [True, False, True])
    assert operator.matched("right") is None
    operator.load_matched("left", np.array([False, False, True]))
    assert join.finish().column("k").to_pylist() == [1, 2]
