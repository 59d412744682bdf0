"""Scan ranges in an immutable tree and in the B+-trees beside it, from where they begin (PIM-Tree, 3.2 and 3.3).

Their layouts: `slidejoin.papers.pim_tree.kernels.css_tree` and `slidejoin.papers.pim_tree.kernels.subindexes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slidejoin.jit.compiling import U64, inlined
from slidejoin.jit.vectors.words import load_key
from slidejoin.papers.pim_tree.kernels.subindexes import FILLING, NOTHING

__all__ = [
    "DEPTH",
    "ENDS",
    "FAN_OUT",
    "FIELDS",
    "FOLLOWING",
    "HEIGHTS",
    "INNER",
    "INNER_SIZE",
    "KEYS",
    "LEVELS",
    "NODES",
    "ROOTS",
    "ROUTE_FAN_OUT",
    "SAME",
    "SIZES",
    "STARTS",
    "TREES",
    "VALUES",
    "WIDTH",
    "scan_some",
]

(
    KEYS,
    VALUES,
    SIZES,
    FOLLOWING,
    ENDS,
    WIDTH,
    NODES,
    ROOTS,
    HEIGHTS,
    TREES,
    FAN_OUT,
    SAME,
    INNER,
    INNER_SIZE,
    STARTS,
    LEVELS,
    DEPTH,
    ROUTE_FAN_OUT,
    FIELDS,
) = range(19)
"""One pool of B+-trees as a line of int64 in a table: addresses of its arrays and of the largest keys of all trees but
the last, and a node's places; how many nodes there are, addresses of roots and heights, how many trees, entries of a
node; whether they hang at the immutable tree that is searched; else the inner nodes of the one at which they do, its
levels, at which depth, its fan-out."""


@inlined
def _scan_leaves(
    line: Any,  # noqa: ANN401
    leaf: Any,  # noqa: ANN401
    slot: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
    seen_from: Any,  # noqa: ANN401
    seen_to: Any,  # noqa: ANN401
    found: Any,  # noqa: ANN401
    total: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Add the seen rows with keys up to `high` from a leaf's slot on; return the new total, -1 without room."""
    keys, values, width, largest = line[KEYS], line[VALUES], line[WIDTH], np.int64(FILLING)
    while leaf != NOTHING:
        at, past = leaf * width + slot, (leaf + 1) * width
        # Padding is larger than any other key: the size of a node need not be read, except for that key itself.
        if high == largest:
            past = leaf * width + load_key(line[SIZES] + leaf * 8)
        key = np.int64(0)
        while at < past:
            key = load_key(keys + at * 8)
            if key > high:
                break
            if total == found.size:
                return np.int64(-1)
            ordinal = load_key(values + at * 8)
            found[U64(total)] = ordinal
            total += (seen_from <= ordinal) & (ordinal < seen_to)
            at += 1
        if at < past and (key < largest or at < leaf * width + load_key(line[SIZES] + leaf * 8)):
            break
        leaf, slot = load_key(line[FOLLOWING] + leaf * 8), np.int64(0)
        # The first leaf of the next tree: there may be many without a row.
        if 0 < leaf < line[TREES] and load_key(line[ENDS] + (leaf - 1) * 8) >= high:
            break
    return total


@inlined
def scan_some(
    stable_keys: Any,  # noqa: ANN401
    stable_values: Any,  # noqa: ANN401
    size: Any,  # noqa: ANN401
    pools: Any,  # noqa: ANN401
    lo: Any,  # noqa: ANN401
    hi: Any,  # noqa: ANN401
    seen_from: Any,  # noqa: ANN401
    seen_to: Any,  # noqa: ANN401
    first: Any,  # noqa: ANN401
    last: Any,  # noqa: ANN401
    counts: Any,  # noqa: ANN401
    found: Any,  # noqa: ANN401
    result: Any,  # noqa: ANN401
    noted: Any,  # noqa: ANN401
) -> None:
    """Scan the rows of probes first…last-1 from the noted places on."""
    total: Any = result[1]
    pieces = lo.shape[0]
    for i in range(first, last):
        before, low, high, j = total, seen_from[U64(i)], seen_to[U64(i)], i - first
        for piece in range(pieces):
            largest = hi[U64(piece), U64(i)]
            if lo[U64(piece), U64(i)] > largest:
                continue
            at = noted[U64(2 + piece), U64(j)]
            while at < size and stable_keys[U64(at)] <= largest and total < found.size:
                ordinal = stable_values[U64(at)]
                found[U64(total)] = ordinal
                total += (low <= ordinal) & (ordinal < high)
                at += 1
            if at < size and stable_keys[U64(at)] <= largest:
                total = np.int64(-1)
            for number in range(pools.shape[0]):
                if total >= 0:
                    line = 2 + pieces + 2 * (number * pieces + piece)
                    leaf, slot = noted[U64(line), U64(j)], noted[U64(line + 1), U64(j)]
                    total = _scan_leaves(pools[number], leaf, slot, largest, low, high, found, total)
            if total < 0:
                result[0], result[1] = i, before
                return
        counts[U64(i)] = total - before
    result[0], result[1] = last, total
