"""Counting what probes see, one after the other, is counting row by row."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.kernels.view import ARRIVED, OWN, SIZE, SLIDE, VIEW, see_rows, view_of
from slidejoin.index.probe import ProbeBatch
from slidejoin.index.sorted_runs.run import build_run
from slidejoin.spec.window import EVERYTHING


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def check(seed: int, rows: int, pushes: int, probes: int) -> None:
    """Put one batch of probes after the other to one run, from before it comes until after it has left."""
    draw = random.Random(seed)
    kept = np.array([draw.random() < 0.8 for _ in range(rows)]) if draw.random() < 0.5 else None
    base, size, slide, own = 50, draw.randrange(1, 2 * rows), draw.choice((1, 1, 7)), draw.random() < 0.3
    keys = i64([draw.randrange(0, 3 * rows) for _ in range(rows)])
    run = build_run(base, rows, keys, np.empty((rows, 0), np.int64), kept)
    offsets = run.offsets
    arrived = draw.randrange(0, base + rows)
    for _ in range(pushes):
        rank = np.sort(i64(draw.sample(range(2 * probes + rows), probes)))
        # Of the stored side no more has come than there were ranks for it.
        to = [arrived + int(rank[i]) - (0 if own else i) for i in range(probes)]
        begin = [max(seen - size, 0) // slide * slide for seen in to]
        view = np.zeros(VIEW, np.int64)
        view[[ARRIVED, SIZE, SLIDE, OWN]] = arrived, size, slide, own
        ends = begin[0], begin[-1], to[0], to[-1]
        ranges = [sorted((draw.randrange(run.size + 1), draw.randrange(run.size + 1))) for _ in range(probes)]
        counts = i64([draw.randrange(5) for _ in range(probes)])
        before = counts.copy()
        places = np.array([start << 32 | end for start, end in ranges], np.uint64)
        run.sights.count(ends, view, rank, base, places, counts)
        expected = [
            sum(begin[i] <= base + int(o) < to[i] for o in offsets[ranges[i][0] : ranges[i][1]]) for i in range(probes)
        ]
        assert (counts - before).tolist() == expected
        # Mostly on, by little or by much; and back, as when another thread had the later probes.
        arrived = max(0, arrived + draw.choice((0, 1, probes, rows // 40, rows, -rows // 2)))
    assert run.nbytes_of_ages > 4 * rows


@pytest.mark.nojit
@pytest.mark.parametrize("rows", [1, 2, 63, 64, 65, 130])
def test_few_rows(rows: int) -> None:
    for seed in range(3):
        check(seed, rows, 4, 3)


@given(st.integers(0, 10**6), st.integers(1, 700))
def test_runs_of_any_size(seed: int, rows: int) -> None:
    check(seed, rows, 12, 20)


@pytest.mark.parametrize("rows", [4096, 9000, 300_000])
def test_all_levels(rows: int) -> None:
    """Words of 64 bits, 64 of these, and 64 of those again have borders."""
    draw = np.random.default_rng(rows)
    run = build_run(0, rows, draw.permutation(rows), np.empty((rows, 0), np.int64), None)
    offsets, arrived = run.offsets, 0
    for step in (0, rows // 3, rows // 50, rows // 50, rows // 2, rows // 50):
        arrived += step
        n = rows // 60
        rank = np.sort(draw.choice(2 * n, n, replace=False))
        to = arrived + rank - np.arange(n)
        begin = np.maximum(to - rows // 2, 0)
        view = np.zeros(VIEW, np.int64)
        view[[ARRIVED, SIZE, SLIDE, OWN]] = arrived, rows // 2, 1, 0
        ends = int(begin[0]), int(begin[-1]), int(to[0]), int(to[-1])
        cuts = np.sort(draw.integers(0, rows + 1, (n, 2)), axis=1)
        counts = np.zeros(n, np.int64)
        places = (cuts[:, 0].astype(np.uint64) << np.uint64(32)) | cuts[:, 1].astype(np.uint64)
        run.sights.count(ends, view, rank, 0, places, counts)
        for i in range(0, n, max(1, n // 50)):
            inside = offsets[cuts[i, 0] : cuts[i, 1]]
            assert counts[i] == ((inside >= begin[i]) & (inside < to[i])).sum()


def no_ranges() -> Any:
    raise AssertionError


@pytest.mark.nojit
@given(
    st.sets(st.integers(0, 60), min_size=1, max_size=12), st.integers(0, 40), st.integers(1, 9), st.integers(1, 9),
    st.booleans(),
)  # fmt: skip
def test_rows_are_seen_until_their_whole_block_has_left(
    ranks: set[int], arrived: int, size: int, slide: int, own: bool
) -> None:
    rank, view = i64(sorted(ranks)), view_of(arrived, size, min(slide, size), own=own)
    seen_from, seen_to = np.empty((2, rank.size), np.int64)
    see_rows(rank, view, seen_from, seen_to)
    for i, place in enumerate(rank.tolist()):
        to = arrived + place - (0 if own else i)
        blocks = range(0, to + slide, min(slide, size))
        begin = max(block for block in blocks if all(o < to - size for o in range(block)))
        assert (int(seen_from[i]), int(seen_to[i])) == (begin, to)
    batch = ProbeBatch(first=0, rank=rank, view=view, ranges=no_ranges)
    assert batch.seen_by_ends() == tuple(int(ends[at]) for ends in (seen_from, seen_to) for at in (0, -1))


def test_a_window_of_time_shows_all_rows_before() -> None:
    seen_from, seen_to = np.empty((2, 2), np.int64)
    see_rows(i64([3, 9]), view_of(10**6, EVERYTHING, 1), seen_from, seen_to)
    assert (seen_from.tolist(), seen_to.tolist()) == ([0, 0], [10**6 + 3, 10**6 + 8])
