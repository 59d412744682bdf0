"""The papers' figures on Spark: what each shows, with canned measurements, and all of it tiny on a real Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from benchmarks.cases.paper_streams import QUERIES
from benchmarks.papers.on_spark.figures import READINGS
from benchmarks.papers.on_spark.model import Costs, costs_of
from benchmarks.papers.on_spark.points import Measured, expected_counts, of_keys, of_query
from benchmarks.papers.on_spark.run import run
from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.report import Spread
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from benchmarks.papers.on_spark.points import Point, Source

ROOT = Path(__file__).resolve().parents[2]

FIGURES = {
    "spo": {"7", "8", "10", "11a", "12", "13a", "13b", "14a", "14b", "15a", "15b"},
    "pan": {f"15{part}" for part in "abcdefgh"},
}
LEFT_OUT = {"spo": {"15b"}, "pan": {"15f"}}
"""Those of which nothing is measured."""


def canned(point: Point) -> dict[str, Measured]:
    """The first join has 2 M rows a second and waits a second; each other one is half as good as the one before."""
    found = {}
    for number, (name, join) in enumerate(point.joins.items()):
        speed = 2e6 / 2**number
        found[name] = Measured(
            rows_per_second=Spread.of([speed]),
            latencies={f"p{percent}": 2.0**number for percent in (50, 75, 95, 100)},
            seconds={"probe": 1.0 + 0.5 * join.buckets, "insert": 0.25, "receive": 9.0},
            checked_rows=100,
            rows_out=1.0,
        )
    return found


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("paper", FIGURES)
def test_machines_read_every_figure(paper: str, full: bool) -> None:
    report = run(paper=paper, full=full, measure=canned)
    told = json.loads(json.dumps(report.to_json()))
    assert {one["figure"] for one in told["figures"]} == FIGURES[paper]
    for figure in told["figures"]:
        assert figure["shows"]
        assert figure["paper"]
        assert bool(figure["results"]) == (figure["figure"] not in LEFT_OUT[paper])
        assert figure["results"] or figure["not_reproduced"]
        for result in figure["results"]:
            assert result["unit"] in {unit for unit, _, _ in READINGS.values()}
            assert result["reported"] is None or result["of_paper"] == pytest.approx(
                result["ratio"] / result["reported"]
            )
    assert all(f"**Figure {number}**" in report.text() for number in FIGURES[paper])


def test_ratios_are_those_of_the_paper() -> None:
    report = run(paper="spo", full=True, only=("7", "8", "15a"), measure=canned)
    found = {(one.figure, one.point, one.join, one.reads): one for one in report.results}
    point = "Q2, slide 100,000, window 1,000,000"
    hashes = found["7", point, "CSS-trees, hash sets", "speed"]
    assert (hashes.ratio, hashes.reported, hashes.of_paper) == (4.0, 39.0, 4 / 39)
    assert found["8", point, "CSS-trees, bit sets", "p50"].reported == pytest.approx(5 / 1.1)
    assert found["8", point, "CSS-trees, bit sets", "p50"].ratio == 2.0
    assert found["15a", point, "CSS-trees, bit sets", "merge"].reported == pytest.approx(1 / 1.2)


def test_some_points_may_be_chosen() -> None:
    report = run(paper="spo", full=True, only=("7", "12"), match="slide 100,000", measure=canned)
    assert {one.point for one in report.results} == {
        "Q2, slide 100,000, window 1,000,000", "match rate, slide 100,000, window 500,000"
    }  # fmt: skip


def test_more_workers_are_multiples_of_one_and_the_model_is_marked() -> None:
    report = run(paper="spo", full=True, only=("13a", "13b"), measure=canned)
    measured = [one for one in report.results if not one.model]
    assert [one.ratio for one in measured if one.figure == "13b"] == [1.0, 0.5, 0.25, 0.125, 0.0625]
    assert [one.join for one in measured if one.figure == "13a"] == ["1 executor", "2 executors"]
    modelled = [one for one in report.results if one.model]
    assert [one.figure for one in modelled] == ["13a"] * 5
    assert [one.ratio for one in modelled] == sorted(one.ratio for one in modelled)
    assert report.text().count("| model |") == 5


def test_the_model_divides_what_buckets_share() -> None:
    def taking(buckets: int) -> Measured:
        seconds = {"probe": 2.0, "insert": 0.1 * buckets, "receive": 100.0}
        whole = 0.3 + (2.0 + 0.1 * buckets) / min(buckets, 2)
        return Measured(rows_per_second=Spread.of([1000 / whole]), seconds=seconds)

    costs = costs_of({buckets: taking(buckets) for buckets in (1, 2, 4, 8)}, 1000, 2)
    assert (costs.own, costs.each, costs.shared) == pytest.approx((0.3, 0.1, 2.0))
    assert costs.seconds(20) == pytest.approx(0.3 + 0.1 + 0.1)
    assert Costs(0.0, 0.0, 1.0).seconds(10) == 0.1


@pytest.mark.parametrize(
    "source", [of_query(QUERIES["Q1"]), of_query(QUERIES["Q2"]), of_keys("band", 4.0, 100), of_keys("equi", 4.0, 100)]
)
def test_duckdb_counts_what_the_embedded_join_counts(source: Source) -> None:
    window, rows, stride = 100, range(150, 250), 3
    tables = source.rows(400, 1)
    given = tables(0, 250)
    join = StreamJoin(on=source.on, window=source.window(window), output="count", self_join=source.self_join)
    right = {} if source.self_join else {"right": given[1]}
    out = join.push(left=given[0], **right, order_by="ts")
    ordinals = pc.coalesce(out["i"], out["i_right"]).to_numpy()
    counts = out["match_count"].to_numpy()
    chosen = (ordinals // source.sides >= rows.start) & (ordinals % stride == 0)
    expected = counts[chosen].sum(), (counts[chosen] * (1 + ordinals[chosen] % 1009)).sum()
    assert expected_counts(source, window, tables, rows, stride) == (chosen.sum(), *expected)
    assert expected[0] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paper": "spa"}, "paper: got 'spa', expected one of spo, pan. Did you mean 'spo'?"),
        ({"only": ("9",)}, "only: got '9', expected one of 7, 8, 10"),
        ({"scale": 0}, "scale: got 0, expected at least 1"),
    ],
)
def test_what_there_is_not(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", "\\?")):
        run(**options, measure=canned)


@pytest.mark.spark
@pytest.mark.nightly  # some minutes each
@pytest.mark.parametrize("paper", FIGURES)
def test_a_tiny_run_on_spark(paper: str) -> None:
    command = [sys.executable, "-m", "benchmarks.papers.on_spark", "--paper", paper, "--scale", "500", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {one["figure"] for one in told["figures"]} == FIGURES[paper]
    results = [result for figure in told["figures"] for result in figure["results"]]
    assert all(result["value"] > 0 for result in results if result["reads"] in {"speed", "p50", "p95"})
    assert all(result["wrong"] == 0 for result in results)
    assert sum(result["checked_rows"] for result in results) > 1000
