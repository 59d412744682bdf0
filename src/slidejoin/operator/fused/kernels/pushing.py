"""One push through two cell tables, from keys to pairs, by one or two threads, without the interpreter.

Handing a Python function to a waiting thread takes 50 µs and then the interpreter's lock; a second thread that waits in
`serve` begins within 1 µs. It inserts rows while the first thread, in Python, puts them in order, and probes while that
stores them; then each takes the next part when it is free. If it sleeps, or works for another join, the first thread
does all parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.index.cells.kernels.placing import LARGEST, SMALLEST
from slidejoin.index.cells.kernels.probing import MARGIN
from slidejoin.jit.compiling import I64, OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.atomics import now, read_word, swap_word, wait_for_byte, write_word, yield_thread
from slidejoin.jit.vectors.fields import offsets
from slidejoin.jit.vectors.memory import i64_at, place_of
from slidejoin.operator.fused.kernels.work import (
    BEYOND,
    CLAIMS,
    COUNTING,
    DONE,
    DONES,
    FOUND,
    INSERT,
    INSERTED,
    KEYS,
    LEFT,
    LINE,
    MARK,
    OUT,
    PARTS,
    PROBE,
    PROBES,
    RANK,
    REACH,
    RIGHT,
    STAGE,
    STOPS,
    STRETCHES,
    TOOK,
    TOTAL,
    WORK,
    WOVEN,
    WRITE,
    do_part,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ADDRESS",
    "AWAKE",
    "CLOSED",
    "FINISHED",
    "INSERTING",
    "MAILBOX",
    "OVER",
    "PROBING",
    "ROUSED",
    "UNFINISHED",
    "WRITING",
    "begin",
    "do_a_part",
    "end",
    "meet",
    "serve",
    "show",
]

POSTED, CLAIMED, FINISHED, AWAKE, ADDRESS, MAILBOX = offsets(LINE, LINE, LINE, LINE, LINE)
ROUSED, CLOSED = AWAKE + 1, AWAKE + 2
"""Words of a mailbox, on separate cache lines: the number of the last push POSTED, CLAIMED by the second thread, and
FINISHED by it; whether that thread is AWAKE and polls, how often it was ROUSED, and whether the mailbox is CLOSED; the
ADDRESS of the work."""

INSERTING, PROBING, WRITING, OVER = range(4)
"""Stages of a push: each allows further parts to be taken."""

UNFITTING, UNFINISHED = -1, -2
"""Why no pairs are woven: there was not room for all of them; or rows are not inserted yet, probes not answered yet, or
keys too far apart for the table."""

LAST_KEY = (1 << 63) - 1

SPINS = 64
"""Polls of a word between two reads of the clock, or before yielding to other threads."""


@inlined
def _open(work: NDArray[np.int64], part: int) -> bool:
    """Tell whether a part may be taken: its stage has begun, and the rows that it probes are inserted."""
    stage = read_word(work, STAGE)
    if part < PROBE:
        return stage < OVER
    if part < WRITE:
        return PROBING <= stage < OVER and read_word(work, DONES + (part & 1)) != 0
    # A push may be over without it: there was no room.
    return stage == WRITING


@kernel(OUT_I64, returns=types.boolean)
def do_a_part(work: NDArray[np.int64]) -> bool:
    """Take the first part of the work (WORK,) int64 that is open and do it; return False if there is none."""
    for part in range(PARTS):
        if read_word(work, CLAIMS + part) == 0 and _open(work, part) and swap_word(work, CLAIMS + part, 0, 1):
            do_part(work, part)
            write_word(work, DONES + part, 1)
            return True
    return False


@inlined
def _all_done(work: NDArray[np.int64], first: int, last: int) -> bool:
    done = 0
    for part in range(first, last):
        done += read_word(work, DONES + part)
    return done == last - first


@inlined
def _do_all(work: NDArray[np.int64], first: int, last: int) -> None:
    """Do these parts, shared with any helping thread."""
    looks = 0
    while not _all_done(work, first, last):
        if not do_a_part(work):
            looks += 1
            if looks % SPINS == 0:
                yield_thread()


@kernel(OUT_I64, types.int64, types.int64)
def serve(mailbox: NDArray[np.int64], descriptor: int, patience: int) -> None:
    """Help with posted pushes, until the mailbox is CLOSED.

    mailbox (MAILBOX,) int64. If nothing was posted and nobody ROUSED it for `patience` nanoseconds, wait until a byte
    can be read from a file descriptor. All without the interpreter's lock: getting that takes as long as waking up.
    """
    last, roused = now(), 0
    while read_word(mailbox, CLOSED) == 0:
        for _ in range(SPINS):
            number = read_word(mailbox, POSTED)
            if number > read_word(mailbox, CLAIMED) and swap_word(mailbox, CLAIMED, number - 1, number):
                work, looks = i64_at(mailbox[U64(ADDRESS)], WORK), 0
                while read_word(work, STAGE) != OVER:
                    if not do_a_part(work):
                        looks += 1
                        if looks % SPINS == 0:
                            yield_thread()
                write_word(mailbox, FINISHED, number)
                last = now()
        if read_word(mailbox, ROUSED) != roused:
            last, roused = now(), read_word(mailbox, ROUSED)
        if now() - last > patience:
            write_word(mailbox, AWAKE, 0)
            # A thread that roused it before seeing that wrote no byte.
            if read_word(mailbox, ROUSED) == roused and wait_for_byte(descriptor) == 0:
                return
            write_word(mailbox, AWAKE, 1)
            last = now()


@inlined
def _hand_over(work: NDArray[np.int64], left_keys: NDArray[np.int64], right_keys: NDArray[np.int64]) -> None:
    """Set the rows to insert into the table that each role probes; no part is claimed."""
    work[U64(LEFT + KEYS)], work[U64(LEFT + KEYS + 1)] = place_of(right_keys), right_keys.size
    work[U64(RIGHT + KEYS)], work[U64(RIGHT + KEYS + 1)] = place_of(left_keys), left_keys.size
    work[CLAIMS:TOOK] = 0
    write_word(work, STAGE, INSERTING)


@kernel(OUT_I64, OUT_I64, I64, I64)
def begin(
    work: NDArray[np.int64], mailbox: NDArray[np.int64], left_keys: NDArray[np.int64], right_keys: NDArray[np.int64]
) -> None:
    """Let the second thread insert rows, until `end`; `show` lets it probe, and `meet` continues with it.

    work (WORK,) int64, with all that inserting needs; mailbox (MAILBOX,) int64 with the work's address, to which no
    other thread posts; keys (n,) int64 of each side's rows, which must stay where they are.
    """
    _hand_over(work, left_keys, right_keys)
    write_word(mailbox, POSTED, mailbox[U64(POSTED)] + 1)


@kernel(OUT_I64, OUT_I64)
def end(work: NDArray[np.int64], mailbox: NDArray[np.int64]) -> None:
    """Wait until the second thread has left the work, in any state; it takes no further part."""
    number = mailbox[U64(POSTED)]
    write_word(work, STAGE, OVER)
    if swap_word(mailbox, CLAIMED, number - 1, number):
        write_word(mailbox, FINISHED, number)
    while read_word(mailbox, FINISHED) != number:
        yield_thread()


@inlined
def _cut(work: NDArray[np.int64], at: int, rank: NDArray[np.int64], rows: int, stretches: int) -> None:
    """Divide one role's probes at equal distances in the arrival order of all rows, and the room for their matches."""
    places = work[U64(at + FOUND + 1)] - stretches * MARGIN
    for stretch in range(STRETCHES + 1):
        stop = int(np.searchsorted(rank, rows * stretch // stretches)) if stretch < stretches else rank.size
        work[U64(at + STOPS + stretch)] = stop
        work[U64(at + BEYOND + stretch)] = min(stretch, stretches) * MARGIN + places * stop // max(rank.size, 1)
        work[U64(at + DONE + stretch)], work[U64(at + TOTAL + stretch)] = 0, 0


@inlined
def _show(
    work: NDArray[np.int64],
    stretches: int,
    left_keys: NDArray[np.int64],
    right_keys: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> None:
    """Set the probes of both roles, in so many stretches, and where the output goes."""
    rows = left_keys.size + right_keys.size
    for at, probes, rank in ((LEFT, left_keys, left_rank), (RIGHT, right_keys, right_rank)):
        work[U64(at + PROBES)], work[U64(at + PROBES + 1)] = place_of(probes), probes.size
        work[U64(at + RANK)] = place_of(rank)
        _cut(work, at, rank, rows, stretches)
    work[U64(OUT)], work[U64(OUT + 1)], work[U64(OUT + 2)] = place_of(left), place_of(right), left.size


@kernel(OUT_I64, I64, I64, I64, I64, OUT_I64, OUT_I64)
def show(
    work: NDArray[np.int64],
    left_keys: NDArray[np.int64],
    right_keys: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> None:
    """Let the second thread, which has begun to insert, probe as well; arrays as those of `meet`, which comes next."""
    _show(work, STRETCHES, left_keys, right_keys, left_rank, right_rank, left, right)
    write_word(work, STAGE, PROBING)


@kernel(OUT_I64, types.boolean, I64, I64, I64, I64, OUT_I64, OUT_I64)
def meet(
    work: NDArray[np.int64],
    begun: bool,
    left_keys: NDArray[np.int64],
    right_keys: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> None:
    """Do all the work of a push, or what is left of it: insert, probe, weave.

    work (WORK,) int64, see `kernels.work`; whether it was `begun` with a second thread, and then all that it
    needs was shown to it. Keys and ranks (n,) int64 of each side's rows; left and right (places,) int64 take pairs, or
    numbers of matches and marks of left rows, of which eight are one value.
    """
    rows = left_keys.size + right_keys.size
    if begun:
        _do_all(work, INSERT, WRITE)
    else:
        _hand_over(work, left_keys, right_keys)
        _show(work, 1, left_keys, right_keys, left_rank, right_rank, left, right)
        for part in range(INSERT, PROBE + 2):
            do_part(work, part)
    pairs, done, whole = 0, 0, True
    for at in (LEFT, RIGHT):
        for stretch in range(STRETCHES):
            pairs += work[U64(at + TOTAL + stretch)]
            done += work[U64(at + DONE + stretch)]
        state = i64_at(work[U64(at + 4)], work[U64(at + 5)])
        reach = int(work[U64(at + REACH)])
        near = int(state[LARGEST]) <= min(int(state[SMALLEST]), LAST_KEY - reach) + reach
        whole = whole and near and bool(work[U64(at + INSERTED)] == work[U64(at + KEYS + 1)])
    work[U64(WOVEN)] = UNFITTING
    if done != rows or not whole:
        work[U64(WOVEN)] = UNFINISHED
    elif work[U64(COUNTING)] != 0 or pairs <= left.size:
        work[U64(WOVEN)] = pairs
        if begun:
            write_word(work, STAGE, WRITING)
            _do_all(work, WRITE, PARTS)
        else:
            do_part(work, WRITE)
            do_part(work, MARK)
            do_part(work, MARK + 1)
