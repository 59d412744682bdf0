"""The join operator behind `StreamJoin` and the Spark pipeline: one push from tables of rows to tables of results.

It chooses the path of a push, see `slidejoin.operator.push`. Only the operator assigns ordinals, advances the clock,
expires rows, replaces the index and counts rows.
"""

from __future__ import annotations

from contextlib import closing
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.errors import StateError
from slidejoin.index.protocol import RUNS
from slidejoin.jit.interpreted import INTERPRETER
from slidejoin.operator.added_columns import AddedColumns
from slidejoin.operator.advisors import IndexAdvisor, PairAdvisor
from slidejoin.operator.counts import CountTables, pairs_in
from slidejoin.operator.fused import FusedPath
from slidejoin.operator.general import GeneralPath
from slidejoin.operator.ingest.idle_clock import IdleClock, WatermarkWatch, clock_of
from slidejoin.operator.ingest.ingest import Ingest
from slidejoin.operator.ingest.order_by import sort_values
from slidejoin.operator.join_type import JoinTypeOutput, marked_sides
from slidejoin.operator.pair_tables import PairTables
from slidejoin.operator.parts import JoinParts
from slidejoin.operator.push import PushBatch
from slidejoin.operator.slices import slices_of
from slidejoin.operator.stats import Stats
from slidejoin.operator.topology import make_topology
from slidejoin.operator.topology.shared import SharedTopology
from slidejoin.operator.window.latest_rows import LatestRows
from slidejoin.operator.window.side import SideWindow, too_far
from slidejoin.plan.latest_terms import LatestTerms
from slidejoin.plan.output_schema import together
from slidejoin.rows.widths import TABLE, TableLimit
from slidejoin.runtime.array_pool import ArrayPool
from slidejoin.runtime.threads import Workers, ahead
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.deferred.path import DeferredPath, RequestedPath
    from slidejoin.operator.ingest.arrival import Clock
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.ingest.late_rows import KeptLateRows
    from slidejoin.plan.index_terms import IndexTerms
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.stored import StoredValue

__all__ = ["JoinOperator"]


