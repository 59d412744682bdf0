"""The benchmark on Spark, small, in a process of its own: it starts and stops a session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from slidejoin.bench import run_case
from slidejoin.bench.spark_files import Files, Written, window_length
from slidejoin.bench.streams import Streams
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = (
    "from slidejoin.cli import main; import sys; sys.argv = ['slidejoin', 'bench', 'spark', '--window', '2000',"
    " '--push', '1000', '--batches', '1', '--no-baselines', '--match-rate', '4', '--json', '--output', sys.argv[1]];"
    " main()"
)


@pytest.mark.spark
@pytest.mark.parametrize("output", ["pairs", "count"])
def test_rows_that_come_out_are_counted(output: str):
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, output], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["pairs_per_row"] == (1.0 if output == "count" else pytest.approx(4.0, rel=0.1))
    assert report["rows_per_second"]["median"] > 0
    assert report["state_per_byte"] > 0
    assert report["own_rows"] is None


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


def test_bytes_written_count_once_and_stay(tmp_path: Path):
    written = Written(tmp_path)
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / ".a.crc").write_bytes(b"12345")
    assert written.look() == 5
    (tmp_path / "a").unlink()
    (tmp_path / "b").write_bytes(b"123")
    assert written.look() == 8


def test_an_output_that_spark_has_not_is_refused():
    with pytest.raises(ConfigError, match="output: got 'positions', expected one of pairs, count"):
        run_case("spark", output="positions")
