"""What else a run has of its rows, in the order of the words: the further dimensions, or whole keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types

from slidejoin.jit.compiling import I64_2D, OUT_I64_2D, U64, inlined, kernel
from slidejoin.jit.vectors.words import WORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["gather_further", "take_further"]

LOW_HALF = 0xFFFFFFFF


@inlined
def bound(values: Any, rows: Any, ends: Any) -> None:  # noqa: ANN401 - arrays, int64
    """Write the smallest and the largest of so many values of each dimension; there is one at least."""
    for d in range(values.shape[1]):
        least = most = values[U64(0), U64(d)]
        for row in range(1, rows):
            value = values[U64(row), U64(d)]
            least, most = min(least, value), max(most, value)
        ends[U64(0), U64(d)], ends[U64(1), U64(d)] = least, most


@kernel(WORDS, types.int64, I64_2D, OUT_I64_2D, OUT_I64_2D)
def gather_further(
    words: NDArray[np.uint64],
    size: int,
    values: NDArray[np.int64],
    out: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> None:
    """Write the values of the rows that the first `size` words name, and their bounds.

    values (rows, d) int64 in arrival order; out (size, d) int64, size at least 1; ends (2, d) int64: the smallest and
    the largest value of each dimension. O(size * d).
    """
    for place in range(size):
        row = words[U64(place)] & U64(LOW_HALF)
        for d in range(values.shape[1]):
            out[U64(place), U64(d)] = values[row, U64(d)]
    bound(out, size, ends)


@kernel(WORDS, types.int64, types.uint64, types.uint64, I64_2D, OUT_I64_2D, OUT_I64_2D, returns=types.int64)
def take_further(
    words: NDArray[np.uint64],
    size: int,
    low: np.uint64,
    high: np.uint64,
    values: NDArray[np.int64],
    out: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> int:
    """Write the values of those of the first `size` words whose offset is ``low <= o < high``; return how many.

    values (size, d) int64 in the order of the words; out (m, d) int64 with room for one row more than are taken; ends
    (2, d) int64: bounds as of `gather_further`, if any are taken. O(size * d), without a branch that depends on a word.
    """
    taken = 0
    for place in range(size):
        row = words[U64(place)] & U64(LOW_HALF)
        for d in range(values.shape[1]):
            out[U64(taken), U64(d)] = values[U64(place), U64(d)]
        taken += (low <= row) & (row < high)
    if taken > 0:
        bound(out, taken, ends)
    return taken
