"""Micro-batches, one after the other: read ahead in a thread, write in a thread, join in between.

::

    reader   plan 13 ─▶ checkpoint ─▶ read 13 │ plan 14 ─▶ …
    join                        rows of 12 ─▶ push ─▶ result ─┐  snapshot, now and then
    writer                                         write 12 ◀─┘ ─▶ ready ─▶ checkpoint: committed ─▶ publish

What a micro-batch reads is in the checkpoint before it is read, and a micro-batch is committed once the checkpoint has
what its sink made ready. So whatever instruction is the last one before a kill, the next run reads the same rows for
every micro-batch that was planned, and emits those of each once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from queue import Empty, Queue
from threading import Event, Semaphore, Thread
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from slidejoin.pipeline.checkpoint import Snapshot
from slidejoin.pipeline.source import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from slidejoin.pipeline.checkpoint import Checkpoint
    from slidejoin.pipeline.job_join import JobJoin
    from slidejoin.pipeline.job_sinks import JobSinks
    from slidejoin.pipeline.source import RowSource

__all__ = ["Done", "JobPipeline", "Listener", "PipelineTotals", "Timing", "run_tables"]

SNAPSHOT_SECONDS = 10.0
SNAPSHOT_SHARE = 20
"""At least so many times as long as the last snapshot took lies between two of them."""

PIECES = 4
"""Tables of results that may wait to be written."""

AHEAD = 2
"""Micro-batches whose rows are in memory: one is joined, one is read ahead."""

POLL = 0.05


@dataclass(frozen=True, slots=True)
class Done:
    """A micro-batch that is done; `bad` has rows that do not fit by their source, `event_time` the largest one."""

    number: int
    rows_in: int
    rows_out: int
    seconds: float
    event_time: str | None
    late: int
    without_time: int
    bad: Mapping[str, int]


@dataclass(slots=True)
class PipelineTotals:
    """What a run has done."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    without_time: int = 0
    bad: int = 0
    seconds: float = 0.0
    bad_by_source: dict[str, int] = field(default_factory=dict)

    def add(self, done: Done) -> None:
        """Add a micro-batch."""
        self.batches += 1
        self.rows_in += done.rows_in
        self.rows_out += done.rows_out
        self.late += done.late
        self.without_time += done.without_time
        self.bad += sum(done.bad.values())


class Listener(Protocol):
    """Hears of micro-batches, in another thread than the one that joins, where nothing else is said."""

    idle_seconds: float

    def rows(self, table: pa.Table) -> None:
        """Hear of rows of the result, in the thread that joins."""

    def joined(self) -> None:
        """Hear that the join is ready, and that a micro-batch is joined; in the thread that joins."""

    def waiting(self) -> None:
        """Hear, often, that no rows have come yet, in the thread that joins."""

    def batch(self, done: Done) -> None:
        """Hear of one that is done."""

    def idle(self, seconds: float) -> None:
        """Hear that there are no rows, since so many seconds."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When micro-batches and snapshots are due.

    Attributes
    ----------
    interval : float or None
        Seconds from one micro-batch to the next; None to read what is there and end.
    snapshot : float
        Seconds between two snapshots, at least.
    """

    interval: float | None = None
    snapshot: float = SNAPSHOT_SECONDS


@dataclass(slots=True)
class _Arrived:
    """A micro-batch whose rows are read; one that runs `again` was committed, and is pushed without output."""

    number: int
    again: bool
    rows: list[Rows]
    begun: float


@dataclass(slots=True)
class _Written:
    """What the writer needs to know at the end of a micro-batch."""

    number: int
    rows_in: int
    begun: float
    event_time: str | None
    late: int
    without_time: int
    bad: dict[str, int] = field(default_factory=dict)


