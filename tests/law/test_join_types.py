"""Outer, semi and anti joins give the rows of the law, each at its moment: all windows, predicates, orders, outputs."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.options import CellJoin, HandshakeLowLatency, RoundRobin, SplitJoin
from slidejoin.spec.topologies import KNOWN_TOPOLOGIES
from tests.law.checks import ORDERS, assert_groups, examples, lines
from tests.law.join_types import HOWS, Lines, assert_join_type
from tests.law.test_branches import unions
from tests.law.test_composite_keys import composites
from tests.narrow import limits, narrow_cases, set_limits, tune
from tests.strategies import Case, cases
from tests.structures import SMALL

if TYPE_CHECKING:
    from slidejoin.options import Topology

OUTPUTS = ("pairs", "positions")
FAST = st.sampled_from(["probe", "none"])
any_how, any_order, any_output = st.sampled_from(HOWS), st.sampled_from(ORDERS), st.sampled_from(OUTPUTS)
few_rows = st.fixed_dictionaries(
    {"SMALLEST_SLICE": st.sampled_from([1, 3, 1 << 11]), "SMALLEST_LIMIT": st.sampled_from([1, 4096])}
)

# -- against the oracle ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
@examples(25)
@given(case=cases(most=20), order=any_order, output=any_output, given_limits=few_rows)
def test_against_the_oracle(how: str, case: Case, order: str, output: str, given_limits: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_join_type(case, how, order, output=output)


@examples(40)
@given(case=cases(most=14, self_join=True), how=any_how, order=any_order, output=any_output, given_limits=few_rows)
def test_self_joins(how: str, case: Case, order: str, output: str, given_limits: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_join_type(case, how, order, output=output)


@pytest.mark.parametrize("window", ["count", "time"])
@examples(40)
@given(
    data=st.data(), how=any_how, order=FAST, output=any_output, given_limits=limits, threads=st.sampled_from([1, 2, 3])
)
def test_cells(
    window: str, data: st.DataObject, how: str, order: str, output: str, given_limits: dict[str, int], threads: int
) -> None:
    """Plain terms and small limits: the fused paths, and every way out of them."""
    case = data.draw(narrow_cases(window=window, family="near", plain=data.draw(st.booleans())))
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        tune(patch, small_push_rows=data.draw(st.sampled_from([0, 4, 1 << 10])))
        assert_join_type(case, how, order, output=output, threads=threads, algorithm="band_cells")


@examples(25)
@given(case=composites(), how=any_how, order=any_order, given_limits=limits)
def test_composite_keys(case: Case, how: str, order: str, given_limits: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_join_type(case, how, order)


@examples(20)
@given(case=unions(), how=any_how, order=any_order)
def test_branches(case: Case, how: str, order: str) -> None:
    assert_join_type(case, how, order)


@pytest.mark.parametrize("algorithm", [*SMALL, "bi_sort"])
@examples(8)
@given(case=cases(most=20), how=any_how)
def test_every_algorithm(algorithm: str, case: Case, how: str) -> None:
    if algorithm == "hash":  # which has no answer without an equality
        case.predicate = ("and", ("=", ("col", "left", "flag"), ("col", "right", "flag")), case.predicate)
    for options in SMALL.get(algorithm, [algorithm])[:2]:
        assert_join_type(case, how, "strict", algorithm=options)


for one in (CellJoin, SplitJoin, HandshakeLowLatency, RoundRobin):
    KNOWN_TOPOLOGIES.class_of(one)  # so that limits can be set
TOPOLOGIES = [
    CellJoin(workers=3, basic_window=1, batch=1),
    SplitJoin(cores=3, ordering="inner", every=2),
    HandshakeLowLatency(cores=3),
    RoundRobin(cores=3),
]


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda one: one.name)
@examples(15)
@given(case=cases(most=16), how=any_how, order=any_order, threads=st.sampled_from([1, 2, 3]))
def test_topologies(topology: Topology, case: Case, how: str, order: str, threads: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, UNIT_BLOCK=1, FEWEST_ROWS=1)
        assert_join_type(case, how, order, topology=topology, threads=threads)


# -- batch invariance, restarts, iterators -----------------------------------------------------------------------------


@examples(40)
@given(case=cases(most=20), how=any_how, order=any_order, output=any_output, data=st.data())
def test_restarts(case: Case, how: str, order: str, output: str, data: st.DataObject) -> None:
    """A join that is restored now and then, between a match and a departure too, gives what one that goes on gives."""

    def restarted(join: sj.StreamJoin) -> sj.StreamJoin:
        return sj.StreamJoin.restore(join.snapshot()) if data.draw(st.booleans()) else join

    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, SMALLEST_LIMIT=data.draw(st.sampled_from([1, 4096])))
        assert_join_type(case, how, order, output=output, between=restarted)


@examples(30)
@given(case=cases(most=20), how=any_how, parts=st.integers(1, 3))
def test_one_sequence_however_the_rows_are_cut(case: Case, how: str, parts: int) -> None:
    """All rows in one push, or each push of one side in several; arrivals in the same order."""
    made = []
    for count in (1, parts):
        join, found = case.join(how=how, order="strict"), []
        for table in (case.left, case.left if case.self_join else case.right):
            side = "left" if table is case.left else "right"
            cuts = [table.num_rows * part // count for part in range(count + 1)]
            found += [line for a, b in pairwise(cuts) for line in lines(join.push(**{side: table.slice(a, b - a)}))]
        made.append((found, lines(join.finish())))
    assert made[0] == made[1]


@examples(30)
@given(case=cases(most=20), how=any_how, order=any_order, data=st.data(), given_limits=few_rows)
def test_iterators_that_are_closed_early(
    case: Case, how: str, order: str, data: st.DataObject, given_limits: dict[str, int]
) -> None:
    """What is not read is gone, but rows whose pairs were dropped still have a match, and later results are right."""
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        join, oracle, expected = case.join(how=how, order=order), case.oracle(how), Lines(case, how)
        for push, steps in zip(case.pushes, case.steps(oracle), strict=True):
            groups = expected.groups(steps)
            tables = join.push_iter(**push.arguments(self_join=case.self_join))
            if data.draw(st.booleans()):
                tables.close()  # type: ignore[attr-defined]
            else:
                assert_groups([line for table in tables for line in lines(table)], groups, order)
        pending = [expected.of(row) for row in oracle.finish()]
        assert lines(join.finish()) == pending


@examples(40)
@given(case=cases(most=16), how=any_how, order=any_order, output=any_output)
def test_rows_before_the_other_schema(case: Case, how: str, order: str, output: str) -> None:
    """Without schemas nothing is put out until both are known, and then all that had become known before."""
    given_schemas, on = case.join(how=how, order="strict", output=output), case.join()._state.config.on
    join = sj.StreamJoin(
        on=on, window=case.window.window, self_join=case.self_join, how=how, order="strict", output=output
    )
    early: list[Any] = []
    for push in case.pushes:
        arguments = push.arguments(self_join=case.self_join)
        whole, table = given_schemas.push(**arguments), join.push(**arguments)
        early += lines(whole)
        if join._state.operator is None:
            assert table.num_rows == 0
        else:
            assert lines(table) == early[: table.num_rows]
            del early[: table.num_rows]
            assert not early
    rest, expected = join.finish(), given_schemas.finish()
    if join._state.operator is not None:
        assert lines(rest) == lines(expected)
    else:
        assert rest.num_rows == expected.num_rows + len(early)
    assert join.stats.unmatched_left == given_schemas.stats.unmatched_left
    assert join.stats.unmatched_right == given_schemas.stats.unmatched_right


@examples(15)
@given(case=cases(most=16), how=any_how, data=st.data())
def test_select_and_suffix(case: Case, how: str, data: st.DataObject) -> None:
    """Columns are those of the whole output, under the names that the whole schemas decide."""
    whole = case.join(how=how, order="strict", suffix="_r")
    names = {f"l.{name}": name for name in case.left.column_names}
    if how not in ("left_semi", "left_anti"):
        names |= {f"r.{name}": f"{name}_r" for name in case.right.column_names}
    select = data.draw(st.lists(st.sampled_from(sorted(names)), unique=True, max_size=4))
    join = case.join(how=how, order="strict", suffix="_r", select=select)
    for push in case.pushes:
        arguments = push.arguments(self_join=case.self_join)
        out, every = join.push(**arguments), whole.push(**arguments)
        assert out.num_rows == every.num_rows
        assert lines(out) == (lines(every.select([names[name] for name in select])) if select else [])
    assert join.finish().num_rows == whole.finish().num_rows


# -- the fused path beside the general one -----------------------------------------------------------------------------

INTS = pa.schema([("k", pa.int64()), ("i", pa.int64())])


def in_groups(table: pa.Table, left: list[int], right: list[int]) -> list[list[tuple[Any, Any]]]:
    """Positions in groups by the row that produced them, each group sorted, given when each row arrived."""
    made: list[list[tuple[Any, Any]]] = []
    before = None
    for row in zip(*table.to_pydict().values(), strict=True):
        probe = None if None in row else max(left[row[0]], right[row[1]])
        if probe is None or probe != before:
            made.append([])
        made[-1].append(row)
        before = probe
    return [sorted(group) for group in made]


@pytest.mark.parametrize("on", ["l.k BETWEEN r.k - 1 AND r.k + 1", "l.k = r.k", "l.k < r.k - 3"])
@pytest.mark.parametrize("how", HOWS)
def test_fused_and_general_are_one(on: str, how: str) -> None:
    """Pushes of many sizes, so that each kind of fused push has some: small ones, large ones, with two threads."""
    options = {"on": on, "how": how, "output": "positions", "schemas": (INTS, INTS), "threads": 2}
    window = sj.CountWindow(left=700, right=900, slide=7)
    fused, general = (sj.StreamJoin(window=window, **options) for _ in range(2))
    assert fused._state.operator.fused is not None
    general._state.operator.fused = None
    arrived: dict[str, list[int]] = {"left": [], "right": []}
    rng, at = np.random.default_rng(len(how)), 0
    wide = "<" in on
    for size in (1, 40, 3, 200, 1500, 2, 700 if wide else 9000, 30):
        push, first = {}, {}
        for side in ("left", "right"):
            rows, first[side] = size + (side == "left"), len(arrived[side])
            keys = rng.integers(0, 2000, rows) * (1 if not wide else 0) + (rng.integers(0, 6, rows) if wide else 0)
            push[side] = pa.table({"k": keys, "i": np.sort(rng.integers(0, size, rows))})
        values = np.concatenate([push["left"]["i"].to_numpy(), push["right"]["i"].to_numpy()])
        places = np.empty(values.size, np.int64)
        places[np.argsort(values, kind="stable")] = np.arange(values.size)
        arrived["left"] += (at + places[: size + 1]).tolist()
        arrived["right"] += (at + places[size + 1 :]).tolist()
        at += values.size
        found = [in_groups(join.push(**push, order_by="i"), **arrived) for join in (fused, general)]
        assert found[0] == found[1]
    assert fused.finish().equals(general.finish())
    counters = ("pairs", "unmatched_left", "unmatched_right")
    assert [getattr(fused.stats, name) for name in counters] == [getattr(general.stats, name) for name in counters]
    unmatched = fused.stats.unmatched_left + fused.stats.unmatched_right
    assert unmatched > 0 or how == "left_semi"


# -- by hand -----------------------------------------------------------------------------------------------------------

ROWS = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])


def rows(*given: tuple[int, int | None, int, int]) -> pa.Table:
    """Rows of id, k, v and ts."""
    columns = list(zip(*given, strict=True)) or [[], [], [], []]
    return pa.table([pa.array(column, pa.int64()) for column in columns], schema=ROWS)


def named(how: str, window: sj.CountWindow | sj.TimeWindow, on: str = "l.k = r.k", **options: Any) -> sj.StreamJoin:
    """A join that gives the ids of both rows."""
    select = ["l.id"] if how in ("left_semi", "left_anti") else ["l.id", "r.id"]
    return sj.StreamJoin(on=on, window=window, how=how, select=select, schemas=(ROWS, ROWS), order="strict", **options)


def ids(table: pa.Table) -> list[Any]:
    """The ids of the output rows, as pairs or single ones."""
    found = list(zip(*table.to_pydict().values(), strict=True))
    return [row[0] if len(row) == 1 else row for row in found]


# left   0  1  2  3        window of the last 2: row 0 leaves with row 2, row 1 with row 3
# right        0           after left row 1: matches 1
def test_a_count_window_puts_a_row_out_when_it_is_displaced() -> None:
    join = named("left", sj.CountWindow(2))
    assert ids(join.push(left=rows((0, 7, 0, 0), (1, 5, 0, 0)), right=rows((9, 5, 0, 0)))) == [(1, 9)]
    assert ids(join.push(left=rows((2, 1, 0, 0)))) == [(0, None)]
    assert ids(join.push(left=rows((3, 2, 0, 0)))) == []  # 1 had a match
    assert ids(join.finish()) == [(2, None), (3, None)]
    assert (join.stats.pairs, join.stats.unmatched_left, join.stats.unmatched_right) == (1, 3, 0)


# time      0    10   11   12       left rows stay 10: row 0 is known after a watermark of 11
def test_a_time_window_puts_a_row_out_when_the_watermark_has_passed_it() -> None:
    join = named("full", sj.TimeWindow(10, on="ts"))
    assert ids(join.push(left=rows((0, 1, 0, 0)), right=rows((50, 2, 0, 10)))) == []
    assert ids(join.push(left=rows((1, 3, 0, 10)))) == []  # watermark 10: a right row of time 10 may still come
    assert ids(join.push(left=rows((2, 4, 0, 12)))) == []  # the right side is at 10
    out = join.push(right=rows((51, 4, 0, 11), (52, 8, 0, 12)))
    assert ids(out) == [(2, 51), (0, None)]  # behind the pairs of the arrival that moved the watermark
    assert ids(join.finish()) == [(1, None), (None, 50), (None, 52)]


@pytest.mark.parametrize("how", ["left", "left_anti"])
def test_a_residual_filter_decides_and_not_the_index(how: str) -> None:
    """The only candidate of row 0 fails the filter: it has no match, and is put out once, when it leaves."""
    join = named(how, sj.CountWindow(1), "l.k = r.k AND (l.v + r.v) % 2 = 0")
    out = join.push(left=rows((0, 5, 1, 0)), right=rows((9, 5, 2, 0)))
    assert ids(out) == []
    known = ids(join.push(left=rows((1, 5, 2, 0))))
    assert known == ([(1, 9), (0, None)] if how == "left" else [0])
    assert ids(join.finish()) == []


@pytest.mark.parametrize("how", HOWS)
def test_null_keys_and_failed_filters_change_nothing_in_when(how: str) -> None:
    join = named(how, sj.CountWindow(1), "l.k = r.k AND l.v > 0")
    found = ids(join.push(left=rows((0, None, 1, 0), (1, 5, 0, 0), (2, 5, 1, 0)), right=rows((9, None, 0, 0))))
    found += ids(join.push(right=rows((8, 5, 0, 0))))
    expected: dict[str, list[Any]] = {
        "left": [(0, None), (1, None), (2, 8)],
        "right": [(2, 8), (None, 9)],
        "full": [(0, None), (1, None), (2, 8), (None, 9)],
        "left_semi": [2],
        "left_anti": [0, 1],
    }
    assert found == expected[how]


@pytest.mark.parametrize(("how", "known"), [("left_anti", [0, 1]), ("left_semi", []), ("left", [(0, None), (1, None)])])
def test_a_predicate_that_never_holds(how: str, known: list[Any]) -> None:
    join = named(how, sj.CountWindow(2), "l.k = r.k AND 1 = 2")
    out = join.push(left=rows(*((n, 1, 1, 0) for n in range(4))), right=rows((9, 1, 1, 0)))
    assert ids(out) == known


def test_a_late_row_is_nowhere() -> None:
    join = named("full", sj.TimeWindow(2, on="ts"))
    join.push(left=rows((0, 1, 0, 20)), right=rows((9, 2, 0, 20)))
    assert ids(join.push(left=rows((1, 3, 0, 19)))) == []
    null = rows((2, 3, 0, 0)).set_column(3, "ts", pa.nulls(1, pa.int64()))
    assert ids(join.push(left=null)) == []
    assert ids(join.finish()) == [(0, None), (None, 9)]
    assert (join.stats.late_rows, join.stats.null_time_rows) == (1, 1)


def test_rows_of_a_self_join_have_a_match_by_role() -> None:
    """Row 1 is matched as right, by row 0 as left, and not as left."""
    join = named("full", sj.CountWindow(9), "l.k < r.k", self_join=True)
    assert ids(join.push(left=rows((0, 1, 0, 0), (1, 2, 0, 0)))) == [(0, 1)]
    assert ids(join.finish()) == [(1, None), (None, 0)]


@pytest.mark.parametrize("window", [sj.CountWindow(3), sj.TimeWindow(3, on="ts")], ids=["count", "time"])
def test_a_side_that_never_comes(window: sj.CountWindow | sj.TimeWindow) -> None:
    """A count window goes on; in a time window nothing is known before `finish`, as there is no watermark."""
    join = named("left", window)
    found = [row for n in range(9) for row in ids(join.push(left=rows((n, 1, 0, n))))]
    assert found == ([(n, None) for n in range(6)] if isinstance(window, sj.CountWindow) else [])
    assert ids(join.finish()) == [(n, None) for n in range(len(found), 9)]


def test_snapshot_between_match_and_departure() -> None:
    join = named("left", sj.CountWindow(2))
    join.push(left=rows((0, 5, 0, 0), (1, 6, 0, 0)), right=rows((9, 5, 0, 0)))
    join = sj.StreamJoin.restore(join.snapshot())
    assert ids(join.push(left=rows((2, 1, 0, 0), (3, 1, 0, 0)))) == [(1, None)]


TYPES: dict[str, pa.Array[Any]] = {
    "texts": pa.array(["a", "a text that is longer than a record has room for"]),
    "dictionary": pa.array(["a", "b"]).dictionary_encode(),
    "lists": pa.array([[1], [2, 3]]),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "decimal": pa.array([1, 2], pa.decimal128(7, 2)),
    "views": pa.array(["a", "b"], pa.string_view()),
    "bools": pa.array([True, False]),
    "times": pa.array([1, 2], pa.timestamp("ms", "UTC")),
}


@pytest.mark.parametrize("name", TYPES)
def test_missing_rows_are_null_in_every_type(name: str) -> None:
    """Each side's column is there in a pair, and NULL where the row is missing; fields become nullable."""
    values = TYPES[name]
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("c", values.type, nullable=False)])
    left, right = (pa.table([pa.array(keys, pa.int64()), values], schema=schema) for keys in ([1, 2], [2, 3]))
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(5), how="full", schemas=(schema, schema))
    out = pa.concat_tables([join.push(left=left, right=right), join.finish()])
    out.validate(full=True)
    assert all(field.nullable for field in out.schema)
    first, second = values.to_pylist()
    assert out.column("c").to_pylist() == [second, first, None]
    assert out.column("c_right").to_pylist() == [first, None, second]
    assert out.column("c_right").type == values.type


