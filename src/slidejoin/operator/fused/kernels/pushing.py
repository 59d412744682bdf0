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

from slidejoin.index.cells.kernels.buckets import LARGEST, SMALLEST
from slidejoin.index.cells.kernels.probing import MARGIN
from slidejoin.jit.compiling import I64, OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.atomics import now, read_word, swap_word, wait_for_byte, write_word, yield_thread
from slidejoin.jit.vectors.fields import WORD, i64_in, record, records_in
from slidejoin.jit.vectors.memory import i64_at, place_of
from slidejoin.operator.fused.kernels.work import (
    INSERT,
    LEFT,
    LINE,
    MARK,
    PARTS,
    PROBE,
    RIGHT,
    STRETCHES,
    WORK,
    WRITE,
    do_part,
    works_in,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "INSERTING",
    "MAILBOX",
    "OVER",
    "PROBING",
    "UNFINISHED",
    "WRITING",
    "begin",
    "do_a_part",
    "end",
    "meet",
    "serve",
    "show",
]

MAILBOX = record(
    [
        ("posted", WORD, 1),  # the number of the last push
        LINE,
        ("claimed", WORD, 1),  # by the second thread
        LINE,
        ("finished", WORD, 1),  # by it
        LINE,
        ("awake", WORD, 1),  # whether that thread is awake and polls
        ("roused", WORD, 1),  # how often it was roused
        ("closed", WORD, 1),  # whether the mailbox is closed
        LINE,
        "address",  # of the work
        LINE,
    ]
)
"""A mailbox; threads write its words at the same time, so those of each are on a cache line of their own."""

mailboxes_in, WORK_WORDS = records_in(MAILBOX), WORK.itemsize // 8

INSERTING, PROBING, WRITING, OVER = range(4)
"""Stages of a push: each allows further parts to be taken."""

UNFITTING, UNFINISHED = -1, -2
"""Why no pairs are woven: there was not room for all of them; or rows are not inserted yet, probes not answered yet, or
keys too far apart for the table."""

LAST_KEY = (1 << 63) - 1

SPINS = 64
"""Polls of a word between two reads of the clock, or before yielding to other threads."""


@inlined
def _open(work: np.record, part: int) -> bool:
    """Tell whether a part may be taken: its stage has begun, and the rows that it probes are inserted."""
    stage = read_word(work.stage, 0)
    if part < PROBE:
        return stage < OVER
    if part < WRITE:
        return PROBING <= stage < OVER and read_word(work.dones, part & 1) != 0
    # A push may be over without it: there was no room.
    return stage == WRITING


@kernel(OUT_I64, returns=types.boolean)
def do_a_part(words: NDArray[np.int64]) -> bool:
    """Take the first part of the work, the words of a WORK, that is open and do it; return False if there is none."""
    work = works_in(words)[0]
    for part in range(PARTS):
        if read_word(work.claims, part) == 0 and _open(work, part) and swap_word(work.claims, part, 0, 1):
            do_part(words, part)
            write_word(work.dones, part, 1)
            return True
    return False


@inlined
def _all_done(work: np.record, first: int, last: int) -> bool:
    done = 0
    for part in range(first, last):
        done += read_word(work.dones, part)
    return done == last - first


@inlined
def _do_all(words: NDArray[np.int64], first: int, last: int) -> None:
    """Do these parts, shared with any helping thread."""
    work, looks = works_in(words)[0], 0
    while not _all_done(work, first, last):
        if not do_a_part(words):
            looks += 1
            if looks % SPINS == 0:
                yield_thread()


@kernel(OUT_I64, types.int64, types.int64)
def serve(words: NDArray[np.int64], descriptor: int, patience: int) -> None:
    """Help with posted pushes, until the mailbox is closed.

    words: of a MAILBOX. If nothing was posted and nobody roused it for `patience` nanoseconds, wait until a byte
    can be read from a file descriptor. All without the interpreter's lock: getting that takes as long as waking up.
    """
    mailbox = mailboxes_in(words)[0]
    last, roused = now(), 0
    while read_word(mailbox.closed, 0) == 0:
        for _ in range(SPINS):
            number = read_word(mailbox.posted, 0)
            if number > read_word(mailbox.claimed, 0) and swap_word(mailbox.claimed, 0, number - 1, number):
                of_work, looks = i64_at(mailbox.address, WORK_WORDS), 0
                while read_word(works_in(of_work)[0].stage, 0) != OVER:
                    if not do_a_part(of_work):
                        looks += 1
                        if looks % SPINS == 0:
                            yield_thread()
                write_word(mailbox.finished, 0, number)
                last = now()
        if read_word(mailbox.roused, 0) != roused:
            last, roused = now(), read_word(mailbox.roused, 0)
        if now() - last > patience:
            write_word(mailbox.awake, 0, 0)
            # A thread that roused it before seeing that wrote no byte.
            if read_word(mailbox.roused, 0) == roused and wait_for_byte(descriptor) == 0:
                return
            write_word(mailbox.awake, 0, 1)
            last = now()


