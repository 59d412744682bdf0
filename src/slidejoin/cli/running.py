"""``slidejoin run``: start Spark, start the query, report its progress, shut down cleanly."""

from __future__ import annotations

import sys
from contextlib import contextmanager, redirect_stdout, suppress
from importlib.util import find_spec
from threading import Event
from time import perf_counter
from typing import TYPE_CHECKING

from slidejoin.cli.advice import in_toml
from slidejoin.cli.bad_records import BadRecordQueries, write_bad_records
from slidejoin.cli.checking import check_job, shown_sink, shown_source
from slidejoin.cli.checkpoint import check_earlier_join, keep_join, locked
from slidejoin.cli.connectors import what_is_missing
from slidejoin.cli.engine import check_engine_of_checkpoint
from slidejoin.cli.job import FILES
from slidejoin.cli.kafka_records import records_of, topic_options
from slidejoin.cli.lake_tables import pinned_tables, refused_change, table_made
from slidejoin.cli.lost_rows import LostRowsAdvice
from slidejoin.cli.monitoring import JobMonitoring
from slidejoin.cli.paths import local_path
from slidejoin.cli.pipeline import (
    BAD_ROWS,
    brief,
    explained,
    load,
    load_all,
    observed,
    planned_batches,
    result_of,
    transient,
    writer_of,
)
from slidejoin.cli.reporting import RunTotals
from slidejoin.cli.run_folder import run_folder
from slidejoin.cli.session import spark_session, workers_starting
from slidejoin.cli.sink_files import ASIDE, check_sink_log, move_unlisted
from slidejoin.cli.spark_batches import OBSERVED, LostRows, SparkBatches
from slidejoin.cli.stopping import GRACE, Stopped, StopRequest, interruptible
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.spec.window import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, Observation, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from slidejoin.cli.job import Job, Session
    from slidejoin.cli.reporting import BatchProgress, Reporter
    from slidejoin.spark.job.workers import Compiling
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["explain_job", "run_job", "values_of"]

RESULT = "slidejoin result"
"""What Spark tells of the result of a job without streams; sources have other names."""

CACHE_DIR = "spark.slidejoin.cacheDir"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
COUNTS = ("rows_in", "rows_out", "late_rows", "null_time_rows", "bad_rows")
POLL_SECONDS = 0.25
STOPPING_SECONDS = 0.02
LONGEST_PAUSE = Span(600_000_000_000)
"""Before a query that has failed is started again."""


def run_job(
    job: Job,
    name: str,
    reporter: Reporter,
    *,
    why: str = "",
    json: bool = False,
    stop: Event | None = None,
    monitoring: JobMonitoring | None = None,
) -> RunTotals:
    """Run a job on Spark to its end, or until it is stopped (the checkpoint allows to go on later).

    Parameters
    ----------
    why : str
        Why it runs on Spark.
    stop : threading.Event, optional
        Set, by a signal, when the job is to stop.
    monitoring : JobMonitoring, optional
        Hears how it runs.

    Raises
    ------
    ConfigError
        If the job cannot be started as it is written.
    SlideJoinError
        If Spark does not start, or the query fails.
    """
    stop, monitoring = stop or Event(), monitoring or JobMonitoring(job, name, "spark", reporter)
    check_engine_of_checkpoint(job)
    spec = check_job(job)
    check_earlier_join(job, spec)
    reporter.starting(name, planned_batches(job), "spark", why)
    try:
        totals = _run(job, spec, name, reporter, stop, monitoring, json=json)
    except Stopped:
        totals = RunTotals(batches=0, rows_in=0, rows_out=0, seconds=0.0, stopped=True)
    reporter.done(totals)
    return totals


