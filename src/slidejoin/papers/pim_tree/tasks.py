"""Threads that share the probes and inserts of a PIM-Tree (PIM-Tree, section 4.1)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.pim_tree.kernels.pim_tree import HEAD, QUEUE, TASK, TOTAL, do_tasks, hand_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes
    from slidejoin.papers.pim_tree.css_tree import CssTree

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
    stable: CssTree,
    depth: int,
    pools: NDArray[np.int64],
    probes: Probes,
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    *,
    threads: int,
    task_size: int,
) -> tuple[int, int, NDArray[np.int64]]:
    """Answer probes task by task, see `papers.structure.Structure.walk` and `papers.pim_tree.kernels.pim_tree`.

    Returns what `walk` does, and the nanoseconds of all threads together for searches and scans, (2,) int64.
    """
    count = -(-(end - begin) // task_size)
    queue, tasks = np.zeros(QUEUE, np.int64), np.zeros(count * TASK, np.int64)
    # Each thread's own memory stays until all is handed on: addresses point to it.
    owns = [np.empty(ordinals.size, np.int64) for _ in range(min(threads, count))]
    spent = np.zeros((len(owns), 2), np.int64)

    def task(own: NDArray[np.int64], took: NDArray[np.int64]) -> Callable[[], None]:
        return lambda: do_tasks(
            queue, tasks, count, task_size, stable.keys, stable.values, stable.size, stable.inner, stable.starts,
            stable.fan_out, depth, pools, probes.lo, probes.hi, probes.seen_from, probes.seen_to, begin, end, counts,
            own, ordinals, took,
        )  # fmt: skip

    run_together([task(own, took) for own, took in zip(owns, spent, strict=True)])
    # The last thread to finish may have met another one handing on, which had checked already.
    hand_on(queue, tasks, count, ordinals)
    del owns
    return min(begin + int(queue[HEAD]) * task_size, end), int(queue[TOTAL]), spent.sum(axis=0)
