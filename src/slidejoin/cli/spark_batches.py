"""Micro-batches of a job on Spark, for the reporter of the command and the monitor of the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slidejoin.cli.lost_rows import LostRowsAdvice
from slidejoin.cli.pipeline import BAD_ROWS
from slidejoin.cli.reporting import BatchProgress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from slidejoin.cli.job import Job
    from slidejoin.cli.monitoring import SparkMonitoring
    from slidejoin.cli.reporting import Reporter

__all__ = ["OBSERVED", "LostRows", "SparkBatches"]

OBSERVED = "slidejoin"
"""The name by which Spark observes the rows of the result."""


@dataclass(frozen=True, slots=True)
class SparkBatches:
    """Tells the reporter of the command, and the monitor of the job, of micro-batches.

    Attributes
    ----------
    batches : dict from int to BatchProgress
        Those that were reported, by their number.
    """

    reporter: Reporter
    lost: LostRows
    monitoring: SparkMonitoring
    batches: dict[int, BatchProgress]

    def report_new(self, query: StreamingQuery) -> bool:
        """Report the micro-batches that ended since the last call, and return whether there were any.

        Empty ones, which only move the watermark, are left out.
        """
        before = len(self.batches)
        for progress in query.recentProgress:
            if int(progress["batchId"]) in self.batches:
                continue
            self.monitoring.progress(progress)
            batch = _batch(progress, self.lost)
            if batch.rows_in or batch.rows_out:
                self.batches[batch.number] = batch
                self.monitoring.batch(batch.rows_out, batch.bad_rows)
                self.reporter.batch(batch)
                for advice in self.lost.advice(batch, progress):
                    self.reporter.note(advice)
        return len(self.batches) > before


def _batch(progress: Mapping[str, Any], lost: LostRows) -> BatchProgress:
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    event_time = (progress.get("eventTime") or {}).get("max") if progress["numInputRows"] else None
    return BatchProgress(
        number=int(progress["batchId"]),
        rows_in=int(progress["numInputRows"]),
        rows_out=int(observed["rows"]) if observed is not None else 0,
        seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        event_time=event_time,
        **lost.counts(progress),
    )


class LostRows:
    """Counts rows that a job loses in micro-batches on Spark, and says once of each kind what to do about them.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job: Job) -> None:
        self._advice = LostRowsAdvice(job)

    def counts(self, progress: Mapping[str, Any]) -> dict[str, int]:
        """Return them from Spark's progress of a micro-batch, by their names in `BatchProgress`."""
        from slidejoin.spark.metrics.reporting import board  # noqa: PLC0415 - belongs to an extra

        joins = board.joins(str(progress["id"]), int(progress["batchId"]))
        buckets = [bucket for its in joins.values() for bucket in its]
        arrived = sum(bucket["rows_left"] + bucket["rows_right"] for bucket in buckets)
        read = int(progress["numInputRows"])
        return {
            name: each_once(sum(bucket[name] for bucket in buckets), arrived, read)
            for name in ("late_rows", "null_time_rows")
        } | {"bad_rows": sum(self._bad(progress).values())}

    @staticmethod
    def _bad(progress: Mapping[str, Any]) -> dict[str, int]:
        observed = progress.get("observedMetrics") or {}
        return {
            name.removeprefix(BAD_ROWS): int(row["rows"])
            for name, row in observed.items()
            if name.startswith(BAD_ROWS) and row["rows"]
        }

    def advice(self, batch: BatchProgress, progress: Mapping[str, Any]) -> Iterator[str]:
        """Yield what to do about kinds of rows that come for the first time in a micro-batch."""
        yield from self._advice.of_batch(batch, self._bad(progress), (progress.get("eventTime") or {}).get("watermark"))


def each_once(counted: int, arrived: int, read: int) -> int:
    """Return how many rows were counted, if of `read` rows `arrived` copies came to buckets and each was counted.

    That is exact where each row goes to one bucket, and where all copies were counted.

    Examples
    --------
    >>> each_once(210, 210, 210), each_once(420, 420, 210), each_once(5, 90, 100), each_once(10, 200, 100)
    (210, 210, 5, 5)
    """
    return counted if arrived <= read else max(round(counted * read / arrived), min(counted, 1))
