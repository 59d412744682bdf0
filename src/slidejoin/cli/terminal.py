"""Progress on a terminal: a live line of Rich, which takes a while to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from slidejoin.cli.reporting import CompilingProgress, PlainReporter, beginning, sentence
from slidejoin.cli.secrets import SECRETS

if TYPE_CHECKING:
    from rich.progress import TaskID

    from slidejoin.cli.reporting import BatchProgress, Reporter, RunTotals

__all__ = ["TerminalReporter", "terminal_reporter"]


def terminal_reporter() -> Reporter:
    """Return the reporter that fits standard output, as Rich sees it."""
    console = Console()
    return TerminalReporter(console) if console.is_terminal else PlainReporter()


class TerminalReporter:
    """A live line: a bar where the number of micro-batches is known, counts, and the event time reached."""

    idle_seconds = 1.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._compiling = CompilingProgress()
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
            self.note(beginning(engine, why))
        self._task = self._progress.add_task(name, total=batches, counts=beginning(engine, ""))
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
        self._console.print(f"{mark} {sentence(self._name, totals)}", highlight=False)

    def failed(self, message: str) -> None:  # noqa: ARG002, D102 - see Reporter
        self._progress.stop()
