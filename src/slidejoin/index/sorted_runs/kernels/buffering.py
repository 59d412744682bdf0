"""The insertion buffer of sorted runs: rows of small pushes, sorted in place (PanJoin, section III-D).

A separate run for each small push would cost more to build, and to merge soon after, than it saves. So these rows are
merged into those that arrived shortly before, and become a run once there are enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types

from slidejoin.index.kernels.searching import close_directory, mark_directory
from slidejoin.jit.compiling import I32, I64, OUT_I64, OUT_U32, U64, inlined, kernel
from slidejoin.jit.vectors.sorting import BITS, sort_words
from slidejoin.jit.vectors.words import OUT_WORDS, PAD, WORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BUFFER", "COMING", "COMING_HIGH", "COMING_LOW", "HIGH", "LOW", "ROWS", "merge_coming", "sort_coming"]

ROWS, LOW, HIGH, COMING, COMING_LOW, COMING_HIGH, BUFFER = range(7)
"""The state of a buffer: its ROWS, their smallest and largest key; the rows COMING, and the smallest and largest key
with them. BUFFER is the size of the state."""

MOST_APART = (1 << 32) - 2
"""How far apart keys may be: the word behind the largest has to fit as well."""

FEW = 96
"""Rows up to which they are inserted one by one: 4 µs for so many, and a radix sort clears its counters first."""


@inlined
def _insert_each(keys: NDArray[np.int64], low: int, row: int, words: NDArray[np.uint64]) -> None:
    """Write the words of keys in ascending order, by insertion sort."""
    for i in range(keys.size):
        word = (U64(int(keys[U64(i)]) - int(low)) << U64(32)) | U64(row + i)
        j = i
        while j > 0 and words[U64(j - 1)] > word:
            words[U64(j)] = words[U64(j - 1)]
            j -= 1
        words[U64(j)] = word


@kernel(I64, types.int64, I32, OUT_I64, OUT_WORDS, OUT_WORDS, returns=types.boolean)
def sort_coming(
    keys: NDArray[np.int64],
    reach: int,
    nothing: NDArray[np.int32],
    state: NDArray[np.int64],
    words: NDArray[np.uint64],
    spare: NDArray[np.uint64],
) -> bool:
    """Sort the next keys, (n,) int64; tell whether they fit: within ±`reach`, and near the stored ones.

    state (BUFFER,) int64 of the buffer; `words` and `spare` (n,) uint64, of which the first takes the keys'
    words, as they will be in the buffer. `nothing` (0,) int32. Nothing of the buffer is changed but COMING.
    O(n log(n)) for few, O(n) for many.
    """
    n = keys.size
    state[COMING] = 0
    if n == 0:
        return True
    low: Any = keys[0]
    high: Any = keys[0]
    for i in range(n):
        low, high = min(low, keys[U64(i)]), max(high, keys[U64(i)])
    if low <= -reach or high >= reach:
        return False
    if state[ROWS] > 0:
        low, high = min(low, state[LOW]), max(high, state[HIGH])
    if high - low > MOST_APART:
        return False
    row = state[ROWS]
    if n <= FEW:
        _insert_each(keys, low, row, words)
    else:
        passes, span = 0, high - low
        while span > 0:
            span >>= BITS
            passes += 1
        sort_words(keys, nothing, n > 0, low, 0, passes, words, spare)
        for i in range(n):
            words[U64(i)] += U64(row)
    state[COMING], state[COMING_LOW], state[COMING_HIGH] = n, low, high
    return True


@kernel(WORDS, types.int64, OUT_I64, OUT_WORDS, OUT_U32)
def merge_coming(
    coming: NDArray[np.uint64],
    step: int,
    state: NDArray[np.int64],
    words: NDArray[np.uint64],
    directory: NDArray[np.uint32],
) -> None:
    """Merge the words that `sort_coming` left into the buffer's, and rebuild its directory, with the given step.

    `words` has room for all and PAD more, `directory` is as `searching.mark_directory` wants it, but
    for its content. Backwards from the end, so that the merge is in place. O(rows).
    """
    rows, n, low = state[ROWS], state[COMING], state[COMING_LOW]
    if n == 0:
        return
    if rows > 0 and low < state[LOW]:
        up = U64(int(state[LOW]) - int(low)) << U64(32)
        for place in range(rows):
            words[U64(place)] += up
    i, j, total = rows - 1, n - 1, rows + n
    at = total - 1
    while i >= 0 and j >= 0:
        ours, theirs = words[U64(i)], coming[U64(j)]
        words[U64(at)] = max(ours, theirs)
        i -= ours > theirs
        j -= ours <= theirs
        at -= 1
    while j >= 0:
        words[U64(at)] = coming[U64(j)]
        j -= 1
        at -= 1
    for place in range(total, total + PAD):
        words[U64(place)] = ~U64(0)
    buckets = ((state[COMING_HIGH] - low) >> step) + 2
    directory[:buckets] = 0
    mark_directory(words, 0, total, step, directory)
    close_directory(directory[:buckets])
    state[ROWS], state[LOW], state[HIGH], state[COMING] = total, low, state[COMING_HIGH], 0