def _run(
    job: Job, spec: JoinSpec, name: str, reporter: Reporter, stop: Event, monitoring: JobMonitoring, *, json: bool
) -> RunTotals:
    with (
        _only_one(job, reporter, stop) as lock,
        _compiling(job.session, tables=not job.join.window.expires) as compiling,
        spark_session(
            job.session, f"slidejoin {name}", json=json, stop=stop, locks=() if lock is None else (lock,)
        ) as spark,
    ):
        if stop.is_set():
            raise Stopped
        if compiling is not None:
            explained(job, load_all(spark, job))  # what is wrong with the job is said before a long wait
            _compiled(compiling, reporter, stop)
        with _workers_starting(spark, job.session):
            return (
                _stream(spark, job, spec, reporter, stop, monitoring)
                if job.stream
                else _static(spark, job, reporter, stop, json=json)
            )


@contextmanager
def _only_one(job: Job, reporter: Reporter, stop: Event) -> Iterator[int | None]:
    """Keep other runs from the job's checkpoint, and move aside what runs that were killed left among its results."""
    if not job.stream:
        yield None
        return
    with locked(_checkpoint(job), stop) as lock:
        check_sink_log(job.sink, job.session)
        moved = move_unlisted(job.sink, job.session)
        if moved:
            reporter.note(
                f"moved {moved:,} {'file' if moved == 1 else 'files'} of an earlier run that was killed from "
                f"{job.sink.path} to its folder {ASIDE}: their rows come again in other files"
            )
        yield lock


def _checkpoint(job: Job) -> Path | None:
    return local_path(job.sink.checkpoint, job.session) if job.sink.checkpoint else None


@contextmanager
def _compiling(session: Session, *, tables: bool = False) -> Iterator[Compiling | None]:
    """Compile kernels while Spark starts, if a local one is going to need them."""
    if not session.master.startswith("local") or find_spec("pyspark") is None:
        yield None  # which the session says
        return
    from slidejoin.spark.job.workers import compiling_ahead  # noqa: PLC0415 - belongs to an extra

    folder = run_folder()
    cache, temporary = session.conf.get(CACHE_DIR), folder.folder("compiling")
    with compiling_ahead(cache, temporary, (folder.lock,), tables=tables) as compiling:
        yield compiling


def _compiled(compiling: Compiling, reporter: Reporter, stop: Event, every: float = POLL_SECONDS) -> None:
    """Wait for the kernels, and say, `every` so many seconds, how far they are and how long the rest takes."""
    while compiling.runs():
        reporter.compiling(compiling.done(), compiling.total)
        if stop.wait(every):
            raise Stopped
    done = compiling.done()
    reporter.compiling(done, compiling.total)
    # The other process may have got the signal first; without one the join compiles the rest.
    if done < compiling.total and stop.wait(GRACE):
        raise Stopped


@contextmanager
def _workers_starting(spark: SparkSession, session: Session) -> Iterator[None]:
    """Start the Python workers of a local Spark while the query is being prepared, see `workers_starting`."""
    if not session.master.startswith("local"):
        yield
        return
    with workers_starting(spark, session.conf.get(CACHE_DIR)):
        yield


def _stream(
    spark: SparkSession, job: Job, spec: JoinSpec, reporter: Reporter, stop: Event, monitoring: JobMonitoring
) -> RunTotals:
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - slow to load

    _checkpointed(spark, job)
    _without_empty_batches(spark, job)
    tables: dict[str, Observation] = {}

    def observe(frame: DataFrame, name: str, *columns: Column) -> DataFrame:
        if frame.isStreaming:
            return observed(frame, name, *columns)
        # A table is read once, before the query, whose progress does not have it.
        tables[name] = Observation()
        return frame.observe(tables[name], *columns)

    frames, refresh = pinned_tables(job, load_all(spark, job, observe), lambda source: load(spark, source, job.session))
    result = result_of(job, frames, refresh)
    bad = {name.removeprefix(BAD_ROWS): values_of(one).get("rows", 0) for name, one in tables.items()}
    for advice in LostRowsAdvice(job).of_tables(0, bad):
        reporter.note(advice)
    result = result.observe(OBSERVED, functions.count(functions.lit(1)).alias("rows"))
    if stop.is_set():
        raise Stopped
    keep_join(job, spec, new=True)
    start = perf_counter()
    batches: dict[int, BatchProgress] = {}
    listening = SparkBatches(reporter, LostRows(job), monitoring.of_spark(), batches)
    with monitoring.running(lambda: explained(job, frames), _checkpoint(job)):
        _run_query(spark, job, result, listening, stop)
    if batches:
        keep_join(job, spec, new=False)
    sums = {name: sum(getattr(batch, name) for batch in batches.values()) for name in COUNTS}
    return RunTotals(len(batches), seconds=perf_counter() - start, stopped=stop.is_set(), **sums)


