"""Several ranges of a row: put into order and joined, beside the keys that they hold."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.predicate.kernels.ends import tidy_pieces
from tests.law.checks import examples

LEAST, MOST = -(1 << 63), (1 << 63) - 1

ends = st.one_of(st.integers(0, 12), st.sampled_from([LEAST, MOST]))
rows_of_pieces = st.integers(1, 5).flatmap(
    lambda k: st.lists(st.lists(st.tuples(ends, ends), min_size=k, max_size=k), max_size=6)
)


@pytest.mark.nojit
@examples(300)
@given(rows=rows_of_pieces, most=st.integers(1, 5))
def test_pieces_hold_the_same_keys(rows: list[list[tuple[int, int]]], most: int) -> None:
    k = len(rows[0]) if rows else 1
    lo, hi = (np.array([[row[piece][end] for row in rows] for piece in range(k)], np.int64) for end in (0, 1))
    tidy_pieces(lo, hi, True, most)
    for row, lows, highs in zip(rows, lo.T.tolist(), hi.T.tolist(), strict=True):
        kept = [pair for pair in zip(lows, highs, strict=True) if pair != (1, 0)]
        assert len(kept) <= most
        # Those that are empty come last; others ascend and do not overlap.
        assert list(zip(lows, highs, strict=True)) == kept + [(1, 0)] * (k - len(kept))
        assert all(low <= high for low, high in kept)
        assert all(one[1] < two[0] for one, two in pairwise(kept))
        given_ = [pair for pair in row if pair[0] <= pair[1]]
        for key in {LEAST, MOST, *range(-1, 14)}:
            held = any(low <= key <= high for low, high in given_)
            found = any(low <= key <= high for low, high in kept)
            assert found >= held
            assert found == held or (len(kept) == most and kept[-1][0] <= key <= kept[-1][1])


@pytest.mark.nojit
@examples(100)
@given(rows=rows_of_pieces)
def test_pieces_that_are_only_put_in_order(rows: list[list[tuple[int, int]]]) -> None:
    k = len(rows[0]) if rows else 1
    lo, hi = (np.array([[row[piece][end] for row in rows] for piece in range(k)], np.int64) for end in (0, 1))
    tidy_pieces(lo, hi, False, k)
    for row, lows, highs in zip(rows, lo.T.tolist(), hi.T.tolist(), strict=True):
        some = sorted((pair for pair in row if pair[0] <= pair[1]), key=lambda pair: pair[0])
        assert list(zip(lows, highs, strict=True)) == some + [(1, 0)] * (k - len(some))
