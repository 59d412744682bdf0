"""What is PIM-Tree's own: merges beside pushes, ranges that follow the keys, and threads that share the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.keys import RowKeys
from slidejoin.index.probe import Probes
from slidejoin.options import IMTree, PIMTree
from slidejoin.papers.pim_tree.pim_tree import PIMTreeIndex
from slidejoin.papers.pim_tree.tasks import run_together
from slidejoin.papers.pim_tree.two_stage import Merging
from tests.law.checks import ORDERS, assert_pairs, examples
from tests.narrow import set_limits
from tests.strategies import cases

if TYPE_CHECKING:
    from numpy.typing import NDArray


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def tree_of(options: PIMTree, rows: int | None = 1000) -> PIMTreeIndex:
    return PIMTreeIndex(options, 0, rows, 0)


def put(tree: PIMTreeIndex, keys: NDArray[np.int64]) -> None:
    tree.insert(RowKeys(keys, np.empty((keys.size, 0), np.int64), None), 0)


def asked(lo: Any, hi: Any, seen_from: int, seen_to: int) -> Probes:
    lo, hi = i64(lo), i64(hi)
    none = np.empty((0, lo.size), np.int64)
    return Probes(
        np.arange(lo.size), lo[None], hi[None], np.full(lo.size, seen_from), np.full(lo.size, seen_to), none, none,
        np.empty(0, np.int64),
    )  # fmt: skip


def found(tree: PIMTreeIndex, probes: Probes, room: int = 1 << 14) -> list[list[int]]:
    """What a walk finds, by probe, in ascending order."""
    counts, rows = np.zeros(len(probes), np.int64), np.empty(room, np.int64)
    done, got = 0, []
    while done < len(probes):
        begin = done
        done, total = tree.walk(probes, begin, len(probes), counts, rows)
        assert done > begin
        got += [sorted(part.tolist()) for part in np.split(rows[:total], np.cumsum(counts[begin : done - 1]))]
    return got


@examples(60)
@given(
    keys=st.lists(st.integers(-30, 30), min_size=1, max_size=150),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    depth=st.integers(0, 3),
    ratio=st.sampled_from([0.2, 0.5, 1.0]),
    window=st.integers(5, 40),
    blocking=st.booleans(),
)
def test_all_rows_are_found_in_all_phases(
    keys: list[int], sizes: list[int], depth: int, ratio: float, window: int, blocking: bool
) -> None:
    options = PIMTree(merge_ratio=ratio, insertion_depth=depth, fan_out=4, immutable_fan_out=3, blocking=blocking)
    tree, rows, at, i = tree_of(options, window), i64(keys), 0, 0
    while at < rows.size:
        part = rows[at : at + sizes[i % len(sizes)]]
        put(tree, part)
        at, i = at + part.size, i + 1
        tree.expire(max(0, at - window))
        seen = np.arange(rows.size) >= tree.floor
        seen &= np.arange(rows.size) < at
        lo = np.arange(-31, 32, 3)
        expected = [np.flatnonzero(seen & (rows >= low) & (rows <= low + 4)).tolist() for low in lo]
        assert found(tree, asked(lo, lo + 4, tree.floor, at)) == expected
    assert tree.phase == 0 or not blocking


def test_a_merge_is_spread_over_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No push merges more than its share, and each merge is done before the next is due."""
    steps: list[int] = []
    work = Merging.work

    def noted(merging: Merging, more: int) -> bool:
        steps.append(more)
        return work(merging, more)

    monkeypatch.setattr(Merging, "work", noted)
    monkeypatch.setattr(Merging, "finish", lambda merging: merging.made)
    rng, tree, phases = np.random.default_rng(0), tree_of(PIMTree(merge_ratio=1 / 8, insertion_depth=1), 4096), []
    for at in range(0, 40_000, 16):
        tree.expire(max(0, at - 4096))
        put(tree, rng.integers(0, 10**6, 16))
        phases.append(tree.phase)
    assert tree.merges > 60
    assert set(phases) == {0, 1, 2}
    # 4,096 rows, those that left since, and new ones: some 40 steps for each row that comes.
    assert max(steps) <= 16 * 48


def test_ranges_follow_the_keys() -> None:
    tree = tree_of(PIMTree(merge_ratio=1 / 4, insertion_depth=1, immutable_fan_out=9), 2000)
    rng = np.random.default_rng(1)
    for mean in (0, 0, 0, 10**9, 10**9, 10**9):
        for _ in range(20):
            put(tree, mean + rng.integers(-1000, 1000, 100))
            tree.expire(max(0, tree.next - 2000))
    ends = tree._active._ends
    assert ends.size >= 2
    # All rows of the first mean have left, and the ranges of the second are about even.
    assert (np.abs(ends - 10**9) <= 1000).all()
    assert np.diff(ends).max() < 1000


