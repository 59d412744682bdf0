"""Merging two sorted runs of neighbouring sub-windows into one, part by part of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import mark_directory
from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, OUT_I64_2D, OUT_U32, U64, group, inlined, kernel
from slidejoin.jit.vectors.words import LANES, OUT_WORDS, WORDS, keep_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "TwoRuns", "TwoWideRuns", "drop_words", "merge_further", "merge_remaining", "merge_wide", "merge_words",
    "take_words",
]  # fmt: skip

SHORTEST = 64
"""Rows below which one chain takes all: splitting costs a binary search for each chain."""


class TwoRuns(NamedTuple):
    """The words of two runs that are merged, a the older.

    Attributes
    ----------
    a, b : uint64
        Ascending.
    na, nb : int
        How many they are.
    up_a, up_b : uint64
        What moves them to the result's smallest key and first row, after which no two words are equal: equal keys
        differ in their rows, the older run's first.
    """

    a: NDArray[np.uint64]
    b: NDArray[np.uint64]
    na: int
    nb: int
    up_a: np.uint64
    up_b: np.uint64


TWO_RUNS = group(TwoRuns, WORDS, WORDS, types.int64, types.int64, types.uint64, types.uint64)


class TwoWideRuns(NamedTuple):
    """Two runs that are merged, a the older, whose words hold only the upper bits of the keys' distances.

    Attributes
    ----------
    a_keys, b_keys : int64
        Whole keys.
    a, b : uint64
        Words.
    border : uint64
        What moves the offsets of b.
    smallest, shift : int
        The result's smallest key, and how many bits its words lack at the end of a distance.
    """

    a_keys: NDArray[np.int64]
    b_keys: NDArray[np.int64]
    a: NDArray[np.uint64]
    b: NDArray[np.uint64]
    border: np.uint64
    smallest: int
    shift: int


TWO_WIDE_RUNS = group(TwoWideRuns, I64, I64, WORDS, WORDS, types.uint64, types.int64, types.int64)


@inlined
def _split(two: TwoRuns, rows: int) -> int:
    """Return how many of the first `rows` of the result come from a; no two words are equal."""
    a, b, na, nb, up_a, up_b = two
    low, high = max(0, rows - nb), min(rows, na)
    while low < high:
        middle = (low + high) >> 1
        if a[U64(middle)] + up_a < b[U64(rows - 1 - middle)] + up_b:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _rest(two: TwoRuns, i: int, o: int, end_a: int, end: int, out: NDArray[np.uint64]) -> None:
    """Write places o…end-1 of the result; `i` rows of a are merged already, those below `end_a` may follow."""
    a, b, up_a, up_b = two.a, two.b, two.up_a, two.up_b
    while i < end_a and o - i < end - end_a:
        x, y = a[U64(i)] + up_a, b[U64(o - i)] + up_b
        out[U64(o)] = min(x, y)
        i += x < y
        o += 1
    j = o - i
    while i < end_a:
        out[U64(i + j)] = a[U64(i)] + up_a
        i += 1
    while j < end - end_a:
        out[U64(i + j)] = b[U64(j)] + up_b
        j += 1


@kernel(TWO_RUNS, types.int64, types.int64, OUT_WORDS)
def merge_words(two: TwoRuns, first: int, last: int, out: NDArray[np.uint64]) -> None:
    """Write places first…last-1 of the merged words of two runs (PanJoin, section III-D).

    The stretch is divided into four by binary search (merge path), and the four merges are interleaved, because one
    merge without a branch waits for its own last comparison: 1.1 ns a row for four, 2.4 for one, 4.7 with a branch.
    O(last - first + log(na + nb)).
    """
    a, b, up_a, up_b = two.a, two.b, two.up_a, two.up_b
    quarter = (last - first) // 4
    o0, o1, o2, o3 = first, first + quarter, first + 2 * quarter, first + 3 * quarter
    i0 = _split(two, o0)
    end = _split(two, last)
    if last - first < SHORTEST:
        _rest(two, i0, o0, end, last, out)
        return
    i1 = _split(two, o1)
    i2 = _split(two, o2)
    i3 = _split(two, o3)
    a1, a2, a3, b1, b2, b3 = i1, i2, i3, o1 - i1, o2 - i2, o3 - i3
    while True:
        # So many steps use up neither side of any chain, whatever they choose.
        steps = min(a1 - i0, b1 - (o0 - i0), a2 - i1, b2 - (o1 - i1))
        steps = min(steps, a3 - i2, b3 - (o2 - i2), end - i3, last - end - (o3 - i3))
        if steps < 8:  # noqa: PLR2004 - the rest is shorter than its bookkeeping
            break
        for _ in range(steps):
            x, y = a[U64(i0)] + up_a, b[U64(o0 - i0)] + up_b
            out[U64(o0)] = min(x, y)
            i0 += x < y
            o0 += 1
            x, y = a[U64(i1)] + up_a, b[U64(o1 - i1)] + up_b
            out[U64(o1)] = min(x, y)
            i1 += x < y
            o1 += 1
            x, y = a[U64(i2)] + up_a, b[U64(o2 - i2)] + up_b
            out[U64(o2)] = min(x, y)
            i2 += x < y
            o2 += 1
            x, y = a[U64(i3)] + up_a, b[U64(o3 - i3)] + up_b
            out[U64(o3)] = min(x, y)
            i3 += x < y
            o3 += 1
    _rest(two, i0, o0, a1, a1 + b1, out)
    _rest(two, i1, o1, a2, a2 + b2, out)
    _rest(two, i2, o2, a3, a3 + b3, out)
    _rest(two, i3, o3, end, last, out)


@kernel(WORDS, types.int64, types.uint64, OUT_WORDS, returns=types.int64)
def drop_words(words: NDArray[np.uint64], size: int, cut: np.uint64, out: NDArray[np.uint64]) -> int:
    """Write those of the first `size` words whose offset is `cut` or more, less `cut`; return how many.

    `out` has room for all: dropped words are overwritten, so that no branch depends on them. O(size).
    """
    at: Any = np.int64(0)
    # Eight are written at a time, for which there is room where as many were read.
    whole: Any = min(size, words.size, out.size) // LANES * LANES
    source, to = np.int64(words.ctypes.data), np.int64(out.ctypes.data)
    for place in range(0, whole, LANES):
        at += keep_words(source + (place << 3), cut, to + (at << 3))
    for place in range(whole, size):
        word = words[U64(place)]
        stays = (word & U64(0xFFFFFFFF)) >= cut
        out[U64(at)] = word - cut * U64(stays)
        at += stays
    behind: int = at
    return behind


@kernel(WORDS, types.int64, types.uint64, types.uint64, OUT_WORDS, returns=types.int64)
def take_words(words: NDArray[np.uint64], size: int, low: np.uint64, high: np.uint64, out: NDArray[np.uint64]) -> int:
    """Write those of the first `size` words whose offset is ``low <= o < high``, less `low`; return how many.

    words (size,) uint64, out (m,) uint64 with room for one more than are taken. O(size), without a branch that depends
    on a word.
    """
    taken = 0
    for place in range(size):
        word = words[U64(place)]
        row = word & U64(0xFFFFFFFF)
        out[U64(taken)] = word - (low if row >= low else U64(0))
        taken += (low <= row) & (row < high)
    return taken


@inlined
def _below(b: NDArray[np.uint64], nb: int, up_b: np.uint64, j: int, bound: np.uint64) -> int:
    """Return the first place from `j` on whose word, moved up, is not below the bound, by a galloping search."""
    low, stride = j, 64
    high = min(low + stride, nb)
    while high < nb and b[U64(high - 1)] + up_b < bound:
        low = high
        stride += stride
        high = min(low + stride, nb)
    while low < high:
        middle = (low + high) >> 1
        if b[U64(middle)] + up_b < bound:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(TWO_RUNS, types.uint64, types.int64, OUT_I64, OUT_WORDS, OUT_WORDS, types.int64, OUT_U32)
def merge_remaining(
    two: TwoRuns,
    cut: np.uint64,
    rows: int,
    done: NDArray[np.int64],
    tile: NDArray[np.uint64],
    out: NDArray[np.uint64],
    step: int,
    directory: NDArray[np.uint32],
) -> None:
    """Merge as `merge_words` does, but without the rows of a whose offset is below `cut`, and mark the directory.

    done (3,) int64 holds how many words of a, of b and of the result are done; it is advanced by `rows` words of the
    result or more, or to the end. The remaining words of a pass through `tile` (t,) uint64, which stays in a near
    cache, and the directory (`searching.mark_directory`) is marked while the words are still there: 2.3 ns a row of the
    result where three passes take 2.8. O(rows + t).
    """
    a, b, na, nb, up_a, up_b = two
    i, j, o = done[0], done[1], done[2]
    last = o + rows
    while (i < na or j < nb) and o < last:
        take = min(tile.size, na - i)
        remaining = drop_words(a[i:], take, cut, tile)
        i += take
        end = nb
        if i < na:
            end = _below(b, nb, up_b, j, tile[U64(remaining - 1)] + up_a) if remaining > 0 else j
        merge_words(TwoRuns(tile, b[j:], remaining, end - j, up_a, up_b), 0, remaining + end - j, out[o:])
        to = o + remaining + end - j
        mark_directory(out, o, to, step, directory)
        j, o = end, to
    done[0], done[1], done[2] = i, j, o


@kernel(TWO_WIDE_RUNS, types.int64, types.int64, types.int64, OUT_I64, OUT_WORDS, returns=types.int64)
def merge_wide(
    two: TwoWideRuns, i: int, first: int, last: int, keys: NDArray[np.int64], out: NDArray[np.uint64]
) -> int:
    """Write places first…last-1 of two merged runs, keys (m,) int64 and words (m,) uint64.

    Keys decide, a's first on ties; words are rebuilt: the distance from the smallest key less its lowest bits, and the
    row's offset. `i` rows of a have gone before; returns how many have then. O(last - first).
    """
    a_keys, b_keys, a, b, border, smallest, shift = two
    low_half, half = U64(0xFFFFFFFF), U64(32)
    na, nb = a_keys.size, b_keys.size
    for o in range(first, last):
        j = o - i
        if j >= nb or (i < na and a_keys[U64(i)] <= b_keys[U64(j)]):
            key, offset = a_keys[U64(i)], a[U64(i)] & low_half
            i += 1
        else:
            key, offset = b_keys[U64(j)], (b[U64(j)] & low_half) + border
        keys[U64(o)] = key
        out[U64(o)] = (U64(int(key) - int(smallest)) >> U64(shift) << half) | offset
    return i


@kernel(WORDS, types.int64, types.int64, types.int64, types.int64, I64_2D, I64_2D, OUT_I64_2D, returns=types.int64)
def merge_further(
    words: NDArray[np.uint64],
    border: int,
    i: int,
    first: int,
    last: int,
    a_aux: NDArray[np.int64],
    b_aux: NDArray[np.int64],
    aux: NDArray[np.int64],
) -> int:
    """Write rows first…last-1 of the merged further dimensions, aux (m, d) int64, in the order of the merged words.

    Rows with offsets below `border` are a's. `i` rows of a have gone before; returns how many have then. O(rows * d).
    """
    low_half, d = U64(0xFFFFFFFF), aux.shape[1]
    for o in range(first, last):
        if np.int64(words[U64(o)] & low_half) < border:
            for c in range(d):
                aux[o, c] = a_aux[i, c]
            i += 1
        else:
            for c in range(d):
                aux[o, c] = b_aux[o - i, c]
    return i
