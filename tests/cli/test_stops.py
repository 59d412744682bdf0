"""``slidejoin run`` in a process of its own, stopped by signals to all of its processes, in whatever it is doing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.killing import descendants

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.shell import Shell

pytestmark = pytest.mark.spark

ROWS = 60
JOB = """
sources.a = { format = "parquet", path = "a", max_files_per_trigger = 1 }
join = { self_join = "a", on = "l.k = r.k", select = ["l.id", "r.id"], window = { length = "1 minute", on = "ts" } }
sink = { format = "parquet", path = "out", checkpoint = "checkpoint", trigger = "200 ms" }
spark = { master = "local[1]", conf = { "spark.sql.shuffle.partitions" = "1" } }
"""
LIMIT = 600


def put(folder: Path, files: int) -> None:
    (folder / "a").mkdir()
    (folder / "job.toml").write_text(JOB)
    for number in range(files):
        at = datetime(2026, 1, 1, number, tzinfo=UTC)
        rows = {
            "id": range(number * ROWS, (number + 1) * ROWS),
            "k": [n % 7 for n in range(ROWS)],
            "ts": [at + timedelta(seconds=n) for n in range(ROWS)],
        }
        pq.write_table(pa.table(rows), folder / "a" / f"{number}.parquet")
        os.utime(folder / "a" / f"{number}.parquet", (time.time() - 1000 + number,) * 2)


class Running:
    """The command in a process group of its own, as ``timeout`` or a CI runner starts it."""

    def __init__(self, folder: Path, *, available_now: bool = False, **environment: str) -> None:
        self.folder = folder
        if available_now:
            (folder / "job.toml").write_text(JOB.replace('"200 ms"', '"available_now"'))
        command = [sys.executable, "-c", "from slidejoin.cli import main; main()", "run", "job.toml", "--json"]
        with (folder / "told").open("wb") as told, (folder / "errors").open("wb") as errors:
            self.process = subprocess.Popen(
                command, cwd=folder, env=os.environ | environment, stdout=told, stderr=errors, process_group=0
            )
        self.until(lambda: "start" in self.events())

    def told(self) -> list[dict[str, Any]]:
        lines = (self.folder / "told").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def events(self) -> list[str]:
        return [event["event"] for event in self.told()]

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT
        while not holds():
            assert self.process.poll() is None, (self.folder / "errors").read_text()
            assert time.monotonic() < deadline, self.told()
            time.sleep(0.01)

    def started(self, number: int) -> bool:
        return (self.folder / "checkpoint" / "offsets" / str(number)).exists()

    def kill(self) -> None:
        """Kill the command and all that it started, as they are."""
        for pid in (self.process.pid, *descendants(self.process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> tuple[int, str, list[dict[str, Any]]]:
        """Wait for the end and return the status, what went to standard error, and what was said last."""
        try:
            self.process.wait(LIMIT)
        finally:
            self.kill()
        return self.process.returncode, (self.folder / "errors").read_text(), self.told()


def to_group(job: Running, number: int) -> None:
    os.killpg(job.process.pid, number)


def to_all(job: Running, number: int) -> None:
    """As systemd does: to each process of the service, in any order."""
    everyone = [job.process.pid, *descendants(job.process.pid)]
    random.Random(len(everyone)).shuffle(everyone)
    for pid in everyone:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def stopped_well(job: Running) -> None:
    status, errors, told = job.end()
    assert errors == ""
    assert status == 0
    assert (told[-1]["event"], told[-1]["stopped"]) == ("done", True)
    left = list(Path(tempfile.gettempdir()).glob(f"slidejoin-run-{job.process.pid}-*"))
    assert left == []


def whole(folder: Path) -> list[tuple[int, int]]:
    files = list((folder / "out").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).select(["id", "id_right"]).to_pylist()]
    return sorted((row["id"], row["id_right"]) for row in rows)


def expected(files: int) -> list[tuple[int, int]]:
    of = [range(number * ROWS, (number + 1) * ROWS) for number in range(files)]
    return sorted((a, b) for ids in of for a in ids for b in ids if a != b and a % ROWS % 7 == b % ROWS % 7)


def amid_a_batch(job: Running) -> None:
    job.until(lambda: job.started(1))


def waiting_for_rows(job: Running) -> None:
    job.until(lambda: job.events().count("batch") >= 2)
    time.sleep(0.5)


def starting(job: Running) -> None:
    job.until(lambda: len(descendants(job.process.pid)) >= 1)
    time.sleep(0.5)


def just_begun(_: Running) -> None:
    """Nothing else has begun."""


@pytest.mark.nightly  # by day a job is stopped in test_killed_run
def test_a_job_is_stopped_and_continues(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 2)
    job = Running(tmp_path)
    amid_a_batch(job)
    to_all(job, signal.SIGTERM)
    stopped_well(job)
    (tmp_path / "job.toml").write_text(JOB.replace('"200 ms"', '"available_now"'))
    again = slidejoin("run", tmp_path / "job.toml")
    assert (again.status, again.err) == (0, "")
    assert whole(tmp_path) == expected(2)


@pytest.mark.nightly
def test_a_job_is_stopped_twice_and_ends(tmp_path: Path):
    put(tmp_path, 2)
    first = Running(tmp_path)
    starting(first)
    to_group(first, signal.SIGTERM)
    stopped_well(first)
    second = Running(tmp_path)
    amid_a_batch(second)
    to_all(second, signal.SIGTERM)
    stopped_well(second)
    third = Running(tmp_path)
    third.until((tmp_path / "checkpoint" / "commits" / "1").exists)
    time.sleep(1)
    to_group(third, signal.SIGINT)
    stopped_well(third)
    assert whole(tmp_path) == expected(2)


@pytest.mark.nightly
@pytest.mark.parametrize("send", [to_group, to_all])
def test_a_job_is_stopped_amid_compiling(send: Callable[[Running, int], None], tmp_path: Path):
    put(tmp_path, 1)
    job = Running(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"), NUMBA_DISABLE_JIT="0")
    job.until(lambda: "compiling" in job.events())
    send(job, signal.SIGTERM)
    begun = time.monotonic()
    stopped_well(job)
    assert time.monotonic() - begun < 60
    assert job.events()[-2:] == ["compiling", "done"]
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
def test_a_job_without_streams_writes_nothing_if_it_is_stopped(tmp_path: Path):
    put(tmp_path, 1)
    slow = "coalesce(reflect('java.lang.Thread', 'sleep', CAST(1000 AS BIGINT)), 'x') <> 'y'"
    text = JOB.replace("max_files_per_trigger = 1", f'table = true, where = "{slow}"')
    text = text.replace(', checkpoint = "checkpoint", trigger = "200 ms"', "")
    (tmp_path / "job.toml").write_text(text)
    job = Running(tmp_path)
    job.until((tmp_path / "out").exists)
    to_group(job, signal.SIGTERM)
    stopped_well(job)
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("send", [to_group, to_all])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("phase", [just_begun, starting, amid_a_batch, waiting_for_rows, None])
def test_ten_stops_of_each_kind(
    phase: Callable[[Running], None] | None, number: int, send: Callable[[Running, int], None], tmp_path: Path
):
    draw = random.Random(f"{phase} {number} {send}")
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        put(folder, 2)
        job = Running(folder)
        if phase is None:
            time.sleep(draw.uniform(0, 12))
        else:
            phase(job)
        send(job, number)
        if draw.random() < 0.3:  # more than one signal, as `timeout` sends
            send(job, number)
        stopped_well(job)
        again = Running(folder, available_now=True)
        assert again.end()[0] == 0
        assert whole(folder) == expected(2)
