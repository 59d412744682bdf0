"""What the planar index returns: how many rows each probe has, and the first of them; see `index.answer`.

The runs that a batch may reach are arrays: their lines for kernels and their bounds, made once for each change of the
chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import BatchMatches
from slidejoin.index.kernels.found_rows import Pairs, ProbePairs
from slidejoin.index.kernels.range_search import find_ranges
from slidejoin.index.kernels.searching import FIELDS as RUN_FIELDS
from slidejoin.index.kernels.searching import Criteria
from slidejoin.index.planar.kernels.counting import count_boxes
from slidejoin.index.planar.kernels.reporting import (
    CHECKS,
    COUNT,
    FIELDS,
    FILL,
    KEEP,
    SYMBOLS,
    BoxAnswer,
    BoxKeys,
    BoxPlaces,
    YoungRows,
    put_listed,
    report,
)
from slidejoin.index.sorted_runs.answers import every, order_of
from slidejoin.runtime.array_pool import ArrayPool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.planar.run import PlanarRun
    from slidejoin.index.probe import Probes
    from slidejoin.runtime.threads import Workers

__all__ = ["Lines", "MatchesInBoxes", "Reached", "count_whole", "lines_of"]


@dataclass(frozen=True, slots=True)
class Lines:
    """Runs, r of them, each with a row that has keys.

    Attributes
    ----------
    runs : tuple of PlanarRun
        The runs, which keep the memory that the lines point to.
    planar, x, y : (r, FIELDS) int64
        Their lines, see `index.planar.kernels.reporting`, and those of both orders, see `index.kernels.searching`.
    base, end : (r,) int64
        The ordinals that they span.
    least, most : (r, d) int64
        The bounds of each further dimension, the second key being the first of them.
    """

    runs: tuple[PlanarRun, ...]
    planar: NDArray[np.int64]
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    base: NDArray[np.int64]
    end: NDArray[np.int64]
    least: NDArray[np.int64]
    most: NDArray[np.int64]


def lines_of(chain: Sequence[PlanarRun], dims: int) -> Lines:
    """Return the runs of a chain that have rows, with so many further dimensions."""
    runs = tuple(run for run in chain if run.size)
    r = len(runs)
    return Lines(
        runs,
        np.array([run.line for run in runs], np.int64).reshape(r, FIELDS),
        np.array([run.x.line for run in runs], np.int64).reshape(r, RUN_FIELDS),
        np.array([run.y.line for run in runs], np.int64).reshape(r, RUN_FIELDS),
        np.array([run.base for run in runs], np.int64),
        np.array([run.end for run in runs], np.int64),
        np.array([[run.y.smallest, *run.x.aux_min.tolist()] for run in runs], np.int64).reshape(r, max(dims, 1)),
        np.array([[run.y.largest_key, *run.x.aux_max.tolist()] for run in runs], np.int64).reshape(r, max(dims, 1)),
    )


@dataclass(frozen=True, slots=True)
class Reached:
    """The runs that some probe may reach.

    Attributes
    ----------
    lines : Lines
    chosen : (s,) int64
        Which ones.
    checks : (s,) int64
        What is checked of candidates in each, see `index.kernels.searching`.
    """

    lines: Lines
    chosen: NDArray[np.int64]
    checks: NDArray[np.int64]

    def only(self, which: NDArray[np.bool_]) -> Reached:
        """Return some of them."""
        return Reached(self.lines, self.chosen[which], self.checks[which])

    @property
    def runs(self) -> list[PlanarRun]:
        """The runs."""
        return [self.lines.runs[i] for i in self.chosen]

    def __len__(self) -> int:
        return self.chosen.size


kept_pool, ranges_pool = ArrayPool(np.int64), ArrayPool(np.int64, most=8)

KEPT_A_PROBE = 32
"""Rows of each probe, on average, up to which they are stored: of more, those of the first probes are, and the
others are searched for again when pairs are requested, so that memory does not depend on how many match."""

LEAST_ROOM = 1 << 10

LEAST_APART, LEAST_STRETCH = 128, 1 << 10
"""Probes from which on a further thread pays: handing over takes as long as searching all runs for half as many. The
second where they are taken in the order of their keys, which is made first."""

SHARES = 2
"""Stretches for each thread: one that comes late takes fewer."""


NONE_YOUNG = YoungRows(np.empty((3, 0), np.int64), np.empty((0, 0), np.int64), 0)


class Boxes:
    """The boxes of probes in some runs: a range of places by each key.

    Attributes
    ----------
    boxes, sides : (n, k * runs), (n, p * runs) int64
        As `index.planar.kernels.reporting.report` takes them.
    order, side_lines : (n,) int32
        Likewise.
    few : int
        Up to how many probes stay as they come.
    keys : BoxKeys
        The ranges of both keys themselves.
    """

    __slots__ = (
        "_by_side", "_seen", "_x", "_y", "boxes", "few", "keys", "order", "side_lines", "sides", "table",
    )  # fmt: skip

    def __init__(self, seen: Reached, probes: Probes, workers: Workers) -> None:
        self._seen, lines = seen, seen.lines  # keeps the memory that the table points to
        self._x, self._y = lines.x, lines.y
        if len(seen) < len(lines.runs):
            self._x, self._y = lines.x[seen.chosen], lines.y[seen.chosen]
        self.table = lines.planar[seen.chosen]
        self.table[:, CHECKS] = seen.checks
        own = probes.aux_dims == 0
        # All rows have one second key if there is no further dimension.
        low = high = np.zeros((1, len(probes)), np.int64)
        if own.size:
            low, high = probes.aux_lo[own], probes.aux_hi[own]
        self.keys = BoxKeys(*map(np.ascontiguousarray, (probes.lo, probes.hi, low, high)))
        self.few = workers.tuning.ordered_probes
        self.order = self._by_side = every(len(probes))
        if len(probes) > self.few:
            workers.run([self._put_in_order, self._put_sides_in_order])
        self.side_lines = _inverse(self._by_side, self.few)
        self.boxes, self.sides = _room(self.keys.lo, len(seen)), _room(self.keys.lo_second, len(seen))

    def _put_in_order(self) -> None:
        self.order = order_of(self.keys.lo, self.keys.hi, [run.x for run in self._seen.runs], self.few)

    def _put_sides_in_order(self) -> None:
        self._by_side = order_of(self.keys.lo_second, self.keys.hi_second, [run.y for run in self._seen.runs], self.few)

    def find(self, first: int, last: int) -> None:
        """Write lines first…last-1 of `boxes` and of `sides`."""
        for table, (lo, hi), order, places in (
            (self._x, self.keys[:2], self.order, self.boxes),
            (self._y, self.keys[2:], self._by_side, self.sides),
        ):
            find_ranges(table, lo, hi, order[first:last], places[first:last], np.empty(places.shape[1], np.int64))

    def places(self, first: int = 0, last: int | None = None) -> BoxPlaces:
        """Return the lines from `first` on up to `last` for kernels."""
        return BoxPlaces(self.boxes[first:last], self.sides, self.order[first:last], self.side_lines)


def _stretches(probes: int, workers: Workers) -> list[tuple[int, int]]:
    """Return the first and the last line, and one more, of each task of so many probes."""
    parts = 1
    if workers.threads > 1:
        least = LEAST_APART if probes <= workers.tuning.ordered_probes else LEAST_STRETCH
        parts = max(1, min(SHARES * workers.threads, probes // least))
    return list(pairwise(probes * number // parts for number in range(parts + 1)))


def _inverse(order: NDArray[np.int32], few: int) -> NDArray[np.int32]:
    if order.size <= few:  # each is where it was
        return order
    lines = np.empty(order.size, np.int32)
    lines[order] = np.arange(order.size, dtype=np.int32)
    return lines


def _room(lo: NDArray[np.int64], runs: int) -> NDArray[np.int64]:
    """Return room for the ranges of places, (n, k * runs)."""
    pieces, n = lo.shape
    places: NDArray[np.int64] = ranges_pool.take(n * pieces * runs).reshape(n, pieces * runs)
    return places


class MatchesInBoxes(BatchMatches):
    """The rows that `PlanarIndex.search` located; see `slidejoin.index.answer.BatchMatches`.

    Parameters
    ----------
    seen : Reached
        The runs that some probe may reach.
    probes : Probes
    young : YoungRows
        Rows that are in no run yet.
    only_counts : bool
        Whether no row needs to be stored.
    workers : Workers
        Threads that answer some of the probes each: those that are neighbours by their keys, so that they read the
        same part of a run.
    """

    __slots__ = ("_boxes", "_criteria", "_kept", "_places", "_probes", "_young", "counts")

    divisible = True

    def __init__(
        self,
        seen: Reached,
        probes: Probes,
        young: YoungRows = NONE_YOUNG,
        *,
        only_counts: bool = False,
        workers: Workers,
    ) -> None:
        n = len(probes)
        self._probes, self._boxes, self._young = probes, Boxes(seen, probes, workers), young
        rest = probes.aux_dims > 0
        # The arrays of a batch without further dimensions are as they come.
        self._criteria = Criteria(
            probes.seen_from, probes.seen_to, np.ascontiguousarray(probes.aux_lo[rest]),
            np.ascontiguousarray(probes.aux_hi[rest]), probes.aux_dims[rest] - 1,
        )  # fmt: skip
        self.counts: NDArray[np.int64] = np.empty(n, np.int64)
        self._places: NDArray[np.int64] = np.empty(n, np.int64)
        stretches = _stretches(n, workers)
        each = (0, 0) if only_counts else (KEPT_A_PROBE, LEAST_ROOM)
        rooms = [0, *(each[0] * last + each[1] * at for at, (_, last) in enumerate(stretches, 1))]
        self._kept: NDArray[np.int64] = kept_pool.take(rooms[-1])
        mode, lines = COUNT if only_counts else KEEP, every(n)

        def answer(number: int) -> None:
            first, last = stretches[number]
            self._report(lines[first:last], mode, self._places, self._kept[rooms[number] : rooms[number + 1]])
            if rooms[number]:
                of = self._boxes.order[first:last]
                places = self._places[of]
                self._places[of] = np.where(places < 0, places, places + rooms[number])

        # A probe's sides may be in another stretch than its boxes: all are located first.
        workers.run([partial(self._boxes.find, *stretch) for stretch in stretches])
        workers.run([partial(answer, number) for number in range(len(stretches))])

    def _report(self, lines: NDArray[np.int32], mode: int, places: NDArray[np.int64], out: NDArray[np.int64]) -> None:
        boxes, young = self._boxes, self._young
        answer = BoxAnswer(self.counts, places, out)
        report(boxes.table, boxes.places(), lines, self._criteria, boxes.keys, young, mode, answer)

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `BatchMatches`."""
        own, stored_at = self._probes.ordinals, self._places
        placed = ProbePairs(own, self.counts, places)
        put_listed(self._kept, stored_at, placed, first, last, Pairs(probes, stored))
        again = np.flatnonzero((stored_at[first:last] < 0) & (self.counts[first:last] > 0)) + first
        if again.size:
            lines = _inverse(self._boxes.order, self._boxes.few)[again]
            lines.sort()
            self._report(lines, FILL, places, stored)


def count_whole(seen: Reached, probes: Probes, counts: NDArray[np.int64], workers: Workers) -> None:
    """Add to `counts` (n,) int64 the rows that probes find in runs each of which they see as a whole or not at all.

    What a probe finds in a run of which it sees a part is not counted. Threads take probes as in `MatchesInBoxes`.
    """
    if not len(seen):
        return
    boxes, stretches = Boxes(seen, probes, workers), _stretches(len(probes), workers)
    # What runs are counted by is made by the first that needs it: the largest first, so that nobody waits long.
    makes = [run.make_symbols for run in sorted(seen.runs, key=lambda run: -run.size)]
    workers.run([*makes, *(partial(boxes.find, *stretch) for stretch in stretches)])
    boxes.table[:, SYMBOLS] = [run.symbols() for run in seen.runs]

    def count(first: int, last: int) -> None:
        count_boxes(boxes.table, boxes.places(first, last), probes.seen_from, probes.seen_to, counts)

    workers.run([partial(count, *stretch) for stretch in stretches])
