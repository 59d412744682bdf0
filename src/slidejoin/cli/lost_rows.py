"""Rows of a job that match nothing because of what they are: late, without event time, or not as the schema says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slidejoin.cli.pipeline import BAD_ROWS
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from slidejoin.cli.job import Job
    from slidejoin.cli.progress import BatchProgress

__all__ = ["LostRows", "each_once"]


class LostRows:
    """Counts such rows in micro-batches of a job, and says once of each kind what to do about them.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._said: set[str] = set()

    def counts(self, progress: Mapping[str, Any]) -> dict[str, int]:
        """Return them from Spark's progress of a micro-batch, by their names in `BatchProgress`."""
        from slidejoin.spark.metrics.reporting import board  # noqa: PLC0415 - belongs to an extra

        joins = board.joins(str(progress["id"]), int(progress["batchId"]))
        buckets = [bucket for found in joins.values() for bucket in found]
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
        mark = (progress.get("eventTime") or {}).get("watermark")
        number, late = f"micro-batch {batch.number}", batch.late_rows
        yield from self._advice(f" of {number}", late, batch.null_time_rows, f" in {number}", self._bad(progress), mark)

    def advice_of_tables(self, null_time_rows: int, bad_rows: Mapping[str, int]) -> Iterator[str]:
        """Yield what to do about rows of a job without streams; bad ones by the name of their source."""
        yield from self._advice("", 0, null_time_rows, "", {name: rows for name, rows in bad_rows.items() if rows})

    def _advice(
        self, of: str, late: int, null: int, within: str, bad: Mapping[str, int], mark: str | None = None
    ) -> Iterator[str]:
        window = self._job.join.window
        if isinstance(window, TimeWindow):
            if late and self._job.join.late == "drop" and self._first("late"):
                yield (
                    f"warning: {_rows(late)}{of} late and dropped: below the watermark{f', {mark}' if mark else ''}. "
                    f'If rows come out of order, raise lateness in [join.window], now "{window.lateness}"; '
                    'late = "emit" in [join] makes late rows of inner joins rows of the result.'
                )
            if null and self._first("without time"):
                columns = " or ".join(dict.fromkeys((window.left_on, window.right_on)))
                yield (
                    f"warning: {_rows(null)}{of} without event time ({columns} is NULL), which match nothing. If the "
                    "files have one, check its name and format: schema, columns and options (timestampFormat) of the "
                    "source."
                )
        for source, rows in bad.items():
            if self._first(f"bad {source}"):
                yield (
                    f"warning: {_rows(rows)} of source {source}{within} not as sources.{source}.schema says; what "
                    "cannot be read of them is NULL. Correct the schema or the options (header, sep, "
                    'timestampFormat); options = { mode = "FAILFAST" } ends the job at such a row.'
                )

    def _first(self, kind: str) -> bool:
        if kind in self._said:
            return False
        self._said.add(kind)
        return True


def each_once(counted: int, arrived: int, read: int) -> int:
    """Return how many rows were counted, if of `read` rows `arrived` copies came to buckets and each was counted.

    That is exact where each row goes to one bucket, and where all copies were counted.

    Examples
    --------
    >>> each_once(210, 210, 210), each_once(420, 420, 210), each_once(5, 90, 100), each_once(10, 200, 100)
    (210, 210, 5, 5)
    """
    return counted if arrived <= read else max(round(counted * read / arrived), min(counted, 1))


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"