class JoinOperator:
    """The windows of both sides, and the paths that rows take through them.

    Parameters
    ----------
    plan : Plan
        The bound join.
    merge : bool, default True
        Whether sub-windows are merged; the Spark pipeline merges the segments of its state itself.
    limit : TableLimit
        What an output table may hold. As many candidates as it has rows are held at once.
    sealed : IndexTerms, optional
        An index whose parts are sealed, and its terms, which is never changed: the Spark pipeline has such parts as
        files, and chooses by itself.
    late : KeptLateRows, optional
        Where late rows are stored, if they are.
    on_request : bool, default False
        Whether nearest matches and aggregates are emitted when the caller requests them, which knows which rows expire:
        a bucket of the Spark pipeline does.
    now : float, optional
        What the wall clock says, if it was read already.
    """

    ended = 0.0
    """When the last push ended, of `time.perf_counter`: who times pushes reads the clock once less."""

    def __init__(
        self,
        plan: Plan,
        *,
        merge: bool = True,
        limit: TableLimit = TABLE,
        sealed: IndexTerms | None = None,
        late: KeptLateRows | None = None,
        on_request: bool = False,
        now: float | None = None,
    ) -> None:
        self.plan = plan
        chosen = sealed or plan.index_terms(plan.algorithm)
        self.clock, self._wall_clock = clock_of(plan, now)
        self._watermarks = WatermarkWatch.of(plan)
        self._late = late
        self.ingest = Ingest(plan)
        self.stats = Stats()
        self.windows: dict[Side, SideWindow] = {}
        workers, memory = Workers(plan.config.threads, plan.tuning), ArrayPool(np.int64)
        # Which indexes a window has is the topology's choice, so it comes first.
        self.topology = make_topology(plan, self.windows, workers, self.stats, memory)
        making = self.topology.make_index
        self.pair_advisor = PairAdvisor(plan, sealed=sealed is not None)
        self._chooses = self.pair_advisor.open and sealed is None
        closing = self.pair_advisor.closing
        # Left rows that are answered as they leave are not looked for, and right ones wait for them.
        at_once, marked = plan.rule is None, marked_sides(plan)
        # Nor are the rows of a stream whose other side is a table.
        stays = plan.config.window.expires
        left = SideWindow(
            plan, "left", chosen=chosen, merge=merge, make_index=making, closing=closing,
            indexed=at_once and stays, marked="left" in marked,
        )  # fmt: skip
        waits = not at_once and not on_request and sealed is None
        latest = LatestTerms.of(plan) if waits else None
        # The rows of a self-join are in both windows, their payload is stored once.
        shared = left.payload if plan.config.self_join else None
        right = SideWindow(
            plan, "right", shared, chosen=chosen, merge=merge, make_index=making, closing=closing, bounded=at_once,
            indexed=latest is None, marked="right" in marked,
        )  # fmt: skip
        self.windows |= {"left": left, "right": right}
        self.added = AddedColumns(plan, self.windows, workers) if AddedColumns.serves(plan) else None
        """What adds codes of texts and row values to rows; None if the plan compares neither."""
        self.join_type = None if plan.config.how == "inner" else JoinTypeOutput(plan, self.windows, memory)
        """What makes the rows of a join that is not inner out of pairs; None for an inner join."""
        self.latest = None if latest is None else LatestRows(plan, latest, self.windows)
        """The latest right rows of an as-of join; None if it is none, or the index is requested."""
        parts = JoinParts(
            plan, chosen.algorithm, limit, self.windows, self.ingest, self.topology, CountTables(plan),
            workers=workers, stats=self.stats, memory=memory, join_type=self.join_type, latest=self.latest,
            pair_tables=PairTables.of(plan, self.windows, workers, limit, memory),
        )  # fmt: skip
        fuses = at_once and stays and isinstance(self.topology, SharedTopology)
        self.fused = FusedPath(parts) if fuses and FusedPath.serves(parts) else None
        """The fused path; None if it serves no push of this join."""
        # An attribute: a cached property makes all others of the object slower to read.
        in_records = not any(one.payload.keeps_pieces for one in self.windows.values())
        self.copies = in_records and isinstance(self.topology, SharedTopology)
        """Whether a push copies all that it keeps of a batch."""
        self._gathers = plan.config.how == "inner" and plan.config.output != "count" and plan.config.late != "emit"
        """Whether all that is output is gathered from the windows."""
        # Paths of nearest matches and aggregates as rows expire, and as the caller requests them; None without such.
        self.deferred, self.on_request = (None, None) if at_once else _deferred(parts, on_request=on_request)
        pairs = GeneralPath(parts)
        self.general, self._output = self.deferred or self.on_request or pairs, pairs.output
        self._advisor = IndexAdvisor(plan, changes=sealed is None and at_once)
        # Both indexes exist until the new one is done.
        self._crowding_due = plan.tuning.crowding_check_rows if plan.config.memory_limit is None else None
        # Needed at each push, however small.
        counted = plan.scope.counted
        self._sizes = None if counted is None else (counted.left, counted.right, counted.slide)
        self._self_join, self._counting = plan.config.self_join, plan.config.output == "count"
        self._borrowing = [one for one in self.windows.values() if one.borrows]
        self._due = min(plan.tuning.crowding_check_rows, self._advisor.due)
        self._pushes = self.changes = 0
        """Grows as soon as a push has taken rows; a push that fails before that changes nothing."""
        INTERPRETER.planned()

    # -- one push ----------------------------------------------------------------------------------------------------

    def push(self, tables: dict[Side, pa.Table], order_by: str | None = None, *, own: bool = True) -> pa.Table:
        """Take rows and return what they produce, as one table, by the path that accepts them.

        Unless the tables have memory of their `own`, what keeps some of it copies first; see `copies`.

        Raises
        ------
        SchemaError
            If rows cannot be sorted by `order_by`; nothing is taken.
        """
        if self.added is not None:
            start = perf_counter()
            tables = self.added.taken(tables)
            self.stats.since("arrive", start)
        both: dict[Side, pa.Table] = {"left": tables["left"], "right": tables["left"]} if self._self_join else tables
        batch = PushBatch(both, order_by, self.clock if self._sizes is not None else self._clock_now(), self.ingest)
        fused = self.fused
        if fused is not None and self._chooses:
            self._choose_pair(tables, batch.left_rows + tables["right"].num_rows, looked_at=True)
        if fused is not None and fused.accepts(batch):
            first = self._give_ordinals(batch.left_rows, tables["right"].num_rows)
            out = fused.run(batch, first)
            if self.join_type is not None:
                self._count_joined(self.join_type)
            else:
                self.stats.pairs += fused.counted(out) if self._counting else out.num_rows
            if batch.clock_after is not None:
                self.clock = batch.clock_after
            self._commit(first, None if self._sizes is not None else self.clock.watermark)
            return out
        by = None if order_by is None else sort_values(tables, order_by)
        own |= not self.copies or (self._gathers and all(window.index.copies for window in self.windows.values()))
        return together(list(self.push_iter(self._prepare(tables, by, own=own))), self.plan.layout.whole)

    def prepare(
        self,
        tables: dict[Side, pa.Table],
        by: tuple[NDArray[np.generic], NDArray[np.generic]] | None = None,
        watermark: int | None = None,
        *,
        own_clock: bool = True,
    ) -> Push:
        """Put rows into arrival order by sort values, and drop and count late ones, see `Ingest.take`.

        Nothing is inserted yet.
        """
        return self._prepare(self._with_added(tables), by, watermark, own_clock=own_clock)

    def prepared(self, pushes: Iterator[dict[Side, pa.Table]]) -> Iterator[Push]:
        """Prepare pushes of rows for a table: while one is joined, another thread reads and codes the next."""
        for tables in ahead(map(self._with_added, pushes), self.plan.config.threads):
            yield self._prepare(tables)

    def _with_added(self, tables: dict[Side, pa.Table]) -> dict[Side, pa.Table]:
        return tables if self.added is None else self.added.taken(tables)

    def _prepare(
        self,
        tables: dict[Side, pa.Table],
        by: tuple[NDArray[np.generic], NDArray[np.generic]] | None = None,
        watermark: int | None = None,
        *,
        own_clock: bool = True,
        own: bool = True,
    ) -> Push:
        push, clock = self.ingest.take(self._clock_now(), tables, by, watermark, own_clock=own_clock, own=own)
        # Nothing was changed until here, where nothing can fail any more.
        self.changes += 1
        self.clock = clock
        self.stats.null_time_rows += push.null_time_rows
        self.stats.late_rows += push.late_rows
        if push.marks is not None:
            for waiting in (self.join_type, self.deferred):
                if waiting is not None:
                    waiting.follow(clock)
        if self._late is not None and push.left_out is not None:
            self._late.add(push.left_out)
        return push

    def _clock_now(self) -> Clock:
        """Return the clock as it is before the rows of a push."""
        clock = self.clock
        return clock.at(self._wall_clock()) if isinstance(clock, IdleClock) else clock

    def push_iter(self, push: Push, watermark: int | None = None, *, own_clock: bool = True) -> Generator[pa.Table]:
        """Insert rows and yield what they produce, in bounded tables, by the general path.

        All rows are taken even if the iterator is closed early. `watermark` replaces the clock's with
        ``own_clock=False``.
        """
        self._change_if_stretched(push)
        self._choose_pair(push.tables, push.rows)
        slices = slices_of(self.plan, push, self.topology.largest_slice)
        begin = {side: window.rows_seen for side, window in self.windows.items()}
        try:
            for part in slices:
                with closing(self.general.run(part, self._give_ordinals_of(part))) as tables:
                    for table in tables:
                        self._count(table)
                        yield table
                self._expire_counted()
        finally:
            for part in slices:
                self.general.insert(part, self._give_ordinals_of(part))
                self._expire_counted()
            if self.join_type is not None:
                self._count_joined(self.join_type)
            self._commit(begin, self.clock.watermark if own_clock else watermark)

    def probe_iter(self, push: Push) -> Generator[pa.Table]:
        """Yield what rows that are stored elsewhere produce with those that are here, in bounded tables.

        They are held as long as this operator, so that their columns can be read: it is not for a join that lasts.

        Parameters
        ----------
        push : Push
            With `Push.seen`, as of `slidejoin.operator.ingest.ingest.parted`.
        """
        for part in slices_of(self.plan, push, self.topology.largest_slice):
            first: dict[Side, int] = {}
            for side, window in self.windows.items():
                first[side] = window.rows_seen
                window.rows_seen += part.tables["left" if self._self_join else side].num_rows
            with closing(self.general.run(part, first)) as tables:
                for table in tables:
                    self._count(table)
                    yield table

    def finish(self) -> Iterator[pa.Table]:
        """Yield the results of the rows that are still in the window, in bounded tables.

        These are rows that have no match, if the join type outputs them, or the answers of left rows that wait.
        """
        if self.join_type is not None:
            rows = self.join_type.remaining()
            self._count_joined(self.join_type)
            yield from self._output.tables(*rows)
        if self.deferred is not None:
            yield from self.deferred.remaining()

    # -- ordinals and counts -------------------------------------------------------------------------------------------

    def _give_ordinals(self, left: int, right: int) -> dict[Side, int]:
        """Give the newest rows of both sides ordinals, and return the first of each; of a self-join to both windows."""
        self.changes += 1
        one, two = self.windows["left"], self.windows["right"]
        first: dict[Side, int] = {"left": one.rows_seen, "right": two.rows_seen}
        one.rows_seen += left
        two.rows_seen += left if self._self_join else right
        self.stats.rows_left += left
        self.stats.rows_right += right
        return first

    def _give_ordinals_of(self, part: Push) -> dict[Side, int]:
        return self._give_ordinals(part.tables["left"].num_rows, part.tables["right"].num_rows)

    def _count(self, out: pa.Table) -> None:
        """Count the pairs of an output table, or what the rows of a join that is not inner have produced."""
        if self.join_type is not None:
            self._count_joined(self.join_type)
        elif self._counting:
            self.stats.pairs += pairs_in(out)
        elif self.deferred is not None:
            return  # the path counts the pairs of left rows that it answers
        elif self.plan.layout.further is not None:
            self.stats.pairs += out.column(self.plan.layout.further.names[0]).null_count
        else:
            self.stats.pairs += out.num_rows

    def _count_joined(self, join_type: JoinTypeOutput) -> None:
        joined, stats = join_type.joined(), self.stats
        stats.pairs += joined.pairs
        stats.unmatched_left += joined.unmatched["left"]
        stats.unmatched_right += joined.unmatched["right"]

    # -- after a push ------------------------------------------------------------------------------------------------

    def _commit(self, first: dict[Side, int], watermark: int | None) -> None:
        """Expire rows after a push whose rows have ordinals from `first` on, and adapt the indexes."""
        start, left, right = perf_counter(), self.windows["left"], self.windows["right"]
        if self._sizes is not None:
            self._expire_counted()
        elif watermark is not None:
            self.expire(watermark)
        if self._watermarks is not None:
            self._watermarks.look(self.clock)
        for one in self._borrowing:
            one.own(first[one.side])
        if self.added is not None:
            self.added.advance()
        self._pushes += 1
        rows = left.rows_seen + right.rows_seen
        if rows >= self._due:
            self._adapt(rows)
        self.ended = self.stats.since("expire", start)

    def _expire_counted(self) -> None:
        """Expire the rows that have left a count window."""
        if self._sizes is None:
            return
        # As `CountWindow.first`, which would be two calls more at each push.
        (of_left, of_right, slide), left, right = self._sizes, self.windows["left"], self.windows["right"]
        one, two = left.rows_seen - of_left, right.rows_seen - of_right
        if slide > 1:
            one, two = one - one % slide, two - two % slide
        if self.deferred is not None:
            two = self.deferred.oldest_right(max(two, 0))
        if self._self_join:
            one = two = min(one, two)
        if one > 0:
            left.expire(one)
        if two > 0:
            right.expire(two)

    def expire(self, watermark: int) -> None:
        """Expire the rows of a time window that no row at or above the watermark can see."""
        scope = self.plan.scope
        if scope.counted is not None:
            return
        oldest = {side: scope.oldest(side, watermark) for side in SIDES}
        if self.deferred is not None:
            oldest["right"] -= self.deferred.longer
        for side in SIDES:
            # A self-join keeps its rows once, as long as either of its roles needs them.
            rows = min(oldest.values()) if self.plan.config.self_join else oldest[side]
            self.windows[side].expire_below(oldest[side], rows)

    def _adapt(self, rows: int) -> None:
        """Change the index if another one, or one of another size, is better; the join has had so many `rows`."""
        advisor, left, right = self._advisor, self.windows["left"], self.windows["right"]
        if advisor.open and rows >= advisor.due:
            spilled = [one for window in (left, right) if (one := window.index.spilled) is not None]
            better = advisor.better(
                left.index.name, rows=rows, pairs=self.stats.pairs, pushes=self._pushes,
                window=left.payload.rows + right.payload.rows, spilled=sum(spilled) if spilled else None,
            )  # fmt: skip
            if better is not None and not any(window.stretched() or window.hashed for window in self.windows.values()):
                self._change_to(self.plan.index_terms(better))
        if self._crowding_due is not None and rows >= self._crowding_due:
            self._crowding_due = rows + self.plan.tuning.crowding_check_rows
            # One side at a time, so that no push waits for two.
            if left.relieve() or right.relieve():
                advisor.begin_again()
        dues = [advisor.due] if advisor.open else []
        later = rows + self.plan.tuning.crowding_check_rows
        self._due = min([*dues, later if self._crowding_due is None else self._crowding_due])

    def _change_if_stretched(self, push: Push) -> None:
        """Continue with sorted runs where an index would span too many rows; none of the push has expired by then."""
        coming = max(table.num_rows for table in push.tables.values())
        if self.windows["left"].index.spans_ordinals and any(
            window.stretched(coming) for window in self.windows.values()
        ):
            self._change_to(self.plan.index_terms(RUNS))

    def _choose_pair(self, tables: Mapping[Side, pa.Table], rows: int, *, looked_at: bool = False) -> None:
        """Index other terms if the rows that come make these cheaper.

        With `looked_at` the path that comes next sees by itself whether the rows make ranges much wider.
        """
        advisor, left, right = self.pair_advisor, self.windows["left"], self.windows["right"]
        if not self._chooses:
            return

        def lengthened() -> bool:
            if looked_at:
                return False
            return left.lengthened(tables["left"]) or right.lengthened(tables["left" if self._self_join else "right"])

        new = advisor.due(left.rows_seen + right.rows_seen + rows, lengthened)
        if not new:
            return
        better = advisor.better(left.chosen, tables, self.windows, new)
        if better is not None and not any(window.stretched() for window in self.windows.values()):
            self._change_to(better)

    def better_terms(self, tables: Mapping[Side, pa.Table], rows: int | None = None) -> IndexTerms | None:
        """Return the index and terms that rows that are about to come would make cheaper, None to stay.

        For whoever has sealed parts, which the operator does not change: `pair_advisor` knows what staying has cost.
        So many `rows` came since it was last called, with those that are about to come; None for these alone.
        """
        if not self.pair_advisor.open:
            return None
        if rows is None:
            rows = sum(table.num_rows for table in tables.values())
        return self.pair_advisor.better(self.windows["left"].chosen, tables, self.windows, rows)

    def _change_to(self, chosen: IndexTerms) -> None:
        for window in self.windows.values():
            window.change_index(chosen)

    # -- state and figures -------------------------------------------------------------------------------------------

    def load(self, rows: Mapping[Side, tuple[pa.Table, Sequence[tuple[int, int]], int]]) -> None:
        """Take the rows of each side into empty windows: a table, see `SideWindow.load` for its ordinals."""
        if self.added is not None:
            rows = {side: (self.added.loaded(side, table), at, seen) for side, (table, at, seen) in rows.items()}
        timed = self.plan.scope.counted is None
        if timed and any(
            too_far(seen - parts[0][0], table.num_rows, self.plan) for table, parts, seen in rows.values() if parts
        ):
            self._change_to(self.plan.index_terms(RUNS))
        for side, (table, stretches, seen) in rows.items():
            self.windows[side].load(table, stretches, seen)
        if self.join_type is not None:
            self.join_type.load(self.clock)

    def load_table(self, table: pa.Table) -> None:
        """Take the rows of the table that a stream is joined with; both windows are empty."""
        coded = table if self.added is None else self.added.table(table)
        held, rows = self.ingest.held("right", coded), table.num_rows
        self.windows["right"].load(held, [(0, rows)] if rows else [], rows)
        if self.latest is not None:
            self.latest.load()

    def saved_clock(self) -> dict[str, Any]:
        """Return the clock as plain JSON values."""
        return self.clock.to_json(self._wall_clock())

    def load_clock(self, stored: StoredValue, now: float) -> None:
        """Continue where a clock was saved, before the rows are loaded; `now` is what the wall clock says.

        Raises
        ------
        StateError
            If it is no clock of this join.
        """
        self.clock.load(stored, now)
        if self._self_join and self.clock.left != self.clock.right:
            msg = (
                f"the newest event times of both sides of a self-join differ: {self.clock.left} and {self.clock.right}"
            )
            raise StateError(msg)

    def matched(self, side: Side) -> NDArray[np.bool_] | None:
        """Return which of the rows that the window of a side keeps have a match, (rows,); None where nobody asks."""
        window = self.windows[side]
        if window.matched is None:
            return None
        window.matched.extend(window.rows_seen)
        return window.matched.of(window.payload.stretches)

    def load_matched(self, side: Side, marks: NDArray[np.bool_]) -> None:
        """Set which of the rows that the window of a side keeps have a match, (rows,) as `matched` returned them."""
        window = self.windows[side]
        if window.matched is not None:
            window.matched.load(window.payload.stretches, marks, window.rows_seen)

    def growth(
        self,
        tables: Mapping[Side, pa.Table],
        room: int,
        by: tuple[NDArray[np.generic], NDArray[np.generic]] | None = None,
    ) -> int:
        """Return by how many bytes these rows make the join grow at most; exactly if `room` may not suffice.

        Rows are in the windows, or stored as late ones; `by` are the values by which they are put in order.
        """
        late = 0
        if self._late is not None:
            late = sum(table.nbytes for table in tables.values())
            if self._window_growth(tables, room - late) + late > room:
                push, _ = self.ingest.take(self._clock_now(), dict(tables), by)
                tables = push.tables
                late = sum(table.nbytes for table in (push.left_out or {}).values())
        return late + self._window_growth(tables, room - late)

    def _window_growth(self, tables: Mapping[Side, pa.Table], room: int) -> int:
        total = 0
        for closely in (False, True):
            total = 0
            for side in SIDES:
                source = "left" if self.plan.config.self_join else side
                total += self.windows[side].growth(self.ingest.held(source, tables[source]), closely=closely)
            if self.deferred is not None:
                total += self.deferred.growth({side: tables[side].num_rows for side in SIDES})
            if self.join_type is not None:
                total += self.join_type.growth({side: table.num_rows for side, table in tables.items()})
            if total <= room:
                break
        return total

    def explain(self) -> str:
        """Return the plan in words, with the index that is in use now and the sizes that it chose."""
        # Left rows that wait are in no index, nor are those of a stream with a table.
        in_index = self.deferred is None and self.plan.config.window.expires
        window = self.windows["left" if in_index else "right"]
        seen = self._advisor.why() or self.pair_advisor.why(window.chosen)
        text = self.plan.explain(window.chosen, seen, self.topology.explain())
        latest = None if self.latest is None else self.latest.explain()
        return "\n".join(line for line in (text, window.index.explain(), latest) if line is not None)

    def close(self) -> None:
        """End what the topology runs in addition to the caller; no rows may arrive after it."""
        self.topology.close()

    def measured(self) -> Stats:
        """Return the counters, with the present sizes of the windows, which are computed on demand."""
        if self.fused is not None:
            self.fused.account()
        left, right = self.windows["left"], self.windows["right"]
        self.stats.window_left, self.stats.window_right = (w.payload.rows for w in (left, right))
        if self._late is not None:
            self.stats.late_bytes = self._late.nbytes
        if self._watermarks is not None:
            for name, figure in self._watermarks.figures(self.clock).items():
                setattr(self.stats, name, figure)
        self.stats.window_bytes = left.nbytes + right.nbytes + (0 if self.added is None else self.added.nbytes)
        self.stats.window_bytes += 0 if self.deferred is None else self.deferred.nbytes
        if self.join_type is not None:
            self.stats.window_bytes += self.join_type.nbytes
        return self.stats


def _deferred(parts: JoinParts, *, on_request: bool) -> tuple[DeferredPath | None, RequestedPath | None]:
    """Return the path of a join whose left rows are answered as they leave, or on request."""
    from slidejoin.operator.deferred.path import DeferredPath, RequestedPath  # noqa: PLC0415 - few joins have it

    return (None, RequestedPath(parts)) if on_request else (DeferredPath(parts), None)
