"""Range scans of an immutable tree and the B+-trees next to it: find the first entries, then scan.

Their layouts: `kernels.css_tree` and `kernels.subindexes` (PIM-Tree, sections 3.2 and 3.3). A few probes at
a time, so that what their searches prefetched is still cached when it is scanned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, OUT_I64, OUT_I64_2D, U64, inlined, kernel
from slidejoin.jit.vectors.atomics import now
from slidejoin.jit.vectors.fields import ARRAY, i64_in, record, records_in
from slidejoin.jit.vectors.words import load_key
from slidejoin.papers.kernels.walking import MATCHES, RANGES, ProbeRanges, WalkMatches
from slidejoin.papers.pim_tree.kernels.css_tree import css_in, find_nodes, find_places
from slidejoin.papers.pim_tree.kernels.subindexes import FILLING, NODE_POOL, NOTHING, find_leaves, pool_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HUNG_POOL", "PROBES", "answer_some", "noted_lines", "pools_in", "walk_both"]

PROBES = 64
"""Probes that are searched before any is scanned: what is prefetched by then stays in the nearer caches."""

SEARCH, SCAN = range(2)
"""Nanoseconds spent, (2,) int64."""

HUNG_POOL = record(
    [
        ("pool", NODE_POOL),
        ("ends", ARRAY),  # the largest keys of all trees but the last
        "same",  # whether they hang at the immutable tree that is searched; else the following holds of theirs
        ("inner", ARRAY),  # its inner nodes, as of CssNodes
        ("starts", ARRAY),
        "depth",  # of the nodes at which they hang
        "route_fan_out",  # of its inner nodes
    ]
)
"""A pool of B+-trees, and where they hang."""

pools_in = records_in(HUNG_POOL)


@inlined
def noted_lines(pieces: Any, pools: Any) -> Any:  # noqa: ANN401
    """Return how many numbers are noted of a probe with so many ranges.

    Of each: the nodes passed in the immutable tree that is searched, and in another one; for each range the place in
    the immutable tree; for each pool and range a leaf and a slot.
    """
    return 2 + pieces + 2 * pools * pieces


@inlined
def _find_in_pools(pools: Any, bounds: Any, piece: Any, pieces: Any, low: Any, high: Any, noted: Any) -> None:  # noqa: ANN401
    """Find where ranges begin in each pool of B+-trees."""
    for number in range(pools.size):
        hung, which = pools[number], noted[0]
        if hung.same == 0:
            which = noted[1]
            inner, starts = i64_in(hung.inner), i64_in(hung.starts)
            find_nodes(inner, starts, hung.route_fan_out, hung.depth, bounds, low, high, which)
        at = noted_lines(pieces, number) + 2 * piece
        find_leaves(pool_of(hung.pool), bounds, which, low, high, noted[at], noted[at + 1])


@inlined
def _scan_leaves(
    hung: Any,  # noqa: ANN401
    leaf: Any,  # noqa: ANN401
    slot: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
    seen_from: Any,  # noqa: ANN401
    seen_to: Any,  # noqa: ANN401
    ordinals: Any,  # noqa: ANN401
    total: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Add the seen rows with keys up to `high` from a leaf's slot on; return the new total, -1 without room."""
    pool, ends = hung.pool, hung.ends.address
    keys, values, sizes = pool.keys.address, pool.values.address, pool.sizes.address
    width, largest = pool.width, np.int64(FILLING)
    while leaf != NOTHING:
        at, past = leaf * width + slot, (leaf + 1) * width
        # Padding is larger than any other key: the size of a node need not be read, except for that key itself.
        if high == largest:
            past = leaf * width + load_key(sizes + leaf * 8)
        key = np.int64(0)
        while at < past:
            key = load_key(keys + at * 8)
            if key > high:
                break
            if total == ordinals.size:
                return np.int64(-1)
            ordinal = load_key(values + at * 8)
            ordinals[U64(total)] = ordinal
            total += (seen_from <= ordinal) & (ordinal < seen_to)
            at += 1
        if at < past and (key < largest or at < leaf * width + load_key(sizes + leaf * 8)):
            break
        leaf, slot = load_key(pool.following.address + leaf * 8), np.int64(0)
        # The first leaf of the next tree: there may be many without a row.
        if 0 < leaf < pool.roots.length and load_key(ends + (leaf - 1) * 8) >= high:
            break
    return total


