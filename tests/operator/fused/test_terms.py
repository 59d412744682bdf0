"""Two terms of integers, one in cells and one checked, go the fused way, and give what a nested loop gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.advisors import PairAdvisor
from slidejoin.operator.fused.terms import FusedTerms
from tests.law.checks import examples
from tests.narrow import set_limits, tune
from tests.operator.fused.test_composite_keys import SCHEMA, streams
from tests.operator.twins import Twins, general, given_once

PREDICATES = [
    "l.a BETWEEN r.a - 1 AND r.b + 1",
    "r.b > l.a AND r.c <= l.b",
    "l.a <= r.b AND r.a <= l.b",
    "l.a + 2 >= r.a AND l.b < r.b",
    "l.a + r.b < 3 AND l.c + r.a > 0",
    "l.a < r.a AND l.b >= r.h",
    "l.a BETWEEN r.a - 1 AND r.a + 2 AND l.b < r.b",
    "l.a BETWEEN r.b - 1 AND r.b AND l.a <= r.c",
    "l.a BETWEEN r.a - 1 AND r.a + 1 AND l.b BETWEEN r.c - 2 AND r.c",
    "l.b - r.a BETWEEN 0 AND 3 AND l.b + r.b > 1",
    "l.a + r.c BETWEEN -2 AND 2 AND l.b >= r.a",
    "l.a BETWEEN r.a - 1 AND r.a + 1 AND (l.b + r.c) % 2 = 0",
    "l.a BETWEEN r.a - 1 AND r.a + 2 AND l.b < r.b AND l.c <> r.c",
    "l.a <= r.b AND r.a <= l.b AND l.c >= r.c",
    "l.a BETWEEN r.b - 1 AND r.b AND (l.b = r.b OR l.c * 2 < r.a) AND l.h >= 1",
    "l.a = r.a AND l.b <= r.b AND l.c > r.c AND (l.a + r.b) % 3 <> 1",
    "l.a = r.a AND l.b BETWEEN r.b - 1 AND r.c",
    "l.a = r.a AND l.b > r.b AND l.c < r.c",
    "l.a = r.a AND l.h = r.h AND l.b > r.b AND l.c < r.c AND l.b <> r.a",
]


def cells_at_once(patch: pytest.MonkeyPatch, place: int, width: float) -> None:
    """Begin with cells on one of the bands and closed ranges, and stay there."""

    def better(advisor: PairAdvisor, used: Any, *_: Any) -> Any:
        cells = [one for one in advisor._choices if one.algorithm == "band_cells"]
        chosen = cells[place % len(cells)]
        if chosen.pair is not None:
            chosen = chosen._replace(widths=(width, width))
        return None if used == chosen else chosen

    patch.setattr(PairAdvisor, "due", lambda *_: True)
    patch.setattr(PairAdvisor, "better", better)


def watch_runs(patch: pytest.MonkeyPatch, runs: list[int]) -> None:
    """Note each fused push."""
    run = FusedTerms.run

    def watched(*args: Any) -> pa.Table:
        runs.append(1)
        return run(*args)

    patch.setattr(FusedTerms, "run", watched)


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("output", ["pairs", "positions", "count"])
@examples(40)
@given(
    on=st.sampled_from(PREDICATES), made=streams(), size=st.integers(1, 90), slide=st.integers(1, 3),
    threads=st.integers(1, 2), order=st.sampled_from(["probe", "none"]), place=st.integers(0, 5),
    width=st.sampled_from([0, 1, 4, 2.0**33]), blocks=st.sampled_from([1, 16]), self_join=st.booleans(),
)  # fmt: skip
def test_both_ways_are_one(
    output: str, on: str, made: list[dict[str, Any]], size: int, slide: int, threads: int, order: str, place: int,
    width: float, blocks: int, self_join: bool,
) -> None:  # fmt: skip
    self_join &= output != "count"
    made = given_once(made) if self_join else made
    window = sj.CountWindow(left=size, right=size + 3, slide=min(slide, size))
    options: dict[str, Any] = {
        "on": on, "window": window, "output": output, "threads": threads, "order": order, "schemas": (SCHEMA, SCHEMA),
        "self_join": self_join,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        cells_at_once(patch, place, width)
        patch.setattr("slidejoin.operator.window.distances.BLOCKS", blocks)
        both = Twins(sj.StreamJoin(**options), **options, algorithm="nested_loop")
        for number, push in enumerate(made):
            both.push(push)
            if number == len(made) // 2:
                both.fused = sj.StreamJoin.restore(both.fused.snapshot())
        assert both.fused.stats.pairs == both.general.stats.pairs


@pytest.mark.parametrize("output", ["pairs", "count"])
@pytest.mark.parametrize("on", ["l.a BETWEEN r.b - 9 AND r.c + 9", "l.b <= r.c AND r.b <= l.c"])
def test_what_the_advisor_finds_goes_the_fused_way(on: str, output: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pushes of any size, and one with a long interval, which the planar index takes at once."""
    set_limits(monkeypatch, CHANGE_COST=1.0, ENOUGH=1 << 10)
    runs: list[int] = []
    watch_runs(monkeypatch, runs)
    rng, used = np.random.default_rng(5), []
    schema = pa.schema([(name, pa.int64()) for name in "abc"])
    options: dict[str, Any] = {
        "on": on, "window": sj.CountWindow(20_000, slide=7), "output": output, "schemas": (schema, schema),
    }  # fmt: skip
    both = Twins(sj.StreamJoin(**options), **options, algorithm="planar")
    for number, rows in enumerate([20_000, *[1, 300, 9000, 20_000] * 4]):
        push = {}
        for side in ("left", "right"):
            b = rng.integers(0, 1 << 20, rows)
            c = b + rng.integers(0, 30, rows)
            c[0] += (number == 8) << 30
            push[side] = pa.table({"a": rng.integers(0, 1 << 20, rows), "b": b, "c": c})
        both.push(push)
        operator = both.fused._state.operator
        assert operator is not None
        used.append((operator.windows["left"].index.name, len(runs)))
        runs.clear()
    assert used[1] == ("band_cells", 1)
    assert used[8] == ("planar", 0)
    assert used[-1] == ("band_cells", 1)


