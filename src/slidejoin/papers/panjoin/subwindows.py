"""A window as a chain of subwindows: insert into the newest, probe all, expire the oldest whole (PanJoin, III-A).

What RaP-Table and WiB+-tree share: rows are sorted by key before they are inserted, and so are probes before they
search (III-E); each probe finds the partitions of its ranges in every subwindow, which are then scanned; the results of
a partly expired subwindow are filtered (III-G.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from copy import copy
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from slidejoin.index.part_format import checked
from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.papers.kernels.walking import group_matches
from slidejoin.papers.panjoin.kernels.llat import PartitionScan, scan_partitions
from slidejoin.papers.panjoin.llat import Llat
from slidejoin.papers.structure import AT_FIRST, Structure, words_of
from slidejoin.runtime.array_pool import ArrayPool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from slidejoin.index.probe import Probes
    from slidejoin.papers.panjoin.options import RapTable, WibTree

__all__ = ["Chain", "Subwindow"]

entries_pool, which_pool = ArrayPool(np.int64), ArrayPool(np.int32)

STEPS = ("insert", "delete", "search", "scan", "merge")


class Subwindow(ABC):
    """Up to `capacity` consecutive rows, in the partitions of a table.

    Attributes
    ----------
    rows : int
        How many are here.
    first, last : int
        Ordinals of the oldest and the newest.
    llat : Llat
        Where they are.
    base : int
        Added to the ordinals there: those of sealed rows count from 0.
    """

    __slots__ = ("base", "capacity", "first", "last", "llat", "rows")

    def __init__(self, capacity: int, llat: Llat) -> None:
        self.capacity, self.llat = capacity, llat
        self.rows = self.first = self.last = self.base = 0

    def span(self, rows: int, first: int, last: int) -> None:
        """Say how many rows are here, and the ordinals of the oldest and the newest."""
        self.rows, self.first, self.last = rows, first, last

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return a sealed subwindow as named arrays; each kind adds its own."""
        return {**self.llat.arrays(), "span": np.array([self.rows, self.first, self.last])}

    @classmethod
    def of_table(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the subwindow of these arrays, without what each kind has of its own."""
        made = cls.__new__(cls)
        rows, first, last = checked(arrays, "span", (3,)).tolist()
        Subwindow.__init__(made, rows, Llat.of_arrays(arrays))
        made.span(rows, first, last)
        return made

    def rebased(self, base: int) -> Self:
        """Return sealed rows with the first ordinal; arrays are shared."""
        made = copy(self)
        made.base = base
        made.span(self.rows, base + self.first, base + self.last)
        return made

    @abstractmethod
    def insert(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Take rows in ascending order of their keys, for which there is room."""

    @abstractmethod
    def find(
        self, probes: Probes, begin: int, order: NDArray[np.int32], lows: NDArray[np.int32], highs: NDArray[np.int32]
    ) -> None:
        """Write the first and last partition of each range, see `papers.panjoin.kernels.llat.PartitionScan`."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of all of it."""


class Chain(Structure):
    """The index of one side's window; see `Structure`. What is abstract here makes a subwindow.

    Attributes
    ----------
    seconds : dict of str to float
        Seconds so far of inserting (including sorting), deleting, finding partitions, scanning them, and merging, which
        here means adjusting splitters; summed over threads.
    """

    def __init__(self, options: RapTable | WibTree, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        self.chain: list[Subwindow] = []
        """From the oldest to the newest."""
        self.seconds = dict.fromkeys(STEPS, 0.0)
        self._parts, self._lock = options.subwindows, Lock()
        self._sealed = 0
        # Matches a probe in the last search: a guess at how many probes there is room for.
        self._matches = 1.0

    @abstractmethod
    def _subwindow(self, capacity: int, keys: NDArray[np.int64]) -> Subwindow:
        """Return an empty subwindow; `keys` are the first that it will get."""

    @abstractmethod
    def _bytes_of(self, capacity: int) -> int:
        """Return the bytes of a subwindow of that capacity, once it is full, at most."""

    def _capacity(self, held: int, ordinal: int) -> int:
        """Return the rows of a new subwindow, whose first has that ordinal.

        They are a share of the window, and no more than are `held` while it fills. A time window has those that have
        not left; its share is rounded down to a power of two, so that it changes seldom.
        """
        if self.rows is not None:
            share = -(-self.rows // self._parts)
        else:
            live = max(min(held, ordinal - self.floor) // self._parts, AT_FIRST)
            share = 1 << (live.bit_length() - 1)
        return min(share, max(held, AT_FIRST))

    def attach_rows(self, own: Subwindow, first: int, end: int) -> None:  # noqa: ARG002 - see Structure
        """Link a sealed subwindow behind the others; it is full."""
        self.chain.append(own.rebased(first))
        self._sealed += own.rows

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            spent = perf_counter() - start
            with self._lock:
                self.seconds[step] += spent

    def insert_keys(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Fill the newest subwindow, and new ones, with sorted rows."""
        done = 0
        while done < keys.size:
            if not self.chain or self.chain[-1].rows == self.chain[-1].capacity:
                held = self.count
                if self._sealed:
                    # Sealed ones are as large as segments: this is for those that come with these rows.
                    held = max(held - self._sealed, keys.size - done)
                capacity = self._capacity(held, int(ordinals[done]))
                self.chain.append(self._subwindow(capacity, keys[done : done + capacity]))
            newest = self.chain[-1]
            last = min(done + newest.capacity - newest.rows, keys.size)
            with self._timed("insert"):
                some, these = keys[done:last], ordinals[done:last]
                if some.size > 1:
                    order = sorted_order(some)
                    some, these = some[order], these[order]
                newest.insert(some, these)
            newest.first = newest.first if newest.rows else int(ordinals[done])
            newest.rows, newest.last, done = newest.rows + last - done, int(ordinals[last - 1]), last

    def leave(self, ordinal: int) -> None:
        """Drop the subwindows whose rows all come before that ordinal, but for the newest."""
        with self._timed("delete"):
            while len(self.chain) > 1 and self.chain[0].last < ordinal:
                self._sealed = max(self._sealed - self.chain[0].rows, 0)
                del self.chain[0]

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Search all subwindows for as many probes as the room may suffice for, see `Structure.walk`."""
        last = min(end, begin + max(1, int(ordinals.size / (2 * self._matches))))
        while True:
            total = self._matches_of(probes, begin, last, counts, ordinals)
            if total >= 0:
                self._matches = max(total / (last - begin), 1.0)
                return last, total
            if last - begin == 1:
                return begin, 0
            last = begin + (last - begin) // 2

    def _matches_of(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> int:
        """Find the rows of all probes begin…end-1 and return their number, -1 if there is no room."""
        room, total = ordinals.size, 0
        entries, which = entries_pool.take(room), which_pool.take(room)
        with self._timed("search"):
            order = sorted_order(probes.lo[0, begin:end])
        lows, highs = (np.empty((probes.lo.shape[0], end - begin), np.int32) for _ in range(2))
        scanned = PartitionScan(
            order, lows, highs, probes.lo, probes.hi, probes.seen_from, probes.seen_to, entries, probes=which
        )
        scan = words_of(scanned)
        for each in self.chain:
            if each.last < probes.seen_from[begin] or each.first >= probes.seen_to[end - 1]:
                continue
            with self._timed("search"):
                each.find(probes, begin, order, lows, highs)
            with self._timed("scan"):
                if each.base:
                    total = _scan_sealed(each, scanned, begin, total, room)
                else:
                    total = scan_partitions(each.llat.words, scan, begin, total, room)
            if total < 0:
                return -1
        with self._timed("scan"):
            group_matches(entries, which, total, begin, end, counts, ordinals, at=0)
        return total

    @property
    def count(self) -> int:
        """Stored rows, including expired ones whose subwindow has not expired."""
        return sum(each.rows for each in self.chain)

    @property
    def held_bytes(self) -> int:
        """Bytes of all subwindows."""
        return sum(each.nbytes for each in self.chain)

    def held_growth(self, rows: int) -> int:
        """Return the bytes of the subwindows to be made, and of the newest if it grows."""
        held, more, left, begin = self.count, 0, rows, self.next - self.count
        if self.chain:
            newest = self.chain[-1]
            left -= newest.capacity - newest.rows
            held = held + rows - max(left, 0)
            more = max(0, self._bytes_of(newest.capacity) - newest.nbytes)
        while left > 0:
            capacity = self._capacity(held, begin + held)
            more += self._bytes_of(capacity)
            left, held = left - capacity, held + capacity
        return more


def _scan_sealed(sealed: Subwindow, scanned: PartitionScan, begin: int, before: int, room: int) -> int:
    """Scan sealed rows, whose ordinals lack the base, as `scan_partitions` does."""
    base, some = sealed.base, slice(begin, begin + scanned.order.size)
    seen_from, seen_to = (np.empty_like(scanned.seen_from) for _ in range(2))
    for own, seen in ((seen_from, scanned.seen_from), (seen_to, scanned.seen_to)):
        np.subtract(seen[some], base, out=own[some])
    own_scan = scanned._replace(seen_from=seen_from, seen_to=seen_to)
    total = scan_partitions(sealed.llat.words, words_of(own_scan), begin, before, room)
    if total > before:
        scanned.ordinals[before:total] += base
    return total
