"""A B+-tree whose nodes lie in arrays: insert, delete and range scan, one row at a time (PIM-Tree, section 2.2.1).

Node v has ``sizes[v]`` entries in places ``v * fan_out`` and on of `keys`, `values` and `children`. An entry of a leaf
is a row's key and ordinal, in ascending order of both, so that equal keys are told apart. An entry of an inner node is
a child and the smallest entry that may be in it; that of the first child is not looked at. Leaves are linked both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, U64, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FREE", "HEIGHT", "NOTHING", "ROOT", "STATE", "delete_entries", "insert_entries", "scan_ranges"]

ROOT, HEIGHT, FREE, STATE = range(4)
"""Places in a tree's state, int64 (STATE,): the root; levels of inner nodes above the leaves; how many nodes are free,
by the beginning of the array of their numbers."""

NOTHING = -1
HIGHEST = 64
"""Levels beyond what any tree has."""


@inlined
def _place(
    keys: Any,  # noqa: ANN401
    values: Any,  # noqa: ANN401
    base: Any,  # noqa: ANN401
    first: Any,  # noqa: ANN401
    last: Any,  # noqa: ANN401
    key: Any,  # noqa: ANN401
    value: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Return the first of a node's entries first…last-1 that is larger than that key and ordinal, else `last`."""
    while first < last:
        middle = (first + last) >> 1
        here = keys[U64(base + middle)]
        if here < key or (here == key and values[U64(base + middle)] <= value):
            first = middle + 1
        else:
            last = middle
    return first


