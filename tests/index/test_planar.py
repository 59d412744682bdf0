"""The planar index: boxes of two ranges are reported and counted as a look at every row says, by the law as a whole."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import PredicateError
from slidejoin.index.factory import part_format
from slidejoin.index.kernels.searching import CHECK_AUX, CHECK_SEEN
from slidejoin.index.keys import RowKeys
from slidejoin.index.planar.answers import MatchesInBoxes, Reached, count_whole, lines_of
from slidejoin.index.planar.planar_index import PlanarIndex
from slidejoin.index.planar.run import PlanarMerge, PlanarRun, build_planar
from slidejoin.index.probe import Probes
from slidejoin.runtime.threads import Workers
from tests.index.test_conformance import WINDOWS, cut, stream
from tests.law.checks import ORDERS, assert_counts, assert_pairs, examples
from tests.narrow import set_limits
from tests.strategies import Case

LOW, HIGH = -(2**63), 2**63 - 1


# -- runs ------------------------------------------------------------------------------------------------------------


def keys_of(rng: np.random.Generator, rows: int, spread: str) -> Any:
    if spread == "ties":
        return rng.integers(0, 5, rows)
    if spread == "near":
        return rng.integers(-rows, rows + 1, rows)
    return rng.integers(LOW, HIGH, rows, endpoint=True)


def ranges_of(rng: np.random.Generator, keys: Any, pieces: int, probes: int) -> tuple[Any, Any]:
    """Disjoint ascending ranges with both ends included, (pieces, probes); some empty, some open."""
    ends = rng.choice(np.concatenate([keys, [LOW, HIGH, 0]]), (2 * pieces, probes))
    ends.sort(axis=0)
    low, high = ends[::2].copy(), ends[1::2].copy()
    # The ranges of one probe must not share a key.
    low[1:] = np.where(low[1:] <= high[:-1], high[:-1] + (high[:-1] < HIGH), low[1:])
    low[:, rng.random(probes) < 0.1], high[:, rng.random(probes) < 0.1] = HIGH, LOW
    if pieces == 1:
        low[:, rng.random(probes) < 0.3], high[:, rng.random(probes) < 0.3] = LOW, HIGH
    return low, high


def expected(run_rows: Any, probes: Probes, base: int) -> list[list[int]]:
    """The ordinals that each probe finds, by a look at every row."""
    keys, aux, kept = run_rows
    found = []
    for i in range(len(probes)):
        inside = kept.copy()
        inside &= ((probes.lo[:, i, None] <= keys) & (keys <= probes.hi[:, i, None])).any(axis=0)
        for d in range(aux.shape[1]):
            own = probes.aux_dims == d
            low, high = probes.aux_lo[own, i, None], probes.aux_hi[own, i, None]
            inside &= ((low <= aux[:, d]) & (aux[:, d] <= high)).any(axis=0)
        ordinals = base + np.flatnonzero(inside)
        found.append(ordinals[(ordinals >= probes.seen_from[i]) & (ordinals < probes.seen_to[i])].tolist())
    return found


def rows_and_probes(
    seed: int, rows: int, spread: str, dims: int, pieces: int, base: int, probes: int = 30
) -> tuple[Any, Probes]:
    rng = np.random.default_rng(seed)
    keys, kept = keys_of(rng, rows, spread), rng.random(rows) < 0.9
    aux = np.stack([keys_of(rng, rows, spread if d == 0 else "ties") for d in range(dims)] or [keys], axis=1)[:, :dims]
    lo, hi = ranges_of(rng, keys, pieces, probes)
    sides = [ranges_of(rng, aux[:, d], 1 + (d + pieces) % 2, probes) for d in range(dims)]
    seen = np.sort(rng.integers(base - 2, base + rows + 2, (2, probes)), axis=1)
    none = np.empty((0, probes), np.int64)
    return (keys, np.ascontiguousarray(aux), kept), Probes(
        np.arange(100, 100 + probes), lo, hi, seen[0], seen[1],
        np.concatenate([none, *(low for low, _ in sides)]), np.concatenate([none, *(high for _, high in sides)]),
        np.array([d for d, (low, _) in enumerate(sides) for _ in low], np.int64),
    )  # fmt: skip


def pairs_of(found: MatchesInBoxes, first: int, last: int) -> list[list[int]]:
    """The ordinals that probes first…last-1 find, by the second pass; they are written behind one another."""
    places = np.zeros(found.counts.size, np.int64)
    places[first + 1 : last] = np.cumsum(found.counts[first : last - 1])
    total = int(found.counts[first:last].sum())
    probes, stored = np.full(total, -1), np.full(total, -1)
    found.fill(first, last, places, probes, stored)
    assert (probes == 100 + np.repeat(np.arange(first, last), found.counts[first:last])).all()
    return [sorted(part.tolist()) for part in np.split(stored, places[first + 1 : last])]


def assert_found(run: PlanarRun, rows: Any, probes: Probes, threads: int = 1) -> None:
    workers = Workers(threads)
    right = expected(rows, probes, run.base)
    checks = CHECK_SEEN | (CHECK_AUX if rows[1].shape[1] > 1 else 0)
    lines = lines_of([run], rows[1].shape[1])
    seen = Reached(lines, np.arange(len(lines.runs)), np.full(len(lines.runs), checks))
    found = MatchesInBoxes(seen, probes, workers=workers)
    assert found.counts.tolist() == [len(one) for one in right]
    n = len(probes)
    assert pairs_of(found, 0, n) == right
    assert pairs_of(found, 7, 11) == right[7:11]
    only_counts = MatchesInBoxes(seen, probes, only_counts=True, workers=workers)
    assert only_counts.counts.tolist() == found.counts.tolist()
    if rows[1].shape[1] < 2:
        every = Probes(
            probes.ordinals, probes.lo, probes.hi, np.full(n, LOW), np.full(n, HIGH), probes.aux_lo, probes.aux_hi,
            probes.aux_dims,
        )  # fmt: skip
        counts = np.zeros(n, np.int64)
        count_whole(seen, every, counts, workers)
        assert counts.tolist() == [len(one) for one in expected(rows, every, run.base)]
        none = np.zeros(n, np.int64)
        count_whole(seen, probes, none, workers)
        whole = (probes.seen_from <= run.base) & (probes.seen_to >= run.end)
        assert none.tolist() == np.where(whole, counts, 0).tolist()


SIZES = st.sampled_from([1, 2, 63, 64, 65, 300, 1024, 1025, 4000])
SPREADS = st.sampled_from(["ties", "near", "far"])


@examples(40)
@given(
    st.integers(0, 1 << 20), SIZES, SPREADS, st.integers(0, 3), st.integers(1, 2),
    st.sampled_from([0, 1, 32]),
)  # fmt: skip
def test_boxes_are_found_as_a_look_at_every_row_says(
    seed: int, rows: int, spread: str, dims: int, pieces: int, kept: int
) -> None:
    content, probes = rows_and_probes(seed, rows, spread, dims, pieces, base=1000)
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, KEPT_A_PROBE=kept, LEAST_ROOM=64 * (kept > 0))
        assert_found(build_planar(1000, rows, *content), content, probes)


@examples(25)
@given(
    st.integers(0, 1 << 20), SIZES, SPREADS, st.integers(0, 3), st.integers(1, 2),
    st.sampled_from([0, 1, 32]), st.sampled_from([30, 60]), st.integers(2, 3),
)  # fmt: skip
def test_threads_that_take_stretches_of_the_probes_find_the_same(
    seed: int, rows: int, spread: str, dims: int, pieces: int, kept: int, many: int, threads: int
) -> None:
    content, probes = rows_and_probes(seed, rows, spread, dims, pieces, base=1000, probes=many)
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, KEPT_A_PROBE=kept, LEAST_ROOM=64 * (kept > 0), LEAST_APART=3, LEAST_STRETCH=7, IN_ORDER=40)
        assert_found(build_planar(1000, rows, *content), content, probes, threads)


@pytest.mark.nojit
@pytest.mark.parametrize("dims", [0, 1, 2])
def test_boxes_in_a_few_blocks(dims: int) -> None:
    content, probes = rows_and_probes(dims, 700, "near", dims, 1 + dims % 2, base=5, probes=14)
    assert_found(build_planar(5, 700, *content), content, probes)


def test_a_long_run_has_all_levels() -> None:
    rows = 1 << 18
    content, probes = rows_and_probes(3, rows, "near", 1, 1, base=0, probes=16)
    run = build_planar(0, rows, *content)
    assert len(run.levels) == 3
    assert_found(run, content, probes)


def parts_of(run: PlanarRun) -> list[Any]:
    return [run.base, run.rows, run.x.keys, run.x.offsets, run.x.aux, run.y.keys, run.y.offsets, run.ranks, run.bounds]


def assert_same(one: PlanarRun, two: PlanarRun) -> None:
    for a, b in zip(parts_of(one), parts_of(two), strict=True):
        np.testing.assert_array_equal(a, b)


@examples(20)
@given(st.integers(0, 1 << 20), SIZES, SIZES, SPREADS, st.sampled_from([1, 100, 1 << 20]))
def test_a_merge_in_parts_is_the_run_of_both_and_a_cut_undoes_it(
    seed: int, one: int, two: int, spread: str, step: int
) -> None:
    (keys, aux, kept), _ = rows_and_probes(seed, one + two, spread, 2, 1, base=0)
    step = max(step, (one + two) // 20)
    older = build_planar(7, one, keys[:one], aux[:one], kept[:one])
    newer = build_planar(7 + one, two, keys[one:], aux[one:], kept[one:])
    merge = PlanarMerge(older, newer, whole=step > 100)
    while not merge.advance(step):
        pass
    both = merge.result()
    assert_same(both, build_planar(7, one + two, keys, aux, kept))
    first, second = both.cut([7, 7 + one, 7 + one + two])
    assert_same(first, older)
    assert_same(second, newer)


def test_a_sealed_part_is_mapped_again() -> None:
    (keys, aux, kept), probes = rows_and_probes(1, 500, "far", 3, 1, base=40)
    rows = RowKeys(keys, aux, kept, frozenset({2}))
    planar = part_format(["planar"], None)
    arrays = {name: array.copy() for name, array in planar.seal(rows).arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    part = planar.mapped(500, arrays)
    assert isinstance(part, PlanarRun)
    assert part.inexact == {2}
    assert_same(part, build_planar(0, 500, keys, aux, kept))
    index = PlanarIndex(3)
    index.attach(part, 40, 500)
    found = index.search(probes, Workers(1))
    assert found.counts.tolist() == [len(one) for one in expected((keys, aux, kept), probes, 40)]


# -- joins -----------------------------------------------------------------------------------------------------------

A, B, C = (("col", "left", name) for name in ("a", "b", "id"))
P, Q, R = (("col", "right", name) for name in ("a", "b", "id"))
ONE, THREE = ("lit", 1), ("lit", 3)
TERMS: dict[str, list[Any]] = {
    "a": [
        ("<", A, P), (">=", A, P), ("between", A, ("-", P, ONE), ("+", P, THREE)), ("<>", A, P),
        ("or", ("<", A, ("-", P, ONE)), ("between", A, P, ("+", P, ONE))), ("between", A, ("-", P, Q), ("+", P, ONE)),
    ],
    "b": [
        (">", B, Q), ("<=", B, Q), ("between", B, ("-", Q, ONE), Q), ("<>", B, Q), ("<=", B, P), ("between", A, Q, P),
        ("and", ("<=", A, Q), ("<=", P, B)),
    ],
    "more": [None, None, None, ("<>", B, P), ("<", C, R), ("or", ("=", B, Q), ("<", A, Q)), (">", B, ("lit", 1))],
}  # fmt: skip


@examples(40)
@given(data=st.data())
def test_two_ranges_by_the_law(data: st.DataObject) -> None:
    terms = [data.draw(st.sampled_from(TERMS[place])) for place in ("a", "b", "more")]
    predicate = ("and", *(term for term in terms if term is not None))
    chosen, rows = random.Random(data.draw(st.integers(0, 1 << 16))), data.draw(st.sampled_from([9, 30]))
    shapes = st.sampled_from(["few", "ascending", "descending", "drifting", "ends"])
    left, right = (stream(data.draw(shapes), rows, chosen) for _ in range(2))
    window = WINDOWS[data.draw(st.sampled_from(["count", "time"]))]
    case = Case(predicate, window, left, right, self_join=data.draw(st.booleans()))
    cut(case, data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    small = data.draw(st.booleans())
    with pytest.MonkeyPatch.context() as patch:
        if small:
            set_limits(
                patch, SMALL_RUN=data.draw(st.sampled_from([1, 3])), AT_ONCE=1, SHARE=1, SMALLEST_LIMIT=2,
                KEPT_A_PROBE=0, LEAST_ROOM=0, YOUNG_ROOM=0, SMALLEST_SPREAD=1, SMALLEST_PART=1,
                COLLECTED=data.draw(st.sampled_from([0, 3, 20])), FEW_RUNS=0,
            )  # fmt: skip
        options = {"algorithm": data.draw(st.sampled_from(["planar", "auto"])), "threads": 1 + small}
        assert_pairs(case, data.draw(st.sampled_from(ORDERS)), **options)
        assert_counts(case, **options)


@pytest.mark.parametrize("window", [sj.CountWindow(left=500, right=4000), sj.TimeWindow(700, on="ts")], ids=str)
@pytest.mark.parametrize(
    "on",
    [
        "l.a < r.a - 150 AND l.b > r.b + 150",
        "l.a BETWEEN r.a - 3 AND r.a + 3 AND l.b BETWEEN r.b - 9 AND r.b + 9",
        "l.a BETWEEN r.a AND r.b AND l.f <> r.f",
        "l.f <= r.f AND l.b >= r.b + 200 AND l.a <> r.a",
    ],
)
def test_many_rows_as_sorted_runs_find_them(on: str, window: sj.CountWindow | sj.TimeWindow) -> None:
    rng = np.random.default_rng(1)
    for output, self_join in (("positions", False), ("count", False), ("count", True)):
        options: dict[str, Any] = {"on": on, "window": window, "order": "strict", "output": output}
        joins = [
            sj.StreamJoin(**options, self_join=self_join, algorithm=algorithm, threads=threads)
            for algorithm, threads in (("planar", 2), ("bi_sort", 1))
        ]
        at = 0
        for rows in (1, 70, 3000, 5, 6000, 1, 900):
            given = []
            for _ in range(2):
                times = np.arange(at, at + rows) // 2 + rng.integers(0, 5, rows)
                values = {name: rng.integers(0, 300, rows) for name in "ab"}
                given.append(values | {"f": rng.random(rows).round(2), "ts": times})
            at += rows
            batches: dict[str, Any] = {"left": given[0]} if self_join else {"left": given[0], "right": given[1]}
            one, two = (join.push(**batches, order_by=None if self_join else "ts") for join in joins)
            assert one.equals(two)
        assert [window.index.name for window in joins[0]._state.operator.windows.values()] == ["planar", "planar"]


def runs_of(join: sj.StreamJoin) -> list[PlanarRun]:
    index = join._state.operator.windows["left"].index
    assert isinstance(index, PlanarIndex)
    return index._runs


def test_runs_are_cut_where_rows_leave_one_after_the_other() -> None:
    rng = np.random.default_rng(5)
    join = sj.StreamJoin(on="l.a < r.a AND l.b > r.b", window=sj.CountWindow(40_000), output="count")
    cut_turns = 0
    for _ in range(30):
        rows = {name: rng.integers(0, 1000, 4000) for name in ("a", "b")} | {"t": np.arange(4000)}
        join.push(left=rows, right=rows, order_by="t")
        runs = runs_of(join)
        assert [run.end for run in runs[:-1]] == [run.base for run in runs[1:]]
        cut_turns += any(run.leaving for run in runs)
        assert len(runs) < 16
    assert cut_turns > 10
    assert join._state.operator.windows["left"].index.nbytes < 100 * 60_000


def test_auto_chooses_it_for_two_ranges_and_for_two_within_groups() -> None:
    rows = {"a": [1], "b": [2], "ts": [0]}

    def chosen(on: str, window: Any = None) -> str:
        join = sj.StreamJoin(on=on, window=window or sj.CountWindow(5))
        join.push(left=rows, right=rows)
        return str(join._state.operator.windows["left"].index.name)

    time = sj.TimeWindow(5, on="ts")
    assert chosen("l.a < r.a AND l.b > r.b") == chosen("l.a BETWEEN r.a AND r.b", time) == "planar"
    assert chosen("l.a < r.a AND l.b <> r.b") == "bi_sort"
    assert chosen("l.a < r.a", time) == "bi_sort"
    assert chosen("l.a = r.a AND l.b > r.b") == "bi_sort"
    assert chosen("l.a = r.a AND l.b > r.b AND l.ts < r.ts") == "planar"
    assert chosen("l.a = r.a AND l.b > r.b AND l.ts BETWEEN r.ts - 1 AND r.ts") == "band_cells"
    assert chosen("l.a BETWEEN r.a - 1 AND r.a + 1 AND l.b > r.b") == "band_cells"


def test_options_are_checked() -> None:
    join = sj.StreamJoin(on="l.a < r.a", window=sj.CountWindow(5), algorithm=sj.options.Planar(fan_out=2))
    assert "Planar(fan_out=2)" in repr(join)
    with pytest.raises(sj.ArgumentError, match="fan_out of planar must be a whole number from 1 to 1,024; got 0"):
        sj.options.Planar(fan_out=0)
    with pytest.raises(PredicateError):
        sj.StreamJoin(on="l.a < l.b AND", window=sj.CountWindow(5), algorithm="planar")


@pytest.mark.parametrize("disorder", [1, 50, 5000])
def test_counts_in_a_time_window_whatever_order_times_have(disorder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, SMALL_RUN=128)
    rng, at = np.random.default_rng(6), 0
    options: dict[str, Any] = {"on": "l.a < r.a AND l.b > r.b", "output": "count"}
    options["window"] = sj.TimeWindow(3000, on="ts", lateness=disorder)
    joins = [sj.StreamJoin(**options, algorithm=name, threads=1) for name in ("planar", "bi_sort")]
    runs: list[PlanarRun] = []
    for _ in range(9):
        batches = [
            {name: rng.integers(0, 400, 1000) for name in ("a", "b")}
            | {"ts": np.arange(at, at + 1000) + rng.integers(0, disorder, 1000)}
            for _ in range(2)
        ]
        at += 1000
        one, two = (join.push(*batches, order_by="ts") for join in joins)
        assert one.equals(two)
        runs += runs_of(joins[0])
        assert len(runs_of(joins[0])) < 64
    assert any(run.leaving for run in runs)
