from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from benchmarks.cases.run import CASES
from benchmarks.command import options_of
from benchmarks.scoreboard.embedded import TARGETS
from benchmarks.scoreboard.run import ScoreboardReport, arguments, run
from benchmarks.scoreboard.target import Mark, Target
from slidejoin.errors import SlideJoinError


def canned(words: tuple[str, ...]) -> dict[str, Any]:
    """A report of the right form, whose figures follow from the command."""
    case = words[3 if words[2] == "benchmarks.cases" else 2]
    if case == "machine":
        return {"memory": [{"threads": 1, "lines_per_second": 80e6}, {"threads": 2, "lines_per_second": 150e6}]}
    distribution = words[words.index("--distribution") + 1] if "--distribution" in words else "uniform"
    speeds = {"uniform": 60e6, "zipf": 12e6, "shifting": 5e6}
    speed = speeds.get(distribution, 30e6)
    other = words[words.index("--other") + 1].rpartition("=")[2] if "--other" in words else ""
    theirs = speeds.get(other, 30e6 if other == "gaussian" else speed)
    if case == "startup":
        return {"imported": {"median": 0.1}, "first_push": {"median": 1.0}, "all_kernels": 100.0}
    if case == "latency":
        return {"pushes": {"p50": 50.0, "p99_9": 400.0}, "busy": {"p99_9": 70.0}}
    if case == "scaling":
        return {"points": [{"threads": 2, "share": 0.5}, {"threads": 2, "share": 1.0}, {"threads": 1, "share": 0.1}]}
    if case == "benchmarks.arrow_take":
        return {"rows_per_second": 60e6, "rows_per_second_by_take": 61e6, "share": 0.99}
    others = [
        {"name": "polars", "rows_per_second": 0.2e6, "ratio": 300.0},
        {"name": "odd", "rows_per_second": None, "ratio": None},
    ]
    return {
        "rows_per_second": {"median": speed},
        "ratio": {"median": speed / theirs},
        "other_rows_per_second": {"median": theirs},
        "baselines": [] if "--no-baselines" in words else others,
        "nanoseconds_per_pair": 9.0,
        "pairs_per_row": 4.5,
        "window_bytes_per_row": 20.0,
        "resident_bytes_per_row": 60.0,
        "peak_memory_bytes": 9 << 30,
    }


@pytest.fixture(scope="module")
def table() -> ScoreboardReport:
    return run(measure=canned)


def test_every_row_has_its_figures_and_what_they_reach(table: ScoreboardReport):
    assert len(table.rows) == len(TARGETS) == 21
    rows = {row.what: row for row in table.rows}
    first = rows["uniform, 32 Ki rows a push"]
    assert (first.measured, first.reached) == (("60.0 M rows/s", "300x Polars"), "goal")
    assert rows["shifting Gaussian while it shifts"].reached == "missed"
    assert rows["Gaussian at the same match rate"].reached == "must"
    assert rows["2 threads against 1"].measured[0] == "1.00x"
    assert rows["2 threads against 1"].reached == "missed"
    assert rows["pushes of 256 rows, through the public API"].measured[-1] == "idle machine p99.9 70 µs"
    assert rows["W from 2^14 to 2^26, 32 Ki a push, 2 threads: the least"].measured == ("50 %",)
    assert rows["wide band, 100 matches a row"].reached == "missed"
    assert rows["all kernels compiled from nothing"].reached == "missed"


def test_the_table_is_markdown_with_its_losses(table: ScoreboardReport):
    lines = table.text().splitlines()
    assert lines[2] == "| slidejoin | 60.0 M | |".replace("| |", "|  |")
    assert "| polars | 0.200 M | slidejoin is 300.0 times as fast |" in lines
    assert "| odd | not installed |  |" in lines
    assert "| wide band, 100 matches a row | 8 ns a pair | 3 ns | 9.0 ns a pair | missed |" in lines
    memory = (
        "Random cache lines a second that one thread and two could read: 80 and 150 M before and 80 and 150 M after."
    )
    assert memory in lines
    rows = [line for line in lines if line.endswith((" goal |", " must |", " missed |"))]
    assert len(rows) == 21
    assert all(line.count("|") == 6 for line in rows)
    assert (
        "- one-sided range, 10 matches a row, 32 Ki a push, pairs: "
        "`python -m benchmarks.cases less --no-baselines --match-rate 10 --threads 2 --window 1048576`"
    ) in lines


