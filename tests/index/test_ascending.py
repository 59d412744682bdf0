"""Probes in the order of their own keys find what each of them finds among plain lists of rows."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.index.answer import MatchPositions
from slidejoin.index.kernels.view import ARRIVED, OWN, SIZE, SLIDE, VIEW
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex, build_run
from slidejoin.index.sorted_runs.kernels.ascending import BOTH, FULL, keep_between
from slidejoin.index.sorted_runs.probes import OrderedProbes
from slidejoin.jit.compiling import inlined

NO_AUX = np.empty((0, 0), np.int64)


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def run_of(base: int, keys: Any, kept: Any = None) -> Any:
    return build_run(base, keys.size, keys, np.empty((keys.size, 0), np.int64), kept)


def keys_of(draw: random.Random, kind: str, rows: int) -> Any:
    """Return keys in different crowds: spread evenly, few of them again and again, some far from the others."""
    if kind == "even":
        return i64([draw.randrange(0, 1000 * rows) for _ in range(rows)])
    if kind == "few":
        return i64([draw.randrange(0, 6) for _ in range(rows)])
    return i64([draw.choice((0, 5, 2**20)) * 1000 + draw.randrange(0, 40) for _ in range(rows)]) - 2**60


def nothing() -> Any:
    raise AssertionError


def check(seed: int, kind: str, rows: int) -> None:
    draw = random.Random(seed)
    index, stored, base = BiSortIndex(0), [], draw.randrange(0, 100)
    for _ in range(draw.randrange(1, 5)):
        keys = keys_of(draw, kind, draw.randrange(1, rows))
        kept = np.array([draw.random() < 0.9 for _ in range(keys.size)]) if draw.random() < 0.5 else None
        index.append(run_of(base, keys, kept), rows)
        stored += [(int(key), base + at) for at, key in enumerate(keys) if kept is None or kept[at]]
        base += keys.size
        if draw.random() < 0.3:
            index.expire(base - draw.randrange(1, 2 * rows))
    n = draw.randrange(1, rows)
    mine = keys_of(draw, kind, n)
    own, slide, size = draw.random() < 0.3, draw.choice((1, 1, 7)), draw.randrange(1, 2 * rows)
    coming = base - n if own else base - draw.randrange(0, n)
    rank = np.arange(n) if own else np.sort(i64(draw.sample(range(2 * n), n)))
    arrived = max(coming, 0)
    to = [arrived + int(rank[i]) - (0 if own else i) for i in range(n)]
    begin = [max(seen - size, 0) // slide * slide for seen in to]
    below, above = draw.choice((0, 1, 500)), draw.choice((0, 2, 500))
    view = np.zeros(VIEW, np.int64)
    view[[ARRIVED, SIZE, SLIDE, OWN]] = arrived, size, slide, own
    asked = OrderedProbes(run_of(0, mine), below, above, rank, view, (begin[0], begin[-1], to[0], to[-1]))
    into = MatchPositions(counts=np.zeros(n, np.int32))
    assert index.suits(asked)
    index.find_ascending(asked, into)
    counted = [index.count_ascending(asked, nothing).counts.tolist() for _ in range(2)]
    alive = index.floor
    expected = [
        sorted(
            (o + 1) % 2**32 for key, o in stored
            if alive <= o and begin[i] <= o < to[i] and mine[i] - below <= key <= mine[i] + above
        )
        for i in range(n)
    ]  # fmt: skip
    # Of what is seen most is known from the first time.
    assert counted == [[len(matches) for matches in expected]] * 2
    if into.done == 0:
        assert sum(map(len, expected)) > 4 * n
        return
    ends = np.cumsum(into.counts)
    found = [sorted(into.positions[end - count : end].tolist()) for end, count in zip(ends, into.counts, strict=True)]
    assert found == expected
    assert into.total == sum(map(len, expected))


@pytest.mark.nojit
@pytest.mark.parametrize("kind", ["even", "few", "apart"])
def test_few_probes(kind: str) -> None:
    for seed in range(30):
        check(seed, kind, 60)


@pytest.mark.parametrize("kind", ["even", "few", "apart"])
def test_more_than_a_block_of_probes(kind: str) -> None:
    for seed in range(6):
        check(seed, kind, 400)


@inlined
def kept_between(address: int, bound: Any, beyond: Any, low: int, span: int, add: Any, to: int) -> Any:
    return keep_between(address, bound, beyond, low, span, add, to)


@pytest.mark.nojit
@pytest.mark.parametrize("seed", range(40))
def test_two_lines_at_once(seed: int) -> None:
    draw = random.Random(seed)
    near = [0, 1, 7, 2**31 - 1, 2**31, 2**32 - 2]
    words = np.sort(np.array([draw.choice(near) << 32 | draw.choice(near) for _ in range(BOTH)], np.uint64))
    bound, beyond = sorted((draw.choice(near) << 32, draw.choice(near) << 32))
    low, span, add = draw.choice(near), draw.choice(near), draw.choice(near)
    to = np.zeros(BOTH, np.uint32)
    told = kept_between(
        words.ctypes.data, np.uint64(bound), np.uint64(beyond), low, span, np.uint64(add), to.ctypes.data
    )
    plain = [int(word) for word in words]
    offsets = [word % 2**32 for word in plain if bound <= word < beyond]
    kept = [(offset + add) % 2**32 for offset in offsets if (offset - low) % 2**32 < span]
    assert told % FULL == len(kept)
    assert told // FULL == all(word < beyond for word in plain)
    assert to[: len(kept)].tolist() == kept


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("on", "most"),
    [("l.k BETWEEN r.k - 3 AND r.k + 5", 4000), ("l.k = r.k", 900), ("l.k BETWEEN r.k - 9 AND r.k", 400)],
)
def test_large_pushes_find_what_cells_find(threads: int, on: str, most: int) -> None:
    """Pushes that two threads share, windows that slide over them, at last more matches than are written at once."""
    draw = np.random.default_rng(most + threads)
    joins = [
        sj.StreamJoin(
            on=on, window=sj.CountWindow(left=9000, right=7000), output="positions", order="strict", threads=threads,
            algorithm=algorithm,
        )
        for algorithm in ("bi_sort", "band_cells")
    ]  # fmt: skip
    at = 0
    for rows in (3000, 6000, 5000, 200, 6000):
        order = draw.permutation(2 * rows) + at
        at += 2 * rows
        left, right = (
            pa.table({"k": draw.integers(0, most, rows), "i": np.sort(part)}) for part in (order[:rows], order[rows:])
        )
        ours, theirs = (join.push(left, right, order_by="i") for join in joins)
        assert ours.equals(theirs)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("on", "most"),
    [
        ("l.k BETWEEN r.k - 3 AND r.k + 5", 4000),
        ("l.k = r.k", 900),
        ("l.k BETWEEN r.k - 900 AND r.k", 2000),
        ("l.k BETWEEN r.k - 4 AND r.k + 4 AND (l.k + r.k) % 3 = 1", 2000),
    ],
)
@pytest.mark.parametrize("slide", [1, 500])
def test_large_pushes_count_what_cells_count(threads: int, on: str, most: int, slide: int) -> None:
    """Pushes that two threads share, wide and narrow ranges, with pairs to be tried and without."""
    draw = np.random.default_rng(most + threads)
    joins = [
        sj.StreamJoin(
            on=on, window=sj.CountWindow(left=9000, right=7000, slide=slide), output="count", threads=threads,
            algorithm=algorithm,
        )
        for algorithm in ("bi_sort", "band_cells")
    ]  # fmt: skip
    at = 0
    for rows in (3000, 6000, 5000, 200, 6000, 700, 700, 0, 700, 5000):
        order = draw.permutation(2 * rows) + at
        at += 2 * rows
        left, right = (
            pa.table({"k": draw.integers(0, most, rows), "i": np.sort(part)}) for part in (order[:rows], order[rows:])
        )
        ours, theirs = (join.push(left, right, order_by="i") for join in joins)
        assert ours.equals(theirs)


def test_a_side_that_is_pushed_alone_is_counted() -> None:
    draw = np.random.default_rng(3)
    joins = [
        sj.StreamJoin(
            on="l.k BETWEEN r.k - 50 AND r.k + 50", window=sj.CountWindow(4000), output="count", threads=2,
            algorithm=algorithm,
        )
        for algorithm in ("bi_sort", "band_cells")
    ]  # fmt: skip
    for turn in range(12):
        table = pa.table({"k": draw.integers(0, 3000, 2500)})
        sides = {"left": table} if turn % 3 else {"right": table}
        ours, theirs = (join.push(**sides) for join in joins)
        assert ours.equals(theirs)


def test_a_filter_and_nulls_leave_rows_out() -> None:
    draw = np.random.default_rng(1)
    joins = [
        sj.StreamJoin(
            on="l.k BETWEEN r.k - 3 AND r.k + 5 AND l.i % 3 = 1", window=sj.CountWindow(3000), order="strict",
            threads=2, algorithm=algorithm, output="positions",
        )
        for algorithm in ("bi_sort", "band_cells")
    ]  # fmt: skip
    for turn in range(3):
        left = pa.table({"k": draw.integers(0, 3000, 5000), "i": np.arange(5000)})
        null = draw.random(5000) < (0.1 if turn == 1 else 0)
        right = pa.table({"k": pa.array(draw.integers(0, 3000, 5000), mask=null), "i": np.arange(5000)})
        ours, theirs = (join.push(left, right, order_by="i") for join in joins)
        assert ours.equals(theirs)


def test_pairs_are_tried_where_stored_keys_were_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts by the order of keys hold candidates then: their pairs are found after all."""
    asked: list[int] = []
    search = BiSortIndex.search

    def counted(index: BiSortIndex, probes: Any) -> Any:
        asked.append(len(probes))
        return search(index, probes)

    joins = [
        sj.StreamJoin(
            on="l.k * 1000 BETWEEN r.k - 5000 AND r.k + 5000", window=sj.CountWindow(3000), output="count", threads=2,
            algorithm=algorithm,
        )
        for algorithm in ("bi_sort", "band_cells")
    ]  # fmt: skip
    draw = np.random.default_rng(4)
    for turn in range(4):
        left = draw.integers(0, 300, 2000)
        if turn == 1:
            left[7] = 2**62
        right = draw.integers(0, 300_000, 2000)
        if turn == 2:
            monkeypatch.setattr(BiSortIndex, "search", counted)
        ours, theirs = (join.push({"k": left}, {"k": right}) for join in joins)
        assert ours.equals(theirs)
    assert asked


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("on", "window", "some"),
    [
        ("l.k < r.k", sj.CountWindow(left=9000, right=7000), 0.0),
        ("l.k + 7 <= r.k", sj.CountWindow(left=9000, right=7000, slide=50), 0.0),
        ("l.k < r.k", sj.CountWindow(left=9000, right=7000), 0.02),
        ("l.k > 9000 - r.k", sj.CountWindow(left=9000, right=7000), 0.0),
        ("l.k < r.k AND (l.k + r.k) % 3 = 1", sj.CountWindow(left=9000, right=7000), 0.0),
        ("l.k < r.k", sj.TimeWindow(9000, on="i", lateness=500), 0.0),
        ("l.k < r.k AND l.k > r.k - 20", sj.TimeWindow(9000, on="i"), 0.0),
    ],
)
def test_large_pushes_of_open_ranges_find_what_trees_find(
    threads: int, on: str, window: sj.Window, some: float
) -> None:
    """A few matches a row, so that positions are found at once: most keys lie outside of the other side's."""
    draw = np.random.default_rng(len(on) + threads)
    mirrored = "9000 -" in on
    joins = [
        sj.StreamJoin(
            on=on, window=window, output="positions", order="strict", threads=threads, algorithm=algorithm
        )
        for algorithm in ("bi_sort", "chained_css_tree")
    ]  # fmt: skip
    at = pairs = 0
    for rows in (3000, 6000, 5000, 200, 6000, 0, 5000):
        order = draw.permutation(2 * rows) + at
        at += 2 * rows
        batches = []
        for part, low in ((order[:rows], 4900), (order[rows:], -5800 if mirrored else 0)):
            keys = draw.integers(low, low + 5000, rows)
            missing = draw.random(rows) < some
            batches.append(pa.table({"k": pa.array(keys, mask=missing), "i": np.sort(part)}))
        ours, theirs = (join.push(*batches, order_by="i") for join in joins)
        assert ours.equals(theirs)
        pairs += ours.num_rows
    assert pairs > 1000
