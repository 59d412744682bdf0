"""One checkout's run on Spark: joins the files of a folder, one a micro-batch, and says how long micro-batches took."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import slidejoin as sj
from slidejoin.spark import advised_settings, stream_join

WARM = 2
"""Micro-batches that are left out: they load kernels and start workers."""


def main(folder: Path) -> None:
    """Run the query to the end of its files."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config(map={**advised_settings(2)})
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.readStream.schema("k long, ts timestamp").option("maxFilesPerTrigger", 1)
    left, right = (reader.parquet(str(folder / side)) for side in ("left", "right"))
    window = sj.TimeWindow("1000 seconds", on="ts")
    pairs = stream_join(left, right, on="l.k BETWEEN r.k - 2048 AND r.k + 2048", window=window)
    writer = pairs.writeStream.format("noop").option("checkpointLocation", str(folder / f"state-{time.time_ns()}"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    took = [
        progress["durationMs"]["triggerExecution"] for progress in query.recentProgress if progress["numInputRows"] > 0
    ]
    sys.stdout.write(json.dumps({"ms": statistics.median(took[WARM:])}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
