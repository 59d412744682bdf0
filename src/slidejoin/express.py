"""The short way through the engine, for the plainest joins: one band or equality of whole numbers on tables of cells.

The engine's own way decides anew for each push what a plan leaves open: filters, further terms, times, keys that do not
fit. That costs some 200 µs a push whatever its size. Here all of it is decided once, and a push that does not fit goes
the engine's way. The steps are the same: insert, probe, weave, expire; tests push everything both ways.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.arrays import empty_of, values_in
from slidejoin.arrival import arrange
from slidejoin.finding import SMALLEST_PART, WovenCells
from slidejoin.index.band_cells import Asked, BandCells, FoundInCells
from slidejoin.intake import Push
from slidejoin.kernels.probing_cells import ABOVE, ARRIVED, BELOW, SIZE, SLIDE, VIEW
from slidejoin.kernels.weaving import weave, weave_counts
from slidejoin.matching import Matches
from slidejoin.meeting import SMALLEST_SPREAD
from slidejoin.predicate.terms import RangeTerm
from slidejoin.predicate.tree import other
from slidejoin.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from slidejoin.arrival import Arrivals
    from slidejoin.engine import Engine
    from slidejoin.matching import Candidates
    from slidejoin.plan import Plan
    from slidejoin.predicate.expr import Side
    from slidejoin.predicate.terms import Around

__all__ = ["Express"]

PLAIN = {kind.id for kind in (pa.int64(), pa.timestamp("us"), pa.duration("us"), pa.time64("us"))}
"""Types whose values are keys as they lie in memory."""

SIDES: tuple[Side, Side] = ("left", "right")
NO_CHECKS = np.empty((0, 0), np.int64)
NO_DIMS = np.empty(0, np.int64)
NO_TIMES: dict[Side, NDArray[np.int64] | None] = {"left": None, "right": None}


class Express:
    """Pushes into an engine whose plan `serves`; see `push`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        plan = engine.plan
        self._places: dict[Side, int] = {}
        self._views: dict[Side, NDArray[np.int64]] = {}
        self._found: dict[Side, FoundInCells] = {side: FoundInCells() for side in SIDES}
        self._matches = Matches(plan, engine.windows, engine.stats, (), engine.count_tables)
        for role, plain in _plain(plan).items():
            self._places[role] = plan.kept_schema(role).get_field_index(plain.column)
            window, view = plan.config.window, np.zeros(VIEW, np.int64)
            assert isinstance(window, CountWindow)  # noqa: S101 - which is what it serves
            view[[SIZE, SLIDE, BELOW, ABOVE]] = window.size(other(role)), window.slide, plain.below, plain.above
            self._views[role] = view

    @staticmethod
    def serves(engine: Engine) -> bool:
        """Tell whether everything that the short way leaves out is absent."""
        plan = engine.plan
        config, bound = plan.config, plan.bound
        return (
            engine.algorithm == "band_cells"
            and isinstance(config.window, CountWindow)
            and not config.self_join
            and config.memory_limit is None
            and (config.order != "strict" or config.output == "count")
            and len(plan.terms) == 1
            and not bound.never
            and bound.filter(plan.loose) is None
            and not any(bound.filters_side(side) for side in SIDES)
            and len(_plain(plan)) == len(SIDES)
        )

    def push(
        self, tables: dict[Side, pa.Table], by: tuple[NDArray[np.generic], NDArray[np.generic]] | None
    ) -> pa.Table | None:
        """Take rows and return what they produce, or take nothing and return None: the engine's way is needed."""
        start, engine = perf_counter(), self._engine
        rows = {side: tables[side].num_rows for side in SIDES}
        total = rows["left"] + rows["right"]
        if not 0 < total <= engine.largest_slice:
            return None
        kept = {side: engine.intake.held(side, tables[side]) for side in SIDES}
        keys = {}
        for side in SIDES:
            column, index = kept[side].column(self._places[side]), engine.windows[side].index
            if column.null_count or not isinstance(index, BandCells) or index.wide:
                return None
            if engine.windows[side].outgrown(rows[side]):
                return None
            keys[side] = values_in(column, np.int64)
        arrivals = arrange(rows["left"], rows["right"], by)
        if not arrivals.straight:
            return None
        # From here on rows are taken.
        before = {side: engine.windows[side].rows_seen for side in SIDES}
        engine.stats.since("arrive", start)
        tasks = [self._owner(stored, kept[stored], keys, arrivals, before) for stored in SIDES]
        if total >= SMALLEST_SPREAD and engine.workers.threads > 1:
            engine.workers.run(tasks)
        else:
            for task in tasks:
                task()
        out = self._written(Push(kept, NO_TIMES, arrivals), before)
        now = perf_counter()
        engine.stats.rows_left += rows["left"]
        engine.stats.rows_right += rows["right"]
        engine.settle(before)
        engine.stats.since("expire", now)
        return out

    def _owner(
        self,
        stored: Side,
        table: pa.Table,
        keys: dict[Side, NDArray[np.int64]],
        arrivals: Arrivals,
        before: dict[Side, int],
    ) -> Callable[[], None]:
        """Return what one side's owner does: insert its rows, and let the other side probe."""
        role, stats, window = other(stored), self._engine.stats, self._engine.windows[stored]
        index, found, view = window.index, self._found[role], self._views[role]
        counting = self._engine.plan.config.output == "count"
        assert isinstance(index, BandCells)  # noqa: S101 - `push` has looked

        def run() -> None:
            start = perf_counter()
            window.hold(table)
            index.append(keys[stored], None, NO_CHECKS)
            start = stats.since("insert", start)
            view[ARRIVED], found.done = before[stored], -1
            if index.narrow:
                asked = Asked(keys[role], keys[role], arrivals.rank(role), view, NO_CHECKS, NO_CHECKS, NO_DIMS)
                (index.count if counting else index.find)(asked, 0, keys[role].size, found)
            stats.since("probe", start)

        return run

    def _written(self, push: Push, before: dict[Side, int]) -> pa.Table:
        """Put the pairs of both sides into arrival order, and out."""
        engine, arrivals = self._engine, push.arrivals
        left, right = self._found["left"], self._found["right"]
        if left.done < arrivals.left.size or right.done < arrivals.right.size:
            return self._concatenated(engine.meeting.again(push, before), push)
        if engine.plan.config.output == "count":
            return self._counted(push)
        floors = {side: engine.meeting.floor(side) for side in SIDES}
        pairs = left.total + right.total
        if pairs >= min(2 * SMALLEST_PART, engine.chunk_rows):
            sides = {
                role: (arrivals.rank(role), self._found[role], before[role], floors[other(role)]) for role in SIDES
            }
            woven = WovenCells(sides, 0, push.rows, engine.workers, engine.meeting.memory)
            return self._concatenated(iter([woven]), push)
        start, stats = perf_counter(), engine.stats
        lefts, rights = engine.meeting.memory.take(pairs), engine.meeting.memory.take(pairs)
        weave(
            arrivals.left_rank, left.counts, left.found, before["left"], floors["right"],
            arrivals.right_rank, right.counts, right.found, before["right"], floors["left"],
            0, 0, 0, 0, arrivals.left.size, arrivals.right.size, lefts, rights, 0, pairs,
        )  # fmt: skip
        start = stats.since("write", start)
        out = self._matches.table(lefts, rights)
        stats.since("payload", start)
        stats.pairs += pairs
        return out

    def _counted(self, push: Push) -> pa.Table:
        start, engine, arrivals = perf_counter(), self._engine, push.arrivals
        matches, is_left = engine.meeting.memory.take(push.rows), np.empty(push.rows, np.bool_)
        left, right = self._found["left"].counts, self._found["right"].counts
        engine.stats.pairs += weave_counts(arrivals.left_rank, left, arrivals.right_rank, right, matches, is_left)
        out = engine.count_tables.table(matches, push.tables, arrivals, is_left)
        engine.stats.since("payload", start)
        return out

    def _concatenated(self, found: Iterator[Candidates], push: Push) -> pa.Table:
        chunk_rows, schema = self._engine.chunk_rows, self._engine.plan.layout.schema
        if self._engine.plan.config.output == "count":
            counts = map(self._matches.counted, found)
            tables = list(self._matches.counts(counts, push.tables, push.arrivals))
        else:
            tables = [table for candidates in found for table in self._matches.pairs(candidates, chunk_rows)]
        return pa.concat_tables(tables) if tables else empty_of(schema)


def _plain(plan: Plan) -> dict[Side, Around]:
    """Return, for each side that has it, the column whose values are keys, and the ends of ranges around them."""
    found: dict[Side, Around] = {}
    term = plan.terms[0]
    for role in SIDES:
        plain = term.around(role) if isinstance(term, RangeTerm) else None
        if plain is not None and plan.kept_schema(role).field(plain.column).type.id in PLAIN:
            found[role] = plain
    return found
