"""Workers run the driver's Python; a script of an environment that is not activated works, and without warnings."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.cloudpickle import dumps

import slidejoin as sj
from slidejoin.spark import SparkJoinError, stream_join
from slidejoin.spark.bucket import tasks
from slidejoin.spark.job import interpreter
from tests.spark.killing import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

WINDOW = sj.TimeWindow("10 seconds", on="ts")

JOB = """
import slidejoin as sj
from pyspark.sql import SparkSession
from slidejoin.spark import advised_settings, stream_join

spark = SparkSession.builder.config(map=advised_settings(2)).getOrCreate()
rows = spark.range(8).selectExpr("id", "id % 4 key", "timestamp_seconds(id) ts")
rows.write.parquet("rows")
stream = spark.readStream.schema(rows.schema).parquet("rows")
window = sj.TimeWindow("2 seconds", on="ts")
pairs = stream_join(stream, self_join=True, on="l.id < r.id AND l.key <> 1", window=window, select=["l.id", "r.key"])
written = pairs.writeStream.format("parquet").option("checkpointLocation", "checkpoint")
written.trigger(availableNow=True).start("pairs").awaitTermination()
counts = stream_join(rows, rows, on="l.id < r.id", window=sj.CountWindow(3), order_by="ts", output="count")
print(spark.read.parquet("pairs").count(), counts.count(), counts.selectExpr("sum(match_count)").first()[0])
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.nightly  # the README's example is run like this each time, see tests/packaging
def test_a_script_of_an_environment_that_is_not_activated(tmp_path: Path) -> None:
    """Default warning filters; nothing that names the environment; a module of Python's in the working directory."""
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    here = tmp_path / "here"
    here.mkdir()
    (here / "random.py").write_text("raise ImportError('of the working directory')\n", encoding="utf-8")
    kept = ("JAVA_HOME", "HOME", "LANG", "SPARK_LOCAL_IP", "NUMBA_CACHE_DIR", "TMPDIR")
    environment = {name: os.environ[name] for name in kept if name in os.environ} | {"PATH": os.defpath}
    ran = subprocess.run(
        [sys.executable, "../job.py"], cwd=here, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-6000:]
    found = set()
    for left in range(8):
        found |= {(left, right) for right in range(left + 1, 8) if right - left <= 2 and left % 4 != 1}
    # Left rows of a time come before right ones: a right row sees the left row of its own time and the two before it.
    counted = sum(right - left <= 2 for left in range(8) for right in range(left + 1, 8))
    assert ran.stdout.split() == [str(len(found)), "16", str(counted)]
    assert "Warning:" not in ran.stderr


@pytest.fixture
def static(spark: SparkSession) -> DataFrame:
    return spark.range(3).selectExpr("id", "id x", "timestamp_seconds(id) ts")


def other_python(tmp_path: Path, says: str) -> str:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("says", "found"),
    [
        (
            "echo \"ModuleNotFoundError: No module named 'slidejoin'\" >&2; exit 1",
            "cannot import slidejoin .*No module",
        ),
        ("exit 3", r"cannot import slidejoin \(exit status 3\)"),
        ("echo 9.9.9", f"has slidejoin 9.9.9 where the driver has {sj.__version__}"),
    ],
)
def test_another_python_is_refused(
    static: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, found: str
) -> None:
    program = other_python(tmp_path, says)
    monkeypatch.setattr(static.sparkSession.sparkContext, "pythonExec", program)
    message = (
        rf"workers would run {program} \(PYSPARK_PYTHON\), which {found}.*; set PYSPARK_PYTHON={sys.executable}, or"
    )
    with pytest.raises(SparkJoinError, match=message):
        stream_join(static, static, on="l.x = r.x", window=WINDOW)


def test_a_python_that_is_not_there_is_refused(static: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static.sparkSession.sparkContext, "pythonExec", "/nowhere/python")
    with pytest.raises(SparkJoinError, match=r"run /nowhere/python .* which is missing; set PYSPARK_PYTHON="):
        stream_join(static, static, on="l.x = r.x", window=WINDOW)


def test_another_python_with_the_same_version_is_taken(
    static: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of another environment, or the same one by another name."""
    program = other_python(tmp_path, f'exec "{sys.executable}" "$@"')
    monkeypatch.setattr(static.sparkSession.sparkContext, "pythonExec", program)
    interpreter.check_python(static.sparkSession)
    assert stream_join(static, static, on="l.x = r.x", window=WINDOW).columns[-1] == "match_time"


def test_the_session_keeps_its_python(static: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    context = static.sparkSession.sparkContext
    for kept, within in (("python3", sys.executable), ("/opt/other/python", "/opt/other/python")):
        monkeypatch.setattr(context, "pythonExec", kept)
        with interpreter.workers_run_this_python(static.sparkSession):
            assert context.pythonExec == within
        assert context.pythonExec == kept


def test_workers_of_a_join_do_not_look_in_the_working_directory(static: DataFrame) -> None:
    session = static.sparkSession

    def safe(batches: Any) -> Any:
        import sys

        import pyarrow as pa

        for batch in batches:
            yield pa.record_batch({"id": [sys.flags.safe_path] * batch.num_rows})

    before = dict(session.sparkContext.environment)
    with interpreter.workers_run_this_python(session):
        ours = static.select("id").mapInArrow(safe, "id boolean")
    assert [row[0] for row in ours.collect()] == [True] * 3
    assert session.sparkContext.environment == before
    assert static.select("id").mapInArrow(safe, "id boolean").first() == (False,)


def test_another_version_on_the_workers(static: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query ends with what to do before it has state of another version."""
    monkeypatch.setattr(tasks, "__version__", "9.9.9")
    joined = stream_join(static, static, on="l.x = r.x", window=WINDOW)
    message = rf"the driver has slidejoin 9.9.9, Spark's workers on .* have {sj.__version__} in .*; install the same"
    with pytest.raises(Exception, match=message):
        joined.collect()


@pytest.mark.parametrize("task", [tasks.JoinTask(b"", None), tasks.SequenceTask(b"", None)])
def test_another_version_where_buckets_are_joined(task: Any) -> None:
    task.version = "9.9.9"
    with pytest.raises(SparkJoinError, match=r"the driver has slidejoin 9\.9\.9, Spark's workers on"):
        task.init(None)


def test_workers_without_slidejoin_say_so() -> None:
    """What they unpickle first needs nothing of slidejoin."""
    code = (
        "import sys, pickle; sys.modules['slidejoin'] = None\n"
        f"list(pickle.loads({dumps(tasks.pack_task(b'', 'left', None))!r})([]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert f"run {sys.executable}, which has no slidejoin; set PYSPARK_PYTHON to a Python that has" in ran.stderr
