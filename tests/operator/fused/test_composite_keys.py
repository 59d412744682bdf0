"""Composite keys of integers go the fused way while their layouts have room, and give what the general way gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.fused import cells, small_push
from slidejoin.operator.fused.terms import FusedTerms
from tests.law.checks import ORDERS, assert_counts, assert_pairs, examples
from tests.law.test_composite_keys import BITS, few_bits
from tests.narrow import tune
from tests.operator.twins import Twins
from tests.strategies import Case, count_windows, pushes, tables, time_windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.strategies import Node

KINDS = {"a": pa.int64(), "b": pa.int64(), "c": pa.int64(), "h": pa.int32(), "i": pa.int64()}
SCHEMA = pa.schema(list(KINDS.items()))
PREDICATES = [
    "l.a = r.a AND l.b BETWEEN r.b - 2 AND r.b + 3",
    "l.a = r.a AND l.c = r.c",
    "l.a = r.a + 1 AND l.c + r.c = 2 AND l.b BETWEEN r.b + 1 AND r.b + 4",
    "l.a = r.c AND l.h = r.h AND ABS(l.b - r.b) <= 1",
    "l.a = r.a AND l.c = r.c AND l.b < r.b",
    "l.a = r.a AND l.b BETWEEN r.b - 2 AND r.b + 3 AND l.c <> r.c AND l.h >= r.h",
    "l.a = r.a AND l.b BETWEEN r.b - 2 AND r.b + 3 AND (l.c + r.h) % 2 = 0 AND l.h > 0",
    "l.a = r.a AND l.c = 2 * r.c",
    "l.a = r.a AND l.c = r.c AND l.h = r.h AND (l.b < r.b OR l.b = r.a)",
]
CALM = st.integers(0, 3)
WILD = st.one_of(CALM, CALM, st.integers(-40, 40), st.sampled_from([2**63 - 1, -(2**63), 2**40, -(2**62), 2**62]))


@st.composite
def rows_of_a_push(draw: st.DrawFn, *, wild: bool) -> dict[str, Any]:
    """One push: mostly values that have room, or such as come from far away, and a NULL at times."""
    push: dict[str, Any] = {"order_by": draw(st.sampled_from([None, "i", "i"]))}
    values = WILD if wild else CALM
    for side in ("left", "right"):
        rows = draw(st.sampled_from([0, 1, 2, 5, 16, 50]))
        columns = {name: draw(st.lists(values, min_size=rows, max_size=rows)) for name in "abc"}
        columns["h"] = draw(st.lists(CALM, min_size=rows, max_size=rows))
        columns["i"] = sorted(draw(st.lists(st.integers(0, 9), min_size=rows, max_size=rows)))
        if rows and not draw(st.integers(0, 9)):
            columns[draw(st.sampled_from("abch"))][-1] = None
        push[side] = pa.table([pa.array(columns[name], kind) for name, kind in KINDS.items()], schema=SCHEMA)
    return push


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Pushes whose values are calm at first, and some of which may make the layouts of keys wider."""
    wild = draw(st.lists(st.sampled_from([False, False, False, True]), min_size=2, max_size=7))
    return [draw(rows_of_a_push(wild=one)) for one in wild]


