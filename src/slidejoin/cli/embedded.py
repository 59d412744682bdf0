"""A job in this process: from the job file to sources, join and sink of `slidejoin.pipeline`, and its progress."""

from __future__ import annotations

import gc
import logging
import sys
import tempfile
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, TextIO
from uuid import uuid4

import pyarrow as pa

from slidejoin.cli.advice import in_toml
from slidejoin.cli.checking import check_job, shown_sink, shown_source
from slidejoin.cli.checkpoint import locked
from slidejoin.cli.embedded_sources import checked_source, folded, source_or_table
from slidejoin.cli.lost_rows import LostRowsAdvice
from slidejoin.cli.monitoring import JobMonitoring
from slidejoin.cli.paths import STANDARD, local_path
from slidejoin.cli.reporting import BatchProgress, RunTotals
from slidejoin.errors import ConfigError, SlideJoinError, nearest
from slidejoin.pipeline.checkpoint import Checkpoint
from slidejoin.pipeline.file_sink import SINK_OPTIONS, FileSink, FolderOnce
from slidejoin.pipeline.files import FileSource
from slidejoin.pipeline.job_sinks import JobSinks
from slidejoin.pipeline.micro_batch import LATE_SIDE, MicroBatchJoin
from slidejoin.pipeline.run import JobPipeline, Timing, run_tables
from slidejoin.pipeline.sink import ConsoleSink, NoSink
from slidejoin.pipeline.source import OnlySparkError
from slidejoin.predicate import to_sql
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slidejoin.cli.job import Job, Sink, Source
    from slidejoin.cli.reporting import Reporter
    from slidejoin.pipeline.job_join import JobJoin
    from slidejoin.pipeline.run import Done, PipelineTotals
    from slidejoin.pipeline.sink import ResultSink
    from slidejoin.pipeline.source import Rows, RowSource
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["EmbeddedJob", "explain_embedded", "prepared", "run_embedded", "without_pandas"]

NANOSECONDS = 1_000_000_000

Schemas = tuple["pa.Schema", "pa.Schema"]
"""Of both sources, or twice that of the one in a self-join."""


@dataclass(frozen=True, slots=True)
class EmbeddedJob:
    """A job that this process can run."""

    job: Job
    spec: JoinSpec
    sources: list[RowSource]
    join: JobJoin


def prepared(job: Job) -> EmbeddedJob:
    """Make sources and join of a job, and check it on the way; nothing is read but schemas.

    Raises
    ------
    OnlySparkError
        For what only Spark can do.
    ConfigError
        For what is wrong with the job.
    """
    _check_sinks(job)
    names = [job.join.left] if job.join.right is None else [job.join.left, job.join.right]
    if len([name for name in names if job.sources[name].path == STANDARD]) > 1:
        msg = f"sources.{names[1]}.path: standard input is the other source too; give one of them a folder."
        raise ConfigError(msg)
    for name in names:
        checked_source(job, job.sources[name])
    spec = check_job(job)
    sources = [source_or_table(job, job.sources[name]) for name in names]
    try:
        join = _join(job, spec, sources)
    except ConfigError:
        raise
    except (SlideJoinError, ValueError) as error:
        msg = f"join: {in_toml(str(error))}"
        raise ConfigError(msg) from error
    return EmbeddedJob(job, spec, sources, join)


def _join(job: Job, spec: JoinSpec, sources: list[RowSource]) -> JobJoin:
    schemas = sources[0].schema, sources[-1].schema
    made = _made(job, spec, sources, schemas) if job.join.pair_id is None else _with_ids(job, spec, sources, schemas)
    for source, needed in zip(sources, made.needed, strict=False):
        source.narrow(needed)
    return made


def _made(
    job: Job,
    spec: JoinSpec,
    sources: list[RowSource],
    schemas: Schemas,
    shaped: Callable[[Rows], Rows] = lambda rows: rows,
) -> JobJoin:
    """Return a join; `shaped` is what becomes of the rows of a table that it reads itself."""
    if job.join.window.expires:
        return _windowed(job, spec, schemas)
    return _with_table(job, spec, sources, schemas, shaped)


