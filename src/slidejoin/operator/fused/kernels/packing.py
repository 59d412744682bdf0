"""Composite keys of a push, packed in one call: those that its rows are stored by, and the ranges that they probe.

A composite key has the values of several terms side by side, see `slidejoin.plan.composite_layout`. Each side's keys
are laid out for the values that have come on that side, so a row's own key and the range of keys that it probes are
packed for different layouts. What a layout says of each term is one *part*, some words in an array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.jit.compiling import I64, OUT_I32, OUT_I64, OUT_U32, U64, inlined, kernel, prefetch
from slidejoin.jit.vectors.fields import offsets
from slidejoin.jit.vectors.memory import i64_at
from slidejoin.jit.vectors.shifting import CALM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "COLUMN",
    "HIGHS",
    "KEPT_AS",
    "LOWS",
    "MOST_PARTS",
    "PACKED",
    "PACKING",
    "PART",
    "PARTS_AT",
    "PART_COUNT",
    "PROBED_AS",
    "SHIFTED_BY",
    "keep_between",
    "pack_keys",
    "pack_side",
]

MOST_PARTS = 8
"""Terms of a composite key that are packed here."""

(
    COLUMN,  # address of the values of this term's column
    KEPT_AS,  # in the layout of the rows' own side: smallest value with room, the largest, and the place of its bits
    SHIFTED_BY,  # a probe finds values from ``sign * value + lower`` to ``sign * value + upper``: sign, lower, upper
    PROBED_AS,  # in the layout of the side that is probed: as KEPT_AS
    PART,  # words of a part
) = offsets(1, 3, 3, 3)
"""What each part has."""

(
    PART_COUNT,  # how many parts
    PACKED,  # address of the room for the keys of the rows
    LOWS,  # address of the room for the lower ends of the ranges that they probe
    HIGHS,  # and for the upper ends
    PARTS_AT,  # the parts
    PACKING,  # words of a side
) = offsets(1, 1, 1, 1, MOST_PARTS * PART)
"""What each side has."""

AHEAD = 16
"""Prefetch distance of stored keys, in rows found."""

NOBODY = -(1 << 63)
"""The sign bit of an upper end, set where a probe matches nothing: keys are never negative."""


@inlined
def pack_side(words: NDArray[np.int64], side: int, rows: int) -> bool:
    """Pack one side's rows by the words that begin at `side`; return False if a value has no room, or is too large.

    The keys, lower and upper ends (rows,) int64 go where the words say; they mean nothing if False is returned.
    """
    keys = i64_at(words[U64(side + PACKED)], rows)
    lows, highs = i64_at(words[U64(side + LOWS)], rows), i64_at(words[U64(side + HIGHS)], rows)
    for i in range(rows):
        keys[U64(i)] = lows[U64(i)] = highs[U64(i)] = 0
    for number in range(words[U64(side + PART_COUNT)]):
        at = side + PARTS_AT + number * PART
        values = i64_at(words[U64(at + COLUMN)], rows)
        base, last, place = words[U64(at + KEPT_AS)], words[U64(at + KEPT_AS + 1)], words[U64(at + KEPT_AS + 2)]
        flip = words[U64(at + SHIFTED_BY)] >> 63
        lower, upper = words[U64(at + SHIFTED_BY + 1)], words[U64(at + SHIFTED_BY + 2)]
        first, end, sought = words[U64(at + PROBED_AS)], words[U64(at + PROBED_AS + 1)], words[U64(at + PROBED_AS + 2)]
        least, most, outside = max(base, 1 - CALM), min(last, CALM - 1), 0
        for i in range(rows):
            outside += (values[U64(i)] < least) | (values[U64(i)] > most)
        if outside > 0:
            return False
        for i in range(rows):
            value = values[U64(i)]
            keys[U64(i)] |= (value - base) << place
            turned = (value ^ flip) - flip
            low, high = turned + lower, turned + upper
            from_place, to_place = 0, NOBODY
            if low <= end and high >= first:
                from_place, to_place = (max(low, first) - first) << sought, (min(high, end) - first) << sought
            lows[U64(i)] |= from_place
            highs[U64(i)] |= to_place
    return True


@kernel(OUT_I64, types.int64, types.int64, returns=types.boolean)
def pack_keys(words: NDArray[np.int64], lefts: int, rights: int) -> bool:
    """Pack the keys of both sides' rows, so many of each; return False if a value has no room.

    words (2 * PACKING,) int64, see above: those of the left rows, then those of the right ones. O(rows * parts).
    """
    return bool(pack_side(words, 0, lefts) and pack_side(words, PACKING, rights))


@kernel(
    OUT_U32, types.int64, OUT_I32, types.int64, types.int64, I64, types.int64, types.int64, I64, I64,
    types.boolean, returns=types.int64,
)  # fmt: skip
def keep_between(
    found: NDArray[np.uint32],
    place: int,
    counts: NDArray[np.int32],
    begin: int,
    end: int,
    stored: NDArray[np.int64],
    columns: int,
    column: int,
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    between: bool,
) -> int:
    """Filter the rows that probes begin…end-1 found by one of the values beside them; return how many are left.

    found (places,) uint32 positions, one probe after the other from `place` on, are compacted; counts (n,) int32 are
    updated; stored (rows * columns,) int64, rows a power of two: the row with position p is at ``p & (rows - 1)``,
    and its value in that column is to lie `between` lows…highs, (n,) int64, of the probe, or not. O(found).
    """
    mask, take, at, total = stored.size // columns - 1, place, place, place
    for i in range(begin, end):
        total += counts[U64(i)]
    for i in range(begin, end):
        low, high, start = lows[U64(i)], highs[U64(i)], at
        for _ in range(counts[U64(i)]):
            prefetch(stored, (int(found[U64(min(take + AHEAD, total - 1))]) & mask) * columns)
            position = found[U64(take)]
            key = stored[U64((int(position) & mask) * columns + column)]
            found[U64(at)] = position
            at += ((low <= key) & (key <= high)) == between
            take += 1
        counts[U64(i)] = at - start
    return at - place
