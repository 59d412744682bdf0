"""Several ranges of a probe: put into order, and those that overlap joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.jit.compiling import OUT_I64_2D, U64, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["tidy_pieces"]


@kernel(OUT_I64_2D, OUT_I64_2D, types.boolean, types.int64)
def tidy_pieces(lo: NDArray[np.int64], hi: NDArray[np.int64], joins: bool, most: int) -> None:
    """Put the pieces of each row into ascending order, in place, empty ones last and as (1, 0).

    lo and hi (k, n) int64, the ends of k pieces of each of n rows, both included. With `joins` pieces that overlap
    become one; beyond `most` pieces the last ones are joined across their gaps. O(n * k) for pieces in about that
    order.
    """
    lows, highs = np.empty(lo.shape[0], np.int64), np.empty(lo.shape[0], np.int64)
    for row in range(lo.shape[1]):
        i, count = U64(row), np.int64(0)
        for piece in range(lo.shape[0]):
            low, high = lo[U64(piece), i], hi[U64(piece), i]
            if low > high:
                continue
            at = count
            while at > 0 and lows[U64(at - 1)] > low:
                lows[U64(at)], highs[U64(at)] = lows[U64(at - 1)], highs[U64(at - 1)]
                at -= 1
            lows[U64(at)], highs[U64(at)] = low, high
            count += 1
        if joins and count > 0:
            last = np.int64(0)
            for piece in range(1, count):
                if lows[U64(piece)] <= highs[U64(last)]:
                    highs[U64(last)] = max(highs[U64(last)], highs[U64(piece)])
                else:
                    last += 1
                    lows[U64(last)], highs[U64(last)] = lows[U64(piece)], highs[U64(piece)]
            count = last + 1
        if count > most:
            highs[U64(most - 1)] = highs[U64(count - 1)]
            count = np.int64(most)
        for piece in range(lo.shape[0]):
            some = piece < count
            lo[U64(piece), i] = lows[U64(piece)] if some else 1
            hi[U64(piece), i] = highs[U64(piece)] if some else 0
