"""Every part of every job is done once, in order for each worker, and never far ahead; errors reach the reader."""

from __future__ import annotations

from threading import Event, Lock
from time import sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.papers.cell_join.topology import JOBS_AHEAD, Pipeline


@given(threads=st.integers(1, 3), workers=st.integers(1, 6), jobs=st.integers(0, 12), by_parts=st.booleans())
def test_every_part_once(threads: int, workers: int, jobs: int, by_parts: bool) -> None:
    done: list[list[int]] = [[] for _ in range(workers)]

    def work(worker: int, job: int) -> tuple[int, int]:
        done[worker].append(job)
        return worker, job

    pipeline = Pipeline(threads, workers, jobs, work)
    for job in range(jobs):
        assert all(len(one) <= job + JOBS_AHEAD for one in done)
        if by_parts:
            got = dict(pipeline.parts(job))
            assert got == {worker: (worker, job) for worker in range(workers)}
        else:
            assert pipeline.job(job) == [(worker, job) for worker in range(workers)]
    pipeline.stop()
    assert done == [list(range(jobs))] * workers


def test_parts_are_read_before_the_last_worker_is_done() -> None:
    slow = Event()
    pipeline = Pipeline(2, 2, 1, lambda worker, _: worker == 0 or slow.wait(10))
    parts = pipeline.parts(0)
    assert next(parts) == (0, True)
    slow.set()
    assert next(parts) == (1, True)
    assert list(parts) == []


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit("died")])
def test_an_error_ends_it(error: BaseException) -> None:
    lock, calls = Lock(), []

    def work(worker: int, job: int) -> int:
        with lock:
            calls.append((worker, job))
        if (worker, job) == (1, 2):
            raise error
        return job

    pipeline = Pipeline(2, 3, 100, work)
    with pytest.raises(type(error), match=str(error)):
        [pipeline.job(job) for job in range(100)]
    pipeline.stop()
    before = len(calls)
    sleep(0.01)
    assert len(calls) == before <= 3 * (2 + JOBS_AHEAD)


def test_stop_waits_for_what_is_under_way() -> None:
    begun, ended = Event(), []

    def work(worker: int, job: int) -> None:
        begun.set()
        sleep(0.05)
        ended.append((worker, job))

    pipeline = Pipeline(1, 2, 5, work)
    begun.wait(10)
    pipeline.stop()
    before = list(ended)
    assert before
    sleep(0.1)
    assert ended == before
