"""The planar index: the window as a chain of planar runs, each answering a range of each of two keys.

A run holds its rows in the orders of both keys, and for each row its rank by the second one. A probe is then a box: a
range of places times a range of ranks, both located by search. Rows of boxes are reported through a hierarchy of block
bounds, and counted through a wavelet matrix, see `slidejoin.index.planar.kernels`. Runs are merged by levels, as
`slidejoin.index.sorted_runs` does. The rows of small pushes collect unsorted until they are worth a run.

Which rows a probe sees is decided by ordinals. Reporting compares them with the ranks. Counting does so only in runs
of few rows: where rows of a long run begin to come or to leave one after the other, it is cut into ever shorter runs
towards that end, and all but the last one or two are seen as a whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import Answer, CountedMatches
from slidejoin.index.kernels.searching import CHECK_AUX, CHECK_SEEN
from slidejoin.index.parallel_search import by_and_by
from slidejoin.index.planar.answers import NONE_YOUNG, Lines, MatchesInBoxes, Reached, count_whole, lines_of
from slidejoin.index.planar.kernels.reporting import YoungRows
from slidejoin.index.planar.run import PlanarMerge, PlanarRun, build_planar, of_rows
from slidejoin.index.protocol import Index, Probing
from slidejoin.index.sorted_runs.merging import NeighbourMerges
from slidejoin.index.sorted_runs.probes import Reach
from slidejoin.runtime.threads import Workers
from slidejoin.spec.options import Planar as PlanarOptions
from slidejoin.tuning import Tuning, tuning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.keys import Prepared, RowKeys
    from slidejoin.index.part_format import SealedPart
    from slidejoin.index.probe import ProbeBatch, Probes
    from slidejoin.index.protocol import Occupancy, Request
    from slidejoin.spec.options import Options

__all__ = ["PlanarIndex"]

MOST_RUNS = 32
"""Runs of a chain up to which one is cut by the times of its rows: where these come in any order, cuts part nothing."""

FEW_RUNS = 16
"""Runs of a chain up to which each is searched: whether any probe may find a row there takes longer to tell."""

LONGEST = (1 << 31) - 1
"""Ordinals that a run may span: a row's place in it has 32 bits."""


# -- the newest rows collect unsorted: probes compare a few by vectors in less time than sorting takes -----------------

COLLECTED, SHARED = 1 << 10, 2
"""Rows that collect at most, and how many pushes share them at least."""

YOUNG_ROOM = 64
"""Rows for which there is room at first."""

ORDINAL, FIRST, SECOND = range(3)
"""What is known of each row: its ordinal and its two keys, each in a line of an array."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The rows of a push, made ready.

    Attributes
    ----------
    first : int
        Ordinal of the first of them.
    unsorted : RowKeys
        In arrival order.
    run : PlanarRun or None
        The same sorted by both keys; None of a few rows, which collect.
    """

    first: int
    unsorted: RowKeys
    run: PlanarRun | None

    @property
    def rows(self) -> int:
        """How many."""
        return self.unsorted.rows

    def orders(self, around: tuple[int, int], rows: int) -> bool:  # noqa: ARG002 - see Prepared
        """Return False: probes have ranges of two keys."""
        return False


def prepared(rows: RowKeys, first: int, *, collects: bool) -> Newest:
    """Sort the rows of a push, the first of which has that ordinal, unless they are few and may collect."""
    few = collects and rows.rows <= COLLECTED // SHARED
    return Newest(first, rows, None if few else of_rows(rows, first))


