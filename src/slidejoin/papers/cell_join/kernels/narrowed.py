"""The nested loop of CellJoin, section 5, over keys narrowed to 32 bits: twice as many in a vector, and half to read.

A basic window has a *frame*: a base and a shift, by which its keys become words of 32 bits in the same order. Where
keys of one basic window lie less than 2**32 apart the shift is 0 and a word is a key; otherwise neighbouring keys share
a word, so each hit is compared as a whole key. A frame also has the smallest and the largest key, so that a basic
window that no range of the batch meets is not read at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64_2D, OUT_U32, U32, U64, group, inlined, kernel
from slidejoin.jit.vectors.vectors import borrowed, first_one
from slidejoin.papers.kernels.walking import ENTRIES, MatchEntries, ProbeRanges
from slidejoin.papers.kernels.walking import RANGES as PROBE_RANGES
from slidejoin.papers.kernels.word_lanes import (
    RANGES,
    WORD_LANES,
    WORDS_AT_ONCE,
    any_word,
    any_word_in_ranges,
    words_inside,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "FRAME",
    "SCANNED_ROWS",
    "UNIT_BLOCK",
    "ScannedRows",
    "compare_narrowed",
    "narrow_keys",
]

UNIT_BLOCK = 8
"""Keys in a unit block: a vector of 512 bits, equation 1 with eight bytes a key."""

BASE, SHIFT, LEAST, MOST, FRAME = range(5)
"""Places in a frame, int64 (FRAME,): the smallest key when words were written last, the shift, and the keys' extent."""


class ScannedRows(NamedTuple):
    """Rows first…last-1 of a ring of columns, keys and ordinals (places,) int64, in basic windows of `size` places.

    A row lies at its number modulo the places; `first` is the beginning of a basic window.
    """

    keys: NDArray[np.int64]
    ordinals: NDArray[np.int64]
    first: int
    last: int
    size: int


class RangeWords(NamedTuple):
    """The ranges of a batch that meet a basic window, as words; whose they are, and which piece of that probe's."""

    lows: NDArray[np.uint32]
    spans: NDArray[np.uint32]
    probes: NDArray[np.int64]
    pieces: NDArray[np.int64]


SCANNED_ROWS = group(ScannedRows, I64, I64, types.int64, types.int64, types.int64)


@inlined
def _shift_for(least: Any, most: Any) -> Any:  # noqa: ANN401 - int64
    """Return by how many bits keys are shifted so that those from `least` to `most` become words of 32 bits."""
    shift = np.int64(0)
    # Halved keys do not overflow; keys that lie less than 2**31 apart when halved lie less than 2**32 apart.
    if (most >> np.int64(1)) - (least >> np.int64(1)) >= np.int64(1 << 31):
        shift = np.int64(1)
        while (most >> shift) - (least >> shift) >= np.int64(1 << 32):
            shift += np.int64(1)
    return shift


