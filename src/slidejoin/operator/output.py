"""From candidates to output tables: filter, sort, fetch the payload."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from slidejoin.operator.candidates import PositionCandidates
from slidejoin.operator.pair_filter import pair_filter
from slidejoin.plan.output_schema import in_strict_order, together
from slidejoin.rows.arrow_buffers import array_of, buffer_of, by_name
from slidejoin.rows.widths import TableLimit, Widths
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.operator.counts import CountTables
    from slidejoin.operator.ingest.arrival import Arrivals
    from slidejoin.operator.pair_filter import PairFilter
    from slidejoin.operator.pair_tables import PairTables
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.bind import BoundFilter
    from slidejoin.rows.gathered import Gathered
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["Candidates", "JoinedRows", "PairOutput"]

T = TypeVar("T")

NO_ROWS = np.empty(0, np.int64)

POSITION_BYTES = 16
"""Of a pair's two ordinals."""


class Candidates(Protocol):
    """The candidates that the indexes returned for a stretch of the arrival order.

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


class JoinedRows(NamedTuple):
    """The output rows of a push of a join that is not inner.

    Attributes
    ----------
    left, right : (n,) int64
        Ordinals, -1 for a row that is missing.
    known : tuple of two (n / 8,) uint8, optional
        Arrow's bits of the ordinals that are not missing, of left and of right ones; None where nobody made them.
    missing : tuple of two int
        With bits: how many are missing.
    table : pyarrow.Table, optional
        The rows, where they lie in a block of positions.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    known: tuple[NDArray[np.uint8], NDArray[np.uint8]] | None = None
    missing: tuple[int, int] = (0, 0)
    table: pa.Table | None = None


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
        pairs: PairTables | None,
    ) -> None:
        self.plan, self.windows, self.stats = plan, windows, stats
        self._tables, self._workers, self._limit, self._pair_tables = tables, workers, limit, pairs
        # Terms whose ranges are not exact for these rows are rechecked, pair by pair.
        self._filter = plan.filter(inexact)

    def pairs(self, candidates: Candidates) -> Iterator[pa.Table]:
        """Yield the output tables, within the limit, probes in arrival order."""
        for left, right, _ in self.ordered(candidates):
            yield from self.tables(left, right)

    def ordered(
        self, candidates: Candidates, *, with_slots: bool = False
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the ordinals of pairs, (n,) int64, in the promised order, and with `with_slots` their probes' slots.

        Pairs of one slot are yielded together.
        """
        strict, condition = self.plan.config.order == "strict", self._narrowed(candidates)
        for first, last in _chunks(candidates, self._limit.rows):
            left, right, slots = self._pairs(candidates, condition, first, last, with_slots=strict or with_slots)
            if strict and left.size:
                with self.stats.step("write"):
                    stored = np.where(candidates.by_left()[slots], right, left)
                    order = in_strict_order(slots, stored)
                    left, right = left[order], right[order]
            yield left, right, slots

    def table(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> pa.Table:
        """Return the output rows of pairs, given as (n,) int64 ordinals, -1 for a row that is missing."""
        return together(list(self.tables(left, right)), self.plan.layout.schema)

    def joined(self, rows: JoinedRows) -> pa.Table:
        """Return the output rows of a join that is not inner."""
        left, right, known, missing, table = rows
        if table is not None:
            return table
        if known is None or self.plan.config.output != "positions" or left.size > self._limit.most_rows(POSITION_BYTES):
            return self.table(left, right)
        columns: list[pa.Array[Any]] = []
        for ordinals, bits, count in zip((left, right), known, missing, strict=True):
            buffers = [buffer_of(bits) if count else None, buffer_of(ordinals)]
            columns.append(pa.Array.from_buffers(pa.int64(), ordinals.size, buffers, count))
        return pa.Table.from_arrays(columns, schema=self.plan.layout.schema)

    def tables(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Iterator[pa.Table]:
        """Yield the output rows of pairs in tables within the limit, given as (n,) int64 ordinals.

        -1 stands for a row that is missing: it is NULL in all columns of its side.
        """
        layout = self.plan.layout
        if self.plan.config.output == "positions":
            step = self._limit.most_rows(POSITION_BYTES)
            for start in range(0, left.size, step):
                columns = [
                    _positions(ordinals[start : start + step], lacking=side in layout.lacking)
                    for side, ordinals in (("left", left), ("right", right))
                ]
                yield pa.Table.from_arrays(columns, schema=layout.schema)
            return
        if self._pair_tables is not None:
            now = perf_counter()
            for table in self._pair_tables.tables(left, right):
                self.stats.since("payload", now)
                yield table
                now = perf_counter()
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
        limit: TableLimit | None = None,
        decoded: bool = False,
        shared: bool = True,
    ) -> Iterator[tuple[slice, dict[Side, pa.Table]]]:
        """Yield columns of both rows of pairs, (n,) int64 ordinals, within a limit, and which pairs these are.

        The time counts as that of `step`, except between two tables, which is the reader's. For
        `decoded` see `slidejoin.rows.gather.Located`. Without `shared`, both sides are gathered by the caller's thread.
        """
        now, limit = perf_counter(), limit or self._limit
        several = shared and all(names[side] for side in SIDES)
        most = limit.most_rows(sum(self.windows[side].payload.width(names[side]) for side in SIDES))
        for first in range(0, left.size, most):
            ordinals: dict[Side, NDArray[np.int64]] = {
                "left": left[first : first + most],
                "right": right[first : first + most],
            }
            rows = ordinals["left"].size
            # If both sides have no more than that, they are one table.
            fits = limit.nbytes // 2
            gathered = self._both(
                partial(self._gathered, names, ordinals, decoded, fits),
                rows >= self._workers.tuning.gather_spread and several,
            )
            start, nbytes = 0, sum(one.nbytes for one in gathered.values())
            for stop in [rows] if nbytes <= limit.nbytes else limit.stops(_widths(gathered)):
                tables = self._both(partial(_table, gathered, start, stop), several and 2 * nbytes > limit.nbytes)
                now = self.stats.since(step, now)
                yield slice(first + start, first + stop), tables
                now, start = perf_counter(), stop

    def _gathered(
        self,
        names: Mapping[Side, Sequence[str]],
        ordinals: Mapping[Side, NDArray[np.int64]],
        decoded: bool,
        fits: int,
        side: Side,
    ) -> Gathered:
        gathered = self.windows[side].payload.gather(names[side], ordinals[side], decoded=decoded)
        gathered.complete(fits)
        return gathered

    def _both(self, task: Callable[[Side], T], shared: bool) -> dict[Side, T]:
        """Return the result of a task for each side, with a thread each if wanted."""
        results: dict[Side, T] = {}

        def run(side: Side) -> None:
            results[side] = task(side)

        if shared:
            self._workers.run([partial(run, side) for side in SIDES])
        else:
            for side in SIDES:
                run(side)
        return results

    def counted(self, candidates: Candidates) -> NDArray[np.int64]:
        """Return the number of pairs of each slot."""
        condition = self._narrowed(candidates)
        if condition is None:
            return candidates.counts
        counts = np.zeros_like(candidates.counts)
        for first, last in _chunks(candidates, self._workers.tuning.counted_at_once):
            _, _, slots = self._pairs(candidates, condition, first, last, with_slots=True)
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

    def _narrowed(self, candidates: Candidates) -> BoundFilter | None:
        """Keep the candidates that pass the filter, as far as that is a program, and return what is left to check."""
        condition = self._filter
        if condition is None or not isinstance(candidates, PositionCandidates):
            return condition
        program = self._program(condition)
        if program is None:
            return condition
        with self.stats.step("filter"):
            return condition.rest if candidates.narrow(program) else condition

    def _program(self, condition: BoundFilter) -> PairFilter | None:
        """Return what a program checks of a condition, None if nothing."""
        return None if condition.program is None else pair_filter(condition.program, self.windows)

    def _pairs(
        self, candidates: Candidates, condition: BoundFilter | None, first: int, last: int, *, with_slots: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Write the pairs of slots first…last-1 and keep those that pass a condition: (left, right) ordinals, slots.

        Without `with_slots`, no slots are returned.
        """
        with self.stats.step("write"):
            left, right = candidates.write(first, last)
            counts = candidates.counts[first:last] if with_slots else NO_ROWS
        if condition is not None and left.size:
            return self.passing(condition, left, right, counts, first)
        with self.stats.step("write"):
            return left, right, np.repeat(np.arange(first, first + counts.size), counts)

    def passing(
        self,
        condition: BoundFilter,
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        counts: NDArray[np.int64],
        slot: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the pairs, (n,) int64 ordinals, that fulfil a condition, and their slots.

        The pairs of slot ``slot + i`` are ``counts[i]``; empty `counts` ask for no slots. No pair's answer depends on
        another's, so each thread takes stretches of them: one of each half, since left probes may come before right
        ones, and pairs of one side's probes cost more than the other's.
        """
        threads = max(1, min(self._workers.threads, left.size // self._workers.tuning.filter_spread))
        stretches = 1 if threads == 1 else 2 * threads
        ends, program = np.cumsum(counts), self._program(condition)
        pieces: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = [(NO_ROWS,) * 3] * stretches

        def take(number: int) -> None:
            first, last = (left.size * at // stretches for at in (number, number + 1))
            holds = self._holds(condition, program, left[first:last], right[first:last], threads)
            with self.stats.step("filter"):
                slots = NO_ROWS
                if counts.size:
                    # Of the pairs before each slot's end, those of the stretch; a slot may reach over its bounds.
                    upto = np.minimum(np.maximum(ends, first), last)
                    slots = np.repeat(np.arange(slot, slot + counts.size), np.diff(upto, prepend=first))[holds]
                pieces[number] = left[first:last][holds], right[first:last][holds], slots

        def run(thread: int) -> None:
            for number in range(thread, stretches, threads):
                take(number)

        self._workers.run([partial(run, thread) for thread in range(threads)])
        if threads == 1:
            return pieces[0]
        with self.stats.step("filter"):
            one, two, slots = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        return one, two, slots

    def _holds(
        self,
        condition: BoundFilter,
        program: PairFilter | None,
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        threads: int,
    ) -> NDArray[np.bool_]:
        """Return where a condition on pairs, (n,) int64 ordinals, holds, (n,) bool.

        What no program checks is evaluated on the pairs that pass that.
        """
        if program is not None:
            holds = np.empty(left.size, np.bool_)
            with self.stats.step("filter"):
                fits = program.holds(left, right, holds)
            if fits:
                if condition.rest is not None:
                    some = np.flatnonzero(holds)
                    holds[some] = self._evaluated(condition.rest, left[some], right[some], threads)
                return holds
        return self._evaluated(condition, left, right, threads)

    def _evaluated(
        self, condition: BoundFilter, left: NDArray[np.int64], right: NDArray[np.int64], threads: int
    ) -> NDArray[np.bool_]:
        """Evaluate a condition on pairs, (n,) int64 ordinals, and return where it holds, (n,) bool.

        So many `threads` do this at once, and hold as many rows together as one would alone.
        """
        names = {side: list(condition.columns(side)) for side in SIDES}
        limit = TableLimit(-(-self._limit.rows // threads), self._limit.nbytes // threads)
        holds = np.empty(left.size, np.bool_)
        taken = self._taken(names, left, right, "filter", limit=limit, decoded=True, shared=threads == 1)
        for pairs, rows in taken:
            with self.stats.step("filter"):
                left_columns, right_columns = (by_name(rows[side]) if names[side] else {} for side in SIDES)
                holds[pairs] = condition.holds(left_columns, right_columns, pairs.stop - pairs.start)
        return holds


def _positions(ordinals: NDArray[np.int64], *, lacking: bool) -> pa.Array[Any]:
    """Return ordinals, (n,) int64, as a column that is NULL where they are -1, if rows may be `lacking`."""
    if not lacking or not ordinals.size or int(ordinals.min()) >= 0:
        return array_of(ordinals)
    marks = buffer_of(np.packbits(ordinals >= 0, bitorder="little"))
    return pa.Array.from_buffers(pa.int64(), ordinals.size, [marks, buffer_of(ordinals)])


def _table(gathered: Mapping[Side, Gathered], start: int, stop: int, side: Side) -> pa.Table:
    return gathered[side].table(start, stop)


def _widths(gathered: Mapping[Side, Gathered]) -> Widths:
    return gathered["left"].widths.joined(gathered["right"].widths)


def _chunks(candidates: Candidates, most: int) -> Iterator[tuple[int, int]]:
    """Cut the slots so that each stretch has at most so many candidates, or is a single slot."""
    if candidates.total <= most:
        if candidates.total:
            yield 0, candidates.slots
        return
    first = 0
    for last in TableLimit(candidates.slots, most).stops(Widths(candidates.slots, 0, candidates.counts)):
        yield first, last
        first = last