class Collected:
    """Rows in arrival order, not sorted yet.

    Parameters
    ----------
    first : int
        Ordinal of the first of them.
    dims : int
        Further dimensions, the second key being the first of them.
    """

    __slots__ = ("_more", "_rows", "_size", "base", "end", "inexact")

    def __init__(self, first: int, dims: int) -> None:
        self.base = self.end = first
        self._rows: NDArray[np.int64] = np.zeros((3, YOUNG_ROOM), np.int64)
        self._more: NDArray[np.int64] = np.empty((YOUNG_ROOM, max(dims - 1, 0)), np.int64)
        self._size = 0
        self.inexact: frozenset[int] = frozenset()

    def takes(self, rows: Newest) -> bool:
        """Tell whether a push follows these rows and has room among them."""
        return rows.first == self.end and self.end - self.base + rows.rows <= COLLECTED

    def add(self, newest: Newest) -> None:
        """Add the rows of a push that it takes."""
        rows = newest.unsorted
        chosen = slice(None) if rows.matchable is None else np.flatnonzero(rows.matchable)
        ordinals = np.arange(newest.first, newest.first + rows.rows)[chosen]
        first, last = self._size, self._size + ordinals.size
        if last > self._rows.shape[1]:
            self._grow(last)
        self._rows[ORDINAL, first:last] = ordinals
        self._rows[FIRST, first:last] = rows.keys[chosen]
        if rows.aux.shape[1]:
            self._rows[SECOND, first:last] = rows.aux[chosen, 0]
            if rows.aux.shape[1] > 1:
                self._more[first:last] = rows.aux[chosen, 1:]
        self._size, self.end = last, self.end + rows.rows
        self.inexact |= rows.inexact

    def _grow(self, size: int) -> None:
        room = 1 << (size - 1).bit_length()
        rows, more = np.zeros((3, room), np.int64), np.empty((room, self._more.shape[1]), np.int64)
        rows[:, : self._size], more[: self._size] = self._rows[:, : self._size], self._more[: self._size]
        # Answers that are not written yet keep the arrays that they have read.
        self._rows, self._more = rows, more

    @property
    def young(self) -> YoungRows:
        """The rows as kernels read them."""
        return YoungRows(self._rows, self._more, self._size)

    @property
    def size(self) -> int:
        """Rows that have keys."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._rows.nbytes + self._more.nbytes

    def sorted(self) -> PlanarRun:
        """Return the rows as a run."""
        span, size = self.end - self.base, self._size
        places = self._rows[ORDINAL, :size] - self.base
        stored = np.zeros(span, np.bool_)
        stored[places] = True
        keys: NDArray[np.int64] = np.zeros(span, np.int64)
        aux: NDArray[np.int64] = np.zeros((span, 1 + self._more.shape[1]), np.int64)
        keys[places], aux[places, 0], aux[places, 1:] = (
            self._rows[FIRST, :size],
            self._rows[SECOND, :size],
            self._more[:size],
        )
        return build_planar(self.base, span, keys, aux, None if size == span else stored, self.inexact)


# -- the index ---------------------------------------------------------------------------------------------------------


class PlanarIndex(Index):
    """The index of one side's window over two keys: the indexed one and the first further dimension.

    Parameters
    ----------
    dims : int
        Further dimensions; those from the second on are checked on candidates.
    merge : bool, default True
        Whether runs are merged.
    options : Options, optional
        Options set by the user.
    own : Tuning, optional
        Thresholds.
    """

    name = "planar"
    copies = True
    spans_ordinals = False
    """Runs expire wherever they are in the chain."""
    dear_probes = True

    def __init__(
        self, dims: int, *, merge: bool = True, options: Options | None = None, own: Tuning | None = None
    ) -> None:
        self.dims, self._merging, self.tuning = dims, merge, own or tuning()
        self.options = options if isinstance(options, PlanarOptions) else PlanarOptions()
        """Options set by the user."""
        self._runs: list[PlanarRun] = []
        self._merges = NeighbourMerges[PlanarRun](pushes=4, tuning=self.tuning)
        self._lengthening = Lock()
        self._collected: Collected | None = None
        self._expiring = -1
        """The dimension by which rows expire, from the second key on; -1 where it is none of these."""
        self._lined: tuple[list[PlanarRun], Lines] | None = None

    # -- insert ------------------------------------------------------------------------------------------------------

    def prepare(self, rows: RowKeys, first: int) -> Newest:
        """Sort the rows by both keys unless they are few, see `Index`. O(n)."""
        return prepared(rows, first, collects=self._merging)

    def insert(self, rows: Prepared, live: int) -> None:
        """Add the newest rows, see `Index`: a few collect, more become a run."""
        assert isinstance(rows, Newest)  # noqa: S101 - as `prepare` gave them
        collected = self._collected
        if collected is not None and (rows.run is not None or not collected.takes(rows)):
            self._settle(rows.rows, live)
        if rows.run is not None:
            self._append(rows.run, rows.rows, live)
            return
        self._merges.advance(self._runs, rows.rows)
        if self._collected is None:
            self._collected = Collected(rows.first, self.dims)
        self._collected.add(rows)

    def attach(self, part: SealedPart, first: int, live: int) -> None:
        """Add rows that were sorted before, see `Index`; the arrays are shared."""
        assert isinstance(part, PlanarRun)  # noqa: S101 - all sealed parts of this index are planar runs
        self._settle(part.rows, live)
        self._append(part.rebased(first), part.rows, live)

    def _settle(self, rows: int, live: int) -> None:
        """Make a run of the rows that have collected, before a push of `rows` rows."""
        collected, self._collected = self._collected, None
        if collected is not None:
            self._append(collected.sorted(), rows, live)

    def _append(self, run: PlanarRun, rows: int, live: int) -> None:
        # The newest run stays apart until the next push: only its rows may be seen by one probe and not by another.
        self._merge(rows, live)
        self._runs.append(run)
        for each in self._runs:
            _ = each.line  # several threads may need it at once

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one, which needs no work: each run has its own."""

    def _merge(self, rows: int, live: int) -> None:
        """Merge neighbours while the older has fewer than a fan-out times the newer's rows; pushes have so many `rows`.

        Runs span half of the window at most, and expire as a whole. Those of which rows leave are merged no more, nor
        what is older.
        """
        if not self._merging:
            return
        runs, limit, fan_out = self._runs, min(max(self.tuning.smallest_run, live // 2), LONGEST), self.options.fan_out
        self._merges.advance(runs, rows)

        def due(older: PlanarRun, newer: PlanarRun) -> bool:
            return older.rows < fan_out * newer.rows and newer.end - older.base <= limit

        def merge(older: PlanarRun, newer: PlanarRun, whole: bool) -> PlanarMerge:
            return PlanarMerge(older, newer, whole=whole)

        leaving = (place for place in range(len(runs) - 2, -1, -1) if runs[place].leaving)
        self._merges.begin(runs, rows, due, merge, next(leaving, -1) + 1)

    # -- expire ------------------------------------------------------------------------------------------------------

    def expire(self, ordinal: int) -> None:
        """Drop the runs whose rows all come before that ordinal."""
        runs, keep = self._runs, 0
        while keep < len(runs) and runs[keep].end <= ordinal:
            keep += 1
        if keep:
            del runs[:keep]
        if self._collected is not None and self._collected.end <= ordinal:
            self._collected = None

    def expire_below(self, dimension: int, value: int, first: int) -> None:  # noqa: ARG002 - see Index
        """Drop the runs whose largest value in a dimension is smaller; -1 is the key itself. Any run may expire."""
        self._expiring = dimension
        self._runs = [run for run in self._runs if run.size and run.largest(dimension) >= value]

    # -- probe -------------------------------------------------------------------------------------------------------

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Answer a batch by counts, see `Index`; pairs are written when they are needed."""
        probes = batch.probes
        if request.only_counts:
            if self._merging and len(probes):
                self._cut_for(probes)
            ranges: BatchMatches = by_and_by(self.tally, probes, request.workers)
        else:
            ranges = self._found(probes, request.workers)
        return Probing([], lambda: Answer(ranges=ranges))

    def ranges(self, batch: ProbeBatch, workers: Workers) -> BatchMatches:
        """Answer a batch by counts, see `Index`."""
        return self._found(batch.probes, workers)

    def _found(self, probes: Probes, workers: Workers) -> BatchMatches:
        """Find every probe's rows, by several threads."""
        return by_and_by(self.search, probes, workers)

    def search(self, probes: Probes, workers: Workers) -> MatchesInBoxes:
        """Find every probe's rows, by several threads; several batches may be searched for at once."""
        return MatchesInBoxes(self._reached(probes), probes, self._young, workers=workers)

    def tally(self, probes: Probes, workers: Workers) -> CountedMatches:
        """Count every probe's rows, likewise."""
        reached = self._reached(probes)
        alone = reached.only(reached.checks & CHECK_AUX == 0)
        counts: NDArray[np.int64] = np.zeros(len(probes), np.int64)
        young = self._young
        if len(alone) < len(reached) or young.size:
            looked_at = reached.only(reached.checks & CHECK_AUX != 0)
            counts += MatchesInBoxes(looked_at, probes, young, only_counts=True, workers=workers).counts
        count_whole(alone, probes, counts, workers)
        one = Workers(1, workers.tuning)
        for at in np.flatnonzero(alone.checks):
            seen = alone.only(np.arange(len(alone)) == at)
            for first, last in seeing_parts(seen.runs[0], probes):
                counts[first:last] += MatchesInBoxes(
                    seen, probes.part(first, last), only_counts=True, workers=one
                ).counts
        return CountedMatches(counts, lambda: self.search(probes, workers))

    @property
    def _young(self) -> YoungRows:
        """The rows that are in no run yet."""
        return NONE_YOUNG if self._collected is None else self._collected.young

    @property
    def _lines(self) -> Lines:
        """The runs as arrays."""
        known = self._lined
        if known is None or known[0] != self._runs:
            # Two threads may make them at once: they make the same.
            self._lined = known = list(self._runs), lines_of(self._runs, self.dims)
        return known[1]

    def _reached(self, probes: Probes) -> Reached:
        """Return the runs that some probe may reach."""
        lines = self._lines
        if not len(probes):
            return Reached(lines, np.empty(0, np.int64), np.empty(0, np.int64))
        reached = (lines.base < probes.seen_to[-1]) & (lines.end > probes.seen_from[0])
        whole = (lines.base >= probes.seen_from[-1]) & (lines.end <= probes.seen_to[0])
        checks = np.where(whole, 0, CHECK_SEEN)
        if self.dims > 1 or (self.dims and len(lines.runs) > FEW_RUNS):
            reach = Reach.of(probes, self.dims)
            reached &= ((lines.least <= reach.high) & (lines.most >= reach.low)).all(axis=1)
            if self.dims > 1:  # the second key is compared anyway
                passed = (lines.least >= reach.inner_low) & (lines.most <= reach.inner_high)
                checks |= np.where(passed[:, 1:].all(axis=1), 0, CHECK_AUX)
        chosen = np.flatnonzero(reached)
        return Reached(lines, chosen, checks[chosen])

    def _cut_for(self, probes: Probes) -> None:
        """Cut the long runs of which some probes see one part of the rows.

        A run is cut in the middle, the part at its end is cut again, down to short ones, see `bounds_of`; so that
        each row is moved O(log) times until it expires, and the number of runs grows by as many.
        """
        ends = int(probes.seen_from[0]), int(probes.seen_from[-1])
        tops = int(probes.seen_to[0]), int(probes.seen_to[-1])
        times = self._times_left(probes)
        with self._lengthening:
            place = 0
            while place < len(self._runs):
                run = self._runs[place]
                old = bounds_of(run, ends)
                if not old and len(self._runs) < MOST_RUNS:
                    old = bounds_in_time(run, self._expiring, times)
                bounds = old or bounds_of(run, tops)
                if bounds:
                    parts = run.cut(bounds)
                    for part in parts:
                        part.leaving |= bool(old)
                        _ = part.line  # several threads may need it at once
                    self._runs[place : place + 1] = parts
                else:
                    place += 1

    def _times_left(self, probes: Probes) -> tuple[int, int]:
        """Return the smallest time that any probe looks for, and that from which on all look for all."""
        if self._expiring < 1:
            return 0, 0
        reach = Reach.of(probes, self.dims)
        return int(reach.low[self._expiring]), int(reach.inner_low[self._expiring])

    # -- size --------------------------------------------------------------------------------------------------------

    @property
    def inexact(self) -> frozenset[int]:
        """Terms of which some key here was clipped."""
        return frozenset().union(*(part.inexact for part in self._parts))

    @property
    def floor(self) -> int:
        """Ordinal of the oldest row."""
        return min((part.base for part in self._parts), default=0)

    @property
    def count(self) -> int:
        """Stored rows, including expired ones that have not been removed."""
        return sum(part.size for part in self._parts)

    @property
    def nbytes(self) -> int:
        """Bytes of all runs, and of the rows that collect."""
        return sum(part.nbytes for part in self._parts)

    @property
    def _parts(self) -> list[PlanarRun | Collected]:
        return [*self._runs, *([] if self._collected is None else [self._collected])]

    def growth(self, window: Occupancy, rows: int, keys: NDArray[np.int64] | None) -> int:  # noqa: ARG002 - see Index
        """Return by how many bytes the runs grow at most, merges included: runs may be in their narrowest form now."""
        return max(0, (self.count + rows) * (ROW_BYTES + 16 * max(0, self.dims - 1)) + RUN_BYTES - self.nbytes)

    # -- explanation -------------------------------------------------------------------------------------------------

    def explain(self) -> str | None:
        """Return how many runs there are, in words; None of windows that are small."""
        if self.count < self.tuning.explained_rows or not self._runs:
            return None
        return f"planar runs: {len(self._runs)} of up to {max(run.rows for run in self._runs):,} rows"


ROW_BYTES, RUN_BYTES = 52, 1 << 13
"""Bytes of a row at most, without the dimensions from the third on: two words, two whole keys, two entries of
directories of at most 2 bytes each, a rank, its symbols (8) and bounds; and of a run whatever its size."""


SMALL_RUN = 1 << 12
"""Rows of a run up to which the ordinals of candidates are compared to count them."""


def seeing_parts(run: PlanarRun, probes: Probes) -> list[tuple[int, int]]:
    """Return the stretches of probes that see some rows of a run and not others."""
    # Both ends of what probes see ascend.
    inside = [
        (int(np.searchsorted(ends, run.base, side="right")), int(np.searchsorted(ends, run.end)))
        for ends in (probes.seen_from, probes.seen_to)
    ]
    parts: list[tuple[int, int]] = []
    for first, last in sorted(stretch for stretch in inside if stretch[0] < stretch[1]):
        if parts and first <= parts[-1][1]:
            parts[-1] = parts[-1][0], max(last, parts[-1][1])
        else:
            parts.append((first, last))
    return parts


def bounds_of(run: PlanarRun, zone: tuple[int, int]) -> list[int]:
    """Return the ordinals at which a run is cut, so that only short parts have an end of some probe's view inside.

    Ends lie in ``zone[0] <= end <= zone[1]``; none are returned if it is not to be cut.
    """
    if run.rows <= SMALL_RUN or zone[1] <= run.base or zone[0] >= run.end:
        return []
    bounds, parts = [run.base, run.end], [(run.base, run.end)]
    while parts:
        first, last = parts.pop()
        if last - first <= SMALL_RUN or zone[1] <= first or zone[0] >= last:
            continue
        middle = (first + last) // 2
        bounds.append(middle)
        parts += [(first, middle), (middle, last)]
    return sorted(bounds)


def bounds_in_time(run: PlanarRun, dimension: int, times: tuple[int, int]) -> list[int]:
    """Return the ordinals at which a run is cut, so that rows whose times some probes look for are in short parts.

    No probe looks for rows below ``times[0]``, all do for those from ``times[1]`` on. Where rows did not arrive in the
    order of their times, so that a cut would separate few, none are returned.
    """
    if dimension < 1 or run.rows <= SMALL_RUN or not (run.size and run.in_time):
        return []
    if int(run.x.aux_min[dimension - 1]) >= times[1]:
        return []
    values, offsets = run.x.aux[:, dimension - 1], run.x.offsets
    early = offsets[values < times[1]]
    last, live = int(early.max()) + 1, offsets[values >= times[0]]
    run.in_time = 4 * last <= 3 * run.rows and 2 * early.size >= last
    if not run.in_time:
        return []
    first = int(live.min()) if live.size else 0
    return bounds_of(run, (run.base + first, run.base + last))
