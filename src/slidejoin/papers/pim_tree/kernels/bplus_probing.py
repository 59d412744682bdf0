"""Range scans of a B+-tree: find the first entry, then scan the linked leaves (PIM-Tree, section 2.2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I64, OUT_I64_2D, U64, kernel, prefetch
from slidejoin.jit.vectors.vectors import borrowed
from slidejoin.papers.pim_tree.kernels.bplus_nodes import (
    HEIGHT,
    NOTHING,
    ROOT,
    TOGETHER,
    descend_together,
    place_in_node,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_leaves", "scan_leaves", "search_leaves"]

AHEAD = 8
"""Prefetch distance, in probes, of the first ordinals of a range."""


@kernel(
    I64, I64, I32, I32, I32, I64, types.int64, I64_2D, types.int64, types.int64, OUT_I64_2D, OUT_I64_2D
)  # fmt: skip
def search_leaves(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    children: NDArray[np.int32],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    state: NDArray[np.int64],
    fan_out: int,
    lo: NDArray[np.int64],
    begin: int,
    end: int,
    leaves: NDArray[np.int64],
    places: NDArray[np.int64],
) -> None:
    """Find the first entry with a key not below each of the ranges of probes begin…end-1, `lo` (k, n) int64.

    `leaves` and `places` (k, end - begin or more) int64 take the leaf that it is in, or `NOTHING`, and its place in the
    arrays. O(k (end - begin) log(rows)).
    """
    own, ordinals, links, counts, its = (
        borrowed(keys), borrowed(values), borrowed(children), borrowed(sizes), borrowed(state)
    )  # fmt: skip
    # Ordinals are 0 and more: this comes before every row with that key.
    memory: Any = np.full(2 * TOGETHER, -1, np.int64)
    found: Any = borrowed(memory[TOGETHER:])
    lowest: Any = borrowed(memory)
    for piece in range(lo.shape[0]):
        sought: Any = borrowed(lo[piece])
        for first in range(begin, end, TOGETHER):
            together = min(TOGETHER, end - first)
            descend_together(
                own, ordinals, links, counts, its, fan_out, sought, lowest, first, np.int64(0), together, found
            )
            for j in range(together):
                leaf, key = found[U64(j)], sought[U64(first + j)]
                base, size = leaf * fan_out, np.int64(counts[U64(leaf)])
                at = base + place_in_node(own, ordinals, base, size, key, np.int64(-1), np.int64(0))
                if at == base + size:
                    leaf = np.int64(following[U64(leaf)])
                    at = leaf * fan_out
                leaves[U64(piece), U64(first - begin + j)] = leaf
                places[U64(piece), U64(first - begin + j)] = at
    memory[0] = 0  # `borrowed` does not keep it: it has to be used after everything that reads or writes it


@kernel(
    I64, I64, I32, I32, types.int64, I64_2D, I64_2D, I64_2D, I64_2D, I64, I64, types.int64, types.int64, types.int64,
    OUT_I64, OUT_I64, OUT_I64,
)  # fmt: skip
def scan_leaves(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    fan_out: int,
    leaves: NDArray[np.int64],
    places: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    total: int,
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    result: NDArray[np.int64],
) -> None:
    """Read the rows of probes begin…end-1 from where `search_leaves` found that their ranges begin.

    Ordinals go into `found` from `total` on, see `slidejoin.papers.structure.Structure.walk`; `result` (2,) int64 takes
    what that returns. O(rows in range).
    """
    all_found: Any = np.int64(total)
    for i in range(begin, end):
        prefetch(values, places[U64(0), U64(min(i + AHEAD, end - 1) - begin)])
        before = all_found
        for piece in range(lo.shape[0]):
            high = hi[U64(piece), U64(i)]
            if lo[U64(piece), U64(i)] > high:
                continue
            leaf, at = leaves[U64(piece), U64(i - begin)], places[U64(piece), U64(i - begin)]
            while leaf != NOTHING:
                past = leaf * fan_out + sizes[U64(leaf)]
                if all_found + (past - at) > found.size:
                    result[0], result[1] = i, before
                    return
                while at < past and keys[U64(at)] <= high:
                    ordinal = values[U64(at)]
                    found[U64(all_found)] = ordinal
                    all_found += (seen_from[U64(i)] <= ordinal) & (ordinal < seen_to[U64(i)])
                    at += 1
                if at < past:
                    break
                leaf = np.int64(following[U64(leaf)])
                at = leaf * fan_out
        counts[U64(i)] = all_found - before
    result[0], result[1] = end, all_found


@kernel(I64, I64, I32, I32, I32, I64, types.int64, OUT_I64, OUT_I64)
def read_leaves(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    children: NDArray[np.int32],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    state: NDArray[np.int64],
    fan_out: int,
    out_keys: NDArray[np.int64],
    out_values: NDArray[np.int64],
) -> None:
    """Write all entries in their order into `out_keys` and `out_values`, (rows,) int64. O(rows)."""
    leaf = state[ROOT]
    for _ in range(state[HEIGHT]):
        leaf = np.int64(children[U64(leaf * fan_out)])
    at: Any = np.int64(0)
    while leaf != NOTHING:
        base = leaf * fan_out
        for place in range(base, base + sizes[U64(leaf)]):
            out_keys[U64(at)], out_values[U64(at)] = keys[U64(place)], values[U64(place)]
            at += 1
        leaf = np.int64(following[U64(leaf)])
