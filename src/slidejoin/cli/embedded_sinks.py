"""Sinks of a job in this process: of its results, of rows that cannot be read, and of late rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from uuid import uuid4

from slidejoin.cli.embedded_sources import folded
from slidejoin.cli.paths import STANDARD, local_path
from slidejoin.errors import ConfigError
from slidejoin.pipeline.file_sink import SINK_OPTIONS, FileSink, FolderOnce
from slidejoin.pipeline.job_sinks import JobSinks
from slidejoin.pipeline.sink import ConsoleSink, NoSink
from slidejoin.pipeline.source import OnlySparkError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.cli.job import Job, Sink, Source
    from slidejoin.pipeline.sink import ResultSink

__all__ = ["all_sinks", "check_sinks"]


def check_sinks(job: Job) -> None:
    """Check the sinks of a job.

    Raises
    ------
    OnlySparkError
        For what only Spark can write.
    ConfigError
        For what is wrong with one.
    """
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


def all_sinks(job: Job, identity: str | None, out: TextIO) -> JobSinks:
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
