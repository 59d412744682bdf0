"""Arrival order over many streams: how the rows of a push are ordered and cut, and which of them are late."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.operator.ingest.arrival import NO_TIME, newest_times, numbers, ranks_without
from slidejoin.operator.ingest.ingest import columns_of
from slidejoin.plan.window_term import saturating_add
from slidejoin.rows.held_types import held
from slidejoin.rows.reorder import rows_at
from slidejoin.rows.widths import SLICE, chunked, in_one_chunk, widths_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.plan.multiway.multi_plan import MultiPlan

__all__ = ["ArrivedRows", "MultiClock", "MultiPush", "slices_of", "take_rows"]


@dataclass(frozen=True, slots=True)
class ArrivedRows:
    """The rows of one stream in a push, in arrival order.

    Attributes
    ----------
    table : pyarrow.Table
        As they are held.
    ranks : (n,) int64
        Their places in the order over all streams, ascending.
    times : (n,) int64 or None
        Their event times in ticks; None for count windows.
    """

    table: pa.Table
    ranks: NDArray[np.int64]
    times: NDArray[np.int64] | None

    @property
    def rows(self) -> int:
        """How many."""
        return int(self.ranks.size)

    def between(self, first: int, last: int) -> ArrivedRows:
        """Return the rows with ranks first…last-1, which are counted from `first` on."""
        begin, end = (int(at) for at in np.searchsorted(self.ranks, (first, last)))
        return ArrivedRows(
            self.table.slice(begin, end - begin),
            self.ranks[begin:end] - first,
            None if self.times is None else self.times[begin:end],
        )


@dataclass(frozen=True, slots=True)
class MultiPush:
    """Rows of all streams, late ones gone.

    Attributes
    ----------
    streams : tuple of ArrivedRows
    rows : int
        Of all streams.
    null_time_rows, late_rows : int
        Rows that were left out.
    """

    streams: tuple[ArrivedRows, ...]
    rows: int
    null_time_rows: int = 0
    late_rows: int = 0

    def between(self, first: int, last: int) -> MultiPush:
        """Return the rows with ranks first…last-1."""
        if (first, last) == (0, self.rows):
            return self
        return MultiPush(tuple(one.between(first, last) for one in self.streams), last - first)

    def owners(self) -> NDArray[np.int8]:
        """Return the stream of each arrival, (rows,) int8."""
        owners = np.empty(self.rows, np.int8)
        for number, one in enumerate(self.streams):
            owners[one.ranks] = number
        return owners


def slices_of(plan: MultiPlan, push: MultiPush) -> Iterator[MultiPush]:
    """Cut a push into slices of its arrival order, of no more rows than the windows hold: they are inserted at once."""
    if not push.rows:
        return
    least, step = plan.tuning.smallest_slice, plan.tuning.largest_slice
    if plan.spec.counted:
        step = min(max(sum(window.right for window in plan.spec.windows), least), step)  # type: ignore[misc]  # of rows
    else:
        step = min(max(_at_once(plan, push), least), step)
    if any(map(chunked, (one.table for one in push.streams))):
        # Tables too large for one Arrow array a column are small enough in slices.
        widest = sum(widths_of(one.table).nbytes for one in push.streams)
        step = max(min(step, push.rows * SLICE.nbytes // (4 * max(widest, 1))), 1)
    for first in range(0, push.rows, step):
        part = push.between(first, min(first + step, push.rows))
        yield type(part)(
            tuple(type(one)(in_one_chunk(one.table), one.ranks, one.times) for one in part.streams), part.rows
        )


def _at_once(plan: MultiPlan, push: MultiPush) -> int:
    """Return how many of the rows the windows of all streams hold at once, as far as their event times say."""
    times = [one.times for one in push.streams if one.times is not None and one.times.size]
    span = max(int(own.max()) for own in times) - min(int(own.min()) for own in times)
    return push.rows * sum(scope.right_length for scope in plan.scopes) // max(span, 1)


@dataclass(frozen=True, slots=True)
class MultiClock:
    """Watermarks by event time: the largest time seen of each stream, less its lateness; all times in ticks.

    The join's watermark is the smallest of all streams'; there is none while a stream has no row.
    """

    lateness: tuple[int, ...]
    newest: tuple[int, ...]

    @staticmethod
    def of(plan: MultiPlan) -> MultiClock:
        """Return the clock before the first row."""
        return MultiClock(tuple(scope.lateness for scope in plan.scopes), (NO_TIME,) * len(plan.scopes))

    @property
    def watermark(self) -> int | None:
        """The join's watermark."""
        if not self.newest or min(self.newest) == NO_TIME:
            return None
        return min(max(new - late, NO_TIME) for new, late in zip(self.newest, self.lateness, strict=True))

    def advance(
        self, ranks: Sequence[NDArray[np.int64]], times: Sequence[NDArray[np.int64]], rows: int
    ) -> tuple[MultiClock, list[NDArray[np.bool_]]]:
        """Return the clock after these rows, and which of them are late, each judged as it arrives.

        A late row is below its own stream's maximum, so it does not matter whether it advances the clock.
        """
        low: NDArray[np.int64] | None = None
        known = np.ones(rows, np.bool_)
        after = []
        for rank, own, start, lateness in zip(ranks, times, self.newest, self.lateness, strict=True):
            seen = newest_times(start, rank, own, rows)
            after.append(int(seen[-1]))
            known &= seen[:-1] > NO_TIME
            mark = saturating_add(seen[:-1], -lateness)
            low = mark if low is None else np.minimum(low, mark)
        assert low is not None  # noqa: S101 - there are two streams at least
        late = [known[rank] & (own < low[rank]) for rank, own in zip(ranks, times, strict=True)]
        return replace(self, newest=tuple(after)), late