def _with_ids(job: Job, spec: JoinSpec, sources: list[RowSource], schemas: Schemas) -> JobJoin:
    from slidejoin.pipeline.pair_ids import PairIdJoin, numbered, numbered_schema  # noqa: PLC0415 - few jobs have ids
    from slidejoin.plan.pair_ids import PairIdColumn  # noqa: PLC0415 - the same

    column = PairIdColumn(job.join.pair_id)
    output = spec.output if spec.aggregate is None else spec.aggregate
    select = column.selected(spec.select, spec.aliases, spec.how, output)
    spec = replace(spec, select=None if select is None else tuple(select))
    left, right = (
        numbered_schema(schema, source.name) for schema, source in zip(schemas, (sources[0], sources[-1]), strict=True)
    )
    return PairIdJoin(column, spec.suffix, schemas, _made(job, spec, sources, (left, right), numbered))


def _with_table(
    job: Job, spec: JoinSpec, sources: list[RowSource], schemas: Schemas, shaped: Callable[[Rows], Rows]
) -> JobJoin:
    from slidejoin.pipeline.tables import TableBatchJoin, TableSource  # noqa: PLC0415 - few jobs have a table

    streams: list[Side] = [side for side, one in zip(SIDES, sources, strict=True) if job.sources[one.name].stream]
    table = next((one for one in sources if isinstance(one, TableSource)), sources[-1])
    return TableBatchJoin(
        spec,
        streams,
        schemas,
        lambda version: shaped(table.read(version)),
        threads=job.embedded.threads,
        memory_limit=job.embedded.memory_limit,
    )


def _windowed(job: Job, spec: JoinSpec, schemas: Schemas) -> JobJoin:
    join = job.join
    if join.late == "emit" and (join.how != "inner" or join.output != "pairs" or join.keep is not None):
        msg = (
            'join.late: "emit" is for output = "pairs" of an inner join without keep; leave the key out: late rows are '
            "counted."
        )
        raise ConfigError(msg)
    options = {
        "on": join.on, "window": join.window, "how": join.how, "output": join.output, "suffix": join.suffix,
        "self_join": join.self_join, "aliases": join.aliases, "algorithm": join.algorithm, "keep": join.keep,
        "late": join.late, "threads": job.embedded.threads, "memory_limit": job.embedded.memory_limit,
    }  # fmt: skip
    return MicroBatchJoin(spec, options, join.order_by, schemas)


def described(job: Job, spec: JoinSpec) -> dict[str, str]:
    """Return what must be the same for a checkpoint to be used again, by the keys of the job file."""
    join = job.join
    formats = {f"sources.{source.name}.format": source.format for source in job.sources.values()}
    if not join.window.expires:  # there is no state
        return {"join.left": join.left, "join.right": str(join.right)} | formats
    made = {
        "join.on": to_sql(spec.on, ("l", "r"), whole=True),
        "join.window": repr(join.window),
        "join.window.order_by": str(join.order_by),
        "join.how": join.how,
        "join.output": repr(join.output),
        "join.keep": repr(join.keep),
        "join.late": join.late,
        "join.pair_id": str(join.pair_id),
        "join.left": join.left,
        "join.right": str(join.right),
    }
    return made | formats


def explain_embedded(ready: EmbeddedJob, why: str) -> str:
    """Return how a job would run in this process, and why.

    Raises
    ------
    ConfigError
        If the join refuses its options or its predicate.
    """
    job = ready.job
    _begin(ready)
    columns = ", ".join(f"{field.name} {field.type}" for field in _result_schema(ready))
    return "\n".join(
        [
            *(shown_source(source) for source in job.sources.values()),
            f"in this process: {why}",
            ready.join.explain(),
            f"result: {columns}",
            f"sink: {shown_sink(job.sink)}",
        ]
    )


def _result_schema(ready: EmbeddedJob) -> pa.Schema:
    """Return the schema of what the sink of results gets."""
    schema = ready.join.schema
    if ready.job.join.late_sink is None:
        return schema
    return schema.remove(schema.get_field_index(LATE_SIDE))


