"""Pairs of ranges of both sides stand in arrival order, whatever stretches they are written in."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slidejoin.index.kernels.expansion import drain, keep_seen_ordinals, put_ordinals, put_same, write_edge
from slidejoin.index.parallel_search import search
from slidejoin.index.probe import Probes
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex, build_run
from slidejoin.jit.compiling import inlined
from slidejoin.operator.candidates import RangeCandidates
from slidejoin.runtime.array_pool import ArrayPool
from slidejoin.runtime.threads import Workers
from slidejoin.tuning import Tuning
from tests.narrow import tune


def questions(rng: np.random.Generator, n: int, rows: int, width: int, pieces: int, aux: int) -> Probes:
    """Return n probes of keys 0…99 that see different stretches of the ordinals."""
    lo = rng.integers(-5, 100, (pieces, n))
    if pieces > 1:
        lo.sort(axis=0)
    hi = lo + rng.integers(-1, width + 1, (pieces, n))
    hi[:-1] = np.minimum(hi[:-1], lo[1:] - 1)  # pieces do not overlap
    seen_to = np.sort(rng.integers(0, rows + 10, n))
    low = rng.integers(0, 3, (aux, n))
    return Probes(
        np.arange(1000, 1000 + n), lo, hi, np.maximum(seen_to - rows // 2, 0), seen_to, low, low + 1,
        np.zeros(aux, np.int64),
    )  # fmt: skip


def written_one_by_one(
    sides: list[tuple[Any, np.ndarray[Any, Any], Probes, np.ndarray[Any, Any], np.ndarray[Any, Any]]], slots: int
) -> list[list[tuple[int, int]]]:
    """Return the sorted pairs of each slot, found by looking at every row."""
    pairs: list[list[tuple[int, int]]] = [[] for _ in range(slots)]
    for role, own, probes, keys, aux in sides:
        for i, slot in enumerate(own.tolist()):
            for ordinal, key in enumerate(keys.tolist()):
                inside = any(low <= key <= high for low, high in zip(probes.lo[:, i], probes.hi[:, i], strict=True))
                seen = probes.seen_from[i] <= ordinal < probes.seen_to[i]
                fits = not len(probes.aux_dims) or probes.aux_lo[0, i] <= aux[ordinal, 0] <= probes.aux_hi[0, i]
                if inside and seen and fits:
                    pair = (int(probes.ordinals[i]), ordinal)
                    pairs[slot].append(pair if role == "left" else pair[::-1])
    return [sorted(found) for found in pairs]


@given(
    st.integers(0, 2**32), st.integers(0, 12), st.integers(0, 12), st.sampled_from([0, 3, 100]),
    st.integers(1, 2), st.integers(0, 1), st.integers(1, 3), st.integers(0, 24),
)  # fmt: skip
@example(1, 12, 12, 100, 1, 0, 3, 7)
@example(2, 0, 0, 3, 1, 0, 1, 0)
@example(3, 12, 0, 100, 2, 0, 2, 5)
@pytest.mark.nojit
def test_pairs_of_both_sides_are_those_of_every_row_looked_at(
    seed: int, left: int, right: int, width: int, pieces: int, aux: int, threads: int, cut: int
) -> None:
    rng, rows = np.random.default_rng(seed), 60
    slots = left + right
    places = rng.permutation(slots)
    shared = Workers(threads, Tuning(write_spread=1))
    found, sides = RangeCandidates(slots, shared, ArrayPool(np.int64)), []
    for role, own in (("left", np.sort(places[:left])), ("right", np.sort(places[left:]))):
        index, keys, beside = (
            BiSortIndex(aux, merge=False),
            rng.integers(0, 100, rows),
            rng.integers(0, 4, (rows, aux)),
        )
        for base in (0, 25, 50):
            part = slice(base, min(base + 25, rows))
            index.append(build_run(base, keys[part].size, keys[part], beside[part], None), rows)
        probes = questions(rng, own.size, rows, width, pieces, aux)
        found.add(role, own, search(index, probes, Workers(threads, Tuning(search_spread=2))))
        sides.append((role, own, probes, keys, beside))
    wanted = written_one_by_one(sides, slots)
    assert found.counts.tolist() == [len(pairs) for pairs in wanted]
    assert found.total == sum(map(len, wanted))
    ends = [0, *np.cumsum(found.counts).tolist()]
    for first, last in pairwise(sorted({0, min(cut, slots), slots})):
        got = [column.tolist() for column in found.write(first, last)]
        assert len(got[0]) == len(got[1]) == ends[last] - ends[first]
        for slot in range(first, last):
            part = slice(ends[slot] - ends[first], ends[slot + 1] - ends[first])
            assert sorted(zip(got[0][part], got[1][part], strict=True)) == wanted[slot]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("width", [0, 40, 3000])
def test_many_pairs_over_several_stages(threads: int, width: int) -> None:
    rng, n, rows = np.random.default_rng(width), 700, 9000
    found, wanted = RangeCandidates(2 * n, Workers(threads), ArrayPool(np.int64)), {}
    for number, role in enumerate(("left", "right")):
        index, keys, none = BiSortIndex(0), rng.integers(0, 5000, rows), np.empty((0, n), np.int64)
        for base in range(0, rows, 3000):
            index.append(build_run(base, 3000, keys[base : base + 3000], np.empty((3000, 0), np.int64), None), rows)
        lo, seen_to = rng.integers(0, 5000, (1, n)), np.sort(rng.integers(5000, rows + 1, n))
        ordinals = np.arange(n)
        probes = Probes(ordinals, lo, lo + width, seen_to - 5000, seen_to, none, none, np.empty(0, np.int64))
        own = np.arange(number, 2 * n, 2)
        found.add(role, own, search(index, probes, Workers(threads)))
        for i in range(n):
            window = keys[seen_to[i] - 5000 : seen_to[i]]
            stored = np.flatnonzero((lo[0, i] <= window) & (window <= lo[0, i] + width)) + seen_to[i] - 5000
            wanted[int(own[i])] = (role, i, stored)
    left, right = found.write(0, 2 * n)
    ends = [0, *np.cumsum(found.counts).tolist()]
    for slot, (role, probe, stored) in wanted.items():
        both = left[ends[slot] : ends[slot + 1]], right[ends[slot] : ends[slot + 1]]
        own, others = both if role == "left" else both[::-1]
        assert own.tolist() == [probe] * stored.size
        assert np.sort(others).tolist() == stored.tolist()


def test_an_answer_in_parts_is_written_by_many_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, write_spread=1)
    for _ in range(20):
        test_many_pairs_over_several_stages(5, 40)


@inlined
def put_ordinals_of(address: int, base: int, to: int) -> None:
    put_ordinals(address, base, to)


@inlined
def put_same_of(value: int, to: int) -> None:
    put_same(value, to)


@inlined
def keep_of(address: int, lanes: int, low: int, high: int, base: int, to: int) -> Any:
    return keep_seen_ordinals(address, lanes, low, high, base, to)


@inlined
def drain_of(stage: int, to: int, skip: int, lines: int) -> None:
    drain(stage, to, skip, lines)


@inlined
def edge_of(stage: int, to: int, begin: int, end: int) -> None:
    write_edge(stage, to, begin, end)


@pytest.mark.nojit
def test_eight_at_once() -> None:
    words = np.array([(7 << 32) | offset for offset in (5, 0, 9, 2**32 - 1, 3, 3, 8, 1)], np.uint64)
    offsets, out = [5, 0, 9, 2**32 - 1, 3, 3, 8, 1], np.full(9, -1, np.int64)
    put_ordinals_of(words.ctypes.data, 2**40, out.ctypes.data)
    assert out.tolist() == [*(2**40 + offset for offset in offsets), -1]
    put_same_of(-7, out.ctypes.data)
    assert out.tolist() == [*[-7] * 8, -1]
    for lanes in range(9):
        kept = [offset - 3 for offset in offsets[:lanes] if 1 <= offset < 9]
        assert keep_of(words.ctypes.data, lanes, 1, 9, -3, out.ctypes.data) == len(kept)
        assert out[: len(kept)].tolist() == kept
        assert out[8] == -1


@pytest.mark.nojit
@pytest.mark.parametrize("skip", [0, 1, 7])
@pytest.mark.parametrize("lines", [1, 2, 5])
def test_a_stage_leaves_in_whole_lines(skip: int, lines: int) -> None:
    memory, raw = np.arange(8 * (lines + 2)), np.full(8 * (lines + 3), -1, np.int64)
    first = -raw.ctypes.data % 64 // 8
    out = raw[first : first + 8 * (lines + 1)]
    behind = memory[8 * lines :].tolist()
    whole = memory.tolist()
    drain_of(memory.ctypes.data, out.ctypes.data, 8 * skip, lines)
    assert out.tolist() == [*[-1] * skip, *whole[skip : 8 * lines], *[-1] * 8]
    assert memory[:16].tolist() == behind
    edge_of(memory.ctypes.data, out.ctypes.data + 64 * lines, 8 * skip, 64)
    assert out[8 * lines :].tolist() == [*[-1] * skip, *behind[skip:8]]
