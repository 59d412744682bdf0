"""Hash buckets as linked lists of basic windows, each divided among workers by pointers: CellJoin, section 7.2.

The head of bucket b are ``1 + workers`` numbers from place ``b * (1 + workers)`` on, in one cache line with few
workers: how many basic windows the bucket has, then each worker's newest one, `NOTHING` if it has none. Worker 0 has
the newest ones. As in a list that is not hashed, the first ``windows % workers`` workers have one more than the others
(equation 2), and a basic window that comes or leaves moves pointers by one step, in O(workers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.index.cells.kernels.buckets import GOLDEN, bucket_of
from slidejoin.jit.compiling import I32, I64, OUT_I32, OUT_I64, U64, inlined, kernel, prefetch
from slidejoin.papers.kernels.in_words import reader
from slidejoin.papers.kernels.walking import MATCHES, RANGES

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NOTHING", "LinkedWindows", "divide_buckets", "find_in_buckets", "free_windows", "insert_into_buckets"]

NOTHING = -1
"""Stands for no basic window."""

AHEAD = 8
"""Prefetch distance, in probes, of a basic window, and at twice that of its number: the paper's second buffer."""


class LinkedWindows(NamedTuple):
    """The basic windows of all buckets.

    Basic window w has ``filled[w]`` rows in places ``w * size`` and on of `keys` and `ordinals` int64; ``older[w]``
    comes behind it and ``newer[w]`` before it, int32, where there is one. The empty ones are ``free[: known_free[0]]``.
    `heads` (buckets * (1 + workers),) int32.
    """

    heads: NDArray[np.int32]
    keys: NDArray[np.int64]
    ordinals: NDArray[np.int64]
    filled: NDArray[np.int32]
    older: NDArray[np.int32]
    newer: NDArray[np.int32]
    free: NDArray[np.int32]
    known_free: NDArray[np.int64]
    workers: int
    size: int


_windows_in = reader(LinkedWindows, OUT_I32, OUT_I64, OUT_I64, *[OUT_I32] * 4, OUT_I64, types.int64, types.int64)


@inlined
def _window_came(heads: Any, head: Any, workers: Any, newer: Any, fresh: Any) -> None:  # noqa: ANN401 - int64, arrays
    """Make a basic window the newest of a bucket: some workers' pointers move to the next newer one."""
    windows = np.int64(heads[U64(head)])
    if windows < workers:
        # Each has one at most, and takes its neighbour's.
        for worker in range(windows, 0, -1):
            heads[U64(head + 1 + worker)] = heads[U64(head + worker)]
    else:
        for worker in range(1, windows % workers + 1):
            heads[U64(head + 1 + worker)] = newer[U64(heads[U64(head + 1 + worker)])]
    heads[U64(head + 1)] = fresh
    heads[U64(head)] = windows + 1


@inlined
def _window_left(heads: Any, head: Any, workers: Any, newer: Any) -> None:  # noqa: ANN401 - int64, arrays
    """Take the oldest basic window from a bucket: some workers' pointers move to the next newer one."""
    windows = np.int64(heads[U64(head)])
    less = (windows - 1) % workers
    if windows <= workers:
        heads[U64(head + 1 + less)] = NOTHING
    else:
        for worker in range(less + 1, workers):
            heads[U64(head + 1 + worker)] = newer[U64(heads[U64(head + 1 + worker)])]
    heads[U64(head)] = windows - 1


@kernel(I64, I64, I64, types.int64, returns=types.int64)
def insert_into_buckets(
    words: NDArray[np.int64], new_keys: NDArray[np.int64], new_ordinals: NDArray[np.int64], start: int
) -> int:
    """Put the rows from `start` on into the newest basic window of their bucket.

    `words` are those of the basic windows. Returns the first row for which there was none, or the number of rows. O(n),
    and O(workers) for each new basic window.
    """
    own = _windows_in(words)
    heads, filled, older, newer, size, workers = own.heads, own.filled, own.older, own.newer, own.size, own.workers
    n, width = new_keys.size, workers + 1
    buckets = heads.size // width
    for row in range(start, n):
        soon = np.int64(bucket_of(new_keys[U64(min(row + AHEAD, n - 1))], buckets, GOLDEN))
        prefetch(heads, soon * width)
        head = np.int64(bucket_of(new_keys[U64(row)], buckets, GOLDEN)) * width
        window = np.int64(heads[U64(head + 1)])
        if window == NOTHING or filled[U64(window)] == size:
            if own.known_free[0] == 0:
                return row
            own.known_free[0] -= 1
            fresh = np.int64(own.free[U64(own.known_free[0])])
            older[U64(fresh)] = window
            if window != NOTHING:
                newer[U64(window)] = fresh
            filled[U64(fresh)] = 0
            _window_came(heads, head, workers, newer, fresh)
            window = fresh
        at = window * size + filled[U64(window)]
        own.keys[U64(at)] = new_keys[U64(row)]
        own.ordinals[U64(at)] = new_ordinals[U64(row)]
        filled[U64(window)] += 1
    return n


