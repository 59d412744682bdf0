"""Nearest matches: the first pairs of each left row by distance, put out as the row leaves, against the law."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.tuning import Tuning
from tests.law.checks import ORDERS, assert_stats, examples, line, lines, pair_schema
from tests.narrow import tune
from tests.oracle import CountScope, Nearest, Oracle
from tests.strategies import FAMILIES, Case, cases

if TYPE_CHECKING:
    from tests.law.checks import Line
    from tests.oracle import Output

DISTANCES = ("int", "number", "float", "decimal", "naive", "zoned", "span")
DIRECTIONS = ("backward", "forward", "nearest")


@st.composite
def nearest_cases(draw: st.DrawFn, *, self_join: bool = False, most: int = 12) -> tuple[Case, Nearest, str]:
    """A join, which pairs stay, and its type."""
    family = draw(st.sampled_from(DISTANCES))
    case = draw(cases(family=family, self_join=self_join, most=most))
    column = draw(st.sampled_from(["a", "a", "ts"]))
    keep = Nearest(column, column, draw(st.sampled_from(DIRECTIONS)), draw(st.sampled_from([1, 1, 2, 3, 100])))
    return case, keep, draw(st.sampled_from(["inner", "left"]))


def kept(keep: Nearest) -> sj.Nearest:
    """The same as slidejoin takes it."""
    return sj.Nearest(f"l.{keep.left}", f"r.{keep.right}", keep.direction, keep.k)


def oracle_of(case: Case, keep: Nearest, how: str) -> Oracle:
    return Oracle(case.predicate, case.window.scope, how, self_join=case.self_join, keep=keep)


def law_lines(case: Case, rows: list[Output]) -> list[Line]:
    """The law's output rows as lines; NULLs where there is no right row."""
    nobody = [None] * (case.left if case.self_join else case.right).num_columns
    return [line(left or [], nobody if right is None else right) for left, right in rows]


def assert_nearest(case: Case, keep: Nearest, how: str, *, restart: bool = False, **options: Any) -> None:
    """Assert the law's sequence for every push and the end, wherever the stream is cut or restarted."""
    join, oracle = case.join(keep=kept(keep), how=how, **options), oracle_of(case, keep, how)
    schema = pair_schema(case.left.schema, case.left.schema if case.self_join else case.right.schema)
    for push, steps in zip(case.pushes, case.steps(oracle), strict=True):
        if restart:
            join = sj.StreamJoin.restore(join.snapshot())
        table = join.push(**push.arguments(self_join=case.self_join))
        assert table.schema.equals(schema), table.schema
        table.validate(full=True)
        assert lines(table) == law_lines(case, [row for step in steps for row in step.rows])
    if restart:
        join = sj.StreamJoin.restore(join.snapshot())
    rest = join.finish()
    assert rest.schema.equals(schema)
    assert lines(rest) == law_lines(case, oracle.finish())
    assert_stats(join, oracle)


@examples(150)
@given(drawn=nearest_cases())
def test_every_push_gives_what_the_law_says(drawn: tuple[Case, Nearest, str]) -> None:
    assert_nearest(*drawn)


@examples(50)
@given(drawn=nearest_cases(self_join=True))
def test_self_join(drawn: tuple[Case, Nearest, str]) -> None:
    assert_nearest(*drawn)


@examples(50)
@given(drawn=nearest_cases(), order=st.sampled_from(ORDERS), threads=st.sampled_from([1, 2]))
def test_rows_fold_whenever_right_rows_pile_up(drawn: tuple[Case, Nearest, str], order: str, threads: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, unfolded_rows=0, folded_from=0)
        assert_nearest(*drawn, order=order, threads=threads, memory_limit=1 << 30)


