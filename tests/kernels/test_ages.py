"""Counting by classes of age is counting row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.kernels.ages import CLASSES, class_shift, count_from
from slidejoin.index.sorted_runs.run import build_run
from slidejoin.jit.compiling import inlined


@inlined
def count_of(ages: int, start: int, end: int, low: int) -> Any:
    return count_from(ages, start, end, low)


def check(rows: int, kept: Any, cuts: list[tuple[int, int, int]]) -> None:
    keys = np.random.default_rng(rows).integers(0, 50, rows)
    run = build_run(7, rows, keys, np.empty((rows, 0), np.int64), kept)
    ages = run.ages_for(1 << 40, 8)
    assert ages != 0
    assert run.nbytes_of_ages >= 9 * run.size
    for one, other, low in cuts:
        start, end = sorted((one % (run.size + 1), other % (run.size + 1)))
        expected = int((run.offsets[start:end] >= low % rows).sum())
        assert count_of(ages, start, end, low % rows) == expected


CUTS = st.lists(st.tuples(*[st.integers(0, 10**6)] * 3), min_size=1, max_size=20)


@given(st.integers(1, 700), CUTS)
def test_counts_between_any_two_places(rows: int, cuts: list[tuple[int, int, int]]) -> None:
    check(rows, None, cuts)


@pytest.mark.nojit
@pytest.mark.parametrize("rows", [1, 63, 64, 65, 128, 1000])
def test_counts_at_the_ends(rows: int) -> None:
    kept = np.arange(rows) % 3 != 1
    places = [0, 1, 62, 63, 64, 65, 127, 128, rows - 1, rows]
    check(rows, kept, [(start, end, low) for start in places for end in places for low in (0, 1, rows // 2, rows - 1)])


def test_large_runs() -> None:
    rng = np.random.default_rng(5)
    check(70_000, None, [(int(a), int(b), int(c)) for a, b, c in rng.integers(0, 70_000, (300, 3))])
    assert 70_000 - 1 >> class_shift(70_000) < CLASSES


def test_ages_are_made_once_they_would_have_paid() -> None:
    run = build_run(0, 100, np.arange(100), np.empty((100, 0), np.int64), None)
    assert run.ages_for(100, 8) == 0
    assert run.nbytes_of_ages == 0
    assert run.ages_for(100_000, 8) != 0
    assert run.ages_for(0, 8) == run.rebased(9).ages_for(0, 8) != 0
