"""``late="emit"``: the late rows of a join, and those without event time, come out once, whole and in arrival order."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from tests.law.checks import assert_groups, assert_stats, examples, line, lines, pair_lines
from tests.strategies import Case, cases
from tests.tables import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slidejoin.operator.ingest.late_rows import LateRows
    from tests.law.checks import Line
    from tests.oracle import Step

SIDES = ("left", "right")


def left_out(steps: Iterable[Step], side: str) -> list[Line]:
    """The rows of a side that the law leaves out, in arrival order."""
    return [line(step.row) for step in steps if not step.counted and step.side == side]


def assert_late(got: LateRows, case: Case, steps: list[Step]) -> None:
    """Assert that these are the rows that the law leaves out, columns and types included."""
    schemas = {"left": case.left.schema, "right": case.left.schema if case.self_join else case.right.schema}
    for side in SIDES:
        table = getattr(got, side)
        assert table.schema.equals(schemas[side])
        table.validate(full=True)
        assert [line(row) for row in rows_of(table)] == left_out(steps, side)


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize("options", [{"order": "strict"}, {"output": "count"}, {"select": []}], ids=str)
@examples(40)
@given(data=st.data())
def test_late_rows_are_those_of_the_law(options: dict[str, Any], self_join: bool, data: st.DataObject) -> None:
    """Taken now and then, with restarts between pushes; what the join gives is as without."""
    case = data.draw(cases(window="time", self_join=self_join, most=14))
    join, dropping, oracle = case.join(late="emit", **options), case.join(**options), case.oracle()
    waiting: list[Step] = []
    for push, steps in zip(case.pushes, case.steps(oracle), strict=True):
        given_ = push.arguments(self_join=self_join)
        assert lines(join.push(**given_)) == lines(dropping.push(**given_))
        waiting += steps
        if data.draw(st.booleans()):
            join = sj.StreamJoin.restore(join.snapshot())
        if data.draw(st.booleans()):
            assert_late(join.late_rows(), case, waiting)
            waiting = []
    assert_late(join.late_rows(), case, waiting)
    assert_late(join.late_rows(), case, [])
    assert_stats(join, oracle)


@examples(25)
@given(case=cases(window="time", most=14))
def test_iterators_and_topologies_keep_them_too(case: Case) -> None:
    join = case.join(late="emit", topology="split_join", order="strict", threads=2)
    steps = case.steps(case.oracle())
    for push, some in zip(case.pushes, steps, strict=True):
        tables = list(join.push_iter(**push.arguments()))
        assert_groups([one for table in tables for one in lines(table)], pair_lines(some), "strict")
    assert_late(join.late_rows(), case, [step for some in steps for step in some])


SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("s", pa.string())])
WINDOW = sj.TimeWindow(5, on="ts")


def rows(*times: int | None, k: int = 1) -> pa.Table:
    texts = [f"at {time}" for time in times]
    return pa.table([pa.array([k] * len(times)), pa.array(times, pa.int64()), texts], schema=SCHEMA)


# left   10        4              7
# right     12 8      NULL  20        watermark 10 after 12, so that 8, 4 and NULL are left out; 7 as well
def test_the_fused_path_leaves_them_to_the_general_one() -> None:
    join = sj.StreamJoin(on="l.k = r.k", window=WINDOW, late="emit", schemas=(SCHEMA, SCHEMA), order="none")
    assert join._state.operator.fused is not None
    for push in (
        {"left": rows(10), "right": rows(12, 8)},
        {"left": rows(4), "right": rows(None)},
        {"left": rows(), "right": rows(20)},
        {"left": rows(7)},
    ):
        join.push(**push)
    late = join.late_rows()
    assert late.left.to_pydict() == {"k": [1, 1], "ts": [4, 7], "s": ["at 4", "at 7"]}
    assert late.right.to_pydict() == {"k": [1, 1], "ts": [8, None], "s": ["at 8", "at None"]}
    assert (join.stats.late_rows, join.stats.null_time_rows) == (3, 1)


def test_before_the_other_sides_schema_is_known() -> None:
    join = sj.StreamJoin(on="l.k = r.k", window=WINDOW, late="emit")
    assert [table.num_columns for table in join.late_rows()] == [0, 0]
    join.push(left=rows(5, None, 3))
    join = sj.StreamJoin.restore(join.snapshot())
    assert join.stats.null_time_rows == 1
    join.push(right=rows(9, 2))
    late = join.late_rows()
    assert late.left.column("ts").to_pylist() == [None]
    assert late.right.column("ts").to_pylist() == [2]


def test_all_columns_of_any_type_come_back() -> None:
    """Also columns that the join neither outputs nor compares, dictionaries and views among them."""
    kinds: dict[str, pa.Array[Any]] = {
        "k": pa.array([1, 1, 1]),
        "ts": pa.array([datetime(2026, 1, 5), datetime(2026, 1, 1), None]),
        "d": pa.array(["x", "y", "z"]).dictionary_encode(),
        "v": pa.array(["aa", "bb", None], pa.string_view()),
        "n": pa.array([[1], [2, 3], []]),
        "t": pa.array([{"a": 1}, None, {"a": 3}]),
    }
    table = pa.table(kinds)
    window = sj.TimeWindow("1 hour", on="ts")
    join = sj.StreamJoin(on="l.k = r.k", window=window, late="emit", select=["l.k"], schemas=(table.schema,) * 2)
    join.push(left=table.slice(0, 1), right=table.slice(0, 1))
    join.push(left=table.slice(1))
    join = sj.StreamJoin.restore(join.snapshot())
    late = join.late_rows()
    assert late.left.schema.equals(table.schema)
    assert late.left.to_pylist() == table.slice(1).to_pylist()


def test_a_few_late_rows_do_not_keep_a_whole_batch() -> None:
    join = sj.StreamJoin(on="l.k = r.k", window=WINDOW, late="emit", schemas=(SCHEMA, SCHEMA))
    join.push(left=rows(100), right=rows(100))
    join.push(left=rows(*[100] * 10_000, 3, *[100] * 10_000))
    assert join.stats.late_bytes < 200
    assert "late_bytes" in str(join.stats)


def test_a_limit_of_memory_counts_them() -> None:
    limit = 60_000
    join = sj.StreamJoin(on="l.k = r.k", window=WINDOW, schemas=(SCHEMA, SCHEMA), memory_limit=limit, late="emit")
    join.push(left=rows(1000), right=rows(1000))
    held, batch = join.stats.window_bytes, rows(*range(300))
    message = ""
    while not message:
        try:
            join.push(left=batch)
        except sj.MemoryLimitError as error:
            message = str(error)
    assert "of them late rows that late_rows() returns and forgets" in message
    assert "none of the rows was added" in message
    stats = join.stats
    assert stats.window_bytes == held
    # Late rows alone: nearly all of the limit is used, and no more.
    assert limit - batch.nbytes < stats.window_bytes + stats.late_bytes <= limit
    assert stats.late_rows == 300 * (stats.late_bytes // batch.nbytes)
    assert join.late_rows().left.num_rows == stats.late_rows
    join.push(left=batch)


def test_an_interrupted_caller_of_an_iterator_still_has_them() -> None:
    join = sj.StreamJoin(on="l.k = r.k", window=WINDOW, late="emit", schemas=(SCHEMA, SCHEMA))
    join.push(left=rows(50), right=rows(50))
    iterator: Any = join.push_iter(left=rows(3, 51), right=rows(2))
    assert join.late_rows().left.column("ts").to_pylist() == [3]
    iterator.close()
    late = join.late_rows()
    assert (late.left.num_rows, late.right.num_rows) == (0, 0)
    assert join.stats.rows_left == 2


def test_push_async_and_join_streams() -> None:
    async def pushing() -> list[Any]:
        join = sj.StreamJoin(on="l.k = r.k", window=WINDOW, late="emit")
        await join.push_async(rows(50), rows(50, 9))
        return join.late_rows().right.column("ts").to_pylist()

    assert asyncio.run(pushing()) == [9]
    joined = sj.join_streams([rows(5), rows(3)], [rows(9, 8), rows(4)], on="l.k = r.k", window=WINDOW, late="emit")
    assert sum(table.num_rows for table in joined) == 2
    late = joined.late_rows()
    assert (late.left.column("ts").to_pylist(), late.right.column("ts").to_pylist()) == ([3], [4])


def test_a_feed_gives_them_while_it_runs() -> None:
    join = sj.StreamJoin(on="l.k = r.k", window=WINDOW, late="emit", threads=1, schemas=(SCHEMA, SCHEMA))
    found: list[int] = []
    taken = threading.Event()
    with sj.Feed(join) as feed:
        feed.put(left=rows(50), right=rows(50))
        for number in range(20):
            feed.put(left=rows(number, 50), right=rows(50))
        while len(found) < 20:
            found += feed.late_rows().left.column("ts").to_pylist()
            taken.wait(0.001)
    assert found == list(range(20))
    assert sum(table.num_rows for table in feed) == 21 * 21
    assert join.late_rows().left.num_rows == 0


def test_a_feed_over_a_join_that_drops_them() -> None:
    with sj.Feed(sj.StreamJoin(on="l.k = r.k", window=WINDOW)) as feed, pytest.raises(sj.ArgumentError, match="late="):
        feed.late_rows()


def test_what_is_refused() -> None:
    with pytest.raises(
        sj.ArgumentError, match=r"late_rows\(\) needs a join with late='emit'; this one has late='drop'"
    ):
        sj.StreamJoin(on="l.k = r.k", window=WINDOW).late_rows()
    with pytest.raises(sj.ArgumentError, match=r"rows of CountWindow\(5\) are never late. Leave late out"):
        sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(5), late="emit")
    with pytest.raises(sj.ArgumentError, match=r"must be one of 'drop', 'emit'; got 'emitt'\. Did you mean"):
        sj.StreamJoin(on="l.k = r.k", window=WINDOW, late="emitt")
    assert "late='emit'" in repr(sj.StreamJoin(on="l.k = r.k", window=WINDOW, late="emit"))


def test_columns_that_the_join_does_not_keep_have_any_type() -> None:
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("v", pa.map_(pa.string_view(), pa.int64()))])
    join = sj.StreamJoin(on="l.k = r.k", window=WINDOW, select=["l.k"], late="emit", schemas=(schema, SCHEMA))
    batch = pa.table({"k": [1, 2], "ts": [100, None], "v": [[("a", 1)], [("b", 2)]]}, schema=schema)
    join.push(left=batch)
    again = sj.StreamJoin.restore(join.snapshot())
    assert again.late_rows().left.equals(batch.slice(1))
