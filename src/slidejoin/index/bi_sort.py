"""BI-Sort: sub-windows as sorted runs, a range of keys as one <start, end> record (PanJoin, sections III-D and III-E).

Every push appends one sorted run, which plays the part of the paper's insertion buffer; neighbouring runs are merged
into main arrays that grow up to half of the window, so that a row is moved O(log) times and a probe
meets O(log) runs. The paper's index array is a directory of key ranges over each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.buffers import Buffers
from slidejoin.index.runs import Merge, Run, build_run, merge_runs, words_pool
from slidejoin.kernels.matching import fill
from slidejoin.kernels.searching import CHECK_AUX, CHECK_SEEN, CHECKS, FIELDS, find
from slidejoin.kernels.sorting import BITS, rough_order
from slidejoin.kernels.words import LANES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.buffers import Lease
    from slidejoin.index.probing import Probes

__all__ = ["BiSort", "FoundInRuns", "Run", "build_run", "merge_runs"]

ranges_pool = Buffers(np.int64, kept=8)
kept_pool = Buffers(np.uint32, kept=8)


class FoundInRuns:
    """The ranges found by `BiSort.search`, and how many rows of each are matches."""

    __slots__ = ("_kept", "_lease", "_order", "_probes", "_ranges", "_runs", "_table", "counts")

    def __init__(self, probes: Probes, runs: list[Run], checks: list[int]) -> None:
        n, columns = len(probes), len(runs) * probes.lo.shape[0]
        self._probes = probes
        self._runs = runs  # keeps the memory that the table points to
        self._table: NDArray[np.int64] = np.array([run.line for run in runs], np.int64).reshape(len(runs), FIELDS)
        self._table[:, CHECKS] = checks
        self._lease: Lease = ranges_pool.lease(columns * n)
        self._ranges: NDArray[np.int64] = self._lease.array[: columns * n].reshape(n, columns)
        self._kept: Lease = kept_pool.lease((columns * n + 1) * LANES)
        checks_of = probes.checks
        if n <= IN_ORDER or not runs:
            lo, hi, seen = probes.lo, probes.hi, checks_of[:2]
            self._order = _every[:n] if n <= IN_ORDER else np.arange(n, dtype=np.int32)
        else:
            self._order = _in_stretches(probes.lo[0], probes.hi[0], runs)
            lo, hi = probes.lo.take(self._order, axis=1), probes.hi.take(self._order, axis=1)
            seen = checks_of[0].take(self._order), checks_of[1].take(self._order)
        counts: NDArray[np.int64] = np.empty(n, np.int64)
        find(self._table, lo, hi, self._order, *seen, *checks_of[2:], self._ranges, self._kept.array, counts)
        self.counts: NDArray[np.int64] = counts
        if n > IN_ORDER:
            self.counts = np.empty(n, np.int64)
            self.counts[self._order] = counts

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `Found`."""
        asked, n = self._probes, len(self._probes)
        # All probes are taken by their keys again, part of them in arrival order.
        whole, which = (first, last) == (0, n), self._order
        if not whole and n > IN_ORDER:
            which = np.empty(n, np.int32)
            which[self._order] = np.arange(n, dtype=np.int32)
        fill(
            self._table, self._ranges, self._kept.array, which, whole, *asked.checks, asked.ordinals, self.counts,
            first, last, places, probes, stored,
        )  # fmt: skip


IN_ORDER = 512
"""Probes that are worth an order: fewer read their lines one by one anyway."""

_every = np.arange(IN_ORDER, dtype=np.int32)


def _in_stretches(lo: NDArray[np.int64], hi: NDArray[np.int64], runs: list[Run]) -> NDArray[np.int32]:
    """Return the order in which probes are taken: nearly ascending, so that they read a run from end to end.

    What lies out of cache then comes in the order in which processors fetch ahead: 15 ns a probe and run, 35 in any
    order. It need not be exact, so two digits do.
    """
    n = lo.size
    largest = max(runs, key=lambda run: run.size)
    smallest, span = largest.smallest, largest.largest_key - largest.smallest
    by = hi if int(lo[0]) <= smallest and int(lo[-1]) <= smallest else lo
    order, one, two = np.empty(n, np.int32), words_pool.lease(n), words_pool.lease(n)
    rough_order(by, smallest, max(0, span.bit_length() - 2 * BITS), order, one.array, two.array)
    return order


