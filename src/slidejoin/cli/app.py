"""The commands, their options, and what becomes of errors."""

from __future__ import annotations

import json
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slidejoin import __version__
from slidejoin.cli.jobfile import read_job
from slidejoin.cli.progress import PlainReporter, Reporter, reporter
from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["app"]

FAILED = 1
BAD_USAGE = 2

app = typer.Typer(
    name="slidejoin",
    help="Join two streams on any comparison, over sliding windows.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

File = Annotated[
    Path, typer.Argument(metavar="FILE.toml", help="The job file, see docs/run-file.md.", show_default=False)
]
Base = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where relative paths in the file start; its own folder by default."),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON for machines.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _version(value: bool) -> None:
    if value:
        typer.echo(f"slidejoin {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@contextmanager
def _errors_told(*, debug: bool, listener: Reporter | None = None) -> Iterator[None]:
    """Print an error on standard error and leave: 2 if the command line or the job file is wrong, 1 if it failed."""
    try:
        yield
    except typer.Exit:
        raise
    except Exception as error:
        message = str(error)
        if not isinstance(error, (SlideJoinError, OSError)):
            message = f"unexpected {type(error).__name__}: {message} (--debug shows where)"
        if listener is not None:
            listener.failed(message)
        if debug:
            traceback.print_exc()
        sys.stdout.flush()
        typer.echo("\n".join([f"slidejoin: {message}", *getattr(error, "__notes__", [])]), err=True)
        raise typer.Exit(BAD_USAGE if isinstance(error, ConfigError) else FAILED) from error


@app.command()
def run(file: File, *, base: Base = None, json: Json = False, debug: Debug = False) -> None:
    """Run the job of a TOML file on Spark: its sources, the join between them, its sink."""
    listener = reporter(as_json=json)
    with _errors_told(debug=debug, listener=listener):
        job = read_job(file, base)
        if job.sink.format == "console" and not json:
            listener = PlainReporter()  # Spark prints rows meanwhile, which would tear a live line
        from slidejoin.cli.running import run_job  # noqa: PLC0415 - job files are checked without loading Spark

        run_job(job, file.stem, listener, json=json)


@app.command()
def explain(file: File, *, base: Base = None, json: Json = False, debug: Debug = False) -> None:
    """Say how the join of a TOML file would run, and why; nothing is read but schemas."""
    with _errors_told(debug=debug):
        job = read_job(file, base)
        from slidejoin.cli.explaining import explain_job  # noqa: PLC0415 - see run

        text = explain_job(job, file.stem)
        typer.echo(_document({"job": file.stem, "plan": text}) if json else text)


@app.command()
def bench(
    case: Annotated[str, typer.Argument(metavar="CASE", help="The case: band.", show_default=False)],
    *,
    window: Annotated[int, typer.Option(min=2, help="Rows kept of each side.")] = 1 << 20,
    push: Annotated[int, typer.Option(min=2, help="Rows a push, half of them of each side.")] = 1 << 15,
    match_rate: Annotated[float, typer.Option(min=0, help="Partners a row finds, on average.")] = 2.0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of the join; all cores by default.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows to measure; four windows by default.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random keys.")] = 1,
    baselines: Annotated[bool, typer.Option(help="Measure Polars and DuckDB on the same pushes too.")] = True,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure the embedded join on a synthetic CASE, beside Polars and DuckDB."""
    with _errors_told(debug=debug):
        from slidejoin.bench import run_case  # noqa: PLC0415 - loads NumPy and Numba

        report = run_case(
            case,
            window=window,
            push=push,
            match_rate=match_rate,
            threads=threads,
            rows=rows,
            seed=seed,
            baselines=baselines,
        )
        typer.echo(_document(report.to_json()) if json else report.text())


def _document(values: dict[str, object]) -> str:
    return json.dumps(values, indent=2)