@kernel(I64, OUT_U32, OUT_I64_2D, types.int64, types.int64, types.int64)
def narrow_keys(
    keys: NDArray[np.int64],
    words: NDArray[np.uint32],
    frames: NDArray[np.int64],
    first: int,
    last: int,
    size: int,
) -> None:
    """Write the words of rows first…last-1, whose keys are in place, and widen the frames of their basic windows.

    Rows lie at their number modulo the places of `keys` int64 and `words` uint32, basic windows of `size` places;
    frames (places // size, FRAME) int64. A basic window's first row begins its frame. O(rows), and O(size) more
    where a key does not fit into its basic window's frame.
    """
    row = first
    while row < last:
        begin = row - row % size
        end = min(begin + size, last)
        base = begin % keys.size
        frame = U64(base // size)
        least, most = keys[U64(base + row - begin)], keys[U64(base + row - begin)]
        if row > begin:
            least, most = min(least, frames[frame, LEAST]), max(most, frames[frame, MOST])
        for place in range(base + row - begin, base + end - begin):
            least, most = min(least, keys[U64(place)]), max(most, keys[U64(place)])
        start, old, shift = row, frames[frame, BASE], frames[frame, SHIFT]
        if row == begin or least < old or _shift_for(old, most) > shift:
            start, old, shift = begin, least, _shift_for(least, most)
            frames[frame, BASE], frames[frame, SHIFT] = old, shift
        frames[frame, LEAST], frames[frame, MOST] = least, most
        bottom = old >> shift
        for place in range(base + start - begin, base + end - begin):
            words[U64(place)] = np.uint32((keys[U64(place)] >> shift) - bottom)
        row = end


@inlined
def _write_hits(
    words: Any,  # noqa: ANN401
    rows: Any,  # noqa: ANN401
    ranges: Any,  # noqa: ANN401
    met: Any,  # noqa: ANN401
    one: Any,  # noqa: ANN401
    place: Any,  # noqa: ANN401
    past: Any,  # noqa: ANN401
    entries: Any,  # noqa: ANN401
    begin: Any,  # noqa: ANN401
    total: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Write an entry for each seen key in one of the ranges met, of those from `place` on and before `past`.

    The batch begins with probe `begin`. Returns the new total.
    """
    i, piece = met.probes[U64(one)], met.pieces[U64(one)]
    low, high = ranges.lo[U64(piece), U64(i)], ranges.hi[U64(piece), U64(i)]
    low_word, span = met.lows[U64(one)], met.spans[U64(one)]
    low_seen, high_seen = ranges.seen_from[U64(i)], ranges.seen_to[U64(i)]
    for part in range(place, place + WORDS_AT_ONCE, WORD_LANES):
        hits = words_inside(words, part, low_word, span)
        while hits != 0:
            at = part + first_one(hits)
            hits &= hits - np.int64(1)
            key, ordinal = rows.keys[U64(at)], rows.ordinals[U64(at)]
            entries.ordinals[U64(total)] = ordinal  # stays, or is overwritten by the next
            entries.probes[U64(total)] = i - begin
            total += (at < past) & (low <= key) & (key <= high) & (low_seen <= ordinal) & (ordinal < high_seen)
    return total


@inlined
def _meet_window(frames: Any, frame: Any, ranges: Any, begin: Any, end: Any, met: Any) -> Any:  # noqa: ANN401
    """Write the ranges of a batch that meet a basic window's extent; count them."""
    shift, least, largest = frames[frame, SHIFT], frames[frame, LEAST], frames[frame, MOST]
    bottom, count = frames[frame, BASE] >> shift, np.int64(0)
    for piece in range(ranges.lo.shape[0]):
        for i in range(begin, end):
            low, high = max(ranges.lo[U64(piece), U64(i)], least), min(ranges.hi[U64(piece), U64(i)], largest)
            if low <= high:
                low_word = (low >> shift) - bottom
                met.lows[U64(count)] = np.uint32(low_word)
                met.spans[U64(count)] = np.uint32((high >> shift) - bottom - low_word)
                met.probes[U64(count)], met.pieces[U64(count)] = i, piece
                count += np.int64(1)
    return count


@inlined
def _four_from(words: Any, first: Any) -> Any:  # noqa: ANN401
    second = first + 1
    third = second + 1
    return words[U64(first)], words[U64(second)], words[U64(third)], words[U64(third + 1)]


@inlined
def _next_hit(words: Any, place: Any, past: Any, met: Any, first: Any, together: Any) -> Any:  # noqa: ANN401
    """Return the first place from `place` on, in steps, where some word is in a range met; or one from `past` on.

    Nothing is stored in these loops, so that ranges stay in registers: that takes a third less time.
    """
    lows, spans = met.lows, met.spans
    if together == 1:
        low, span = lows[U64(first)], spans[U64(first)]
        while place < past and not any_word(words, place, low, span):
            place += WORDS_AT_ONCE
    else:
        four_lows, four_spans = _four_from(lows, first), _four_from(spans, first)
        while place < past and not any_word_in_ranges(words, place, four_lows, four_spans):
            place += WORDS_AT_ONCE
    return place


@kernel(
    U32, I64_2D, SCANNED_ROWS, PROBE_RANGES, types.int64, types.int64, ENTRIES, types.int64, returns=types.int64
)  # fmt: skip
def compare_narrowed(
    words: NDArray[np.uint32],
    frames: NDArray[np.int64],
    rows: ScannedRows,
    ranges: ProbeRanges,
    begin: int,
    end: int,
    entries: MatchEntries,
    room: int,
) -> int:
    """Write a match entry for each pair of a probe begin…end-1 and a row that it sees with a key in one of its ranges.

    `words` uint32 and `frames` as `narrow_keys` writes them; the size is a multiple of `WORDS_AT_ONCE`. Four ranges are
    compared with each word that is loaded. Returns the number of entries, -1 if there might be more than `room`.
    O(rows * probes * k).
    """
    total: Any = np.int64(0)
    most = (end - begin) * ranges.lo.shape[0] + RANGES
    low_words, spans = np.empty(most, np.uint32), np.empty(most, np.uint32)
    probes, pieces = np.empty(most, np.int64), np.empty(most, np.int64)
    met: Any = RangeWords(borrowed(low_words), borrowed(spans), borrowed(probes), borrowed(pieces))
    own, framed, size = borrowed(words), borrowed(frames), rows.size
    stored: Any = ScannedRows(borrowed(rows.keys), borrowed(rows.ordinals), rows.first, rows.last, size)
    near: Any = ProbeRanges(
        borrowed(ranges.lo), borrowed(ranges.hi), borrowed(ranges.seen_from), borrowed(ranges.seen_to)
    )
    out: Any = MatchEntries(borrowed(entries.ordinals), borrowed(entries.probes))
    for window in range(rows.first, rows.last, size):
        base, past = window % rows.keys.size, window % rows.keys.size + min(size, rows.last - window)
        # Only basic windows at either end of what the batch sees are looked at row by row for that (section 4.1.2).
        if (
            stored.ordinals[U64(past - 1)] < near.seen_from[U64(begin)]  # the newest row
            or stored.ordinals[U64(base)] >= near.seen_to[U64(end - 1)]  # the oldest
        ):
            continue
        count = _meet_window(framed, U64(base // size), near, begin, end, met)
        first = 0
        while first < count:
            together = RANGES if first + RANGES <= count else 1
            at = _next_hit(own, base, past, met, first, together)
            while at < past:
                if total + RANGES * WORDS_AT_ONCE > room:
                    return -1
                for one in range(first, first + together):
                    total = _write_hits(own, stored, near, met, one, at, past, entries=out, begin=begin, total=total)
                at = _next_hit(own, at + WORDS_AT_ONCE, past, met, first, together)
            first += together
    low_words[0], spans[0], probes[0], pieces[0] = 0, 0, 0, 0  # named last, see `borrowed`
    return total  # type: ignore[no-any-return]
