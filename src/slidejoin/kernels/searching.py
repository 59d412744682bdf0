"""Finding where the ranges of a batch of probes begin and end in a sorted run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.compiling import I32, I64, OUT_I32, U32, U64, inlined, kernel
from slidejoin.kernels.vectors import LANES, NARROW_LANES, count_below, count_below_narrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["WIDEST", "locate", "locate_narrow"]

WIDEST = (1 << 32) - 1
"""Narrow keys are smaller than this, so that the one after a bound is a 32-bit number too."""

U32_OF = np.uint32


def _search(lanes: int, count: Callable[[Any, Any, Any], int]) -> Callable[[Any, Any, Any], int]:
    """Return the search in keys of one width, of which `lanes` are compared at once."""

    @inlined
    def first_not_below(keys: Any, at: int, bound: Any) -> int:  # noqa: ANN401 - of either width
        """Return the first place from `at` on whose key is >= `bound`: strides that double, then halve; one block."""
        n = keys.size
        stride = lanes
        low = at
        while low + stride <= n and keys[U64(low + stride - 1)] < bound:
            low += stride
            stride <<= 1
        # The place is within [low, low + stride): every halving keeps keys[low - 1] < bound.
        stride >>= 1
        while stride >= lanes:
            if low + stride <= n and keys[U64(low + stride - 1)] < bound:
                low += stride
            stride >>= 1
        if low + lanes <= n:
            # All keys of a block are compared and counted, which needs no branch that could be guessed wrong.
            return low + count(keys, low, bound)
        while low < n and keys[U64(low)] < bound:
            low += 1
        return low

    compiled: Callable[[Any, Any, Any], int] = first_not_below
    return compiled


_first_not_below = _search(LANES, count_below)
_first_not_below_narrow = _search(NARROW_LANES, count_below_narrow)


@kernel(I64, I64, I64, I32, OUT_I32, OUT_I32)
def locate(
    keys: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    order: NDArray[np.int32],
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
) -> None:
    """Write for each probe i the run's places [starts[i], ends[i]) with ``lo[i] <= key <= hi[i]`` (PanJoin, III-E).

    The rebounding search: probes are taken in `order`, ascending by `lo`, and each search starts where the last one
    ended. keys (m,), lo and hi (n,) int64, both ends included, ``lo > hi`` an empty range; order, starts and ends (n,)
    int32. O(n log(m / n)).
    """
    at = 0
    largest = np.iinfo(np.int64).max
    for t in range(order.size):
        i = U64(order[t])
        if lo[i] > hi[i]:
            starts[i] = 0
            ends[i] = 0
            continue
        at = _first_not_below(keys, at, lo[i])
        starts[i] = at
        ends[i] = keys.size if hi[i] == largest else _first_not_below(keys, at, hi[i] + 1)


@kernel(U32, types.int64, I64, I64, I32, OUT_I32, OUT_I32)
def locate_narrow(
    narrow: NDArray[np.uint32],
    smallest: int,
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    order: NDArray[np.int32],
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
) -> None:
    """Do what `locate` does in keys relative to the run's smallest: half the memory to read.

    narrow (m,) uint32 ascending, all below 2**32 - 1; `smallest` int64 is the key that 0 stands for. The others as in
    `locate`. O(n log(m / n)).
    """
    at = 0
    n = narrow.size
    for t in range(order.size):
        i = U64(order[t])
        if lo[i] > hi[i] or hi[i] < smallest:
            starts[i] = 0
            ends[i] = 0
            continue
        if lo[i] > smallest:
            # A difference of 2**63 and more is negative when compiled, exact when not; either is beyond every key.
            first = int(lo[i]) - int(smallest)
            beyond = first < 0 or first > WIDEST
            at = n if beyond else _first_not_below_narrow(narrow, at, U32_OF(first))
        last = int(hi[i]) - int(smallest)
        beyond = last < 0 or last >= WIDEST
        starts[i] = at
        ends[i] = n if beyond else _first_not_below_narrow(narrow, at, U32_OF(last + 1))