@kernel(I64, types.int64, types.int64, types.int64)
def free_windows(words: NDArray[np.int64], floor: int, first: int, last: int) -> None:
    """Free the basic windows of buckets first…last-1 whose rows have ordinals below `floor`.

    O(last - first + their basic windows), and O(workers) for each that is freed.
    """
    own = _windows_in(words)
    heads, ordinals, filled, older, size, workers = (
        own.heads,
        own.ordinals,
        own.filled,
        own.older,
        own.size,
        own.workers,
    )
    width = workers + 1
    for bucket in range(first, last):
        soon = np.int64(heads[U64(min(bucket + AHEAD, last - 1) * width + 1)])
        prefetch(filled, soon)
        prefetch(older, soon)
        prefetch(ordinals, soon * size)
        head = bucket * width
        window = np.int64(heads[U64(head + 1)])
        left = np.int64(heads[U64(head)])
        # Those behind one whose rows have all expired are older still.
        while left and ordinals[U64(window * size + filled[U64(window)] - 1)] >= floor:
            window = np.int64(older[U64(window)])
            left -= 1
        for _ in range(left):
            _window_left(heads, head, workers, own.newer)
            own.free[U64(own.known_free[0])] = window
            own.known_free[0] += 1
            filled[U64(window)] = 0
            window = np.int64(older[U64(window)])


@kernel(I32, types.int64, I32, OUT_I32, types.int64)
def divide_buckets(
    before: NDArray[np.int32], earlier: int, older: NDArray[np.int32], heads: NDArray[np.int32], workers: int
) -> None:
    """Write the heads of buckets that are divided among another number of workers than before, `earlier`.

    Both (buckets * (1 + workers),) int32; `older` as of `LinkedWindows`. O(buckets * workers + basic windows).
    """
    for bucket in range(before.size // (earlier + 1)):
        window = np.int64(before[U64(bucket * (earlier + 1) + 1)])
        windows = np.int64(before[U64(bucket * (earlier + 1))])
        head = bucket * (workers + 1)
        heads[U64(head)] = windows
        for worker in range(workers):
            own = windows // workers + (worker < windows % workers)
            heads[U64(head + 1 + worker)] = window if own else NOTHING
            for _ in range(own):
                window = np.int64(older[U64(window)])


@inlined
def _read_bucket(
    own: Any,  # noqa: ANN401
    window: Any,  # noqa: ANN401 - int64, as are all others that are no arrays
    windows: Any,  # noqa: ANN401
    low: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
    seen: Any,  # noqa: ANN401
    into: Any,  # noqa: ANN401
    total: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Write the rows of a basic window and so many behind it with keys low…high that are seen.

    Returns the new total, -1 for no room.
    """
    keys, ordinals, size = own.keys, own.ordinals, own.size
    low_seen, high_seen = seen
    while windows:
        base, rows = window * size, own.filled[U64(window)]
        if windows > 1:
            # The paper's second buffer: the next one is on its way while this one is compared.
            following = np.int64(own.older[U64(window)])
            prefetch(keys, following * size)
            prefetch(ordinals, following * size)
        if ordinals[U64(base + rows - 1)] < low_seen:
            break
        if total + rows > into.size:
            total = np.int64(-1)
            break
        for place in range(base, base + rows):
            key, ordinal = keys[U64(place)], ordinals[U64(place)]
            into[U64(total)] = ordinal  # stays, or is overwritten by the next
            total += (low <= key) & (key <= high) & (low_seen <= ordinal) & (ordinal < high_seen)
        window = np.int64(own.older[U64(window)])
        windows -= 1
    return total


@kernel(I64, types.int64, *RANGES.types, types.int64, types.int64, *MATCHES.types)
def find_in_buckets(
    words: NDArray[np.int64],
    worker: int,
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    done: NDArray[np.int64],
) -> None:
    """Find the rows of probes begin…end-1 among the basic windows of one worker, see `Structure.walk`.

    The fields of `ProbeRanges` and `WalkMatches` are passed apart: Python calls it for every push. O(the worker's rows
    in the buckets of the probes' keys).
    """
    own = _windows_in(words)
    heads, size, workers = own.heads, own.size, own.workers
    width = workers + 1
    buckets = heads.size // width
    total: Any = np.int64(0)
    for i in range(begin, end):
        far, near = U64(min(i + 2 * AHEAD, end - 1)), U64(min(i + AHEAD, end - 1))
        prefetch(heads, np.int64(bucket_of(lo[U64(0), far], buckets, GOLDEN)) * width)
        soon = np.int64(bucket_of(lo[U64(0), near], buckets, GOLDEN))
        window = np.int64(heads[U64(soon * width + 1 + worker)])
        prefetch(own.keys, window * size)
        prefetch(own.ordinals, window * size)
        before, seen = total, (seen_from[U64(i)], seen_to[U64(i)])
        for piece in range(lo.shape[0]):
            low, high = lo[U64(piece), U64(i)], hi[U64(piece), U64(i)]
            if low > high or total < 0:
                continue
            # A range of several keys is rare: keys of doubles whose sums are rounded to one value.
            several, many = low != high, (high >> 1) - (low >> 1) >= buckets
            bucket, key = np.int64(0), low
            while total >= 0:
                if not many:
                    bucket = np.int64(bucket_of(key, buckets, GOLDEN))
                first, last = (low, high) if many else (key, key)
                windows = np.int64(heads[U64(bucket * width)])
                windows = windows // workers + (worker < windows % workers)
                newest = np.int64(heads[U64(bucket * width + 1 + worker)])
                total = _read_bucket(own, newest, windows, first, last, seen, ordinals, total)
                if not several or (many and bucket == buckets - 1) or (not many and key == high):
                    break
                bucket += 1
                key += not many
        if total < 0:
            done[0], done[1] = i, before
            return
        counts[U64(i)] = total - before
    done[0], done[1] = end, total