def _begin(ready: EmbeddedJob) -> None:
    """Plan the join of a new job, so that what is wrong with it is said before anything is written."""
    try:
        ready.join.begin()
    except (SlideJoinError, ValueError, NotImplementedError) as error:
        msg = f"join: {in_toml(str(error))}"
        raise ConfigError(msg) from error
    names = _result_schema(ready).names
    if ready.job.sink.kafka is not None:
        from slidejoin.cli.embedded_topics import check_topic_columns  # noqa: PLC0415 - loads Kafka's client

        check_topic_columns(ready.job.sink, names)
    for column in ready.job.sink.partition_by:
        if column not in names:
            msg = f"sink.partition_by: the result has no column {column!r}; it has {', '.join(names)}."
            raise ConfigError(msg + nearest(column, names))


# -- running -----------------------------------------------------------------------------------------------------------


class _Warnings(logging.Handler):
    """Gives warnings of the library to the reporter."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(logging.WARNING)
        self._reporter = reporter

    def emit(self, record: logging.LogRecord) -> None:
        self._reporter.note(f"warning: {in_toml(record.getMessage())}")


@contextmanager
def _warnings_noted(reporter: Reporter) -> Iterator[None]:
    """Report what the library logs, in the words of a job file."""
    log, handler = logging.getLogger("slidejoin"), _Warnings(reporter)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _Listening:
    """Tells the reporter of the command, and the monitor of the job, what the pipeline says."""

    def __init__(self, job: Job, reporter: Reporter, monitoring: JobMonitoring, join: JobJoin) -> None:
        self._reporter, self._advice = reporter, LostRowsAdvice(job)
        self._monitoring, self._join = monitoring, join
        self.idle_seconds = reporter.idle_seconds

    def rows(self, table: pa.Table) -> None:
        # Late rows come in tables of their own.
        if LATE_SIDE not in table.column_names or table.column(LATE_SIDE).null_count:
            self._monitoring.rows(table)

    def joined(self) -> None:
        self._monitoring.joined(self._join)

    def waiting(self) -> None:
        self._monitoring.waiting(self._join)

    def batch(self, done: Done) -> None:
        self._monitoring.batch(done.rows_out, done.bad)
        if done.rows_in or done.rows_out:
            progress = BatchProgress(
                number=done.number, rows_in=done.rows_in, rows_out=done.rows_out, seconds=done.seconds,
                event_time=done.event_time, late_rows=done.late, null_time_rows=done.without_time,
                bad_rows=sum(done.bad.values()),
            )  # fmt: skip
            self._reporter.batch(progress)
            for advice in self._advice.of_batch(progress, done.bad, None):
                self._reporter.note(advice)

    def idle(self, seconds: float) -> None:
        self._reporter.idle(seconds)


class _NoPandas:
    """Finds that pandas is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def without_pandas(ready: EmbeddedJob) -> None:
    """Keep Arrow from loading pandas in this process, half a second, if no value of a job can be one of it.

    Arrow looks for pandas as it first makes something of a value of Python, and once. It needs pandas for times in
    nanoseconds alone.
    """
    if "pandas" in sys.modules or any("[ns" in str(source.schema) for source in ready.sources):
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)


def run_embedded(
    ready: EmbeddedJob,
    name: str,
    reporter: Reporter,
    why: str,
    *,
    json: bool = False,
    stop: Event | None = None,
    monitoring: JobMonitoring | None = None,
) -> RunTotals:
    """Run a job to its end, or until it is stopped.

    Parameters
    ----------
    monitoring : JobMonitoring, optional
        Hears how it runs.

    Raises
    ------
    ConfigError
        If the checkpoint or the folder of the results is of something else.
    SlideJoinError
        If it fails.
    """
    stop, standard = stop or Event(), ready.job.sink.path == STANDARD
    _begin(ready)
    gc.enable()  # which the command leaves off as it starts
    out = sys.stderr if json and not standard else sys.stdout
    # Progress must not be among rows.
    with redirect_stdout(sys.stderr) if standard else nullcontext(), _warnings_noted(reporter):
        reporter.starting(name, _planned_batches(ready), "embedded", why)
        totals = _run(ready, reporter, stop, out, monitoring or JobMonitoring(ready.job, name, "embedded", reporter))
        reporter.done(totals)
    return totals


