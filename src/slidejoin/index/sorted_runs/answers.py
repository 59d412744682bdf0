"""What sorted runs return: positions of matches if they are few, else ranges that are expanded into pairs later."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import BatchMatches
from slidejoin.index.deferred import NearestRows
from slidejoin.index.kernels.expansion import SIDE
from slidejoin.index.kernels.found_rows import Pairs, ProbePairs
from slidejoin.index.kernels.range_search import count_matches, find_ranges
from slidejoin.index.kernels.searching import AGES, CHECK_AUX, CHECK_SEEN, CHECKS, FIELDS
from slidejoin.index.sorted_runs.kernels.ascending import BOTH, find_ascending, gather_spots
from slidejoin.index.sorted_runs.kernels.matches import FewMatches, RangeLines, fill, find_few, gather
from slidejoin.index.sorted_runs.kernels.nearest import (
    BASE_VALUE,
    DIMENSION,
    DOUBLES,
    MASK,
    SHAPE,
    NearestSoFar,
    Targets,
    choose_nearest,
    still_open,
)
from slidejoin.index.sorted_runs.kernels.ordered_counts import count_around
from slidejoin.index.sorted_runs.kernels.probe_order import KeyStretches, rough_order
from slidejoin.index.sorted_runs.run import words_pool
from slidejoin.jit.vectors.sorting import BITS
from slidejoin.jit.vectors.words import LANES
from slidejoin.runtime.array_pool import ArrayPool, address_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.answer import MatchPositions
    from slidejoin.index.deferred import NearestProbes
    from slidejoin.index.probe import Probes
    from slidejoin.index.sorted_runs.probes import OrderedProbes
    from slidejoin.index.sorted_runs.run import Run
    from slidejoin.runtime.threads import Workers
    from slidejoin.tuning import Tuning

__all__ = [
    "MatchesInRuns",
    "count_ascending",
    "every",
    "nearest_rows",
    "order_of",
    "runs_table",
    "write_ascending",
    "write_few",
]

ranges_pool = ArrayPool(np.int64, most=8)
positions_pool = ArrayPool(np.uint32, most=8)


class MatchesInRuns(BatchMatches):
    """The ranges that `BiSortIndex.search` located, and how many rows of each are matches.

    Attributes
    ----------
    table : (runs, FIELDS) int64
    ranges : (n, k * runs) int64
        Where each begins and ends in each run, ``start << 32 | end``, a line for each probe in the `order`.
    order : (n,) int32
    candidates : int
        Rows in all ranges.
    counts : (n,) int64
        Matches of each probe.
    """

    __slots__ = ("_lines", "_ordered_probes", "_probes", "_runs", "candidates", "counts", "order", "ranges", "table")

    def __init__(self, probes: Probes, runs: list[Run], checks: list[int], tuning: Tuning) -> None:
        n, columns = len(probes), len(runs) * probes.lo.shape[0]
        self._probes = probes
        self._runs = runs  # keeps the memory that the table points to
        self.table = runs_table(runs, checks)
        self.ranges: NDArray[np.int64] = ranges_pool.take(columns * n).reshape(n, columns)
        self._ordered_probes = tuning.ordered_probes
        self.order = order_of(probes.lo, probes.hi, runs, tuning.ordered_probes)
        sums = np.empty(columns, np.int64)
        find_ranges(self.table, probes.lo, probes.hi, self.order, self.ranges, sums)
        self.candidates = int(sums.sum())
        for r, run in enumerate(runs):
            if checks[r] == CHECK_SEEN:
                self.table[r, AGES] = run.ages_for(int(sums[r :: len(runs)].sum()), tuning.ages_from)
        self.counts: NDArray[np.int64] = np.empty(n, np.int64)
        count_matches(self.table, self.ranges, self.order, probes.criteria, self.counts)
        self._lines: NDArray[np.int32] | None = None

    @property
    def in_ranges(self) -> MatchesInRuns | None:
        """The answer itself if candidates need no check but by ordinals, see `BatchMatches`."""
        return self if (self.table[:, CHECKS] < CHECK_AUX).all() else None

    @property
    def lines(self) -> NDArray[np.int32]:
        """The line of each probe in the table of ranges, (n,) int32."""
        if self._lines is None:
            n = len(self._probes)
            lines = self.order
            if n > self._ordered_probes:
                lines = np.empty(n, np.int32)
                lines[self.order] = np.arange(n, dtype=np.int32)
            self._lines = lines
        return self._lines

    def described(self, slots: NDArray[np.int64], low: int, high: int) -> tuple[NDArray[np.int64], int, int]:
        """Return what `index.kernels.expansion.fill_both` takes of these probes, and probes low…high-1 of them.

        `slots` (n,) int64 ascend. The array holds addresses: keep this answer and the slots while it is used.
        """
        own = self._probes
        described = np.empty(SIDE, np.int64)
        described[:] = (
            address_of(self.table), self.table.shape[0], address_of(self.ranges), self.ranges.shape[1],
            address_of(self.lines), address_of(own.seen_from), address_of(own.seen_to),
            address_of(own.ordinals), address_of(slots),
        )  # fmt: skip
        return described, low, high

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `BatchMatches`."""
        own, n = self._probes, len(self._probes)
        # All probes are taken by their keys again, part of them in arrival order.
        whole = (first, last) == (0, n)
        which = self.order if whole else self.lines
        lines, placed = RangeLines(self.ranges, which, whole), ProbePairs(own.ordinals, self.counts, places)
        fill(self.table, lines, own.criteria, placed, first, last, Pairs(probes, stored))


