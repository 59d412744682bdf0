"""The index of a side's window that is divided among workers, as the topology cell_join needs it.

Each worker looks for a batch of probes in its own basic windows; what they return is joined to one answer.
"""

from __future__ import annotations

from abc import abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.index.answer import Answer, BatchMatches, MatchesOfParts
from slidejoin.index.protocol import Index, Probing, Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Lock

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.index.probe import ProbeBatch
    from slidejoin.papers.cell_join.basic_windows.pointers import Pointers
    from slidejoin.runtime.threads import Workers

__all__ = ["DividedIndex", "DividedList", "GuardedMatches"]


class DividedIndex(Index):
    """The index of one side's window whose basic windows are divided among workers.

    Attributes
    ----------
    workers : int
    shifting : float
        Seconds spent on shifting pointers so far.
    """

    workers: int
    shifting: float = 0.0

    @abstractmethod
    def ask(self, worker: int, batch: ProbeBatch, request: Request) -> BatchMatches:
        """Answer a batch among the basic windows of one worker. Several workers may answer at once."""

    @abstractmethod
    def nanoseconds(self, probes: int) -> float:
        """Estimate how long so many probes take all workers together."""

    @abstractmethod
    def divide(self, workers: int | None = None) -> None:
        """Divide the basic windows that there are now, among another number of workers if one is given."""

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch, a task for each worker, see `Index`. All probes are answered, whichever is first."""
        self.divide()
        _ = batch.probes  # all workers need them
        answers: dict[int, BatchMatches] = {}

        def task(worker: int) -> Callable[[], None]:
            def run() -> None:
                answers[worker] = self.ask(worker, batch, request)

            return run

        workers = range(self.workers)
        return Probing(
            [task(worker) for worker in workers],
            lambda: Answer(ranges=MatchesOfParts(len(batch), [answers[worker] for worker in workers])),
        )

    def ranges(self, batch: ProbeBatch, workers: Workers) -> BatchMatches:
        """Answer a batch by counts, see `Index`."""
        probing = self.probe(batch, Request(0, max(len(batch), 1), counts=False, only_counts=False, workers=workers))
        workers.run(list(probing.tasks))
        ranges = probing.answer().ranges
        assert ranges is not None  # noqa: S101 - as `probe` answers
        return ranges


class DividedList(DividedIndex):
    """The same where the basic windows are one list, see `slidejoin.papers.cell_join.basic_windows.pointers`.

    Attributes
    ----------
    pointers : Pointers
        Which basic windows each worker has, since the last `divide`.
    """

    pointers: Pointers

    @property
    def workers(self) -> int:  # type: ignore[override] # as the pointers say
        """Among how many workers it is divided."""
        return self.pointers.workers

    @property
    @abstractmethod
    def basic_windows(self) -> int:
        """How many basic windows there are now."""

    def divide(self, workers: int | None = None) -> None:
        """Divide the basic windows that there are now, among another number of workers if one is given.

        Stretches count from the oldest basic window, so that one which arrives while another expires shifts no pointer:
        a push shifts them by how many more or fewer there are than at the last one. O(workers) for each.
        """
        pointers, windows = self.pointers, self.basic_windows
        count = pointers.workers if workers is None else workers
        if windows == pointers.windows and count == pointers.workers:
            return
        start = perf_counter()
        pointers.resize(windows)
        if count != pointers.workers:
            pointers.divide(count)
        self.shifting += perf_counter() - start


class GuardedMatches(BatchMatches):
    """An answer of an index whose pairs are written while no other thread probes that index.

    Parameters
    ----------
    answer : BatchMatches
    lock : Lock
        Held by whoever probes the index.
    """

    def __init__(self, answer: BatchMatches, lock: Lock) -> None:
        self._answer, self._lock = answer, lock
        self.counts: NDArray[np.int64] = answer.counts

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `slidejoin.index.answer.BatchMatches`."""
        with self._lock:
            self._answer.fill(first, last, places, probes, stored)