@pytest.fixture(params=["as it is", "tiny"])
def limits(request: pytest.FixtureRequest) -> Iterator[None]:
    """Once with limits so small that every way out of the short way is taken."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "tiny":
            tune(patch, small_push_rows=12, small_push_pairs=40, push_spread=4)
        yield


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("output", ["pairs", "positions", "count"])
@examples(20)
@given(
    on=st.sampled_from(PREDICATES), made=streams(), size=st.integers(1, 90), slide=st.integers(1, 3),
    threads=st.integers(1, 2), order=st.sampled_from(["probe", "none"]), bits=st.sampled_from(BITS),
)  # fmt: skip
def test_both_ways_are_one(
    output: str, on: str, made: list[dict[str, Any]], size: int, slide: int, threads: int, order: str, bits: int
) -> None:
    window = sj.CountWindow(left=size, right=size + 3, slide=min(slide, size))
    options: dict[str, Any] = {
        "on": on, "window": window, "output": output, "threads": threads, "order": order, "schemas": (SCHEMA, SCHEMA),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        few_bits(patch, bits)
        both = Twins(sj.StreamJoin(**options), **options)
        for number, push in enumerate(made):
            both.push(push)
            if number == len(made) // 2:
                both.fused = sj.StreamJoin.restore(both.fused.snapshot())
        assert both.fused.stats.pairs == both.general.stats.pairs


@pytest.mark.parametrize("output", ["pairs", "positions", "count"])
@examples(15)
@given(
    on=st.sampled_from(PREDICATES), made=streams(), lengths=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    late=st.integers(0, 9), bits=st.sampled_from(BITS),
)  # fmt: skip
def test_both_ways_are_one_over_time(
    output: str, on: str, made: list[dict[str, Any]], lengths: tuple[int, int], late: int, bits: int
) -> None:
    window = sj.TimeWindow(left=lengths[0], right=lengths[1], left_on="i", right_on="i", lateness=late)
    options: dict[str, Any] = {"on": on, "window": window, "output": output, "schemas": (SCHEMA, SCHEMA)}
    with pytest.MonkeyPatch.context() as patch:
        few_bits(patch, bits)
        both = Twins(sj.StreamJoin(**options), **options)
        for number, push in enumerate(made):
            both.push(push)
            if number == len(made) // 2:
                both.fused = sj.StreamJoin.restore(both.fused.snapshot())
        assert both.fused.stats.late_rows == both.general.stats.late_rows


# -- the law -----------------------------------------------------------------------------------------------------------


@st.composite
def cases_of_integers(draw: st.DrawFn, *, self_join: bool = False) -> Case:
    """Small joins on one or two equalities of integers, mostly with a band beside them."""

    def both(name: str) -> tuple[Node, Node]:
        return ("col", "left", name), ("col", "right", name)

    far = draw(st.sampled_from([[], [40], [2**40, -(2**63)]]))
    few = [0, 1, 2, *far]
    kinds = {"a": (pa.int64(), few), "c": (pa.int64(), few), "b": (pa.int64(), [0, 1, 2, 3, 4, *far])}
    kinds["ts"] = (pa.int64(), [0, 1, 2, 3, 4])
    left = draw(tables(kinds, 24, ordered=True))
    right = left if self_join else draw(tables(kinds, 24, ordered=True))
    terms: list[Node] = [("=", *both("a"))]
    if draw(st.booleans()):
        terms.append(("=", *both("c")))
    if len(terms) == 1 or draw(st.booleans()):
        below, above = (("lit", draw(st.integers(0, 2))) for _ in "ab")
        one, two = both("b")
        terms.append(("between", one, ("-", two, below), ("+", two, above)))
    (b, d), (ts, at) = both("b"), both("ts")
    more: list[Node] = [
        ("<", b, d),
        ("<>", ts, at),
        ("or", ("=", b, at), ("<", ("+", b, d), ("lit", 3))),
        (">", b, ("lit", 1)),
    ]
    terms += draw(st.lists(st.sampled_from(more), max_size=2))
    window = draw(count_windows() if draw(st.booleans()) else time_windows("int"))
    case = Case(("and", *terms), window, left, right, self_join=self_join)
    case.pushes = draw(pushes(left, right, 6))
    return case


@examples(60)
@given(case=cases_of_integers(), order=st.sampled_from(ORDERS), bits=st.sampled_from(BITS))
def test_pairs_are_the_law(case: Case, order: str, bits: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_bits(patch, bits)
        assert_pairs(case, order)


@examples(30)
@given(case=st.one_of(cases_of_integers(), cases_of_integers(self_join=True)), bits=st.sampled_from(BITS))
def test_counts_are_the_law(case: Case, bits: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_bits(patch, bits)
        assert_counts(case)


# -- which way ---------------------------------------------------------------------------------------------------------


def taken_by(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which the name of each fused push that runs is added."""
    taken: list[str] = []
    for kind in (small_push.SmallPush, cells.FusedCells):

        def watched(self: Any, *args: Any, run: Any = kind.run) -> pa.Table:
            taken.append(type(self).__name__)
            return run(self, *args)

        monkeypatch.setattr(kind, "run", watched)
    return taken


def rows(count: int, seed: int, most: int = 50) -> pa.Table:
    draw = np.random.default_rng(seed)
    columns = {name: draw.integers(0, most, count) for name in "abch"} | {"i": np.full(count, seed)}
    return pa.table([pa.array(columns[name]).cast(kind) for name, kind in KINDS.items()], schema=SCHEMA)


