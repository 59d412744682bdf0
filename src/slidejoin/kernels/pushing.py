"""One push through two tables of cells, from keys to pairs, without the interpreter in between.

Each table has an owner, who inserts its side's rows and then lets the other side's rows probe it; after both, pairs are
woven into the arrival order. What a push needs lies in one array of addresses, its *work*, so a second thread that
waits in `serve` begins within a microsecond, while handing a Python function to a waiting thread takes 50 and then the
interpreter's lock. Owners take parts as they are free: if the second thread sleeps, the first one does all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.kernels.atomics import now, read_word, swap_word, wait_for_byte, write_word, yield_thread
from slidejoin.kernels.cells import insert_cells
from slidejoin.kernels.clocks import keep_in_scope
from slidejoin.kernels.compiling import I64, OUT_I64, U64, inlined, kernel
from slidejoin.kernels.memory import flags_at, i32_at, i64_at, place_of, u32_at
from slidejoin.kernels.probing_cells import MARGIN, VIEW, count_cells, find_cells
from slidejoin.kernels.weaving import weave, weave_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ADDRESS",
    "AFTER",
    "ASIDE",
    "AWAKE",
    "BEFORE",
    "BEGAN",
    "CLOSED",
    "COUNTING",
    "COUNTS",
    "ENDED",
    "FINISHED",
    "FIRST",
    "FLOOR_OF",
    "FOUND",
    "INSERTED",
    "KEYS",
    "LEFT",
    "MAILBOX",
    "ORDINAL",
    "OUT",
    "PROBED",
    "PROBES",
    "RANK",
    "RIGHT",
    "ROUSED",
    "STORED",
    "TIMES",
    "TOTAL",
    "VIEWED",
    "WEAVING",
    "WORK",
    "WORTH_SHARING",
    "WOVEN",
    "WRITTEN",
    "do_part",
    "meet",
    "serve",
]

LEFT, RIGHT, SHARED, WORK = 0, 32, 64, 80
"""Where the words of the left probes begin, those of the right ones, and those of both; and how many there are."""

TABLE, KEYS, FIRST, PROBES, RANK, VIEWED, FOUND, COUNTS, ORDINAL, FLOOR_OF = 0, 6, 8, 9, 11, 12, 13, 15, 16, 17
"""What each role has: the TABLE that it probes (addresses and sizes of slots, pool and state), the KEYS to be inserted
into that first (address, rows) with the ordinal FIRST; its PROBES (address, rows), their RANK and view (addresses),
room for what they FOUND (address, places) and for COUNTS; their first ORDINAL, and the FLOOR_OF the table."""

TIMES, STORED, BEFORE, AFTER = 18, 19, 21, 22
"""In a time window, the TIMES of the probes (address, or 0) and those STORED beside the table (address, rows); a probe
sees rows from so many ticks BEFORE to so many AFTER its own."""

DONE, TOTAL, INSERTED, BEGAN, PROBED, ENDED = 24, 25, 26, 27, 28, 29
"""And what comes of it: probes that are DONE, the TOTAL they found, rows INSERTED; nanoseconds of the clock."""

COUNTING, ASIDE, OUT, WOVEN, WEAVING, WRITTEN = SHARED, SHARED + 1, SHARED + 2, SHARED + 5, SHARED + 6, SHARED + 7
"""Of both: whether pairs are only COUNTING; whether the right probes' pairs may stand ASIDE, behind those of all left
ones; where pairs go OUT (addresses of left and right, places there); how many are WOVEN, -1 if they did not fit;
nanoseconds of the clock. Counts go out as matches and marks of left rows."""

POSTED, CLAIMED, FINISHED, AWAKE, ROUSED, CLOSED, ADDRESS, PART, MAILBOX = 0, 8, 16, 24, 25, 26, 32, 33, 40
"""Words of a mailbox, on cache lines of their own: the number of the job that was POSTED last, that somebody CLAIMED
last and that was FINISHED last; whether a thread is AWAKE and looks, and how often it was ROUSED, and
whether the mailbox is CLOSED; the work's ADDRESS, and which PART is the job."""

OWN_LEFT, OWN_RIGHT, WEAVE_FIRST, WEAVE_LAST, WEAVE_ALL = range(5)
"""Parts of the work."""

ENDLESS = 1 << 62

SPINS = 64
"""Looks at a mailbox between two looks at the clock, or before other threads are let run."""

WORTH_SHARING = 1 << 14
"""Pairs that are worth being written by two threads."""


