"""What the topology cell_join needs of the index of a side's window: that it is divided among workers."""

from __future__ import annotations

from abc import abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.index.answer import Answer
from slidejoin.index.protocol import Index, Probing, Request
from slidejoin.papers.cell_join.basic_windows.found import FoundByWorkers

if TYPE_CHECKING:
    from collections.abc import Callable

    from slidejoin.index.answer import Found
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.papers.cell_join.basic_windows.pointers import Pointers
    from slidejoin.runtime.threads import Workers

__all__ = ["DividedIndex", "DividedList"]


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
    def ask(self, worker: int, batch: ProbeBatch, request: Request) -> Found:
        """Answer a batch among the basic windows of one worker. Several workers may be asked at once."""

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
        found: dict[int, Found] = {}

        def task(worker: int) -> Callable[[], None]:
            def run() -> None:
                found[worker] = self.ask(worker, batch, request)

            return run

        workers = range(self.workers)
        return Probing(
            [task(worker) for worker in workers],
            lambda: Answer(ranges=FoundByWorkers(len(batch), [found[worker] for worker in workers])),
        )

    def ranges(self, batch: ProbeBatch, workers: Workers) -> Found:
        """Answer a batch by counts, see `Index`."""
        probing = self.probe(batch, Request(0, max(len(batch), 1), counts=False, only_counts=False, workers=workers))
        workers.run(list(probing.tasks))
        found = probing.answer().ranges
        assert found is not None  # noqa: S101 - as `probe` answers
        return found


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

        Stretches count from the oldest basic window, so that one which comes while another leaves shifts no pointer: a
        push shifts them by how many more or fewer there are than when the last one asked. O(workers) for each.
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
