"""Merging the B+-trees of both terms: sorted keys, and the permutation between them (SPO-Join, Algorithm 2).

A probe's ends are located in the sorted keys by offset arrays: where the sorted keys of one stream lie among those of
the other (Algorithm 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I32, I64, OUT_I32, OUT_I64, U64, inlined, kernel
from slidejoin.papers.pim_tree.kernels.bplus_nodes import NOTHING, nodes_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["LEAF", "OUT", "READING", "find_offsets", "read_first", "read_second", "read_values"]

LEAF, OUT, READING = range(3)
"""How far a tree has been read, (READING,) int64: the leaf to read, `NOTHING` at the end; rows written."""


def _make_reader(write: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop over leaves, some `steps` rows: ``write(into, at, key, value)`` takes each."""

    @inlined
    def read(tree: Any, steps: Any, state: Any, into: Any) -> None:  # noqa: ANN401
        nodes, leaf, at = nodes_in(tree), state[LEAF], state[OUT]
        last = at + steps
        while leaf != NOTHING and at < last:
            base = leaf * nodes.fan_out
            for place in range(base, base + nodes.sizes[U64(leaf)]):
                write(into, at, nodes.keys[U64(place)], nodes.values[U64(place)])
                at += 1
            leaf = np.int64(nodes.following[U64(leaf)])
        state[LEAF], state[OUT] = leaf, at

    return read


@inlined
def _place_first(into: Any, at: Any, key: Any, number: Any) -> None:  # noqa: ANN401
    keys, ordinals, place_of, by_number = into
    keys[U64(at)], ordinals[U64(at)] = key, by_number[U64(number)]
    place_of[U64(number)] = at


@inlined
def _place_second(into: Any, at: Any, key: Any, number: Any) -> None:  # noqa: ANN401
    keys, permutation, place_of = into
    keys[U64(at)], permutation[U64(at)] = key, place_of[U64(number)]


@inlined
def _place_value(into: Any, at: Any, key: Any, value: Any) -> None:  # noqa: ANN401
    keys, values = into
    keys[U64(at)], values[U64(at)] = key, value


_read_first, _read_second, _read_values = (_make_reader(one) for one in (_place_first, _place_second, _place_value))


@kernel(I64, types.int64, OUT_I64, I64, OUT_I64, OUT_I64, OUT_I32)
def read_first(
    tree: NDArray[np.int64],
    steps: int,
    state: NDArray[np.int64],
    by_number: NDArray[np.int64],
    keys: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    place_of: NDArray[np.int32],
) -> None:
    """Read leaves of the first term's tree, some `steps` rows, lines 1 to 5 of Algorithm 2. O(steps).

    `tree` are the words of its nodes; a value is the row's number, and ``by_number[number]`` its ordinal. `keys` and
    `ordinals` (rows,) int64 take them by ascending key, `place_of` (rows,) int32 the place of each number: the paper's
    tmp. `state` (READING,) int64 is where to continue.
    """
    _read_first(tree, steps, state, (keys, ordinals, place_of, by_number))


@kernel(I64, types.int64, OUT_I64, OUT_I64, OUT_I32, I32)
def read_second(
    tree: NDArray[np.int64],
    steps: int,
    state: NDArray[np.int64],
    keys: NDArray[np.int64],
    permutation: NDArray[np.int32],
    place_of: NDArray[np.int32],
) -> None:
    """Read leaves of the second term's tree, some `steps` rows, lines 6 and 7 of Algorithm 2. O(steps).

    `keys` (rows,) int64 takes the keys in ascending order, `permutation` (rows,) int32 the place of each row in the
    order of the first term. The others as in `read_first`.
    """
    _read_second(tree, steps, state, (keys, permutation, place_of))


@kernel(I64, types.int64, OUT_I64, OUT_I64, OUT_I64)
def read_values(
    tree: NDArray[np.int64], steps: int, state: NDArray[np.int64], keys: NDArray[np.int64], values: NDArray[np.int64]
) -> None:
    """Read leaves, some `steps` rows, as they are: keys and values by ascending key, as `read_first`. O(steps)."""
    _read_values(tree, steps, state, (keys, values))


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
