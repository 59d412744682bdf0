"""BI-Sort: sub-windows as sorted runs, a range of keys as one <start, end> record (PanJoin, sections III-D and III-E).

Every push appends one sorted run, which plays the part of the paper's insertion buffer; neighbouring runs are merged
into main arrays that grow up to half of the window, so that a row is moved O(log) times and a probe
meets O(log) runs. The paper's index array is replaced by its rebounding search: probes are sorted, and each search
begins where the last one ended, which touches the same cache lines as a sampled index and needs no memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.kernels.matching import count_checked, count_plain, fill_checked, fill_plain
from slidejoin.kernels.merging import merge_sorted
from slidejoin.kernels.searching import WIDEST, locate, locate_narrow
from slidejoin.kernels.sorting import sorted_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.probing import Probes

__all__ = ["BiSort", "FoundInRuns", "Run", "build_run", "merge_runs"]


@dataclass(frozen=True, slots=True)
class Run:
    """The keys of one sub-window, sorted and immutable.

    Attributes
    ----------
    base : int
        Ordinal of the sub-window's first row.
    rows : int
        Ordinals that the sub-window spans, m or more: rows that can match nothing have no key here.
    keys : (m,) int64
        Ascending.
    offsets : (m,) int32
        Row within the sub-window of each key.
    aux : (m, d) int64
        The further dimensions of each row.
    aux_min, aux_max : (d,) int64
        Ends of each dimension, by which a whole run is passed over.
    inexact : frozenset of int
        Numbers of the predicate's terms whose keys had to be clipped: their pairs are rechecked.
    narrow : (m,) uint32 or None
        Keys less the smallest, which searches read instead, in a large run whose keys lie near enough.
    """

    base: int
    rows: int
    keys: NDArray[np.int64]
    offsets: NDArray[np.int32]
    aux: NDArray[np.int64]
    aux_min: NDArray[np.int64]
    aux_max: NDArray[np.int64]
    inexact: frozenset[int] = frozenset()
    narrow: NDArray[np.uint32] | None = None

    def largest(self, dimension: int) -> int:
        """Return the largest value in a dimension, -1 for the key itself; the run has a key."""
        return int(self.keys[-1] if dimension < 0 else self.aux_max[dimension])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        narrow = 0 if self.narrow is None else self.narrow.nbytes
        return int(self.keys.nbytes + self.offsets.nbytes + self.aux.nbytes + narrow)


def build_run(
    base: int,
    rows: int,
    keys: NDArray[np.int64],
    aux: NDArray[np.int64],
    kept: NDArray[np.bool_] | None,
    inexact: frozenset[int] = frozenset(),
) -> Run:
    """Sort one sub-window's keys.

    `keys` (rows,) int64 and `aux` (rows, d) int64 in arrival order; `kept` (rows,) bool, the rows that may match, or
    None for all. Ties stay in arrival order. O(rows).
    """
    if kept is None:
        order = sorted_order(keys)
    else:
        places = np.flatnonzero(kept).astype(np.int32)
        order = places[sorted_order(keys[places])]
    chosen, ascending = aux[order], keys[order]
    return Run(base, rows, ascending, order, chosen, *_ends(chosen), inexact, _narrow(ascending))


NARROW_FROM = 1 << 13
"""Keys from which on a run has narrow ones; smaller runs stay in the cache anyway."""


def _narrow(keys: NDArray[np.int64]) -> NDArray[np.uint32] | None:
    if keys.size < NARROW_FROM or int(keys[-1]) - int(keys[0]) >= WIDEST:
        return None
    narrow = np.empty(keys.size, np.uint32)
    np.subtract(keys, keys[0], out=narrow, casting="unsafe")
    return narrow


def _ends(aux: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if aux.shape[0] == 0:
        empty = np.zeros(aux.shape[1], np.int64)
        return empty + 1, empty
    return aux.min(axis=0), aux.max(axis=0)


def merge_runs(a: Run, b: Run) -> Run:
    """Merge the runs of two sub-windows, `a` the older, nothing between them. O(|a| + |b|)."""
    m = a.keys.size + b.keys.size
    keys, offsets, aux = np.empty(m, np.int64), np.empty(m, np.int32), np.empty((m, a.aux.shape[1]), np.int64)
    merge_sorted(a.keys, a.offsets, a.aux, b.keys, b.offsets, b.aux, b.base - a.base, keys, offsets, aux)
    if a.keys.size == 0 or b.keys.size == 0:
        ends = _ends(aux)
    else:
        ends = np.minimum(a.aux_min, b.aux_min), np.maximum(a.aux_max, b.aux_max)
    return Run(a.base, b.base + b.rows - a.base, keys, offsets, aux, *ends, a.inexact | b.inexact, _narrow(keys))


@dataclass(frozen=True, slots=True)
class _Hit:
    """Where the probes' ranges lie in one run; `plain` if each range is its own answer."""

    run: Run
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    plain: bool

    @property
    def candidates(
        self,
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], int, NDArray[np.int32], NDArray[np.int32]]:
        """What the kernels take of a run whose rows are to be checked one by one."""
        return self.run.offsets, self.run.aux, self.run.base, self.starts, self.ends


