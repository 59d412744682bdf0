"""The nested loop of CellJoin, section 5, over keys narrowed to 32 bits: twice as many in a vector, and half to read.

A basic window has a *frame*: a base and a shift, by which its keys become words of 32 bits in the same order. Where
keys of one basic window lie less than 2**32 apart the shift is 0 and a word is a key; otherwise neighbouring keys share
a word, so each hit is compared as a whole key. A frame also has the smallest and the largest key, so that a basic
window that no range of the batch meets is not read at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import (
    I64,
    I64_2D,
    OUT_I32,
    OUT_I64,
    OUT_I64_2D,
    OUT_U32,
    U32,
    U64,
    inlined,
    kernel,
)
from slidejoin.jit.vectors.vectors import borrowed, first_one
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

__all__ = ["FRAME", "compare_narrowed", "narrow_keys"]

BASE, SHIFT, LEAST, MOST, FRAME = range(5)
"""Places in a frame, int64 (FRAME,): the smallest key when words were written last, the shift, and the keys' extent."""


@inlined
def _shift_for(least: Any, most: Any) -> Any:  # noqa: ANN401 - int64
    """Return by how many bits keys are shifted so that those from `least` to `most` become words of 32 bits."""
    shift = np.int64(0)
    # Halves do not overflow, and keys whose halves lie less than 2**31 apart lie less than 2**32 apart.
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
    frames (places // size, FRAME) int64. A basic window's first row makes its frame anew. O(rows), and O(size) more
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
    keys: Any,  # noqa: ANN401
    ordinals: Any,  # noqa: ANN401
    place: Any,  # noqa: ANN401
    past: Any,  # noqa: ANN401
    low_word: Any,  # noqa: ANN401
    span: Any,  # noqa: ANN401
    low: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
    low_seen: Any,  # noqa: ANN401
    high_seen: Any,  # noqa: ANN401
    probe: Any,  # noqa: ANN401
    entries: Any,  # noqa: ANN401
    which: Any,  # noqa: ANN401
    total: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Write an entry for each key low…high that is seen, of those from `place` on and before `past`; count them."""
    for part in range(place, place + WORDS_AT_ONCE, WORD_LANES):
        hits = words_inside(words, part, low_word, span)
        while hits != 0:
            at = part + first_one(hits)
            hits &= hits - np.int64(1)
            key, ordinal = keys[U64(at)], ordinals[U64(at)]
            entries[U64(total)] = ordinal  # kept, or overwritten by the next
            which[U64(total)] = probe
            total += (at < past) & (low <= key) & (key <= high) & (low_seen <= ordinal) & (ordinal < high_seen)
    return total


@inlined
def _ask_window(
    frames: Any,  # noqa: ANN401
    frame: Any,  # noqa: ANN401
    lo: Any,  # noqa: ANN401
    hi: Any,  # noqa: ANN401
    begin: Any,  # noqa: ANN401
    end: Any,  # noqa: ANN401
    low_words: Any,  # noqa: ANN401
    spans: Any,  # noqa: ANN401
    probes: Any,  # noqa: ANN401
    pieces: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Write the ranges of a batch that meet a basic window's extent, as words, and whose they are; count them."""
    shift, least, largest = frames[frame, SHIFT], frames[frame, LEAST], frames[frame, MOST]
    bottom, asked = frames[frame, BASE] >> shift, np.int64(0)
    for piece in range(lo.shape[0]):
        for i in range(begin, end):
            low, high = max(lo[U64(piece), U64(i)], least), min(hi[U64(piece), U64(i)], largest)
            if low <= high:
                low_word = (low >> shift) - bottom
                low_words[U64(asked)] = np.uint32(low_word)
                spans[U64(asked)] = np.uint32((high >> shift) - bottom - low_word)
                probes[U64(asked)], pieces[U64(asked)] = i, piece
                asked += np.int64(1)
    return asked


@inlined
def _next_hit(
    words: Any,  # noqa: ANN401
    place: Any,  # noqa: ANN401
    past: Any,  # noqa: ANN401
    lows: Any,  # noqa: ANN401
    spans: Any,  # noqa: ANN401
    ask: Any,  # noqa: ANN401
    together: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Return the first place from `place` on, in steps, where some word is in a range asked; or one from `past` on.

    Nothing is stored in these loops, so that ranges stay in registers: that takes a third less time.
    """
    if together == 1:
        low, span = lows[U64(ask)], spans[U64(ask)]
        while place < past and not any_word(words, place, low, span):
            place += WORDS_AT_ONCE
    else:
        four_lows = lows[U64(ask)], lows[U64(ask + 1)], lows[U64(ask + 2)], lows[U64(ask + 3)]
        four_spans = spans[U64(ask)], spans[U64(ask + 1)], spans[U64(ask + 2)], spans[U64(ask + 3)]
        while place < past and not any_word_in_ranges(words, place, four_lows, four_spans):
            place += WORDS_AT_ONCE
    return place


@kernel(
    U32, I64_2D, I64, I64, types.int64, types.int64, types.int64, I64_2D, I64_2D, I64, I64, types.int64, types.int64,
    types.int64, OUT_I64, OUT_I32, returns=types.int64,
)  # fmt: skip
def compare_narrowed(
    words: NDArray[np.uint32],
    frames: NDArray[np.int64],
    keys: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    first: int,
    last: int,
    size: int,
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    room: int,
    entries: NDArray[np.int64],
    which: NDArray[np.int32],
) -> int:
    """Write match entries of probes begin…end-1, see `slidejoin.papers.kernels.comparing.compare_blocks`.

    Besides what that takes, `words` uint32 and `frames` as `narrow_keys` writes them; `size` is a multiple of
    `WORDS_AT_ONCE`. Four probes are compared with each word that is loaded. O(rows * probes * k).
    """
    total: Any = np.int64(0)
    most = (end - begin) * lo.shape[0] + RANGES
    low_words, spans = np.empty(most, np.uint32), np.empty(most, np.uint32)
    probes, pieces = np.empty(most, np.int64), np.empty(most, np.int64)
    own, whole, stored, framed = borrowed(words), borrowed(keys), borrowed(ordinals), borrowed(frames)
    lows_of, highs_of, out, probe_of = borrowed(lo), borrowed(hi), borrowed(entries), borrowed(which)
    lows, reaches, whose, which_piece = borrowed(low_words), borrowed(spans), borrowed(probes), borrowed(pieces)
    for window in range(first, last, size):
        base, rows = window % keys.size, min(size, last - window)
        # Only basic windows at either end of what the batch sees are looked at row by row for that (section 4.1.2).
        if (
            stored[U64(base + rows - 1)] < seen_from[U64(begin)]  # the newest row
            or stored[U64(base)] >= seen_to[U64(end - 1)]  # the oldest
        ):
            continue
        asked = _ask_window(framed, U64(base // size), lows_of, highs_of, begin, end, lows, reaches, whose, which_piece)
        ask = 0
        while ask < asked:
            together = RANGES if ask + RANGES <= asked else 1
            at = _next_hit(own, base, base + rows, lows, reaches, ask, together)
            while at < base + rows:
                if total + RANGES * WORDS_AT_ONCE > room:
                    return -1
                for one in range(ask, ask + together):
                    i, piece = whose[U64(one)], which_piece[U64(one)]
                    total = _write_hits(
                        own, whole, stored, at, base + rows, lows[U64(one)], reaches[U64(one)],
                        lo[U64(piece), U64(i)], hi[U64(piece), U64(i)], seen_from[U64(i)], seen_to[U64(i)],
                        i - begin, out, probe_of, total,
                    )  # fmt: skip
                at = _next_hit(own, at + WORDS_AT_ONCE, base + rows, lows, reaches, ask, together)
            ask += together
    low_words[0], spans[0], probes[0], pieces[0] = 0, 0, 0, 0  # named last, see `borrowed`
    return total  # type: ignore[no-any-return]
