"""Matches of a join core, by its own numbers: back to the ordinals of the stream, each in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numba import types

from slidejoin.jit.compiling import I32, I64, OUT_I64, U32, U64, group, kernel
from slidejoin.jit.vectors.vectors import LOW_32

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CoreNumbers", "drop_unseen", "number_rows", "put_positions"]


class CoreNumbers(NamedTuple):
    """How a core numbers rows: row n of core c is row ``n * cores + c`` of the stream.

    A position is a row's number in the core and one, in 32 bits, from `floor` on; its first probe has that `ordinal`.
    """

    floor: int
    ordinal: int
    cores: int
    core: int


@kernel(U32, I32, types.int64, types.int64, group(CoreNumbers, *[types.int64] * 4), I64, OUT_I64, OUT_I64)
def put_positions(
    positions: NDArray[np.uint32],
    counts: NDArray[np.int32],
    first: int,
    last: int,
    numbers: CoreNumbers,
    places: NDArray[np.int64],
    probes: NDArray[np.int64],
    stored: NDArray[np.int64],
) -> None:
    """Write the pairs of probes first…last-1 of one core, whose `positions` are one probe's after the other's.

    `counts` (n,) int32 and `places` (n,) int64: how many rows a probe has, and where its pairs go in `probes` and
    `stored`, int64. O(pairs).
    """
    floor, ordinal, cores, core = numbers
    take = 0
    base = (floor + 1) & LOW_32
    for i in range(first, last):
        at = places[U64(i)]
        for _ in range(counts[U64(i)]):
            probes[U64(at)] = ordinal + i
            stored[U64(at)] = (floor + ((types.int64(positions[U64(take)]) - base) & LOW_32)) * cores + core
            at += 1
            take += 1


@kernel(I64, I64, types.int64, types.int64, types.int64, types.int64, OUT_I64)
def number_rows(
    places: NDArray[np.int64],
    counts: NDArray[np.int64],
    first: int,
    last: int,
    cores: int,
    core: int,
    stored: NDArray[np.int64],
) -> None:
    """Turn the stored rows of probes first…last-1 from a core's numbers into the stream's, where they stand.

    `places` and `counts` (n,) int64: where the rows of each probe stand in `stored` int64, and how many. O(pairs).
    """
    for i in range(first, last):
        at = places[U64(i)]
        for place in range(at, at + counts[U64(i)]):
            stored[U64(place)] = stored[U64(place)] * cores + core


@kernel(I64, types.int64, types.int64, OUT_I64, OUT_I64, returns=types.int64)
def drop_unseen(
    seen_from: NDArray[np.int64],
    begin: int,
    end: int,
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    """Drop the rows that probes begin…end-1 do not see any more from `rows`, one probe after the other.

    `seen_from` (n,) int64: the first row that a probe sees. `rows` int64 are compacted, `counts` (n,) int64 updated.
    Returns how many rows are left. O(rows).
    """
    take = left = 0
    for i in range(begin, end):
        before, low = left, seen_from[U64(i)]
        for _ in range(counts[U64(i)]):
            row = rows[U64(take)]
            rows[U64(left)] = row
            left += row >= low
            take += 1
        counts[U64(i)] = left - before
    return left
