"""Probe a cell table with a batch: find the stored rows that are in each probe's range and that it sees.

Probes are taken in blocks of eight, which pass three stages with hardly a branch that depends on a key: (1) compute the
two cells of each probe and their buckets, and prefetch these. Two blocks later, (2) read from the buckets how many
lines follow, prefetch those, and list all lines of the block. One block later, (3) compare the listed lines one by one.
Whatever does not fit - more than two cells, chains, the end of `found` - is looked up probe by probe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.index.cells.kernels.placing import BUCKETS, FLOOR, LARGEST, MULTIPLIER, SHIFT, SMALLEST, bucket_of
from slidejoin.index.cells.kernels.probing_singly import prober_of_one
from slidejoin.index.cells.kernels.table import ALL_SLOTS, HALF, I64_OF, LINK, NEWEST, U32_OF, WORDS
from slidejoin.index.kernels.view import ABOVE, ARRIVED, BELOW, OWN, SIZE, SLIDE, first_seen
from slidejoin.jit.compiling import I64, OUT_I32, OUT_U32, U32, U64, inlined, kernel, prefetch
from slidejoin.jit.vectors.vectors import (
    LOW_32,
    borrowed,
    count_ones,
    count_up_lanes,
    matching_lanes,
    put_lanes,
    repeat_lanes,
    scratch_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "MARGIN",
    "count_cells",
    "find_cells",
]

MARGIN = 32
"""Places at the end of `found` that are written beyond the last match."""

BLOCK = 8
"""Probes of a block. With 16 a burst of prefetches held up memory: 41 to 44 ns a probe where 8 took 24, and 4 took
26."""

AIMED, LISTED, RING = 3, 1, 4
"""Prefetch distance of buckets, and of listed lines, in blocks; 2 and 4 blocks took 12 to 20 % longer than 3."""

FRONT, SPAN, FIRST, SEEN, HEAD, CELLS, STOP = (BLOCK * at for at in (0, 2, 4, 6, 8, 10, 11))
LINE = 12 * BLOCK
OF = LINE + 2 * BLOCK * 16 + 16
LINES = OF + 2 * BLOCK * 16 + 16
NOTES = LINES + 16
"""The scratch record of a block, uint32 (NOTES,): of each probe's first cell, and then of each one's last cell, the
lowest key (FRONT) and how far it goes (SPAN), the first position that is seen (FIRST) and how many are (SEEN), the
bucket (HEAD); of each probe whether its cells are one, two or more (CELLS: 0, 1, 2), and where its lines end in the
list (STOP). The list: each line's number (LINE) and which cell it is for (OF), which is then replaced by the number of
matches so far; and how long it is (LINES), 0 where probes are looked up one by one."""

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
def _aim(
    notes: NDArray[np.uint32], base: int, slots: NDArray[np.uint32], state: NDArray[np.int64], lo: NDArray[np.int64],
    hi: NDArray[np.int64], rank: NDArray[np.int64], view: NDArray[np.int64], start: int, end: int,
) -> None:  # fmt: skip
    """Compute the cells of the probes from `start` on, and prefetch their buckets."""
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
        notes[r + U64(CELLS)] = U32_OF(min(U64(last - cell), U64(2)))
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
        notes[r + U64(CELLS)] = notes[r + U64(HEAD)] = notes[r + U64(HEAD + BLOCK)] = U32_OF(0)
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
        cells = I64_OF(notes[U64(base + CELLS + k)])
        link = _list_cell(notes, base, slots, k, entries, floor)
        entries += (link & 15) + 1
        links |= link | cells << 30
        link = _list_cell(notes, base, slots, k + BLOCK, entries, floor)
        entries += (link & 15) + 1 if cells != 0 else 0
        links |= link
        notes[U64(base + STOP + k)] = U32_OF(entries)
    # Bit 31: a chain, or three cells and more.
    return 0 if links >> 31 else entries


def _prober(  # noqa: C901 - the stages of a block, seen whole
    put: Callable[..., int],
) -> Callable[..., tuple[int, int]]:
    """Return the kernel that handles the matches of each line by `put`; see `find_cells`."""
    find_one = prober_of_one(put)

    @kernel(
        U32, U32, I64, I64, I64, I64, I64, types.int64, types.int64, OUT_U32, types.int64, types.int64, OUT_I32,
        returns=types.UniTuple(types.int64, 2),
    )  # fmt: skip
    def probe(  # noqa: C901 - see above
        slots: NDArray[np.uint32],
        pool: NDArray[np.uint32],
        state: NDArray[np.int64],
        lo: NDArray[np.int64],
        hi: NDArray[np.int64],
        rank: NDArray[np.int64],
        view: NDArray[np.int64],
        begin: int,
        end: int,
        found: NDArray[np.uint32],
        at: int,
        limit: int,
        counts: NDArray[np.int32],
    ) -> tuple[int, int]:
        bottom, blocks = int(state[FLOOR]), (end - begin + BLOCK - 1) // BLOCK if at <= limit else 0
        slots, pool, state, lo, hi = borrowed(slots), borrowed(pool), borrowed(state), borrowed(lo), borrowed(hi)
        rank, view, found, counts = borrowed(rank), borrowed(view), borrowed(found), borrowed(counts)
        notes = take_notes()
        if blocks <= 0:
            return begin, at
        for b in range(-AIMED, blocks):
            if b + AIMED < blocks:
                base = ((b + AIMED) & (RING - 1)) * NOTES
                _aim(notes, base, slots, state, lo, hi, rank, view, begin + (b + AIMED) * BLOCK, end)
            if 0 <= b + LISTED < blocks:
                ahead = (b + LISTED) & (RING - 1)
                lines = _list_lines(notes, ahead * NOTES, slots, int((bottom + 1) & LOW_32))
                notes[U64(ahead * NOTES + LINES)] = U32_OF(lines)
            if b < 0:
                continue
            base, i = (b & (RING - 1)) * NOTES, begin + b * BLOCK
            entries = I64_OF(notes[U64(base + LINES)])
            if entries > 0 and at + 8 * entries <= limit:
                start, before = at, 0
                for e in range(entries):
                    r, place = base + I64_OF(notes[U64(base + OF + e)]), I64_OF(notes[U64(base + LINE + e)]) * WORDS
                    mask = matching_lanes(
                        slots, place, notes[U64(r + FRONT)], notes[U64(r + SPAN)], notes[U64(r + FIRST)],
                        notes[U64(r + SEEN)],
                    )  # fmt: skip
                    at = put(slots, place, mask & ALL_SLOTS, found, at)
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
                    at = find_one(slots, pool, state, low, high, first, seen, found, at, limit)
                if at > limit:
                    return t, start
                counts[U64(t)] = at - start
        return end, at

    return probe


@inlined
def _put(words: NDArray[np.uint32], place: int, mask: int, found: NDArray[np.uint32], at: int) -> int:
    """Write the positions of a line's matches, and return the next place."""
    put_lanes(words, place, mask, found, at)
    return at + count_ones(mask)


@inlined
def _count(words: NDArray[np.uint32], place: int, mask: int, found: NDArray[np.uint32], at: int) -> int:  # noqa: ARG001
    """Only count a line's matches."""
    return at + count_ones(mask)


find_cells = _prober(_put)
"""Look up probes begin, begin + 1, … before `end`; return the first one not answered, and the next place in `found`.

Parameters
----------
slots, pool, state
    The table, see `slidejoin.index.cells.kernels.table`.
lo, hi
    (n,) int64, ranges of keys, both ends included, ``lo > hi`` an empty one.
rank
    (n,) int64, places of the probes in the arrival order.
view
    (VIEW,) int64, see above.
found, at, limit
    uint32; positions of matches are written from place `at` on, the probes' one after the other. A probe that comes
    beyond `limit` is not answered; that and `MARGIN` more places must be there.
counts
    (n,) int32, the number of matches of each probe.
"""

count_cells = _prober(_count)
"""The same, which writes nothing but `counts`."""
