"""Charts and tables of a report: of the past of a job, as plotly draws them.

Colours are names of the report's style sheet, such as ``--stream-0``, so that charts follow its light and dark scheme.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slidejoin.watch.past import Line, PastJob
    from slidejoin.watch.reading import Reading

__all__ = ["ReportChart", "ReportTable", "charts_of", "counted", "tables_of", "took"]

PAIRS_COLOUR, QUIET = "--pairs", "--quiet"
STREAM_COLOURS = 6

QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
QUANTILE_COLOURS = ("--stream-0", "--stream-1", "--bad")

UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"), (1e-3, "ms"), (1e-6, "µs"))
SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))

FEW, MANY = 10, 1000
"""Below the first one a number gets two digits behind the point, from the second one on none."""


class ReportChart(NamedTuple):
    """A chart.

    Attributes
    ----------
    name : str
        Of its element.
    title, unit : str
    says : str
        What it shows, in a sentence.
    traces : list of dict
    layout : dict
        What differs from the layout of all charts.
    """

    name: str
    title: str
    unit: str
    says: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]


class ReportTable(NamedTuple):
    """A table; cells are text."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


# -- numbers ---------------------------------------------------------------------------------------------------------


def counted(value: float | None) -> str:
    """Return a number for people; a dash if there is none.

    Examples
    --------
    >>> counted(1234567.0), counted(3.14159), counted(12.34), counted(None)
    ('1,234,567', '3.14', '12.3', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    if float(value).is_integer() or abs(value) >= MANY:
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) < FEW else f"{value:,.1f}"


def took(seconds: float | None) -> str:
    """Return a time for people.

    Examples
    --------
    >>> took(0.00234), took(90.0), took(None)
    ('2.34 ms', '1.50 minutes', '-')
    """
    if seconds is None or not math.isfinite(seconds):
        return "-"
    scale, unit = _unit(abs(seconds), UNITS)
    return f"{counted(seconds / scale)} {unit}"


def _unit(largest: float, units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Return the unit in which the largest of some values is 1 or more, and its name."""
    if not largest:
        return 1.0, next(name for scale, name in units if scale == 1)
    return next(
        ((float(scale), name) for scale, name in units if largest >= scale), (float(units[-1][0]), units[-1][1])
    )


