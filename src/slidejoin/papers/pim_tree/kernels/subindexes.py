"""Insert-only B+-trees with all nodes in one pool and all leaves in one list (PIM-Tree, 3.2 and 3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, OUT_I64, U64, group, inlined, kernel
from slidejoin.jit.vectors.fields import ARRAY, i64_in, record
from slidejoin.jit.vectors.memory import place_of, prefetch_at
from slidejoin.papers.kernels.in_words import reader
from slidejoin.papers.pim_tree.kernels.css_tree import BATCH, LANES, slot_below

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "FILLING",
    "NODE_POOL",
    "NOTHING",
    "NodePool",
    "find_leaves",
    "insert_ascending",
    "pool_in",
    "pool_of",
    "take_leaves",
]

NOTHING = -1
HIGHEST = 64
"""More levels than any tree has."""

FILLING = np.int64(np.iinfo(np.int64).max)


class NodePool(NamedTuple):
    """The nodes of all trees, and the trees: all arrays are int64.

    Node v has ``sizes[v]`` of at most `fan_out` entries from place ``v * width`` of `keys` and `values`, where `width`
    is whole cache lines; the rest is padded with the largest int64, which is never below a bound. An entry of a leaf is
    a key and an ordinal. An entry of an inner node is the largest key that may be in a child, and the child; the last
    child's key is ignored. Equal keys may be in several leaves; searches find the first and continue by `following`.

    Nodes 0, 1, … are the first leaves of tree 0, 1, …, and stay so: a node that is split keeps its first part. Tree t
    has the root ``roots[t]`` and ``heights[t]`` levels above the leaves. Nodes are allocated one by one and freed all
    together. Two trees, of which tree 0 has split its leaf once::

        node        0       1       2       3                   roots    3 1
        keys        1 2     7 8     4 5     2 .                 heights  1 0
        values      (ordinals of rows)      0 2
        following   2       .       1       .
    """

    keys: NDArray[np.int64]
    values: NDArray[np.int64]
    sizes: NDArray[np.int64]
    following: NDArray[np.int64]
    roots: NDArray[np.int64]
    heights: NDArray[np.int64]
    width: int
    fan_out: int


NODE_POOL = record([*((name, ARRAY) for name in NodePool._fields[:-2]), "width", "fan_out"])
"""The words that kernels take of a pool."""

POOL = group(NodePool, *[OUT_I64] * 6, types.int64, types.int64)

pool_in = reader(NodePool, *[OUT_I64] * 6, types.int64, types.int64)
"""The pool of which there are words."""


@inlined
def pool_of(line: Any) -> Any:  # noqa: ANN401
    """Return the pool of a `NODE_POOL`."""
    return NodePool(
        i64_in(line.keys),
        i64_in(line.values),
        i64_in(line.sizes),
        i64_in(line.following),
        i64_in(line.roots),
        i64_in(line.heights),
        line.width,
        line.fan_out,
    )


@inlined
def _take(pool: Any, free: Any) -> Any:  # noqa: ANN401
    """Return an empty node out of those from ``free[0]`` on."""
    node = free[0]
    free[0] = node + 1
    pool.sizes[U64(node)] = 0
    for at in range(node * pool.width, (node + 1) * pool.width):
        pool.keys[U64(at)] = FILLING
    return node


@inlined
def _split(pool: Any, node: Any, fresh: Any, cut: Any) -> None:  # noqa: ANN401
    """Move a node's entries from its `cut`-th on to an empty one."""
    keys, values, size = pool.keys, pool.values, pool.sizes[U64(node)]
    begin, to = node * pool.width, fresh * pool.width
    for slot in range(cut, size):
        keys[U64(to + slot - cut)], values[U64(to + slot - cut)] = keys[U64(begin + slot)], values[U64(begin + slot)]
        keys[U64(begin + slot)] = FILLING
    pool.sizes[U64(node)], pool.sizes[U64(fresh)] = cut, size - cut


@inlined
def _open(pool: Any, place: Any, past: Any) -> None:  # noqa: ANN401
    """Move the entries in places place…past-1 up by one."""
    keys, values, at = pool.keys, pool.values, past
    while at > place:
        keys[U64(at)], values[U64(at)] = keys[U64(at - 1)], values[U64(at - 1)]
        at -= 1


