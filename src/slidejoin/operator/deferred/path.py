"""The path of joins that answer a left row once, as it expires: with its nearest matches, or with aggregates of all.

::

    slice ─▶ left rows wait, right rows are inserted ─▶ which left rows expire? ─▶ answers ─▶ tables
                                                                                     │
                                           too many right rows ─▶ fold ──────────────┘

Arriving rows are not probed with. The pairs of a left row are the right rows in an interval of ordinals: from the first
one that it saw as it arrived to the last one that arrived before it expired; in a time window those in time scope. So
one search as it expires yields the pairs that the earlier and the later right rows would have produced one by one.

Right rows stay as long as a waiting left row has them in its interval. Where left rows arrive slowly, or not at all,
that would be without end: then all waiting left rows are answered over the right rows so far, these answers are stored,
and the right rows that no row to come can see are dropped (`DeferredPath.fold`).

In a bucket on Spark the caller knows which rows expire, and requests the answers (`RequestedPath`)::

    slice ─▶ rows are inserted                  `answers` of left rows ─▶ tables
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.operator.deferred.aggregates import AggregateAnswers
from slidejoin.operator.deferred.intervals import Intervals, WaitingRows
from slidejoin.operator.deferred.kernels.intervals import SlidingRows, begin_intervals, end_intervals
from slidejoin.operator.deferred.nearest import NearestAnswers
from slidejoin.operator.window.departures import departures_of
from slidejoin.plan.deferred import NearestRule
from slidejoin.plan.window_term import CountScope, displacing, first_seen
from slidejoin.rows.arrow_buffers import array_of
from slidejoin.rows.stored_tables import int64s

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.operator.ingest.arrival import Clock
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.parts import JoinParts
    from slidejoin.rows.payload import Payload
    from slidejoin.sides import Side
    from slidejoin.spec.window import CountWindow
    from slidejoin.stored import StoredValue

__all__ = ["DeferredPath", "RequestedPath", "answers_of", "insert_rows"]


class DeferredPath:
    """Inserts any slice of arrivals, and answers the left rows that leave with them, see above.

    Parameters
    ----------
    parts : JoinParts
    """

    def __init__(self, parts: JoinParts) -> None:
        plan = parts.plan
        self._parts, self._windows = parts, parts.windows
        self._answers = answers_of(parts)
        self._counted = plan.scope.counted
        self._self_join = plan.config.self_join
        departures = departures_of(plan, ("left",))
        assert departures is not None  # noqa: S101 - None only where rows carry numbers, on Spark
        self._departures = departures
        self._waiting = WaitingRows(plan.tuning.waiting_rows)

    # -- a slice -------------------------------------------------------------------------------------------------------

    def run(self, part: Push, first: dict[Side, int]) -> Generator[pa.Table]:
        """Insert the rows of a slice with ordinals from `first` on, and yield the answers of left rows that leave."""
        self._insert(part, first)
        left, order = self._leaving(part, first)
        try:
            yield from self._tables(left, order)
        finally:
            self._forget()

    def insert(self, part: Push, first: dict[Side, int]) -> None:
        """Only insert the rows: answers of left rows that leave with them are no longer needed."""
        self._insert(part, first)
        self._leaving(part, first)
        self._forget()

    def _insert(self, part: Push, first: dict[Side, int]) -> None:
        insert_rows(self._parts, part, first)
        window, ranks = self._counted, part.arrivals.left_rank
        if window is not None:
            with self._parts.stats.step("insert"):
                since = self._waiting.room(ranks.size)
                begin_intervals(ranks, first["right"], self._sliding("right", window), since)

    def _leaving(self, part: Push, first: dict[Side, int]) -> tuple[Intervals, NDArray[np.int64] | None]:
        """Return the left rows that leave with a slice, ascending, and in which order they leave if that is another."""
        window, ranks, left = self._counted, part.arrivals.left_rank, first["left"]
        if window is None:
            _, _, rows = self._departures.arrive(part.arrivals, part.times, first, marks=part.marks)
            ascending = bool((rows[1:] > rows[:-1]).all())
            order = None if ascending else np.argsort(rows)
            return self._timed(rows if order is None else rows[order]), None if order is None else _inverse(order)
        begin, end = window.first("left", left), window.first("left", left + ranks.size)
        rows, until = np.empty(end - begin, np.int64), np.empty(end - begin, np.int64)
        end_intervals(ranks, left, first["right"], begin, self._sliding("left", window), rows, until)
        return Intervals(rows, self._waiting.take_before(end), until), None

    def _sliding(self, side: Side, window: CountWindow) -> SlidingRows:
        return SlidingRows(*window.view(side), self._self_join)

    def _timed(self, rows: NDArray[np.int64]) -> Intervals:
        """Return the intervals of left rows of a time window: all right rows, of which the time scope is a term."""
        right = self._windows["right"]
        return Intervals(rows, np.full(rows.size, right.first), np.full(rows.size, right.rows_seen))

    def _tables(self, left: Intervals, order: NDArray[np.int64] | None) -> Generator[pa.Table]:
        most, rows = self._answers.most_rows, left.rows.size
        if order is None:
            for first in range(0, rows, most):
                yield from self._answers.tables(left.part(first, first + most), None)
            return
        for first in range(0, rows, most):
            places = order[first : first + most]
            ascending = np.argsort(places)
            yield from self._answers.tables(left.at(places[ascending]), _inverse(ascending))

    def _forget(self) -> None:
        if self._counted is not None:
            self._answers.forget(self._waiting.first)

    # -- the end -------------------------------------------------------------------------------------------------------

    def remaining(self) -> Generator[pa.Table]:
        """Yield the answers of the left rows that have not left, by ordinal."""
        left = self._windows["left"]
        rows = np.sort(self._departures.remaining("left", left.rows_seen))
        if self._counted is None:
            yield from self._tables(self._timed(rows), None)
            return
        until = np.full(rows.size, self._windows["right"].rows_seen)
        yield from self._tables(Intervals(rows, self._waiting.since, until), None)

    # -- right rows that stay ------------------------------------------------------------------------------------------

    def oldest_right(self, visible: int) -> int:
        """Return the first right row that has to stay in a count window; rows to come see those from `visible` on.

        Where too many would stay, those before `visible` are folded.
        """
        window, waiting = self._counted, self._waiting.oldest
        oldest = visible if waiting is None else min(visible, waiting)
        if oldest == visible or window is None:
            return oldest
        needed, tuning = window.left + window.right + 2 * window.slide, self._parts.plan.tuning
        if self._windows["right"].rows_seen - oldest > max(tuning.folded_from * needed, tuning.unfolded_rows):
            self.fold(visible)
            return visible
        return oldest

    def fold(self, end: int) -> None:
        """Answer all left rows that wait over the right rows before `end`, and keep these answers."""
        since = self._waiting.since
        rows = np.arange(self._waiting.first, self._waiting.end)
        self._answers.fold(Intervals(rows, np.minimum(since, end), np.full(rows.size, end)), end)
        self._waiting.begin_at(end)

    @property
    def longer(self) -> int:
        """How many ticks right rows stay longer than in other joins of a time window: until no left row waits."""
        return self._parts.plan.scope.length("left")

    # -- state and figures ---------------------------------------------------------------------------------------------

    def follow(self, clock: Clock) -> None:
        """Go on from another clock, see `Departures.follow`."""
        self._departures.follow(clock)

    def start_at(self, ordinal: int) -> None:
        """Give the first left row that ordinal."""
        self._waiting.start_at(ordinal)

    def saved(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """Return what the rows of the windows do not tell, as numbers and tables."""
        numbers, tables = self._answers.saved()
        since = pa.table({"since": array_of(np.ascontiguousarray(self._waiting.since))})
        return {"waiting": self._waiting.first, "folded": numbers}, [since, *tables]

    def load(self, stored: StoredValue, tables: list[pa.Table], clock: Clock) -> None:
        """Take what `saved` returned; the windows have their rows again.

        Raises
        ------
        StateError
            If the tables are not those of these windows.
        """
        got, expected = [table.schema for table in tables], self.schemas
        waiting, left, right = stored["waiting"].whole(0), self._windows["left"].rows_seen, self._windows["right"]
        # In a time window no row waits here: event times tell which do.
        rows = 0 if self._counted is None else left - self._counted.first("left", left)
        first = 0 if self._counted is None else left - rows
        if got != expected or (tables[0].num_rows, waiting) != (rows, first):
            listed = f"the snapshot lists {tables[0].num_rows} waiting left rows from ordinal {waiting}"
            msg = f"{listed}, but the join has {left} left rows, of which {rows} from ordinal {first} wait"
            raise StateError(msg)
        since = int64s(tables[0].column(0), right.first, right.rows_seen, "the first rows that waiting rows see")
        if bool((since[1:] < since[:-1]).any()):
            msg = "the first rows that waiting rows see do not ascend"
            raise StateError(msg)
        self._departures.load(self._windows, clock)
        self._waiting.start_at(waiting)
        self._waiting.room(rows)[:] = since
        # Rows that wait, and rows to come, see none of the right rows that were folded.
        visible = 0 if self._counted is None else self._counted.first("right", right.rows_seen)
        until = min(visible, int(since[0])) if rows else visible
        self._answers.load(stored["folded"], tables[1:], range(waiting, waiting + rows), until)

    @property
    def schemas(self) -> list[pa.Schema]:
        """The schemas of the saved tables."""
        return [pa.schema([("since", pa.int64())]), *self._answers.schemas]

    @property
    def nbytes(self) -> int:
        """Bytes that the rows of the windows do not take."""
        return self._departures.nbytes + self._waiting.nbytes + self._answers.nbytes

    def growth(self, rows: Mapping[Side, int]) -> int:
        """Return by how many bytes so many rows of each side make it grow at most, unless rows fold."""
        right = rows["left" if self._parts.plan.config.self_join else "right"]
        return self._departures.growth(rows) + self._waiting.growth(rows["left"]) + self._answers.growth(right)


def answers_of(parts: JoinParts) -> NearestAnswers | AggregateAnswers:
    """Return what answers the left rows of a join."""
    return NearestAnswers(parts) if isinstance(parts.plan.rule, NearestRule) else AggregateAnswers(parts)


def insert_rows(parts: JoinParts, part: Push, first: dict[Side, int]) -> None:
    """Insert the rows of a slice with ordinals from `first` on."""
    source: Side = "left" if parts.plan.config.self_join else "right"
    with parts.stats.step("insert"):
        parts.windows["left"].append(part.tables["left"], part.times["left"], first["left"])
        parts.windows["right"].append(part.tables[source], part.times[source], first["right"])
        if parts.latest is not None:
            parts.latest.take(part.tables[source], first["right"])


def _inverse(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each place went: the permutation that undoes another one."""
    inverse = np.empty_like(order)
    inverse[order] = np.arange(order.size)
    return inverse


