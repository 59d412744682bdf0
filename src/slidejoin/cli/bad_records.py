"""Sinks of records that cannot be read: a query for each source that has one, next to that of the join.

Such a query reads the topics a second time and writes what the join leaves out. It has a checkpoint of its own within
that of the job, so that it neither depends on the sink of the results nor changes what is exactly once there: in files
each record is once, in a topic at least once.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from slidejoin.cli.kafka_records import topic_options, unread, unread_records
from slidejoin.cli.pipeline import brief, triggered
from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from slidejoin.cli.job import Job, Sink, Source

__all__ = ["BadRecordQueries", "write_bad_records"]

BEGINNING = ("Initializing", "Getting offsets")
"""How Spark says what such a query does before that."""

LOOK, PATIENCE = 0.05, 60.0
FOLDER = "bad_rows"
"""Of the job's checkpoint, for the checkpoints of such queries."""


def checkpoint_of(job: Job, source: str) -> str | None:
    """Return where the query of a source's bad records keeps its progress; None if the job has no checkpoint."""
    return None if job.sink.checkpoint is None else f"{job.sink.checkpoint}/{FOLDER}/{source}"


def _sinks(job: Job) -> Iterator[tuple[Source, Sink]]:
    """Yield the sources that have a sink for bad records, and that sink."""
    for source in job.sources.values():
        if source.bad_rows is not None and source.bad_rows.sink is not None:
            yield source, source.bad_rows.sink


def _rows(spark: SparkSession, source: Source, sink: Sink) -> DataFrame:
    """Return the bad records of a source as the sink takes them."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - belongs to an extra

    frame = unread(spark, source)
    if sink.kafka is not None:
        return unread_records(frame)
    if sink.format == "csv":  # which has no bytes
        return frame.withColumns({name: sql.base64(name) for name in ("key", "value")})
    return frame


def write_bad_records(spark: SparkSession, job: Job) -> None:
    """Write the bad records of a job without streams, behind those that are there.

    Raises
    ------
    SlideJoinError
        If Spark cannot write them.
    """
    for source, sink in _sinks(job):
        rows = _rows(spark, source, sink)
        try:
            writer = (
                rows.write.format(sink.format).options(**sink.options).mode("append").partitionBy(*sink.partition_by)
            )
            writer.options(**topic_options(sink)).save(sink.path)
        except Exception as error:
            raise _failure(source, error) from error


def _writer(spark: SparkSession, job: Job, source: Source, sink: Sink) -> DataStreamWriter:
    writer = _rows(spark, source, sink).writeStream.format(sink.format).outputMode("append")
    writer = (
        writer.options(**sink.options).options(**topic_options(sink)).queryName(f"slidejoin bad rows of {source.name}")
    )
    if sink.path is not None:
        writer = writer.option("path", sink.path)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    checkpoint = checkpoint_of(job, source.name)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    return triggered(writer, job.sink)


def _failure(source: Source, error: BaseException) -> SlideJoinError:
    return SlideJoinError(f"sources.{source.name}.bad_rows: cannot be written: {brief(error)}")


def _begun(query: StreamingQuery) -> None:
    """Wait until a query knows where it begins."""
    deadline = time.monotonic() + PATIENCE
    while query.isActive and query.status["message"].startswith(BEGINNING) and time.monotonic() < deadline:
        time.sleep(LOOK)


class BadRecordQueries:
    """The queries that write the bad records of a job's sources.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    job : Job
        With streams.

    Raises
    ------
    ConfigError
        If one cannot be started.
    """

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self._queries: list[tuple[Source, StreamingQuery]] = []
        for source, sink in _sinks(job):
            try:
                query = _writer(spark, job, source, sink).start()
                self._queries.append((source, query))
                if source.kafka is not None and source.kafka.starting == "latest":
                    _begun(query)
            except Exception as error:
                self.stop()
                raise ConfigError(str(_failure(source, error))) from error

    def check(self) -> None:
        """Raise the error of one that has failed.

        Raises
        ------
        SlideJoinError
            If there is one.
        """
        for source, query in self._queries:
            error = query.exception()
            if error is not None:
                raise _failure(source, error) from error

    @property
    def active(self) -> bool:
        """Whether one of them has still to do."""
        return any(query.isActive for _, query in self._queries)

    def stop(self) -> None:
        """End them."""
        for _, query in self._queries:
            with suppress(Exception):
                query.stop()
