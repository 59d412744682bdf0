"""The document of a job: its figures, plan, terms, newest rows and log lines at one time, as JSON.

One is a line of a history, see `slidejoin.watch.history`, and what an endpoint serves as ``/watch.json``.
"""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from slidejoin.errors import StateError
from slidejoin.watch.reading import Reading

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["VERSION", "Document", "JobFacts", "LogLine", "NewestLines", "NewestPairs", "PassedTerm"]

VERSION = 1
"""Of the form of a document."""

MOST_PAIRS, MOST_LINES = 20, 50
"""Newest rows and log lines of a document."""

SMALL = 10
"""Times as many rows as are shown: tables up to that are held whole."""

MOST_BYTES = 1 << 20
"""Of newest rows that are held."""

LONGEST = 200
"""Characters of a value, and ten times of a log line, that are shown."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is the same for the whole run of a job.

    Attributes
    ----------
    name : str
    engine : {"embedded", "spark"}
    started : float
        In Unix time.
    on, window : str
        The predicate, and the window, as text.
    plan : str
        What ``explain`` says.
    sides : tuple of str
        ``left`` and ``right``, or the names of the streams.
    sources : tuple of str
        The names of what is read on each side; empty if the sides have no other names.
    """

    name: str
    engine: str
    started: float
    on: str
    window: str
    plan: str
    sides: tuple[str, ...]
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PassedTerm:
    """A term of the predicate, and the share of the row pairs that pass it, from 0 to 1."""

    term: str
    passed: float


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log: Unix time, level and text."""

    time: float
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """A job at one time.

    Attributes
    ----------
    job : JobFacts
    reading : Reading
        Its figures, and the time.
    terms : tuple of PassedTerm
        Empty where the shares are not known.
    pairs : tuple of columns and rows, or None
        The newest rows of the result, as text; None if they are not to be shown.
    log : tuple of LogLine
        The newest lines, oldest first.
    ended : bool
        Whether the job has ended.
    """

    job: JobFacts
    reading: Reading
    terms: tuple[PassedTerm, ...] = ()
    pairs: tuple[tuple[str, ...], tuple[tuple[str, ...], ...]] | None = None
    log: tuple[LogLine, ...] = ()
    ended: bool = False

    @property
    def time(self) -> float:
        """When its figures were taken, in Unix time."""
        return self.reading.time

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        pairs = None
        if self.pairs is not None:
            columns, rows = self.pairs
            pairs = {"columns": list(columns), "rows": [list(row) for row in rows]}
        return {
            "version": VERSION,
            "time": self.time,
            "job": asdict(self.job) | {"sides": list(self.job.sides), "sources": list(self.job.sources)},
            "figures": self.reading.to_json(),
            "terms": [asdict(term) for term in self.terms],
            "pairs": pairs,
            "log": [asdict(line) for line in self.log],
            "ended": self.ended,
        }

    @staticmethod
    def from_json(plain: object) -> Document:
        """Read what `to_json` wrote.

        Raises
        ------
        StateError
            If it is something else, or of a later version.

        Examples
        --------
        >>> facts = JobFacts("job", "embedded", 0.0, "l.a = r.a", "10 rows", "cells", ("left", "right"))
        >>> document = Document(facts, Reading(1.0), log=(LogLine(0.5, "INFO", "began"),))
        >>> Document.from_json(document.to_json()) == document
        True
        """
        if not isinstance(plain, dict) or plain.get("version") != VERSION:
            got = plain.get("version") if isinstance(plain, dict) else type(plain).__name__
            msg = f"a document of version {VERSION} was expected, got {got!r}; a newer slidejoin may read it"
            raise StateError(msg)
        try:
            facts = plain["job"]
            job = JobFacts(**facts | {"sides": tuple(facts["sides"]), "sources": tuple(facts.get("sources", ()))})
            shown = plain["pairs"]
            pairs = None
            if shown is not None:
                pairs = tuple(shown["columns"]), tuple(tuple(row) for row in shown["rows"])
            return Document(
                job,
                Reading.from_json(plain["figures"], float(plain["time"])),
                tuple(PassedTerm(str(one["term"]), _share(one["passed"])) for one in plain["terms"]),
                pairs,
                tuple(LogLine(float(one["time"]), str(one["level"]), str(one["text"])) for one in plain["log"]),
                bool(plain["ended"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            msg = f"the document is damaged: {type(error).__name__}: {error}"
            raise StateError(msg) from error


def _share(value: object) -> float:
    share = float(value)  # type: ignore[arg-type]
    if not math.isfinite(share):
        msg = f"a share should be a number from 0 to 1, got {value!r}"
        raise ValueError(msg)
    return share


def _cut(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


class NewestPairs:
    """Holds the newest rows of a result as text, to be shown. Any thread may call it."""

    def __init__(self, most: int = MOST_PAIRS) -> None:
        self._most, self._lock = most, Lock()
        self._columns: tuple[str, ...] = ()
        self._tables: list[pa.Table] = []

    def take(self, table: pa.Table) -> None:
        """Take rows of the result; only the newest are held."""
        newest = table.slice(max(table.num_rows - self._most, 0))
        if newest.nbytes > MOST_BYTES:
            return  # rows that wide are not for people
        if table.num_rows > SMALL * self._most:
            # A copy, as a slice holds the memory of the whole table.
            newest = newest.take(list(range(newest.num_rows)))
        with self._lock:
            self._tables.append(newest)
            while len(self._tables) > 1 and sum(one.num_rows for one in self._tables[1:]) >= self._most:
                del self._tables[0]

    def shown(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Return names of columns, and rows as text, newest last."""
        with self._lock:
            tables = list(self._tables)
        if not tables:
            return (), ()
        rows = [row for table in tables for row in zip(*map(_texts, table.columns), strict=True)]
        return tuple(tables[-1].column_names), tuple(rows[-self._most :])


def _texts(column: pa.ChunkedArray[Any]) -> list[str]:
    """Return the values of a column as text; NULL is empty."""
    import pyarrow as pa  # noqa: PLC0415 - who has a column has loaded it

    kinds = pa.types
    if kinds.is_timestamp(column.type) or kinds.is_time(column.type) or kinds.is_date(column.type):
        column = column.cast(pa.string())
    try:
        values = column.to_pylist()
    except Exception:  # noqa: BLE001 - nanoseconds, of which Python has none, anywhere within lists or structs
        return ["…"] * len(column)
    return [_cut("" if value is None else str(value)) for value in values]


@dataclass(slots=True)
class NewestLines:
    """Holds the newest lines of a log. Any thread may call it."""

    _lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=MOST_LINES))

    def add(self, text: str, level: str = "INFO", at: float | None = None) -> None:
        """Add a line, of now by default."""
        self._lines.append(LogLine(time.time() if at is None else at, level, _cut(text, 10 * LONGEST)))

    def shown(self) -> tuple[LogLine, ...]:
        """Return the lines, oldest first."""
        return tuple(self._lines.copy())
