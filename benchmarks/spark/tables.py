"""A stream with a table on Spark: which range is each value in.

``python -m benchmarks.spark.tables``: a stream of files, one a micro-batch, against a table of ranges that do not
overlap, by ``l.v BETWEEN r.low AND r.high``. Three queries over the same files, in turns: the files alone; their rows
through a Python task that returns them; the join. Printed are rows a second of each, over the micro-batches behind the
first ones; and of all of them rows a second of processor time, of Spark and its workers together, which hardly depends
on what else the machine does.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from slidejoin.bench.spark_pipeline import InputFiles, run_query, session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

SPAN = 1 << 40
"""Of the values."""

WARM = 1
"""Micro-batches that are not measured: workers start, and build the index."""


def rows(seed: int, first: int, last: int) -> tuple[pa.Table]:
    """Return rows first…last-1 of the stream."""
    draw = np.random.default_rng([seed, first])
    columns: dict[str, Any] = {"i": np.arange(first, last), "v": draw.integers(0, SPAN, last - first)}
    return (pa.table(columns),)


def ranges(count: int) -> pa.Table:
    """Return so many ranges, which cover all values."""
    draw = np.random.default_rng(2)
    ends = np.unique(draw.integers(1, SPAN, count - 1))
    low = np.concatenate([[0], ends])
    high = np.concatenate([ends - 1, [SPAN]])
    order = draw.permutation(low.size)
    columns: dict[str, Any] = {"low": low[order], "high": high[order], "range": np.arange(low.size)}
    return pa.table(columns)


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return rows as they are."""
    return batches


def joined(spark: SparkSession, stream: DataFrame, table: Path, output: str) -> DataFrame:
    """Return the join."""
    from slidejoin.spark import stream_join  # noqa: PLC0415 - an extra

    return stream_join(
        stream,
        spark.read.parquet(str(table)),
        on="l.v BETWEEN r.low AND r.high",
        select=["l.i", "r.range"],
        output=output,  # type: ignore[arg-type]  # one of its names
    )


def processor_seconds() -> float:
    """Return the processor time of this process and all that descend from it, on Linux."""
    parents, seconds = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        seconds[number] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    family = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(seconds.get(one, 0.0) for one in family)


def started(spark: SparkSession, files: InputFiles, query: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Return a query over the stream."""
    return query(files.frames(spark)[0])


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser("python -m benchmarks.spark.tables", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the stream (default 10 M)")
    parser.add_argument("--ranges", type=int, default=1_000_000, help="rows of the table (default 1 M)")
    parser.add_argument("--push", type=int, default=2_000_000, help="rows of a micro-batch (default 2 M)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--batch", type=int, default=10_000, help="rows of an Arrow batch (10,000, as Spark)")
    parser.add_argument("--output", default="pairs", choices=["pairs", "count"])
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="slidejoin-tables-") as folder:
        root = Path(folder)
        files = InputFiles(root / "rows", partial(rows, 1))
        for _ in range(WARM + max(options.rows // options.push, 1)):
            files.add(options.push)
        parquet.write_table(ranges(options.ranges), root / "ranges.parquet")
        conf = {"spark.sql.execution.arrow.maxRecordsPerBatch": options.batch}
        with session(f"local[{options.threads}]", options.threads, root / "cache", conf) as spark:
            made: dict[str, Callable[[DataFrame], DataFrame]] = {
                "files alone": lambda stream: stream.select("i", "v"),
                "through Python": lambda stream: stream.mapInArrow(same, "i bigint, v bigint"),
                "the join": lambda stream: joined(spark, stream, root / "ranges.parquet", options.output),
            }
            for turn in range(options.turns):
                for name, query in made.items():
                    before = processor_seconds()
                    done = run_query(partial(started, spark, files, query), root / f"{name}.{turn}")
                    took = float(np.sum(done.seconds(WARM)))
                    speed = options.push * (len(files.rows) - WARM) / took / 1e6
                    worked = options.push * len(files.rows) / (processor_seconds() - before) / 1e6
                    sys.stdout.write(f"{name:<15} {speed:.2f} M rows/s  {worked:.2f} M rows a processor second\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