@inlined
def _hang(
    pool: Any,  # noqa: ANN401
    free: Any,  # noqa: ANN401
    tree: Any,  # noqa: ANN401
    path: Any,  # noqa: ANN401
    slots: Any,  # noqa: ANN401
    largest: Any,  # noqa: ANN401
    child: Any,  # noqa: ANN401
) -> None:
    """Hang a new leaf behind the one that `path` leads to, in which `largest` is the largest key now."""
    keys, values, sizes, width = pool.keys, pool.values, pool.sizes, pool.width
    level = pool.heights[U64(tree)] - 1
    while level >= 0:
        node, slot = path[U64(level)], slots[U64(level)]
        above, up = np.int64(NOTHING), np.int64(0)
        if sizes[U64(node)] == pool.fan_out:
            cut = np.int64(pool.fan_out >> 1)
            above = _take(pool, free)
            _split(pool, node, above, cut)
            up = keys[U64(node * width + cut - 1)]
            keys[U64(node * width + cut - 1)] = FILLING
            if slot >= cut:
                node, slot = above, slot - cut
        at = node * width + slot + 1
        _open(pool, at, node * width + sizes[U64(node)])
        # The former largest key of the split child is that of the new one.
        keys[U64(at)], values[U64(at)] = keys[U64(at - 1)], child
        keys[U64(at - 1)] = largest
        sizes[U64(node)] += 1
        if above == NOTHING:
            return
        largest, child = up, above
        level -= 1
    root = _take(pool, free)
    keys[U64(root * width)], values[U64(root * width)] = largest, pool.roots[U64(tree)]
    values[U64(root * width + 1)], sizes[U64(root)] = child, 2
    pool.roots[U64(tree)] = root
    pool.heights[U64(tree)] += 1