class FoundInRuns:
    """The ranges found by `BiSort.search`, and how many rows of each are matches."""

    __slots__ = ("_hits", "_probes", "counts")

    def __init__(self, probes: Probes, hits: list[_Hit]) -> None:
        self._probes = probes
        self._hits = hits
        self.counts: NDArray[np.int64] = np.zeros(len(probes), np.int64)
        for hit in hits:
            if hit.plain:
                count_plain(hit.starts, hit.ends, self.counts)
            else:
                count_checked(*hit.candidates, *probes.checks, self.counts)

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `Found`."""
        asked, cursors = self._probes, places.copy()
        for hit in self._hits:
            run = hit.run
            if hit.plain:
                fill_plain(
                    run.offsets, run.base, hit.starts, hit.ends, asked.ordinals, first, last, cursors, probes, stored
                )
            else:
                fill_checked(
                    *hit.candidates, *asked.checks, asked.ordinals, first, last, cursors, probes, stored
                )  # fmt: skip


class BiSort:
    """The index of one side's window: a chain of sorted runs in arrival order."""

    name = "bi_sort"

    def __init__(self, dims: int, *, merge: bool = True) -> None:
        self.dims = dims
        self.merge = merge
        self.runs: list[Run] = []

    def append(self, run: Run, live_rows: int) -> None:
        """Add the newest run; merge neighbours while the older is less than four times the newer.

        Merged runs stay under half of the window's `live_rows`, because only whole runs expire.
        """
        runs = self.runs
        runs.append(run)
        limit = max(SMALLEST_LIMIT, live_rows // 2)
        while self.merge and len(runs) > 1:
            older, newer = runs[-2], runs[-1]
            if older.rows >= 4 * newer.rows or older.rows + newer.rows > limit:
                break
            runs[-2:] = [merge_runs(older, newer)]

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
        self.runs = [run for run in self.runs if run.keys.size and run.largest(dimension) >= value]

    def search(self, probes: Probes) -> FoundInRuns:
        """Find every probe's ranges in every run that it may reach. O(runs * n log(m / n)) plus checked candidates."""
        n, hits = len(probes), []
        if n:
            seen_from, seen_to = int(probes.seen_from[0]), int(probes.seen_to[-1])
            whole_from, whole_to = int(probes.seen_from[-1]), int(probes.seen_to[0])
            reach = Reach.of(probes, self.dims)
            runs = [
                run
                for run in self.runs
                if run.keys.size and run.base < seen_to and run.base + run.rows > seen_from and reach.touches(run)
            ]
            for lo, hi in zip(probes.lo, probes.hi, strict=True):
                order = sorted_order(lo) if runs else np.empty(0, np.int32)
                for run in runs:
                    starts, ends = np.empty(n, np.int32), np.empty(n, np.int32)
                    if run.narrow is None:
                        locate(run.keys, lo, hi, order, starts, ends)
                    else:
                        locate_narrow(run.narrow, int(run.keys[0]), lo, hi, order, starts, ends)
                    whole = reach.covers(run) and run.base >= whole_from and run.base + run.rows <= whole_to
                    hits.append(_Hit(run, starts, ends, whole))
        return FoundInRuns(probes, hits)

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
        return replace(run, base=base)


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
