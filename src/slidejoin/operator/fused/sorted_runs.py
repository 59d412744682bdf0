"""The short way through sorted runs: one comparison of whole numbers, in count windows, by small pushes.

The rows of small pushes collect in an insertion buffer (`index.sorted_runs.insertion_buffer`), so that most pushes neither make a
run nor merge one. Larger pushes go the operator's way, which two threads share: their rows cost more than its decisions.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.sorted_runs.bi_sort import BiSort
from slidejoin.kernels.candidates.weaving import weave, weave_counts
from slidejoin.kernels.cells.probing import ARRIVED, SIZE, SLIDE, VIEW
from slidejoin.kernels.common.words import LANES
from slidejoin.kernels.sorted_runs.asking import ask_runs
from slidejoin.kernels.sorted_runs.buffering import merge_coming, sort_coming
from slidejoin.operator.fused.common import NO_TIMES, FusedPath, beside
from slidejoin.operator.ingest.arrival import Arrivals, rise
from slidejoin.operator.ingest.ingest import Push
from slidejoin.sides import SIDES, other
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.sorted_runs.insertion_buffer import InsertionBuffer
    from slidejoin.operator.fused.batch_columns import BatchColumns
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.predicate.ranges.terms import Beside
    from slidejoin.sides import Side

__all__ = ["FusedRuns"]

MATCHES, MOST_MATCHES, MOST_COUNTED = 16, 1 << 20, 1 << 17
"""Matches a probe for which there is room at first, and places for the matches of a side at most: 4 MiB; fewer where
they are only counted, because the operator's way counts ranges without looking at their rows."""

REST = 32
"""Pushes that go the operator's way after one with more matches than that."""


class Asking:
    """What the probes of one side ask and find, in memory that is kept from push to push."""

    def __init__(self, keys: Beside, window: CountWindow, stored: Side) -> None:
        shift = keys.shift
        self._sign, self._lows, self._highs = shift.sign, shift.lows, shift.highs
        self._view = np.zeros(VIEW, np.int64)
        self._view[[SIZE, SLIDE]] = window.size(stored), window.slide
        self._places = MATCHES
        self._kept = self.found = np.empty(0, np.uint32)
        self.counts = np.empty(0, np.int32)
        self.total = 0

    def ask(
        self,
        runs: BiSort,
        keys: NDArray[np.int64],
        rank: NDArray[np.int64],
        arrived: int,
        coming: tuple[NDArray[np.uint64], int],
    ) -> bool:
        """Find the matches of probes with these keys, (n,) int64, and tell whether there was room for all.

        `rank` (n,) int64 are their places in the arrival order, `arrived` the rows of the other side before them.
        `coming` are their words as they were sorted for their own side's buffer, and how many rows were in that.
        """
        n, places = keys.size, max(self._places * keys.size, self._places)
        if self.counts.size < n or self.found.size < places + LANES:
            self.counts = np.empty(2 * n, np.int32)
            self._kept, self.found = np.empty(2 * places + LANES, np.uint32), np.empty(2 * places + LANES, np.uint32)
        self._view[ARRIVED] = arrived
        self.total = ask_runs(
            runs.table(), keys, self._sign, self._lows, self._highs, rank, self._view, *coming, self._kept,
            self.counts, self.found,
        )  # fmt: skip
        return self.total >= 0

    def learn(self, probes: int, most: int) -> bool:
        """Make more room the next time, up to so many places; tell whether there is more."""
        more = 2 * self._places * probes <= most
        if more:
            self._places *= 4
        return more


