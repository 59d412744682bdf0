"""A small push in two kernel calls of one thread: find columns and order rows; then store, insert, probe and gather.

Each of these steps takes a microsecond in a push of a few rows, and each call from Python as much again. The parameters
of all steps are in two records of addresses and numbers: the work of a push (`kernels.work`), and the columns of a
small push; in larger pushes Python handles the columns itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.index.cells.kernels.buckets import FLOOR
from slidejoin.index.kernels.arrival_pairs import put_in_order
from slidejoin.index.kernels.view import ARRIVED, VIEW
from slidejoin.jit.compiling import OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.fields import ARRAY, WORD, i64_in, record, records_in
from slidejoin.jit.vectors.memory import i64_at, i64_table_at, place_of
from slidejoin.operator.fused.kernels.packing import PACKING, pack_side
from slidejoin.operator.fused.kernels.pushing import meet
from slidejoin.operator.fused.kernels.work import LEFT, RIGHT, works_in
from slidejoin.operator.ingest.kernels.clocks import run_clocks
from slidejoin.operator.ingest.kernels.ordering import MERGE_RANKS, RISE
from slidejoin.rows.kernels.batch_rows import HEAP, STORED, ready, write_rows
from slidejoin.rows.kernels.exported import LISTED, find_values
from slidejoin.rows.kernels.record_columns import READ, RecordSource, read_some

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SIDE", "SMALL", "order_small", "push_small"]

SIDE = record(
    [
        "rows",  # how many rows come
        "exported",  # address of their batch, see `rows.kernels.exported`
        ("lists", ARRAY),  # the list of its columns that are read: keys, and what rows are ordered by
        "key",  # address of their keys
        "by",  # address of what they are ordered by
        "times",  # in a time window, address of their event times
        "latest",  # the latest of these
        "ranks",  # address of the room for their ranks
        "seen",  # how many rows came before them
        "first",  # address of the record of the first row
        "stride",  # bytes from one record to the next
        "marks",  # address of the marks of the first row, 0 without any
        ("stored", ARRAY),  # what is stored, see `rows.kernels.batch_rows`
        "heap",  # address of the memory for long texts
        ("ring", ARRAY),  # addresses by which records are located, see `rows.kernels.record_columns`
        "all_marks",  # address of those by which their marks are
        "shift",  # by how much ordinals are shifted for them
        ("read", ARRAY),  # what is read for the pairs
        "used",  # address of the bytes of texts that are in the output
        "fixed",  # bytes that a row takes in the output
        ("packing", PACKING),  # of composite keys; zeros where keys are a column as it is
    ]
)
"""What each side has."""

SMALL = record(
    [
        ("sides", SIDE, 2),  # LEFT, RIGHT
        "ordered",  # whether rows come in the order of the values `by` which they are
        "aside",  # whether pairs of right probes may come behind those of left ones
        "places",  # for pairs
        "left_out",  # address of the room for the left ordinals of pairs
        "right_out",  # for the right ones
        "row",  # at which row of the output the first pair goes
        "budget",  # bytes that a side of the output may take
        "strict",  # whether the pairs of a probe come in the order of the stored rows
        "timed",  # whether the window is one of time
        "lateness",  # in ticks
        ("clocks", WORD, 2),  # the latest event time of each side so far; after `order_small` with these rows
        "self_join",  # 1 if both sides are the same rows, which are stored once; 0 otherwise
        "missing",  # address of a record of zeros
        "read",  # how many pairs were read, where pairs are to be
    ]
)
"""The columns of a small push."""

smalls_in = records_in(SMALL)

EARLIEST = -(1 << 63)

rise, merge_ranks = RISE[np.dtype(np.int64)], MERGE_RANKS[np.dtype(np.int64)]


@inlined
def _stored(side: np.record) -> NDArray[np.int64]:
    """Return what is stored of one side's rows."""
    return i64_table_at(side.stored.address, side.stored.length, STORED)


@inlined
def _store(side: np.record) -> None:
    """Copy one side's rows into their records."""
    if side.rows > 0:
        heap = i64_at(side.heap, HEAP)
        write_rows(side.exported, _stored(side), np.int64(0), side.rows, side.first, side.stride, side.marks, heap)


@inlined
def _look_at(role: np.record, side: np.record, stored: int, itself: int) -> None:
    """Set the view and the ranges of one side's probes.

    `stored` rows of the other side came before them, and `itself` is 1 where the row that probes is one of that side
    which ranks count as earlier.
    """
    state, view, packing = i64_in(role.table.state), i64_at(role.viewed, VIEW), side.packing
    role.first, view[ARRIVED] = stored, stored - itself
    role.ordinal, role.floor = side.seen, state[FLOOR]
    role.lower, role.upper = packing.lows, packing.highs


@inlined
def _gather(side: np.record, ordinals: NDArray[np.int64], small: np.record) -> int:
    """Write the output columns of one side's rows, and return how many there was room for."""
    units, columns = side.ring.length, i64_table_at(side.read.address, side.read.length, READ)
    marks = i64_at(side.all_marks, units + 1)
    source = RecordSource(i64_in(side.ring), marks, side.shift, side.stride, small.missing)
    used = i64_at(side.used, side.read.length)
    read: int = read_some(source, ordinals, columns, small.row, used, small.budget, side.fixed)
    return read