# -- larger data -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
def test_tables_at_rest_beside_duckdb(how: str) -> None:
    """In a window that holds all rows a join of streams is one of tables."""
    duckdb = pytest.importorskip("duckdb")
    random = np.random.default_rng(4)
    left, right = (
        pa.table(
            {
                "id": np.arange(5000),
                "k": pa.array(random.integers(0, 4000, 5000), mask=random.random(5000) < 0.05),
                "x": random.integers(0, 100, 5000),
            }
        )
        for _ in range(2)
    )
    kind = {"left_semi": "SEMI", "left_anti": "ANTI"}.get(how, how.upper())
    columns = "l.id" if how in ("left_semi", "left_anti") else "l.id, r.id"
    on = "l.k = r.k AND l.x BETWEEN r.x - 30 AND r.x + 30 AND (l.x + r.x) % 3 > 0"
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("lefts", left)
        database.register("rights", right)
        found = database.execute(f"SELECT {columns} FROM lefts l {kind} JOIN rights r ON {on}").fetchall()  # noqa: S608
    join = sj.StreamJoin(
        on=on, window=sj.CountWindow(10_000), how=how, select=columns.split(", "), schemas=(left.schema, right.schema)
    )
    out = [join.push(left=left.slice(n, 700), right=right.slice(n, 700)) for n in range(0, 5000, 700)]
    table = pa.concat_tables([*out, join.finish()])
    ours = list(zip(*table.to_pydict().values(), strict=True))
    assert len(ours) > 1000
    assert sorted(map(repr, ours)) == sorted(map(repr, found))


