"""The nearest rows of sorted runs: a walk from a probe's own value outwards, in one run after the other.

In key order distances rise on both sides of a probe's value. So a walk ends at the first row that is farther than the
k nearest found so far, however many rows lie in the probe's range; and a run whose values are all farther needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import (
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
from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, OUT_I64_2D, U64, inlined, kernel
from slidejoin.jit.vectors.doubles import bits_of, value_of
from slidejoin.jit.vectors.memory import load_64
from slidejoin.jit.vectors.words import load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BASE_VALUE", "DIMENSION", "DOUBLES", "MASK", "SHAPE", "choose_nearest", "still_open"]

MASK, BASE_VALUE, DIMENSION, DOUBLES = range(4)
"""How a row's value follows from its key, ``base + (key & mask)``; the further dimension that holds it, -1 for the key,
because keys lack its lowest bits; and whether values are keys of doubles."""
SHAPE = 4

OUT_U64_2D = types.Array(types.uint64, 2, "C")


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
def lacking(one: Any, two: Any) -> Any:  # noqa: ANN401 - float64
    """Return ``abs(one - two)`` less the double nearest to it: 0 unless that is rounded."""
    apart = one - two
    other = one - apart
    rest = (one - (apart + other)) + (other - two)
    return -rest if apart < 0 else rest


@inlined
def farther_than(value: Any, one: Any, two: Any, doubles: Any) -> Any:  # noqa: ANN401
    """Return whether `one` is farther from a value than `two` by 1, as far by 0, and nearer by -1: exactly.

    Only for values at equal `distance_of`. Of two on one side the one between is nearer; of doubles on both sides the
    rounded distance may hide which is, and one beyond the largest double is halved first.
    """
    found = np.int64(0)
    if doubles != 0 and one != two:
        if (one > value) == (two > value):
            found = np.int64(1) if (one > two) == (one > value) else np.int64(-1)
        else:
            v, a, b = value_of(value), value_of(one), value_of(two)
            if np.isinf(v - a):
                v, a, b = 0.5 * v, 0.5 * a, 0.5 * b
            far, beside = abs(v - a), abs(v - b)
            if far == beside:
                far, beside = lacking(v, a), lacking(v, b)
            # Beside infinities these are NaN, and two of them are as far.
            found = np.int64(far > beside) - np.int64(far < beside)
    return found


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
def place_in(
    far: NDArray[np.uint64],
    held: NDArray[np.int64],
    found: NDArray[np.int64],
    i: np.uint64,
    size: int,
    value: int,
    apart: np.uint64,
    other: int,
    ordinal: int,
    doubles: int,
) -> int:
    """Put a row among the k best of probe i, nearest first; return how many there are.

    `far` (n, k) uint64 are their distances, `held` (n, k) int64 their values, and `found` (n, k) int64 their ordinals.
    """
    k, at = far.shape[1], size
    while at > 0:
        last = U64(at - 1)
        if apart > far[i, last]:
            break
        if apart == far[i, last]:
            beside = held[i, last]
            farther = farther_than(value, other, beside, doubles)
            if farther == 0:
                # Up to the value before above it, then the later one.
                above, over = other > value, beside > value
                if (above and not over) or (above == over and ordinal <= found[i, last]):
                    break
            elif farther > 0:
                break
        if at < k:
            far[i, U64(at)], held[i, U64(at)], found[i, U64(at)] = far[i, last], held[i, last], found[i, last]
        at -= 1
    if at < k:
        far[i, U64(at)], held[i, U64(at)], found[i, U64(at)] = apart, other, ordinal
    return int(min(size + 1, k))


@kernel(
    I64_2D, types.int64, types.int64, types.int64, types.int64, I64_2D, I64_2D, I64, types.int64, types.int64,
    types.int64, types.int64, I64, OUT_I64, OUT_U64_2D, OUT_I64_2D, OUT_I64_2D,
)  # fmt: skip
def walk(
    table: NDArray[np.int64],
    start: int,
    end: int,
    step: int,
    probe: int,
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    dims: NDArray[np.int64],
    low: int,
    high: int,
    own: int,
    value: int,
    shape: NDArray[np.int64],
    counts: NDArray[np.int64],
    far: NDArray[np.uint64],
    held: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Walk from place `start` to before `end` of a run by `step` (1 or -1) and choose rows for a probe.

    A row of the run, the only line of `table`, counts if it passes the dimensions of the probe and its ordinal within
    the run is ``low <= o < high`` and not `own`. `counts` (n,) int64 and the three after it have the rows chosen so
    far, see `place_in`. It ends at the first row that is farther than the k-th: at once, or where keys lack bits with
    the rows of that key.
    """
    r, i, k, whole = 0, U64(probe), far.shape[1], shape[DIMENSION] < 0
    words, base, checks, size = table[r, WORDS_AT], table[r, BASE], table[r, CHECKS], counts[i]
    place, ending, group = start, False, np.int64(0)
    while place != end:
        word = load_64(words + (place << 3))
        other = value_at(table, r, place, word, shape)
        if ending and group_at(table, r, place, word) != group:
            break
        above = np.int64(other > value)
        apart = distance_of(value, other, shape[DOUBLES])
        beyond = False
        if size == k:
            last = U64(k - 1)
            beyond = apart > far[i, last]
            if apart == far[i, last]:
                beyond = farther_than(value, other, held[i, last], shape[DOUBLES]) > 0
        if beyond:
            if whole:
                break
            # Behind the first key, all rows of a key are farther than those of the key before.
            if not ending and above == (step > 0):
                ending, group = True, group_at(table, r, place, word)
            place += step
            continue
        ordinal = np.int64(word & U64(0xFFFFFFFF))
        seen = low <= ordinal < high and ordinal != own
        if seen and (checks < CHECK_AUX or passes(table[r, AUX], table[r, DIMENSIONS], place, i, lows, highs, dims)):
            size = place_in(far, held, found, i, size, value, apart, other, base + ordinal, shape[DOUBLES])
        place += step
    counts[i] = size


