"""The commands, their options and their error handling."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from slidejoin import __version__
from slidejoin.bench import CASES, case
from slidejoin.bench.case import whole_number
from slidejoin.cli import compile_in_words
from slidejoin.cli.job import MOST_PORT, PAGE_PORT, Session
from slidejoin.cli.jobfile import read_job
from slidejoin.cli.reporting import document, errors_reported
from slidejoin.cli.run_file import checked_engine, run_file, with_master
from slidejoin.cli.secrets import HIDDEN, SECRETS, is_secret
from slidejoin.errors import ConfigError, nearest
from slidejoin.pipeline.checkpoint import is_embedded

if TYPE_CHECKING:
    from collections.abc import Callable

    from slidejoin.bench.report import Report
    from slidejoin.spark.driver.inspect import BucketInfo, CheckpointInfo, JoinInfo

__all__ = ["app", "bench", "state"]

Json = Annotated[bool, typer.Option("--json", help="Write JSON for machines.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE",
        help="One folder, file or pattern of parquet, csv or json files for a self-join, two for a join.",
        show_default=False,
    ),
]
NewFile = Annotated[
    Path,
    typer.Option(
        "--to", metavar="FILE.toml", help="The file to write; - prints it. job.toml by default.", show_default=False
    ),
]
On = Annotated[
    str | None, typer.Option("--on", metavar="SQL", help="The join condition, such as 'l.a = r.a'. Guessed by default.")
]
Kind = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="parquet, csv or json, if file names do not show it.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]

Checkpoint = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="The query's checkpointLocation.", show_default=False)
]
Batch = Annotated[
    int | None, typer.Option(metavar="N", help="The state after that micro-batch; the last one by default.")
]
Segments = Annotated[bool, typer.Option("--segments", help="List the segments of each bucket too.")]
Conf = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark, as for a remote file system.")
]
Repartition = Annotated[
    int | None,
    typer.Option(metavar="N", help="Make a new checkpoint with N buckets; the query must be stopped. Needs --to."),
]
To = Annotated[str | None, typer.Option(metavar="NEW", help="The new checkpoint, a folder that does not exist.")]
Stores = Annotated[
    int | None, typer.Option(metavar="S", help="State stores of the new checkpoint; as many as buckets by default.")
]
Strategy = Annotated[
    str | None, typer.Option(metavar="NAME", help="Another strategy of the new checkpoint; as it was by default.")
]
Spread = Annotated[int | None, typer.Option(metavar="G", help="Its spread, with --strategy; 1 by default.")]


def state(
    checkpoint: Checkpoint,
    *,
    batch: Batch = None,
    segments: Segments = False,
    repartition: Repartition = None,
    to: To = None,
    stores: Stores = None,
    strategy: Strategy = None,
    spread: Spread = None,
    conf: Conf = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the state of the joins in a checkpoint: their buckets, segments, rows, bytes and watermarks.

    With --repartition N --to NEW, make a checkpoint with N buckets of it, with which the same query goes on.
    """
    with errors_reported(debug=debug):
        _check_options(repartition, to, {"stores": stores, "strategy": strategy, "spread": spread}, batch)
        if is_embedded(Path(checkpoint)):
            msg = (
                f"{checkpoint} is the checkpoint of a job in one process; state shows those of Spark alone. "
                "slidejoin watch and slidejoin report show this one"
            )
            raise ConfigError(msg)
        session = Session("local[*]", _settings(conf or []))
        from slidejoin.cli.session import spark_session  # noqa: PLC0415 - belongs to an extra, and is slow to load

        with spark_session(session, "slidejoin state", json=json) as spark:
            from slidejoin.spark import inspect_state, repartition_state  # noqa: PLC0415 - the same

            if repartition is None or to is None:
                info = inspect_state(spark, checkpoint, batch=batch)
            else:
                info = repartition_state(
                    spark, checkpoint, repartition, to, stores=stores, strategy=strategy, spread=spread or 1,
                )  # fmt: skip
        size = _size_on_disk(Path(info.checkpoint))
        if json:
            typer.echo(SECRETS.out_of(document(as_document(info, size))))
            return
        lines = _text(info, size, segments=segments)
        text = "\n".join(lines if repartition is None else [*lines, "", *_what_next(info)])
        typer.echo(SECRETS.out_of(text))