def _run_query(spark: SparkSession, job: Job, result: DataFrame, listening: SparkBatches, stop: Event) -> None:
    """Run the query of a job to its end, or until it is stopped, and start it again where it has failed."""
    batches, tries, ended = listening.batches, 0, False
    while not ended and not stop.is_set():
        before = len(batches)
        # First, so that it begins at the same records as the join or before, also with starting = "latest".
        letters = BadRecordQueries(spark, job)
        try:
            query = _started(job, result, stop)
            try:
                _followed(query, listening, stop, letters)
                ended = True
            except Exception as error:
                # A worker that has got the signal too may end amid a micro-batch, which then runs again.
                if stop.wait(GRACE):
                    break
                tries = 1 if len(batches) > before else tries + 1
                pause = _pause(job.session, tries, error)
                msg = f"the query failed: {refused_change(error, job) or in_toml(brief(error))}"
                if pause is None:
                    raise SlideJoinError(msg) from error
                listening.reporter.note(f"{msg}; it starts again in {pause}, time {tries} of {job.session.retries}")
                stop.wait(pause.nanoseconds / 1e9)
        finally:
            letters.stop()


def _pause(session: Session, tries: int, error: Exception) -> Span | None:
    """Return how long to wait before a query that has failed is started again; None if it is not."""
    if tries > session.retries or not transient(error):
        return None
    return Span(min(session.backoff.nanoseconds << (tries - 1), LONGEST_PAUSE.nanoseconds))


def _started(job: Job, result: DataFrame, stop: Event) -> StreamingQuery:
    """Start the query of a job."""
    try:
        return writer_of(job, result).start()
    except ConfigError:
        raise
    except Exception as error:
        if stop.wait(GRACE):
            raise Stopped from error
        missing = what_is_missing(error, job.sink.format)
        if missing:
            msg = f"sink.format: {missing}"
            raise ConfigError(msg) from error
        msg = f"the query cannot be started: {in_toml(brief(error))}"
        raise SlideJoinError(msg) from error


def _followed(query: StreamingQuery, listening: SparkBatches, stop: Event, letters: BadRecordQueries) -> None:
    """Report the micro-batches of a query until it ends, and that it waits for rows; stop it if that is requested.

    The queries of bad records end with it, or, where it ends by itself, when they have written all.
    """
    since = said = perf_counter()
    ending: BatchEnd | None = None
    try:
        while query.isActive or (letters.active and not stop.is_set()):
            now = perf_counter()
            if listening.report_new(query) or query.status["isTriggerActive"]:
                since = said = now
            elif now - said >= listening.reporter.idle_seconds:
                said = now
                listening.reporter.idle(now - since)
            letters.check()
            if query.isActive:
                query.awaitTermination(STOPPING_SECONDS if stop.is_set() else POLL_SECONDS)  # type: ignore[arg-type]  # parts of seconds are allowed
                if stop.is_set():
                    ending = ending or BatchEnd(query, stop)
                    if ending.reached():
                        query.stop()
            else:
                query.awaitTermination()
                stop.wait(POLL_SECONDS)
        letters.check()
    finally:
        query.stop()
    query.awaitTermination()
    listening.report_new(query)


