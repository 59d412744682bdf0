"""What commands report: the progress of ``slidejoin run``, errors, and JSON for machines.

Progress is a live line on a terminal, plain lines elsewhere, JSON lines for machines.
"""

from __future__ import annotations

import json
import sys
import traceback
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from slidejoin.cli.secrets import SECRETS
from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.progress import TaskID

__all__ = [
    "BatchProgress",
    "JsonReporter",
    "PlainReporter",
    "Reporter",
    "RunTotals",
    "TerminalReporter",
    "document",
    "errors_reported",
    "terminal_reporter",
]

FAILED = 1
BAD_USAGE = 2

MINUTE = 60.0
LINES = 10.0
"""Seconds between two lines about compiling."""

ENOUGH = 3
"""Kernels after which the speed of compiling is known."""


@contextmanager
def errors_reported(*, debug: bool, listener: Reporter | None = None) -> Iterator[None]:
    """Print an error on standard error and leave: 2 if the command line or the job file is wrong, 1 if it failed."""
    try:
        yield
    except Exception as error:
        message = str(error)
        if not isinstance(error, (SlideJoinError, OSError)):
            message = f"unexpected {type(error).__name__}: {message} (--debug shows where)"
        message = SECRETS.out_of(message)
        if listener is not None:
            listener.failed(message)
        if debug:
            sys.stderr.write(SECRETS.out_of(traceback.format_exc()))
        sys.stdout.flush()
        notes = [SECRETS.out_of(note) for note in getattr(error, "__notes__", [])]
        sys.stderr.write("\n".join([f"slidejoin: {message}", *notes]) + "\n")
        raise SystemExit(BAD_USAGE if isinstance(error, ConfigError) else FAILED) from error


