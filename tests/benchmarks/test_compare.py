"""The comparison with other systems: its queries are those of plain loops, and what differs is an error."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks.compare import measure
from benchmarks.compare.measure import CompareReport, Speed
from benchmarks.compare.programs import common, duckdb_sql, polars_frames, slidejoin_stream
from benchmarks.compare.rows import QUERIES, WINDOW, query_named
from benchmarks.compare.systems import SYSTEMS, last_line, lines_of, python_of, system_named
from slidejoin.errors import ConfigError, SlideJoinError

ROWS = 700
NAMES = [query.name for query in QUERIES]
PROGRAMS = {"slidejoin": slidejoin_stream, "duckdb": duckdb_sql, "polars": polars_frames}

Row = dict[str, Any]
HOLDS = {
    "band": lambda one, other: abs(one["price"] - other["price"]) <= 50,
    "equality_band": lambda one, other: one["k"] == other["k"] and other["bid"] <= one["price"] <= other["ask"],
    "inequalities": lambda one, other: one["distance"] > other["distance"] and one["air_time"] < other["air_time"],
}


def pairs_of(query: str, left: list[Row], right: list[Row]) -> list[tuple[int, int]]:
    """Return the ids of the pairs, by plain loops."""
    if query == "asof":
        pairs = []
        for one in left:
            before = [other for other in right if other["k"] == one["k"] and 0 <= one["ts"] - other["ts"] <= WINDOW]
            pairs += [(one["id"], max(before, key=lambda row: row["ts"])["id"])] if before else []
        return pairs
    near = ((one, other) for one in left for other in right if abs(one["ts"] - other["ts"]) <= WINDOW)
    return [(one["id"], other["id"]) for one, other in near if HOLDS[query](one, other)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each query, with rows that are so far apart that the window ends between them."""
    made = {}
    for query in QUERIES:
        made[query.name] = tmp_path_factory.mktemp(query.name)
        for name, table in zip("lr", query.tables(ROWS), strict=True):
            times = [time * 40 for time in table["ts"].to_pylist()]
            few = [key % 5 for key in table["k"].to_pylist()] if query.name == "asof" else None
            spread = table.set_column(table.schema.get_field_index("ts"), "ts", [times])
            spread = spread if few is None else spread.set_column(spread.schema.get_field_index("k"), "k", [few])
            pq.write_table(spread, made[query.name] / f"{name}.parquet")
    return made


@pytest.mark.parametrize("system", PROGRAMS)
@pytest.mark.parametrize("query", NAMES)
def test_a_program_finds_the_pairs_of_plain_loops(system, query, folders):
    left, right = (table.to_pylist() for table in common.sides(folders[query]))
    expected = pairs_of(query, left, right)
    done = PROGRAMS[system].join(query, folders[query])
    sums = (sum(one for one, _ in expected), sum(other for _, other in expected))
    assert (done.pairs, done.left_ids, done.right_ids) == (len(expected), *sums)
    assert done.pairs > 0
    assert done.seconds > 0
    if query != "asof":
        everywhere = sum(HOLDS[query](one, other) for one in left for other in right)
        assert everywhere > len(expected), "the window has no effect"


def test_windows_of_rows_and_programs_are_one():
    assert common.WINDOW == WINDOW


