"""Looking a batch of probes up in a table of cells: which stored rows lie in each one's range, and are seen by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from slidejoin.kernels.cells import (
    AHEAD,
    BUCKETS,
    FLOOR,
    HALF,
    LARGEST,
    LINES,
    LINK,
    NEWEST,
    SHIFT,
    SLOTS,
    SMALLEST,
    U32_OF,
    WORDS,
    bucket_of,
)  # fmt: skip
from slidejoin.kernels.compiling import I64, OUT_I32, OUT_U32, U32, U64, inlined, kernel, prefetch
from slidejoin.kernels.vectors import LOW_32, count_ones, matching_lanes, put_lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ARRIVED", "MARGIN", "OWN", "SIZE", "SLIDE", "VIEW", "count_cells", "find_cells"]

ARRIVED, SIZE, SLIDE, OWN, BELOW, ABOVE, VIEW = range(7)
"""Places in a view, int64 (VIEW,), which says what probes see of the stored side: how many of its rows had ARRIVED
before these; of those before a probe it sees the last SIZE, in blocks of SLIDE rows; OWN is 1 if ranks count the stored
rows alone, as in a self-join, and 0 if they count the probes as well. The ranges are ``lo - BELOW`` to ``hi + ABOVE``,
both at least 0, and stay at the ends of int64 where they would pass them."""

MARGIN = 32
"""Places at the end of `found` that are written beyond the last match: two buckets, each of eight lanes."""

NEAR = 7
"""Probes ahead of which the rows behind a bucket are asked for: 39 % less time under a log-normal distribution, none
more under a uniform one."""

ALL_SLOTS = (1 << SLOTS) - 1
FIRST_KEY, LAST_KEY = -(1 << 63), (1 << 63) - 1


def _prober(  # noqa: C901, PLR0915 - one path through a probe, seen whole
    look: Callable[..., int],
) -> Callable[..., tuple[int, int]]:
    """Return the kernel that handles each bucket by `look`; see `find_cells`."""

    @inlined
    def follow(
        slots: NDArray[np.uint32], pool: NDArray[np.uint32], place: int, low: int, span: np.uint32, first: np.uint32,
        seen: np.uint32, floor: int, found: NDArray[np.uint32], at: int, limit: int,
    ) -> int:  # fmt: skip
        """Look through the chain behind a bucket, newer rows first."""
        newest, line = int(slots[U64(place + NEWEST)]), int(slots[U64(place + LINK)])
        while (newest - floor) & LOW_32 < HALF and at <= limit:
            here, bottom = line, line - line % LINES
            newest, line = int(pool[U64(here * WORDS + NEWEST)]), int(pool[U64(here * WORDS + LINK)])
            for one in range(line - line % LINES, line + 1):
                prefetch(pool, one * WORDS)
            while here >= bottom and at <= limit:
                at = look(pool, here * WORDS, low, span, first, seen, found, at)
                here -= 1
        return at

    @kernel(
        U32, U32, I64, I64, I64, I64, I64, types.int64, types.int64, OUT_U32, types.int64, types.int64, OUT_I32,
        returns=types.UniTuple(types.int64, 2),
    )  # fmt: skip
    def probe(  # noqa: C901, PLR0912, PLR0915 - see above
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
        shift, buckets, bottom = int(state[SHIFT]), state[BUCKETS], state[FLOOR]
        smallest, largest = state[SMALLEST], state[LARGEST]
        below, above = view[BELOW], view[ABOVE]
        # Bounds that would pass an end of int64 lie beyond all keys either way.
        least, most = FIRST_KEY + below, LAST_KEY - above
        floor = (bottom + 1) & LOW_32
        i = begin
        for t in range(begin, min(begin + AHEAD, end)):
            prefetch(slots, bucket_of((max(lo[U64(t)], least) - below) >> shift, buckets) * WORDS)
            prefetch(slots, bucket_of((min(hi[U64(t)], most) + above) >> shift, buckets) * WORDS)
        while i < end and at <= limit:
            ahead = U64(min(i + AHEAD, end - 1))
            prefetch(slots, bucket_of((max(lo[ahead], least) - below) >> shift, buckets) * WORDS)
            prefetch(slots, bucket_of((min(hi[ahead], most) + above) >> shift, buckets) * WORDS)
            # Nearer than that, the bucket has come; if rows are behind it, they are asked for too.
            soon = U64(min(i + NEAR, end - 1))
            for edge in ((max(lo[soon], least) - below) >> shift, (min(hi[soon], most) + above) >> shift):
                place = bucket_of(edge, buckets) * WORDS
                if (slots[U64(place + NEWEST)] - floor) & LOW_32 < HALF:
                    line = int(slots[U64(place + LINK)])
                    for one in range(line - line % LINES, line + 1):
                        prefetch(pool, one * WORDS)
            # No stored key lies outside of smallest…largest; within them the low 32 bits may be enough to know a key.
            low = int(max(max(lo[U64(i)], least) - below, smallest))
            high = int(min(min(hi[U64(i)], most) + above, largest))
            before = rank[U64(i)] - (0 if view[OWN] else i)
            seen_to = view[ARRIVED] + before
            seen_from = max(seen_to - view[SIZE], 0)
            if view[SLIDE] > 1:
                seen_from -= seen_from % view[SLIDE]
            seen_from = max(seen_from, bottom)
            start = at
            if low <= high and seen_from < seen_to:
                first, seen = U32_OF((seen_from + 1) & LOW_32), U32_OF(seen_to - seen_from)
                cell, last = low >> shift, high >> shift
                if U64(last - cell) > U64(buckets) or U64(high - low) > U64(LOW_32):
                    # More cells than buckets, or cells that 32 bits do not tell apart and that may share a bucket:
                    # every bucket once, each row by its key alone.
                    span = U32_OF(min(U64(high - low), U64(LOW_32)))
                    for bucket in range(buckets):
                        place = bucket * WORDS
                        at = look(slots, place, low, span, first, seen, found, at)
                        at = follow(slots, pool, place, low, span, first, seen, floor, found, at, limit)
                        if at > limit:
                            return i, start
                else:
                    while True:
                        # Of each cell only its own keys, so that cells that share a bucket give no row twice.
                        top = min(high, (cell << shift) + ((1 << shift) - 1))
                        place = bucket_of(cell, buckets) * WORDS
                        span = U32_OF(top - low)
                        at = look(slots, place, low, span, first, seen, found, at)
                        if (slots[U64(place + NEWEST)] - floor) & LOW_32 < HALF:
                            at = follow(slots, pool, place, low, span, first, seen, floor, found, at, limit)
                        if cell == last:
                            break
                        if at > limit:
                            return i, start
                        cell += 1
                        low = cell << shift
                        prefetch(slots, bucket_of(min(cell + 2, last), buckets) * WORDS)
            if at > limit:
                return i, start
            counts[U64(i)] = at - start
            i += 1
        return i, at

    return probe


@inlined
def _find(
    words: NDArray[np.uint32], place: int, low: int, span: np.uint32, first: np.uint32, seen: np.uint32,
    found: NDArray[np.uint32], at: int,
) -> int:  # fmt: skip
    """Write the positions of a bucket's matches, and return the next place."""
    mask = matching_lanes(words, place, U32_OF(low & LOW_32), span, first, seen) & ALL_SLOTS
    put_lanes(words, place, mask, found, at)
    return at + count_ones(mask)


@inlined
def _count(
    words: NDArray[np.uint32], place: int, low: int, span: np.uint32, first: np.uint32, seen: np.uint32,
    found: NDArray[np.uint32], at: int,  # noqa: ARG001 - the same as `_find` takes
) -> int:  # fmt: skip
    """Only count a bucket's matches."""
    return at + count_ones(matching_lanes(words, place, U32_OF(low & LOW_32), span, first, seen) & ALL_SLOTS)


find_cells = _prober(_find)
"""Look up probes begin, begin + 1, … before `end`; return the first one not answered, and the next place in `found`.

Parameters
----------
slots, pool, state
    The table, see `slidejoin.kernels.cells`.
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
