"""A small push in two kernel calls of one thread: find columns and order rows; then store, insert, probe and gather.

Each of these steps takes a microsecond in a push of a few rows, and each call from Python as much again. The parameters
of all steps are in two arrays of addresses and numbers: the work of a push (`kernels.work`), and the columns of a
small push; in larger pushes Python handles the columns itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.index.cells.kernels.placing import FLOOR
from slidejoin.index.kernels.view import ARRIVED, VIEW
from slidejoin.jit.compiling import OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.fields import offsets
from slidejoin.jit.vectors.memory import i64_at
from slidejoin.operator.fused.kernels.packing import HIGHS, LOWS, PACKING, PART_COUNT, pack_side
from slidejoin.operator.fused.kernels.pushing import meet
from slidejoin.operator.fused.kernels.work import (
    ASIDE,
    FIRST,
    FLOOR_OF,
    LEFT,
    LOWER,
    ORDINAL,
    RIGHT,
    TABLE,
    UPPER,
    VIEWED,
    WOVEN,
)
from slidejoin.operator.ingest.kernels.ordering import MERGE_RANKS, RISE
from slidejoin.rows.kernels.copying import copy_8, copy_16, copy_32, copy_64
from slidejoin.rows.kernels.exported import LISTED, find_values
from slidejoin.rows.kernels.records import gather_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BY",
    "EXPORTED",
    "GATHERED",
    "HELD",
    "KEPT",
    "KEY",
    "LEFT_SIDE",
    "LISTS",
    "MOST_COLUMNS",
    "OF_COLUMN",
    "ORDERED",
    "PACK",
    "PLACES",
    "PUT",
    "RANKS",
    "RECORD",
    "RIGHT_SIDE",
    "RING",
    "ROWS",
    "SEEN",
    "SHIFTED",
    "SMALL",
    "STRIDE",
    "TAKEN",
    "UNITS",
    "WRITTEN",
    "order_small",
    "push_small",
]

MOST_COLUMNS, OF_COLUMN = 16, 3
"""Columns of a side that are stored or output, and the fields of each: see HELD and GATHERED."""

(
    ROWS,  # how many rows come
    EXPORTED,  # address of their batch, see `rows.kernels.exported`
    LISTS,  # address of the list of its columns that are read, and how many there are
    KEY,  # address of their keys
    BY,  # address of what they are ordered by
    RANKS,  # address of the room for their ranks
    SEEN,  # how many rows came before them
    RECORD,  # address of the first record
    STRIDE,  # bytes from one record to the next
    KEPT,  # columns of a record
    RING,  # address of the ring of addresses in which records are found, see `gather_rows`
    UNITS,  # of this ring
    SHIFTED,  # by how much ordinals are shifted for it
    TAKEN,  # columns that are taken out for the pairs
    HELD,  # of each column that is kept: its values (address), its offset in the record, its width in bytes
    GATHERED,  # of each column that is taken out: its offset, its width, and where it goes (address)
    PACK,  # how composite keys are packed, see `operator.fused.kernels.packing`; zeros where keys are a column as it is
    SIDE,  # words of a side
) = offsets(1, 1, 2, *[1] * 11, MOST_COLUMNS * OF_COLUMN, MOST_COLUMNS * OF_COLUMN, PACKING)
"""What each side has."""

LEFT_SIDE, RIGHT_SIDE, BOTH = offsets(SIDE, SIDE)
"""Where the words of each side begin, and those of both."""

ORDERED, PUT, PLACES, WRITTEN, SMALL = offsets(1, 1, 1, 2, start=BOTH)
"""Of both: whether rows come in the order of the values BY which they are; whether pairs of right probes may be PUT
aside, see ASIDE; PLACES for pairs; where their left and right ordinals are WRITTEN (two addresses)."""

rise, merge_ranks = RISE[np.dtype(np.int64)], MERGE_RANKS[np.dtype(np.int64)]


@inlined
def _keep(small: NDArray[np.int64], at: int) -> None:
    """Copy the columns of one side's rows into their records."""
    rows, record, stride = small[U64(at + ROWS)], small[U64(at + RECORD)], small[U64(at + STRIDE)]
    for column in range(small[U64(at + KEPT)]):
        one = at + HELD + column * OF_COLUMN
        source, target, width = small[U64(one)], record + small[U64(one + 1)], small[U64(one + 2)]
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
    """Set the view of one side's probes: `seen` rows of their own side, and `stored` rows of the other side."""
    state, view = i64_at(work[U64(at + TABLE + 4)], work[U64(at + TABLE + 5)]), i64_at(work[U64(at + VIEWED)], VIEW)
    work[U64(at + FIRST)] = view[ARRIVED] = stored
    work[U64(at + ORDINAL)], work[U64(at + FLOOR_OF)] = seen, state[FLOOR]


