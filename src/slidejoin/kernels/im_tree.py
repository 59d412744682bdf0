"""What is done on an immutable tree and the B+-trees beside it together: scan both, merge one into the other.

The first as in `slidejoin.kernels.css_tree`, the others as in `slidejoin.kernels.subindexes` (PIM-Tree, section 3.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.compiling import I64, I64_2D, OUT_I64, U64, inlined, kernel
from slidejoin.kernels.subindexes import NOTHING
from slidejoin.kernels.words import load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ENDS", "FIELDS", "FOLLOWING", "KEYS", "LEAF", "MERGE", "OUT", "PLACE", "SIZES", "SLOT", "TREES", "VALUES", "WIDTH",
    "merge_some", "scan_both",
]  # fmt: skip

KEYS, VALUES, SIZES, FOLLOWING, ENDS, TREES, WIDTH, FIELDS = range(8)
"""One pool of B+-trees as a line of int64 in a table: addresses of its arrays and of the largest keys of all trees but
the last, how many trees there are, and a node's places."""

PLACE, LEAF, SLOT, OUT, MERGE = range(5)
"""How far a merge is, (MERGE,) int64: place in the immutable tree; leaf and slot in the others, NOTHING at their end;
rows written."""


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
    """Add what is seen of keys up to `high` from a leaf's slot on; return how many are found then, -1 without room."""
    keys, values, ends = line[KEYS], line[VALUES], line[ENDS]
    while leaf != NOTHING:
        at, past = leaf * line[WIDTH] + slot, leaf * line[WIDTH] + load_key(line[SIZES] + leaf * 8)
        if total + (past - at) > found.size:
            return np.int64(-1)
        while at < past and load_key(keys + at * 8) <= high:
            ordinal = load_key(values + at * 8)
            found[U64(total)] = ordinal
            total += (seen_from <= ordinal) & (ordinal < seen_to)
            at += 1
        if at < past:
            break
        leaf, slot = load_key(line[FOLLOWING] + leaf * 8), np.int64(0)
        # The first leaf of the next tree: there may be many without a row.
        if 0 < leaf < line[TREES] and load_key(ends + (leaf - 1) * 8) >= high:
            break
    return total


@kernel(
    I64, I64, types.int64, I64_2D, I64_2D, I64_2D, I64_2D, I64_2D, I64_2D, I64, I64, types.int64, types.int64,
    types.int64, OUT_I64, OUT_I64, OUT_I64,
)  # fmt: skip
def scan_both(
    stable_keys: NDArray[np.int64],
    stable_values: NDArray[np.int64],
    size: int,
    places: NDArray[np.int64],
    pools: NDArray[np.int64],
    leaves: NDArray[np.int64],
    slots: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    first: int,
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    result: NDArray[np.int64],
) -> None:
    """Find the rows of probes begin…end-1 behind the places where their k ranges begin.

    `places` (k, m), and of pools (p, FIELDS), which may be none, `leaves` and `slots` (p * k, m), int64, are those of
    probe `first` and the next ones. `result` (2,) int64 holds how many rows are found, and takes the first probe that
    is not answered, see `slidejoin.index.structure.Structure.walk`, and how many are found then. O(rows in range).
    """
    total: Any = result[1]
    pieces = lo.shape[0]
    for i in range(begin, end):
        before, low, high, j = total, seen_from[U64(i)], seen_to[U64(i)], i - first
        for piece in range(pieces):
            largest = hi[U64(piece), U64(i)]
            if lo[U64(piece), U64(i)] > largest:
                continue
            at = places[U64(piece), U64(j)]
            while at < size and stable_keys[U64(at)] <= largest and total < found.size:
                ordinal = stable_values[U64(at)]
                found[U64(total)] = ordinal
                total += (low <= ordinal) & (ordinal < high)
                at += 1
            if at < size and stable_keys[U64(at)] <= largest:
                total = np.int64(-1)
            for pool in range(pools.shape[0]):
                if total >= 0:
                    leaf, slot = leaves[U64(pool * pieces + piece), U64(j)], slots[U64(pool * pieces + piece), U64(j)]
                    total = _scan_leaves(pools[pool], leaf, slot, largest, low, high, found, total)
            if total < 0:
                result[0], result[1] = i, before
                return
        counts[U64(i)] = total - before
    result[0], result[1] = end, total


@kernel(
    I64, I64, types.int64, I64, I64, I64, I64, types.int64, types.int64, types.int64, OUT_I64, OUT_I64, OUT_I64
)  # fmt: skip
def merge_some(
    stable_keys: NDArray[np.int64],
    stable_values: NDArray[np.int64],
    size: int,
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    sizes: NDArray[np.int64],
    following: NDArray[np.int64],
    width: int,
    floor: int,
    steps: int,
    to_keys: NDArray[np.int64],
    to_values: NDArray[np.int64],
    state: NDArray[np.int64],
) -> None:
    """Write rows of both, with ordinals from `floor` on, by ascending key behind those that are written already.

    At most so many, and it is done when the place is `size` and the leaf NOTHING. What is written to has room for one
    row more. O(steps).
    """
    place, leaf, slot, out = state[PLACE], state[LEAF], state[SLOT], state[OUT]
    until: Any = place + steps
    while leaf != NOTHING:
        begin, filled = leaf * width, sizes[U64(leaf)]
        while slot < filled:
            key, ordinal, stop = keys[U64(begin + slot)], values[U64(begin + slot)], min(size, until)
            while place < stop and stable_keys[U64(place)] < key:
                to_keys[U64(out)], to_values[U64(out)] = stable_keys[U64(place)], stable_values[U64(place)]
                out += stable_values[U64(place)] >= floor
                place += 1
            if place >= until:
                break
            to_keys[U64(out)], to_values[U64(out)] = key, ordinal
            out += ordinal >= floor
            slot += 1
            until -= 1
        if slot < filled:
            break
        leaf, slot = following[U64(leaf)], np.int64(0)
    if leaf == NOTHING:
        for at in range(place, min(size, until)):
            to_keys[U64(out)], to_values[U64(out)] = stable_keys[U64(at)], stable_values[U64(at)]
            out += stable_values[U64(at)] >= floor
            place += 1
    state[PLACE], state[LEAF], state[SLOT], state[OUT] = place, leaf, slot, out
