"""What several threads ask one run for is made once: what a kernel reads must not be replaced under it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import numpy as np
import pytest

import slidejoin as sj
from benchmarks.cases.workload import Workload
from slidejoin.index.sorted_runs import run as runs
from slidejoin.index.sorted_runs.bi_sort import build_run

THREADS = 8


def test_ages_are_made_once_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[runs.Ages] = []

    class Slow(runs.Ages):
        def __init__(self, words: np.ndarray, size: int, rows: int) -> None:
            sleep(0.05)  # long enough for all others to arrive
            super().__init__(words, size, rows)
            made.append(self)

    monkeypatch.setattr(runs, "Ages", Slow)
    keys = np.arange(5000, dtype=np.int64)
    run = build_run(0, keys.size, keys, np.zeros((keys.size, 0), np.int64), None)
    together = Barrier(THREADS)

    def ask(_: int) -> int:
        together.wait()
        return run.ages_for(1 << 40, 8)

    with ThreadPoolExecutor(THREADS) as pool:
        addresses = set(pool.map(ask, range(THREADS)))
    assert len(made) == 1
    assert addresses == {made[0].address}


@pytest.mark.parametrize("algorithm", sj.algorithms())
def test_two_threads_find_what_one_does_again_and_again(algorithm: str) -> None:
    # Windows no longer than half a push, so that each run has rows that only some probes see, and many matches a row.
    operation = "equi" if algorithm == "hash" else "band"
    loads = [
        Workload.of(operation, window=1 << 11, push=1 << 13, match_rate=50.0, threads=threads, algorithm=algorithm)
        for threads in (1, 4)
    ]
    comparison = loads[0].comparison()
    pushes = list(loads[0].streams(comparison).pushes(0, loads[0].half, 6))
    joins = [load.join(comparison) for load in loads]
    for _ in range(2):
        for left, right in pushes:
            one, several = (join.push(left, right) for join in joins)
            assert one.num_rows > 10_000
            assert one.equals(several)
