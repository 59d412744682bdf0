"""Tasks of a push: run by no more threads than asked for, the caller's among them, and all to their end."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Barrier, Event, Lock, Thread, get_ident
from threading import enumerate as threads_alive
from time import sleep
from typing import TYPE_CHECKING

import pytest

from slidejoin.runtime import threads as threads_module
from slidejoin.runtime.threads import Workers

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def test_a_join_that_is_not_told_uses_each_core_up_to_four(monkeypatch: pytest.MonkeyPatch) -> None:
    for known, expected in ((1, 1), (2, 2), (16, 4)):
        monkeypatch.setattr(threads_module, "cores", lambda known=known: known)
        assert Workers(None).threads == expected
    assert Workers(9).threads == 9


def test_no_thread_joins_that_has_no_task() -> None:
    workers, ran = Workers(7), set[int]()

    def outer() -> None:
        sleep(0.01)
        ran.add(get_ident())

    before = {thread.ident for thread in threads_alive()}
    workers.run([outer] * 2)
    assert len({thread.ident for thread in threads_alive()} - before) <= 1
    assert len(ran) <= 2


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


def test_threads_without_a_task_take_those_of_other_tasks() -> None:
    """One of two tasks has all the work; it and the thread of the other one meet in pairs."""
    workers, met, owner = Workers(2), list[int](), list[int]()

    def long() -> None:
        for _ in range(5):
            together, ran = Barrier(2, timeout=60), set[int]()

            def meet(together: Barrier = together, ran: set[int] = ran) -> None:
                met.append(together.wait())
                ran.add(get_ident())

            workers.run([meet] * 2)
            assert len(ran) == 2
        owner.append(get_ident())

    workers.run([long, lambda: None])
    assert sorted(met) == [0] * 5 + [1] * 5
    assert len(owner) == 1


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_more_threads_run_tasks_of_tasks_than_asked_for(threads: int) -> None:
    workers, lock, running, most, ended = Workers(threads), Lock(), 0, 0, 0

    def inner() -> None:
        nonlocal running, most, ended
        with lock:
            running += 1
            most = max(most, running)
        sleep(0.002)
        with lock:
            running -= 1
            ended += 1

    workers.run([lambda: workers.run([inner] * 7), lambda: workers.run([inner] * 5), inner])
    assert ended == 13
    assert 1 < most <= threads or threads == 1 == most


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_errors_of_tasks_of_tasks_come_after_all_have_ended(threads: int) -> None:
    workers, ended = Workers(threads), list[int]()

    def inner(number: int) -> None:
        sleep(0.001 * (5 - number))
        ended.append(number)
        if number in (1, 3):
            raise ValueError(number)

    def outer(first: int) -> None:
        with pytest.raises(ValueError, match=r"^1$"):
            workers.run([partial(inner, number) for number in range(5)])
        raise KeyError(first)

    with pytest.raises(KeyError, match="7"):
        workers.run([partial(outer, first) for first in (7, 8)])
    # One thread runs task after task, until one fails; several run all.
    assert sorted(ended) == ([0, 1] if threads == 1 else sorted([*range(5), *range(5)]))


@contextmanager
def interrupted(begun: Event) -> Iterator[None]:
    """Expect an interrupt of this thread, which comes a moment after something has begun."""
    caller = get_ident()

    def interrupt() -> None:
        begun.wait(60)
        sleep(0.05)
        signal.pthread_kill(caller, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell runs in the background
    Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("nested", [False, True])
def test_an_interrupt_waits_for_the_tasks_of_other_threads(nested: bool) -> None:
    """It comes while the caller has no task left: nothing runs on behind its back."""
    begun, ended, caller, workers = Event(), list[int](), get_ident(), Workers(2)

    def either() -> None:
        if get_ident() == caller:
            begun.wait(60)
            return
        begun.set()
        sleep(0.3)
        ended.append(1)

    with interrupted(begun):
        workers.run([either, either] if not nested else [lambda: workers.run([either, either])])
    assert ended == [1]


def test_tasks_that_run_tasks_raise_after_an_interrupt() -> None:
    """What they wait for has not been done."""
    begun, ran, said, caller, workers = Event(), list[int](), list[str](), get_ident(), Workers(2)

    def either() -> None:
        if get_ident() == caller:
            begun.wait(60)
            return
        begun.set()
        sleep(0.3)
        try:
            workers.run([lambda: ran.append(1)] * 3)
        except RuntimeError as error:
            said.append(str(error))
            raise

    with interrupted(begun):
        workers.run([either, either])
    assert ran == []
    assert said == ["interrupted: the thread that pushes stopped waiting for the others"]
    workers.run([lambda: workers.run([lambda: ran.append(1)] * 3)])
    assert ran == [1, 1, 1]
