"""Range scans of a B+-tree: find the first entry, then scan the linked leaves (PIM-Tree, section 2.2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, OUT_I64_2D, U64, kernel, prefetch
from slidejoin.jit.vectors.vectors import borrowed
from slidejoin.papers.kernels.walking import MATCHES, RANGES
from slidejoin.papers.pim_tree.kernels.bplus_nodes import (
    HEIGHT,
    NOTHING,
    ROOT,
    TOGETHER,
    descend_together,
    nodes_in,
    place_in_node,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_leaves", "scan_leaves", "search_leaves"]

AHEAD = 8
"""Prefetch distance, in probes, of the first ordinals of a range."""


@kernel(I64, I64_2D, types.int64, types.int64, OUT_I64_2D, OUT_I64_2D)
def search_leaves(
    tree: NDArray[np.int64],
    lo: NDArray[np.int64],
    begin: int,
    end: int,
    leaves: NDArray[np.int64],
    places: NDArray[np.int64],
) -> None:
    """Find the first entry with a key not below each of the ranges of probes begin…end-1, `lo` (k, n) int64.

    `tree` are the words of its nodes. `leaves` and `places` (k, end - begin or more) int64 take the leaf that it is in,
    or `NOTHING`, and its place in the arrays. O(k (end - begin) log(rows)).
    """
    own = nodes_in(tree)
    # Ordinals are 0 and more: this comes before every row with that key.
    memory: Any = np.full(2 * TOGETHER, -1, np.int64)
    reached: Any = borrowed(memory[TOGETHER:])
    lowest: Any = borrowed(memory)
    for piece in range(lo.shape[0]):
        keys: Any = borrowed(lo[piece])
        for first in range(begin, end, TOGETHER):
            together = min(TOGETHER, end - first)
            descend_together(own, keys, lowest, first, np.int64(0), together, reached)
            for j in range(together):
                leaf, key = reached[U64(j)], keys[U64(first + j)]
                base, size = leaf * own.fan_out, np.int64(own.sizes[U64(leaf)])
                at = base + place_in_node(own, base, size, key, np.int64(-1), np.int64(0))
                if at == base + size:
                    leaf = np.int64(own.following[U64(leaf)])
                    at = leaf * own.fan_out
                leaves[U64(piece), U64(first - begin + j)] = leaf
                places[U64(piece), U64(first - begin + j)] = at
    memory[0] = 0  # `borrowed` does not hold it: it has to be used after everything that reads or writes it


@kernel(I64, I64_2D, I64_2D, *RANGES.types, types.int64, types.int64, *MATCHES.types)
def scan_leaves(
    tree: NDArray[np.int64],
    leaves: NDArray[np.int64],
    places: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    done: NDArray[np.int64],
) -> None:
    """Add the matches of probes begin…end-1, whose ranges begin where `search_leaves` says. O(rows in range).

    The fields of `ProbeRanges` and `WalkMatches` are passed apart: Python calls it for every thousand probes.
    """
    nodes = nodes_in(tree)
    keys, values, sizes, following, fan_out = nodes.keys, nodes.values, nodes.sizes, nodes.following, nodes.fan_out
    total = done[1]
    for i in range(begin, end):
        prefetch(values, places[U64(0), U64(min(i + AHEAD, end - 1) - begin)])
        before = total
        for piece in range(lo.shape[0]):
            high = hi[U64(piece), U64(i)]
            if lo[U64(piece), U64(i)] > high:
                continue
            leaf, at = leaves[U64(piece), U64(i - begin)], places[U64(piece), U64(i - begin)]
            while leaf != NOTHING:
                past = leaf * fan_out + sizes[U64(leaf)]
                if total + (past - at) > ordinals.size:
                    done[0], done[1] = i, before
                    return
                while at < past and keys[U64(at)] <= high:
                    ordinal = values[U64(at)]
                    ordinals[U64(total)] = ordinal
                    total += (seen_from[U64(i)] <= ordinal) & (ordinal < seen_to[U64(i)])
                    at += 1
                if at < past:
                    break
                leaf = np.int64(following[U64(leaf)])
                at = leaf * fan_out
        counts[U64(i)] = total - before
    done[0], done[1] = end, total


@kernel(I64, OUT_I64, OUT_I64)
def read_leaves(tree: NDArray[np.int64], keys: NDArray[np.int64], values: NDArray[np.int64]) -> None:
    """Write all entries in their order into `keys` and `values`, (rows,) int64. O(rows)."""
    nodes = nodes_in(tree)
    leaf = nodes.state[ROOT]
    for _ in range(nodes.state[HEIGHT]):
        leaf = np.int64(nodes.children[U64(leaf * nodes.fan_out)])
    at: Any = np.int64(0)
    while leaf != NOTHING:
        base = leaf * nodes.fan_out
        for place in range(base, base + nodes.sizes[U64(leaf)]):
            keys[U64(at)], values[U64(at)] = nodes.keys[U64(place)], nodes.values[U64(place)]
            at += 1
        leaf = np.int64(nodes.following[U64(leaf)])
