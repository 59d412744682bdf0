"""Job files in this process: what they write, report and refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.test_run import JOB, START, expected, found, job, put

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.shell import Shell

HERE = JOB.partition("[spark]")[0]


def test_a_job_goes_on_where_it_was(slidejoin: Shell, tmp_path: Path):
    """As on Spark, see test_run."""
    put(tmp_path, 0)
    put(tmp_path, 1)
    first = slidejoin("run", job(tmp_path, HERE), "--json")
    assert (first.status, first.err) == (0, "")
    start, *batches, done = first.events()
    why = "nothing in the job file needs Spark"
    assert start == {"event": "start", "job": "job", "batches": 2, "engine": "embedded", "why": why}
    assert [(batch["number"], batch["rows_in"], batch["rows_out"]) for batch in batches] == [(0, 8, 3), (1, 8, 3)]
    assert batches[0]["event_time"] == "2024-05-01T00:30:00.000Z"
    assert (done["batches"], done["rows_in"], done["rows_out"], done["stopped"]) == (2, 16, 6, False)
    assert found(tmp_path) == expected(2)

    put(tmp_path, 2)
    second = slidejoin("run", job(tmp_path, HERE))
    assert second.status == 0
    lines = second.out.splitlines()
    assert lines[0] == f"job: in this process: {why}"
    assert lines[1].startswith("job: batch 2: 8 rows in, 3 out")
    assert lines[2].startswith("job: done, 8 rows in, 3 rows out, 1 micro-batch, ")
    assert found(tmp_path) == expected(3)
    schema = pq.read_schema(next((tmp_path / "out").glob("*.parquet")))
    assert schema.names == ["id", "cents_right", "match_time"]
    assert schema.field("match_time").type == pa.timestamp("us", "UTC")

    again = slidejoin("run", job(tmp_path, HERE), "--json")
    assert [event["event"] for event in again.events()] == ["start", "done"]
    assert found(tmp_path) == expected(3)


def test_lost_rows_are_counted_and_said(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 3)
    put(tmp_path, 0)  # its files were modified before
    late = tmp_path / "trips" / "late.parquet"
    pq.write_table(pa.table({"id": [99], "cents": [100], "ts": [START]}), late)
    (tmp_path / "quotes" / "9.csv").write_text("price,at\n1.5,noon\n2.0\nx,2024-05-01T09:00:00Z\n")
    ran = slidejoin("run", job(tmp_path, HERE.replace("price > 0", "price IS NULL OR price > 0")), "--json")
    assert (ran.status, ran.err) == (0, "")
    done = ran.events()[-1]
    assert (done["late_rows"], done["null_time_rows"], done["bad_rows"]) == (1, 2, 3)
    notes = [event["message"] for event in ran.events() if event["event"] == "note"]
    assert notes[0].startswith("warning: the left side holds the watermark at 2024-05-01T03:30:00.000Z: the right side")
    notes = notes[1:]
    assert [note.partition(" of ")[0] for note in notes] == ["warning: 1 row", "warning: 2 rows", "warning: 3 rows"]
    assert "late and dropped: below the watermark. If rows come out of order, raise lateness" in notes[0]
    assert "of source quotes in micro-batch 2 not as sources.quotes.schema says" in notes[2]


def test_a_static_job_writes_once(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    text = HERE.replace("max_files_per_trigger = 1", "table = true").replace('checkpoint = "checkpoint"', "")
    text = text.replace("[join]", '[join]\nhow = "left"').replace('"parquet"\npath = "out"', '"json"\npath = "out"')
    ran = slidejoin("run", job(tmp_path, text), "--json")
    assert (ran.status, ran.err) == (0, "")
    done = ran.events()[-1]
    assert (done["batches"], done["rows_in"], done["rows_out"]) == (1, 8, 5)
    rows = [json.loads(line) for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted((row["id"], row.get("cents_right"), row["match_time"]) for row in rows if row["id"] < 2) == [
        (0, 150, "2024-05-01T00:00:00.000Z"),
        (1, 150, "2024-05-01T00:01:00.000Z"),
        (1, 200, "2024-05-01T00:11:00.000Z"),
    ]
    assert {row["id"] for row in rows if "cents_right" not in row} == {2, 3}
    again = slidejoin("run", job(tmp_path, text))
    assert again.status == 2
    assert again.err == (
        f"slidejoin: sink.path: {tmp_path}/out exists, and a result that is no stream replaces nothing; "
        "give another path.\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.toml", "out", "quotes", "trips"]


def test_the_console(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    text = HERE.partition("[sink]")[0] + '[sink]\nformat = "console"\noptions = { numRows = 2 }\n'
    ran = slidejoin("run", job(tmp_path, text))
    assert (ran.status, ran.err) == (0, "")
    assert "micro-batch 0: 3 rows\n" in ran.out
    assert '{"id":0,"cents_right":150,"match_time":"2024-05-01T00:00:00.000Z"}\n' in ran.out
    assert "only the first 2 rows are shown\n" in ran.out
    assert slidejoin("run", tmp_path / "job.toml", "--json").err.startswith("micro-batch 0: 3 rows\n")


def test_explain(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    result = slidejoin("explain", job(tmp_path, HERE))
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == f"source trips: streaming parquet files, {tmp_path}/trips"
    assert lines[2] == "in this process: nothing in the job file needs Spark"
    assert any(line.startswith("inner join on ") for line in lines)
    assert lines[-2] == "result: id int64, cents_right int64, match_time timestamp[us, tz=UTC]"
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("price > 0", "pric > 0", "sources.quotes.where: there is no column 'pric', which 'pric > 0' names; the colu"),
        ("price * 100 AS", "price * AS", "sources.quotes.columns: 'CAST(price * AS BIGINT) AS cents' is no expressi"),
        ("price DOUBLE", "price DOUBEL", "sources.quotes.schema: Spark has no type 'DOUBEL', which column price has"),
        ('left_on = "ts"', 'left_on = "tss"', "join.window: the left source 'trips' has no column 'tss'; it has id,"),
        ("l.cents BETWEEN", "l.cents = l.id OR l.nothing BETWEEN", "join.on: the left source 'trips' has no column"),
        ("[join]", '[join]\nhow = "left"\nlate = "emit"', 'join.late: "emit" is for output = "pairs" of an inner join'),
        ("[sink]", '[sink]\npartition_by = ["nobody"]', "sink.partition_by: the result has no column 'nobody'; it"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_written(
    old: str, new: str, message: str, slidejoin: Shell, tmp_path: Path
):
    put(tmp_path, 0)
    assert HERE.count(old) == 1
    result = slidejoin("run", job(tmp_path, HERE.replace(old, new)), "--engine", "embedded")
    assert result.status == 2
    assert result.err.startswith(f"slidejoin: {message}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.toml", "quotes", "trips"]


def test_files_that_cannot_be_read_again_end_the_job(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    assert slidejoin("run", job(tmp_path, HERE)).status == 0
    for kind in ("committed", "snapshots"):
        for file in (tmp_path / "checkpoint" / kind).iterdir():
            file.unlink()
    for file in (tmp_path / "out").iterdir():
        file.unlink()
    (tmp_path / "trips" / "00.parquet").touch()
    changed = slidejoin("run", tmp_path / "job.toml")
    assert changed.status == 1
    assert f"sources.trips: {tmp_path}/trips/00.parquet has changed since its rows were planned" in changed.err
    (tmp_path / "trips" / "00.parquet").rename(tmp_path / "trips" / "1.parquet")
    missing = slidejoin("run", tmp_path / "job.toml")
    assert f"sources.trips: {tmp_path}/trips/00.parquet is missing, and a micro-batch that is not" in missing.err


def test_a_checkpoint_is_of_one_join_and_one_engine(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    assert slidejoin("run", job(tmp_path, HERE)).status == 0
    other = slidejoin("run", job(tmp_path, HERE.replace("10 minutes", "20 minutes")))
    assert other.status == 2
    assert "has the state of another join: join.window was TimeWindow(" in other.err
    spark = slidejoin("run", job(tmp_path, f'engine = "spark"\n{HERE}'))
    assert spark.status == 2
    assert spark.err == (
        f"slidejoin: sink.checkpoint: {tmp_path}/checkpoint is a checkpoint of a job in one process, which Spark "
        'cannot read; write engine = "embedded", or give another checkpoint and another path for the results.\n'
    )
    new = slidejoin("run", job(tmp_path, HERE.replace('"checkpoint"', '"new"')))
    assert new.status == 2
    assert f"sink.path: {tmp_path}/out has files already, and the checkpoint has no micro-batch" in new.err
    (tmp_path / "of_spark" / "offsets").mkdir(parents=True)
    text = HERE.replace('"checkpoint"', '"of_spark"')
    refused = slidejoin("run", job(tmp_path, text), "--engine", "embedded")
    assert refused.status == 2
    assert f"sink.checkpoint: {tmp_path}/of_spark is a checkpoint of Spark, which a job in one process" in refused.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_job_at_the_end_of_a_micro_batch(number: int, tmp_path: Path):
    put(tmp_path, 0)
    job(tmp_path, HERE + '\ntrigger = "100 ms"\n')
    command = [sys.executable, "-c", "from slidejoin.cli import main; main()", "run", "job.toml", "--json"]
    process = subprocess.Popen(command, cwd=tmp_path, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    # At its end a command that has failed says no more.
    assert any(b'"batch"' in line for line in process.stdout)
    put(tmp_path, 1)
    assert any(b'"number": 1' in line for line in process.stdout)
    process.send_signal(number)
    rest, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")
    last = json.loads(rest.splitlines()[-1])
    assert (last["event"], last["stopped"]) == ("done", True)
    assert found(tmp_path) == expected(2)


@pytest.mark.parametrize("more", ["", 'how = "full"\npair_id = true'])
def test_the_command_loads_nothing_that_the_job_does_not_need(more: str, tmp_path: Path):
    put(tmp_path, 0)
    plain = HERE.replace('columns = ["CAST(price * 100 AS BIGINT) AS cents", "at"]', "").replace(
        'where = "price > 0"', ""
    )
    text = plain.replace("r.cents", "r.price").replace("[join]", f"[join]\n{more}")
    file = job(tmp_path, text.replace('"parquet"\npath = "out"', '"json"\npath = "out"') if more else text)
    slow = {"asyncio", "confluent_kafka", "duckdb", "deltalake", "pandas", "py4j", "pyspark", "rich", "typer"}
    code = (
        f"import sys\nfrom slidejoin.cli import main\nsys.argv = ['slidejoin', 'run', {str(file)!r}]\n"
        "try:\n    main()\nexcept SystemExit as left:\n    assert left.code == 0\n"
        f"print(sorted({slow!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


PIPE = """
sources.a = { format = "json", path = "-", schema = "id BIGINT, k INT, ts TIMESTAMP" }
join = { self_join = "a", on = "l.k = r.k", select = ["l.id", "r.id"], window = { length = "1 minute", on = "ts" } }
sink = { format = "json", path = "-" }
"""


def piped(folder: Path, text: str, data: bytes) -> tuple[int, bytes, str]:
    (folder / "job.toml").write_text(text)
    command = [sys.executable, "-c", "from slidejoin.cli import main; main()", "run", "job.toml"]
    done = subprocess.run(command, cwd=folder, input=data, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def test_standard_input_and_output(tmp_path: Path):
    rows = [{"id": n, "k": n % 2, "ts": f"2026-01-01T00:00:{n:02}Z"} for n in range(4)]
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    status, out, said = piped(tmp_path, PIPE, lines + b'\n{"id": "no"}')
    assert status == 0, said
    assert said.splitlines()[0] == "job: in this process: nothing in the job file needs Spark"
    assert "warning: 1 row of source a in micro-batch" in said
    pairs = sorted((row["id"], row["id_right"]) for row in map(json.loads, out.splitlines()))
    assert pairs == [(0, 2), (1, 3), (2, 0), (3, 1)]
    stream = pa.BufferOutputStream()
    table = pa.table({"id": [0, 1], "k": [7, 7], "ts": [START, START]})
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    text = PIPE.replace("json", "arrow").replace(', schema = "id BIGINT, k INT, ts TIMESTAMP"', "")
    status, out, said = piped(tmp_path, text, stream.getvalue().to_pybytes())
    assert status == 0, said
    result = pa.ipc.open_stream(out).read_all()
    assert sorted(zip(result["id"].to_pylist(), result["id_right"].to_pylist(), strict=True)) == [(0, 1), (1, 0)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('path = "-" }', 'path = "-", checkpoint = "c" }', "sink.checkpoint: standard input cannot be read again"),
        (
            '"json", path = "-", schema',
            '"csv", path = "-", schema',
            "sources.a.format: got 'csv', expected \"json\" with",
        ),
        ('sink = { format = "json"', 'sink = { format = "csv"', 'sink.format: expected "json" or "arrow" for standard'),
        ("\nsources", '\nengine = "spark"\nsources', 'sources.a.path: "-" is for jobs in one process, and this one'),
    ],
)
def test_what_standard_input_cannot_be(old: str, new: str, message: str, slidejoin: Shell, tmp_path: Path):
    assert old in PIPE
    result = slidejoin("run", job(tmp_path, PIPE.replace(old, new, 1)))
    assert result.status == 2
    assert message in result.err


def test_a_job_stops_after_a_time(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    ran = slidejoin("run", job(tmp_path, HERE + '\nevery = "10 ms"\nstop_after = "2 seconds"\n'), "--json")
    assert (ran.status, ran.err) == (0, "")
    assert ran.events()[-1]["stopped"] is True
    assert found(tmp_path) == expected(1)
