"""Symmetric hash join: each bucket a linked list of basic windows (CellJoin, section 7.2), for equality alone.

A row is inserted into the newest basic window of its key's bucket, and a probe reads the basic windows of one bucket.
These are linked from the newest to the oldest, so a probe stops at the first whose rows have all expired, and the other
way for the pointers of workers, see `HashedWindow`. A basic window expires with its newest row, and any bucket may
reuse it: each push looks for expired ones in a share of the buckets, so that no push has to scan all of them.

For the topology cell_join the basic windows of each bucket are a list of their own, divided among workers: of the rows
that a probe is compared with, those in its bucket, every worker has the same share, however the keys are spread over
the window.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.cell_join.basic_windows.divided import DividedIndex
from slidejoin.papers.cell_join.kernels.hash_buckets import (
    NOTHING,
    LinkedWindows,
    divide_buckets,
    find_in_buckets,
    free_windows,
    insert_into_buckets,
)
from slidejoin.papers.cell_join.options import Hash
from slidejoin.papers.matches import MatchesByPosition
from slidejoin.papers.structure import Structure, walk_groups, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.probe import ProbeBatch, Probes
    from slidejoin.index.protocol import Request
    from slidejoin.papers.stored_dims import StoredDims

__all__ = ["HashIndex", "HashedWindow"]

ROWS_A_BUCKET = 4

CROWDED = 2
"""Rows, over the number that buckets were made for, at which buckets are added."""


class HashIndex(Structure):
    """The index of one side's window; see `Structure`. Expected O(1) for each row, and for each probe plus matches."""

    name = "hash"
    takes = Hash

    workers: int = 1
    """Among whom the basic windows of each bucket are divided, see `papers.cell_join.kernels.hash_buckets`."""

    def __init__(self, options: Hash, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        self._fixed = options.buckets
        self.size = options.basic_window
        """Rows of a basic window."""
        self._begin = first
        self._make(self.rows_at_first)

    def _make(self, rows: int) -> None:
        """Make empty buckets for so many rows."""
        self._made_for_rows, buckets = rows, self._fixed or max(rows // ROWS_A_BUCKET, 16)
        # The newest and the oldest basic window of a bucket are partly full; expired rows stay for up to a window.
        self._buckets, heads = buckets, np.full((buckets, 1 + self.workers), NOTHING, np.int32)
        heads[:, 0] = 0
        none, empty = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self.windows = LinkedWindows(
            heads.reshape(-1),
            none,
            none,
            empty,
            empty,
            empty,
            empty,
            np.zeros(1, np.int64),
            workers=self.workers,
            size=self.size,
        )
        self._swept, self._owed = 0, 0.0  # the bucket to be looked at next, and how many are due
        self._more_windows(2 * rows // self.size + min(buckets, rows))

    def _set(self, windows: LinkedWindows) -> None:
        self.windows, self._words = windows, words_of(windows)

    def _more_windows(self, more: int) -> None:
        """Add empty basic windows."""
        old, none = self.windows, np.zeros(more, np.int32)
        before, known = old.filled.size, int(old.known_free[0])
        keys, ordinals = (
            np.concatenate([column, np.zeros(more * self.size, np.int64)]) for column in (old.keys, old.ordinals)
        )
        filled, older, newer = (np.concatenate([column, none]) for column in (old.filled, old.older, old.newer))
        fresh = np.arange(before + more - 1, before - 1, -1, dtype=np.int32)
        free = np.concatenate([old.free[:known], fresh, np.zeros(before - known, np.int32)])
        old.known_free[0] = known + more
        self._set(old._replace(keys=keys, ordinals=ordinals, filled=filled, older=older, newer=newer, free=free))

    def insert_keys(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Put each row into its bucket; make room where basic windows run out."""
        live = self.next + keys.size - self.floor
        if self._fixed is None and live > CROWDED * self._made_for_rows:
            self._spread(self.made_for(live))
        self._take_back(keys.size, live)
        done = 0
        while True:
            done = insert_into_buckets(self._words, keys, ordinals, done)
            if done == keys.size:
                return
            self._more_windows(max(self.windows.filled.size // 2, 16))

    def _take_back(self, rows: int, live: int) -> None:
        """Check a share of the buckets for that many new rows: each bucket once a window."""
        if self.floor == self._begin or not rows:
            return
        buckets = self._buckets
        self._owed = min(self._owed + rows * buckets / live, buckets)
        while self._owed >= 1:
            last = min(self._swept + int(self._owed), buckets)
            free_windows(self._words, self.floor, self._swept, last)
            self._owed -= last - self._swept
            self._swept = last % buckets

    def _spread(self, rows: int) -> None:
        """Make more buckets and move the rows into these."""
        here = np.arange(self.size) < self.windows.filled[:, None]
        keys, ordinals = (column.reshape(here.shape)[here] for column in (self.windows.keys, self.windows.ordinals))
        seen = np.flatnonzero(ordinals >= self.floor)
        at = np.full(self.next - self.floor, NOTHING)
        at[ordinals[seen] - self.floor] = seen  # sorted by ordinal: each has a place of its own
        seen = at[at != NOTHING]
        self._make(rows)
        self.insert_keys(keys[seen], ordinals[seen])

    @property
    def count(self) -> int:
        """Stored rows, including expired ones whose basic window has not expired."""
        return int(self.windows.filled.sum())

    def leave(self, ordinal: int) -> None:
        """Do nothing: basic windows whose rows have expired are freed as rows are inserted, see `_take_back`."""

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Read the bucket of each probe's key, see `Structure.walk`."""
        return self.walk_part(0, probes, begin, end, counts, ordinals)

    def walk_part(
        self, worker: int, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Read the basic windows that a worker has of the bucket of each probe's key, see `Structure.walk`."""
        ranges, matches = walk_groups(probes, begin, counts, ordinals)
        find_in_buckets(self._words, worker, *ranges, begin, end, *matches)
        return int(matches.done[0]), int(matches.done[1])

    @property
    def held_bytes(self) -> int:
        """Bytes of buckets and basic windows."""
        return sum(array.nbytes for array in self.windows[:7])

    def held_growth(self, rows: int) -> int:
        """Return the bytes of new buckets, or of more basic windows; at worst each row is the first of one."""
        window, live = 16 * self.size + 16, self.next + rows - self.floor
        if self._fixed is None and live > CROWDED * self._made_for_rows:
            made = self.made_for(live)
            buckets = max(made // ROWS_A_BUCKET, 16)
            return 4 * (1 + self.workers) * buckets + ((2 * made // self.size + buckets) * 3 // 2 + 16) * window
        if rows <= int(self.windows.known_free[0]):
            return 0
        return (self.windows.filled.size // 2 + 4 * rows + 16) * window


PROBED = 40.0
"""Nanoseconds of a probe in the buckets of one worker, an order of magnitude."""


class HashedWindow(DividedIndex, HashIndex):
    """The index of one side's window, see `DividedIndex` and `HashIndex`.

    Parameters
    ----------
    options : Hash
    dims : int
        Further dimensions of each row.
    rows : int or None
        Rows that the window holds; None for a time window.
    first : int
        Ordinal of the first row to come.
    workers : int
    """

    def __init__(self, options: Hash, dims: int, rows: int | None, first: int, workers: int) -> None:
        self.workers = workers
        super().__init__(options, dims, rows, first)

    def divide(self, workers: int | None = None) -> None:
        """Divide each bucket among another number of workers; pointers are shifted as basic windows come and leave."""
        if workers is None or workers == self.workers:
            return
        start, before, earlier = perf_counter(), self.windows.heads, self.workers
        self.workers = workers
        heads = np.empty(self._buckets * (1 + workers), np.int32)
        divide_buckets(before, earlier, self.windows.older, heads, workers)
        self._set(self.windows._replace(heads=heads, workers=workers))
        self.shifting += perf_counter() - start

    def ask(self, worker: int, batch: ProbeBatch, request: Request) -> BatchMatches:  # noqa: ARG002 - see DividedIndex
        """Compare a batch with the basic windows that one worker has of its buckets, see `DividedIndex`."""
        return MatchesByPosition(_WorkerBuckets(self, worker), batch.probes.seeing_from(self.floor))

    def nanoseconds(self, probes: int) -> float:
        """Estimate how long so many probes take all workers together."""
        return PROBED * probes * self.workers

    def explain(self) -> str | None:
        """Return how many buckets there are, how large basic windows are and who has how many, in words."""
        return (
            f"buckets: {self._buckets:,}, the basic windows of each, of {self.size:,} rows, divided among "
            f"{self.workers} worker{'s' * (self.workers > 1)}"
        )


class _WorkerBuckets:
    """What one worker has of all buckets, see `slidejoin.papers.matches.Walked`."""

    __slots__ = ("_index", "_worker")

    def __init__(self, index: HashedWindow, worker: int) -> None:
        self._index, self._worker = index, worker

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Compare the probes with its basic windows, see `slidejoin.papers.structure.Structure.walk`."""
        return self._index.walk_part(self._worker, probes, begin, end, counts, ordinals)

    @property
    def stored(self) -> StoredDims:
        """The further dimensions."""
        return self._index.stored