def _moment(seconds: float) -> str:
    """Return a Unix time as plotly reads it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _largest(lines: Iterable[Line]) -> float:
    return max((abs(value) for line in lines for _, value in line if value is not None), default=0.0)


def _present(lines: dict[str, Line]) -> dict[str, Line]:
    """Return the lines that have a value."""
    return {name: line for name, line in lines.items() if any(value is not None for _, value in line)}


# -- charts ----------------------------------------------------------------------------------------------------------


def charts_of(past: PastJob) -> list[ReportChart]:
    """Return the charts of a job; those of which it has no figures are left out."""
    job = past.newest.job
    colours = {side: f"--stream-{place % STREAM_COLOURS}" for place, side in enumerate(job.sides)}
    made = [_throughput(past, colours), _latency(past), _windows(past, colours), _bytes(past), _lag(past, colours)]
    made += [_skew(past), _buckets(past), _steps(past)]
    return [chart for chart in made if chart is not None]


def _over_time(
    past: PastJob,
    name: str,
    title: str,
    unit: str,
    says: str,
    lines: dict[str, Line],
    styles: dict[str, dict[str, Any]],
) -> ReportChart | None:
    """Return a chart of lines over the time of the job; None if there are no values."""
    lines = _present(lines)
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers" if len(line) <= FEW else "lines",
            "name": label,
            "x": [_moment(at) for at, _ in line],
            "y": [value for _, value in line],
            "line": {"width": 2, **styles.get(label, {})},
            "hovertemplate": f"%{{y:,.4~g}} {unit}",
        }
        for label, line in lines.items()
    ]
    ends = [_moment(past.drawn_from), _moment(past.newest.time)]
    layout = {
        "xaxis": {"type": "date", "range": ends} if past.drawn_from < past.newest.time else {"type": "date"},
        "yaxis": {"title": {"text": unit}},
        "hovermode": "x unified",
    }
    return ReportChart(name, title, unit, says, traces, layout) if traces else None


def _scaled(line: Line, scale: float) -> Line:
    return [(at, None if value is None else value / scale) for at, value in line]


def _throughput(past: PastJob, colours: dict[str, str]) -> ReportChart | None:
    lines = {f"{side} rows": past.rate("slidejoin_rows_total", side=side) for side in colours}
    styles = {f"{side} rows": {"color": colour} for side, colour in colours.items()}
    return _over_time(
        past, "throughput", "Throughput", "a second", "Rows that arrived and pairs that were emitted, a second.",
        lines | {"pairs": past.rate("slidejoin_pairs_total")}, styles | {"pairs": {"color": PAIRS_COLOUR}},
    )  # fmt: skip


def _latency(past: PastJob) -> ReportChart | None:
    what = _push_of(past)
    says = f"Of the newest {what}es at each time, half take at most p50, and one in 100 longer than p99."
    lines = {name: past.quantile(share) for name, share in QUANTILES.items()}
    scale, unit = _unit(_largest(lines.values()), UNITS)
    styles = {name: {"color": colour} for name, colour in zip(QUANTILES, QUANTILE_COLOURS, strict=True)}
    return _over_time(
        past,
        "latency",
        f"Time of a {what}",
        unit,
        says,
        {name: _scaled(line, scale) for name, line in lines.items()},
        styles,
    )


def _windows(past: PastJob, colours: dict[str, str]) -> ReportChart | None:
    return _over_time(
        past, "windows", "Windows", "rows", "Rows that the window of each side has.",
        {side: past.gauge("slidejoin_window_rows", side=side) for side in colours},
        {side: {"color": colour} for side, colour in colours.items()},
    )  # fmt: skip


def _bytes(past: PastJob) -> ReportChart | None:
    line = past.gauge("slidejoin_window_bytes")
    scale, unit = _unit(_largest([line]), SIZES)
    says = "State of all windows" if past.newest.job.engine == "spark" else "Memory of all windows"
    return _over_time(
        past, "bytes", "State", unit, f"{says}.", {"state": _scaled(line, scale)}, {"state": {"color": "--stream-2"}}
    )


def _lag(past: PastJob, colours: dict[str, str]) -> ReportChart | None:
    """Draw how far each side and the watermark are behind the wall clock."""

    def watermark(reading: Reading) -> float | None:
        marks = reading.of("slidejoin_watermark_seconds")
        return reading.time - min(marks.values()) if len(marks) == len(colours) else None

    lines = {side: past.gauge("slidejoin_lag_seconds", side=side) for side in colours}
    lines = _present(lines | {"watermark": past.of(watermark)})
    scale, unit = _unit(_largest(lines.values()), UNITS[:4])
    styles: dict[str, dict[str, Any]] = {side: {"color": colour} for side, colour in colours.items()}
    return _over_time(
        past, "lag", "Lag", unit, "The wall clock less the newest event time of each side, and less the watermark.",
        {name: _scaled(line, scale) for name, line in lines.items()},
        styles | {"watermark": {"color": QUIET, "dash": "dot"}},
    )  # fmt: skip


def _skew(past: PastJob) -> ReportChart | None:
    says = "Rows of the largest bucket as a multiple of the mean; 1 is even."
    return _over_time(
        past, "skew", "Bucket skew", "times the mean", says,
        {"skew": past.gauge("slidejoin_bucket_skew")}, {"skew": {"color": "--stream-3"}},
    )  # fmt: skip


def _bars(name: str, title: str, unit: str, says: str, values: dict[str, float], colour: str) -> ReportChart:
    trace = {
        "type": "bar",
        "x": list(values),
        "y": list(values.values()),
        "marker": {"color": colour},
        "hovertemplate": f"%{{x}}: %{{y:,.4~g}} {unit}<extra></extra>",
    }
    layout = {"xaxis": {"type": "category"}, "yaxis": {"title": {"text": unit}}, "showlegend": False}
    return ReportChart(name, title, unit, says, [trace], layout)


def _buckets(past: PastJob) -> ReportChart | None:
    rows = past.newest.reading.of("slidejoin_bucket_rows")
    if not rows:
        return None
    ordered = sorted(rows, key=lambda bucket: (len(bucket), bucket))
    says = "Rows of each bucket at the end."
    return _bars("buckets", "Buckets", "rows", says, {one: rows[one] for one in ordered}, "--stream-3")


def _steps(past: PastJob) -> ReportChart | None:
    steps = {step: past.total("slidejoin_step_seconds_total", step=step) for step in _labels(past, "step_seconds")}
    spent = {step: seconds for step, seconds in steps.items() if seconds}
    if not spent:
        return None
    scale, unit = _unit(max(spent.values()), UNITS)
    ordered = {step: seconds / scale for step, seconds in sorted(spent.items(), key=lambda item: -item[1])}
    return _bars("steps", "Time by step", unit, "Time in each step of the join, of all threads.", ordered, "--stream-5")


def _labels(past: PastJob, name: str) -> list[str]:
    return past.labels(f"slidejoin_{name}_total")


def _push_of(past: PastJob) -> str:
    """Return what one call of the join is called on the job's engine."""
    return "micro-batch" if past.newest.job.engine == "spark" else "push"


