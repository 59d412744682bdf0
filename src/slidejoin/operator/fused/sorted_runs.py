"""Fused small pushes through sorted runs: one integer comparison, in count windows.

The rows of small pushes are collected in an insertion buffer (`index.sorted_runs.insertion_buffer`), so most pushes
neither build nor merge a run. Larger pushes take the general path, which uses two threads: there the work on rows
outweighs the overhead of the path.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slidejoin.index.factory import run_chain
from slidejoin.index.kernels.arrival_pairs import ProbeStretch, SideCounts, SideMatches, merge_counts, merge_pairs
from slidejoin.index.kernels.view import ARRIVED, SIZE, SLIDE
from slidejoin.index.protocol import CELLS, RUNS
from slidejoin.index.sorted_runs.kernels.buffering import merge_coming, sort_coming
from slidejoin.jit.vectors.fields import word, words_for
from slidejoin.jit.vectors.words import LANES
from slidejoin.operator.fused.common import NO_TIMES, FusedPush, arrived, key_columns, keys_say_all, range_terms
from slidejoin.operator.fused.kernels.run_probes import RUN_PROBES, probe_runs
from slidejoin.operator.slices import slice_rows
from slidejoin.runtime.array_pool import address_of, point
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.sorted_runs.bi_sort import BiSortIndex
    from slidejoin.index.sorted_runs.insertion_buffer import InsertionBuffer
    from slidejoin.operator.ingest.arrival import Arrivals
    from slidejoin.operator.parts import JoinParts
    from slidejoin.operator.push import PushBatch
    from slidejoin.predicate.ranges.terms import ShiftedColumn
    from slidejoin.sides import Side

__all__ = ["FusedRuns"]


class AcceptedRuns(NamedTuple):
    """What `accepts` knows of a batch: keys (n,) int64 of each side, and where they go."""

    keys: dict[Side, NDArray[np.int64]]
    chains: dict[Side, BiSortIndex]
    buffers: dict[Side, InsertionBuffer]
    arrivals: Arrivals


SIGN, LOWS, HIGHS, AT_VIEW, SCRATCH, POSITIONS, COUNTS = (
    word(RUN_PROBES, name) for name in ("sign", "lows", "highs", "seen", "scratch", "positions", "counts")
)
"""Words of the probes of one side."""


class RunProbes:
    """The probes of one side and their matches, in memory that is used again by the next push."""

    def __init__(self, keys: ShiftedColumn, view: tuple[int, int], matches: int) -> None:
        self._shift = keys.shift
        self._probes = words_for(RUN_PROBES)
        self._words = memoryview(self._probes.data)
        self._words[SIGN] = keys.shift.sign
        point(self._words, LOWS, keys.shift.lows)
        point(self._words, HIGHS, keys.shift.highs)
        self._words[AT_VIEW + SIZE], self._words[AT_VIEW + SLIDE] = view
        self._places = matches
        self._scratch = self.positions = np.empty(0, np.uint32)
        self.counts = np.empty(0, np.int32)
        self.total = 0

    def find(
        self,
        runs: BiSortIndex,
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
        if self.counts.size < n or self.positions.size < places + LANES:
            self.counts = np.empty(2 * n, np.int32)
            self._scratch, self.positions = np.empty((2, 2 * places + LANES), np.uint32)
            self._words[COUNTS] = address_of(self.counts)
            point(self._words, SCRATCH, self._scratch)
            point(self._words, POSITIONS, self.positions)
        self._words[AT_VIEW + ARRIVED] = arrived
        self.total = probe_runs(runs.table(), self._probes, keys, rank, *coming)
        return self.total >= 0

    def learn(self, probes: int, most: int) -> bool:
        """Make more room the next time, up to so many places; tell whether there is more."""
        more = 2 * self._places * probes <= most
        if more:
            self._places *= 4
        return more


class FusedRuns(FusedPush):
    """Pushes of few rows into sorted runs, see `slidejoin.operator.push`."""

    kernels = (probe_runs, sort_coming, merge_coming)

    def __init__(self, parts: JoinParts) -> None:
        plan = parts.plan
        keys = key_columns(plan)
        super().__init__(parts, keys)
        self._probes = {
            role: RunProbes(keys[role][0], plan.scope.view(other(role)), plan.tuning.run_matches) for role in SIDES
        }
        self._largest = slice_rows(plan, {})
        self._rests_until = 0
        """Rows of the join up to which pushes take the general path."""
        self._accepted: AcceptedRuns | None = None

    @staticmethod
    def serves(parts: JoinParts) -> bool:
        """Tell whether a plan that is `plain` needs nothing that is not supported here."""
        return (
            parts.algorithm in {CELLS, RUNS}
            and keys_say_all(parts.plan)
            and parts.windows["left"].merge
            and not parts.plan.config.self_join
            and parts.plan.config.memory_limit is None  # the insertion buffers are no part of what is counted
            and parts.plan.scope.counted is not None
            and not any(parts.plan.bound.filters_side(side) for side in SIDES)
            and range_terms(parts.plan) == (0,)
            and bool(key_columns(parts.plan))
        )

    def accepts(self, batch: PushBatch) -> bool:
        """Tell whether the rows are few, in order, and there is room for them in both insertion buffers."""
        windows = self._parts.windows
        chains = {side: chain for side in SIDES if (chain := run_chain(windows[side].index)) is not None}
        if not chains or not 0 < batch.rows <= self._largest or self._seen() < self._rests_until:
            return False
        buffers: dict[Side, InsertionBuffer] = {}
        for side, chain in chains.items():
            buffer = chain.buffer(batch.rows_of(side), windows[side].rows_seen, windows[side].payload.rows)
            if buffer is None:
                return False
            buffers[side] = buffer
        keys = {} if self._squeezed else self._places.keys(batch.columns)
        if not keys or not all(buffer.fits(keys[side]) for side, buffer in buffers.items()):
            return False
        rising, by = self._rising(batch)
        if rising:
            self._accepted = AcceptedRuns(keys, chains, buffers, self._arrange(batch, by))
        return rising

    def _seen(self) -> int:
        return sum(window.rows_seen for window in self._parts.windows.values())

    def run(self, batch: PushBatch, first: dict[Side, int]) -> pa.Table:
        """Insert the rows, probe, and return what they produced, see `slidejoin.operator.push`."""
        accepted, self._accepted = self._accepted, None
        assert accepted is not None  # noqa: S101 - `accepts` came before
        keys, chains, buffers, arrivals = accepted
        parts, now = self._parts, perf_counter()
        sorted_before: dict[Side, int] = {}
        for side in SIDES:
            columns, rows = batch.columns[side], keys[side].size
            chains[side].open_buffer(buffers[side], rows, parts.windows[side].payload.rows)
            sorted_before[side] = buffers[side].rows
            if rows:
                self._hold(side, columns, first[side], None)
                buffers[side].take(first[side])
        now = parts.stats.since("insert", now)
        whole = True
        for role in SIDES:
            coming = buffers[role].coming, sorted_before[role]
            rank, stored = arrivals.rank(role), other(role)
            whole &= self._probes[role].find(chains[stored], keys[role], rank, first[stored], coming)
        parts.stats.since("probe", now)
        if not whole:
            return self._by_general_means(batch, arrivals, first)
        return self._written(batch, arrivals, first)

    def _by_general_means(self, batch: PushBatch, arrivals: Arrivals, first: dict[Side, int]) -> pa.Table:
        """Probe again, since there was not room for all matches, and make more room for the next pushes."""
        tuning = self._parts.plan.tuning
        most = tuning.most_run_counts if self._counting else tuning.most_run_matches
        for role in SIDES:
            probes = self._probes[role]
            if probes.total < 0 and not probes.learn(batch.columns[role].rows, most):
                self._rests_until = self._seen() + tuning.run_rest * batch.rows
        push = arrived(batch.columns, arrivals)
        return self._concatenated(self._parts.shared.probe_again(push, first), push, first)

    def _written(self, batch: PushBatch, arrivals: Arrivals, first: dict[Side, int]) -> pa.Table:
        """Output the matches."""
        parts, left, right = self._parts, self._probes["left"], self._probes["right"]
        start, lefts, rights = perf_counter(), batch.left_rows, batch.right_rows
        ranks, pairs = (arrivals.left_rank, arrivals.right_rank), left.total + right.total
        if self._counting:
            matches, marks = np.empty(lefts + rights, np.int64), np.empty(lefts + rights, np.bool_)
            both = SideCounts(ranks[0], left.counts), SideCounts(ranks[1], right.counts)
            merge_counts(*both, ProbeStretch(0, 0, lefts, rights), matches, marks)
            start = parts.stats.since("write", start)
            out = self._counts(matches, batch.columns, arrivals, marks)
        else:
            ordinals = parts.memory.take(pairs), parts.memory.take(pairs)
            floors = [parts.windows[side].index.floor for side in SIDES]
            ours = SideMatches(ranks[0], left.counts, left.positions, first["left"], floors[1], 0)
            theirs = SideMatches(ranks[1], right.counts, right.positions, first["right"], floors[0], 0)
            merge_pairs(ours, theirs, ProbeStretch(0, 0, lefts, rights), *ordinals, 0, pairs)
            self._in_order(*ordinals, arrivals, first)
            start = parts.stats.since("write", start)
            if self._join_type is None:
                out = self._output.table(*ordinals)
            else:
                counts = {side: self._probes[side].counts[: batch.rows_of(side)] for side in SIDES}
                out = self._output.joined(self._join_type.fused(ordinals, arrivals, NO_TIMES, first, counts))
        parts.stats.since("payload", start)
        return out
