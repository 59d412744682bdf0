"""Checking the further dimensions of rows of which some are in sealed parts, and the newest ones in a ring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import passes
from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, U64, group, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DimParts", "keep_passing_sealed"]


class DimParts(NamedTuple):
    """Where the values of rows are, by ordinal.

    Those of the rows from ``firsts[k]`` on, up to the next part's, lie side by side from ``addresses[k]`` on, (k,)
    int64; those from ``firsts[-1]`` on are in `ring` (2**m, d) int64, row o in line ``o & (len(ring) - 1)``.
    """

    firsts: NDArray[np.int64]
    addresses: NDArray[np.int64]
    ring: NDArray[np.int64]


DIM_PARTS = group(DimParts, I64, I64, I64_2D)


@kernel(DIM_PARTS, I64_2D, I64_2D, I64, types.int64, types.int64, OUT_I64, OUT_I64, returns=types.int64)
def keep_passing_sealed(
    parts: DimParts,
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    begin: int,
    end: int,
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    """Drop the rows that are outside the further dimensions' ranges, as `index.kernels.found_rows.keep_passing` does.

    O(rows * (p + log(parts))).
    """
    firsts, addresses, newest_rows = parts
    ring, width, mask = np.int64(newest_rows.ctypes.data), newest_rows.shape[1], np.int64(newest_rows.shape[0] - 1)
    newest = firsts[U64(firsts.size - 1)]
    take, at, part = np.int64(0), 0, np.int64(0)
    for i in range(begin, end):
        last, before = take + counts[U64(i)], at
        while take < last:
            ordinal = rows[U64(take)]
            rows[U64(at)] = ordinal
            values: Any = ring
            line = ordinal & mask
            if ordinal < newest:
                # Neighbours are mostly of one part.
                if ordinal < firsts[U64(part)] or ordinal >= firsts[U64(part + 1)]:
                    part, past = np.int64(0), np.int64(addresses.size)
                    while past - part > 1:
                        middle = (part + past) >> 1
                        if firsts[U64(middle)] <= ordinal:
                            part = middle
                        else:
                            past = middle
                values, line = addresses[U64(part)], ordinal - firsts[U64(part)]
            at += passes(values, width, line, i, lows, highs, dims)
            take += 1
        counts[U64(i)] = at - before
    return at
