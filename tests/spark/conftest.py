"""One real local Spark for all tests of a process, and streams made of files, one a micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slidejoin.spark.driver.checkpoints import local_checkpoints
from slidejoin.spark.job.settings import advised_settings
from tests.spark.feeds import Feed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SETTINGS = {
    # four attempts, so that a worker may die without the query
    "spark.master": "local[2,4]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    **advised_settings(2),
    # maintenance and logs of old micro-batches have nothing to do in a query of some seconds
    "spark.sql.streaming.stateStore.maintenanceInterval": "600s",
    # not UTC, so that a mistake about zones shows
    "spark.sql.session.timeZone": "America/New_York",
    "spark.driver.memory": "1g",
    # code for a query is compiled in a second and then runs over a hundred rows; the command's tests do generate it
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # where tests start a server of Spark Connect: any port that is free
    "spark.connect.grpc.binding.port": "0",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    # a busy machine may take longer than the default 15 s to start a Python worker
    "spark.python.authenticate.socketTimeout": "120s",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts Spark; pyspark 4.3 warns about pandas 3, and leaves sockets to the garbage collector."""
    for item in items:
        if "tests/spark" in item.path.as_posix() and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("slidejoin tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.slidejoin.cacheDir", str(tmp_path_factory.mktemp("cache")))
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    # Spark's default starts processes for every file of a checkpoint: half of a micro-batch as small as these.
    assert local_checkpoints(session, str(tmp_path_factory.getbasetemp()))
    yield session
    session.stop()


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)
