"""From candidates to output tables: filter, order, payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from slidejoin.plan.output_schema import in_strict_order
from slidejoin.rows.arrow_buffers import array_of, by_name
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from slidejoin.operator.counts import CountTables
    from slidejoin.operator.ingest.arrival import Arrivals
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["Candidates", "PairOutput"]


COUNT_CHUNK = 1 << 20

SHARED = 1 << 13
"""Pairs from which on the two sides' columns are taken by a thread each: that costs some 30 µs."""


class Workers(Protocol):
    """What runs tasks beside each other, see `parallel`."""

    def run(self, tasks: list[Callable[[], None]]) -> None:
        """Run all tasks to their end."""


class Candidates(Protocol):
    """What the indexes found for a stretch of the arrival order.

    A slot is a probe's place in the arrival order (a row of a self-join probes twice and has two). The candidates of
    a slot lie together, slots in order.
    """

    @property
    def slots(self) -> int:
        """How many slots."""

    @property
    def total(self) -> int:
        """Candidates of all slots."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """Candidates of each slot, (slots,)."""

    def write(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the (left, right) ordinals of the candidates of slots first…last-1."""
        ...

    def by_left(self) -> NDArray[np.bool_]:
        """Whether the probe of each slot is a left row, (slots,)."""
        ...


class PairOutput:
    """Turns the candidates of one slice of arrivals into what the join puts out."""

    def __init__(
        self,
        plan: Plan,
        windows: dict[Side, SideWindow],
        stats: Stats,
        inexact: Collection[int],
        tables: CountTables,
        workers: Workers,
    ) -> None:
        self.plan = plan
        self.windows = windows
        self.stats = stats
        self._tables = tables
        self._workers = workers
        # Terms whose ranges are not the whole truth for these rows are tried again, pair by pair.
        self._filter = plan.bound.filter(inexact)

    @property
    def filters(self) -> bool:
        """Whether candidates are tried again one by one."""
        return self._filter is not None

    def pairs(self, found: Candidates, chunk_rows: int) -> Iterator[pa.Table]:
        """Yield the output tables of at most `chunk_rows` rows, probes in arrival order."""
        plan = self.plan
        for first, last in _chunks(found, chunk_rows):
            left, right, slots = self._pairs(found, first, last)
            if plan.config.order == "strict" and left.size:
                with self.stats.step("write"):
                    stored = np.where(found.by_left()[slots], right, left)
                    order = in_strict_order(slots, stored)
                    left, right = left[order], right[order]
            for start in range(0, left.size, chunk_rows):
                cut = slice(start, start + chunk_rows)
                with self.stats.step("payload"):
                    table = self.table(left[cut], right[cut])
                yield table  # outside of the step: the time until the next one is the reader's

    def table(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> pa.Table:
        """Return the output rows of pairs, given as (n,) int64 ordinals."""
        layout = self.plan.layout
        if self.plan.config.output == "positions":
            return pa.Table.from_arrays([array_of(left), array_of(right)], schema=layout.schema)
        ordinals: dict[Side, NDArray[np.int64]] = {"left": left, "right": right}
        taken: dict[Side, pa.Table] = {}

        def task(side: Side) -> Callable[[], None]:
            def take() -> None:
                taken[side] = self.windows[side].payload.take(layout.names(side), ordinals[side])

            return take

        tasks = [task(side) for side in SIDES]
        if left.size >= SHARED and all(layout.names(side) for side in SIDES):
            self._workers.run(tasks)
        else:
            for take in tasks:
                take()
        return layout.pairs(taken["left"], taken["right"])

    def counted(self, found: Candidates) -> NDArray[np.int64]:
        """Return the number of pairs of each slot."""
        if self._filter is None:
            return found.counts
        counts = np.zeros_like(found.counts)
        for first, last in _chunks(found, COUNT_CHUNK):
            _, _, slots = self._pairs(found, first, last)
            counts += np.bincount(slots, minlength=counts.size)
        return counts

    def counts(
        self, counts: Iterable[NDArray[np.int64]], tables: dict[Side, pa.Table], arrivals: Arrivals
    ) -> Iterator[pa.Table]:
        """Yield one table with a row for each arrival and the number of pairs that it produced, slot by slot."""
        every = np.concatenate([*counts, np.empty(0, np.int64)])
        if self.plan.config.self_join:
            every = every.reshape(-1, 2).sum(axis=1)
        if every.size == 0:
            return
        with self.stats.step("payload"):
            table = self._tables.table(every, tables, arrivals)
        yield table

    def _pairs(
        self, found: Candidates, first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Write the pairs of slots first…last-1 and keep those that pass the filter: (left, right) ordinals, slots."""
        with self.stats.step("write"):
            left, right = found.write(first, last)
            needs_slots = self._filter is not None or self.plan.config.order == "strict"
            slots = np.repeat(np.arange(first, last), found.counts[first:last]) if needs_slots else left
        if self._filter is not None and left.size:
            with self.stats.step("filter"):
                kept = self._filter.holds(self._columns("left", left), self._columns("right", right), left.size)
                left, right, slots = left[kept], right[kept], slots[kept]
        return left, right, slots

    def _columns(self, side: Side, ordinals: NDArray[np.int64]) -> dict[str, pa.ChunkedArray]:
        names = [] if self._filter is None else list(self._filter.columns(side))
        if not names:
            return {}
        return by_name(self.windows[side].payload.take(names, ordinals))


def _chunks(found: Candidates, chunk_rows: int) -> Iterator[tuple[int, int]]:
    """Cut the slots so that each stretch has at most `chunk_rows` candidates, or is a single slot."""
    if found.total <= chunk_rows:
        if found.total:
            yield 0, found.slots
        return
    ends = np.cumsum(found.counts)
    first, done = 0, 0
    while first < ends.size and done < ends[-1]:
        last = max(int(np.searchsorted(ends, done + chunk_rows, side="right")), first + 1)
        yield first, last
        first, done = last, int(ends[last - 1])
