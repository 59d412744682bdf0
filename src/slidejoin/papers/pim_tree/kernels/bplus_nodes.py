"""The nodes of a B+-tree in arrays, and the descent to a leaf (PIM-Tree, section 2.2.1).

Node v has ``sizes[v]`` entries from place ``v * fan_out`` of `keys`, `values` and `children`. An entry of a leaf is a
row's key and ordinal, in ascending order of both, which makes equal keys distinct; its child is ignored. An entry of an
inner node is a child and the smallest entry that may be in it, which is ignored for the first child. The last node is
followed by `KEY_LANES` spare places, since so many entries are compared at once. Leaves are linked both ways by
`following` and `before`. All arrays that kernels take have been through `vectors.borrowed`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slidejoin.jit.compiling import U64, inlined, prefetch
from slidejoin.jit.vectors.vectors import count_ones
from slidejoin.papers.kernels.key_lanes import KEY_LANES, keys_below

__all__ = [
    "FREE",
    "HEIGHT",
    "HIGHEST",
    "NOTHING",
    "ROOT",
    "STATE",
    "TOGETHER",
    "descend",
    "descend_together",
    "move_entries",
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


@inlined
def place_in_node(
    keys: Any,  # noqa: ANN401
    values: Any,  # noqa: ANN401
    base: Any,  # noqa: ANN401
    size: Any,  # noqa: ANN401
    key: Any,  # noqa: ANN401
    value: Any,  # noqa: ANN401
    first: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Return how many entries of a node are not larger than that key and ordinal; the first `first` are ignored.

    `first` is 1 for inner nodes and 0 for leaves. O(fan_out / KEY_LANES), and O(log(fan_out)) more for equal keys.
    """
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
def descend(
    keys: Any,  # noqa: ANN401
    values: Any,  # noqa: ANN401
    children: Any,  # noqa: ANN401
    sizes: Any,  # noqa: ANN401
    state: Any,  # noqa: ANN401
    fan_out: Any,  # noqa: ANN401
    key: Any,  # noqa: ANN401
    value: Any,  # noqa: ANN401
    path: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Return the leaf for an entry; `path` takes the nodes of the descent, (HIGHEST,) int64."""
    node = state[ROOT]
    for level in range(state[HEIGHT]):
        path[U64(level)] = node
        base, size = node * fan_out, np.int64(sizes[U64(node)])
        slot = place_in_node(keys, values, base, size, key, value, np.int64(1)) - 1
        node = np.int64(children[U64(base + slot)])
    return node


@inlined
def descend_together(
    keys: Any,  # noqa: ANN401
    values: Any,  # noqa: ANN401
    children: Any,  # noqa: ANN401
    sizes: Any,  # noqa: ANN401
    state: Any,  # noqa: ANN401
    fan_out: Any,  # noqa: ANN401
    sought_keys: Any,  # noqa: ANN401
    sought_values: Any,  # noqa: ANN401
    first_key: Any,  # noqa: ANN401
    first_value: Any,  # noqa: ANN401
    count: Any,  # noqa: ANN401
    leaves: Any,  # noqa: ANN401
) -> None:
    """Find the leaves for so many entries, which begin at those places, level by level.

    The nodes of the next level are prefetched while the others descend; at the end, the leaves' keys and ordinals.
    """
    for j in range(count):
        leaves[U64(j)] = state[ROOT]
    for level in range(state[HEIGHT]):
        last = level == state[HEIGHT] - 1
        for j in range(count):
            node = leaves[U64(j)]
            key, value = sought_keys[U64(first_key + j)], sought_values[U64(first_value + j)]
            base, size = node * fan_out, np.int64(sizes[U64(node)])
            slot = place_in_node(keys, values, base, size, key, value, np.int64(1)) - 1
            child = np.int64(children[U64(base + slot)])
            leaves[U64(j)] = child
            prefetch(sizes, child)
            for line in range(0, fan_out, KEYS_A_LINE):
                prefetch(keys, child * fan_out + line)
                if last:
                    prefetch(values, child * fan_out + line)
                else:
                    prefetch(children, child * fan_out + line)


@inlined
def move_entries(
    column: Any,  # noqa: ANN401
    begin: Any,  # noqa: ANN401
    end: Any,  # noqa: ANN401
    to: Any,  # noqa: ANN401
) -> None:
    """Move what is in places begin…end-1 of a column to the places from `to` on, which may overlap."""
    if to > begin:
        for step in range(end - begin):
            column[U64(to + (end - begin - 1 - step))] = column[U64(end - 1 - step)]
    else:
        for step in range(end - begin):
            column[U64(to + step)] = column[U64(begin + step)]
