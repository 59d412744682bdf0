"""A job in this process: from the job file to sources, join and sink of `slidejoin.pipeline`, and its progress."""

from __future__ import annotations

import glob
import logging
import sys
import tempfile
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TextIO
from uuid import uuid4

from slidejoin.cli.advice import in_toml
from slidejoin.cli.checking import check_job, shown_sink, shown_source
from slidejoin.cli.checkpoint import locked
from slidejoin.cli.embedded_topics import check_topic_columns, check_topic_sink, topic_sink_of, topics_of
from slidejoin.cli.lost_rows import LostRowsAdvice
from slidejoin.cli.paths import STANDARD, files_below, local_path
from slidejoin.cli.reporting import BatchProgress, RunTotals
from slidejoin.errors import ConfigError, SlideJoinError, nearest
from slidejoin.pipeline.checkpoint import Checkpoint
from slidejoin.pipeline.columns import Shape
from slidejoin.pipeline.ddl import schema_of_ddl
from slidejoin.pipeline.delta import DeltaSink, DeltaSource, delta_schema
from slidejoin.pipeline.file_sink import SINK_OPTIONS, FileSink, FolderOnce
from slidejoin.pipeline.files import FILE_FORMATS, Files, FileSource, file_schema
from slidejoin.pipeline.micro_batch import MicroBatchJoin
from slidejoin.pipeline.run import JobPipeline, Timing, run_tables
from slidejoin.pipeline.sink import ConsoleSink, NoSink
from slidejoin.pipeline.source import Limits, OnlySparkError
from slidejoin.pipeline.standard import ArrowOutput, InputSource, JsonOutput, arrow_input, json_input
from slidejoin.pipeline.text_rows import CSV_OPTIONS, JSON_OPTIONS
from slidejoin.pipeline.topics import TopicSource
from slidejoin.predicate import to_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from slidejoin.cli.job import Job, Sink, Source
    from slidejoin.cli.reporting import Reporter
    from slidejoin.pipeline.run import Done, PipelineTotals
    from slidejoin.pipeline.sink import ResultSink
    from slidejoin.pipeline.source import RowSource
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["EmbeddedJob", "explain_embedded", "prepared", "run_embedded"]

PATTERN = "*?["
ALTERNATIVES = "{"

READ_OPTIONS: dict[str, tuple[str, ...]] = {"csv": CSV_OPTIONS, "json": JSON_OPTIONS}

NANOSECONDS = 1_000_000_000

ALL = 1 << 62
"""More rows than any source has."""


@dataclass(frozen=True, slots=True)
class EmbeddedJob:
    """A job that this process can run."""

    job: Job
    spec: JoinSpec
    sources: list[RowSource]
    join: MicroBatchJoin


def prepared(job: Job) -> EmbeddedJob:
    """Make sources and join of a job, and check it on the way; nothing is read but schemas.

    Raises
    ------
    OnlySparkError
        For what only Spark can do.
    ConfigError
        For what is wrong with the job.
    """
    _check_sink(job)
    if job.join.pair_id is not None:
        msg = "join.pair_id: ids of pairs are computed by Spark alone."
        raise OnlySparkError(msg)
    if not job.join.window.expires:
        msg = "sources: a job whose join has no window, of a table, is run by Spark alone."
        raise OnlySparkError(msg)
    names = [job.join.left] if job.join.right is None else [job.join.left, job.join.right]
    if len([name for name in names if job.sources[name].path == STANDARD]) > 1:
        msg = f"sources.{names[1]}.path: standard input is the other source too; give one of them a folder."
        raise ConfigError(msg)
    for name in names:
        _check_source(job, job.sources[name])
    spec = check_job(job)
    sources = [_source(job, job.sources[name]) for name in names]
    try:
        join = _join(job, spec, sources)
    except ConfigError:
        raise
    except (SlideJoinError, ValueError) as error:
        msg = f"join: {in_toml(str(error))}"
        raise ConfigError(msg) from error
    return EmbeddedJob(job, spec, sources, join)


def _check_source(job: Job, source: Source) -> None:
    where = f"sources.{source.name}"
    if source.kafka is not None or source.path == STANDARD:
        return  # see `topics_of` and `_input`
    if source.format not in (*FILE_FORMATS, "delta") or source.path is None:
        msg = f"{where}.format: {source.format!r} is read by Spark alone."
        raise OnlySparkError(msg)
    path = local_path(source.path, job.session)
    if path is None or ALTERNATIVES in source.path:
        msg = f"{where}.path: {source.path} is read by Spark alone."
        raise OnlySparkError(msg)
    if source.format != "delta" and (any("=" in part for part in path.parts) or _has_partitions(path)):
        msg = f"{where}.path: folders of partitions, such as day=1, are read by Spark alone."
        raise OnlySparkError(msg)
    for name in source.options:
        if name.lower() not in READ_OPTIONS.get(source.format, ()):
            msg = f"{where}.options: {name} is understood by Spark alone."
            raise OnlySparkError(msg)


def _has_partitions(path: Path) -> bool:
    if any(sign in str(path) for sign in PATTERN) or not path.is_dir():
        return False
    return any("=" in entry.name and entry.is_dir() for entry in path.iterdir())