def _check_options(
    repartition: int | None, to: str | None, options: dict[str, int | str | None], batch: int | None
) -> None:
    """Refuse options that do not go together."""
    given = [f"--{name}" for name, value in options.items() if value is not None]
    if (repartition is None) != (to is None):
        msg = f"{'--to' if repartition is None else '--repartition'} needs the other: --repartition N --to NEW"
        raise ConfigError(msg)
    if repartition is None and given:
        msg = f"{given[0]} is of a new checkpoint: give --repartition N --to NEW as well"
        raise ConfigError(msg)
    if repartition is not None and batch is not None:
        msg = "--batch shows an earlier version; a new checkpoint is made of the last one. Leave --batch out"
        raise ConfigError(msg)
    if options["spread"] is not None and options["strategy"] is None:
        msg = "--spread is of another strategy: give --strategy NAME as well"
        raise ConfigError(msg)


def _what_next(info: CheckpointInfo) -> list[str]:
    """Return what to do with a new checkpoint."""
    lines = [f"Start the same query on it, with checkpointLocation {info.checkpoint} (job file: checkpoint), and"]
    for join in info.joins:
        name, _, spread = join.described["strategy"].partition(", spread ")
        strategy = name.partition(" ")[0].partition(",")[0]
        spread = f", spread={spread}" if spread else ""
        lines.append(
            f'  partitions={join.described["partitions"]}, strategy="{strategy}"{spread} for the join on '
            f"{join.described['on']}"
        )
    lines.append("It goes on with the next micro-batch. The former checkpoint is as it was: do not start it again.")
    return lines


def _settings(conf: list[str]) -> dict[str, str]:
    values = {}
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            # What is written in some other way may have a secret too.
            shown = HIDDEN if not key or is_secret(setting) else setting
            msg = f"--conf {shown}: expected KEY=VALUE"
            raise ConfigError(msg)
        values[key] = value
    SECRETS.add(values)
    return values


def as_document(info: CheckpointInfo, size: int | None) -> dict[str, Any]:
    """Return everything as plain values, with the sums that the text shows."""
    whole: dict[str, Any] = asdict(info) | {"bytes_on_disk": size}
    for join, plain in zip(info.joins, whole["joins"], strict=True):
        plain.update(_sums(join))
        for bucket, its in zip(join.buckets, plain["buckets"], strict=True):
            its.update(_sums(bucket))
    return whole


def _sums(part: JoinInfo | BucketInfo) -> dict[str, int]:
    return {"left_rows": part.rows("left"), "right_rows": part.rows("right"), "bytes": part.bytes}


def _size_on_disk(checkpoint: Path) -> int | None:
    """Return how much the versions of the state take, if the checkpoint is on this machine."""
    folder = checkpoint / "state"
    if not folder.is_dir():
        return None
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _text(info: CheckpointInfo, size: int | None, *, segments: bool) -> list[str]:
    from slidejoin.spark.driver.inspect import aligned  # noqa: PLC0415 - belongs to an extra

    lines = info.lines()
    if size is not None:
        lines[-1] += f", {size:,} bytes on disk"
    for join in info.joins:
        lines += ["", *join.lines()]
        rows = aligned(join.table())
        if segments:
            for place, bucket in reversed(list(enumerate(join.buckets, start=1))):
                rows[place + 1 : place + 1] = [
                    f"    {one.side} {one.id}: {one.rows:,} rows, {one.bytes:,} bytes, merged {one.merged} times"
                    for one in bucket.segments
                ]
        lines += rows
    return lines


class Cases(TyperGroup):
    """The cases as commands; another name gets an error that says where other cases are."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401 - Click's
        """Return the command of a case, or print what cases there are and leave."""
        name = args[0]
        if name not in self.commands:
            with errors_reported(debug=False):
                raise ConfigError(
                    f"bench: unknown case {name!r}; the cases are {', '.join(CASES)}.{nearest(name, CASES)} "
                    "Others, such as band and latency, are in a checkout of slidejoin: python -m benchmarks.cases"
                )
        return super().resolve_command(ctx, args)


bench = typer.Typer(cls=Cases, subcommand_metavar="CASE [OPTIONS]", no_args_is_help=True, rich_markup_mode=None)


def _number(text: str | int) -> int:
    try:
        return whole_number(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None


@bench.command(short_help=CASES["tasks"])
def tasks(
    *,
    only: Annotated[str | None, typer.Option(metavar="NAME,NAME,…", help="Only these tasks; all by default.")] = None,
    seconds: Annotated[float, typer.Option(help="Seconds for each tool on each task, once windows are full.")] = 5.0,
    spark: Annotated[
        bool, typer.Option("--spark", help="Measure Spark's own join and slidejoin on Spark too.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Of every tool; all cores by default.")] = None,
    scale: Annotated[float, typer.Option(help="Rows of the streams in multiples of the usual.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the streams.")] = 1,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure five real tasks, next to Polars, DuckDB and Spark, see docs/benchmarks.md."""
    with errors_reported(debug=debug):
        from slidejoin.bench.tasks import run  # noqa: PLC0415 - loads NumPy and PyArrow

        case.compile_kernels()
        names = None if only is None else tuple(one.strip() for one in only.split(","))
        _measure(run, json=json, only=names, seconds=seconds, spark=spark, threads=threads, scale=scale, seed=seed)