@pytest.mark.parametrize("query", QUERIES, ids=NAMES)
def test_fewer_rows_are_the_first_ones_of_more(query):
    for few, many in zip(query.tables(50), query.tables(200), strict=True):
        assert few == many.slice(0, 50)
    left, right = query.tables(50)
    assert not {*left["ts"].to_pylist()} & {*right["ts"].to_pylist()}


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda one: one.name)
def test_every_system_says_every_query_at_pinned_versions(system):
    assert [lines_of(system, query) > 1 for query in NAMES] == [True] * len(NAMES)
    assert (system.name == "slidejoin") == (not system.says)
    assert system.name == "slidejoin" or {*system.says} == {*NAMES}
    if system.requirements.exists():
        lines = system.requirements.read_text(encoding="utf-8").split()
        assert all(re.fullmatch(r"[a-z-]+==[0-9.]+", line) for line in lines)
        assert any(line.startswith("pyarrow==") for line in lines)
    else:
        assert python_of(system).samefile(sys.executable)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let DuckDB and Polars run in this environment: no test installs packages."""
    monkeypatch.setattr("benchmarks.compare.measure.python_of", lambda _: Path(sys.executable))


def test_a_report_has_all_systems_and_queries(here):
    report = measure.run(systems=("polars", "duckdb"), queries=("band", "asof"), rows=2_000)
    assert [(one.system, one.query) for one in report.speeds] == [
        (system, query) for query in ("band", "asof") for system in ("slidejoin", "polars", "duckdb")
    ]
    assert all(one.rows == 4_000 and one.rows_per_second and not one.fault for one in report.speeds)
    by_query = {query: {one.pairs for one in report.speeds if one.query == query} for query in ("band", "asof")}
    assert all(len(counts) == 1 and counts != {0} for counts in by_query.values())
    text = report.text()
    assert "| rows a second | joins | band | asof |" in text
    assert text.count("**") == 4
    assert report.to_json()["rows"] == 2_000


def test_other_pairs_than_those_of_slidejoin_are_an_error():
    ours = {100: {"pairs": 3, "left_ids": 5, "right_ids": 6}}
    duckdb, band = system_named("duckdb"), query_named("band")
    measure._check(duckdb, band, ours, ours)
    for name in ("pairs", "left_ids", "right_ids"):
        theirs = {100: ours[100] | {name: 4}}
        with pytest.raises(SlideJoinError, match=r"DuckDB finds . pairs in band of 100 rows a side, slidejoin 3; sums"):
            measure._check(duckdb, band, theirs, ours)


def speed(**changed: Any) -> Speed:
    usual = {"system": "polars", "query": "band", "rows": 200, "rows_per_second": 1234.5, "pairs": 3, "lines": 3}
    return Speed(**(usual | changed))


def test_cells_show_what_was_joined():
    assert speed().cell(100, 1234.5) == "**1,234**"
    assert speed().cell(100, 2000.0) == "1,234"
    assert speed(rows=20).cell(100, 2000.0) == "1,234 (10 rows a side)"
    assert speed(rows=0, rows_per_second=None).cell(100, 0.0) == "no result"
    assert (speed().of_all(100), speed(rows=20).of_all(100)) == (1234.5, 0.0)


def test_a_report_says_why_there_is_no_result():
    none = speed(rows=0, rows_per_second=None, pairs=0, fault="pip: no such version")
    report = CompareReport(
        case="compare", rows=100, limit=1.0, seed=1, threads=2, versions={}, speeds=(speed(system="slidejoin"), none)
    )  # fmt: skip
    assert "| Polars | tables | no result |" in report.text()
    assert "Polars, band: pip: no such version" in report.text()


def runs(process: int) -> bool:
    """Whether a process has not ended; one that nobody has waited for has."""
    try:
        os.kill(process, 0)
        return ") Z " not in Path("/proc", str(process), "stat").read_text(encoding="utf-8")
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # it has just ended, or there is no /proc, and it has not
        return not Path("/proc").exists()


def test_a_program_that_takes_too_long_ends_with_all_that_it_started(tmp_path):
    child = tmp_path / "child"
    program = f"""
import pathlib, subprocess, time
started = subprocess.Popen(["sleep", "60"])
pathlib.Path({str(child)!r}).write_text(str(started.pid))
print('{{"version": 1}}', flush=True)
time.sleep(60)
"""
    lines, _, fault = measure._printed([sys.executable, "-c", program], os.environ, 3.0)
    assert lines == ['{"version": 1}']
    assert fault == "stopped after 3 s"
    deadline = time.monotonic() + 30
    while runs(int(child.read_text(encoding="utf-8"))):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_error_of_a_program_is_its_last_one():
    assert last_line("a\nError: x\nb\n") == "Error: x"
    assert last_line("a\nb\n") == "b"
    assert last_line("") == "no message"


def test_names_and_numbers_are_checked():
    with pytest.raises(ConfigError, match="systems: got 'flnk', expected"):
        measure.run(systems=("flnk",))
    with pytest.raises(ConfigError, match="queries: got 'bnd', expected"):
        measure.run(queries=("bnd",))
    with pytest.raises(ConfigError, match="rows: got 10, expected at least 2000"):
        measure.run(rows=10)
