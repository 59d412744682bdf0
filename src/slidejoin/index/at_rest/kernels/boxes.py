"""Finding the rows of boxes among rows at rest: a range of one key times a range of a second one.

Rows lie in the order of the first key. Each points to the nearest row before it with a larger second key, and what is
in between cannot reach a second key that it does not reach itself. So a walk from the end of a range jumps over rows
that are too small::

    which [low, high] contain 25?        low     0   3   7  20  24
    low <= 25: all, from the right      high    90   5  18  30  26
    26 reaches 25, 30 too, 18 does not: jump to 90, which does; nothing is before it.

For intervals that do not overlap this is one step. Where many jumps would follow each other, a tree of the largest
second keys of 16 rows, 16 nodes and so on tells the next row that reaches far enough: O((matches + 1) * log(rows)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I32, OUT_I64, OUT_I64_2D, OUT_U32, U32, U64, group, inlined, kernel
from slidejoin.jit.vectors.memory import place_of, prefetch_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "FAN_OUT", "FIELDS", "BoxProbes", "BoxRows", "RowsAtRest", "find_rows", "last_reaching", "link_rows", "list_maxima",
    "make_directory",
]  # fmt: skip

KEY, SECOND, LINK, FIELDS = range(4)
"""Of a row: both keys, and the place of the row that it points to, -1 for none, above 32 bits of its ordinal + 1."""

BASE, TOP, SHIFT, LEVELS = range(4)
"""Of the table: the smallest and the largest key, and by how many bits keys are shifted to a stretch of the directory;
from LEVELS on, where each level of the tree begins among the maxima."""

FAN_OUT, BITS = 16, 4
"""Rows or nodes under a node of the tree, and the bits of that number."""

LOW_32 = 0xFFFFFFFF
TOGETHER = 32
"""Probes whose rows are on their way from memory at once."""

NEAR = 8
"""Rows among which a place is looked for one by one."""

JUMPS = 12
"""Jumps in a row before the tree is read."""


class RowsAtRest(NamedTuple):
    """Rows at rest in the order of their first key.

    Attributes
    ----------
    records : (rows, FIELDS) int64
    directory : (places + 1,) uint32
        For each stretch of keys the first row of it, or of a later one.
    maxima : (nodes,) int64
        The largest second keys of the tree, level by level.
    frame : (LEVELS + levels,) int64
    """

    records: NDArray[np.int64]
    directory: NDArray[np.uint32]
    maxima: NDArray[np.int64]
    frame: NDArray[np.int64]


class BoxProbes(NamedTuple):
    """The boxes of n probes, all ends included.

    Attributes
    ----------
    low, high : (k, n) int64
        Ranges of the first key; empty ones have ``low > high``.
    least, most : (p, n) int64
        Ranges of the second key.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    least: NDArray[np.int64]
    most: NDArray[np.int64]


class BoxRows(NamedTuple):
    """Where the rows of boxes are written.

    Attributes
    ----------
    positions : (places,) uint32
        Takes the ordinal + 1 of each row, in 32 bits.
    counts : (n,) int32
        Takes the number of rows of each probe.
    written : (1,) int64
        Takes the place behind the last row.
    """

    positions: NDArray[np.uint32]
    counts: NDArray[np.int32]
    written: NDArray[np.int64]


ROWS, BOX_PROBES = group(RowsAtRest, I64_2D, U32, I64, I64), group(BoxProbes, *[I64_2D] * 4)
BOX_ROWS = group(BoxRows, OUT_U32, OUT_I32, OUT_I64)


@kernel(OUT_I64_2D)
def link_rows(records: NDArray[np.int64]) -> None:
    """Let each row point to the nearest one before it with a larger second key; it has its ordinal + 1 in LINK.

    Amortised O(rows).
    """
    for place in range(records.shape[0]):
        before = np.int64(place) - 1
        while before >= 0 and records[U64(before), SECOND] <= records[U64(place), SECOND]:
            before = records[U64(before), LINK] >> 32
        records[U64(place), LINK] = (before << 32) | (records[U64(place), LINK] & LOW_32)


@kernel(I64_2D, types.int64, types.int64, OUT_U32)
def make_directory(records: NDArray[np.int64], base: int, shift: int, directory: NDArray[np.uint32]) -> None:
    """Write where the keys of each stretch begin, `directory` (places + 1,) uint32. O(rows + places)."""
    at = np.int64(0)
    for place in range(records.shape[0]):
        stretch = (records[U64(place), KEY] >> shift) - (base >> shift)
        while at <= stretch:
            directory[U64(at)] = place
            at += np.int64(1)
    while at < directory.size:
        directory[U64(at)] = records.shape[0]
        at += np.int64(1)