@inlined
def _scan_some(
    tree: Any,  # noqa: ANN401
    pools: Any,  # noqa: ANN401
    ranges: Any,  # noqa: ANN401
    first: Any,  # noqa: ANN401
    last: Any,  # noqa: ANN401
    matches: Any,  # noqa: ANN401
    noted: Any,  # noqa: ANN401
) -> None:
    """Scan the rows of probes first…last-1 from the noted places on."""
    keys, values, size = tree.keys, tree.values, tree.size
    lo, hi, seen_from, seen_to = ranges
    counts, ordinals, done = matches
    total: Any = done[1]
    pieces = lo.shape[0]
    for i in range(first, last):
        before, low, high, j = total, seen_from[U64(i)], seen_to[U64(i)], i - first
        for piece in range(pieces):
            largest = hi[U64(piece), U64(i)]
            if lo[U64(piece), U64(i)] > largest:
                continue
            at = noted[U64(2 + piece), U64(j)]
            while at < size and keys[U64(at)] <= largest and total < ordinals.size:
                ordinal = values[U64(at)]
                ordinals[U64(total)] = ordinal
                total += (low <= ordinal) & (ordinal < high)
                at += 1
            if at < size and keys[U64(at)] <= largest:
                total = np.int64(-1)
            for number in range(pools.size):
                if total >= 0:
                    line = noted_lines(pieces, number) + 2 * piece
                    leaf, slot = noted[U64(line), U64(j)], noted[U64(line + 1), U64(j)]
                    total = _scan_leaves(pools[number], leaf, slot, largest, low, high, ordinals, total)
            if total < 0:
                done[0], done[1] = i, before
                return
        counts[U64(i)] = total - before
    done[0], done[1] = last, total


@kernel(I64, types.int64, I64, RANGES, *[types.int64] * 2, MATCHES, OUT_I64_2D, OUT_I64)
def answer_some(
    tree: NDArray[np.int64],
    depth: int,
    pools: NDArray[np.int64],
    ranges: ProbeRanges,
    first: int,
    last: int,
    matches: WalkMatches,
    noted: NDArray[np.int64],
    spent: NDArray[np.int64],
) -> None:
    """Find the rows of probes first…last-1: search for all, then scan.

    `tree` are the words of the immutable tree; `pools` those of none or more `HUNG_POOL`, `depth` where they hang.
    `noted` (`noted_lines`, last - first or more) is written; `spent` (2,) is added to. O((last - first) * log(rows) +
    rows in range).
    """
    lines, pieces, began = pools_in(pools), ranges.lo.shape[0], now()
    for piece in range(pieces):
        bounds = ranges.lo[piece]
        find_places(tree, bounds, first, last, depth, noted[0], noted[2 + piece])
        _find_in_pools(lines, bounds, piece, pieces, first, last, noted)
    middle = now()
    _scan_some(css_in(tree), lines, ranges, first, last, matches, noted)
    spent[SEARCH] += middle - began
    spent[SCAN] += now() - middle


@kernel(I64, types.int64, I64, *RANGES.types, types.int64, *MATCHES.types, OUT_I64)
def walk_both(
    tree: NDArray[np.int64],
    depth: int,
    pools: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    end: int,
    counts: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    done: NDArray[np.int64],
    spent: NDArray[np.int64],
) -> None:
    """Answer probes up to `end`, `PROBES` after `PROBES`, or to the first without room; see `answer_some`.

    The fields of `ProbeRanges` and `WalkMatches` are passed apart: Python calls it for every push.
    """
    ranges, matches = ProbeRanges(lo, hi, seen_from, seen_to), WalkMatches(counts, ordinals, done)
    noted: Any = np.zeros((noted_lines(lo.shape[0], pools_in(pools).size), PROBES), np.int64)
    first = done[0]
    while first < end:
        last = min(first + PROBES, end)
        answer_some(tree, depth, pools, ranges, first, last, matches, noted=noted, spent=spent)
        if done[0] < last:
            return
        first = last
