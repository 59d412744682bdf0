"""Composite keys of a push, packed in one call: those that its rows are stored by, and the ranges that they probe.

A composite key has the values of several terms side by side, see `slidejoin.plan.key_layout`. Each side's keys
are laid out for the values that have come on that side, so a row's own key and the range of keys that it probes are
packed for different layouts. What a layout says of each term is one *part*, a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.jit.compiling import OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.fields import record, records_in
from slidejoin.jit.vectors.memory import i64_at
from slidejoin.jit.vectors.shifting import CALM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MOST_PARTS", "PACKING", "PART", "PLACED", "pack_keys", "pack_side"]

MOST_PARTS = 8
"""Terms of a composite key that are packed here."""

PLACED = record(
    [
        "smallest",  # value with room
        "largest",
        "place",  # of its bits in a key
    ]
)
"""How the values of a term lie in the keys of one side."""

PART = record(
    [
        "column",  # address of the values of this term's column
        ("stored_as", PLACED),  # in the layout of the rows' own side
        "sign",  # a probe finds values from ``sign * value + lower``
        "lower",
        "upper",  # to ``sign * value + upper``
        ("probed_as", PLACED),  # in the layout of the side that is probed
    ]
)
"""What each part has."""

PACKING = record(
    [
        "part_count",  # how many parts
        "packed",  # address of the room for the keys of the rows
        "lows",  # address of the room for the lower ends of the ranges that they probe
        "highs",  # and for the upper ends
        ("parts", PART, MOST_PARTS),
    ]
)
"""What each side has."""

NOBODY = -(1 << 63)
"""The sign bit of an upper end, set where a probe matches nothing: keys are never negative."""


@inlined
def pack_side(packing: np.record, rows: int) -> bool:
    """Pack the rows of one side, a PACKING; return False if a value has no room, or is too large.

    The keys, lower and upper ends (rows,) int64 go where the record says; they mean nothing if False is returned.
    """
    keys, lows, highs = i64_at(packing.packed, rows), i64_at(packing.lows, rows), i64_at(packing.highs, rows)
    for i in range(rows):
        keys[U64(i)] = lows[U64(i)] = highs[U64(i)] = 0
    for number in range(packing.part_count):
        part = packing.parts[U64(number)]
        values = i64_at(part.column, rows)
        base, last, place = part.stored_as.smallest, part.stored_as.largest, part.stored_as.place
        flip, lower, upper = part.sign >> 63, part.lower, part.upper
        first, end, sought = part.probed_as.smallest, part.probed_as.largest, part.probed_as.place
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


packings_in = records_in(PACKING)


@kernel(OUT_I64, types.int64, types.int64, returns=types.boolean)
def pack_keys(words: NDArray[np.int64], lefts: int, rights: int) -> bool:
    """Pack the keys of both sides' rows, so many of each; return False if a value has no room.

    words: of two PACKING, that of the left rows and that of the right ones. O(rows * parts).
    """
    packings = packings_in(words)
    return bool(pack_side(packings[0], lefts) and pack_side(packings[1], rights))
