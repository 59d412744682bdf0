"""Departures: which stored rows leave the window with which arrival, after which no row can match them any more.

- **Count window**: left row ``o`` leaves with left row ``(o // slide + 1) * slide - 1 + size``, the one that displaces
  its block; right rows alike. This follows from ordinals alone, so nothing is stored.
- **Time window**: a row leaves with the first arrival after which the watermark exceeds its event time plus its length.
  The watermark of successive arrivals only rises, so a binary search locates the arrival; the rows that wait for it
  are `AgingRows`.

A row may leave with an arrival of the slice that it came with. On Spark the watermark stands still within a micro-batch
and the bucket looks for what has left itself, see `slidejoin.spark.bucket.unmatched_rows`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.operator.ingest.arrival import Clock
from slidejoin.operator.ingest.kernels.clocks import rank_ages, watch_clocks
from slidejoin.plan.window_term import TimeScope, displacing, saturating_add
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.operator.ingest.arrival import Arrivals
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spec.window import CountWindow

__all__ = ["AgingRows", "CountDepartures", "Departed", "Departures", "TimeDepartures", "Wanted", "departures_of"]

NO_ROWS = np.empty(0, np.int64)

Wanted: TypeAlias = "Callable[[Side, NDArray[np.int64]], NDArray[np.int64]]"
"""Returns the places of those ordinals of a side, (n,) int64, that are looked for."""


def _everything(side: Side, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:  # noqa: ARG001 - see `Wanted`
    return np.arange(ordinals.size)


class Departed(NamedTuple):
    """Rows that left with the arrivals of a slice: by arrival, left ones first, then by ordinal.

    Attributes
    ----------
    ranks : (n,) int64, ascending
        The arrival that each left with: its place in the slice's order over both sides.
    by_left : (n,) bool
        Whether it is a left row.
    ordinals : (n,) int64
    """

    ranks: NDArray[np.int64]
    by_left: NDArray[np.bool_]
    ordinals: NDArray[np.int64]

    def at(self, places: NDArray[np.int64]) -> Departed:
        """Return those in these places, (m,) int64."""
        return Departed(self.ranks[places], self.by_left[places], self.ordinals[places])

    def cut(self, first: int, last: int | None) -> Departed:
        """Return those from place `first` on, up to `last`."""
        part = slice(first, last)
        return Departed(self.ranks[part], self.by_left[part], self.ordinals[part])

    @staticmethod
    def of(ranked: Mapping[Side, tuple[NDArray[np.int64], NDArray[np.int64]]]) -> Departed:
        """Put the ranks and ordinals (n,) int64 of each side in order."""
        if len(ranked) == 1:
            ((side, (ranks, ordinals)),) = ranked.items()
            if bool((ranks[1:] >= ranks[:-1]).all()):
                return Departed(ranks, np.full(ranks.size, side == "left"), ordinals)
        ranks = np.concatenate([NO_ROWS, *(one for one, _ in ranked.values())])
        ordinals = np.concatenate([NO_ROWS, *(one for _, one in ranked.values())])
        by_left = np.repeat([side == "left" for side in ranked], [one.size for one, _ in ranked.values()]).astype(bool)
        if len(ranked) > 1 or not bool((ranks[1:] >= ranks[:-1]).all()):
            order = np.lexsort((ordinals, ~by_left, ranks))
            return Departed(ranks[order], by_left[order], ordinals[order])
        return Departed(ranks, by_left, ordinals)


class Departures(ABC):
    """The departures of some sides' rows.

    Parameters
    ----------
    plan : Plan
    sides : sequence of {"left", "right"}
        Whose rows are looked for.
    """

    def __init__(self, plan: Plan, sides: Sequence[Side]) -> None:
        self.sides = tuple(sides)
        self._self_join = plan.config.self_join

    def _source(self, side: Side) -> Side:
        """Return the side under which rows of a side arrive: those of a self-join as left."""
        return "left" if self._self_join else side

    @abstractmethod
    def arrive(
        self,
        arrivals: Arrivals,
        times: Mapping[Side, NDArray[np.int64] | None],
        first: Mapping[Side, int],
        wanted: Wanted = _everything,
        marks: NDArray[np.int64] | None = None,
    ) -> Departed:
        """Take the arrivals of the next slice and return what leaves with them, rows of this slice included.

        Parameters
        ----------
        arrivals : Arrivals
            The slice's order; no row of it is late.
        times : mapping from side to (n,) int64 or None
            Event times in that order, of a time window.
        first : mapping from side to int
            The ordinal of the first row of each side.
        wanted : callable
            Chooses among the rows that leave; the others leave unseen. Most are not wanted where few lack a match.
        marks : (rows,) int64, optional
            The join's watermark after each arrival, where it does not follow from the event times.
        """

    def follow(self, clock: Clock) -> None:  # noqa: B027 - a count window has no clock
        """Go on from another clock: the next arrivals come after it."""

    @abstractmethod
    def remaining(self, side: Side, seen: int) -> NDArray[np.int64]:
        """Return the ordinals of the rows of a side that have not left, ascending; it has had `seen` rows."""

    @abstractmethod
    def load(self, windows: Mapping[Side, SideWindow], clock: Clock) -> None:
        """Go on with the rows of loaded windows; what had left by then follows from ordinals or from the clock."""

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return 0

    def growth(self, rows: Mapping[Side, int]) -> int:  # noqa: ARG002 - see `TimeDepartures`
        """Return by how many bytes so many rows of each side make it grow at most."""
        return 0


class CountDepartures(Departures):
    """Departures from a count window."""

    def __init__(self, plan: Plan, sides: Sequence[Side], window: CountWindow) -> None:
        super().__init__(plan, sides)
        self._window = window

    def arrive(
        self,
        arrivals: Arrivals,
        times: Mapping[Side, NDArray[np.int64] | None],  # noqa: ARG002 - of time windows
        first: Mapping[Side, int],
        wanted: Wanted = _everything,
        marks: NDArray[np.int64] | None = None,  # noqa: ARG002
    ) -> Departed:
        """Return what leaves with the arrivals of a slice, see `Departures`. O(n)."""
        window, ranked = self._window, {}
        for side in self.sides:
            rank = arrivals.rank(self._source(side))
            begin = window.first(side, first[side])
            ordinals = np.arange(begin, window.first(side, first[side] + rank.size))
            ordinals = begin + wanted(side, ordinals)
            ranked[side] = rank[displacing(window, side, ordinals) - first[side]], ordinals
        return Departed.of(ranked)

    def remaining(self, side: Side, seen: int) -> NDArray[np.int64]:
        """Return the ordinals of the rows in the window."""
        return np.arange(self._window.first(side, seen), seen)

    def load(self, windows: Mapping[Side, SideWindow], clock: Clock) -> None:
        """Do nothing: ordinals tell."""


COLLECTED_ROWS = 1 << 12
"""Rows that are collected before they are sorted."""

ROW_BYTES = 16
"""Of a row: its ordinal and its time."""


class AgingRows:
    """The ordinals of one side's rows that wait until the watermark has passed them, the oldest event time first.

    Rows lie in chunks, each sorted by event time, in a heap by the oldest time of each chunk: a small push looks at the
    chunks whose oldest row expires and at no others, and rows out of order expire when it is their time.

    Examples
    --------
    >>> rows = AgingRows()
    >>> rows.add(0, np.array([30, 10, 20]))
    >>> [part.tolist() for part in rows.take_below(25)]
    [[1, 2], [10, 20]]
    >>> rows.ordinals().tolist()
    [0]
    """

    def __init__(self) -> None:
        # Of each sorted chunk: its oldest time, a number that no other has, and its rows from that one on.
        self._chunks: list[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]] = []
        self._number = 0
        # The newest rows, not sorted yet: consecutive ones from `_first` on.
        self._open = np.empty(COLLECTED_ROWS, np.int64)
        self._first = self._filled = self._oldest = 0
        self.rows = 0
        """Rows that wait."""

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return self._open.nbytes + ROW_BYTES * self.rows

    def add(self, first: int, times: NDArray[np.int64]) -> None:
        """Add the newest rows: consecutive ordinals from `first` on, with times (n,) int64. O(n log n)."""
        rows = times.size
        if rows == 0:
            return
        self.rows += rows
        if first != self._first + self._filled or self._filled + rows > self._open.size:
            self._close()
            self._first = first
        if rows >= self._open.size:
            # Copied: the times of a push may lie in memory of the caller.
            self._put(np.arange(first, first + rows), times.copy())
            self._first = first + rows
            return
        oldest = int(times.min())
        self._oldest = min(self._oldest, oldest) if self._filled else oldest
        self._open[self._filled : self._filled + rows] = times
        self._filled += rows

    def _close(self) -> None:
        """Sort the newest rows."""
        filled = self._filled
        if filled:
            self._put(np.arange(self._first, self._first + filled), self._open[:filled].copy())
            self._first, self._filled = self._first + filled, 0

    def _put(self, ordinals: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        if not bool((times[1:] >= times[:-1]).all()):
            order = sorted_order(times)
            ordinals, times = ordinals[order], times[order]
        heappush(self._chunks, (int(times[0]), self._number, ordinals, times))
        self._number += 1

    def take_below(self, time: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Take out the rows with smaller times: ordinals and times, (n,) int64, in no promised order."""
        if self._filled and self._oldest < time:
            self._close()
        chunks, ordinals, times = self._chunks, [], []
        while chunks and chunks[0][0] < time:
            _, number, own, ages = chunks[0]
            end = int(np.searchsorted(ages, time))
            ordinals.append(own[:end])
            times.append(ages[:end])
            if end < own.size:
                heapreplace(chunks, (int(ages[end]), number, own[end:], ages[end:]))
            else:
                heappop(chunks)
        if not ordinals:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        expired = np.concatenate(ordinals)
        self.rows -= expired.size
        return expired, np.concatenate(times)

    def ordinals(self) -> NDArray[np.int64]:
        """Return the ordinals of all rows that wait, ascending."""
        newest = np.arange(self._first, self._first + self._filled)
        return np.sort(np.concatenate([*(chunk[2] for chunk in self._chunks), newest]))


