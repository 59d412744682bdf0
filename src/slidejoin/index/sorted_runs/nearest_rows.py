"""The nearest rows of a chain of sorted runs: a search in each run that may hold one, and a walk from there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.kernels.ranging import find_ranges
from slidejoin.index.nearest import NearestRows
from slidejoin.index.sorted_runs.answers import order_of, runs_table
from slidejoin.index.sorted_runs.kernels.nearest import (
    BASE_VALUE,
    DIMENSION,
    DOUBLES,
    MASK,
    SHAPE,
    choose_nearest,
    still_open,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.nearest import NearestProbes
    from slidejoin.index.sorted_runs.run import Run
    from slidejoin.runtime.threads import Workers

__all__ = ["nearest_rows"]

SMALLEST_PART = 1 << 10
"""Probes from which on a further thread pays."""


def nearest_rows(asked: NearestProbes, runs: list[Run], checks: list[int], workers: Workers) -> NearestRows:
    """Return the nearest rows of probes; `checks` says which checks candidates of each run need.

    Expected O(n * (runs + k)); runs whose values are farther than what was found are passed over.
    """
    n = len(asked.probes)
    found = NearestRows(np.zeros(n, np.int64), np.empty((n, asked.k), np.int64))
    below, above = asked.below, asked.above
    if not runs or (below is None and above is None):
        return found
    table, shape = runs_table(runs, checks), np.empty(SHAPE, np.int64)
    shape[[MASK, BASE_VALUE, DIMENSION, DOUBLES]] = asked.place
    bounds = [run.values_within(asked.place) for run in runs]
    turns = _nearest_first(bounds, int(np.median(asked.values)))
    order = order_of(asked.probes.lo, np.minimum(asked.split, asked.probes.hi)[:1], runs)
    far, held = np.empty((n, asked.k), np.uint64), np.empty((n, asked.k), np.int64)
    parts = max(1, min(workers.threads, n // SMALLEST_PART))

    def take(part: int) -> None:
        # Neighbours by key, which read the same lines of a run.
        own = np.ascontiguousarray(order[n * part // parts : n * (part + 1) // parts])
        room = np.empty(own.size, np.int32)
        for r in turns:
            line = table[r : r + 1]
            many = still_open(
                own, asked.values, found.counts, far, *bounds[r], below is not None, above is not None,
                int(asked.place.doubles), room,
            )  # fmt: skip
            if many:
                some = room[:many]
                choose_nearest(
                    line, _places(line, below, some), _places(line, above, some), some, *asked.probes.checks[:2],
                    asked.own, *asked.probes.checks[2:], asked.values, shape, found.counts, far, held, found.ordinals,
                )  # fmt: skip

    workers.run([partial(take, part) for part in range(parts)])
    return found


def _nearest_first(bounds: list[tuple[int, int]], value: int) -> list[int]:
    """Return in which order runs are best asked, for values near that one: nearest values first, then newest rows."""

    def apart(r: int) -> tuple[int, int]:
        lowest, highest = bounds[r]
        return max(lowest - value, value - highest, 0), -r

    return sorted(range(len(bounds)), key=apart)


def _places(
    table: NDArray[np.int64], keys: tuple[NDArray[np.int64], NDArray[np.int64]] | None, order: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return where ranges of keys begin and end in all runs, a line for each probe in that order; none without keys."""
    runs = table.shape[0]
    if keys is None:
        return np.empty((0, runs), np.int64)
    places = np.empty((order.size, runs), np.int64)
    lo, hi = (np.ascontiguousarray(ends) for ends in keys)
    find_ranges(table, lo, hi, order, places, np.empty(runs, np.int64))
    return places
