"""The plot of a report, drawn by Matplotlib."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.cases.latency import LatencyReport
from benchmarks.cases.scaling import ScalingReport
from benchmarks.cases.throughput import ThroughputReport
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from slidejoin.bench.report import Report

__all__ = ["plot_into"]

DRAWN = ("band", "equi", "less", "latency", "scaling")
OURS, OTHERS = "#0b6e4f", "#9aa5b1"


def plot_into(case: str, file: Path) -> Callable[[Report], None]:
    """Return what draws a report into a file: bars for throughput, curves for latency and scaling.

    Raises
    ------
    ConfigError
        If the case has no picture, Matplotlib is missing, or the file cannot be written there: before anything is
        measured.
    """
    if case not in DRAWN:
        raise ConfigError(f"plot: the case {case} has no picture; those of {', '.join(DRAWN)} have")
    if file.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise ConfigError(f"plot: got {str(file)!r}, expected a file that ends in .png, .svg or .pdf")
    if not file.absolute().parent.is_dir():
        raise ConfigError(f"plot: the folder of {str(file)!r} does not exist; make it first")
    return partial(_draw, _figure(), file)


def _draw(figure: Any, file: Path, report: Report) -> None:  # noqa: ANN401 - Matplotlib is optional
    axes = figure.add_subplot()
    if isinstance(report, ThroughputReport):
        _bars(axes, report)
    elif isinstance(report, LatencyReport):
        _distribution(axes, report)
    elif isinstance(report, ScalingReport):
        _curves(axes, report)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)


def _figure() -> Any:  # noqa: ANN401 - Matplotlib is optional
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ConfigError("plot: needs Matplotlib; pip install matplotlib") from None
    return Figure(figsize=(8, 4.5), layout="constrained")


def _bars(axes: Any, report: ThroughputReport) -> None:  # noqa: ANN401
    """Rows a second of each, on a scale of powers: the others may be a thousand times as slow."""
    load = report.options
    bars = [("slidejoin", report.rows_per_second.median)]
    bars += [(one.name, one.rows_per_second) for one in report.baselines if one.rows_per_second is not None]
    names, values = zip(*bars, strict=True)
    drawn = axes.barh(names, values, color=[OURS] + [OTHERS] * (len(bars) - 1))
    axes.bar_label(drawn, [f" {value / 1e6:.3g} M" for value in values])
    axes.set_xscale("log")
    axes.set_xlim(right=4 * max(values))
    axes.invert_yaxis()
    axes.set_xlabel("rows a second")
    axes.set_title(
        f"{load.operation}, {load.distribution} keys, windows of {load.window:,} rows a side, "
        f"{2 * load.half:,} rows a push\n{report.pairs_per_row:.2g} pairs a row, {load.threads} threads",
        loc="left",
    )


def _distribution(axes: Any, report: LatencyReport) -> None:  # noqa: ANN401
    """Time over the share of pushes that took less, stretched towards the slowest."""
    curves = (
        ("push", report.pushes, OURS),
        ("idle: busy loop", report.busy, OTHERS),
        ("idle: memory", report.memory, "#d4a017"),
    )
    for name, one, colour in curves:
        slower = [1.0 - level for level, _ in one.curve]
        axes.plot(slower, [micros for _, micros in one.curve], label=name, color=colour)
    axes.set(xscale="log", yscale="log", xlabel="share of pushes that took longer", ylabel="microseconds")
    axes.invert_xaxis()
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False)
    load = report.options
    axes.set_title(f"pushes of {2 * load.half:,} rows into windows of {load.window:,} rows a side", loc="left")


def _curves(axes: Any, report: ScalingReport) -> None:  # noqa: ANN401
    """Rows a second over the window, one curve for each number of threads."""
    for threads in sorted({one.threads for one in report.points}):
        points = [one for one in report.points if one.threads == threads]
        label = f"{threads} thread{'s' if threads > 1 else ''}"
        axes.plot(
            [one.window for one in points],
            [one.rows_per_second.median / 1e6 for one in points],
            marker="o",
            label=label,
            color=OURS if threads > 1 else OTHERS,
        )
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="rows kept of each side", ylabel="million rows a second")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False)
    axes.set_title(f"{report.options.distribution} keys, {2 * report.options.half:,} rows a push", loc="left")
