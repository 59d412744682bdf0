"""Hash buckets as linked lists of basic windows: CellJoin, section 7.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.cells.placing import bucket_of
from slidejoin.kernels.jit.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, U64, inlined, kernel, prefetch

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NOTHING", "find_in_buckets", "free_windows", "insert_into_buckets"]

NOTHING = -1
"""Stands for no basic window."""

SCATTER = 0x9E3779B97F4A7C15
"""The multiplier of keys: 2**64 over the golden ratio."""

AHEAD = 8
"""Prefetch distance, in probes, of a basic window, and at twice that of its number: the paper's second buffer."""


@kernel(
    OUT_I32, OUT_I64, OUT_I64, OUT_I32, OUT_I32, I32, OUT_I64, types.int64, I64, I64, types.int64, returns=types.int64
)
def insert_into_buckets(
    newest: NDArray[np.int32],
    keys: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    filled: NDArray[np.int32],
    older: NDArray[np.int32],
    free: NDArray[np.int32],
    state: NDArray[np.int64],
    size: int,
    new_keys: NDArray[np.int64],
    new_ordinals: NDArray[np.int64],
    start: int,
) -> int:
    """Put the rows from `start` on into the newest basic window of their bucket.

    Bucket b's newest basic window is ``newest[b]``, or `NOTHING`, (buckets,) int32; basic window w has ``filled[w]``
    rows in places ``w * size`` and on of `keys` and `ordinals` int64, and ``older[w]`` comes behind it, int32.
    ``free[: state[0]]`` are the empty ones. Returns the first row for which there was none, or the number of rows.
    O(n).
    """
    n = new_keys.size
    for row in range(start, n):
        soon = bucket_of(new_keys[U64(min(row + AHEAD, n - 1))], newest.size, SCATTER)
        prefetch(newest, soon)
        bucket = U64(bucket_of(new_keys[U64(row)], newest.size, SCATTER))
        window = np.int64(newest[bucket])
        if window == NOTHING or filled[U64(window)] == size:
            if state[0] == 0:
                return row
            state[0] -= 1
            fresh = np.int64(free[U64(state[0])])
            older[U64(fresh)] = window
            filled[U64(fresh)] = 0
            newest[bucket] = fresh
            window = fresh
        at = window * size + filled[U64(window)]
        keys[U64(at)] = new_keys[U64(row)]
        ordinals[U64(at)] = new_ordinals[U64(row)]
        filled[U64(window)] += 1
    return n


@kernel(
    OUT_I32, I64, OUT_I32, OUT_I32, OUT_I32, OUT_I64, types.int64, types.int64, types.int64, types.int64
)  # fmt: skip
def free_windows(
    newest: NDArray[np.int32],
    ordinals: NDArray[np.int64],
    filled: NDArray[np.int32],
    older: NDArray[np.int32],
    free: NDArray[np.int32],
    state: NDArray[np.int64],
    size: int,
    floor: int,
    first: int,
    last: int,
) -> None:
    """Free the basic windows of buckets first…last-1 whose rows have ordinals below `floor`.

    The others as in `insert_into_buckets`. O(last - first + their basic windows).
    """
    for bucket in range(first, last):
        soon = np.int64(newest[U64(min(bucket + AHEAD, last - 1))])
        prefetch(filled, soon)
        prefetch(older, soon)
        prefetch(ordinals, soon * size)
        before, window = np.int64(NOTHING), np.int64(newest[U64(bucket)])
        # Those behind one whose rows have all expired are older still.
        while window != NOTHING and ordinals[U64(window * size + filled[U64(window)] - 1)] >= floor:
            before, window = window, np.int64(older[U64(window)])
        if before == NOTHING:
            newest[U64(bucket)] = NOTHING
        else:
            older[U64(before)] = NOTHING
        while window != NOTHING:
            free[U64(state[0])] = window
            state[0] += 1
            filled[U64(window)] = 0
            window = np.int64(older[U64(window)])


@inlined
def _read_bucket(
    window: Any,  # noqa: ANN401 - int64, as are all others that are no arrays
    keys: Any,  # noqa: ANN401
    ordinals: Any,  # noqa: ANN401
    filled: Any,  # noqa: ANN401
    older: Any,  # noqa: ANN401
    size: Any,  # noqa: ANN401
    low: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
    low_seen: Any,  # noqa: ANN401
    high_seen: Any,  # noqa: ANN401
    found: Any,  # noqa: ANN401
    total: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Write the rows of a bucket with keys low…high that are seen; return the new total, -1 for no room."""
    while window != NOTHING:
        base, rows = window * size, filled[U64(window)]
        if ordinals[U64(base + rows - 1)] < low_seen:
            break
        if total + rows > found.size:
            total = np.int64(-1)
            break
        for place in range(base, base + rows):
            key, ordinal = keys[U64(place)], ordinals[U64(place)]
            found[U64(total)] = ordinal  # kept, or overwritten by the next
            total += (low <= key) & (key <= high) & (low_seen <= ordinal) & (ordinal < high_seen)
        window = np.int64(older[U64(window)])
    return total


@kernel(
    I32, I64, I64, I32, I32, types.int64, I64_2D, I64_2D, I64, I64, types.int64, types.int64, OUT_I64, OUT_I64, OUT_I64
)
def find_in_buckets(
    newest: NDArray[np.int32],
    keys: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    filled: NDArray[np.int32],
    older: NDArray[np.int32],
    size: int,
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    result: NDArray[np.int64],
) -> None:
    """Find the rows of probes begin…end-1, see `slidejoin.index.structure.Structure.walk`; buckets as above.

    `result` (2,) int64 takes what that returns. O(rows in the buckets of the probes' keys).
    """
    total: Any = np.int64(0)
    for i in range(begin, end):
        far, near = U64(min(i + 2 * AHEAD, end - 1)), U64(min(i + AHEAD, end - 1))
        prefetch(newest, bucket_of(lo[U64(0), far], newest.size, SCATTER))
        window = np.int64(newest[U64(bucket_of(lo[U64(0), near], newest.size, SCATTER))])
        prefetch(keys, window * size)
        prefetch(ordinals, window * size)
        before = total
        for piece in range(lo.shape[0]):
            low, high = lo[U64(piece), U64(i)], hi[U64(piece), U64(i)]
            if low > high or total < 0:
                continue
            # A range of several keys is rare: keys of doubles whose sums are rounded to one value.
            several, many = low != high, (high >> 1) - (low >> 1) >= newest.size
            bucket, key = np.int64(0), low
            while total >= 0:
                if not many:
                    bucket = np.int64(bucket_of(key, newest.size, SCATTER))
                first, last = (low, high) if many else (key, key)
                total = _read_bucket(
                    np.int64(newest[U64(bucket)]), keys, ordinals, filled, older, size, first, last,
                    seen_from[U64(i)], seen_to[U64(i)], found, total,
                )  # fmt: skip
                if not several or (many and bucket == newest.size - 1) or (not many and key == high):
                    break
                bucket += 1
                key += not many
        if total < 0:
            result[0], result[1] = i, before
            return
        counts[U64(i)] = total - before
    result[0], result[1] = end, total
