"""What probes have matched, and which of it remains: where a value stored with a row lies in the range of its probe.

::

    probe               0        1  2              counts  3 0 2
    positions   ... p0 p1 p2      p3 p4 ...        from `place` on
    values          5  9  2       7  1             one column of those stored with the rows
    range           4 to 9        2 to 8
    remaining   ... p0 p1     p3                   counts  2 0 1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import FLAGS, I64, OUT_I32, OUT_U32, U64, group, inlined, kernel, prefetch

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PROBE_MATCHES", "ProbeMatches", "StoredValues", "keep_between", "keep_flagged", "keep_in_scope"]

AHEAD = 16
"""Prefetch distance of stored values, in matches."""

EARLIEST, LATEST = np.int64(-(1 << 63)), (1 << 63) - 1


class ProbeMatches(NamedTuple):
    """What the probes begin…end-1 have matched.

    Attributes
    ----------
    positions : (places,) uint32
        See `index.kernels.arrival_pairs`; one probe after the other, from `place` on.
    counts : (n,) int32
        Of each probe.
    """

    positions: NDArray[np.uint32]
    counts: NDArray[np.int32]
    begin: int
    end: int
    place: int


class StoredValues(NamedTuple):
    """Values that are stored with rows, by which matches are checked.

    Attributes
    ----------
    values : (rows * columns,) int64
        Rows are a power of two: the row with position p is at ``p & (rows - 1)``.
    """

    values: NDArray[np.int64]
    columns: int


PROBE_MATCHES = group(ProbeMatches, OUT_U32, OUT_I32, types.int64, types.int64, types.int64)
STORED_VALUES = group(StoredValues, I64, types.int64)


@inlined
def _total(matches: ProbeMatches) -> int:
    """Return how much all of the probes have matched."""
    total = 0
    for i in range(matches.begin, matches.end):
        total += matches.counts[U64(i)]
    return total


@inlined
def _keep(
    matches: ProbeMatches, stored: StoredValues, column: int, i: int, take: int, at: int, last: int,
    low: int, high: int, between: bool,
) -> int:  # fmt: skip
    """Move the matches of probe i, from place `take` on, to `at` if they are in range; return the place behind them."""
    positions, values, columns = matches.positions, stored.values, stored.columns
    mask, start = values.size // columns - 1, at
    for _ in range(matches.counts[U64(i)]):
        prefetch(values, (int(positions[U64(min(take + AHEAD, last))]) & mask) * columns)
        position = positions[U64(take)]
        value = values[U64((int(position) & mask) * columns + column)]
        positions[U64(at)] = position
        at += ((low <= value) & (value <= high)) == between
        take += 1
    matches.counts[U64(i)] = at - start
    return at


@kernel(PROBE_MATCHES, STORED_VALUES, types.int64, I64, I64, types.boolean, returns=types.int64)
def keep_between(
    matches: ProbeMatches,
    stored: StoredValues,
    column: int,
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    between: bool,
) -> int:
    """Keep the matches whose value in a column lies `between` lows…highs of the probe, (n,) int64, or not.

    Positions are moved together, and counts updated; returns how many remain. O(matches).
    """
    take = at = matches.place
    last = take + _total(matches) - 1
    for i in range(matches.begin, matches.end):
        count = matches.counts[U64(i)]
        low, high = lows[U64(i)], highs[U64(i)]
        at = _keep(matches, stored, column, i, take, at, last, low=low, high=high, between=between)
        take += count
    return at - matches.place


@kernel(PROBE_MATCHES, STORED_VALUES, types.int64, I64, types.int64, types.int64, returns=types.int64)
def keep_in_scope(
    matches: ProbeMatches, stored: StoredValues, column: int, times: NDArray[np.int64], before: int, after: int
) -> int:
    """Keep the matches in the scope of their probes, as `keep_between`: event times are in a column of those stored.

    times (n,) int64 of the probes, which see rows from `before` ticks earlier to `after` ticks later.
    """
    take = at = matches.place
    last, earliest, latest = take + _total(matches) - 1, EARLIEST + before, LATEST - after
    for i in range(matches.begin, matches.end):
        count, time = matches.counts[U64(i)], times[U64(i)]
        low, high = max(time, earliest) - before, min(time, latest) + after
        at = _keep(matches, stored, column, i, take, at, last, low=low, high=high, between=True)
        take += count
    return at - matches.place


@kernel(PROBE_MATCHES, FLAGS, returns=types.int64)
def keep_flagged(matches: ProbeMatches, flags: NDArray[np.bool_]) -> int:
    """Keep the matches that have a flag at their place, (places,) bool, as `keep_between`."""
    positions, counts = matches.positions, matches.counts
    take = at = matches.place
    for probe in range(matches.begin, matches.end):
        start, count = at, int(counts[U64(probe)])
        for place in range(take, take + count):
            positions[U64(at)] = positions[U64(place)]
            at += int(flags[U64(place)])
        take += count
        counts[U64(probe)] = at - start
    return at - matches.place
