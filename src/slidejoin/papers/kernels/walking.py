"""What kernels of all structures read of probes, and where they write matches, see `papers.structure.Structure`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, U64, group, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ENTRIES", "MATCHES", "RANGES", "MatchEntries", "ProbeRanges", "WalkMatches", "group_matches"]


class ProbeRanges(NamedTuple):
    """What n probes look for, see `slidejoin.index.probe.Probes`: lo and hi (k, n) int64, the others (n,) int64."""

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    seen_from: NDArray[np.int64]
    seen_to: NDArray[np.int64]


class WalkMatches(NamedTuple):
    """Where the matches of n probes are written: counts (n,) int64, and ordinals int64, one probe after the other.

    `done` (2,) int64 says how far a walk is: the first probe that is not answered, and how many ordinals there are.
    """

    counts: NDArray[np.int64]
    ordinals: NDArray[np.int64]
    done: NDArray[np.int64]


class MatchEntries(NamedTuple):
    """Matches in any order: each row's ordinal, int64, and the probe's place in its batch, int32."""

    ordinals: NDArray[np.int64]
    probes: NDArray[np.int32]


RANGES, MATCHES = group(ProbeRanges, I64_2D, I64_2D, I64, I64), group(WalkMatches, OUT_I64, OUT_I64, OUT_I64)
ENTRIES = group(MatchEntries, OUT_I64, OUT_I32)


@kernel(I64, I32, types.int64, types.int64, types.int64, OUT_I64, OUT_I64, types.int64)
def group_matches(
    entries: NDArray[np.int64],
    which: NDArray[np.int32],
    total: int,
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    at: int,
) -> None:
    """Write match entries of probes begin…end-1 by probe into `ordinals` from `at` on, and count each probe's. O(n).

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
        ordinals[U64(at + places[probe])] = entries[U64(n)]
        places[probe] += 1