@bench.command(short_help=CASES["spark"])
def spark(
    *,
    window: Annotated[
        int, typer.Option(parser=_number, metavar="ROWS", help="Rows of each side that a row of the other sees.")
    ] = 1 << 20,
    push: Annotated[
        int, typer.Option(parser=_number, metavar="ROWS", help="Rows of a micro-batch, half of them of each side.")
    ] = 1_000_000,
    output: Annotated[
        str, typer.Option(metavar="NAME", help="pairs, count, or the rows of another join type, such as left.")
    ] = "pairs",
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="How rows are routed; hash joins on an equality.")
    ] = "auto",
    algorithm: Annotated[
        str, typer.Option(metavar="NAME", help="The index of a bucket; po_join joins on two inequalities.")
    ] = "auto",
    buckets: Annotated[
        int, typer.Option(min=1, help="Of the join; as many tasks at once as there are cores for them.")
    ] = 2,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure the join on a local Spark, next to Spark's own and a query that only reads, see docs/benchmarks.md."""
    with errors_reported(debug=debug):
        from slidejoin.bench.spark import run  # noqa: PLC0415 - loads NumPy and PyArrow

        case.compile_kernels()
        _measure(
            run, json=json, window=window, push=push, output=output, strategy=strategy, algorithm=algorithm,
            buckets=buckets,
        )  # fmt: skip


@bench.command(short_help=CASES["pipeline"])
def pipeline(
    *,
    rows: Annotated[int, typer.Option(parser=_number, metavar="ROWS", help="Rows of each side.")] = 4_000_000,
    spark: Annotated[bool, typer.Option("--spark", help="Run the same job on a local Spark too.")] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of each engine; as without the option by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the rows.")] = 1,
    kafka: Annotated[bool, typer.Option("--kafka", help="Read two topics of Kafka, in JSON, not files.")] = False,
    brokers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Of Kafka; otherwise a broker is started by Java and Maven.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure a job file over files of Parquet or topics of Kafka, see docs/benchmarks.md."""
    with errors_reported(debug=debug):
        from slidejoin.bench.pipeline import run  # noqa: PLC0415 - loads NumPy and PyArrow

        if brokers is not None and not kafka:
            raise ConfigError("--brokers is of Kafka: give --kafka as well")
        _measure(run, json=json, rows=rows, spark=spark, threads=threads, seed=seed, kafka=kafka, brokers=brokers)


@bench.command(short_help=CASES["machine"])
def machine(
    *,
    threads: Annotated[int, typer.Option(min=1, help="Measured next to one thread alone.")] = 2,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure how many random cache lines and bytes a second memory gives, see docs/benchmarks.md."""
    with errors_reported(debug=debug):
        from slidejoin.bench.machine import run  # noqa: PLC0415 - loads NumPy and Numba

        _measure(run, json=json, threads=threads)


def _measure(run: Callable[..., Report], *, json: bool, **options: Any) -> None:
    """Measure, and print the report."""
    report = run(**options)
    typer.echo(document(report.to_json()) if json else report.text())


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


EngineOption = Annotated[
    str | None,
    typer.Option("--engine", metavar="NAME", help="auto, spark or embedded (in this process); as the file says."),
]

Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="A Spark master, such as local[4]; with it Spark runs.")
]


Metrics = Annotated[
    str | None,
    typer.Option(metavar="PORT", help="Serve figures to Prometheus, at a port of 127.0.0.1 or at HOST:PORT."),
]
NoRows = Annotated[bool, typer.Option("--no-rows", help="Show no rows of the result to who watches the job.")]
Page = Annotated[
    int | None,
    typer.Option(
        "--watch",
        min=0,
        max=MOST_PORT,
        metavar="[PORT]",
        help=f"Serve a live page on this machine, at port {PAGE_PORT}.",
    ),
]
Otel = Annotated[bool, typer.Option("--otel", help="Give figures to OpenTelemetry, as its environment is set up.")]


