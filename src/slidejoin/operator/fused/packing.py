"""Composite keys of fused pushes: which columns they are packed from, and how, as words for kernels.

The layouts of keys change while a join runs: values without room make a wider one, and other terms may be indexed. So
the layouts are looked at before each push, and one that keys cannot be packed for here means that the general path
takes the push.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.protocol import CELLS
from slidejoin.jit.vectors.fields import WORD, word, words_for
from slidejoin.operator.fused.common import columns_of_terms
from slidejoin.operator.fused.kernels.packing import MOST_PARTS, PACKING, PART, PLACED, pack_keys
from slidejoin.predicate.ranges.shifts import CALM
from slidejoin.runtime.array_pool import address_of
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.key_layout import KeyLayout
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.ranges.terms import ShiftedColumn
    from slidejoin.sides import Side

__all__ = ["COLUMNS", "KeyPacking", "PackedKeys", "composite_columns"]

PART_COUNT, PACKED, LOWS, HIGHS = (word(PACKING, name) for name in ("part_count", "packed", "lows", "highs"))
PARTS = tuple(word(PACKING, "parts", number) for number in range(MOST_PARTS))
SIGN, LOWER, UPPER, STORED_AS, PROBED_AS = (
    word(PART, name) for name in ("sign", "lower", "upper", "stored_as", "probed_as")
)
SMALLEST, LARGEST, PLACE = (word(PLACED, name) for name in ("smallest", "largest", "place"))
"""Words of how a side's keys are packed, of a part, and of how its values lie."""

COLUMNS = tuple(word(PACKING, "parts", number, "column") for number in range(MOST_PARTS))
"""Where the address of each term's column is among the words of a side."""


def composite_columns(plan: Plan) -> dict[Side, tuple[ShiftedColumn, ...]]:
    """Return, for both sides, the columns of a composite key in cells; nothing if it is more than shifts of columns."""
    of = plan.composite
    if of is None or plan.index_terms(CELLS).key != of.terms or len(of.terms) > MOST_PARTS:
        return {}
    return columns_of_terms([plan.terms[place] for place in of.terms], _narrow)


def _narrow(column: ShiftedColumn) -> bool:
    """Tell whether a probe's range of that term is one that has two ends."""
    lows, highs = column.shift.lows, column.shift.highs
    return bool(lows.size == 1 and -CALM <= lows[0] <= highs[0] <= CALM)


class KeyPacking:
    """The words by which the composite keys of both sides are packed, always up to date.

    Parameters
    ----------
    plan : Plan
    windows : dict from side to SideWindow
    columns : dict from side to tuple of ShiftedColumn
        The `composite_columns`.
    words : memoryview
        Of int64, for kernels.
    at : dict from side to int
        Where the words of each side begin.
    """

    def __init__(
        self,
        plan: Plan,
        windows: Mapping[Side, SideWindow],
        columns: Mapping[Side, tuple[ShiftedColumn, ...]],
        words: memoryview,
        at: Mapping[Side, int],
    ) -> None:
        assert plan.composite is not None  # noqa: S101 - it has columns
        self._composite = plan.composite
        # The scope of a time window.
        self._further = tuple(place for place in range(len(plan.terms)) if place not in plan.composite.terms)
        self._left, self._right = windows["left"], windows["right"]
        self._words, self._at, self._fits = words, at, False
        self._layouts: tuple[KeyLayout | None, KeyLayout | None] = (None, None)
        for side in SIDES:
            words[at[side] + PART_COUNT] = len(columns[side])
            for number, column in enumerate(columns[side]):
                part, shift = at[side] + PARTS[number], column.shift
                words[part + SIGN], words[part + LOWER] = shift.sign, int(shift.lows[0])
                words[part + UPPER] = int(shift.highs[0])

    def give_room(self, side: Side, room: NDArray[np.int64]) -> None:
        """Set where the keys of a side go, and the lower and upper ends of what they probe: room (3, rows) int64."""
        begin = self._at[side]
        self._words[begin + PACKED], self._words[begin + LOWS], self._words[begin + HIGHS] = map(address_of, room)

    def look(self) -> bool:
        """Bring the words up to date; return False if keys are now laid out in another way than they are packed."""
        left, right = self._left.layout, self._right.layout
        if left is not self._layouts[0] or right is not self._layouts[1]:
            self._layouts = left, right
            self._fits = self._write({"left": left, "right": right})
        return self._fits

    def _write(self, layouts: Mapping[Side, KeyLayout]) -> bool:
        for side, layout in layouts.items():
            (own,) = layout.branches
            if own.of != self._composite or own.closing is not None:
                return False
            # What is hashed or divided is a further dimension, too, and so are terms that are not in the key.
            if own.dims != self._further or own.parts is None:
                return False
            ends = [*own.parts] if own.of.range is None else [*own.parts, own.span]
            place = sum(part.bits for part in ends)
            for number, part in enumerate(ends):
                place -= part.bits
                for whose, at in ((side, STORED_AS), (other(side), PROBED_AS)):
                    begin = self._at[whose] + PARTS[number] + at
                    self._words[begin + SMALLEST], self._words[begin + LARGEST] = part.base, part.last
                    self._words[begin + PLACE] = place
        return True


class PackedKeys:
    """The composite keys of pushes of any size, packed into memory that the next push uses again.

    Parameters
    ----------
    plan, windows, columns
        As of `KeyPacking`.
    """

    def __init__(
        self, plan: Plan, windows: Mapping[Side, SideWindow], columns: Mapping[Side, tuple[ShiftedColumn, ...]]
    ) -> None:
        self._pack = words_for(PACKING, 2)
        self._words = memoryview(self._pack.data)
        self._at: dict[Side, int] = {"left": 0, "right": PACKING.itemsize // WORD.itemsize}
        self._packing = KeyPacking(plan, windows, columns, self._words, self._at)
        self._room: dict[Side, NDArray[np.int64]] = dict.fromkeys(SIDES, np.empty((3, 0), np.int64))

    def keys(self, parts: Mapping[Side, Sequence[NDArray[np.int64]]]) -> dict[Side, NDArray[np.int64]]:
        """Return the keys of both sides, (n,) int64, until the next call; nothing if a value has no room.

        `parts` are the values of each term of the key, (n,) int64 each.
        """
        if not self._packing.look():
            return {}
        rows: dict[Side, int] = {}
        for side, values in parts.items():
            rows[side] = values[0].size
            if self._room[side].shape[1] < rows[side]:
                self._room[side] = np.empty((3, 2 * rows[side]), np.int64)
                self._packing.give_room(side, self._room[side])
            for term, column in enumerate(values):
                self._words[self._at[side] + COLUMNS[term]] = address_of(column)
        if not pack_keys(self._pack, rows["left"], rows["right"]):
            return {}
        return {side: self._room[side][0, : rows[side]] for side in SIDES}

    def ends(self, side: Side) -> tuple[int, int]:
        """Return the addresses of the lower and the upper ends of what the packed rows of a side probe."""
        begin = self._at[side]
        return self._words[begin + LOWS], self._words[begin + HIGHS]
