"""Rows that a structure found: filter them by the further dimensions, and write the pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import passes
from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, U64, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["keep_passing", "put_pairs"]


@kernel(I64_2D, I64_2D, I64_2D, I64, types.int64, types.int64, OUT_I64, OUT_I64, returns=types.int64)
def keep_passing(
    stored: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    begin: int,
    end: int,
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    """Drop the found rows that are outside the further dimensions' ranges of their probes, begin…end-1.

    Row o's values are line ``o & (len(stored) - 1)`` of `stored` (2**m, d) int64; lows, highs (p, n) int64 and dims
    (p,) int64 as in `slidejoin.index.probe.Probes`. `found` int64 has the ordinals, one probe after the other, and
    `counts` (n,) int64 how many a probe has; both are overwritten. Returns how many remain. O(rows found * p).
    """
    values: Any = np.int64(stored.ctypes.data)
    width, mask = stored.shape[1], np.int64(stored.shape[0] - 1)
    take, kept = np.int64(0), 0
    for i in range(begin, end):
        last, before = take + counts[U64(i)], kept
        while take < last:
            ordinal = found[U64(take)]
            found[U64(kept)] = ordinal
            kept += passes(values, width, ordinal & mask, i, lows, highs, dims)
            take += 1
        counts[U64(i)] = kept - before
    return kept


@kernel(I64, types.int64, I64, types.int64, types.int64, I64, I64, OUT_I64, OUT_I64)
def put_pairs(
    found: NDArray[np.int64],
    take: int,
    counts: NDArray[np.int64],
    first: int,
    last: int,
    ordinals: NDArray[np.int64],
    places: NDArray[np.int64],
    probes: NDArray[np.int64],
    stored: NDArray[np.int64],
) -> None:
    """Write the pairs of probes first…last-1, whose rows stand in `found` from `take` on, one probe after the other.

    `counts`, `ordinals` and `places` (n,) int64: how many rows a probe has, its own ordinal, and where its pairs go in
    `probes` and `stored`, int64. O(pairs).
    """
    for i in range(first, last):
        at, own = places[U64(i)], ordinals[U64(i)]
        for _ in range(counts[U64(i)]):
            probes[U64(at)] = own
            stored[U64(at)] = found[U64(take)]
            at += 1
            take += 1
