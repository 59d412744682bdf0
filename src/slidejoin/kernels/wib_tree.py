"""Wide B+-tree: small sorted inner nodes over wide unsorted leaves, which are sorted at a split (PanJoin, III-C).

Inner node v has ``sizes[v]`` entries in places ``v * fan_out`` and on of `node_keys` int64 and `children` int32: a
child and the smallest key that may be in it, that of the first child not looked at. Leaves are partitions of a linked
list adaptive table (`slidejoin.kernels.llat`) of a width. A leaf of more rows than its width has one key alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, U64, inlined, kernel, prefetch
from slidejoin.kernels.llat import NOTHING, PTR_G, put_row
from slidejoin.kernels.rap_table import OUT_I32_2D

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HEIGHT", "LEAVES", "NODES", "ROOT", "find_leaves", "insert_rows"]

ROOT, HEIGHT, NODES, LEAVES = range(PTR_G + 1, PTR_G + 5)
"""Further places of the table's state: the root (a leaf while the height is 0), levels of inner nodes, and how many of
these and of leaves there are."""

AHEAD = 8
"""Rows ahead of which the place where one is written is asked for."""

HIGHEST = 64
LEAST, MOST = -(1 << 63), (1 << 63) - 1

GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)
"""Ciura's steps of a Shell sort: leaves are short, and both columns move."""


@inlined
def _place(node_keys: Any, base: Any, size: Any, key: Any) -> Any:  # noqa: ANN401
    """Return the last of a node's entries, but for the first, that is no larger than a key, else the first."""
    low, high = np.int64(1), size
    while low < high:
        middle = (low + high) >> 1
        if node_keys[U64(base + middle)] <= key:
            low = middle + 1
        else:
            high = middle
    return low - 1


