"""The nested loop of CellJoin, section 5, over keys narrowed to 32 bits: twice as many in a vector, and half to read.

A basic window has a *frame*: a base and a shift, by which its keys become words of 32 bits in the same order. Where keys
of one basic window lie less than 2**32 apart the shift is 0 and a word is a key; otherwise neighbouring keys share a
word, so each hit is compared as a whole key. A frame also has the smallest and the largest key, so that a basic window
that no range of the batch meets is not read at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.common.vectors import borrowed, first_one
from slidejoin.kernels.common.word_lanes import (
    RANGES,
    WORD_LANES,
    WORDS_AT_ONCE,
    any_word,
    any_word_in_ranges,
    words_inside,
)
from slidejoin.kernels.jit.compiling import (
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
    """Write match entries of probes begin…end-1, see `slidejoin.kernels.scans.comparing.compare_blocks`.

    Besides what that takes, `words` uint32 and `frames` as `narrow_keys` writes them; `size` is a multiple of
    `WORDS_AT_ONCE`. Four probes are compared with each word that is loaded. O(rows * probes * k).
    """
    total: Any = np.int64(0)
    pieces, most = lo.shape[0], (end - begin) * lo.shape[0]
    # What is asked of one basic window: the ranges that meet its extent, as words.
    low_words, spans = np.empty(most + RANGES, np.uint32), np.empty(most + RANGES, np.uint32)
    probes, numbers = np.empty(most + RANGES, np.int64), np.empty(most + RANGES, np.int64)
    own, whole, stored = borrowed(words), borrowed(keys), borrowed(ordinals)
    lows, reaches, out, probe_of = borrowed(low_words), borrowed(spans), borrowed(entries), borrowed(which)
    for window in range(first, last, size):
        base, rows = window % keys.size, min(size, last - window)
        # Only basic windows at either end of what the batch sees are looked at row by row for that (section 4.1.2).
        oldest, newest = stored[U64(base)], stored[U64(base + rows - 1)]
        if newest < seen_from[U64(begin)] or oldest >= seen_to[U64(end - 1)]:
            continue
        frame = U64(base // size)
        shift, least, largest = frames[frame, SHIFT], frames[frame, LEAST], frames[frame, MOST]
        bottom, asked = frames[frame, BASE] >> shift, 0
        for piece in range(pieces):
            for i in range(begin, end):
                low, high = max(lo[U64(piece), U64(i)], least), min(hi[U64(piece), U64(i)], largest)
                if low <= high:
                    low_word = (low >> shift) - bottom
                    low_words[U64(asked)] = np.uint32(low_word)
                    spans[U64(asked)] = np.uint32((high >> shift) - bottom - low_word)
                    probes[U64(asked)], numbers[U64(asked)] = i, piece
                    asked += 1
        ask = 0
        while ask < asked:
            together = RANGES if ask + RANGES <= asked else 1
            for at in range(base, base + rows, WORDS_AT_ONCE):
                if together == 1:
                    if not any_word(own, at, lows[U64(ask)], reaches[U64(ask)]):
                        continue
                elif not any_word_in_ranges(own, at, lows, reaches, ask):
                    continue
                if total + RANGES * WORDS_AT_ONCE > room:
                    return -1
                for one in range(ask, ask + together):
                    i, piece = probes[U64(one)], numbers[U64(one)]
                    total = _write_hits(
                        own, whole, stored, at, base + rows, lows[U64(one)], reaches[U64(one)],
                        lo[U64(piece), U64(i)], hi[U64(piece), U64(i)], seen_from[U64(i)], seen_to[U64(i)],
                        i - begin, out, probe_of, total,
                    )  # fmt: skip
            ask += together
    low_words[0], spans[0] = 0, 0  # named last, see `borrowed`
    return total  # type: ignore[no-any-return]
