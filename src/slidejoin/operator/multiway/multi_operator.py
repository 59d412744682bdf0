"""The operator behind `MultiJoin`: one push from tables of rows to tables of combinations.

::

    push ─▶ arrivals ─▶ slices ─▶ rows into windows, keys into the index of each link
                          │
                          └─▶ stretches, one a thread ─▶ chains of probes ─▶ one order ─▶ output

It alone assigns ordinals, advances the clock, expires rows, changes orders of probing, and counts. It knows streams by
their numbers, and no API: an executor can run it on the rows of a bucket.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.jit.interpreted import INTERPRETER
from slidejoin.operator.counts import spread
from slidejoin.operator.multiway.arrivals import MultiClock, slices_of, take_rows
from slidejoin.operator.multiway.chains import Chains, merged, stretch_of, stretches_of
from slidejoin.operator.multiway.figures import MultiStats, StepFigures
from slidejoin.operator.multiway.fused_chains import FusedChains
from slidejoin.operator.multiway.orders import OrderAdvisor
from slidejoin.operator.multiway.probing import Prober
from slidejoin.operator.multiway.stream_window import StreamWindow, gathered
from slidejoin.predicate.expression.text import wide_sql
from slidejoin.rows.arrow_buffers import array_of
from slidejoin.rows.held_types import held
from slidejoin.rows.widths import TABLE, TableLimit, Widths, widths_of
from slidejoin.runtime.array_pool import ArrayPool
from slidejoin.runtime.threads import Workers
from slidejoin.spec.options import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from slidejoin.operator.multiway.arrivals import MultiPush
    from slidejoin.operator.multiway.chains import Combinations, Stretch
    from slidejoin.operator.multiway.fused_chains import Walk
    from slidejoin.plan.multiway.multi_plan import MultiPlan, Step
    from slidejoin.rows.payload import Payload
    from slidejoin.rows.widths import TableLimit

__all__ = ["MultiOperator", "combination_tables", "count_tables", "in_order"]


class MultiOperator:
    """The windows of all streams, and what happens to a push.

    Parameters
    ----------
    plan : MultiPlan
    limit : TableLimit
        What an output table may hold. As many candidates of a step as it has rows are held at once.
    """

    def __init__(self, plan: MultiPlan, *, limit: TableLimit = TABLE) -> None:
        self.plan, self.limit = plan, limit
        self.windows = [StreamWindow(plan, number) for number in plan.streams]
        self.clock = MultiClock.of(plan)
        self.stats = MultiStats(rows=dict.fromkeys(plan.spec.streams, 0))
        self.figures = StepFigures()
        self.advisor = OrderAdvisor(plan)
        self._marks = self.figures.marks()
        self._workers = Workers(plan.spec.threads, plan.tuning)
        memory = ArrayPool(np.int64)
        self.chains = Chains(plan, Prober(plan, self.windows, limit, memory, Workers(1)), self.figures, [])
        self._fused = FusedChains(plan, self.windows, memory, self.figures)
        self._crowding_due = plan.tuning.crowding_check_rows
        self.use_orders(self.advisor.initial())
        INTERPRETER.planned()

    # -- one push ----------------------------------------------------------------------------------------------------

    def prepare(
        self,
        tables: Sequence[pa.Table],
        by: Mapping[int, NDArray[Any]] | None = None,
        watermark: int | None = None,
        *,
        own_clock: bool = True,
    ) -> MultiPush:
        """Put rows into arrival order, and drop and count late ones, see `take_rows`; nothing is inserted yet."""
        start = perf_counter()
        push, self.clock = take_rows(self.plan, self.clock, tables, by, watermark, own_clock=own_clock)
        self.stats.null_time_rows += push.null_time_rows
        self.stats.late_rows += push.late_rows
        self.stats.spent("arrive", perf_counter() - start)
        return push

    def push_iter(self, push: MultiPush, watermark: int | None = None, *, own_clock: bool = True) -> Iterator[pa.Table]:
        """Insert rows and yield what they produce, in bounded tables.

        All rows are taken even if the iterator is closed early. `watermark` replaces the clock's with
        ``own_clock=False``.
        """
        begin = [window.rows_seen for window in self.windows]
        slices = slices_of(self.plan, push)
        try:
            for part in slices:
                first = self._insert(part)
                yield from self._produced(part, first)
                self._expire_counted()
        finally:
            for part in slices:
                self._insert(part)
                self._expire_counted()
            self._commit(begin, self.clock.watermark if own_clock else watermark)

    def insert(self, push: MultiPush) -> None:
        """Only insert rows: they cannot have produced anything, because a stream has none."""
        begin = [window.rows_seen for window in self.windows]
        for part in slices_of(self.plan, push):
            self._insert(part)
            self._expire_counted()
        self._commit(begin, self.clock.watermark)

    @property
    def taken(self) -> tuple[int, ...]:
        """Numbers that change as soon as a push has taken rows."""
        return (*(window.rows_seen for window in self.windows), *self.clock.newest, self.stats.late_rows)

    def _insert(self, part: MultiPush) -> list[int]:
        """Insert a slice, and return the ordinals of the first rows of each stream."""
        self._look(part)
        start = perf_counter()
        first = [window.rows_seen for window in self.windows]
        for stream, window, own in zip(self.plan.spec.streams, self.windows, part.streams, strict=True):
            window.adapt(own.rows)
            window.rows_seen += own.rows
            self.stats.rows[stream] += own.rows
        tasks = [window.inserting(own, at) for window, own, at in zip(self.windows, part.streams, first, strict=True)]
        # Those of one window stand apart: they need its rows, which the first one keeps.
        apart = [task for row in zip_longest(*tasks) for task in row if task is not None]
        (self._workers if part.rows >= self._workers.tuning.streams_spread else Workers(1)).run(apart)
        self.stats.spent("insert", perf_counter() - start)
        return first

    def _produced(self, part: MultiPush, first: Sequence[int]) -> Iterator[pa.Table]:
        """Yield what the rows of a slice produce, several stretches at a time."""
        stretches = stretches_of(part.rows, self._workers.threads, self.plan.tuning.stretch_rows)
        together = self._workers.threads
        for at in range(0, len(stretches), together):
            group = stretches[at : at + together]
            if self.plan.spec.output == "count":
                yield from self._counted(part, first, group)
                continue
            start = perf_counter()
            works = [self._tables(part, first, *places) for places in group]
            drained: list[list[pa.Table]] = [[] for _ in works]
            self._workers.run([_drain(work, into, self.limit.rows) for work, into in zip(works, drained, strict=True)])
            self.stats.spent("probe", perf_counter() - start)
            for work, tables in zip(works, drained, strict=True):
                for table in tables:
                    self.stats.pairs += table.num_rows
                    yield table
                for table in work:
                    self.stats.pairs += table.num_rows
                    yield table

    def _tables(self, part: MultiPush, first: Sequence[int], begin: int, end: int) -> Iterator[pa.Table]:
        """Yield what the arrivals begin…end-1 of a slice produce; whoever takes the tables does all of the work."""
        plan, order, stretch = self.plan, self.plan.spec.order, stretch_of(part, first, begin, end)
        payloads = [window.payload for window in self.windows]
        walk = self._fused.prepared(stretch, self.chains.orders)
        whole = None if walk is None else self._fused.combinations(walk, stretch, self.limit.rows)
        for combinations in merged(self.chains, stretch, order) if whole is None else [whole]:
            yield from combination_tables(plan, payloads, in_order(combinations, order).rows, self.limit)

    def _counted(self, part: MultiPush, first: Sequence[int], group: Sequence[tuple[int, int]]) -> Iterator[pa.Table]:
        start, begin, end = perf_counter(), group[0][0], group[-1][1]
        counts = np.zeros(end - begin, np.int64)
        tasks, at = [], 0
        for places in group:
            stretch = stretch_of(part, first, *places)
            into = counts[at : at + stretch.rows]
            alone = [
                _count(self.chains, stretch, stream, into) for stream, own in enumerate(stretch.streams) if own.rows
            ]
            walk = self._fused.prepared(stretch, self.chains.orders)
            tasks += alone if walk is None else [_count_together(self._fused, walk, into, alone)]
            at += stretch.rows
        self._workers.run(tasks)
        self.stats.pairs += int(counts.sum())
        self.stats.spent("probe", perf_counter() - start)
        yield from count_tables(self.plan, part.between(begin, end), counts, self.limit)

    # -- after a push ------------------------------------------------------------------------------------------------

    def _expire_counted(self) -> None:
        for window, spec in zip(self.windows, self.plan.spec.windows, strict=True):
            if (first := spec.first("right", window.rows_seen)) > 0:
                window.expire(first)

    def expire(self, watermark: int) -> None:
        """Expire the rows of time windows that no row at or above the watermark can see."""
        for window, scope in zip(self.windows, self.plan.scopes, strict=True):
            window.expire_below(scope.oldest("right", watermark))

    def _commit(self, begin: Sequence[int], watermark: int | None) -> None:
        start = perf_counter()
        self._expire_counted()
        if self.plan.scopes and watermark is not None:
            self.expire(watermark)
        for window, first in zip(self.windows, begin, strict=True):
            window.own(first)
        # Both indexes exist until the new one is done.
        if self.plan.spec.memory_limit is None and self.rows_seen >= self._crowding_due:
            self._crowding_due = self.rows_seen + self.plan.tuning.crowding_check_rows
            for window in self.windows:
                window.relieve()
        self.stats.spent("expire", perf_counter() - start)

    # -- orders of probing -------------------------------------------------------------------------------------------

    @property
    def rows_seen(self) -> int:
        """Rows of all streams that have an ordinal."""
        return sum(window.rows_seen for window in self.windows)

    def use_orders(self, orders: Sequence[tuple[int, ...]]) -> None:
        """Probe in these orders from now on, with an index for each step."""
        self.chains.orders = list(orders)
        steps: dict[int, list[Any]] = {number: [] for number in self.plan.streams}
        for stream, order in enumerate(orders):
            bound = frozenset({stream})
            for stored in order:
                steps[stored].append(self.plan.step(stored, bound))
                bound |= {stored}
        for number, window in enumerate(self.windows):
            window.use(steps[number])

    def _look(self, coming: MultiPush) -> None:
        """Choose orders again if enough rows have arrived since the last time."""
        # An order changes the indexes, which a limit of memory has been checked without.
        if self.plan.spec.memory_limit is not None or self.rows_seen + coming.rows < self.advisor.due:
            return
        figures = self.figures.since(self._marks)
        orders = self.advisor.choose(self.chains.orders, self.windows, figures, self.rows_seen)
        self._marks = self.figures.marks()
        if orders != self.chains.orders:
            self.use_orders(orders)

    # -- state and figures -------------------------------------------------------------------------------------------

    def load(self, rows: Sequence[tuple[pa.Table, Sequence[tuple[int, int]], int]]) -> None:
        """Take the rows of each stream into empty windows, see `StreamWindow.load`."""
        for window, (table, stretches, seen) in zip(self.windows, rows, strict=True):
            window.load(table, stretches, seen)

    def resume(self, newest: Sequence[int], stats: MultiStats) -> None:
        """Continue with this clock and these counters, of a snapshot."""
        self.clock = replace(self.clock, newest=tuple(newest))
        self.stats = stats
        self.advisor.due = self.rows_seen

    def growth(self, tables: Sequence[pa.Table], room: int) -> int:
        """Return by how many bytes these rows make the windows grow at most; exactly if `room` may not suffice."""
        total = 0
        stored = [held(table.select(self.plan.stored[number].names)) for number, table in enumerate(tables)]
        for closely in (False, True):
            total = sum(
                window.growth(table, closely=closely) for window, table in zip(self.windows, stored, strict=True)
            )
            if total <= room:
                break
        return total

    def explain(self) -> str:
        """Return the plan in words: the order of each stream, what each step finds, and why."""
        return explained(self.plan, self.chains.orders, self.windows, self.advisor, self.figures)

    def measured(self) -> MultiStats:
        """Return the counters, with the present sizes of the windows."""
        names = self.plan.spec.streams
        self.stats.window_rows = {name: one.payload.rows for name, one in zip(names, self.windows, strict=True)}
        self.stats.window_bytes = sum(window.nbytes for window in self.windows)
        return self.stats


def _drain(work: Iterator[pa.Table], into: list[pa.Table], rows: int) -> Callable[[], None]:
    """Return a task that takes tables until they have so many rows."""

    def run() -> None:
        total = 0
        while total < rows and (table := next(work, None)) is not None:
            into.append(table)
            total += table.num_rows

    return run


def _count(chains: Chains, stretch: Stretch, stream: int, into: NDArray[np.int64]) -> Callable[[], None]:
    def run() -> None:
        into[stretch.streams[stream].ranks] = chains.counted(stretch, stream)

    return run


def _count_together(
    fused: FusedChains, walk: Walk, into: NDArray[np.int64], alone: Sequence[Callable[[], None]]
) -> Callable[[], None]:
    """Return a task that counts what all streams' rows of a stretch produce: at once, or else one by one."""

    def run() -> None:
        if not fused.counted(walk, into):
            for task in alone:
                task()

    return run


