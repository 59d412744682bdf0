"""``slidejoin run``: start Spark, start the query, report its progress, shut down cleanly."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any

from slidejoin.cli.locking import locked
from slidejoin.cli.pipeline import brief, load_all, planned_batches, result_of, writer_of
from slidejoin.cli.progress import BatchProgress, RunTotals
from slidejoin.cli.session import spark_session
from slidejoin.cli.sink_files import ASIDE, check_sink_log, move_unlisted
from slidejoin.errors import SlideJoinError
from slidejoin.spec.window import Span, TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from slidejoin.cli.job import Job, Session
    from slidejoin.cli.progress import Reporter

__all__ = ["run_job"]

OBSERVED = "slidejoin"
CACHE_DIR = "spark.slidejoin.cacheDir"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
POLL_SECONDS = 0.25


def run_job(job: Job, name: str, reporter: Reporter, *, json: bool = False) -> RunTotals:
    """Run a job to its end, or until a signal asks to stop (SIGINT or SIGTERM; the checkpoint allows to go on later).

    Raises
    ------
    ConfigError
        If the job cannot be started as it is written.
    SlideJoinError
        If Spark does not start, or the query fails.
    """
    reporter.starting(name, planned_batches(job))
    with (
        _only_one(job, reporter),
        _compiling(job.session),
        spark_session(job.session, f"slidejoin {name}", json=json) as spark,
        _workers_starting(spark, job.session),
        _stop_signals() as stop,
    ):
        totals = _stream(spark, job, reporter, stop) if job.stream else _static(spark, job, json=json)
    reporter.done(totals)
    return totals


@contextmanager
def _only_one(job: Job, reporter: Reporter) -> Iterator[None]:
    """Keep other runs from the job's checkpoint, and move aside what runs that were killed left beside its results."""
    if not job.stream:
        yield
        return
    with locked(job.sink.checkpoint):
        check_sink_log(job.sink)
        moved = move_unlisted(job.sink)
        if moved:
            reporter.note(
                f"moved {moved:,} {'file' if moved == 1 else 'files'} of an earlier run that was killed from "
                f"{job.sink.path} to its folder {ASIDE}: their rows come again in other files"
            )
        yield


@contextmanager
def _compiling(session: Session) -> Iterator[None]:
    """Compile kernels while Spark starts, if a local one is going to need them; the join waits for that."""
    if not session.master.startswith("local") or find_spec("pyspark") is None:
        yield  # which the session says
        return
    from slidejoin.spark.job.workers import compiling_ahead  # noqa: PLC0415 - belongs to an extra

    with compiling_ahead(session.conf.get(CACHE_DIR)):
        yield


@contextmanager
def _workers_starting(spark: SparkSession, session: Session) -> Iterator[None]:
    """Start the Python workers of a local Spark while the query is being prepared, see `workers_starting`."""
    if not session.master.startswith("local"):
        yield
        return
    from slidejoin.spark.job.workers import workers_starting  # noqa: PLC0415 - belongs to an extra

    with workers_starting(spark, session.conf.get(CACHE_DIR)):
        yield


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Turn SIGINT and SIGTERM into an event: a KeyboardInterrupt amid a call to Java would break the connection."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stream(spark: SparkSession, job: Job, reporter: Reporter, stop: threading.Event) -> RunTotals:
    from pyspark.sql import functions  # noqa: PLC0415 - slow to load

    _checkpointed(spark, job)
    _without_empty_batches(spark, job)
    result = result_of(job, load_all(spark, job)).observe(OBSERVED, functions.count(functions.lit(1)).alias("rows"))
    start = perf_counter()
    try:
        query = writer_of(job, result).start()
    except Exception as error:
        msg = f"the query cannot be started: {brief(error)}"
        raise SlideJoinError(msg) from error
    batches: dict[int, BatchProgress] = {}
    try:
        while query.isActive:
            _report_new(query, batches, reporter)
            query.awaitTermination(POLL_SECONDS)  # type: ignore[arg-type]  # parts of seconds are allowed
            if stop.is_set():
                query.stop()
        query.awaitTermination()
        _report_new(query, batches, reporter)
    except Exception as error:
        msg = f"the query failed: {brief(error)}"
        raise SlideJoinError(msg) from error
    return RunTotals(
        batches=len(batches),
        rows_in=sum(batch.rows_in for batch in batches.values()),
        rows_out=sum(batch.rows_out for batch in batches.values()),
        seconds=perf_counter() - start,
        stopped=stop.is_set(),
    )


