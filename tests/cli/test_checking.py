"""What is wrong with a job is said before Spark starts, and what Spark may run is left to it."""

from __future__ import annotations

from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidejoin.cli.checking import check_job
from slidejoin.cli.checkpoint import JOIN_FILE, check_earlier_join, keep_join
from slidejoin.cli.jobfile import read_job
from slidejoin.cli.pipeline import planned_batches
from slidejoin.cli.reporting import PlainReporter
from slidejoin.cli.running import _only_one
from slidejoin.errors import ConfigError
from tests.cli.test_command import call

if TYPE_CHECKING:
    from pathlib import Path

    from slidejoin.cli.job import Job

JOB = """
[sources.a]
format = "parquet"
path = "a"

[sources.b]
format = "csv"
path = "b"
schema = "k BIGINT, `when r` TIMESTAMP, price DECIMAL(9, 2), s STRUCT<x: INT, y: INT> COMMENT 'a, b'"
options = { header = true }

[join]
left = "a"
right = "b"
on = "l.k = r.k AND l.x < r.price"
window = { length = "10 minutes", left_on = "ts", right_on = "when r" }

[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "ab":
        (tmp_path / name).mkdir()
    pq.write_table(
        pa.table({"K": [1], "x": [1.5], "ts": [datetime(2026, 1, 1, tzinfo=UTC)]}), tmp_path / "a" / "0.parquet"
    )
    return tmp_path


def written(folder: Path, old: str = "", new: str = "") -> Path:
    assert old in JOB
    file = folder / "job.toml"
    file.write_text(JOB.replace(old, new, 1) if old else JOB)
    return file


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('path = "b"', 'path = "c"', "sources.b.path: nothing at {folder}/c; expected a folder or file of csv."),
        ('path = "a"', 'path = "empty"', "sources.a.path: there is no file in {folder}/empty, whose columns the join"),
        ('path = "a"', 'path = "bad"', "sources.a: {folder}/bad/0.parquet cannot be read as parquet: "),
        ("BIGINT", "BIGNT", "sources.b.schema: Spark has no type 'BIGNT', which column k has. Did you mean 'bigint'?"),
        ("k BIGINT", "k", "sources.b.schema: 'k' is no column with its type; expected a schema in SQL such as"),
        ("k BIGINT,", "k BIGINT,,", "sources.b.schema: '' is no column with its type; expected a schema in SQL"),
        ("l.x <", "l.y <", "join.on: the left source 'a' has no column 'y'; it has K, x, ts."),
        ("r.price", "r.prize", "join.on: the right source 'b' has no column 'prize'; it has k, when r, price, s. Did"),
        ('"when r" }', '"when" }', "join.window: the right source 'b' has no column 'when'; it has k, when r, price"),
        (
            "[sink]",
            'keep = {{ left = "l.ts", right = "r.ts" }}\n[sink]',
            "join.keep: the right source 'b' has no column",
        ),
        ("[sink]", 'select = ["l.k", "r.kk"]\n[sink]', "join.select: the right source 'b' has no column 'kk'"),
        ('path = "a"', 'path = "a"\ncolumns = ["* EXCEPT (x)"]', "join.on: the left source 'a' has no column 'x'; it"),
        ("l.k = r.k AND", "l.k = AND", "join: cannot read the predicate at 'AND'"),
    ],
)
def test_mistakes_are_said_before_spark_starts(
    folder: Path, old: str, new: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").mkdir()
    (folder / "bad").mkdir()
    (folder / "bad" / "0.parquet").write_text("not parquet at all")
    monkeypatch.setattr("slidejoin.cli.running.spark_session", None)
    file = written(folder, old, new.replace("{{", "{").replace("}}", "}"))
    for command in ("run", "explain"):
        assert call(command, str(file)) == 2
        told = capsys.readouterr().err
        assert message.format(folder=folder) in told
        assert "Traceback" not in told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("l.x <", "L.X <"),
        ("l.x <", "l.`X` <"),
        ('path = "b"', 'path = "b*"'),
        ('path = "a"', 'path = "s3a://bucket/a"'),
        ("BIGINT", "GEOMETRY(4326)"),
        ('schema = "k BIGINT,', 'schema = "struct<k: BIGINT>,'),
        ('path = "a"', 'path = "days"'),
        ('path = "a"', 'path = "mixed"'),
        ('path = "a"', 'path = "linked"'),
        ("k BIGINT,", "k BIGINT /* a, b */,"),
        ('"k BIGINT,', '"k BIGINT -- a, b\\n,'),
        ('path = "a"', 'path = "a"\ncolumns = ["*", "explode(z) AS y", "x + 1"]'),
        ('path = "a"', 'path = "a"\ncolumns = ["k", "ts", "CAST(x AS DOUBLE) AS x"]'),
        ('path = "a"', 'path = "a"\noptions = { mergeSchema = true }'),
    ],
)
def test_what_spark_may_run_is_left_to_it(folder: Path, old: str, new: str) -> None:
    whole = pa.table({"k": [1], "ts": [datetime(2026, 1, 1, tzinfo=UTC)]})
    for name, inner in (("days", "x=1"), ("mixed", ".")):
        (folder / name / inner).mkdir(parents=True)
        pq.write_table(whole, folder / name / inner / "0.parquet")
    (folder / "mixed" / "1.parquet").write_text("being written")
    (folder / "linked").mkdir()
    (folder / "linked" / "to").symlink_to(folder / "a")
    check_job(read_job(written(folder, old, new)))


@pytest.mark.parametrize(
    "session",
    ['master = "yarn"', 'conf = { "spark.hadoop.fs.defaultFS" = "hdfs://nn:8020" }', 'master = "spark://host:7077"'],
)
def test_folders_of_a_cluster_are_not_looked_for_here(folder: Path, session: str) -> None:
    text = JOB.replace('path = "a"', 'path = "/warehouse/a"').replace('path = "b"', 'path = "/warehouse/b"')
    (folder / "job.toml").write_text(f"{text}\n[spark]\n{session}\n")
    job = read_job(folder / "job.toml")
    before = sorted(folder.rglob("*"))
    keep_join(job, check_job(job), new=True)
    with _only_one(job, PlainReporter(), Event()) as lock:
        assert lock is None
    assert sorted(folder.rglob("*")) == before
    assert planned_batches(job) is None
    (folder / "job.toml").write_text(f"{text.replace('BIGINT', 'BIGNT')}\n[spark]\n{session}\n")
    with pytest.raises(ConfigError, match="Spark has no type 'BIGNT'"):  # what the file shows is said
        check_job(read_job(folder / "job.toml"))


def test_paths_go_up_as_spark_goes_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the letters of a path, where the system goes up from the folder that a link leads to."""
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "link").symlink_to("deep/er")
    text = JOB.replace('path = "a"', 'path = "../a"').replace('path = "b"', 'path = "~nosuchuser/b"')
    (folder / "link" / "job.toml").write_text(text)
    sources = read_job(folder / "link" / "job.toml").sources
    assert [source.path for source in sources.values()] == [f"{folder}/a", f"{folder}/link/~nosuchuser/b"]
    monkeypatch.setenv("HOME", str(folder))
    (folder / "job.toml").write_text(text.replace("~nosuchuser", "~"))
    assert read_job(folder / "job.toml").sources["b"].path == f"{folder}/b"


