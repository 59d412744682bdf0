"""The experiment on Spark, small, in a process of its own: it starts and stops a session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.spark.checkpoint import CheckpointBytes
from benchmarks.spark.cluster import processors
from benchmarks.spark.memory import Trend, resident_beside
from benchmarks.spark.run import run
from slidejoin.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (
    *("-m", "benchmarks.spark", "--window", "2000", "--push", "1000", "--no-baselines", "--match-rate", "4", "--json"),
)


def reported(*options: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *COMMAND, *options],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.spark
@pytest.mark.nightly
def test_a_cluster_joins_as_many():
    report = reported("--batches", "2", "--executors", "1")
    assert report["executors"] == 1
    assert report["rows_out_per_row"] == pytest.approx(4.0, rel=0.1)


@pytest.mark.spark
@pytest.mark.nightly
def test_bytes_memory_and_restarts_are_measured():
    report = reported("--batches", "90", "--restart")
    assert report["written"]["changes"] > 0
    assert report["written_reading"] > 0
    assert report["file_bytes"] > 0
    assert report["arrow_bytes"] == 1000 * 24
    assert set(report["memory"]) == {"Java heap", "Java beside its heap", "Python workers"}
    assert min(trend["median"] for trend in report["memory"].values()) > 10 << 20
    assert set(report["restart"]) == {"with the node's cache", "without it", "reading"}
    assert min(report["restart"].values()) > 0


def test_bytes_written_count_once_and_stay(tmp_path: Path):
    written, state = CheckpointBytes(tmp_path), tmp_path / "state" / "0" / "1"
    state.mkdir(parents=True)
    (tmp_path / "offsets").write_bytes(b"12345")
    (tmp_path / ".offsets.crc").write_bytes(b"12")
    (tmp_path / ".offsets.tmp.crc").write_bytes(b"12")
    (state / "1.changelog").write_bytes(b"1")
    assert written.count() == {"changes": 1, "snapshots": 0, "logs": 7}
    (tmp_path / "offsets").unlink()
    (state / "1.zip").write_bytes(b"123")
    assert written.count() == {"changes": 1, "snapshots": 3, "logs": 7}


def test_a_micro_batch_between_two_observations_gets_the_next_count(tmp_path: Path):
    written, log = CheckpointBytes(tmp_path), tmp_path / "log"
    for number, size in ((4, 1), (6, 3)):
        log.write_bytes(b"x" * size)
        written.observe({"batchId": number})
    log.write_bytes(b"x" * 9)
    batches = [{"batchId": number} for number in (4, 5, 6, 7)]
    assert [written.written(batches, first)["logs"] for first in range(5)] == [9, 8, 6, 6, 0]


def test_growth_is_told_from_noise():
    places, draw = list(range(0, 200, 10)), np.random.default_rng(1)
    noise = draw.normal(0, 2, len(places))
    level, growing = (Trend.of(places, 100 + rate * np.array(places) + noise) for rate in (0, 0.2))
    assert abs(level.growth) < 3
    assert level.low < 0 < level.high
    assert growing.growth == pytest.approx(40, abs=3)
    assert growing.low > 30


def test_memory_beside_the_heap_is_told_from_it():
    def part(start: int, end: int, resident: int) -> list[str]:
        return [f"{start:x}-{end:x} rw-p 00000000 00:00 0 ", f"Size: {(end - start) // 1024} kB", f"Rss: {resident} kB"]

    # The heap takes the middle 4 MiB, in two parts; what follows it at once is none of it.
    parts = part(0, 4096, 4) + part(1 << 20, 3 << 20, 1000) + part(3 << 20, 5 << 20, 500) + part(5 << 20, 6 << 20, 7)
    assert resident_beside(parts, 4 << 20) == 11 * 1024
    assert resident_beside(parts, 64 << 20) == 1511 * 1024
    assert resident_beside([], 4 << 20) == 0


def test_each_executor_has_a_processor_of_its_own():
    many = len(os.sched_getaffinity(0))
    assert len(set(processors(many))) == many
    with pytest.raises(ConfigError, match=f"executors: got {many + 1}, expected at most {many}"):
        processors(many + 1)


def test_restarts_are_those_of_a_local_spark():
    with pytest.raises(ConfigError, match="restart: is measured on a local Spark, got executors 2 too"):
        run(restart=True, executors=2)
