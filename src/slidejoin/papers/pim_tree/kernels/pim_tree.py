"""Probes of a PIM-Tree shared by threads, task by task in the order of arrival (PIM-Tree, section 4.1).

A task is a few probes. A free thread takes the next task, writes its answer into memory of its own, and marks it done;
then, unless another thread is doing so, it hands on all finished tasks at the head of the queue, in their order. So a
slow task blocks no other thread, and the result is the same as with a single thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, OUT_I64, U64, group, kernel
from slidejoin.jit.vectors.atomics import read_word, swap_word, write_word
from slidejoin.jit.vectors.memory import place_of
from slidejoin.jit.vectors.words import load_key
from slidejoin.papers.kernels.walking import MATCHES, RANGES
from slidejoin.papers.pim_tree.kernels.im_tree import answer_some, noted_lines, pools_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.papers.kernels.walking import ProbeRanges, WalkMatches

__all__ = ["HEAD", "QUEUE", "TASK", "TOTAL", "TaskQueue", "do_tasks", "hand_on"]

NEXT, LOCK, HEAD, TOTAL, STOPPED, QUEUE = range(6)
"""The shared queue, (QUEUE,) int64: the next task to take; whether a thread is handing results on; the first task that
is not handed on; rows handed on; whether there was no room for a task, so that all stop."""

STATUS, OFFSET, COUNT, AT, TASK = range(5)
"""A task in the queue, int64: its status; the place of its rows in the memory of the thread that wrote them, how
many they are, and the address of that memory."""

AVAILABLE, ACTIVE, COMPLETED = range(3)
"""The status of a task."""


class TaskQueue(NamedTuple):
    """The tasks of probes begin…end-1, of `size` probes each.

    `shared` (QUEUE,) int64 and `tasks` (tasks * TASK,) int64 are those of all threads.
    """

    shared: NDArray[np.int64]
    tasks: NDArray[np.int64]
    size: int
    begin: int
    end: int


TASK_QUEUE = group(TaskQueue, OUT_I64, OUT_I64, types.int64, types.int64, types.int64)


@kernel(TASK_QUEUE, OUT_I64)
def hand_on(queue: TaskQueue, ordinals: NDArray[np.int64]) -> None:
    """Copy the rows of the completed tasks at the head of the queue to `ordinals`, in order, unless another does.

    Stops at the first that there is no room for. O(rows).
    """
    shared, tasks = queue.shared, queue.tasks
    if not swap_word(shared, LOCK, 0, 1):
        return
    head, total = shared[HEAD], shared[TOTAL]
    while head * TASK < tasks.size and read_word(tasks, head * TASK + STATUS) == COMPLETED:
        rows, at = tasks[U64(head * TASK + COUNT)], tasks[U64(head * TASK + AT)] + 8 * tasks[U64(head * TASK + OFFSET)]
        if total + rows > ordinals.size:
            write_word(shared, STOPPED, 1)
            break
        for row in range(rows):
            ordinals[U64(total + row)] = load_key(at + 8 * row)
        total, head = total + rows, head + 1
    shared[HEAD], shared[TOTAL] = head, total
    write_word(shared, LOCK, 0)


@kernel(TASK_QUEUE, I64, types.int64, I64, RANGES, MATCHES, OUT_I64, OUT_I64)
def do_tasks(
    queue: TaskQueue,
    tree: NDArray[np.int64],
    depth: int,
    pools: NDArray[np.int64],
    ranges: ProbeRanges,
    own: WalkMatches,
    ordinals: NDArray[np.int64],
    spent: NDArray[np.int64],
) -> None:
    """Take tasks from the queue until none is left, and hand their rows on to `ordinals`; any number of threads.

    `own` and `spent` are this thread's, but for the counts. The others as in `kernels.im_tree.answer_some`.
    """
    shared, tasks, size, done = queue.shared, queue.tasks, queue.size, own.done
    noted: Any = np.zeros((noted_lines(ranges.lo.shape[0], pools_in(pools).size), size), np.int64)
    used = np.int64(0)
    own_at = np.int64(place_of(own.ordinals))
    while read_word(shared, STOPPED) == 0:
        task = read_word(shared, NEXT)
        at = task * TASK
        if at >= tasks.size:
            break
        if not swap_word(shared, NEXT, task, task + 1):
            continue
        write_word(tasks, at + STATUS, ACTIVE)
        low = queue.begin + task * size
        high = min(low + size, queue.end)
        done[0], done[1] = low, used
        answer_some(tree, depth, pools, ranges, low, high, own, noted=noted, spent=spent)
        if done[0] < high:
            # It is not handed on, nor what comes behind it.
            write_word(shared, STOPPED, 1)
            break
        tasks[U64(at + OFFSET)], tasks[U64(at + COUNT)], tasks[U64(at + AT)] = used, done[1] - used, own_at
        used = done[1]
        write_word(tasks, at + STATUS, COMPLETED)
        hand_on(queue, ordinals)
