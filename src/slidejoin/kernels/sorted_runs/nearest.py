"""The nearest rows of sorted runs: a walk from a probe's own value outwards, in every run.

In key order distances rise on both sides of a probe's value. So a walk ends at the first row that is farther than the
k nearest found so far, however many rows lie in the probe's range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.common.memory import load_64
from slidejoin.kernels.common.words import OUT_WORDS, load_key
from slidejoin.kernels.jit.compiling import I32, I64, I64_2D, OUT_I64, OUT_I64_2D, U64, inlined, kernel
from slidejoin.kernels.predicate.doubles import bits_of, value_of
from slidejoin.kernels.sorted_runs.searching import (
    AUX,
    BASE,
    CHECK_AUX,
    CHECKS,
    DIMENSIONS,
    KEYS,
    SMALLEST,
    WORDS_AT,
    passes,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BASE_VALUE", "DIMENSION", "DOUBLES", "MASK", "SHAPE", "choose_nearest"]

MASK, BASE_VALUE, DIMENSION, DOUBLES = range(4)
"""How a row's value follows from its key, ``base + (key & mask)``; the further dimension that holds it, -1 for the key,
because keys lack its lowest bits; and whether values are keys of doubles."""
SHAPE = 4

ABOVE, ORDINAL = range(2)
"""Lines of what was chosen for a probe, beside the distances."""


@inlined
def distance_of(one: Any, two: Any, doubles: Any) -> Any:  # noqa: ANN401 - int64
    """Return how far two values are apart, as uint64: exactly, or of doubles the bits of their distance."""
    if doubles != 0:
        # Of equal infinities the difference would be NaN.
        apart = U64(0)
        if one != two:
            apart = U64(bits_of(abs(value_of(one) - value_of(two))))
        return apart
    return U64(int(max(one, two)) - int(min(one, two)))


@inlined
def value_at(table: Any, r: Any, place: Any, word: Any, shape: Any) -> Any:  # noqa: ANN401
    """Return the value of the row at a place of a run."""
    if shape[DIMENSION] >= 0:
        return load_key(table[r, AUX] + ((place * table[r, DIMENSIONS] + shape[DIMENSION]) << 3))
    if table[r, KEYS] != 0:
        return shape[BASE_VALUE] + (load_key(table[r, KEYS] + (place << 3)) & shape[MASK])
    key = table[r, SMALLEST] + np.int64(word >> U64(32))
    return shape[BASE_VALUE] + (key & shape[MASK])


@inlined
def group_at(table: Any, r: Any, place: Any, word: Any) -> Any:  # noqa: ANN401
    """Return the key at a place: rows of one key are in no order of their values if keys lack bits."""
    if table[r, KEYS] != 0:
        return load_key(table[r, KEYS] + (place << 3))
    return table[r, SMALLEST] + np.int64(word >> U64(32))


@inlined
def place_in(far: Any, best: Any, size: Any, apart: Any, above: Any, ordinal: Any) -> Any:  # noqa: ANN401
    """Put a row among the k best, nearest first; return how many there are.

    `far` (k,) uint64 are their distances, `best` (2, k) int64 whether they are above the probe's value, and ordinals.
    """
    k, at = far.size, size
    while at > 0 and (
        far[at - 1] > apart
        or (
            far[at - 1] == apart
            and (best[ABOVE, at - 1] > above or (best[ABOVE, at - 1] == above and best[ORDINAL, at - 1] < ordinal))
        )
    ):
        at -= 1
    if at == k:
        return size
    last = min(size, k - 1)
    while last > at:
        far[last] = far[last - 1]
        best[ABOVE, last] = best[ABOVE, last - 1]
        best[ORDINAL, last] = best[ORDINAL, last - 1]
        last -= 1
    far[at], best[ABOVE, at], best[ORDINAL, at] = apart, above, ordinal
    return min(size + 1, k)


@kernel(
    I64_2D, types.int64, types.int64, types.int64, types.int64, types.int64, I64_2D, I64_2D, I64, types.int64,
    types.int64, types.int64, types.int64, I64, OUT_WORDS, OUT_I64_2D, types.int64, returns=types.int64,
)  # fmt: skip
def walk(
    table: NDArray[np.int64],
    r: int,
    start: int,
    end: int,
    step: int,
    i: int,
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    low: int,
    high: int,
    own: int,
    value: int,
    shape: NDArray[np.int64],
    far: NDArray[np.uint64],
    best: NDArray[np.int64],
    size: int,
) -> int:
    """Walk from place `start` to before `end` by `step` (1 or -1) and choose rows; return how many are chosen then.

    A row of run r counts if it passes the dimensions of probe i and its ordinal within the run is ``low <= o < high``
    and not `own`. `far` and `best` have `size` rows chosen so far, see `place_in`. It ends at the first row that is
    farther than the k-th: at once, or where keys lack bits with the rows of that key.
    """
    k, whole = far.size, shape[DIMENSION] < 0
    words, base, checks = table[r, WORDS_AT], table[r, BASE], table[r, CHECKS]
    place, ending, group = start, False, np.int64(0)
    while place != end:
        word = load_64(words + (place << 3))
        other = value_at(table, r, place, word, shape)
        if ending and group_at(table, r, place, word) != group:
            break
        above = np.int64(other > value)
        apart = distance_of(value, other, shape[DOUBLES])
        if size == k and apart > far[k - 1]:
            if whole:
                break
            # Behind the first key, all rows of a key are farther than those of the key before.
            if not ending and above == (step > 0):
                ending, group = True, group_at(table, r, place, word)
            place += step
            continue
        ordinal = np.int64(word & U64(0xFFFFFFFF))
        seen = low <= ordinal < high and ordinal != own
        if seen and (
            checks < CHECK_AUX or passes(table[r, AUX], table[r, DIMENSIONS], place, U64(i), lows, highs, dims)
        ):
            size = place_in(far, best, size, apart, above, base + ordinal)
        place += step
    return size


@kernel(
    I64_2D, I64_2D, I64_2D, I32, I64, I64, I64, I64_2D, I64_2D, I64, I64, I64, OUT_I64, OUT_I64_2D,
)  # fmt: skip
def choose_nearest(
    table: NDArray[np.int64],
    below: NDArray[np.int64],
    above: NDArray[np.int64],
    order: NDArray[np.int32],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    own: NDArray[np.int64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    values: NDArray[np.int64],
    shape: NDArray[np.int64],
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Write the ordinals of the k nearest rows of each probe, nearest first.

    Parameters
    ----------
    table : (runs, FIELDS) int64
    below, above : (n, runs) int64
        Places in each run of the keys up to the probe's own value, and of those above it, ``start << 32 | end``; a line
        for each probe in the `order` (n,) int32. Either may have no line: then there are none.
    seen_from, seen_to : (m,) int64
        A probe sees the ordinals ``seen_from <= o < seen_to``.
    own : (m,) int64
        The one of these that it does not see, -1 for none.
    lows, highs, dims : (p, m) int64 twice, (p,) int64
        Ranges of further dimensions.
    values : (m,) int64
        The probes' own values, as the rows' ones.
    shape : (SHAPE,) int64
        How values lie in keys, see `MASK`.
    counts, found : (m,) int64, (m, k) int64
        Take how many rows each probe has, and their ordinals.

    At equal distance rows up to the probe's value come before others, then those with higher ordinals. Expected
    O(runs + k) a probe; rows that it does not see, or that fail a dimension, are walked past.
    """
    k, runs = found.shape[1], table.shape[0]
    far, best = np.empty(k, np.uint64), np.empty((2, k), np.int64)
    for t in range(order.size):
        probe = int(order[U64(t)])
        i = U64(probe)
        size: Any = np.int64(0)
        for run in range(runs):
            r = runs - 1 - run  # the newest first: the later of equal rows
            base = table[r, BASE]
            low, high, mine = seen_from[i] - base, seen_to[i] - base, own[i] - base
            if below.shape[0] > 0:
                places = below[U64(t), U64(r)]
                start, end = places >> 32, places & 0xFFFFFFFF
                if start < end:
                    size = walk(
                        table, r, end - 1, start - 1, -1, probe, lows, highs, dims, low, high, mine, values[i], shape,
                        far, best, size,
                    )  # fmt: skip
            if above.shape[0] > 0:
                places = above[U64(t), U64(r)]
                start, end = places >> 32, places & 0xFFFFFFFF
                if start < end:
                    size = walk(
                        table,
                        r,
                        start,
                        end,
                        1,
                        probe,
                        lows,
                        highs,
                        dims,
                        low,
                        high,
                        mine,
                        values[i],
                        shape,
                        far,
                        best,
                        size,
                    )
        counts[i] = size
        for at in range(size):
            found[i, U64(at)] = best[ORDINAL, at]
