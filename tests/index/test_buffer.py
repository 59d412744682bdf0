"""The insertion buffer holds what a run of the same rows would hold."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.kernels.searching import DIRECTORY, LARGEST, SMALLEST, STEP
from slidejoin.index.kernels.view import ARRIVED, SIZE, SLIDE, VIEW
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex
from slidejoin.index.sorted_runs.insertion_buffer import InsertionBuffer
from slidejoin.index.sorted_runs.run import build_run
from slidejoin.jit.vectors.fields import word, words_for
from slidejoin.jit.vectors.words import LANES
from slidejoin.operator.fused.kernels.run_probes import RUN_PROBES, probe_runs
from slidejoin.options import BiSort as Options
from slidejoin.runtime.array_pool import address_of, point

REACH = 2**62
CALM = st.integers(-9, 9)
FAR = st.one_of(CALM, st.integers(-(2**31), 2**31), st.sampled_from([REACH - 1, 1 - REACH, REACH, -REACH]))
BATCHES = st.one_of(st.lists(st.lists(kind, max_size=12), max_size=9) for kind in (CALM, CALM, FAR))


def i64(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.nojit
@given(BATCHES)
def test_a_buffer_is_a_run_that_grows(batches: list[list[int]]) -> None:
    buffer, held = InsertionBuffer(256), list[int]()
    for batch in batches:
        together = held + batch
        near = not together or max(together) - min(together) < 2**32 - 1
        fits = not batch or (near and all(abs(key) < REACH for key in batch))
        assert buffer.fits(i64(batch)) == fits
        if fits:
            assert buffer.take(100 + len(held)) == len(batch)
            held = together
        assert buffer.rows == len(held)
    if not held:
        return
    line = buffer.line()
    run, alone = buffer.hand_over(), build_run(100, len(held), i64(held), np.empty((len(held), 0), np.int64), None)
    np.testing.assert_array_equal(run.words, alone.words)
    assert (run.base, run.rows, run.smallest, run.largest_key) == (100, len(held), alone.smallest, alone.largest_key)
    assert [line[at] for at in (SMALLEST, LARGEST, STEP)] == [alone.line[at] for at in (SMALLEST, LARGEST, STEP)]
    np.testing.assert_array_equal(run.directory, alone.directory)
    assert buffer.rows == 0


@pytest.mark.parametrize("rows", [1, 95, 96, 97, 300, 2000])
@pytest.mark.parametrize("spread", [1, 50, 2**31])
def test_few_and_many_rows_are_sorted_alike(rows: int, spread: int) -> None:
    random, buffer, held = np.random.default_rng(rows), InsertionBuffer(4096), list[int]()
    for _ in range(2):
        keys = random.integers(-spread, spread, rows)
        assert buffer.fits(keys)
        assert np.all(np.diff(buffer.coming[:rows].astype(object)) > 0)
        buffer.take(len(held))
        held += keys.tolist()
    line = buffer.line()
    alone = build_run(0, len(held), i64(held), np.empty((len(held), 0), np.int64), None)
    directory = (ctypes.c_uint32 * alone.directory.size).from_address(line[DIRECTORY])
    assert list(directory) == alone.directory.tolist()
    np.testing.assert_array_equal(buffer.hand_over().words, alone.words)


def append(index: BiSortIndex, keys: np.ndarray, ordinal: int, live: int, *, buffered: bool) -> tuple[np.ndarray, int]:
    """Put rows into the buffer or append them as a run; return their words and how many rows were in the buffer."""
    buffer = index.buffer(keys.size, ordinal, live) if buffered else None
    if buffer is None or not buffer.fits(keys):
        index.append(build_run(ordinal, keys.size, keys, np.empty((keys.size, 0), np.int64), None), live)
        return np.arange(keys.size, dtype=np.uint64), 0
    index.open_buffer(buffer, keys.size, live)
    before = buffer.rows
    buffer.take(ordinal)
    return buffer.coming, before


class Probes:
    """Room for the matches of some probes, whose ranges lie around their keys, and the words for the kernel."""

    def __init__(self, lows: np.ndarray, highs: np.ndarray, probes: int, places: int) -> None:
        self.words, self.ends = words_for(RUN_PROBES), (lows, highs)
        self.counts, self.scratch = np.empty(probes, np.int32), np.empty(places, np.uint32)
        self.positions = np.empty(places + LANES, np.uint32)
        self.words[word(RUN_PROBES, "sign")] = 1
        for name, array in (("lows", lows), ("highs", highs), ("scratch", self.scratch), ("positions", self.positions)):
            point(self.words, word(RUN_PROBES, name), array)
        self.words[word(RUN_PROBES, "counts")] = address_of(self.counts)
        begin = word(RUN_PROBES, "seen")
        self.view = self.words[begin : begin + VIEW]


@given(st.data(), st.sampled_from([4, 16, 60]), st.integers(1, 60))
def test_runs_and_buffer_together_answer_as_the_law_says(data: st.DataObject, size: int, window: int) -> None:
    index, held = BiSortIndex(0, options=Options(buffer_size=size)), list[int]()
    slide = data.draw(st.integers(1, 3))
    for batch in data.draw(st.lists(st.lists(CALM, min_size=1, max_size=12), min_size=1, max_size=12)):
        arrived, keys = len(held), i64(batch)
        append(index, keys, arrived, window, buffered=data.draw(st.integers(0, 4)) > 0)
        held += batch
        # Probes come between the rows of this push: each one row later.
        probed = i64(data.draw(st.lists(CALM, max_size=len(batch))))
        n = probed.size
        order = np.argsort(probed, kind="stable").astype(np.uint64) + np.uint64(5)
        probes, rank = Probes(i64([-1, 3]), i64([1, 4]), n, 5000), 2 * np.arange(n)
        probes.view[[ARRIVED, SIZE, SLIDE]] = arrived, window, slide
        total = probe_runs(index.table(), probes.words, probed, rank, order, 5)
        expected = []
        for i, key in enumerate(probed.tolist()):
            seen_to = arrived + int(rank[i]) - i
            seen_from = max(seen_to - window, 0)
            seen_from -= seen_from % slide
            inside = [o for o in range(seen_from, min(seen_to, len(held))) if held[o] - key in {-1, 0, 1, 3, 4}]
            expected.append(inside)
        ends = np.cumsum(probes.counts)
        parts = np.split(probes.positions[:total].astype(np.int64) - 1, ends[:-1])
        got = [sorted(part.tolist()) for part in parts] if n else []
        assert total == ends[-1] if n else total == 0
        assert got == expected
        low = max(len(held) - window, 0)
        index.expire(low - low % slide)
    assert sum(run.size for run in index.runs) <= len(held)
    assert index.runs[-1].base + index.runs[-1].rows == len(held) if index.runs else len(held) >= window


def test_more_than_there_is_room_for_is_said() -> None:
    index, keys = BiSortIndex(0), np.zeros(500, np.int64)
    words, before = append(index, keys, 0, 500, buffered=True)
    probes, rank = Probes(i64([0]), i64([0]), 500, 1000), np.arange(500)
    probes.view[[ARRIVED, SIZE, SLIDE]] = 500, 500, 1
    assert probe_runs(index.table(), probes.words, keys, rank, words, before) == -1
    assert probe_runs(index.table(), probes.words, keys[:1], rank[:1], words, before) == 500


def test_no_buffer_where_runs_have_more_than_keys_or_pushes_are_large() -> None:
    assert BiSortIndex(1).buffer(4, 0, 1 << 20) is None
    assert BiSortIndex(0, merge=False).buffer(4, 0, 1 << 20) is None
    assert BiSortIndex(0, options=Options(buffer_size=1)).buffer(1, 0, 1 << 20) is None
    index = BiSortIndex(0)
    assert index.buffer(4097, 0, 1 << 20) is None
    for rows, capacity in ((1024, 4096), (1025, 16384), (4096, 16384), (1, 4096)):
        found = index.buffer(rows, 0, 1 << 20)
        assert found is not None
        assert found.capacity == capacity
    clipped = build_run(0, 1, i64([3]), np.empty((1, 0), np.int64), None, frozenset({0}))
    index.append(clipped, 1)
    assert index.buffer(4, 1, 1 << 20) is None