@pytest.mark.parametrize(
    "window", [sj.CountWindow(500), sj.TimeWindow(100, on="ts", lateness=20)], ids=["count", "time"]
)
@pytest.mark.parametrize("how", HOWS)
def test_memory_is_flat(how: str, window: sj.CountWindow | sj.TimeWindow) -> None:
    """A hundred windows of a stream with a constant rate: no more bytes than after a few."""
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    join = sj.StreamJoin(on="l.k = r.k", window=window, how=how, output="positions", schemas=(schema, schema))
    random, bytes_after = np.random.default_rng(2), []
    for start in range(0, 50_000, 250):
        times = np.arange(start, start + 250) // 5
        left, right = (
            pa.table({"k": random.integers(0, 2000, 250), "ts": times - random.integers(0, 10, 250)}, schema=schema)
            for _ in range(2)
        )
        join.push(left=left, right=right, order_by=None)
        bytes_after.append(join.stats.window_bytes)
    assert join.stats.unmatched_left + join.stats.unmatched_right > 10_000 or how == "left_semi"
    assert max(bytes_after[100:]) <= 1.1 * max(bytes_after[:100])
    operator = join._state.operator
    assert operator is not None
    for one in operator.windows.values():
        assert one.matched is None or one.matched.nbytes < 50_000


