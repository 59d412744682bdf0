from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.cases import inequality
from benchmarks.cases.inequality import InequalityReport
from benchmarks.cases.paper_figures import CSS_BITS, FIGURES, OURS, Figure, Reported, Setting
from benchmarks.cases.paper_streams import QUERIES, power_readings
from benchmarks.cases.run import run_case
from slidejoin.errors import ConfigError, SlideJoinError

ALL = tuple(inequality.algorithms_of(Setting(query="Q1", slide=1)))


@pytest.fixture(autouse=True)
def small_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = {CSS_BITS: Reported(immutable="16x", merge="0.8x")}
    settings = tuple(Setting(query=name, slide=60, sub_intervals=2, joins=ALL, reported=reported) for name in QUERIES)
    figure = Figure(name="7", shows="what it shows", settings=settings)
    monkeypatch.setattr(inequality, "FIGURES", {"7": figure})


def test_every_join_counts_the_same_and_parts_are_apart() -> None:
    report = run_case("inequality", push=64, seconds=0.02)
    assert isinstance(report, InequalityReport)
    assert [(one.query, one.join) for one in report.speeds] == [(query, join) for query in QUERIES for join in ALL]
    for one in report.speeds:
        assert one.checked_rows == inequality.FEW
        assert one.rows_per_second > 0
        assert (one.immutable is None) == (one.join in ("chain index", "nested loop", "auto"))
    lines = report.text().splitlines()
    assert "figure 7: what it shows" in lines
    assert [line.count("(16x)") for line in lines if line.startswith("    css_bit_set ")] == [1, 1, 1]
    assert sum(line.count("(0.8x)") for line in lines) == 3
    assert json.loads(json.dumps(report.to_json()))["speeds"][0]["join"] == "po_join"


def test_the_paper_is_quoted_for_joins_that_are_measured() -> None:
    for figure in FIGURES.values():
        for setting in figure.settings:
            assert setting.reported
            assert set(setting.reported) <= set(setting.joins) <= set(ALL)
            assert setting.joins[0] == OURS
            assert not setting.scaled(20).reported


def test_other_counts_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def more(self: Any, tables: Any) -> Any:
        calls.append(1)
        return original(self, tables) + (len(calls) > 2)

    original, calls = inequality.Timed.push, list[int]()
    monkeypatch.setattr(inequality.Timed, "push", more)
    with pytest.raises(SlideJoinError, match=r"counted .* matches of the first 64 rows of Q1, po_join"):
        run_case("inequality", push=64, seconds=0.001)


def test_readings_follow_the_hour_and_some_are_missing() -> None:
    tables = power_readings(20_000, 1)
    racks, cooling = (tables[0][name].to_numpy(zero_copy_only=False) for name in ("rp", "cp"))
    both = ~(np.isnan(racks) | np.isnan(cooling))
    assert np.corrcoef(racks[both], cooling[both])[0, 1] > 0.8
    assert 0.005 < 1 - both.mean() < 0.015
    assert np.nanmean(tables[1]["rp"].to_numpy(zero_copy_only=False)) > np.nanmean(racks)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": ("8",)}, "only: got '8', expected one of 7"),
        ({"seconds": 0.0}, "seconds: got 0.0, expected a number above 0"),
        ({"threads": 0}, "threads: got 0, expected at least 1"),
    ],
)
def test_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_case("inequality", **options)