@inlined
def _read(words: NDArray[np.int64], side: np.record, stores: bool) -> bool:
    """Find the columns of one side's rows; return whether all can be stored, if it `stores` them."""
    if side.rows == 0:
        return True
    listed = i64_table_at(side.lists.address, side.lists.length, LISTED)
    if not find_values(side.exported, listed, words):
        return False
    heap = i64_at(side.heap, HEAP)
    return bool(not stores or ready(side.exported, _stored(side), np.int64(0), side.rows, heap))


@inlined
def _rank(small: np.record, left_rank: NDArray[np.int64], right_rank: NDArray[np.int64]) -> bool:
    """Write the ranks of both sides' rows; return False if these are to be in order and are not."""
    left, right = small.sides[LEFT], small.sides[RIGHT]
    lefts, rights = left.rows, right.rows
    if small.ordered != 0:
        left_by, right_by = i64_at(left.by, lefts), i64_at(right.by, rights)
        if not rise(left_by, right_by):
            return False
        if small.self_join == 0:
            merge_ranks(left_by, right_by, left_rank, right_rank)
            return True
    if small.self_join != 0:
        # Each row probes as a left one, then as a right one.
        for n in range(lefts):
            left_rank[n], right_rank[n] = 2 * n, 2 * n + 1
    else:
        for n in range(lefts):
            left_rank[n] = n
        for n in range(rights):
            right_rank[n] = lefts + n
    return True


@inlined
def _in_time(small: np.record, left_rank: NDArray[np.int64], right_rank: NDArray[np.int64]) -> bool:
    """Move the clocks; return False if some row is late."""
    left, right, none_late = small.sides[LEFT], small.sides[RIGHT], np.empty(0, np.bool_)
    times, others = i64_at(left.times, left.rows), i64_at(right.times, right.rows)
    clocks, lateness = i64_at(place_of(small.clocks), 2), U64(small.lateness)
    return bool(run_clocks(times, others, left_rank, right_rank, lateness, clocks, none_late, none_late) == 0)


@inlined
def _store_checked(side: np.record, role: np.record, timed: bool) -> None:
    """Store what the probes of one side's rows, those of the other role, check: event times, and keys if `wide`."""
    if side.rows == 0 or not (timed or role.wide != 0):
        return
    stored, columns, latest = i64_in(role.stored), role.stored_columns, EARLIEST
    mask, keys = stored.size // columns - 1, i64_at(side.key, side.rows)
    for n in range(side.rows):
        at = ((side.seen + 1 + n) & mask) * columns
        if role.wide != 0:
            stored[U64(at + columns - 1)] = keys[U64(n)]
        if timed:
            time = i64_at(side.times, side.rows)[U64(n)]
            stored[U64(at + role.time_column)] = time
            latest = max(latest, time)
    side.latest = latest


@kernel(OUT_I64, returns=types.boolean)
def order_small(words: NDArray[np.int64]) -> bool:
    """Find the columns of a small push, and write its ranks and composite keys.

    Return False if it is to be taken in another way: if keys or sort values have NULLs, if sort values do not ascend on
    both sides, a row is late, a value has no room in a composite key, or a text none in the window. words: of a SMALL.
    O(rows).
    """
    small = smalls_in(words)[0]
    left, right = small.sides[LEFT], small.sides[RIGHT]
    lefts, rights = left.rows, right.rows
    if not (_read(words, left, True) and _read(words, right, small.self_join == 0)):  # noqa: FBT003 - a kernel's
        return False
    if left.packing.part_count > 0 and not (pack_side(left.packing, lefts) and pack_side(right.packing, rights)):
        return False
    left_rank, right_rank = i64_at(left.ranks, lefts), i64_at(right.ranks, rights)
    if not _rank(small, left_rank, right_rank):
        return False
    return bool(small.timed == 0 or _in_time(small, left_rank, right_rank))


@kernel(OUT_I64, OUT_I64)
def push_small(words: NDArray[np.int64], small_words: NDArray[np.int64]) -> None:
    """Do all steps of a small push, and write to the work how many pairs are woven, or why none are.

    words: of a WORK; small_words: of a SMALL. Rows are stored, and inserted as far as possible, see
    `kernels.pushing.meet`. Columns are read only if pairs are woven. O(rows + pairs).
    """
    work, small = works_in(words)[0], smalls_in(small_words)[0]
    own, other = small.sides[LEFT], small.sides[RIGHT]
    lefts, rights = own.rows, other.rows
    _store(own)
    if small.self_join == 0:
        _store(other)
    _look_at(work.roles[LEFT], own, other.seen, 0)
    _look_at(work.roles[RIGHT], other, own.seen, small.self_join)
    timed = small.timed != 0
    if timed:
        work.roles[LEFT].times, work.roles[RIGHT].times = own.times, other.times
    _store_checked(own, work.roles[RIGHT], timed)
    _store_checked(other, work.roles[LEFT], timed)
    left, right = i64_at(small.left_out, small.places), i64_at(small.right_out, small.places)
    work.aside = small.aside
    meet(
        words, False, i64_at(own.key, lefts), i64_at(other.key, rights),  # noqa: FBT003 - a kernel's
        i64_at(own.ranks, lefts), i64_at(other.ranks, rights), left, right,
    )  # fmt: skip
    pairs = work.woven
    small.read = pairs
    if pairs > 1 and small.strict != 0:
        ranks = i64_at(own.ranks, lefts), i64_at(other.ranks, rights)
        put_in_order(left[:pairs], right[:pairs], ranks[0], ranks[1], own.seen, other.seen)
    if pairs > 0 and own.read.length > 0:
        small.read = min(small.read, _gather(own, left[:pairs], small))
    if pairs > 0 and other.read.length > 0:
        small.read = min(small.read, _gather(other, right[:pairs], small))
