"""Wide B+-tree: small sorted inner nodes over wide unsorted leaves, which are divided at a split (PanJoin, III-C).

Leaves are partitions of a linked list adaptive table (`slidejoin.papers.panjoin.kernels.llat`) of a width. A leaf of
more rows than its width has one key alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, U64, inlined, kernel, prefetch
from slidejoin.jit.vectors.vectors import borrowed, count_ones
from slidejoin.papers.kernels.in_words import reader
from slidejoin.papers.kernels.key_lanes import KEY_LANES, keys_below
from slidejoin.papers.panjoin.kernels.llat import BLOCK, NOTHING, PTR_G, WORD, lanes_between, put_row, table_in
from slidejoin.papers.panjoin.kernels.rap_table import OUT_I32_2D

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HEIGHT", "LEAVES", "NODES", "ROOT", "InnerNodes", "find_leaves", "insert_rows"]

ROOT, HEIGHT, NODES, LEAVES = range(PTR_G + 1, PTR_G + 5)
"""Further places of the table's state: the root (a leaf while the height is 0), levels of inner nodes, and how many of
these and of leaves there are."""

AHEAD = 8
"""Prefetch distance, in rows, of the place that a row is written to."""

HIGHEST = 64
LEAST, MOST = -(1 << 63), (1 << 63) - 1

SAMPLE = 64
"""Approximate number of rows of a leaf that are tried as borders of a split."""


class InnerNodes(NamedTuple):
    """The inner nodes of a tree.

    Node v has ``sizes[v]`` entries from place ``v * fan_out`` of `keys` int64 and `children` int32: a child and the
    smallest key that may be in it, which is ignored for the first child. The last node is followed by `KEY_LANES` spare
    places, since so many keys are compared at once. `state` is the table's.
    """

    keys: NDArray[np.int64]
    children: NDArray[np.int32]
    sizes: NDArray[np.int32]
    state: NDArray[np.int64]
    fan_out: int


_nodes_in = reader(InnerNodes, OUT_I64, OUT_I32, OUT_I32, OUT_I64, types.int64)


class Descent(NamedTuple):
    """Nodes from the root down to a leaf, and the smallest and largest keys that may be in each, (HIGHEST,) int64."""

    path: NDArray[np.int64]
    least: NDArray[np.int64]
    most: NDArray[np.int64]


@inlined
def _place(node_keys: Any, base: Any, size: Any, key: Any) -> Any:  # noqa: ANN401
    """Return the last of a node's entries, but for the first, that is no larger than a key, else the first."""
    place = np.int64(0)
    for at in range(0, size, KEY_LANES):
        within = (np.int64(1) << min(size - at, np.int64(KEY_LANES))) - np.int64(1)
        # The first entry is ignored, and nothing is larger than MOST.
        smaller = (keys_below(node_keys, base + at, key + 1) | np.int64(at == 0)) if key < MOST else within
        place += count_ones(smaller & within)
    return place - 1


@inlined
def _leaf_of(nodes: Any, key: Any, level: Any, descent: Any) -> Any:  # noqa: ANN401
    """Return the leaf for a key, from the descent of the key before: up as far as needed, then down (III-E).

    It has the nodes down to that `level`.
    """
    node_keys, children, fan_out, height = nodes.keys, nodes.children, nodes.fan_out, nodes.state[HEIGHT]
    path, least, most = descent
    while level > 0 and (key < least[U64(level)] or key > most[U64(level)]):
        level -= 1
    while level < height:
        node = path[U64(level)]
        base, size = node * fan_out, np.int64(nodes.sizes[U64(node)])
        slot = _place(node_keys, base, size, key)
        path[U64(level + 1)] = np.int64(children[U64(base + slot)])
        if level + 1 < height:
            # Keys ascend: the node to the right of this one is next.
            right = np.int64(children[U64(base + min(slot + 1, size - 1))]) * fan_out
            for line in range(0, fan_out, BLOCK):
                prefetch(node_keys, right + line)
            for line in range(0, fan_out, 2 * BLOCK):
                prefetch(children, right + line)
        least[U64(level + 1)] = node_keys[U64(base + slot)] if slot > 0 else least[U64(level)]
        most[U64(level + 1)] = node_keys[U64(base + slot + 1)] - 1 if slot + 1 < size else most[U64(level)]
        level += 1
    return path[U64(height)]


@inlined
def _below(line: Any, rows: Any, key: Any) -> Any:  # noqa: ANN401
    """Return how many of the rows whose keys begin at the address `line` have a smaller key."""
    total = np.int64(0)
    if key > LEAST:
        for at in range(0, rows, WORD):
            smaller = np.int64(0)
            for j in range(at, min(at + WORD, rows), BLOCK):
                smaller |= lanes_between(line + (j << 3), LEAST, key - 1) << (j - at)
            total += count_ones(smaller)
    return total


