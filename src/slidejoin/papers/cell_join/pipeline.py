"""Jobs that workers do in order, each its own part of every job, while the caller reads the parts that are done."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Condition
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Pipeline"]

T = TypeVar("T")

AHEAD = 2
"""Jobs that are begun before all parts of the first of them are read: one that is read, and one that is done."""


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    # Not those of `Workers`: a part may hand over work to these, and would wait for threads that wait like itself.
    return ThreadPoolExecutor(count, thread_name_prefix="slidejoin-worker")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)


class Pipeline(Generic[T]):
    """Does every worker's part of every job in the background, at most `AHEAD` jobs before the caller.

    No thread ever waits: a part is handed to a thread when it may begin. An error in a part ends it: no part begins any
    more, and whoever reads gets the error.

    Parameters
    ----------
    threads : int
        How many work, in addition to the caller.
    workers, jobs : int
    work : callable
        Does the part of a worker in a job: ``work(worker, job)``. No worker has two parts under way at once.

    Examples
    --------
    >>> pipeline = Pipeline(2, workers=3, jobs=2, work=lambda worker, job: 10 * job + worker)
    >>> [pipeline.job(job) for job in range(2)]
    [[0, 1, 2], [10, 11, 12]]
    """

    def __init__(self, threads: int, workers: int, jobs: int, work: Callable[[int, int], T]) -> None:
        self._pool, self._jobs, self._work = _threads(threads), jobs, work
        self._changed = Condition()
        self._next, self._busy = [0] * workers, [False] * workers
        self._done: dict[tuple[int, int], T] = {}
        self._read, self._stopped = 0, False
        self._error: BaseException | None = None
        with self._changed:
            self._begin()

    def job(self, job: int) -> list[T]:
        """Return all workers' parts of a job, once the last is done; jobs are read in order.

        Raises
        ------
        BaseException
            The first error of a part.
        """
        done = dict(self.parts(job))
        return [done[worker] for worker in range(len(self._next))]

    def parts(self, job: int) -> Iterator[tuple[int, T]]:
        """Yield the workers' parts of a job as they are done, see `job`."""
        left = set(range(len(self._next)))
        while left:
            with self._changed:
                while self._error is None and not any((worker, job) in self._done for worker in left):
                    self._changed.wait()
                if self._error is not None:
                    raise self._error
                ready = [
                    (worker, self._done.pop((worker, job))) for worker in sorted(left) if (worker, job) in self._done
                ]
            for worker, part in ready:
                left.remove(worker)
                yield worker, part
        with self._changed:
            self._read = job + 1
            self._begin()

    def stop(self) -> None:
        """Begin no part any more, and return when none is under way."""
        with self._changed:
            self._stopped = True
            while any(self._busy):
                self._changed.wait()
            self._done.clear()

    def _begin(self) -> None:
        """Hand over the parts that may begin; the caller holds the lock."""
        if self._stopped or self._error is not None:
            return
        for worker, job in enumerate(self._next):
            if not self._busy[worker] and job < min(self._jobs, self._read + AHEAD):
                self._pool.submit(self._run, worker, job)
                self._busy[worker] = True

    def _run(self, worker: int, job: int) -> None:
        try:
            done = self._work(worker, job)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the reader raises it
            with self._changed:
                self._error = self._error or error
                self._busy[worker] = False
                self._changed.notify_all()
            return
        with self._changed:
            self._done[worker, job] = done
            self._busy[worker] = False
            self._next[worker] = job + 1
            self._begin()
            self._changed.notify_all()