class BiSort:
    """The index of one side's window: a chain of sorted runs in arrival order."""

    name = "bi_sort"

    def __init__(self, dims: int, *, merge: bool = True) -> None:
        self.dims = dims
        self.merge = merge
        self.runs: list[Run] = []
        self._merges: list[Merge] = []

    def append(self, run: Run, live_rows: int) -> None:
        """Add the newest run; merge neighbours while the older is less than `FAN_OUT` times the newer.

        Merged runs stay under half of the window's `live_rows`, because only whole runs expire. A merge that is long
        beside the push is spread over the next ones (PIM-Tree, section 4.2): searches read its two runs until it is
        done, which is before as many rows again have come.
        """
        runs = self.runs
        runs.append(run)
        if not self.merge:
            return
        at_once = max(AT_ONCE, SHARE * run.rows)
        self._advance(run.rows)
        limit = max(SMALLEST_LIMIT, live_rows // 2)
        busy = {id(part) for merge in self._merges for part in (merge.older, merge.newer)}
        place = len(runs) - 1
        while place > 0:
            place -= 1
            if place + 1 >= len(runs):
                continue
            older, newer = runs[place], runs[place + 1]
            if older.rows >= FAN_OUT * newer.rows or older.rows + newer.rows > limit:
                continue
            if id(older) in busy or id(newer) in busy:
                continue
            merge = Merge(older, newer)
            if merge.size <= at_once:
                merge.advance(merge.size)
                runs[place : place + 2] = [merge.result()]
            else:
                self._merges.append(merge)
                busy |= {id(older), id(newer)}

    def _advance(self, rows: int) -> None:
        """Go on with the merges that are under way, `rows` having come, and put those that are done in their places."""
        for merge in list(self._merges):
            place = next((i for i, run in enumerate(self.runs) if run is merge.older), -1)
            if place < 0 or place + 1 >= len(self.runs) or self.runs[place + 1] is not merge.newer:
                self._merges.remove(merge)  # one of its runs has expired
            elif merge.advance(max(AT_ONCE // 2, 2 * rows * merge.size // merge.newer.rows)):
                self.runs[place : place + 2] = [merge.result()]
                self._merges.remove(merge)

    def expire(self, ordinal: int) -> None:
        """Drop the runs whose rows all come before that ordinal."""
        keep = 0
        while keep < len(self.runs) and self.runs[keep].base + self.runs[keep].rows <= ordinal:
            keep += 1
        del self.runs[:keep]

    def expire_below(self, dimension: int, value: int) -> None:
        """Drop the runs whose largest value in a dimension is smaller; -1 is the key itself.

        Any run may go, not only the oldest: one row with a time far ahead must not hold all that came after it.
        """
        self.runs = [run for run in self.runs if run.size and run.largest(dimension) >= value]

    def search(self, probes: Probes) -> FoundInRuns:
        """Find every probe's ranges in every run that it may reach. O(runs * n) for keys that are spread evenly."""
        runs: list[Run] = []
        checks: list[int] = []
        if len(probes):
            seen_from, seen_to = int(probes.seen_from[0]), int(probes.seen_to[-1])
            whole_from, whole_to = int(probes.seen_from[-1]), int(probes.seen_to[0])
            reach = Reach.of(probes, self.dims) if self.dims else None
            for run in self.runs:
                if not run.size or run.base >= seen_to or run.base + run.rows <= seen_from:
                    continue
                check = 0 if run.base >= whole_from and run.base + run.rows <= whole_to else CHECK_SEEN
                if reach is not None:
                    if not reach.touches(run):
                        continue
                    if not reach.covers(run):
                        check |= CHECK_AUX
                runs.append(run)
                checks.append(check)
        return FoundInRuns(probes, runs, checks)

    @property
    def inexact(self) -> frozenset[int]:
        """Terms of which some key here was clipped."""
        return frozenset().union(*(run.inexact for run in self.runs))

    @property
    def nbytes(self) -> int:
        """Bytes of all runs."""
        return sum(run.nbytes for run in self.runs)

    def rebased(self, run: Run, base: int) -> Run:
        """Return the same run for a sub-window that begins at another ordinal; the arrays are shared."""
        return run.rebased(base)


FAN_OUT = 4
AT_ONCE = 1 << 13
"""Rows that a push may merge besides its own: as many take 15 µs."""

SHARE = 32
"""Rows that are merged at once for each row of a push: as many take about as long as the row's other steps."""

SMALLEST_LIMIT = 4096
"""Runs are merged up to this size however small the window is: below it a merge costs less than one more search."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a batch of probes asks of the further dimensions, as a whole; arrays of (d,) int64.

    Attributes
    ----------
    low, high
        No probe asks for values outside ``low <= v <= high``.
    inner_low, inner_high
        Every probe takes all values in ``inner_low <= v <= inner_high``.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    inner_low: NDArray[np.int64]
    inner_high: NDArray[np.int64]

    @staticmethod
    def of(probes: Probes, dims: int) -> Reach:
        """Measure a batch; probes with no range of keys ask for nothing and count for nothing."""
        ends = np.iinfo(np.int64)
        low, high = np.full(dims, ends.max), np.full(dims, ends.min)
        inner_low, inner_high = np.full(dims, ends.min), np.full(dims, ends.max)
        active = (probes.lo <= probes.hi).any(axis=0)
        if active.any():
            for piece, d in enumerate(probes.aux_dims):
                lows, highs = probes.aux_lo[piece][active], probes.aux_hi[piece][active]
                low[d], high[d] = min(low[d], lows.min()), max(high[d], highs.max())
                # Several pieces leave gaps: their intersection is empty, so nothing is covered.
                inner_low[d], inner_high[d] = max(inner_low[d], lows.max()), min(inner_high[d], highs.min())
        return Reach(low, high, inner_low, inner_high)

    def touches(self, run: Run) -> bool:
        """Tell whether any probe may find a match in the run."""
        return bool(np.all((run.aux_min <= self.high) & (run.aux_max >= self.low)))

    def covers(self, run: Run) -> bool:
        """Tell whether every row of the run passes every dimension for every probe."""
        return bool(np.all((run.aux_min >= self.inner_low) & (run.aux_max <= self.inner_high)))
