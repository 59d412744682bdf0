"""The same joins by way of Spark Connect: a client in a process of its own, and the server in the tests' session."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from tests.spark.feeds import SECOND, Feed, expected, table_of
from tests.spark.killing import LATENESS, LAW, LENGTH, ON, ROOT, streams

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BATCHES = streams(3)


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> str:
    """Spark's own, on a port that is free."""
    services: Any = spark._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(services, "SparkConnectService$"), "MODULE$")
    service.start(spark._jsc.sc())
    return f"sc://127.0.0.1:{service.localPort()}"  # it ends with the session


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("connect")
    Feed(spark, made).add(BATCHES)
    return made


def told_by_client(part: str, server: str, folder: Path, spark: SparkSession) -> dict[str, Any]:
    cache = str(spark.conf.get("spark.slidejoin.cacheDir"))
    command = [sys.executable, "-m", "tests.spark.connecting", part, server, str(folder), cache]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert ran.returncode == 0, ran.stderr[-6000:]
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.nightly
def test_streams(server: str, folder: Path, spark: SparkSession) -> None:
    told = told_by_client("streaming", server, folder, spark)
    law = expected(BATCHES, LAW, LENGTH * SECOND, LATENESS * SECOND)
    assert [tuple(pair) for pair in told["pairs"]] == law
    assert told["seen"] == len(law)
    assert told["kept"] > 0
    assert told["metrics"] == len(law)
    schema = table_of([]).schema
    embedded = sj.StreamJoin(ON, sj.CountWindow(20), schemas=(schema, schema), threads=1)
    tables = [{side: table_of(rows) for side, rows in batch.items()} for batch in BATCHES]
    assert told["counts"] == sum(embedded.push(**sides, order_by="id").num_rows for sides in tables)


@pytest.mark.nightly  # a server of its own, and a client: twenty seconds
def test_what_is_built_and_refused(server: str, folder: Path, spark: SparkSession) -> None:
    """Plans, static frames and refusals; marks one behind another in front of an input, and whether state is kept."""
    told = told_by_client("building", server, folder, spark)
    assert told["explained"] == "cell of width 8, in turns"
    assert told["static"] == len(expected([whole()], LAW, LENGTH * SECOND, LATENESS * SECOND))
    assert told["predicate"].startswith("PredicateError: ")
    assert told["remarked"].startswith("SparkJoinError: the left side already has a withWatermark")
    assert told["unwatched"].startswith("SparkJoinError: Spark Connect has no accumulators")
    assert 'spark.conf.set("spark.slidejoin.observe", "true") before stream_join and watch' in told["unwatched"]
    assert told["upstream"] == {
        "source": [0, False],
        "marked": [1, False],
        "aggregated": [1, True],
        "deduplicated": [1, True],
        "known": [0, False],
        "joined": [1, True],
        "distinct": [1, True],
        "limited": [1, False],
        "text": [1, True],
        "view": [0, True],
    }


@pytest.mark.nightly  # as above
def test_tables(server: str, folder: Path, spark: SparkSession) -> None:
    told = told_by_client("tables", server, folder, spark)
    rows = {side: table_of(sorted(rows, key=lambda row: row[0])) for side, rows in whole().items()}
    embedded = sj.TableJoin(rows["right"], ON).push(rows["left"]).select(["id", "id_right"]).to_pylist()
    assert [tuple(pair) for pair in told["inner"]] == sorted((row["id"], row["id_right"]) for row in embedded)
    alone = rows["left"].num_rows - len({row["id"] for row in embedded})
    assert told["left"] == len(embedded) + alone
    assert told["static"] == len(embedded)
    assert told["marked"]
    assert told["explained"] == "left"


def whole() -> dict[str, Any]:
    return {side: [row for batch in BATCHES for row in batch[side]] for side in ("left", "right")}
