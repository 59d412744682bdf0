"""From what the indexes found to output tables: second pass, filter, order, payload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.emit import in_strict_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from slidejoin.arrival import Arrivals
    from slidejoin.index.probing import Found
    from slidejoin.plan import Plan
    from slidejoin.predicate.expr import Side
    from slidejoin.stats import Stats
    from slidejoin.store.side import SideWindow

__all__ = ["Matches"]

COUNT_CHUNK = 1 << 20


class Matches:
    """The candidates of one slice of arrivals.

    A slot is a probe's place in the arrival order (a row of a self-join probes twice and has two). The candidates of
    a slot lie together, slots in order: so both sides write into one pair of arrays without meeting.
    """

    def __init__(self, plan: Plan, windows: dict[Side, SideWindow], slots: int, stats: Stats) -> None:
        self.plan = plan
        self.windows = windows
        self.stats = stats
        self.candidates: NDArray[np.int64] = np.zeros(slots, np.int64)
        self._found: list[tuple[Side, NDArray[np.int64], Found]] = []
        self._filter = plan.bound.filter(())

    def add(self, role: Side, slots: NDArray[np.int64], found: Found) -> None:
        """Add what the probes of one side found; `slots` (n,) int64 ascending, one for each probe."""
        self.candidates[slots] = found.counts
        self._found.append((role, slots, found))

    def recheck(self, inexact: set[int]) -> None:
        """Try again, pair by pair, the terms whose ranges are not the whole truth for these rows."""
        self._filter = self.plan.bound.filter(inexact)

    def pairs(self, chunk_rows: int) -> Iterator[pa.Table]:
        """Yield the output tables of at most `chunk_rows` rows, probes in arrival order."""
        plan = self.plan
        names = {side: plan.layout.names(side) for side in self.windows}
        for first, last in self._chunks(chunk_rows):
            left, right, slots = self._pairs(first, last)
            if plan.config.order == "strict" and left.size:
                with self.stats.step("write"):
                    left, right = self._in_strict_order(left, right, slots)
            self.stats.pairs += left.size
            for start in range(0, left.size, chunk_rows):
                cut = slice(start, start + chunk_rows)
                if plan.config.output == "positions":
                    yield pa.Table.from_arrays([pa.array(left[cut]), pa.array(right[cut])], schema=plan.layout.schema)
                    continue
                with self.stats.step("payload"):
                    table = plan.layout.pairs(
                        self.windows["left"].payload.take(names["left"], left[cut]),
                        self.windows["right"].payload.take(names["right"], right[cut]),
                    )
                yield table  # outside of the step: the time until the next one is the reader's

    def counts(self, tables: dict[Side, pa.Table], arrivals: Arrivals) -> Iterator[pa.Table]:
        """Yield one table with a row for each arrival and the number of pairs that it produced."""
        counts = self.candidates
        if self._filter is not None:
            counts = np.zeros_like(counts)
            for first, last in self._chunks(COUNT_CHUNK):
                _, _, slots = self._pairs(first, last)
                counts += np.bincount(slots, minlength=counts.size)
        if self.plan.config.self_join:
            counts = counts.reshape(-1, 2).sum(axis=1)
        self.stats.pairs += int(counts.sum())
        if counts.size == 0:
            return
        layout, gathered = self.plan.layout, {}
        is_left = np.zeros(counts.size, np.bool_)
        is_left[arrivals.left_rank] = True
        with self.stats.step("payload"):
            for side, window in self.windows.items():
                rank = arrivals.rank(side)
                places = np.zeros(counts.size, np.int64)
                places[rank] = np.arange(rank.size)
                mine = is_left if side == "left" else ~is_left
                if side == "right" and self.plan.config.self_join:
                    source = window.plan.kept_schema(side).empty_table()
                else:
                    source = tables[side]
                gathered[side] = source.select(layout.names(side)).take(pa.array(places, mask=~mine))
            table = layout.counts(gathered["left"], gathered["right"], is_left, counts)
        yield table

    def _chunks(self, chunk_rows: int) -> Iterator[tuple[int, int]]:
        """Cut the slots so that each stretch has at most `chunk_rows` candidates, or is a single slot."""
        ends = np.cumsum(self.candidates)
        first, done = 0, 0
        while first < ends.size and done < ends[-1]:
            last = max(int(np.searchsorted(ends, done + chunk_rows, side="right")), first + 1)
            yield first, last
            first, done = last, int(ends[last - 1])

    def _pairs(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Write the pairs of slots first…last-1 and keep those that pass the filter: (left, right) ordinals, slots."""
        with self.stats.step("write"):
            counts = self.candidates[first:last]
            total = int(counts.sum())
            starts = np.cumsum(counts) - counts
            left, right = np.empty(total, np.int64), np.empty(total, np.int64)
            for role, slots, found in self._found:
                begin, end = (int(at) for at in np.searchsorted(slots, (first, last)))
                places = np.zeros(slots.size, np.int64)
                places[begin:end] = starts[slots[begin:end] - first]
                found.fill(begin, end, places, *((left, right) if role == "left" else (right, left)))
            needs_slots = self._filter is not None or self.plan.config.order == "strict"
            slots = np.repeat(np.arange(first, last), counts) if needs_slots else left
        if self._filter is not None and total:
            with self.stats.step("filter"):
                kept = self._filter.holds(
                    self._columns("left", left), self._columns("right", right), total
                )  # fmt: skip
                left, right, slots = left[kept], right[kept], slots[kept]
        return left, right, slots

    def _columns(self, side: Side, ordinals: NDArray[np.int64]) -> dict[str, pa.ChunkedArray]:
        names = [] if self._filter is None else list(self._filter.columns(side))
        if not names:
            return {}
        table = self.windows[side].payload.take(names, ordinals)
        return dict(zip(table.column_names, table.columns, strict=True))

    def _in_strict_order(
        self, left: NDArray[np.int64], right: NDArray[np.int64], slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        by_left = np.zeros(self.candidates.size, np.bool_)
        for role, own, _ in self._found:
            by_left[own] = role == "left"
        stored = np.where(by_left[slots], right, left)
        order = in_strict_order(slots, stored)
        return left[order], right[order]
