"""The session, and the queries that are measured: the join, Spark's own by buckets, and one that only reads."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from slidejoin.bench.spark_cluster import EXECUTOR_MEMORY
from slidejoin.bench.spark_files import SCHEMA, window_length
from slidejoin.errors import SlideJoinError
from slidejoin.sides import SIDES
from slidejoin.spark.driver.checkpoints import DELTAS, SNAPSHOTS, local_checkpoints, snapshots_for
from slidejoin.spark.job.settings import advised_settings
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from slidejoin.bench.relation import Relation
    from slidejoin.bench.spark_files import Files

__all__ = ["Load", "empty", "joined", "own", "session"]

KEPT = 20
"""Micro-batches, jobs and so on that Spark remembers."""

MAINTENANCE = "10s"
"""How often Spark sees whether to write the whole state: see `Load.snapshots`. Its default of a minute is longer than
much that is measured, and what it writes and takes belongs to a steady state."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is joined: the comparison, rows that a row of the other side sees, and what is put out."""

    relation: Relation
    window: int
    output: str

    def snapshots(self, push: int) -> int:
        """Return after how many micro-batches of so many rows the whole state is to be written."""
        return snapshots_for(2 * self.window // push)


@contextmanager
def session(master: str, buckets: int, cache: Path, snapshots: int = SNAPSHOTS[0]) -> Iterator[SparkSession]:
    """Start Spark with the settings that docs/spark.md advises, and stop it at the end.

    Parameters
    ----------
    master : str
        Its address, or ``local[2]``.
    buckets : int
        State partitions.
    cache : pathlib.Path
        A folder for what may be lost.
    snapshots : int
        Micro-batches after which the whole state is written.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra, and slow to load

        from slidejoin.spark.job.quiet import output_of_children  # noqa: PLC0415 - belongs to it
    except ModuleNotFoundError as error:
        msg = 'bench spark needs Spark: pip install "slidejoin[spark]"'
        raise SlideJoinError(msg) from error
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("slidejoin bench")
    for name, value in {
        **advised_settings(buckets),
        "spark.sql.streaming.stateStore.maintenanceInterval": MAINTENANCE,
        DELTAS: snapshots,
        # What Spark keeps of the past would grow during all that is measured.
        "spark.sql.streaming.numRecentProgressUpdates": KEPT,
        "spark.sql.ui.retainedExecutions": KEPT,
        "spark.ui.retainedJobs": KEPT,
        "spark.ui.retainedStages": KEPT,
        "spark.ui.retainedTasks": 10 * KEPT,
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "4g",
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.executor.cores": 1,  # of a cluster; all of its executors are waited for
        "spark.scheduler.minRegisteredResourcesRatio": 1.0,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.slidejoin.cacheDir": cache,
        "spark.sql.warehouse.dir": cache / "warehouse",
    }.items():
        builder = builder.config(name, str(value))
    with TemporaryFile() as log, output_of_children(log.fileno(), json=True):
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    local_checkpoints(spark, str(cache))
    try:
        yield spark
    finally:
        spark.stop()


def _sources(spark: SparkSession, files: Files) -> list[DataFrame]:
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return [read.parquet(str(files.folder(side))) for side in SIDES]


def joined(spark: SparkSession, files: Files, load: Load) -> DataFrame:
    """Return the join: pairs of two columns a side, or counts."""
    from slidejoin.spark import stream_join  # noqa: PLC0415 - an extra

    left, right = _sources(spark, files)
    return stream_join(
        left,
        right,
        on=load.relation.sql(),
        window=TimeWindow(window_length(load.window), on="ts"),
        output=load.output,
        select=["l.k", "l.i", "r.k", "r.i"] if load.output == "pairs" else ["l.i", "r.i"],
    )


def empty(spark: SparkSession, files: Files, load: Load) -> DataFrame:  # noqa: ARG001 - as the others
    """Return a query that reads the rows and nothing else."""
    left, right = _sources(spark, files)
    return left.unionAll(right)


def own(spark: SparkSession, files: Files, load: Load) -> DataFrame:
    """Return Spark's own join of the same pairs: cells as wide as the band are the equal key, right rows go to two."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    left, right = _sources(spark, files)
    low, high = load.relation.low, load.relation.high
    cell = max(high - low + 1, 1)
    left = left.withWatermark("ts", "0 seconds").withColumn("cell", F.floor(F.col("k") / cell))
    ends = F.array_distinct(F.array(F.floor((F.col("k") - high) / cell), F.floor((F.col("k") - low) / cell)))
    right = right.withWatermark("ts", "0 seconds").withColumn("cell", F.explode(ends))
    length = f"INTERVAL {int(window_length(load.window).total_seconds() * 1e6)} MICROSECONDS"
    near = F.expr(
        f"l.cell = r.cell AND r.k - l.k BETWEEN {low} AND {high} AND r.ts BETWEEN l.ts - {length} AND l.ts + {length}"
    )
    return left.alias("l").join(right.alias("r"), near).selectExpr("l.k", "l.i", "r.k", "r.i")