# -- tables ----------------------------------------------------------------------------------------------------------

COUNTERS = {
    "slidejoin_result_rows_total": "rows written to the sink",
    "slidejoin_unmatched_rows_total": "rows emitted without a match",
    "slidejoin_late_rows_total": "late rows",
    "slidejoin_null_time_rows_total": "rows without event time",
    "slidejoin_bad_rows_total": "rows that could not be read",
    "slidejoin_feed_dropped_rows_total": "rows dropped by the feed",
    "slidejoin_micro_batches_total": "micro-batches",
    "slidejoin_index_changes_total": "changes of the index",
    "slidejoin_cache_rebuilds_total": "rebuilds of the cache",
}
"""Further counters, and what they are called in the table of totals."""


def tables_of(past: PastJob) -> list[ReportTable]:
    """Return the tables of a job: totals, and how selective the terms of its predicate are."""
    tables = [_totals(past)]
    if past.newest.terms:
        rows = [(one.term, f"{100 * one.passed:.3g} %") for one in past.newest.terms]
        tables.append(ReportTable("Terms", ("term", "row pairs that pass"), rows))
    return tables


def _totals(past: PastJob) -> ReportTable:
    seconds, sides = past.seconds, past.newest.job.sides
    rows = [("starts", counted(len(past.runs)), ""), ("time", took(seconds), "")]
    grown = {f"rows, {side}": past.total("slidejoin_rows_total", side=side) for side in sides}
    grown["pairs"] = past.total("slidejoin_pairs_total")
    for name, total in grown.items():
        if total is not None:
            rows.append((name, counted(total), counted(total / seconds) if seconds > 0 else ""))
    totals = {name: past.total_of_all(figure) for figure, name in COUNTERS.items()}
    rows += [(name, counted(total), "") for name, total in totals.items() if total is not None]
    return ReportTable("Totals", ("", "total", "a second"), [*rows, *_times(past), *_most(past)])


def _times(past: PastJob) -> list[tuple[str, str, str]]:
    """Return lines about the times of all pushes."""
    pushes, what = past.pushes(), _push_of(past)
    if pushes is None or not pushes.count:
        return []
    number = [("pushes", counted(pushes.count), "")] if what == "push" else []  # micro-batches are counted elsewhere
    return number + [
        (f"time of a {what}, {name}", took(pushes.quantile(share)), "") for name, share in QUANTILES.items()
    ]


def _most(past: PastJob) -> list[tuple[str, str, str]]:
    """Return lines about how large the state has been."""
    most = {
        f"window rows, {side}": (past.largest("slidejoin_window_rows", side=side), 1.0, "")
        for side in past.newest.job.sides
    }
    size = past.largest("slidejoin_window_bytes")
    most["state"] = (size, *_unit(size or 0.0, SIZES))
    most["bucket skew"] = (past.largest("slidejoin_bucket_skew"), 1.0, "")
    return [
        (f"{name}, at most", f"{counted(largest / scale)} {unit}".rstrip(), "")
        for name, (largest, scale, unit) in most.items()
        if largest is not None
    ]