class JobPipeline:
    """A job with streams.

    Parameters
    ----------
    sources : sequence of RowSource
        Of the left and the right side; one in a self-join.
    join : JobJoin
    sink : JobSinks
    checkpoint : Checkpoint
    timing : Timing
    listener : Listener
    stop : threading.Event
        Set when the job is to end after the micro-batch that runs.
    """

    def __init__(
        self,
        sources: Sequence[RowSource],
        join: JobJoin,
        sink: JobSinks,
        checkpoint: Checkpoint,
        timing: Timing,
        listener: Listener,
        stop: Event,
    ) -> None:
        self._sources, self._join, self._sink, self._checkpoint = sources, join, sink, checkpoint
        self._timing, self._listener, self._stop = timing, listener, stop
        self._ending = Event()
        self._room = Semaphore(AHEAD)
        self._arrived: Queue[_Arrived | BaseException | None] = Queue()
        self._writer = _WriterThread(sink, checkpoint, listener)
        self._first = self._committed = self._saved = -1
        self._due = 0.0

    def run(self) -> PipelineTotals:
        """Run to the end, or until it is stopped.

        Raises
        ------
        SlideJoinError
            If rows cannot be read, joined or written. The next run continues from the checkpoint.
        """
        start = perf_counter()
        self._recover()
        self._listener.joined()
        reader = Thread(target=self._read_ahead, name="slidejoin-read", daemon=True)
        reader.start()
        try:
            self._join_all()
        finally:
            self._ending.set()
            self._room.release()
            reader.join()
            self._writer.end()
            self._sink.close()
        self._writer.check()
        totals = self._writer.totals
        totals.seconds = perf_counter() - start
        return totals

    def _recover(self) -> None:
        checkpoint = self._checkpoint
        snapshot = checkpoint.latest()
        self._join.begin(snapshot.join)
        for source in self._sources:
            if source.name in snapshot.sources:
                source.load(snapshot.sources[source.name])
        self._first, self._saved = snapshot.number + 1, snapshot.number
        self._committed = max(checkpoint.committed, self._sink.committed())
        for _, plan in checkpoint.planned_from(self._first):
            self._note(plan)
        last = checkpoint.committed
        self._sink.recover(last, checkpoint.ready(last) if last >= 0 else {})
        self._due = monotonic() + self._timing.snapshot

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read_ahead(self) -> None:
        try:
            for number, plan in self._plans():
                self._room.acquire()
                if self._ending.is_set():
                    return
                begun = perf_counter()
                rows = [source.read(plan.get(source.name)) for source in self._sources]
                self._arrived.put(_Arrived(number, number <= self._committed, rows, begun))
            self._arrived.put(None)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that joins
            self._arrived.put(error)

    def _plans(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield micro-batches: those that were planned by an earlier run, then new ones, each written down."""
        yield from self._checkpoint.planned_from(self._first)
        number, interval = self._checkpoint.planned + 1, self._timing.interval
        for source in self._sources:
            source.look()
        while not self._stopping():
            begun = monotonic()
            plan = {source.name: source.plan() for source in self._sources if source.alone}
            if any(part is not None for part in plan.values()):
                plan |= {source.name: source.plan() for source in self._sources if not source.alone}
                self._checkpoint.plan(number, plan)
                # Not before: a snapshot may be made at any time, and must not have what no plan has.
                self._note(plan)
                yield number, plan
                number += 1
            elif interval is None and all(source.ended for source in self._sources):
                return
            if interval is not None:
                while not self._stopping() and (left := begun + interval - monotonic()) > 0:
                    self._stop.wait(min(left, POLL))
                for source in self._sources:
                    source.look()

    def _note(self, plan: Mapping[str, Any]) -> None:
        for source in self._sources:
            if plan.get(source.name) is not None:
                source.planned(plan[source.name])

    def _stopping(self) -> bool:
        return self._stop.is_set() or self._ending.is_set()

    # -- joining -------------------------------------------------------------------------------------------------------

    def _join_all(self) -> None:
        last = self._saved
        for arrived in self._batches():
            self._writer.check()
            self._join_one(arrived)
            last = arrived.number
            self._room.release()
            if monotonic() >= self._due and last >= self._committed:
                self._snapshot(last)
        if last > self._saved and last >= self._committed:
            self._snapshot(last)

    def _batches(self) -> Iterator[_Arrived]:
        """Yield micro-batches as they are read, until there are no more or a stop is requested."""
        since = said = monotonic()
        while True:
            try:
                arrived = self._arrived.get(timeout=POLL)
            except Empty:
                self._writer.check()
                self._listener.waiting()
                now = monotonic()
                if self._stop.is_set():
                    return
                if self._timing.interval is not None and now - said >= self._listener.idle_seconds:
                    said = now
                    self._listener.idle(now - since)
                continue
            if isinstance(arrived, BaseException):
                raise arrived
            if arrived is None or (self._stop.is_set() and not arrived.again):
                return
            yield arrived
            since = said = monotonic()

    def _join_one(self, arrived: _Arrived) -> None:
        results = self._join.take(arrived.rows)
        if arrived.again:
            for _ in results:
                pass
            return
        before = self._join.counts()
        number = arrived.number
        self._writer.do(lambda: self._writer.begin(number))
        for source, rows in zip(self._sources, arrived.rows, strict=True):
            if rows.unread is not None:
                self._writer.write_bad(source.name, rows.unread)
        for table in results:
            self._listener.rows(table)
            self._writer.write(table)
        self._listener.joined()
        after = self._join.counts()
        written = _Written(
            number,
            sum(rows.read for rows in arrived.rows),
            arrived.begun,
            self._join.latest(arrived.rows),
            after.late - before.late,
            after.without_time - before.without_time,
            {source.name: rows.bad for source, rows in zip(self._sources, arrived.rows, strict=True) if rows.bad},
        )
        self._writer.do(lambda: self._writer.commit(written))

    def _snapshot(self, number: int) -> None:
        start = monotonic()
        state = self._join.state()
        snapshot = Snapshot(number, {source.name: source.state() for source in self._sources}, state)
        self._saved = number
        self._writer.do(lambda: self._checkpoint.save(snapshot))
        took = monotonic() - start
        self._due = monotonic() + max(self._timing.snapshot, SNAPSHOT_SHARE * took)


class _WriterThread:
    """The thread that writes: it does what it is given, one thing after the other."""

    def __init__(self, sink: JobSinks, checkpoint: Checkpoint, listener: Listener) -> None:
        self._sink, self._checkpoint, self._listener = sink, checkpoint, listener
        self._work: Queue[Callable[[], None] | None] = Queue(PIECES)
        self._failed: BaseException | None = None
        self._rows_out = 0
        self._ended = 0.0
        self.totals = PipelineTotals()
        self._thread = Thread(target=self._run, name="slidejoin-write", daemon=True)
        self._thread.start()

    def do(self, step: Callable[[], None]) -> None:
        """Let the thread do a step, after those that were given before; wait if it has much to do."""
        self._work.put(step)

    def check(self) -> None:
        """Raise what a step has raised."""
        if self._failed is not None:
            raise self._failed

    def end(self) -> None:
        """Wait until all steps are done."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (step := self._work.get()) is not None:
            if self._failed is None:
                try:
                    step()
                except BaseException as error:  # noqa: BLE001 - raised by the thread that joins
                    self._failed = error

    def begin(self, number: int) -> None:
        """Begin a micro-batch."""
        self._rows_out = 0
        self._sink.begin(number)

    def write(self, table: pa.Table) -> None:
        """Give rows of the result."""

        def step() -> None:
            self._rows_out += self._sink.write(table)

        self.do(step)

    def write_bad(self, source: str, table: pa.Table) -> None:
        """Give rows of a source that cannot be read."""
        self.do(lambda: self._sink.write_bad(source, table))

    def commit(self, batch: _Written) -> None:
        """Make the results durable, note it in the checkpoint, and let them be seen."""
        ready = self._sink.ready()
        self._checkpoint.commit(batch.number, ready)
        self._sink.publish(batch.number, ready)
        now = perf_counter()
        done = Done(
            batch.number, batch.rows_in, self._rows_out, now - max(batch.begun, self._ended), batch.event_time,
            batch.late, batch.without_time, batch.bad,
        )  # fmt: skip
        self._ended = now
        self.totals.add(done)
        self._listener.batch(done)


def run_tables(sources: Sequence[RowSource], join: JobJoin, sink: JobSinks, stop: Event) -> PipelineTotals | None:
    """Run a job without streams: all rows at once, and what has no partner at the end; None if it was stopped.

    Raises
    ------
    SlideJoinError
        If rows cannot be read, joined or written; nothing was written then.
    """
    start = perf_counter()
    sink.recover(-1, {})
    join.begin()
    for source in sources:
        source.look()
    rows: list[list[Rows]] = []
    for source in sources:
        its = []
        while not stop.is_set():
            plan = source.plan()
            if plan is not None:
                its.append(source.read(plan))
            elif source.ended:
                break
        rows.append(its or [source.read(None)])
    tables = [_together(its) for its in rows]
    totals = PipelineTotals(batches=1, rows_in=sum(one.read for its in rows for one in its))
    totals.bad_by_source = {source.name: sum(one.bad for one in its) for source, its in zip(sources, rows, strict=True)}
    totals.bad = sum(totals.bad_by_source.values())
    sink.begin(0)
    try:
        for table in join.take_all(tables):
            if stop.is_set():
                sink.close()
                return None
            totals.rows_out += sink.write(table)
        _write_bad(sources, tables, sink)
        sink.publish(0, sink.ready())
    except BaseException:
        sink.close()
        raise
    lost = join.counts()
    totals.late, totals.without_time = lost.late, lost.without_time
    totals.seconds = perf_counter() - start
    return totals


def _write_bad(sources: Sequence[RowSource], rows: Sequence[Rows], sink: JobSinks) -> None:
    for source, its in zip(sources, rows, strict=True):
        if its.unread is not None:
            sink.write_bad(source.name, its.unread)


def _together(rows: Sequence[Rows]) -> Rows:
    import pyarrow as pa  # noqa: PLC0415 - loaded by the sources

    table = pa.concat_tables([one.table for one in rows])
    unread = [one.unread for one in rows if one.unread is not None]
    read, bad = sum(one.read for one in rows), sum(one.bad for one in rows)
    return Rows(table, read, bad, pa.concat_tables(unread) if unread else None, version=[])