class FusedRuns(FusedPath):
    """Pushes into an operator whose plan `serves`; see `push`."""

    kernels = (ask_runs, sort_coming, merge_coming)

    def __init__(self, operator: JoinOperator) -> None:
        plan = operator.plan
        keys, window = beside(plan), plan.config.window
        super().__init__(operator, keys)
        assert isinstance(window, CountWindow)  # noqa: S101 - looked at by `serves`
        self._asking = {role: Asking(keys[role], window, other(role)) for role in SIDES}
        self._rest = 0

    @staticmethod
    def serves(operator: JoinOperator) -> bool:
        """Tell whether what is left out here is absent, of a plan that is `plain`."""
        plan = operator.plan
        return (
            operator.algorithm in {"band_cells", "bi_sort"}
            and operator.windows["left"].merge
            and plan.scope is None
            and len(beside(plan)) == len(SIDES)
        )

    @property
    def open(self) -> bool:
        """Whether this is the index that is used now."""
        return isinstance(self._operator.windows["left"].index, BiSort)

    def push(
        self, taken: dict[Side, BatchColumns], by: tuple[NDArray[np.generic], NDArray[np.generic]] | None
    ) -> pa.Table | None:
        """Take rows and return what they produce, or take nothing and return None: the operator's way is needed."""
        start, operator = perf_counter(), self._operator
        rows = {side: taken[side].rows for side in SIDES}
        if self._rest:
            self._rest -= 1
            return None
        if not 0 < rows["left"] + rows["right"] <= operator.largest_slice:
            return None
        keys = self._places.keys(taken)
        indexes, buffers = self._buffers(rows) if keys else ({}, {})
        if not buffers or not (by is None or rise(by)):
            return None
        if not all(buffers[side].fits(keys[side]) for side in SIDES):
            return None
        # From here on rows are taken.
        before = {side: operator.windows[side].rows_seen for side in SIDES}
        arrivals = self._arrange(rows, by)
        now = operator.stats.since("arrive", start)
        sorted_before = {side: buffers[side].rows for side in SIDES}
        for side in SIDES:
            if rows[side]:
                self._hold_side(side, taken[side], None)
                buffers[side].take(before[side])
        now = operator.stats.since("insert", now)
        whole = True
        for role in SIDES:
            coming = buffers[role].coming, sorted_before[role]
            rank, arrived = arrivals.rank(role), before[other(role)]
            whole &= self._asking[role].ask(indexes[other(role)], keys[role], rank, arrived, coming)
        operator.stats.since("probe", now)
        out = self._written(taken, arrivals, before, whole)
        now = perf_counter()
        operator.stats.rows_left += rows["left"]
        operator.stats.rows_right += rows["right"]
        operator.settle(before)
        operator.stats.since("expire", now)
        return out

    def _buffers(self, rows: dict[Side, int]) -> tuple[dict[Side, BiSort], dict[Side, InsertionBuffer]]:
        """Return both sides' runs, and where so many rows can be put; no buffers if there is no room."""
        indexes: dict[Side, BiSort] = {}
        buffers: dict[Side, InsertionBuffer] = {}
        for side in SIDES:
            window = self._operator.windows[side]
            index = window.index
            assert isinstance(index, BiSort)  # noqa: S101 - `open` has looked
            indexes[side] = index
            buffer = index.buffer(rows[side], window.rows_seen, window.payload.rows)
            if buffer is None:
                return indexes, {}
            buffers[side] = buffer
        return indexes, buffers

    def _written(
        self, taken: dict[Side, BatchColumns], arrivals: Arrivals, before: dict[Side, int], whole: bool
    ) -> pa.Table:
        """Put out what was found, or search again if there was not room for all."""
        operator, left, right = self._operator, self._asking["left"], self._asking["right"]
        if not whole:
            most = MOST_COUNTED if self._counting else MOST_MATCHES
            for role in SIDES:
                if self._asking[role].total < 0 and not self._asking[role].learn(taken[role].rows, most):
                    self._rest = REST
            push = Push({side: taken[side].kept for side in SIDES}, NO_TIMES, arrivals)
            return self._concatenated(operator.meeting.again(push, before), push)
        start, lefts, rights = perf_counter(), taken["left"].rows, taken["right"].rows
        ranks, pairs = (arrivals.left_rank, arrivals.right_rank), left.total + right.total
        operator.stats.pairs += pairs
        if self._counting:
            matches, marks = np.empty(lefts + rights, np.int64), np.empty(lefts + rights, np.bool_)
            weave_counts(ranks[0], left.counts, ranks[1], right.counts, 0, 0, lefts, rights, matches, marks)
            start = operator.stats.since("write", start)
            out = self._counts(matches, taken, arrivals, marks)
        else:
            memory = operator.meeting.memory
            ordinals = memory.take(pairs), memory.take(pairs)
            weave(
                ranks[0], left.counts, left.found, before["left"], operator.meeting.floor("right"),
                ranks[1], right.counts, right.found, before["right"], operator.meeting.floor("left"),
                0, 0, 0, 0, lefts, rights, *ordinals, 0, pairs,
            )  # fmt: skip
            start = operator.stats.since("write", start)
            out = self._matches.table(*ordinals)
        operator.stats.since("payload", start)
        return out
