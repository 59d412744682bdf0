"""Threads own disjoint stretches of the probes, so that their number changes nothing."""

from __future__ import annotations

import multiprocessing
import os
import threading
from typing import Any

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.index.parallel_search import search
from slidejoin.index.probe import Probes
from slidejoin.index.sorted_runs import answers, bi_sort
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex, build_run
from slidejoin.runtime.threads import Workers, pool_of
from tests.narrow import tune


def index_and_probes(n: int) -> tuple[BiSortIndex, Probes]:
    rng = np.random.default_rng(n)
    index = BiSortIndex(1, merge=False)
    for base in (0, 20, 40):
        index.append(build_run(base, 20, rng.integers(0, 9, 20), rng.integers(0, 5, (20, 1)), None), 60)
    lo = rng.integers(0, 9, (2, n))
    seen_to = np.sort(rng.integers(0, 61, n))
    low = rng.integers(0, 3, (1, n))
    return index, Probes(
        np.arange(n), np.sort(lo, axis=0), lo.min(axis=0) + np.array([[0], [-1]]), np.maximum(seen_to - 45, 0), seen_to,
        low, low + 2, np.zeros(1, np.int64),
    )  # fmt: skip


def both_passes(index: BiSortIndex, probes: Probes, threads: int) -> tuple[list[int], list[int], list[int]]:
    found = search(index, probes, Workers(threads))
    total = int(found.counts.sum())
    left, right = np.full(total, -1), np.full(total, -1)
    places = np.cumsum(found.counts) - found.counts
    for first, last in ((0, len(probes) // 3), (len(probes) // 3, len(probes))):
        found.fill(first, last, places, left, right)
    return found.counts.tolist(), left.tolist(), right.tolist()


@pytest.mark.nojit
@pytest.mark.parametrize("n", [0, 1, 2, 7, 31])
def test_parts_are_the_whole(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    index, probes = index_and_probes(n)
    expected = both_passes(index, probes, 1)
    tune(monkeypatch, search_spread=1)
    for threads in (2, 5):
        assert both_passes(index, probes, threads) == expected


def stream_results(threads: int, **options: Any) -> list[list[Any]]:
    rng = np.random.default_rng(7)
    join = sj.StreamJoin(
        on="l.a BETWEEN r.a - 1 AND r.a + 1 AND l.b <> r.b",
        window=sj.CountWindow(60, slide=7),
        threads=threads,
        **options,
    )
    pushes = [{"a": rng.integers(0, 30, n), "b": rng.integers(0, 3, n)} for n in (5, 80, 1, 200)]
    sides = ("left",) if options.get("self_join") else ("left", "right")
    return [join.push(**dict.fromkeys(sides, batch)).to_pylist() for batch in pushes]


@pytest.mark.parametrize(
    "options",
    [{}, {"order": "strict"}, {"order": "none"}, {"output": "count"}, {"self_join": True, "order": "strict"}],
    ids=str,
)
@pytest.mark.parametrize("algorithm", ["bi_sort", "auto"])
def test_streams_do_not_depend_on_threads(
    algorithm: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**options, "algorithm": algorithm}
    expected = stream_results(1, **options)
    assert any(expected)
    tune(monkeypatch, search_spread=3)
    tune(monkeypatch, push_spread=3)
    tune(monkeypatch, probe_spread=3)
    tune(monkeypatch, owned_probe_spread=3)
    for threads in (2, 5):
        assert stream_results(threads, **options) == expected


def test_a_push_needs_no_free_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other joins keep all threads of the process busy: the caller's does what the others would."""
    expected = stream_results(1, algorithm="bi_sort")
    tune(monkeypatch, push_spread=3)
    free, busy = threading.Event(), threading.Barrier(8, timeout=60)

    def work() -> None:
        busy.wait()
        free.wait(60)

    others = [pool_of(7).submit(work) for _ in range(7)]
    busy.wait()
    try:
        assert stream_results(7, algorithm="bi_sort") == expected
        assert not any(one.done() for one in others)
    finally:
        free.set()


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_matches_or_ranges_give_the_same_pairs(threads: int, self_join: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"algorithm": "bi_sort", "order": "strict", "self_join": self_join}
    expected = stream_results(1, **options)
    assert any(expected)
    tune(monkeypatch, push_spread=3)
    tune(monkeypatch, probe_spread=3)
    tune(monkeypatch, ranges_again=1)
    asked: list[bool] = []
    for room in (8, 40, 400):
        # Some pushes, or some parts of them, find too many matches to write them down at once.
        tune(monkeypatch, few_matches=0, spare_matches=room)
        few = answers.write_few

        def noted(*args: Any, few: Any = few) -> bool:
            asked.append(few(*args))
            return asked[-1]

        monkeypatch.setattr(bi_sort, "write_few", noted)
        assert stream_results(threads, **options) == expected
    assert set(asked) == {False, True}


def test_all_tasks_run_to_their_end_before_an_error_is_raised() -> None:
    done: list[int] = []
    slow = threading.Event()

    def fails() -> None:
        slow.set()
        msg = "first"
        raise ValueError(msg)

    def works() -> None:
        slow.wait()
        done.append(1)

    for tasks in ([fails, works, works], [works, fails, works]):
        done.clear()
        if tasks[0] is works:
            slow.set()
        with pytest.raises(ValueError, match="first"):
            Workers(3).run(list(tasks))
        assert done == [1, 1]


def test_one_thread_is_the_callers() -> None:
    seen: list[threading.Thread] = []
    Workers(1).run([lambda: seen.append(threading.current_thread())] * 3)
    Workers(4).run([lambda: seen.append(threading.current_thread())])
    assert seen == [threading.current_thread()] * 4


def test_no_number_means_the_cores_that_the_process_may_use() -> None:
    assert Workers(None).threads >= 1
    assert Workers(3).threads == 3
    if hasattr(os, "sched_getaffinity"):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        try:
            assert Workers(None).threads == 1
        finally:
            os.sched_setaffinity(0, allowed)


def _sum_in_a_child(queue: Any) -> None:
    done: list[int] = []
    Workers(3).run([lambda: done.append(1)] * 3)
    queue.put(sum(done))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_a_forked_child_has_threads_of_its_own() -> None:
    Workers(3).run([lambda: None] * 3)  # the parent's pool is running
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_sum_in_a_child, args=(queue,))
    child.start()
    child.join(20)
    hangs = child.is_alive()
    if hangs:
        child.kill()
    assert not hangs
    assert queue.get(timeout=5) == 3
