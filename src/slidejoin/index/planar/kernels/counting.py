"""Counting the rows of corners: those before a place by the first key, and below a rank by the second one.

A wavelet matrix over the ranks (Claude, Navarro, Ordonez 2015, with symbols of four bits): each level sorts rows by
four more bits of their ranks, stably, so that rows whose leading bits are equal stand side by side in the order of the
first key. Ranks are the numbers 0…n-1, each once: where such rows begin, and how many symbols of each kind stand before
them, follows from the bits alone. The last bits, up to eight, are compared by vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.index.planar.kernels.lanes import LANES, bytes_below, bytes_equal, lanes_in
from slidejoin.index.planar.kernels.reporting import BASE, BOX_PLACES, ROWS, SIZE, SYMBOLS, BoxPlaces
from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, OUT_U32, U32, U64, inlined, kernel
from slidejoin.jit.vectors.memory import load_32, prefetch_at
from slidejoin.jit.vectors.vectors import borrowed
from slidejoin.jit.vectors.words import load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BITS", "LAST_BITS", "OUT_U8", "RECORD", "count_boxes", "fill_last", "fill_level"]

OUT_U8 = types.Array(types.uint8, 1, "C")

BITS, SYMBOLS_OF = 4, 16
LAST_BITS = 8
"""Bits of the last level at most: 256 bytes are compared by four vectors, as much as two more levels take."""

RECORD = 128
"""Bytes of a record: for 16 symbols, uint32, how many smaller ones stand before it in its level, then 64 symbols."""


@kernel(U32, types.int64, types.int64, OUT_U32, OUT_U32, OUT_U32, OUT_U8)
def fill_level(
    ranks: NDArray[np.uint32],
    size: int,
    shift: int,
    ends: NDArray[np.uint32],
    sums: NDArray[np.uint32],
    sorted_ranks: NDArray[np.uint32],
    records: NDArray[np.uint8],
) -> None:
    """Write the records of one level, and its ranks in the order of the next one.

    `ranks` (size,) uint32 in the order of this level, sorted by all bits above `shift` + BITS; `ends` scratch, at
    least one for each value of the bits above `shift`; `sums` (records * RECORD / 4,) uint32 and `records` uint8 the
    same memory. O(size).
    """
    for node in range(((size - 1) >> shift) + 1):
        ends[U64(node)] = node << shift
    counts = np.zeros(SYMBOLS_OF, np.uint32)
    own = borrowed(counts)
    for begin in range(0, size + 1, LANES):
        record = begin // LANES * RECORD
        smaller: Any = np.int64(0)
        for symbol in range(SYMBOLS_OF):
            sums[U64(record // 4 + symbol)] = smaller
            smaller += own[U64(symbol)]
        for place in range(begin, min(begin + LANES, size)):
            rank: Any = np.int64(ranks[U64(place)])
            symbol = (rank >> shift) & (SYMBOLS_OF - 1)
            records[U64(record + LANES + place - begin)] = symbol
            own[U64(symbol)] += 1
            to: Any = U64(rank >> shift)
            sorted_ranks[U64(ends[to])] = rank
            ends[to] += 1
    counts[0] = 0  # see `borrowed`


@kernel(U32, types.int64, types.int64, OUT_U8)
def fill_last(ranks: NDArray[np.uint32], size: int, bits: int, low: NDArray[np.uint8]) -> None:
    """Write the last `bits` of ranks, in the order of the last level, to `low` (size + LANES,) uint8. O(size)."""
    for place in range(size):
        low[U64(place)] = ranks[U64(place)] & ((1 << bits) - 1)


@inlined
def _first_lanes(lanes: Any) -> Any:  # noqa: ANN401
    return (U64(1) << U64(lanes)) - U64(1)


TOGETHER = 64
"""Probes whose corners go down together: each one's next record is on its way from memory meanwhile."""

MOST_CORNERS = 4 * TOGETHER

LOW_HALF = 0xFFFFFFFF