@inlined
def _border(keys: Any, base: Any, rows: Any) -> Any:  # noqa: ANN401
    """Return the key from which on rows, of several keys, go to the right: half of them, as nearly as it can be.

    Of the rows' keys, or a sample of `SAMPLE`, the one that divides them most evenly. A key stays with its duplicates,
    so there may be none in the middle.
    """
    line = np.int64(keys.ctypes.data) + (base << 3)
    border, best = keys[U64(base)], rows
    for at in range(0, rows, max(1, rows // SAMPLE)):
        key = keys[U64(base + at)]
        left = _below(line, rows, key)
        # The smallest key cannot go to the right: the border is behind it.
        if left == 0:
            key += 1
            left = _below(line, rows, key)
        off = abs(left + left - rows)
        border, best = (key, off) if off < best else (border, best)
    return border


@inlined
def _divide(keys: Any, ordinals: Any, base: Any, rows: Any, to: Any, border: Any) -> Any:  # noqa: ANN401
    """Move rows with keys from `border` on behind each other to the places `to` and on; return how many stay.

    The others are compacted. Every row is written to both sides, and counted on one: there is no branch on a key.
    """
    stay, gone = np.int64(0), np.int64(0)
    for at in range(base, base + rows):
        key, ordinal = keys[U64(at)], ordinals[U64(at)]
        keys[U64(to + gone)], ordinals[U64(to + gone)] = key, ordinal
        keys[U64(base + stay)], ordinals[U64(base + stay)] = key, ordinal
        goes = np.int64(key >= border)
        gone, stay = gone + goes, stay + 1 - goes
    return stay


@inlined
def _largest(keys: Any, base: Any, rows: Any) -> Any:  # noqa: ANN401
    """Return the largest key of an entry's rows."""
    largest = keys[U64(base)]
    for at in range(base + 1, base + rows):
        largest = max(largest, keys[U64(at)])
    return largest


@inlined
def _hang(nodes: Any, path: Any, key: Any, child: Any) -> None:  # noqa: ANN401
    """Insert a new child, which begins with a key, into the node above the last one of a path; full nodes are split."""
    node_keys, children, sizes, state, fan_out = nodes.keys, nodes.children, nodes.sizes, nodes.state, nodes.fan_out
    level = state[HEIGHT] - 1
    while True:
        if level < 0:
            root = state[NODES]
            state[NODES] += 1
            base = root * fan_out
            children[U64(base)], children[U64(base + 1)] = path[U64(0)], child
            node_keys[U64(base)], node_keys[U64(base + 1)] = key, key
            sizes[U64(root)], state[ROOT] = 2, root
            state[HEIGHT] += 1
            break
        node = path[U64(level)]
        base, size, fresh = node * fan_out, np.int64(sizes[U64(node)]), np.int64(NOTHING)
        place = _place(node_keys, base, size, key) + 1
        if size == fan_out:
            fresh, cut = state[NODES], size >> 1
            state[NODES] += 1
            for j in range(size - cut):
                node_keys[U64(fresh * fan_out + j)] = node_keys[U64(base + cut + j)]
                children[U64(fresh * fan_out + j)] = children[U64(base + cut + j)]
            sizes[U64(node)], sizes[U64(fresh)], size = cut, size - cut, cut
            if place > cut:
                node, base, size, place = fresh, fresh * fan_out, np.int64(sizes[U64(fresh)]), place - cut
        for j in range(size - place):
            at = base + size - j
            node_keys[U64(at)], children[U64(at)] = node_keys[U64(at - 1)], children[U64(at - 1)]
        node_keys[U64(base + place)], children[U64(base + place)] = key, child
        sizes[U64(node)] += 1
        if fresh == NOTHING:
            break
        key, child, level = node_keys[U64(fresh * fan_out)], fresh, level - 1


@inlined
def _split(table: Any, leaf: Any, uniform: Any, key: Any) -> Any:  # noqa: ANN401
    """Split a full leaf to which a key comes, a new one to its right; return the smallest key that may be in that."""
    keys, filled, first, last, behind = table.keys, table.filled, table.first, table.last, table.behind
    state, width = table.state, table.width
    right, entry, base = state[LEAVES], state[PTR_G], np.int64(first[U64(leaf)]) * width
    state[LEAVES] += 1
    state[PTR_G] += 1
    table.following[U64(entry)], filled[U64(entry)] = NOTHING, 0
    behind[U64(right)], behind[U64(leaf)] = behind[U64(leaf)], right
    first[U64(right)] = last[U64(right)] = entry
    if not uniform:
        border = _border(keys, base, width)
        stay = _divide(keys, table.ordinals, base, width, entry * width, border)
        filled[U64(entry)], filled[U64(first[U64(leaf)])] = width - stay, stay
        # Keys between the two leaves do not go to a leaf that stays nearly full.
        if stay + stay > width:
            border = _largest(keys, base, stay) + 1
    elif key < keys[U64(base)]:
        # All rows have one key, and stay together; the other leaf begins empty.
        first[U64(right)], last[U64(right)] = first[U64(leaf)], last[U64(leaf)]
        first[U64(leaf)] = last[U64(leaf)] = entry
        border = keys[U64(base)]
    else:
        border = keys[U64(base)] + 1
    return border


@inlined
def _uniform(keys: Any, base: Any, rows: Any) -> Any:  # noqa: ANN401
    """Tell whether all rows of an entry have one key."""
    place = np.int64(1)
    while place < rows and keys[U64(base + place)] == keys[U64(base)]:
        place += 1
    return place >= rows


@kernel(I64, I64, I64, I64, types.int64, returns=types.int64)
def insert_rows(
    leaves: NDArray[np.int64],
    inner: NDArray[np.int64],
    new_keys: NDArray[np.int64],
    new_ordinals: NDArray[np.int64],
    start: int,
) -> int:
    """Put the rows from `start` on, which ascend, into their leaves.

    `leaves` and `inner` are the words of the table and of the inner nodes. All leaves are looked up first, each
    starting from the one before, so that the places to write can be prefetched. A row whose leaf has been split since
    looks it up again. Returns the first row for which leaves, entries or nodes might not suffice, or the number of
    rows. O(n * log(leaves)); a split reads its leaf some `SAMPLE` times.
    """
    table, nodes = table_in(leaves), _nodes_in(inner)
    keys, filled, first, last, state, width = (
        table.keys, table.filled, table.first, table.last, table.state, table.width
    )  # fmt: skip
    memory, numbers = np.empty((3, HIGHEST), np.int64), np.empty(new_keys.size + 1, np.int32)
    descent, targets = Descent(borrowed(memory[0]), borrowed(memory[1]), borrowed(memory[2])), borrowed(numbers)
    n, level, dirty = new_keys.size, np.int64(0), np.int64(NOTHING)
    descent.path[0], descent.least[0], descent.most[0] = state[ROOT], LEAST, MOST
    for row in range(start, n):
        targets[U64(row)] = _leaf_of(nodes, new_keys[U64(row)], level, descent)
        level = state[HEIGHT]
    for row in range(start, n):
        # One after the other: where an entry is, how full it is, where the next row goes.
        prefetch(last, targets[U64(min(row + 3 * AHEAD, n - 1))])
        prefetch(first, targets[U64(min(row + 3 * AHEAD, n - 1))])
        prefetch(filled, last[U64(targets[U64(min(row + 2 * AHEAD, n - 1))])])
        soon = np.int64(last[U64(targets[U64(min(row + AHEAD, n - 1))])])
        prefetch(keys, soon * width + filled[U64(soon)])
        prefetch(table.ordinals, soon * width + filled[U64(soon)])
        key, leaf = new_keys[U64(row)], np.int64(targets[U64(row)])
        entry = np.int64(last[U64(leaf)])
        single = first[U64(leaf)] == entry
        if leaf == dirty or not single or filled[U64(entry)] == width:
            if (
                state[PTR_G] + 2 > filled.size
                or state[LEAVES] + 1 > first.size
                or state[NODES] + state[HEIGHT] + 1 > nodes.sizes.size
            ):
                n = row
                break
            descent.path[0], target = state[ROOT], leaf
            leaf = _leaf_of(nodes, key, np.int64(0), descent)
            entry = np.int64(first[U64(leaf)])
            if filled[U64(entry)] == width:
                uniform = entry != last[U64(leaf)] or _uniform(keys, entry * width, width)
                if not uniform or keys[U64(entry * width)] != key:
                    border = _split(table, leaf, uniform, key)
                    right, dirty = state[LEAVES] - 1, target
                    _hang(nodes, descent.path, border, right)
                    leaf = leaf if key < border else right
        put_row(table, leaf, key, new_ordinals[U64(row)])
    # Until here, what was allocated is in use under another name.
    memory[0, 0], numbers[0] = 0, 0
    return n


@kernel(I64, I32, I64_2D, I64_2D, types.int64, OUT_I32_2D, OUT_I32_2D)
def find_leaves(
    inner: NDArray[np.int64],
    order: NDArray[np.int32],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    begin: int,
    lows: NDArray[np.int32],
    highs: NDArray[np.int32],
) -> None:
    """Write the leaves of both ends of ranges, see `kernels.llat.PartitionScan`. O(n * log(leaves))."""
    nodes = _nodes_in(inner)
    memory = np.empty((3, HIGHEST), np.int64)
    descent = Descent(borrowed(memory[0]), borrowed(memory[1]), borrowed(memory[2]))
    descent.path[0], descent.least[0], descent.most[0], level = nodes.state[ROOT], LEAST, MOST, np.int64(0)
    for piece in range(lo.shape[0]):
        for t in range(order.size):
            i = U64(begin + order[U64(t)])
            low, high = lo[U64(piece), i], hi[U64(piece), i]
            leaf = _leaf_of(nodes, low, level, descent)
            level = nodes.state[HEIGHT]
            lows[U64(piece), U64(t)] = highs[U64(piece), U64(t)] = leaf
            if high > descent.most[U64(level)]:
                highs[U64(piece), U64(t)] = _leaf_of(nodes, high, level, descent)
    # Until here, what was allocated is in use under another name.
    memory[0, 0] = 0