def take_rows(
    plan: MultiPlan,
    clock: MultiClock,
    tables: Sequence[pa.Table],
    by: Mapping[int, NDArray[Any]] | None,
    watermark: int | None = None,
    *,
    own_clock: bool = True,
) -> tuple[MultiPush, MultiClock]:
    """Order the rows, leave out late ones and those without event time, and return them with the clock after them.

    Parameters
    ----------
    tables : sequence of pyarrow.Table
        A table of each stream, with its schema.
    by : dict from int to array, optional
        A sortable value for each row of each stream that has rows, all of one dtype. Without it all rows of the first
        stream arrive, then all of the second, and so on.
    watermark, own_clock
        With ``own_clock=False`` rows are late iff they are below `watermark` (None: none is), and the clock stands
        still: that is the notion of time of an engine around the operator.
    """
    places, ranks = _arranged([table.num_rows for table in tables], by)
    straight = by is None
    stored = [_held(plan, number, table) for number, table in enumerate(tables)]
    null_time = too_late = 0
    times: list[NDArray[np.int64]] = []
    if plan.scopes:
        gone = []
        for number, table in enumerate(stored):
            ticks, valid = plan.scopes[number].ticks("right", columns_of(table))
            times.append(ticks[places[number]])
            gone.append(np.zeros(ticks.size, np.bool_) if valid is None else ~valid[places[number]])
        null_time = sum(int(one.sum()) for one in gone)
        if null_time:
            places, ranks, times, straight = *_without(places, ranks, times, gone), False
        rows = sum(rank.size for rank in ranks)
        if own_clock:
            clock, late = clock.advance(ranks, times, rows)
        else:
            low = np.iinfo(np.int64).min if watermark is None else watermark
            late = [own < low for own in times]
        too_late = sum(int(one.sum()) for one in late)
        if too_late:
            places, ranks, times, straight = *_without(places, ranks, times, late), False
    streams = tuple(
        ArrivedRows(
            in_one_chunk(table if straight else rows_at(table, place)), rank, times[number] if plan.scopes else None
        )
        for number, (table, place, rank) in enumerate(zip(stored, places, ranks, strict=True))
    )
    return MultiPush(streams, sum(rank.size for rank in ranks), null_time, too_late), clock


def _held(plan: MultiPlan, number: int, table: pa.Table) -> pa.Table:
    """Return the columns that are stored, as they are held."""
    names = plan.stored[number].names
    return held(table if table.schema.names == names else table.select(names))


Order = tuple[list["NDArray[np.int64]"], list["NDArray[np.int64]"]]


def _arranged(counts: Sequence[int], by: Mapping[int, NDArray[Any]] | None) -> Order:
    """Return of each stream the places in its batch of its rows in arrival order, and their ranks."""
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    if by is None:
        every = numbers(int(starts[-1]))
        return [numbers(count) for count in counts], [every[begin:end] for begin, end in pairwise(starts.tolist())]
    values = np.concatenate([by[number] for number in sorted(by)] or [np.empty(0, np.int64)])
    order = sorted_order(values) if values.dtype == np.int64 else np.argsort(values, kind="stable")
    places, ranks = [], []
    for begin, end in pairwise(starts.tolist()):
        own = np.flatnonzero((order >= begin) & (order < end))
        ranks.append(own)
        places.append(order[own].astype(np.int64) - begin)
    return places, ranks


def _without(
    places: list[NDArray[np.int64]],
    ranks: list[NDArray[np.int64]],
    times: list[NDArray[np.int64]],
    gone: list[NDArray[np.bool_]],
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Leave out the marked rows; ranks are consecutive again."""
    return (
        [place[~away] for place, away in zip(places, gone, strict=True)],
        ranks_without(ranks, gone),
        [own[~away] for own, away in zip(times, gone, strict=True)],
    )
