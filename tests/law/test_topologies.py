"""Every topology obeys the law, whatever index is inside its cores and however many cores there are."""

from __future__ import annotations

import random
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.options import TOPOLOGIES as KNOWN
from slidejoin.options import CellJoin, Shared, Topology
from tests.law.checks import (
    ORDERS,
    assert_counts,
    assert_groups,
    assert_pairs,
    assert_stats,
    count_lines,
    examples,
    lines,
    pair_lines,
)
from tests.law.test_branches import unions
from tests.law.test_composite_keys import composites, served
from tests.law.test_positions import assert_positions
from tests.narrow import set_limits
from tests.strategies import cases

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.strategies import Case


def cell_join(cores: int, draw: random.Random) -> Topology:
    return CellJoin(
        workers=cores,
        batch=draw.choice([None, 1]),
        basic_window=draw.choice([None, 1]),
        adaptive=draw.random() < 0.2,
    )


TOPOLOGIES: dict[str, Callable[[int, random.Random], Topology]] = {"cell_join": cell_join}
"""How to make each topology with so many cores; what else it has is drawn."""

for each in TOPOLOGIES:
    import_module(KNOWN[each].home[0])  # so that its limits can be set

LIMITS: dict[str, list[int]] = {
    "FEWEST_ROWS": [1, 3, 1 << 10],  # rows of a basic window
    "UNIT_BLOCK": [1, 3, 8],  # rows of a batch
    "HANDOVER": [0, 200_000],  # threads
    "SMALLEST_SPREAD": [1, 1 << 13],
    "SMALLEST_SLICE": [1, 3, 1 << 11],
    "FIRST_ROOM": [1, 1 << 12],
    "KEPT_A_PROBE": [0, 1, 32],
    "MOST_KEPT": [0, 5, 1 << 22],
    "PUSHES": [1, 8],
}
ALGORITHMS = (
    "auto",
    "auto",
    "nested_loop",
    "nested_loop",
    "band_cells",
    "bi_sort",
    "planar",
    "po_join",
    "pim_tree",
    "chained_css_tree",
    "wib_tree",
    "hash",
)
names = pytest.mark.parametrize("name", list(TOPOLOGIES))
limits = st.one_of(
    st.fixed_dictionaries({name: st.just(values[0]) for name, values in LIMITS.items()}),
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in LIMITS.items()}),
)
orders, algorithms, threads = st.sampled_from(ORDERS), st.sampled_from(ALGORITHMS), st.sampled_from([1, 2])
any_case = st.one_of(
    cases(most=16), cases(most=16), cases(most=12, self_join=True), composites(), unions(most=12)
)  # fmt: skip


@st.composite
def topologies(draw: st.DrawFn, name: str) -> Topology:
    """A topology of that name, with one to five cores."""
    return TOPOLOGIES[name](draw(st.integers(1, 5)), random.Random(draw(st.integers(0, 1 << 16))))


def options_of(data: st.DataObject, name: str, case: Case) -> dict[str, Any]:
    """What a join is made with."""
    return {
        "topology": data.draw(topologies(name)),
        "algorithm": served(case, data.draw(algorithms)),
        "threads": data.draw(threads),
    }


