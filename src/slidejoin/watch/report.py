"""``slidejoin report``: the past of a job, or the output of a benchmark, as one file of HTML.

The file has everything in it, plotly's JavaScript too: it loads nothing from anywhere, and says so to the browser. It
has figures and the plan, and no values of rows.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin import __version__
from slidejoin.errors import ConfigError, MissingPackageError
from slidejoin.watch.bench_charts import read_bench
from slidejoin.watch.charts import ReportChart, ReportTable, charts_of, counted, tables_of, took
from slidejoin.watch.past import check_checkpoint, read_past

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slidejoin.watch.past import PastJob

__all__ = ["WrittenReport", "write_report"]

PAGE = Path(__file__).with_name("report_page")

NARROW = 3
"""Columns of a table that has room next to another card."""


class WrittenReport(NamedTuple):
    """A report that was written.

    Attributes
    ----------
    file : Path
    what : str
        What it shows, in a few words.
    notes : tuple of str
        What could not be read.
    """

    file: Path
    what: str
    notes: tuple[str, ...]


def write_report(source: Path, file: Path) -> WrittenReport:
    """Write the report of a checkpoint, or of a file that ``slidejoin bench CASE --json`` wrote.

    Parameters
    ----------
    source : Path
    file : Path
        The file to write. One that is there is replaced.

    Raises
    ------
    ConfigError
        If the source is neither, or the file cannot be a report.
    StateError
        If the source is damaged, or of another version.
    MissingPackageError
        If the package plotly is not installed.
    OSError
        If the file cannot be written.
    """
    script = _plotly()
    _check_target(source, file)
    if source.is_dir():
        past = read_past(source)
        html, what, notes = _of_job(past, script), _in_words(past), past.notes
    elif source.exists():
        bench = read_bench(source)
        html = _page(
            bench.title,
            "Measured",
            bench.facts,
            charts=bench.charts,
            tables=bench.tables,
            plan="",
            notes=(),
            script=script,
        )
        what, notes = bench.title, ()
    else:
        msg = f"{source}: no such file or folder. {_expected()}"
        raise ConfigError(msg)
    made = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        made.write_text(html, "utf-8")
        made.replace(file)
    finally:
        made.unlink(missing_ok=True)
    return WrittenReport(file, what, notes)


def _expected() -> str:
    return "Give the checkpoint of a job on this machine, or a file that slidejoin bench CASE --json wrote"


def _check_target(source: Path, file: Path) -> None:
    """Refuse a source that cannot be one, and places where a report would replace something else."""
    if "://" in str(source) or ":/" in str(source):  # a path has lost one of the slashes
        msg = f"{source}: a report reads files of this machine. {_expected()}"
        raise ConfigError(msg)
    if file.is_dir():
        msg = f"--output {file}: this is a folder; give the name of a file, such as {file / 'report.html'}"
        raise ConfigError(msg)
    if not file.parent.is_dir():
        msg = f"--output {file}: there is no folder {file.parent}; make it first"
        raise ConfigError(msg)
    if source.is_dir():
        check_checkpoint(source)
    own, there = source.resolve(), file.resolve()
    if there == own or (own.is_dir() and there.is_relative_to(own)):
        what = "in the checkpoint" if own.is_dir() else "the file to read"
        msg = f"--output {file}: this is {what}; write the report elsewhere"
        raise ConfigError(msg)


def _plotly() -> str:
    """Return plotly's JavaScript."""
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415 - an extra, slow to load
    except ImportError as error:
        msg = f'slidejoin report needs the package {error.name}. Install it: pip install "slidejoin[watch]"'
        raise MissingPackageError(msg, name=error.name) from error
    return str(get_plotlyjs())


# -- jobs ------------------------------------------------------------------------------------------------------------


