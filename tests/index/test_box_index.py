"""The index of tables at rest: boxes are found as a look at every row says, whichever ends of ranges are open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.index.at_rest.box_index import BoxIndex
from slidejoin.index.kernels.view import view_of
from slidejoin.index.keys import KeyRanges, RowKeys
from slidejoin.index.probe import ProbeBatch
from slidejoin.index.protocol import Occupancy, Request
from slidejoin.runtime.threads import Workers
from slidejoin.tuning import Tuning
from tests.index.test_planar import HIGH, LOW, keys_of, ranges_of
from tests.law.checks import examples

SPREADS = ("ties", "near", "wide")
OPEN = ("low", "high", "both", "none")


def opened(ranges: tuple[np.ndarray, np.ndarray], ends: str) -> tuple[np.ndarray, np.ndarray]:
    low, high = ranges
    low = np.full_like(low, LOW) if ends in ("low", "both") else low
    return low, np.full_like(high, HIGH) if ends in ("high", "both") else high


def found(index: BoxIndex, ranges: KeyRanges, rows: int, *, counts: bool = False) -> list[list[int]] | list[int]:
    """The ordinals that each probe finds, or how many."""
    n = ranges.lo.shape[1]
    batch = ProbeBatch(first=0, rank=np.arange(n), view=view_of(rows, rows, 1), ranges=lambda: ranges)
    start, answers = 0, list[list[int]]()
    numbers = list[int]()
    while start < n:
        probing = index.probe(batch, Request(start, 7, counts, counts, Workers(1)))
        for task in probing.tasks:
            task()
        answer = probing.answer()
        if answer.positions is None:
            matches = answer.ranges or index.ranges(batch, Workers(1))
            assert matches is not None
            total = int(matches.counts.sum())
            places = np.cumsum(matches.counts) - matches.counts
            probes, stored = np.empty(total + 64, np.int64), np.empty(total + 64, np.int64)
            matches.fill(0, n, places, probes, stored)
            return [stored[at : at + size].tolist() for at, size in zip(places, matches.counts, strict=True)]
        one = answer.positions
        at = 0
        assert one.begin == start < one.done
        for probe in range(one.begin, one.done):
            size = int(one.counts[probe])
            numbers.append(size)
            if not counts:
                answers.append((one.positions[at : at + size].astype(np.int64) - 1).tolist())
            at += size
        start = one.done
    return numbers if counts else answers


@pytest.mark.nojit
@examples(200)
@given(
    seed=st.integers(0, 1 << 32), rows=st.sampled_from([0, 1, 2, 15, 16, 17, 40, 300]), spread=st.sampled_from(SPREADS),
    second=st.sampled_from([*SPREADS, "falling", "nested"]),
    ends=st.tuples(st.sampled_from(OPEN), st.sampled_from(OPEN)),
    pieces=st.sampled_from([1, 1, 1, 2]), room=st.sampled_from([1, 40, 1 << 16]),
)  # fmt: skip
def test_boxes(seed: int, rows: int, spread: str, second: str, ends: tuple[str, str], pieces: int, room: int) -> None:
    rng = np.random.default_rng(seed)
    keys = keys_of(rng, rows, spread)
    seconds = {"falling": -np.sort(keys_of(rng, rows, "near")), "nested": -keys // 2}.get(second)
    seconds = keys_of(rng, rows, second) if seconds is None else seconds
    if second == "falling":
        keys = np.sort(keys)
    known = None if seed % 3 else rng.random(rows) < 0.7
    index = BoxIndex(replace(Tuning(), cell_matches=room))
    cut = rows // 3
    for part in (slice(0, cut), slice(cut, rows)):
        its = RowKeys(keys[part], seconds[part][:, None].copy(), None if known is None else known[part])
        index.insert(index.prepare(its, part.start), rows)
    n = 33
    for turn in range(2):
        # Later probes may have other open ends than the first ones, for which the index was built.
        order = ends if turn == 0 else ends[::-1]
        lo, hi = opened(ranges_of(rng, keys, pieces, n), order[0] if pieces == 1 else "none")
        least, most = opened(ranges_of(rng, seconds, 1, n), order[1])
        ranges = KeyRanges(lo, hi, least, most, np.zeros(1, np.int64), frozenset())
        inside = np.zeros((n, rows), np.bool_)
        for piece in range(pieces):
            inside |= (lo[piece][:, None] <= keys) & (keys <= hi[piece][:, None])
        inside &= (least[0][:, None] <= seconds) & (seconds <= most[0][:, None])
        inside &= True if known is None else known
        expected = [np.flatnonzero(one).tolist() for one in inside]
        assert [sorted(one) for one in found(index, ranges, rows)] == expected
        if pieces == 1:
            assert found(index, ranges, rows, counts=True) == [len(one) for one in expected]
    assert pieces == 2 or index.growth(Occupancy(0, rows, rows, rows), 0, None) >= 0


def test_long_chains_of_rows_that_are_too_small() -> None:
    rows = 50_000
    low = np.arange(rows)
    table = pa.table({"low": low, "high": 3 * rows - low})  # nested: the innermost one comes last
    join = sj.TableJoin(table, "l.v >= r.low AND l.w <= r.high", output="count", algorithm="planar")
    v, w = np.array([rows - 1, rows - 1, 10, rows]), np.array([3 * rows - 5, 3 * rows, 0, 2 * rows + 1])
    out = join.push({"v": v, "w": w})
    expected = [int(((low <= one) & (3 * rows - low >= two)).sum()) for one, two in zip(v, w, strict=True)]
    assert out["match_count"].to_pylist() == expected == [6, 1, 11, rows]
    assert "table at rest" in join.explain()