@kernel(
    I32,
    I64,
    OUT_I64,
    OUT_U64_2D,
    types.int64,
    types.int64,
    types.boolean,
    types.boolean,
    types.int64,
    OUT_I32,
    returns=types.int64,
)
def still_open(
    order: NDArray[np.int32],
    values: NDArray[np.int64],
    counts: NDArray[np.int64],
    far: NDArray[np.uint64],
    lowest: int,
    highest: int,
    below: bool,
    above: bool,
    doubles: int,
    out: NDArray[np.int32],
) -> int:
    """Write the probes that a run may still give a row, in their `order` (n,) int32; return how many they are.

    The run's values lie within lowest…highest. A probe has no need of it if its k rows are nearer than these, or they
    lie on a side of its value on which it looks for none (`below`, `above`). `out` (n,) int32. O(n).
    """
    k, many = far.shape[1], 0
    for t in range(order.size):
        i = U64(order[U64(t)])
        value = values[i]
        nearest = min(max(value, lowest), highest)
        wanted = (below or value < highest) and (above or value >= lowest)
        if wanted and (counts[i] < k or distance_of(value, nearest, doubles) <= far[i, U64(k - 1)]):
            out[U64(many)] = order[U64(t)]
            many += 1
    return many


@kernel(
    I64_2D, I64_2D, I64_2D, I32, I64, I64, I64, I64_2D, I64_2D, I64, I64, I64, OUT_I64, OUT_U64_2D, OUT_I64_2D,
    OUT_I64_2D,
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
    far: NDArray[np.uint64],
    held: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Choose among the rows of one run the k nearest of each probe, beside those that are chosen already.

    Parameters
    ----------
    table : (1, FIELDS) int64
    below, above : (n, 1) int64
        Places of the keys up to the probe's own value, and of those above it, ``start << 32 | end``; a line for each
        probe in the `order` (n,) int32. Either may have no line: then there are none.
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
    counts, far, held, found : (m,) int64, (m, k) uint64, (m, k) int64 twice
        How many rows each probe has, and these, see `place_in`.

    At equal distance rows up to the probe's value come before others, then those with higher ordinals. Expected O(k) a
    probe; rows that it does not see, or that fail a dimension, are walked past.
    """
    base = table[0, BASE]
    for t in range(order.size):
        probe = int(order[U64(t)])
        i = U64(probe)
        low, high, mine, value = seen_from[i] - base, seen_to[i] - base, own[i] - base, values[i]
        if below.shape[0] > 0:
            start, end = below[U64(t), 0] >> 32, below[U64(t), 0] & 0xFFFFFFFF
            if start < end:
                walk(
                    table, end - 1, start - 1, -1, probe, lows, highs, dims, low, high, mine, value, shape, counts, far,
                    held, found,
                )  # fmt: skip
        if above.shape[0] > 0:
            start, end = above[U64(t), 0] >> 32, above[U64(t), 0] & 0xFFFFFFFF
            if start < end:
                walk(
                    table, start, end, 1, probe, lows, highs, dims, low, high, mine, value, shape, counts, far, held,
                    found,
                )  # fmt: skip
