"""Every structure of the papers, and the planar index, obeys the law: whatever `STRUCTURES` lists is tested here.

Small cases are compared with the oracle, larger ones with sorted runs, which have tests of their own.
"""

from __future__ import annotations

import gc
import random
import tracemalloc
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.index.planar.planar_index import PlanarIndex
from slidejoin.options import STRUCTURES, TOPOLOGIES, Options, Planar
from slidejoin.papers.structure import Structure
from slidejoin.rows.widths import TableLimit
from slidejoin.runtime.array_pool import ArrayPool
from tests.law.checks import ORDERS, assert_counts, assert_pairs, assert_stats, count_lines, examples, lines, pair_lines
from tests.narrow import A, B, set_limits, tune
from tests.oracle import CountScope, TimeScope
from tests.strategies import Case, Push, WindowCase, cases
from tests.structures import SMALL

TESTED: dict[str, type[Options]] = STRUCTURES | {"planar": Planar}
ALL = [options for name in TESTED for options in SMALL[name]]
NAMES = list(TESTED)
THREADS = st.sampled_from([1, 2])


def structures_of(join: sj.StreamJoin, name: str) -> list[Structure | PlanarIndex]:
    """The indexes of both sides; fails where they are others."""
    indexes = [join._state.operator.windows[side].index for side in ("left", "right")]
    assert [index.name for index in indexes] == [name, name]
    structures = [index for index in indexes if isinstance(index, Structure | PlanarIndex)]
    assert len(structures) == len(indexes)
    return structures


def serves(case: Case, options: Options) -> bool:
    """Whether the structure can answer the predicate; only for want of an equality it may not."""
    try:
        case.join(algorithm=options)
    except sj.PredicateError as error:
        if not options.equality_only or f"algorithm={options.name!r} supports only equality" not in str(error):
            raise
        return False
    return True


def test_all_are_listed() -> None:
    assert set(SMALL) == set(TESTED) <= set(sj.algorithms())
    for name, options in TESTED.items():
        assert options().name == name
        on = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(3), algorithm=name)
        on.push(left={"a": [1]}, right={"a": [1]})
        assert options.what in on.explain()
        assert f"algorithm={name!r} was set" in on.explain()
        structures_of(on, name)


# -- against the oracle ------------------------------------------------------------------------------------------------


K, M = ("col", "left", "b"), ("col", "right", "b")
ONE = ("lit", 1)
PREDICATES: dict[str, Any] = {
    "equality": ("=", A, B),
    "band": ("between", A, ("-", B, ONE), ("+", B, ONE)),
    "open range": ("<", A, B),
    "not equal": ("<>", A, B),
    "two bands": ("or", ("=", A, B), ("between", A, ("+", B, ("lit", 3)), ("+", B, ("lit", 4)))),
    "two terms": ("and", ("=", A, B), ("<=", K, M)),
    "two dimensions": ("and", ("<", A, B), (">", K, M)),
    "filter": ("and", ("=", A, B), ("or", ("<", K, M), ("=", ("%", K, ("lit", 2)), ("lit", 0)))),
}
WINDOWS = {
    "count": WindowCase(sj.CountWindow(left=7, right=11, slide=3), CountScope(7, 11, 3)),
    "time": WindowCase(
        sj.TimeWindow(left=6, right=4, left_on="ts", right_on="ts", lateness=2), TimeScope(6, 4, "ts", "ts", 2)
    ),
}
SHAPES = ("few", "constant", "ascending", "descending", "skewed", "drifting", "ends")


