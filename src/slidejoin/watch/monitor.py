"""The monitor of a running job: it collects figures, rows and log lines, and writes documents to the history."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Self

from slidejoin.watch.document import Document, NewestLines, NewestPairs, PassedTerm
from slidejoin.watch.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from slidejoin.watch.document import JobFacts
    from slidejoin.watch.history import History

__all__ = ["JobMonitor"]

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two documents, and between two looks at the figures of the join, at least."""

TERMS_EVERY = 10.0
"""Seconds between two samples of how many row pairs pass each term: a sample takes some milliseconds."""


class JobMonitor:
    """What is known of a running job. Any thread may call it, and nothing that fails here stops the job.

    Parameters
    ----------
    facts : JobFacts
        What is the same for the whole run; see `start`.
    history : History, optional
        Where documents are written; None to write none.
    rows : bool
        Whether the newest rows of the result are held, to be shown.
    every : float
        Seconds between two documents, at least.

    Attributes
    ----------
    lines : NewestLines
        The newest lines of the log.

    Examples
    --------
    >>> from slidejoin.watch.document import JobFacts
    >>> facts = JobFacts("job", "embedded", 0.0, "l.a = r.a", "10 rows", "cells", ("left", "right"))
    >>> monitor = JobMonitor(facts)
    >>> monitor.batch(rows_out=3, bad={})
    >>> monitor.reading().value("slidejoin_result_rows_total")
    3.0
    """

    def __init__(
        self, facts: JobFacts, history: History | None = None, *, rows: bool = True, every: float = EVERY
    ) -> None:
        self.lines = NewestLines()
        self._facts, self._history, self._every = facts, history, every
        self._pairs = NewestPairs() if rows else None
        self._lock = Lock()
        self._joined: Reading | None = None
        self._terms: tuple[PassedTerm, ...] = ()
        self._looked = self._sampled = self._wrote = float("-inf")
        self._failed = False
        self._ended = False
        self._batches = self._result_rows = self._bad_rows = 0

    # -- what the job says -------------------------------------------------------------------------------------------

    def started(self, facts: JobFacts) -> None:
        """Take what is known once the join is planned."""
        self._facts = facts

    def rows(self, table: pa.Table) -> None:
        """Take rows of the result."""
        if self._pairs is not None and table.num_rows:
            self._pairs.take(table)

    def joined(
        self,
        read: Callable[[], Reading],
        terms: Callable[[], Sequence[tuple[str, float]]] | None = None,
        *,
        now: bool = False,
    ) -> None:
        """Look at the figures of the join, and from time to time at its terms; `now` even if the last look is recent.

        Parameters
        ----------
        read : callable
            Returns the figures of the join.
        terms : callable, optional
            Returns the terms of its predicate, and the share of row pairs that pass each.
        now : bool
        """
        at = time.monotonic()
        if not now and at - self._looked < self._every:
            return
        self._looked = at
        try:
            self._joined = read()
            if terms is not None and (now or at - self._sampled >= TERMS_EVERY):
                self._sampled = at
                self._terms = tuple(PassedTerm(*one) for one in terms())
        except Exception as error:  # noqa: BLE001 - see the class
            self._warn("the figures of the join could not be read", error)

    def batch(self, *, rows_out: int, bad: dict[str, int]) -> None:
        """Count a micro-batch that is committed, and write a document if one is due; `bad` rows are those by source."""
        with self._lock:
            self._batches += 1
            self._result_rows += rows_out
            self._bad_rows += sum(bad.values())
        self.write()

    def write(self, *, now: bool = False) -> None:
        """Write a document to the history, if one is due, or `now`."""
        if self._history is None:
            return
        at = time.monotonic()
        with self._lock:
            if not now and at - self._wrote < self._every:
                return
            self._wrote = at
        try:
            self._history.append(self.document())
        except Exception as error:  # noqa: BLE001 - see the class
            self._warn(f"the history in {self._history.folder} is not written", error)

    def end(self) -> None:
        """Write the last document."""
        self._ended = True
        self.write(now=True)

    def _warn(self, what: str, error: Exception) -> None:
        """Log what has failed, the first time only."""
        if not self._failed:
            self._failed = True
            log.warning("%s, and the job goes on: %s: %s", what, type(error).__name__, error)

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):
            self.end()