@inlined
def _go_down(pool: Any, tree: Any, key: Any, path: Any, slots: Any) -> Any:  # noqa: ANN401
    """Return the first leaf that a key may be in, and record the path."""
    at, values, width, node = np.int64(place_of(pool.keys)), pool.values, pool.width, pool.roots[U64(tree)]
    for level in range(pool.heights[U64(tree)]):
        slot = slot_below(at + node * width * 8, width // LANES, key)
        path[U64(level)], slots[U64(level)] = node, slot
        node = values[U64(node * width + slot)]
    return node


@inlined
def _prefetch_node(pool: Any, node: Any, whole: Any) -> None:  # noqa: ANN401
    """Prefetch a node's keys and, if `whole`, their values."""
    lines, offset = pool.width // LANES, node * pool.width * 8
    for line in range(lines):
        prefetch_at(np.int64(place_of(pool.keys)) + offset + line * 64)
    if whole:
        for line in range(lines):
            prefetch_at(np.int64(place_of(pool.values)) + offset + line * 64)


@inlined
def _go_down_together(
    pool: Any,  # noqa: ANN401
    bounds: Any,  # noqa: ANN401
    low: Any,  # noqa: ANN401
    routes: Any,  # noqa: ANN401
    offset: Any,  # noqa: ANN401
    count: Any,  # noqa: ANN401
    nodes: Any,  # noqa: ANN401
    levels: Any,  # noqa: ANN401
    whole: Any,  # noqa: ANN401
) -> None:
    """Find the first leaves for bounds low…low+count-1, at most BATCH, and prefetch their keys; `whole`: and ordinals.

    The route of the first one is in place low - offset.
    """
    keys_at, values, width, most = np.int64(place_of(pool.keys)), pool.values, pool.width, np.int64(0)
    for i in range(count):
        tree = routes[U64(low - offset + i)]
        node, height = pool.roots[U64(tree)], pool.heights[U64(tree)]
        nodes[U64(i)], levels[U64(i)] = node, height
        most = max(most, height)
        _prefetch_node(pool, node, whole or height > 0)
    for level in range(most):
        for i in range(count):
            if level < levels[U64(i)]:
                node = nodes[U64(i)]
                slot = slot_below(keys_at + node * width * 8, width // LANES, bounds[U64(low + i)])
                node = values[U64(node * width + slot)]
                nodes[U64(i)] = node
                _prefetch_node(pool, node, whole or level + 1 < levels[U64(i)])


@kernel(I64, OUT_I64, I64, I64, I64, types.int64, types.int64, returns=types.int64)
def insert_ascending(
    words: NDArray[np.int64],
    free: NDArray[np.int64],
    new_keys: NDArray[np.int64],
    new_values: NDArray[np.int64],
    routes: NDArray[np.int64],
    begin: int,
    end: int,
) -> int:
    """Insert rows begin…end-1, best by ascending key, each into the tree that `routes` (n,) int64 names.

    `words` are those of the pool. `free` (2,) int64 holds the first node that is free and the one behind the last.
    Returns the first row for which these might not suffice, else `end`. O(n log(rows)).
    """
    pool = pool_in(words)
    keys, values, sizes, following = pool.keys, pool.values, pool.sizes, pool.following
    width, fan_out, last = pool.width, pool.fan_out, np.int64(NOTHING)
    keys_at = np.int64(place_of(keys))
    nodes: Any = np.empty(BATCH, np.int64)
    levels: Any = np.empty(BATCH, np.int64)
    path: Any = np.empty(HIGHEST, np.int64)
    slots: Any = np.empty(HIGHEST, np.int64)
    for low in range(begin, end, BATCH):
        count: Any = min(np.int64(BATCH), end - low)
        _go_down_together(pool, new_keys, low, routes, 0, count, nodes, levels, whole=True)
        known = True
        for i in range(count):
            row = low + i
            key, tree, leaf = new_keys[U64(row)], routes[U64(row)], nodes[U64(i)]
            if not known:
                leaf = _go_down(pool, tree, key, path, slots)
            place, size, into = slot_below(keys_at + leaf * width * 8, width // LANES, key), sizes[U64(leaf)], leaf
            fresh = np.int64(NOTHING)
            if size == fan_out:
                if free[1] - free[0] < pool.heights[U64(tree)] + 2:
                    return row
                # Rows in ascending or descending order leave full nodes.
                cut = size >> 1
                if leaf == last:
                    cut = size if place == size else np.int64(0) if place == 0 else cut
                fresh = _take(pool, free)
                _split(pool, leaf, fresh, cut)
                following[U64(fresh)], following[U64(leaf)] = following[U64(leaf)], fresh
                if place > cut or cut == size:
                    into, place = fresh, place - cut
            _open(pool, into * width + place, into * width + sizes[U64(into)])
            keys[U64(into * width + place)], values[U64(into * width + place)] = key, new_values[U64(row)]
            sizes[U64(into)] += 1
            last = into
            if fresh != NOTHING:
                _go_down(pool, tree, key, path, slots)
                largest, known = keys[U64(leaf * width + sizes[U64(leaf)] - 1)], False
                _hang(pool, free, tree, path, slots, largest, fresh)
    return end


@kernel(POOL, I64, I64, types.int64, types.int64, OUT_I64, OUT_I64)
def find_leaves(
    pool: NodePool,
    bounds: NDArray[np.int64],
    routes: NDArray[np.int64],
    begin: int,
    end: int,
    leaves: NDArray[np.int64],
    slots: NDArray[np.int64],
) -> None:
    """Find for bounds begin…end-1 the leaf and slot from which on keys are >= the bound, in the tree of their route.

    `routes`, `leaves` and `slots` (end - begin,) int64. A slot may be behind the last: then the next leaf is to be
    looked at. O(n log(rows)).
    """
    width = pool.width
    keys_at, values_at = np.int64(place_of(pool.keys)), np.int64(place_of(pool.values))
    nodes: Any = np.empty(BATCH, np.int64)
    levels: Any = np.empty(BATCH, np.int64)
    for low in range(begin, end, BATCH):
        count: Any = min(np.int64(BATCH), end - low)
        _go_down_together(pool, bounds, low, routes, begin, count, nodes, levels, whole=False)
        for i in range(count):
            leaf = nodes[U64(i)]
            slot = slot_below(keys_at + leaf * width * 8, width // LANES, bounds[U64(low + i)])
            leaves[U64(low - begin + i)], slots[U64(low - begin + i)] = leaf, slot
            prefetch_at(values_at + (leaf * width + slot) * 8)


@kernel(I64, types.int64, types.int64, OUT_I64, OUT_I64, returns=types.UniTuple(types.int64, 2))
def take_leaves(
    words: NDArray[np.int64], leaf: int, rows: int, to_keys: NDArray[np.int64], to_values: NDArray[np.int64]
) -> tuple[int, int]:
    """Take so many rows out of leaves, and the rest of the last leaf; the leaves stay, empty. O(rows + leaves).

    `words` are those of the pool. Returns the leaf behind the last, NOTHING if there is none, and how many rows were
    taken.
    """
    pool = pool_in(words)
    keys, values, width, taken = pool.keys, pool.values, pool.width, 0
    while leaf != NOTHING and taken < rows:
        for at in range(leaf * width, leaf * width + pool.sizes[U64(leaf)]):
            to_keys[U64(taken)], to_values[U64(taken)] = keys[U64(at)], values[U64(at)]
            keys[U64(at)] = FILLING
            taken += 1
        pool.sizes[U64(leaf)] = 0
        leaf = pool.following[U64(leaf)]
    return leaf, taken
