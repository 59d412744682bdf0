"""CellJoin's window for equality: hash buckets of basic windows, each bucket divided among workers (section 7.2).

A list of basic windows for each bucket, with pointers of its own: of the rows that a probe is compared with, those in
its bucket, every worker has the same share, however the keys are spread over the window.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.papers.cell_join.basic_windows.divided import DividedIndex
from slidejoin.papers.cell_join.hash_buckets import HashIndex
from slidejoin.papers.cell_join.kernels.hash_buckets import divide_buckets
from slidejoin.papers.found_rows import FoundByPosition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.answer import Found
    from slidejoin.index.ordinal_ring import OrdinalRing
    from slidejoin.index.probe import ProbeBatch, Probes
    from slidejoin.index.protocol import Request
    from slidejoin.papers.cell_join.options import Hash

__all__ = ["HashedWindow"]

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
        start, before, earlier = perf_counter(), self._heads, self.workers
        self.workers = workers
        self._heads = np.empty(self._buckets * (1 + workers), np.int32)
        divide_buckets(before, earlier, self._older, self._heads, workers)
        self.shifting += perf_counter() - start

    def ask(self, worker: int, batch: ProbeBatch, request: Request) -> Found:  # noqa: ARG002 - see DividedIndex
        """Compare a batch with the basic windows that one worker has of its buckets, see `DividedIndex`."""
        return FoundByPosition(_WorkerBuckets(self, worker), batch.probes.seeing_from(self.floor))

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
    """What one worker has of all buckets, see `slidejoin.papers.found_rows.Walked`."""

    __slots__ = ("_index", "_worker")

    def __init__(self, index: HashedWindow, worker: int) -> None:
        self._index, self._worker = index, worker

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], found: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Compare the probes with its basic windows, see `slidejoin.papers.structure.Structure.walk`."""
        return self._index.walk_part(self._worker, probes, begin, end, counts, found)

    @property
    def stored(self) -> OrdinalRing:
        """The further dimensions."""
        return self._index.stored
