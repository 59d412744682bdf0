"""How runs are described to kernels and searched: the table of runs, directories, single places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_U32, U64, group, inlined, kernel
from slidejoin.jit.vectors.memory import load_32, load_64
from slidejoin.jit.vectors.words import LANES, WORDS, count_lines, load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "AUX", "BASE", "CHECKS", "CRITERIA", "DIMENSIONS", "DIRECTORY", "FIELDS", "KEYS", "LARGEST", "ROWS", "SHIFT",
    "SIZE", "SMALLEST", "STEP", "WORDS_AT", "Criteria", "close_directory", "mark_directory", "passes", "place_of",
    "refined",
]  # fmt: skip

(
    WORDS_AT, SIZE, SMALLEST, LARGEST, SHIFT, STEP, DIRECTORY, BASE, ROWS, KEYS, AUX, DIMENSIONS, CHECKS, AGES,
) = range(14)  # fmt: skip
"""A run as one line of int64 in a table: kernels take all runs of a chain at once.

Addresses of the words, of the directory (uint32), of whole keys (int64, 0 if the words hold them), of the further
dimensions; how many rows have a key; smallest and largest key; bits that words lack at the end of a key; the same of
the directory's buckets; the run's first ordinal, the ordinals it spans; dimensions; what to check of a candidate;
the address of what `index.kernels.ages` reads, 0 if there is none.
"""
FIELDS = 14

CHECK_SEEN, CHECK_AUX = 1, 2
"""Checks of a candidate: that the probe sees its ordinal; that it passes the further dimensions."""


class Criteria(NamedTuple):
    """What candidates of n probes must meet.

    Attributes
    ----------
    seen_from, seen_to : (n,) int64
        A probe sees the ordinals ``seen_from <= o < seen_to``.
    lows, highs : (p, n) int64
        Ranges of the further dimensions, both ends included.
    dims : (p,) int64
        Which dimension each range is of, ascending: a row must lie in one range of each dimension.
    """

    seen_from: NDArray[np.int64]
    seen_to: NDArray[np.int64]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    dims: NDArray[np.int64]


CRITERIA = group(Criteria, I64, I64, I64_2D, I64_2D, I64)


@kernel(WORDS, types.int64, types.int64, types.int64, OUT_U32)
def mark_directory(words: NDArray[np.uint64], first: int, last: int, step: int, directory: NDArray[np.uint32]) -> None:
    """Note for each bucket of the places first…last-1 where it ends; a bucket is a word's upper half >> `step`.

    `directory` (buckets + 1,) uint32, zeros at first. Stretches come in ascending order. O(last - first).
    """
    shift = U64(32 + step)
    for place in range(first, last):
        directory[(words[U64(place)] >> shift) + U64(1)] = place + 1


@kernel(OUT_U32)
def close_directory(directory: NDArray[np.uint32]) -> None:
    """Give buckets without a word the end of those before them: entry b is the first place of bucket b or later."""
    ended = directory[0]
    for bucket in range(directory.size):
        ended = max(ended, directory[U64(bucket)])
        directory[U64(bucket)] = ended


@inlined
def place_of(words: Any, directory: Any, step: int, bound: Any) -> Any:  # noqa: ANN401 - int64, bound uint64
    """Return the first place with a word >= `bound`, which is no larger than the run's last word."""
    entry = directory + (np.int64(bound >> U64(32 + step)) << 2)
    low = np.int64(load_32(entry))
    size = np.int64(load_32(entry + 4)) - low
    # No branch depends on a word: a bucket of many words is halved, its last sixteen are compared at once.
    while size > 2 * LANES:
        half = size >> 1
        low += half * (load_64(words + ((low + half - 1) << 3)) < bound)
        size -= half
    return low + count_lines(words + (low << 3), bound)


@inlined
def refined(keys: int, low: int, high: int, bound: int) -> int:
    """Return the first place from `low` on, `high` at the latest, whose whole key is >= `bound`."""
    while low < high:
        middle = (low + high) >> 1
        if load_key(keys + (middle << 3)) < bound:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def passes(aux: int, width: int, j: int, i: Any, lows: Any, highs: Any, dims: Any) -> bool:  # noqa: ANN401
    """Tell whether stored row j lies in one range of probe i in every dimension of `aux`."""
    piece = 0
    while piece < dims.size:
        d = dims[piece]
        value = load_key(aux + ((j * width + d) << 3))
        inside = False
        while piece < dims.size and dims[piece] == d:
            inside |= (lows[piece, i] <= value) & (value <= highs[piece, i])
            piece += 1
        if not inside:
            return False
    return True
