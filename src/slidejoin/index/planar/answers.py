"""What the planar index returns: how many rows each probe finds, and the first of them; see `index.answer`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.sorted_runs.answers import order_of
from slidejoin.kernels.planar.counting import count_boxes
from slidejoin.kernels.planar.reporting import CHECKS, COUNT, FILL, KEEP, SYMBOLS, put_kept, report
from slidejoin.kernels.sorted_runs.ranging import find_ranges
from slidejoin.runtime.array_pool import ArrayPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.index.planar.lines import Reached
    from slidejoin.index.probe import Probes
    from slidejoin.index.sorted_runs.run import Run

__all__ = ["CountedBoxes", "FoundInBoxes", "count_whole"]

kept_pool, ranges_pool = ArrayPool(np.int64), ArrayPool(np.int64, kept=8)

KEPT_A_PROBE = 32
"""Rows found for each probe, on average, up to which they are kept: of more, those of the first probes are, and the
others are found a second time when pairs are asked for, so that memory does not depend on how many match."""

LEAST_ROOM = 1 << 10


class Boxes:
    """The boxes of probes in some runs: a range of places by each key.

    Attributes
    ----------
    boxes, sides : (n, k * runs), (n, p * runs) int64
        As `kernels.planar.reporting.report` takes them.
    order, side_lines : (n,) int32
        Likewise.
    """

    __slots__ = ("_seen", "boxes", "order", "side_lines", "sides", "table")

    def __init__(self, seen: Reached, probes: Probes) -> None:
        self._seen, lines = seen, seen.lines  # keeps the memory that the table points to
        self.table = lines.planar[seen.chosen]
        self.table[:, CHECKS] = seen.checks
        runs, own = seen.runs, probes.aux_dims == 0
        # All rows have one second key if there is no further dimension.
        low = high = np.zeros((1, len(probes)), np.int64)
        if own.size:
            low, high = probes.aux_lo[own], probes.aux_hi[own]
        self.order, self.boxes = _ranges(probes.lo, probes.hi, [run.x for run in runs], lines.x[seen.chosen])
        by_side, self.sides = _ranges(low, high, [run.y for run in runs], lines.y[seen.chosen])
        self.side_lines = _inverse(by_side)


def _inverse(order: NDArray[np.int32]) -> NDArray[np.int32]:
    lines = np.empty(order.size, np.int32)
    lines[order] = np.arange(order.size, dtype=np.int32)
    return lines


def _ranges(
    lo: NDArray[np.int64], hi: NDArray[np.int64], runs: list[Run], table: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the ranges of places in all runs, (n, k * runs), and which probe each line is of."""
    n, columns = lo.shape[1], len(runs) * lo.shape[0]
    lo, hi = np.ascontiguousarray(lo), np.ascontiguousarray(hi)
    order = order_of(lo, hi, runs)
    found: NDArray[np.int64] = ranges_pool.take(n * columns).reshape(n, columns)
    find_ranges(table, lo, hi, order, found, np.empty(columns, np.int64))
    return order, found


class FoundInBoxes:
    """The rows found by `PlanarIndex.search`; see `slidejoin.index.answer.Found`.

    Parameters
    ----------
    seen : Reached
        The runs that some probe may reach.
    probes : Probes
    only_counts : bool
        Whether no row needs to be kept.
    """

    __slots__ = ("_boxes", "_checked", "_kept", "_places", "_probes", "counts")

    bounds: tuple[int, ...] = ()
    """Probes at which further parts of the answer begin: none."""

    in_ranges = None
    """Rows are listed by ordinal, not as ranges."""

    def __init__(self, seen: Reached, probes: Probes, *, only_counts: bool = False) -> None:
        n = len(probes)
        self._probes, self._boxes = probes, Boxes(seen, probes)
        rest = probes.aux_dims > 0
        # The arrays of a batch without further dimensions are as they come.
        self._checked = (
            probes.seen_from, probes.seen_to, np.ascontiguousarray(probes.aux_lo[rest]),
            np.ascontiguousarray(probes.aux_hi[rest]), probes.aux_dims[rest] - 1,
        )  # fmt: skip
        self.counts: NDArray[np.int64] = np.empty(n, np.int64)
        self._places: NDArray[np.int64] = np.empty(n, np.int64)
        room = 0 if only_counts else KEPT_A_PROBE * n + LEAST_ROOM
        self._kept: NDArray[np.int64] = kept_pool.take(room)
        self._report(np.arange(n, dtype=np.int32), COUNT if only_counts else KEEP, self._places, self._kept)

    def _report(self, lines: NDArray[np.int32], mode: int, places: NDArray[np.int64], out: NDArray[np.int64]) -> None:
        boxes = self._boxes
        report(
            boxes.table, boxes.boxes, boxes.sides, lines, boxes.order, boxes.side_lines, *self._checked, mode,
            self.counts, places, out,
        )  # fmt: skip

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `Found`."""
        own, kept = self._probes.ordinals, self._places
        put_kept(self._kept, kept, self.counts, own, first, last, places, probes, stored)
        again = np.flatnonzero((kept[first:last] < 0) & (self.counts[first:last] > 0)) + first
        if again.size:
            lines = _inverse(self._boxes.order)[again]
            lines.sort()
            self._report(lines, FILL, places, stored)


def count_whole(seen: Reached, probes: Probes, counts: NDArray[np.int64]) -> None:
    """Add to `counts` (n,) int64 the rows that probes find in runs each of which they see as a whole or not at all.

    What a probe finds in a run of which it sees a part is not counted.
    """
    if not len(seen):
        return
    boxes = Boxes(seen, probes)
    boxes.table[:, SYMBOLS] = [run.symbols() for run in seen.runs]
    count_boxes(
        boxes.table, boxes.boxes, boxes.sides, boxes.order, boxes.side_lines, probes.seen_from, probes.seen_to, counts
    )


class CountedBoxes:
    """The number of rows of each probe; the rows themselves are found when pairs are needed."""

    def __init__(self, counts: NDArray[np.int64], find: Callable[[], FoundInBoxes]) -> None:
        self.counts = counts
        self._find = find

    bounds: tuple[int, ...] = ()
    """Probes at which further parts of the answer begin: none."""

    in_ranges = None
    """Rows are listed by ordinal, not as ranges."""

    @cached_property
    def found(self) -> FoundInBoxes:
        """The rows."""
        return self._find()

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `Found`."""
        self.found.fill(first, last, places, probes, stored)