@inlined
def _own(work: NDArray[np.int64], at: int) -> None:
    """Insert rows into one table, and let the other side's rows probe it."""
    work[U64(at + BEGAN)] = now()
    slots, pool = u32_at(work[U64(at)], work[U64(at + 1)]), u32_at(work[U64(at + 2)], work[U64(at + 3)])
    state, view = i64_at(work[U64(at + 4)], work[U64(at + 5)]), i64_at(work[U64(at + VIEWED)], VIEW)
    keys, done, total = i64_at(work[U64(at + KEYS)], work[U64(at + KEYS + 1)]), 0, 0
    if keys.size > 0:
        done = insert_cells(slots, pool, state, keys, flags_at(0, 0), 0, work[U64(at + FIRST)])
    work[U64(at + INSERTED)], work[U64(at + PROBED)] = done, now()
    count = work[U64(at + PROBES + 1)]
    whole, done = done == keys.size, 0
    if whole and count > 0:
        probes, rank = i64_at(work[U64(at + PROBES)], count), i64_at(work[U64(at + RANK)], count)
        found, counts = u32_at(work[U64(at + FOUND)], work[U64(at + FOUND + 1)]), i32_at(work[U64(at + COUNTS)], count)
        if work[U64(COUNTING)] != 0 and work[U64(at + TIMES)] == 0:
            done, total = count_cells(
                slots, pool, state, probes, probes, rank, view, 0, count, found, 0, ENDLESS, counts
            )
        else:
            limit = found.size - MARGIN
            done, total = find_cells(slots, pool, state, probes, probes, rank, view, 0, count, found, 0, limit, counts)
            if work[U64(at + TIMES)] != 0:
                stored = i64_at(work[U64(at + STORED)], work[U64(at + STORED + 1)])
                times = i64_at(work[U64(at + TIMES)], count)
                total = keep_in_scope(found, counts, done, stored, times, work[U64(at + BEFORE)], work[U64(at + AFTER)])
    work[U64(at + DONE)], work[U64(at + TOTAL)], work[U64(at + ENDED)] = done, total, now()


@inlined
def _weave(work: NDArray[np.int64], part: int) -> None:
    """Write the pairs of a part of the probes: of all, of the first or last half in arrival order, or of a side."""
    lefts, rights = work[U64(LEFT + PROBES + 1)], work[U64(RIGHT + PROBES + 1)]
    left_rank, right_rank = i64_at(work[U64(LEFT + RANK)], lefts), i64_at(work[U64(RIGHT + RANK)], rights)
    left_counts, right_counts = i32_at(work[U64(LEFT + COUNTS)], lefts), i32_at(work[U64(RIGHT + COUNTS)], rights)
    i, j, left_take, right_take, at = 0, 0, 0, 0, 0
    left_end, right_end, end = lefts, rights, work[U64(WOVEN)]
    if part != WEAVE_ALL:
        # Where the first part ends on both sides, and how many pairs it has.
        stops = lefts, 0
        if work[U64(ASIDE)] == 0:
            middle = (lefts + rights) // 2
            stops = int(np.searchsorted(left_rank, middle)), int(np.searchsorted(right_rank, middle))
        takes = int(left_counts[: stops[0]].sum()), int(right_counts[: stops[1]].sum())
        if part == WEAVE_FIRST:
            left_end, right_end, end = stops[0], stops[1], takes[0] + takes[1]
        else:
            i, j, left_take, right_take, at = stops[0], stops[1], takes[0], takes[1], takes[0] + takes[1]
    places = work[U64(OUT + 2)]
    weave(
        left_rank, left_counts, u32_at(work[U64(LEFT + FOUND)], work[U64(LEFT + FOUND + 1)]),
        work[U64(LEFT + ORDINAL)], work[U64(LEFT + FLOOR_OF)],
        right_rank, right_counts, u32_at(work[U64(RIGHT + FOUND)], work[U64(RIGHT + FOUND + 1)]),
        work[U64(RIGHT + ORDINAL)], work[U64(RIGHT + FLOOR_OF)],
        i, j, left_take, right_take, left_end, right_end,
        i64_at(work[U64(OUT)], places), i64_at(work[U64(OUT + 1)], places), at, end,
    )  # fmt: skip


@inlined
def _weave_counts(work: NDArray[np.int64]) -> int:
    lefts, rights = work[U64(LEFT + PROBES + 1)], work[U64(RIGHT + PROBES + 1)]
    return weave_counts(
        i64_at(work[U64(LEFT + RANK)], lefts), i32_at(work[U64(LEFT + COUNTS)], lefts),
        i64_at(work[U64(RIGHT + RANK)], rights), i32_at(work[U64(RIGHT + COUNTS)], rights),
        i64_at(work[U64(OUT)], lefts + rights), flags_at(work[U64(OUT + 1)], lefts + rights),
    )  # fmt: skip


