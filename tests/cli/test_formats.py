"""Formats that have no keys of their own are passed on to Spark by their names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.shell import Shell

pytestmark = pytest.mark.spark

JOB = """
sources.a = {{ {source} }}
join = {{ self_join = "a", on = "l.x < r.x", window = {{ length = "1 minute", on = "{time}" }} }}
sink = {{ {sink} }}
spark = {{ master = "local[1]", conf = {{ "spark.sql.shuffle.partitions" = "1" }} }}
"""


def job(folder: Path, source: str, sink: str = 'format = "console"', time: str = "ts") -> Path:
    (folder / "job.toml").write_text(JOB.format(source=source, sink=sink, time=time))
    return folder / "job.toml"


def test_files_of_another_format_are_read_and_written(slidejoin: Shell, tmp_path: Path):
    (tmp_path / "in").mkdir()
    rows = {"x": [1, 2, 3], "ts": [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=n) for n in range(3)]}
    pyarrow.orc.write_table(pa.table(rows), tmp_path / "in" / "1.orc")
    sink = 'format = "orc", path = "out", checkpoint = "checkpoint", trigger = "once"'
    ended = slidejoin("run", job(tmp_path, 'format = "orc", path = "in"', sink), "--json")
    assert ended.status == 0, ended.err
    assert ended.events()[-1]["rows_out"] == 3
    files = [pyarrow.orc.read_table(file) for file in (tmp_path / "out").glob("*.orc")]
    pairs = {(row["x"], row["x_right"]) for file in files for row in file.to_pylist()}
    assert pairs == {(1, 2), (1, 3), (2, 3)}


def test_what_is_passed_on_is_said(slidejoin: Shell, tmp_path: Path):
    source = 'format = "rate", options = { rowsPerSecond = 3 }, columns = ["value AS x", "timestamp AS ts"]'
    sink = 'format = "noop", every = "2 seconds", stop_after = "1 minute"'
    explained = slidejoin("explain", job(tmp_path, source, sink))
    assert explained.status == 0, explained.err
    assert "source a: streaming rate rows, as Spark's format of that name reads them" in explained.out
    assert "sink: noop; every 2 seconds; stops after 1 minute" in explained.out


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            'format = "kafka", brokers = "x:1", topics = "t", schema = "x INT, ts TIMESTAMP"',
            "sources.a.format: Spark has no format 'kafka' of its own: write packages = \"auto\" in [spark], for org",
        ),
        (
            'format = "no.such.format"',
            "sources.a.format: Spark has no format 'no.such.format': give its connector in [sp",
        ),
    ],
)
def test_a_missing_connector_is_one_sentence(slidejoin: Shell, tmp_path: Path, source: str, message: str):
    ended = slidejoin("run", job(tmp_path, source))
    assert ended.status == 2
    assert message in ended.err
    assert ended.err.count("\n") == 1


def test_a_table_is_read_again(slidejoin: Shell, tmp_path: Path):
    """A stream of numbers meets a table of files that has `refresh`."""
    for name in ("stream", "table"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"x": [1, 2], "name": ["a", "b"]}), tmp_path / name / "1.parquet")
    (tmp_path / "job.toml").write_text("""
        sources.a = { format = "parquet", path = "stream" }
        sources.b = { format = "parquet", path = "table", table = true, refresh = "10 minutes" }
        join = { left = "a", right = "b", on = "l.x >= r.x", select = ["l.x", "r.name"] }
        sink = { format = "parquet", path = "out", checkpoint = "checkpoint" }
        spark = { master = "local[1]", conf = { "spark.sql.shuffle.partitions" = "1" } }
    """)
    explained = slidejoin("explain", tmp_path / "job.toml")
    assert (
        "sent to every node, as stream_join is called and, if it has changed, every 10 minutes: x, name"
        in explained.out
    )
    ended = slidejoin("run", tmp_path / "job.toml", "--json")
    assert ended.status == 0, ended.err
    rows = [row for file in (tmp_path / "out").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert sorted((row["x"], row["name_right"]) for row in rows) == [(1, "a"), (2, "a"), (2, "b")]
