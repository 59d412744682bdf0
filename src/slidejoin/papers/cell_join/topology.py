"""CellJoin: the windows are divided among workers, every batch of rows is compared by each with its own part.

::

    rows ─▶ coordinator ─▶ newest basic window of their side
              │ batches
              ├───────▶ worker 0: its basic windows ─┐
              ├───────▶ worker 1: its basic windows ─┼─▶ coordinator ─▶ candidates of the batch
              └───────▶ worker 2: its basic windows ─┘

The coordinator (the paper's PPE) stores rows, divides the windows, cuts rows into batches and hands each batch to all
workers (its SPEs). It turns the matches of one batch into output while the workers compare the next one (section 4.3).
How many workers there are may follow from the rate at which rows arrive (section 7.3).

Round robin, a baseline: each core has the whole windows and takes every k-th probe (CellJoin, section 3, option b).

Insertion is done by every core, and so is not divided; each core needs the memory of the whole windows; and results
have to be brought into order from cores that each have some of the probes.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from threading import Condition
from time import perf_counter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from slidejoin.index.answer import BatchMatches, MatchesOfParts
from slidejoin.index.factory import make_index
from slidejoin.index.protocol import Request
from slidejoin.operator.candidates import RangeCandidates
from slidejoin.operator.probe_batch import slots_of
from slidejoin.operator.topology.join_topology import JoinTopology
from slidejoin.papers.cell_join.basic_windows.divided import DividedIndex
from slidejoin.papers.cell_join.basic_windows.indexed_window import IndexedWindow
from slidejoin.papers.cell_join.hash_buckets import HashedWindow
from slidejoin.papers.cell_join.kernels.narrowed import UNIT_BLOCK
from slidejoin.papers.cell_join.nested_loop import ScannedWindow
from slidejoin.papers.cell_join.options import CellJoin, Hash, NestedLoop, RoundRobin
from slidejoin.papers.split_join.actors import Actor, Round
from slidejoin.papers.split_join.cores.cores_index import CoresIndex, Region
from slidejoin.papers.split_join.cores.dealing import number_in_core, probes_in_turn
from slidejoin.papers.split_join.divided import DividedTopology
from slidejoin.papers.split_join.kernels.gathering import number_rows
from slidejoin.sides import SIDES, other

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.factory import Keyspace
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Index, Occupancy, Probing
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.papers.split_join.join_core import CoreMessage, JoinCore
    from slidejoin.plan.plan import Plan
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["CellJoinTopology", "Pipeline", "RoundRobinTopology", "WorkerLoad"]

HANDOVER = 200_000.0
"""Nanoseconds of comparing from which on it is handed to threads: handing over takes some 60 µs."""

BATCH_TIME = 2_000_000.0
"""Nanoseconds that the largest batch takes all workers together, unless its size is set: some thirty handovers."""


LARGEST_HASHED = 1 << 16
"""Rows of a basic window of hash buckets at most."""


class ProbeJob(NamedTuple):
    """One batch: rows of both sides that arrived one after the other.

    Attributes
    ----------
    slots : int
        Places in the arrival order.
    probes : dict
        For each side with rows in it these as probes, and the place of each, (n,) int64.
    """

    slots: int
    probes: dict[Side, tuple[ProbeBatch, NDArray[np.int64]]]


class CellJoinTopology(JoinTopology):
    """The topology of one join, see `JoinTopology`."""

    def __init__(
        self, plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats, memory: ArrayPool
    ) -> None:
        super().__init__(plan, windows, workers, stats, memory)
        options = plan.config.topology
        self._options = options if isinstance(options, CellJoin) else CellJoin()
        most = self._options.workers or workers.threads
        self._load = WorkerLoad(most) if self._options.adaptive else None
        self._count = 1 if self._load else most
        self._under_way: Pipeline[dict[Side, BatchMatches]] | None = None

    # -- the windows -------------------------------------------------------------------------------------------------

    def make_index(self, algorithm: str, keys: Keyspace, window: Occupancy) -> Index:
        """Return an empty index, divided among the workers: scanned if that was requested, else with indexes inside."""
        options = self._options
        if algorithm == "nested_loop" and not keys.branches:
            scan = keys.options if isinstance(keys.options, NestedLoop) else NestedLoop()
            if options.basic_window is not None:
                scan = NestedLoop(basic_window=options.basic_window, batch=scan.batch)
            return ScannedWindow(scan, keys.dims, window.capacity, window.first, self._count, options.costs)
        rows = None if options.basic_window is None else options.basic_window * UNIT_BLOCK
        if algorithm == "hash" and not keys.branches:
            hashed = keys.options if isinstance(keys.options, Hash) else Hash()
            if rows is not None:
                hashed = Hash(buckets=hashed.buckets, basic_window=min(rows, LARGEST_HASHED))
            return HashedWindow(hashed, keys.dims, window.capacity, window.first, self._count)
        time = keys.branches[0][1].time if keys.branches else None
        return IndexedWindow(algorithm, partial(make_index, algorithm, keys), window, self._count, rows, time)

    def _index(self, stored: Side) -> DividedIndex:
        index = self._windows[stored].index
        assert isinstance(index, DividedIndex)  # noqa: S101 - as `make_index` made it
        return index

    @property
    def workers(self) -> int:
        """How many workers the windows are divided among now."""
        return self._count

    # -- one slice of arrivals ---------------------------------------------------------------------------------------

    def insert(self, part: Push, first: dict[Side, int]) -> None:
        """Only insert the rows, with ordinals from `first` on."""
        self._stop()
        super().insert(part, first)

    def run(self, part: Push, first: dict[Side, int]) -> tuple[Iterator[RangeCandidates], set[int]]:
        """Insert the rows with ordinals from `first` on, and return the candidates of all slots in turn.

        The set holds the terms that are not exact for these rows: their candidates have to be rechecked.
        """
        self._stop()
        if self._load is not None:
            self._divide(self._load.began())
        # The windows of a self-join share the rows, which the left one takes: it comes first.
        alone = part.rows < self._plan.tuning.push_spread or self._plan.config.self_join
        (self._alone if alone else self._workers).run(
            [partial(self._append, side, part, first, None) for side in SIDES]
        )
        return self._found(part, first)

    def _found(self, part: Push, first: dict[Side, int]) -> tuple[Iterator[RangeCandidates], set[int]]:
        batches = {role: self._batch(role, part, first) for role in SIDES}
        inexact = set(self._plan.loose).union(*(batch.inexact for batch in batches.values()))
        inexact = inexact.union(*(window.index.inexact for window in self._windows.values()))
        for stored in SIDES:
            self._index(stored).divide(self._count)
        return self._candidates(batches, part.rows, self._only_counts(inexact)), inexact

    # -- batches -----------------------------------------------------------------------------------------------------

    def _batch_rows(self, rows: int) -> int:
        """Return how many rows the largest batch has: whole unit blocks, up to the maximum (section 4.2.2)."""
        if self._options.batch is not None:
            return self._options.batch * UNIT_BLOCK
        each = sum(self._index(stored).nanoseconds(rows) for stored in SIDES) / max(rows, 1) / len(SIDES)
        return max(int(BATCH_TIME / max(each, 1e-3)) // UNIT_BLOCK, UNIT_BLOCK) * UNIT_BLOCK

    def _jobs(self, batches: dict[Side, ProbeBatch], rows: int) -> list[ProbeJob]:
        """Cut the rows, in arrival order, into batches; only the last one may have a unit block that is not full."""
        jobs, most, times = [], self._batch_rows(rows), 2 if self._plan.config.self_join else 1
        for begin in range(0, rows, most):
            end = min(begin + most, rows)
            mine = {}
            for role, batch in batches.items():
                low, high = (int(place) for place in np.searchsorted(batch.rank, (begin, end)))
                if low < high:
                    part = batch.part(low, high)
                    _ = part.probes  # all workers need them
                    mine[role] = part, slots_of(self._plan, role, part.rank) - begin * times
            jobs.append(ProbeJob((end - begin) * times, mine))
        return jobs

    def _candidates(self, batches: dict[Side, ProbeBatch], rows: int, only_counts: bool) -> Iterator[RangeCandidates]:
        """Yield the candidates of each batch, while workers compare the next one."""
        jobs, counts, stats = self._jobs(batches, rows), self._plan.config.output == "count", self._stats

        def work(worker: int, number: int) -> dict[Side, BatchMatches]:
            start, answers = perf_counter(), {}
            for role, (batch, _) in jobs[number].probes.items():
                request = Request(0, len(batch), counts, only_counts, self._alone)
                answers[role] = self._index(other(role)).ask(worker, batch, request)
            stats.since("probe", start)
            return answers

        if not self._beside(jobs):
            for number, job in enumerate(jobs):
                yield self._joined(job, [work(worker, number) for worker in range(self._count)])
        else:
            threads = min(self._count, self._workers.threads)
            self._under_way = under_way = Pipeline(threads, self._count, len(jobs), work)
            by_worker = self._plan.config.order == "none" and not counts
            try:
                yield from self._streamed(jobs, under_way, by_worker=by_worker)
            finally:
                under_way.stop()
        self._account()

    def _account(self) -> None:
        """Count the time spent on pointers, and tell how long the rows took."""
        shifting = self._stats.seconds.get("shift", 0.0)
        for stored in SIDES:
            index = self._index(stored)
            shifting, index.shifting = shifting + index.shifting, 0.0
        self._stats.seconds["shift"] = shifting
        if self._load is not None:
            self._load.ended()

    def _beside(self, jobs: list[ProbeJob]) -> bool:
        """Tell whether the workers' share is worth threads of their own."""
        if min(self._count, self._workers.threads) == 1:
            return False
        dear = [
            self._index(other(role)).nanoseconds(len(batch))
            for job in jobs for role, (batch, _) in job.probes.items()
        ]  # fmt: skip
        return sum(dear) >= HANDOVER

    def _streamed(
        self, jobs: list[ProbeJob], pipeline: Pipeline[dict[Side, BatchMatches]], *, by_worker: bool
    ) -> Iterator[RangeCandidates]:
        """Yield candidates as workers find them: batch by batch, or where no order is promised worker by worker."""
        for number, job in enumerate(jobs):
            if by_worker:
                for _, answers in pipeline.parts(number):
                    yield self._joined(job, [answers])
            else:
                yield self._joined(job, pipeline.job(number))

    def _joined(self, job: ProbeJob, answers: list[dict[Side, BatchMatches]]) -> RangeCandidates:
        """Return the answers of workers to a batch."""
        whole = RangeCandidates(job.slots, self._workers, self._memory)
        for role, (batch, slots) in job.probes.items():
            whole.add(role, slots, MatchesOfParts(len(batch), [one[role] for one in answers]))
        return whole

    def _stop(self) -> None:
        """Let no worker be under way."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.stop()

    # -- workers -----------------------------------------------------------------------------------------------------

    def _divide(self, workers: int) -> None:
        """Use another number of workers from here on."""
        if workers != self._count:
            self._count = workers
            for stored in SIDES:
                self._index(stored).divide(workers)

    def close(self) -> None:
        """End what is under way."""
        self._stop()

    def explain(self) -> str:
        """Return what was chosen and why, in words."""
        options, count = self._options, self._count
        why = "added and freed with the load" if options.adaptive else "as set" if options.workers else "one a thread"
        batch = "by the time it takes" if options.batch is None else f"at most {options.batch:,} unit blocks"
        return (
            f"{CellJoin.what}; {count} worker{'s' * (count > 1)} ({why}); batches {batch}; topology='cell_join' was set"
        )


PUSHES, SECONDS = 8, 0.02
"""Pushes and time between two decisions: adding a worker divides the windows again, and costs a handover."""

MOST_LOAD, LEAST_LOAD = 0.8, 0.5
"""Share of the time in which the join is busy from which on a worker is added, and the share, if there were one worker
fewer, up to which one is freed. They lie apart, so that no worker is added and freed again and again."""


class WorkerLoad:
    """How many workers a join needs: compares the time that pushes take with the time between them (section 7.3).

    Parameters
    ----------
    most : int
        Workers that there may be; the first push has one.
    clock : callable
        Returns the time in seconds.

    Examples
    --------
    A push takes 9 ms and begins every 10 ms: a worker is added every eight pushes, up to the most.

    >>> times = iter([time for push in range(40) for time in (0.010 * push, 0.010 * push + 0.009)])
    >>> load = WorkerLoad(3, clock=lambda: next(times))
    >>> for _ in range(40):
    ...     workers = load.began()
    ...     load.ended()
    >>> workers
    3
    """

    def __init__(self, most: int, clock: Callable[[], float] = perf_counter) -> None:
        self._most, self._clock = most, clock
        self.workers = 1
        self._since: float | None = None
        self._start, self._busy, self._pushes = 0.0, 0.0, 0

    def began(self) -> int:
        """Return how many workers a push has that begins now."""
        now = self._start = self._clock()
        if self._since is None:
            self._since = now
        elapsed = now - self._since
        if self._pushes >= PUSHES and elapsed >= SECONDS:
            load, fewer = self._busy / elapsed, self.workers - 1
            if load > MOST_LOAD and self.workers < self._most:
                self.workers += 1
            elif fewer and load * self.workers / fewer < LEAST_LOAD:
                self.workers = fewer
            self._since, self._busy, self._pushes = now, 0.0, 0
        return self.workers

    def ended(self) -> None:
        """Count a push that ends now."""
        self._busy += self._clock() - self._start
        self._pushes += 1


T = TypeVar("T")

JOBS_AHEAD = 2
"""Jobs that are begun before all parts of the first of them are read: one that is read, and one that is done."""


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    # Not those of `Workers`: a part may hand over work to these, and would wait for threads that wait like itself.
    return ThreadPoolExecutor(count, thread_name_prefix="slidejoin-worker")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)


class Pipeline(Generic[T]):
    """Does every worker's part of every job in the background, at most `JOBS_AHEAD` jobs before the caller.

    No thread ever waits: a part is handed to a thread when it may begin. An error in a part ends it: no part begins any
    more, and whoever reads gets the error.

    Parameters
    ----------
    threads : int
        How many work, in addition to the caller.
    workers, jobs : int
    work : callable
        Does the part of a worker in a job: ``work(worker, job)``. No worker has two parts under way at once.

    Examples
    --------
    >>> pipeline = Pipeline(2, workers=3, jobs=2, work=lambda worker, job: 10 * job + worker)
    >>> [pipeline.job(job) for job in range(2)]
    [[0, 1, 2], [10, 11, 12]]
    """

    def __init__(self, threads: int, workers: int, jobs: int, work: Callable[[int, int], T]) -> None:
        self._pool, self._jobs, self._work = _threads(threads), jobs, work
        self._changed = Condition()
        self._next, self._busy = [0] * workers, [False] * workers
        self._done: dict[tuple[int, int], T] = {}
        self._read, self._stopped = 0, False
        self._error: BaseException | None = None
        with self._changed:
            self._begin()

    def job(self, job: int) -> list[T]:
        """Return all workers' parts of a job, once the last is done; jobs are read in order.

        Raises
        ------
        BaseException
            The first error of a part.
        """
        done = dict(self.parts(job))
        return [done[worker] for worker in range(len(self._next))]

    def parts(self, job: int) -> Iterator[tuple[int, T]]:
        """Yield the workers' parts of a job as they are done, see `job`."""
        left = set(range(len(self._next)))
        while left:
            with self._changed:
                while self._error is None and not any((worker, job) in self._done for worker in left):
                    self._changed.wait()
                if self._error is not None:
                    raise self._error
                ready = [
                    (worker, self._done.pop((worker, job))) for worker in sorted(left) if (worker, job) in self._done
                ]
            for worker, part in ready:
                left.remove(worker)
                yield worker, part
        with self._changed:
            self._read = job + 1
            self._begin()

    def stop(self) -> None:
        """Begin no part any more, and return when none is under way."""
        with self._changed:
            self._stopped = True
            while any(self._busy):
                self._changed.wait()
            self._done.clear()

    def _begin(self) -> None:
        """Hand over the parts that may begin; the caller holds the lock."""
        if self._stopped or self._error is not None:
            return
        for worker, job in enumerate(self._next):
            if not self._busy[worker] and job < min(self._jobs, self._read + JOBS_AHEAD):
                self._pool.submit(self._run, worker, job)
                self._busy[worker] = True

    def _run(self, worker: int, job: int) -> None:
        try:
            done = self._work(worker, job)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the reader raises it
            with self._changed:
                self._error = self._error or error
                self._busy[worker] = False
                self._changed.notify_all()
            return
        with self._changed:
            self._done[worker, job] = done
            self._busy[worker] = False
            self._next[worker] = job + 1
            self._begin()
            self._changed.notify_all()


