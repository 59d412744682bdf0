"""``slidejoin bench``: a command for each case, and its printed report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from slidejoin.bench import CASES
from slidejoin.bench.case import compile_kernels, whole_number
from slidejoin.cli.reporting import Debug, Json, document, errors_reported
from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from slidejoin.bench.report import Report

__all__ = ["bench"]


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

        compile_kernels()
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
    output: Annotated[str, typer.Option(help="pairs or count.")] = "pairs",
    how: Annotated[str, typer.Option(help="The join type.")] = "inner",
    strategy: Annotated[str, typer.Option(help="How rows are routed; hash joins on an equality.")] = "auto",
    threads: Annotated[int, typer.Option(min=1, help="Tasks at once, and buckets of the join.")] = 2,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure the join on a local Spark, next to Spark's own and a query that only reads, see docs/benchmarks.md."""
    with errors_reported(debug=debug):
        from slidejoin.bench.spark import run  # noqa: PLC0415 - loads NumPy and PyArrow

        compile_kernels()
        _measure(
            run, json=json, window=window, push=push, output=output, how=how, strategy=strategy, threads=threads,
            buckets=threads,
        )  # fmt: skip


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
