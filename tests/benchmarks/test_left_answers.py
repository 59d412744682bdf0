from __future__ import annotations

from benchmarks import left_answers


def test_nearest_matches_and_aggregates_are_measured_beside_others():
    report = left_answers.run(window=512, push=128, pushes=4, keys=10, matches=20, threads=1)
    assert min(report.asof, report.polars, report.count, report.aggregate) > 0
    text = report.text()
    assert "| nearest match, backward, by key |" in text
    assert "times Polars |" in text
