"""Steps of a join of many streams: what wide rows see of a stored stream, and the wider rows that they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, OUT_I64_2D, U64, group, kernel
from slidejoin.jit.vectors.vectors import LOW_32
from slidejoin.operator.kernels.probe_matches import PROBE_MATCHES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.operator.kernels.probe_matches import ProbeMatches

__all__ = ["WideRows", "count_before", "rank_probes", "widen_matches", "widen_pairs"]

U32_OF = np.uint32


class WideRows(NamedTuple):
    """The rows of the streams that are bound so far.

    Attributes
    ----------
    producers : (n,) int64
        Of each the row that arrived and produces it, ascending.
    values : (lines, n) int64
        Their event times, in a time window, and ordinals: see `operator.multiway.partial`.
    """

    producers: NDArray[np.int64]
    values: NDArray[np.int64]


WIDE_ROWS, WIDER_ROWS = group(WideRows, I64, I64_2D), group(WideRows, OUT_I64, OUT_I64_2D)


@kernel(I64, types.int64, OUT_I64)
def count_before(ranks: NDArray[np.int64], start: int, before: NDArray[np.int64]) -> None:
    """Count how many rows of a stream had arrived before each arrival, `start` of them before the first.

    ranks (n,) int64 ascending are the stream's places in the arrival order; before (arrivals + 1,) int64. O(arrivals).
    Streams that come one after the other have consecutive places, which takes a tenth of the time.
    """
    at, rows = 0, ranks.size
    if rows and ranks[U64(rows - 1)] - ranks[0] == rows - 1:
        first = ranks[0]
        for arrival in range(first):
            before[U64(arrival)] = start
        for arrival in range(rows):
            before[U64(first + arrival)] = start + arrival
        for arrival in range(first + rows, before.size):
            before[U64(arrival)] = start + rows
        return
    for arrival in range(before.size):
        before[U64(arrival)] = start + at
        if at < rows and ranks[U64(at)] == arrival:
            at += 1


@kernel(I64, I64, I64, types.int64, OUT_I64)
def rank_probes(
    before: NDArray[np.int64],
    ranks: NDArray[np.int64],
    producers: NDArray[np.int64],
    arrived: int,
    out: NDArray[np.int64],
) -> None:
    """Place wide rows among the rows of a stored stream, as if they had arrived where their producers did.

    before (arrivals + 1,) int64 as of `count_before`; ranks (p,) int64 of the producing rows; producers (n,) int64 of
    the wide rows, ascending; `arrived` stored rows came before all. out (n,) int64: the place of each in the order of
    those wide rows and the stored rows from there on. O(n).
    """
    for i in range(producers.size):
        out[U64(i)] = before[U64(ranks[U64(producers[U64(i)])])] - arrived + i


@kernel(WIDE_ROWS, PROBE_MATCHES, types.int64, WIDER_ROWS)
def widen_matches(wide: WideRows, matches: ProbeMatches, base: int, wider: WideRows) -> None:
    """Write the wider rows that wide rows become with the stored rows that they match.

    The probes are places of wide rows; positions count from base + 1. `wider` has a line more, with the ordinals of the
    stored rows. O(n + matches · lines).

    Two places are written for a wide row with up to two matches, and overwritten by the next ones: how many a row has
    is hard to foresee, and a wrong guess of the processor takes longer than to write both.
    """
    producers, values, out, lowest = wide.producers, wide.values, wider.values, U32_OF((base + 1) & LOW_32)
    positions, counts = matches.positions[matches.place :], matches.counts
    lines, at, total = values.shape[0], 0, wider.producers.size
    for i in range(matches.begin, matches.end):
        if counts[U64(i)] <= 2 and at + 2 <= total:  # noqa: PLR2004 - see above
            wider.producers[U64(at)] = wider.producers[U64(at + 1)] = producers[U64(i)]
            for line in range(lines):
                out[U64(line), U64(at)] = out[U64(line), U64(at + 1)] = values[U64(line), U64(i)]
            out[U64(lines), U64(at)] = base + ((int(positions[U64(at)]) - int(lowest)) & LOW_32)
            out[U64(lines), U64(at + 1)] = base + ((int(positions[U64(at + 1)]) - int(lowest)) & LOW_32)
            at += counts[U64(i)]
            continue
        for _ in range(counts[U64(i)]):
            wider.producers[U64(at)] = producers[U64(i)]
            for line in range(lines):
                out[U64(line), U64(at)] = values[U64(line), U64(i)]
            out[U64(lines), U64(at)] = base + ((int(positions[U64(at)]) - int(lowest)) & LOW_32)
            at += 1


@kernel(WIDE_ROWS, I64, I64, WIDER_ROWS)
def widen_pairs(wide: WideRows, places: NDArray[np.int64], stored: NDArray[np.int64], wider: WideRows) -> None:
    """Write the wider rows of pairs: wide row ``places[j]`` with the stored row of ordinal ``stored[j]``, both (k,).

    The others as of `widen_matches`. O(k · lines).
    """
    lines = wide.values.shape[0]
    for j in range(places.size):
        i = U64(places[U64(j)])
        wider.producers[U64(j)] = wide.producers[i]
        for line in range(lines):
            wider.values[U64(line), U64(j)] = wide.values[U64(line), i]
        wider.values[U64(lines), U64(j)] = stored[U64(j)]
