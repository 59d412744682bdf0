"""Connectors that Spark does not bring."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from slidejoin.cli.connectors import connector_settings, coordinates, what_is_missing
from slidejoin.cli.job import Session
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:"


@pytest.mark.parametrize(
    ("spark", "connector"), [("4.1.3", "4.1.3"), ("4.2.0", "4.2.0"), ("4.3.0", "4.2.0"), ("4.10.1", "4.2.0")]
)
def test_a_connector_is_that_of_spark_or_the_newest(monkeypatch: pytest.MonkeyPatch, spark: str, connector: str):
    monkeypatch.setattr("pyspark.__version__", spark)
    assert coordinates("kafka") == f"{KAFKA}{connector}"
    assert coordinates("avro") == f"org.apache.spark:spark-avro_2.13:{connector}"
    assert coordinates("parquet") is None


@pytest.mark.parametrize(
    ("spark", "delta", "iceberg"),
    [
        ("4.1.4", "delta-spark_4.1_2.13:4.4.0", "iceberg-spark-runtime-4.1_2.13:1.12.0"),
        ("4.2.0", "delta-spark_4.2_2.13:4.4.0", None),
        ("4.3.0", None, None),
    ],
)
def test_tables_need_a_connector_of_this_spark(
    monkeypatch: pytest.MonkeyPatch, spark: str, delta: str | None, iceberg: str | None
):
    monkeypatch.setattr("pyspark.__version__", spark)
    for kind, group, connector, newest in (
        ("delta", "io.delta", delta, "4.2"),
        ("iceberg", "org.apache.iceberg", iceberg, "4.1"),
    ):
        session = Session(auto_packages=True, formats=(kind, "parquet"))
        if connector is not None:
            assert connector_settings(session)["spark.jars.packages"] == f"{group}:{connector}"
            continue
        why = (
            f"the newest connector of {kind} that is known here is for Spark {newest}, and pyspark {spark} is "
            f'installed: pip install "pyspark=={newest}.*", or name another connector in spark.packages.'
        )
        with pytest.raises(ConfigError, match=re.escape(f"spark.packages: {why}")):
            connector_settings(session)
        missing = what_is_missing(ValueError(f"Failed to find data source: {kind}."), kind)
        assert missing == f"Spark has no format {kind!r} of its own, and {why}"


def test_settings_name_packages_and_jars(tmp_path: Path):
    for name in ("b.jar", "a.jar", "read.me"):
        (tmp_path / name).touch()
    assert connector_settings(Session()) == {}
    session = Session(
        conf={"spark.jars": "/own.jar"},
        packages=("g:a:1",),
        auto_packages=True,
        jars=(str(tmp_path), str(tmp_path / "b.jar")),
        formats=("kafka", "json", "noop"),
    )
    kafka = coordinates("kafka")
    assert connector_settings(session) == {
        "spark.jars": f"/own.jar,{tmp_path}/a.jar,{tmp_path}/b.jar,{tmp_path}/b.jar",
        "spark.jars.packages": f"g:a:1,{kafka}",
        "spark.jars.excludes": (
            "org.slf4j:slf4j-api,org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime,"
            "org.scala-lang:scala-library"
        ),
    }


def test_a_folder_without_jars_is_named(tmp_path: Path):
    with pytest.raises(
        ConfigError, match=rf"spark.jars: there is no jar in {tmp_path}; expected a folder of jars, or a"
    ):
        connector_settings(Session(jars=(str(tmp_path),)))


def test_what_is_missing_is_one_sentence():
    known = what_is_missing(ValueError("Failed to find data source: kafka. Please deploy"), "kafka")
    assert known == (
        f"Spark has no format 'kafka' of its own: write packages = \"auto\" in [spark], for {coordinates('kafka')}, or "
        'jars = "FOLDER" for a folder with its jars.'
    )
    other = what_is_missing(ValueError("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: `x.y`."), "x.y")
    assert other == (
        "Spark has no format 'x.y': give its connector in [spark], as packages = [\"GROUP:ARTEFACT:VERSION\"], or as "
        'jars = "FOLDER", or correct the name.'
    )
    avro = what_is_missing(ValueError("[AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE] Cannot call from_avro"), "kafka")
    assert str(avro).startswith("Spark has no format 'avro' of its own: write packages")
    assert what_is_missing(ValueError("ClassNotFoundException: S3AFileSystem"), "parquet") is None
    assert what_is_missing(ValueError("Path does not exist"), "kafka") is None
