"""Which engine runs a job, and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidejoin.cli import main
from slidejoin.cli.engine import chosen_engine
from slidejoin.cli.jobfile import read_job_text
from slidejoin.errors import ConfigError, MissingPackageError
from tests.cli.test_command import call

if TYPE_CHECKING:
    from pathlib import Path

JOB = """
sources.a = { format = "parquet", path = "a" }
join.self_join = "a"
join.on = "l.k = r.k"
join.window = { length = "1 minute", on = "ts" }
sink = { format = "parquet", path = "out", checkpoint = "checkpoint" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    pq.write_table(pa.table({"k": [1], "ts": pa.array([0], pa.timestamp("us", "UTC"))}), tmp_path / "a" / "0.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "name", "why"),
    [
        ("", "", "embedded", "nothing in the job file needs Spark"),
        ("sources", 'engine = "embedded"\nsources', "embedded", 'engine = "embedded"'),
        ("sources", 'engine = "spark"\nsources', "spark", 'engine = "spark"'),
        ("sink =", 'spark = { master = "local[2]" }\nsink =', "spark", "the job file has a table [spark]"),
        (
            'path = "a" }',
            'path = "a", options = { mergeSchema = true } }',
            "spark",
            "options: mergeSchema is understood by",
        ),
        ('path = "a" }', 'path = "s3a://b/a" }', "spark", "sources.a.path: s3a://b/a is read by Spark alone"),
        ('path = "a" }', 'path = "{a,b}" }', "spark", "a,b} is read by Spark alone"),
        ('format = "parquet", path = "a"', 'format = "orc", path = "a"', "spark", "sources.a.format: 'orc' is read by"),
        (
            'path = "a" }',
            'path = "a", columns = ["k", "ts", "uuid()"] }',
            "spark",
            "UUID() in 'uuid()' is computed by Spark",
        ),
        ('path = "a" }', 'path = "a", where = "k / ts > 1" }', "spark", "a division by anything but a number in"),
        (
            'format = "parquet", path = "out"',
            'format = "orc", path = "out"',
            "spark",
            "sink.format: 'orc' is written by",
        ),
        (
            'path = "out"',
            'path = "out", options = { maxRecordsPerFile = 5 }',
            "spark",
            "sink.options: maxRecordsPerFile",
        ),
        ('path = "out"', 'path = "hdfs://n/out"', "spark", "sink.path: hdfs://n/out is reached by Spark alone"),
        ("sink =", "join.pair_id = true\nsink =", "embedded", "nothing in the job file needs Spark"),
    ],
)
def test_the_engine_and_why(old: str, new: str, name: str, why: str, folder: Path):
    job = read_job_text(JOB.replace(old, new, 1), folder)
    chosen = chosen_engine(job)
    assert chosen.name == name
    assert why in chosen.why
    assert (chosen.prepared is not None) == (name == "embedded")
    assert chosen_engine(job, "spark")[:2] == ("spark", "--engine spark")
    if "is" in why:
        with pytest.raises(ConfigError, match=r'Use another one, or write engine = "spark".$'):
            chosen_engine(job, "embedded")


def test_a_checkpoint_says_which_engine_goes_on(folder: Path):
    (folder / "checkpoint" / "offsets").mkdir(parents=True)
    assert chosen_engine(read_job_text(JOB, folder))[:2] == ("spark", "the checkpoint is one of Spark")


def test_a_folder_of_partitions_is_for_spark(folder: Path):
    (folder / "a" / "day=1").mkdir()
    assert "folders of partitions, such as day=1" in chosen_engine(read_job_text(JOB, folder)).why


def test_what_only_this_process_reads(folder: Path):
    arrow = JOB.replace('path = "out"', 'path = "out"').replace(
        'sink = { format = "parquet"', 'sink = { format = "arrow"'
    )
    with pytest.raises(
        ConfigError, match=r"sink.format: 'arrow' is for jobs in one process, and this one runs on Spark"
    ):
        chosen_engine(read_job_text(arrow, folder), "spark")


def test_the_options_of_the_command(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "job.toml").write_text(JOB)
    assert call("run", str(folder / "job.toml"), "--engine", "sparc") == 2
    assert "--engine sparc: expected one of auto, spark, embedded. Did you mean 'spark'?" in capsys.readouterr().err
    assert call("run", str(folder / "job.toml"), "--engine", "embedded", "--master", "local[2]") == 2
    assert "--master local[2]: is of Spark, and --engine embedded runs in this process" in capsys.readouterr().err
    for text, message in (
        ('engine = "flink"', "engine: got 'flink', expected one of auto, spark, embedded."),
        (
            "embedded = { thread = 1 }",
            "embedded.thread: unknown key; the keys here are threads, memory_limit, snapshot_",
        ),
        (
            'embedded = { memory_limit = "2 lots" }',
            "embedded.memory_limit: got '2 lots', expected a number of bytes such",
        ),
    ):
        (folder / "job.toml").write_text(f"{text}\n{JOB}")
        assert call("run", str(folder / "job.toml")) == 2
        assert message in capsys.readouterr().err


def test_a_missing_package_is_a_reason_for_spark(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    job = read_job_text(JOB.replace('path = "a" }', 'path = "a", where = "k > 0" }'), folder)
    chosen = chosen_engine(job)
    assert chosen.name == "spark"
    assert chosen.why.startswith(
        "sources.a: expressions need the package duckdb, which is not installed. Install it: pip"
    )
    with pytest.raises(MissingPackageError, match=r'pip install "slidejoin\[pipeline\]"'):
        chosen_engine(job, "embedded")


def test_the_state_of_a_job_in_one_process_is_not_shown(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "embedded.json").touch()
    with pytest.raises(SystemExit):
        main(["state", str(folder)])
    assert f"{folder} is the checkpoint of a job in one process; state shows those of Spark" in capsys.readouterr().err