def _minute(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _in_words(past: PastJob) -> str:
    documents = sum(len(run.documents) for run in past.runs)
    return (
        f"{past.newest.job.name}, {documents:,} readings, {_minute(past.first_time)} to {_minute(past.newest.time)} UTC"
    )


def _of_job(past: PastJob, script: str) -> str:
    newest = past.newest
    job = newest.job
    facts = {
        "on": job.on,
        "window": job.window,
        "engine": "Spark" if job.engine == "spark" else "embedded, in one process",
        "figures": f"{_minute(past.first_time)} to {_minute(newest.time)} UTC",
        "running": f"{took(past.seconds)} in {counted(len(past.runs))} start{'s' if len(past.runs) > 1 else ''}",
        "at the end": "ended" if newest.ended else "not ended, or killed",
    }
    return _page(
        job.name, "The past of a job", facts, charts=charts_of(past), tables=tables_of(past), plan=job.plan,
        notes=past.notes, script=script,
    )  # fmt: skip


# -- the page --------------------------------------------------------------------------------------------------------


def _page(
    title: str,
    kind: str,
    facts: Mapping[str, str],
    *,
    charts: list[ReportChart],
    tables: list[ReportTable],
    plan: str,
    notes: Iterable[str],
    script: str,
) -> str:
    """Return the whole page."""
    values = {
        "title": escape(title),
        "kind": escape(kind),
        "style": _part("style.css"),
        "facts": "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts.items()),
        "notes": "\n".join(f'<p class="note" role="note">{escape(note)}</p>' for note in notes),
        "charts": "\n".join(_chart(one, wide=len(charts) == 1) for one in charts),
        "plan": f'<section class="card"><h2>Plan</h2>\n<pre>{escape(plan)}</pre></section>' if plan else "",
        "totals": "\n".join(map(_table, tables[:1])),
        "tables": "\n".join(map(_table, tables[1:])),
        "version": escape(__version__),
        "made": _minute(datetime.now(UTC).timestamp()),
        "plotly": script,
        "data": _embedded([one._asdict() for one in charts]),
        "script": _part("charts.js"),
    }
    return Template(_part("page.html")).substitute(values)


def _part(name: str) -> str:
    return (PAGE / name).read_text("utf-8")


def _embedded(plain: Any) -> str:  # noqa: ANN401 - any JSON
    """Return JSON that cannot end the element that it stands in."""
    return json.dumps(plain, allow_nan=False).replace("<", "\\u003c").replace("&", "\\u0026")


def _chart(chart: ReportChart, *, wide: bool) -> str:
    name, says = escape(chart.name), escape(chart.says)
    title = f'{escape(chart.title)} <span class="unit">{escape(chart.unit)}</span>'
    return (
        f'<figure class="card{" wide" if wide else ""}" aria-labelledby="{name}-title">\n'
        f'<h2 id="{name}-title">{title}</h2>\n<div class="chart" id="{name}" role="img" aria-label="{says}"></div>\n'
        f"<figcaption>{says}</figcaption>\n</figure>"
    )


def _table(table: ReportTable) -> str:
    """Return a table; columns of numbers stand to the right."""
    columns = zip(*table.rows, strict=True) if table.rows else ((),) * len(table.head)
    sides = [' class="number"' if all(cell[:1].isdigit() for cell in one if cell) else "" for one in columns]
    sides[0] = ""
    head = "".join(f'<th scope="col"{side}>{escape(name)}</th>' for name, side in zip(table.head, sides, strict=True))
    rows = "\n".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td{side}>{escape(cell)}</td>" for cell, side in zip(rest, sides[1:], strict=True))
        + "</tr>"
        for first, *rest in table.rows
    )
    wide = " wide" if len(table.head) > NARROW else ""
    return (
        f'<section class="card{wide}"><h2>{escape(table.title)}</h2>\n<div class="scroll"><table><thead><tr>{head}</tr>'
        f"</thead>\n<tbody>\n{rows}\n</tbody></table></div></section>"
    )
