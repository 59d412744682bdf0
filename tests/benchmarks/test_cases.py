from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

import slidejoin as sj
from benchmarks.cases import baselines, latency, left_answers, throughput, verify
from benchmarks.cases.baselines import Baseline
from benchmarks.cases.multi import SHAPES, MultiReport
from benchmarks.cases.overload import OverloadReport
from benchmarks.cases.routing import RoutingReport
from benchmarks.cases.run import CASES, run_case
from benchmarks.cases.scaling import ScalingReport
from benchmarks.cases.throughput import ThroughputReport
from benchmarks.cases.types import KINDS, TypesReport
from benchmarks.cases.workload import Workload
from slidejoin.bench.machine import MemorySpeed
from slidejoin.errors import ConfigError, SlideJoinError

SMALL: dict[str, Any] = {"window": 1024, "push": 256, "rows": 2048, "threads": 1}
MEMORY = (MemorySpeed(1, 1e8, 1e10), MemorySpeed(2, 2e8, 2e10))


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is not measured in each of these."""
    monkeypatch.setattr(throughput, "measure_memory", lambda _threads: MEMORY)
    monkeypatch.setattr(latency, "JITTER_WORDS", 1 << 12)


def quick(case: str = "band", **options: Any) -> ThroughputReport:
    report = run_case(case, **{"runs": 1, "baselines": False} | SMALL | options)
    assert isinstance(report, ThroughputReport)
    return report


@pytest.mark.parametrize("case", ["band", "equi", "less"])
@pytest.mark.parametrize("output", ["positions", "pairs", "payload", "count"])
def test_every_output_is_checked(case: str, output: str):
    report = quick(case, output=output, match_rate=4.0)
    assert report.rows == 2048
    assert report.verified_pairs > 100
    if case != "less":  # there few rows find many partners
        assert report.pairs_per_row == pytest.approx(4, rel=0.2)


def test_the_report_has_speed_steps_and_memory():
    report = quick(runs=2)
    assert report.rows == 4096
    assert report.rows_per_second.count == 2
    assert report.pushes.count == 16
    assert report.pushes.smallest <= report.pushes.lower_quartile <= report.pushes.median
    assert {"insert", "probe", "write", "total"} <= set(report.nanoseconds_per_row)
    assert report.nanoseconds_per_pair is not None
    assert report.nanoseconds_per_pair * report.pairs_per_row == pytest.approx(report.nanoseconds_per_row["total"])
    assert report.window_bytes_per_row * 2 * 1024 == pytest.approx(report.window_bytes)
    text = report.text()
    assert "median of 2 runs" in text
    assert f"verified  {report.verified_pairs:,} pairs of the last push, against NumPy" in text
    assert "memory    100.0 M random cache lines/s and 10.0 GB/s streamed with 1 thread; 200.0 M" in text
    assert text.splitlines()[-1] == f"machine   {report.environment.text()}"


@pytest.mark.parametrize("options", [{"distribution": "shifting"}, {"order": "none"}, {"order": "strict"}, {"push": 7}])
def test_other_options(options: dict[str, Any]):
    report = quick(**options)
    assert report.verified_pairs > 0
    assert report.to_json()["options"] == asdict(Workload.of("band", **SMALL_LOAD | options))


SMALL_LOAD = {name: SMALL[name] for name in ("window", "push", "threads")}


@pytest.mark.parametrize("case", ["band", "equi", "less"])
def test_baselines_find_the_same_pairs(case: str):
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")
    report = quick(case, baselines=True, distribution="gaussian", match_rate=3.0)
    assert [one.name for one in report.baselines] == list(baselines.ENGINES)
    checked = {one.name: one.checked_pairs for one in report.baselines}
    assert checked["polars"] == checked["duckdb"] == checked["numpy"] == report.verified_pairs
    assert 0 < checked["nested loop"] <= report.verified_pairs
    for one in report.baselines:
        assert one.rows_per_second is not None
        assert one.ratio == pytest.approx(report.rows_per_second.median / one.rows_per_second)
        assert one.pushes == 3
        assert f"{one.checked_pairs:,} pairs of one more push are equal" in one.text()


def test_a_baseline_with_other_pairs_is_an_error(monkeypatch: pytest.MonkeyPatch):
    def one_less(self: Any, left: Any, right: Any) -> Any:
        seconds, pairs = original(self, left, right)
        return seconds, pairs.slice(1)

    original = baselines.SortedWindows.push
    monkeypatch.setattr(baselines.SortedWindows, "push", one_less)
    monkeypatch.setattr("benchmarks.cases.baselines.ENGINES", {"numpy": baselines.ENGINES["numpy"]})
    with pytest.raises(SlideJoinError, match=r"numpy found \d+ pairs in the last push, but NumPy finds \d+"):
        quick(baselines=True)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmarks.cases.baselines.ENGINES", {"slow": ("no_such_module", None)})
    report = quick(baselines=True)
    assert report.baselines == (Baseline("slow", None, None, None, 0, 0),)
    assert 'slow               not installed: pip install "slidejoin[bench]"' in report.text()


def test_large_windows_go_without_baselines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmarks.cases.baselines.LARGEST_WINDOW", 1000)
    monkeypatch.setattr(throughput, "LARGEST_WINDOW", 1000)
    report = quick(baselines=True)
    assert report.baselines == ()
    assert "left out: windows of more than 1,000 rows" in report.text()


def test_wrong_pairs_are_an_error(monkeypatch: pytest.MonkeyPatch):
    def one_less(out: Any, *others: Any, **named: Any) -> int:
        return original(out.slice(1), *others, **named)

    original = verify.check_push
    monkeypatch.setattr("benchmarks.cases.measure.check_push", one_less)
    with pytest.raises(SlideJoinError, match=r"slidejoin found \d+ pairs .* but NumPy finds \d+"):
        quick()


def test_latency_has_percentiles_of_pushes_and_of_the_idle_machine():
    report = run_case("latency", window=1024, push=16, threads=1, rows=4096, runs=2)
    values = json.loads(json.dumps(report.to_json()))
    assert values["case"] == "latency"
    assert values["environment"]["python"]
    assert values["pushes"]["count"] == 512
    assert [one["count"] for one in values["runs"]] == [256, 256]
    for name in ("pushes", "busy", "memory"):
        one = values[name]
        assert 0 < one["p50"] <= one["p90"] <= one["p99"] <= one["p99_9"] <= one["largest"]
    assert values["verified_pairs"] > 0
    assert values["pairs_per_row"] == pytest.approx(2, rel=0.2)
    text = report.text()
    assert "idle: busy loop" in text
    assert "us a push on average" in text


def test_overload_offers_more_and_more() -> None:
    report = run_case("overload", window=512, push=64, rows=1024, threads=1, seconds=0.02)
    assert isinstance(report, OverloadReport)
    assert [one.offered for one in report.points] == sorted(one.offered for one in report.points)
    assert report.points[3].offered == pytest.approx(0.9 * report.alone_rows_per_second)
    for point in report.points:
        for curve in (point.feed, point.alone):
            assert 8 <= curve.latency.count <= 16
            assert 0 < curve.latency.p50 <= curve.latency.p99
            assert curve.rows_per_second > 0
        assert point.alone.rows_per_push == 64 <= point.feed.rows_per_push
    assert "through a Feed" in report.text()


def test_every_type_of_join_beside_the_inner_one() -> None:
    report = run_case("types", window=512, push=64, rows=640, threads=1)
    assert isinstance(report, TypesReport)
    assert [one.name for one in report.results] == list(KINDS)
    assert report.results[0].ratio == 1
    assert all(one.push == 64 and one.rows_per_second > 0 for one in report.results)
    rows = {one.name: one.output_rows for one in report.results}
    assert rows["left"] == rows["inner"] + rows["left_anti"]
    assert rows["full"] > rows["left"] > rows["left_semi"] > rows["left_anti"] > 0
    assert "| 64 | left_semi |" in report.text()
    assert [one.name.partition(" ")[0] for one in report.answers] == ["nearest", "Polars", "count", "count,"]
    assert all(one.push == 64 and (one.rows_per_second or 0) > 0 for one in report.answers)
    assert "| 64 | nearest match, backward, by key | " in report.text()
    assert " times Polars |" in report.text()


def test_matches_that_polars_does_not_find_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = sj.Nearest("l.at", "r.at", "forward")
    monkeypatch.setattr(left_answers, "Nearest", lambda *_: keep)
    with pytest.raises(SlideJoinError, match="of 32 nearest matches differ from those of Polars"):
        left_answers.measured_nearest(Workload.of("band", window=512, push=64, threads=1), 4)


def test_many_streams_beside_duckdb() -> None:
    report = run_case("multi", window=256, push=64, seconds=0.01, threads=2)
    assert isinstance(report, MultiReport)
    assert [one.name for one in report.shapes] == [shape.name for shape in SHAPES]
    for one in report.shapes:
        assert one.combinations_per_row == pytest.approx(0.5 if one.name == "sum of two" else 1, rel=0.5)
        assert one.rows_per_second > 0
        assert one.duckdb is not None
    assert "| chain of 3 |" in report.text()
    with pytest.raises(ConfigError, match=r"chain of 3"):
        run_case("multi", only=("chian",))


def test_scaling_sets_every_window_beside_the_reference():
    report = run_case("scaling", windows=(512, 2048), push=256, rows=1024)
    assert isinstance(report, ScalingReport)
    assert [(one.window, one.threads) for one in report.points] == [(512, 1), (512, 2), (2048, 1), (2048, 2)]
    assert [one.share for one in report.points if one.window == 2048] == [1.0, 1.0]
    assert report.reference == 2048
    assert all(one.verified_pairs > 0 and one.window_bytes_per_row > 8 for one in report.points)
    assert "share of 2,048" in report.text()


@pytest.mark.nightly
def test_startup_in_fresh_processes():
    report = run_case("startup", runs=1, compile_all=False)
    values = report.to_json()
    assert 0 < values["imported"]["median"] < values["first_push"]["median"]
    assert values["all_kernels"] is None
    assert "first push, kernels in the cache" in report.text()


def test_a_process_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmarks.cases.startup.FIRST_PUSH", "raise SystemExit('no luck')")
    with pytest.raises(SlideJoinError, match="a fresh process left status 1 and '': no luck"):
        run_case("startup", runs=1, compile_all=False)


def test_every_case_has_a_line():
    assert list(CASES)[:5] == ["terms", "multi", "band", "equi", "less"]
    assert all(case.about for case in CASES.values())


@pytest.mark.parametrize(
    ("case", "options", "message"),
    [
        ("equality", {}, "unknown case 'equality'; the cases are terms, multi, band, equi"),
        ("tasks", {}, "the case tasks is one of the command of users: slidejoin bench tasks"),
        ("bnad", {}, r"Did you mean 'band'\?"),
        ("band", {"window": 1}, "window: got 1, expected at least 2"),
        ("band", {"push": 0}, "push: got 0, expected at least 2"),
        ("band", {"threads": -1}, "threads: got -1, expected at least 1"),
        ("band", {"match_rate": 0.0}, "match_rate: got 0.0, expected a number above 0"),
        ("band", {"algorithm": "bisort"}, r"algorithm: got 'bisort', .* Did you mean 'bi_sort'\?"),
        ("band", {"output": "counts"}, r"output: got 'counts', .* Did you mean 'count'\?"),
        ("band", {"order": "any"}, "order: got 'any', expected one of probe, strict, none"),
        ("latency", {"distribution": "normal"}, "distribution: got 'normal', expected one of uniform, gaussian"),
        ("scaling", {"windows": (1, 64)}, "windows: got 1, expected at least 2"),
        ("scaling", {"window": 64}, "window: the case scaling has several; give them as windows, such as"),
        ("overload", {"output": "pairs"}, "output: got 'pairs', but the case overload counts; leave it out"),
        *(
            (case, {"runs": 0}, "runs: got 0, expected at least 1")
            for case in ("band", "latency", "scaling", "startup")
        ),
    ],
)
def test_wrong_options_say_what_is_possible(case: str, options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        run_case(case, **options)


def test_routing_counts_copies_and_loads():
    report = run_case("routing", push=4096, window=1 << 14, distribution="shifting", buckets=4)
    assert isinstance(report, RoutingReport)
    copies = {one.strategy: (one.left, one.right) for one in report.strategies}
    assert copies["hash"] == (1.0, 1.0)
    assert copies["cell"][0] == 1
    assert copies["cell"][1] == pytest.approx(1.25, rel=0.05)
    assert (copies["grid"], copies["broadcast"]) == ((2.0, 2.0), (1.0, 4.0))
    assert all(one.largest < 1.3 and len(one.each) == 8 for one in report.strategies)
    assert "4 buckets, 8 micro-batches of 4,096 rows out of 5 windows of 16,384 rows a side" in report.text()
    assert json.loads(json.dumps(report.to_json()))["options"]["buckets"] == 4


def test_routing_spreads_what_is_hot():
    report = run_case("routing", push=4096, window=1 << 14, distribution="half hot", spread=2)
    assert isinstance(report, RoutingReport)
    largest = {(one.strategy, one.spread): one.largest for one in report.strategies}
    assert largest["hash", 1] > 4
    assert largest["cell", 1] > 4
    assert largest["hash", 2] < 2
    assert largest["cell", 2] < 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spread": 3}, "spread: got 3, expected at most 2 with 8 buckets"),
        ({"push": 1}, "push: got 1, expected at least 2"),
        ({"distribution": "half"}, "Did you mean 'half hot'"),
    ],
)
def test_routing_options_that_cannot_be(options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        run_case("routing", **options)
