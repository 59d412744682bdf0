from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from slidejoin import Aggregate, Nearest
from slidejoin.cli import pipeline
from slidejoin.cli.job import Job, Session
from slidejoin.cli.jobfile import read_job_text
from slidejoin.cli.pipeline import brief, planned_batches, transient
from slidejoin.cli.session import cores_of, defaults, spark_session
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

JOB = """
sources.a = { format = "parquet", path = "a", max_files_per_trigger = 2 }
join = { self_join = "a", on = "l.x < r.x", window = { length = "1 minute", on = "ts" } }
sink = { format = "parquet", path = "out", checkpoint = "checkpoint" }
"""


def job(folder: Path, text: str = JOB) -> Job:
    return read_job_text(text, folder)


@pytest.fixture
def five_files(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    for name in ("1", "2", "3", "4", "5", ".hidden", "_metadata"):
        (tmp_path / "a" / name).touch()
    return tmp_path


def test_batches_are_known_for_a_fresh_job_over_folders(five_files: Path):
    assert planned_batches(job(five_files)) == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", max_files_per_trigger = 2", ""),
        ('path = "a"', 'path = "a/*"'),
        ('path = "a"', 'path = "s3a://bucket/a"'),
        ('checkpoint = "checkpoint"', 'checkpoint = "checkpoint", trigger = "1 second"'),
    ],
)
def test_batches_are_not_known_otherwise(old: str, new: str, five_files: Path):
    assert old in JOB
    assert planned_batches(job(five_files, JOB.replace(old, new))) is None


def test_batches_are_not_known_after_a_restart(five_files: Path):
    (five_files / "checkpoint" / "offsets").mkdir(parents=True)
    assert planned_batches(job(five_files)) is None


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ('keep = { left = "l.x", right = "r.x", k = 2 }', {"keep": Nearest("l.x", "r.x", k=2)}),
        ('output = { n = "count", s = "sum(r.x)" }', {"output": Aggregate(n="count", s="sum(r.x)")}),
        ('late = "emit"', {"late": "emit"}),
    ],
)
def test_the_join_gets_what_the_file_says(
    written: str, given: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    got: dict[str, object] = {}
    monkeypatch.setattr("slidejoin.spark.stream_join", lambda *_, **options: got.update(options))
    monkeypatch.setattr("slidejoin.spark.explain_join", lambda *_, **options: got.update(explained=options))
    made = job(tmp_path, JOB.replace('self_join = "a",', f'self_join = "a", {written},'))
    pipeline.result_of(made, {"a": None})
    pipeline.explained(made, {"a": None})
    explained = got.pop("explained")
    assert explained == got == {**got, "keep": None, "output": "pairs", "late": "drop", **given}


@pytest.mark.parametrize(
    ("schema", "options", "counted"),
    [
        ("x INT", "{}", True),
        ("x INT -- all", '{ mode = "PERMISSIVE" }', True),
        ("x INT, _corrupt_record STRING", "{}", False),
        ("x INT, `_CORRUPT_RECORD` STRING", "{}", False),
        ("x INT", '{ columnNameOfCorruptRecord = "bad" }', False),
        ("x INT", '{ mode = "FAILFAST" }', False),
        ("struct<x: INT>", "{}", False),
    ],
)
def test_bad_rows_are_counted_unless_the_job_has_them(
    schema: str, options: str, tmp_path: Path, *, counted: bool
) -> None:
    text = JOB.replace('"parquet", path = "a"', f'"json", path = "a", schema = "{schema}", options = {options}')
    source = job(tmp_path, text).sources["a"]
    assert pipeline.counts_bad_rows(source) is counted
    assert pipeline.counts_bad_rows(source, "X") is False  # the name in Spark's settings


def test_a_schema_may_end_in_a_comment() -> None:
    last = pipeline.with_bad_rows("x INT, ts TIMESTAMP -- event time").splitlines()[-1]
    assert last == f", {pipeline.BAD} STRING"


class Written:
    """A streaming result, and its writer, that note what the writer is told."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[object, ...]] = {}
        self.writeStream = self

    def __getattr__(self, name: str) -> Callable[..., Written]:
        def tell(*values: object, **_: object) -> Written:
            self.told[name] = values
            return self

        return tell


def test_files_of_a_stream_may_have_folders_of_their_own(tmp_path: Path):
    result: Any = Written()
    pipeline.writer_of(
        job(tmp_path, JOB.replace('path = "out"', 'path = "out", partition_by = ["late_side", "k"]')), result
    )
    assert result.told["partitionBy"] == ("late_side", "k")
    plain: Any = Written()
    pipeline.writer_of(job(tmp_path), plain)
    assert "partitionBy" not in plain.told
    assert plain.told["format"] == ("parquet",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[UNRESOLVED_COLUMN] No column `pric`. SQLSTATE: 42703; line 1 pos 0;\n'Filter",
            "[UNRESOLVED_COLUMN] No column `pric`.",
        ),
        (
            "[STREAM_FAILED] no\nTraceback (most recent call last):\nslidejoin.errors.StateError: foreign state\n",
            "StateError: foreign state",
        ),
        (
            "no\nTraceback (most recent call last):\npyarrow.lib.ArrowInvalid: x\nImportError: no numba\n\tat org",
            "ImportError: no numba",
        ),
        (
            "[STREAM_FAILED] Query ended.\n[USER_RAISED_EXCEPTION] the record of topic a. SQLSTATE: P0001\n\tat x",
            "the record of topic a.",
        ),
        (
            "An error occurred while calling o5.load.\n: a.Error: x\nCaused by: a.BException: no topic\n",
            "no topic",
        ),
        ("[STREAM_FAILED] Query [id = a-1, runId = b-2] terminated with exception: a.BException: x", "a.BException: x"),
        ("\n\nplain\nmore", "plain"),
        ("", "ValueError"),
    ],
)
def test_what_spark_says_is_cut_to_the_point(text: str, said: str):
    assert brief(ValueError(text)) == said


def test_cores_of_a_master():
    assert cores_of("local[3]") == 3
    assert cores_of("local[3, 2]") == 3
    assert cores_of("local") == 1
    assert cores_of("local[*]") == cores_of("spark://host:7077") >= 1
    assert defaults(3)["spark.sql.shuffle.partitions"] == "3"


def test_without_java_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    pytest.importorskip("pyspark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(SlideJoinError, match="PATH has no Java; install Java 17 or newer"),
        spark_session(Session(), "t"),
    ):
        pytest.fail("Spark has started without Java")


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "slidejoin.spark.job.checks", None)
    with pytest.raises(SlideJoinError, match=r'pip install "slidejoin\[spark\]"'), spark_session(Session(), "t"):
        pytest.fail("Spark has started without pyspark")


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("org.apache.kafka.common.errors.TimeoutException: no answer", True),
        ("Caused by: java.net.ConnectException: refused", True),
        ("ExecutorLostFailure (executor 1 exited)", True),
        ("[USER_RAISED_EXCEPTION] the record cannot be read", False),
        ("slidejoin.errors.StateError: foreign state", False),
        ("org.apache.kafka.common.errors.SaslAuthenticationException: wrong password", False),
    ],
)
def test_what_may_pass_is_told_from_what_does_not(text: str, again: bool):
    error = RuntimeError("[STREAM_FAILED] Query ended")
    error.__cause__ = ValueError(text)
    assert transient(error) is again
