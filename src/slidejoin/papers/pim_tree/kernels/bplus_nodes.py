"""The nodes of a B+-tree in arrays, and the descent to a leaf (PIM-Tree, section 2.2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import OUT_I32, OUT_I64, U64, inlined, prefetch
from slidejoin.jit.vectors.vectors import count_ones
from slidejoin.papers.kernels.in_words import reader
from slidejoin.papers.kernels.key_lanes import KEY_LANES, keys_below

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "FREE",
    "HEIGHT",
    "HIGHEST",
    "NOTHING",
    "ROOT",
    "STATE",
    "TOGETHER",
    "Nodes",
    "descend",
    "descend_together",
    "move_entries",
    "nodes_in",
    "place_in_node",
]

ROOT, HEIGHT, FREE, STATE = range(4)
"""Places in a tree's state, int64 (STATE,): the root; levels of inner nodes above the leaves; how many nodes are free,
by the beginning of the array of their numbers."""

NOTHING = -1
HIGHEST = 64
"""More levels than any tree has."""

TOGETHER = 16
"""Rows whose leaves are looked up together, so that the cache misses on nodes overlap."""

KEYS_A_LINE = 8


class Nodes(NamedTuple):
    """All nodes of a tree.

    Node v has ``sizes[v]`` entries from place ``v * fan_out`` of `keys`, `values` and `children`. An entry of a leaf is
    a row's key and ordinal, in ascending order of both, which makes equal keys distinct; its child is ignored. An entry
    of an inner node is a child and the smallest entry that may be in it, which is ignored for the first child. The last
    node is followed by `KEY_LANES` spare places, since so many entries are compared at once. Leaves are linked both
    ways by `following` and `before`; `free` are the numbers of free nodes, and `state` is (STATE,).

    A tree of fan-out 4 with the keys 1 to 6 in leaves 0 and 2 below root 1::

        place     0  1  2  3 | 4  5  6  7 | 8  9 10 11
        keys      1  2  3  . | .  4  .  . | 4  5  6  .
        children  .  .  .  . | 0  2  .  . | .  .  .  .
        sizes     3            2            3
    """

    keys: NDArray[np.int64]
    values: NDArray[np.int64]
    children: NDArray[np.int32]
    sizes: NDArray[np.int32]
    following: NDArray[np.int32]
    before: NDArray[np.int32]
    free: NDArray[np.int32]
    state: NDArray[np.int64]
    fan_out: int


nodes_in = reader(Nodes, *[OUT_I64] * 2, *[OUT_I32] * 5, OUT_I64, types.int64)
"""The nodes of a tree of which there are words."""


@inlined
def place_in_node(nodes: Any, base: Any, size: Any, key: Any, value: Any, first: Any) -> Any:  # noqa: ANN401
    """Return how many entries of a node are not larger than that key and ordinal; the first `first` are ignored.

    `first` is 1 for inner nodes and 0 for leaves. O(fan_out / KEY_LANES), and O(log(fan_out)) more for equal keys.
    """
    keys, values = nodes.keys, nodes.values
    within = (np.int64(1) << min(size, np.int64(KEY_LANES))) - np.int64(1)
    place = count_ones((keys_below(keys, base, key) | first) & within)
    at = np.int64(KEY_LANES)
    while place == at and at < size:
        within = (np.int64(1) << min(size - at, np.int64(KEY_LANES))) - np.int64(1)
        place += count_ones(keys_below(keys, base + at, key) & within)
        at += KEY_LANES
    if place < size and keys[U64(base + place)] == key:
        last = size
        while place < last:
            middle = (place + last) >> 1
            if keys[U64(base + middle)] == key and values[U64(base + middle)] <= value:
                place = middle + 1
            else:
                last = middle
    return place


@inlined
def _child(nodes: Any, node: Any, key: Any, value: Any) -> Any:  # noqa: ANN401
    """Return the child of an inner node that an entry belongs to."""
    base, size = node * nodes.fan_out, np.int64(nodes.sizes[U64(node)])
    slot = place_in_node(nodes, base, size, key, value, np.int64(1)) - 1
    return np.int64(nodes.children[U64(base + slot)])


@inlined
def descend(nodes: Any, key: Any, value: Any, path: Any) -> Any:  # noqa: ANN401
    """Return the leaf for an entry; `path` takes the nodes of the descent, (HIGHEST,) int64."""
    node = nodes.state[ROOT]
    for level in range(nodes.state[HEIGHT]):
        path[U64(level)] = node
        node = _child(nodes, node, key, value)
    return node


@inlined
def descend_together(
    nodes: Any,  # noqa: ANN401
    keys: Any,  # noqa: ANN401
    values: Any,  # noqa: ANN401
    first_key: Any,  # noqa: ANN401
    first_value: Any,  # noqa: ANN401
    count: Any,  # noqa: ANN401
    leaves: Any,  # noqa: ANN401
) -> None:
    """Find the leaves for so many entries, whose keys and values begin at those places, level by level.

    The nodes of the next level are prefetched while the others descend; at the end, the leaves' keys and ordinals.
    """
    height, fan_out = nodes.state[HEIGHT], nodes.fan_out
    for j in range(count):
        leaves[U64(j)] = nodes.state[ROOT]
    for level in range(height):
        last = level == height - 1
        for j in range(count):
            child = _child(nodes, leaves[U64(j)], keys[U64(first_key + j)], values[U64(first_value + j)])
            leaves[U64(j)] = child
            prefetch(nodes.sizes, child)
            for line in range(0, fan_out, KEYS_A_LINE):
                prefetch(nodes.keys, child * fan_out + line)
                if last:
                    prefetch(nodes.values, child * fan_out + line)
                else:
                    prefetch(nodes.children, child * fan_out + line)


@inlined
def move_entries(column: Any, begin: Any, end: Any, to: Any) -> None:  # noqa: ANN401
    """Move what is in places begin…end-1 of a column to the places from `to` on, which may overlap."""
    if to > begin:
        for step in range(end - begin):
            column[U64(to + (end - begin - 1 - step))] = column[U64(end - 1 - step)]
    else:
        for step in range(end - begin):
            column[U64(to + step)] = column[U64(begin + step)]
