"""Tasks of a push: run by no more threads than asked for, the caller's among them, and all to their end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Lock, get_ident
from time import sleep

import pytest

from slidejoin.runtime.threads import Workers


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_more_threads_run_than_asked_for(threads: int) -> None:
    lock, running, most, ran = Lock(), 0, 0, set[int]()

    def task() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            ran.add(get_ident())
        sleep(0.002)
        with lock:
            running -= 1

    Workers(threads).run([task] * 30)
    assert most == threads
    assert get_ident() in ran


def test_as_many_tasks_as_threads_run_at_once() -> None:
    together, met = Barrier(3, timeout=60), list[int]()
    Workers(3).run([lambda: met.append(together.wait())] * 3)
    assert sorted(met) == [0, 1, 2]


@pytest.mark.parametrize("threads", [2, 4])
def test_all_tasks_run_before_the_first_error_is_raised(threads: int) -> None:
    ended: list[int] = []

    def task(number: int) -> None:
        sleep(0.002 * (10 - number))
        ended.append(number)
        if number in (3, 7):
            raise ValueError(number)

    with pytest.raises(ValueError, match="3"):
        Workers(threads).run([partial(task, number) for number in range(10)])
    assert sorted(ended) == list(range(10))


def test_tasks_that_hand_on_tasks_never_wait_for_each_other() -> None:
    """Several joins at once, whose tasks occupy all threads of the pool and then need threads themselves."""
    workers, ran = Workers(2), list[int]()

    def outer() -> None:
        sleep(0.005)
        workers.run([partial(ran.append, number) for number in range(3)])

    with ThreadPoolExecutor(6) as callers:
        for done in [callers.submit(workers.run, [outer] * 4) for _ in range(20)]:
            done.result(timeout=60)
    assert len(ran) == 20 * 4 * 3
