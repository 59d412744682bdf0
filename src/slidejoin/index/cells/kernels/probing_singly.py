"""Probe a cell table with a single probe, however many cells it covers and however long their chains are."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from slidejoin.index.cells.kernels.placing import (
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
from slidejoin.index.cells.kernels.table import ALL_SLOTS, CHAINED, HALF, I64_OF, LINES, LINK, NEWEST, U32_OF, WORDS
from slidejoin.jit.compiling import U64, inlined, prefetch
from slidejoin.jit.vectors.vectors import LOW_32, first_one, matching_lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["prober_of_one"]


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


def prober_of_one(  # noqa: C901, PLR0915 - helpers that are compiled into one another
    put: Callable[..., int],
) -> Callable[..., int]:
    """Return the function that looks one probe up and handles each line's matches by `put`.

    What it returns takes the table; the range low…high, within the keys that ever came; the first position that the
    probe sees and how many it sees; the next place to write a position to, and the limit; and returns the next place.
    It stops once that is beyond `limit`.
    """

    @inlined
    def chain(
        slots: NDArray[np.uint32], pool: NDArray[np.uint32], state: NDArray[np.int64], bucket: int, exactly: bool,
        low: int, high: int, span: np.uint32, first: np.uint32, seen: np.uint32, found: NDArray[np.uint32], at: int,
        limit: int,
    ) -> int:  # fmt: skip
        """Look through the chunks of a bucket, newer rows first."""
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
                at = put(pool, here * WORDS, mask, found, at)
                here -= 1
        return at

    @inlined
    def by_cell(
        slots: NDArray[np.uint32], pool: NDArray[np.uint32], state: NDArray[np.int64], low: int, high: int,
        first: np.uint32, seen: np.uint32, found: NDArray[np.uint32], at: int, limit: int,
    ) -> int:  # fmt: skip
        """Read one cell after the other, each for its own keys only: if cells share a line, no row is found twice."""
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
                    at = put(slots, line * WORDS, mask, found, at)
            at = chain(slots, pool, state, bucket, no, low, high, span, first, seen, found, at, limit)
            if cell == last:
                break
            cell += 1
            low = cell << shift
            prefetch(slots, bucket_of(min(cell + 2, last), buckets, multiplier) * WORDS)
        return at

    @inlined
    def by_line(
        slots: NDArray[np.uint32], pool: NDArray[np.uint32], state: NDArray[np.int64], low: int, high: int,
        first: np.uint32, seen: np.uint32, found: NDArray[np.uint32], at: int, limit: int,
    ) -> int:  # fmt: skip
        """Read every line once, for a range of more cells than there are buckets, or too wide for 32 bits."""
        buckets, step = int(state[BUCKETS]), int(state[STEP])
        span = U32_OF(min(U64(high - low), U64(LOW_32)))
        exactly = bool(U64(int(state[LARGEST]) - int(state[SMALLEST])) < U64(((1 << 32) // step) << 32))
        for line in range(buckets + int(state[SPREAD]) - 1):
            if at <= limit:
                mask = matching_lanes(slots, line * WORDS, U32_OF(low & LOW_32), span, first, seen) & ALL_SLOTS
                if exactly:
                    mask = _inside(slots, line * WORDS, mask, line, state, low, high)
                at = put(slots, line * WORDS, mask, found, at)
            if line < buckets and at <= limit:
                at = chain(slots, pool, state, line, exactly, low, high, span, first, seen, found, at, limit)
        return at

    @inlined
    def find_one(
        slots: NDArray[np.uint32], pool: NDArray[np.uint32], state: NDArray[np.int64], low: int, high: int,
        first: np.uint32, seen: np.uint32, found: NDArray[np.uint32], at: int, limit: int,
    ) -> int:  # fmt: skip
        shift, step = int(state[SHIFT]), int(state[STEP])
        cells, apart = U64((high >> shift) - (low >> shift)), U64(high - low)
        if cells > U64(state[BUCKETS]) or apart >= U64(((1 << 32) // step) << 32):
            return by_line(slots, pool, state, low, high, first, seen, found, at, limit)
        return by_cell(slots, pool, state, low, high, first, seen, found, at, limit)

    return cast("Callable[..., int]", find_one)
