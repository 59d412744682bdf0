"""The index of a window whose rows pass a chain of cores: each core has a segment, and hands its oldest rows on.

::

    rows ─▶ segment 0 ─▶ segment 1 ─▶ … ─▶ segment k-1 ─▶ they leave the window
            newest                         oldest

A segment is consecutive rows of one side. It has an index of any kind for them, with the ordinals of the stream, and
their keys in the order in which they came: these are what it hands on when it has more than its share of the window.
(Handshake join, as SplitJoin describes it in sections 1 and 2, after Teubner and Mueller.)
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.keys import RowKeys
from slidejoin.index.protocol import Occupancy
from slidejoin.papers.split_join.cores.cores_index import CoresIndex, DealtRows, Region

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.keys import Prepared
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index, Request
    from slidejoin.papers.split_join.cores.found import FoundInCore

__all__ = ["ChainIndex", "WindowSegment"]

SMALL = 1 << 8
"""Rows of a parcel of keys up to which the next ones are put behind them: a row alone would take ten times its keys."""


class WindowSegment(Region):
    """One core's consecutive rows of one side's window.

    Parameters
    ----------
    index : Index
    place, places : int
        How many cores the rows have passed when they come here, and how many there are.
    first : int
        Ordinal of the first row.
    row_bytes : int
        Of the keys of a row.

    Attributes
    ----------
    first, taken : int
        The ordinals here are first…taken-1.
    """

    __slots__ = ("_kept", "_keys", "_row_bytes", "first", "place", "places")

    def __init__(self, index: Index, place: int, places: int, first: int, row_bytes: int) -> None:
        # Its index numbers rows as the stream does, as if it were the only core.
        super().__init__(index, 0, 1, first)
        self.place, self.places, self.first = place, places, first
        self._keys: deque[DealtRows] = deque()
        self._row_bytes, self._kept = row_bytes, 0

    def _border(self, place: int, end: int, live: int) -> int:
        """Return the oldest ordinal of that place's share, of so many rows that live before `end`."""
        return end - (place + 1) * -(-live // self.places)

    def pass_on(self, coming: Iterable[DealtRows], end: int, live: int) -> list[DealtRows]:
        """Take rows, and return the oldest ones above its share, which the next core takes.

        Parameters
        ----------
        coming : iterable of DealtRows
            From the core before, oldest first.
        end : int
            Ordinal of the row to come into the window.
        live : int
            Rows in the window.
        """
        for rows in coming:
            self._keep(rows)
        leaving: list[DealtRows] = []
        border = self._border(self.place, end, live)
        if self.place + 1 < self.places and border > self.first:
            for rows in self._keys:
                if rows.first >= border:
                    break
                part = _between(rows, self.first, border)
                leaving += [] if part is None else [part]
            self.expire(border)
        for rows in self._newest():
            self._insert(rows)
        return leaving

    def _keep(self, rows: DealtRows) -> None:
        """Keep the keys of rows in memory of their own: they may be parts of what a user has pushed."""
        self._kept += rows.rows
        if self._keys and self._keys[-1].rows < SMALL and self._keys[-1].first + self._keys[-1].rows == rows.first:
            before = self._keys.pop()
            self._keys.append(DealtRows(_copied([before.keys, rows.keys]), before.first))
        else:
            self._keys.append(rows if self.place else DealtRows(_copied([rows.keys]), rows.first))

    def _newest(self) -> list[DealtRows]:
        """Return the rows that its index has not taken."""
        found: list[DealtRows] = []
        for rows in reversed(self._keys):
            if rows.first + rows.rows <= self.taken:
                break
            part = _between(rows, max(self.taken, self.first), rows.first + rows.rows)
            found += [] if part is None else [part]
        return found[::-1]

    def _insert(self, rows: DealtRows) -> None:
        self.index.skip_to(rows.first)
        self.taken = rows.first + rows.rows
        self.index.insert(self.index.prepare(rows.keys, rows.first), self.taken - self.first)

    def process(self, batch: ProbeBatch, request: Request, least: int = 0) -> FoundInCore:
        """Answer all probes of a batch among the rows of this core."""
        # Its index may still have rows that were handed on: the next core finds those.
        from_here = len(batch) > 0 and int(batch.probes.seen_from[0]) < self.first
        return super().process(batch, request, self.first if from_here else least)

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals of the stream before that one, where rows enter; what comes here later skips by itself."""
        if self.place == 0:
            super().skip_to(ordinal)

    def expire(self, ordinal: int) -> None:
        """Expire the rows before that ordinal of the stream, or those that were handed on."""
        self._drop(ordinal)
        self.index.expire(min(self.first, self.taken))

    def expire_below(self, dimension: int, value: int, first: int) -> None:
        """Expire the rows with a smaller time, see `Index`."""
        self._drop(first)
        self.index.expire_below(dimension, value, min(self.first, self.taken))

    def _drop(self, ordinal: int) -> None:
        self.first = max(self.first, ordinal)
        while self._keys and self._keys[0].first + self._keys[0].rows <= self.first:
            self._kept -= self._keys.popleft().rows

    # -- size --------------------------------------------------------------------------------------------------------

    def occupancy(self, window: Occupancy) -> Occupancy:
        """Return which rows are here."""
        capacity = None if window.capacity is None else -(-window.capacity // self.places)
        first = min(self.first, self.taken)
        return Occupancy(first, self.taken, self.taken - first, capacity)

    def coming(self, window: Occupancy, rows: int) -> int:
        """Return how many rows its index takes at most when so many more come into the window."""
        end, live = window.next + rows, window.rows + rows
        oldest = self._border(self.place, end, live) if self.place + 1 < self.places else self.taken
        return max(self._border(self.place - 1, end, live) - max(oldest, self.taken), 0)

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return self.index.nbytes + self._row_bytes * self._kept

    def growth(self, window: Occupancy, rows: int) -> int:
        """Return by how many bytes it grows at most when so many more rows come into the window."""
        return super().growth(window, rows) + self._row_bytes * self.coming(window, rows)

    def replaced(self, index: Index, window: Occupancy) -> WindowSegment:  # noqa: ARG002 - as of `Region`
        """Return the same rows with another index, which takes them now."""
        new = WindowSegment(index, self.place, self.places, self.first, self._row_bytes)
        new._keys, new._kept = self._keys.copy(), self._kept
        for rows in new._newest():
            new._insert(rows)
        new.taken = max(new.taken, self.taken)
        index.skip_to(new.taken)
        return new


class ChainIndex(CoresIndex):
    """The index of one side's window; its regions are segments, in the order in which rows pass them."""

    regions: list[WindowSegment]  # type: ignore[assignment] # as `along` made them

    @staticmethod
    def along(
        make: Callable[[Occupancy], Index], window: Occupancy, name: str, cores: int, fan_in: int, row_bytes: int
    ) -> ChainIndex:
        """Return an index with so many segments; `make` makes the index of one of them."""
        capacity = None if window.capacity is None else -(-window.capacity // cores)
        segments = []
        for place in range(cores):
            index = make(Occupancy(window.first, window.first, -(-window.rows // cores), capacity))
            segments.append(WindowSegment(index, place, cores, window.first, row_bytes))
        return ChainIndex(name, segments, fan_in, alone=True)

    def insert(self, rows: Prepared, live: int) -> None:
        """Insert the newest rows where they enter, and let all segments pass on what is above their share."""
        assert isinstance(rows, DealtRows)  # noqa: S101 - as `prepare` gave them
        end = rows.first + rows.rows
        if end <= self.regions[0].taken:
            return  # they are here: the index of some segment was replaced
        passing = [rows]
        for segment in self.regions:
            passing = segment.pass_on(passing, end, live)


def _between(rows: DealtRows, first: int, end: int) -> DealtRows | None:
    """Return those of the rows with ordinals first…end-1, None if there are none; they own their memory."""
    low, high = max(rows.first, first), min(rows.first + rows.rows, end)
    if low >= high:
        return None
    if high - low == rows.rows:
        return rows
    return DealtRows(_copied([rows.keys], slice(low - rows.first, high - rows.first)), low)


def _copied(parts: Sequence[RowKeys], cut: slice = slice(None)) -> RowKeys:
    """Return rows of all parts behind one another, in memory of their own."""
    kept: NDArray[np.bool_] | None = None
    if any(one.kept is not None for one in parts):
        kept = np.concatenate([(np.ones(one.rows, np.bool_) if one.kept is None else one.kept)[cut] for one in parts])
    branches = zip(*(one.branches for one in parts), strict=True)
    return RowKeys(
        np.concatenate([one.keys[cut] for one in parts]),
        np.concatenate([one.aux[cut] for one in parts]),
        kept,
        frozenset().union(*(one.inexact for one in parts)),
        tuple(_copied(branch, cut) for branch in branches),
    )
