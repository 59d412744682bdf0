"""The commands, their options and their error handling."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from slidejoin import __version__
from slidejoin.cli.beginning import init
from slidejoin.cli.benching import bench
from slidejoin.cli.compiling import compile_in_words, compiled_kernels
from slidejoin.cli.jobfile import read_job
from slidejoin.cli.reporting import Debug, Json, PlainReporter, document, errors_reported, reporter
from slidejoin.cli.secrets import SECRETS
from slidejoin.cli.stating import state

__all__ = ["app"]

app = typer.Typer(
    name="slidejoin",
    help="Join two streams on any comparison, over sliding windows.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},
)

File = Annotated[
    Path, typer.Argument(metavar="FILE.toml", help="The job file, see docs/run-file.md.", show_default=False)
]
Base = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="The folder that relative paths in the file refer to; its own by default."),
]


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


@app.command(short_help="Run a job file on Spark.")
def run(context: typer.Context, file: File, *, base: Base = None, json: Json = False, debug: Debug = False) -> None:
    """Run the job of a TOML file on Spark: its sources, the join between them, its sink."""
    listener = reporter(as_json=json)
    with errors_reported(debug=debug, listener=listener):
        job = read_job(file, base)
        if job.sink.format == "console" and not json:
            listener = PlainReporter()  # Spark prints rows meanwhile, which would tear a live line
        from slidejoin.cli.running import run_job  # noqa: PLC0415 - job files are checked without loading Spark

        run_job(job, file.stem, listener, json=json, stop=context.ensure_object(Event))


@app.command(short_help="Show how a job would run, and why.")
def explain(file: File, *, base: Base = None, json: Json = False, debug: Debug = False) -> None:
    """Show how the join of a TOML file would run, and why; nothing is read but schemas."""
    with errors_reported(debug=debug):
        job = read_job(file, base)
        from slidejoin.cli.checking import explain_job  # noqa: PLC0415 - see run

        text = SECRETS.out_of(explain_job(job, file.stem))
        typer.echo(document({"job": file.stem, "plan": text}) if json else text)


app.command(short_help="Write a job file for given sources.")(init)
app.add_typer(
    bench,
    name="bench",
    help="Measure slidejoin on this machine, next to other tools, see docs/benchmarks.md.",
    short_help="Measure the join on this machine.",
)
app.command(short_help="Show the state of the joins in a checkpoint.")(state)


@app.command("compile", short_help="Compile all kernels ahead of the first push.")
def compile_kernels(*, json: Json = False, debug: Debug = False) -> None:
    """Compile all kernels now and keep them on disk: no later process compiles any, as suits an image."""
    with errors_reported(debug=debug):
        if json:
            typer.echo(document(compiled_kernels()))
        else:
            compile_in_words()