NO_ROWS = np.empty(0, np.int64)


class RequestedPath:
    """Inserts any slice of arrivals, and answers left rows of the window on request.

    Right rows are those of the window: the caller stores them as long as a left row that waits may meet them.

    Parameters
    ----------
    parts : JoinParts
    """

    def __init__(self, parts: JoinParts) -> None:
        self._parts, self._answers = parts, answers_of(parts)

    def run(self, part: Push, first: dict[Side, int]) -> Generator[pa.Table]:
        """Insert the rows of a slice with ordinals from `first` on; nothing is emitted."""
        self.insert(part, first)
        yield from ()

    def insert(self, part: Push, first: dict[Side, int]) -> None:
        """Insert the rows of a slice with ordinals from `first` on."""
        insert_rows(self._parts, part, first)

    def answers(self, rows: NDArray[np.int64]) -> Generator[pa.Table]:
        """Yield the answers of left rows, (n,) int64 ordinals, ascending, in bounded tables."""
        for left in self._parts_of(rows):
            yield from self._answers.tables(left, None)

    def partial(self, rows: NDArray[np.int64]) -> Generator[pa.Table]:
        """Yield what these left rows have among the right rows here, where they have more elsewhere.

        Nearest matches are as in answers; of aggregates there are states, see `aggregate_states`.
        """
        answers = self._answers
        for left in self._parts_of(rows):
            yield from answers.tables(left, None) if isinstance(answers, NearestAnswers) else answers.partial(left)

    def _parts_of(self, rows: NDArray[np.int64]) -> Iterator[Intervals]:
        left, most = self._intervals(rows), self._answers.most_rows
        for first in range(0, rows.size, most):
            yield left.part(first, first + most)

    def _intervals(self, rows: NDArray[np.int64]) -> Intervals:
        """Return which right rows each left row meets: of a time window all, of which the time scope is a term."""
        right, scope = self._parts.windows["right"], self._parts.plan.scope
        if not isinstance(scope, CountScope):
            return Intervals(rows, np.full(rows.size, right.first), np.full(rows.size, right.rows_seen))
        numbers, window = (scope.ordinal, scope.seen), scope.window
        taken = self._parts.windows["left"].payload.take(numbers, rows)
        ordinals, seen = (np.asarray(column).astype(np.int64) for column in taken.columns)
        others, others_seen = _columns(right.payload, numbers)
        # From the first one that the row saw as it arrived, to the last one that arrived before the row expired.
        since = np.searchsorted(others, first_seen(window, "right", seen))
        until = np.searchsorted(others_seen, displacing(window, "left", ordinals), side="right")
        return Intervals(rows, right.first + since, right.first + until)


def _columns(payload: Payload, names: Sequence[str]) -> list[NDArray[np.int64]]:
    """Return columns of numbers of all rows, (rows,) each."""
    tables = [piece.table for piece in payload]
    return [np.concatenate([NO_ROWS, *(np.asarray(table.column(name)) for table in tables)]) for name in names]
