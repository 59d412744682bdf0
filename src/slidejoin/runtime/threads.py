"""Processor cores, and the thread pool that every join shares: its threads and the caller run tasks."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from threading import Lock, get_ident, local
from typing import TYPE_CHECKING, TypeVar, cast

from slidejoin.tuning import tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slidejoin.tuning import Tuning

Item = TypeVar("Item")

__all__ = ["Workers", "ahead", "cores", "pool_of"]


def cores() -> int:
    """Return the number of cores that the process may run on, at least one.

    That is less than the machine has where it was pinned (``taskset``, a container's cpuset): threads beyond it would
    only take turns.

    Examples
    --------
    >>> 1 <= cores() <= (os.cpu_count() or 1)
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def pool_of(threads: int) -> ThreadPoolExecutor:
    """Return the threads of the process for joins of so many threads."""
    # One pool a size for the whole process: joins are many, cores are few. Threads start on first use.
    return ThreadPoolExecutor(threads, thread_name_prefix="slidejoin")


if hasattr(os, "register_at_fork"):
    # The threads of a pool do not live on in a forked child, which would wait for them for ever.
    os.register_at_fork(after_in_child=pool_of.cache_clear)


MOST = 4
"""Threads of a join that is given no number: on sixteen cores more were slower, or hardly faster."""


def ahead(items: Iterator[Item], threads: int | None) -> Iterator[Item]:
    """Yield items; while one is used, another thread makes the next, if there is more than one thread.

    Examples
    --------
    >>> list(ahead(iter("abc"), 2))
    ['a', 'b', 'c']
    """
    threads, end = Workers(threads).threads, cast("Item", object())
    if threads == 1:
        yield from items
        return
    item = next(items, end)
    while item is not end:
        coming = pool_of(threads).submit(next, items, end)
        try:
            yield item
        finally:
            wait([coming])
        item = coming.result()


class Workers:
    """Runs tasks on up to `threads` threads; with one thread, in the caller's.

    If that is None, each core has one, up to `MOST`.
    """

    def __init__(self, threads: int | None, own: Tuning | None = None) -> None:
        self.threads = threads or min(cores(), MOST)
        self.tuning = own or tuning()
        """From how much work on a further thread pays."""

    def run(self, tasks: list[Callable[[], None]]) -> None:
        """Run all tasks to their end; the first one's error is raised after that.

        A task may itself run tasks: threads that have none left take part in those.
        """
        if self.threads == 1 or len(tasks) < 2:  # noqa: PLR2004 - one task needs no second thread
            for task in tasks:
                task()
            return
        crew: _Crew | None = getattr(_at_work, "crew", None)
        if crew is not None:
            crew.run(tasks)
            return
        crew = _Crew(self.threads)
        try:
            crew.run(tasks)
        finally:
            crew.leave()


_at_work = local()
"""Its `crew` is the one of which this thread is at work, if any."""


class _Batch:
    """Tasks that are run together."""

    def __init__(self, tasks: list[Callable[[], None]]) -> None:
        self._tasks = tasks
        self.waiting = deque(range(len(tasks)))
        """Numbers of the tasks that no thread has begun."""
        self._done: list[int] = []
        self._errors: dict[int, BaseException] = {}

    @property
    def ended(self) -> bool:
        """Whether all tasks have."""
        return len(self._done) == len(self._tasks)

    def run_one(self) -> None:
        """Run the next task, unless another thread has taken it."""
        try:
            number = self.waiting.popleft()
        except IndexError:
            return
        try:
            self._tasks[number]()
        except BaseException as error:  # noqa: BLE001 - raised by `end`, when all have ended
            self._errors[number] = error
        finally:
            self._done.append(number)

    def end(self) -> None:
        """Raise the first one's error, or that the crew was interrupted before all had ended."""
        if self._errors:
            raise self._errors[min(self._errors)]
        if not self.ended:
            msg = "interrupted: the thread that pushes stopped waiting for the others"
            raise RuntimeError(msg)


class _Crew:
    """Threads that take each other's tasks, until all tasks of the first batch have ended.

    An interrupt may come to the caller's thread wherever that runs Python code. In a task it is that task's error.
    Anywhere else nobody knows what is lost: then the crew is over, tasks that wait for others raise, and the caller
    waits for the other threads. So what is shared changes by calls of C alone, which no interrupt comes into.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._asking = Lock()
        self._asked = 1
        """Threads that run or have been requested, the caller's among them."""
        self._first: _Batch | None = None
        self._batches: list[_Batch] = []
        self._inboxes: list[SimpleQueue[None]] = []
        """Of each thread that may wait: it looks again at what there is to do after each message."""
        self._others: list[int] = []
        """A number for each thread but the caller's that is here."""
        self._over = False

    def run(self, tasks: list[Callable[[], None]]) -> None:
        """Run tasks to their end, and others' while some of them have not ended; the first error is raised then."""
        batch = _Batch(tasks)
        try:
            self._first = self._first or batch
            self._batches.append(batch)
            self._ask()
            self._wake()
            self._work(batch)
        except BaseException:
            self._over = True
            self._wake()
            raise
        finally:
            with suppress(ValueError):
                self._batches.remove(batch)
        batch.end()

    def leave(self) -> None:
        """Run no more tasks; if some have not ended, wait until no other thread is here."""
        ended = self._first is not None and self._first.ended and not self._over
        self._over = True
        inbox: SimpleQueue[None] = SimpleQueue()
        self._inboxes.append(inbox)
        self._wake()
        while self._others and not ended:
            inbox.get()

    def _ask(self) -> None:
        """Ask for threads while there are fewer than tasks: the more there are, the more wait for Python's lock."""
        with self._asking:
            waiting = sum(len(batch.waiting) for batch in list(self._batches))
            while self._asked < min(waiting, self._threads):
                self._asked += 1
                pool_of(self._threads).submit(self._help)

    def _help(self) -> None:
        """Run tasks until those of the first batch have ended."""
        me = get_ident()
        self._others.append(me)
        try:
            if self._first is not None:
                self._work(self._first)
        finally:
            self._others.remove(me)
            self._wake()

    def _work(self, until: _Batch) -> None:
        """Run tasks of any batch until that one has ended, or the crew is over."""
        inbox: SimpleQueue[None] = SimpleQueue()
        before: _Crew | None = getattr(_at_work, "crew", None)
        self._inboxes.append(inbox)
        _at_work.crew = self
        try:
            while not until.ended and not self._over:
                batch = next((one for one in (until, *self._batches) if one.waiting), None)
                if batch is None:
                    inbox.get()
                    continue
                batch.run_one()
                if batch.ended:
                    self._wake()
        finally:
            _at_work.crew = before
            self._inboxes.remove(inbox)

    def _wake(self) -> None:
        for inbox in list(self._inboxes):
            inbox.put(None)
