"""What a page or a terminal shows of a running join: rates, latencies and shares, made of documents.

A document has counters; who looks at a join wants to know what happens now. A `JobBoard` takes documents as they
arrive. It makes a point for the charts of each, and details of the newest one. A counter that falls, or another start
of the job, begins again: there is no rate across a restart.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from itertools import islice
from threading import Lock
from time import time as wall_clock
from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin.watch.reading import Histogram, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from slidejoin.watch.document import Document, JobFacts

__all__ = ["LOST_AFTER", "JobBoard", "JobState"]

POINTS = 900
"""Of the charts: a quarter of an hour at one document a second."""

RECENT, LONGEST = 10.0, 60.0
"""Seconds over which a rate or a latency of now is taken: a single push says little. More of them, up to a minute, if
no rows have arrived meanwhile: micro-batches may be far apart."""

FEWEST = 2
"""Readings that stay, however old: a rate takes two."""

LOST_AFTER = 10.0
"""Seconds without a document after which a job is shown as lost."""

QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}

LOSSES = {
    "slidejoin_late_rows_total": "late",
    "slidejoin_null_time_rows_total": "without event time",
    "slidejoin_bad_rows_total": "not readable",
    "slidejoin_feed_dropped_rows_total": "dropped by the feed",
}
"""Rows that were not joined, and what they are called."""

ROWS, PAIRS, STEPS = "slidejoin_rows_total", "slidejoin_pairs_total", "slidejoin_step_seconds_total"


class JobState(NamedTuple):
    """How a job is.

    Attributes
    ----------
    name : str
        ``waiting`` for the first document, ``running``, ``lost`` or ``ended``.
    text : str
        The same in words.
    age : float or None
        Seconds since the newest document was made or arrived.
    """

    name: str
    text: str
    age: float | None


class JobBoard:
    """Takes documents of one job and has what is shown of them. Threads may share it.

    Parameters
    ----------
    rows : bool
        Whether values of rows are shown: the newest pairs, and log lines, which may quote a value.
    lost_after : float
        Seconds without a document after which the job counts as lost.
    clock : callable
        Unix time.

    Examples
    --------
    >>> from slidejoin.watch.document import Document, JobFacts
    >>> from slidejoin.watch.reading import Reading
    >>> facts = JobFacts("trips", "embedded", 1.0, "l.a = r.a", "10 rows", "cells", ("left", "right"))
    >>> board = JobBoard(clock=lambda: 100.0)
    >>> board.state().name
    'waiting'
    >>> for time, rows in [(98.0, 0), (99.0, 500)]:
    ...     board.add(Document(facts, Reading(time).with_values(("slidejoin_rows_total", {"side": "left"}, rows))))
    >>> board.details()["sides"][0]["rate"], board.state().name
    (500.0, 'running')
    """

    def __init__(
        self, *, rows: bool = True, lost_after: float = LOST_AFTER, clock: Callable[[], float] = wall_clock
    ) -> None:
        self._rows, self._lost_after, self._clock = rows, lost_after, clock
        self._lock = Lock()
        self._recent: deque[Reading] = deque()
        self._since = Reading(0.0)
        self._points: deque[dict[str, Any]] = deque(maxlen=POINTS)
        self._number = 0
        self._details: dict[str, Any] = {}
        self._document: Document | None = None
        self._arrived = 0.0
        self._trouble: str | None = None

    # -- taking --------------------------------------------------------------------------------------------------------

    def add(self, document: Document, *, arrived: float | None = None) -> None:
        """Take a document; one that is not newer than the newest one is skipped.

        Parameters
        ----------
        document : Document
        arrived : float, optional
            When it was made by the clock of this machine; now by default.
        """
        with self._lock:
            before, reading = self._document, document.reading
            if before is not None:
                if document.time < before.time or document == before:
                    return
                if _restarted(before, document):
                    self._recent.clear()
                    self._append({"t": document.time})
            self._document = document
            self._arrived = self._clock() if arrived is None else min(arrived, self._clock())
            self._recent.append(reading)
            while len(self._recent) > FEWEST and self._recent[1].time <= document.time - LONGEST:
                self._recent.popleft()
            self._since = _since(self._recent)
            self._details = self._detailed(document)
            self._append(self._point(reading))

    def trouble(self, text: str | None) -> None:
        """Say why documents cannot be read; None that they can."""
        with self._lock:
            self._trouble = text

    def _append(self, point: dict[str, Any]) -> None:
        self._number += 1
        self._points.append(point)

    # -- showing -------------------------------------------------------------------------------------------------------

    def since(self, number: int) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of the newest point of the charts, and all points after the one of a number."""
        with self._lock:
            new = min(self._number - number, len(self._points))
            return self._number, list(islice(self._points, len(self._points) - new, None))

    def details(self) -> dict[str, Any]:
        """Return what is shown of the newest document; empty before the first one."""
        with self._lock:
            return self._details

    def state(self) -> JobState:
        """Return how the job is."""
        with self._lock:
            if self._document is None:
                return JobState("waiting", self._trouble or "no figures yet", None)
            age = max(self._clock() - self._arrived, 0.0)
            if self._document.ended:
                return JobState("ended", "the job has ended", age)
            if self._trouble is not None:
                return JobState("lost", self._trouble, age)
            if age > self._lost_after:
                return JobState("lost", "the job does not report any more", age)
            return JobState("running", "the job is running", age)

    def _detailed(self, document: Document) -> dict[str, Any]:
        reading, newest = document.reading, document.pairs if self._rows else None
        lost = {text: sum(reading.of(name).values()) for name, text in LOSSES.items()}
        return {
            "job": asdict(document.job),
            "time": document.time,
            "sides": [self._side(reading, side, name) for side, name in _named(document.job)],
            "pairs": {"total": reading.value(PAIRS), "rate": self._rate(PAIRS, self._since)},
            "latency": self._latency(),
            "window_bytes": reading.value("slidejoin_window_bytes"),
            "steps": self._steps(),
            "buckets": [{"name": name, "rows": rows} for name, rows in _ordered(reading.of("slidejoin_bucket_rows"))],
            "skew": reading.value("slidejoin_bucket_skew"),
            "terms": [asdict(term) for term in document.terms],
            "lost": [{"name": text, "rows": rows} for text, rows in lost.items() if rows],
            "feed": {
                "rows": reading.value("slidejoin_feed_rows"),
                "capacity": reading.value("slidejoin_feed_capacity_rows"),
            },
            "index_changes": reading.value("slidejoin_index_changes_total"),
            "newest": None if newest is None else {"columns": newest[0], "rows": newest[1]},
            "log": [asdict(line) for line in document.log] if self._rows else None,
        }

    def _side(self, reading: Reading, side: str, name: str) -> dict[str, Any]:
        return {
            "side": side,
            "name": name,
            "rows": reading.value(ROWS, side=side),
            "rate": self._rate(ROWS, self._since, side=side),
            "window": reading.value("slidejoin_window_rows", side=side),
            "watermark": reading.value("slidejoin_watermark_seconds", side=side),
            "holds": bool(reading.value("slidejoin_watermark_held_by", side=side)),
            "lag": reading.value("slidejoin_lag_seconds", side=side),
            "unmatched": reading.value("slidejoin_unmatched_rows_total", side=side),
        }

    def _point(self, reading: Reading) -> dict[str, Any]:
        sides = self._details["job"]["sides"]
        last = self._recent[-2] if len(self._recent) > 1 else reading
        return {
            "t": reading.time,
            "rows": [self._rate(ROWS, last, side=side) for side in sides],
            "pairs": self._rate(PAIRS, last),
            "window": [reading.value("slidejoin_window_rows", side=side) for side in sides],
            **(self._details["latency"] or {}),
        }

    def _rate(self, name: str, since: Reading, **labels: str) -> float | None:
        """Return how fast a counter has grown since a reading; None if there is nothing to compare."""
        now = self._recent[-1]
        value, before = now.value(name, **labels), since.value(name, **labels)
        if value is None or now.time <= since.time:
            return None
        return max(value - (before or 0.0), 0.0) / (now.time - since.time)

    def _latency(self) -> dict[str, float] | None:
        """Return quantiles of recent pushes; of all pushes while there is one document alone."""
        pushes = self._recent[-1].histogram("slidejoin_push_seconds")
        before = self._since.histogram("slidejoin_push_seconds") if len(self._recent) > 1 else None
        if pushes is not None and before is not None and before.bounds == pushes.bounds:
            counts = tuple(now - then for now, then in zip(pushes.counts, before.counts, strict=True))
            pushes = Histogram(pushes.bounds, counts, pushes.sum - before.sum)
        if pushes is None or pushes.count <= 0:
            return None
        return {name: pushes.quantile(share) for name, share in QUANTILES.items()}

    def _steps(self) -> list[dict[str, Any]]:
        """Return the share of each step in the recent time, the largest one first."""
        before = self._since.of(STEPS) if len(self._recent) > 1 else {}
        spent = {step: max(secs - before.get(step, 0.0), 0.0) for step, secs in self._recent[-1].of(STEPS).items()}
        whole = sum(spent.values())
        ordered = sorted(spent.items(), key=lambda item: -item[1])
        return [{"name": step, "share": seconds / whole} for step, seconds in ordered if seconds > 0]


def _restarted(before: Document, after: Document) -> bool:
    """Tell whether a job has started again between two documents."""
    if before.job.started != after.job.started or before.job.sides != after.job.sides:
        return True
    was, now = before.reading.of(ROWS), after.reading.of(ROWS)
    return any(rows < was.get(side, 0.0) for side, rows in now.items())


def _since(recent: Sequence[Reading]) -> Reading:
    """Return the reading since which figures are of now."""
    now = recent[-1]
    rows = now.of(ROWS)
    for reading in reversed(recent):
        if reading.time <= now.time - RECENT and reading.of(ROWS) != rows:
            return reading
    return recent[0]


def _named(job: JobFacts) -> Iterable[tuple[str, str]]:
    """Return the sides of a job, and what people call them."""
    return zip(job.sides, job.sources if len(job.sources) == len(job.sides) else job.sides, strict=True)


def _ordered(buckets: dict[str, float]) -> list[tuple[str, float]]:
    """Return buckets in the order of their numbers; those whose names are no numbers come last."""
    return sorted(buckets.items(), key=lambda one: (not one[0].isdecimal(), int(one[0]) if one[0].isdecimal() else 0))