def check_all(job: Job) -> None:
    check_earlier_join(job, check_job(job))


def test_a_checkpoint_of_another_join(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Also where there are no new rows, so that no micro-batch would compare the state."""
    monkeypatch.setattr("slidejoin.cli.running.spark_session", None)
    first = read_job(written(folder))
    keep_join(first, check_job(first), new=True)
    (folder / "checkpoint" / "commits").mkdir()
    other = written(folder, "10 minutes", "20 minutes")
    check_all(read_job(other))  # no micro-batch has ended
    (folder / "checkpoint" / "commits" / "0").touch()
    assert call("run", str(other)) == 2
    told = capsys.readouterr().err
    assert f"sink.checkpoint: {folder}/checkpoint has the state of another join: join.window was TimeWindow(" in told
    assert "Write in the job file what it was, or give another checkpoint and another path for the results." in told
    with pytest.raises(ConfigError, match=r"join\.on was l\.k = r\.k AND l\.x < r\.price and is now l\.k = r\.k"):
        check_all(read_job(written(folder, " AND l.x < r.price", "")))
    for old, new in (("", ""), ("l.k = r.k", "L.K = R.k"), ("[sink]", 'select = ["l.x"]\n[sink]')):
        check_all(read_job(written(folder, old, new)))
    second = read_job(written(folder, "10 minutes", "20 minutes"))
    for begins in (True, False):  # a state keeps its join
        keep_join(second, check_job(first), new=begins)
    with pytest.raises(ConfigError, match="has the state of another join"):
        check_all(second)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2, "join": {}}', '{"format": 1, "join": {"join.on": 1', "[" * 9999]
)
def test_a_damaged_note_says_nothing(folder: Path, text: str) -> None:
    job = read_job(written(folder))
    (folder / "checkpoint" / "commits").mkdir(parents=True)
    (folder / "checkpoint" / "commits" / "0").touch()
    (folder / "checkpoint" / JOIN_FILE).write_text(text)
    spec = check_job(job)
    keep_join(job, spec, new=False)
    check_all(job)
    with pytest.raises(ConfigError, match="has the state of another join"):
        check_all(read_job(written(folder, "10 minutes", "20 minutes")))
