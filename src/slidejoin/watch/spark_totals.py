"""The figures of a streaming query on Spark, added up from those of its micro-batches.

Spark has the progress of the last hundred micro-batches, and the driver the figures of the last buckets. Totals of a
query take those that are new whenever they are called.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Any

from slidejoin.operator.stats import PUSH_BOUNDS
from slidejoin.sides import SIDES
from slidejoin.spark.metrics.watch import joined_buckets
from slidejoin.watch.reading import Histogram, Reading, event_times

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from slidejoin.sides import Side
    from slidejoin.watch.reading import Value

__all__ = ["QueryTotals", "query_reading"]

MICROSECONDS = 1e6
MOST_QUERIES = 256
"""Queries of a process whose totals are held; of more, those that began first are forgotten."""

SUMS = ("rows_left", "rows_right", "late_rows", "null_time_rows", "pairs", "unmatched", "rebuilt")


class QueryTotals:
    """Adds up the micro-batches of a query. Any thread may call it.

    Rows are counted where they are joined, see `slidejoin.spark.JoinProgress`: late ones too, and one that goes to
    three buckets three times. Of many streams the first one is left, and all others are right.

    Parameters
    ----------
    sides : tuple of {"left", "right"}
        The left one alone for a self-join.
    """

    def __init__(self, sides: tuple[Side, ...] = SIDES) -> None:
        self._sides = sides
        self._lock = Lock()
        self._last = -1
        self._sums = dict.fromkeys(SUMS, 0)
        self._seconds: dict[str, float] = {}
        self._batches = Histogram.empty(PUSH_BOUNDS)
        self._buckets: dict[tuple[str, int], dict[str, Any]] = {}
        """The last figures of each bucket of each join: one without rows is not run."""
        self._newest: dict[str, int] = {}
        self._lateness: int | None = None

    def catch_up(self, query: StreamingQuery) -> bool:
        """Take the micro-batches that have ended since the last time, and return whether there were any."""
        before = self._last
        for progress in query.recentProgress:
            self.take(progress)
        return self._last > before

    def take(self, progress: Any) -> None:  # noqa: ANN401 - a StreamingQueryProgress, of classic Spark or of Connect
        """Take a micro-batch, if it is a new one. Empty ones, in which no bucket ran, are left out."""
        with self._lock:
            number, joins = int(progress.batchId), joined_buckets(progress)
            if number <= self._last or not (joins or progress.numInputRows):
                return
            self._last = number
            self._batches = self._batches.with_value(progress.batchDuration / 1000)
            for join, buckets in joins.items():
                for bucket in buckets:
                    self._add(join, bucket)

    def _add(self, join: str, bucket: dict[str, Any]) -> None:
        self._buckets[join, bucket["bucket"]] = bucket
        for name in SUMS:
            self._sums[name] += bucket[name]
        for step, spent in bucket["seconds"].items():
            self._seconds[step] = self._seconds.get(step, 0.0) + spent
        for side in SIDES:
            newest = bucket[f"event_time_{side}"]
            if newest is not None:
                self._newest[side] = max(newest, self._newest.get(side, newest))
        if bucket.get("lateness") is not None:
            self._lateness = max(bucket["lateness"], self._lateness or 0)

    def reading(self) -> Reading:
        """Return the figures of all joins of the query, as they are after the last micro-batch that was taken."""
        with self._lock:
            now, sums = time.time(), self._sums
            values: list[Value] = [
                *(("slidejoin_rows_total", {"side": side}, sums[f"rows_{side}"]) for side in self._sides),
                ("slidejoin_pairs_total", {}, sums["pairs"]),
                ("slidejoin_late_rows_total", {"side": ""}, sums["late_rows"]),
                ("slidejoin_null_time_rows_total", {}, sums["null_time_rows"]),
                ("slidejoin_unmatched_rows_total", {"side": ""}, sums["unmatched"]),
                ("slidejoin_cache_rebuilds_total", {}, sums["rebuilt"]),
                ("slidejoin_micro_batches_total", {}, self._batches.count),
                ("slidejoin_push_seconds", {}, self._batches),
                *(("slidejoin_step_seconds_total", {"step": step}, spent) for step, spent in self._seconds.items()),
            ]
            reading = Reading(now).with_values(*values)
            return self._with_times(self._with_buckets(reading)).at(now)

    def _with_buckets(self, reading: Reading) -> Reading:
        """Add the sizes of the state, as the last figures of each bucket have it."""
        several = len({join for join, _ in self._buckets}) > 1
        rows: dict[str, int] = {}
        for (join, number), bucket in sorted(self._buckets.items()):
            # The name of a join begins with its number.
            name = f"{join.partition(':')[0]}/{number}" if several else str(number)
            rows[name] = bucket["window_left"] + bucket["window_right"]
        every = self._buckets.values()
        mean = sum(rows.values()) / len(rows) if rows else 0.0
        return reading.with_values(
            *(
                ("slidejoin_window_rows", {"side": side}, sum(one[f"window_{side}"] for one in every))
                for side in self._sides
            ),
            ("slidejoin_window_bytes", {}, sum(one["window_bytes"] for one in every)),
            *(("slidejoin_bucket_rows", {"bucket": name}, own) for name, own in rows.items()),
            ("slidejoin_bucket_skew", {}, max(rows.values()) / mean if mean else 1.0),
        )

    def _with_times(self, reading: Reading) -> Reading:
        """Add the figures of event time, where the window is one of time."""
        if self._lateness is None:
            return reading
        sides = self._sides
        newest: dict[str, float] = {side: self._newest[side] / MICROSECONDS for side in sides if side in self._newest}
        late: dict[str, float] = dict.fromkeys(sides, self._lateness / MICROSECONDS)
        behind = min(sides, key=lambda side: newest.get(side, float("-inf")))
        equal = len({newest.get(side) for side in sides}) == 1
        return reading.with_values(*event_times(newest, late, None if equal else behind))


_totals: dict[str, QueryTotals] = {}
_lock = Lock()


def query_reading(query: StreamingQuery) -> Reading:
    """Return the figures of a query, of its micro-batches since this was first called and of those Spark still has."""
    with _lock:
        totals = _totals.setdefault(str(query.runId), QueryTotals())
        while len(_totals) > MOST_QUERIES:
            del _totals[next(iter(_totals))]
    totals.catch_up(query)
    return totals.reading()
