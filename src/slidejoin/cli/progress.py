"""Progress of ``slidejoin run``: a live line on a terminal, plain lines elsewhere, JSON lines for machines."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from rich.progress import TaskID

__all__ = ["BatchProgress", "JsonReporter", "PlainReporter", "Reporter", "RunTotals", "TerminalReporter", "reporter"]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One finished micro-batch.

    Attributes
    ----------
    number : int
        Spark's number of it, from 0; it goes on counting after a restart.
    rows_in, rows_out : int
        Rows read and result rows written.
    seconds : float
        How long it took.
    event_time : str or None
        The largest event time in it, ISO 8601; None without rows.
    """

    number: int
    rows_in: int
    rows_out: int
    seconds: float
    event_time: str | None = None


@dataclass(frozen=True, slots=True)
class RunTotals:
    """A finished job. `stopped` is true if it was ended by a signal, before its sources were."""

    batches: int
    rows_in: int
    rows_out: int
    seconds: float
    stopped: bool = False

    @property
    def rows_per_second(self) -> float:
        """Rows read a second, from the start of the query to its end."""
        return self.rows_in / self.seconds if self.seconds else 0.0


class Reporter(Protocol):
    """Receives the progress of a job."""

    def starting(self, name: str, batches: int | None) -> None:
        """Spark is about to start; `batches` if the number of micro-batches is known beforehand."""

    def note(self, message: str) -> None:
        """Say something that the user should know and that does not end the job."""

    def batch(self, batch: BatchProgress) -> None:
        """Report a finished micro-batch."""

    def done(self, totals: RunTotals) -> None:
        """Report the end."""

    def failed(self, message: str) -> None:
        """Clean up; the message itself is printed on standard error elsewhere."""


def reporter(*, as_json: bool) -> Reporter:
    """Return the reporter that fits standard output."""
    if as_json:
        return JsonReporter()
    console = Console()
    return TerminalReporter(console) if console.is_terminal else PlainReporter()


def _sentence(name: str, totals: RunTotals) -> str:
    end = "stopped" if totals.stopped else "done"
    return (
        f"{name}: {end}, {totals.rows_in:,} rows in, {totals.rows_out:,} rows out, {totals.batches:,} micro-batches, "
        f"{totals.seconds:.1f} s, {totals.rows_per_second:,.0f} rows/s"
    )


class JsonReporter:
    """One JSON object a line: ``event`` is ``start``, ``note``, ``batch``, ``done`` or ``failed``."""

    def starting(self, name: str, batches: int | None) -> None:  # noqa: D102 - see Reporter
        self._write("start", {"job": name, "batches": batches})

    def note(self, message: str) -> None:  # noqa: D102 - see Reporter
        self._write("note", {"message": message})

    def batch(self, batch: BatchProgress) -> None:  # noqa: D102 - see Reporter
        self._write("batch", asdict(batch))

    def done(self, totals: RunTotals) -> None:  # noqa: D102 - see Reporter
        self._write("done", asdict(totals) | {"rows_per_second": totals.rows_per_second})

    def failed(self, message: str) -> None:  # noqa: D102 - see Reporter
        self._write("failed", {"error": message})

    @staticmethod
    def _write(event: str, values: dict[str, object]) -> None:
        sys.stdout.write(json.dumps({"event": event, **values}) + "\n")
        sys.stdout.flush()


class PlainReporter:
    """One line for each micro-batch."""

    def __init__(self) -> None:
        self._name = ""

    def starting(self, name: str, batches: int | None) -> None:  # noqa: ARG002, D102 - see Reporter
        self._name = name
        self._write(f"{name}: starting Spark")

    def note(self, message: str) -> None:  # noqa: D102 - see Reporter
        self._write(f"{self._name}: {message}")

    def batch(self, batch: BatchProgress) -> None:  # noqa: D102 - see Reporter
        at = f", up to {batch.event_time}" if batch.event_time else ""
        rate = batch.rows_in / batch.seconds if batch.seconds else 0.0
        self._write(
            f"{self._name}: batch {batch.number}: {batch.rows_in:,} rows in, {batch.rows_out:,} out, "
            f"{batch.seconds:.1f} s, {rate:,.0f} rows/s{at}"
        )

    def done(self, totals: RunTotals) -> None:  # noqa: D102 - see Reporter
        self._write(_sentence(self._name, totals))

    def failed(self, message: str) -> None:  # noqa: D102 - see Reporter
        pass

    @staticmethod
    def _write(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class TerminalReporter:
    """A live line: a bar where the number of micro-batches is known, counts, and the event time reached."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[counts]}"),
            console=console,
            transient=True,
        )
        self._name = ""
        self._task: TaskID | None = None
        self._rows_in = self._rows_out = 0
        self._seconds = 0.0

    def starting(self, name: str, batches: int | None) -> None:  # noqa: D102 - see Reporter
        self._name = name
        self._task = self._progress.add_task(name, total=batches, counts="starting Spark")
        self._progress.start()

    def note(self, message: str) -> None:  # noqa: D102 - see Reporter
        self._console.print(f"{self._name}: {message}", highlight=False, markup=False, soft_wrap=True)

    def batch(self, batch: BatchProgress) -> None:  # noqa: D102 - see Reporter
        self._rows_in += batch.rows_in
        self._rows_out += batch.rows_out
        self._seconds += batch.seconds
        rate = self._rows_in / self._seconds if self._seconds else 0.0
        at = f"  [dim]{batch.event_time[:10]}[/]" if batch.event_time else ""
        counts = f"{self._rows_in:,} in  [green]{self._rows_out:,} out[/]  {rate:,.0f} rows/s{at}"
        if self._task is not None:
            self._progress.update(self._task, advance=1, counts=counts)

    def done(self, totals: RunTotals) -> None:  # noqa: D102 - see Reporter
        self._progress.stop()
        mark = "[yellow]■[/]" if totals.stopped else "[green]✓[/]"
        self._console.print(f"{mark} {_sentence(self._name, totals)}", highlight=False)

    def failed(self, message: str) -> None:  # noqa: ARG002, D102 - see Reporter
        self._progress.stop()
