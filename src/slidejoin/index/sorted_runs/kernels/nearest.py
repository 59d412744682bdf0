"""The nearest rows of sorted runs: a walk from a probe's own value outwards, in one run after the other.

In key order distances rise on both sides of a probe's value. So a walk ends at the first row that is farther than the
k nearest so far, however many rows lie in the probe's range; and a run whose values are all farther needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.index.kernels.searching import (
    AUX,
    BASE,
    CHECK_AUX,
    CHECKS,
    CRITERIA,
    DIMENSIONS,
    KEYS,
    SMALLEST,
    WORDS_AT,
    Criteria,
    passes,
)
from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, OUT_I64_2D, U64, group, inlined, kernel
from slidejoin.jit.vectors.doubles import bits_of, value_of
from slidejoin.jit.vectors.memory import load_64
from slidejoin.jit.vectors.words import load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BASE_VALUE", "DIMENSION", "DOUBLES", "MASK", "SHAPE", "NearestSoFar", "Targets", "choose_nearest", "still_open",
]  # fmt: skip

MASK, BASE_VALUE, DIMENSION, DOUBLES = range(4)
"""How a row's value follows from its key, ``base + (key & mask)``; the further dimension that holds it, -1 for the key,
because keys lack its lowest bits; and whether values are keys of doubles."""
SHAPE = 4

OUT_U64_2D = types.Array(types.uint64, 2, "C")
ENDS, SIDES = types.UniTuple(types.int64, 2), types.UniTuple(types.boolean, 2)


class Targets(NamedTuple):
    """What the rows of n probes should be near to; both (n,) int64.

    Attributes
    ----------
    values
        The probe's own value, as rows have theirs.
    own
        The ordinal that the probe does not see, -1 for none.
    """

    values: NDArray[np.int64]
    own: NDArray[np.int64]


class NearestSoFar(NamedTuple):
    """The k nearest rows of each of n probes so far, nearest first.

    Attributes
    ----------
    counts : (n,) int64
        How many there are.
    distances : (n, k) uint64
    values, ordinals : (n, k) int64
    """

    counts: NDArray[np.int64]
    distances: NDArray[np.uint64]
    values: NDArray[np.int64]
    ordinals: NDArray[np.int64]


TARGETS, NEAREST_SO_FAR = group(Targets, I64, I64), group(NearestSoFar, OUT_I64, OUT_U64_2D, OUT_I64_2D, OUT_I64_2D)


class Row(NamedTuple):
    """A stored row that may be near a probe: its distance, value and ordinal."""

    distance: np.uint64
    value: int
    ordinal: int


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
    farther = np.int64(0)
    if doubles != 0 and one != two:
        if (one > value) == (two > value):
            farther = np.int64(1) if (one > two) == (one > value) else np.int64(-1)
        else:
            v, a, b = value_of(value), value_of(one), value_of(two)
            if np.isinf(v - a):
                v, a, b = 0.5 * v, 0.5 * a, 0.5 * b
            far, near = abs(v - a), abs(v - b)
            if far == near:
                far, near = lacking(v, a), lacking(v, b)
            # With infinities these are NaN, and two of them are as far.
            farther = np.int64(far > near) - np.int64(far < near)
    return farther


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
def place_in(chosen: NearestSoFar, i: np.uint64, size: int, target: int, row: Row, doubles: int) -> int:
    """Put a row among the `size` best of probe i, whose value is `target`; return how many there are then."""
    far, values, ordinals, k, at = chosen.distances, chosen.values, chosen.ordinals, chosen.distances.shape[1], size
    while at > 0:
        last = U64(at - 1)
        if row.distance > far[i, last]:
            break
        if row.distance == far[i, last]:
            other = values[i, last]
            farther = farther_than(target, row.value, other, doubles)
            if farther == 0:
                # Up to the target before above it, then the later one.
                above, over = row.value > target, other > target
                if (above and not over) or (above == over and row.ordinal <= ordinals[i, last]):
                    break
            elif farther > 0:
                break
        if at < k:
            far[i, U64(at)], values[i, U64(at)], ordinals[i, U64(at)] = far[i, last], values[i, last], ordinals[i, last]
        at -= 1
    if at < k:
        far[i, U64(at)], values[i, U64(at)], ordinals[i, U64(at)] = row
    return int(min(size + 1, k))


@kernel(I64_2D, types.int64, types.int64, types.int64, CRITERIA, TARGETS, I64, NEAREST_SO_FAR)
def walk(
    table: NDArray[np.int64],
    places: int,
    step: int,
    probe: int,
    criteria: Criteria,
    targets: Targets,
    shape: NDArray[np.int64],
    chosen: NearestSoFar,
) -> None:
    """Walk over `places` of a run, ``start << 32 | end``, by `step`, 1 or -1, and choose rows for a probe.

    The run is the only line of `table`. The walk ends at the first row that is farther than the k-th: at once, or where
    keys lack bits with the rows of that key.
    """
    seen_from, seen_to, lows, highs, dims = criteria
    r, i, k, whole = 0, U64(probe), chosen.distances.shape[1], shape[DIMENSION] < 0
    words, base, checks, size = table[r, WORDS_AT], table[r, BASE], table[r, CHECKS], chosen.counts[i]
    low, high, own, value = seen_from[i] - base, seen_to[i] - base, targets.own[i] - base, targets.values[i]
    place, end = places >> 32, places & 0xFFFFFFFF
    if step < 0:
        place, end = end - 1, place - 1
    ending, last_group = False, np.int64(0)
    while place != end:
        word = load_64(words + (place << 3))
        other = value_at(table, r, place, word, shape)
        if ending and group_at(table, r, place, word) != last_group:
            break
        above = np.int64(other > value)
        apart = distance_of(value, other, shape[DOUBLES])
        beyond = False
        if size == k:
            last = U64(k - 1)
            beyond = apart > chosen.distances[i, last]
            if apart == chosen.distances[i, last]:
                beyond = farther_than(value, other, chosen.values[i, last], shape[DOUBLES]) > 0
        if beyond:
            if whole:
                break
            # Behind the first key, all rows of a key are farther than those of the key before.
            if not ending and above == (step > 0):
                ending, last_group = True, group_at(table, r, place, word)
            place += step
            continue
        ordinal = np.int64(word & U64(0xFFFFFFFF))
        seen = low <= ordinal < high and ordinal != own
        if seen and (checks < CHECK_AUX or passes(table[r, AUX], table[r, DIMENSIONS], place, i, lows, highs, dims)):
            size = place_in(chosen, i, size, value, Row(apart, other, base + ordinal), shape[DOUBLES])
        place += step
    chosen.counts[i] = size


@kernel(I32, TARGETS, NEAREST_SO_FAR, ENDS, SIDES, I64, OUT_I32, returns=types.int64)
def still_open(
    order: NDArray[np.int32],
    targets: Targets,
    chosen: NearestSoFar,
    ends: tuple[int, int],
    sides: tuple[bool, bool],
    shape: NDArray[np.int64],
    out: NDArray[np.int32],
) -> int:
    """Write the probes that a run may still give a row, in their `order` (n,) int32; return how many they are.

    The run's values lie within the `ends`. A probe has no need of it if its k rows are nearer than these, or they lie
    on a side of its value on which it looks for none: `sides` tell whether below and above. `out` (n,) int32. O(n).
    """
    k, many, doubles, (lowest, highest), (below, above) = chosen.distances.shape[1], 0, shape[DOUBLES], ends, sides
    for t in range(order.size):
        i = U64(order[U64(t)])
        value = targets.values[i]
        nearest = min(max(value, lowest), highest)
        wanted = (below or value < highest) and (above or value >= lowest)
        if wanted and (chosen.counts[i] < k or distance_of(value, nearest, doubles) <= chosen.distances[i, U64(k - 1)]):
            out[U64(many)] = order[U64(t)]
            many += 1
    return many


@kernel(I64_2D, I64_2D, I64_2D, I32, CRITERIA, TARGETS, I64, NEAREST_SO_FAR)
def choose_nearest(
    table: NDArray[np.int64],
    below: NDArray[np.int64],
    above: NDArray[np.int64],
    order: NDArray[np.int32],
    criteria: Criteria,
    targets: Targets,
    shape: NDArray[np.int64],
    chosen: NearestSoFar,
) -> None:
    """Choose among the rows of one run the k nearest of each probe, besides those that are chosen already.

    Parameters
    ----------
    table : (1, FIELDS) int64
    below, above : (n, 1) int64
        Places of the keys up to the probe's own value, and of those above it, ``start << 32 | end``; a line for each
        probe in the `order` (n,) int32. Either may have no line: then there are none.
    criteria, targets, chosen
        Of all probes.
    shape : (SHAPE,) int64
        How values lie in keys, see `MASK`.

    At equal distance rows up to the probe's value come before others, then those with higher ordinals. Expected O(k) a
    probe; rows that it does not see, or that fail a dimension, are walked past.
    """
    for t in range(order.size):
        probe = int(order[U64(t)])
        if below.shape[0] > 0 and below[U64(t), 0] >> 32 < below[U64(t), 0] & 0xFFFFFFFF:
            walk(table, below[U64(t), 0], -1, probe, criteria, targets, shape, chosen)
        if above.shape[0] > 0 and above[U64(t), 0] >> 32 < above[U64(t), 0] & 0xFFFFFFFF:
            walk(table, above[U64(t), 0], 1, probe, criteria, targets, shape, chosen)