@pytest.mark.parametrize("on", PREDICATES[:3])
@pytest.mark.parametrize("output", ["pairs", "positions", "count"])
def test_pushes_are_fused_while_values_have_room(monkeypatch: pytest.MonkeyPatch, on: str, output: str) -> None:
    taken = taken_by(monkeypatch)
    options: dict[str, Any] = {"on": on, "window": sj.CountWindow(3000), "output": output, "schemas": (SCHEMA, SCHEMA)}
    both = Twins(sj.StreamJoin(**options), **options)
    both.push({"left": rows(1000, 1), "right": rows(1000, 2)})  # makes the layout
    assert not taken
    for number in range(20):
        both.push({"left": rows(40, 3 * number), "right": rows(40, 3 * number + 1)})
    assert len(taken) > 15
    if output != "count":
        assert "SmallPush" in taken
    before = len(taken)
    both.push({"left": rows(40, 100, 500), "right": rows(40, 101)})  # makes a wider one
    both.push({"left": rows(40, 102, 300), "right": rows(40, 103)})
    assert len(taken) == before + 1


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint32(), pa.time32("s"), pa.timestamp("us"), pa.decimal128(12, 2)], ids=str
)
def test_other_columns_are_fused_too(monkeypatch: pytest.MonkeyPatch, kind: pa.DataType) -> None:
    taken, whole = taken_by(monkeypatch), pa.int64() if kind.bit_width == 64 else pa.int32()
    schema = pa.schema([(name, kind) for name in "ab"])
    options: dict[str, Any] = {"on": "l.a = r.a AND l.b = r.b", "window": sj.CountWindow(90), "output": "positions"}
    options["schemas"] = schema, schema
    both, pairs = Twins(sj.StreamJoin(**options), **options), 0
    for seed in range(6):
        left, right = ([rows(60, 2 * seed + one)["a"].cast(whole).cast(kind)] * 2 for one in (0, 1))
        pairs += both.push({"left": pa.table(left, schema=schema), "right": pa.table(right, schema=schema)}).num_rows
    assert pairs > 0
    assert len(taken) > 2


@pytest.mark.parametrize(
    ("on", "options"),
    [
        ("l.a = r.a AND l.c = r.c AND sqrt(l.b) < r.b", {}),
        ("l.a = r.a AND l.c = r.c", {"self_join": True, "output": "count"}),
        ("l.a = r.a AND l.c = r.c", {"algorithm": "bi_sort"}),
    ],
)
def test_other_joins_go_the_long_way(on: str, options: dict[str, Any]) -> None:
    operator = sj.StreamJoin(on=on, window=sj.CountWindow(5), schemas=(SCHEMA, SCHEMA), **options)._state.operator
    assert operator is not None
    assert operator.fused is None


@pytest.mark.parametrize("further", ["", " AND (l.c + r.h > 9 OR l.h < r.c)"])
def test_what_is_checked_follows_from_how_keys_are_laid_out(further: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that had room lose their lowest bits when far ones come; from then on whole keys are checked beside them."""
    runs: list[int] = []
    run = FusedTerms.run

    def watched(self: FusedTerms, *given_: Any) -> pa.Table:
        runs.append(1)
        return run(self, *given_)

    monkeypatch.setattr(FusedTerms, "run", watched)
    rng = np.random.default_rng(1)
    options: dict[str, Any] = {
        "on": f"l.a = r.a AND l.b BETWEEN r.b - 3 AND r.b + 3{further}", "window": sj.CountWindow(1000),
        "output": "positions", "schemas": (SCHEMA, SCHEMA),
    }  # fmt: skip
    both = Twins(sj.StreamJoin(**options, algorithm="band_cells"), **options, algorithm="nested_loop")
    fused = []
    for number in range(8):
        far = 1 << 57 if number > 2 else 1
        push = {}
        for side in ("left", "right"):
            columns = {name: rng.integers(0, 50 if name == "a" else 9, 200) for name in "achi"}
            b = rng.integers(0, 20, 200) * far + rng.integers(0, 30, 200)
            # A NULL lets the push go the way of any terms.
            columns["b"] = pa.array(b, mask=np.arange(200) == (number == 1) - 1)
            push[side] = pa.table([pa.array(columns[name]).cast(kind) for name, kind in KINDS.items()], schema=SCHEMA)
        runs.clear()
        both.push(push)
        fused.append(bool(runs))
    assert fused[1]
    assert all(fused[4:])