@inlined
def _gather(small: NDArray[np.int64], at: int, ordinals: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
    count, units = small[U64(at + TAKEN)], small[U64(at + UNITS)]
    if count > 0:
        columns = small[at + GATHERED : at + GATHERED + count * OF_COLUMN].reshape(count, OF_COLUMN)
        ring = i64_at(small[U64(at + RING)], units)
        gather_rows(ring, small[U64(at + SHIFTED)], units - 1, small[U64(at + STRIDE)], ordinals, columns, sizes)


@inlined
def _read(small: NDArray[np.int64], at: int) -> bool:
    """Find the columns of one side's rows."""
    listed = i64_at(small[U64(at + LISTS)], LISTED * small[U64(at + LISTS + 1)]).reshape(-1, LISTED)
    return bool(small[U64(at + ROWS)] == 0 or find_values(small[U64(at + EXPORTED)], listed, small))


@kernel(OUT_I64, returns=types.boolean)
def order_small(small: NDArray[np.int64]) -> bool:
    """Find the columns of a small push, and write its RANKS and composite keys.

    Return False if it is to be taken in another way: if a column has NULLs, if sort values do not ascend on both sides,
    or a value has no room in a composite key. small (SMALL,) int64, see above. O(rows).
    """
    lefts, rights = small[LEFT_SIDE + ROWS], small[RIGHT_SIDE + ROWS]
    if not (_read(small, LEFT_SIDE) and _read(small, RIGHT_SIDE)):
        return False
    if small[LEFT_SIDE + PACK + PART_COUNT] > 0 and not (
        pack_side(small, LEFT_SIDE + PACK, lefts) and pack_side(small, RIGHT_SIDE + PACK, rights)
    ):
        return False
    left_rank, right_rank = i64_at(small[LEFT_SIDE + RANKS], lefts), i64_at(small[RIGHT_SIDE + RANKS], rights)
    if small[ORDERED] != 0:
        left_by, right_by = i64_at(small[LEFT_SIDE + BY], lefts), i64_at(small[RIGHT_SIDE + BY], rights)
        if not rise(left_by, right_by):
            return False
        merge_ranks(left_by, right_by, left_rank, right_rank)
    else:
        for n in range(lefts):
            left_rank[n] = n
        for n in range(rights):
            right_rank[n] = lefts + n
    return True


@kernel(OUT_I64, OUT_I64)
def push_small(work: NDArray[np.int64], small: NDArray[np.int64]) -> None:
    """Do all steps of a small push, and write to the work (WORK,) int64 how many pairs are WOVEN, or why none are.

    small (SMALL,) int64, see above. Rows are stored, and inserted as far as possible, see `kernels.pushing.meet`.
    Columns are gathered only if pairs are woven. O(rows + pairs).
    """
    lefts, rights = small[LEFT_SIDE + ROWS], small[RIGHT_SIDE + ROWS]
    left_rank, right_rank = i64_at(small[LEFT_SIDE + RANKS], lefts), i64_at(small[RIGHT_SIDE + RANKS], rights)
    _keep(small, LEFT_SIDE)
    _keep(small, RIGHT_SIDE)
    _look_at(work, LEFT, small[LEFT_SIDE + SEEN], small[RIGHT_SIDE + SEEN])
    _look_at(work, RIGHT, small[RIGHT_SIDE + SEEN], small[LEFT_SIDE + SEEN])
    left_keys, right_keys = i64_at(small[LEFT_SIDE + KEY], lefts), i64_at(small[RIGHT_SIDE + KEY], rights)
    left, right = i64_at(small[WRITTEN], small[PLACES]), i64_at(small[WRITTEN + 1], small[PLACES])
    work[ASIDE] = small[PUT]
    work[LEFT + LOWER], work[LEFT + UPPER] = small[LEFT_SIDE + PACK + LOWS], small[LEFT_SIDE + PACK + HIGHS]
    work[RIGHT + LOWER], work[RIGHT + UPPER] = small[RIGHT_SIDE + PACK + LOWS], small[RIGHT_SIDE + PACK + HIGHS]
    meet(work, False, left_keys, right_keys, left_rank, right_rank, left, right)  # noqa: FBT003 - a kernel's
    pairs = work[WOVEN]
    if pairs > 0:
        sizes = np.empty(MOST_COLUMNS, np.int64)
        _gather(small, LEFT_SIDE, left[:pairs], sizes)
        _gather(small, RIGHT_SIDE, right[:pairs], sizes)