@pytest.mark.parametrize("output", ["pairs", "count"])
@pytest.mark.parametrize(
    "on",
    [
        "l.a BETWEEN r.a - 9 AND r.a + 9 AND l.b < r.b",
        "l.a BETWEEN r.b - 9 AND r.b + 9 AND l.b BETWEEN r.c - 500000 AND r.c",
        "l.a - r.b BETWEEN -20 AND 4 AND l.a + r.a > 900000",
        "l.a BETWEEN r.a - 99 AND r.a + 99 AND (l.b + r.b) % 7 = 0",
        "l.a BETWEEN r.a - 99 AND r.a + 99 AND l.b < r.b AND l.c > r.c",
        "l.a BETWEEN r.a - 99 AND r.a + 99 AND l.b < r.b AND (l.c > 2 * r.c OR l.c = r.a)",
    ],
)
def test_a_band_and_another_term_go_the_fused_way(on: str, output: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    watch_runs(monkeypatch, runs)
    rng, schema = np.random.default_rng(6), pa.schema([(name, pa.int64()) for name in "abc"])
    options: dict[str, Any] = {
        "on": on, "window": sj.CountWindow(20_000, slide=7), "output": output, "schemas": (schema, schema),
    }  # fmt: skip
    both = Twins(sj.StreamJoin(**options), **options, algorithm="bi_sort")
    sizes = [1, 300, 9000, 20_000] * 3
    for rows in sizes:
        sides = ({name: pa.array(rng.integers(0, 1 << 20, rows)) for name in "abc"} for _ in range(2))
        both.push(dict(zip(("left", "right"), map(pa.table, sides), strict=True)))
    assert len(runs) > len(sizes) // 2  # not those for which the tables have to grow
    assert both.fused.stats.pairs == both.general.stats.pairs > 0


def test_a_push_that_needs_more_than_64_bits_is_evaluated_and_so_are_some_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[int] = []
    watch_runs(monkeypatch, runs)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    on = "l.a BETWEEN r.a - 1 AND r.a + 1 AND (l.b * 3 - r.b) % 2 = 0"
    options: dict[str, Any] = {"on": on, "window": sj.CountWindow(100), "schemas": (schema, schema)}
    tune(monkeypatch, program_rest=3)
    both = Twins(sj.StreamJoin(**options), **options, algorithm="nested_loop")
    pushed = []
    for value in (1, 2, 1 << 62, 3, 4, 5, 6):
        rows = pa.table([[1, 2, 2], [value, value - 1, value - 2]], schema=schema)
        both.push({"left": rows, "right": rows})
        pushed.append(len(runs))
    assert pushed == [1, 2, 3, 3, 3, 4, 4]  # the window still has the large value
    assert both.fused.stats.pairs == both.general.stats.pairs > 0


@pytest.mark.parametrize(
    "on",
    [
        "l.x BETWEEN r.x - 2 AND r.x + 2 AND l.y < r.y AND l.z + r.f <= 100.5",
        "l.x BETWEEN r.x - 2 AND r.x + 2 AND l.s <= r.s",
        "l.k = r.k AND l.y BETWEEN r.y - 30 AND r.y + 30 AND l.s <= r.s",
        "l.x BETWEEN r.x - 2 AND r.x + 2 AND l.s <> r.s AND (l.y + r.y) % 3 <> 0",
    ],
)
@pytest.mark.parametrize("output", ["positions", "count"])
def test_a_push_that_is_probed_again_checks_terms_that_keys_do_not_say_all_about(
    on: str, output: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[int] = []
    go_on = FusedTerms.go_on

    def watched(*args: Any, **options: Any) -> pa.Table:
        again.append(1)
        return go_on(*args, **options)

    monkeypatch.setattr(FusedTerms, "go_on", watched)
    rng, texts = np.random.default_rng(3), np.array(["x" * 14, "x" * 16, "x" * 40, "a"])

    def rows(count: int) -> pa.Table:
        return pa.table(
            {
                "x": rng.integers(0, 60, count), "y": rng.integers(0, 100, count), "k": rng.integers(0, 30, count),
                "z": 2**60 + rng.integers(-2000, 2000, count), "f": -(2.0**60) + rng.integers(-8, 8, count) * 128.0,
                "s": texts[rng.integers(0, 4, count)],
            }
        )  # fmt: skip

    schema = rows(1).schema
    options: dict[str, Any] = {"on": on, "window": sj.CountWindow(700), "output": output, "schemas": (schema, schema)}
    fused, plain = (sj.StreamJoin(**options, algorithm=name) for name in ("band_cells", "nested_loop"))
    for count in (400, 400, 30, 400):
        push = rows(count), rows(count)
        ours, theirs = fused.push(*push), plain.push(*push)
        assert sorted(ours.to_pylist(), key=str) == sorted(theirs.to_pylist(), key=str)
    assert again
    assert fused.stats.pairs == plain.stats.pairs > 0


def test_room_is_made_for_all_that_a_check_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found rows take room until they are checked: a push of the same size has it the next time."""
    short: list[int] = []
    go_on = FusedTerms.go_on

    def watched(*args: Any, **options: Any) -> pa.Table:
        short.append(join._state.operator.measured().rows_left)
        return go_on(*args, **options)

    monkeypatch.setattr(FusedTerms, "go_on", watched)
    rng, schema = np.random.default_rng(7), pa.schema([(name, pa.int64()) for name in "ab"])
    on = "l.a BETWEEN r.a - 20 AND r.a + 20 AND l.b BETWEEN r.b - 5 AND r.b + 5"
    join = sj.StreamJoin(on=on, window=sj.CountWindow(4_000), output="positions", schemas=(schema, schema))
    for _ in range(20):
        sides = [pa.table([pa.array(rng.integers(0, 20_000, 2_000)) for _ in "ab"], schema=schema) for _ in range(2)]
        join.push(*sides)
    assert short
    assert max(short) <= 20_000
    assert join.stats.pairs > 0


@pytest.mark.parametrize("how", ["left", "full", "left_semi", "left_anti"])
def test_other_join_types_go_the_fused_way(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    watch_runs(monkeypatch, runs)
    rng, schema = np.random.default_rng(8), pa.schema([(name, pa.int64()) for name in "ab"])
    options: dict[str, Any] = {
        "on": "l.a BETWEEN r.a - 9 AND r.a + 9 AND l.b < r.b", "window": sj.CountWindow(3_000, slide=5), "how": how,
        "schemas": (schema, schema),
    }  # fmt: skip
    fused, plain = sj.StreamJoin(**options), general(**options)
    for rows in [3, 200, 2_000] * 5:
        sides = [pa.table([pa.array(rng.integers(0, 50_000, rows)) for _ in "ab"], schema=schema) for _ in range(2)]
        ours, theirs = fused.push(*sides), plain.push(*sides)
        assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))
    assert fused.finish().num_rows == plain.finish().num_rows
    assert len(runs) > 10


@pytest.mark.parametrize("rows", [3, 40, 700])
@pytest.mark.parametrize("on", ["l.a BETWEEN r.a - 50 AND r.a + 50 AND l.b < r.b", "l.b <= r.b AND l.a = r.a + 1"])
def test_a_narrow_term_beside_an_open_one_is_not_all_that_is_compared(on: str, rows: int) -> None:
    """The index begins with the narrow term, which is not all that is compared."""
    rng, schema = np.random.default_rng(rows), pa.schema([("a", pa.int64()), ("b", pa.int64())])
    options: dict[str, Any] = {"on": on, "window": sj.CountWindow(2000), "schemas": (schema, schema)}
    join, plain = sj.StreamJoin(**options), sj.StreamJoin(**options, algorithm="nested_loop")
    for _ in range(4):
        sides = [pa.table([pa.array(rng.integers(0, 40 * rows, rows)) for _ in "ab"], schema=schema) for _ in range(2)]
        assert sorted(join.push(*sides).to_pylist(), key=repr) == sorted(plain.push(*sides).to_pylist(), key=repr)
    assert join.stats.pairs > 0
