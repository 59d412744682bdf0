"""Steps of a join of many streams: what wide rows see of a stored stream, and the wider rows that they become."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I64, OUT_I64_2D, U32, U64, kernel
from slidejoin.jit.vectors.vectors import LOW_32

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["count_before", "rank_probes", "widen_found", "widen_pairs"]

U32_OF = np.uint32


@kernel(I64, types.int64, OUT_I64)
def count_before(ranks: NDArray[np.int64], start: int, before: NDArray[np.int64]) -> None:
    """Count how many rows of a stream had arrived before each arrival, `start` of them before the first.

    ranks (n,) int64 ascending are the stream's places in the arrival order; before (arrivals + 1,) int64. O(arrivals).
    Streams that come one after the other have consecutive places, which takes a tenth of the time.
    """
    at, rows = 0, ranks.size
    if rows and ranks[U64(rows - 1)] - ranks[0] == rows - 1:
        first = ranks[0]
        for arrival in range(first):
            before[U64(arrival)] = start
        for arrival in range(rows):
            before[U64(first + arrival)] = start + arrival
        for arrival in range(first + rows, before.size):
            before[U64(arrival)] = start + rows
        return
    for arrival in range(before.size):
        before[U64(arrival)] = start + at
        if at < rows and ranks[U64(at)] == arrival:
            at += 1


@kernel(I64, I64, I64, types.int64, OUT_I64)
def rank_probes(
    before: NDArray[np.int64],
    ranks: NDArray[np.int64],
    producers: NDArray[np.int64],
    arrived: int,
    out: NDArray[np.int64],
) -> None:
    """Place wide rows among the rows of a stored stream, as if they had arrived where their producers did.

    before (arrivals + 1,) int64 as of `count_before`; ranks (p,) int64 of the producing rows; producers (n,) int64 of
    the wide rows, ascending; `arrived` stored rows came before all. out (n,) int64: the place of each in the order of
    those wide rows and the stored rows from there on. O(n).
    """
    for i in range(producers.size):
        out[U64(i)] = before[U64(ranks[U64(producers[U64(i)])])] - arrived + i


@kernel(I64, I64_2D, I32, U32, types.int64, types.int64, types.int64, OUT_I64, OUT_I64_2D)
def widen_found(
    producers: NDArray[np.int64],
    values: NDArray[np.int64],
    counts: NDArray[np.int32],
    found: NDArray[np.uint32],
    base: int,
    first: int,
    last: int,
    wider_producers: NDArray[np.int64],
    wider: NDArray[np.int64],
) -> None:
    """Write the wider rows that wide rows first…last-1 become with the stored rows that they found.

    producers (n,) int64 and values (lines, n) int64 of the wide rows; counts (n,) int32 and found (places,) uint32
    positions, one wide row after the other; positions count from base + 1. wider_producers (k,) int64, wider
    (lines + 1, k) int64, whose last line are the stored rows' ordinals. O(n + k · lines).

    Two places are written for a wide row that found up to two, and overwritten by the next ones: how many a row found
    is hard to foresee, and a wrong guess of the processor takes longer than to write both.
    """
    lines, at, total = values.shape[0], 0, wider_producers.size
    lowest = U32_OF((base + 1) & LOW_32)
    for i in range(first, last):
        if counts[U64(i)] <= 2 and at + 2 <= total:  # noqa: PLR2004 - see above
            wider_producers[U64(at)] = wider_producers[U64(at + 1)] = producers[U64(i)]
            for line in range(lines):
                wider[U64(line), U64(at)] = wider[U64(line), U64(at + 1)] = values[U64(line), U64(i)]
            wider[U64(lines), U64(at)] = base + ((int(found[U64(at)]) - int(lowest)) & LOW_32)
            wider[U64(lines), U64(at + 1)] = base + ((int(found[U64(at + 1)]) - int(lowest)) & LOW_32)
            at += counts[U64(i)]
            continue
        for _ in range(counts[U64(i)]):
            wider_producers[U64(at)] = producers[U64(i)]
            for line in range(lines):
                wider[U64(line), U64(at)] = values[U64(line), U64(i)]
            wider[U64(lines), U64(at)] = base + ((int(found[U64(at)]) - int(lowest)) & LOW_32)
            at += 1


@kernel(I64, I64_2D, I64, I64, OUT_I64, OUT_I64_2D)
def widen_pairs(
    producers: NDArray[np.int64],
    values: NDArray[np.int64],
    places: NDArray[np.int64],
    stored: NDArray[np.int64],
    wider_producers: NDArray[np.int64],
    wider: NDArray[np.int64],
) -> None:
    """Write the wider rows of pairs: wide row ``places[j]`` with the stored row of ordinal ``stored[j]``, both (k,).

    The others as of `widen_found`. O(k · lines).
    """
    lines = values.shape[0]
    for j in range(places.size):
        i = U64(places[U64(j)])
        wider_producers[U64(j)] = producers[i]
        for line in range(lines):
            wider[U64(line), U64(j)] = values[U64(line), i]
        wider[U64(lines), U64(j)] = stored[U64(j)]
