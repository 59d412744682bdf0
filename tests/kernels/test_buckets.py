"""Where cells go: what stands in a line, and in which line it stands, is the whole key."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import types

from slidejoin.index.cells.kernels.buckets import (
    BUCKETS,
    LARGEST,
    MULTIPLIER,
    SHIFT,
    SMALLEST,
    SPREAD,
    bucket_of,
    new_state,
    reach_of,
    spread_of,
    whole_key,
)
from slidejoin.jit.compiling import I64, OUT_I64, kernel
from slidejoin.jit.vectors.vectors import LOW_32
from tests.kernels.cells import HIGH, LOW, i64

SHIFTS = [0, 1, 3, 12, 16, 25, 30, 31]


@kernel(I64, types.int64, types.int64, OUT_I64)
def buckets_of(cells: Any, buckets: int, multiplier: int, out: Any) -> None:
    for i in range(cells.size):
        out[i] = bucket_of(cells[i], buckets, multiplier)


@kernel(I64, I64, I64, OUT_I64)
def whole_keys(words: Any, lines: Any, state: Any, out: Any) -> None:
    for i in range(words.size):
        out[i] = whole_key(words[i], lines[i], state)


@pytest.mark.nojit
@pytest.mark.parametrize("buckets", [1, 2, 16, 17, 1 << 20, 2**32 - 1])
@pytest.mark.parametrize("shift", [0, 12, 31])
def test_buckets_are_in_range_spread_out_and_the_same_in_plain_python(buckets: int, shift: int) -> None:
    chosen = random.Random(buckets)
    cells = [*range(-40, 40), LOW, LOW + 1, HIGH - 1, HIGH, *(chosen.randrange(LOW, HIGH) for _ in range(200))]
    out, multiplier = np.empty(len(cells), np.int64), int(new_state(0, shift, buckets)[MULTIPLIER])
    buckets_of(i64(cells), buckets, multiplier, out)
    assert out.tolist() == [((cell * multiplier % 2**64 >> 32) * buckets) >> 32 for cell in cells]
    assert 0 <= out.min() <= out.max() < buckets
    # Neighbouring cells, of which a probe reads two, do not meet.
    assert len(set(out[:80].tolist())) >= min(buckets, 80) * 3 // 4


@pytest.mark.parametrize("shift", [4, 8, 12, 16, 18, 20])
def test_dense_cells_are_spread_as_evenly_as_by_the_golden_ratio(shift: int) -> None:
    """Cells in a row, as many as buckets: as good as one in each, and never more than three."""
    buckets = min(1 << 19, 1 << (31 - shift))
    out = np.empty(buckets, np.int64)
    for first in (0, 12345, -buckets // 2):
        cells = np.arange(first, first + buckets)
        buckets_of(cells, buckets, int(new_state(0, shift, buckets)[MULTIPLIER]), out)
        assert np.bincount(out).max() <= 3


def keys_within(chosen: random.Random, smallest: int, reach: int, n: int) -> list[int]:
    """Keys of which many are alike in their low 32 bits, the first and the last one among them."""
    few = [smallest, smallest + 1, smallest + 2**31, smallest + LOW_32, chosen.randrange(smallest, smallest + 2**32)]
    keys = [chosen.choice(few) + chosen.randrange((reach + 1) >> 32) * 2**32 for _ in range(n)]
    return [key for key in (*few, *keys) if key <= smallest + reach] + [smallest + reach]


def check_whole_keys(seed: int, shift: int, buckets: int, end: int) -> None:
    chosen, reach = random.Random(seed), reach_of(buckets)
    smallest = {0: LOW, 1: HIGH - reach}.get(end, chosen.randrange(LOW, HIGH - reach))
    keys, state = keys_within(chosen, smallest, reach, 60), new_state(0, shift, buckets)
    state[[SMALLEST, LARGEST]] = smallest, smallest + reach
    heads = np.empty(len(keys), np.int64)
    buckets_of(i64(keys) >> shift, buckets, int(state[MULTIPLIER]), heads)
    out = np.empty(len(keys), np.int64)
    for behind in {0, 1, int(state[SPREAD]) - 1} - {int(state[SPREAD])}:
        whole_keys(i64([key & LOW_32 for key in keys]), heads + behind, state, out)
        assert out.tolist() == keys
    # Keys that are alike in 32 bits share no line.
    lines: dict[int, set[int]] = {}
    for key, head in zip(keys, heads.tolist(), strict=True):
        lines.setdefault(key & LOW_32, set()).add(head)
    for word, one in lines.items():
        assert len(one) == len({key for key in keys if key & LOW_32 == word})
        ordered = sorted(one)
        assert all(b - a >= spread_of(buckets) for a, b in pairwise(ordered))


@given(st.integers(0, 2**32), st.sampled_from(SHIFTS), st.integers(1, 1 << 20), st.integers(0, 2))
def test_a_word_and_its_line_are_the_whole_key(seed: int, shift: int, buckets: int, end: int) -> None:
    check_whole_keys(seed, shift, buckets, end)


@pytest.mark.nojit
def test_whole_keys_by_seed() -> None:
    for seed in range(40):
        check_whole_keys(seed, SHIFTS[seed % 8], [1, 2, 3, 16, 17, 200, 1000, 1 << 19, 700_001][seed % 9], seed % 3)


@pytest.mark.parametrize("buckets", [1, 7, 16, 100, 1 << 19, 2**28])
def test_larger_tables_reach_further(buckets: int) -> None:
    assert reach_of(buckets) % 2**32 == LOW_32
    assert reach_of(2 * buckets) >= reach_of(buckets)
    assert reach_of(buckets) >= max(buckets // 16 - 1, 1) << 31
    state = new_state(5, 3, buckets)
    assert (state[SHIFT], state[BUCKETS], state[SPREAD]) == (3, buckets, spread_of(buckets))
