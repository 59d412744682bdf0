"""The thread pool that every join shares: tasks are run by its threads and by the caller."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import Condition, local
from typing import TYPE_CHECKING

from slidejoin.runtime.cores import cores

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

__all__ = ["Workers", "pool_of"]


@cache
def pool_of(threads: int) -> ThreadPoolExecutor:
    """Return the threads of the process for joins of so many threads."""
    # One pool a size for the whole process: joins are many, cores are few. Threads start on first use.
    return ThreadPoolExecutor(threads, thread_name_prefix="slidejoin")


if hasattr(os, "register_at_fork"):
    # The threads of a pool do not live on in a forked child, which would wait for them for ever.
    os.register_at_fork(after_in_child=pool_of.cache_clear)


MOST = 4
"""Threads of a join that is not told how many: on sixteen cores more were slower, or hardly faster."""


class Workers:
    """Runs tasks on up to `threads` threads; with one thread, in the caller's.

    If that is None, each core has one, up to `MOST`.
    """

    def __init__(self, threads: int | None) -> None:
        self.threads = threads or min(cores(), MOST)

    def run(self, tasks: list[Callable[[], None]]) -> None:
        """Run all tasks to their end; the first one's error is raised after that."""
        if self.threads == 1 or len(tasks) < 2:  # noqa: PLR2004 - one task needs no second thread
            for task in tasks:
                task()
            return
        crew = _crew()
        if crew is not None:
            crew.run(tasks)
            return
        waiting, errors = deque(enumerate(tasks)), dict[int, BaseException]()

        def drain() -> None:
            # The caller's thread takes tasks like the others, so that no more run than are asked for.
            while waiting:
                with suppress(IndexError):
                    number, task = waiting.popleft()
                    try:
                        task()
                    except BaseException as error:  # noqa: BLE001 - raised below, when nothing runs any more
                        errors[number] = error

        others = [pool_of(self.threads).submit(drain) for _ in range(min(self.threads, len(tasks)) - 1)]
        try:
            drain()
        finally:
            # Also if the caller is interrupted between two tasks: nothing runs on behind its back.
            for future in others:
                # One that has not begun finds nothing to do; and its thread may itself be waiting for others.
                if not future.cancel():
                    future.exception()
        if errors:
            raise errors[min(errors)]

    def share(self, tasks: list[Callable[[], None]]) -> None:
        """Do the same with tasks that `run` tasks themselves: threads that have none left take part in those."""
        if self.threads == 1 or _crew() is not None:
            self.run(tasks)
            return
        whole = _Batch(tasks)
        crew = _Crew(whole, self.threads)
        try:
            crew.add(whole)
            crew.work(whole)
        finally:
            crew.leave()
        whole.end()


_at_work = local()


def _crew() -> _Crew | None:
    """Return the crew of which this thread is at work."""
    crew: _Crew | None = getattr(_at_work, "crew", None)
    return crew


class _Batch:
    """Tasks that are run together."""

    def __init__(self, tasks: list[Callable[[], None]]) -> None:
        self.tasks = tasks
        self.waiting = deque(range(len(tasks)))
        """Numbers of the tasks that no thread has begun."""
        self.left = len(tasks)
        """How many have not ended."""
        self.errors: dict[int, BaseException] = {}

    def do(self, number: int) -> None:
        """Run one of them."""
        try:
            self.tasks[number]()
        except BaseException as error:  # noqa: BLE001 - raised by `end`, when all have ended
            self.errors[number] = error

    def end(self) -> None:
        """Raise the first one's error."""
        if self.errors:
            raise self.errors[min(self.errors)]
        if self.left:
            msg = "interrupted"
            raise RuntimeError(msg)


class _Crew:
    """Threads that take each other's tasks, until all tasks of the first batch have ended."""

    def __init__(self, whole: _Batch, threads: int) -> None:
        self._whole, self._threads = whole, threads
        self._changed = Condition()
        self._batches: list[_Batch] = []
        self._others: list[Future[None]] = []
        self._over = False

    def add(self, batch: _Batch) -> None:
        """Add tasks, which threads that wait for some take, and others that join the crew as long as there are too few.

        The more threads there are, the more wait for Python's lock.
        """
        with self._changed:
            self._batches.append(batch)
            waiting = sum(len(one.waiting) for one in self._batches)
            joining = min(waiting, self._threads) - 1 - len(self._others)
            self._others += [pool_of(self._threads).submit(self.work, self._whole) for _ in range(joining)]
            self._changed.notify_all()

    def run(self, tasks: list[Callable[[], None]]) -> None:
        """Run tasks of a task: those of others too, as long as some of them have not ended."""
        batch = _Batch(tasks)
        self.add(batch)
        try:
            self.work(batch)
        finally:
            self._withdraw(batch)
        batch.end()

    def work(self, until: _Batch) -> None:
        """Run tasks of any batch until that one has ended."""
        before, _at_work.crew = _crew(), self
        try:
            while self._work_on(until):
                pass
        finally:
            _at_work.crew = before

    def _work_on(self, until: _Batch) -> bool:
        """Run one task, waiting for one if need be; return False if that batch has ended."""
        batch: _Batch | None = None
        taken = False
        try:
            with self._changed:
                while until.left and not self._over and (batch := self._begun(until)) is None:
                    self._changed.wait()
                if not until.left or self._over or batch is None:
                    return False
                number, taken = batch.waiting[0], True
                del batch.waiting[0]  # no call between the two: an interrupt comes before or after
            batch.do(number)
        finally:
            if taken and batch is not None:
                self._ended(batch, 1)
        return True

    def _withdraw(self, batch: _Batch) -> None:
        """Begin no more of its tasks, after an interrupt, and wait until none of them runs."""
        with self._changed:
            if batch.left:
                self._ended(batch, len(batch.waiting))
                batch.waiting.clear()
            while batch.left:
                self._changed.wait()

    def _ended(self, batch: _Batch, tasks: int) -> None:
        with self._changed:
            batch.left -= tasks
            if not batch.left:
                self._batches.remove(batch)
                self._changed.notify_all()

    def _begun(self, first: _Batch) -> _Batch | None:
        """Return a batch with tasks that no thread has begun, that one if it has some."""
        return next((batch for batch in (first, *self._batches) if batch.waiting), None)

    def leave(self) -> None:
        """Run no more tasks: all have ended, or the caller was interrupted between two."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        for future in self._others:
            if not future.cancel() and self._whole.left:
                future.exception()