def write_few(probes: Probes, runs: list[Run], checks: list[int], into: MatchPositions, tuning: Tuning) -> bool:
    """Answer the next probes by positions, and tell whether they had few matches; else nothing is answered.

    `checks` says which checks candidates of each run need.
    """
    n = len(probes)
    order = order_of_some(probes.lo, probes.hi, runs, tuning.ordered_probes)
    counts = into.counts[into.done : into.done + n]
    if order.size < n:
        counts[:] = 0
    matches = FewMatches(positions_pool.take(_room(n, tuning.few_matches, tuning)), np.zeros(n, np.int32), counts)
    size = find_few(runs_table(runs, checks), probes.lo, probes.hi, order, probes.criteria, matches)
    if size < 0:
        return False
    into.room(into.total + size + LANES)
    gather(matches, into.total, into.positions)
    into.done, into.total = into.done + n, into.total + size
    return True


def write_ascending(probes: OrderedProbes, runs: list[Run], into: MatchPositions, tuning: Tuning) -> None:
    """Answer all probes, which come in the order of their keys, by positions, if they have few matches; else none."""
    n = probes.run.size
    room = _room(n, tuning.few_matches_around, tuning) + BOTH
    positions, spots = positions_pool.take(room), words_pool.take(n)
    table = runs_table(runs, [0] * len(runs))
    size = find_ascending(table, probes.ordered, probes.rank, probes.view, positions, spots)
    if size >= 0:
        into.room(size + LANES)
        gather_spots(positions, spots, into.counts[:n], 0, into.positions)
        into.done, into.total = n, size


def count_ascending(probes: OrderedProbes, runs: list[Run], checks: list[int]) -> NDArray[np.int64]:
    """Return how many matches each probe has, (n,) int64 in arrival order; probes come in the order of their keys."""
    n = probes.run.size
    checked = [run for run, check in zip(runs, checks, strict=True) if check]
    ranges, counts = words_pool.take(len(checked) * n).reshape(len(checked), n), np.empty(n, np.int64)
    count_around(runs_table(runs, checks), probes.ordered, counts, ranges)
    for line, run in zip(ranges, checked, strict=True):
        run.sights.count(probes.seen, probes.view, probes.rank, run.base, line, counts)
    return counts


def runs_table(runs: list[Run], checks: list[int]) -> NDArray[np.int64]:
    """Return the lines of runs for kernels, (runs, FIELDS) int64, with the checks of candidates in each."""
    table = np.array([run.line for run in runs], np.int64).reshape(len(runs), FIELDS)
    table[:, CHECKS] = checks
    return table


