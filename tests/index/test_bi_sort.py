"""A chain of sorted runs answers like a list of rows, whatever was appended, merged and expired before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.answer import BatchMatches, MatchPositions
from slidejoin.index.probe import Probes
from slidejoin.index.sorted_runs import answers
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex, Run, build_run, merge_runs
from slidejoin.index.sorted_runs.probes import Reach
from slidejoin.spec import options
from tests.narrow import tune

KEYS = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))
Row = tuple[int, int, tuple[int, ...]]


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def probes_of(
    ranges: list[list[tuple[int, int]]], seen: list[tuple[int, int]], aux: list[tuple[int, list[tuple[int, int]]]]
) -> Probes:
    """`ranges[k][i]` is piece k of probe i; `aux` holds (dimension, one range for each probe)."""
    n = len(seen)

    def ends(pieces: list[list[tuple[int, int]]], which: int) -> Any:
        return i64([[pair[which] for pair in piece] for piece in pieces]).reshape(len(pieces), n)

    pieces = [piece for _, piece in aux]
    return Probes(
        ordinals=i64(range(100, 100 + n)),
        lo=ends(ranges, 0),
        hi=ends(ranges, 1),
        seen_from=i64([low for low, _ in seen]),
        seen_to=i64([high for _, high in seen]),
        aux_lo=ends(pieces, 0),
        aux_hi=ends(pieces, 1),
        aux_dims=i64([d for d, _ in aux]),
    )


def pairs_of(found: BatchMatches, n: int) -> list[tuple[int, int]]:
    """Both passes over all probes, as sorted pairs; checks that every probe writes into its own places."""
    counts = found.counts
    probes, stored = np.full(int(counts.sum()), -1, np.int64), np.full(int(counts.sum()), -1, np.int64)
    places = np.cumsum(counts) - counts
    half = n // 2
    found.fill(0, half, places, probes, stored)
    found.fill(half, n, places, probes, stored)
    assert probes.tolist() == np.repeat(np.arange(100, 100 + n), counts).tolist()
    return sorted(zip(probes.tolist(), stored.tolist(), strict=True))


def few_of(index: BiSortIndex, probes: Probes, begin: int = 0) -> tuple[list[tuple[int, int]], int]:
    """Positions of the probes from `begin` on, as sorted pairs, and up to which probe they were answered."""
    n = len(probes)
    into = MatchPositions(counts=np.full(n, -1, np.int32))
    index.find(probes, begin, n, into)
    counts = into.counts[begin : into.done]
    assert (into.begin, into.total) == (begin, counts.sum())
    assert set(into.counts[:begin]) | set(into.counts[into.done :]) <= {-1}
    stored = index.floor + (into.positions[: into.total].astype(np.int64) - index.floor - 1) % 2**32
    asked = np.repeat(np.arange(100 + begin, 100 + into.done), counts)
    return sorted(zip(asked.tolist(), stored.tolist(), strict=True)), into.done


def expected_of(rows: list[Row], probes: Probes, dims: int) -> list[tuple[int, int]]:
    found = []
    ordinals, keys = i64([ordinal for ordinal, _, _ in rows]), i64([key for _, key, _ in rows])
    aux = [i64([values[d] for _, _, values in rows]) for d in range(dims)]
    for i in range(len(probes)):
        inside = (probes.seen_from[i] <= ordinals) & (ordinals < probes.seen_to[i])
        inside &= in_any(keys, probes.lo[:, i], probes.hi[:, i])
        for d in range(dims):
            mine = probes.aux_dims == d
            inside &= in_any(aux[d], probes.aux_lo[mine, i], probes.aux_hi[mine, i])
        found += [(100 + i, ordinal) for ordinal in ordinals[inside].tolist()]
    return sorted(found)


def in_any(values: Any, low: Any, high: Any) -> Any:
    inside = np.zeros(len(values), np.bool_)
    for first, last in zip(low, high, strict=True):
        inside |= (first <= values) & (values <= last)
    return inside


@dataclass
class Chain:
    """An index and the plain list that it should agree with."""

    dims: int
    merge: bool = True
    index: BiSortIndex = field(init=False)
    rows: list[Row] = field(default_factory=list)
    base: int = 5
    options: options.BiSort | None = None

    def __post_init__(self) -> None:
        self.index = BiSortIndex(self.dims, merge=self.merge, options=self.options)

    def append(self, members: list[tuple[int | None, tuple[int, ...]]]) -> None:
        keys = i64([0 if key is None else key for key, _ in members])
        aux = i64([aux[: self.dims] for _, aux in members]).reshape(len(members), self.dims)
        kept = np.array([key is not None for key, _ in members], np.bool_)
        run = build_run(self.base, len(members), keys, aux, None if kept.all() else kept)
        live = self.base + len(members) - self.first
        if self.merge:
            self.index.append(run, live)
        else:  # as it was sealed, so it stays
            self.index.attach(run, self.base, live)
        self.rows += [(self.base + i, key, a) for i, (key, a) in enumerate(members) if key is not None]
        self.base += len(members)
        self.forget()  # merging leaves rows out that have left

    @property
    def first(self) -> int:
        return self.index.runs[0].base if self.index.runs else self.base

    def expire(self, ordinal: int) -> None:
        self.index.expire(ordinal)
        self.forget()

    def forget(self) -> None:
        first = self.first
        if self.rows and self.rows[0][0] < first:
            self.rows = [row for row in self.rows if row[0] >= first]


MEMBERS = st.lists(
    st.tuples(st.one_of(st.none(), KEYS), st.tuples(st.integers(0, 3), st.integers(0, 3))), min_size=1, max_size=9
)


@st.composite
def questions(draw: st.DrawFn, chain: Chain) -> Probes:
    n = draw(st.integers(0, 6))
    high = chain.base + 1
    froms = sorted(draw(st.lists(st.integers(0, high), min_size=n, max_size=n)))
    tos = sorted(draw(st.lists(st.integers(0, high), min_size=n, max_size=n)))
    split = draw(st.booleans())
    first = [tuple(sorted(draw(st.tuples(KEYS, KEYS)))) for _ in range(n)]
    pieces: list[Any] = [first]
    if split:  # disjoint and ascending, or empty
        pieces = [[(low, 0) if low <= 0 else (1, 0) for low, _ in first], [(1, max(high, 0)) for _, high in first]]
    aux = []
    for d in range(chain.dims):
        pieces_of_d = draw(st.integers(1, 2))
        ends = st.lists(st.sampled_from([(0, 3), (1, 2), (2, 2), (1, 0)]), min_size=n, max_size=n)
        aux += [(d, draw(ends)) for _ in range(pieces_of_d)]
    return probes_of(pieces, list(zip(froms, tos, strict=True)), aux)


@given(
    st.data(),
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from([2, 6, 4096]),
    st.sampled_from([0, 512]),
    st.sampled_from([2, 1000]),
    st.sampled_from([-1, 3, 128]),
    st.sampled_from([None, options.BiSort(buffer_size=3, fan_out=1), options.BiSort(buffer_size=100, fan_out=20)]),
)
def test_any_sequence_of_appends_and_expiries(
    data: st.DataObject,
    dims: int,
    merge: bool,
    limit: int,
    in_order: int,
    at_once: int,
    wide: int,
    chosen: options.BiSort | None,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, ordered_probes=in_order, probes_together=1 + in_order % 5, smallest_run=limit)
        tune(patch, merge_at_once=at_once, merge_share=1, ages_from=at_once % 2, wide_range=wide)
        chain = Chain(dims, merge, options=chosen)
        for _ in range(data.draw(st.integers(1, 8))):
            if data.draw(st.integers(0, 3)) == 0:
                chain.expire(data.draw(st.integers(0, chain.base)))
            else:
                chain.append(data.draw(MEMBERS))
            runs = chain.index.runs
            assert [run.base + run.rows for run in runs] == [
                *(run.base for run in runs[1:]),
                *[chain.base] * bool(runs),
            ]
            probes = data.draw(questions(chain))
            expected = expected_of(chain.rows, probes, dims)
            # Once ranges were searched for, whole runs leave.
            assert wide == 3 or pairs_of(chain.index.search(probes), len(probes)) == expected
            assert few_of(chain.index, probes) == (expected, len(probes))


@pytest.mark.parametrize("base", [0, 2**32 - 3, 2**32 - 1, 2**40])
def test_positions_beyond_32_bits(base: int) -> None:
    index = BiSortIndex(0, merge=False)
    for start in (base, base + 3):
        index.append(build_run(start, 3, i64([7, 8, 7]), np.empty((3, 0), np.int64), None), 6)
    probes = probes_of([[(7, 7), (0, 9)]], [(base, base + 5), (base + 1, base + 6)], [])
    found = few_of(index, probes)
    assert found == ([(100, base + o) for o in (0, 2, 3)] + [(101, base + o) for o in range(1, 6)], 2)
    assert not index.far
    index.append(build_run(base + 2**32, 1, i64([7]), np.empty((1, 0), np.int64), None), 6)
    assert index.far


@given(
    st.lists(
        st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=2), min_size=1, max_size=30
    ),
    st.integers(1, 2),
    st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=4), max_size=3),
)
def test_probes_that_may_have_a_match_are_not_left_out(
    asked: list[list[tuple[int, int]]], pieces: int, keys: list[list[int]]
) -> None:
    lo, hi = (np.array([[probe[k][end] for probe in asked] for k in range(pieces)], np.int64) for end in (0, 1))
    runs = [build_run(0, len(own), np.array(own, np.int64), np.empty((len(own), 0), np.int64), None) for own in keys]
    order = answers.order_of_some(lo, hi, runs, 0).tolist()
    assert len(set(order)) == len(order) <= len(asked)
    found = {
        i
        for i in range(len(asked))
        for k in range(pieces)
        if any(lo[k, i] <= key <= hi[k, i] for own in keys for key in own)
    }
    assert found <= set(order)


def test_probes_of_many_matches_are_left_to_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, probes_together=2, spare_matches=8, few_matches=4)
    chain = Chain(0)
    chain.append([(i // 25, ()) for i in range(50)])
    probes = probes_of([[(9, 9), (5, 6), (1, 1), (0, 0), (0, 2)]], [(0, 99)] * 5, [])
    # Two probes have room for 16 matches together: the third has 25.
    assert few_of(chain.index, probes) == ([], 2)
    assert few_of(chain.index, probes, 3) == ([], 3)


@pytest.mark.nojit
@pytest.mark.parametrize("merge", [True, False])
def test_a_chain_by_hand(merge: bool) -> None:
    chain = Chain(1, merge)
    for size in (1, 2, 3, 1, 1):
        chain.append([(i % 3, (i, 0)) for i in range(size)])
    chain.expire(7)
    probes = probes_of([[(0, 1), (2, 2), (1, 0)]], [(0, 99), (6, 12), (0, 99)], [(0, [(0, 1), (0, 3), (0, 3)])])
    expected = expected_of(chain.rows, probes, 1)
    assert pairs_of(chain.index.search(probes), 3) == expected
    assert few_of(chain.index, probes) == (expected, 3)


@pytest.mark.parametrize("width", [0, 40, 900])
def test_many_probes_of_wide_and_narrow_keys(width: int) -> None:
    rng = np.random.default_rng(width)
    for spread in (3_000, 2**45):
        chain = Chain(1)
        for rows in (400, 900, 300):
            keys = rng.integers(0, 3_000, rows) * (spread // 3_000)
            chain.append([(int(key), (int(key) % 4, 0)) for key in keys])
        n = 700
        low = rng.integers(-100, 3_100, n) * (spread // 3_000)
        seen = [(i, i + 900) for i in range(n)]
        aux = [(0, [(int(d), 2) for d in rng.integers(0, 3, n)])]
        probes = probes_of([[(int(key), int(key) + width * (spread // 900_000)) for key in low]], seen, aux)
        assert few_of(chain.index, probes) == (expected_of(chain.rows, probes, 1), n)


def test_one_run_holds_most_of_the_window_where_pushes_are_large() -> None:
    chain = Chain(0)
    for _ in range(60):
        chain.append([(i, ()) for i in range(500)])
        chain.index.expire(chain.base - 15_000)
    runs = chain.index.runs
    assert len(runs) <= 4
    assert 15_000 <= sum(run.rows for run in runs) <= 1.5 * 15_000
    assert max(run.rows for run in runs) >= 0.7 * 15_000


def test_the_newest_rows_stay_apart_while_ranges_are_wide() -> None:
    chain = Chain(0)
    probes = [probes_of([[(0, high)] * 9], [(0, 10**6)] * 9, []) for high in (400, 0)]
    for turn in range(60):
        chain.append([(i, ()) for i in range(500)])
        chain.index.expire(chain.base - 15_000)
        assert not chain.index.apart or chain.index.runs[-1].rows == 500
        chain.index.search(probes[turn >= 40])
        assert chain.index.apart == (turn < 40)
    assert len(chain.index.runs) < 10


def test_runs_stay_few_and_under_half_of_the_window_where_pushes_are_small() -> None:
    chain = Chain(0)
    for i in range(20_000):
        chain.append([(i, ())])
        chain.index.expire(chain.base - 15_000)
    runs = chain.index.runs
    assert len(runs) < 20
    assert max(run.rows for run in runs) <= 0.6 * 15_000


def test_small_pushes_collect_in_a_buffer() -> None:
    """Only what has collected is merged with older runs, so that these are as many times larger as they say."""
    chain, before = Chain(0, options=options.BiSort(buffer_size=64, fan_out=2)), 0
    for i in range(3000):
        chain.append([(i * 7 % 100, ())])
        chain.index.expire(chain.base - 1500)
        sizes = [run.rows for run in chain.index.runs]
        assert all(size >= 64 for size in sizes[:-1])
        assert sizes[-1] == before + 1 or sizes[-1] == 1 or before + 1 >= 64
        before = sizes[-1] if sizes[-1] < 64 else 0


@pytest.mark.parametrize("most", [2, 4, 16])
def test_a_larger_fan_out_leaves_fewer_runs(most: int) -> None:
    counts = []
    for fan_out in (1, most):
        chain = Chain(0, options=options.BiSort(fan_out=fan_out))
        for i in range(1000):
            chain.append([(i, ())])
        counts.append(len(chain.index.runs))
    assert counts[0] > counts[1]


def test_a_long_merge_is_spread_over_pushes() -> None:
    chain = Chain(1)
    rng = np.random.default_rng(2)
    seen, most = set(), 0
    for i in range(900):
        chain.append([(int(key), (int(key) % 4, 0)) for key in rng.integers(0, 99, 40)])
        chain.expire(chain.base - 30_000)
        seen.add(len(chain.index._merges))
        most = max(most, len(chain.index.runs))
        if i % 100 == 0:
            asked = [[(3, 5), (90, 99), (0, 0)]]
            probes = probes_of(asked, [(0, chain.base)] * 3, [(0, [(0, 3), (1, 2), (0, 1)])])
            assert pairs_of(chain.index.search(probes), 3) == expected_of(chain.rows, probes, 1)
    assert max(seen) > 0
    assert most < 20


@pytest.mark.parametrize("spread", [1, 2**40])
def test_counts_of_wide_ranges_in_runs_that_leave(spread: int) -> None:
    rng = np.random.default_rng(spread % 7)
    chain = Chain(0)
    for _ in range(24):
        chain.append([(int(key) * spread, ()) for key in rng.integers(0, 5000, 600)])
        chain.expire(chain.base - 6000)
        low = rng.integers(-500, 4000, 600)
        seen = [(max(chain.base - 6600 + i, 0), chain.base - 600 + i) for i in range(600)]
        keys = np.array([key for _, key, _ in chain.rows])
        ordinals = np.array([ordinal for ordinal, _, _ in chain.rows])
        probes = probes_of([[(int(key) * spread, (int(key) + 2500) * spread) for key in low]], seen, [])
        wanted = [
            int(((lo <= keys) & (keys <= hi) & (first <= ordinals) & (ordinals < last)).sum())
            for lo, hi, (first, last) in zip(probes.lo[0], probes.hi[0], seen, strict=True)
        ]
        assert chain.index.search(probes).counts.tolist() == wanted
    assert any(run.nbytes_of_ages for run in chain.index.runs)


def test_expiry_drops_whole_runs_only() -> None:
    chain = Chain(0, merge=False)
    for _ in range(3):
        chain.append([(0, ()), (1, ())])
    chain.index.expire(chain.first + 3)
    assert [run.base for run in chain.index.runs] == [7, 9]


def test_terms_whose_keys_were_clipped_are_remembered_by_merged_runs() -> None:
    none = np.empty((1, 0), np.int64)
    a = build_run(0, 1, i64([1]), none, None, frozenset({2}))
    b = build_run(1, 1, i64([0]), none, None, frozenset({5}))
    index = BiSortIndex(0)
    index.append(a, 1)
    index.append(b, 2)
    assert index.inexact == {2, 5}
    assert merge_runs(a, b).inexact == {2, 5}
    assert index.nbytes == sum(run.nbytes for run in index.runs) >= 2 * 8


@given(st.lists(st.lists(st.sampled_from([(0, 3), (1, 2), (2, 1), (3, 3)]), min_size=3, max_size=3), max_size=3), KEYS)
def test_reach_never_claims_too_much(pieces: list[list[tuple[int, int]]], key: int) -> None:
    probes = probes_of([[(key, key), (0, 0), (1, 0)]], [(0, 9)] * 3, [(0, piece) for piece in pieces])
    if not pieces:
        return
    reach = Reach.of(probes, 1)
    for low in range(-1, 5):
        for high in range(low, 5):
            ends = i64([low]), i64([high])
            run = Run(0, 1, i64([0]), np.zeros(1, np.int32), i64([[low]]), *ends)
            inside = [
                [any(p[i][0] <= value <= p[i][1] for p in pieces) for value in range(low, high + 1)] for i in (0, 1)
            ]
            assert reach.touches(run) or not any(map(any, inside))
            assert not reach.covers(run) or all(map(all, inside))


def test_rows_that_match_nothing_have_no_key() -> None:
    run = build_run(3, 4, i64([5, 5, 1, 5]), i64([[1], [2], [3], [4]]), np.array([True, False, True, True]))
    assert (run.keys.tolist(), run.offsets.tolist(), run.aux.ravel().tolist()) == ([1, 5, 5], [2, 0, 3], [3, 1, 4])
    assert (run.aux_min.tolist(), run.aux_max.tolist(), run.rows) == ([1], [4], 4)
    empty = build_run(3, 2, i64([5, 5]), i64([[1], [2]]), np.zeros(2, np.bool_))
    assert empty.aux_min > empty.aux_max
    merged = merge_runs(empty, build_run(5, 1, i64([0]), i64([[7]]), None))
    assert (merged.aux_min.tolist(), merged.rows, merged.offsets.tolist()) == ([7], 3, [2])
