"""A stream with a table: every row of each batch against all rows of the table, against the law.

The law of a count window says it, too: all right rows come first and stay, and a left row leaves as it arrives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.api.table_join import ANSWERED
from tests.law.checks import ORDERS, assert_groups, count_lines, examples, line, lines
from tests.law.join_types import Lines, schema_of
from tests.law.test_aggregates import aggregate_cases, got_lines
from tests.law.test_aggregates import law_lines as aggregate_lines
from tests.law.test_nearest import kept, law_lines, nearest_cases
from tests.oracle import CountScope, Oracle
from tests.render import to_python, to_sql
from tests.strategies import Push, cases
from tests.tables import rows_of

if TYPE_CHECKING:
    from tests.law.test_aggregates import Chosen
    from tests.oracle import Nearest, Step
    from tests.strategies import Case

N = 1000


def table_join(case: Case, table: pa.Table | None = None, **options: Any) -> sj.TableJoin:
    """The join of a case's left rows with its right ones."""
    on = to_sql(case.predicate) if case.as_text else to_python(case.predicate)
    return sj.TableJoin(case.right if table is None else table, on, schema=case.left.schema, **options)


def oracle_of(case: Case, how: str = "inner", **options: Any) -> Oracle:
    oracle = Oracle(case.predicate, CountScope(0, N), how, **options)
    oracle.push(right=rows_of(case.right))
    return oracle


def batches(case: Case) -> list[pa.Table]:
    """The left rows, cut as the pushes are."""
    return [case.left.slice(0, 0) if push.left is None else push.left for push in case.pushes]


def answers(case: Case, oracle: Oracle) -> list[list[Step]]:
    return [oracle.push(left=rows_of(batch)) for batch in batches(case)]


def numbered(case: Case, how: str, output: str) -> Lines:
    expected = Lines(case, how, output)
    for at, row in enumerate(rows_of(case.right)):
        expected.numbers["right", row["id"]] = at
    return expected


@examples(200)
@given(
    case=cases(window="count"), how=st.sampled_from(ANSWERED), order=st.sampled_from(ORDERS),
    output=st.sampled_from(["pairs", "pairs", "positions"]), known=st.booleans(),
)  # fmt: skip
def test_every_batch_gives_what_the_law_says(case: Case, how: str, order: str, output: str, *, known: bool) -> None:
    options: dict[str, Any] = {"how": how, "order": order, "output": output}
    join, oracle = table_join(case, **options), oracle_of(case, how)
    if not known:
        on = to_sql(case.predicate)
        join = sj.TableJoin(case.right, on, **options)
    expected = numbered(case, how, output)
    for batch, steps in zip(batches(case), answers(case, oracle), strict=True):
        table = join.push(batch)
        assert output == "positions" or table.schema.equals(schema_of(case, how)), table.schema
        table.validate(full=True)
        assert_groups(lines(table), expected.groups(steps), order)
        assert join.stats.window_left == 0
    stats = join.stats
    unmatched = sum(not row.matched for row in oracle.kept["left"]) if how in ("left", "left_anti") else 0
    assert (stats.pairs, stats.unmatched_left, stats.rows_left) == (oracle.pairs, unmatched, case.left.num_rows)


@examples(60)
@given(case=cases(window="count"))
def test_counts(case: Case) -> None:
    join = table_join(case, output="count")
    for batch, steps in zip(batches(case), answers(case, oracle_of(case)), strict=True):
        assert lines(join.push(batch)) == count_lines(case, steps)


@examples(100)
@given(drawn=nearest_cases())
def test_nearest(drawn: tuple[Case, Nearest, str]) -> None:
    case, keep, how = drawn
    join, oracle = table_join(case, how=how, keep=kept(keep)), oracle_of(case, how, keep=keep)
    for batch, steps in zip(batches(case), answers(case, oracle), strict=True):
        assert lines(join.push(batch)) == law_lines(case, [row for step in steps for row in step.rows])
    assert join.stats.pairs == oracle.pairs


@examples(60)
@given(drawn=aggregate_cases())
def test_aggregates(drawn: tuple[Case, Chosen]) -> None:
    case, chosen = drawn
    join, oracle = table_join(case, output=chosen.given), oracle_of(case, aggregates=chosen.law)
    for batch in batches(case):
        try:
            steps = oracle.push(left=rows_of(batch))
        except OverflowError:
            with pytest.raises(sj.AggregateOverflowError):
                join.push(batch)
            return
        assert got_lines(join.push(batch)) == aggregate_lines([row for step in steps for row in step.rows])


