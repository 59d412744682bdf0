"""The queries of the case ``terms`` on a local Spark, in large micro-batches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.case import say
from slidejoin.bench.report import millions
from slidejoin.errors import SlideJoinError
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.cases.term_queries import TermQuery
    from slidejoin.bench.spark_pipeline import InputFiles

__all__ = ["SparkSpeed", "measure_on_spark"]

BATCHES, FILLING = 3, 3
"""Micro-batches that are measured, and those before that fill the windows and let Java compile."""

BEGIN = 1_767_225_600_000_000
"""Event time of the first row, 2026-01-01, in microseconds; rows are a microsecond apart."""

SELECT = ["l.i", "r.i"]


@dataclass(frozen=True, slots=True)
class SparkSpeed:
    """A query on Spark.

    Attributes
    ----------
    name : str
    rows : int
        Of a micro-batch, both sides together.
    rows_per_second : float
        Of the median micro-batch.
    pairs_per_row : float
    """

    name: str
    rows: int
    rows_per_second: float
    pairs_per_row: float

    def text(self) -> str:
        """Return the line for people."""
        return (
            f"on Spark: {self.name}: {millions(self.rows_per_second)} rows/s, micro-batches of {self.rows:,} rows, "
            f"{self.pairs_per_row:.3g} pairs a row"
        )


def measure_on_spark(queries: Sequence[TermQuery], threads: int, seed: int) -> tuple[SparkSpeed, ...]:
    """Join micro-batches of half a window of each side by every query.

    Raises
    ------
    SlideJoinError
        If Spark is missing, or another number of pairs comes out than of the embedded join.
    """
    from slidejoin.bench.spark_pipeline import session  # noqa: PLC0415 - an extra

    with TemporaryDirectory(prefix="slidejoin-bench-") as folder:
        root = Path(folder)
        with session(f"local[{threads}]", threads, root / "cache") as spark:
            found = []
            for number, query in enumerate(queries):
                say(f"{query.name}: slidejoin on Spark")
                found.append(_measured(spark, query, root / str(number), threads, seed))
            return tuple(found)


def _measured(spark: SparkSession, query: TermQuery, root: Path, threads: int, seed: int) -> SparkSpeed:
    from slidejoin.bench.spark_pipeline import InputFiles, run_query  # noqa: PLC0415 - an extra

    size = query.window // 2
    files = InputFiles(root, partial(_rows, query, size, seed))
    join = StreamJoin(on=query.on, window=_window(query), select=SELECT, threads=threads)
    pairs = []
    for number in range(FILLING + BATCHES):
        files.add(size)
        pairs.append(join.push(*_rows(query, size, seed, number * size, (number + 1) * size), order_by="ts").num_rows)
    done = run_query(partial(_query, spark, files, query), root / "checkpoint")
    if done.rows_out() != sum(pairs):
        msg = f"Spark put out {done.rows_out():,} pairs of {query.name!r}, the embedded join {sum(pairs):,}"
        raise SlideJoinError(f"{msg}; please report it")
    seconds = float(np.median(done.seconds(FILLING)))
    measured = sum(pairs[FILLING:]) / (2 * size * BATCHES)
    return SparkSpeed(query.name, 2 * size, 2 * size / seconds, measured)


def _window(query: TermQuery) -> TimeWindow:
    return TimeWindow(timedelta(microseconds=query.window), on="ts")


def _rows(query: TermQuery, size: int, seed: int, first: int, last: int) -> tuple[pa.Table, ...]:
    """Return the rows with these ordinals, whole micro-batches, with their ordinals and event times."""
    ordinals = np.arange(first, last)
    added: dict[str, Any] = {"i": pa.array(ordinals), "ts": pa.array(ordinals + BEGIN).view(pa.timestamp("us", "UTC"))}
    tables = []
    for table in query.tables(first // size, last - first, seed):
        whole = table
        for name, column in added.items():
            whole = whole.append_column(name, column)
        tables.append(whole)
    return tuple(tables)


def _query(spark: SparkSession, files: InputFiles, query: TermQuery) -> DataFrame:
    from slidejoin.spark import stream_join  # noqa: PLC0415 - an extra

    return stream_join(*files.frames(spark), on=query.on, window=_window(query), select=SELECT)
