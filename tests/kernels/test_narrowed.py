"""The scan of narrowed keys finds what the scalar twin and the scan of whole keys find."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.comparing import compare_blocks, compare_one_by_one
from slidejoin.papers.cell_join.kernels.narrowed import FRAME, ScannedRows, compare_narrowed, narrow_keys
from slidejoin.papers.kernels.walking import MatchEntries, ProbeRanges
from slidejoin.papers.kernels.word_lanes import WORDS_AT_ONCE

LEAST, MOST = -(2**63), 2**63 - 1
values = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**33, 2**62, LEAST, LEAST + 1, MOST - 1, MOST]),
    st.integers(LEAST, MOST),
)
SIZE = WORDS_AT_ONCE


@pytest.mark.nojit
@given(
    stored=st.lists(st.tuples(values, st.integers(1, 150)), min_size=1, max_size=8),
    asked=st.lists(st.tuples(values, values).map(sorted), min_size=1, max_size=11),
    cuts=st.lists(st.integers(1, 700), max_size=4),
    skipped=st.integers(0, 2),
    seen=st.tuples(st.integers(0, 900), st.integers(0, 900)),
    empty=st.booleans(),
)
def test_three_ways_find_the_same(
    stored: list[tuple[int, int]],
    asked: list[list[int]],
    cuts: list[int],
    skipped: int,
    seen: tuple[int, int],
    empty: bool,
) -> None:
    keys = np.repeat(*(np.array(part, np.int64) for part in zip(*stored, strict=True)))[: 5 * SIZE]
    keys[1::3] = keys[0]
    first, rows = skipped * SIZE, keys.size
    places = (-(-rows // SIZE) + 1) * SIZE
    at = (first + np.arange(rows)) % places
    ring, ordinals = np.full(places, 7), np.zeros(places, np.int64)
    words, frames = np.full(places, 7, np.uint32), np.zeros((places // SIZE, FRAME), np.int64)
    done = 0
    for cut in [*cuts, rows]:  # rows come in parts, and widen the frames of their basic windows
        some = min(cut, rows - done)
        ring[at[done : done + some]], ordinals[at[done : done + some]] = (
            keys[done : done + some],
            at[done : done + some],
        )
        ordinals[at[done : done + some]] = 100 + np.arange(done, done + some)
        narrow_keys(ring, words, frames, first + done, first + done + some, SIZE)
        done += some
    lo, hi = (np.array([part], np.int64) for part in zip(*asked, strict=True))
    if empty:
        lo[0, 0], hi[0, 0] = 1, 0
    n = lo.shape[1]
    seen_from, seen_to = np.full(n, min(seen)), np.full(n, max(seen))
    found = []
    for compare, begun in ((compare_one_by_one, ()), (compare_blocks, ()), (compare_narrowed, (words, frames))):
        entries = MatchEntries(np.empty(20_000, np.int64), np.empty(20_000, np.int32))
        scanned, ranges = (
            ScannedRows(ring, ordinals, first, first + rows, SIZE),
            ProbeRanges(lo, hi, seen_from, seen_to),
        )
        total = compare(*begun, scanned, ranges, 0, n, entries, 20_000)
        found.append(sorted(zip(entries.probes[:total].tolist(), entries.ordinals[:total].tolist(), strict=True)))
    assert found[0] == found[1] == found[2]
    law = [
        (i, 100 + row)
        for i in range(n)
        for row, key in enumerate(keys.tolist())
        if lo[0, i] <= key <= hi[0, i] and seen_from[i] <= 100 + row < seen_to[i]
    ]
    assert found[0] == law


def test_no_room_is_told() -> None:
    keys = np.zeros(SIZE, np.int64)
    words, frames = np.empty(SIZE, np.uint32), np.zeros((1, FRAME), np.int64)
    narrow_keys(keys, words, frames, 0, SIZE, SIZE)
    nothing, far = np.zeros((1, 1), np.int64), np.full(1, 1 << 40)
    entries = MatchEntries(np.empty(100, np.int64), np.empty(100, np.int32))
    stored = ScannedRows(keys, np.arange(SIZE), 0, SIZE, SIZE)
    arguments = (stored, ProbeRanges(nothing, nothing, nothing[0], far), 0, 1, entries, 100)
    assert compare_narrowed(words, frames, *arguments) == -1
    assert compare_one_by_one(*arguments) == -1
