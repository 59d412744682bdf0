from __future__ import annotations

import json

import pytest

from benchmarks.cases.workload import Workload
from benchmarks.papers.experiments import EXPERIMENTS, Experiment
from benchmarks.papers.report import READINGS
from benchmarks.papers.run import run
from slidejoin.errors import ConfigError
from slidejoin.options import BPlusTree

SMALL = Experiment(
    source="a paper",
    says="the second is faster",
    points={
        f"W = {window}": {
            "bplus_tree": {"algorithm": "bplus_tree", "window": window},
            "wide": {"algorithm": BPlusTree(fan_out=64), "window": window},
        }
        for window in (1 << 18, 1 << 20)
    },
    reads=("speed", "insert", "probe", "longest", "bytes", "steps"),
    average=True,
)


def test_experiments_measure_their_joins_in_turns():
    report = run(window=1 << 10, rows=1 << 12, experiments={"small": SMALL})
    assert len(report.results) == 2 * 2 * len(READINGS)
    assert all(one.verified_pairs > 0 and one.value > 0 and one.ratio > 0 for one in report.results)
    firsts = [one for one in report.results if one.join == "bplus_tree"]
    assert {one.ratio for one in firsts} == {1.0}
    assert report.average("small", "bplus_tree") == 1.0
    sizes = {one.join: one.value for one in report.results if one.reads == "bytes" and one.point == "W = 1048576"}
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
        points={name: {str(n): {"algorithm": BPlusTree(fan_out=n)} for n in sizes} for name, sizes in
                {"small nodes": (4, 8), "large nodes": (64, 128)}.items()},
    )  # fmt: skip
    report = run(window=1 << 10, rows=1 << 12, experiments={"nodes": several})
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
        run(only=("window",))


def test_adjustments_are_told_beside_the_papers():
    report = run(only=("convergence",))
    assert not report.results
    assert "| gaussian | 1 | 1.41 |" in report.text()
    assert "| worst case, 32 bits | 3 |" in report.text()
    told = json.loads(json.dumps(report.to_json()))
    assert [one["adjustments"] for one in told["adjustments"] if one["keys"] == "rank-size"] == [3]
    assert max(one["adjustments"] for one in told["adjustments"]) == 3