# -- arguments ---------------------------------------------------------------------------------------------------------


def test_right_columns_of_a_semi_join_are_refused() -> None:
    with pytest.raises(sj.PredicateError, match=r"'r.v', but how='left_anti' outputs left columns only; use l.id, l.k"):
        sj.StreamJoin(
            on="l.k = r.k", window=sj.CountWindow(5), how="left_anti", select=["l.id", "r.v"], schemas=(ROWS, ROWS)
        )


def test_punctuations_of_a_restored_join_are_refused() -> None:
    state = named("left", sj.CountWindow(5)).snapshot()
    with pytest.raises(sj.ArgumentError, match="got how='left'; use punctuation=False"):
        sj.StreamJoin.restore(state, topology=SplitJoin(punctuation=True))


def test_no_suffix_collides_in_a_semi_join() -> None:
    left = pa.schema([("k", pa.int64()), ("k_right", pa.int64())])
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(5), how="left_semi", schemas=(left, ROWS))
    assert join.push(left={"k": [1], "k_right": [2]}).column_names == ["k", "k_right"]


def test_a_push_beyond_the_memory_limit_changes_nothing() -> None:
    join = named("full", sj.TimeWindow(1000, on="ts"), memory_limit=400_000)
    join.push(left=rows((0, 1, 0, 0)), right=rows((9, 1, 0, 0)))
    many = rows(*((n, n, 0, 1) for n in range(20_000)))
    with pytest.raises(sj.MemoryLimitError, match="none of the rows was added"):
        join.push(left=many, right=many)
    assert ids(join.finish()) == []


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("full", "rows without a match: left and right ones, emitted when they have left the window, or by finish()"),
        ("left_semi", "left rows: each once, with its first match"),
    ],
)
def test_explain(how: str, text: str) -> None:
    assert text in str(named(how, sj.CountWindow(5)).explain())
    assert text in str(named(how, sj.CountWindow(5), "l.k = r.k OR l.v = r.v").explain())


def test_streams_feeds_and_coroutines() -> None:
    """All that pushes into a join also gives what `finish` gives."""
    left = [rows((0, 1, 0, 0), (1, 2, 0, 0)), rows((2, 3, 0, 0))]
    right = [rows((9, 2, 0, 0))]
    options: dict[str, Any] = {"on": "l.k = r.k", "window": sj.CountWindow(2), "how": "left", "select": ["l.id"]}
    expected = [1, 0, 2]
    assert [n for table in sj.join_streams(left, right, **options) for n in ids(table)] == expected
    with sj.Feed(sj.StreamJoin(**options, schemas=(ROWS, ROWS))) as feed:
        feed.put(left[0], right[0])
        feed.put(left[1])
        feed.close()
        assert [n for table in feed for n in ids(table)] == expected

    async def pushed() -> list[Any]:
        join = sj.StreamJoin(**options, schemas=(ROWS, ROWS))
        found = ids(await join.push_async(left[0], right[0])) + ids(await join.push_async(left[1]))
        return found + ids(join.finish())

    assert asyncio.run(pushed()) == expected