@examples(40)
@given(case=cases(window="count"), at=st.integers(0, 5), half=st.integers(0, 10), how=st.sampled_from(ANSWERED))
def test_later_rows_meet_the_new_table_whole(case: Case, at: int, half: int, how: str) -> None:
    tables = [case.right.slice(half), case.right.slice(0, half)]
    join = table_join(case, tables[0], how=how)
    expected: list[tuple[str, ...]] = []
    found: list[tuple[str, ...]] = []
    for number, batch in enumerate(batches(case)):
        if number == at:
            join.refresh(tables[1])
        one = replace(case, right=tables[number >= at], pushes=[Push(batch, None)])
        groups = Lines(case, how).groups(oracle_of(one, how).push(left=rows_of(batch)))
        expected += sorted(member for group in groups for member in group)
        found += sorted(lines(join.push(batch)))
    assert found == expected
    assert join.stats.rows_left == case.left.num_rows


def test_tables_of_many_rows() -> None:
    """Where the index has many runs, or cells, and batches are cut into slices."""
    draw = np.random.default_rng(1)
    rows = 40_000
    low = np.sort(draw.integers(0, 1 << 40, rows))
    table = pa.table({"low": low, "high": low + draw.integers(0, 1 << 26, rows), "k": draw.integers(0, 50, rows)})
    stream = pa.table({"v": draw.integers(0, 1 << 40, 3000), "k": draw.integers(0, 50, 3000)})
    v, k = (np.asarray(stream[name])[:, None] for name in ("v", "k"))
    t = {name: np.asarray(table[name])[None, :] for name in table.column_names}
    for on, expected in {
        "l.v BETWEEN r.low AND r.high": (t["low"] <= v) & (v <= t["high"]),
        "l.k = r.k AND l.v BETWEEN r.low - 1000000 AND r.low + 1000000": (
            (k == t["k"]) & (abs(v - t["low"]) <= 1_000_000)
        ),
        "l.v BETWEEN r.low - 1000000 AND r.low + 1000000": abs(v - t["low"]) <= 1_000_000,
        "l.k = r.k AND l.v < r.low AND l.v > r.low - 100000000": (
            (k == t["k"]) & (v < t["low"]) & (v > t["low"] - 100_000_000)
        ),
    }.items():
        for how in ANSWERED:
            join = sj.TableJoin(table, on, how=how, output="positions", order="strict", schema=stream.schema)
            found = pa.concat_tables([join.push(stream.slice(0, 1000)), join.push(stream.slice(1000))])
            left, right = expected.nonzero()
            if how != "inner":
                alone = np.flatnonzero(~expected.any(axis=1))
                one = {"left": np.concatenate([left, alone]), "left_semi": np.unique(left), "left_anti": alone}[how]
                two = np.concatenate([right, np.full(alone.size, -1)]) if how == "left" else np.full(one.size, -1)
                order = np.lexsort([two, one])
                left, right = one[order], two[order]
            assert np.array_equal(np.asarray(found["left"]), left), (on, how)
            assert np.array_equal(np.asarray(found["right"].fill_null(-1)), right), (on, how)


def test_texts_that_the_table_lacks_need_no_memory() -> None:
    join = sj.TableJoin({"s": ["a", "b"], "t": ["x", "y"]}, "l.s = r.s AND l.t <> r.t")
    before = 0
    for number in range(20):
        names = [f"a text of more than a few letters {number} {at}" for at in range(2000)]
        out = join.push({"s": [*names, "a"], "t": [*names, "z"]})
        assert lines(out) == [line(["a", "z", "a", "x"])]
        before = before or join.stats.window_bytes
    assert join.stats.window_bytes <= 2 * before


def test_memory_of_a_batch_may_change_after_its_push() -> None:
    for output in ("pairs", "count", "positions"):
        keys, more = np.arange(5), np.arange(5) * 2.5
        batch = pa.table({"k": pa.Array.from_buffers(pa.int64(), 5, [None, pa.py_buffer(keys)]),
                          "x": pa.Array.from_buffers(pa.float64(), 5, [None, pa.py_buffer(more)])})  # fmt: skip
        join = sj.TableJoin({"k": [0, 1, 2, 3, 4]}, "l.k = r.k", output=output)
        out = join.push(batch)
        before = lines(out)
        keys[:], more[:] = 77, 77
        assert lines(out) == before
