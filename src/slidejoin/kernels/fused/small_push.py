"""A small push in one call: order, keeping rows, inserting, probing, weaving and gathering, by one thread.

Each of these steps is a microsecond of work in a push of a few rows, and each call from Python as much again. All that
the steps need to know lies in two arrays of addresses and numbers: the work of a push (`kernels.fused.work`), and
beside it what is *brief*, which is what Python does by itself in larger pushes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.kernels.cells.placing import FLOOR
from slidejoin.kernels.cells.probing import ARRIVED, VIEW
from slidejoin.kernels.common.memory import i64_at
from slidejoin.kernels.fused.pushing import meet
from slidejoin.kernels.fused.work import ASIDE, FIRST, FLOOR_OF, LEFT, ORDINAL, RIGHT, TABLE, VIEWED, WOVEN
from slidejoin.kernels.ingest.ordering import MERGE_RANKS, RISE
from slidejoin.kernels.jit.compiling import OUT_I64, U64, inlined, kernel
from slidejoin.kernels.rows.copying import copy_8, copy_16, copy_32, copy_64
from slidejoin.kernels.rows.records import gather_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BRIEF",
    "BY",
    "GATHERED",
    "HELD",
    "KEPT",
    "KEY",
    "LEFT_SIDE",
    "MOST_COLUMNS",
    "OF_COLUMN",
    "ORDERED",
    "PLACES",
    "PUT",
    "RANKS",
    "RECORD",
    "RIGHT_SIDE",
    "RING",
    "ROWS",
    "SEEN",
    "SHIFTED",
    "STRIDE",
    "TAKEN",
    "UNITS",
    "UNORDERED",
    "WRITTEN",
    "push_briefly",
]

MOST_COLUMNS, OF_COLUMN = 16, 3
"""Columns of a side that are kept or put out, and what is told of each: see HELD and GATHERED."""

ROWS, KEY, BY, RANKS, SEEN, RECORD, STRIDE, KEPT, RING, UNITS, SHIFTED, TAKEN, HELD = range(13)
"""What each side has: how many ROWS come; where their KEY and what they are ordered BY lie (addresses), and room for
their RANKS; how many rows were SEEN before them; where the first RECORD goes (address), the STRIDE from one to the next
and how many columns are KEPT in it; where records are found, see `gather_rows`: the RING of addresses, its UNITS and
by how much ordinals are SHIFTED; how many columns are TAKEN out for the pairs. Of each column that is kept, from HELD
on: its values (address), its offset in the record, its width in bytes."""

GATHERED = HELD + MOST_COLUMNS * OF_COLUMN
"""Of each column that is taken out, from here on: its offset, its width, and where it goes (address)."""

SIDE = GATHERED + MOST_COLUMNS * OF_COLUMN
LEFT_SIDE, RIGHT_SIDE, BOTH = 0, SIDE, 2 * SIDE

ORDERED, PUT, PLACES, WRITTEN, BRIEF = BOTH, BOTH + 1, BOTH + 2, BOTH + 3, BOTH + 5
"""Of both: whether rows come in the order of the values BY which they are; whether pairs of right probes may be PUT
aside, see ASIDE; PLACES for pairs; where their left and right ordinals are WRITTEN (two addresses)."""

UNORDERED = -3
"""Why nothing was done, beside the reasons of `slidejoin.kernels.fused.pushing`: a side's sort values do not ascend."""

rise, merge_ranks = RISE[np.dtype(np.int64)], MERGE_RANKS[np.dtype(np.int64)]


