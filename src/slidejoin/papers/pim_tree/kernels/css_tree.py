"""An immutable B+-tree, its nodes breadth first, without references to children (PIM-Tree, sections 3.1 and A.3)."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.compiling import I64, OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.memory import place_of, prefetch_at
from slidejoin.jit.vectors.words import count_of, load_words, splat
from slidejoin.papers.kernels.in_words import reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "BATCH",
    "LANES",
    "CssNodes",
    "count_below",
    "css_in",
    "fill_inner",
    "find_nodes",
    "find_places",
    "slot_below",
]

LANES = 8
"""Keys of a cache line."""

BATCH = 16
"""Searches that descend together: the nodes of the next level are prefetched."""


class CssNodes(NamedTuple):
    """The rows of a tree by ascending key, and the inner nodes above them.

    Leaves are stretches of `fan_out` - 1 of the `size` sorted keys. An inner node has as many keys, each the largest
    below one of its children; the last child needs none. Node b's children are the nodes ``b * fan_out`` to
    ``(b + 1) * fan_out - 1`` of the next level. A node takes whole cache lines, padded with the largest int64, so that
    all keys of a line are compared at once and padding is never below a bound; so are `keys` behind the last one.
    `starts` (levels + 1,) int64 holds the first inner node of each level, the root's level first, and their number.

    Keys 1 to 9 with fan-out 3: five leaves, two nodes above them, and the root::

        inner                6 .            starts  0 1 3
                      2 4         8 .
        keys     1 2  3 4  5 6  7 8  9
    """

    keys: NDArray[np.int64]
    values: NDArray[np.int64]
    size: int
    inner: NDArray[np.int64]
    starts: NDArray[np.int64]
    fan_out: int


css_in = reader(CssNodes, OUT_I64, OUT_I64, types.int64, OUT_I64, OUT_I64, types.int64)
"""The nodes of a tree of which there are words."""


def _make_count_below() -> Callable[[Any, Any], Any]:
    if numba.config.DISABLE_JIT:
        return lambda address, bound: sum(
            key < int(bound) for key in (ctypes.c_int64 * LANES).from_address(int(address))
        )

    @intrinsic
    def count_line(_typing: Any, address: Any, bound: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at the names
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            return count_of(builder, builder.icmp_signed("<", load_words(builder, args[0]), splat(builder, args[1])))

        return types.int64(types.int64, types.int64), generate

    compiled: Callable[[Any, Any], Any] = count_line
    return compiled


count_below = _make_count_below()
"""Return how many of the eight int64 at an address are below a bound."""


@inlined
def slot_below(address: Any, lines: Any, bound: Any) -> Any:  # noqa: ANN401 - int64
    """Return how many of the ascending keys in so many lines from an address on are below a bound."""
    slot = np.int64(0)
    for line in range(lines):
        slot += count_below(address + line * 64, bound)
    return slot


@kernel(I64, types.int64, types.int64)
def fill_inner(words: NDArray[np.int64], first: int, last: int) -> None:
    """Fill the inner nodes from leaves first…last-1 (Algorithm 3): stretches in any order, O(last - first).

    `words` are those of its nodes.
    """
    tree = css_in(words)
    fan_out, levels, slots = tree.fan_out, tree.starts.size - 1, tree.fan_out - 1
    width = (slots + LANES - 1) // LANES * LANES
    leaves = (tree.size + slots - 1) // slots
    # Bounds larger than all separators go to the last child, whose own largest key is not needed.
    for leaf in range(first, min(last, leaves - 1)):
        node, largest = leaf, tree.keys[U64((leaf + 1) * slots - 1)]
        for up in range(levels):
            slot, node = node % fan_out, node // fan_out
            if slot < slots:
                tree.inner[U64((tree.starts[U64(levels - 1 - up)] + node) * width + slot)] = largest
                break


@kernel(I64, I64, types.int64, types.int64, types.int64, OUT_I64, OUT_I64)
def find_places(
    words: NDArray[np.int64],
    bounds: NDArray[np.int64],
    begin: int,
    end: int,
    depth: int,
    passed: NDArray[np.int64],
    places: NDArray[np.int64],
) -> None:
    """Find for bounds begin…end-1 the first place with a key >= the bound, the number of keys if there is none.

    `bounds` (n,) int64, `places` (end - begin,) int64. Into `passed` (end - begin,) int64 goes the node at a depth on
    each descent; it is not written where the tree has no inner nodes as deep. The values at the places, which are read
    next, are prefetched. O((end - begin) * log(keys)).
    """
    tree = css_in(words)
    fan_out, slots, levels, starts = tree.fan_out, tree.fan_out - 1, tree.starts.size - 1, tree.starts
    lines = (slots + LANES - 1) // LANES
    nodes: Any = np.empty(BATCH, np.int64)
    leaf_at, inner_at = np.int64(place_of(tree.keys)), np.int64(place_of(tree.inner))
    values_at = np.int64(place_of(tree.values))
    for low in range(begin, end, BATCH):
        count: Any = min(np.int64(BATCH), end - low)
        for i in range(count):
            nodes[U64(i)] = 0
        for level in range(levels):
            here = inner_at + starts[U64(level)] * lines * 64
            deepest = level == levels - 1
            below, stride = leaf_at, slots * 8
            if not deepest:
                below, stride = inner_at + starts[U64(level + 1)] * lines * 64, lines * 64
            if level == depth:
                for i in range(count):
                    passed[U64(low - begin + i)] = nodes[U64(i)]
            for i in range(count):
                node = nodes[U64(i)]
                child = node * fan_out + slot_below(here + node * lines * 64, lines, bounds[U64(low + i)])
                nodes[U64(i)] = child
                at = below + child * stride
                for line in range(lines):
                    prefetch_at(at + line * 64)
        for i in range(count):
            leaf = nodes[U64(i)]
            place = leaf * slots + slot_below(leaf_at + leaf * slots * 8, lines, bounds[U64(low + i)])
            places[U64(low - begin + i)] = place
            prefetch_at(values_at + place * 8)


@kernel(I64, I64, types.int64, types.int64, I64, types.int64, types.int64, OUT_I64)
def find_nodes(
    inner: NDArray[np.int64],
    starts: NDArray[np.int64],
    fan_out: int,
    depth: int,
    bounds: NDArray[np.int64],
    begin: int,
    end: int,
    nodes: NDArray[np.int64],
) -> None:
    """Find for bounds begin…end-1 the inner node at a depth, the root's being 0, that leads to them.

    The others as in `find_places`; `nodes` (end - begin,) int64. O((end - begin) * depth).
    """
    lines = (fan_out - 1 + LANES - 1) // LANES
    inner_at = np.int64(place_of(inner))
    for low in range(begin, end, BATCH):
        count: Any = min(np.int64(BATCH), end - low)
        for i in range(count):
            nodes[U64(low - begin + i)] = 0
        for level in range(depth):
            here, below = inner_at + starts[U64(level)] * lines * 64, inner_at + starts[U64(level + 1)] * lines * 64
            for i in range(count):
                node = nodes[U64(low - begin + i)]
                child = node * fan_out + slot_below(here + node * lines * 64, lines, bounds[U64(low + i)])
                nodes[U64(low - begin + i)] = child
                for line in range(lines):
                    prefetch_at(below + child * lines * 64 + line * 64)
