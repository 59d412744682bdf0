"""CellJoin's window with an index for each basic window: each worker searches those of its own.

The paper's workers scan. Any index returns the same rows: a basic window is then as many rows as one index holds, rows
are inserted into the newest one, and whole ones expire, so that pointers divide them as they divide basic windows that
are scanned. Hash buckets are divided each by pointers of its own, see `papers.cell_join.hash_buckets`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import MatchesOfParts
from slidejoin.index.keys import RowKeys
from slidejoin.index.protocol import Occupancy, Request, Unfit
from slidejoin.index.union.answers import BranchRows
from slidejoin.papers.cell_join.basic_windows.divided import DividedList, GuardedMatches
from slidejoin.papers.cell_join.basic_windows.pointers import Pointers
from slidejoin.runtime.threads import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.keys import Prepared
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index

__all__ = ["IndexedWindow"]

ALONE = Workers(1)
"""A worker is one thread."""

EACH = 2
"""Basic windows for each worker: every probe looks in all of them, so there are as few as still spread the load."""

FEWEST_ROWS = 1 << 10
"""Rows of a basic window, unless it was set: smaller ones cost more to ask than to search."""

ASKED, PROBED = 30_000.0, 60.0
"""Nanoseconds that a batch costs in each basic window whatever its size, and each probe: orders of magnitude."""


@dataclass(slots=True, eq=False)
class BasicWindow:
    """One basic window.

    Attributes
    ----------
    index : Index
    first, end : int
        The ordinal of its first row, and the one behind its last.
    size, rows : int
        How many rows it takes, and how many it has.
    taken : int
        The ordinal before which its index has taken all rows: `end`, unless they move to another one.
    largest : (1 + dims,) int64
        The largest key and the largest value in each further dimension.
    lock : Lock
        Held by the thread that asks the index.
    """

    index: Index
    first: int
    end: int
    size: int
    largest: NDArray[np.int64]
    rows: int = 0
    taken: int = 0
    lock: Lock = field(default_factory=Lock)

    @property
    def occupancy(self) -> Occupancy:
        """Which ordinals it holds."""
        return Occupancy(self.first, self.end, self.rows, self.size)


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows of one basic window, prepared for its index; `fresh` is the basic window if they are its first."""

    first: int
    end: int
    prepared: Prepared
    largest: NDArray[np.int64]
    fresh: BasicWindow | None


@dataclass(frozen=True, slots=True)
class Portions:
    """Rows as the basic windows take them."""

    parts: tuple[Portion, ...]
    rows: int
    end: int

    def orders(self, around: tuple[int, int], rows: int) -> bool:  # noqa: ARG002 - see Prepared
        """Return False: each basic window has an order of its own."""
        return False


