"""The work of one push through two cell tables, in parts that threads share.

Each side's rows are inserted into its own table and probed by the other side's rows, stretch by stretch of the arrival
order; then the pairs of each stretch are written to their places in the result. The parameters of all parts are in one
array of addresses and numbers, the *work* of a push, so a thread needs no interpreter for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.kernels.candidates.weaving import weave, weave_counts
from slidejoin.kernels.cells.probing import MARGIN, VIEW, count_cells, find_cells
from slidejoin.kernels.cells.table import insert_cells
from slidejoin.kernels.common.atomics import now
from slidejoin.kernels.common.memory import flags_at, i32_at, i64_at, u32_at
from slidejoin.kernels.ingest.clocks import keep_in_scope
from slidejoin.kernels.jit.compiling import OUT_I64, U64, inlined, kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "AFTER",
    "ASIDE",
    "BEFORE",
    "BEYOND",
    "CLAIMS",
    "COUNTING",
    "COUNTS",
    "DONE",
    "DONES",
    "FIRST",
    "FLOOR_OF",
    "FOUND",
    "INSERT",
    "INSERTED",
    "KEYS",
    "LEFT",
    "ORDINAL",
    "OUT",
    "PARTS",
    "PROBE",
    "PROBES",
    "RANK",
    "REACH",
    "RIGHT",
    "STAGE",
    "STOPS",
    "STORED",
    "STRETCHES",
    "TIMES",
    "TOOK",
    "TOTAL",
    "VIEWED",
    "WORK",
    "WOVEN",
    "WRITE",
    "do_part",
]

LEFT, RIGHT, SHARED, WORK = 0, 48, 96, 152
"""Where the words of the left probes begin, those of the right ones, and those of both; and how many there are."""

STRETCHES = 4
"""Number of stretches of a push with two threads: the last to end keeps the other waiting."""

TABLE, KEYS, FIRST, PROBES, RANK, VIEWED, FOUND, COUNTS, ORDINAL, FLOOR_OF = 0, 6, 8, 9, 11, 12, 13, 15, 16, 17
"""What each role has: the TABLE that it probes (addresses and sizes of slots, pool and state), the KEYS to be inserted
into that first (address, rows) with the ordinal FIRST; its PROBES (address, rows), their RANK and view (addresses),
room for what they FOUND (address, places) and for COUNTS; their first ORDINAL, and the FLOOR_OF the table."""

TIMES, STORED, BEFORE, AFTER = 18, 19, 21, 22
"""In a time window, the TIMES of the probes (address, or 0) and those STORED beside the table (address, rows); a probe
sees rows from so many ticks BEFORE to so many AFTER its own."""

INSERTED, STOPS, BEYOND, DONE, TOTAL, REACH = 23, 24, 30, 36, 42, 47
"""How many rows were INSERTED, and how far keys may lie apart in the table (REACH). With which probe each stretch
begins (STOPS, and the last one's end), and from which place of FOUND on its matches stand (BEYOND, and where the room
ends); of each stretch, how many probes are DONE and the TOTAL they found."""

COUNTING, ASIDE, OUT, WOVEN, STAGE = SHARED, SHARED + 1, SHARED + 2, SHARED + 5, SHARED + 6
"""Of both: whether pairs are only COUNTING; whether a stretch's pairs of right probes may stand ASIDE, behind those of
its left ones; where pairs go OUT (addresses of left and right, places there); how many are WOVEN, or why none are, see
`slidejoin.kernels.fused.pushing`; and how far the push is (STAGE). Counts go out as matches and marks of left rows."""

CLAIMS, DONES, TOOK = SHARED + 8, SHARED + 24, SHARED + 40
"""Of each part, whether some thread has claimed it, whether it is done, and how many nanoseconds it TOOK in all pushes
since that was last set to 0."""

INSERT, PROBE, WRITE, PARTS = 0, 2, 2 + 2 * STRETCHES, 2 + 3 * STRETCHES
"""Parts of the work: insert the rows that the left probes search, and those that the right ones search; probe with the
left rows of the first stretch, the right ones, those of the second; write the pairs of each stretch."""

ENDLESS = 1 << 62


@inlined
def _insert(work: NDArray[np.int64], at: int) -> None:
    slots, pool = u32_at(work[U64(at)], work[U64(at + 1)]), u32_at(work[U64(at + 2)], work[U64(at + 3)])
    state, keys = i64_at(work[U64(at + 4)], work[U64(at + 5)]), i64_at(work[U64(at + KEYS)], work[U64(at + KEYS + 1)])
    done = 0
    if keys.size > 0:
        done = insert_cells(slots, pool, state, keys, flags_at(0, 0), 0, work[U64(at + FIRST)])
    work[U64(at + INSERTED)] = done


@inlined
def _probe(work: NDArray[np.int64], at: int, stretch: int) -> None:
    """Answer the probes of a stretch; none of them if not all rows could be inserted."""
    slots, pool = u32_at(work[U64(at)], work[U64(at + 1)]), u32_at(work[U64(at + 2)], work[U64(at + 3)])
    state, view = i64_at(work[U64(at + 4)], work[U64(at + 5)]), i64_at(work[U64(at + VIEWED)], VIEW)
    begin, end = work[U64(at + STOPS + stretch)], work[U64(at + STOPS + stretch + 1)]
    place, done, last = work[U64(at + BEYOND + stretch)], begin, 0
    if begin < end and work[U64(at + INSERTED)] == work[U64(at + KEYS + 1)]:
        count = work[U64(at + PROBES + 1)]
        probes, rank = i64_at(work[U64(at + PROBES)], count), i64_at(work[U64(at + RANK)], count)
        found, counts = u32_at(work[U64(at + FOUND)], work[U64(at + FOUND + 1)]), i32_at(work[U64(at + COUNTS)], count)
        if work[U64(COUNTING)] != 0 and work[U64(at + TIMES)] == 0:
            done, last = count_cells(
                slots, pool, state, probes, probes, rank, view, begin, end, found, 0, ENDLESS, counts
            )
        else:
            limit = work[U64(at + BEYOND + stretch + 1)] - MARGIN
            done, last = find_cells(
                slots, pool, state, probes, probes, rank, view, begin, end, found, place, limit, counts
            )
            last -= place
            if work[U64(at + TIMES)] != 0:
                stored = i64_at(work[U64(at + STORED)], work[U64(at + STORED + 1)])
                times = i64_at(work[U64(at + TIMES)], count)
                before, after = work[U64(at + BEFORE)], work[U64(at + AFTER)]
                last = keep_in_scope(found, place, counts, begin, done, stored, times, before, after)
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


@kernel(OUT_I64, types.int64)
def do_part(work: NDArray[np.int64], part: int) -> None:
    """Do one part of the work, see above, and record its time."""
    began = now()
    at = RIGHT if part & 1 else LEFT
    if part < PROBE:
        _insert(work, at)
    elif part < WRITE:
        _probe(work, at, (part - PROBE) >> 1)
    else:
        _write(work, part - WRITE)
    work[U64(TOOK + part)] += now() - began