@inlined
def _leaf_of(
    node_keys: Any,  # noqa: ANN401
    children: Any,  # noqa: ANN401
    sizes: Any,  # noqa: ANN401
    height: Any,  # noqa: ANN401
    fan_out: Any,  # noqa: ANN401
    key: Any,  # noqa: ANN401
    level: Any,  # noqa: ANN401
    path: Any,  # noqa: ANN401
    least: Any,  # noqa: ANN401
    most: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Return the leaf for a key, from the path of the key before: up as far as needed, then down (III-E).

    `path` has the nodes down to that `level`, `least` and `most` the keys that may be in each, (HIGHEST,) int64.
    """
    while level > 0 and (key < least[U64(level)] or key > most[U64(level)]):
        level -= 1
    while level < height:
        node = path[U64(level)]
        base, size = node * fan_out, np.int64(sizes[U64(node)])
        slot = _place(node_keys, base, size, key)
        path[U64(level + 1)] = np.int64(children[U64(base + slot)])
        least[U64(level + 1)] = node_keys[U64(base + slot)] if slot > 0 else least[U64(level)]
        most[U64(level + 1)] = node_keys[U64(base + slot + 1)] - 1 if slot + 1 < size else most[U64(level)]
        level += 1
    return path[U64(height)]


@inlined
def _sort_rows(keys: Any, ordinals: Any, base: Any, rows: Any) -> None:  # noqa: ANN401
    """Sort the rows of an entry by their keys. O(rows ** 4/3) or so."""
    for gap in GAPS:
        for i in range(gap, rows):
            key, ordinal, j = keys[U64(base + i)], ordinals[U64(base + i)], i
            while j >= gap and keys[U64(base + j - gap)] > key:
                keys[U64(base + j)], ordinals[U64(base + j)] = keys[U64(base + j - gap)], ordinals[U64(base + j - gap)]
                j -= gap
            keys[U64(base + j)], ordinals[U64(base + j)] = key, ordinal


@inlined
def _border(keys: Any, base: Any, rows: Any) -> Any:  # noqa: ANN401
    """Return how many of sorted rows, of several keys, go to the left: the border of two keys nearest to the middle."""
    middle, off = rows >> 1, np.int64(0)
    while True:
        up, down = middle + off, middle - off
        if up < rows and keys[U64(base + up - 1)] != keys[U64(base + up)]:
            middle = up
            break
        if down > 0 and keys[U64(base + down - 1)] != keys[U64(base + down)]:
            middle = down
            break
        off += 1
    return middle


@inlined
def _hang(
    node_keys: Any,  # noqa: ANN401
    children: Any,  # noqa: ANN401
    sizes: Any,  # noqa: ANN401
    state: Any,  # noqa: ANN401
    fan_out: Any,  # noqa: ANN401
    path: Any,  # noqa: ANN401
    key: Any,  # noqa: ANN401
    child: Any,  # noqa: ANN401
) -> None:
    """Put a new child, which begins with a key, into the node above the last one of a path; full nodes are halved."""
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
            fresh, half = state[NODES], size >> 1
            state[NODES] += 1
            for j in range(size - half):
                node_keys[U64(fresh * fan_out + j)] = node_keys[U64(base + half + j)]
                children[U64(fresh * fan_out + j)] = children[U64(base + half + j)]
            sizes[U64(node)], sizes[U64(fresh)], size = half, size - half, half
            if place > half:
                node, base, size, place = fresh, fresh * fan_out, np.int64(sizes[U64(fresh)]), place - half
        for j in range(size - place):
            at = base + size - j
            node_keys[U64(at)], children[U64(at)] = node_keys[U64(at - 1)], children[U64(at - 1)]
        node_keys[U64(base + place)], children[U64(base + place)] = key, child
        sizes[U64(node)] += 1
        if fresh == NOTHING:
            break
        key, child, level = node_keys[U64(fresh * fan_out)], fresh, level - 1


@inlined
def _split(
    keys: Any,  # noqa: ANN401
    ordinals: Any,  # noqa: ANN401
    filled: Any,  # noqa: ANN401
    following: Any,  # noqa: ANN401
    first: Any,  # noqa: ANN401
    last: Any,  # noqa: ANN401
    behind: Any,  # noqa: ANN401
    state: Any,  # noqa: ANN401
    width: Any,  # noqa: ANN401
    leaf: Any,  # noqa: ANN401
    uniform: Any,  # noqa: ANN401
    key: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Split a full leaf to which a key comes, a new one to its right; return the smallest key that may be in that."""
    right, entry, base = state[LEAVES], state[PTR_G], np.int64(first[U64(leaf)]) * width
    state[LEAVES] += 1
    state[PTR_G] += 1
    following[U64(entry)], filled[U64(entry)] = NOTHING, 0
    behind[U64(right)], behind[U64(leaf)] = behind[U64(leaf)], right
    first[U64(right)] = last[U64(right)] = entry
    if not uniform:
        _sort_rows(keys, ordinals, base, width)
        stay = _border(keys, base, width)
        for j in range(width - stay):
            keys[U64(entry * width + j)] = keys[U64(base + stay + j)]
            ordinals[U64(entry * width + j)] = ordinals[U64(base + stay + j)]
        filled[U64(entry)], filled[U64(first[U64(leaf)])] = width - stay, stay
        # A leaf that stays nearly full is left alone by what comes between the two.
        border = keys[U64(base + stay)] if stay + stay <= width else keys[U64(base + stay - 1)] + 1
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


@kernel(
    OUT_I64, OUT_I64, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I64, OUT_I32, OUT_I32, OUT_I64, types.int64,
    types.int64, I64, I64, types.int64, returns=types.int64,
)  # fmt: skip
def insert_rows(
    keys: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    filled: NDArray[np.int32],
    following: NDArray[np.int32],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    behind: NDArray[np.int32],
    node_keys: NDArray[np.int64],
    children: NDArray[np.int32],
    sizes: NDArray[np.int32],
    state: NDArray[np.int64],
    width: int,
    fan_out: int,
    new_keys: NDArray[np.int64],
    new_ordinals: NDArray[np.int64],
    start: int,
) -> int:
    """Put the rows from `start` on, which ascend, into their leaves.

    All leaves are looked up first, one from the other, so that what is written into them can be asked for ahead. A row
    whose leaf has been split since looks it up again. Returns the first row for which there might not be leaves,
    entries or nodes enough, or how many rows there are. O(n * log(leaves)), and O(log(width)) or so for splits.
    """
    path: Any = np.empty(HIGHEST, np.int64)
    least: Any = np.empty(HIGHEST, np.int64)
    most: Any = np.empty(HIGHEST, np.int64)
    n, level, dirty = new_keys.size, np.int64(0), np.int64(NOTHING)
    targets = np.empty(n, np.int32)
    path[0], least[0], most[0] = state[ROOT], LEAST, MOST
    for row in range(start, n):
        key = new_keys[U64(row)]
        targets[U64(row)] = _leaf_of(node_keys, children, sizes, state[HEIGHT], fan_out, key, level, path, least, most)
        level = state[HEIGHT]
    for row in range(start, n):
        soon = np.int64(last[U64(targets[U64(min(row + AHEAD, n - 1))])])
        prefetch(keys, soon * width + filled[U64(soon)])
        prefetch(ordinals, soon * width + filled[U64(soon)])
        key, leaf = new_keys[U64(row)], np.int64(targets[U64(row)])
        entry = np.int64(last[U64(leaf)])
        single = first[U64(leaf)] == entry
        if leaf == dirty or not single or filled[U64(entry)] == width:
            if (
                state[PTR_G] + 2 > filled.size
                or state[LEAVES] + 1 > first.size
                or state[NODES] + state[HEIGHT] + 1 > sizes.size
            ):
                return row
            path[0], target = state[ROOT], leaf
            leaf = _leaf_of(node_keys, children, sizes, state[HEIGHT], fan_out, key, np.int64(0), path, least, most)
            entry = np.int64(first[U64(leaf)])
            if filled[U64(entry)] == width:
                uniform = entry != last[U64(leaf)] or _uniform(keys, entry * width, width)
                if not uniform or keys[U64(entry * width)] != key:
                    border = _split(
                        keys, ordinals, filled, following, first, last, behind, state, width, leaf, uniform, key
                    )
                    right, dirty = state[LEAVES] - 1, target
                    _hang(node_keys, children, sizes, state, fan_out, path, border, right)
                    leaf = leaf if key < border else right
        put_row(keys, ordinals, filled, following, last, state, width, leaf, key, new_ordinals[U64(row)])
    return n


@kernel(I64, I32, I32, I64, types.int64, I32, I64_2D, I64_2D, types.int64, OUT_I32_2D, OUT_I32_2D)
def find_leaves(
    node_keys: NDArray[np.int64],
    children: NDArray[np.int32],
    sizes: NDArray[np.int32],
    state: NDArray[np.int64],
    fan_out: int,
    order: NDArray[np.int32],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    begin: int,
    lows: NDArray[np.int32],
    highs: NDArray[np.int32],
) -> None:
    """Write the leaves of both ends of ranges, see `slidejoin.kernels.llat.scan_partitions`. O(n * log(leaves))."""
    path: Any = np.empty(HIGHEST, np.int64)
    least: Any = np.empty(HIGHEST, np.int64)
    most: Any = np.empty(HIGHEST, np.int64)
    path[0], least[0], most[0], level = state[ROOT], LEAST, MOST, np.int64(0)
    for piece in range(lo.shape[0]):
        for t in range(order.size):
            i = U64(begin + order[U64(t)])
            low, high = lo[U64(piece), i], hi[U64(piece), i]
            leaf = _leaf_of(node_keys, children, sizes, state[HEIGHT], fan_out, low, level, path, least, most)
            level = state[HEIGHT]
            lows[U64(piece), U64(t)] = highs[U64(piece), U64(t)] = leaf
            if high > most[U64(level)]:
                highs[U64(piece), U64(t)] = _leaf_of(
                    node_keys, children, sizes, state[HEIGHT], fan_out, high, level, path, least, most
                )