class IndexedWindow(DividedList):
    """The index of one side's window, see `DividedIndex`.

    Parameters
    ----------
    name : str
        What each basic window uses.
    make : callable
        Makes an empty index of that kind.
    window : Occupancy
        Which ordinals the window holds.
    workers : int
    rows : int or None
        Rows of a basic window; None for what spreads the load.
    time : int or None
        Where branches of OR have an index each, the dimension by which rows of a time window expire.
    old : IndexedWindow, optional
        Whose basic windows this one takes over.
    """

    refits = True

    def __init__(
        self,
        name: str,
        make: Callable[[Occupancy], Index],
        window: Occupancy,
        workers: int,
        rows: int | None,
        time: int | None = None,
        old: IndexedWindow | None = None,
    ) -> None:
        self.name = name
        self._make, self._capacity, self._fixed, self._time = make, window.capacity, rows, time
        self._windows: list[BasicWindow] = []
        self._end = self._floor = window.first
        self.pointers = Pointers(workers)
        alike = make(Occupancy(window.first, window.first, 0, 1))
        self.spans_ordinals, self.dear_probes = alike.spans_ordinals, alike.dear_probes
        self._none_spilled = alike.spilled
        if old is not None:
            self.pointers, self.shifting = old.pointers, old.shifting
            self._windows, self._end, self._floor = list(old._windows), old._end, old._floor  # noqa: SLF001

    @property
    def windows(self) -> Sequence[BasicWindow]:
        """The basic windows, oldest first."""
        return self._windows

    @property
    def basic_windows(self) -> int:
        """How many there are now."""
        return len(self._windows)

    def _new(self, first: int, live: int) -> BasicWindow:
        """Return an empty basic window, for a window of so many rows."""
        size = self._fixed
        if size is None:
            rows = live if self._capacity is None else self._capacity
            size = max(-(-rows // (EACH * self.pointers.workers)), FEWEST_ROWS)
        # Made for all of its rows at once: it will have them soon.
        index = self._make(Occupancy(first, first + size, size, size))
        index.skip_to(first)
        return BasicWindow(index, first, first, size, np.empty(0, np.int64), 0, first)

    # -- insert ------------------------------------------------------------------------------------------------------

    def prepare(self, rows: RowKeys, first: int) -> Portions:
        """Divide the rows among the newest basic window and new ones, and prepare each's share, see `Index`."""
        parts, end = [], first + rows.rows
        if first < self._end:
            # The rows move to other indexes of some basic windows.
            for window in self._windows:
                low, high = max(first, window.first), min(end, window.end)
                if low < high and window.taken <= low:
                    parts.append(self._portion(window, rows, first, low, high))
        at, live = max(first, self._end), sum(window.rows for window in self._windows)
        if self._windows and at < end:
            newest = self._windows[-1]
            some = min(newest.size - newest.rows, end - at)
            if some:
                parts.append(self._portion(newest, rows, first, at, at + some))
                at += some
        while at < end:
            fresh = self._new(at, live + at - first)
            some = min(fresh.size, end - at)
            parts.append(self._portion(fresh, rows, first, at, at + some, fresh=True))
            at += some
        return Portions(tuple(parts), rows.rows, end)

    def _portion(
        self, window: BasicWindow, rows: RowKeys, first: int, low: int, high: int, *, fresh: bool = False
    ) -> Portion:
        own = cut(rows, low - first, high - first)
        timed = own.branches[0] if own.branches else own
        largest = np.concatenate([timed.keys.max(keepdims=True), timed.aux.max(axis=0)])
        return Portion(low, high, window.index.prepare(own, low), largest, window if fresh else None)

    def insert(self, rows: Prepared, live: int) -> None:  # noqa: ARG002 - each basic window has a size of its own
        """Insert the newest rows, see `Index`."""
        assert isinstance(rows, Portions)  # noqa: S101 - as `prepare` gave them
        for part in rows.parts:
            if part.fresh is not None:
                self._windows.append(part.fresh)
            window = self._window_of(part)
            if part.end > window.end:
                window.rows += part.end - part.first
                window.end = part.end
            window.index.insert(part.prepared, window.rows)
            window.taken = part.end
            window.largest = np.maximum(window.largest, part.largest) if window.largest.size else part.largest
        self._end = max(self._end, rows.end)

    def _window_of(self, part: Portion) -> BasicWindow:
        """Return the basic window that a portion belongs to: another one may stand in its place by now."""
        at = len(self._windows) - 1
        while self._windows[at].first > part.first:
            at -= 1
        return self._windows[at]

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one: rows that have expired already."""
        for window in self._windows:
            if window.taken < min(ordinal, window.end):
                window.taken = min(ordinal, window.end)
                window.index.skip_to(window.taken)
        if ordinal > self._end:
            self._end = ordinal
            if self._windows and self._windows[-1].rows < self._windows[-1].size:
                newest = self._windows[-1]
                newest.index.skip_to(ordinal)
                newest.taken = newest.end = ordinal

    # -- expire ------------------------------------------------------------------------------------------------------

    def expire(self, ordinal: int) -> None:
        """Drop the basic windows whose rows all come before that ordinal."""
        self._floor = max(self._floor, ordinal)
        windows, gone = self._windows, 0
        while gone < len(windows) and windows[gone].end <= ordinal:
            gone += 1
        del windows[:gone]
        if windows and windows[0].first < ordinal:
            windows[0].index.expire(ordinal)

    def expire_below(self, dimension: int, value: int, first: int) -> None:
        """Drop the basic windows whose largest value in a dimension is smaller; -1 is the key itself.

        Any may expire, not only the oldest: one row with a time far ahead must not keep all newer ones.
        """
        at = (dimension if self._time is None else self._time) + 1
        self._windows = [one for one in self._windows if one.end > first and one.largest[at] >= value]
        self._floor = max(self._floor, first)
        for window in self._windows:
            window.index.expire_below(dimension, value, first)

    # -- probe -------------------------------------------------------------------------------------------------------

    def ask(self, worker: int, batch: ProbeBatch, request: Request) -> BatchMatches:
        """Ask the indexes of one worker, see `DividedIndex`."""
        alone = request._replace(start=0, share=max(len(batch), 1), workers=ALONE)
        oldest, _, _, newest = batch.seen_by_ends() if len(batch) else (0, 0, 0, 0)
        numbers = self.pointers.of(worker)
        begin = numbers.start - self.pointers.first
        own = self._windows[begin : begin + len(numbers)]
        seen = [window for window in own if window.end > oldest and window.first < newest]
        return MatchesOfParts(len(batch), [_found(window, batch, alone) for window in seen])

    def nanoseconds(self, probes: int) -> float:
        """Estimate how long so many probes take all workers together."""
        return len(self._windows) * (ASKED + PROBED * probes)

    @property
    def inexact(self) -> frozenset[int]:
        """Terms of which some key here was clipped."""
        return frozenset().union(*(window.index.inexact for window in self._windows))

    @property
    def floor(self) -> int:
        """Ordinal of the oldest row that may be here."""
        return self._floor

    # -- size --------------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return sum(window.index.nbytes for window in self._windows)

    def growth(self, window: Occupancy, rows: int, keys: NDArray[np.int64] | None) -> int:  # noqa: ARG002 - see Index
        """Return by how many bytes that many more rows make it grow at most."""
        whole = keys if keys is not None and keys.size == rows else None
        live, at, total = sum(one.rows for one in self._windows), 0, 0
        if self._windows:
            newest = self._windows[-1]
            at = min(newest.size - newest.rows, rows)
            total = newest.index.growth(newest.occupancy, at, None if whole is None else whole[:at]) if at else 0
        while at < rows:
            fresh = self._new(self._end + at, live + at)
            some = min(fresh.size, rows - at)
            more = fresh.index.growth(fresh.occupancy, some, None if whole is None else whole[at : at + some])
            # As many more as are as full as this one, at once.
            times = max((rows - at) // some, 1) if self._fixed is not None or self._capacity is not None else 1
            total += times * (fresh.index.nbytes + more)
            at += times * some
        return total

    def refitted(self, window: Occupancy, why: Unfit, coming: int = 0) -> IndexedWindow | None:
        """Return an index with other basic windows where these do not suit, see `Index`; whole ones expire."""
        numbers = {Unfit.INDISTINCT: range(len(self._windows)), Unfit.FULL: range(len(self._windows))[-1:]}.get(why, ())
        windows = {at: self._windows[at] for at in numbers}
        return self._replaced(
            {
                at: one.index.refitted(one.occupancy, why, min(coming, one.size - one.rows))
                for at, one in windows.items()
            },
            window,
        )

    def _replaced(self, indexes: dict[int, Index | None], window: Occupancy) -> IndexedWindow | None:
        """Return an index with empty ones in some basic windows, which alone take the rows that are inserted again."""
        if all(index is None for index in indexes.values()):
            return None
        new = IndexedWindow(
            self.name, self._make, window._replace(capacity=self._capacity), self.pointers.workers, self._fixed,
            self._time, self,
        )  # fmt: skip
        for at, index in indexes.items():
            if index is not None:
                one = self._windows[at]
                index.skip_to(one.first)
                new._windows[at] = BasicWindow(
                    index, one.first, one.end, one.size, one.largest, one.rows, one.first
                )  # fmt: skip
        return new

    # -- explanation -------------------------------------------------------------------------------------------------

    def explain(self) -> str | None:
        """Return how large basic windows are and who has how many, in words."""
        if not self._windows:
            return None
        self.divide()
        sizes = ", ".join(f"{size:,}" for size in sorted({window.size for window in self._windows}))
        counts = ", ".join(map(str, self.pointers.counts))
        inside = self._windows[0].index.explain()
        because = "as set" if self._fixed else f"{EACH} for each worker"
        text = f"basic windows: {len(self._windows)} of {sizes} rows ({because}), {counts} for each worker"
        return text if inside is None else f"{text}\noldest basic window, {inside}"

    @property
    def spilled(self) -> int | None:
        """Rows that did not fit into their bucket so far; None of an index without buckets."""
        every = [spilled for one in self._windows if (spilled := one.index.spilled) is not None]
        return sum(every) if every else self._none_spilled


def cut(rows: RowKeys, first: int, last: int) -> RowKeys:
    """Return rows first…last-1."""
    if (first, last) == (0, rows.rows):
        return rows
    matchable = None if rows.matchable is None else rows.matchable[first:last]
    branches = tuple(cut(branch, first, last) for branch in rows.branches)
    return RowKeys(rows.keys[first:last], rows.aux[first:last], matchable, rows.inexact, branches)


def _found(window: BasicWindow, batch: ProbeBatch, request: Request) -> BatchMatches:
    """Return what the index of a basic window finds for a batch."""
    with window.lock:
        probing = window.index.probe(batch, request)
        for task in probing.tasks:
            task()
        answer = probing.answer()
        if answer.positions is None and answer.ranges is not None:
            return GuardedMatches(answer.ranges, window.lock)
        rows = BranchRows(0, window.index, batch, request, answer, None)
        return GuardedMatches(rows, window.lock)