def explained(
    plan: MultiPlan,
    orders: Sequence[tuple[int, ...]],
    windows: Sequence[StreamWindow],
    advisor: OrderAdvisor,
    figures: StepFigures,
) -> str:
    """Return the orders, the steps with their indexes and figures, and the reason."""
    spec, names = plan.spec, plan.spec.streams
    lines = [f"join of {len(names)} streams on {wide_sql(spec.on)}"]
    lines += [f"window of {name}: {window.of_stream()}" for name, window in zip(names, spec.windows, strict=True)]
    if plan.never:
        lines.append("a constant part of the predicate is not true, so that nothing matches")
    for stream, order in zip(plan.streams, orders, strict=True):
        lines.append(f"a row of {names[stream]} probes {', then '.join(names[stored] for stored in order)}")
        bound = frozenset({stream})
        for stored in order:
            step = plan.step(stored, bound)
            lines.append(f"  {names[stored]}: {_conditions(plan, step)}")
            estimate, figure = advisor.estimate(stored, bound), figures.steps.get((stored, bound))
            rate = f"{_figure(estimate.matches)} rows a probe {estimate.source}"
            if figure is not None and figure.probes:
                rate = f"{_figure(figure.rate)} rows a probe of {figure.probes:,} so far"
            link = windows[stored].links[step.key].window
            lines.append(f"    index: {ALWAYS.get(link.chosen.algorithm, 'one for each branch of OR')}; {rate}")
            bound |= {stored}
    lines.append(_why(plan, advisor))
    return "\n".join(lines)