@inlined
def _descend(
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
    """Return the leaf for an entry; `path` takes the nodes on the way there, (HIGHEST,) int64."""
    node = state[ROOT]
    for level in range(state[HEIGHT]):
        path[U64(level)] = node
        base = node * fan_out
        slot = _place(keys, values, base, np.int64(1), np.int64(sizes[U64(node)]), key, value) - 1
        node = np.int64(children[U64(base + slot)])
    return node


@inlined
def _move(
    keys: Any,  # noqa: ANN401
    values: Any,  # noqa: ANN401
    children: Any,  # noqa: ANN401
    begin: Any,  # noqa: ANN401
    end: Any,  # noqa: ANN401
    to: Any,  # noqa: ANN401
) -> None:
    """Move the entries in places begin…end-1 to the places from `to` on, which may overlap."""
    up = to > begin
    for step in range(end - begin):
        offset = end - begin - 1 - step if up else step
        keys[U64(to + offset)] = keys[U64(begin + offset)]
        values[U64(to + offset)] = values[U64(begin + offset)]
        children[U64(to + offset)] = children[U64(begin + offset)]


@kernel(
    OUT_I64, OUT_I64, OUT_I32, OUT_I32, OUT_I32, OUT_I32, I32, OUT_I64, types.int64, I64, I64, types.int64,
    returns=types.int64,
)  # fmt: skip
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
    """Insert the rows from `start` on; full nodes are split in halves. O(n log(rows)).

    ``following[v]`` and ``before[v]``, int32, are the leaves beside leaf v. Returns the first row for which free nodes
    might not do, or how many rows there are.
    """
    path: Any = np.empty(HIGHEST, np.int64)
    for row in range(start, new_keys.size):
        if state[FREE] < state[HEIGHT] + 2:
            return row
        key, value, child = new_keys[U64(row)], new_values[U64(row)], np.int64(NOTHING)
        node = _descend(keys, values, children, sizes, state, fan_out, key, value, path)
        level = state[HEIGHT]
        while True:
            base, size = node * fan_out, np.int64(sizes[U64(node)])
            first = np.int64(0) if child == NOTHING else np.int64(1)
            place, fresh = _place(keys, values, base, first, size, key, value), np.int64(NOTHING)
            if size == fan_out:
                state[FREE] -= 1
                fresh, half = np.int64(free[U64(state[FREE])]), size >> 1
                _move(keys, values, children, base + half, base + size, fresh * fan_out)
                sizes[U64(node)], sizes[U64(fresh)] = half, size - half
                if child == NOTHING:
                    behind = np.int64(following[U64(node)])
                    following[U64(node)], before[U64(fresh)], following[U64(fresh)] = fresh, node, behind
                    if behind != NOTHING:
                        before[U64(behind)] = fresh
            # What belongs between the halves stays with the first, so that the second begins with what it began with.
            into = node
            if fresh != NOTHING and place > sizes[U64(node)]:
                into, place = fresh, place - sizes[U64(node)]
            base = into * fan_out
            _move(keys, values, children, base + place, base + sizes[U64(into)], base + place + 1)
            keys[U64(base + place)], values[U64(base + place)], children[U64(base + place)] = key, value, child
            sizes[U64(into)] += 1
            if fresh == NOTHING:
                break
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
    return new_keys.size


@kernel(OUT_I64, OUT_I64, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I64, types.int64, I64, I64)
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
    """Delete rows, which are there; nodes are taken back when they are empty. The others as in `insert_entries`.

    O(n log(rows)).
    """
    path: Any = np.empty(HIGHEST, np.int64)
    for row in range(old_keys.size):
        key, value = old_keys[U64(row)], old_values[U64(row)]
        node = _descend(keys, values, children, sizes, state, fan_out, key, value, path)
        level, first = state[HEIGHT], np.int64(0)
        while True:
            base, size = node * fan_out, np.int64(sizes[U64(node)])
            place = _place(keys, values, base, first, size, key, value) - 1
            _move(keys, values, children, base + place + 1, base + size, base + place)
            sizes[U64(node)] -= 1
            if size > 1 or level == 0:
                break
            if level == state[HEIGHT]:
                ahead, behind = np.int64(before[U64(node)]), np.int64(following[U64(node)])
                if ahead != NOTHING:
                    following[U64(ahead)] = behind
                if behind != NOTHING:
                    before[U64(behind)] = ahead
            free[U64(state[FREE])] = node
            state[FREE] += 1
            level, first = level - 1, np.int64(1)
            node = path[U64(level)]
        while state[HEIGHT] > 0 and sizes[U64(state[ROOT])] == 1:
            free[U64(state[FREE])] = state[ROOT]
            state[FREE] += 1
            state[ROOT] = children[U64(state[ROOT] * fan_out)]
            state[HEIGHT] -= 1


@kernel(
    I64, I64, I32, I32, I32, I64, types.int64, I64_2D, I64_2D, I64, I64, types.int64, types.int64, OUT_I64, OUT_I64,
    OUT_I64,
)  # fmt: skip
def scan_ranges(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    children: NDArray[np.int32],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    state: NDArray[np.int64],
    fan_out: int,
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    result: NDArray[np.int64],
) -> None:
    """Find the rows of probes begin…end-1, see `slidejoin.index.structure.Structure.walk`.

    `result` (2,) int64 takes what that returns. O(log(rows) + rows in range) for each range.
    """
    total: Any = np.int64(0)
    path: Any = np.empty(HIGHEST, np.int64)
    for i in range(begin, end):
        before = total
        for piece in range(lo.shape[0]):
            low, high = lo[U64(piece), U64(i)], hi[U64(piece), U64(i)]
            if low > high:
                continue
            # Ordinals are 0 and more: this comes before every row with that key.
            leaf = _descend(keys, values, children, sizes, state, fan_out, low, np.int64(-1), path)
            base, size = leaf * fan_out, np.int64(sizes[U64(leaf)])
            at = base + _place(keys, values, base, np.int64(0), size, low, np.int64(-1))
            while leaf != NOTHING:
                past = leaf * fan_out + sizes[U64(leaf)]
                if total + (past - at) > found.size:
                    result[0], result[1] = i, before
                    return
                while at < past and keys[U64(at)] <= high:
                    ordinal = values[U64(at)]
                    found[U64(total)] = ordinal
                    total += (seen_from[U64(i)] <= ordinal) & (ordinal < seen_to[U64(i)])
                    at += 1
                if at < past:
                    break
                leaf = np.int64(following[U64(leaf)])
                at = leaf * fan_out
        counts[U64(i)] = total - before
    result[0], result[1] = end, total
