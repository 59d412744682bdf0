"""Outer, semi and anti joins give the rows of the law, each at its moment: all windows, predicates, orders, outputs."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.fused import small_push
from slidejoin.options import CellJoin, HandshakeLowLatency, RoundRobin, SplitJoin
from tests.law.checks import ORDERS, assert_groups, examples, lines
from tests.law.join_types import HOWS, Lines, assert_join_type
from tests.law.test_branches import unions
from tests.law.test_composite_keys import composites
from tests.narrow import limits, narrow_cases, set_limits
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
@examples(50)
@given(data=st.data(), how=any_how, order=FAST, output=any_output, given_limits=limits, threads=st.sampled_from([1, 2]))
def test_cells(
    window: str, data: st.DataObject, how: str, order: str, output: str, given_limits: dict[str, int], threads: int
) -> None:
    """Plain terms and small limits: the fused paths, and every way out of them."""
    case = data.draw(narrow_cases(window=window, family="near", plain=data.draw(st.booleans())))
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        patch.setattr(small_push, "MOST_ROWS", data.draw(st.sampled_from([0, 4, 1 << 10])))
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


TOPOLOGIES = [
    CellJoin(workers=3, basic_window=1, batch=1),
    SplitJoin(cores=3, ordering="inner", every=2),
    HandshakeLowLatency(cores=3),
    RoundRobin(cores=3),
]


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda one: one.name)
@examples(15)
@given(case=cases(most=16), how=any_how, order=any_order, threads=st.sampled_from([1, 2]))
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
