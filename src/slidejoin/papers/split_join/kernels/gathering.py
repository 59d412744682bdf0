"""Rows that a join core found, by its own numbers: back to the ordinals of the stream, each in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.jit.compiling import I32, I64, OUT_I64, U32, U64, kernel
from slidejoin.jit.vectors.vectors import LOW_32

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["drop_unseen", "number_rows", "put_positions"]


@kernel(U32, types.int64, I32, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64, I64,
        OUT_I64, OUT_I64)  # fmt: skip
def put_positions(
    found: NDArray[np.uint32],
    take: int,
    counts: NDArray[np.int32],
    first: int,
    last: int,
    floor: int,
    ordinal: int,
    cores: int,
    core: int,
    places: NDArray[np.int64],
    probes: NDArray[np.int64],
    stored: NDArray[np.int64],
) -> None:
    """Write the pairs of probes first…last-1 of one core, whose positions stand in `found` from `take` on.

    A position is a row's number in the core and one, in 32 bits, from `floor` on; row n of core c is row ``n * cores +
    c`` of the stream. `counts` (n,) int32 and `places` (n,) int64: how many rows a probe has, and where its pairs go in
    `probes` and `stored`, int64; the first of all probes has that `ordinal`. O(pairs).
    """
    base = (floor + 1) & LOW_32
    for i in range(first, last):
        at = places[U64(i)]
        for _ in range(counts[U64(i)]):
            probes[U64(at)] = ordinal + i
            stored[U64(at)] = (floor + ((types.int64(found[U64(take)]) - base) & LOW_32)) * cores + core
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
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    """Drop the rows that probes begin…end-1 do not see any more from `found`, one probe after the other.

    `seen_from` (n,) int64: the first row that a probe sees. `found` int64 is compacted, `counts` (n,) int64 updated.
    Returns how many rows are left. O(rows).
    """
    take = kept = 0
    for i in range(begin, end):
        before, low = kept, seen_from[U64(i)]
        for _ in range(counts[U64(i)]):
            row = found[U64(take)]
            found[U64(kept)] = row
            kept += row >= low
            take += 1
        counts[U64(i)] = kept - before
    return kept
