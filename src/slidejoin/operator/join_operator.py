"""The operator below `StreamJoin` and the Spark pipeline: rows in arrival order to output tables.

A push is cut into slices of the arrival order. For each slice the rows of both sides are inserted first and probed
afterwards; ordinals decide who sees whom, so inserting early changes nothing::

    slice ─▶ insert left, insert right ─▶ probe left→right, right→left ─▶ count ─▶ fill ─▶ filter ─▶ emit ─▶ expire
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.cells.band_cells import BandCells
from slidejoin.index.parallel_search import Workers
from slidejoin.index.structure import Structure
from slidejoin.kernels.jit.interpreted import INTERPRETER
from slidejoin.operator.candidates import RangeCandidates
from slidejoin.operator.counts import CountTables
from slidejoin.operator.fused import FusedPaths
from slidejoin.operator.index_advisor import IndexAdvisor
from slidejoin.operator.ingest.arrival import Arrivals, Clock
from slidejoin.operator.ingest.ingest import Ingest, Push
from slidejoin.operator.insert_probe import InsertProbe
from slidejoin.operator.output import PairOutput
from slidejoin.operator.stats import Stats
from slidejoin.operator.table_sizing import TableSizer
from slidejoin.operator.window.indexed import LARGEST_SLICE, too_far
from slidejoin.operator.window.side import SideWindow
from slidejoin.rows.widths import SLICE, TABLE, TableLimit, Widths, chunked, in_one_chunk, widths_of
from slidejoin.sides import SIDES
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["JoinOperator"]

SMALLEST_SLICE = 1 << 11


class JoinOperator:
    """The windows of both sides, and the one path that rows of either take through them.

    Parameters
    ----------
    plan : Plan
        The bound join.
    merge : bool, default True
        Whether sub-windows are merged; the Spark pipeline merges the segments of its state itself.
    limit : TableLimit
        What an output table may hold. As many candidates as it has rows are held at once.
    algorithm : str, optional
        Another index than the plan's: the Spark pipeline keeps sorted runs as files.
    """

    def __init__(
        self, plan: Plan, *, merge: bool = True, limit: TableLimit = TABLE, algorithm: str | None = None
    ) -> None:
        self.plan = plan
        self.limit = limit
        self.algorithm = algorithm or plan.algorithm
        left = SideWindow(plan, "left", merge=merge, algorithm=self.algorithm)
        # The rows of a self-join are in both windows, their payload is kept once.
        shared = left.payload if plan.config.self_join else None
        right = SideWindow(plan, "right", shared, merge=merge, algorithm=self.algorithm)
        self.windows: dict[Side, SideWindow] = {"left": left, "right": right}
        self.clock = Clock(plan.scope.lateness if plan.scope else 0)
        self.intake = Ingest(plan)
        self.workers = Workers(plan.config.threads)
        self.stats = Stats()
        self.meeting = InsertProbe(plan, self.windows, self.workers, self.stats)
        self.largest_slice = self._largest_slice()
        """Rows of one slice in a count window: no more than it holds."""
        self.count_tables = CountTables(plan)
        self.chooser = IndexAdvisor(plan)
        self.chooser.open &= algorithm is None
        self.sizer = TableSizer(plan.config)
        self._pushes = 0
        self.express = FusedPaths(self) if FusedPaths.serves(self) else None
        INTERPRETER.planned()

    # -- taking rows ---------------------------------------------------------------------------------------------

    def prepare(
        self,
        tables: dict[Side, pa.Table],
        by: tuple[NDArray[np.generic], NDArray[np.generic]] | None = None,
        watermark: int | None = None,
        *,
        own_clock: bool = True,
    ) -> Push:
        """Order the rows, leave out late ones and those without event time, and count them, see `Ingest.take`.

        Nothing is inserted yet.
        """
        push, clock = self.intake.take(self.clock, tables, by, watermark, own_clock=own_clock)
        # Nothing was changed until here, where nothing can fail any more.
        self.clock = clock
        self.stats.null_time_rows += push.null_time_rows
        self.stats.late_rows += push.late_rows
        return push

    def push(self, push: Push, watermark: int | None = None, *, own_clock: bool = True) -> Iterator[pa.Table]:
        """Insert the rows and yield what they produce, in bounded tables.

        All rows are taken even if the iterator is closed early. `watermark` replaces the clock's with
        ``own_clock=False``.
        """
        self._change_if_stretched(push)
        slices = self._slices(push)
        before = {side: window.rows_seen for side, window in self.windows.items()}
        try:
            for part in slices:
                yield from self._matched(part)
                self._expire_counted()
        finally:
            for part in slices:
                self.meeting.insert(part)
                self._expire_counted()
            with self.stats.step("expire"):
                low = self.clock.watermark if own_clock else watermark
                if low is not None:
                    self.expire(low)
            self.settle(before)

    def settle(self, before: dict[Side, int]) -> None:
        """Let rows leave after a push; change the index if another serves better now. `before` are the rows seen."""
        self._expire_counted()
        for side, window in self.windows.items():
            window.own(before[side])
        self.choose()

    def choose(self) -> None:
        """Change the index after a push if another, or one of another size, serves better now."""
        chooser, left, right = self.chooser, self.windows["left"], self.windows["right"]
        self._pushes += 1
        rows = left.rows_seen + right.rows_seen
        if chooser.open and rows >= chooser.due:
            cells = [each.index for each in (left, right) if isinstance(each.index, BandCells)]
            better = chooser.better(
                left.index.name, rows=rows, pairs=self.stats.pairs, pushes=self._pushes,
                window=left.payload.rows + right.payload.rows,
                spilled=sum(one.spilled for one in cells) if cells else None,
            )  # fmt: skip
            if better is not None and not any(window.stretched() for window in self.windows.values()):
                self._change_to(better)
        if rows >= self.sizer.due:
            crowded = self.sizer.crowded((left, right), rows)
            if crowded is not None:
                crowded.make_roomier()
                chooser.begin_anew()

    def _slices(self, push: Push) -> Iterator[Push]:
        arrivals, total = push.arrivals, push.rows
        rows, large = self.slice_rows(total, push.times), any(map(chunked, push.tables.values()))
        if 0 < total <= rows and not large:
            yield push
            return
        # Of a table that had no room in one Arrow array a column, each slice has.
        widths = self._arriving(push) if large else Widths(total, 0)
        first = 0
        for last in TableLimit(rows, SLICE.nbytes).stops(widths):
            cut = {side: slice(*np.searchsorted(arrivals.rank(side), (first, last))) for side in SIDES}
            tables = {
                side: in_one_chunk(push.tables[side].slice(cut[side].start, cut[side].stop - cut[side].start))
                for side in SIDES
            }
            times: dict[Side, NDArray[np.int64] | None] = {"left": None, "right": None}
            for side in SIDES:
                whole = push.times[side]
                times[side] = None if whole is None else whole[cut[side]]
            yield Push(
                tables,
                times,
                Arrivals(
                    arrivals.left[cut["left"]],
                    arrivals.right[cut["right"]],
                    arrivals.left_rank[cut["left"]] - first,
                    arrivals.right_rank[cut["right"]] - first,
                ),
            )
            first = last

    def _arriving(self, push: Push) -> Widths:
        """Return how wide rows are, in the order of their arrival."""
        every = np.zeros(push.rows, np.int64)
        for side in SIDES:
            widths = widths_of(push.tables[side])
            every[push.arrivals.rank(side)] = widths.fixed + (0 if widths.varying is None else widths.varying)
        return Widths(push.rows, 0, every)

    def _largest_slice(self) -> int:
        window = self.plan.config.window
        size = window.left + window.right if isinstance(window, CountWindow) else LARGEST_SLICE
        return min(max(size, SMALLEST_SLICE), LARGEST_SLICE)

    def slice_rows(self, rows: int, times: Mapping[Side, NDArray[np.int64] | None]) -> int:
        """Rows of one slice: no more than the window holds, else probes would search rows that they may not see."""
        if self.plan.scope is None:
            return self.largest_slice
        full = self.plan.scope.at_once(times) if rows else LARGEST_SLICE
        return min(max(full, SMALLEST_SLICE), LARGEST_SLICE)

    # -- one slice -----------------------------------------------------------------------------------------------

    def _matched(self, part: Push) -> Iterator[pa.Table]:
        found, inexact = self.meeting.meet(part)
        if self.plan.bound.never:
            slots = part.rows * (2 if self.plan.config.self_join else 1)
            found = iter([RangeCandidates(slots, self.workers, self.meeting.memory)])
        matches = PairOutput(self.plan, self.windows, self.stats, inexact, self.count_tables, self.workers, self.limit)
        if self.plan.config.output == "count":
            yield from matches.counts(map(matches.counted, found), part.tables, part.arrivals)
        else:
            for candidates in found:
                yield from matches.pairs(candidates)

    def load(self, rows: Mapping[Side, tuple[pa.Table, Sequence[tuple[int, int]], int]]) -> None:
        """Take the rows of each side into empty windows: a table, see `SideWindow.load` for its ordinals."""
        timed = self.plan.scope is not None
        if timed and any(too_far(seen - parts[0][0], table.num_rows) for table, parts, seen in rows.values() if parts):
            self._change_to("bi_sort")
        for side, (table, stretches, seen) in rows.items():
            self.windows[side].load(table, stretches, seen)

    def growth(self, tables: Mapping[Side, pa.Table], room: int) -> int:
        """Return by how many bytes these rows make the windows grow at most; looked at closely if `room` may not do."""
        total = 0
        for closely in (False, True):
            total = 0
            for side in SIDES:
                source = "left" if self.plan.config.self_join else side
                total += self.windows[side].growth(self.intake.held(source, tables[source]), closely=closely)
            if total <= room:
                break
        return total

    def explain(self) -> str:
        """Return the plan in words, with the index that is in use now and why its sizes are as they are."""
        index = self.windows["left"].index
        text = self.plan.explain(index.name, self.chooser.why())
        why = None if isinstance(index, Structure) else index.why()
        return text if why is None else f"{text}\n{why}"

    # -- leaving -------------------------------------------------------------------------------------------------

    def _expire_counted(self) -> None:
        if self.plan.scope is None:
            self._drop({side: self.plan.seen_at(side, self.windows[side].rows_seen) for side in SIDES})

    def expire(self, watermark: int) -> None:
        """Drop the sub-windows of a time window that no row at or above the watermark can see."""
        scope = self.plan.scope
        if scope is None:
            return
        oldest = {side: scope.oldest(side, watermark) for side in SIDES}
        for side in SIDES:
            # A self-join keeps its rows once, as long as either of its roles needs them.
            rows = min(oldest.values()) if self.plan.config.self_join else oldest[side]
            self.windows[side].expire_below(oldest[side], rows)

    def _change_if_stretched(self, push: Push) -> None:
        """Go on with sorted runs where an index would span too many rows; none of the push has left by then."""
        coming = max(table.num_rows for table in push.tables.values())
        if self.windows["left"].index.spans_ordinals and any(
            window.stretched(coming) for window in self.windows.values()
        ):
            self._change_to("bi_sort")

    def _change_to(self, algorithm: str) -> None:
        for window in self.windows.values():
            window.turn_into(algorithm)

    def _drop(self, ordinals: dict[Side, int]) -> None:
        if self.plan.config.self_join:
            low = min(ordinals.values())
            ordinals = {"left": low, "right": low}
        for side in SIDES:
            self.windows[side].expire(ordinals[side])

    def measured(self) -> Stats:
        """Return the counters, with what the windows hold now: that is looked up when it is asked for."""
        if self.express is not None:
            self.express.account()
        left, right = self.windows["left"], self.windows["right"]
        self.stats.window_left, self.stats.window_right = (w.payload.rows for w in (left, right))
        self.stats.window_bytes = left.nbytes + right.nbytes
        return self.stats
