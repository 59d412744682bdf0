"""The thread pool that every join shares: tasks are run by its threads and by the caller."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

from slidejoin.runtime.cores import cores

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Workers", "pool_of"]


@cache
def pool_of(threads: int) -> ThreadPoolExecutor:
    """Return the threads of the process for joins of so many threads."""
    # One pool a size for the whole process: joins are many, cores are few. Threads start on first use.
    return ThreadPoolExecutor(threads, thread_name_prefix="slidejoin")


if hasattr(os, "register_at_fork"):
    # The threads of a pool do not live on in a forked child, which would wait for them for ever.
    os.register_at_fork(after_in_child=pool_of.cache_clear)


class Workers:
    """Runs tasks on up to `threads` threads; with one thread, in the caller's."""

    def __init__(self, threads: int | None) -> None:
        self.threads = threads or cores()

    def run(self, tasks: list[Callable[[], None]]) -> None:
        """Run all tasks to their end; the first error is raised after that."""
        if self.threads == 1 or len(tasks) < 2:  # noqa: PLR2004 - one task needs no second thread
            for task in tasks:
                task()
            return
        rest = [pool_of(self.threads).submit(task) for task in tasks[1:]]
        try:
            tasks[0]()
        finally:
            for future in rest:
                future.exception()
        for future in rest:
            future.result()
