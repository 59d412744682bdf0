"""Range scans of an immutable tree and the B+-trees beside it: find the first entries, then scan.

Their layouts: `kernels.css_tree` and `kernels.subindexes` (PIM-Tree, sections 3.2 and 3.3). A few probes at
a time, so that what their searches prefetched is still cached when it is scanned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, OUT_I64_2D, inlined, kernel
from slidejoin.jit.vectors.atomics import now
from slidejoin.jit.vectors.memory import i64_at
from slidejoin.papers.pim_tree.kernels.css_tree import find_nodes, find_passing
from slidejoin.papers.pim_tree.kernels.im_scanning import (
    DEPTH,
    FAN_OUT,
    HEIGHTS,
    INNER,
    INNER_SIZE,
    KEYS,
    LEVELS,
    NODES,
    ROOTS,
    ROUTE_FAN_OUT,
    SAME,
    STARTS,
    TREES,
    VALUES,
    WIDTH,
    scan_some,
)
from slidejoin.papers.pim_tree.kernels.subindexes import find_leaves

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PROBES", "answer_some", "walk_both"]

PROBES = 64
"""Probes that are searched before any is scanned: what is prefetched by then stays in the nearer caches."""

SEARCH, SCAN = range(2)
"""Nanoseconds spent, (2,) int64."""


@inlined
def _find_in_pools(
    pools: Any,  # noqa: ANN401
    bounds: Any,  # noqa: ANN401
    piece: Any,  # noqa: ANN401
    pieces: Any,  # noqa: ANN401
    low: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
    noted: Any,  # noqa: ANN401
) -> None:
    """Find where ranges begin in each pool of B+-trees."""
    for number in range(pools.shape[0]):
        line, which = pools[number], noted[0]
        size = line[NODES] * line[WIDTH]
        if line[SAME] == 0:
            which = noted[1]
            find_nodes(
                i64_at(line[INNER], line[INNER_SIZE]), i64_at(line[STARTS], line[LEVELS]), line[ROUTE_FAN_OUT],
                line[DEPTH], bounds, low, high, which,
            )  # fmt: skip
        at = 2 + pieces + 2 * (number * pieces + piece)
        find_leaves(
            i64_at(line[KEYS], size), i64_at(line[VALUES], size), i64_at(line[ROOTS], line[TREES]),
            i64_at(line[HEIGHTS], line[TREES]), line[FAN_OUT], bounds, which, low, high, noted[at], noted[at + 1],
        )  # fmt: skip


@kernel(
    I64, I64, types.int64, I64, I64, types.int64, types.int64, I64_2D, I64_2D, I64_2D, I64, I64, types.int64,
    types.int64, OUT_I64, OUT_I64, OUT_I64, OUT_I64_2D, OUT_I64,
)  # fmt: skip
def answer_some(
    stable_keys: NDArray[np.int64],
    stable_values: NDArray[np.int64],
    size: int,
    inner: NDArray[np.int64],
    starts: NDArray[np.int64],
    fan_out: int,
    depth: int,
    pools: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    first: int,
    last: int,
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    result: NDArray[np.int64],
    noted: NDArray[np.int64],
    spent: NDArray[np.int64],
) -> None:
    """Find the rows of probes first…last-1: search for all, then scan.

    The immutable tree's arrays and `depth` as in `kernels.css_tree.find_passing`; pools (p, FIELDS), which
    may be none; lo and hi (k, n), seen_from and seen_to (n,) as in `slidejoin.index.probe.Probes`. `noted`
    (2 + k * (1 + 2 * p), last - first or more) is written: nodes passed, places in the immutable tree, leaves and slots
    in the others. `result` (2,) holds how many rows are in `found`, and takes the first probe that is not answered, see
    `slidejoin.papers.structure.Structure.walk`, and how many are found then; `spent` (2,) is added to.
    O((last - first) * log(rows) + rows in range).
    """
    pieces, began = lo.shape[0], now()
    for piece in range(pieces):
        find_passing(
            stable_keys,
            stable_values,
            inner,
            starts,
            fan_out,
            lo[piece],
            first,
            last,
            depth,
            noted[0],
            noted[2 + piece],
        )
        _find_in_pools(pools, lo[piece], piece, pieces, first, last, noted)
    middle = now()
    scan_some(
        stable_keys, stable_values, size, pools, lo, hi, seen_from, seen_to, first, last, counts, found, result, noted
    )
    spent[SEARCH] += middle - began
    spent[SCAN] += now() - middle


@kernel(
    I64, I64, types.int64, I64, I64, types.int64, types.int64, I64_2D, I64_2D, I64_2D, I64, I64, types.int64,
    types.int64, OUT_I64, OUT_I64, OUT_I64, OUT_I64,
)  # fmt: skip
def walk_both(
    stable_keys: NDArray[np.int64],
    stable_values: NDArray[np.int64],
    size: int,
    inner: NDArray[np.int64],
    starts: NDArray[np.int64],
    fan_out: int,
    depth: int,
    pools: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    result: NDArray[np.int64],
    spent: NDArray[np.int64],
) -> None:
    """Answer probes begin…end-1, `PROBES` after `PROBES`, up to the first for which there is no room.

    The arguments are those of `answer_some`.
    """
    pieces = lo.shape[0]
    noted: Any = np.zeros((2 + pieces * (1 + 2 * pools.shape[0]), PROBES), np.int64)
    result[0] = begin
    for first in range(begin, end, PROBES):
        last = min(first + PROBES, end)
        answer_some(
            stable_keys, stable_values, size, inner, starts, fan_out, depth, pools, lo, hi, seen_from, seen_to, first,
            last, counts, found, result, noted, spent,
        )  # fmt: skip
        if result[0] < last:
            return
