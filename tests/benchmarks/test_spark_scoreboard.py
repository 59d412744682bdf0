from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.command import options_of
from benchmarks.scoreboard.run import ScoreboardReport, arguments, run
from benchmarks.scoreboard.spark import SPARK_TARGETS
from benchmarks.spark.run import run as measure_on_spark
from slidejoin.errors import ConfigError


def canned(words: tuple[str, ...]) -> dict[str, Any]:
    """A report of the right form, whose figures follow from the command."""
    if words[2] == "machine":
        return {"memory": [{"lines_per_second": 80e6}, {"lines_per_second": 150e6}]}
    executors = int(words[words.index("--executors") + 1]) if "--executors" in words else 0
    push = int(words[words.index("--push") + 1])
    small = push == 1000
    speed = {0: 650e3 if push == 1_000_000 else 480e3, 1: 200e3, 2: 350e3}[executors]
    trend = {"median": 1e9, "growth": 1e6, "low": 0, "high": 2e6}
    return {
        "rows_per_second": {"median": speed},
        "reading": {"median": 0.3},
        "beyond_reading": 0.5,
        "own_rows_per_second": None if "--no-baselines" in words else 10e3,
        "own_rows": None if "--no-baselines" in words else 100_000,
        "file_bytes": 15e3 if small else 20e6,
        "arrow_bytes": 12e3 if small else 24e6,
        "written": {"changes": 30e3, "snapshots": 5e3, "logs": 1e3} if small else {"changes": 14e6, "snapshots": 1e6},
        "written_reading": 3e3,
        "memory": {
            "Java heap": trend,
            "Java beside its heap": trend | {"growth": 30e6},
            "Python workers": trend | {"growth": -1e6},
        },
        "restart": {"with the node's cache": 6.0, "without it": 17.5, "reading": 2.0} if small else None,
    }


@pytest.fixture(scope="module")
def table() -> ScoreboardReport:
    return run(measure=canned, spark=True)


def test_every_row_has_its_figures_and_what_they_reach(table: ScoreboardReport):
    assert [(row.reached, row.measured) for row in table.rows] == [
        ("goal", ("650,000 rows/s", "65x Spark's own", "which had 100,000 rows a micro-batch")),
        ("missed", ("480,000 rows/s",)),
        ("must", ("650,000 rows/s",)),
        ("must", ("500 ms", "the empty one 300 ms")),
        ("missed", ("4.0 s", "15.5 s without the node's cache", "the empty one 2.0 s")),
        ("must", ("0.75x", "3.00x", "the empty one 0.00x", "0.20x")),
        ("must", ("Java heap 1.001x", "Java beside its heap 1.030x", "Python workers 0.999x")),
        ("must", ("1.75x with 4 M rows a micro-batch", "one 200,000 rows/s", "two 350,000 rows/s")),
    ]


def test_the_table_is_markdown(table: ScoreboardReport):
    lines = table.text().splitlines()
    assert lines[0] == "| uniform keys, 1 M rows a micro-batch | rows a second | |"
    assert lines[3] == "| Spark's own by buckets, 100,000 rows | 0.010 M | slidejoin is 65.0 times as fast |"
    rows = [line for line in lines if line.endswith((" goal |", " must |", " missed |"))]
    assert len(rows) == len(SPARK_TARGETS) == 8
    assert all(line.count("|") == 6 for line in rows)
    assert json.loads(json.dumps(table.to_json()))["subject"] == "uniform keys, 1 M rows a micro-batch"


def test_rows_share_what_one_command_shows(table: ScoreboardReport):
    small = "python -m benchmarks.spark --no-baselines --batches 512 --push 1000 --restart --threads 2 --window 1048576"
    assert sum(row.commands[-1] == small for row in table.rows) == 4
    assert len(table.reports) == 6 + 2 * 2


def test_the_long_rows_can_be_left_out():
    found = run(measure=canned, spark=True, large=False)
    assert [row.what for row in found.rows if row.reached] == [one.what for one in SPARK_TARGETS if not one.large]
    assert len(found.reports) == 2


def test_a_row_may_ask_for_turns_whose_medians_are_told():
    asked = next(target for target in SPARK_TARGETS if target.turns > 1)
    called: list[tuple[str, ...]] = []

    def measure(words: tuple[str, ...]) -> dict[str, Any]:
        if words[2] == "machine":
            return canned(words)
        called.append(words)
        two = words[words.index("--executors") + 1] == "2"
        return canned(words) | {"rows_per_second": {"median": 1e5 * ((1, 3, 2)[called.count(words) - 1] if two else 1)}}

    (row,) = run(measure=measure, spark=True, targets=(asked,)).rows
    assert called == called[:2] * 3
    assert row.measured == ("2.00x with 4 M rows a micro-batch", "one 100,000 rows/s", "two 200,000 rows/s")
    assert row.reached == "goal"


def test_several_runs_give_medians_and_go_in_turns():
    called: list[tuple[str, ...]] = []

    def measure(words: tuple[str, ...]) -> dict[str, Any]:
        called.append(words)
        return canned(words) | {"rows_per_second": {"median": 1e5 * (called.count(words) ** 2)}}

    found = run(measure=measure, spark=True, runs=3, large=False)
    assert [row.measured[0] for row in found.rows if row.reached] == ["400,000 rows/s"] * 2
    assert called[1:-1] == called[1:3] * 3
    assert called[0] == called[-1] == ("slidejoin", "bench", "machine", "--threads", "2")
    assert all("--runs" not in words for words in called)


@pytest.mark.parametrize("target", SPARK_TARGETS, ids=lambda target: target.what)
def test_options_are_those_of_the_experiment(target: Any):
    known = options_of(measure_on_spark)
    for command in target.commands:
        words = arguments(command, {"window": 1 << 20, "threads": 2})
        assert words[:3] == ("python", "-m", "benchmarks.spark")
        given = {word.removeprefix("--").removeprefix("no-") for word in words if word.startswith("--")}
        assert {name.replace("-", "_") for name in given} <= set(known)
        assert {name.replace("-", "_") for name in given} >= set(command) - {"case"}


def test_a_number_of_rows_is_refused():
    with pytest.raises(ConfigError, match="rows: got 5, but Spark's table counts micro-batches; leave it out"):
        run(spark=True, rows=5)
