"""Threads that share the probes and inserts of a PIM-Tree (PIM-Tree, section 4.1)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.kernels.walking import WalkMatches
from slidejoin.papers.pim_tree.kernels.pim_tree import HEAD, QUEUE, TASK, TOTAL, TaskQueue, do_tasks, hand_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.papers.kernels.walking import ProbeRanges

__all__ = ["SMALLEST_SHARED", "run_together", "walk_together"]

SMALLEST_SHARED = 1 << 9
"""Rows from which on a second thread pays: handing over costs some 30 µs."""


@cache
def _helpers(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="slidejoin-pim-tree")


if hasattr(os, "register_at_fork"):
    # The threads of a pool do not live on in a forked child, which would wait for them for ever.
    os.register_at_fork(after_in_child=_helpers.cache_clear)


def run_together(tasks: list[Callable[[], None]]) -> None:
    """Run all, the first in this thread, each other in one of its own; the first error is raised when all have ended.

    None of them waits for another, so it does no harm if all threads are busy with other joins.
    """
    helpers = [_helpers(len(tasks) - 1).submit(task) for task in tasks[1:]] if len(tasks) > 1 else []
    try:
        tasks[0]()
    finally:
        for helper in helpers:
            helper.exception()
    for helper in helpers:
        helper.result()


def walk_together(
    tree: NDArray[np.int64],
    depth: int,
    pools: NDArray[np.int64],
    ranges: ProbeRanges,
    matches: WalkMatches,
    end: int,
    *,
    threads: int,
    task_size: int,
) -> NDArray[np.int64]:
    """Answer probes up to `end` task by task, see `papers.pim_tree.kernels.pim_tree`, of which the arguments are.

    Returns the nanoseconds of all threads together for searches and scans, (2,) int64.
    """
    begin, ordinals = int(matches.done[0]), matches.ordinals
    count = -(-(end - begin) // task_size)
    queue = TaskQueue(np.zeros(QUEUE, np.int64), np.zeros(count * TASK, np.int64), task_size, begin, end)
    # Each thread's own memory stays until all is handed on: addresses point to it.
    owns = [
        WalkMatches(matches.counts, np.empty(ordinals.size, np.int64), np.zeros(2, np.int64))
        for _ in range(min(threads, count))
    ]
    spent = np.zeros((len(owns), 2), np.int64)

    def task(own: WalkMatches, took: NDArray[np.int64]) -> Callable[[], None]:
        return lambda: do_tasks(queue, tree, depth, pools, ranges, own, ordinals, took)

    run_together([task(own, took) for own, took in zip(owns, spent, strict=True)])
    # The last thread to finish may have met another one handing on, which had checked already.
    hand_on(queue, ordinals)
    del owns
    matches.done[:] = min(begin + int(queue.shared[HEAD]) * task_size, end), queue.shared[TOTAL]
    return spent.sum(axis=0)  # type: ignore[no-any-return]
