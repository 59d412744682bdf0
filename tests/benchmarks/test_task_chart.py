"""The chart of the five tasks: from the figures in the project, and from a report."""

from __future__ import annotations

import json

import pytest

from benchmarks import task_chart
from benchmarks.task_chart import Figures, chart, table, times
from slidejoin.bench.task_definitions import TASKS
from slidejoin.bench.tasks import Speed, TaskResult, TasksReport
from tests.packaging.examples import ROOT

FIGURES = Figures.read(task_chart.load(task_chart.FIGURES))


def report(*speeds):
    result = TaskResult(
        name="offers",
        question="which?",
        on="l.a < r.a",
        window="rows stay",
        rows_per_push=10,
        window_rows=(10,),
        pairs_per_row=1.0,
        speeds=speeds,
    )
    return TasksReport(case="tasks", threads=2, seed=1, scale=1.0, tasks=(result,))


def test_the_figures_are_about_the_tasks_and_say_when_and_where():
    assert [(task.name, task.question) for task in FIGURES.tasks] == [(task.name, task.question) for task in TASKS]
    assert FIGURES.date
    assert "cores of an" in FIGURES.machine


def test_the_page_has_the_table_of_the_figures():
    assert table(FIGURES) in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_a_report_of_the_command_can_be_drawn(tmp_path, capsys):
    """Also without tools that were not installed, and with Spark's newer format."""
    speeds = (
        Speed("slidejoin", "0.1.0", 500_000.0, None, 3, 9),
        Speed("Polars", "", None, None, 0, 0),
        Speed("DuckDB", "1.4", 50_000.0, 10.0, 3, 9),
        Speed("Spark's own", "4.3.0", 200.0, 20.0, 3, 9, 0.05),
        Speed("Spark's own, format 4", "4.3.0", 400.0, 10.0, 3, 9, 0.05),
        Speed("slidejoin on Spark", "0.1.0", 4000.0, None, 3, 9, 0.05),
    )
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report(*speeds).to_json()), encoding="utf-8")
    assert task_chart.main([str(file), "--to", str(tmp_path / "images")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "| `offers` | 500,000 | 50,000 | 4,000 | 200 | 400 |"
    drawn = (tmp_path / "images" / "tasks-dark.svg").read_text(encoding="utf-8")
    assert "500,000  (10 \N{MULTIPLICATION SIGN})" in drawn
    assert "4,000  (10 \N{MULTIPLICATION SIGN})" in drawn
    assert "Polars" not in drawn


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "got a document without 'tasks', expected what `slidejoin bench tasks --spark --json` prints"),
        ('{"tasks": [], "environment": {"processor": "x", "cores": 2}}', "got a report without tasks"),
        ("no JSON", "Expecting value"),
    ],
)
def test_what_is_no_report_is_refused(text, message, tmp_path, capsys):
    file = tmp_path / "report.json"
    file.write_text(text, encoding="utf-8")
    assert task_chart.main([str(file), "--to", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("*.svg"))


def test_bars_are_as_long_as_speeds():
    widths = [float(part.split('width="')[1].split('"')[0]) for part in chart(FIGURES).parts if 'height="14"' in part]
    task = FIGURES.tasks[0].speeds
    assert widths[1] / widths[0] == pytest.approx(task["Polars"] / task["slidejoin"], rel=1e-3)


def test_ratios_have_two_digits():
    assert [times(44, 10), times(190, 10), times(10, 10)] == ["4.4", "19", "1.0"]
