"""One checkout's process on Spark: a query that joins a few more files for each line of standard input.

The query goes on for as long as the process lives. So Java has long compiled what it runs when times are taken: in the
first minute of a session compiling is most of the work, and its time varies by more than what is compared. And a turn
is short, so that both checkouts meet the same load.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import slidejoin as sj
from slidejoin.spark import advised_settings, stream_join

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

WINDOW = "2 seconds"
"""Length of the window: as much as the files of two micro-batches, so that rows leave as others come."""


class Running:
    """A query over a folder, into which the files of `source` are linked one by one."""

    def __init__(self, source: Path) -> None:
        self._files = sorted(path.name for path in (source / "left").iterdir())
        self._source = source
        self._rows = 2 * pq.read_metadata(source / "left" / self._files[0]).num_rows
        """Rows of a file of each side."""
        self._folder = Path(mkdtemp(dir=source))
        for side in ("left", "right"):
            (self._folder / side).mkdir()
        spark = (
            SparkSession.builder.master("local[2]")
            .config(map={**advised_settings(2)})
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.streaming.numRecentProgressUpdates", "4")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        reader = spark.readStream.schema("k long, ts timestamp")
        left, right = (reader.parquet(str(self._folder / side)) for side in ("left", "right"))
        window = sj.TimeWindow(WINDOW, on="ts")
        pairs = stream_join(left, right, on="l.k BETWEEN r.k - 2048 AND r.k + 2048", window=window)
        writer = pairs.writeStream.format("noop").option("checkpointLocation", str(self._folder / "checkpoint"))
        self._query = writer.start()
        self._seen = -1
        """Micro-batch that had the newest file."""

    def turn(self, files: int) -> dict[str, float]:
        """Join the next files; return the median seconds of a file of each side, and the pairs.

        These are one micro-batch, unless Spark looks just between both.
        """
        milliseconds, pairs = [], 0
        for name in self._files[:files]:
            for side in ("left", "right"):
                (self._folder / side / name).hardlink_to(self._source / side / name)
            told: list[StreamingQueryProgress] = []
            while sum(one.numInputRows for one in told) < self._rows:
                time.sleep(0.02)
                told = [one for one in self._query.recentProgress if one.batchId > self._seen and one.numInputRows]
            self._seen = told[-1].batchId
            milliseconds.append(sum(one.durationMs["triggerExecution"] for one in told))
            pairs += sum(one.sink.numOutputRows for one in told)
        del self._files[:files]
        return {"seconds": statistics.median(milliseconds) / 1000, "pairs": pairs}


def serve(source: Path, files: int) -> None:
    """Answer until standard input ends."""
    running = Running(source)
    for _ in sys.stdin:
        sys.stdout.write(json.dumps(running.turn(files)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