@app.command(short_help="Run a job file, on Spark or in this process.")
def run(
    context: typer.Context,
    file: File,
    *,
    base: Base = None,
    engine: EngineOption = None,
    master: Master = None,
    metrics: Metrics = None,
    no_rows: NoRows = False,
    otel: Otel = False,
    watch: Page = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run the job of a TOML file: its sources, the join between them, its sink."""
    stop = context.ensure_object(Event)
    run_file(
        file, base=base, engine=engine, master=master, json=json, debug=debug, metrics=metrics, no_rows=no_rows,
        otel=otel, watch=watch, stop=stop,
    )  # fmt: skip


@app.command(short_help="Show a running job: a live page, or a terminal.")
def watch(
    target: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT|URL",
            help="The checkpoint of a job, or the address that it serves figures at.",
            show_default=False,
        ),
    ],
    *,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=MOST_PORT, metavar="PORT", help=f"Of the page: {PAGE_PORT}; 0 takes a free one."),
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="HOST", help="The address that the page listens on: 127.0.0.1.")
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows/--no-rows", help="Show values of rows: newest pairs, and log lines.")
    ] = True,
    terminal: Annotated[bool, typer.Option("--terminal", help="Show it here, and serve no page.")] = False,
    lost_after: Annotated[
        float, typer.Option(metavar="SECONDS", help="A job without figures for so long is shown as lost.")
    ] = 10.0,
    debug: Debug = False,
) -> None:
    """Show the figures of a running job as a page on this machine, see docs/live-page.md."""
    with errors_reported(debug=debug):
        from slidejoin.cli.watch_page import watch_job  # noqa: PLC0415 - few commands need it

        watch_job(target, port=port, host=host, rows=rows, terminal=terminal, lost_after=lost_after)


@app.command(short_help="Write a report of a job, or of a benchmark, as one file.")
def report(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT|BENCH-OUTPUT",
            help="The checkpoint of a job, or a file that slidejoin bench CASE --json wrote.",
            show_default=False,
        ),
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.html", help="The file to write.")] = Path(
        "report.html"
    ),
    debug: Debug = False,
) -> None:
    """Write the past of a job, or what a benchmark measured, as a page that needs nothing else, see docs/report.md."""
    with errors_reported(debug=debug):
        from slidejoin.watch.report import write_report  # noqa: PLC0415 - few commands need it

        written = write_report(source, output)
        for note in written.notes:
            typer.echo(f"note: {note}", err=True)
        typer.echo(f"{written.file}: {written.what}")


@app.command(short_help="Show how a job would run, and why.")
def explain(
    file: File,
    *,
    base: Base = None,
    engine: EngineOption = None,
    master: Master = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show how the join of a TOML file would run, and why; nothing is read but schemas."""
    with errors_reported(debug=debug):
        wanted = checked_engine(engine)
        job = with_master(read_job(file, base), wanted, master)
        from slidejoin.cli.engine import chosen_engine  # noqa: PLC0415 - see run

        chosen = chosen_engine(job, wanted)
        if chosen.prepared is not None:
            from slidejoin.cli.embedded import explain_embedded  # noqa: PLC0415 - see run

            text = explain_embedded(chosen.prepared, chosen.why)
        else:
            from slidejoin.cli.running import explain_job  # noqa: PLC0415 - see run

            text = explain_job(job, file.stem)
        text = SECRETS.out_of(text)
        typer.echo(document({"job": file.stem, "plan": text}) if json else text)


@app.command(short_help="Write a job file for given sources.")
def init(
    sources: Sources,
    *,
    to: NewFile = Path("job.toml"),
    on: On = None,
    kind: Kind = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Write a commented job file for given sources, with their columns and a guess at the join."""
    with errors_reported(debug=debug):
        from slidejoin.cli.beginning import write_job_file  # noqa: PLC0415 - loads PyArrow

        write_job_file(sources, to, on=on, kind=kind, force=force)


app.add_typer(
    bench,
    name="bench",
    help="Measure slidejoin on this machine, next to other tools, see docs/benchmarks.md.",
    short_help="Measure the join on this machine.",
)
app.command(short_help="Show the state of the joins in a checkpoint.")(state)


def _compiled_kernels() -> dict[str, object]:
    """Compile all kernels that are not compiled yet, and return the seconds and the outcome for each kernel."""
    start = perf_counter()
    from slidejoin.jit.warming import check_saved, warm_up  # noqa: PLC0415 - loads Numba, part of what is measured

    done = warm_up()
    check_saved()
    return {"seconds": perf_counter() - start, "kernels": [kernel._asdict() for kernel in done]}


@app.command("compile", short_help="Compile all kernels ahead of the first push.")
def compile_kernels(*, json: Json = False, debug: Debug = False) -> None:
    """Compile all kernels now and keep them on disk: no later process compiles any, as suits an image."""
    with errors_reported(debug=debug):
        if json:
            typer.echo(document(_compiled_kernels()))
        else:
            compile_in_words()
