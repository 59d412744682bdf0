"""Wide B+-tree: small sorted inner nodes over wide unsorted leaves, which are sorted at a split (PanJoin, III-C).

Inner node v has ``sizes[v]`` entries in places ``v * fan_out`` and on of `node_keys` int64 and `children` int32: a
child and the smallest key that may be in it, that of the first child not looked at. Leaves are partitions of a linked
list adaptive table (`slidejoin.kernels.llat`) of a width: leaf p has ``rows[p]`` int32 rows with keys from
``smallest[p]`` to ``largest[p]``, int64. A leaf of more rows than its width has one key alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, U64, inlined, kernel
from slidejoin.kernels.llat import NOTHING, PTR_G, put_row
from slidejoin.kernels.rap_table import OUT_I32_2D

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HEIGHT", "LEAVES", "NODES", "ROOT", "find_leaves", "insert_rows"]

ROOT, HEIGHT, NODES, LEAVES = range(PTR_G + 1, PTR_G + 5)
"""Further places of the table's state: the root (a leaf while the height is 0), levels of inner nodes, and how many of
these and of leaves there are."""

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
    rows: Any,  # noqa: ANN401
    smallest: Any,  # noqa: ANN401
    largest: Any,  # noqa: ANN401
    state: Any,  # noqa: ANN401
    width: Any,  # noqa: ANN401
    leaf: Any,  # noqa: ANN401
    key: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Split a full leaf to which a key comes, a new one to its right; return the smallest key that may be in that."""
    right, entry = state[LEAVES], state[PTR_G]
    state[LEAVES] += 1
    state[PTR_G] += 1
    following[U64(entry)], filled[U64(entry)] = NOTHING, 0
    behind[U64(right)], behind[U64(leaf)] = behind[U64(leaf)], right
    first[U64(right)] = last[U64(right)] = entry
    rows[U64(right)] = 0
    if smallest[U64(leaf)] == largest[U64(leaf)]:
        # All rows have one key, and stay together; the other leaf begins empty.
        border = max(key, smallest[U64(leaf)])
        if key < smallest[U64(leaf)]:
            first[U64(right)], last[U64(right)] = first[U64(leaf)], last[U64(leaf)]
            rows[U64(right)], smallest[U64(right)] = rows[U64(leaf)], smallest[U64(leaf)]
            largest[U64(right)] = largest[U64(leaf)]
            first[U64(leaf)] = last[U64(leaf)] = entry
            rows[U64(leaf)] = 0
        else:
            border = smallest[U64(leaf)] + 1
    else:
        base = np.int64(first[U64(leaf)]) * width
        _sort_rows(keys, ordinals, base, width)
        stay = _border(keys, base, width)
        for j in range(width - stay):
            keys[U64(entry * width + j)] = keys[U64(base + stay + j)]
            ordinals[U64(entry * width + j)] = ordinals[U64(base + stay + j)]
        filled[U64(entry)] = rows[U64(right)] = width - stay
        filled[U64(first[U64(leaf)])] = rows[U64(leaf)] = stay
        smallest[U64(right)], largest[U64(right)] = keys[U64(base + stay)], largest[U64(leaf)]
        largest[U64(leaf)] = keys[U64(base + stay - 1)]
        # A leaf that stays nearly full is left alone by what comes between the two.
        border = smallest[U64(right)] if stay + stay <= width else largest[U64(leaf)] + 1
    return border


@kernel(
    OUT_I64, OUT_I64, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I64, OUT_I64, OUT_I64, OUT_I32, OUT_I32,
    OUT_I64, types.int64, types.int64, I64, I64, types.int64, returns=types.int64,
)  # fmt: skip
def insert_rows(
    keys: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    filled: NDArray[np.int32],
    following: NDArray[np.int32],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    behind: NDArray[np.int32],
    rows: NDArray[np.int32],
    smallest: NDArray[np.int64],
    largest: NDArray[np.int64],
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
    """Put the rows from `start` on, best in ascending order, into their leaves.

    Returns the first row for which there might not be leaves, entries or nodes enough, or how many rows there are.
    O(n * log(width)) besides the descents, which begin where the key before was.
    """
    path: Any = np.empty(HIGHEST, np.int64)
    least: Any = np.empty(HIGHEST, np.int64)
    most: Any = np.empty(HIGHEST, np.int64)
    path[0], least[0], most[0], level = state[ROOT], LEAST, MOST, np.int64(0)
    for row in range(start, new_keys.size):
        if (
            state[PTR_G] + 2 > filled.size
            or state[LEAVES] + 1 > first.size
            or state[NODES] + state[HEIGHT] + 1 > sizes.size
        ):
            return row
        key = new_keys[U64(row)]
        leaf = _leaf_of(node_keys, children, sizes, state[HEIGHT], fan_out, key, level, path, least, most)
        level = state[HEIGHT]
        if rows[U64(leaf)] >= width and not (smallest[U64(leaf)] == key and largest[U64(leaf)] == key):
            border = _split(
                keys, ordinals, filled, following, first, last, behind, rows, smallest, largest, state, width, leaf, key
            )
            right = state[LEAVES] - 1
            _hang(node_keys, children, sizes, state, fan_out, path, border, right)
            leaf = leaf if key < border else right
            path[0], level = state[ROOT], np.int64(0)
        if rows[U64(leaf)] == 0:
            smallest[U64(leaf)] = largest[U64(leaf)] = key
        smallest[U64(leaf)] = min(smallest[U64(leaf)], key)
        largest[U64(leaf)] = max(largest[U64(leaf)], key)
        rows[U64(leaf)] += 1
        put_row(keys, ordinals, filled, following, last, state, width, leaf, key, new_ordinals[U64(row)])
    return new_keys.size


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
