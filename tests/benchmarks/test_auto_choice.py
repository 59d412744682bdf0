from __future__ import annotations

import pytest

from benchmarks import auto_choice
from benchmarks.auto_choice import AutoReport, Cell, grid, run
from benchmarks.cases.workload import Workload
from slidejoin.errors import SlideJoinError


def test_auto_is_compared_with_every_structure(monkeypatch: pytest.MonkeyPatch):
    loads = [
        Workload.of("band", window=256, push=64, threads=1),
        Workload.of("equi", window=256, push=64, threads=1, match_rate=1.0),
    ]
    monkeypatch.setattr(auto_choice, "grid", lambda *_, **__: loads)
    report = run(window=256, rows=512)
    band, equality = report.cells
    assert {"band_cells", "bi_sort", "bplus_tree", "nested_loop"} <= set(band.screened)
    assert "hash" not in band.screened
    assert "hash" in equality.screened
    assert report.least == min(band.ratio, equality.ratio) > 0
    assert f"Least: {report.least:.2f}" in report.text()
    assert report.to_json()["cells"][0]["chosen"] == "band_cells"


def test_a_wrong_structure_is_an_error(monkeypatch: pytest.MonkeyPatch):
    load = Workload.of("band", window=256, push=64, threads=1)
    streams = load.streams(load.comparison())
    wider = load.join(Workload.of("band", window=256, push=64, threads=1, match_rate=20.0).comparison())
    with pytest.raises(SlideJoinError, match="different numbers of rows"):
        auto_choice._timed([load.join(load.comparison()), wider], list(streams.pushes(0, 32, 8)), 1.0)


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
    assert "Least: 0.50; 1 of 1 below 0.8." in AutoReport(case="auto_choice", cells=(cell,)).text()
