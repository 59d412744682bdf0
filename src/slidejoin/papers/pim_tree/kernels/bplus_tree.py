"""Insert into a B+-tree and delete from it, one row after the other; see `kernels.bplus_nodes` for nodes.

Rows are looked up in groups, so that the cache misses on their leaves overlap; each is then inserted, or deleted, by
itself, in its leaf. Two rows of a group affect each other only where a leaf is split between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, U64, inlined, kernel
from slidejoin.jit.vectors.vectors import borrowed
from slidejoin.papers.pim_tree.kernels.bplus_nodes import (
    FREE,
    HEIGHT,
    HIGHEST,
    NOTHING,
    ROOT,
    TOGETHER,
    descend,
    descend_together,
    move_entries,
    nodes_in,
    place_in_node,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["delete_entries", "insert_entries"]


@inlined
def _move_rows(nodes: Any, begin: Any, end: Any, to: Any) -> None:  # noqa: ANN401
    """Move entries of a leaf."""
    move_entries(nodes.keys, begin, end, to)
    move_entries(nodes.values, begin, end, to)


@inlined
def _move_all(nodes: Any, begin: Any, end: Any, to: Any) -> None:  # noqa: ANN401
    """Move entries of any node."""
    _move_rows(nodes, begin, end, to)
    move_entries(nodes.children, begin, end, to)


@inlined
def _take_free(nodes: Any) -> Any:  # noqa: ANN401
    """Return a free node, which is none from here on."""
    nodes.state[FREE] -= 1
    return np.int64(nodes.free[U64(nodes.state[FREE])])


@inlined
def _give_back(nodes: Any, node: Any) -> None:  # noqa: ANN401
    """Free a node."""
    nodes.free[U64(nodes.state[FREE])] = node
    nodes.state[FREE] += 1


@kernel(I64, types.int64, types.int64, returns=types.int64)
def _insert_and_split(tree: NDArray[np.int64], key: int, value: int) -> int:
    """Insert a row whose leaf is full; return the leaf that was split off, which follows that one.

    Full nodes are cut in the middle, but for the last ones of the tree: an entry behind all others begins a new node,
    so that ascending keys leave full nodes behind.
    """
    path: Any = np.empty(HIGHEST, np.int64)
    nodes = nodes_in(tree)
    fan_out, sizes, state = nodes.fan_out, nodes.sizes, nodes.state
    node = descend(nodes, key, value, path)
    level, child, split = state[HEIGHT], np.int64(NOTHING), np.int64(NOTHING)
    at_end = nodes.following[U64(node)] == NOTHING
    while True:
        base, size, fresh = node * fan_out, np.int64(sizes[U64(node)]), np.int64(NOTHING)
        first = np.int64(0) if child == NOTHING else np.int64(1)
        place = place_in_node(nodes, base, size, key, value, first)
        into = node
        if size == fan_out:
            fresh = _take_free(nodes)
            cut = size if at_end and place == size else size >> 1
            _move_all(nodes, base + cut, base + size, fresh * fan_out)
            sizes[U64(node)], sizes[U64(fresh)] = cut, size - cut
            if child == NOTHING:
                split, behind = fresh, np.int64(nodes.following[U64(node)])
                nodes.following[U64(node)], nodes.before[U64(fresh)], nodes.following[U64(fresh)] = fresh, node, behind
                if behind != NOTHING:
                    nodes.before[U64(behind)] = fresh
            # An entry at the cut stays in the first part, so that the second keeps its first entry.
            if place > cut or cut == size:
                into, place = fresh, place - cut
        base, size = into * fan_out, np.int64(sizes[U64(into)])
        at = base + place
        _move_all(nodes, at, base + size, at + 1)
        nodes.keys[U64(at)], nodes.values[U64(at)], nodes.children[U64(at)] = key, value, child
        sizes[U64(into)] += 1
        if fresh == NOTHING:
            return split  # type: ignore[return-value]
        key, value, child = nodes.keys[U64(fresh * fan_out)], nodes.values[U64(fresh * fan_out)], fresh
        level -= 1
        if level < 0:
            root = _take_free(nodes)
            nodes.children[U64(root * fan_out)], sizes[U64(root)] = node, 1
            state[ROOT], state[HEIGHT] = root, state[HEIGHT] + 1
            node, level = root, np.int64(0)
        else:
            node = path[U64(level)]


@kernel(I64, I64, I64, types.int64, returns=types.int64)
def insert_entries(
    tree: NDArray[np.int64], new_keys: NDArray[np.int64], new_values: NDArray[np.int64], start: int
) -> int:
    """Insert the rows from `start` on. Returns the first for which free nodes might not suffice, or the number of rows.

    `tree` are the words of its nodes. O(n log(rows)).
    """
    own, more, more_values = nodes_in(tree), borrowed(new_keys), borrowed(new_values)
    memory: Any = np.empty(TOGETHER, np.int64)
    leaves, n, first, fan_out = borrowed(memory), new_keys.size, start, own.fan_out
    while first < n:
        together = min(TOGETHER, n - first)
        descend_together(own, more, more_values, first, first, together, leaves)
        for j in range(together):
            leaf, key, value = leaves[U64(j)], more[U64(first + j)], more_values[U64(first + j)]
            base, size = leaf * fan_out, np.int64(own.sizes[U64(leaf)])
            if size < fan_out:
                at = base + place_in_node(own, base, size, key, value, np.int64(0))
                _move_rows(own, at, base + size, at + 1)
                own.keys[U64(at)], own.values[U64(at)] = key, value
                own.sizes[U64(leaf)] = size + 1
                continue
            if own.state[FREE] < own.state[HEIGHT] + 2:
                return first + j
            fresh = _insert_and_split(tree, key, value)
            low, low_value = own.keys[U64(fresh * fan_out)], own.values[U64(fresh * fan_out)]
            for k in range(j + 1, together):
                other, other_value = more[U64(first + k)], more_values[U64(first + k)]
                if leaves[U64(k)] == leaf and (other > low or (other == low and other_value > low_value)):
                    leaves[U64(k)] = fresh
        first += together
    memory[0] = n  # `borrowed` does not hold it: it has to be used after everything that reads or writes it
    return n


@kernel(I64, types.int64, types.int64)
def _delete_and_free(tree: NDArray[np.int64], key: int, value: int) -> None:
    """Delete the only row of a leaf that is not the root, and free the nodes that become empty."""
    path: Any = np.empty(HIGHEST, np.int64)
    nodes = nodes_in(tree)
    fan_out, sizes, state = nodes.fan_out, nodes.sizes, nodes.state
    node = descend(nodes, key, value, path)
    ahead, behind = np.int64(nodes.before[U64(node)]), np.int64(nodes.following[U64(node)])
    if ahead != NOTHING:
        nodes.following[U64(ahead)] = behind
    if behind != NOTHING:
        nodes.before[U64(behind)] = ahead
    level = state[HEIGHT]
    while True:
        _give_back(nodes, node)
        level -= 1
        node = path[U64(level)]
        base, size = node * fan_out, np.int64(sizes[U64(node)])
        at = base + place_in_node(nodes, base, size, key, value, np.int64(1)) - 1
        _move_all(nodes, at + 1, base + size, at)
        sizes[U64(node)] -= 1
        if size > 1:
            break
    while state[HEIGHT] > 0 and sizes[U64(state[ROOT])] == 1:
        _give_back(nodes, state[ROOT])
        state[ROOT] = nodes.children[U64(state[ROOT] * fan_out)]
        state[HEIGHT] -= 1


@kernel(I64, I64, I64)
def delete_entries(tree: NDArray[np.int64], old_keys: NDArray[np.int64], old_values: NDArray[np.int64]) -> None:
    """Delete existing rows; empty nodes are freed. O(n log(rows))."""
    own, gone, gone_values = nodes_in(tree), borrowed(old_keys), borrowed(old_values)
    memory: Any = np.empty(TOGETHER, np.int64)
    leaves, n = borrowed(memory), old_keys.size
    for first in range(0, n, TOGETHER):
        together = min(TOGETHER, n - first)
        descend_together(own, gone, gone_values, first, first, together, leaves)
        for j in range(together):
            leaf, key, value = leaves[U64(j)], gone[U64(first + j)], gone_values[U64(first + j)]
            base, size = leaf * own.fan_out, np.int64(own.sizes[U64(leaf)])
            if size == 1 and own.state[HEIGHT] > 0:
                _delete_and_free(tree, key, value)
                continue
            at = base + place_in_node(own, base, size, key, value, np.int64(0)) - 1
            _move_rows(own, at + 1, base + size, at)
            own.sizes[U64(leaf)] = size - 1
    memory[0] = n  # used until here, see `insert_entries`
