"""Runs hold what they were given, in the order of keys, whatever the keys are and however they were merged."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slidejoin.index.kernels.searching import close_directory, mark_directory
from slidejoin.index.probe import Probes
from slidejoin.index.sorted_runs import merging
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex
from slidejoin.index.sorted_runs.merging import Merge, merge_runs
from slidejoin.index.sorted_runs.run import Run, build_run, shift_of

LOW, HIGH = -(2**63), 2**63 - 1
WIDE = st.one_of(
    st.integers(-4, 4), st.sampled_from([LOW, LOW + 1, HIGH - 1, HIGH]), st.integers(LOW, HIGH),
    st.integers(2**32 - 4, 2**32 + 4),
)  # fmt: skip
KEYS = st.lists(WIDE, max_size=40)


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def run_of(keys: list[int], base: int = 0, kept: list[bool] | None = None) -> Run:
    aux = np.arange(base, base + len(keys)).reshape(-1, 1)
    return build_run(base, len(keys), i64(keys), aux, None if kept is None else np.array(kept, np.bool_))


def content(run: Run) -> list[tuple[int, int, int]]:
    return list(zip(run.keys.tolist(), (run.base + run.offsets).tolist(), run.aux.ravel().tolist(), strict=True))


def expected(keys: list[int]) -> list[tuple[int, int, int]]:
    return [(keys[row], row, row) for row in sorted(range(len(keys)), key=keys.__getitem__)]


@given(KEYS)
@example([HIGH, LOW, HIGH, LOW])
@example([])
@pytest.mark.nojit
def test_a_run_is_sorted(keys: list[int]) -> None:
    run = run_of(keys)
    assert content(run) == expected(keys)
    again = Run(0, len(keys), run.keys, run.offsets, run.aux, run.aux_min, run.aux_max)
    assert content(again) == content(run)
    assert (again.smallest, again.largest_key, again.shift) == (run.smallest, run.largest_key, run.shift)
    np.testing.assert_array_equal(again.words, run.words)


@pytest.mark.parametrize("span", [1, 5, 2**11, 2**22, 2**31, 2**32 - 2, 2**32, 2**40, 2**62, 2**64 - 1])
@pytest.mark.parametrize("smallest", [LOW, 0])
def test_large_runs_of_every_width(span: int, smallest: int) -> None:
    rng = np.random.default_rng(span % 97)
    span = min(span, HIGH - smallest)
    raw = (rng.random(3000) ** 9 * float(span)).astype(np.float64)
    keys = [smallest + min(int(value), span) for value in raw] + [smallest, smallest + span]
    assert content(run_of(keys)) == expected(keys)
    kept = [bool(bit) for bit in rng.integers(0, 2, len(keys))]
    assert content(run_of(keys, 0, kept)) == [row for row in expected(keys) if kept[row[1]]]


def test_many_keys_with_the_same_upper_bits() -> None:
    rng = np.random.default_rng(1)
    keys = [LOW, HIGH, *rng.integers(0, 1000, 2000).tolist()]
    run = run_of(keys)
    assert run.shift == 33
    assert content(run) == expected(keys)


@given(KEYS, KEYS, st.sampled_from([1, 7, 1000]))
@pytest.mark.nojit
def test_a_merge_in_stretches_is_the_run_of_both(a: list[int], b: list[int], stretch: int) -> None:
    older, newer = run_of(a), run_of(b, len(a))
    merge = Merge(older, newer)
    while not merge.advance(stretch):
        pass
    merged, both = merge.result(), run_of(a + b)
    assert content(merged) == content(both) == content(merge_runs(older, newer))
    assert (merged.base, merged.rows, merged.shift, merged.size) == (both.base, both.rows, both.shift, both.size)
    np.testing.assert_array_equal(merged.directory, both.directory)
    np.testing.assert_array_equal(merged.words, both.words)
    assert (merged.aux_min.tolist(), merged.aux_max.tolist()) == (both.aux_min.tolist(), both.aux_max.tolist())


NEAR = st.one_of(st.integers(-4, 4), st.integers(-(2**30), 2**30), st.sampled_from([LOW, LOW + 1]))


@given(
    a=st.lists(NEAR, min_size=1, max_size=60), b=st.lists(NEAR, min_size=1, max_size=60), data=st.data(),
    tile=st.integers(1, 12), stretch=st.integers(1, 90),
)  # fmt: skip
@pytest.mark.nojit
def test_a_merge_leaves_rows_out_in_one_pass(a: list[int], b: list[int], data: Any, tile: int, stretch: int) -> None:
    """Also where rows that can match nothing have no key, and where what leaves was at the ends."""
    floor, drift = data.draw(st.integers(0, len(a))), data.draw(st.sampled_from([0, 0, 2**20]))
    a, b = [key + drift * row for row, key in enumerate(a)], [key + drift * (len(a) + row) for row, key in enumerate(b)]
    marks = data.draw(st.sampled_from([None, data.draw(st.lists(st.booleans(), min_size=len(a), max_size=len(a)))]))
    nothing = np.empty((max(len(a), len(b)), 0), np.int64)
    older = build_run(7, len(a), i64(a), nothing[: len(a)], None if marks is None else np.array(marks, np.bool_))
    newer = build_run(7 + len(a), len(b), i64(b), nothing[: len(b)], None)
    whole = merge_runs(older.trimmed(7 + floor), newer)
    merge, turns = Merge(older, newer, 7 + floor, whole=stretch > 80, tile=tile), 1
    while not merge.advance(stretch):
        turns += 1
    assert turns <= 1 + merge.size // stretch
    run = merge.result()
    assert (run.base, run.rows, run.size) == (whole.base, whole.rows, whole.size)
    assert run.keys.tolist() == whole.keys.tolist()
    assert run.offsets.tolist() == whole.offsets.tolist()
    assert run.smallest <= whole.smallest
    assert run.largest_key >= whole.largest_key
    # It is told where keys begin as a run is that was sorted anew.
    again = np.zeros_like(run.directory)
    mark_directory(run.words, 0, run.size, run.step, again)
    close_directory(again)
    np.testing.assert_array_equal(run.directory, again)
    span = max(whole.largest_key - whole.smallest, 1)
    assert run.largest_key - run.smallest <= span * merging.TIGHT // (merging.TIGHT - 1) + 1


def test_ends_follow_keys_that_move_on() -> None:
    """Else distances from the first smallest key would need more than 32 bits after a while."""
    rows, index = 1 << 13, BiSortIndex(0)
    for push in range(120):
        keys = push * 2**26 + np.arange(rows) * 2**10
        index.append(build_run(push * rows, rows, keys, np.empty((rows, 0), np.int64), None), 16 * rows)
        index.expire((push - 15) * rows)
    assert all(run.wide is None for run in index.runs)
    assert sum(run.size for run in index.runs) <= 26 * rows


@pytest.mark.parametrize("seed", range(6))
def test_many_probes_of_skewed_and_wide_keys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scale = [3, 10**4, 2**31, 2**45, 2**62, 2**62][seed]
    keys = (rng.random(6000) ** (1 + 4 * (seed % 3)) * scale).astype(np.int64)
    if seed == 5:
        keys[:2] = LOW, HIGH
    index = BiSortIndex(0, merge=bool(seed % 2))
    for base in range(0, 6000, 1500):
        index.append(build_run(base, 1500, keys[base : base + 1500], np.empty((1500, 0), np.int64), None), 6000)
    n = 1200
    width = [0, 50, 10**6, 2**40, 2**58, 2**61][seed]
    lo = keys[rng.integers(0, 6000, n)] - rng.integers(0, width + 1, n)
    hi = lo + rng.integers(-1, 2 * width + 2, n)
    lo[:3], hi[:3] = LOW, (HIGH, keys[0], LOW)
    lo[3:5], hi[3:5] = keys[1], HIGH
    seen_to = np.sort(rng.integers(0, 6100, n))
    seen_from = np.maximum(seen_to - 4000, 0)
    none = np.empty((0, n), np.int64)
    probes = Probes(
        np.arange(n), lo.reshape(1, n), hi.reshape(1, n), seen_from, seen_to, none, none, np.empty(0, np.int64)
    )
    found = index.search(probes)
    ordinals = np.arange(6000)
    wanted = [
        np.flatnonzero((lo[i] <= keys) & (keys <= hi[i]) & (seen_from[i] <= ordinals) & (ordinals < seen_to[i]))
        for i in range(n)
    ]
    assert found.counts.tolist() == [rows.size for rows in wanted]
    total = int(found.counts.sum())
    places = np.cumsum(found.counts) - found.counts
    for cuts in ((0, n), (0, 1, 700, n)):
        probed, stored = np.full(total, -1), np.full(total, -1)
        for first, last in pairwise(cuts):
            found.fill(first, last, places, probed, stored)
        assert probed.tolist() == np.repeat(np.arange(n), found.counts).tolist()
        for i, rows in enumerate(wanted):
            assert np.sort(stored[places[i] : places[i] + rows.size]).tolist() == rows.tolist()


def test_a_run_at_another_ordinal_shares_its_arrays() -> None:
    run = run_of([3, 1, 2], 5)
    moved = run.rebased(2**40)
    assert (moved.base, moved.words is run.words) == (2**40, True)
    assert run.rebased(5) is run
    assert moved.line[7] == 2**40


def test_shift_leaves_room_for_the_key_after_the_largest() -> None:
    for span in (0, 1, 2**32 - 2, 2**32 - 1, 2**32, 2**33 - 1, 2**33 - 2, 2**64 - 1):
        shift = shift_of(LOW, LOW + span)
        assert span >> shift < 2**32 - 1
        assert shift == 0 or span >> (shift - 1) >= 2**32 - 1