class TimeDepartures(Departures):
    """Departures from a time window."""

    def __init__(self, plan: Plan, sides: Sequence[Side]) -> None:
        super().__init__(plan, sides)
        scope = plan.scope
        assert isinstance(scope, TimeScope)  # noqa: S101 - see `departures_of`
        self._scope = scope
        self._clock = Clock(scope.lateness)
        self._rows: dict[Side, AgingRows] = {side: AgingRows() for side in self.sides}

    def arrive(
        self,
        arrivals: Arrivals,
        times: Mapping[Side, NDArray[np.int64] | None],
        first: Mapping[Side, int],
        wanted: Wanted = _everything,
        marks: NDArray[np.int64] | None = None,
    ) -> Departed:
        """Return what leaves with the arrivals of a slice, see `Departures`. O(n log n)."""
        ranked: dict[Side, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        for side in self.sides:
            own = times[self._source(side)]
            if own is not None:
                self._rows[side].add(first[side], own)
        watermarks = self._watermarks(arrivals, times) if marks is None else marks
        for side, rows in self._rows.items():
            # The first event time that is still in the window, after each arrival.
            oldest = saturating_add(watermarks, -self._scope.length(side))
            ordinals, ages = rows.take_below(int(oldest[-1])) if oldest.size else (NO_ROWS, NO_ROWS)
            chosen = wanted(side, ordinals)
            ordinals = ordinals[chosen]
            ranks = np.empty(ordinals.size, np.int64)
            rank_ages(oldest, np.ascontiguousarray(ages[chosen]), ranks)
            order = np.lexsort((ordinals, ranks))
            ranked[side] = ranks[order], ordinals[order]
        return Departed.of(ranked)

    def _watermarks(self, arrivals: Arrivals, times: Mapping[Side, NDArray[np.int64] | None]) -> NDArray[np.int64]:
        """Move the clock over a slice and return the join's watermark after each arrival, NO_TIME for none."""
        clock, given = self._clock, []
        for side in SIDES:
            source = self._source(side)
            own = times[source]
            given.append((NO_ROWS, NO_ROWS) if own is None else (own, arrivals.rank(source)))
        (left, left_rank), (right, right_rank) = given
        clocks, lows = np.array([clock.left, clock.right]), np.empty(arrivals.left.size + arrivals.right.size, np.int64)
        watch_clocks(left, right, left_rank, right_rank, clocks, lows)
        clock.left, clock.right = clocks.tolist()
        return saturating_add(lows, -self._scope.lateness)

    def remaining(self, side: Side, seen: int) -> NDArray[np.int64]:  # noqa: ARG002 - of count windows
        """Return the ordinals of the rows that still wait."""
        return self._rows[side].ordinals()

    def follow(self, clock: Clock) -> None:
        """Go on from another clock: the next arrivals come after it."""
        self._clock.left, self._clock.right = clock.left, clock.right

    def load(self, windows: Mapping[Side, SideWindow], clock: Clock) -> None:
        """Let the rows wait that the watermark has not passed. O(n log n)."""
        self.follow(clock)
        watermark = clock.watermark
        for side in self.sides:
            self._rows[side] = rows = AgingRows()
            for piece in windows[side].payload:
                rows.add(piece.base, self._scope.ticks(self._source(side), by_name(piece.table))[0])
            if watermark is not None:
                rows.take_below(self._scope.oldest(side, watermark))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return sum(rows.nbytes for rows in self._rows.values())

    def growth(self, rows: Mapping[Side, int]) -> int:
        """Return by how many bytes so many rows of each side make it grow at most."""
        return sum(ROW_BYTES * rows[self._source(side)] for side in self.sides)


def departures_of(plan: Plan, sides: Sequence[Side]) -> Departures | None:
    """Return the departures of these sides' rows; None where rows carry their numbers, as in a bucket on Spark."""
    counted = plan.scope.counted
    if counted is not None:
        return CountDepartures(plan, sides, counted)
    return TimeDepartures(plan, sides) if isinstance(plan.scope, TimeScope) else None