@kernel(I64_2D, I64, OUT_I64)
def list_maxima(records: NDArray[np.int64], starts: NDArray[np.int64], maxima: NDArray[np.int64]) -> None:
    """Write the largest second keys of all nodes; each level begins in `maxima` where `starts` says. O(rows)."""
    rows = records.shape[0]
    for level in range(starts.size):
        nodes = (rows + FAN_OUT - 1) >> BITS
        for node in range(nodes):
            largest = np.int64(-(1 << 63))
            for child in range(node * FAN_OUT, min((node + 1) * FAN_OUT, rows)):
                one = records[U64(child), SECOND] if level == 0 else maxima[U64(starts[U64(level - 1)] + child)]
                largest = max(largest, one)
            maxima[U64(starts[U64(level)] + node)] = largest
        rows = nodes


@inlined
def _value(rows: Any, level: Any, place: Any) -> Any:  # noqa: ANN401 - Numba's types are untyped
    """Return the largest second key under a node; level -1 is that of the rows."""
    if level < 0:
        return rows.records[U64(place), SECOND]
    return rows.maxima[U64(rows.frame[U64(LEVELS + level)] + place)]


@kernel(ROWS, types.int64, types.int64, returns=types.int64)
def last_reaching(rows: RowsAtRest, place: int, least: int) -> int:
    """Return the last row up to a place whose second key is at least that; -1 if there is none. O(log rows)."""
    level, at, ends = -1, np.int64(place), False
    while not ends:
        first = at & ~np.int64(FAN_OUT - 1)
        while at >= first and _value(rows, level, at) < least:
            at -= 1
        if at >= first:
            break
        at, level = (first >> BITS) - 1, level + 1
        ends = bool(at < 0)
    if ends:
        return -1
    while level >= 0:
        level -= 1
        at = (at << BITS) | (FAN_OUT - 1)
        last = rows.records.shape[0] - 1
        at = min(at, last >> (BITS * (level + 1)))
        while _value(rows, level, at) < least:
            at -= 1
    return int(at)


@kernel(
    ROWS, BOX_PROBES, types.int64, types.int64, types.int64, types.int64, BOX_ROWS, returns=types.int64
)  # fmt: skip
def find_rows(  # noqa: C901, PLR0912 - one walk
    rows: RowsAtRest, probes: BoxProbes, first: int, last: int, total: int, limit: int, answer: BoxRows
) -> int:
    """Find the rows of the boxes of probes first…last-1, up to the first one whose rows have no room.

    Boxes have one range of each key. Rows are written from place `total` on, below `limit`; with a limit below 0 they
    are only counted. Returns the probe behind the last one that was answered. O(probes * log(rows) + matches).
    """
    (positions, counts, written), writes = answer, limit >= 0
    records, directory, frame = rows.records, rows.directory, rows.frame
    low, high, least, most = probes.low[0], probes.high[0], probes.least[0], probes.most[0]
    base, top, shift = frame[BASE], frame[TOP], frame[SHIFT]
    first_stretch, records_at, directory_at = base >> shift, place_of(records), place_of(directory)
    stretches, ends = np.empty(TOGETHER, np.int64), np.empty(TOGETHER, np.int64)
    for start in range(first, last, TOGETHER):
        together = min(TOGETHER, last - start)
        for t in range(together):
            highest = high[U64(start + t)]
            stretch = -1 if highest < base else (min(highest, top) >> shift) - first_stretch
            stretches[U64(t)] = stretch
            prefetch_at(directory_at + 4 * max(stretch, 0))
        for t in range(together):
            stretch = stretches[U64(t)]
            end = 0 if stretch < 0 else np.int64(directory[U64(stretch + 1)])
            ends[U64(t)] = end
            prefetch_at(records_at + 8 * FIELDS * max(end - 1, 0))
        for t in range(together):
            # Written out: with helpers for its parts it takes twice as long.
            i, stretch, end = U64(start + t), stretches[U64(t)], ends[U64(t)]
            lowest, highest, smallest, largest = low[i], high[i], least[i], most[i]
            if stretch >= 0:
                begin = np.int64(directory[U64(stretch)])
                while end - begin > NEAR:
                    middle = (begin + end) >> 1
                    if records[U64(middle), KEY] <= highest:
                        begin = middle
                    else:
                        end = middle
                while end > begin and records[U64(end - 1), KEY] > highest:
                    end -= 1
            place, before, jumps = end - 1, total, 0
            while place >= 0:
                if records[U64(place), KEY] < lowest:
                    break
                second = records[U64(place), SECOND]
                if second >= smallest:
                    if second <= largest:
                        if writes and total >= limit:
                            written[0] = before
                            return start + t
                        if writes:
                            positions[U64(total)] = np.uint32(records[U64(place), LINK] & LOW_32)
                        total += 1
                    place -= 1
                else:
                    place = records[U64(place), LINK] >> 32
                    jumps += 1
                    if jumps > JUMPS and place >= 0:
                        place = last_reaching(rows, place, smallest)
            counts[i] = total - before
    written[0] = total
    return last
