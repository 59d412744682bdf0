from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.cases import topologies, topology_measure, topology_scans, topology_split
from benchmarks.cases.topology_figures import FIGURES
from benchmarks.cases.topology_measure import BandStream, Points, Pushes, measure, stage_times, topology_with
from benchmarks.cases.topology_models import MODELS
from benchmarks.cases.topology_report import FigureReport, Row, TopologiesReport
from benchmarks.cases.topology_scans import SCANS, Scanned
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.options import TOPOLOGIES

SMALL = {"window": 512, "push": 32, "quick": True}


@pytest.fixture(autouse=True)
def short_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_scans, "CYCLES", 1000)
    monkeypatch.setattr(topology_scans, "TURNS", 1)


def test_every_figure_is_there_and_says_where_its_numbers_come_from() -> None:
    report = topologies.run(**SMALL)
    assert isinstance(report, TopologiesReport)
    assert [one.figure for one in report.figures] == list(FIGURES.values())
    for one in report.figures:
        assert one.setting
        if one.figure.name != "split14":
            assert one.rows, one.figure.name
        for row in one.rows:
            # A machine has no more cores than it has: all else is simulated or computed.
            assert row.source != "measured here" or row.threads is None or row.threads <= report.environment.cores
            assert all(value >= 0 for value in row.values.values()), row
    assert {row.what for row in report.validation} == set(MODELS) & set(TOPOLOGIES)
    lines = report.text().splitlines()
    assert "SplitJoin, figure 14: the stages of the pipeline (the paper: a drawing)" in lines
    assert any(line.endswith("  simulated") for line in lines)
    assert json.loads(json.dumps(report.to_json()))["figures"][2]["figure"]["number"] == 12


@pytest.mark.parametrize(
    ("asked", "names"), [(("12",), ["split12", "cell12"]), (("cell9", "split14"), ["split14", "cell9"])]
)
def test_some_figures(asked: tuple[str, ...], names: list[str]) -> None:
    report = topologies.run(figure=asked, **SMALL)
    assert isinstance(report, TopologiesReport)
    assert [one.figure.name for one in report.figures] == names


@pytest.mark.parametrize("timed", [False, True])
def test_all_topologies_find_the_same_pairs(timed: bool) -> None:
    stream, points = BandStream(window=300, timed=timed, push=16, reach=400), Points(0.001)
    found = {name: points.pushes(stream, name, 2, 1) for name in TOPOLOGIES}
    assert len({one.matches for one in found.values()}) == 1
    assert next(iter(found.values())).matches > 0


def test_other_pairs_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def more(*args: Any, **options: Any) -> Pushes:
        calls.append(1)
        found = measure(*args, **options)
        return Pushes(
            rows=found.rows, count=found.count, seconds=found.seconds, processor=found.processor, stages=found.stages,
            tables=found.tables,
            matches=found.matches + len(calls),
        )  # fmt: skip

    calls = list[int]()
    monkeypatch.setattr(topology_measure, "measure", more)
    points, stream = Points(0.001), BandStream(window=100, push=8)
    points.pushes(stream, "shared", 1, 1)
    with pytest.raises(SlideJoinError, match=r"split_join found \d+ pairs, shared \d+; please report it"):
        points.pushes(stream, "split_join", 1, 1)


def test_stages_add_up_to_a_push() -> None:
    points, stream = Points(0.001), BandStream(window=300, push=16)
    for name in ("split_join", "cell_join", "shared"):
        found = points.pushes(stream, name, 4, 1)
        times = stage_times(found, 4, 0.0, mergers=3)
        assert times.core > 0
        assert times.enter + 4 * times.core + 3 * times.merge + times.leave >= 0.8 * found.seconds


def test_topologies_are_made_with_so_many_cores() -> None:
    assert topology_with("shared", 3) == "shared"
    assert topology_with("cell_join", 3) == TOPOLOGIES["cell_join"](workers=3)
    assert topology_with("split_join", 3) == TOPOLOGIES["split_join"](cores=3)


def test_scans_find_the_same_rows() -> None:
    scanned = Scanned(1 << 20, 9)
    found = {scanned.matches(scan, size) for scan in SCANS for size in (256, 1 << 12, 1 << 20)}
    assert len(found) == 1
    assert found != {0}


def test_numbers_are_short() -> None:
    rows = (
        Row(what="a", source="simulated", values={"x": 1234.5}),
        Row(what="b", source="computed", values={"y": 0.5}),
    )
    text = TopologiesReport(
        case="topologies", hand_over=1.0,
        figures=(FigureReport(figure=FIGURES["split10"], setting="so", rows=rows),),
    ).text()  # fmt: skip
    assert "1,234" in text
    assert "0.5000" in text


def test_two_cores_are_measured_where_there_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_split, "cores", lambda: 1)
    assert topology_split.here() == (1,)
    monkeypatch.setattr(topology_split, "cores", lambda: 64)
    assert topology_split.here() == (1, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"figure": ("99",)}, "figure: got '99', expected one of split10, "),
        ({"push": 1}, "push"),
        ({"window": 3}, "window"),
        ({"seconds": 0.0}, "seconds: got 0.0, expected a number above 0"),
    ],
)
def test_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        topologies.run(**options)
