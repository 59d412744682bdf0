"""Rows that an earlier branch of OR finds as well: they are dropped from what a later one has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, U32, U64, inlined, kernel
from slidejoin.jit.vectors.memory import prefetch_at
from slidejoin.jit.vectors.vectors import LOW_32
from slidejoin.jit.vectors.words import load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["drop_earlier", "widen_found"]


AHEAD = 16
"""Rows before the one whose values are asked for."""


@inlined
def _place(ordinals: int, size: Any, first: int, ordinal: int) -> Any:  # noqa: ANN401 - int64
    """Return the place of a row among those that are kept: its distance from the first one, if none between is gone."""
    if size == 0:
        return ordinal - first
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if load_key(ordinals + (middle << 3)) < ordinal:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(
    I64_2D, types.int64, I64, types.int64, I64_2D, I64_2D, I64, I64, types.int64, types.int64, types.int64,
    OUT_I64, OUT_I64, returns=types.int64,
)  # fmt: skip
def drop_earlier(
    values: NDArray[np.int64],
    kept_rows: int,
    ordinals: NDArray[np.int64],
    first: int,
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    columns: NDArray[np.int64],
    starts: NDArray[np.int64],
    branches: int,
    begin: int,
    end: int,
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    """Drop the rows that one of the first `branches` branches finds for the same probe, of probes begin…end-1.

    A branch finds a row if the row takes part in it and each of its values lies in one of the probe's ranges, both ends
    included.

    Parameters
    ----------
    values : (rows, columns) int64
        The first `kept_rows` lines are the stored rows: column 0 has a bit for each branch in which the row takes part,
        the others the values of the branches, see `slidejoin.index.union.row_values`.
    ordinals : (kept_rows,) int64
        Of these rows, ascending; empty if they follow each other from `first` on.
    lo, hi : (p, n) int64
        Ranges of n probes.
    columns : (p,) int64
        The column that each of them is of, ascending within a branch.
    starts : (b + 1,) int64
        Where the ranges of each branch begin.
    found : int64
        Ordinals, one probe after the other; those that remain move up.
    counts : (n,) int64
        How many each probe has; becomes how many remain.

    Returns
    -------
    int
        How many remain in all. O(found * p).
    """
    # Addresses: an array that is an argument of an inlined function is counted in every turn of a loop.
    table: Any = np.int64(values.ctypes.data)
    of_rows: Any = np.int64(ordinals.ctypes.data)
    width, size = np.int64(values.shape[1]), np.int64(ordinals.size)
    take: Any = np.int64(0)
    kept = 0
    for i in range(begin, end):
        last, before = take + counts[U64(i)], kept
        while take < last:
            ordinal = found[U64(take)]
            if size == 0 and take + AHEAD < found.size:
                # Rows lie anywhere in memory: 43 ns each where they are not asked for beforehand.
                prefetch_at(table + (((found[U64(take + AHEAD)] - first) * width) << 3))
            take += 1
            place = _place(of_rows, size, first, ordinal)
            again = False
            if 0 <= place < kept_rows:
                line = table + ((place * width) << 3)
                bits = load_key(line)
                for branch in range(branches):
                    at, stop = starts[U64(branch)], starts[U64(branch + 1)]
                    inside = (bits >> branch) & 1 == 1
                    while inside and at < stop:
                        column = columns[U64(at)]
                        value = load_key(line + (column << 3))
                        inside = False
                        while at < stop and columns[U64(at)] == column:
                            inside |= lo[U64(at), U64(i)] <= value <= hi[U64(at), U64(i)]
                            at += 1
                    again |= inside
            found[U64(kept)] = ordinal
            kept += not again
        counts[U64(i)] = kept - before
    return kept


@kernel(U32, types.int64, types.int64, OUT_I64)
def widen_found(found: NDArray[np.uint32], total: int, floor: int, ordinals: NDArray[np.int64]) -> None:
    """Write the ordinals of the first `total` positions, which are ordinals and one in 32 bits, from `floor` on."""
    first = (floor + 1) & LOW_32
    for at in range(total):
        ordinals[U64(at)] = floor + ((np.int64(found[U64(at)]) - first) & LOW_32)
