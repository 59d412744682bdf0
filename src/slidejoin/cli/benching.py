"""``slidejoin bench``: its options, its printed report and its plot."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from textwrap import fill
from typing import Annotated

import typer

from slidejoin.bench import CASES, run_case
from slidejoin.cli.common import Debug, Json, document, errors_told

__all__ = ["BENCH_HELP", "bench"]

BENCH_HELP = "\n".join(
    ["Measure slidejoin on this machine beside other tools, see docs/benchmarks.md. The cases are:", "", "\b"]
    + [
        fill(what, 76, initial_indent=f"{name:<12}", subsequent_indent=" " * 12)  # 80 columns less what Click indents
        for name, what in CASES.items()
    ]
)


def _number(text: str | int) -> int:
    """Read a whole number, also written as a power such as 2^20."""
    base, power, exponent = str(text).strip().partition("^")
    try:
        return int(base) ** int(exponent) if power else int(base)
    except ValueError:
        raise typer.BadParameter(f"got {text!r}, expected a whole number or a power such as 2^20") from None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_number(part) for part in text.split(","))


def bench(
    case: Annotated[str, typer.Argument(metavar="CASE", help="One of the cases above.", show_default=False)],
    *,
    window: Annotated[
        int | None,
        typer.Option(parser=_number, metavar="ROWS", help="Rows kept of each side; 2^20 by default, topologies: 2^18."),
    ] = None,
    push: Annotated[
        int | None,
        typer.Option(
            parser=_number,
            metavar="ROWS",
            help="Rows a push, half of them of each side, multi: of each stream; 2^15, latency, overload: 256, "
            "inequality: 2^12, topologies: 64 by default.",
        ),
    ] = None,
    match_rate: Annotated[float | None, typer.Option(help="Matches of a row, on average; 2 by default.")] = None,
    threads: Annotated[
        int | None,
        typer.Option(help="Threads of the join; all cores by default. Machine and scaling: 2, inequality: 1."),
    ] = None,
    distribution: Annotated[
        str | None,
        typer.Option(
            help="Distribution of the keys: uniform (default), gaussian, gamma3, gamma1, zipf, multimodal, "
            "shifting, lognormal, pareto."
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A name from slidejoin.algorithms(); auto by default.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(help="positions (default), pairs (one integer column a side), payload (four a side) or count."),
    ] = None,
    order: Annotated[str | None, typer.Option(help="probe (default), strict or none.")] = None,
    how: Annotated[str | None, typer.Option(help="Spark: the join type; inner by default.")] = None,
    strategy: Annotated[str | None, typer.Option(help="Spark: how rows are routed; auto by default.")] = None,
    baselines: Annotated[
        bool | None,
        typer.Option(
            "--baselines/--no-baselines", help="Band, equi, less, terms, spark: measure the other tools (default)."
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Runs, of which the median is quoted; band, equi, less: 3 by default, startup: 5, others: 1."
        ),
    ] = None,
    rows: Annotated[
        int | None,
        # Named, since Typer before 0.28 takes a metavar that is the name in capitals for the name.
        typer.Option(
            "--rows", parser=_number, metavar="ROWS", help="Rows to measure in a run; some windows by default."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the random keys; 1 by default.")] = None,
    windows: Annotated[
        str | None, typer.Option(metavar="ROWS,ROWS,…", help="Scaling: the sizes; 2^14 to 2^26 by default.")
    ] = None,
    compile_all: Annotated[
        bool | None,
        typer.Option("--compile/--no-compile", help="Startup: compile all kernels from nothing too (default)."),
    ] = None,
    buckets: Annotated[
        int | None, typer.Option(min=1, help="Routing, spark: buckets of the join on Spark; 8 and 2 by default.")
    ] = None,
    batches: Annotated[int | None, typer.Option(min=1, help="Spark: micro-batches to measure; 6 by default.")] = None,
    spread: Annotated[
        int | None, typer.Option(min=1, help="Routing: buckets each way for a hot key or cell; 2 by default.")
    ] = None,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark", help="Tasks: Spark's own join too; terms: some on Spark too (not by default)."
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,…", help="Tasks, terms, multi, inequality (figures): only these; all by default."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Tasks, terms: seconds for each tool on each, 5 by default; multi, inequality: 3; overload: 1; "
            "topologies: each point, 0.5."
        ),
    ] = None,
    quick: Annotated[
        bool | None,
        typer.Option("--quick", help="Inequality: one small window of each figure; topologies: all small; in seconds."),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,…", help="Topologies: only these, by number or as split12, cell7; all by default."
        ),
    ] = None,
    scale: Annotated[
        float | None, typer.Option(help="Tasks: rows, terms: rows of windows, in multiples of the default.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Also draw a plot: band, equi, less, latency, scaling.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure one case and print the report, see `BENCH_HELP`."""
    with errors_told(debug=debug):
        if plot is not None:
            from slidejoin.bench.plots import check_plot  # noqa: PLC0415 - loads Matplotlib

            check_plot(case, plot)
        report = run_case(
            case,
            window=window,
            push=push,
            match_rate=match_rate,
            threads=threads,
            distribution=distribution,
            algorithm=algorithm,
            output=output,
            order=order,
            how=how,
            strategy=strategy,
            baselines=baselines,
            runs=runs,
            rows=rows,
            seed=seed,
            windows=None if windows is None else _numbers(windows),
            compile_all=compile_all,
            buckets=buckets,
            batches=batches,
            spread=spread,
            spark=spark,
            only=None if only is None else tuple(one.strip() for one in only.split(",")),
            seconds=seconds,
            quick=quick or None,
            figure=None if figure is None else tuple(one.strip() for one in figure.split(",")),
            scale=scale,
        )
        typer.echo(document(report.to_json()) if json else report.text())
        if plot is not None:
            from slidejoin.bench.plots import draw_plot  # noqa: PLC0415

            draw_plot(report, plot)