@inlined
def _keep(brief: NDArray[np.int64], at: int) -> None:
    """Copy the columns of one side's rows into their records."""
    rows, record, stride = brief[U64(at + ROWS)], brief[U64(at + RECORD)], brief[U64(at + STRIDE)]
    for column in range(brief[U64(at + KEPT)]):
        one = at + HELD + column * OF_COLUMN
        source, target, width = brief[U64(one)], record + brief[U64(one + 1)], brief[U64(one + 2)]
        for n in range(rows):
            if width == 8:  # noqa: PLR2004 - bytes
                copy_64(target + n * stride, source + n * 8)
            elif width == 4:  # noqa: PLR2004
                copy_32(target + n * stride, source + n * 4)
            elif width == 2:  # noqa: PLR2004
                copy_16(target + n * stride, source + n * 2)
            else:
                copy_8(target + n * stride, source + n)


@inlined
def _look_at(work: NDArray[np.int64], at: int, seen: int, stored: int) -> None:
    """Note what one side's probes meet: so many rows were `seen` of theirs, and `stored` of the other side."""
    state, view = i64_at(work[U64(at + TABLE + 4)], work[U64(at + TABLE + 5)]), i64_at(work[U64(at + VIEWED)], VIEW)
    work[U64(at + FIRST)] = view[ARRIVED] = stored
    work[U64(at + ORDINAL)], work[U64(at + FLOOR_OF)] = seen, state[FLOOR]


@inlined
def _gather(brief: NDArray[np.int64], at: int, ordinals: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
    count, units = brief[U64(at + TAKEN)], brief[U64(at + UNITS)]
    if count > 0:
        columns = brief[at + GATHERED : at + GATHERED + count * OF_COLUMN].reshape(count, OF_COLUMN)
        ring = i64_at(brief[U64(at + RING)], units)
        gather_rows(ring, brief[U64(at + SHIFTED)], units - 1, brief[U64(at + STRIDE)], ordinals, columns, sizes)


@kernel(OUT_I64, OUT_I64)
def push_briefly(work: NDArray[np.int64], brief: NDArray[np.int64]) -> None:
    """Do all of a small push, and note how many pairs are WOVEN in the work (WORK,) int64, or why none are.

    brief (BRIEF,) int64, see above. If rows are UNORDERED nothing is done; otherwise they are kept, and inserted as far
    as that went, see `kernels.fused.pushing.meet`. Columns are taken out only if pairs are woven. O(rows + pairs).
    """
    lefts, rights = brief[LEFT_SIDE + ROWS], brief[RIGHT_SIDE + ROWS]
    left_rank, right_rank = i64_at(brief[LEFT_SIDE + RANKS], lefts), i64_at(brief[RIGHT_SIDE + RANKS], rights)
    if brief[ORDERED] != 0:
        left_by, right_by = i64_at(brief[LEFT_SIDE + BY], lefts), i64_at(brief[RIGHT_SIDE + BY], rights)
        if not rise(left_by, right_by):
            work[WOVEN] = UNORDERED
            return
        merge_ranks(left_by, right_by, left_rank, right_rank)
    else:
        for n in range(lefts):
            left_rank[n] = n
        for n in range(rights):
            right_rank[n] = lefts + n
    _keep(brief, LEFT_SIDE)
    _keep(brief, RIGHT_SIDE)
    _look_at(work, LEFT, brief[LEFT_SIDE + SEEN], brief[RIGHT_SIDE + SEEN])
    _look_at(work, RIGHT, brief[RIGHT_SIDE + SEEN], brief[LEFT_SIDE + SEEN])
    left_keys, right_keys = i64_at(brief[LEFT_SIDE + KEY], lefts), i64_at(brief[RIGHT_SIDE + KEY], rights)
    left, right = i64_at(brief[WRITTEN], brief[PLACES]), i64_at(brief[WRITTEN + 1], brief[PLACES])
    work[ASIDE] = brief[PUT]
    meet(work, False, left_keys, right_keys, left_rank, right_rank, left, right)  # noqa: FBT003 - a kernel's
    pairs = work[WOVEN]
    if pairs > 0:
        sizes = np.empty(MOST_COLUMNS, np.int64)
        _gather(brief, LEFT_SIDE, left[:pairs], sizes)
        _gather(brief, RIGHT_SIDE, right[:pairs], sizes)