def _checkpointed(spark: SparkSession, job: Job) -> None:
    """Choose how the checkpoint is written, where the job file does not set it."""
    from slidejoin.spark.driver.checkpoints import DELTAS, local_checkpoints, snapshots_for  # noqa: PLC0415 - with an extra

    places = (job.sink.checkpoint or spark.conf.get(CHECKPOINTS, None), job.sink.path)
    local_checkpoints(spark, *(place for place in places if place))
    window, interval = job.join.window, job.sink.interval
    if DELTAS in job.session.conf or interval is None or not isinstance(window, TimeWindow):
        return
    spans = [length.nanoseconds for length in (window.left, window.right) if isinstance(length, Span)]
    spark.conf.set(DELTAS, str(snapshots_for(max(spans, default=0) // max(interval.nanoseconds, 1))))


def _without_empty_batches(spark: SparkSession, job: Job) -> None:
    """Leave out micro-batches that only move the watermark where nothing is put out by them, unless settings say it."""
    join = job.join
    inner = join.how == "inner" and join.keep is None and isinstance(join.output, str)
    # Of the context, as what the session answers may be Spark's own default.
    if inner and not spark.sparkContext.getConf().contains(NO_DATA):
        spark.conf.set(NO_DATA, "false")


def _report_new(query: StreamingQuery, seen: dict[int, BatchProgress], reporter: Reporter) -> None:
    """Report the micro-batches that ended since the last call, but not the empty ones that only move the watermark."""
    for progress in query.recentProgress:
        batch = _batch(progress)
        if batch.number not in seen and (batch.rows_in or batch.rows_out):
            seen[batch.number] = batch
            reporter.batch(batch)


def _batch(progress: Mapping[str, Any]) -> BatchProgress:
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    event_time = (progress.get("eventTime") or {}).get("max") if progress["numInputRows"] else None
    return BatchProgress(
        number=int(progress["batchId"]),
        rows_in=int(progress["numInputRows"]),
        rows_out=int(observed["rows"]) if observed is not None else 0,
        seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        event_time=event_time,
    )


def _static(spark: SparkSession, job: Job, *, json: bool) -> RunTotals:
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - slow to load

    def counted(frame: DataFrame) -> tuple[DataFrame, Observation]:
        observation = Observation()
        return frame.observe(observation, functions.count(functions.lit(1)).alias("rows")), observation

    start = perf_counter()
    inputs = {name: counted(frame) for name, frame in load_all(spark, job).items()}
    result, written = counted(result_of(job, {name: frame for name, (frame, _) in inputs.items()}))
    try:
        _write(job, result, json=json)
    except Exception as error:
        msg = f"the job failed: {brief(error)}"
        raise SlideJoinError(msg) from error
    return RunTotals(
        batches=1,
        rows_in=sum(int(read.get["rows"]) for _, read in inputs.values()),
        rows_out=int(written.get["rows"]),
        seconds=perf_counter() - start,
    )


def _write(job: Job, result: DataFrame, *, json: bool) -> None:
    """Write the result of a job without streams; a folder that is there already is an error of Spark."""
    if job.sink.format == "console":
        shown = result.persist()
        shown.count()
        with redirect_stdout(sys.stderr if json else sys.stdout):
            shown.show(int(job.sink.options.get("numRows", 20)), truncate=False)
        return
    writer = result.write.format(job.sink.format).options(**job.sink.options)
    if job.sink.partition_by:
        writer = writer.partitionBy(*job.sink.partition_by)
    if job.sink.path is None:
        writer.mode("overwrite").save()
    else:
        writer.save(job.sink.path)
