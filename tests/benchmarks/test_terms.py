from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.cases import terms, terms_at_rest
from benchmarks.cases.measure import Percentiles
from benchmarks.cases.run import run_case
from benchmarks.cases.term_queries import QUERIES, TermQuery, query_named
from benchmarks.cases.terms import QuerySpeed, TermsReport, ToolSpeed
from benchmarks.cases.terms_on_spark import SparkSpeed
from slidejoin.bench.report import Spread
from slidejoin.errors import ConfigError, SlideJoinError

SMALL: dict[str, Any] = {"scale": 0.0005, "seconds": 0.001, "threads": 1}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_all_tools_find_the_same_pairs_and_as_many_as_the_name_says(query: TermQuery):
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")
    (found,) = run_case("terms", only=(query.name,), **SMALL).queries  # type: ignore[attr-defined]
    assert found.name == query.name
    inequalities = ["po_join", "po_join, tuple by tuple"] if query.po_join else []
    assert [one.tool for one in found.tools] == ["Polars", "DuckDB", *inequalities]
    assert all(one.rows_per_second and one.pushes >= 1 for one in found.tools)
    assert (found.ratio is None) == (query.against is None)
    assert found.window == max(2, round(query.window * SMALL["scale"]))
    if "symbols" not in query.name and "strings" not in query.name:  # of many symbols a small window has none twice
        low, high = (2.5, 1000) if "1000 pairs" in query.name or "counts" in query.name else (0.025, 12)
        assert low <= found.pairs_per_row <= high


def test_streams_are_the_same_for_every_tool():
    query = query_named("two bands")
    first, again = query.tables(3, 5, 1), query.tables(3, 5, 1)
    assert first[0].equals(again[0])
    assert first[1].equals(again[1])
    assert not first[0].equals(query.tables(4, 5, 1)[0])
    assert not first[0].equals(query.tables(3, 5, 2)[0])
    assert not first[0].equals(first[1])


def test_other_pairs_are_an_error(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("polars")
    original = terms_at_rest._PolarsAtRest.pairs

    def one_less(self: Any, left: Any, right: Any) -> Any:
        pairs = original(self, left, right)
        return pairs.slice(1) if pairs.num_rows else pairs

    monkeypatch.setattr(terms_at_rest._PolarsAtRest, "pairs", one_less)
    with pytest.raises(SlideJoinError, match=r"Polars found [\d,]+ pairs in push 0 of 'two bands', slidejoin [\d,]+"):
        run_case("terms", only=("two bands",), **SMALL)

    def mirrored(self: Any, left: Any, right: Any) -> Any:
        pairs = original(self, left, right)
        return pairs.rename_columns(["right", "left"]).select(["left", "right"])

    monkeypatch.setattr(terms_at_rest._PolarsAtRest, "pairs", mirrored)
    with pytest.raises(SlideJoinError, match="Polars found other pairs in the first push of 'one band'"):
        run_case("terms", only=("one band",), **SMALL)


def test_a_tool_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(terms, "TOOLS", {"No_Such_Module": terms_at_rest._PolarsAtRest})
    report = run_case("terms", only=("strings",), **SMALL)
    assert 'No_Such_Module          not installed: pip install "slidejoin[bench]"' in report.text()


def test_the_report_for_people_and_for_machines():
    speed = QuerySpeed(
        name="two bands", on="…", output="positions", window=1000, push=256, rows_per_second=3e6,
        pushes=Spread.of([2e6, 3e6, 4e6]),
        microseconds=Percentiles.of([n / 1e6 for n in range(1, 1001)]), pairs_per_row=2.0, pairs_per_second=6e6,
        window_bytes_per_row=41.2, against="one band", ratio=0.5,
        tools=(ToolSpeed("Polars", "2.1.0", 1e5, 30.0, 3),),
    )  # fmt: skip
    spark = SparkSpeed("two bands", 1 << 20, 250_000.0, 2.0)
    report = TermsReport(case="terms", threads=2, seed=1, scale=1.0, queries=(speed,), on_spark=(spark,))
    text = report.text()
    assert (
        "  slidejoin                 3.00 M rows/s   middle half 2.50 M to 3.50 M, 6.00 M pairs/s; 0.50 of one band"
        in text
    )
    assert "slidejoin is 30 times as fast (3 pushes)" in text
    assert "a push takes 500 µs (p50), 990 (p99), 999 (p99.9)" in text
    assert "| two bands | 3,000,000 | 100,000 |" in text
    assert "on Spark: two bands: 0.250 M rows/s, micro-batches of 1,048,576 rows, 2 pairs a row" in text
    assert json.loads(json.dumps(report.to_json()))["queries"][0]["tools"][0]["ratio"] == 30.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": ("two band s",)}, r"only: got 'two band s', expected one of .* Did you mean 'two bands'\?"),
        ({"seconds": 0.0}, "seconds: got 0.0, expected a number above 0"),
        ({"scale": -1.0}, "scale: got -1.0, expected a number above 0"),
    ],
)
def test_impossible_options(options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        run_case("terms", **options)