@pytest.mark.parametrize("folding", [False, True])
@examples(40)
@given(drawn=nearest_cases(most=14))
def test_restart_between_pushes(folding: bool, drawn: tuple[Case, Nearest, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if folding:
            tune(patch, unfolded_rows=0, folded_from=0)
        assert_nearest(*drawn, restart=True)


@examples(30)
@given(drawn=nearest_cases(), algorithm=st.sampled_from(["bi_sort", "planar", "pim_tree", "nested_loop", "bplus_tree"]))
def test_any_index(drawn: tuple[Case, Nearest, str], algorithm: str) -> None:
    assert_nearest(*drawn, algorithm=algorithm)


@examples(30)
@given(drawn=nearest_cases())
def test_positions(drawn: tuple[Case, Nearest, str]) -> None:
    case, keep, how = drawn
    whole, numbers = case.join(keep=kept(keep), how=how), case.join(keep=kept(keep), how=how, output="positions")
    found, expected = [], []
    for push in case.pushes:
        given_ = push.arguments(self_join=case.self_join)
        found.append(numbers.push(**given_))
        expected.append(whole.push(**given_))
    found.append(numbers.finish())
    expected.append(whole.finish())
    assert [table.num_rows for table in found] == [table.num_rows for table in expected]
    steps = [step for steps in case.steps(oracle_of(case, keep, how)) for step in steps]
    # Rows in their order of arrival; late ones have no ordinal.
    ids = [step.row["id"] for step in steps if step.side == "left" and step.counted]
    for table, rows in zip(found, expected, strict=True):
        nobody = [right is None for right in table.column("right").to_pylist()]
        assert [right is None for right in rows.column("id_right").to_pylist()] == nobody
        assert rows.column("id").to_pylist() == [ids[ordinal] for ordinal in table.column("left").to_pylist()]


@examples(30)
@given(drawn=nearest_cases())
def test_however_arrivals_are_cut(drawn: tuple[Case, Nearest, str]) -> None:
    case, keep, how = drawn
    join = case.join(keep=kept(keep), how=how)
    whole = [row for table in [*case.results(join), join.finish()] for row in lines(table)]
    join, found = case.join(keep=kept(keep), how=how), []
    for push in case.pushes:
        for table in join.push_iter(**push.arguments(self_join=case.self_join)):
            found += lines(table)
    assert found + lines(join.finish()) == whole


def test_join_streams_and_a_feed_give_the_same() -> None:
    rows = [{"k": [1, 2, 1], "v": [at, at + 1, at + 2]} for at in range(0, 40, 3)]
    options: dict[str, Any] = {"keep": sj.Nearest("l.v", "r.v", "nearest"), "window": sj.CountWindow(4), "how": "left"}
    join = sj.StreamJoin(on="l.k = r.k", schemas=(SCHEMA, SCHEMA), **options)
    expected = [row for one in rows for row in join.push(one, one).to_pylist()] + join.finish().to_pylist()
    streamed = sj.join_streams(rows, rows, on="l.k = r.k", **options)
    assert [row for table in streamed for row in table.to_pylist()] == expected
    found = []
    with sj.Feed(sj.StreamJoin(on="l.k = r.k", schemas=(SCHEMA, SCHEMA), **options), capacity=1000) as feed:
        for one in rows:
            feed.put(one, one)
        feed.close()
        while (table := feed.get()) is not None:
            found += table.to_pylist()
    assert found == expected


def test_a_limit_of_memory_counts_rows_that_wait() -> None:
    join = join_of(sj.Nearest("l.v", "r.v"), sj.CountWindow(1000), memory_limit=60_000)

    def fill() -> None:
        for at in range(100):
            join.push(left={"k": [1] * 100, "v": range(at, at + 100)}, right={"k": [1] * 100, "v": [at] * 100})

    with pytest.raises(sj.MemoryLimitError, match="memory_limit is 60000 bytes"):
        fill()
    assert join.stats.window_bytes <= 60_000


SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def join_of(keep: sj.Nearest, window: sj.CountWindow | sj.TimeWindow, **options: Any) -> sj.StreamJoin:
    return sj.StreamJoin(on="l.k = r.k", window=window, keep=keep, schemas=(SCHEMA, SCHEMA), **options)


# left   0            3       left 0 leaves with left 1 and takes the nearest of what came before that: 2 of right 1
# right     0   2        9
def test_a_row_is_answered_as_it_leaves() -> None:
    join = join_of(sj.Nearest("l.v", "r.v", "nearest"), sj.CountWindow(1), select=["l.v", "r.v"])
    assert join.push(left={"k": [1], "v": [2]}, right={"k": [1, 1], "v": [5, 1]}).num_rows == 0
    assert join.push(left={"k": [1], "v": [7]}).to_pylist() == [{"v": 2, "v_right": 1}]
    assert join.push(right={"k": [1], "v": [9]}).num_rows == 0
    assert join.finish().to_pylist() == [{"v": 7, "v_right": 9}]


def test_ties_go_to_the_right_value_that_is_not_larger_and_then_to_the_later_row() -> None:
    join = join_of(sj.Nearest("l.v", "r.v", "nearest", k=4), sj.CountWindow(9), output="positions")
    join.push(right={"k": [1] * 5, "v": [6, 4, 4, 6, 5]}, left=None)
    join.push(left={"k": [1], "v": [5]})
    assert join.finish().to_pydict() == {"left": [0] * 4, "right": [4, 2, 1, 3]}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_distances_beyond_64_bits_are_exact(direction: str) -> None:
    low, high = -(2**63), 2**63 - 1
    join = join_of(sj.Nearest("l.v", "r.v", direction), sj.CountWindow(9), output="positions")
    join.push(left={"k": [1, 1], "v": [low, high]}, right={"k": [1, 1, 1, 1], "v": [high, high - 1, low, low + 1]})
    expected = {"backward": [2, 0], "forward": [2, 0], "nearest": [2, 0]}[direction]
    assert join.finish()["right"].to_pylist() == expected
    join = join_of(sj.Nearest("l.v", "r.v", direction), sj.CountWindow(9), output="positions", how="left")
    join.push(left={"k": [1, 1], "v": [low, high]}, right={"k": [1, 1], "v": [high - 1, low + 1]})
    expected_far = {"backward": [None, 0], "forward": [1, None], "nearest": [1, 0]}[direction]
    assert join.finish()["right"].to_pylist() == expected_far


def test_right_rows_that_pile_up_are_folded_and_memory_stays_flat() -> None:
    join = join_of(sj.Nearest("l.v", "r.v", "nearest", k=2), sj.CountWindow(100))
    join.push(left={"k": [0, 1, 2], "v": [10, 20, 30]})
    sizes = []
    for at in range(40):
        rows = range(at * 1000, (at + 1) * 1000)
        join.push(right={"k": [row % 3 for row in rows], "v": [row * 7919 % 100_003 for row in rows]})
        sizes.append(join.stats.window_right)
    assert max(sizes) <= Tuning().unfolded_rows + 2 * Tuning().unfolded_rows
    best: dict[int, list[int]] = {}
    for key, value in ((0, 10), (1, 20), (2, 30)):
        found = sorted((abs(row * 7919 % 100_003 - value), -row) for row in range(40_000) if row % 3 == key)[:2]
        best[key] = [-row * 7919 % 100_003 for _, row in found]
    out = join.finish().to_pydict()
    assert out["k"] == [0, 0, 1, 1, 2, 2]
    assert out["v_right"] == best[0] + best[1] + best[2]


@pytest.mark.parametrize("window", [sj.CountWindow(2), sj.TimeWindow(100, on="v")], ids=str)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_left_rows_from_before_the_right_schema(window: sj.CountWindow | sj.TimeWindow, how: str) -> None:
    def join() -> sj.StreamJoin:
        keep = sj.Nearest("l.v", "r.v", "nearest")
        return sj.StreamJoin(on="l.k = r.k", window=window, keep=keep, how=how, output="positions")

    rows = {"k": [1] * 5, "v": [1, 2, 3, 4, 5]}
    late, whole = join(), join_of(sj.Nearest("l.v", "r.v", "nearest"), window, how=how, output="positions")
    expected = [whole.push(left=rows), whole.push(right={"k": [1], "v": [9]}), whole.finish()]
    assert late.push(left=rows).num_rows == 0
    late = sj.StreamJoin.restore(late.snapshot())
    found = [late.push(right={"k": [1], "v": [9]}), late.finish()]
    assert [row for table in found for row in table.to_pylist()] == [row for t in expected for row in t.to_pylist()]
    alone = join()
    alone.push(left=rows)
    assert alone.finish().num_rows == (5 if how == "left" else 0)


def test_explain_tells_what_stays() -> None:
    join = join_of(sj.Nearest("l.v", "r.v", k=2), sj.CountWindow(9))
    text = join.explain()
    assert "the 2 nearest pairs of each left row by abs(l.v - r.v), backward, as the row leaves" in text
    assert "r.v <= l.v" in text
    assert "keep=Nearest(left_column='l.v', right_column='r.v', direction='backward', k=2)" in repr(join)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": 5}, r"keep must be sj.Nearest\('l.ts', 'r.ts'\), got 5"),
        ({"output": "count"}, r"output='count' counts the pairs that each arrival produces, and keep=.* emits"),
        ({"output": sj.Aggregate(n="count")}, "give one of the two"),
        ({"how": "full"}, r"how='full' does not go with keep=.*; use how='inner' or how='left'"),
        ({"how": "left_semi"}, "how='left_semi' does not go with keep="),
        ({"topology": "split_join"}, "topology='split_join' spreads pairs over cores as they arrive; keep= needs"),
        ({"keep": sj.Nearest("v", "r.v")}, r"Nearest left_column must be a left column, written l\.name; got 'v'"),
        ({"keep": sj.Nearest("l.v", "l.v")}, r"Nearest right_column must be a right column, written r\.name"),
        ({"keep": sj.Nearest("l.w", "r.v")}, "names 'w', which is no column of the left side"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], message: str) -> None:
    given_ = {"keep": sj.Nearest("l.v", "r.v")} | options
    with pytest.raises(sj.SlideJoinError, match=message):
        sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(9), schemas=(SCHEMA, SCHEMA), **given_)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("l.v", 5), "Nearest right_column must be a column such as 'l.ts', got 5"),
        (("l.v", "r.v", "back"), "Nearest direction must be one of 'backward', 'forward', 'nearest'; got 'back'"),
        (("l.v", "r.v", "backward", 0), "Nearest k must be a whole number of pairs, from 1 to 65,536, got 0"),
        (("l.v", "r.v", "backward", 1.5), "Nearest k must be a whole number of pairs"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(sj.ArgumentError, match=message):
        sj.Nearest(*arguments)


@pytest.mark.parametrize("name", ["text", "clock", "bool", "binary"])
def test_columns_without_a_distance_are_refused(name: str) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", next(iter(FAMILIES[name].domains)))])
    with pytest.raises(sj.PredicateError, match="needs two columns with a distance: numbers"):
        sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(9), keep=sj.Nearest("l.v", "r.v"), schemas=(schema, schema))


def test_scopes_of_examples() -> None:
    """The law itself: an interval is complete as its left row leaves."""
    oracle = Oracle(("=", ("lit", 1), ("lit", 1)), CountScope(1, 1), keep=Nearest("v", "v", "nearest"))
    oracle.push(left=[{"v": 5}])
    oracle.push(right=[{"v": 1}, {"v": 7}])
    assert oracle.push(left=[{"v": 0}])[0].rows == [({"v": 5}, {"v": 7})]
