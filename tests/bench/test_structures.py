from __future__ import annotations

import json

import pytest

from slidejoin.bench import auto, run_case
from slidejoin.bench.auto import AutoReport, Cell, grid
from slidejoin.bench.experiments import EXPERIMENTS, Experiment
from slidejoin.bench.findings import READINGS, IndexesReport
from slidejoin.bench.structures import algorithm_in
from slidejoin.bench.workload import Workload
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.spec.options import BPlusTree, NestedLoop

SMALL = Experiment(
    source="a paper",
    says="the second is faster",
    points={
        f"W = {window}": {
            "bplus_tree": {"algorithm": "bplus_tree", "window": window},
            "wide": {"algorithm": "bplus_tree:fan_out=64", "window": window},
        }
        for window in (1 << 18, 1 << 20)
    },
    reads=("speed", "insert", "probe", "longest", "bytes", "steps"),
    average=True,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("auto", "auto"),
        ("bplus_tree", "bplus_tree"),
        ("bplus_tree:fan_out=64", BPlusTree(fan_out=64)),
        ("nested_loop:batch=4:basic_window=none", NestedLoop(batch=4, basic_window=None)),
    ],
)
def test_an_algorithm_with_what_is_set_of_it(text: str, value: object):
    assert algorithm_in(text) == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("bplus_tre", "did you mean 'bplus_tree'"),
        ("auto:fan_out=3", "auto has no parameters"),
        ("bplus_tree:fanout=3", "did you mean 'fan_out'"),
        ("bplus_tree:fan_out", "expected name=value with a name of fan_out"),
        ("bplus_tree:fan_out=1", "fan_out of bplus_tree must be a whole number from 4 to 4,096; got 1"),
        ("bplus_tree:fan_out=wide", "got 'wide'"),
    ],
)
def test_an_algorithm_that_cannot_be(text: str, told: str):
    with pytest.raises(ConfigError, match="algorithm") as error:
        algorithm_in(text)
    assert told.lower() in str(error.value).lower()


def test_experiments_measure_their_joins_in_turns():
    report = run_case("indexes", window=1 << 10, rows=1 << 12, experiments={"small": SMALL})
    assert isinstance(report, IndexesReport)
    assert len(report.findings) == 2 * 2 * len(READINGS)
    assert all(one.verified_pairs > 0 and one.value > 0 and one.ratio > 0 for one in report.findings)
    firsts = [one for one in report.findings if one.join == "bplus_tree"]
    assert {one.ratio for one in firsts} == {1.0}
    assert report.average("small", "bplus_tree") == 1.0
    sizes = {one.join: one.value for one in report.findings if one.reads == "bytes" and one.point == "W = 1048576"}
    assert sizes["bplus_tree"] != sizes["wide"]
    text = report.text()
    assert "**small** (a paper): the second is faster." in text
    assert "| rows a second | bplus_tree | wide |" in text
    assert "| average | 1.00 |" in text
    assert "| ns a row, W = 1048576 |" in text
    assert json.loads(json.dumps(report.to_json()))["experiments"]["small"]["source"] == "a paper"


def test_one_structure_with_several_settings():
    several = Experiment(
        source="a paper",
        says="it matters little",
        points={name: {str(n): {"algorithm": f"bplus_tree:fan_out={n}"} for n in sizes} for name, sizes in
                {"small nodes": (4, 8), "large nodes": (64, 128)}.items()},
    )  # fmt: skip
    report = run_case("indexes", window=1 << 10, rows=1 << 12, experiments={"nodes": several})
    assert "| rows a second | 4 | 8 |" in report.text()
    assert "| rows a second | 64 | 128 |" in report.text()


def test_every_experiment_names_workloads_that_can_be():
    for name, experiment in EXPERIMENTS.items():
        assert experiment.points, name
        assert all(reads == "steps" or reads in READINGS for reads in experiment.reads), name
        for joins in experiment.points.values():
            assert len(joins) > 1, name
            for options in joins.values():
                assert Workload.of("band", **options).threads >= 1


def test_an_experiment_that_there_is_not():
    with pytest.raises(ConfigError, match="only: got 'window', expected some of windows"):
        run_case("indexes", only=("window",))


def test_adjustments_are_told_beside_the_papers():
    report = run_case("indexes", only=("convergence",))
    assert isinstance(report, IndexesReport)
    assert not report.findings
    assert "| gaussian | 1 | 1.41 |" in report.text()
    assert "| worst case, 32 bits | 3 |" in report.text()
    told = json.loads(json.dumps(report.to_json()))
    assert [one["adjustments"] for one in told["adjustments"] if one["keys"] == "rank-size"] == [3]
    assert max(one["adjustments"] for one in told["adjustments"]) == 3


def test_auto_is_set_beside_every_structure(monkeypatch: pytest.MonkeyPatch):
    loads = [
        Workload.of("band", window=256, push=64, threads=1),
        Workload.of("equi", window=256, push=64, threads=1, match_rate=1.0),
    ]
    monkeypatch.setattr(auto, "grid", lambda *_, **__: loads)
    report = run_case("auto", window=256, rows=512)
    assert isinstance(report, AutoReport)
    band, equality = report.cells
    assert {"band_cells", "bi_sort", "bplus_tree", "nested_loop"} <= set(band.screened)
    assert "hash" not in band.screened
    assert "hash" in equality.screened
    assert report.least == min(band.ratio, equality.ratio) > 0
    assert f"Least: {report.least:.2f}" in report.text()
    assert report.to_json()["cells"][0]["chosen"] == "band_cells"


def test_a_wrong_structure_is_an_error(monkeypatch: pytest.MonkeyPatch):
    load = Workload.of("band", window=256, push=64, threads=1)
    streams = load.streams(load.relation())
    wider = load.join(Workload.of("band", window=256, push=64, threads=1, match_rate=20.0).relation())
    with pytest.raises(SlideJoinError, match="different numbers of rows"):
        auto._timed([load.join(load.relation()), wider], list(streams.pushes(0, 32, 8)), 1.0)


def test_the_grid_covers_all_comparisons():
    loads = grid(1 << 12)
    assert {one.operation for one in loads} == {"band", "equi", "less"}
    assert {one.window for one in loads} == {1 << 6, 1 << 9, 1 << 12}
    assert len({(one.distribution, one.push, one.match_rate) for one in loads if one.operation == "band"}) == 12


def test_the_least_ratio_is_told():
    load = Workload.of("band")
    cell = Cell(
        load=load, screened={}, chosen="bi_sort", best="hash", rows_per_second=1e6, best_rows_per_second=2e6, ratio=0.5
    )
    assert "Least: 0.50; 1 of 1 below 0.8." in AutoReport(cells=(cell,)).text()