@inlined
def _hand_over(work: np.record, left_keys: NDArray[np.int64], right_keys: NDArray[np.int64]) -> None:
    """Set the rows to insert into the table that each role probes; no part is claimed."""
    for role, keys in ((LEFT, right_keys), (RIGHT, left_keys)):
        inserted = work.roles[U64(role)].keys
        inserted.address, inserted.length = place_of(keys), keys.size
    for part in range(PARTS):
        work.claims[U64(part)] = work.dones[U64(part)] = 0
    write_word(work.stage, 0, INSERTING)


@kernel(OUT_I64, OUT_I64, I64, I64)
def begin(
    words: NDArray[np.int64],
    mailbox_words: NDArray[np.int64],
    left_keys: NDArray[np.int64],
    right_keys: NDArray[np.int64],
) -> None:
    """Let the second thread insert rows, until `end`; `show` lets it probe, and `meet` continues with it.

    words: of a WORK, with all that inserting needs; mailbox_words: of a MAILBOX with the work's address, to which
    no other thread posts; keys (n,) int64 of each side's rows, which must stay where they are.
    """
    posted = mailboxes_in(mailbox_words)[0].posted
    _hand_over(works_in(words)[0], left_keys, right_keys)
    write_word(posted, 0, posted[0] + 1)


@kernel(OUT_I64, OUT_I64)
def end(words: NDArray[np.int64], mailbox_words: NDArray[np.int64]) -> None:
    """Wait until the second thread has left the work, in any state; it takes no further part."""
    mailbox = mailboxes_in(mailbox_words)[0]
    number = mailbox.posted[0]
    write_word(works_in(words)[0].stage, 0, OVER)
    if swap_word(mailbox.claimed, 0, number - 1, number):
        write_word(mailbox.finished, 0, number)
    while read_word(mailbox.finished, 0) != number:
        yield_thread()


@inlined
def _cut(side: np.record, rank: NDArray[np.int64], rows: int, stretches: int) -> None:
    """Divide one role's probes at equal distances in the arrival order of all rows, and the room for their matches."""
    places = side.matches.length - stretches * MARGIN
    for stretch in range(STRETCHES + 1):
        stop = int(np.searchsorted(rank, rows * stretch // stretches)) if stretch < stretches else rank.size
        side.stops[U64(stretch)] = stop
        side.beyond[U64(stretch)] = min(stretch, stretches) * MARGIN + places * stop // max(rank.size, 1)
    for stretch in range(STRETCHES):
        side.done[U64(stretch)] = side.total[U64(stretch)] = 0


@inlined
def _show(
    work: np.record,
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
    for role, probes, rank in ((LEFT, left_keys, left_rank), (RIGHT, right_keys, right_rank)):
        side = work.roles[U64(role)]
        side.probes.address, side.probes.length, side.rank = place_of(probes), probes.size, place_of(rank)
        _cut(side, rank, rows, stretches)
    work.left_out, work.right_out, work.places = place_of(left), place_of(right), left.size


@kernel(OUT_I64, I64, I64, I64, I64, OUT_I64, OUT_I64)
def show(
    words: NDArray[np.int64],
    left_keys: NDArray[np.int64],
    right_keys: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> None:
    """Let the second thread, which has begun to insert, probe as well; arrays as those of `meet`, which comes next."""
    work = works_in(words)[0]
    _show(work, STRETCHES, left_keys, right_keys, left_rank, right_rank, left, right)
    write_word(work.stage, 0, PROBING)


@kernel(OUT_I64, types.boolean, I64, I64, I64, I64, OUT_I64, OUT_I64)
def meet(
    words: NDArray[np.int64],
    begun: bool,
    left_keys: NDArray[np.int64],
    right_keys: NDArray[np.int64],
    left_rank: NDArray[np.int64],
    right_rank: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> None:
    """Do all the work of a push, or what is left of it: insert, probe, merge the pairs.

    words: of a WORK, see `kernels.work`; whether it was `begun` with a second thread, and then all that it
    needs was shown to it. Keys and ranks (n,) int64 of each side's rows; left and right (places,) int64 take pairs, or
    numbers of matches and marks of left rows, of which eight are one value.
    """
    work, rows = works_in(words)[0], left_keys.size + right_keys.size
    if begun:
        _do_all(words, INSERT, WRITE)
    else:
        _hand_over(work, left_keys, right_keys)
        _show(work, 1, left_keys, right_keys, left_rank, right_rank, left, right)
        for part in range(INSERT, PROBE + 2):
            do_part(words, part)
    pairs, done, whole = 0, 0, True
    for role in range(2):
        side = work.roles[U64(role)]
        for stretch in range(STRETCHES):
            pairs += side.total[U64(stretch)]
            done += side.done[U64(stretch)]
        state, reach = i64_in(side.table.state), int(side.reach)
        near = int(state[LARGEST]) <= min(int(state[SMALLEST]), LAST_KEY - reach) + reach
        whole = whole and near and bool(side.inserted == side.keys.length)
    work.woven = UNFITTING
    if done != rows or not whole:
        work.woven = UNFINISHED
    elif work.counting != 0 or pairs <= left.size:
        work.woven = pairs
        if begun:
            write_word(work.stage, 0, WRITING)
            _do_all(words, WRITE, PARTS)
        else:
            do_part(words, WRITE)
            do_part(words, MARK)
            do_part(words, MARK + 1)
