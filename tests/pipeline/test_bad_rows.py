"""Rows that are not joined, bad and late ones, in sinks of their own: each once, whenever a job ends."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from slidejoin.cli.engine import chosen_engine
from slidejoin.cli.jobfile import read_job_text
from slidejoin.errors import ConfigError, SlideJoinError
from tests.pipeline.jobs import JOB as PARQUET
from tests.pipeline.jobs import START, pairs, put, run
from tests.pipeline.test_every_step import Steps, ended_after

if TYPE_CHECKING:
    from pathlib import Path

JOB = """
sources.a = { format = "json", path = "a", schema = "id BIGINT, k INT, ts TIMESTAMP", max_files_per_trigger = 1, BAD }
join = { self_join = "a", on = "l.k = r.k", select = ["l.id", "r.id"], window = { length = "1 hour", on = "ts" } }
sink = { format = "parquet", path = "out", checkpoint = "checkpoint" }
"""
UNREAD = 'bad_rows = { format = "parquet", path = "unread" }'
TO_FILES = JOB.replace("BAD", UNREAD)
TO_DELTA = JOB.replace("BAD", 'bad_rows = { format = "delta", path = "unread" }')
FILES = 3


def at(second: int) -> str:
    return (START + timedelta(seconds=second)).isoformat()


def put_lines(folder: Path) -> list[tuple[str, int, bytes, str]]:
    """Write files with a good row, and after it bad ones, of which the last has no end; return these."""
    (folder / "a").mkdir()
    unread = []
    for number in range(FILES):
        good = json.dumps({"id": number, "k": 1, "ts": at(number)}).encode()
        bad = {
            b'{"id": "x", "k": 1}': 'id is not int64: "x"',
            b"nothing \xff": "not JSON",
            b"[1]": "no object of JSON",
            b'{"id": 1, "k": 3000000000}': "k is not int32: 3000000000",
        }
        path = folder / "a" / f"{number}.json"
        path.write_bytes(good + b"\n\n" + b"\n".join(bad))
        os.utime(path, (int(time.time()) - 1000 + number,) * 2)
        unread += [(str(path), line, value, why) for line, (value, why) in enumerate(bad.items(), start=3)]
    return unread


def as_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def unread_in(folder: Path) -> list[tuple[Any, ...]]:
    if DeltaTable.is_deltatable(str(folder / "unread")):
        return sorted(as_rows(DeltaTable(folder / "unread").to_pyarrow_table()))
    files = [one for one in (folder / "unread").glob("*.parquet") if not one.name.startswith(".")]
    return sorted(row for one in files for row in as_rows(pq.ParquetFile(one).read()))


@pytest.mark.parametrize("text", [TO_FILES, TO_DELTA], ids=["files", "delta"])
def test_bad_rows_are_written_once_whenever_a_job_ends(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    step, done, folder = 0, False, tmp_path
    while not done:
        folder = tmp_path / str(step)
        folder.mkdir()
        unread = put_lines(folder)
        done = ended_after(Steps(step), monkeypatch, folder, text)
        before = unread_in(folder)
        assert len(set(before)) == len(before)
        run(folder, text)
        assert unread_in(folder) == unread, step
        assert pairs(folder) == [(a, b) for a in range(FILES) for b in range(FILES) if a != b], step
        step += 3
    assert step > 20
    schema = pa.schema([("file", pa.string()), ("line", pa.int64()), ("value", pa.binary()), ("reason", pa.string())])
    if text == TO_FILES:
        assert {pq.read_schema(one) for one in (folder / "unread").glob("*.parquet")} == {schema}


def test_bad_rows_are_counted_and_dropped_or_end_the_job(tmp_path: Path):
    unread = put_lines(tmp_path)
    written = run(tmp_path, TO_FILES)
    assert (written.totals.rows_in, written.totals.bad_rows, written.totals.rows_out) == (5 * FILES, len(unread), 6)
    (note,) = written.notes
    assert note.startswith("warning: 4 records of source a in micro-batch 0 cannot be read, and written to ")
    dropped = JOB.replace("BAD", 'bad_rows = "drop"').replace('"out"', '"b"').replace('"checkpoint"', '"c"')
    assert run(tmp_path, dropped).totals.rows_out == 6
    with pytest.raises(
        SlideJoinError, match=r"row 2 of sources.a: .*0.json is not as its schema says, and mode is FAIL"
    ):
        run(tmp_path, dropped.replace('"drop"', '"fail"').replace('"b"', '"d"').replace('"c"', '"e"'))


def test_bad_rows_of_csv_have_lines_and_bytes(tmp_path: Path):
    (tmp_path / "a").mkdir()
    lines = [
        b"id,k,ts",
        b'0,1,"2026-01-01T00:00:00Z"',
        b'1,"1\n2",2026-01-01T00:00:00Z',
        b"2",
        b"",
        b"3,1,2026-01-01T00:00:01Z",
        b"4,1,\xe4",
    ]
    (tmp_path / "a" / "0.csv").write_bytes(b"\r\n".join(lines))
    text = TO_FILES.replace("json", "csv").replace(
        "max_files", "options = { header = true, multiLine = true }, max_files"
    )
    assert run(tmp_path, text).totals.rows_out == 2
    assert [row[1:] for row in unread_in(tmp_path)] == [
        (3, lines[2], "k is not int32: 1\n2"),
        (5, b"2", "it has 1 of 3 columns"),
        (8, lines[6], "ts is not timestamp[us, tz=UTC]: \ufffd"),
    ]
    to_csv = text.replace('{ format = "parquet", path = "unread" }', '{ format = "csv", path = "texts" }')
    run(tmp_path, to_csv.replace('"out"', '"b"').replace('"checkpoint"', '"c"'))
    (written,) = (tmp_path / "texts").glob("*.csv")
    assert ',5,"Mg==","it has 1 of 3 columns"\n' in written.read_text()


LATE = PARQUET.replace('"1 minute"', '"1 second"') + 'join.late = { format = "json", path = "late" }\n'


def test_late_rows_in_a_sink_of_their_own(tmp_path: Path):
    for number, second in enumerate((0, 100, 10)):
        for name in "ab":
            times = pa.array([START + timedelta(seconds=second)], pa.timestamp("us", "UTC"))
            put(tmp_path, name, number, pa.table({"id": [number], "k": [1], "ts": times}))
    done = run(tmp_path, LATE)
    assert (done.totals.rows_out, done.totals.late_rows) == (2, 2)
    assert pairs(tmp_path) == [(0, 0), (1, 1)]
    (file,) = (tmp_path / "out").glob("part-00000*")
    assert pq.read_schema(file).names == ["id", "id_right", "match_time"]
    late = [json.loads(line) for one in (tmp_path / "late").glob("*.json") for line in one.read_text().splitlines()]
    time_of = "2026-01-01T00:00:10.000Z"
    assert late == [
        {"id": 2, "match_time": time_of, "late_side": "left"},
        {"id_right": 2, "match_time": time_of, "late_side": "right"},
    ]
    with pytest.raises(ConfigError, match=r"join.late: a sink of late rows is for jobs in one process"):
        chosen_engine(read_job_text(LATE, tmp_path), "spark")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "BAD",
            'bad_rows = { format = "orc", path = "u" }',
            r"sources.a.bad_rows.format: 'orc' is written by Spark alone",
        ),
        (
            "BAD",
            'bad_rows = { format = "json", path = "-" }',
            "sources.a.bad_rows.path: standard output is for results",
        ),
        (
            "BAD",
            UNREAD + ', options = { mode = "FAILFAST" }',
            "sources.a.bad_rows: sources.a.options.mode is there too",
        ),
        ('path = "a"', 'path = "-"', r"sources.a.max_files_per_trigger|sources.a.bad_rows: is for files and topics"),
        ("BAD", 'max_wait = "1 second"', "sources.a.max_wait: is for standard input; of what can be read again"),
    ],
)
def test_what_is_wrong_is_said(old: str, new: str, message: str, tmp_path: Path):
    put_lines(tmp_path)
    text = (
        JOB.replace(old, new).replace("BAD", UNREAD).replace(', checkpoint = "checkpoint"' * (new == 'path = "-"'), "")
    )
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, text)
    with pytest.raises(ConfigError, match=r"sources.a.bad_rows: of files is for jobs in one process"):
        chosen_engine(read_job_text(TO_FILES, tmp_path), "spark")
