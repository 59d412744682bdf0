from __future__ import annotations

from typing import Any

import pytest

from benchmarks.cases.term_queries import QUERIES
from benchmarks.scoreboard.run import ScoreboardReport, arguments, run
from benchmarks.scoreboard.terms import TERM_TARGETS
from slidejoin.errors import ConfigError


def canned(words: tuple[str, ...]) -> dict[str, Any]:
    if words[2] == "machine":
        return {"memory": [{"lines_per_second": 8e7}, {"lines_per_second": 1.5e8}]}
    speeds = {query.name: 2e6 for query in QUERIES} | {"one band": 20e6, "three equalities": 9e6}
    ratios = {"Polars": 30.0, "DuckDB": 110.0, "po_join": 7.0, "po_join, tuple by tuple": 150.0}
    tools = [{"tool": tool, "ratio": ratio} for tool, ratio in ratios.items()]
    queries = [
        {
            "name": query.name, "rows_per_second": speeds[query.name], "tools": tools[: 2 + 2 * query.po_join],
            "ratio": None if query.against is None else 0.7, "pairs_per_second": 4e7, "window_bytes_per_row": 45.0,
            "microseconds": {"p50": 900.0, "p99_9": 5100.0},
        }
        for query in QUERIES
    ]  # fmt: skip
    spark = [{"name": query.name, "rows_per_second": 250_000.0} for query in QUERIES if query.on_spark]
    return {"queries": queries, "on_spark": spark if "--spark" in words else []}


@pytest.fixture(scope="module")
def table() -> ScoreboardReport:
    return run(terms=True, measure=canned)


def test_every_row_has_its_figures_and_what_they_reach(table: ScoreboardReport):
    rows = {row.what: row for row in table.rows}
    assert len(rows) == len(TERM_TARGETS) == 14
    symbols = rows["equality of 100, 10,000, 1 M symbols and a band: the slowest"]
    assert (symbols.measured, symbols.reached) == (("2.00 M rows/s", "0.70 of one band", "at least 30x"), "missed")
    assert rows["two and three equalities, integers"].measured == ("0.70",)
    assert rows["two and three equalities, integers"].reached == "must"
    assert rows["price between two columns, 1.5 matches a row"].reached == "must"
    assert rows["price between two columns, 1.5 matches a row"].measured[1] == "0.10 of one band"
    assert rows["two inequalities, 5 pairs a row"].measured == ("2.00 M rows/s", "30x", "7x po_join")
    assert rows["two inequalities, 5 pairs a row"].reached == "goal"
    counts = rows["two inequalities as count, W = 100,000"]
    assert (counts.measured[1:], counts.reached) == (("7.0x po_join", "150x po_join as in the paper"), "missed")
    assert rows["pushes of 256 rows, two inequalities"].reached == "missed"
    assert rows["memory of the planar structure without payload: the most"].reached == "goal"
    assert rows["the same: two inequalities, 5 pairs a row"].reached == "must"


def test_two_commands_give_the_whole_table(table: ScoreboardReport):
    assert list(table.reports) == [
        "python -m benchmarks.cases terms --threads 2",
        (
            "python -m benchmarks.cases terms --no-baselines --only 100 symbols,two inequalities (5 pairs --spark "
            "--threads 2"
        ),
    ]
    scaled = arguments(TERM_TARGETS[0].commands[0], {"window": 1 << 10, "threads": 1})
    assert scaled == ("python", "-m", "benchmarks.cases", "terms", "--scale", "0.000976562", "--threads", "1")


def test_options_that_its_commands_do_not_take():
    with pytest.raises(ConfigError, match="its table takes neither another table nor rows nor runs"):
        run(terms=True, rows=5, measure=canned)
