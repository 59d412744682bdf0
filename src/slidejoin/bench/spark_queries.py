"""Queries on a local Spark that are measured: the join, Spark's own by buckets, and one that only reads."""

from __future__ import annotations

import os
import sys
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from slidejoin.bench.spark_cluster import EXECUTOR_MEMORY
from slidejoin.bench.spark_files import SCHEMA, SIDES, Files, Written, window_length
from slidejoin.bench.spark_memory import Held, held
from slidejoin.errors import SlideJoinError
from slidejoin.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from slidejoin.bench.relation import Relation

__all__ = ["LOOK", "Course", "Load", "empty", "joined", "own", "run_query", "session"]

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LOOK = 0.1
"""Seconds between two looks at a query that runs."""

WEIGHED_EVERY = 10
"""Micro-batches from one look at memory to the next: each collects garbage, which takes some 0.1 s."""

MAINTENANCE = "10s"
"""How often Spark sees whether to write the whole state: after ten micro-batches or more. Its default of a minute is
longer than much that is measured, and what it writes and takes belongs to a steady state."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is joined: the comparison, rows that a row of the other side sees, and what is put out."""

    relation: Relation
    window: int
    output: str


@dataclass(frozen=True, slots=True)
class Course:
    """How a query went.

    Attributes
    ----------
    batches : list of dict
        Spark's progress of each micro-batch that had rows, in order.
    written : list of dict
        Bytes written to the checkpoint by the end of each, by kind.
    memory : dict of int to Held
        What the processes held after some of them, by their number from 0 on.
    seconds : float
        From before the query was made to the end of the first micro-batch that had rows.
    """

    batches: list[dict[str, Any]]
    written: list[dict[str, int]]
    memory: dict[int, Held]
    seconds: float

    def took(self, first: int) -> list[float]:
        """Return the seconds of each micro-batch from that one on."""
        return [batch["durationMs"]["triggerExecution"] / 1e3 for batch in self.batches[first:]]

    def bytes_from(self, first: int) -> dict[str, int]:
        """Return the bytes that the micro-batches from that one on have written, by kind."""
        before = self.written[first - 1] if first else {}
        return {kind: size - before.get(kind, 0) for kind, size in self.written[-1].items()}


@contextmanager
def session(master: str, buckets: int, cache: Path, batches: int) -> Iterator[SparkSession]:
    """Start Spark with the settings that docs/spark.md advises, and stop it at the end.

    Parameters
    ----------
    master : str
        Its address, or ``local[2]``.
    buckets : int
        State partitions.
    cache : pathlib.Path
        A folder for what may be lost.
    batches : int
        The most micro-batches that a query will have.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra, and slow to load

        from slidejoin.spark.quiet import output_of_children  # noqa: PLC0415 - belongs to it
    except ModuleNotFoundError as error:
        msg = 'bench spark needs Spark: pip install "slidejoin[spark]"'
        raise SlideJoinError(msg) from error
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("slidejoin bench")
    for name, value in {
        "spark.sql.shuffle.partitions": buckets,
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.maintenanceInterval": MAINTENANCE,
        "spark.sql.streaming.minBatchesToRetain": 10,
        "spark.sql.streaming.numRecentProgressUpdates": batches + 10,  # one more for each without rows
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


def run_query(
    spark: SparkSession,
    query: Callable[[SparkSession, Files, Load], DataFrame],
    files: Files,
    load: Load,
    checkpoint: Path,
    *,
    weighed: bool = False,
) -> Course:
    """Run a query over all files that it has not read yet, to a sink that keeps nothing.

    With `weighed` memory is looked at after every tenth micro-batch.

    Raises
    ------
    SlideJoinError
        If it fails.
    """
    written, start, first = Written(checkpoint), time.perf_counter(), 0.0
    looks: dict[int, dict[str, int]] = {}
    memory: dict[int, Held] = {}
    # Counted in the query itself: what the sink gets is what came out.
    frame = query(spark, files, load).observe("out", *_counted())
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    running: StreamingQuery = writer.trigger(availableNow=True).start()
    try:
        while True:
            time.sleep(LOOK)
            ended = not running.isActive
            last = running.lastProgress
            if last and last["numInputRows"] and last["batchId"] not in looks:
                first = first or time.perf_counter() - start
                looks[last["batchId"]] = written.look()
                if weighed and last["batchId"] % WEIGHED_EVERY == 0:
                    memory[last["batchId"]] = held(spark)
            if ended:
                running.awaitTermination()  # raises what it died of
                done = [dict(one) for one in running.recentProgress if one["numInputRows"]]
                first = first or time.perf_counter() - start
                return Course(done, _each(done, looks, written.look()), memory, first)
    except Exception as error:
        msg = f"the query failed: {str(error).strip().partition(chr(10))[0]}"
        raise SlideJoinError(msg) from error
    finally:
        running.stop()


def _each(
    done: Sequence[dict[str, Any]], looks: dict[int, dict[str, int]], last: dict[str, int]
) -> list[dict[str, int]]:
    """Return what was seen after each micro-batch; after the next one, where one was over between two looks."""
    found = []
    for one in reversed(done):
        last = looks.get(one["batchId"], last)
        found.append(last)
    return found[::-1]


def _counted() -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    return [F.count(F.lit(1)).alias("rows")]
