"""Probe a cell table with a batch: find the stored rows that are in each probe's range and that it sees.

Probes are taken in blocks of eight, which pass three stages with hardly a branch that depends on a key: (1) compute the
two cells of each probe and their buckets, and prefetch these. Two blocks later, (2) read from the buckets how many
lines follow, prefetch those, and list all lines of the block. One block later, (3) compare the listed lines one by one.
Whatever does not fit - more than two cells, chains, no more room - is looked up probe by probe, however many cells it
covers and however long their chains are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from numba import types

from slidejoin.index.cells.kernels.buckets import (
    BUCKETS,
    FLOOR,
    LARGEST,
    MULTIPLIER,
    SHIFT,
    SMALLEST,
    SPREAD,
    STEP,
    bucket_of,
    whole_key,
)
from slidejoin.index.cells.kernels.table import (
    ALL_SLOTS,
    CELLS,
    CHAINED,
    HALF,
    I64_OF,
    LINES,
    LINK,
    NEWEST,
    U32_OF,
    WORDS,
    Cells,
)
from slidejoin.index.kernels.view import ABOVE, ARRIVED, BELOW, OWN, SIZE, SLIDE, first_seen
from slidejoin.jit.compiling import I64, OUT_I32, OUT_U32, U64, group, inlined, kernel, prefetch
from slidejoin.jit.vectors.vectors import (
    LOW_32,
    borrowed,
    count_ones,
    count_up_lanes,
    first_one,
    matching_lanes,
    put_lanes,
    repeat_lanes,
    scratch_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MARGIN", "CellRanges", "count_cells", "find_cells"]


class CellRanges(NamedTuple):
    """What n probes look for in a table.

    Attributes
    ----------
    lo, hi : (n,) int64
        Ranges of keys, both ends included, ``lo > hi`` an empty one.
    rank : (n,) int64
        Places of the probes in the arrival order.
    seen : (VIEW,) int64
        What they see of the stored side, see `slidejoin.index.kernels.view`.
    """

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    rank: NDArray[np.int64]
    seen: NDArray[np.int64]


CELL_RANGES = group(CellRanges, I64, I64, I64, I64)

MARGIN = 32
"""Places at the end of the positions that are written beyond the last match."""

BLOCK = 8
"""Probes of a block. With 16 a burst of prefetches held up memory: 41 to 44 ns a probe where 8 took 24, and 4 took
26."""

AIMED, LISTED, RING = 3, 1, 4
"""Prefetch distance of buckets, and of listed lines, in blocks; 2 and 4 blocks took 12 to 20 % longer than 3."""

FRONT, SPAN, FIRST, SEEN, HEAD, COVERED, STOP = (BLOCK * at for at in (0, 2, 4, 6, 8, 10, 11))
LINE = 12 * BLOCK
OF = LINE + 2 * BLOCK * 16 + 16
LISTED_LINES = OF + 2 * BLOCK * 16 + 16
NOTES = LISTED_LINES + 16
"""The scratch record of a block, uint32 (NOTES,): of each probe's first cell, and then of each one's last cell, the
lowest key (FRONT) and how far it goes (SPAN), the first position that is seen (FIRST) and how many are (SEEN), the
bucket (HEAD); of each probe whether its cells are one, two or more (COVERED: 0, 1, 2), and where its lines end in the
list (STOP). The list: each line's number (LINE) and which cell it is for (OF), which is then replaced by the number of
matches so far; and how long it is (LISTED_LINES), 0 where probes are looked up one by one."""

take_notes = scratch_words(RING * NOTES)

FIRST_KEY, LAST_KEY = -(1 << 63), (1 << 63) - 1


@inlined
def _low(lo: NDArray[np.int64], t: int, view: NDArray[np.int64], smallest: int) -> int:
    """Return where the range of probe t begins; bounds that would pass an end of int64 lie beyond all keys."""
    return max(max(int(lo[U64(t)]), FIRST_KEY + int(view[BELOW])) - int(view[BELOW]), smallest)


@inlined
def _high(hi: NDArray[np.int64], t: int, view: NDArray[np.int64], largest: int) -> int:
    return min(min(int(hi[U64(t)]), LAST_KEY - int(view[ABOVE])) + int(view[ABOVE]), largest)


@inlined
def _aim(notes: NDArray[np.uint32], base: int, cells: Cells, ranges: CellRanges, start: int, end: int) -> None:
    """Compute the cells of the probes from `start` on, and prefetch their buckets."""
    (slots, _, state), (lo, hi, rank, view) = cells, ranges
    shift, buckets, multiplier, bottom = int(state[SHIFT]), state[BUCKETS], state[MULTIPLIER], int(state[FLOOR])
    smallest, largest, arrived, own = int(state[SMALLEST]), int(state[LARGEST]), int(view[ARRIVED]), view[OWN] != 0
    below, above, size = int(view[BELOW]), int(view[ABOVE]), int(view[SIZE])
    least, most, full = FIRST_KEY + below, LAST_KEY - above, (1 << shift) - 1
    count = min(BLOCK, end - start)
    for k in range(count):
        t, r = U64(start + k), U64(base + k)
        low = max(max(int(lo[t]), least) - below, smallest)
        high = min(min(int(hi[t]), most) + above, largest)
        seen_to = arrived + rank[t] - (0 if own else start + k)
        seen_from = max(seen_to - size, 0, bottom)
        # A probe without a range reads one cell and sees no row.
        seen = 0 if low > high else max(seen_to - seen_from, 0)
        notes[r + U64(FIRST)] = U32_OF((seen_from + 1) & LOW_32)
        notes[r + U64(SEEN)] = U32_OF(seen & LOW_32)
        notes[r + U64(FIRST + BLOCK)] = U32_OF((seen_from + 1) & LOW_32)
        notes[r + U64(SEEN + BLOCK)] = U32_OF(seen & LOW_32)
        high = max(high, low)
        cell, last = low >> shift, high >> shift
        front = last << shift
        notes[r + U64(FRONT)] = U32_OF(low & LOW_32)
        notes[r + U64(SPAN)] = U32_OF((min(high, (cell << shift) + full) - low) & LOW_32)
        notes[r + U64(FRONT + BLOCK)] = U32_OF(front & LOW_32)
        notes[r + U64(SPAN + BLOCK)] = U32_OF((high - front) & LOW_32)
        notes[r + U64(COVERED)] = U32_OF(min(U64(last - cell), U64(2)))
        notes[r + U64(HEAD)] = U32_OF(bucket_of(cell, buckets, multiplier))
        notes[r + U64(HEAD + BLOCK)] = U32_OF(bucket_of(last, buckets, multiplier))
    if view[SLIDE] > 1:
        # Apart from the rest, which is compiled into eight lanes.
        for k in range(count):
            r, seen_to = U64(base + k), arrived + int(rank[U64(start + k)]) - (0 if own else start + k)
            seen_from = first_seen(view, seen_to, bottom)
            if notes[r + U64(SEEN)] != 0:
                for at in (0, BLOCK):
                    notes[r + U64(FIRST + at)] = U32_OF((seen_from + 1) & LOW_32)
                    notes[r + U64(SEEN + at)] = U32_OF((seen_to - seen_from) & LOW_32)
    for k in range(count, BLOCK):
        r = U64(base + k)
        notes[r + U64(COVERED)] = notes[r + U64(HEAD)] = notes[r + U64(HEAD + BLOCK)] = U32_OF(0)
        notes[r + U64(SEEN)] = notes[r + U64(SEEN + BLOCK)] = U32_OF(0)
    for k in range(2 * BLOCK):
        prefetch(slots, I64_OF(notes[U64(base + HEAD + k)]) * WORDS)


@inlined
def _list_cell(
    notes: NDArray[np.uint32], base: int, slots: NDArray[np.uint32], k: int, entries: int, floor: int
) -> int:
    """List the lines of one cell of a block from that place of the list on, prefetch them; return its link, or 0."""
    head = notes[U64(base + HEAD + k)]
    place = I64_OF(head) * WORDS
    link = I64_OF(slots[U64(place + LINK)])
    link = link if (I64_OF(slots[U64(place + NEWEST)]) - floor) & LOW_32 < HALF else 0
    more = link & 15
    count_up_lanes(notes, base + LINE + entries, head)
    repeat_lanes(notes, base + OF + entries, U32_OF(k))
    prefetch(slots, place + min(more, 1) * WORDS)
    if more > 1:
        for line in range(2, more + 1):
            prefetch(slots, place + line * WORDS)
        if more >= 8:  # noqa: PLR2004 - lanes
            count_up_lanes(notes, base + LINE + entries + 8, U32_OF(head + U32_OF(8)))
            repeat_lanes(notes, base + OF + entries + 8, U32_OF(k))
    return link


@inlined
def _list_lines(notes: NDArray[np.uint32], base: int, slots: NDArray[np.uint32], floor: int) -> int:
    """List the lines of a block; return their number, or 0 if probes are to be looked up one by one."""
    entries, links = 0, 0
    for k in range(BLOCK):
        cells = I64_OF(notes[U64(base + COVERED + k)])
        link = _list_cell(notes, base, slots, k, entries, floor)
        entries += (link & 15) + 1
        links |= link | cells << 30
        link = _list_cell(notes, base, slots, k + BLOCK, entries, floor)
        entries += (link & 15) + 1 if cells != 0 else 0
        links |= link
        notes[U64(base + STOP + k)] = U32_OF(entries)
    # Bit 31: a chain, or three cells and more.
    return 0 if links >> 31 else entries


# -- one probe by itself -----------------------------------------------------------------------------------------------


class Sought(NamedTuple):
    """What one probe looks for: keys low…high, the first position that it sees, and how many it sees."""

    low: int
    high: int
    first: np.uint32
    seen: np.uint32


@inlined
def _inside(
    words: NDArray[np.uint32], place: int, mask: int, line: int, state: NDArray[np.int64], low: int, high: int
) -> int:
    """Return the chosen lanes of a line whose whole keys are within low…high."""
    inside, rest = 0, mask
    while rest != 0:
        lane = first_one(rest)
        rest &= rest - 1
        key = whole_key(words[U64(place + lane)], line, state)
        inside |= (1 << lane) if low <= key <= high else 0
    return inside


def _prober_of_one(  # noqa: C901, PLR0915 - helpers that are compiled into one another
    put: Callable[..., int],
) -> Callable[..., int]:
    """Return the function that looks one probe up and handles each line's matches by `put`.

    What it returns takes the table; what is searched for, within the keys that ever came; the next place to write a
    position to, and the limit; and returns the next place. It stops once that is beyond `limit`.
    """

    @inlined
    def chain(
        cells: Cells, bucket: int, exactly: bool, sought: Sought, span: np.uint32, out: NDArray[np.uint32], at: int,
        limit: int,
    ) -> int:  # fmt: skip
        """Look through the chunks of a bucket, newer rows first."""
        (slots, pool, state), (low, high, first, seen) = cells, sought
        floor, place = int((state[FLOOR] + 1) & LOW_32), bucket * WORDS
        newest, link = I64_OF(slots[U64(place + NEWEST)]), I64_OF(slots[U64(place + LINK)])
        line = (link & (CHAINED - 1)) >> 4
        while link >= CHAINED and (newest - floor) & LOW_32 < HALF and at <= limit:
            here, bottom = line, line - line % LINES
            newest, line = I64_OF(pool[U64(bottom * WORDS + NEWEST)]), I64_OF(pool[U64(bottom * WORDS + LINK)])
            for one in range(line - line % LINES, line + 1):
                prefetch(pool, one * WORDS)
            while here >= bottom and at <= limit:
                mask = matching_lanes(pool, here * WORDS, U32_OF(low & LOW_32), span, first, seen) & ALL_SLOTS
                if exactly:
                    mask = _inside(pool, here * WORDS, mask, bucket, state, low, high)
                at = put(pool, here * WORDS, mask, out, at)
                here -= 1
        return at

    @inlined
    def by_cell(cells: Cells, sought: Sought, out: NDArray[np.uint32], at: int, limit: int) -> int:
        """Read one cell after the other, each for its own keys only: if cells share a line, no row matches twice."""
        slots, state = cells.slots, cells.state
        low, high, first, seen = sought
        shift, buckets, multiplier = int(state[SHIFT]), int(state[BUCKETS]), state[MULTIPLIER]
        floor, cell, last, no = int((state[FLOOR] + 1) & LOW_32), low >> shift, high >> shift, False
        while at <= limit:
            span = U32_OF(min(high, (cell << shift) + ((1 << shift) - 1)) - low)
            bucket = bucket_of(cell, buckets, multiplier)
            place = bucket * WORDS
            alive = (I64_OF(slots[U64(place + NEWEST)]) - floor) & LOW_32 < HALF
            more = I64_OF(slots[U64(place + LINK)]) & 15 if alive else 0
            for line in range(bucket, bucket + more + 1):
                if at <= limit:
                    mask = matching_lanes(slots, line * WORDS, U32_OF(low & LOW_32), span, first, seen) & ALL_SLOTS
                    at = put(slots, line * WORDS, mask, out, at)
            at = chain(cells, bucket, no, Sought(low, high, first, seen), span, out, at, limit)
            if cell == last:
                break
            cell += 1
            low = cell << shift
            prefetch(slots, bucket_of(min(cell + 2, last), buckets, multiplier) * WORDS)
        return at

    @inlined
    def by_line(cells: Cells, sought: Sought, out: NDArray[np.uint32], at: int, limit: int) -> int:
        """Read every line once, for a range of more cells than there are buckets, or too wide for 32 bits."""
        slots, state = cells.slots, cells.state
        low, high, first, seen = sought
        buckets, step = int(state[BUCKETS]), int(state[STEP])
        span = U32_OF(min(U64(high - low), U64(LOW_32)))
        exactly = bool(U64(int(state[LARGEST]) - int(state[SMALLEST])) < U64(((1 << 32) // step) << 32))
        for line in range(buckets + int(state[SPREAD]) - 1):
            if at <= limit:
                mask = matching_lanes(slots, line * WORDS, U32_OF(low & LOW_32), span, first, seen) & ALL_SLOTS
                if exactly:
                    mask = _inside(slots, line * WORDS, mask, line, state, low, high)
                at = put(slots, line * WORDS, mask, out, at)
            if line < buckets and at <= limit:
                at = chain(cells, line, exactly, sought, span, out, at, limit)
        return at

    @inlined
    def find_one(cells: Cells, sought: Sought, out: NDArray[np.uint32], at: int, limit: int) -> int:
        state, low, high = cells.state, sought.low, sought.high
        shift, step = int(state[SHIFT]), int(state[STEP])
        spanned, apart = U64((high >> shift) - (low >> shift)), U64(high - low)
        if spanned > U64(state[BUCKETS]) or apart >= U64(((1 << 32) // step) << 32):
            return by_line(cells, sought, out, at, limit)
        return by_cell(cells, sought, out, at, limit)

    return cast("Callable[..., int]", find_one)


# -- probes in blocks --------------------------------------------------------------------------------------------------


def _prober(  # noqa: C901 - the stages of a block, seen whole
    put: Callable[..., int],
) -> Callable[..., tuple[int, int]]:
    """Return the kernel that handles the matches of each line by `put`; see `find_cells`."""
    find_one = _prober_of_one(put)

    @kernel(
        CELLS, CELL_RANGES, types.int64, types.int64, OUT_U32, types.int64, types.int64, OUT_I32,
        returns=types.UniTuple(types.int64, 2),
    )  # fmt: skip
    def probe(  # noqa: C901 - see above
        cells: Cells,
        ranges: CellRanges,
        begin: int,
        end: int,
        positions: NDArray[np.uint32],
        at: int,
        limit: int,
        counts: NDArray[np.int32],
    ) -> tuple[int, int]:
        slots, state, out, counts = borrowed(cells.slots), borrowed(cells.state), borrowed(positions), borrowed(counts)
        lo, hi, rank, view = borrowed(ranges.lo), borrowed(ranges.hi), borrowed(ranges.rank), borrowed(ranges.seen)
        table, own = Cells(slots, borrowed(cells.pool), state), CellRanges(lo, hi, rank, view)
        bottom, blocks = int(state[FLOOR]), (end - begin + BLOCK - 1) // BLOCK if at <= limit else 0
        notes = take_notes()
        if blocks <= 0:
            return begin, at
        for b in range(-AIMED, blocks):
            if b + AIMED < blocks:
                base = ((b + AIMED) & (RING - 1)) * NOTES
                _aim(notes, base, table, own, begin + (b + AIMED) * BLOCK, end)
            if 0 <= b + LISTED < blocks:
                ahead = (b + LISTED) & (RING - 1)
                lines = _list_lines(notes, ahead * NOTES, slots, int((bottom + 1) & LOW_32))
                notes[U64(ahead * NOTES + LISTED_LINES)] = U32_OF(lines)
            if b < 0:
                continue
            base, i = (b & (RING - 1)) * NOTES, begin + b * BLOCK
            entries = I64_OF(notes[U64(base + LISTED_LINES)])
            if entries > 0 and at + 8 * entries <= limit:
                start, before = at, 0
                for e in range(entries):
                    r, place = base + I64_OF(notes[U64(base + OF + e)]), I64_OF(notes[U64(base + LINE + e)]) * WORDS
                    mask = matching_lanes(
                        slots, place, notes[U64(r + FRONT)], notes[U64(r + SPAN)], notes[U64(r + FIRST)],
                        notes[U64(r + SEEN)],
                    )  # fmt: skip
                    at = put(slots, place, mask & ALL_SLOTS, out, at)
                    notes[U64(base + OF + e)] = U32_OF(at - start)
                for k in range(min(BLOCK, end - i)):
                    to = I64_OF(notes[U64(base + OF - 1 + I64_OF(notes[U64(base + STOP + k)]))])
                    counts[U64(i + k)] = to - before
                    before = to
                continue
            for t in range(i, min(i + BLOCK, end)):
                start = at
                low, high = _low(lo, t, view, int(state[SMALLEST])), _high(hi, t, view, int(state[LARGEST]))
                seen_to = int(view[ARRIVED]) + int(rank[U64(t)]) - (0 if view[OWN] else t)
                seen_from = first_seen(view, seen_to, bottom)
                if low <= high and seen_from < seen_to:
                    first, seen = U32_OF((seen_from + 1) & LOW_32), U32_OF(seen_to - seen_from)
                    at = find_one(table, Sought(low, high, first, seen), out, at, limit)
                if at > limit:
                    return t, start
                counts[U64(t)] = at - start
        return end, at

    return probe


@inlined
def _put(words: NDArray[np.uint32], place: int, mask: int, out: NDArray[np.uint32], at: int) -> int:
    """Write the positions of a line's matches, and return the next place."""
    put_lanes(words, place, mask, out, at)
    return at + count_ones(mask)


@inlined
def _count(words: NDArray[np.uint32], place: int, mask: int, out: NDArray[np.uint32], at: int) -> int:  # noqa: ARG001
    """Only count a line's matches."""
    return at + count_ones(mask)


find_cells = _prober(_put)
"""Look up probes begin, begin + 1, … before `end`; return the first one not answered, and the next place.

Parameters
----------
cells : Cells
ranges : CellRanges
positions, at, limit
    uint32; positions of matches are written from place `at` on, the probes' one after the other. A probe that comes
    beyond `limit` is not answered; that and `MARGIN` more places must be there.
counts
    (n,) int32, the number of matches of each probe.
"""

count_cells = _prober(_count)
"""The same, which writes nothing but `counts`."""
