"""Clocks, late rows and departures of a push, beside the same row by row in Python's whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.operator.ingest.kernels.clocks import EARLIEST, rank_ages, run_clocks, watch_clocks
from tests.law.checks import examples

LEAST, MOST = -(1 << 63), (1 << 63) - 1

times = st.one_of(st.integers(-4, 12), st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST]))
arrivals = st.lists(st.tuples(st.booleans(), times), max_size=14)
before = st.one_of(st.just(int(EARLIEST)), times)


def of_sides(rows: list[tuple[bool, int]]) -> tuple[np.ndarray, ...]:
    """Event times and ranks of left rows (True) and right ones."""
    found = []
    for side in (True, False):
        own = [(rank, time) for rank, (left, time) in enumerate(rows) if left == side]
        found += [np.array([one[place] for one in own], np.int64) for place in (1, 0)]
    left, left_rank, right, right_rank = found
    return left, right, left_rank, right_rank


@pytest.mark.nojit
@examples(300)
@given(rows=arrivals, left=before, right=before, lateness=st.sampled_from([0, 1, 3, 1 << 62, MOST, (1 << 64) - 1]))
def test_late_rows(rows: list[tuple[bool, int]], left: int, right: int, lateness: int) -> None:
    newest = {True: left, False: right}
    expected: dict[bool, list[bool]] = {True: [], False: []}
    for side, time in rows:
        low = min(newest.values())
        expected[side].append(low != LEAST and low - time > lateness)
        newest[side] = max(newest[side], time)
    clocks, sides = np.array([left, right]), of_sides(rows)
    late = [np.zeros(one.size, np.bool_) for one in sides[:2]]
    count = run_clocks(*sides, np.uint64(lateness), clocks, *late)
    assert count == sum(map(sum, expected.values()))
    assert [one.tolist() for one in late] == [expected[True], expected[False]]
    assert clocks.tolist() == [newest[True], newest[False]]
    none = np.empty(0, np.bool_)
    assert run_clocks(*sides, np.uint64(lateness), np.array([left, right]), none, none) == count


@pytest.mark.nojit
@examples(200)
@given(rows=arrivals, left=before, right=before)
def test_the_watermark_after_each_arrival(rows: list[tuple[bool, int]], left: int, right: int) -> None:
    newest, expected = {True: left, False: right}, []
    for side, time in rows:
        newest[side] = max(newest[side], time)
        expected.append(min(newest.values()))
    clocks, lows = np.array([left, right]), np.empty(len(rows), np.int64)
    watch_clocks(*of_sides(rows), clocks, lows)
    assert lows.tolist() == expected
    assert clocks.tolist() == [newest[True], newest[False]]


@pytest.mark.nojit
@examples(200)
@given(marks=st.lists(times, max_size=12), ages=st.lists(times, max_size=12), ordered=st.booleans())
def test_ranks_of_ages(marks: list[int], ages: list[int], ordered: bool) -> None:
    ascending, asked = np.array(sorted(marks), np.int64), np.array(sorted(ages) if ordered else ages, np.int64)
    ranks = np.empty(asked.size, np.int64)
    rank_ages(ascending, asked, ranks)
    assert ranks.tolist() == np.searchsorted(ascending, asked, side="right").tolist()