@kernel(OUT_I64, types.int64)
def do_part(work: NDArray[np.int64], part: int) -> None:
    """Do one part of the work, see above."""
    if part <= OWN_RIGHT:
        _own(work, RIGHT if part == OWN_RIGHT else LEFT)
    else:
        _weave(work, part)


@kernel(OUT_I64, types.int64, types.int64)
def serve(mailbox: NDArray[np.int64], descriptor: int, patience: int) -> None:
    """Do the jobs that are posted, until the mailbox is CLOSED.

    mailbox (MAILBOX,) int64. If none has come, nor anybody ROUSED it, for `patience` nanoseconds, wait until a byte can
    be read from the descriptor of a file. All without the interpreter's lock: to get that takes as long as to wake up.
    """
    last, roused = now(), 0
    while read_word(mailbox, CLOSED) == 0:
        for _ in range(SPINS):
            number = read_word(mailbox, POSTED)
            if number > read_word(mailbox, CLAIMED) and swap_word(mailbox, CLAIMED, number - 1, number):
                do_part(i64_at(mailbox[U64(ADDRESS)], WORK), mailbox[U64(PART)])
                write_word(mailbox, FINISHED, number)
                last = now()
        if read_word(mailbox, ROUSED) != roused:
            last, roused = now(), read_word(mailbox, ROUSED)
        if now() - last > patience:
            write_word(mailbox, AWAKE, 0)
            # Whoever roused it before seeing that wrote no byte.
            if read_word(mailbox, ROUSED) == roused and wait_for_byte(descriptor) == 0:
                return
            write_word(mailbox, AWAKE, 1)
            last = now()


@inlined
def _together(work: NDArray[np.int64], mailbox: NDArray[np.int64], ours: int, theirs: int) -> None:
    """Do two parts side by side, or one after the other if nobody has taken the second one meanwhile."""
    number = mailbox[U64(POSTED)] + 1
    mailbox[U64(PART)] = theirs
    write_word(mailbox, POSTED, number)
    do_part(work, ours)
    if swap_word(mailbox, CLAIMED, number - 1, number):
        do_part(work, theirs)
        write_word(mailbox, FINISHED, number)
        return
    while read_word(mailbox, FINISHED) != number:
        for _ in range(SPINS):
            if read_word(mailbox, FINISHED) == number:
                return
        yield_thread()


@kernel(OUT_I64, OUT_I64, I64, I64, I64, I64, OUT_I64, OUT_I64)
def meet(
    work: NDArray[np.int64],
    mailbox: NDArray[np.int64],
    left_keys: NDArray[np.int64],
    right_keys: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> None:
    """Do all the work of a push: insert, probe, weave.

    work (WORK,) int64, see above. mailbox (MAILBOX,) int64 in which the work's address stands and that nobody else
    posts to, or (0,) to do everything alone. Keys and ranks (n,) int64 of each side's rows; left and right (places,)
    int64 take pairs, or numbers of matches and marks of left rows, of which eight are one value.
    """
    shared = mailbox.size > 0
    for at, stored, probes, rank in (
        (LEFT, right_keys, left_keys, left_rank),
        (RIGHT, left_keys, right_keys, right_rank),
    ):
        work[U64(at + KEYS)], work[U64(at + KEYS + 1)] = place_of(stored), stored.size
        work[U64(at + PROBES)], work[U64(at + PROBES + 1)] = place_of(probes), probes.size
        work[U64(at + RANK)] = place_of(rank)
    work[U64(OUT)], work[U64(OUT + 1)], work[U64(OUT + 2)] = place_of(left), place_of(right), left.size
    if shared:
        _together(work, mailbox, OWN_LEFT, OWN_RIGHT)
    else:
        do_part(work, OWN_LEFT)
        do_part(work, OWN_RIGHT)
    work[U64(WEAVING)], work[U64(WOVEN)] = now(), -1
    pairs = work[U64(LEFT + TOTAL)] + work[U64(RIGHT + TOTAL)]
    if (
        work[U64(LEFT + DONE)] == work[U64(LEFT + PROBES + 1)]
        and work[U64(RIGHT + DONE)] == work[U64(RIGHT + PROBES + 1)]
    ):
        if work[U64(COUNTING)] != 0:
            work[U64(WOVEN)] = _weave_counts(work)
        elif pairs <= work[U64(OUT + 2)]:
            work[U64(WOVEN)] = pairs
            if shared and pairs >= WORTH_SHARING:
                _together(work, mailbox, WEAVE_FIRST, WEAVE_LAST)
            else:
                do_part(work, WEAVE_ALL)
    work[U64(WRITTEN)] = now()
