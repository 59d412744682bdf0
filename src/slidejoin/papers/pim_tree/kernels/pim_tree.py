"""Probes of a PIM-Tree shared by threads, task by task in the order of arrival (PIM-Tree, section 4.1).

A task is a few probes. A free thread takes the next task, writes its answer into memory of its own, and marks it done;
then, unless another thread is doing so, it hands on all finished tasks at the head of the queue, in their order. So a
slow task blocks no other thread, and the result is the same as with a single thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.atomics import read_word, swap_word, write_word
from slidejoin.jit.vectors.memory import place_of
from slidejoin.jit.vectors.words import load_key
from slidejoin.papers.pim_tree.kernels.im_tree import answer_some

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HEAD", "QUEUE", "TASK", "TOTAL", "do_tasks", "hand_on"]

NEXT, LOCK, HEAD, TOTAL, STOPPED, QUEUE = range(6)
"""The shared queue, (QUEUE,) int64: the next task to take; whether a thread is handing results on; the first task that
is not handed on; rows handed on; whether there was no room for a task, so that all stop."""

STATUS, OFFSET, COUNT, AT, TASK = range(5)
"""A task in the queue, int64: its status; the place of its rows in the memory of the thread that found them, how
many they are, and the address of that memory."""

AVAILABLE, ACTIVE, COMPLETED = range(3)
"""The status of a task."""


@inlined
def _hand_on(queue: Any, tasks: Any, count: Any, found: Any) -> None:  # noqa: ANN401
    if not swap_word(queue, LOCK, 0, 1):
        return
    head, total = queue[HEAD], queue[TOTAL]
    while head < count and read_word(tasks, head * TASK + STATUS) == COMPLETED:
        rows, at = tasks[U64(head * TASK + COUNT)], tasks[U64(head * TASK + AT)] + 8 * tasks[U64(head * TASK + OFFSET)]
        if total + rows > found.size:
            write_word(queue, STOPPED, 1)
            break
        for row in range(rows):
            found[U64(total + row)] = load_key(at + 8 * row)
        total, head = total + rows, head + 1
    queue[HEAD], queue[TOTAL] = head, total
    write_word(queue, LOCK, 0)


@kernel(OUT_I64, OUT_I64, types.int64, OUT_I64)
def hand_on(queue: NDArray[np.int64], tasks: NDArray[np.int64], count: int, found: NDArray[np.int64]) -> None:
    """Copy the rows of the completed tasks at the head of the queue to `found`, in their order, unless another does.

    Stops at the first that there is no room for. O(rows).
    """
    _hand_on(queue, tasks, count, found)


@kernel(
    OUT_I64, OUT_I64, types.int64, types.int64, I64, I64, types.int64, I64, I64, types.int64, types.int64, I64_2D,
    I64_2D, I64_2D, I64, I64, types.int64, types.int64, OUT_I64, OUT_I64, OUT_I64, OUT_I64,
)  # fmt: skip
def do_tasks(
    queue: NDArray[np.int64],
    tasks: NDArray[np.int64],
    count: int,
    task_size: int,
    stable_keys: NDArray[np.int64],
    stable_values: NDArray[np.int64],
    size: int,
    inner: NDArray[np.int64],
    starts: NDArray[np.int64],
    fan_out: int,
    depth: int,
    pools: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    own: NDArray[np.int64],
    found: NDArray[np.int64],
    spent: NDArray[np.int64],
) -> None:
    """Take tasks of probes begin…end-1 from the queue until none is left, and hand results on; any number of threads.

    `tasks` (count * TASK,) int64, `task_size` probes each; `own` int64 and `spent` are this thread's. The others as in
    `slidejoin.papers.pim_tree.kernels.im_tree.answer_some`.
    """
    pieces = lo.shape[0]
    noted: Any = np.zeros((2 + pieces * (1 + 2 * pools.shape[0]), task_size), np.int64)
    result: Any = np.zeros(2, np.int64)
    used = np.int64(0)
    own_at = np.int64(place_of(own))
    while read_word(queue, STOPPED) == 0:
        task = read_word(queue, NEXT)
        if task >= count:
            break
        if not swap_word(queue, NEXT, task, task + 1):
            continue
        write_word(tasks, task * TASK + STATUS, ACTIVE)
        low = begin + task * task_size
        high = min(low + task_size, end)
        result[0], result[1] = low, used
        answer_some(
            stable_keys, stable_values, size, inner, starts, fan_out, depth, pools, lo, hi, seen_from, seen_to, low,
            high, counts, own, result, noted, spent,
        )  # fmt: skip
        if result[0] < high:
            # It is not handed on, nor what comes behind it.
            write_word(queue, STOPPED, 1)
            break
        at = task * TASK
        tasks[U64(at + OFFSET)], tasks[U64(at + COUNT)], tasks[U64(at + AT)] = used, result[1] - used, own_at
        used = result[1]
        write_word(tasks, at + STATUS, COMPLETED)
        _hand_on(queue, tasks, count, found)
