"""From candidates to output tables: filter, sort, fetch the payload."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from slidejoin.plan.output_schema import in_strict_order, together
from slidejoin.rows.arrow_buffers import array_of, by_name
from slidejoin.rows.widths import TableLimit, Widths
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.operator.counts import CountTables
    from slidejoin.operator.ingest.arrival import Arrivals
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.bind import BoundFilter
    from slidejoin.rows.gathered import Gathered
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["Candidates", "PairOutput"]

T = TypeVar("T")


COUNT_CHUNK = 1 << 20

POSITION_BYTES = 16
"""Of a pair's two ordinals."""

SHARED = 1 << 13
"""Pairs from which on the two sides' columns are gathered by a thread each: handing over costs some 30 µs."""


class Candidates(Protocol):
    """The candidates that the indexes found for a stretch of the arrival order.

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
    """Turns the candidates of one slice of arrivals into output tables within a limit."""

    def __init__(
        self,
        plan: Plan,
        windows: dict[Side, SideWindow],
        stats: Stats,
        inexact: Collection[int],
        tables: CountTables,
        workers: Workers,
        limit: TableLimit,
    ) -> None:
        self.plan = plan
        self.windows = windows
        self.stats = stats
        self._tables = tables
        self._workers, self._limit = workers, limit
        # Terms whose ranges are not exact for these rows are rechecked, pair by pair.
        self._filter = plan.filter(inexact)

    @property
    def filters(self) -> bool:
        """Whether candidates are rechecked one by one."""
        return self._filter is not None

    def pairs(self, found: Candidates) -> Iterator[pa.Table]:
        """Yield the output tables, within the limit, probes in arrival order."""
        plan = self.plan
        for first, last in _chunks(found, self._limit.rows):
            left, right, slots = self._pairs(found, first, last)
            if plan.config.order == "strict" and left.size:
                with self.stats.step("write"):
                    stored = np.where(found.by_left()[slots], right, left)
                    order = in_strict_order(slots, stored)
                    left, right = left[order], right[order]
            yield from self.tables(left, right)

    def table(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> pa.Table:
        """Return the output rows of pairs, given as (n,) int64 ordinals."""
        return together(list(self.tables(left, right)), self.plan.layout.schema)

    def tables(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Iterator[pa.Table]:
        """Yield the output rows of pairs, given as (n,) int64 ordinals, in tables within the limit."""
        layout = self.plan.layout
        if self.plan.config.output == "positions":
            step = self._limit.most_rows(POSITION_BYTES)
            for start in range(0, left.size, step):
                columns = [array_of(ordinals[start : start + step]) for ordinals in (left, right)]
                yield pa.Table.from_arrays(columns, schema=layout.schema)
            return
        names = {side: layout.names(side) for side in SIDES}
        for _, taken in self._taken(names, left, right, "payload"):
            yield layout.pairs(taken["left"], taken["right"])

    def _taken(
        self,
        names: Mapping[Side, Sequence[str]],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        step: str,
        *,
        decoded: bool = False,
    ) -> Iterator[tuple[slice, dict[Side, pa.Table]]]:
        """Yield columns of both rows of pairs, (n,) int64 ordinals, within the limit, and which pairs these are.

        The time counts as that of `step`, except between two tables, which is the reader's. For
        `decoded` see `slidejoin.rows.gather.Located`.
        """
        now, limit, several = perf_counter(), self._limit, all(names[side] for side in SIDES)
        most = limit.most_rows(sum(self.windows[side].payload.width(names[side]) for side in SIDES))
        for first in range(0, left.size, most):
            ordinals: dict[Side, NDArray[np.int64]] = {
                "left": left[first : first + most],
                "right": right[first : first + most],
            }
            rows = ordinals["left"].size
            gathered = self._both(partial(self._gathered, names, ordinals, decoded), rows >= SHARED and several)
            start, nbytes = 0, sum(one.nbytes for one in gathered.values())
            for stop in [rows] if nbytes <= limit.nbytes else limit.stops(_widths(gathered)):
                tables = self._both(partial(_table, gathered, start, stop), several and 2 * nbytes > limit.nbytes)
                now = self.stats.since(step, now)
                yield slice(first + start, first + stop), tables
                now, start = perf_counter(), stop

    def _gathered(
        self, names: Mapping[Side, Sequence[str]], ordinals: Mapping[Side, NDArray[np.int64]], decoded: bool, side: Side
    ) -> Gathered:
        gathered = self.windows[side].payload.gather(names[side], ordinals[side], decoded=decoded)
        # If both sides have no more than that, they are one table.
        gathered.complete(self._limit.nbytes // 2)
        return gathered

    def _both(self, task: Callable[[Side], T], beside: bool) -> dict[Side, T]:
        """Return the result of a task for each side, with a thread each if wanted."""
        found: dict[Side, T] = {}

        def run(side: Side) -> None:
            found[side] = task(side)

        if beside:
            self._workers.run([partial(run, side) for side in SIDES])
        else:
            for side in SIDES:
                run(side)
        return found

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
        """Yield tables within the limit, a row for each arrival with the number of pairs that it produced."""
        every = np.concatenate([*counts, np.empty(0, np.int64)])
        if self.plan.config.self_join:
            every = every.reshape(-1, 2).sum(axis=1)
        now = perf_counter()
        for table in self._tables.tables(every, tables, arrivals, self._limit):
            self.stats.since("payload", now)
            yield table  # outside of the step: the time until the next one is the reader's
            now = perf_counter()

    def _pairs(
        self, found: Candidates, first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Write the pairs of slots first…last-1 and keep those that pass the filter: (left, right) ordinals, slots."""
        with self.stats.step("write"):
            left, right = found.write(first, last)
            needs_slots = self._filter is not None or self.plan.config.order == "strict"
            slots = np.repeat(np.arange(first, last), found.counts[first:last]) if needs_slots else left
        if self._filter is not None and left.size:
            kept = self._holds(self._filter, left, right)
            left, right, slots = left[kept], right[kept], slots[kept]
        return left, right, slots

    def _holds(self, condition: BoundFilter, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Evaluate a condition on pairs, (n,) int64 ordinals, and return where it holds, (n,) bool."""
        names = {side: list(condition.columns(side)) for side in SIDES}
        kept = np.empty(left.size, np.bool_)
        for pairs, rows in self._taken(names, left, right, "filter", decoded=True):
            with self.stats.step("filter"):
                left_columns, right_columns = (by_name(rows[side]) if names[side] else {} for side in SIDES)
                kept[pairs] = condition.holds(left_columns, right_columns, pairs.stop - pairs.start)
        return kept


def _table(gathered: Mapping[Side, Gathered], start: int, stop: int, side: Side) -> pa.Table:
    return gathered[side].table(start, stop)


def _widths(gathered: Mapping[Side, Gathered]) -> Widths:
    return gathered["left"].widths.beside(gathered["right"].widths)


def _chunks(found: Candidates, most: int) -> Iterator[tuple[int, int]]:
    """Cut the slots so that each stretch has at most so many candidates, or is a single slot."""
    if found.total <= most:
        if found.total:
            yield 0, found.slots
        return
    first = 0
    for last in TableLimit(found.slots, most).stops(Widths(found.slots, 0, found.counts)):
        yield first, last
        first = last