class RoundRobinTopology(DividedTopology):
    """The topology of one join, see `JoinTopology`."""

    expires_alone = False

    def __init__(
        self, plan: Plan, windows: dict[Side, SideWindow], workers: Workers, stats: Stats, memory: ArrayPool
    ) -> None:
        options = plan.config.topology
        super().__init__(
            plan, windows, workers, stats, memory, options.cores if isinstance(options, RoundRobin) else None
        )

    def make_index(self, algorithm: str, keys: Keyspace, window: Occupancy) -> Index:
        """Return an empty index with a copy for each core, which uses that algorithm; all expire with the window."""
        return ReplicatedIndex.of(
            partial(make_index, algorithm, keys), window, algorithm, len(self.cores), self.fan_in, alone=False
        )

    def explain(self) -> str:
        """Return what was chosen and why, in words."""
        return f"{RoundRobin.what}; {len(self.cores)} cores; topology='round_robin' was set"

    def _send(self, message: CoreMessage) -> dict[Side, list[BatchMatches]]:
        results: dict[int, dict[Side, BatchMatches]] = {}

        def handle(core: JoinCore, message: CoreMessage) -> None:
            mine = {role: probes_in_turn(batch, core.core, len(self.cores)) for role, batch in message.batches.items()}
            results[core.core] = core.take(replace(message, batches=mine))

        once = Round(self._threads(message.size))
        once.run([(Actor(partial(handle, core)), message) for core in self.cores])
        return {
            role: [MatchesInTurn([results[core.core][role] for core in self.cores], batch.first, len(batch))]
            for role, batch in message.batches.items()
        }


