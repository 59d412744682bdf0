"""The way of a table to the tasks: a file on every node, and for a table that is read again a file for each version.

::

    stream_join    version 0                                    for all micro-batches at first
    each interval  version n, if its rows are others: a file    for those that begin 5 s later or after that
                   mark n, an empty file with that time

Spark gives each micro-batch a time, which its checkpoint has before it runs, and which stays the same when it runs
again. Each row of the stream brings that time to its task, which takes the last version whose mark is not later. All
tasks of a micro-batch begin after all marks that count for it were given to the nodes: so they take one version.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import shutil
import tempfile
import time
import uuid
from collections import deque
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import pyarrow as pa

from slidejoin.arguments import shown
from slidejoin.errors import ArgumentError
from slidejoin.spark.bucket.table_marks import KEPT, TableMark
from slidejoin.spark.job.checks import SparkJoinError, is_connect
from slidejoin.spec.window import Span, length_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


__all__ = ["TableRefresh", "TableVersions", "check_no_refresh", "given_to_tasks", "table_refresh"]

log = logging.getLogger(__name__)

LEAD = 5.0
"""Seconds in which a mark is given to the nodes, before the first micro-batch that takes its version; at most half of
the time between two readings."""

LOOK = 0.5
"""Seconds between two looks whether the session is still there."""

_sent: WeakKeyDictionary[object, set[str]] = WeakKeyDictionary()
"""Files that a session, or a context of many sessions, has."""


@dataclass(frozen=True, slots=True, eq=False)
class TableRefresh:
    """How a table is read again.

    Attributes
    ----------
    every : Span
        The time between two readings.
    read : callable or None
        Returns the table as it is now; None for the DataFrame of the join, read again.
    taken : callable or None
        Takes the time in milliseconds from which on micro-batches meet what `read` has returned last, before any does.
    soon : bool
        Whether it is read again as soon as a query runs.
    """

    every: Span
    read: Callable[[], DataFrame] | None = None
    taken: Callable[[int], None] | None = None
    soon: bool = False


def table_refresh(refresh: object) -> TableRefresh | None:
    """Return how a table is read again, by what a user gives; None if it is not."""
    if refresh is None or isinstance(refresh, TableRefresh):
        return refresh
    return TableRefresh(_span(refresh))


def _span(refresh: object) -> Span:
    """Return the time between two readings of a table.

    Raises
    ------
    ArgumentError
        If it is none, or zero.
    """
    every = length_of(refresh, "refresh")  # type: ignore[arg-type]  # which it checks
    if not isinstance(every, Span) or not every.nanoseconds:
        msg = f"refresh must be a time above zero such as '10 minutes', got {shown(refresh)}"
        raise ArgumentError(msg)
    return every


def check_no_refresh(refresh: object) -> None:
    """Refuse to read a table again where there is none.

    Raises
    ------
    SparkJoinError
        Unless it is None.
    """
    if refresh is not None:
        msg = f"refresh={shown(refresh)} is for a stream with a table, which is read again: leave it out"
        raise SparkJoinError(msg)


@cache
def _folder() -> Path:
    """Return the folder of this process for tables, from which Spark sends them as executors start."""
    folder = tempfile.mkdtemp(prefix="slidejoin-tables-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _written(table: pa.Table) -> tuple[Path, str]:
    """Write a table to a file, and return its path and a digest of the rows."""
    number, part = tempfile.mkstemp(dir=_folder())
    with pa.OSFile(part, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    with open(number, "rb") as written:  # noqa: PTH123 - a descriptor
        return Path(part), hashlib.file_digest(written, "sha256").hexdigest()[:32]


def given_to_tasks(session: SparkSession, table: pa.Table) -> str:
    """Give the tasks of a session a table as a file, and return its name, which has a digest of the rows."""
    part, digest = _written(table)
    name = f"slidejoin-table-{digest}.arrow"
    path = part.replace(_folder() / name)
    connect = is_connect(session)
    sent = _sent.setdefault(session if connect else session.sparkContext, set())
    if name not in sent:
        if connect:
            session.addArtifacts(str(path), file=True)
        else:
            session.sparkContext.addFile(str(path))
        sent.add(name)
    if connect:
        path.unlink()
    return name


class TableVersions:
    """The versions of a table that is read again while queries of its session run.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        A classic one.
    read : callable
        Returns the table as it is now.
    refresh : TableRefresh
    """

    def __init__(self, session: SparkSession, read: Callable[[], pa.Table], refresh: TableRefresh) -> None:
        self._session, self._read, self._refresh = session, read, refresh
        self._every = refresh.every.nanoseconds / 1e9
        self.family = uuid.uuid4().hex
        self._lead = min(LEAD, self._every / 2)
        self._digest = ""
        self._files: deque[Path] = deque()
        self._number = 0

    def begin(self, table: pa.Table) -> None:
        """Give the tasks the first version, and read the table again from now on."""
        self._give(table)
        Thread(target=self._run, name="slidejoin-table", daemon=True).start()

    def _run(self) -> None:
        due = time.monotonic() + (0 if self._refresh.soon else self._every)
        while self._session.sparkContext._jsc is not None:  # noqa: SLF001 - how pyspark itself sees that it is stopped
            time.sleep(min(LOOK, self._every))
            try:
                if time.monotonic() < due or not self._session.streams.active:
                    continue
                due = time.monotonic() + self._every
                self.again()
            except Exception:
                if self._session.sparkContext._jsc is not None:  # noqa: SLF001 - as above
                    log.warning("a table could not be read again; its query keeps the rows that it has", exc_info=True)

    def again(self) -> None:
        """Read the table, and give the tasks another version if it has changed."""
        self._give(self._read())

    def _give(self, table: pa.Table) -> None:
        part, digest = _written(table)
        if digest == self._digest:
            part.unlink()
            return
        first = not self._files
        self._digest, self._number = digest, self._number + 1
        path = part.replace(_folder() / f"slidejoin-table-{self.family}-{self._number}.arrow")
        context = self._session.sparkContext
        context.addFile(str(path))
        effective = 0 if first else int((time.time() + self._lead) * 1000)
        if not first and self._refresh.taken is not None:
            self._refresh.taken(effective)
        mark = _folder() / TableMark(self.family, effective, table.num_rows, path.name).name
        mark.write_bytes(b"\n")
        context.addFile(str(mark))
        if effective and time.time() * 1000 > effective:
            log.warning("a version of a table came late: tasks of one micro-batch may have met two versions")
        self._files.append(path)
        while len(self._files) > KEPT:
            # Spark sends all files to executors that start later: an empty one takes no space.
            self._files.popleft().write_bytes(b"")