@names
@examples(70)
@given(data=st.data(), case=any_case, order=orders, given_limits=limits)
def test_pairs(name: str, data: st.DataObject, case: Case, order: str, given_limits: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_pairs(case, order, **options_of(data, name, case))


@names
@examples(40)
@given(data=st.data(), case=any_case, given_limits=limits)
def test_counts(name: str, data: st.DataObject, case: Case, given_limits: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_counts(case, **options_of(data, name, case))


@names
@examples(25)
@given(data=st.data(), case=any_case, order=orders, given_limits=limits)
def test_positions(name: str, data: st.DataObject, case: Case, order: str, given_limits: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_positions(case, order, **options_of(data, name, case))


@names
@examples(40)
@given(data=st.data(), case=st.one_of(cases(most=14), cases(most=12, self_join=True)), given_limits=limits)
def test_restarts_with_other_topologies(
    name: str, data: st.DataObject, case: Case, given_limits: dict[str, int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        output = data.draw(st.sampled_from(["pairs", "count"]))
        join, oracle = case.join(order="strict", output=output, **options_of(data, name, case)), case.oracle()
        for push, steps in zip(case.pushes, case.steps(oracle), strict=True):
            if data.draw(st.booleans()):
                others = options_of(data, name, case)
                if data.draw(st.booleans()):
                    others["topology"] = data.draw(st.sampled_from(["auto", Shared()]))
                join = sj.StreamJoin.restore(join.snapshot(), **others)
            got = lines(join.push(**push.arguments(self_join=case.self_join)))
            if output == "count":
                assert got == count_lines(case, steps)
            else:
                assert_groups(got, pair_lines(steps), "strict")
        assert_stats(join, oracle)


@names
@examples(25)
@given(data=st.data(), case=any_case, order=orders, given_limits=limits)
def test_tables_of_a_push_that_is_closed_early(
    name: str, data: st.DataObject, case: Case, order: str, given_limits: dict[str, int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        join = case.join(order=order, **options_of(data, name, case))
        for push, steps in zip(case.pushes, case.steps(case.oracle()), strict=True):
            tables = join.push_iter(**push.arguments(self_join=case.self_join))
            if data.draw(st.integers(0, 3)) == 0:
                next(tables, None)
                tables.close()  # type: ignore[attr-defined] # the rows are taken, what they produce is not
            else:
                rows = [line for table in tables for line in lines(table)]
                assert_groups(rows, pair_lines(steps), order)


# -- larger streams, against the shared topology -----------------------------------------------------------------------

PREDICATES = [
    "l.a BETWEEN r.a - 3 AND r.a + 3",
    "l.a = r.a AND l.b < r.b",
    "l.a < r.a AND l.b > r.b AND l.b < r.b + 40",
    "l.a = r.a OR l.b = r.b",
    "l.s = r.s AND l.a <> r.a",
]
WINDOWS = [
    sj.CountWindow(700),
    sj.CountWindow(left=300, right=900, slide=7),
    sj.TimeWindow(900, on="ts", lateness=10**7),
]


def stream(rows: int, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Rows whose times go on, with one far ahead now and then."""
    draw = np.random.default_rng(seed)
    ahead = np.where(draw.random(rows) < 0.002, 10**7, 0)
    return {
        "a": draw.integers(0, 2000, rows),
        "b": draw.integers(-(2**62), 2**62, rows) // 2**55,
        "s": draw.integers(0, 300, rows).astype(str),
        "ts": seed * 200 + np.sort(draw.integers(0, 200, rows)) + ahead,
    }


@names
@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize("window", WINDOWS, ids=["count", "slide", "time"])
@pytest.mark.parametrize("on", PREDICATES)
def test_long_streams(on: str, window: sj.CountWindow | sj.TimeWindow, cores: int, name: str) -> None:
    topology = TOPOLOGIES[name](cores, random.Random(f"{on} {cores}"))
    for algorithm in ("auto", "nested_loop"):
        with pytest.MonkeyPatch.context() as patch:
            set_limits(patch, HANDOVER=0, FEWEST_ROWS=50)
            joins = [
                sj.StreamJoin(
                    on=on,
                    window=window,
                    order="strict",
                    output="positions",
                    algorithm=algorithm,
                    threads=2,
                    topology=one,
                )
                for one in ("shared", topology)
            ]
            for number, rows in enumerate((1, 300, 40, 2500, 7, 500, 500)):
                left, right = stream(rows, 2 * number), stream(rows, 2 * number + 1)
                one, two = (join.push(left, right, order_by="ts") for join in joins)
                assert one.equals(two)
            assert joins[0].stats.pairs > 0


# -- failures ----------------------------------------------------------------------------------------------------------


@names
@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit("died")])
@pytest.mark.parametrize("call", [0, 1, 5])
@pytest.mark.parametrize("algorithm", ["bi_sort", "nested_loop"])
def test_a_worker_that_fails_ends_the_push(
    algorithm: str, call: int, error: BaseException, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, HANDOVER=0, FEWEST_ROWS=4, SMALLEST_SPREAD=1)
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(50), algorithm=algorithm, threads=2,
        topology=TOPOLOGIES[name](3, random.Random(1)),
    )  # fmt: skip
    rows = {"a": list(range(60))}
    join.push(left=rows, right=rows)
    calls = fail_at(monkeypatch, algorithm, call, error)
    with pytest.raises(type(error), match=str(error)):
        join.push(left=rows, right=rows)
    assert len(calls) > call
    monkeypatch.undo()
    with pytest.raises(sj.JoinClosedError, match=str(error)):
        join.push(left=rows)


def fail_at(patch: pytest.MonkeyPatch, algorithm: str, call: int, error: BaseException) -> list[None]:
    """Let the index inside a core raise at its call of that number, when asked; return the list of calls."""
    from slidejoin.index.scans.nested_loop import NestedLoopIndex
    from slidejoin.index.sorted_runs.bi_sort import BiSortIndex

    calls: list[None] = []
    owner, method = (NestedLoopIndex, "walk_rows") if algorithm == "nested_loop" else (BiSortIndex, "probe")
    whole = getattr(owner, method)

    def failing(*args: Any, **keywords: Any) -> Any:
        calls.append(None)
        if len(calls) > call:
            raise error
        return whole(*args, **keywords)

    patch.setattr(owner, method, failing)
    return calls
