"""Bands of doubles, alone and beside another term, go the fused way, and give what a nested loop gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from tests.law.checks import examples
from tests.operator.fused.test_terms import cells_at_once, watch_runs
from tests.operator.twins import Twins, general

SCHEMA = pa.schema([("f", pa.float64()), ("g", pa.float64()), ("n", pa.int64()), ("ts", pa.int64())])

PREDICATES = [
    "l.f BETWEEN r.f - 0.5 AND r.f + 0.5",
    "l.f BETWEEN r.g - 0.25 AND r.g",
    "l.f = r.g",
    "l.f BETWEEN r.f - 0.5 AND r.f + 0.5 AND l.g < r.g",
    "l.f BETWEEN r.f - 1.0 AND r.f + 1.0 AND l.n >= r.n",
    "l.n BETWEEN r.n - 1 AND r.n + 1 AND l.f <= r.g",
    "l.f BETWEEN r.f AND r.g",
    "l.f <= r.g AND r.f <= l.g",
    "l.n BETWEEN r.f - 0.5 AND r.f + 0.5",
    "l.n = r.n AND l.f < r.f",
    "l.n = r.n AND l.f <> r.f",
    "l.f BETWEEN r.f - 0.5 AND r.f + 0.5 AND l.n <> r.n",
    "l.n = r.n AND l.f > 0.3",
    "l.f BETWEEN r.f - 0.5 AND r.f + 0.5 AND l.g < r.g AND r.n <= 0 AND l.g IS NOT NULL",
    "l.f BETWEEN r.f - 0.5 AND r.f + 0.5 AND (l.n + r.n) % 2 = 0",
    "l.n = r.n AND l.f < r.f AND l.g <> r.g",
    "l.n BETWEEN r.n - 1 AND r.n + 1 AND (l.f * 2 < r.g OR l.g IS NULL)",
    "l.f <= r.f AND l.g >= r.g AND l.n = r.n AND l.ts % 3 <= r.ts % 2",
]
VALUES = [0.0, -0.0, 0.25, 0.5, 1.0, 1.5, -1.0, 5e-324, 1e300, -1e300, 2.0**53, float("inf"), -float("inf")]

doubles = st.sampled_from(VALUES) | st.floats(-2, 2, width=16)
odd = st.none() | st.just(float("nan"))


@st.composite
def pushes(draw: st.DrawFn) -> list[dict[str, pa.Table]]:
    """Pushes of both sides, event times ascending; some with NULL and NaN."""
    clock, made = 0, []
    for _ in range(draw(st.integers(1, 5))):
        push = {}
        for side in ("left", "right"):
            rows, plain = draw(st.integers(0, 9)), draw(st.integers(0, 3))
            value = doubles if plain else doubles | odd
            columns = {name: draw(st.lists(value, min_size=rows, max_size=rows)) for name in "fg"}
            number = st.integers(-2, 2) if plain else st.none() | st.integers(-2, 2)
            columns["n"] = draw(st.lists(number, min_size=rows, max_size=rows))
            columns["ts"] = [clock + i // 3 for i in range(rows)]
            push[side] = pa.table(columns, schema=SCHEMA)
        clock += draw(st.integers(3, 9))
        made.append(push)
    return made


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("output", ["pairs", "count"])
@examples(60)
@given(
    on=st.sampled_from(PREDICATES), made=pushes(), size=st.integers(1, 40), timed=st.booleans(),
    threads=st.integers(1, 2), place=st.integers(0, 5), width=st.sampled_from([0.25, 1.0, 2.0**33]),
)  # fmt: skip
def test_both_ways_are_one(
    output: str, on: str, made: list[dict[str, pa.Table]], size: int, timed: bool, threads: int, place: int,
    width: float,
) -> None:  # fmt: skip
    window: Any = sj.TimeWindow(size, on="ts", lateness=9) if timed else sj.CountWindow(left=size, right=size + 3)
    options: dict[str, Any] = {
        "on": on, "window": window, "output": output, "threads": threads, "schemas": (SCHEMA, SCHEMA),
    }  # fmt: skip
    if output == "count":
        options["select"] = ["l.n", "r.n"]  # tables with NaN are never equal
    with pytest.MonkeyPatch.context() as patch:
        cells_at_once(patch, place, width)
        both = Twins(sj.StreamJoin(**options), **options, algorithm="nested_loop")
        for number, push in enumerate(made):
            both.push({**push, "order_by": "ts"} if timed else push)
            if number == len(made) // 2:
                both.fused = sj.StreamJoin.restore(both.fused.snapshot())
        assert both.fused.stats.pairs == both.general.stats.pairs


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize(
    "on", ["l.f BETWEEN r.f - 0.001 AND r.f + 0.001", "l.f BETWEEN r.f - 0.001 AND r.f + 0.001 AND l.g < r.g"]
)
def test_they_go_the_fused_way(on: str, timed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    watch_runs(monkeypatch, runs)
    rng, clock = np.random.default_rng(9), 0
    window: Any = sj.TimeWindow(5_000, on="ts") if timed else sj.CountWindow(5_000)
    options: dict[str, Any] = {"on": on, "window": window, "schemas": (SCHEMA, SCHEMA)}
    both = Twins(sj.StreamJoin(**options), **options)
    sizes = [1, 200, 3_000, 5_000] * 3
    for rows in sizes:
        push = {}
        for side in ("left", "right"):
            columns = {name: rng.random(rows) for name in "fg"}
            columns |= {"n": rng.integers(0, 9, rows), "ts": np.arange(clock, clock + rows)}
            push[side] = pa.table(columns, schema=SCHEMA)
        clock += rows
        both.push({**push, "order_by": "ts"} if timed else push)
    assert len(runs) > len(sizes) // 2
    assert both.fused.stats.pairs == both.general.stats.pairs > 0


def test_one_term_of_two_is_never_all_that_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted runs of the first term have a fused way, too, for joins of that term alone."""
    schema, rng = pa.schema([("a", pa.int64()), ("b", pa.int64())]), np.random.default_rng(3)
    options: dict[str, Any] = {
        "on": "l.a BETWEEN r.a - 2 AND r.a + 2 AND l.b < r.b", "window": sj.CountWindow(500),
        "schemas": (schema, schema),
    }  # fmt: skip
    fused, plain = sj.StreamJoin(**options), general(**options)
    operator = fused._state.operator
    assert operator is not None
    operator._change_to(operator.plan.index_terms("bi_sort"))
    monkeypatch.setattr(type(operator.pair_advisor), "due", lambda *_: 0)
    for _ in range(9):
        sides = [pa.table([pa.array(rng.integers(0, 90, 40)) for _ in "ab"], schema=schema) for _ in range(2)]
        ours, theirs = fused.push(*sides), plain.push(*sides)
        assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))
    assert operator.windows["left"].index.name == "bi_sort"
    assert fused.stats.pairs > 0


