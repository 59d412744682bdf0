"""Comparing a batch of probes with blocks of keys, all of them: the nested loop of CellJoin, section 5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, U64, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["UNIT_BLOCK", "UNROLLED", "compare_blocks", "group_matches"]

UNIT_BLOCK = 8
"""Keys in a unit block: a vector of 512 bits, equation 1 with eight bytes a key."""

UNROLLED = 8 * UNIT_BLOCK
"""Keys that are compared before the first branch, eight vectors as in section 5.3."""


@inlined
def _hits(keys: Any, at: Any, low: Any, high: Any) -> Any:  # noqa: ANN401 - int64
    """Return how many of the keys from that place on lie in the range: vectors alone, no branch."""
    hits: Any = np.int64(0)
    for j in range(UNROLLED):
        key = keys[U64(at + j)]
        hits += (low <= key) & (key <= high)
    return hits


@kernel(
    I64, I64, types.int64, types.int64, types.int64, I64_2D, I64_2D, I64, I64, types.int64, types.int64, types.int64,
    OUT_I64, OUT_I32, returns=types.int64,
)  # fmt: skip
def compare_blocks(
    keys: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    first: int,
    last: int,
    size: int,
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    room: int,
    entries: NDArray[np.int64],
    which: NDArray[np.int32],
) -> int:
    """Write match entries of probes begin…end-1: a stored row's ordinal, and which probe from `begin` on it matches.

    Rows first…last-1 lie at their number modulo the places of `keys` and `ordinals`, int64, a whole number of basic
    windows of `size` places, and `first` is at the beginning of one. lo, hi (k, n) int64, ``lo > hi`` an empty range;
    probes see the ordinals ``seen_from <= o < seen_to``, (n,) int64 ascending. Returns how many entries, or -1 where
    there is no `room` for them. O(rows * probes * k).
    """
    total: Any = np.int64(0)
    for window in range(first, last, size):
        base, rows = window % keys.size, min(size, last - window)
        # Only basic windows at either end of what the batch sees are looked at row by row for that (section 4.1.2).
        oldest, newest = ordinals[U64(base)], ordinals[U64(base + rows - 1)]
        if newest < seen_from[U64(begin)] or oldest >= seen_to[U64(end - 1)]:
            continue
        for i in range(begin, end):
            low_seen, high_seen = seen_from[U64(i)], seen_to[U64(i)]
            for piece in range(lo.shape[0]):
                low, high = lo[U64(piece), U64(i)], hi[U64(piece), U64(i)]
                if low > high:
                    continue
                for at in range(base, base + rows, UNROLLED):
                    if _hits(keys, at, low, high) == 0:
                        continue
                    if total + UNROLLED > room:
                        return -1
                    # An entry is written for every row, and kept or written over.
                    for place in range(at, min(at + UNROLLED, base + rows)):
                        key, ordinal = keys[U64(place)], ordinals[U64(place)]
                        entries[U64(total)] = ordinal
                        which[U64(total)] = i - begin
                        total += (low <= key) & (key <= high) & (low_seen <= ordinal) & (ordinal < high_seen)
    return total  # type: ignore[no-any-return]


@kernel(I64, I32, types.int64, types.int64, types.int64, OUT_I64, OUT_I64, types.int64)
def group_matches(
    entries: NDArray[np.int64],
    which: NDArray[np.int32],
    total: int,
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    at: int,
) -> None:
    """Put match entries of probes begin…end-1 in order of their probes, into `found` from `at` on; count each's. O(n).

    Within a probe they stay in the order in which they came.
    """
    places = np.zeros(end - begin + 1, np.int64)
    for n in range(total):
        places[U64(which[U64(n)]) + U64(1)] += 1
    for i in range(end - begin):
        counts[U64(begin + i)] = places[U64(i + 1)]
        places[U64(i + 1)] += places[U64(i)]
    for n in range(total):
        probe = U64(which[U64(n)])
        found[U64(at + places[probe])] = entries[U64(n)]
        places[probe] += 1