def keys_of(shape: str, rows: int, chosen: random.Random) -> list[int | None]:
    """Keys in one of the orders that structures like or dislike."""
    if shape == "few":
        return [chosen.choice([None, 1, 2, 3, 4]) for _ in range(rows)]
    if shape == "constant":
        return [5] * rows
    if shape == "ascending":
        return list(range(rows))
    if shape == "descending":
        return list(range(rows, 0, -1))
    if shape == "skewed":
        return [int(chosen.paretovariate(0.8)) % 1000 for _ in range(rows)]
    if shape == "drifting":
        return [i // 3 + chosen.randrange(5) for i in range(rows)]
    return [chosen.choice([-(2**63), -(2**63) + 1, 0, 2**63 - 2, 2**63 - 1]) for _ in range(rows)]


def stream(shape: str, rows: int, chosen: random.Random) -> pa.Table:
    """Rows with the columns id, a, b, ts."""
    return pa.table(
        {
            "id": range(rows),
            "a": pa.array(keys_of(shape, rows, chosen), pa.int64()),
            "b": [chosen.choice([None, 1, 2, 3]) for _ in range(rows)],
            "ts": [i // 2 + chosen.randrange(4) for i in range(rows)],
        }
    )


def cut(case: Case, sizes: list[int]) -> Case:
    """The case in pushes of so many rows a side, over and over, every third ordered by time."""
    start, i = 0, 0
    while start < case.left.num_rows:
        pieces = (rows.slice(start, sizes[i % len(sizes)]) for rows in (case.left, case.right))
        case.pushes.append(Push(*pieces, "ts" if i % 3 == 2 else None))
        start, i = start + sizes[i % len(sizes)], i + 1
    return case


# Of each structure one shape in six by day, half of these as plain Python too; its next options have the next ones.
MARKS = {0: [pytest.mark.nojit], 6: []}
ASKED = [
    pytest.param(options, shape, id=f"{options!r}-{shape}", marks=MARKS.get((i + 7 * j) % 12, [pytest.mark.nightly]))
    for i, options in enumerate(ALL)
    for j, shape in enumerate(SHAPES)
]


@pytest.mark.parametrize(("options", "shape"), ASKED)
def test_every_question(options: Options, shape: str) -> None:
    chosen = random.Random(f"{options.name} {shape}")
    for number, (name, predicate) in enumerate(PREDICATES.items()):
        window = WINDOWS[("count", "time")[number % 2]]
        self_join = number % 3 == 2
        left = stream(shape, 30, chosen)
        case = cut(Case(predicate, window, left, stream(shape, 30, chosen), self_join=self_join), [1, 2, 8, 5])
        if not serves(case, options):
            assert name not in ("equality", "two terms", "filter")
            continue
        order = ORDERS[number % 3]
        with pytest.MonkeyPatch.context() as patch:
            if number % 2:
                set_limits(patch, SMALLEST_SLICE=3, FIRST_ROOM=1, ROOM_A_PROBE=1, KEPT_A_PROBE=1, SMALLEST_SPREAD=1)
            # Of each shape every other predicate is asked for pairs, and the rest for counts; the next shape differs.
            if (number // 2 + SHAPES.index(shape)) % 2:
                assert_pairs(case, order, algorithm=options, threads=1 + number % 2)
            else:
                assert_counts(case, algorithm=options, threads=1 + number % 2)


limits = st.fixed_dictionaries(
    {
        "SMALLEST_SPREAD": st.sampled_from([1, 1 << 13]),
        "SMALLEST_PART": st.sampled_from([1, 1 << 17]),
        "LARGEST_PART": st.sampled_from([2, 1 << 14]),
        "SMALLEST_SLICE": st.sampled_from([1, 3, 1 << 11]),
        "FIRST_ROOM": st.sampled_from([1, 1 << 12]),
        "ROOM_A_PROBE": st.sampled_from([1, 8]),
        "KEPT_A_PROBE": st.sampled_from([0, 1, 32]),
    }
)


@pytest.mark.parametrize("name", NAMES)
@examples(40)
@given(data=st.data(), given_limits=limits, threads=THREADS)
def test_all_cases(name: str, data: st.DataObject, given_limits: dict[str, int], threads: int) -> None:
    options = data.draw(st.sampled_from(SMALL[name]))
    case = data.draw(cases(most=16, self_join=data.draw(st.booleans())))
    if options.equality_only and not serves(case, options):
        # Most cases have no equality; with one in front of it each has.
        case.predicate = ("and", ("=", ("col", "left", "flag"), ("col", "right", "flag")), case.predicate)
    topology = data.draw(st.sampled_from(["auto", *TOPOLOGIES]))
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        order = data.draw(st.sampled_from(ORDERS))
        assert_pairs(case, order, algorithm=options, threads=threads, topology=topology)
        assert_counts(case, algorithm=options, threads=threads, topology=topology)


@pytest.mark.parametrize("name", NAMES)
@examples(20)
@given(data=st.data())
def test_restarts(name: str, data: st.DataObject) -> None:
    options = data.draw(st.sampled_from(SMALL[name]))
    chosen = random.Random(data.draw(st.integers(0, 1 << 16)))
    shape, window = data.draw(st.sampled_from(SHAPES)), data.draw(st.sampled_from(list(WINDOWS.values())))
    predicates = [one for key, one in PREDICATES.items() if not options.equality_only or key in ("equality", "filter")]
    case = Case(data.draw(st.sampled_from(predicates)), window, stream(shape, 40, chosen), stream(shape, 40, chosen))
    cut(case, data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    output = data.draw(st.sampled_from(["pairs", "count"]))
    join, oracle = case.join(order="strict", output=output, algorithm=options), case.oracle()
    for push, steps in zip(case.pushes, case.steps(oracle), strict=True):
        if data.draw(st.booleans()):
            other = data.draw(st.sampled_from([options, options, "bi_sort"]))
            join = sj.StreamJoin.restore(join.snapshot(), algorithm=other, threads=data.draw(THREADS))
        got = lines(join.push(**push.arguments()))
        pairs = [pair for group in pair_lines(steps) for pair in group]
        assert got == (count_lines(case, steps) if output == "count" else pairs)
    assert_stats(join, oracle)


# -- against sorted runs -----------------------------------------------------------------------------------------------


def values_of(shape: str, rows: int, at: int, rng: np.random.Generator) -> np.ndarray:
    """Keys of a larger stream, from row `at` on."""
    if shape == "uniform":
        return rng.integers(0, 400, rows)
    if shape == "constant":
        return np.full(rows, 3)
    if shape == "ascending":
        return np.arange(at, at + rows) // 2
    if shape == "descending":
        return -np.arange(at, at + rows) // 2
    if shape == "skewed":
        return (rng.pareto(0.7, rows) * 3).astype(np.int64) % 10_000
    return at // 8 + rng.integers(0, 50, rows)


def all_sizes(algorithm: str, shape: str, threads: int, on: str) -> tuple[list[pa.Table], sj.StreamJoin]:
    """What pushes of all sizes give, and the join."""
    rng, at, found = np.random.default_rng(7), 0, []
    window = sj.CountWindow(left=300, right=500) if threads == 1 else sj.TimeWindow(200, on="ts")
    join = sj.StreamJoin(on=on, window=window, order="strict", output="positions", algorithm=algorithm, threads=threads)
    # Constant keys give 800 pairs a row.
    for rows in (1, 7, 100, 1_000 if shape == "constant" else 5_000, 1, 999, 3):
        batches = []
        for _ in ("left", "right"):
            times = np.arange(at, at + rows) // 2 + rng.integers(0, 5, rows)
            batches.append({"a": values_of(shape, rows, at, rng), "ts": times})
        at += rows
        found.append(join.push(left=batches[0], right=batches[1], order_by="ts"))
    return found, join


@cache
def of_sorted_runs(shape: str, threads: int, on: str) -> list[pa.Table]:
    return all_sizes("bi_sort", shape, threads, on)[0]


LARGE_SHAPES = ("uniform", "constant", "ascending", "descending", "skewed", "drifting")
SIZED = [
    # By day each structure has each shape once, with one thread or two.
    pytest.param(name, shape, threads, marks=() if (i + j + threads) % 2 else pytest.mark.nightly)
    for i, name in enumerate(NAMES)
    for j, shape in enumerate(LARGE_SHAPES)
    for threads in (1, 2)
]


@pytest.mark.parametrize(("name", "shape", "threads"), SIZED)
def test_pushes_of_all_sizes(name: str, shape: str, threads: int) -> None:
    on = "l.a = r.a" if TESTED[name].equality_only else "l.a BETWEEN r.a - 1 AND r.a + 1"
    found, join = all_sizes(name, shape, threads, on)
    for one, two in zip(found, of_sorted_runs(shape, threads, on), strict=True):
        assert one.equals(two)
    structures_of(join, name)


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_left_take_no_room(name: str) -> None:
    rng = np.random.default_rng(1)
    for window in (sj.CountWindow(500), sj.TimeWindow(250, on="ts")):
        join, sizes = sj.StreamJoin(on="l.a = r.a AND l.b <> r.b", window=window, algorithm=name), []
        for at in range(0, 20_000, 200):
            left, right = (
                {"a": rng.integers(0, 300, 200), "b": rng.integers(0, 3, 200), "ts": np.arange(at, at + 200) // 2}
                for _ in range(2)
            )
            join.push(left=left, right=right)
            sizes.append(sum(index.nbytes for index in structures_of(join, name)))
        assert max(sizes[50:]) <= 1.1 * max(sizes[:50])
        # The largest part of a basic window, of buckets and of twice the slices is at most this.
        assert all(index.count < 10_000 for index in structures_of(join, name))


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_of_memory_is_kept(name: str) -> None:
    rng = np.random.default_rng(2)
    limit = 300_000
    join = sj.StreamJoin(
        on="l.a = r.a AND l.b <> r.b", window=sj.CountWindow(50_000), algorithm=name, memory_limit=limit
    )
    for _ in range(1000):
        left, right = ({"a": rng.integers(0, 300, 50), "b": rng.integers(0, 3, 50)} for _ in range(2))
        try:
            join.push(left=left, right=right)
        except sj.MemoryLimitError:
            break
        assert join.stats.window_bytes <= limit
    assert 0 < join.stats.rows_left < 50_000


@pytest.mark.parametrize("name", NAMES)
def test_one_row_far_ahead_keeps_no_places_of_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, ordinal_spread=1, largest_slice=1000)
    joins = [
        sj.StreamJoin(on="l.a = r.a", window=sj.TimeWindow(10, on="ts"), order="strict", algorithm=algorithm)
        for algorithm in (name, "bi_sort")
    ]
    for at in range(0, 40_000, 500):
        order = np.arange(at, at + 500)
        right = {"a": order % 1000, "ts": order}
        left = right | {"ts": order + 1_000_000 * (order == 25)}
        one, two = (join.push(left=left, right=right) for join in joins)
        assert one.equals(two)
    index = joins[0]._state.operator.windows["left"].index
    # Runs leave wherever they are; all others change to sorted runs.
    assert index.name == ("bi_sort" if name in STRUCTURES else name)
    assert name not in STRUCTURES or "measured to be faster than" in joins[0].explain()
    assert index.nbytes < 1 << 20


# -- memory ------------------------------------------------------------------------------------------------------------

STORED, PROBES = 3000, 1000
ENOUGH = 6 << 20
"""Bytes that a push may take where 3 million pairs match, whose positions alone are 12 MB in 32 bits."""


def peak_of(algorithm: str, on: str, output: str) -> int:
    """Bytes that are allocated at most while many probes meet rows that match all of them; the index is there before.

    Kernels allocate nothing that depends on matches, so that what NumPy tells `tracemalloc` is all.
    """
    rows = {"a": np.zeros(STORED, np.int64), "b": np.arange(STORED)}
    schema = pa.table(rows).schema
    join = sj.StreamJoin(
        on=on, window=sj.CountWindow(STORED), algorithm=algorithm, output=output, threads=1, schemas=(schema, schema)
    )
    operator = join._state.operator
    assert operator is not None
    operator.general._parts = replace(operator.general._parts, limit=TableLimit(1 << 14, 1 << 60))
    join.push(left=rows)
    # What other tests left behind would be used again, and not be seen.
    for one in gc.get_objects():
        if isinstance(one, ArrayPool):
            one._idle.clear()
    pairs, probes = 0, {name: column[:PROBES] for name, column in rows.items()}
    tracemalloc.start()
    try:
        for table in join.push_iter(right=probes):
            pairs += table.num_rows if output == "positions" else int(np.asarray(table["match_count"]).sum())
            del table
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        assert pairs == STORED * PROBES


QUESTIONS = {"count": "l.a = r.a", "positions": "l.a = r.a AND l.b > r.b - 10000"}


PEAKS = [
    # By day every other structure is asked for counts, and the rest for positions.
    pytest.param(algorithm, output, marks=[pytest.mark.nightly] if (i + j) % 2 else [])
    for i, algorithm in enumerate(sj.algorithms())
    for j, output in enumerate(QUESTIONS)
]


@pytest.mark.parametrize(("algorithm", "output"), PEAKS)
def test_memory_does_not_depend_on_matches(algorithm: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of the rows found are kept; the others are found again when pairs are asked for, some at a time."""
    set_limits(monkeypatch, MOST_FOUND=1 << 16)
    assert peak_of(algorithm, QUESTIONS[output], output) <= ENOUGH


def test_rows_found_that_are_all_kept_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, KEPT_A_PROBE=STORED)
    assert peak_of("nested_loop", QUESTIONS["positions"], "positions") > 8 * STORED * PROBES > 3 * ENOUGH