def _check_sink(job: Job) -> None:
    sink = job.sink
    if sink.kafka is not None:
        check_topic_sink(sink)
        return
    if sink.path == STANDARD:
        if sink.format not in {"json", "arrow"} or sink.partition_by:
            msg = 'sink.format: expected "json" or "arrow" for standard output, and no partition_by.'
            raise ConfigError(msg)
        return
    known = {**SINK_OPTIONS, "console": ("numrows", "truncate"), "noop": (), "delta": ()}
    if sink.format not in known:
        msg = f"sink.format: {sink.format!r} is written by Spark alone."
        raise OnlySparkError(msg)
    _check_places(job, sink)
    for name in sink.options:
        if name.lower() not in known[sink.format]:
            msg = f"sink.options: {name} is understood by Spark alone."
            raise OnlySparkError(msg)


def _check_places(job: Job, sink: Sink) -> None:
    if sink.format == "delta" and sink.path is None:
        msg = "sink.path: missing; expected the folder of a Delta table."
        raise ConfigError(msg)
    for key, path in (("path", sink.path), ("checkpoint", sink.checkpoint)):
        if path is not None and local_path(path, job.session) is None:
            msg = f"sink.{key}: {path} is reached by Spark alone."
            raise OnlySparkError(msg)


def _folded(options: Any) -> dict[str, str]:  # noqa: ANN401 - a mapping of texts
    return {name.lower(): value for name, value in options.items()}


def _input(source: Source) -> RowSource:
    """Return standard input as a source."""
    where = f"sources.{source.name}"
    if source.format == "arrow":
        schema, chunks = arrow_input(sys.stdin.buffer, source.name)
    elif source.format == "json" and source.schema is not None:
        given = schema_of_ddl(source.schema, f"{where}.schema")
        schema, chunks = json_input(sys.stdin.buffer, given, _folded(source.options))
    else:
        msg = f'{where}.format: got {source.format!r}, expected "json" with a schema, or "arrow", for standard input.'
        raise ConfigError(msg)
    shape = Shape(schema, source.columns, source.where, source.name)
    return InputSource(source.name, chunks, shape, Limits(rows=source.max_rows))


def _source(job: Job, source: Source) -> RowSource:
    if source.path == STANDARD:
        return _input(source)
    if source.kafka is not None:
        topics = topics_of(source)
        topics = replace(topics, records=ALL) if job.sink.once else topics
        shape = Shape(topics.schema(source.name), source.columns, source.where, source.name)
        return TopicSource(source.name, topics, shape)
    path = str(local_path(source.path or "", job.session))
    files = _files(path)
    limits = Limits(ALL, None) if job.sink.once else Limits(source.max_rows, source.max_files_per_trigger)
    if source.format == "delta":
        schema = delta_schema(Path(path), source.name)
        shape = Shape(schema, source.columns, source.where, source.name)
        return DeltaSource(source.name, Path(path), schema, shape, limits)
    if source.schema is not None:
        schema = schema_of_ddl(source.schema, f"sources.{source.name}.schema")
    elif source.format in {"parquet", "arrow"}:
        schema = file_schema(source.format, files(), source.name, path)
    else:
        msg = (
            f"sources.{source.name}.schema: without one, the columns of {source.format} files are known to Spark alone."
        )
        raise OnlySparkError(msg)
    shape = Shape(schema, source.columns, source.where, source.name)
    base = Path(path) if Path(path).is_dir() else Path(path).parent
    made = Files(source.format, base, files, schema, _folded(source.options))
    return FileSource(source.name, made, shape, limits)


def _files(path: str) -> Callable[[], Iterable[Path]]:
    """Return the function that lists the files of a folder, of a pattern, or one file."""
    if not any(sign in path for sign in PATTERN) or Path(path).exists():
        return lambda: files_below(Path(path))
    return lambda: (
        file
        for one in sorted(glob.glob(path))  # noqa: PTH207 - a whole pattern, from the root on
        if Path(one).name[0] not in "._"
        for file in files_below(Path(one))
    )


def _join(job: Job, spec: JoinSpec, sources: list[RowSource]) -> MicroBatchJoin:
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
    schemas = [source.schema for source in sources]
    made = MicroBatchJoin(spec, options, join.order_by, (schemas[0], schemas[-1]))
    for source, needed in zip(sources, made.needed, strict=False):
        source.narrow(needed)
    return made


def described(job: Job, spec: JoinSpec) -> dict[str, str]:
    """Return what must be the same for a checkpoint to be used again, by the keys of the job file."""
    join = job.join
    made = {
        "join.on": to_sql(spec.on, ("l", "r"), whole=True),
        "join.window": repr(join.window),
        "join.window.order_by": str(join.order_by),
        "join.how": join.how,
        "join.output": repr(join.output),
        "join.keep": repr(join.keep),
        "join.late": join.late,
        "join.left": join.left,
        "join.right": str(join.right),
    }
    return made | {f"sources.{source.name}.format": source.format for source in job.sources.values()}


