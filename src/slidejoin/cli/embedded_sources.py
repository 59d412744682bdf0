"""Sources of a job in this process: from the tables of the job file to those of `slidejoin.pipeline`."""

from __future__ import annotations

import glob
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slidejoin.cli.paths import STANDARD, files_below, local_path
from slidejoin.errors import ConfigError
from slidejoin.pipeline.columns import Shape
from slidejoin.pipeline.files import FILE_FORMATS, Files, FileSource, file_schema
from slidejoin.pipeline.source import Limits, OnlySparkError
from slidejoin.pipeline.text_rows import COLLECT, CSV_OPTIONS, JSON_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from slidejoin.cli.job import Job, Source
    from slidejoin.pipeline.source import RowSource

__all__ = ["checked_source", "folded", "source_or_table"]

PATTERN = "*?["
ALTERNATIVES = "{"

READ_OPTIONS: dict[str, tuple[str, ...]] = {"csv": CSV_OPTIONS, "json": JSON_OPTIONS}

MODE_OF = {"fail": "failfast", "drop": "dropmalformed", "write": COLLECT}
"""How rows of text are read, by what becomes of bad ones."""

NANOSECONDS = 1_000_000_000

ALL = 1 << 62
"""More rows than any source has."""


def folded(options: Mapping[str, str]) -> dict[str, str]:
    """Return options by their names in lower case."""
    return {name.lower(): value for name, value in options.items()}


def checked_source(job: Job, source: Source) -> None:
    """Check that this process can read a source.

    Raises
    ------
    OnlySparkError
        If only Spark can.
    """
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


def _input(source: Source) -> RowSource:
    """Return standard input as a source."""
    from slidejoin.pipeline.standard import WAIT, InputSource, arrow_input, json_input  # noqa: PLC0415 - few jobs

    where = f"sources.{source.name}"
    if source.format == "arrow":
        schema, chunks = arrow_input(sys.stdin.buffer, source.name)
    elif source.format == "json" and source.schema is not None:
        from slidejoin.pipeline.ddl import schema_of_ddl  # noqa: PLC0415 - see below

        given = schema_of_ddl(source.schema, f"{where}.schema")
        schema, chunks = json_input(sys.stdin.buffer, given, folded(source.options))
    else:
        msg = f'{where}.format: got {source.format!r}, expected "json" with a schema, or "arrow", for standard input.'
        raise ConfigError(msg)
    shape = Shape(schema, source.columns, source.where, source.name)
    wait = WAIT if source.max_wait is None else source.max_wait.nanoseconds / NANOSECONDS
    return InputSource(source.name, chunks, shape, Limits(rows=source.max_rows), wait)


def source_or_table(job: Job, source: Source) -> RowSource:
    """Return a source, which is read whole if it is a table next to a stream."""
    if not (job.stream and source.table):
        return _source(job, source)
    if source.path == STANDARD:
        msg = f"sources.{source.name}.path: standard input cannot be read again, as a table has to be; give a file."
        raise ConfigError(msg)
    from slidejoin.pipeline.tables import TableSource  # noqa: PLC0415 - few jobs have a table

    refresh = None if source.refresh is None else source.refresh.nanoseconds / NANOSECONDS
    mark = None
    if source.format == "delta":
        from slidejoin.pipeline.delta import delta_version  # noqa: PLC0415 - an extra

        path = Path(str(local_path(source.path or "", job.session)))
        mark = partial(delta_version, path, source.name)
    return TableSource(partial(_source, job, source), refresh, mark)


def _source(job: Job, source: Source) -> RowSource:
    if source.path == STANDARD:
        if source.bad_rows is not None:
            msg = f"sources.{source.name}.bad_rows: is for files and topics, and the path is standard input; remove it."
            raise ConfigError(msg)
        return _input(source)
    if source.kafka is not None:
        from slidejoin.cli.embedded_topics import topics_of  # noqa: PLC0415 - loads Kafka's client
        from slidejoin.pipeline.topics import TopicSource  # noqa: PLC0415 - the same

        topics = topics_of(source)
        topics = replace(topics, records=ALL) if job.sink.once else topics
        shape = Shape(topics.schema(source.name), source.columns, source.where, source.name)
        return TopicSource(source.name, topics, shape)
    path = str(local_path(source.path or "", job.session))
    files = _files(path)
    limits = Limits(ALL, None) if job.sink.once else Limits(source.max_rows, source.max_files_per_trigger)
    if source.format == "delta":
        from slidejoin.pipeline.delta import DeltaSource, delta_schema  # noqa: PLC0415 - an extra

        schema = delta_schema(Path(path), source.name)
        shape = Shape(schema, source.columns, source.where, source.name)
        return DeltaSource(source.name, Path(path), schema, shape, limits)
    if source.schema is not None:
        from slidejoin.pipeline.ddl import schema_of_ddl  # noqa: PLC0415 - Parquet needs none

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
    options = folded(source.options)
    if source.bad_rows is not None:
        options["mode"] = MODE_OF[source.bad_rows.action]
    made = Files(source.format, base, files, schema, options)
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
