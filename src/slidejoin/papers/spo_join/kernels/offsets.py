"""Offset arrays: where the sorted keys of one stream lie among those of the other (SPO-Join, Algorithm 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types

from slidejoin.jit.compiling import I32, I64, OUT_I64, U64, kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["find_offsets"]


@kernel(I64, types.int64, I64, I32, types.boolean, OUT_I64)
def find_offsets(
    keys: NDArray[np.int64], size: int, bounds: NDArray[np.int64], order: NDArray[np.int32], behind: bool,
    offsets: NDArray[np.int64],
) -> None:  # fmt: skip
    """Find for each bound the first of the sorted keys that is not below it; with `behind`, the first above it.

    keys (size or more,) int64 ascend; bounds (n,) int64 ascend in the `order` (n,) int32. `offsets` (n,) int64 takes
    the places, `size` where there is none. Each search goes on from where the last one ended, in steps that double, so
    that all take O(size + n) and a few of them O(n log(size)).
    """
    at: Any = 0
    for turn in range(order.size):
        bound = bounds[U64(order[U64(turn)])]
        # Keys before `at` come before the bound: double the step while that holds, then halve it.
        step: Any = 1
        while at + step <= size and (
            keys[U64(at + step - 1)] < bound or (behind and keys[U64(at + step - 1)] == bound)
        ):
            at += step
            step *= 2
        while step > 1:
            step //= 2
            if at + step <= size and (
                keys[U64(at + step - 1)] < bound or (behind and keys[U64(at + step - 1)] == bound)
            ):
                at += step
        offsets[U64(order[U64(turn)])] = at