def explain_embedded(ready: EmbeddedJob, why: str) -> str:
    """Return how a job would run in this process, and why.

    Raises
    ------
    ConfigError
        If the join refuses its options or its predicate.
    """
    job = ready.job
    _begin(ready)
    columns = ", ".join(f"{field.name} {field.type}" for field in ready.join.schema)
    return "\n".join(
        [
            *(shown_source(source) for source in job.sources.values()),
            f"in this process: {why}",
            str(ready.join.join.explain()),
            f"result: {columns}",
            f"sink: {shown_sink(job.sink)}",
        ]
    )


def _begin(ready: EmbeddedJob) -> None:
    """Plan the join of a new job, so that what is wrong with it is said before anything is written."""
    try:
        ready.join.begin()
    except (SlideJoinError, ValueError, NotImplementedError) as error:
        msg = f"join: {in_toml(str(error))}"
        raise ConfigError(msg) from error
    names = ready.join.schema.names
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
    """Tells the reporter of the command what the pipeline says."""

    def __init__(self, job: Job, reporter: Reporter) -> None:
        self._reporter, self._advice = reporter, LostRowsAdvice(job)
        self.idle_seconds = reporter.idle_seconds

    def batch(self, done: Done) -> None:
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


def run_embedded(
    ready: EmbeddedJob, name: str, reporter: Reporter, why: str, *, json: bool = False, stop: Event | None = None
) -> RunTotals:
    """Run a job to its end, or until it is stopped.

    Raises
    ------
    ConfigError
        If the checkpoint or the folder of the results is of something else.
    SlideJoinError
        If it fails.
    """
    stop, standard = stop or Event(), ready.job.sink.path == STANDARD
    _begin(ready)
    out = sys.stderr if json and not standard else sys.stdout
    # Progress must not be among rows.
    with redirect_stdout(sys.stderr) if standard else nullcontext(), _warnings_noted(reporter):
        reporter.starting(name, _planned_batches(ready), "embedded", why)
        totals = _run(ready, reporter, stop, out)
        reporter.done(totals)
    return totals


def _run(ready: EmbeddedJob, reporter: Reporter, stop: Event, out: TextIO) -> RunTotals:
    job = ready.job
    if not job.stream:
        return _tables(ready, reporter, stop, out)
    if job.sink.checkpoint is not None:
        return _stream(ready, Path(str(local_path(job.sink.checkpoint, job.session))), reporter, stop, out)
    with tempfile.TemporaryDirectory(prefix="slidejoin-checkpoint-") as folder:
        return _stream(ready, Path(folder), reporter, stop, out)


def _stream(ready: EmbeddedJob, folder: Path, reporter: Reporter, stop: Event, out: TextIO) -> RunTotals:
    job = ready.job
    Checkpoint.check_engine(folder)
    with locked(folder, stop):
        checkpoint = Checkpoint(folder, described(job, ready.spec))
        interval = job.sink.interval
        timing = Timing(
            interval=None if interval is None else interval.nanoseconds / NANOSECONDS,
            snapshot=job.embedded.snapshot_every.nanoseconds / NANOSECONDS,
        )
        sink = _sink(job, checkpoint.id, out)
        pipeline = JobPipeline(ready.sources, ready.join, sink, checkpoint, timing, _Listening(job, reporter), stop)
        return _totals(pipeline.run(), stopped=stop.is_set())


def _tables(ready: EmbeddedJob, reporter: Reporter, stop: Event, out: TextIO) -> RunTotals:
    totals = run_tables(ready.sources, ready.join, _sink(ready.job, None, out), stop)
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


def _sink(job: Job, identity: str | None, out: TextIO) -> ResultSink:
    sink = job.sink
    if sink.path == STANDARD:
        return ArrowOutput(out.buffer) if sink.format == "arrow" else JsonOutput(out)
    if sink.kafka is not None:
        return topic_sink_of(sink, identity or uuid4().hex)
    if sink.path is None:
        rows = int(_folded(sink.options).get("numrows", "20"))
        return NoSink() if sink.format == "noop" else ConsoleSink(rows, out)
    return _folder_sink(sink, Path(str(local_path(sink.path, job.session))), identity)


def _folder_sink(sink: Sink, folder: Path, identity: str | None) -> ResultSink:
    if sink.format == "delta":
        return DeltaSink(folder, sink.partition_by, identity or uuid4().hex)
    if identity is None:
        return FolderOnce(folder, sink.format, _folded(sink.options), sink.partition_by)
    return FileSink(folder, sink.format, _folded(sink.options), sink.partition_by, identity)


def _planned_batches(ready: EmbeddedJob) -> int | None:
    """Return how many micro-batches a fresh job will have; None where that is not known."""
    job = ready.job
    if not job.stream or job.sink.interval is not None:
        return None
    if job.sink.checkpoint is not None and Path(str(local_path(job.sink.checkpoint, job.session))).exists():
        return None
    counts = []
    for source in ready.sources:
        most = job.sources[source.name].max_files_per_trigger
        if most is None or job.sources[source.name].max_rows is not None:
            return None
        if not isinstance(source, FileSource):
            return None
        source.look()
        counts.append(-(-source.waiting // most))
    return max(counts)