def test_a_push_with_nan_or_null_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    watch_runs(monkeypatch, runs)
    join = sj.StreamJoin(on=PREDICATES[0], window=sj.CountWindow(100), schemas=(SCHEMA, SCHEMA))
    for value in (1.0, None, float("nan"), 1.25):
        rows = pa.table({"f": [value], "g": [0.0], "n": [0], "ts": [0]}, schema=SCHEMA)
        join.push(rows, rows)
    assert len(runs) == 4
    assert join.stats.pairs == 4


@pytest.mark.parametrize(
    "on",
    [
        "l.a + l.c = r.b",
        "l.a + l.c BETWEEN r.b - 5 AND r.b + 5",
        "l.k = r.k AND l.a + l.c <= r.b",
        "l.k BETWEEN r.k - 1 AND r.k + 1 AND l.a + l.c <= r.b",
    ],
)
@pytest.mark.parametrize("algorithm", ["auto", "band_cells"])
def test_what_a_clipped_key_finds_is_evaluated(on: str, algorithm: str) -> None:
    """A sum beyond int64 is stored under the largest key, which exact keys of a later push find."""
    largest = (1 << 63) - 1
    left = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("c", pa.int64())])
    right = pa.schema([("k", pa.int64()), ("b", pa.int64())])
    options: dict[str, Any] = {"on": on, "window": sj.CountWindow(100), "schemas": (left, right)}
    fused, plain = sj.StreamJoin(**options, algorithm=algorithm), sj.StreamJoin(**options, algorithm="nested_loop")
    for sums, targets in (([1], [7]), ([largest], []), ([], [largest]), ([1, largest], [2, largest]), ([2], [4])):
        rows = (
            pa.table([[0] * len(sums), sums, sums], schema=left),
            pa.table([[0] * len(targets), targets], schema=right),
        )
        assert fused.push(*rows).to_pylist() == plain.push(*rows).to_pylist()
    assert fused.stats.pairs == plain.stats.pairs
