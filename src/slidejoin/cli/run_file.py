"""``slidejoin run FILE``, without the packages that parse and explain command lines, which are slow to load."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slidejoin.cli.job import ENGINES, MOST_PORT, PAGE_PORT, Monitoring
from slidejoin.cli.jobfile import read_job
from slidejoin.cli.paths import STANDARD
from slidejoin.cli.reporting import JsonReporter, PlainReporter, errors_reported, terminal_reporter
from slidejoin.cli.stopping import stop_later
from slidejoin.errors import ArgumentError, ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    from slidejoin.cli.job import Engine, Job
    from slidejoin.cli.reporting import Reporter

__all__ = ["checked_engine", "plain_options", "reporter", "run_file", "with_master", "with_monitoring", "with_port"]

FLAGS = ("--json", "--debug", "--no-rows", "--otel")
VALUES = ("--base", "--engine", "--master", "--metrics", "--watch")

TERMINALS = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Environment variables by which Rich takes something else for a terminal."""


def plain_options(arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments of `run_file` that a command line means; None for one that Typer has to explain.

    Examples
    --------
    >>> plain_options(["job.toml", "--engine", "spark", "--json"])
    {'file': PosixPath('job.toml'), 'engine': 'spark', 'json': True}
    >>> plain_options(["job.toml", "--jsn"])
    """
    options: dict[str, Any] = {}
    given = iter(arguments)
    for one in given:
        name, equals, value = one.partition("=")
        if one in FLAGS:
            options[one[2:].replace("-", "_")] = True
        elif name in VALUES:
            taken = value if equals else next(given, "")
            if not taken or taken.startswith("-") or name[2:] in options:
                return None
            options[name[2:]] = Path(taken) if name == "--base" else taken
        elif one.startswith("-") or not one or "file" in options:
            return None
        else:
            options["file"] = Path(one)
    return options if "file" in options else None


def with_port(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command with the port of ``--watch``, which may stand without one.

    Examples
    --------
    >>> with_port(["job.toml", "--watch"]), with_port(["--watch", "9000", "job.toml"])
    (['job.toml', '--watch=9465'], ['--watch=9000', 'job.toml'])
    """
    written: list[str] = []
    for one in arguments:
        if written[-1:] == ["--watch"]:
            if one.isdecimal():
                written[-1] = f"--watch={one}"
                continue
            written[-1] = f"--watch={PAGE_PORT}"
        written.append(one)
    return [f"--watch={PAGE_PORT}" if one == "--watch" else one for one in written]


def reporter(*, as_json: bool) -> Reporter:
    """Return the reporter that fits standard output."""
    if as_json:
        return JsonReporter()
    if not sys.stdout.isatty() and not any(os.environ.get(name) for name in TERMINALS):
        return PlainReporter()
    return terminal_reporter()


def run_file(
    file: Path,
    *,
    base: Path | None = None,
    engine: str | None = None,
    master: str | None = None,
    json: bool = False,
    debug: bool = False,
    metrics: str | None = None,
    no_rows: bool = False,
    otel: bool = False,
    watch: str | int | None = None,
    stop: Event,
    alone: bool = False,
) -> None:
    """Run the job of a file, and leave the process if it fails; see `errors_reported`.

    Parameters
    ----------
    metrics, no_rows, otel
        As `Monitoring` has them; each goes before the job file.
    watch : str or int, optional
        The port of the live page; goes before the job file too.
    alone : bool
        Whether the process does nothing else.
    """
    listener = reporter(as_json=json)
    with errors_reported(debug=debug, listener=listener):
        wanted = checked_engine(engine)
        job = with_master(read_job(file, base), wanted, master)
        job = with_monitoring(job, metrics, no_rows=no_rows, otel=otel, watch=watch)
        if (job.sink.format == "console" or job.sink.path == STANDARD) and not json:
            listener = PlainReporter()  # rows are printed meanwhile, which would tear a live line
        from slidejoin.cli.engine import chosen_engine  # noqa: PLC0415 - job files are checked without loading PyArrow

        chosen = chosen_engine(job, wanted)
        from slidejoin.cli.monitoring import monitored  # noqa: PLC0415 - the same

        with monitored(job, file.stem, chosen.name, listener) as monitoring:
            listener = monitoring.reporter
            stop_later(stop, job.sink.stop_after)
            if chosen.prepared is not None:
                from slidejoin.cli.embedded import run_embedded, without_pandas  # noqa: PLC0415 - the same

                if alone:
                    without_pandas(chosen.prepared)
                run_embedded(
                    chosen.prepared, file.stem, listener, chosen.why, json=json, stop=stop, monitoring=monitoring
                )
                return
            gc.enable()  # which `run_embedded` does later
            from slidejoin.cli.running import run_job  # noqa: PLC0415 - the same, and Spark

            run_job(job, file.stem, listener, why=chosen.why, json=json, stop=stop, monitoring=monitoring)


def with_master(job: Job, wanted: Engine | None, master: str | None) -> Job:
    """Return a job with the master that the command line says, with which Spark runs it.

    Raises
    ------
    ConfigError
        If another engine is wanted.
    """
    if master is None:
        return job
    if wanted == "embedded":
        msg = f"--master {master}: is of Spark, and --engine embedded runs in this process; leave one of them out"
        raise ConfigError(msg)
    return replace(job, session=replace(job.session, master=master), engine="auto", has_spark=True)


def with_monitoring(job: Job, metrics: str | None, *, no_rows: bool, otel: bool, watch: str | int | None = None) -> Job:
    """Return a job that is monitored as the command line says; what it leaves out is as the job file says.

    Raises
    ------
    ConfigError
        If figures are to be served at what is no address, or the page at what is no port.
    """
    own = job.monitoring
    page = own.page if watch is None else _port(watch)
    monitoring = Monitoring(metrics or own.metrics, own.rows and not no_rows, own.otel or otel, page)
    if monitoring.metrics is not None:
        from slidejoin.watch.endpoint import address_of  # noqa: PLC0415 - few jobs have one

        try:
            address_of(monitoring.metrics)
        except ArgumentError as error:
            msg = f"{'--metrics' if metrics else 'watch.metrics'}: {error}"
            raise ConfigError(msg) from error
    return replace(job, monitoring=monitoring)


def _port(text: str | int) -> int:
    if not str(text).isdecimal() or int(text) > MOST_PORT:
        msg = f"--watch {text}: expected a port from 0 to {MOST_PORT}, or nothing: the port is {PAGE_PORT} then"
        raise ConfigError(msg)
    return int(text)


def checked_engine(name: str | None) -> Engine | None:
    """Return the engine of that name.

    Raises
    ------
    ConfigError
        If there is none.
    """
    known = next((one for one in ENGINES if one == name), None)
    if name is not None and known is None:
        msg = f"--engine {name}: expected one of {', '.join(ENGINES)}.{nearest(name, ENGINES)}"
        raise ConfigError(msg)
    return known