class BatchEnd:
    """The end of the micro-batch in which a query has to stop.

    Parameters
    ----------
    query : pyspark.sql.streaming.StreamingQuery
    stop : threading.Event
        The request; it may be for stopping at once.
    """

    def __init__(self, query: StreamingQuery, stop: Event) -> None:
        self._query = query
        self._at_once = stop.at_once if isinstance(stop, StopRequest) else stop
        self._last = self._number()

    def _number(self) -> int | None:
        progress = self._query.lastProgress
        return None if progress is None else int(progress["batchId"])

    def reached(self) -> bool:
        """Return whether it is there, or is not to be waited for."""
        return self._at_once.is_set() or not self._query.status["isTriggerActive"] or self._number() != self._last


def _checkpointed(spark: SparkSession, job: Job) -> None:
    """Choose how the checkpoint is written, where the job file does not set it."""
    from slidejoin.spark.driver.checkpoints import DELTAS, local_checkpoints, snapshots_for  # noqa: PLC0415 - with an extra

    places = (job.sink.checkpoint or spark.conf.get(CHECKPOINTS, None), job.sink.path)
    local_checkpoints(spark, *(place for place in places if place))
    window, interval = job.join.window, job.sink.interval
    if DELTAS in job.session.conf or interval is None or not window.has_watermark:
        return
    spans = [length.nanoseconds for length in (window.left, window.right) if isinstance(length, Span)]
    spark.conf.set(DELTAS, str(snapshots_for(max(spans, default=0) // max(interval.nanoseconds, 1))))


def _without_empty_batches(spark: SparkSession, job: Job) -> None:
    """Leave out micro-batches that only move the watermark, where these emit nothing, unless settings say it."""
    join = job.join
    inner = join.how == "inner" and join.keep is None and isinstance(join.output, str)
    # Of the context, as what the session answers may be Spark's own default.
    if inner and not spark.sparkContext.getConf().contains(NO_DATA):
        spark.conf.set(NO_DATA, "false")


def _static(spark: SparkSession, job: Job, reporter: Reporter, stop: Event, *, json: bool) -> RunTotals:
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - slow to load

    from slidejoin.spark.job.column_names import folds_names, quoted  # noqa: PLC0415 - belongs to an extra

    observed: dict[str, Observation] = {}
    case_sensitive = not folds_names(spark)

    def observe(frame: DataFrame, name: str, *columns: Column) -> DataFrame:
        observed[name] = Observation()
        return frame.observe(observed[name], *columns)

    def counted(frame: DataFrame, name: str) -> DataFrame:
        rows = functions.count(functions.lit(1)).alias("rows")
        times = columns_named(_times_of(job, name), frame.columns, case_sensitive=case_sensitive)
        without = [functions.count_if(functions.col(quoted(column)).isNull()) for column in times]
        return observe(frame, name, rows, *(one.alias(f"null{number}") for number, one in enumerate(without)))

    start = perf_counter()
    inputs = {name: counted(frame, name) for name, frame in load_all(spark, job, observe).items()}
    result = counted(result_of(job, inputs), RESULT)
    new = _missing(job)
    context = spark.sparkContext

    def write() -> None:
        context.setLocalProperty("spark.job.interruptOnCancel", "true")  # of this thread's jobs
        _write(job, result, json=json)
        write_bad_records(spark, job)

    try:
        interruptible(write, stop, context.cancelAllJobs)
    except Stopped:
        if new is not None:  # what Spark has left of it
            with suppress(OSError):
                new.rmdir()
        raise
    except Exception as error:
        msg = f"the job failed: {in_toml(brief(error))}"
        raise SlideJoinError(msg) from error
    read = {name: values_of(observed[name]) for name in inputs}
    bad = {name: values_of(observed[BAD_ROWS + name]).get("rows", 0) for name in inputs if BAD_ROWS + name in observed}
    without_time = sum(value for row in read.values() for key, value in row.items() if key != "rows")
    for advice in LostRowsAdvice(job).of_tables(without_time, bad):
        reporter.note(advice)
    return RunTotals(
        batches=1,
        rows_in=sum(row.get("rows", 0) for row in read.values()),
        rows_out=values_of(observed[RESULT]).get("rows", 0),
        seconds=perf_counter() - start,
        null_time_rows=without_time,
        bad_rows=sum(bad.values()),
    )


def values_of(observation: Observation) -> dict[str, int]:
    """Return what Spark has counted; nothing if it has left out that part of the plan, as below a filter never true."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415 - belongs to an extra

    try:
        return {name: int(value) for name, value in observation.get.items()}
    except Py4JJavaError:  # Spark's answer is a row without columns, which PySpark cannot read
        return {}


def _times_of(job: Job, source: str) -> list[str]:
    """Return the column of event times of a source, if there is one."""
    window, join = job.join.window, job.join
    if source not in {join.left, join.right}:
        return []
    return list(window.event_times("left" if source == join.left else "right"))


def columns_named(names: Iterable[str], columns: Sequence[str], *, case_sensitive: bool) -> list[str]:
    """Return those of some names that each are one of the columns, as Spark compares names.

    Examples
    --------
    >>> columns_named(["TS", "at"], ["ts", "x"], case_sensitive=False)
    ['TS']
    """
    folded = [column if case_sensitive else column.casefold() for column in columns]
    return [name for name in names if folded.count(name if case_sensitive else name.casefold()) == 1]


def _missing(job: Job) -> Path | None:
    """Return the folder of the results, if it is on this machine and does not exist."""
    folder = local_path(job.sink.path, job.session) if job.sink.path is not None else None
    return None if folder is None or folder.exists() else folder


def _write(job: Job, result: DataFrame, *, json: bool) -> None:
    """Write the result of a job without streams; a folder that is there already is an error of Spark."""
    if job.sink.format not in (*FILES, "noop"):
        # Spark observes nothing of what it writes by queries within the one that it is given.
        result = result.persist()
        result.count()
    if job.sink.format == "console":
        with redirect_stdout(sys.stderr if json else sys.stdout):
            result.show(int(job.sink.options.get("numRows", 20)), truncate=False)
        return
    if job.sink.kafka is not None:
        result = records_of(result, job.sink.kafka)
    if job.sink.format == "iceberg" and not table_made(result, job.sink):
        msg = f"there is a table at {job.sink.path}, and the result of a job without streams replaces none"
        raise SlideJoinError(msg)
    writer = result.write.format(job.sink.format).options(**job.sink.options, **topic_options(job.sink))
    if job.sink.kafka is not None:
        writer.save()
        return
    if job.sink.partition_by:
        writer = writer.partitionBy(*job.sink.partition_by)
    if job.sink.path is None:
        writer.mode("overwrite").save()
    elif job.sink.format == "iceberg":
        writer.mode("append").save(job.sink.path)
    else:
        writer.save(job.sink.path)


def explain_job(job: Job, name: str) -> str:
    """Return how a job would run, and why.

    Raises
    ------
    ConfigError
        If the job could not be started as it is written.
    SlideJoinError
        If Spark does not start.
    """
    check_job(job)
    with spark_session(job.session, f"slidejoin explain {name}") as spark:
        frames = load_all(spark, job)
        tables = [one for one, frame in frames.items() if not (frame.isStreaming or job.join.window.expires)]
        # A table is read as it is joined, and the columns of the result are those without any row of it.
        result = result_of(job, {**frames, **{one: frames[one].limit(0) for one in tables}})
        plan = explained(job, frames)
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in result.schema.fields)
    sources = [shown_source(source) for source in job.sources.values()]
    return "\n".join(
        [
            *sources,
            f"on Spark: {job.session.master}",
            plan,
            f"result: {columns}",
            f"sink: {shown_sink(job.sink)}",
        ]
    )
