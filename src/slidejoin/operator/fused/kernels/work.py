"""The work of one push through two cell tables, in parts that threads share.

Each side's rows are inserted into its own table and probed by the other side's rows, stretch by stretch of the arrival
order; then the pairs of each stretch are written to their places in the result. The parameters of all parts are in one
array of addresses and numbers, the *work* of a push, so a thread needs no interpreter for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.index.cells.kernels.probing import MARGIN, count_cells, find_cells
from slidejoin.index.cells.kernels.table import insert_cells
from slidejoin.index.kernels.view import VIEW
from slidejoin.index.kernels.weaving import weave, weave_counts
from slidejoin.jit.compiling import OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.atomics import now
from slidejoin.jit.vectors.fields import offsets
from slidejoin.jit.vectors.memory import flags_at, i32_at, i64_at, i64_table_at, u32_at, u64_at
from slidejoin.operator.fused.kernels.packing import keep_between
from slidejoin.operator.ingest.kernels.clocks import keep_in_scope
from slidejoin.operator.kernels.conditions import COLUMN, SIDE_WORDS, find_held, keep_held
from slidejoin.operator.kernels.matched import mark_found, mark_probes
from slidejoin.plan.kernels.closing import SHIFTS, find_ranges
from slidejoin.predicate.kernels.instructions import CONSTANT, INSTRUCTION

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "AFTER",
    "ASIDE",
    "BEFORE",
    "BEYOND",
    "BOUNDS",
    "CHECKED",
    "CLAIMS",
    "COUNTING",
    "COUNTS",
    "DONE",
    "DONES",
    "FIRST",
    "FLOOR_OF",
    "FOUND",
    "FURTHER",
    "GAVE_UP",
    "INSERT",
    "INSERTED",
    "KEPT",
    "KEYS",
    "LEFT",
    "LINE",
    "LOWER",
    "MARK",
    "MARKED_BLOCKS",
    "MARKS",
    "ORDINAL",
    "OUT",
    "PARTS",
    "PROBE",
    "PROBES",
    "PROGRAM",
    "RANK",
    "REACH",
    "RIGHT",
    "SHIFTED",
    "STAGE",
    "STOPS",
    "STORED",
    "STRETCHES",
    "TIMES",
    "TOOK",
    "TOTAL",
    "UPPER",
    "VIEWED",
    "WIDE",
    "WORK",
    "WOVEN",
    "WRITE",
    "do_part",
]

STRETCHES = 4
"""Number of stretches of a push with two threads: the last to end keeps the other waiting."""

INSERT, PROBE, WRITE, MARK, PARTS = offsets(2, 2 * STRETCHES, STRETCHES, 2)
"""Parts of the work: insert the rows that the left probes meet, and those that the right ones do; probe with the left
rows of the first stretch, its right ones, those of the second; write the pairs of each stretch; mark the left rows that
are in pairs, and the right ones, where that is asked."""

LINE = 8
"""Words of a cache line."""

(
    TABLE,  # the table that is probed: addresses and sizes of its slots, its pool and its state
    KEYS,  # keys that are inserted into the table first: address, rows
    KEPT,  # address of flags, which of these may match anything, or 0 for all
    FIRST,  # the ordinal of the first of these
    PROBES,  # keys of the probes: address, rows
    RANK,  # address of their ranks
    VIEWED,  # address of their view
    FOUND,  # room for what they find: address, places
    COUNTS,  # address of the room for their counts
    ORDINAL,  # their first ordinal
    FLOOR_OF,  # the floor of the table
    TIMES,  # in a time window, address of the probes' times, otherwise 0; which value of each row STORED is its time
    STORED,  # values beside the table, by which found rows are checked: address, how many, how many of each row
    BEFORE,  # a probe sees rows from so many ticks before its own time
    AFTER,  # to so many ticks after it
    INSERTED,  # how many rows were inserted
    STOPS,  # with which probe each stretch begins, and where the last one ends
    BEYOND,  # from which place of FOUND on the matches of each stretch stand, and where the room ends
    DONE,  # probes that each stretch has done
    TOTAL,  # what they found
    REACH,  # how far keys may lie apart in the table
    LOWER,  # address of the lower ends of the probes' ranges, 0 where the view has these lie around the probes' keys
    UPPER,  # address of their upper ends, or 0
    CHECKED,  # addresses of the lower and upper ends of what the last value of each row STORED is checked by, or 0
    FURTHER,  # the same of another value, whether that is to lie between these ends, or beyond them, and which it is
    SHIFTED,  # addresses of the probes' keys of two terms, and of the shifts that their ranges follow from, or 0
    BOUNDS,  # addresses of the room for these: of the first term's lower and upper ends, and the second one's
    WIDE,  # whether the table is wide, so that a whole key is the last value of each row STORED beside it
    MARKS,  # marks of the rows that probe: address, words, address of their blocks
    MARKED_BLOCKS,  # how many blocks these are, 0 where no marks are asked for; and the first one
    ROLE,  # words of a role
) = offsets(
    *(6, 2, 1, 1, 2, 1, 1, 2, 1, 1, 1, 2, 3, 1, 1, 1),
    *(STRETCHES + 1 for _ in range(4)),  # one more each, since a cut has two ends
    *(1, 1, 1, 2, 4, 3, 4, 1, 3, 2),
    line=LINE,
)
"""What each role has, the left rows as probes and the right ones."""

LEFT, RIGHT, SHARED = offsets(ROLE, ROLE)
"""Where the words of the left probes begin, those of the right ones, and those of both."""

COUNTING, ASIDE, OUT, WOVEN, PROGRAM, GAVE_UP, STAGE, _CLAIMS_AT = offsets(1, 1, 3, 1, 8, 1, 1, start=SHARED, line=LINE)
"""Of both: whether pairs are only COUNTING; whether a stretch's pairs of right probes may stand ASIDE, behind those of
its left ones; where pairs go OUT (addresses of left and right, places there); how many are WOVEN, or why none are, see
`operator.fused.kernels.pushing`; the PROGRAM that pairs are checked by, see `operator.kernels.conditions`
(addresses and lines of code, constants and columns, address of sides, registers; no lines of code without one, -1 if it
cannot be run), and whether it GAVE_UP; and how far the push is (STAGE). Counts go out as matches and marks of left
rows."""

CLAIMS, DONES, TOOK, WORK = offsets(2 * LINE, 2 * LINE, PARTS, start=_CLAIMS_AT, line=LINE)
"""Of each part, whether some thread has claimed it, whether it is done, and how many nanoseconds it TOOK in all pushes
since that was last set to 0; and the words of the whole work."""

ENDLESS = 1 << 62


@inlined
def _insert(work: NDArray[np.int64], at: int) -> None:
    slots, pool = u32_at(work[U64(at)], work[U64(at + 1)]), u32_at(work[U64(at + 2)], work[U64(at + 3)])
    state, keys = i64_at(work[U64(at + 4)], work[U64(at + 5)]), i64_at(work[U64(at + KEYS)], work[U64(at + KEYS + 1)])
    done = 0
    if keys.size > 0:
        kept = flags_at(work[U64(at + KEPT)], keys.size if work[U64(at + KEPT)] != 0 else 0)
        done = insert_cells(slots, pool, state, keys, kept, 0, work[U64(at + FIRST)])
    work[U64(at + INSERTED)] = done


@inlined
def _find_ranges(work: NDArray[np.int64], at: int, begin: int, end: int) -> None:
    """Write the ranges of these probes, if they follow from their keys."""
    one, two, shifts = work[U64(at + SHIFTED)], work[U64(at + SHIFTED + 1)], work[U64(at + SHIFTED + 2)]
    if shifts != 0:
        rows, first = end - begin, 8 * begin
        find_ranges(
            i64_at(one + first, rows), i64_at(two + first, rows), i64_at(shifts, SHIFTS),
            i64_at(work[U64(at + BOUNDS)] + first, rows), i64_at(work[U64(at + BOUNDS + 1)] + first, rows),
            i64_at(work[U64(at + BOUNDS + 2)] + first, rows), i64_at(work[U64(at + BOUNDS + 3)] + first, rows),
        )  # fmt: skip


@inlined
def _keep_held(
    work: NDArray[np.int64], at: int, counts: NDArray[np.int32], begin: int, end: int, place: int, total: int
) -> int:
    """Keep what the program holds for of what probes begin…end-1 found; return how much that is, -1 if it gives up."""
    steps = work[U64(PROGRAM + 1)]
    if steps < 0:
        return -1
    found, flags = u32_at(work[U64(at + FOUND)] + 4 * place, total), np.empty(total, np.bool_)
    fits = find_held(
        i64_table_at(work[U64(PROGRAM)], steps, INSTRUCTION),
        i64_table_at(work[U64(PROGRAM + 2)], work[U64(PROGRAM + 3)], CONSTANT),
        i64_table_at(work[U64(PROGRAM + 4)], work[U64(PROGRAM + 5)], COLUMN),
        i64_table_at(work[U64(PROGRAM + 6)], 2, SIDE_WORDS), work[U64(PROGRAM + 7)],
        found, counts, begin, end, 0, work[U64(at + ORDINAL)], work[U64(at + FLOOR_OF)], int(at == RIGHT), flags,
    )  # fmt: skip
    return keep_held(found, counts, begin, end, 0, flags) if fits else -1


@inlined
def _probe(work: NDArray[np.int64], at: int, stretch: int) -> None:
    """Answer the probes of a stretch; none of them if not all rows could be inserted."""
    slots, pool = u32_at(work[U64(at)], work[U64(at + 1)]), u32_at(work[U64(at + 2)], work[U64(at + 3)])
    state, view = i64_at(work[U64(at + 4)], work[U64(at + 5)]), i64_at(work[U64(at + VIEWED)], VIEW)
    begin, end = work[U64(at + STOPS + stretch)], work[U64(at + STOPS + stretch + 1)]
    place, done, last = work[U64(at + BEYOND + stretch)], begin, 0
    if begin < end and work[U64(at + INSERTED)] == work[U64(at + KEYS + 1)]:
        count = work[U64(at + PROBES + 1)]
        rank, lower, upper = i64_at(work[U64(at + RANK)], count), work[U64(at + LOWER)], work[U64(at + UPPER)]
        if lower == 0:
            lower = upper = work[U64(at + PROBES)]
        _find_ranges(work, at, begin, end)
        lo, hi = i64_at(lower, count), i64_at(upper, count)
        found, counts = u32_at(work[U64(at + FOUND)], work[U64(at + FOUND + 1)]), i32_at(work[U64(at + COUNTS)], count)
        whole = work[U64(at + CHECKED)] != 0 or work[U64(at + WIDE)] != 0
        programmed = work[U64(PROGRAM + 1)] != 0
        checked = whole or programmed or work[U64(at + FURTHER)] != 0
        if work[U64(COUNTING)] != 0 and work[U64(at + TIMES)] == 0 and not checked:
            done, last = count_cells(slots, pool, state, lo, hi, rank, view, begin, end, found, 0, ENDLESS, counts)
        else:
            limit = work[U64(at + BEYOND + stretch + 1)] - MARGIN
            done, last = find_cells(slots, pool, state, lo, hi, rank, view, begin, end, found, place, limit, counts)
            last -= place
            stored, columns = i64_at(work[U64(at + STORED)], work[U64(at + STORED + 1)]), work[U64(at + STORED + 2)]
            between = True
            if last > 0 and whole:
                if work[U64(at + CHECKED)] != 0:
                    lo, hi = i64_at(work[U64(at + CHECKED)], count), i64_at(work[U64(at + CHECKED + 1)], count)
                last = keep_between(found, place, counts, begin, done, stored, columns, columns - 1, lo, hi, between)
            if last > 0 and work[U64(at + FURTHER)] != 0:
                lo, hi = i64_at(work[U64(at + FURTHER)], count), i64_at(work[U64(at + FURTHER + 1)], count)
                between, column = work[U64(at + FURTHER + 2)] != 0, work[U64(at + FURTHER + 3)]
                last = keep_between(found, place, counts, begin, done, stored, columns, column, lo, hi, between)
            if last > 0 and work[U64(at + TIMES)] != 0:
                times = i64_at(work[U64(at + TIMES)], count)
                before, after, column = work[U64(at + BEFORE)], work[U64(at + AFTER)], work[U64(at + TIMES + 1)]
                last = keep_in_scope(found, place, counts, begin, done, stored, columns, column, times, before, after)
            if last > 0 and programmed:
                last = _keep_held(work, at, counts, begin, done, place, last)
                if last < 0:
                    work[U64(GAVE_UP)], done, last = 1, begin, 0
    work[U64(at + DONE + stretch)], work[U64(at + TOTAL + stretch)] = done - begin, last


@inlined
def _write(work: NDArray[np.int64], stretch: int) -> None:
    """Write the pairs, or numbers of pairs, of a stretch of arrivals."""
    lefts, rights, places = work[U64(LEFT + PROBES + 1)], work[U64(RIGHT + PROBES + 1)], work[U64(OUT + 2)]
    left_rank, right_rank = i64_at(work[U64(LEFT + RANK)], lefts), i64_at(work[U64(RIGHT + RANK)], rights)
    left_counts, right_counts = i32_at(work[U64(LEFT + COUNTS)], lefts), i32_at(work[U64(RIGHT + COUNTS)], rights)
    i, i_end = work[U64(LEFT + STOPS + stretch)], work[U64(LEFT + STOPS + stretch + 1)]
    j, j_end = work[U64(RIGHT + STOPS + stretch)], work[U64(RIGHT + STOPS + stretch + 1)]
    if work[U64(COUNTING)] != 0:
        matches, is_left = i64_at(work[U64(OUT)], lefts + rights), flags_at(work[U64(OUT + 1)], lefts + rights)
        weave_counts(left_rank, left_counts, right_rank, right_counts, i, j, i_end, j_end, matches, is_left)
        return
    left_found = u32_at(work[U64(LEFT + FOUND)], work[U64(LEFT + FOUND + 1)])
    right_found = u32_at(work[U64(RIGHT + FOUND)], work[U64(RIGHT + FOUND + 1)])
    left, right = i64_at(work[U64(OUT)], places), i64_at(work[U64(OUT + 1)], places)
    at = 0
    for before in range(stretch):
        at += work[U64(LEFT + TOTAL + before)] + work[U64(RIGHT + TOTAL + before)]
    middle = at + work[U64(LEFT + TOTAL + stretch)]
    end, aside = middle + work[U64(RIGHT + TOTAL + stretch)], work[U64(ASIDE)] != 0
    # Either both roles at once, or the left one up to the middle and then the right one.
    for turn in range(2 if aside else 1):
        weave(
            left_rank, left_counts, left_found, work[U64(LEFT + ORDINAL)], work[U64(LEFT + FLOOR_OF)],
            right_rank, right_counts, right_found, work[U64(RIGHT + ORDINAL)], work[U64(RIGHT + FLOOR_OF)],
            i_end if turn else i, j_end if aside and not turn else j,
            work[U64(LEFT + BEYOND + stretch)], work[U64(RIGHT + BEYOND + stretch)], i_end, j_end,
            left, right, middle if turn else at, middle if aside and not turn else end,
        )  # fmt: skip


@inlined
def _mark(work: NDArray[np.int64], at: int) -> None:
    """Mark the rows of a role that found others, and the stored rows of that side, which the other role found."""
    if work[U64(at + MARKED_BLOCKS)] == 0:
        return
    marks = u64_at(work[U64(at + MARKS)], work[U64(at + MARKS + 1)])
    blocks, first = i64_at(work[U64(at + MARKS + 2)], work[U64(at + MARKED_BLOCKS)]), work[U64(at + MARKED_BLOCKS + 1)]
    mark_probes(
        marks, blocks, first, i32_at(work[U64(at + COUNTS)], work[U64(at + PROBES + 1)]), work[U64(at + ORDINAL)]
    )
    by = LEFT + RIGHT - at
    found = u32_at(work[U64(by + FOUND)], work[U64(by + FOUND + 1)])
    for stretch in range(STRETCHES):
        begin = work[U64(by + BEYOND + stretch)]
        mark_found(
            marks, blocks, first, found, begin, begin + work[U64(by + TOTAL + stretch)], work[U64(by + FLOOR_OF)]
        )


@kernel(OUT_I64, types.int64)
def do_part(work: NDArray[np.int64], part: int) -> None:
    """Do one part of the work, see above, and record its time."""
    began = now()
    at = RIGHT if part & 1 else LEFT
    if part < PROBE:
        _insert(work, at)
    elif part < WRITE:
        _probe(work, at, (part - PROBE) >> 1)
    elif part < MARK:
        _write(work, part - WRITE)
    else:
        _mark(work, at)
    work[U64(TOOK + part)] += now() - began
