"""Charts and tables of what ``slidejoin bench CASE --json`` wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin import __version__
from slidejoin.errors import ConfigError, StateError, nearest
from slidejoin.watch.charts import ReportChart, ReportTable, counted, took

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["BenchOutput", "read_bench"]

RATE = "rows a second"
OURS, ON_SPARK = "slidejoin", "slidejoin on Spark"
COLOURS = {
    OURS: "--pairs",
    ON_SPARK: "--stream-5",
    "Polars": "--stream-0",
    "DuckDB": "--stream-1",
    "Spark's own": "--stream-3",
}
OTHERS = ("--stream-2", "--stream-4", "--quiet")
MOST_BYTES = 16 << 20


class BenchOutput(NamedTuple):
    """What a case of the benchmarks has measured.

    Attributes
    ----------
    title : str
    facts : dict of str to str
        About the run and the machine.
    charts : list of ReportChart
    tables : list of ReportTable
    """

    title: str
    facts: dict[str, str]
    charts: list[ReportChart]
    tables: list[ReportTable]


def read_bench(file: Path) -> BenchOutput:
    """Read what a case has written.

    Raises
    ------
    ConfigError
        If the file has something else.
    StateError
        If a part of it is missing, as in a file of another version.
    """
    plain = _json(file)
    case = plain.get("case") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or not isinstance(case, str) or not isinstance(plain.get("environment"), dict):
        msg = (
            f"{file} is JSON, but not of slidejoin bench: it has no case and no environment. Expected what "
            "slidejoin bench tasks --json writes, or the checkpoint of a job"
        )
        raise ConfigError(msg)
    if case not in CASES:
        msg = f"{file} is of the case {case!r}; there are reports of {', '.join(CASES)}.{nearest(case, CASES)}"
        raise ConfigError(msg)
    try:
        charts, tables = CASES[case](plain)
        machine = _machine(plain["environment"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        by = plain["environment"].get("slidejoin", "of an unknown version")
        msg = (
            f"{file} is not what this version's case {case} writes ({type(error).__name__}: {error}). It was written "
            f"by slidejoin {by}, and this is {__version__}: measure again, or use that version"
        )
        raise StateError(msg) from error
    return BenchOutput(f"slidejoin bench {case}", machine, charts, tables)


def _json(file: Path) -> Any:  # noqa: ANN401 - any JSON
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            msg = f"{file} has more than {MOST_BYTES >> 20} MiB: it is not what slidejoin bench writes"
            raise ConfigError(msg)
        return json.loads(data)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        msg = (
            f"{file} is not JSON ({error}). Give what slidejoin bench … --json writes, or the checkpoint of a job, "
            "which is a folder"
        )
        raise ConfigError(msg) from error


def _machine(environment: Mapping[str, Any]) -> dict[str, str]:
    return {
        "processor": str(environment["processor"]),
        "cores": counted(environment["cores"]),
        "memory": f"{float(environment['memory_bytes']) / 2**30:.0f} GiB",
        "system": str(environment["system"]),
        "Python": str(environment["python"]),
        "slidejoin": str(environment["slidejoin"]),
    }


def _colour(tool: str, place: int) -> str:
    return COLOURS.get(tool, OTHERS[place % len(OTHERS)])


def _grouped(name: str, title: str, unit: str, says: str, groups: dict[str, dict[str, float]]) -> ReportChart:
    """Return bars by the name of a tool, each with its value in some groups."""
    traces = [
        {
            "type": "bar",
            "name": tool,
            "x": list(values),
            "y": list(values.values()),
            "text": [f"{value:,.0f}" for value in values.values()],
            "textposition": "auto",
            "cliponaxis": False,
            "marker": {"color": _colour(tool, place)},
            "hovertemplate": f"%{{x}}: %{{y:,.0f}} {unit}<extra>%{{fullData.name}}</extra>",
        }
        for place, (tool, values) in enumerate(groups.items())
    ]
    layout = {
        "barmode": "group",
        "xaxis": {"type": "category"},
        "yaxis": {"type": "log", "dtick": 1, "title": {"text": f"{unit}, logarithmic"}},
        "height": 420,
    }
    return ReportChart(name, title, unit, says, traces, layout)


Parts = tuple[list[ReportChart], list[ReportTable]]


def _tasks(plain: Mapping[str, Any]) -> Parts:
    groups: dict[str, dict[str, float]] = {}
    rows, versions = [], {}
    for task in plain["tasks"]:
        for speed in task["speeds"]:
            rate = speed["rows_per_second"]
            versions[speed["tool"]] = speed["version"]
            if rate is None:
                rows.append((task["name"], speed["tool"], "not installed", "", "", ""))
                continue
            groups.setdefault(speed["tool"], {})[task["name"]] = float(rate)
            rows.append((
                *(task["name"], speed["tool"], counted(float(round(rate)))),
                "" if speed["ratio"] is None else f"{speed['ratio']:,.2g}",
                *(counted(speed["pushes"]), counted(speed["pairs"])),
            ))  # fmt: skip
    named = {f"{tool} {version}" if tool in COLOURS and tool != OURS else tool: groups[tool]
             for tool, version in versions.items() if tool in groups}  # fmt: skip
    chart = _grouped("tasks", "Five tasks", RATE, "Rows a second of each tool on each task; higher is faster.", groups)
    for trace, name in zip(chart.traces, named, strict=True):
        trace["name"] = name
    questions = [(one["name"], one["question"], one["on"], one["window"]) for one in plain["tasks"]]
    run = f"{plain['threads']} threads, seed {plain['seed']}, {plain['scale']:g} of the usual rows"
    head = ("task", "tool", RATE, "slidejoin is so many times as fast", "pushes or micro-batches", "pairs")
    return [chart], [
        ReportTable(f"Speeds: {run}", head, rows),
        ReportTable("Tasks", ("task", "question", "predicate", "window"), questions),
    ]


def _pipeline(plain: Mapping[str, Any]) -> Parts:
    speeds = plain["speeds"]
    names = {"embedded": OURS, "spark": ON_SPARK, "polars": "Polars", "quix": "Quix Streams"}
    groups = {names.get(one["engine"], one["engine"]): {"the job": float(one["rows_per_second"])} for one in speeds}
    chart = _grouped("engines", "A job file", RATE, "Rows a second of the same job on each engine.", groups)
    rows = [
        (one["engine"], counted(one["rows"]), counted(one["pairs"]), counted(float(round(one["rows_per_second"]))),
         took(one["seconds"]))
        for one in speeds
    ]  # fmt: skip
    where = "topics of Kafka" if plain["kafka"] else "files of Parquet"
    title = f"{plain['rows']:,} rows a side of {where}, seed {plain['seed']}"
    head = ("engine", "rows", "pairs", RATE, "from the command to its end")
    return [chart], [ReportTable(title, head, rows)]


def _spark(plain: Mapping[str, Any]) -> Parts:
    speed = plain["rows_per_second"]
    groups = {ON_SPARK: {"the join": float(speed["median"])}}
    if plain["own_rows_per_second"] is not None:
        groups["Spark's own"] = {"the join": float(plain["own_rows_per_second"])}
    rate = _grouped("joins", "The join on Spark", RATE, "Rows a second, median of the micro-batches.", groups)
    seconds = {f"phase {name}": value for name, value in plain["phases"].items()}
    seconds |= {f"buckets: {name}": value for name, value in plain["bucket_seconds"].items()}
    trace = {"type": "bar", "x": list(seconds), "y": list(seconds.values()), "marker": {"color": "--stream-5"}}
    layout = {"xaxis": {"type": "category"}, "yaxis": {"title": {"text": "seconds"}}, "showlegend": False}
    says = "Mean seconds of a micro-batch by Spark's phases, and in the buckets of the join, all together."
    time = ReportChart("phases", "A micro-batch", "seconds", says, [trace], layout)
    rows = [
        *((name, str(plain[name])) for name in ("on", "how", "output", "strategy", "algorithm", "buckets", "threads")),
        *((name, counted(plain[name])) for name in ("window", "push", "batches", "match_rate")),
        (
            f"{RATE}, middle half",
            f"{counted(round(speed['lower_quartile']))} to {counted(round(speed['upper_quartile']))}",
        ),
        ("seconds of a micro-batch, median", took(plain["seconds"]["median"])),
        ("more than a query that only reads", took(plain["beyond_reading"])),
    ]
    return [rate, time], [ReportTable("The case", ("", ""), rows)]


def _memory(plain: Mapping[str, Any]) -> Parts:
    threads = {f"{one['threads']} thread{'s' if one['threads'] > 1 else ''}": one for one in plain["memory"]}
    charts = []
    for name, title, key, scale, unit in (
        ("random", "Random cache lines", "lines_per_second", 1e6, "millions a second"),
        ("streamed", "Streamed bytes", "bytes_per_second", 1e9, "GB a second"),
    ):
        values = {name: float(one[key]) / scale for name, one in threads.items()}
        trace = {"type": "bar", "x": list(values), "y": list(values.values()), "marker": {"color": "--pairs"}}
        layout = {"xaxis": {"type": "category"}, "yaxis": {"title": {"text": unit}}, "showlegend": False}
        charts.append(ReportChart(name, title, unit, f"{title} that memory gives.", [trace], layout))
    rows = [
        (name, counted(float(round(one["lines_per_second"]))), counted(float(round(one["bytes_per_second"]))))
        for name, one in threads.items()
    ]
    return charts, [ReportTable("Memory", ("", "lines a second", "bytes a second"), rows)]


CASES: dict[str, Callable[[Mapping[str, Any]], Parts]] = {
    "tasks": _tasks,
    "spark": _spark,
    "pipeline": _pipeline,
    "machine": _memory,
}
"""What reads the output of each case of `slidejoin.bench`."""
