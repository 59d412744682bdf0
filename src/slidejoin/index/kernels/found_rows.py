"""Candidates by their ordinals, one probe after the other: filter them by the further dimensions, write the pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import passes
from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, U64, group, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PAIRS", "PROBE_PAIRS", "Pairs", "ProbePairs", "keep_passing", "put_pairs"]


class ProbePairs(NamedTuple):
    """Which pairs each of n probes has; all (n,) int64.

    Attributes
    ----------
    ordinals
        The probe's own ordinal.
    counts
        How many rows match it.
    places
        Where its pairs begin, see `Pairs`.
    """

    ordinals: NDArray[np.int64]
    counts: NDArray[np.int64]
    places: NDArray[np.int64]


class Pairs(NamedTuple):
    """Pairs that are written: the ordinals of the probe and of the stored row of each; (pairs,) int64."""

    probes: NDArray[np.int64]
    stored: NDArray[np.int64]


PROBE_PAIRS, PAIRS = group(ProbePairs, I64, I64, I64), group(Pairs, OUT_I64, OUT_I64)


@kernel(I64_2D, I64_2D, I64_2D, I64, types.int64, types.int64, OUT_I64, OUT_I64, returns=types.int64)
def keep_passing(
    stored: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    begin: int,
    end: int,
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    """Drop the rows that are outside the further dimensions' ranges of their probes, begin…end-1.

    Row o's values are line ``o & (len(stored) - 1)`` of `stored` (2**m, d) int64; lows, highs (p, n) int64 and dims
    (p,) int64 as in `slidejoin.index.probe.Probes`. `rows` int64 has the ordinals, one probe after the other, and
    `counts` (n,) int64 how many a probe has; both are overwritten. Returns how many remain. O(rows * p).
    """
    values: Any = np.int64(stored.ctypes.data)
    width, mask = stored.shape[1], np.int64(stored.shape[0] - 1)
    take, at = np.int64(0), 0
    for i in range(begin, end):
        last, before = take + counts[U64(i)], at
        while take < last:
            ordinal = rows[U64(take)]
            rows[U64(at)] = ordinal
            at += passes(values, width, ordinal & mask, i, lows, highs, dims)
            take += 1
        counts[U64(i)] = at - before
    return at


@kernel(I64, types.int64, PROBE_PAIRS, types.int64, types.int64, PAIRS)
def put_pairs(rows: NDArray[np.int64], take: int, placed: ProbePairs, first: int, last: int, pairs: Pairs) -> None:
    """Write the pairs of probes first…last-1, whose rows are in `rows` from `take` on, one probe after the other.

    O(pairs).
    """
    (ordinals, counts, places), (probes, stored) = placed, pairs
    for i in range(first, last):
        at, own = places[U64(i)], ordinals[U64(i)]
        for _ in range(counts[U64(i)]):
            probes[U64(at)] = own
            stored[U64(at)] = rows[U64(take)]
            at += 1
            take += 1
