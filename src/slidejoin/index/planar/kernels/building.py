"""Building a planar run: the rank of each row by its second key, and the bounds of blocks of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.index.planar.kernels.lanes import FAN_OUT, LANES
from slidejoin.jit.compiling import OUT_U32, U32, U64, kernel
from slidejoin.jit.vectors.words import WORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["bound_blocks", "bound_groups", "place_ranks", "rank_rows"]

LOW_HALF = 0xFFFFFFFF


@kernel(WORDS, types.int64, types.int64, OUT_U32)
def place_ranks(words: NDArray[np.uint64], first: int, last: int, places: NDArray[np.uint32]) -> None:
    """Write the rank by the second key of rows first…last-1 in that order, to the place of each row.

    `words` (m + PAD,) uint64 in the order of the second key, the row within the sub-window in the lower half of each;
    `places` (rows,) uint32. O(last - first).
    """
    for rank in range(first, last):
        places[words[U64(rank)] & U64(LOW_HALF)] = rank


@kernel(WORDS, types.int64, types.int64, U32, OUT_U32)
def rank_rows(
    words: NDArray[np.uint64], first: int, last: int, places: NDArray[np.uint32], ranks: NDArray[np.uint32]
) -> None:
    """Write the ranks of rows first…last-1 in the order of the first key.

    `words` (m + PAD,) uint64 in that order; `places` as `place_ranks` wrote them; `ranks` (blocks * LANES,) uint32.
    O(last - first).
    """
    for place in range(first, last):
        ranks[U64(place)] = places[words[U64(place)] & U64(LOW_HALF)]


@kernel(U32, types.int64, types.int64, types.int64, OUT_U32)
def bound_blocks(ranks: NDArray[np.uint32], size: int, first: int, last: int, bounds: NDArray[np.uint32]) -> None:
    """Write the smallest and the largest rank of blocks first…last-1.

    `ranks` (blocks * LANES,) uint32, the first `size` in use; `bounds` (groups, 2, FAN_OUT) uint32 flat: of each group
    the smallest ranks, then the largest ones. O(ranks).
    """
    for block in range(first, last):
        begin, end = block * LANES, min(size, (block + 1) * LANES)
        least, most = ranks[U64(begin)], ranks[U64(begin)]
        for place in range(begin, end):
            least, most = min(least, ranks[U64(place)]), max(most, ranks[U64(place)])
        at = block // FAN_OUT * 2 * FAN_OUT + block % FAN_OUT
        bounds[U64(at)], bounds[U64(at + FAN_OUT)] = least, most


@kernel(OUT_U32, types.int64, types.int64, types.int64)
def bound_groups(bounds: NDArray[np.uint32], below: int, groups: int, at: int) -> None:
    """Write the bounds of groups: those that begin at `below`, so many, become nodes of the groups that begin at `at`.

    Nodes that do not exist have the bounds of nothing, a smallest rank above the largest one. O(groups).
    """
    for group in range(groups):
        begin = below + group * 2 * FAN_OUT
        least, most = bounds[U64(begin)], bounds[U64(begin + FAN_OUT)]
        for node in range(begin, begin + FAN_OUT):
            least, most = min(least, bounds[U64(node)]), max(most, bounds[U64(node + FAN_OUT)])
        to = at + group // FAN_OUT * 2 * FAN_OUT + group % FAN_OUT
        bounds[U64(to)], bounds[U64(to + FAN_OUT)] = least, most
