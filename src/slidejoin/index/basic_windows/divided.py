"""What the topology cell_join needs of the index of a side's window: that it is divided among workers."""

from __future__ import annotations

from abc import abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.index.answer import Answer
from slidejoin.index.basic_windows.found import FoundByWorkers
from slidejoin.index.protocol import Index, Probing, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from slidejoin.index.answer import Found
    from slidejoin.index.basic_windows.pointers import Pointers
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.runtime.threads import Workers

__all__ = ["DividedIndex"]


class DividedIndex(Index):
    """The index of one side's window, a list of basic windows that is divided among workers.

    Attributes
    ----------
    pointers : Pointers
        Which basic windows each worker has.
    shifting : float
        Seconds spent on shifting pointers so far.
    """

    pointers: Pointers
    shifting: float = 0.0

    @abstractmethod
    def ask(self, worker: int, batch: ProbeBatch, request: Request) -> Found:
        """Answer a batch among the basic windows of one worker. Several workers may be asked at once."""

    @abstractmethod
    def nanoseconds(self, probes: int) -> float:
        """Estimate how long so many probes take all workers together."""

    def divide(self, workers: int) -> None:
        """Divide the basic windows among another number of workers. O(workers)."""
        if workers != self.pointers.workers:
            self.pointers.divide(workers)

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch, a task for each worker, see `Index`. All probes are answered, whichever is first."""
        _ = batch.probes  # all workers need them
        found: dict[int, Found] = {}

        def task(worker: int) -> Callable[[], None]:
            def run() -> None:
                found[worker] = self.ask(worker, batch, request)

            return run

        workers = range(self.pointers.workers)
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

    def shift(self, windows: int) -> None:
        """Let basic windows come until there are so many, or leave from the oldest on. O(workers) for each."""
        pointers = self.pointers
        if windows == pointers.windows:
            return
        start = perf_counter()
        while pointers.windows < windows:
            pointers.add()
        while pointers.windows > windows:
            pointers.remove()
        self.shifting += perf_counter() - start