def _run(ready: EmbeddedJob, reporter: Reporter, stop: Event, out: TextIO, monitoring: JobMonitoring) -> RunTotals:
    job = ready.job
    if not job.stream:
        return _tables(ready, reporter, stop, out, monitoring)
    if job.sink.checkpoint is not None:
        folder = Path(str(local_path(job.sink.checkpoint, job.session)))
        return _stream(ready, folder, reporter, stop, out, monitoring)
    with tempfile.TemporaryDirectory(prefix="slidejoin-checkpoint-") as temporary:
        return _stream(ready, Path(temporary), reporter, stop, out, monitoring)


def _stream(
    ready: EmbeddedJob, folder: Path, reporter: Reporter, stop: Event, out: TextIO, monitoring: JobMonitoring
) -> RunTotals:
    job = ready.job
    Checkpoint.check_engine(folder)
    with locked(folder, stop):
        checkpoint = Checkpoint(folder, described(job, ready.spec))
        interval = job.sink.interval
        timing = Timing(
            interval=None if interval is None else interval.nanoseconds / NANOSECONDS,
            snapshot=job.embedded.snapshot_every.nanoseconds / NANOSECONDS,
        )
        sink = _all_sinks(job, checkpoint.id, out)
        listening = _Listening(job, reporter, monitoring, ready.join)
        pipeline = JobPipeline(ready.sources, ready.join, sink, checkpoint, timing, listening, stop)
        with monitoring.running(ready.join.explain(), None if job.sink.checkpoint is None else folder):
            totals = pipeline.run()
            monitoring.joined(ready.join, now=True)
        return _totals(totals, stopped=stop.is_set())


def _tables(ready: EmbeddedJob, reporter: Reporter, stop: Event, out: TextIO, monitoring: JobMonitoring) -> RunTotals:
    with monitoring.running(ready.join.explain()):
        totals = _tables_run(ready, reporter, stop, out)
        monitoring.joined(ready.join, now=True)
    return totals


def _tables_run(ready: EmbeddedJob, reporter: Reporter, stop: Event, out: TextIO) -> RunTotals:
    totals = run_tables(ready.sources, ready.join, _all_sinks(ready.job, None, out), stop)
    if totals is None:
        return RunTotals(batches=0, rows_in=0, rows_out=0, seconds=0.0, stopped=True)
    for advice in LostRowsAdvice(ready.job).of_tables(totals.without_time, totals.bad_by_source):
        reporter.note(advice)
    return _totals(totals, stopped=False)


def _totals(totals: PipelineTotals, *, stopped: bool) -> RunTotals:
    return RunTotals(
        batches=totals.batches, rows_in=totals.rows_in, rows_out=totals.rows_out, seconds=totals.seconds,
        stopped=stopped, late_rows=totals.late, null_time_rows=totals.without_time, bad_rows=totals.bad,
    )  # fmt: skip