@kernel(types.int64, types.int64, OUT_I64, OUT_I64, OUT_I64)
def count_corners(
    symbols: int, corners: int, places: NDArray[np.int64], ranks: NDArray[np.int64], counts: NDArray[np.int64]
) -> None:
    """Count for each corner the rows before its place that have a smaller rank.

    `symbols` is the address of a line: levels, bits of the last one, address of each level's records and of the last
    level's bytes. `places` and `ranks` (corners,) int64, neither 0 nor all rows; places are overwritten. O(levels).
    """
    levels, last_bits = load_key(symbols), load_key(symbols + 8)
    for t in range(corners):
        counts[U64(t)] = 0
    for level in range(levels):
        shift = last_bits + BITS * (levels - 1 - level)
        records, after = load_key(symbols + 16 + 8 * level), load_key(symbols + 24 + 8 * level)
        is_last = level == levels - 1
        for t in range(corners):
            place, rank = places[U64(t)], ranks[U64(t)]
            symbol, node = (rank >> shift) & (SYMBOLS_OF - 1), rank >> (shift + BITS)
            record, lanes = records + (place >> 6) * RECORD, _first_lanes(place & (LANES - 1))
            smaller = np.int64(load_32(record + 4 * symbol))
            beyond = place & ~np.int64(LANES - 1)
            if symbol < SYMBOLS_OF - 1:
                beyond = np.int64(load_32(record + 4 * symbol + 4))
            below = lanes_in(bytes_below(record + LANES, symbol) & lanes)
            equal = lanes_in(bytes_equal(record + LANES, symbol) & lanes)
            # The nodes before this one are whole: each has as many rows of every symbol.
            counts[U64(t)] += smaller + below - ((node * symbol) << shift)
            place = beyond - smaller + equal - (node << shift) + ((rank >> shift) << shift)
            places[U64(t)] = place
            if is_last:
                prefetch_at(after + ((rank >> shift) << shift))
                prefetch_at(after + ((rank >> shift) << shift) + LANES)
            else:
                prefetch_at(after + (place >> 6) * RECORD)
                prefetch_at(after + (place >> 6) * RECORD + LANES)
    low = load_key(symbols + 16 + 8 * levels)
    for t in range(corners):
        place, rank = places[U64(t)], ranks[U64(t)]
        at, bound, below = (rank >> last_bits) << last_bits, rank & ((1 << last_bits) - 1), np.int64(0)
        while at + LANES <= place:
            below += lanes_in(bytes_below(low + at, bound))
            at += LANES
        if at < place:
            below += lanes_in(bytes_below(low + at, bound) & _first_lanes(place - at))
        counts[U64(t)] += below


@inlined
def _corner(place: Any, rank: Any, size: Any, sign: Any, at: Any, corners: Any) -> Any:  # noqa: ANN401
    """Add a corner, if it is inside of the run, and return how many there are, and what others count at once."""
    if 0 < place < size and 0 < rank < size:
        corners[U64(0), U64(at)], corners[U64(1), U64(at)], corners[U64(3), U64(at)] = place, rank, sign
        return at + 1, np.int64(0)
    return at, sign * min(place, rank) * np.int64(place > 0 and rank > 0)


@kernel(I64_2D, BOX_PLACES, I64, I64, OUT_I64)
def count_boxes(
    table: NDArray[np.int64],
    located: BoxPlaces,
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Add to `counts` (n,) int64 the rows of each probe's boxes in runs that it sees as a whole, or not at all.

    `table` as in `kernels.reporting.report`; all runs have symbols. `seen_from` and `seen_to` (n,) int64: a run that is
    not within these ordinals has no row for the probe. O(k * p * runs * n).
    """
    boxes, sides, order, side_lines = located
    runs, n, places = table.shape[0], order.size, np.empty((4, MOST_CORNERS), np.int64)
    owners = np.empty(MOST_CORNERS, np.int64)
    corners, whose = borrowed(places), borrowed(owners)
    for r in range(runs):
        size, base, rows = table[r, SIZE], table[r, BASE], table[r, ROWS]
        for column in range(r, boxes.shape[1], runs):
            for other in range(r, sides.shape[1], runs):
                for first in range(0, n, TOGETHER):
                    at = 0
                    for t in range(first, min(first + TOGETHER, n)):
                        i = U64(order[U64(t)])
                        if base < seen_from[i] or base + rows > seen_to[i]:
                            continue
                        box, side = boxes[U64(t), U64(column)], sides[U64(side_lines[i]), U64(other)]
                        begin, end, low, high = box >> 32, box & LOW_HALF, side >> 32, side & LOW_HALF
                        if begin >= end or low >= high:
                            continue
                        before, total = at, np.int64(0)
                        at, known = _corner(end, high, size, 1, at, corners)
                        total += known
                        at, known = _corner(begin, high, size, -1, at, corners)
                        total += known
                        at, known = _corner(end, low, size, -1, at, corners)
                        total += known
                        at, known = _corner(begin, low, size, 1, at, corners)
                        counts[i] += total + known
                        for corner in range(before, at):
                            whose[U64(corner)] = np.int64(i)
                    count_corners(table[r, SYMBOLS], at, corners[0], corners[1], corners[2])
                    for corner in range(at):
                        counts[U64(whose[U64(corner)])] += corners[U64(3), U64(corner)] * corners[U64(2), U64(corner)]
    places[0, 0] = owners[0]  # see `borrowed`
