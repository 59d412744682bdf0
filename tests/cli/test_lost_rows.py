"""Rows that a job drops are counted and said, in lines for people and for machines."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidejoin.cli.job import Source
from slidejoin.cli.pipeline import counts_bad_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.shell import Shell

LATE = 210
JOB = """
sources.a = { format = "parquet", path = "a", max_files_per_trigger = 1 }
sources.b = { format = "csv", path = "b", schema = "k BIGINT, ts TIMESTAMP", max_files_per_trigger = 1 }
join = { left = "a", right = "b", on = "l.k = r.k", select = ["l.k"], window = { length = "1 minute", on = "ts" } }
sink = { format = "noop" }
spark = { master = "local[1]", conf = { "spark.sql.shuffle.partitions" = "2" } }
"""


def put(folder: Path, number: int, at: datetime, rows: int, lines: str) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir(exist_ok=True)
    table = pa.table({"k": range(rows), "ts": [at + timedelta(milliseconds=n) for n in range(rows)]})
    pq.write_table(table, folder / "a" / f"{number}.parquet")
    (folder / "b" / f"{number}.csv").write_text(lines)
    for file in (folder / "a" / f"{number}.parquet", folder / "b" / f"{number}.csv"):
        os.utime(file, (time.time() - 1000 + number,) * 2)


@pytest.mark.spark
def test_late_rows_do_not_vanish(slidejoin: Shell, tmp_path: Path):
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    put(tmp_path, 0, noon, 3, "0,2026-01-01T12:00:00Z\nzero,2026-01-01T12:00:00Z\n1,\n2,\n")
    put(tmp_path, 1, noon - timedelta(hours=5), LATE, "5,2026-01-01T12:00:01Z\n")
    (tmp_path / "job.toml").write_text(JOB)
    ran = slidejoin("run", tmp_path / "job.toml", "--json")
    assert (ran.status, ran.err) == (0, "")
    events = ran.events()
    first, second = (event for event in events if event["event"] == "batch")
    assert [first[name] for name in ("rows_in", "late_rows", "null_time_rows", "bad_rows")] == [7, 0, 2, 1]
    assert [second[name] for name in ("rows_in", "late_rows", "null_time_rows", "bad_rows")] == [LATE + 1, LATE, 0, 0]
    done = events[-1]
    assert [done[name] for name in ("rows_in", "late_rows", "null_time_rows", "bad_rows")] == [LATE + 8, LATE, 2, 1]
    notes = [event["message"] for event in events if event["event"] == "note"]
    assert [note.partition(" of ")[0] for note in notes] == ["warning: 2 rows", "warning: 1 row", "warning: 210 rows"]
    assert "of source b in micro-batch 0 not as sources.b.schema says" in notes[1]
    assert "of micro-batch 1 late and dropped: below the watermark, 2026-01-01T12:00:00.000Z. If rows" in notes[2]
    assert 'raise lateness in [join.window], now "0 ' in notes[2]


@pytest.mark.parametrize(
    ("source", "counted"),
    [
        (Source("a", "csv", "a", schema="x INT"), True),
        (Source("a", "json", "a", schema="x INT", options={"MODE": "permissive"}), True),
        (Source("a", "json", "a", schema="x INT", options={"mode": "FAILFAST"}), False),
        (Source("a", "csv", "a", schema="x INT", options={"columnNameOfCorruptRecord": "bad"}), False),
        (Source("a", "csv", "a", schema="STRUCT<x: INT>"), False),
        (Source("a", "parquet", "a"), False),
    ],
)
def test_bad_rows_are_counted_where_spark_makes_nulls_of_them(source: Source, counted: bool):
    assert counts_bad_rows(source) is counted
