"""The monitor of a running job: it collects figures, rows and log lines, and writes documents to the history."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from slidejoin.watch.document import Document, NewestLines, NewestPairs, PassedTerm
from slidejoin.watch.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from slidejoin.watch.document import JobFacts
    from slidejoin.watch.history import History

__all__ = ["JobMonitor"]

log = logging.getLogger(__name__)

EVERY, IDLE_EVERY = 1.0, 3.0
"""Seconds between two documents: while micro-batches are committed, and while there are none."""

LOOK_EVERY = 0.1
"""Seconds between two looks at the figures of the join, which take some tenths of a millisecond."""

TERMS_EVERY = 10.0
"""Seconds between two samples of how many row pairs pass each term: a sample takes some milliseconds."""


class JobMonitor:
    """What is known of a running job. Any thread may call it, and nothing that fails here stops the job.

    Parameters
    ----------
    facts : JobFacts
        What is the same for the whole run.
    rows : bool
        Whether the newest rows of the result are held, to be shown.
    every, idle_every : float
        Seconds between two documents in the history.

    Attributes
    ----------
    lines : NewestLines
        The newest lines of the log.
    is_stale : bool
        Whether the join has done more since the last look.

    Examples
    --------
    >>> from slidejoin.watch.document import JobFacts
    >>> facts = JobFacts("job", "embedded", 0.0, "l.a = r.a", "10 rows", "cells", ("left", "right"))
    >>> monitor = JobMonitor(facts)
    >>> monitor.batch(rows_out=3)
    >>> monitor.reading().value("slidejoin_result_rows_total")
    3.0
    """

    def __init__(
        self, facts: JobFacts, *, rows: bool = True, every: float = EVERY, idle_every: float = IDLE_EVERY
    ) -> None:
        self.lines = NewestLines()
        self._facts, self._every, self._idle_every = facts, every, idle_every
        self._history: History | None = None
        self._writer: Thread | None = None
        self._ending = Event()
        self._pairs = NewestPairs() if rows else None
        self._lock = Lock()
        self._joined: Reading | None = None
        self._terms: tuple[PassedTerm, ...] = ()
        self.is_stale = False
        self._looked = self._sampled = float("-inf")
        self._warned: set[str] = set()
        self._ended = False
        self._batches = self._result_rows = self._bad_rows = 0

    # -- what the job says -------------------------------------------------------------------------------------------

    def planned(self, facts: JobFacts) -> None:
        """Take what is known once the join is planned, or planned again."""
        self._facts = facts

    def rows(self, table: pa.Table) -> None:
        """Take rows of the result."""
        if self._pairs is not None and table.num_rows:
            with self.guarded("the newest rows cannot be shown"):
                self._pairs.take(table)

    def joined(
        self,
        read: Callable[[], Reading],
        terms: Callable[[], Sequence[tuple[str, float]]] | None = None,
        *,
        now: bool = False,
    ) -> None:
        """Look at the figures of the join, and from time to time at its terms, unless the last look is recent.

        Parameters
        ----------
        read : callable
            Returns the figures of the join.
        terms : callable, optional
            Returns the terms of its predicate, and the share of row pairs that pass each.
        now : bool
            Look in any case, at the terms too.
        """
        at = time.monotonic()
        self.is_stale = not now and at - self._looked < LOOK_EVERY
        if self.is_stale:
            return
        self._looked = at
        with self.guarded("the figures of the join cannot be read"):
            self._joined = read()
            if terms is not None and (now or at - self._sampled >= TERMS_EVERY):
                self._sampled = at
                self._terms = tuple(PassedTerm(*one) for one in terms())

    def batch(self, rows_out: int, bad: int = 0) -> None:
        """Count a micro-batch that is committed.

        Parameters
        ----------
        rows_out : int
            Rows that were written to the sink.
        bad : int
            Rows of all sources that could not be read.
        """
        with self._lock:
            self._batches += 1
            self._result_rows += rows_out
            self._bad_rows += bad

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Let nothing that fails in the block stop the job; `what` it means is logged, the first time."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see above
            if what not in self._warned:
                self._warned.add(what)
                log.warning("%s, and the job goes on: %s: %s", what, type(error).__name__, error)

    # -- the history -------------------------------------------------------------------------------------------------

    def write_to(self, history: History) -> None:
        """Write documents to a history until `end`, in a thread, so that a slow disk does not slow the job."""
        self._history = history
        self._writer = Thread(target=self._write_all, name="slidejoin-history", daemon=True)
        self._writer.start()

    def end(self) -> None:
        """Write the last document, unless the job has not come so far as to commit a micro-batch."""
        self._ended = True
        self._ending.set()
        if self._writer is not None:
            self._writer.join()
            if self._batches:
                self._write()

    def _write_all(self) -> None:
        written, since = 0, time.monotonic()
        while not self._ending.wait(self._every):
            if self._batches != written or time.monotonic() - since >= self._idle_every:
                written, since = self._batches, time.monotonic()
                self._write()

    def _write(self) -> None:
        if self._history is not None:
            with self.guarded(f"the history in {self._history.folder} cannot be written"):
                self._history.append(self.document())

    # -- what is known -----------------------------------------------------------------------------------------------

    def reading(self) -> Reading:
        """Return the figures of the join as of the last look, with those of the job, and the lag as it is now."""
        now = time.time()
        joined = self._joined or Reading(now)
        with self._lock:
            reading = joined.with_values(
                ("slidejoin_bad_rows_total", {}, self._bad_rows),
                ("slidejoin_result_rows_total", {}, self._result_rows),
                ("slidejoin_micro_batches_total", {}, self._batches),
            )
        return reading.at(now)

    def document(self) -> Document:
        """Return the document of now."""
        pairs = None if self._pairs is None else self._pairs.shown()
        return Document(self._facts, self.reading(), self._terms, pairs, self.lines.shown(), self._ended)
