"""From a job to a Spark query: DataFrames for the sources, `stream_join` between them, a writer for the sink."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from slidejoin.cli.advice import check_event_times, in_toml
from slidejoin.cli.connectors import what_is_missing
from slidejoin.cli.job import FILES
from slidejoin.cli.kafka_records import kafka_rows, records_of, topic_options
from slidejoin.cli.lake_tables import LAKES, lake_options, table_made
from slidejoin.cli.paths import local_path
from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from slidejoin.cli.job import Job, Session, Sink, Source
    from slidejoin.spark.driver.table_versions import TableRefresh
    from slidejoin.spec.window import Span

    Observe = Callable[[DataFrame, str, Column], DataFrame]

__all__ = [
    "BAD_ROWS",
    "brief",
    "counts_bad_rows",
    "explained",
    "load",
    "load_all",
    "observed",
    "planned_batches",
    "result_of",
    "transient",
    "triggered",
    "with_bad_rows",
    "writer_of",
]

T = TypeVar("T")

BAD = "__slidejoin_bad"
"""The column in which Spark keeps a row that does not fit the schema; it is dropped again."""

CORRUPT = "spark.sql.columnNameOfCorruptRecord"

BAD_ROWS = "slidejoin bad rows of "
"""Prefix of the names by which Spark observes their number."""

GLOB = re.compile(r"[*?\[{]")


def brief(error: BaseException) -> str:
    """Return the part of an error from Spark that says what went wrong, without stack traces and plans."""
    text = str(error)
    ours = re.findall(r"^\s*(?:Caused by: )?slidejoin\.errors\.(\w+: .*)$", text, re.MULTILINE)
    if ours:
        return str(ours[-1]).strip()
    raised = re.findall(r"\[USER_RAISED_EXCEPTION\] (.*?)\s*(?:SQLSTATE: \w+.*)?$", text, re.MULTILINE)
    if raised:
        return str(raised[0]).strip()
    python = re.findall(r"^((?:[A-Za-z_][\w.]*)(?:Error|Exception): .*)$", text, re.MULTILINE)
    if "Traceback (most recent call last)" in text and python:
        return str(python[-1]).strip()
    of_java = re.findall(r"^(?:Caused )?(?:by)?: (?:[\w.$]+)(?:Error|Exception): (.*)$", text, re.MULTILINE)
    if text.startswith("An error occurred while calling") and of_java:
        text = str(of_java[-1])
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    first = re.sub(r"^\[STREAM_FAILED\] Query \[id = [^\]]*\] terminated with exception: ", "", first)
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", first).strip()


TRANSIENT = re.compile(
    r"kafka\.common\.errors\.(?:Timeout|Disconnect|Network|NotLeaderOrFollower|NotCoordinator|Coordinator\w+|Leader\w+|"
    r"BrokerNotAvailable|NotEnoughReplicas\w*|Retriable|Throttling\w*)Exception"
    r"|java\.net\.(?:Connect|SocketTimeout|Socket|NoRouteToHost|UnknownHost)Exception"
    r"|ExecutorLostFailure|FetchFailed|Python worker exited unexpectedly"
)
"""Failures of what a query depends on, by their names in Java: the same query may run a little later."""


def transient(error: BaseException) -> bool:
    """Tell whether a query that has failed may run if it is started again."""
    texts = []
    cause: BaseException | None = error
    while cause is not None:
        texts += [str(cause), str(getattr(cause, "_stackTrace", ""))]
        cause = getattr(cause, "_cause", None) or cause.__cause__
    return TRANSIENT.search("\n".join(texts)) is not None


def observed(frame: DataFrame, name: str, column: Column) -> DataFrame:
    """Let Spark tell the value of a column of all rows in the progress of a query, by a name."""
    return frame.observe(name, column)


def load(spark: SparkSession, source: Source, session: Session, observe: Observe = observed) -> DataFrame:
    """Return the DataFrame of a source, its filter and its columns applied.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    source : Source
    session : Session
        Of the job.
    observe : callable
        Takes a frame, a name and a column, ``rows``; returns the frame, whose rows are reported as they are read.

    Raises
    ------
    ConfigError
        If Spark refuses the path, the schema, an option, the filter or a column.
    """
    where = f"sources.{source.name}"
    try:
        frame = _files(spark, source, session, observe)
    except ConfigError:
        raise
    except Exception as error:
        missing = what_is_missing(error, source.format)
        msg = f"{where}.format: {missing}" if missing else f"{where}: Spark cannot read it: {brief(error)}"
        raise ConfigError(msg) from error
    if source.where is not None:
        try:
            frame = frame.where(source.where)
        except Exception as error:
            msg = f"{where}.where: Spark cannot use {source.where!r}: {brief(error)}"
            raise ConfigError(msg) from error
    if source.columns is not None:
        try:
            frame = frame.selectExpr(*source.columns)
        except Exception as error:
            msg = f"{where}.columns: Spark cannot use them: {brief(error)}"
            raise ConfigError(msg) from error
    return frame


def _files(spark: SparkSession, source: Source, session: Session, observe: Observe) -> DataFrame:
    from pyspark.sql import functions  # noqa: PLC0415 - slow to load

    if source.kafka is not None:
        name = f"{BAD_ROWS}{source.name}"
        return kafka_rows(spark, source, lambda frame, bad: observe(frame, name, bad.alias("rows")))
    schema: StructType | str | None = source.schema
    if source.stream and schema is None and source.format in FILES:
        # A stream over Parquet takes the schema of the files that are there already: they all have the same one.
        schema = spark.read.format(source.format).options(**source.options).load(source.path).schema
    counted = schema is not None and counts_bad_rows(source, str(spark.conf.get(CORRUPT, "_corrupt_record")))
    reader = (spark.readStream if source.stream else spark.read).format(source.format).options(**source.options)
    if counted:
        reader = reader.schema(with_bad_rows(str(schema))).option("columnNameOfCorruptRecord", BAD)
    elif schema is not None:
        reader = reader.schema(schema)
    if source.format in LAKES:
        reader = reader.options(**lake_options(source))
    elif source.max_files_per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", source.max_files_per_trigger)
    path = source.path
    streamed = source.stream and source.format in FILES
    frame = reader.load(_streamed(path, session) if path is not None and streamed else path)
    if not counted:
        return frame
    return observe(frame, f"{BAD_ROWS}{source.name}", functions.count(BAD).alias("rows")).drop(BAD)


def _streamed(path: str, session: Session) -> str:
    r"""Return a path as a stream takes it: of one file a pattern that only it fits, as Spark streams folders alone."""
    where = None if GLOB.search(path) else local_path(path, session)
    if where is None or not where.is_file():
        return path
    last = path[-1]
    return path[:-1] + (f"[{last}]" if last.isalnum() else f"\\{last}")


def with_bad_rows(schema: str) -> str:
    """Return a schema with the column of such rows, on a line of its own: the last one may end in a comment."""
    return f"{schema}\n, {BAD} STRING"


def counts_bad_rows(source: Source, column: str = "_corrupt_record") -> bool:
    """Tell whether Spark reads a row that does not fit the schema as NULLs, with nothing said otherwise.

    A `column` for such rows may be in the schema: Spark keeps them there, and the job can look at them.
    """
    names = {name.lower(): value.lower() for name, value in source.options.items()}
    return (
        source.format in {"csv", "json"}
        and "columnnameofcorruptrecord" not in names
        and names.get("mode", "permissive") == "permissive"
        and not str(source.schema).lower().lstrip().startswith("struct")
        and column.lower() not in str(source.schema).lower()
    )


def load_all(spark: SparkSession, job: Job, observe: Observe = observed) -> dict[str, DataFrame]:
    """Return the DataFrames of all sources by name, see `load`, whose event times are timestamps."""
    frames = {name: load(spark, source, job.session, observe) for name, source in job.sources.items()}
    check_event_times(job, frames)
    return frames


def result_of(job: Job, frames: Mapping[str, DataFrame], refresh: TableRefresh | None = None) -> DataFrame:
    """Return the DataFrame of the join over the sources' `frames`.

    Raises
    ------
    ConfigError
        If the join refuses its options or its predicate.
    """
    from slidejoin.spark import stream_join  # noqa: PLC0415 - loads pyspark and Numba

    return _called(stream_join, job, frames, refresh)


def explained(job: Job, frames: Mapping[str, DataFrame]) -> str:
    """Return how the join over the sources' `frames` would run, and why.

    Raises
    ------
    ConfigError
        If the join refuses its options or its predicate.
    """
    from slidejoin.spark import explain_join  # noqa: PLC0415 - loads pyspark and Numba

    refresh = next((source.refresh for source in job.sources.values() if source.refresh is not None), None)
    return str(_called(explain_join, job, frames, refresh))


def _called(
    function: Callable[..., T], job: Job, frames: Mapping[str, DataFrame], refresh: Span | TableRefresh | None
) -> T:
    """Call `stream_join`, or what takes its arguments, for a job."""
    join = job.join
    try:
        return function(
            frames[join.left],
            None if join.right is None else frames[join.right],
            on=join.on,
            window=join.window if join.window.expires else None,
            order_by=join.order_by,
            how=join.how,
            output=join.output,
            select=None if join.select is None else list(join.select),
            suffix=join.suffix,
            self_join=join.self_join,
            aliases=join.aliases,
            strategy=join.strategy,
            algorithm=join.algorithm,
            spread=join.spread,
            partitions=join.partitions,
            late=join.late,
            keep=join.keep,
            pair_id=join.pair_id,
            refresh=refresh,
        )
    except (SlideJoinError, ValueError, NotImplementedError) as error:
        msg = f"join: {in_toml(str(error))}"
        raise ConfigError(msg) from error


def writer_of(job: Job, result: DataFrame) -> DataStreamWriter:
    """Return the writer of a streaming job, ready to start."""
    sink = job.sink
    if sink.kafka is not None:
        result = records_of(result, sink.kafka)
    table_made(result, sink)
    writer = result.writeStream.format(sink.format).outputMode("append").options(**sink.options, **topic_options(sink))
    if sink.path is not None:
        writer = writer.option("path", sink.path)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if sink.checkpoint is not None:
        writer = writer.option("checkpointLocation", sink.checkpoint)
    return triggered(writer, sink)


def triggered(writer: DataStreamWriter, sink: Sink) -> DataStreamWriter:
    """Return a writer with the trigger of a sink."""
    if sink.interval is not None:
        return writer.trigger(processingTime=f"{sink.interval.nanoseconds // 1_000_000} milliseconds")
    return writer.trigger(once=True) if sink.once else writer.trigger(availableNow=True)


def planned_batches(job: Job) -> int | None:
    """Return how many micro-batches a fresh job over local folders will have; None where that cannot be known."""
    sink = job.sink
    if not job.stream or sink.interval is not None or sink.once:
        return None
    if sink.checkpoint is not None:
        checkpoint = local_path(sink.checkpoint, job.session)
        if checkpoint is None or (checkpoint / "offsets").exists():
            return None
    counts = []
    for source in job.sources.values():
        folder = None if source.path is None else local_path(source.path, job.session)
        if source.max_files_per_trigger is None or folder is None or not folder.is_dir():
            return None
        files = sum(1 for file in folder.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
        counts.append(-(-files // source.max_files_per_trigger))
    return max(counts)