def document(values: dict[str, object]) -> str:
    """Return JSON for machines."""
    return json.dumps(values, indent=2)


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
    late_rows : int
        Rows below the watermark.
    null_time_rows : int
        Rows without event time.
    bad_rows : int
        Rows of CSV or JSON that are not what the schema of their source says.
    """

    number: int
    rows_in: int
    rows_out: int
    seconds: float
    event_time: str | None = None
    late_rows: int = 0
    null_time_rows: int = 0
    bad_rows: int = 0


@dataclass(frozen=True, slots=True)
class RunTotals:
    """A finished job. `stopped` is true if it was ended by a signal, before its sources were."""

    batches: int
    rows_in: int
    rows_out: int
    seconds: float
    stopped: bool = False
    late_rows: int = 0
    null_time_rows: int = 0
    bad_rows: int = 0

    @property
    def rows_per_second(self) -> float:
        """Rows read a second, from the start of the query to its end."""
        return self.rows_in / self.seconds if self.seconds else 0.0


class Reporter(Protocol):
    """Receives the progress of a job."""

    idle_seconds: float

    def starting(self, name: str, batches: int | None, engine: str = "spark", why: str = "") -> None:
        """Say which engine is about to start, and why; `batches` if the number of micro-batches is known."""

    def note(self, message: str) -> None:
        """Say something that the user should know and that does not end the job."""

    def compiling(self, done: int, total: int) -> None:
        """Say how many of the kernels that were missing are compiled."""

    def idle(self, seconds: float) -> None:
        """Say that the job waits for rows, since so many seconds; called every `idle_seconds`."""

    def batch(self, batch: BatchProgress) -> None:
        """Report a finished micro-batch."""

    def done(self, totals: RunTotals) -> None:
        """Report the end."""

    def failed(self, message: str) -> None:
        """Clean up; the message itself is printed on standard error elsewhere."""


class _Compiling:
    """How far compiling is, and how long the rest takes at the speed so far."""

    def __init__(self) -> None:
        self._start: float | None = None
        self._first = 0
        self.seconds = 0.0
        self._said = -LINES
        self.left: float | None = None

    def at(self, done: int, total: int) -> str:
        """Return it in words."""
        if self._start is None:
            self._start, self._first = perf_counter(), done
        self.seconds = perf_counter() - self._start
        made = done - self._first
        self.left = self.seconds / made * (total - done) if made >= ENOUGH else None
        rest = "" if self.left is None or done == total else f", about {self.left:.0f} s more"
        return f"compiling kernels, once per installation: {done} of {total}, {self.seconds:.0f} s{rest}"

    def due(self, done: int, total: int) -> bool:
        """Tell whether another line is due."""
        if self.seconds - self._said < LINES and done != total:
            return False
        self._said = self.seconds
        return True


def _lost(counted: BatchProgress | RunTotals) -> str:
    """Return the rows that match nothing because of what they are, in words; empty if there are none."""
    counts = {
        "late": counted.late_rows, "without event time": counted.null_time_rows, "bad": counted.bad_rows,
    }  # fmt: skip
    return "".join(f", {count:,} {kind}" for kind, count in counts.items() if count)


def _sentence(name: str, totals: RunTotals) -> str:
    """Return what a job has done, in a sentence."""
    end = "stopped" if totals.stopped else "done"
    return (
        f"{name}: {end}, {totals.rows_in:,} rows in, {totals.rows_out:,} rows out{_lost(totals)}, "
        f"{totals.batches:,} micro-batch{'' if totals.batches == 1 else 'es'}, "
        f"{totals.seconds:.1f} s, {totals.rows_per_second:,.0f} rows/s"
    )


def _beginning(engine: str, why: str) -> str:
    """Return which engine begins, and why."""
    return ("starting Spark" if engine == "spark" else "in this process") + (f": {why}" if why else "")


class JsonReporter:
    """One JSON object a line; ``event`` is the method's name, or ``start``."""

    idle_seconds = MINUTE

    def __init__(self) -> None:
        self._compiling = _Compiling()

    def starting(  # noqa: D102 - see Reporter
        self, name: str, batches: int | None, engine: str = "spark", why: str = ""
    ) -> None:
        self._write("start", {"job": name, "batches": batches, "engine": engine, "why": SECRETS.out_of(why)})

    def note(self, message: str) -> None:  # noqa: D102 - see Reporter
        self._write("note", {"message": SECRETS.out_of(message)})

    def compiling(self, done: int, total: int) -> None:  # noqa: D102 - see Reporter
        self._compiling.at(done, total)
        if not self._compiling.due(done, total):
            return
        progress = {"done": done, "total": total, "seconds": round(self._compiling.seconds, 1)}
        left = self._compiling.left
        self._write("compiling", progress | {"seconds_left": None if left is None else round(left, 1)})

    def idle(self, seconds: float) -> None:  # noqa: D102 - see Reporter
        self._write("idle", {"seconds": round(seconds, 1)})

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
    """One line for each micro-batch, and while there are none."""

    idle_seconds = MINUTE

    def __init__(self) -> None:
        self._name = ""
        self._compiling = _Compiling()

    def starting(  # noqa: D102 - see Reporter
        self,
        name: str,
        batches: int | None,  # noqa: ARG002 - see Reporter
        engine: str = "spark",
        why: str = "",
    ) -> None:
        self._name = name
        self._write(SECRETS.out_of(f"{name}: {_beginning(engine, why)}"))

    def note(self, message: str) -> None:  # noqa: D102 - see Reporter
        self._write(SECRETS.out_of(f"{self._name}: {message}"))

    def compiling(self, done: int, total: int) -> None:  # noqa: D102 - see Reporter
        text = self._compiling.at(done, total)
        if self._compiling.due(done, total):
            self._write(f"{self._name}: {text}")

    def idle(self, seconds: float) -> None:  # noqa: D102 - see Reporter
        self._write(f"{self._name}: waiting for rows, none for {seconds:.0f} s")

    def batch(self, batch: BatchProgress) -> None:  # noqa: D102 - see Reporter
        at = f", up to {batch.event_time}" if batch.event_time else ""
        rate = batch.rows_in / batch.seconds if batch.seconds else 0.0
        self._write(
            f"{self._name}: batch {batch.number}: {batch.rows_in:,} rows in, {batch.rows_out:,} out"
            f"{_lost(batch)}, {batch.seconds:.1f} s, {rate:,.0f} rows/s{at}"
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

    idle_seconds = 1.0

    def __init__(self, console: Console) -> None:
        from rich.progress import (  # noqa: PLC0415 - slow to load
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        self._console = console
        self._compiling = _Compiling()
        self._counts = ""
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
        self._rows_in = self._rows_out = self._lost = 0
        self._seconds = 0.0

    def starting(  # noqa: D102 - see Reporter
        self, name: str, batches: int | None, engine: str = "spark", why: str = ""
    ) -> None:
        self._name = name
        if why:
            self.note(_beginning(engine, why))
        self._task = self._progress.add_task(name, total=batches, counts=_beginning(engine, ""))
        self._progress.start()

    def note(self, message: str) -> None:  # noqa: D102 - see Reporter
        self._console.print(SECRETS.out_of(f"{self._name}: {message}"), highlight=False, markup=False, soft_wrap=True)

    def batch(self, batch: BatchProgress) -> None:  # noqa: D102 - see Reporter
        self._rows_in += batch.rows_in
        self._rows_out += batch.rows_out
        self._lost += batch.late_rows + batch.null_time_rows + batch.bad_rows
        self._seconds += batch.seconds
        rate = self._rows_in / self._seconds if self._seconds else 0.0
        at = f"  [dim]{batch.event_time[:19].replace('T', ' ')}[/]" if batch.event_time else ""
        lost = f"  [yellow]{self._lost:,} late or bad[/]" if self._lost else ""
        self._counts = f"{self._rows_in:,} in  [green]{self._rows_out:,} out[/]{lost}  {rate:,.0f} rows/s{at}"
        self._show(self._counts, advance=1)

    def compiling(self, done: int, total: int) -> None:  # noqa: D102 - see Reporter
        self._show(self._compiling.at(done, total))

    def idle(self, seconds: float) -> None:  # noqa: D102 - see Reporter
        self._show(f"{self._counts}  [dim]waiting for rows, none for {seconds:.0f} s[/]".strip())

    def _show(self, text: str, advance: int = 0) -> None:
        if self._task is not None:
            self._progress.update(self._task, advance=advance, counts=text)

    def done(self, totals: RunTotals) -> None:  # noqa: D102 - see Reporter
        self._progress.stop()
        mark = "[yellow]■[/]" if totals.stopped else "[green]✓[/]"
        self._console.print(f"{mark} {_sentence(self._name, totals)}", highlight=False)

    def failed(self, message: str) -> None:  # noqa: ARG002, D102 - see Reporter
        self._progress.stop()


def terminal_reporter() -> Reporter:
    """Return the reporter that fits standard output, as Rich sees it."""
    from rich.console import Console  # noqa: PLC0415 - slow to load

    console = Console()
    return TerminalReporter(console) if console.is_terminal else PlainReporter()