def test_rows_that_left_are_dropped_by_merges() -> None:
    for options in (PIMTree(merge_ratio=1 / 4), PIMTree(merge_ratio=1 / 4, blocking=True)):
        tree, rng = tree_of(options, 1000), np.random.default_rng(1)
        for at in range(0, 20_000, 50):
            tree.expire(max(0, at - 1000))
            put(tree, rng.integers(0, 500, 50))
            # A quarter of the window is not merged yet, and what left since the last merge is still here.
            assert tree.count <= 1000 + 3 * 250 + 50
        assert len(found(tree, asked([0], [499], tree.floor, tree.next))[0]) == tree.next - tree.floor
        assert set(tree.seconds) == {"insert", "search", "scan", "merge"}
        assert all(spent > 0 for spent in tree.seconds.values())


def test_what_is_refused() -> None:
    for wrong in (0, -0.5, 1.5, "half", True, float("nan")):
        with pytest.raises(ValueError, match="merge_ratio of pim_tree must be a number above 0 and up to 1"):
            PIMTree(merge_ratio=wrong)
    with pytest.raises(ValueError, match="insertion_depth"):
        PIMTree(insertion_depth=-1)
    other: Any = IMTree()
    with pytest.raises(TypeError, match="must be PIMTree"):
        PIMTreeIndex(other, 0, 10, 0)
    with pytest.raises(ValueError, match="immutable_fan_out"):
        IMTree(immutable_fan_out=2)


# -- threads -----------------------------------------------------------------------------------------------------------


@examples(80)
@given(
    data=st.data(),
    task_size=st.integers(1, 64),
    threads=st.integers(1, 4),
    ratio=st.sampled_from([0.05, 0.2, 0.5, 1.0]),
    depth=st.integers(0, 3),
    blocking=st.booleans(),
    slice_rows=st.sampled_from([1, 3, 1 << 11]),
)
def test_all_interleavings_give_the_same_output(
    data: Any, task_size: int, threads: int, ratio: float, depth: int, blocking: bool, slice_rows: int
) -> None:
    """Merges begin, go on and end within pushes, between their slices."""
    options = PIMTree(
        merge_ratio=ratio, insertion_depth=depth, fan_out=4, immutable_fan_out=3, blocking=blocking,
        task_size=task_size, threads=threads,
    )  # fmt: skip
    case = data.draw(cases(most=24, self_join=data.draw(st.booleans())))
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, SMALLEST_SHARED=1, SMALLEST_SLICE=slice_rows, LARGEST_SLICE=max(slice_rows, 8))
        set_limits(patch, FIRST_ROOM=data.draw(st.sampled_from([1, 64])), SMALLEST_SPREAD=1)
        assert_pairs(case, data.draw(st.sampled_from(ORDERS)), algorithm=options, threads=data.draw(st.integers(1, 2)))


@pytest.mark.parametrize("task_size", [1, 7, 64])
@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("skewed", [False, True])
def test_threads_find_what_one_finds(task_size: int, threads: int, skewed: bool) -> None:
    rng = np.random.default_rng(threads)
    trees = [
        tree_of(PIMTree(merge_ratio=0.2, fan_out=8, immutable_fan_out=5, task_size=task_size, threads=number), 20_000)
        for number in (1, threads)
    ]
    phases = set()
    for at in range(0, 30_000, 600):
        keys = (rng.pareto(1.0, 600) * 1000).astype(np.int64) if skewed else rng.integers(0, 30_000, 600)
        for tree in trees:
            tree.expire(max(0, at - 20_000))
            put(tree, keys)
        lo = rng.integers(0, 30_000, 700)
        probes = asked(lo, lo + rng.integers(-1, 5, 700), trees[0].floor, at + 600)
        # Also with room for some of the probes only.
        room = int(rng.choice([1 << 15, 3000]))
        one, two = (found(tree, probes, room) for tree in trees)
        assert one == two
        assert trees[0].phase == trees[1].phase
        phases.add(trees[1].phase)
    assert phases == {0, 1, 2}
    assert trees[0].count == trees[1].count


def test_an_error_of_a_helper_is_raised() -> None:
    done: list[int] = []

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_together([lambda: done.append(1), fail, lambda: done.append(3)])
    assert sorted(done) == [1, 3]