def _planned_batches(ready: EmbeddedJob) -> int | None:
    """Return how many micro-batches a fresh job will have; None where that is not known."""
    job = ready.job
    if not job.stream or job.sink.interval is not None:
        return None
    if job.sink.checkpoint is not None and Path(str(local_path(job.sink.checkpoint, job.session))).exists():
        return None
    counts = []
    for source in ready.sources:
        if job.sources[source.name].table:
            continue
        most = job.sources[source.name].max_files_per_trigger
        if most is None or job.sources[source.name].max_rows is not None:
            return None
        if not isinstance(source, FileSource):
            return None
        source.look()
        counts.append(-(-source.waiting // most))
    return max(counts)


# -- sinks -------------------------------------------------------------------------------------------------------------


def _check_sinks(job: Job) -> None:
    """Check the sinks of a job; raise OnlySparkError for what only Spark can write."""
    for where, sink in _sinks(job):
        _check_sink(job, sink, where)


def _sinks(job: Job) -> Iterator[tuple[str, Sink]]:
    """Yield the keys of all sinks, and the sinks."""
    yield "sink", job.sink
    for source in job.sources.values():
        if source.bad_rows is not None and source.bad_rows.sink is not None:
            yield _bad_rows(source), source.bad_rows.sink
    if job.join.late_sink is not None:
        yield "join.late", job.join.late_sink


def _bad_rows(source: Source) -> str:
    return f"sources.{source.name}.bad_rows"


def _check_sink(job: Job, sink: Sink, where: str) -> None:
    if sink.kafka is not None:
        from slidejoin.cli.embedded_topics import check_topic_sink  # noqa: PLC0415 - loads Kafka's client

        check_topic_sink(sink, where)
        return
    if sink.path == STANDARD:
        if where != "sink":
            msg = f"{where}.path: standard output is for results; give a folder."
            raise ConfigError(msg)
        if sink.format not in {"json", "arrow"} or sink.partition_by:
            msg = 'sink.format: expected "json" or "arrow" for standard output, and no partition_by.'
            raise ConfigError(msg)
        return
    known = {**SINK_OPTIONS, "console": ("numrows", "truncate"), "noop": (), "delta": ()}
    if sink.format not in known:
        msg = f"{where}.format: {sink.format!r} is written by Spark alone."
        raise OnlySparkError(msg)
    _check_places(job, sink, where)
    for name in sink.options:
        if name.lower() not in known[sink.format]:
            msg = f"{where}.options: {name} is understood by Spark alone."
            raise OnlySparkError(msg)


def _check_places(job: Job, sink: Sink, where: str) -> None:
    if sink.format == "delta" and sink.path is None:
        msg = f"{where}.path: missing; expected the folder of a Delta table."
        raise ConfigError(msg)
    for key, path in (("path", sink.path), ("checkpoint", sink.checkpoint)):
        if path is not None and local_path(path, job.session) is None:
            msg = f"{where}.{key}: {path} is reached by Spark alone."
            raise OnlySparkError(msg)


def _all_sinks(job: Job, identity: str | None, out: TextIO) -> JobSinks:
    """Return the sinks of a job; `identity` is of its checkpoint, if it has one."""
    bad = {
        source.name: _sink(job, source.bad_rows.sink, identity, out, _bad_rows(source), unread=True)
        for source in job.sources.values()
        if source.bad_rows is not None and source.bad_rows.sink is not None
    }
    late_sink = job.join.late_sink
    late = None if late_sink is None else _sink(job, late_sink, identity, out, "join.late")
    return JobSinks(_sink(job, job.sink, identity, out, "sink"), bad, late)


def _sink(job: Job, sink: Sink, identity: str | None, out: TextIO, where: str, *, unread: bool = False) -> ResultSink:
    """Return a sink; `where` is its key in the job file. `unread`: of rows that cannot be read."""
    own = identity or uuid4().hex
    own = own if where == "sink" else f"{own}-{where}"
    if sink.path == STANDARD:
        from slidejoin.pipeline.standard import ArrowOutput, JsonOutput  # noqa: PLC0415 - few jobs have it

        return ArrowOutput(out.buffer) if sink.format == "arrow" else JsonOutput(out)
    if sink.kafka is not None:
        from slidejoin.cli.embedded_topics import topic_sink_of  # noqa: PLC0415 - as above

        return topic_sink_of(sink, own, where, unread=unread)
    if sink.path is None:
        rows = int(folded(sink.options).get("numrows", "20"))
        return NoSink() if sink.format == "noop" else ConsoleSink(rows, out)
    folder = Path(str(local_path(sink.path, job.session)))
    if sink.format == "delta":
        from slidejoin.pipeline.delta import DeltaSink  # noqa: PLC0415 - an extra

        return DeltaSink(folder, sink.partition_by, own, where)
    if identity is None:
        return FolderOnce(folder, sink.format, folded(sink.options), sink.partition_by, where)
    return FileSink(folder, sink.format, folded(sink.options), sink.partition_by, identity, where)
