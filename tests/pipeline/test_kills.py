"""Real processes that are killed at random, again and again, until their job is done."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pytest

from tests.pipeline.jobs import JOB, expected, pairs, put_all

if TYPE_CHECKING:
    from pathlib import Path

FILES = 40
COMMAND = [sys.executable, "-c", "from slidejoin.cli import main; main()", "run", "job.toml", "--json"]

SINKS = {
    "parquet": JOB,
    "arrow": JOB.replace('sink = { format = "parquet"', 'sink = { format = "arrow"'),
    "csv": JOB.replace('sink = { format = "parquet"', 'sink = { format = "csv", options = { header = true }'),
    "json": JOB.replace('sink = { format = "parquet"', 'sink = { format = "json"'),
    "folders": JOB.replace('path = "out"', 'path = "out", partition_by = ["k"]').replace('"l.id", ', '"l.id", "l.k", '),
}


def written(folder: Path, kind: str) -> list[tuple[int, int]]:
    """Return the pairs that a reader of all visible files finds."""
    if kind in {"parquet", "folders"}:
        return pairs(folder)
    readers = {
        "arrow": lambda file: pa.ipc.open_file(file).read_all(),
        "csv": pyarrow.csv.read_csv,
        "json": pyarrow.json.read_json,
    }
    tables = [readers[kind](str(file)) for file in (folder / "out").glob(f"part-*.{kind}")]
    return sorted((row["id"], row["id_right"]) for table in tables for row in table.to_pylist())


def killed_again_and_again(folder: Path, kind: str, kills: int, draw: random.Random) -> int:
    """Run a job, kill it at random so many times, let it end, and return how many kills found it at work."""
    put_all(folder, FILES)
    (folder / "job.toml").write_text(SINKS[kind] + '\nembedded = { snapshot_every = "20 ms" }')
    hits = 0
    for _ in range(kills):
        with (folder / "errors").open("wb") as errors:
            process = subprocess.Popen(COMMAND, cwd=folder, env=os.environ, stdout=subprocess.PIPE, stderr=errors)
            assert process.stdout is not None
            line = process.stdout.readline()
            assert b'"start"' in line, (folder / "errors").read_text()
            # A batch takes some milliseconds, and the first push a good part of a second.
            time.sleep(draw.choice([draw.uniform(0, 0.3), draw.uniform(0, 1.5)]))
            hits += process.poll() is None
            process.kill()
            process.communicate()
        seen = written(folder, kind)
        assert len(seen) == len(set(seen))
    done = subprocess.run(COMMAND, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert written(folder, kind) == expected(FILES)
    assert not list(folder.rglob(".slidejoin-*"))
    return hits


def test_a_job_that_is_killed_loses_and_repeats_nothing(tmp_path: Path):
    assert killed_again_and_again(tmp_path, "folders", 4, random.Random(1)) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("kind", SINKS)
def test_forty_kills_of_each_sink(kind: str, tmp_path: Path):
    hits = 0
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        hits += killed_again_and_again(folder, kind, 8, random.Random(f"{kind} {number}"))
    assert hits > 5
