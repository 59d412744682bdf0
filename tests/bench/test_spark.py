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

from slidejoin.bench import run_case
from slidejoin.bench.spark_cluster import processors
from slidejoin.bench.spark_files import Files, Written, window_length
from slidejoin.bench.spark_memory import Trend, resident_beside
from slidejoin.bench.spark_running import _each
from slidejoin.bench.streams import Streams
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = (
    "from slidejoin.cli import main; import sys; sys.argv = ['slidejoin', 'bench', 'spark', '--window', '2000',"
    " '--push', '1000', '--no-baselines', '--match-rate', '4', '--json', *sys.argv[1:]]; main()"
)


def reported(*options: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *options], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.spark
@pytest.mark.parametrize("output", ["pairs", pytest.param("count", marks=pytest.mark.nightly)])
def test_rows_that_come_out_are_counted(output: str):
    report = reported("--batches", "1", "--output", output)
    assert report["pairs_per_row"] == (1.0 if output == "count" else pytest.approx(4.0, rel=0.1))
    assert report["rows_per_second"]["median"] > 0
    assert report["written"]["changes"] > 0
    assert report["written_reading"] > 0
    assert report["own_rows"] is report["memory"] is report["restart"] is None


@pytest.mark.spark
@pytest.mark.nightly
def test_a_cluster_joins_as_many():
    report = reported("--batches", "2", "--executors", "1")
    assert report["executors"] == 1
    assert report["pairs_per_row"] == pytest.approx(4.0, rel=0.1)


@pytest.mark.spark
@pytest.mark.nightly
def test_memory_and_restarts_are_looked_at():
    report = reported("--batches", "90", "--restart")
    assert set(report["memory"]) == {"Java heap", "Java beside its heap", "Python workers"}
    assert min(trend["median"] for trend in report["memory"].values()) > 10 << 20
    assert set(report["restart"]) == {"with the node's cache", "without it", "reading"}
    assert min(report["restart"].values()) > 0


def test_files_are_read_in_the_order_in_which_they_were_written(tmp_path: Path):
    files = Files(tmp_path, Streams("uniform", 1, 1, 100))
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
    files = Files(tmp_path / "all", Streams("uniform", 1, 1, 100))
    for half in (30, 20, 10):
        files.add(half)
    rest = files.linked(tmp_path / "rest", 1)
    rest.add(5)
    assert rest.rows == [40, 20, 10]
    assert rest.file_bytes[:2] == files.file_bytes[1:]
    for side in ("left", "right"):
        paths = sorted(rest.folder(side).iterdir(), key=lambda path: path.stat().st_mtime)
        assert [parquet.read_metadata(path).num_rows for path in paths] == [20, 10, 5]
    assert len(list(files.folder("left").iterdir())) == 3


def test_bytes_written_count_once_and_stay(tmp_path: Path):
    written, state = Written(tmp_path), tmp_path / "state" / "0" / "1"
    state.mkdir(parents=True)
    (tmp_path / "offsets").write_bytes(b"12345")
    (tmp_path / ".offsets.crc").write_bytes(b"12")
    (tmp_path / ".offsets.tmp.crc").write_bytes(b"12")
    (state / "1.changelog").write_bytes(b"1")
    assert written.look() == {"changes": 1, "snapshots": 0, "logs": 7}
    (tmp_path / "offsets").unlink()
    (state / "1.zip").write_bytes(b"123")
    assert written.look() == {"changes": 1, "snapshots": 3, "logs": 7}


def test_what_was_over_between_two_looks_gets_the_next_one():
    course = [{"batchId": number} for number in (4, 5, 6, 7)]
    seen, last = {4: {"logs": 1}, 6: {"logs": 3}}, {"logs": 9}
    assert _each(course, seen, last) == [{"logs": 1}, {"logs": 3}, {"logs": 3}, {"logs": 9}]


def test_growth_is_told_from_noise():
    places, draw = list(range(0, 200, 10)), np.random.default_rng(1)
    noise = draw.normal(0, 2, len(places))
    level, growing = (Trend.of(places, 100 + rate * np.array(places) + noise) for rate in (0, 0.2))
    assert abs(level.growth) < 3
    assert level.low < 0 < level.high
    assert growing.growth == pytest.approx(40, abs=3)
    assert growing.low > 30


def test_what_is_beside_the_heap_is_told_from_it():
    def part(start: int, end: int, resident: int) -> list[str]:
        return [f"{start:x}-{end:x} rw-p 00000000 00:00 0 ", f"Size: {(end - start) // 1024} kB", f"Rss: {resident} kB"]

    # The heap takes the middle 4 MiB, in two parts; what follows it at once is none of it.
    parts = part(0, 4096, 4) + part(1 << 20, 3 << 20, 1000) + part(3 << 20, 5 << 20, 500) + part(5 << 20, 6 << 20, 7)
    assert resident_beside(parts, 4 << 20) == 11 * 1024
    assert resident_beside(parts, 64 << 20) == 1511 * 1024
    assert resident_beside([], 4 << 20) == 0


def test_an_output_that_spark_has_not_is_refused():
    with pytest.raises(ConfigError, match="output: got 'positions', expected one of pairs, count"):
        run_case("spark", output="positions")


def test_each_executor_has_a_processor_of_its_own():
    many = len(os.sched_getaffinity(0))
    assert len(set(processors(many))) == many
    with pytest.raises(ConfigError, match=f"executors: got {many + 1}, expected at most {many}"):
        processors(many + 1)


def test_restarts_are_those_of_a_local_spark():
    with pytest.raises(ConfigError, match="restart: is measured on a local Spark, got executors 2 too"):
        run_case("spark", restart=True, executors=2)
