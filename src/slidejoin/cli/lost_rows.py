"""What to do about rows that match nothing because of what they are: late, without event time, or bad."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from slidejoin.cli.job import Job, Source
    from slidejoin.cli.reporting import BatchProgress

__all__ = ["LostRowsAdvice"]


class LostRowsAdvice:
    """Says once of each kind of such rows what to do about them.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._said: set[str] = set()

    def of_batch(self, batch: BatchProgress, bad: Mapping[str, int], mark: str | None) -> Iterator[str]:
        """Yield what to do about kinds of rows that come for the first time in a micro-batch.

        Parameters
        ----------
        batch : BatchProgress
        bad : Mapping of str to int
            Bad rows by their source.
        mark : str or None
            The watermark, where it is known.
        """
        number, late = f"micro-batch {batch.number}", batch.late_rows
        yield from self._advice(f" of {number}", late, batch.null_time_rows, f" in {number}", bad, mark)

    def of_tables(self, null_time_rows: int, bad: Mapping[str, int]) -> Iterator[str]:
        """Yield what to do about rows of a job without streams; bad ones by the name of their source."""
        yield from self._advice("", 0, null_time_rows, "", {name: rows for name, rows in bad.items() if rows})

    def _advice(
        self, of: str, late: int, null: int, within: str, bad: Mapping[str, int], mark: str | None = None
    ) -> Iterator[str]:
        window = self._job.join.window
        if window.has_watermark:
            if late and self._job.join.late == "drop" and self._first("late"):
                yield (
                    f"warning: {_rows(late)}{of} late and dropped: below the watermark{f', {mark}' if mark else ''}. "
                    f'If rows come out of order, raise lateness in [join.window], now "{window.lateness}"; '
                    'late = "emit" in [join] makes late rows of inner joins rows of the result.'
                )
            if null and self._first("without time"):
                columns = " or ".join(dict.fromkeys(name for side in SIDES for name in window.event_times(side)))
                yield (
                    f"warning: {_rows(null)}{of} without event time ({columns} is NULL), which match nothing. If the "
                    "files have one, check its name and format: schema, columns and options (timestampFormat) of the "
                    "source."
                )
        for source, rows in bad.items():
            if self._first(f"bad {source}"):
                yield _advice_on_bad(self._job.sources[source], rows, within)

    def _first(self, kind: str) -> bool:
        if kind in self._said:
            return False
        self._said.add(kind)
        return True


def _advice_on_bad(source: Source, rows: int, within: str) -> str:
    """Return what to do about rows of a source that are not what its schema says."""
    name, bad = source.name, source.bad_rows
    if bad is None:
        return (
            f"warning: {_rows(rows)} of source {name}{within} not as sources.{name}.schema says; what "
            "cannot be read of them is NULL. Correct the schema or the options (header, sep, "
            'timestampFormat); options = { mode = "FAILFAST" } ends the job at such a row.'
        )
    records = f"{rows:,} {'record' if rows == 1 else 'records'} of source {name}{within} cannot be read"
    if bad.sink is None:
        return f"warning: {records}, and dropped; bad_rows = {{ format = … }} writes such records to a sink."
    place = bad.sink.path if bad.sink.kafka is None else f"topic {bad.sink.kafka.topic}"
    return f"warning: {records}, and written to {place or bad.sink.format} with the reason."


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"
