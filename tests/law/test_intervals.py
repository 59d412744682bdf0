"""Ranges that are closed by the longest interval of the window find all pairs, whatever comes and leaves."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.advisors import PairAdvisor
from tests.daily import some_by_day
from tests.law.checks import (
    ORDERS,
    assert_counts,
    assert_groups,
    assert_pairs,
    examples,
    lines,
    pair_lines,
)
from tests.narrow import limits, set_limits, tune
from tests.strategies import FAMILIES, TIME_FAMILIES, Case, Family, count_windows, pushes, tables, time_windows

if TYPE_CHECKING:
    from tests.strategies import Node

ORDERED = {name: one for name, one in FAMILIES.items() if one.offsets} | {
    # Intervals that are short beside their domain, and some that are not.
    "short": Family(
        "short", {kind: [0, 1, 2, 3, 4, 20, 21, 22, 90, 91] for kind in FAMILIES["int"].domains}, (), (0, 1, 3)
    ),
}


def col(side: str, name: str) -> Node:
    return "col", side, name


@st.composite
def intervals(draw: st.DrawFn, *, self_join: bool = False) -> Case:
    """A value between two columns of the other side, intervals that overlap or lie in each other, and more terms."""
    family = ORDERED[draw(st.sampled_from(["short", "short", "int", "float", *ORDERED]))]
    timed = draw(st.sampled_from(["int", "naive", "zoned"]))
    domains = dict.fromkeys("ab", family.domains) | {"s": FAMILIES["int"].domains, "ts": TIME_FAMILIES[timed]}
    domains["c"] = ORDERED["short"].domains
    kinds = []
    for _ in ("left", "right"):
        made: dict[Any, Any] = {}
        for name, choices in domains.items():
            kind = draw(st.sampled_from(list(choices)))
            if name == "b" and draw(st.booleans()):
                kind = made["a"][0]  # both ends have one type, mostly
            made[name] = kind, choices[kind][:: draw(st.sampled_from([1, 2]))]
        kinds.append(made)
    left = draw(tables(kinds[0], 16, ordered=True))
    right = left if self_join else draw(tables(kinds[1], 16, ordered=True))
    one, two = draw(st.permutations(["left", "right"]))
    plus, minus = (("lit", draw(st.sampled_from(family.offsets))) for _ in "pm")
    low, high = (">=", ">"), ("<=", "<")
    form = draw(st.sampled_from(["between", "between", "overlap", "inside", "opposite"]))
    if form == "between":
        ends = col(one, "a"), ("-", col(two, "a"), minus), ("+", col(two, "b"), plus)
        terms: list[Node] = [("between", *ends)]
        if draw(st.booleans()):
            terms = [(draw(st.sampled_from(low)), ends[0], ends[1]), (draw(st.sampled_from(high)), ends[0], ends[2])]
    elif form == "overlap":
        terms = [(draw(st.sampled_from(high)), col(at, "a"), col(to, "b")) for at, to in ((one, two), (two, one))]
    elif form == "inside":
        terms = [(">=", col(one, "a"), col(two, "a")), (draw(st.sampled_from(high)), col(one, "b"), col(two, "b"))]
    else:
        terms = [("<", col(one, "a"), ("+", col(two, "a"), plus)), (">", col(one, "b"), ("-", col(two, "b"), minus))]
    more: list[Node] = [
        ("=", col("left", "s"), col("right", "s")),
        ("<", col("left", "c"), col("right", "c")),
        ("between", col("left", "c"), ("-", col("right", "c"), ("lit", 1)), ("+", col("right", "c"), ("lit", 2))),
        col("left", "flag"),
        ("<>", col("left", "id"), col("right", "id")),
    ]
    terms += draw(st.lists(st.sampled_from(more), max_size=2, unique_by=repr))
    window = draw(count_windows(draw(st.sampled_from([3, 6, 30]))) if draw(st.booleans()) else time_windows(timed))
    case = Case(
        ("and", *draw(st.permutations(terms))), window, left, right, self_join=self_join, as_text=draw(st.booleans())
    )
    case.pushes = draw(pushes(left, right, draw(st.sampled_from([2, 5, 9]))))
    return case


def closed_always(patch: pytest.MonkeyPatch, choices: list[tuple[int, float]]) -> None:
    """Change to one closed range after the other, at each push, with cells of these widths."""
    turns = cycle(choices)

    def better(advisor: PairAdvisor, used: Any, *_: Any) -> Any:
        closed = [one for one in advisor._choices if one.pair is not None]
        place, width = next(turns)
        if not closed or place < 0:
            return None  # what is used goes on, for more than one push
        chosen = closed[place % len(closed)]
        return chosen._replace(widths=(width, 2 * width)) if chosen.algorithm == "band_cells" else chosen

    patch.setattr(PairAdvisor, "due", lambda *_: True)
    patch.setattr(PairAdvisor, "better", better)


choices = st.lists(
    st.tuples(st.integers(-6, 20), st.sampled_from([0, 1, 4, 0.25, 2.0**33])), min_size=1, max_size=4
).map(lambda drawn: [(max(drawn[0][0], 0), drawn[0][1]), *drawn[1:]])
blocks = st.sampled_from([1, 2, 16])


@examples(120)
@given(case=intervals(), order=st.sampled_from(ORDERS), chosen=choices, some=blocks, given_limits=limits)
def test_pairs(
    case: Case, order: str, chosen: list[tuple[int, float]], some: int, given_limits: dict[str, int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        closed_always(patch, chosen)
        patch.setattr("slidejoin.operator.window.distances.BLOCKS", some)
        set_limits(patch, **given_limits)
        assert_pairs(case, order)


@examples(60)
@given(case=intervals(self_join=True), chosen=choices, some=blocks)
def test_pairs_of_self_joins(case: Case, chosen: list[tuple[int, float]], some: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        closed_always(patch, chosen)
        patch.setattr("slidejoin.operator.window.distances.BLOCKS", some)
        assert_pairs(case, "strict")


@examples(60)
@given(case=intervals(), chosen=choices, given_limits=limits)
def test_counts(case: Case, chosen: list[tuple[int, float]], given_limits: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        closed_always(patch, chosen)
        set_limits(patch, **given_limits)
        assert_counts(case)


@examples(60)
@given(case=intervals(), order=st.sampled_from(ORDERS), algorithm=st.sampled_from(["auto", "bi_sort", "planar"]))
def test_choices_by_samples_of_a_few_rows(case: Case, order: str, algorithm: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, EARLY=0, LEAST=1, CHANGE_COST=0)
        tune(patch, terms_stay=0.5)
        tune(patch, terms_patience=0.0)
        assert_pairs(case, order, algorithm=algorithm)


@examples(40)
@given(case=intervals(), chosen=choices, data=st.data())
def test_restarts(case: Case, chosen: list[tuple[int, float]], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        closed_always(patch, chosen)
        join = case.join(order="strict")
        for push, steps in zip(case.pushes, case.steps(case.oracle()), strict=True):
            if data.draw(st.booleans()):
                join = sj.StreamJoin.restore(join.snapshot())
            assert_groups(lines(join.push(**push.arguments(self_join=False))), pair_lines(steps), "strict")


# -- larger streams ----------------------------------------------------------------------------------------------------

BETWEEN = "l.p BETWEEN r.a - 3 AND r.b + 3"
OVERLAP = "l.a <= r.b AND r.a <= l.b"


def drawn(rng: np.random.Generator, rows: int, kind: str, *, longest: int = 20, far: int = 0) -> dict[str, Any]:
    """Values and short intervals, `far` of them long."""
    a = rng.integers(0, 100_000, rows)
    b = a + rng.integers(0, longest, rows)
    b[:far] += 90_000
    columns: dict[str, Any] = {"p": rng.integers(0, 100_000, rows), "a": a, "b": b, "s": rng.integers(0, 4, rows)}
    if kind == "float":
        columns |= {name: columns[name] / 7 - 5000 for name in "pab"}
    if kind == "time":
        columns |= {name: columns[name].astype("datetime64[s]") for name in "pab"}
    return columns


@pytest.mark.parametrize(
    ("kind", "on", "output"),
    some_by_day(["int", "float"], [BETWEEN, OVERLAP, f"l.s = r.s AND {BETWEEN}"], ["positions", "count"]),
)
def test_long_intervals_come_and_leave(on: str, kind: str, output: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While all are short the range is closed; while one is long it is not; and then it is again."""
    set_limits(monkeypatch, CHANGE_COST=1.0, ENOUGH=1 << 11)
    rng, used = np.random.default_rng(3), []
    window = sj.CountWindow(8000)
    joins = [
        sj.StreamJoin(on=on, window=window, order="strict", output=output, **more)
        for more in ({}, {"algorithm": "planar"})
    ]
    for far in (0, 1, 0):
        for _ in range(14):
            # The distances grow within a push, and with a part of it.
            batches = [drawn(rng, 1000, kind, far=far), drawn(rng, 1000, kind, far=far)]
            one, two = (join.push(*batches) for join in joins)
            assert one.equals(two)
        used.append(joins[0]._state.operator.windows["right"].chosen.pair is not None)
    assert used == [True, False, True]
    told = joins[0].explain()
    assert "closed by the longest interval of the window, and checked row by row: " in told
    assert "warning" not in told


@pytest.mark.parametrize("rows", [1, 7, 300])
def test_pushes_of_any_size(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, CHANGE_COST=0.0, ENOUGH=1 << 9)
    rng = np.random.default_rng(rows)
    joins = [
        sj.StreamJoin(on=on, window=sj.CountWindow(500), order="none", **more)
        for on in (BETWEEN, OVERLAP)
        for more in ({"output": "positions"}, {"output": "positions", "algorithm": "nested_loop"})
    ]
    for one, two in (joins[:2], joins[2:]):
        for number in range(3 + 400 // rows):
            batches = [drawn(rng, size, "int", longest=200, far=number % 9 == 0) for size in (rows, rows + number % 3)]
            ours, theirs = (join.push(*batches) for join in (one, two))
            assert sorted(zip(*ours.to_pydict().values(), strict=True)) == sorted(
                zip(*theirs.to_pydict().values(), strict=True)
            )