def nearest_rows(batch: NearestProbes, runs: list[Run], checks: list[int], workers: Workers) -> NearestRows:
    """Return the nearest rows of probes; `checks` are what candidates of each run need.

    Expected O(n * (runs + k)); runs whose values are farther than the rows known so far are passed over.
    """
    n = len(batch.probes)
    nearest = NearestRows(np.zeros(n, np.int64), np.empty((n, batch.k), np.int64))
    below, above = batch.below, batch.above
    if not runs or (below is None and above is None):
        return nearest
    table, shape = runs_table(runs, checks), np.empty(SHAPE, np.int64)
    shape[[MASK, BASE_VALUE, DIMENSION, DOUBLES]] = batch.place
    bounds = [run.values_within(batch.place) for run in runs]
    turns = _nearest_first(bounds, int(np.median(batch.values)))
    ends = batch.probes.lo, np.minimum(batch.split, batch.probes.hi)[:1]
    order = order_of(*ends, runs, workers.tuning.ordered_probes)
    far, held = np.empty((n, batch.k), np.uint64), np.empty((n, batch.k), np.int64)
    chosen, targets = NearestSoFar(nearest.counts, far, held, nearest.ordinals), Targets(batch.values, batch.own)
    sides, criteria = (below is not None, above is not None), batch.probes.criteria
    parts = max(1, min(workers.threads, n // workers.tuning.reduction_spread))

    def take(part: int) -> None:
        # Neighbours by key, which read the same lines of a run.
        own = np.ascontiguousarray(order[n * part // parts : n * (part + 1) // parts])
        room = np.empty(own.size, np.int32)
        for r in turns:
            line = table[r : r + 1]
            many = still_open(own, targets, chosen, bounds[r], sides, shape, room)
            if many:
                some = room[:many]
                places = _places(line, below, some), _places(line, above, some)
                choose_nearest(line, *places, some, criteria, targets, shape, chosen)

    workers.run([partial(take, part) for part in range(parts)])
    return nearest


def _nearest_first(bounds: list[tuple[int, int]], value: int) -> list[int]:
    """Return the best order of runs to search for values near that one: nearest values first, then newest rows."""

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


def _room(probes: int, few: int, tuning: Tuning) -> int:
    """Return up to how many matches of so many probes are written before ranges are stored instead."""
    return min(few * probes, max(LEAST * probes, MOST)) + tuning.spare_matches


LEAST, MOST = 8, 1 << 23
"""With very many probes: matches a probe, and positions in all, 32 MiB."""

EVERYWHERE = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
"""The smallest and the largest key that there can be."""

_every = np.arange(1 << 9, dtype=np.int32)


def every(probes: int) -> NDArray[np.int32]:
    """Return the numbers of so many probes, (n,) int32; not to be written."""
    return _every[:probes] if probes <= _every.size else np.arange(probes, dtype=np.int32)


def order_of(lo: NDArray[np.int64], hi: NDArray[np.int64], runs: list[Run], few: int) -> NDArray[np.int32]:
    """Return the order in which probes with the ranges lo, hi (k, n) int64 are best taken, (n,) int32.

    Up to `few` probes stay as they come.
    """
    n = lo.shape[1]
    if n <= few:
        return every(n)
    return _in_stretches(lo, hi, runs, *EVERYWHERE) if runs else every(n)


def order_of_some(lo: NDArray[np.int64], hi: NDArray[np.int64], runs: list[Run], few: int) -> NDArray[np.int32]:
    """Do the same, but leave out probes whose range holds no key of any run, where probes are many: (m,) int32."""
    # Of several ranges any may be empty, so that the last one does not tell where they end.
    if lo.shape[1] <= few or lo.shape[0] > 1 or not runs:
        return order_of(lo, hi, runs, few)
    return _in_stretches(lo, hi, runs, min(run.smallest for run in runs), max(run.largest_key for run in runs))


def _in_stretches(
    lo: NDArray[np.int64], hi: NDArray[np.int64], runs: list[Run], least: int, most: int
) -> NDArray[np.int32]:
    """Return the order in which probes are taken: nearly ascending, so that they read a run from end to end.

    Memory is then read in the order in which processors prefetch: 15 ns a probe and run, 35 in random order. It need
    not be exact, so two digits do. Left out are probes that look for no key from `least` to `most`.
    """
    n, ends = lo.shape[1], (lo[0], hi[0])
    largest = max(runs, key=lambda run: run.size)
    smallest, span = largest.smallest, largest.largest_key - largest.smallest
    by = hi[0] if int(lo[0, 0]) <= smallest and int(lo[0, -1]) <= smallest else lo[0]
    order, one, two = np.empty(n, np.int32), words_pool.take(n), words_pool.take(n)
    stretches = KeyStretches(least, most, smallest, max(0, span.bit_length() - 2 * BITS))
    taken = rough_order(by, *ends, stretches, order, one, two)
    return order[:taken]
