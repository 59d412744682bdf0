from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from slidejoin.bench import task_definitions, tasks
from slidejoin.bench.task_definitions import TASKS, Task
from slidejoin.bench.tasks import TOOLS, Speed, TasksReport
from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 3
SMALL: dict[str, Any] = {"scale": 0.02, "seconds": 0.001, "threads": 1}

Row = dict[str, Any]
CONDITIONS: dict[str, Callable[[Row, Row], bool]] = {
    "trades": lambda a, b: a["symbol"] == b["symbol"] and b["bid"] - 1 <= a["price"] <= b["ask"] + 1,
    "flights": lambda a, b: a["route"] == b["route"] and a["departed"] > b["departed"] and a["arrived"] < b["arrived"],
    "sensors": lambda a, b: b["pressure"] - 0.02 <= a["pressure"] <= b["pressure"] + 0.02,
    "sessions": lambda a, b: a["user"] == b["user"] and b["started"] <= a["ts"] <= b["ended"],
    "offers": lambda a, b: a["price"] > b["price"] and a["rating"] < b["rating"],
}


@pytest.fixture
def few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_definitions, "SYMBOLS", task_definitions.SYMBOLS[:3])
    monkeypatch.setattr(task_definitions, "POPULARITY", task_definitions.POPULARITY[:3])
    monkeypatch.setattr(task_definitions, "ROUTES", task_definitions.ROUTES[:5])
    monkeypatch.setattr(task_definitions, "USERS", 5)


def by_loops(task: Task, pushes: int) -> list[tuple[int, int]]:
    tables = task.tables(0, pushes, SEED)
    left, right = tables[0].to_pylist(), tables[-1].to_pylist()
    condition = CONDITIONS[task.name]
    matches = [(one, other) for one in left for other in right if condition(one, other)]
    return sorted(
        (one["id"], other["id"])
        for one, other in matches
        if -task.right_stays <= (other[task.right_time] - one[task.left_time]).total_seconds() <= task.left_stays
    )


@pytest.mark.usefixtures("few_keys")
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_all_tools_find_the_pairs_of_plain_loops(task: Task):
    task = task.scaled(16 / sum(task.sizes))
    pushes = task.filling + 4
    join = tasks._join(task, 1)
    ours = [join.push(*task.tables(number, number + 1, SEED)) for number in range(pushes)]
    found = sorted(pair for out in ours for pair in zip(*(one.to_pylist() for one in out.columns), strict=True))
    assert found == by_loops(task, pushes)
    assert len(found) >= 5
    assert join.stats.late_rows == 0
    for name, tool in TOOLS.items():
        held = tool(pytest.importorskip(name.lower()), task, 1, SEED)
        for number in range(task.filling, pushes):
            assert held.push(task.tables(number, number + 1, SEED))[1] == ours[number].num_rows, (name, number)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_streams_are_the_same_however_they_are_cut_and_have_matches(task: Task):
    whole = task.tables(0, 6, SEED)
    parts = [task.tables(first, first + 2, SEED) for first in (0, 2, 4)]
    for side, table in enumerate(whole):
        assert table.equals(pa.concat_tables([part[side] for part in parts]).combine_chunks())
        assert table["id"].to_pylist() == list(range(table.num_rows))
    assert task.tables(0, 0, SEED)[0].schema.equals(whole[0].schema)
    assert not whole[0].equals(task.tables(0, 6, SEED + 1)[0])


def test_a_report_has_every_tool_on_every_task():
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")
    report = tasks.run(only=("trades", "sensors"), **SMALL)
    assert isinstance(report, TasksReport)
    assert [one.name for one in report.tasks] == ["trades", "sensors"]
    for one in report.tasks:
        assert [speed.tool for speed in one.speeds] == ["slidejoin", "Polars", "DuckDB"]
        assert all(speed.rows_per_second and speed.rows_per_second > 0 for speed in one.speeds)
        ours = one.speeds[0].rows_per_second
        assert [speed.ratio for speed in one.speeds[1:]] == [
            pytest.approx(ours / speed.rows_per_second) for speed in one.speeds[1:]
        ]
        assert one.speeds[0].pushes >= 3
    text = report.text()
    assert "l.symbol = r.symbol AND l.price BETWEEN r.bid - 1 AND r.ask + 1" in text
    assert "left rows stay 1 second, right rows 30 seconds: 80 and 9,600 rows; 200 rows a push" in text
    assert "| rows a second | slidejoin | Polars | DuckDB |" in text
    assert json.loads(json.dumps(report.to_json()))["tasks"][1]["name"] == "sensors"


def test_other_pairs_are_an_error(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("polars")

    def one_more(self: Any, left: Any, right: Any) -> Any:
        return [*original(self, left, right).rows(), None]

    original = tasks._Polars.pairs
    monkeypatch.setattr(tasks._Polars, "pairs", one_more)
    with pytest.raises(SlideJoinError, match=r"Polars has \d+ pairs in push 0 of offers, slidejoin \d+; please report"):
        tasks.run(only=("offers",), **SMALL)


def test_a_tool_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tasks, "TOOLS", {"No_Such_Module": tasks._Polars})
    report = tasks.run(only=("offers",), **SMALL)
    assert 'No_Such_Module             not installed: pip install "slidejoin[bench]"' in report.text()


def test_the_joins_on_spark_are_compared_with_each_other():
    own = Speed("Spark's own", "4.3.0", 5000.0, 20.0, 3, 12345, 0.25)
    assert own.text().split("rows/s")[1].strip() == (
        "slidejoin on Spark is 20 times as fast; 3 micro-batches of 0.25 of the rows, 12,345 pairs"
    )


@pytest.mark.spark
@pytest.mark.nightly  # a minute: a session and three queries
def test_sparks_join_is_measured_with_both_formats():
    command = [sys.executable, "-c", "from slidejoin.cli import main; main()", "bench", "tasks", "--spark", "--json"]
    small = ["--only", "sessions", "--scale", "0.02", "--seconds", "0.01"]
    done = subprocess.run([*command, *small], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (task,) = json.loads(done.stdout)["tasks"]
    on_spark = {one["tool"]: one for one in task["speeds"] if one["share"] is not None}
    assert list(on_spark) == ["Spark's own", "Spark's own, format 4", "slidejoin on Spark"]
    assert len({one["pairs"] for one in on_spark.values()}) == 1
    ours = on_spark["slidejoin on Spark"]["rows_per_second"]
    assert on_spark["Spark's own, format 4"]["ratio"] == pytest.approx(
        ours / on_spark["Spark's own, format 4"]["rows_per_second"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": ("trade",)}, r"only: got 'trade', expected one of trades, .* Did you mean 'trades'\?"),
        ({"seconds": 0.0}, "seconds: got 0.0, expected a number above 0"),
        ({"scale": -1.0}, "scale: got -1.0, expected a number above 0"),
    ],
)
def test_impossible_options(options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        tasks.run(**options)
