"""The benchmark on Spark, small, in a process of its own: it starts and stops a session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.spark import input_tables, join_of, run, window_length
from slidejoin.bench.spark_pipeline import InputFiles
from slidejoin.errors import ConfigError
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import json, sys
from slidejoin.bench.spark import run
options = json.loads(sys.argv[1])
print(json.dumps(run(window=2000, push=1000, batches=1, match_rate=4, baselines=False, **options).to_json()))
"""


def reported(**options: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(options)],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def input_files(root: Path) -> InputFiles:
    return InputFiles(root, input_tables(join_of(100, 2.0, "pairs", "inner", "auto", "auto"), 1))


@pytest.mark.spark
@pytest.mark.nightly  # half a minute each
@pytest.mark.parametrize(
    ("output", "strategy", "algorithm", "on"),
    [
        ("pairs", "auto", "auto", "l.k BETWEEN r.k - "),
        ("count", "auto", "auto", "l.k BETWEEN r.k - "),
        ("pairs", "hash", "auto", "l.k = r.k"),
        ("pairs", "sub_windows", "po_join", "l.k < r.k AND l.d > r.d"),
    ],
)
def test_rows_that_come_out_are_counted(output: str, strategy: str, algorithm: str, on: str):
    report = reported(output=output, strategy=strategy, algorithm=algorithm)
    assert report["on"].startswith(on)
    assert (report["strategy"], report["algorithm"]) == (strategy, algorithm)
    assert report["threads"] <= report["buckets"] == 2
    assert report["rows_out_per_row"] == (1.0 if output == "count" else pytest.approx(4.0, rel=0.1))
    assert report["rows_per_second"]["median"] > 0
    assert report["reading"]["median"] > 0
    assert report["own_rows"] is None


def test_files_are_read_in_the_order_in_which_they_were_written(tmp_path: Path):
    files = input_files(tmp_path)
    for half in (30, 20, 10):
        files.add(half)
    assert files.rows == [60, 40, 20]
    paths = sorted(files.folder("left").iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in paths] == ["000000.parquet", "000001.parquet", "000002.parquet"]
    tables = [parquet.read_table(path) for path in paths]
    assert [table.num_rows for table in tables] == [30, 20, 10]
    times = pa.concat_tables(tables)["ts"].combine_chunks().cast(pa.int64()).to_numpy()
    assert (np.diff(times) == 2000).all()
    assert window_length(100).total_seconds() * 1e6 == 100 * 2000


def test_a_query_may_read_the_last_of_the_files_too(tmp_path: Path):
    files = input_files(tmp_path / "all")
    for half in (30, 20, 10):
        files.add(half)
    rest = files.linked(tmp_path / "rest", 1)
    rest.add(5)
    assert rest.rows == [40, 20, 10]
    for side in ("left", "right"):
        paths = sorted(rest.folder(side).iterdir(), key=lambda path: path.stat().st_mtime)
        assert [parquet.read_metadata(path).num_rows for path in paths] == [20, 10, 5]
    assert len(list(files.folder("left").iterdir())) == 3
    assert (files.written, rest.written) == (60, 65)
    rest.cut(1)
    assert (rest.rows, rest.written) == ([40], 50)
    assert len(list(rest.folder("left").iterdir())) == 1


@pytest.mark.parametrize(
    ("strategy", "algorithm", "operation"),
    [
        ("auto", "auto", "band"),
        ("hash", "auto", "equi"),
        ("split", "hash", "equi"),
        ("split", "po_join", "inequalities"),
    ],
)
def test_rows_find_as_many_partners_as_wanted(strategy: str, algorithm: str, operation: str):
    join = join_of(1000, 4.0, "pairs", "inner", strategy, algorithm)
    assert join.comparison.operation == operation
    assert join.comparison.match_rate == pytest.approx(4.0, rel=0.01)
    left, right = (one.drop(["ts"]) for one in input_tables(join, 1)(0, 3000))
    pairs = StreamJoin(on=join.comparison.sql(), window=CountWindow(3000), output="count").push(left=left, right=right)
    assert sum(pairs["match_count"].to_pylist()) / 3000 == pytest.approx(3 * 4.0, rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "positions"}, "output: got 'positions', expected one of pairs, count, left, right"),
        ({"strategy": "splitt"}, "strategy: got 'splitt', expected one of .* split, sub_windows.* mean 'split'"),
        ({"algorithm": "po-join"}, "algorithm: got 'po-join', expected one of auto, .* po_join.* mean 'po_join'"),
        ({"window": 0}, "window: got 0, expected at least 1"),
        ({"push": 1}, "push: got 1, expected at least 2"),
        ({"batches": 0}, "batches: got 0, expected at least 1"),
        ({"buckets": 0}, "buckets: got 0, expected at least 1"),
        ({"threads": -1}, "threads: got -1, expected at least 1"),
        ({"match_rate": 0.0}, "match_rate: got 0.0, expected a number above 0"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        run(**options)
