"""Jobs in this process that join a stream with a table, which may change meanwhile."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from slidejoin.cli.embedded import explain_embedded, prepared
from slidejoin.cli.jobfile import read_job_text
from slidejoin.errors import ConfigError, MemoryLimitError
from slidejoin.pipeline.run import JobPipeline
from slidejoin.pipeline.tables import check_room
from tests.pipeline.jobs import put, run
from tests.pipeline.test_every_step import Steps, ended_after

if TYPE_CHECKING:
    from pathlib import Path

JOB = """
sources.a = { format = "parquet", path = "a", max_files_per_trigger = 1 }
sources.rates = { format = "csv", path = "rates.csv", schema = "low BIGINT, high BIGINT, rate INT", table = true }
join.left = "a"
join.right = "rates"
join.on = "l.id BETWEEN r.low AND r.high"
sink = { format = "parquet", path = "out", checkpoint = "checkpoint" }
"""
AGAIN = JOB.replace("table = true", 'table = true, refresh = "0 seconds"')
OF_DELTA = JOB.replace('"csv", path = "rates.csv", schema = "low BIGINT, high BIGINT, rate INT"', '"delta", path = "d"')

FILES, ROWS = 5, 4
COMMAND = [sys.executable, "-c", "from slidejoin.cli import main; main()", "run", "job.toml", "--json"]


def put_ids(folder: Path, first: int, last: int) -> None:
    """Write files of the stream, with ids up to what all files before have."""
    for number in range(first, last):
        put(folder, "a", number, pa.table({"id": range(number * ROWS, (number + 1) * ROWS)}))


def put_rates(folder: Path, number: int) -> None:
    """Replace both tables by ones whose rates say which version they are, and of which each id has one row."""
    new = folder / "rates.new"
    new.write_text(f"0,5,{10 * number}\n6,999,{10 * number + 1}\n" + "\n" * number)
    new.replace(folder / "rates.csv")
    write_deltalake(
        folder / "d",
        pa.table({"low": [0, 6], "high": [5, 999], "rate": pa.array([10 * number, 10 * number + 1], pa.int32())}),
        mode="overwrite",
    )


def rated(folder: Path) -> list[tuple[int, int]]:
    """Return each id with its rate."""
    files = [file for file in (folder / "out").glob("*.parquet") if not file.name.startswith(".")]
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted((row["id"], row["rate"]) for row in rows)


def versions(folder: Path) -> list[int]:
    """Return the version of the table that each micro-batch has met, of which each is a file, and check the rates."""
    rows = rated(folder)
    assert [one for one, _ in rows] == list(range(len(rows)))
    assert all(rate % 10 == (one > 5) for one, rate in rows)
    of_files = [{rate // 10 for _, rate in rows[n : n + ROWS]} for n in range(0, len(rows), ROWS)]
    assert all(len(its) == 1 for its in of_files)
    return [one for its in of_files for one in its]


def test_every_row_of_the_stream_meets_the_table(tmp_path: Path):
    put_ids(tmp_path, 0, 2)
    put_rates(tmp_path, 3)
    done = run(tmp_path, JOB)
    assert (done.totals.batches, done.totals.rows_in, done.totals.rows_out) == (2, 8, 8)
    assert rated(tmp_path) == [(n, 30 + (n > 5)) for n in range(8)]
    # It is read again as the job starts, and its predicate may be another one.
    put_rates(tmp_path, 4)
    put_ids(tmp_path, 2, 3)
    run(tmp_path, JOB.replace("r.high", "r.high + 0"))
    assert rated(tmp_path)[8:] == [(n, 41) for n in range(8, 12)]
    # No rows, no micro-batch.
    put_rates(tmp_path, 5)
    assert run(tmp_path, JOB).totals.batches == 0


SHAPES: dict[str, tuple[str, list[Any]]] = {
    "left": (
        'join.how = "left"\njoin.select = ["r.rate", "l.id"]',
        [{"rate": [7, None][n > 1], "id": n} for n in range(4)],
    ),
    "semi": ('join.how = "left_semi"', [{"id": 0}, {"id": 1}]),
    "anti": ('join.how = "left_anti"', [{"id": 2}, {"id": 3}]),
    "count": (
        'join.output = "count"\njoin.select = ["l.id", "r.rate"]',
        [{"side": "left", "id": n, "rate": None, "match_count": int(n < 2)} for n in range(4)],
    ),
    "aggregates": (
        'join.output = { n = "count", most = "max(r.rate)" }',
        [{"id": n, "n": int(n < 2), "most": [7, None][n > 1]} for n in range(4)],
    ),
    "nearest": (
        'join.how = "left"\njoin.keep = { left = "l.id", right = "r.low" }\njoin.select = ["l.id", "r.low"]',
        [{"id": n, "low": [0, None][n > 1]} for n in range(4)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_what_a_row_of_the_stream_produces(name: str, tmp_path: Path):
    put_ids(tmp_path, 0, 1)
    (tmp_path / "rates.csv").write_text("0,1,7\n")
    more, rows = SHAPES[name]
    run(tmp_path, JOB.replace("sink =", f"{more}\nsink ="))
    (file,) = (tmp_path / "out").glob("*.parquet")
    assert pq.ParquetFile(file).read().to_pylist() == rows


MIRRORED = JOB.replace('left = "a"', 'left = "rates"').replace('right = "rates"', 'right = "a"')
MIRRORED = MIRRORED.replace("l.id BETWEEN r.low AND r.high", "r.id BETWEEN l.low AND l.high")


def test_the_table_may_be_the_left_source(tmp_path: Path):
    put_ids(tmp_path, 0, 1)
    (tmp_path / "rates.csv").write_text("0,1,7\n")
    run(tmp_path, MIRRORED.replace("sink =", 'join.how = "right"\nsink ='))
    (file,) = (tmp_path / "out").glob("*.parquet")
    assert pq.ParquetFile(file).read().to_pylist() == [
        {"low": [0, None][n > 1], "high": [1, None][n > 1], "rate": [7, None][n > 1], "id": n} for n in range(4)
    ]
    counted = MIRRORED.replace("sink =", 'join.output = "count"\njoin.select = ["r.id"]\nsink =')
    run(tmp_path, counted.replace('"out"', '"counts"').replace('"checkpoint"', '"other"'))
    (file,) = (tmp_path / "counts").glob("*.parquet")
    assert pq.ParquetFile(file).read().to_pylist() == [
        {"side": "right", "id": n, "match_count": int(n < 2)} for n in range(4)
    ]


def test_two_tables_without_a_window(tmp_path: Path):
    put_ids(tmp_path, 0, 2)
    put_rates(tmp_path, 1)
    text = JOB.replace("max_files_per_trigger = 1", "table = true").replace(', checkpoint = "checkpoint"', "")
    assert run(tmp_path, text).totals.rows_out == 8
    assert rated(tmp_path) == [(n, 10 + (n > 5)) for n in range(8)]


@pytest.mark.parametrize("text", [AGAIN, OF_DELTA], ids=["files", "delta"])
def test_a_table_is_read_again_between_micro_batches(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    put_ids(tmp_path, 0, FILES)
    put_rates(tmp_path, 0)
    join_one, joined = JobPipeline._join_one, []

    def changed(pipeline: Any, arrived: Any) -> None:
        join_one(pipeline, arrived)
        joined.append(arrived)
        put_rates(tmp_path, len(joined))

    monkeypatch.setattr(JobPipeline, "_join_one", changed)
    done = run(tmp_path, text)
    assert done.totals.batches == FILES
    seen = versions(tmp_path)
    assert seen == sorted(seen)
    # Micro-batches are read ahead, so it is not always the newest one.
    assert seen[0] == 0
    assert seen[-1] > 0
    assert [message for message in done.notes if "has changed since" not in message] == []


def test_without_refresh_a_table_is_read_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    put_ids(tmp_path, 0, FILES)
    put_rates(tmp_path, 0)
    join_one = JobPipeline._join_one

    def changed(pipeline: Any, arrived: Any) -> None:
        join_one(pipeline, arrived)
        put_rates(tmp_path, 1)

    monkeypatch.setattr(JobPipeline, "_join_one", changed)
    run(tmp_path, JOB)
    assert versions(tmp_path) == [0] * FILES


def pinned(folder: Path) -> dict[int, int]:
    """Return which version of the Delta table each planned micro-batch meets, as far as its plan says."""
    batches = [file for file in (folder / "checkpoint" / "batches").glob("*") if file.name.isdecimal()]
    plans = {int(file.name): json.loads(file.read_bytes()) for file in batches}
    return {number: plan["rates"][0] for number, plan in plans.items() if plan["rates"] is not None}


@pytest.mark.parametrize("text", [AGAIN, OF_DELTA], ids=["files", "delta"])
def test_a_table_changes_after_a_job_that_ended_at_any_step(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A micro-batch that was planned meets the version of its plan, where Delta has that, and one version always."""
    text += '\nembedded = { snapshot_every = "0 seconds" }'
    step, done = 0, False
    while not done:
        folder = tmp_path / str(step)
        folder.mkdir()
        put_ids(folder, 0, FILES)
        put_rates(folder, 0)
        done = ended_after(Steps(step), monkeypatch, folder, text)
        plans = pinned(folder) if "delta" in text else {}
        committed = rated(folder)
        put_rates(folder, 1)
        again = run(folder, text)
        seen = versions(folder)
        assert (len(seen), seen) == (FILES, sorted(seen)), step
        assert rated(folder)[: len(committed)] == committed, step
        if "delta" in text:
            assert again.notes == [], step
            for number, version in plans.items():
                assert seen[number] == version, step
        step += 3
    assert step > 20