def _conditions(plan: MultiPlan, step: Step) -> str:
    if not any(len(plan.conjuncts[number].streams) > 1 for number in step.conjuncts):
        text = " AND ".join(plan.conjuncts[number].text for number in step.conjuncts)
        return (
            f"every row of the window{f' with {text}' if text else ''}, because nothing compares it with those before"
        )
    return " AND ".join(plan.conjuncts[number].text for number in step.conjuncts)


def _why(plan: MultiPlan, advisor: OrderAdvisor) -> str:
    if len(plan.streams) == 2:  # noqa: PLR2004 - one probes the other
        return "because there are two streams, which leaves one order"
    changed = f"; changed {advisor.changes} times so far" if advisor.changes else ""
    if plan.spec.memory_limit is not None:
        return "because of the shapes of the conditions: orders are not changed under memory_limit"
    return f"because steps that find few rows come first, by matches a probe; looked at again as rows come{changed}"


def _figure(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"  # noqa: PLR2004 - three digits


COUNT_BYTES = 24
"""Bytes of a line of counts without columns: the stream's name with its offset, and the number."""


def in_order(combined: Combinations, order: str) -> Combinations:
    """Return combinations in the promised order: by producer; under ``strict`` then by ordinals, stream by stream."""
    if order == "none" or len(combined) < 2:  # noqa: PLR2004 - one is in order
        return combined
    if order == "strict":
        return combined.at(np.lexsort([*reversed(combined.rows), combined.ranks]))
    if bool((combined.ranks[1:] >= combined.ranks[:-1]).all()):
        return combined
    return combined.at(np.argsort(combined.ranks, kind="stable"))


def combination_tables(
    plan: MultiPlan, payloads: Sequence[Payload], rows: Sequence[NDArray[np.int64]], limit: TableLimit
) -> Iterator[pa.Table]:
    """Yield the output rows of combinations, (n,) int64 ordinals of each stream, in tables within the limit."""
    layout, total = plan.layout, rows[0].size
    if plan.spec.output == "positions":
        for first in range(0, total, step := limit.most_rows(8 * len(rows))):
            columns = [array_of(np.ascontiguousarray(own[first : first + step])) for own in rows]
            yield pa.Table.from_arrays(columns, schema=layout.schema)
        return
    names = {stream: list(dict.fromkeys(layout.names(stream))) for stream in plan.streams}
    for cut, tables in gathered(payloads, names, dict(enumerate(rows)), total, limit):
        yield layout.combinations(tables, cut.stop - cut.start)


def count_tables(plan: MultiPlan, push: MultiPush, counts: NDArray[np.int64], limit: TableLimit) -> Iterator[pa.Table]:
    """Yield a row for each arrival of a push with the number of combinations that it produced, (rows,) int64."""
    layout, owners = plan.layout, push.owners()
    widths = Widths(push.rows, COUNT_BYTES)
    for number, one in enumerate(push.streams):
        own = widths_of(one.table.select(list(dict.fromkeys(layout.names(number)))))
        varying = np.zeros(push.rows, np.int64)
        if own.varying is not None:
            varying[one.ranks] = own.varying
        widths = widths.joined(Widths(push.rows, own.fixed, varying))
    names = pa.array(plan.spec.streams)
    first = 0
    for last in limit.stops(widths):
        stretch, columns = owners[first:last], []
        for stream, name, _ in layout.columns:
            one = push.streams[stream]
            begin, end = (int(at) for at in np.searchsorted(one.ranks, (first, last)))
            rows = one.table.slice(begin, end - begin).select([name])
            if rows.num_rows < last - first:
                rows = spread(rows, one.ranks[begin:end] - first, stretch == stream)
            columns.append(rows.column(0))
        numbers: pa.Array[Any] = pa.array(stretch)
        streams = names.take(numbers)
        yield layout.counts(streams, columns, array_of(np.ascontiguousarray(counts[first:last])))
        first = last
