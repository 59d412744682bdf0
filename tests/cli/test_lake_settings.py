"""Settings of sessions, options of readers and errors of tables of Delta and Iceberg."""

from __future__ import annotations

from pathlib import Path

import pytest

from slidejoin.cli.job import Session, Source
from slidejoin.cli.jobfile import read_job_text
from slidejoin.cli.lake_tables import lake_options, lake_settings, refused_change
from slidejoin.errors import ConfigError

DELTA = {
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
JOB = """
sources.a = {{ format = "{kind}", path = "/a" }}
sources.b = {{ format = "{kind}", path = "/b"{more} }}
join = {{ left = "a", right = "b", on = "l.k = r.k", window = {{ length = "1 minute", on = "ts" }} }}
sink = {{ format = "noop" }}
"""


def test_settings_of_delta_are_made_unless_they_are_given():
    assert lake_settings(Session(formats=("delta",)), 2) == {}
    assert lake_settings(Session(formats=("iceberg", "parquet"), auto_packages=True), 2) == {}
    assert lake_settings(Session(formats=("delta", "json"), auto_packages=True), 2) == DELTA
    others = dict.fromkeys(DELTA, "mine")
    made = lake_settings(Session(formats=("delta",), jars=("x",), conf=others), 2)
    assert made == {"spark.sql.extensions": f"mine,{DELTA['spark.sql.extensions']}"}
    assert "spark.databricks.delta.snapshotPartitions" not in lake_settings(
        Session("yarn", formats=("delta",), auto_packages=True), 0
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [("delta", "maxFilesPerTrigger"), ("iceberg", "streaming-max-files-per-micro-batch")],
)
def test_the_most_files_of_a_micro_batch_are_an_option(kind: str, name: str):
    assert lake_options(Source("a", kind, "/a", max_files_per_trigger=7)) == {name: "7"}
    assert lake_options(Source("a", kind, "/a")) == {}
    assert lake_options(Source("a", "parquet", "/a", max_files_per_trigger=7)) == {}


@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [
        (
            "delta",
            "Detected a data update (for example x.parquet) in the source table at version 3. … found at path /b.",
            'sources.b: version 3 of the delta table removes .* options = { "skipChangeCommits" = true }',
        ),
        (
            "delta",
            "Detected deleted data (for example part-0.parquet) from streaming source at version 12.",
            "sources.a or sources.b: version 12 of the delta table removes",
        ),
        (
            "iceberg",
            "Cannot process overwrite snapshot: 77, to ignore overwrites, set streaming-skip-overwrite-snapshots=true",
            'snapshot 77 of the iceberg table .* { "streaming-skip-overwrite-snapshots" = true }',
        ),
        (
            "iceberg",
            "Cannot process delete snapshot: 78, to ignore deletes, set streaming-skip-delete-snapshots=true",
            'snapshot 78 of the iceberg table .* { "streaming-skip-delete-snapshots" = true }',
        ),
    ],
)
def test_a_version_that_removes_rows_is_one_sentence(kind: str, error: str, said: str):
    job = read_job_text(JOB.format(kind=kind, more=""), Path("/"))
    with pytest.raises(ValueError, match=said.replace("{", r"\{")):
        raise ValueError(refused_change(ValueError(error), job))
    assert refused_change(ValueError("Path does not exist"), job) is None


def test_a_table_has_its_own_schema():
    with pytest.raises(ConfigError, match=r"sources.b.schema: a table of delta has its own schema; remove the key"):
        read_job_text(JOB.format(kind="delta", more=', schema = "k INT"'), Path("/"))
    with pytest.raises(ConfigError, match=r"sources.a.path: missing; expected the folder of an iceberg table"):
        read_job_text(JOB.format(kind="iceberg", more="").replace(', path = "/a"', ""), Path("/"))
