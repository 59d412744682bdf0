"""Rows that an earlier branch of OR finds as well: they are dropped from the matches of a later one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, U32, U64, group, inlined, kernel
from slidejoin.jit.vectors.memory import prefetch_at
from slidejoin.jit.vectors.vectors import LOW_32
from slidejoin.jit.vectors.words import load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BranchRanges", "BranchValues", "drop_earlier", "widen_positions"]


AHEAD = 16
"""Rows before the one whose values are prefetched."""


class BranchValues(NamedTuple):
    """What the rows of a window have in the branches.

    Attributes
    ----------
    values : (capacity, columns) int64
        Column 0 has a bit for each branch in which the row takes part, the others the values of the branches, see
        `slidejoin.index.union.row_values`.
    rows : int
        How many lines of it are rows.
    ordinals : (rows,) int64
        Theirs, ascending; empty if they follow each other from `first` on.
    first : int
    """

    values: NDArray[np.int64]
    rows: int
    ordinals: NDArray[np.int64]
    first: int


class BranchRanges(NamedTuple):
    """What n probes look for in b branches.

    Attributes
    ----------
    lo, hi : (p, n) int64
        Ranges, both ends included.
    columns : (p,) int64
        The column that each of them is of, ascending within a branch.
    starts : (b + 1,) int64
        Where the ranges of each branch begin.
    """

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    columns: NDArray[np.int64]
    starts: NDArray[np.int64]


BRANCH_VALUES = group(BranchValues, I64_2D, types.int64, I64, types.int64)
BRANCH_RANGES = group(BranchRanges, I64_2D, I64_2D, I64, I64)


@inlined
def _place(ordinals: int, size: Any, first: int, ordinal: int) -> Any:  # noqa: ANN401 - int64
    """Return the place of a stored row: its distance from the first one, if none between is gone."""
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
    BRANCH_VALUES, BRANCH_RANGES, types.int64, types.int64, types.int64, OUT_I64, OUT_I64, returns=types.int64
)  # fmt: skip
def drop_earlier(
    window: BranchValues,
    ranges: BranchRanges,
    branches: int,
    begin: int,
    end: int,
    matches: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    """Drop the rows that one of the first `branches` branches finds for the same probe, of probes begin…end-1.

    A branch finds a row if the row takes part in it and each of its values lies in one of the probe's ranges.

    Parameters
    ----------
    window : BranchValues
    ranges : BranchRanges
    matches : int64
        Ordinals, one probe after the other; those that remain move up.
    counts : (n,) int64
        How many each probe has; becomes how many remain.

    Returns
    -------
    int
        How many remain in all. O(matches * p).
    """
    (values, rows, ordinals, first), (lo, hi, columns, starts) = window, ranges
    # Addresses: an array that is an argument of an inlined function is counted in every turn of a loop.
    table: Any = np.int64(values.ctypes.data)
    of_rows: Any = np.int64(ordinals.ctypes.data)
    width, size = np.int64(values.shape[1]), np.int64(ordinals.size)
    take: Any = np.int64(0)
    remaining = 0
    for i in range(begin, end):
        last, before = take + counts[U64(i)], remaining
        while take < last:
            ordinal = matches[U64(take)]
            if size == 0 and take + AHEAD < matches.size:
                # Rows lie anywhere in memory: 43 ns each where they are not prefetched.
                prefetch_at(table + (((matches[U64(take + AHEAD)] - first) * width) << 3))
            take += 1
            place = _place(of_rows, size, first, ordinal)
            again = False
            if 0 <= place < rows:
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
            matches[U64(remaining)] = ordinal
            remaining += not again
        counts[U64(i)] = remaining - before
    return remaining


@kernel(U32, types.int64, types.int64, OUT_I64)
def widen_positions(positions: NDArray[np.uint32], total: int, floor: int, ordinals: NDArray[np.int64]) -> None:
    """Write the ordinals of the first `total` positions, which are ordinals and one in 32 bits, from `floor` on."""
    first = (floor + 1) & LOW_32
    for at in range(total):
        ordinals[U64(at)] = floor + ((np.int64(positions[U64(at)]) - first) & LOW_32)