class ReplicatedIndex(CoresIndex):
    """The index of one side's window; a region is the whole window, as if its core were the only one."""

    @staticmethod
    def of(
        make: Callable[[Occupancy], Index], window: Occupancy, name: str, cores: int, fan_in: int, *, alone: bool
    ) -> ReplicatedIndex:
        """Return an index with so many copies, see `CoresIndex.of`."""
        return ReplicatedIndex(
            name, [Region(make(window), 0, 1, window.first) for _ in range(cores)], fan_in, alone=alone
        )

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch by the first copy, see `Index`."""
        return self.regions[0].index.probe(batch, request)


class MatchesInTurn(BatchMatches):
    """The answers of cores that took the probes of a batch in turn; see `slidejoin.index.answer.BatchMatches`.

    Parameters
    ----------
    parts : sequence of BatchMatches
        Of each core; its probes are numbered from 0 on.
    first : int
        Ordinal of the first probe of the batch.
    probes : int
        How many there are.
    """

    def __init__(self, parts: Sequence[BatchMatches], first: int, probes: int) -> None:
        self._parts, self._first = parts, first
        self.counts: NDArray[np.int64] = np.empty(probes, np.int64)
        for core, part in enumerate(parts):
            self.counts[core :: len(parts)] = part.counts

    def fill(
        self, first: int, last: int, places: NDArray[np.int64], probes: NDArray[np.int64], stored: NDArray[np.int64]
    ) -> None:
        """Write the pairs of probes first…last-1, see `slidejoin.index.answer.BatchMatches`."""
        cores = len(self._parts)
        for core, part in enumerate(self._parts):
            begin, end = (number_in_core(probe, core, cores) for probe in (first, last))
            mine = np.ascontiguousarray(places[core::cores])
            part.fill(begin, end, mine, probes, stored)
            number_rows(mine, part.counts, begin, end, cores, self._first + core, probes)