def test_a_command_that_several_rows_need_runs_once():
    called: list[tuple[str, ...]] = []

    def measure(words: tuple[str, ...]) -> dict[str, Any]:
        called.append(words)
        return canned(words)

    run(measure=measure)
    assert called[0] == called[-1] == ("slidejoin", "bench", "machine", "--threads", "2")
    assert len(called[1:]) == len(set(called))
    assert called.count(("python", "-m", "benchmarks.cases", "band", "--threads", "2", "--window", "1048576")) == 1
    assert sum(words[3] == "startup" for words in called) == 1


def test_large_rows_can_be_left_out():
    found = run(measure=canned, large=False)
    left_out = [row.what for row in found.rows if row.measured == ("not measured",)]
    assert left_out == [target.what for target in TARGETS if target.large]
    assert all(words.split()[3] not in {"equi", "scaling"} for words in found.reports)


def test_commands_say_what_the_row_says():
    options = {"window": 1 << 20, "threads": 2}
    shown = [" ".join(arguments(command, options)) for target in TARGETS for command in target.commands]
    assert (
        "python -m benchmarks.cases equi --no-baselines --match-rate 1 --push 1048576 --runs 1 --threads 2 "
        "--window 134217728" in shown
    )
    assert "python -m benchmarks.paired --other threads=1 --threads 2 --window 1048576" in shown
    assert (
        "python -m benchmarks.cases scaling --threads 2 --windows 16384,65536,262144,1048576,4194304,16777216,67108864"
        in shown
    )
    assert "python -m benchmarks.cases startup" in shown


@pytest.mark.nightly  # half a minute; each of the commands is run by a test of its own
def test_the_commands_of_the_table_run():
    speed = Mark(lambda reports: reports[0]["rows_per_second"]["median"] / 1e6, "{:.3f} M rows/s", 0, 1e9)
    wanted = Target("small", "0 M", "a lot", ({"case": "band", "baselines": False},), (speed,))
    ratio = Mark(lambda reports: reports[1]["ratio"]["median"], "{:.2f}", 0, 1e9)
    wanted = replace(
        wanted,
        commands=(*wanted.commands, {"case": "benchmarks.paired", "other": "output=count"}),
        marks=(speed, ratio),
    )
    found = run(window=256, rows=512, runs=1, threads=1, targets=(wanted,))
    assert found.rows[0].reached == "must"
    assert found.rows[0].measured[0].endswith(" M rows/s")
    report, _ = found.reports.values()
    assert report["options"]["window"] == 256
    assert report["verified_pairs"] > 0
    assert json.loads(json.dumps(found.to_json()))["case"] == "scoreboard"


@pytest.mark.nightly  # a process of the whole command
def test_a_command_that_fails_is_an_error():
    wrong = Target("wrong", "", "", ({"case": "band", "order": "any"},), ())
    with pytest.raises(
        SlideJoinError, match=r"python -m benchmarks.cases band --order any .* left status 2: .*order: got 'any'"
    ):
        run(targets=(wrong,))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.what)
def test_options_are_those_of_the_experiments(target: Target):
    for command in target.commands:
        words = arguments(command, {"window": 1 << 20, "threads": 2, "rows": 1 << 20, "runs": 1})
        measured = CASES[words[3]].run if words[2] == "benchmarks.cases" else import_module(words[2]).run
        known = {f"--{name.replace('_', '-')}" for name in options_of(measured)}
        no = {f"--no-{name.removeprefix('--')}" for name in known}
        assert {word for word in words[3:] if word.startswith("--")} <= known | no
