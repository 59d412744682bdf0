"""Insert into a B+-tree and delete from it, one row after the other; see `kernels.bplus_nodes` for nodes.

Rows are looked up in groups, so that the cache misses on their leaves overlap; each is then inserted, or deleted, by
itself, in the leaf that was found. Two rows of a group affect each other only where a leaf is split between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, OUT_I32, OUT_I64, U64, kernel
from slidejoin.jit.vectors.vectors import borrowed
from slidejoin.papers.pim_tree.kernels.bplus_nodes import (
    FREE,
    HEIGHT,
    HIGHEST,
    NOTHING,
    ROOT,
    STATE,
    TOGETHER,
    descend,
    descend_together,
    move_entries,
    place_in_node,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FREE", "HEIGHT", "NOTHING", "ROOT", "STATE", "delete_entries", "insert_entries"]

NODES: Any = (OUT_I64, OUT_I64, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I64, types.int64)
"""Keys, values, children, sizes, following, before, free, state and fan_out."""


@kernel(*NODES, types.int64, types.int64, returns=types.int64)
def _insert_and_split(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    children: NDArray[np.int32],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    before: NDArray[np.int32],
    free: NDArray[np.int32],
    state: NDArray[np.int64],
    fan_out: int,
    key: int,
    value: int,
) -> int:
    """Insert a row whose leaf is full; return the leaf that was split off, which follows that one.

    Full nodes are split in halves, but for the last ones of the tree: an entry behind all others begins a new node, so
    that ascending keys leave full nodes behind.
    """
    path: Any = np.empty(HIGHEST, np.int64)
    node = descend(keys, values, children, sizes, state, fan_out, key, value, path)
    level, child, split = state[HEIGHT], np.int64(NOTHING), np.int64(NOTHING)
    at_end = following[U64(node)] == NOTHING
    while True:
        base, size, fresh = node * fan_out, np.int64(sizes[U64(node)]), np.int64(NOTHING)
        first = np.int64(0) if child == NOTHING else np.int64(1)
        place = place_in_node(keys, values, base, size, key, value, first)
        into = node
        if size == fan_out:
            state[FREE] -= 1
            fresh = np.int64(free[U64(state[FREE])])
            half = size if at_end and place == size else size >> 1
            for column in (keys, values):
                move_entries(column, base + half, base + size, fresh * fan_out)
            move_entries(children, base + half, base + size, fresh * fan_out)
            sizes[U64(node)], sizes[U64(fresh)] = half, size - half
            if child == NOTHING:
                split, behind = fresh, np.int64(following[U64(node)])
                following[U64(node)], before[U64(fresh)], following[U64(fresh)] = fresh, node, behind
                if behind != NOTHING:
                    before[U64(behind)] = fresh
            # An entry between the halves stays in the first, so that the second keeps its first entry.
            if place > half or half == size:
                into, place = fresh, place - half
        base, size = into * fan_out, np.int64(sizes[U64(into)])
        for column in (keys, values):
            move_entries(column, base + place, base + size, base + place + 1)
        move_entries(children, base + place, base + size, base + place + 1)
        keys[U64(base + place)], values[U64(base + place)], children[U64(base + place)] = key, value, child
        sizes[U64(into)] += 1
        if fresh == NOTHING:
            return split  # type: ignore[return-value]
        key, value, child = keys[U64(fresh * fan_out)], values[U64(fresh * fan_out)], fresh
        level -= 1
        if level < 0:
            state[FREE] -= 1
            root = np.int64(free[U64(state[FREE])])
            children[U64(root * fan_out)], sizes[U64(root)] = node, 1
            state[ROOT], state[HEIGHT] = root, state[HEIGHT] + 1
            node, level = root, np.int64(0)
        else:
            node = path[U64(level)]


@kernel(*NODES, I64, I64, types.int64, returns=types.int64)
def insert_entries(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    children: NDArray[np.int32],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    before: NDArray[np.int32],
    free: NDArray[np.int32],
    state: NDArray[np.int64],
    fan_out: int,
    new_keys: NDArray[np.int64],
    new_values: NDArray[np.int64],
    start: int,
) -> int:
    """Insert the rows from `start` on. Returns the first for which free nodes might not suffice, or the number of rows.

    ``following[v]`` and ``before[v]``, int32, are the leaves beside leaf v. O(n log(rows)).
    """
    own, ordinals, links, counts = borrowed(keys), borrowed(values), borrowed(children), borrowed(sizes)
    its, more, more_values = borrowed(state), borrowed(new_keys), borrowed(new_values)
    memory: Any = np.empty(TOGETHER, np.int64)
    leaves, n, first = borrowed(memory), new_keys.size, start
    while first < n:
        together = min(TOGETHER, n - first)
        descend_together(own, ordinals, links, counts, its, fan_out, more, more_values, first, first, together, leaves)
        for j in range(together):
            leaf, key, value = leaves[U64(j)], more[U64(first + j)], more_values[U64(first + j)]
            base, size = leaf * fan_out, np.int64(counts[U64(leaf)])
            if size < fan_out:
                place = place_in_node(own, ordinals, base, size, key, value, np.int64(0))
                move_entries(own, base + place, base + size, base + place + 1)
                move_entries(ordinals, base + place, base + size, base + place + 1)
                own[U64(base + place)], ordinals[U64(base + place)] = key, value
                counts[U64(leaf)] = size + 1
                continue
            if its[FREE] < its[HEIGHT] + 2:
                return first + j
            fresh = _insert_and_split(
                keys, values, children, sizes, following, before, free, state, fan_out, key, value
            )
            low, low_value = own[U64(fresh * fan_out)], ordinals[U64(fresh * fan_out)]
            for k in range(j + 1, together):
                other, other_value = more[U64(first + k)], more_values[U64(first + k)]
                if leaves[U64(k)] == leaf and (other > low or (other == low and other_value > low_value)):
                    leaves[U64(k)] = fresh
        first += together
    memory[0] = n  # `borrowed` does not keep it: it has to be used after everything that reads or writes it
    return n


@kernel(*NODES, types.int64, types.int64)
def _delete_and_free(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    children: NDArray[np.int32],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    before: NDArray[np.int32],
    free: NDArray[np.int32],
    state: NDArray[np.int64],
    fan_out: int,
    key: int,
    value: int,
) -> None:
    """Delete the only row of a leaf that is not the root, and free the nodes that become empty."""
    path: Any = np.empty(HIGHEST, np.int64)
    node = descend(keys, values, children, sizes, state, fan_out, key, value, path)
    ahead, behind = np.int64(before[U64(node)]), np.int64(following[U64(node)])
    if ahead != NOTHING:
        following[U64(ahead)] = behind
    if behind != NOTHING:
        before[U64(behind)] = ahead
    level = state[HEIGHT]
    while True:
        free[U64(state[FREE])] = node
        state[FREE] += 1
        level -= 1
        node = path[U64(level)]
        base, size = node * fan_out, np.int64(sizes[U64(node)])
        place = place_in_node(keys, values, base, size, key, value, np.int64(1)) - 1
        for column in (keys, values):
            move_entries(column, base + place + 1, base + size, base + place)
        move_entries(children, base + place + 1, base + size, base + place)
        sizes[U64(node)] -= 1
        if size > 1:
            break
    while state[HEIGHT] > 0 and sizes[U64(state[ROOT])] == 1:
        free[U64(state[FREE])] = state[ROOT]
        state[FREE] += 1
        state[ROOT] = children[U64(state[ROOT] * fan_out)]
        state[HEIGHT] -= 1


@kernel(*NODES, I64, I64)
def delete_entries(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    children: NDArray[np.int32],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    before: NDArray[np.int32],
    free: NDArray[np.int32],
    state: NDArray[np.int64],
    fan_out: int,
    old_keys: NDArray[np.int64],
    old_values: NDArray[np.int64],
) -> None:
    """Delete existing rows; empty nodes are freed. The other arguments as in `insert_entries`.

    O(n log(rows)).
    """
    own, ordinals, links, counts = borrowed(keys), borrowed(values), borrowed(children), borrowed(sizes)
    its, gone, gone_values = borrowed(state), borrowed(old_keys), borrowed(old_values)
    memory: Any = np.empty(TOGETHER, np.int64)
    leaves, n = borrowed(memory), old_keys.size
    for first in range(0, n, TOGETHER):
        together = min(TOGETHER, n - first)
        descend_together(own, ordinals, links, counts, its, fan_out, gone, gone_values, first, first, together, leaves)
        for j in range(together):
            leaf, key, value = leaves[U64(j)], gone[U64(first + j)], gone_values[U64(first + j)]
            base, size = leaf * fan_out, np.int64(counts[U64(leaf)])
            if size == 1 and its[HEIGHT] > 0:
                _delete_and_free(keys, values, children, sizes, following, before, free, state, fan_out, key, value)
                continue
            place = place_in_node(own, ordinals, base, size, key, value, np.int64(0)) - 1
            move_entries(own, base + place + 1, base + size, base + place)
            move_entries(ordinals, base + place + 1, base + size, base + place)
            counts[U64(leaf)] = size - 1
    memory[0] = n  # kept until here, see `insert_entries`