def test_processes_that_are_killed_while_the_table_changes(tmp_path: Path):
    put_ids(tmp_path, 0, 12)
    put_rates(tmp_path, 0)
    (tmp_path / "job.toml").write_text(OF_DELTA + '\nembedded = { snapshot_every = "20 ms" }')
    draw, hits = random.Random(5), 0
    for number in range(1, 3):
        process = subprocess.Popen(COMMAND, cwd=tmp_path, env=os.environ, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert b'"start"' in process.stdout.readline()
        time.sleep(draw.uniform(0, 0.6))
        put_rates(tmp_path, number)
        time.sleep(draw.uniform(0, 0.1))
        hits += process.poll() is None
        process.kill()
        process.communicate()
    done = subprocess.run(COMMAND, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    seen = versions(tmp_path)
    assert (len(seen), seen) == (12, sorted(seen))
    assert hits > 0


def test_what_is_wrong_is_said(tmp_path: Path):
    put_ids(tmp_path, 0, 1)
    put_rates(tmp_path, 0)
    for text, message in (
        (JOB.replace("sink =", 'join.how = "full"\nsink ='), r"join: how = .full. is not for a stream with a table"),
        (MIRRORED.replace("sink =", 'join.how = "left"\nsink ='), r"Use inner, right; or give the stream as left"),
        (JOB.replace('"csv", path = "rates.csv"', '"json", path = "-"'), r"standard input cannot be read again"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(tmp_path, text)
    text = explain_embedded(prepared(read_job_text(AGAIN, tmp_path)), "why")
    assert "a join with a table, the right side: every left row meets all of its rows" in text
    assert f"source rates: static csv files, {tmp_path}/rates.csv, read again every 0 seconds" in text
    assert "result: id int64, low int64, high int64, rate int32" in text
    with pytest.raises(MemoryLimitError, match="the table of 3 rows takes about 216 bytes with its index, and 100 byt"):
        check_room(pa.table({"a": [1, 2, 3]}), 100)
