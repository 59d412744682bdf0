"""The work of one push through two cell tables, in parts that threads share.

Each side's rows are inserted into its own table and probed by the other side's rows, stretch by stretch of the arrival
order; then the pairs of each stretch are written to their places in the result. The parameters of all parts are in one
record of addresses and numbers, the *work* of a push, so a thread needs no interpreter for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.index.cells.kernels.probing import MARGIN, CellRanges, count_cells, find_cells
from slidejoin.index.cells.kernels.table import Cells, insert_cells
from slidejoin.index.kernels.arrival_pairs import ProbeStretch, SideCounts, SideMatches, merge_counts, merge_pairs
from slidejoin.index.kernels.view import VIEW
from slidejoin.jit.compiling import OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.atomics import now
from slidejoin.jit.vectors.fields import ARRAY, WORD, i64_in, record, records_in, u32_in, u64_in
from slidejoin.jit.vectors.memory import flags_at, i32_at, i64_at, i64_table_at, u32_at
from slidejoin.operator.kernels.conditions import COLUMN, SIDE_WORDS, BoundCode, hold_matches
from slidejoin.operator.kernels.matched import Marks, mark_matches, mark_probes
from slidejoin.operator.kernels.probe_matches import (
    ProbeMatches,
    StoredValues,
    keep_between,
    keep_flagged,
    keep_in_scope,
)
from slidejoin.plan.kernels.closed_ranges import SHIFTS, find_ranges
from slidejoin.predicate.kernels.instructions import CONSTANT, INSTRUCTION

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "INSERT",
    "LEFT",
    "LINE",
    "MARK",
    "PARTS",
    "PROBE",
    "RIGHT",
    "ROLE",
    "STRETCHES",
    "TABLE",
    "WORK",
    "WRITE",
    "do_part",
    "works_in",
]

LEFT, RIGHT = range(2)
"""The roles: left rows as probes, and right ones."""

STRETCHES = 4
"""Number of stretches of a push with two threads: the last to end keeps the other waiting."""

INSERT, PROBE, WRITE, MARK, PARTS = 0, 2, 2 + 2 * STRETCHES, 2 + 3 * STRETCHES, 4 + 3 * STRETCHES
"""Parts of the work: insert the rows that the left probes meet, and those that the right ones do; probe with the left
rows of the first stretch, its right ones, those of the second; write the pairs of each stretch; mark the left rows that
are in pairs, and the right ones, where that is wanted."""

LINE = 8
"""Words of a cache line."""

TABLE = record([("slots", ARRAY), ("pool", ARRAY), ("state", ARRAY)])
"""A table of cells."""

SHIFTED = record(["one", "two", "shifts"])
"""What ranges of probes follow from: addresses of their keys of two terms, and of the shifts, 0 if they do not."""

ENDS = record(["low", "high", "lows", "highs"])
"""The ends of ranges: addresses of the first term's lower and upper ends, and of the second one's."""

ROLE = record(
    [
        ("table", TABLE),  # the table that is probed
        ("keys", ARRAY),  # keys that are inserted into the table first
        "eligible",  # address of flags, which of these may match anything, or 0 for all
        "first",  # the ordinal of the first of these
        ("probes", ARRAY),  # keys of the probes
        "rank",  # address of their ranks
        "viewed",  # address of their view
        ("matches", ARRAY),  # room for their matches
        "counts",  # address of the room for their counts
        "ordinal",  # their first ordinal
        "floor",  # of the table
        "times",  # in a time window, address of the probes' times, otherwise 0
        "time_column",  # which value of each row `stored` is its time
        ("stored", ARRAY),  # values of the stored rows, by which matches are checked
        "stored_columns",  # how many of each row
        "before",  # a probe sees rows from so many ticks before its own time
        "after",  # to so many ticks after it
        "inserted",  # how many rows were inserted
        ("stops", WORD, STRETCHES + 1),  # with which probe each stretch begins, and where the last one ends
        ("beyond", WORD, STRETCHES + 1),  # where in `matches` each stretch begins, and where the last one ends
        ("done", WORD, STRETCHES),  # probes that each stretch has done
        ("total", WORD, STRETCHES),  # their matches
        "reach",  # how far keys may lie apart in the table
        "lower",  # address of the lower ends of the probes' ranges, 0 where these lie around the keys as the view says
        "upper",  # address of their upper ends, or 0
        "checked_low",  # address of the lower ends of what the last value of each row `stored` is checked by, or 0
        "checked_high",  # of the upper ends
        "further_low",  # the same of another value, or 0
        "further_high",
        "further_between",  # whether that is to lie between these ends, or beyond them
        "further_column",  # which value it is
        ("shifted", SHIFTED),  # what the probes' ranges follow from
        ("bounds", ENDS),  # room for these
        "wide",  # whether the table is wide, so that a whole key is the last value of each row `stored`
        ("marks", ARRAY),  # marks of the rows that probe
        ("blocks", ARRAY),  # blocks of marks; none where no marks are wanted
        "first_block",
        LINE,
    ]
)
"""What each role has."""

PROGRAM = record(
    [
        ("code", ARRAY),  # lines; none without a program, -1 if it cannot be run
        ("constants", ARRAY),  # lines
        ("columns", ARRAY),  # lines
        "sides",  # address
        "registers",
    ]
)
"""A program that pairs are checked by, see `operator.kernels.conditions`."""

WORK = record(
    [
        ("roles", ROLE, 2),  # LEFT, RIGHT
        "counting",  # whether pairs are only counted
        "aside",  # whether a stretch's pairs of right probes may come behind those of its left ones
        "left_out",  # address of the room for the left rows of pairs; where they are counted, for matches
        "right_out",  # for the right ones; where pairs are counted, for marks of left rows
        "places",  # of that room
        "woven",  # how many pairs are woven, or why none are, see `operator.fused.kernels.pushing`
        ("program", PROGRAM),  # that pairs are checked by
        "gave_up",  # whether it gave up
        ("stage", WORD, 1),  # how far the push is
        LINE,
        ("claims", WORD, PARTS),  # of each part, whether some thread has claimed it
        LINE,
        ("dones", WORD, PARTS),  # whether it is done
        LINE,
        ("took", WORD, PARTS),  # how many nanoseconds it took in all pushes since that was last set to 0
        LINE,
    ]
)
"""The whole work. Threads write words of `stage`, `claims` and `dones` at the same time, one at a time."""

works_in = records_in(WORK)

ENDLESS = 1 << 62


@inlined
def _insert(side: np.record) -> None:
    keys, done = i64_in(side.keys), 0
    if keys.size > 0:
        slots, pool, state = u32_in(side.table.slots), u32_in(side.table.pool), i64_in(side.table.state)
        eligible = flags_at(side.eligible, keys.size if side.eligible != 0 else 0)
        done = insert_cells(slots, pool, state, keys, eligible, 0, side.first)
    side.inserted = done


@inlined
def _find_ranges(side: np.record, begin: int, end: int) -> None:
    """Write the ranges of these probes, if they follow from their keys."""
    shifted, bounds = side.shifted, side.bounds
    if shifted.shifts != 0:
        rows, first = end - begin, 8 * begin
        find_ranges(
            i64_at(shifted.one + first, rows), i64_at(shifted.two + first, rows), i64_at(shifted.shifts, SHIFTS),
            i64_at(bounds.low + first, rows), i64_at(bounds.high + first, rows),
            i64_at(bounds.lows + first, rows), i64_at(bounds.highs + first, rows),
        )  # fmt: skip


@inlined
def _keep_held(work: np.record, role: int, matches: ProbeMatches, total: int) -> int:
    """Keep the matches that the program holds for, of so many; return how many remain, -1 if it gives up."""
    program, side = work.program, work.roles[U64(role)]
    if program.code.length < 0:
        return -1
    flags = np.empty(total, np.bool_)
    code = BoundCode(
        i64_table_at(program.code.address, program.code.length, INSTRUCTION),
        i64_table_at(program.constants.address, program.constants.length, CONSTANT),
        i64_table_at(program.columns.address, program.columns.length, COLUMN),
        i64_table_at(program.sides, 2, SIDE_WORDS),
        program.registers,
    )
    fits = hold_matches(code, matches, side.ordinal, side.floor, role, flags)
    return keep_flagged(matches, flags) if fits else -1


@inlined
def _probe(work: np.record, role: int, stretch: int) -> None:
    """Answer the probes of a stretch; none of them if not all rows could be inserted."""
    side = work.roles[U64(role)]
    cells = Cells(u32_in(side.table.slots), u32_in(side.table.pool), i64_in(side.table.state))
    view, begin, end = i64_at(side.viewed, VIEW), side.stops[U64(stretch)], side.stops[U64(stretch + 1)]
    place, done, last = side.beyond[U64(stretch)], begin, 0
    if begin < end and side.inserted == side.keys.length:
        count, lower, upper = side.probes.length, side.lower, side.upper
        rank = i64_at(side.rank, count)
        if lower == 0:
            lower = upper = side.probes.address
        _find_ranges(side, begin, end)
        lo, hi = i64_at(lower, count), i64_at(upper, count)
        ranges = CellRanges(lo, hi, rank, view)
        positions, counts = u32_in(side.matches), i32_at(side.counts, count)
        whole = side.checked_low != 0 or side.wide != 0
        programmed = work.program.code.length != 0
        checked = whole or programmed or side.further_low != 0
        if work.counting != 0 and side.times == 0 and not checked:
            done, last = count_cells(cells, ranges, begin, end, positions, 0, ENDLESS, counts)
        else:
            limit = side.beyond[U64(stretch + 1)] - MARGIN
            done, last = find_cells(cells, ranges, begin, end, positions, place, limit, counts)
            last -= place
            matches = ProbeMatches(positions, counts, begin, done, place)
            stored = StoredValues(i64_in(side.stored), side.stored_columns)
            if last > 0 and whole:
                if side.checked_low != 0:
                    lo, hi = i64_at(side.checked_low, count), i64_at(side.checked_high, count)
                last = keep_between(matches, stored, stored.columns - 1, lo, hi, True)  # noqa: FBT003 - a kernel's
            if last > 0 and side.further_low != 0:
                lo, hi = i64_at(side.further_low, count), i64_at(side.further_high, count)
                last = keep_between(matches, stored, side.further_column, lo, hi, side.further_between != 0)
            if last > 0 and side.times != 0:
                times = i64_at(side.times, count)
                last = keep_in_scope(matches, stored, side.time_column, times, side.before, side.after)
            if last > 0 and programmed:
                # Its flags are for the places of this stretch alone.
                own = u32_at(side.matches.address + 4 * place, last)
                last = _keep_held(work, role, ProbeMatches(own, counts, begin, done, 0), last)
                if last < 0:
                    work.gave_up, done, last = 1, begin, 0
    side.done[U64(stretch)], side.total[U64(stretch)] = done - begin, last


@inlined
def _write(work: np.record, stretch: int) -> None:
    """Write the pairs, or numbers of pairs, of a stretch of arrivals."""
    own, other, places = work.roles[LEFT], work.roles[RIGHT], work.places
    lefts, rights = own.probes.length, other.probes.length
    left_rank, right_rank = i64_at(own.rank, lefts), i64_at(other.rank, rights)
    left_counts, right_counts = i32_at(own.counts, lefts), i32_at(other.counts, rights)
    i, i_end = own.stops[U64(stretch)], own.stops[U64(stretch + 1)]
    j, j_end = other.stops[U64(stretch)], other.stops[U64(stretch + 1)]
    if work.counting != 0:
        matches, is_left = i64_at(work.left_out, lefts + rights), flags_at(work.right_out, lefts + rights)
        lefts_of, rights_of = SideCounts(left_rank, left_counts), SideCounts(right_rank, right_counts)
        merge_counts(lefts_of, rights_of, ProbeStretch(i, j, i_end, j_end), matches, is_left)
        return
    left_positions, right_positions = u32_in(own.matches), u32_in(other.matches)
    ours = SideMatches(left_rank, left_counts, left_positions, own.ordinal, own.floor, own.beyond[U64(stretch)])
    theirs = SideMatches(
        right_rank, right_counts, right_positions, other.ordinal, other.floor, other.beyond[U64(stretch)]
    )
    left, right = i64_at(work.left_out, places), i64_at(work.right_out, places)
    at = 0
    for before in range(stretch):
        at += own.total[U64(before)] + other.total[U64(before)]
    middle = at + own.total[U64(stretch)]
    end, aside = middle + other.total[U64(stretch)], work.aside != 0
    # Either both roles at once, or the left one up to the middle and then the right one.
    for turn in range(2 if aside else 1):
        of_stretch = ProbeStretch(i_end if turn else i, j_end if aside and not turn else j, i_end, j_end)
        begin, stop = middle if turn else at, middle if aside and not turn else end
        merge_pairs(ours, theirs, of_stretch, left, right, begin, stop)


@inlined
def _mark(side: np.record, other: np.record) -> None:
    """Mark the rows of a role that have matches, and the stored rows of that side, which the other role matched."""
    if side.blocks.length == 0:
        return
    marks = Marks(u64_in(side.marks), i64_in(side.blocks), side.first_block)
    mark_probes(marks, i32_at(side.counts, side.probes.length), side.ordinal)
    positions = u32_in(other.matches)
    for stretch in range(STRETCHES):
        begin = other.beyond[U64(stretch)]
        mark_matches(marks, positions, begin, begin + other.total[U64(stretch)], other.floor)


@kernel(OUT_I64, types.int64)
def do_part(words: NDArray[np.int64], part: int) -> None:
    """Do one part of the work, the words of a WORK, and record its time."""
    began, work, role = now(), works_in(words)[0], part & 1
    if part < PROBE:
        _insert(work.roles[U64(role)])
    elif part < WRITE:
        _probe(work, role, (part - PROBE) >> 1)
    elif part < MARK:
        _write(work, part - WRITE)
    else:
        _mark(work.roles[U64(role)], work.roles[U64(1 - role)])
    work.took[U64(part)] += now() - began
