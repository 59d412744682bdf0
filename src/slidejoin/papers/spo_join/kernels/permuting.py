"""Merging the B+-trees of both terms: sorted keys, and the permutation between them (SPO-Join, Algorithm 2).

A probe's ends are located in the sorted keys by offset arrays: where the sorted keys of one stream lie among those of
the other (Algorithm 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types

from slidejoin.jit.compiling import I32, I64, OUT_I32, OUT_I64, U64, kernel
from slidejoin.papers.pim_tree.kernels.bplus_nodes import NOTHING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LEAF", "OUT", "READING", "find_offsets", "read_first", "read_second", "read_values"]

LEAF, OUT, READING = range(3)
"""How far a tree has been read, (READING,) int64: the leaf to read, `NOTHING` at the end; rows written."""


@kernel(I64, I64, I32, I32, types.int64, I64, types.int64, OUT_I64, OUT_I64, OUT_I32, OUT_I64)
def read_first(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    fan_out: int,
    ordinals: NDArray[np.int64],
    steps: int,
    out_keys: NDArray[np.int64],
    out_ordinals: NDArray[np.int64],
    place_of: NDArray[np.int32],
    state: NDArray[np.int64],
) -> None:
    """Read leaves of the first term's tree, some `steps` rows, lines 1 to 5 of Algorithm 2. O(steps).

    Nodes as in `papers.pim_tree.kernels.bplus_nodes`; a value is the row's number, and ``ordinals[number]`` its
    ordinal. `out_keys`, `out_ordinals` (rows,) int64 take them by ascending key, `place_of` (rows,) int32 the place of
    each number: the paper's tmp. `state` (READING,) int64 is where to go on.
    """
    leaf: Any = state[LEAF]
    at: Any = state[OUT]
    last = at + steps
    while leaf != NOTHING and at < last:
        base = leaf * fan_out
        for place in range(base, base + sizes[U64(leaf)]):
            number = values[U64(place)]
            out_keys[U64(at)], out_ordinals[U64(at)] = keys[U64(place)], ordinals[U64(number)]
            place_of[U64(number)] = at
            at += 1
        leaf = following[U64(leaf)]
    state[LEAF], state[OUT] = leaf, at


@kernel(I64, I64, I32, I32, types.int64, types.int64, OUT_I64, OUT_I32, OUT_I32, OUT_I64)
def read_second(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    fan_out: int,
    steps: int,
    out_keys: NDArray[np.int64],
    place_of: NDArray[np.int32],
    permutation: NDArray[np.int32],
    state: NDArray[np.int64],
) -> None:
    """Read leaves of the second term's tree, some `steps` rows, lines 6 and 7 of Algorithm 2. O(steps).

    `out_keys` (rows,) int64 takes the keys in ascending order, `permutation` (rows,) int32 the place of each row in the
    order of the first term. The others as in `read_first`.
    """
    leaf: Any = state[LEAF]
    at: Any = state[OUT]
    last = at + steps
    while leaf != NOTHING and at < last:
        base = leaf * fan_out
        for place in range(base, base + sizes[U64(leaf)]):
            out_keys[U64(at)] = keys[U64(place)]
            permutation[U64(at)] = place_of[U64(values[U64(place)])]
            at += 1
        leaf = following[U64(leaf)]
    state[LEAF], state[OUT] = leaf, at


@kernel(I64, I64, I32, I32, types.int64, types.int64, OUT_I64, OUT_I64, OUT_I64)
def read_values(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    fan_out: int,
    steps: int,
    out_keys: NDArray[np.int64],
    out_values: NDArray[np.int64],
    state: NDArray[np.int64],
) -> None:
    """Read leaves, some `steps` rows, as they are: keys and values by ascending key, as `read_first`. O(steps)."""
    leaf: Any = state[LEAF]
    at: Any = state[OUT]
    last = at + steps
    while leaf != NOTHING and at < last:
        base = leaf * fan_out
        for place in range(base, base + sizes[U64(leaf)]):
            out_keys[U64(at)], out_values[U64(at)] = keys[U64(place)], values[U64(place)]
            at += 1
        leaf = following[U64(leaf)]
    state[LEAF], state[OUT] = leaf, at


@kernel(I64, types.int64, I64, I32, types.boolean, OUT_I64)
def find_offsets(
    keys: NDArray[np.int64], size: int, bounds: NDArray[np.int64], order: NDArray[np.int32], behind: bool,
    offsets: NDArray[np.int64],
) -> None:  # fmt: skip
    """Find for each bound the first of the sorted keys that is not below it; with `behind`, the first above it.

    keys (size or more,) int64 ascend; bounds (n,) int64 ascend in the `order` (n,) int32. `offsets` (n,) int64 takes
    the places, `size` where there is none. Each search continues where the last one ended, in steps that double, so
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
