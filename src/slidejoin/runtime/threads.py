"""The thread pool that every join shares: tasks are run by its threads and by the caller."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
        """Run all tasks to their end; the first one's error is raised after that."""
        if self.threads == 1 or len(tasks) < 2:  # noqa: PLR2004 - one task needs no second thread
            for task in tasks:
                task()
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
