from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import benchmarks.papers.run
import benchmarks.scoreboard.run
import benchmarks.spark.run
from benchmarks import auto_choice, cluster_model, paired
from benchmarks.command import main, options_of
from slidejoin.bench.report import Report
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo(Report):
    options: dict[str, object]

    def lines(self) -> list[str]:
        return [f"{name}: {value}" for name, value in self.options.items()]


def echo(
    *,
    only: tuple[str, ...] | None = None,
    window: int = 5,
    rate: float = 0.5,
    large: bool = True,
    measure: Callable[[], None] | None = None,
) -> Echo:
    """Return the options."""
    if rate < 0:
        msg = f"rate: got {rate}"
        raise SlideJoinError(msg)
    assert measure is None
    return Echo(case="echo", options={"only": only, "window": window, "rate": rate, "large": large})


def test_options_are_those_of_the_function(capsys):
    assert options_of(echo) == {"only": tuple, "window": int, "rate": float, "large": bool}
    assert main(echo, ["--window", "2^5", "--only", "a, b", "--no-large", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["options"] == {"only": ["a", "b"], "window": 32, "rate": 0.5, "large": False}
    assert main(echo, []) == 0
    assert capsys.readouterr().out.startswith("only: None\nwindow: 5\nrate: 0.5\nlarge: True\nmachine   ")


def test_an_error_is_one_line(capsys):
    assert main(echo, ["--rate", "-1"]) == 1
    assert capsys.readouterr().err.endswith(": rate: got -1.0\n")


def test_options_of_the_workload_come_through():
    assert {"operation", "other", "rows", "window", "match_rate", "algorithm"} <= set(options_of(paired.run))


@pytest.mark.parametrize(
    "run",
    [
        auto_choice.run,
        cluster_model.run,
        paired.run,
        benchmarks.papers.run.run,
        benchmarks.scoreboard.run.run,
        benchmarks.spark.run.run,
    ],
    ids=lambda run: run.__module__,
)
def test_every_experiment_has_options_with_help(run: Callable[..., Report], capsys):
    with pytest.raises(SystemExit) as left:
        main(run, ["--help"])
    assert left.value.code == 0
    assert "--json" in capsys.readouterr().out
