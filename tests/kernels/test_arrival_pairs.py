"""Checks of what probes found, and pairs in arrival order, against lists."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.kernels.arrival_pairs import ProbeStretch, SideMatches, filter_positions, merge_pairs
from tests.kernels.cells import CANARY, FIRSTS, i64, u32


def check_checks(seed: int, pieces: tuple[int, ...], n: int) -> None:
    chosen = random.Random(seed)
    rows, floor = 16, chosen.choice([0, 2**32 - 5, 2**33 + 7])
    dims = i64([d for d, count in enumerate(pieces) for _ in range(count)])
    stored = i64([[chosen.randrange(5) for _ in pieces] for _ in range(rows)]).reshape(rows, len(pieces))
    begin, end = sorted((chosen.randrange(n + 1), chosen.randrange(n + 1)))
    answers = [[floor + chosen.randrange(rows) for _ in range(chosen.choice([0, 1, 3, 30]))] for _ in range(n)]
    lows = i64([[chosen.randrange(5) for _ in range(n)] for _ in dims]).reshape(dims.size, n)
    highs = i64([[chosen.randrange(5) for _ in range(n)] for _ in dims]).reshape(dims.size, n)
    counts = np.array([len(answer) for answer in answers], np.int32)
    flat = [ordinal + 1 for answer in answers[begin:end] for ordinal in answer]
    found = u32([*flat, CANARY])

    def passes(i: int, ordinal: int) -> bool:
        row = stored[(ordinal + 1) % rows]
        return all(
            any(lows[p, i] <= row[d] <= highs[p, i] for p in np.flatnonzero(dims == d)) for d in range(len(pieces))
        )

    kept = [[o for o in answers[i] if passes(i, o)] if begin <= i < end else answers[i] for i in range(n)]
    left = filter_positions(found, counts, begin, end, stored, lows, highs, dims)
    assert found[:left].tolist() == u32([o + 1 for answer in kept[begin:end] for o in answer]).tolist()
    assert counts.tolist() == [len(answer) for answer in kept]
    assert found[-1] == CANARY


@given(st.integers(0, 2**32), st.sampled_from([(1,), (2,), (1, 3), (2, 1, 1)]), st.integers(0, 6))
def test_found_rows_are_checked_in_every_dimension(seed: int, pieces: tuple[int, ...], n: int) -> None:
    check_checks(seed, pieces, n)


@pytest.mark.nojit
def test_checks_by_seed() -> None:
    for seed in range(12):
        check_checks(seed, [(1,), (2,), (1, 3), (2, 1, 1)][seed % 4], 5)


def check_pairs(seed: int, probes: int, parts: int) -> None:
    """Both sides' answers in the order of their ranks, in stretches that begin and end anywhere."""
    chosen = random.Random(seed)
    sides: dict[str, Any] = {"left": [], "right": []}
    for rank in range(probes):
        sides[chosen.choice(["left", "right"] if seed % 3 else ["right"])].append(rank)
    base = {side: chosen.choice(FIRSTS) for side in sides}
    first = {side: chosen.randrange(2**40) for side in sides}
    answers = {
        side: [
            [base[side] + chosen.choice([0, 1, 5, 2**31 - 1, chosen.randrange(99)]) for _ in range(count)]
            for count in (chosen.choice([0, 0, 1, 2, 7, 8, 9, 16, 17]) for _ in ranks)
        ]
        for side, ranks in sides.items()
    }
    arrays: dict[str, tuple[Any, ...]] = {}
    for side, ranks in sides.items():
        found = u32([ordinal + 1 for answer in answers[side] for ordinal in answer] + [CANARY] * 8)
        counts = np.array([len(answer) for answer in answers[side]], np.int32)
        arrays[side] = (i64(ranks), counts, found, first[side], base[side])

    expected = []
    for rank in range(probes):
        side = "left" if rank in sides["left"] else "right"
        probe = sides[side].index(rank)
        pairs = [(first[side] + probe, ordinal) for ordinal in answers[side][probe]]
        expected.append(pairs if side == "left" else [(b, a) for a, b in pairs])

    stops = [0, *sorted(chosen.randrange(probes + 1) for _ in range(parts - 1)), probes]
    total, edge = sum(map(len, expected)), 3
    left, right = np.full(total + 2 * edge, -1, np.int64), np.full(total + 2 * edge, -1, np.int64)

    def until(side: str, stop: int) -> tuple[int, int]:
        probe = sum(rank < stop for rank in sides[side])
        return probe, sum(map(len, answers[side][:probe]))

    # Each stretch by itself, last first: none may write into its neighbour.
    for begin, end in reversed(list(pairwise(stops))):
        starts, ends = ({side: until(side, stop) for side in sides} for stop in (begin, end))
        at = edge + sum(taken for _, taken in starts.values())
        to = edge + sum(taken for _, taken in ends.values())
        ours, theirs = (SideMatches(*arrays[side], starts[side][1]) for side in ("left", "right"))
        stretch = ProbeStretch(starts["left"][0], starts["right"][0], ends["left"][0], ends["right"][0])
        merge_pairs(ours, theirs, stretch, left, right, at, to)
    flat = [pair for pairs in expected for pair in pairs]
    for out, place in ((left, 0), (right, 1)):
        assert out.tolist() == [-1] * edge + [pair[place] for pair in flat] + [-1] * edge


@given(st.integers(0, 2**32), st.integers(0, 12), st.integers(1, 4))
def test_pairs(seed: int, probes: int, parts: int) -> None:
    check_pairs(seed, probes, parts)


@pytest.mark.nojit
def test_pairs_by_seed() -> None:
    for seed in range(12):
        check_pairs(seed, 9, 1 + seed % 3)
