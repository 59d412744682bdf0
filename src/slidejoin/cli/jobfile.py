"""Read the job file of ``slidejoin run``. Its keys are documented in ``docs/run-file.md``.

Reading is strict: every missing, unknown or wrongly typed key is an error that names it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from slidejoin.cli.job import (
    ENGINES,
    FILES,
    JOB_OUTPUTS,
    MOST_PORT,
    PAGE_PORT,
    BadRows,
    Embedded,
    Job,
    JobOutput,
    Join,
    Monitoring,
    Session,
    Sink,
    Source,
)
from slidejoin.cli.kafka_keys import KAFKA_SINK_KEYS, KAFKA_SOURCE_KEYS, kafka_sink, kafka_source, schema_text
from slidejoin.cli.lake_tables import LAKES
from slidejoin.cli.paths import STANDARD, absolute, located
from slidejoin.cli.toml_table import TomlTable, shown
from slidejoin.errors import ArgumentError, ArgumentTypeError, ConfigError, nearest
from slidejoin.sides import SIDES
from slidejoin.spec.aggregate import Aggregate
from slidejoin.spec.join_options import JOIN_TYPES, LATE, STRATEGIES
from slidejoin.spec.join_spec import algorithms
from slidejoin.spec.nearest import DIRECTIONS, Nearest
from slidejoin.spec.options import options_named
from slidejoin.spec.window import CountWindow, Span, TableWindow, TimeWindow, length_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from slidejoin.spec.options import Options

__all__ = ["read_job", "read_job_text"]

NEED_SCHEMA = ("csv", "json", "xml")
"""Files that do not say what is in them, which a stream has to know beforehand."""

TEXTS = ("csv", "json")
"""Files of which a row may be unreadable."""

KNOWN = (*FILES, *("kafka", "delta", "iceberg", "rate", "rate-micro-batch", "socket", "jdbc"))
"""Formats whose names are known here; any other is passed on to Spark."""

NOT_SOURCES = ("console", "noop", "memory", "foreach")
NOT_SINKS = ("rate", "rate-micro-batch", "socket", "memory", "foreach")
PATHLESS = ("console", "noop")
"""Sinks that write no files."""

SOURCE_KEYS = ("format", "path", "table", "refresh", "schema", "schema_file", "columns", "where", "options")
JOIN_KEYS = (
    *("left", "right", "self_join", "on", "window", "how", "output", "select", "suffix", "aliases"),
    *("keep", "late", "strategy", "spread", "partitions", "algorithm", "pair_id"),
)
OF_WINDOWS = ("strategy", "spread", "partitions", "late")
KEEP_KEYS = ("left", "right", "direction", "k")
TIME_KEYS = ("length", "on", "left_on", "right_on", "lateness")
COUNT_KEYS = ("rows", "slide", "order_by")
WINDOW_KEYS = ("kind", "left", "right", *TIME_KEYS, *COUNT_KEYS)
TARGET_KEYS = ("format", "path", "partition_by", "options")
TRIGGER_KEYS = ("trigger", "every", "stop_after")
SINK_KEYS = (*TARGET_KEYS, "checkpoint", *TRIGGER_KEYS)
SPARK_KEYS = ("master", "conf", "packages", "jars", "retries", "backoff")

A_LENGTH = 'a length of time such as "10 minutes"'
A_SCHEMA = 'a schema in SQL such as "id BIGINT, ts TIMESTAMP"'
A_CHECKPOINT = "a folder for the progress of the job, for restarts"
A_SIZE = 'a number of bytes such as "2 GB"'
A_COLUMN = "the name of the event-time column"
AN_ORDER = "the column of both sides by which the rows of a micro-batch arrive"

EMBEDDED_KEYS = ("threads", "memory_limit", "snapshot_every")
WATCH_KEYS = ("metrics", "rows", "otel", "page")
AN_ADDRESS = 'a port such as 9464, or a host and a port such as "0.0.0.0:9464"'

UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}
SIZE = re.compile(r"\s*(\d+)\s*([a-zA-Z]*)\s*")


def read_job(path: Path, base: Path | None = None) -> Job:
    """Read a job file.

    Parameters
    ----------
    path : Path
        The TOML file.
    base : Path, optional
        Where relative paths start; the folder of the file by default.

    Raises
    ------
    ConfigError
        If the file cannot be read or has a missing, unknown or wrong key; the message names the file and the key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        msg = f"{path}: cannot be read: {reason}. Give the path of a job file in TOML."
        raise ConfigError(msg) from error
    try:
        return read_job_text(text, base or path.parent)
    except ConfigError as error:
        msg = f"{path}: {error}"
        raise ConfigError(msg) from error


def read_job_text(text: str, base: Path) -> Job:
    """Read the text of a job file; relative paths start at `base`. See `read_job`."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"not valid TOML: {error}"
        raise ConfigError(msg) from error
    file = TomlTable(values, "", ("engine", "sources", "join", "sink", "spark", "embedded", "watch"))
    base = absolute(base)
    sources = _sources(file, values.get("sources"), base)
    join = _join(file.table("join", JOIN_KEYS, "the table [join]"), sources, base)
    _check_use(sources, join)
    read_once = any(source.path == STANDARD for source in sources.values())
    stream = any(source.stream for source in sources.values())
    sink = _sink(file, base, stream=stream, read_once=read_once)
    again = next((name for name, source in sources.items() if source.refresh is not None), None)
    if again is not None and not stream:
        msg = f"sources.{again}.refresh: no source is a stream, and each table is read once; remove the key."
        raise ConfigError(msg)
    engine = file.choice("engine", ENGINES, "auto")
    session = _session(file, base, _formats(sources.values(), sink))
    if session.retries and sink.checkpoint is None:
        msg = "spark.retries: a query is started again on its checkpoint, and there is none; add sink.checkpoint."
        raise ConfigError(msg)
    return Job(sources, join, sink, session, engine, "spark" in file, _embedded(file), _monitoring(file))


def _sources(file: TomlTable, named: object, base: Path) -> dict[str, Source]:
    expected = "one table [sources.NAME] for each source"
    if not isinstance(named, dict) or not named:
        raise file.wrong("sources", expected)
    tables = file.table("sources", named, expected)
    return {name: _source(name, tables, base) for name in named}


def _source(name: str, tables: TomlTable, base: Path) -> Source:
    kafka = tables.peek(name, "format") == "kafka"
    common = [key for key in SOURCE_KEYS if key != "path" or not kafka]
    own = KAFKA_SOURCE_KEYS if kafka else ("max_files_per_trigger", "max_rows", "max_wait")
    keys = (*common, *own, "bad_rows")
    table = tables.table(name, keys, f"the table [sources.{name}]")
    kind = _format(table, without=NOT_SOURCES)
    is_table = table.flag("table", default=False)
    if "refresh" in table and not is_table:
        msg = f"{table.at('refresh')}: only a table is read again; write {table.at('table')} = true, or remove the key."
        raise ConfigError(msg)
    made = Source(
        name=name,
        format=kind,
        table=is_table,
        refresh=_length(table, "refresh") if "refresh" in table else None,
        columns=table.texts("columns", 'a list of SQL expressions such as ["*", "price * 100 AS cents"]'),
        where=table.optional_text("where", 'an SQL condition such as "price > 0"'),
        options=table.options("options"),
    )
    if kafka:
        topics = kafka_source(table, base, stream=not is_table)
        return replace(made, kafka=topics, bad_rows=_bad_rows(table, base, topics.brokers))
    if kind in LAKES and ("schema" in table or "schema_file" in table):
        key = "schema" if "schema" in table else "schema_file"
        msg = f"{table.at(key)}: a table of {kind} has its own schema; remove the key, and choose by columns and where."
        raise ConfigError(msg)
    schema = schema_text(table, base, A_SCHEMA)
    if schema is None and not is_table and kind in NEED_SCHEMA:
        raise table.wrong(
            "schema", f'a schema in SQL such as "id BIGINT, ts TIMESTAMP", which a stream of {kind} needs'
        )
    if "max_files_per_trigger" in table and is_table:
        msg = f"{table.at('max_files_per_trigger')}: only a stream has triggers, and {table.at('table')} is true."
        raise ConfigError(msg)
    bad_rows = None
    if "bad_rows" in table:
        if kind not in TEXTS:
            msg = f"{table.at('bad_rows')}: is for kafka, {' and '.join(TEXTS)}, and the format is {kind}; remove it."
            raise ConfigError(msg)
        if any(name.lower() == "mode" for name in made.options):
            msg = f"{table.at('bad_rows')}: {table.at('options')}.mode is there too; give one of them."
            raise ConfigError(msg)
        bad_rows = _bad_rows(table, base, None)
    expected = f"the folder of {LAKES[kind].named}" if kind in LAKES else "a folder or file"
    path = (table.text if kind in (*FILES, *LAKES) else table.optional_text)("path", expected)
    if "max_wait" in table and path != STANDARD:
        msg = (
            f"{table.at('max_wait')}: is for standard input; of what can be read again a micro-batch reads what there "
            "is, as often as the key every of [sink] says. Remove the key."
        )
        raise ConfigError(msg)
    return replace(
        made,
        path=None if path is None else located(path, base),
        max_wait=_length(table, "max_wait") if "max_wait" in table else None,
        schema=schema,
        max_files_per_trigger=table.count("max_files_per_trigger"),
        max_rows=table.count("max_rows"),
        bad_rows=bad_rows,
    )


def _format(table: TomlTable, *, without: Iterable[str]) -> str:
    """Return the name of a format: any that Spark may have, but none that is a known one with a letter wrong."""
    known = [name for name in dict.fromkeys((*KNOWN, *PATHLESS, *NOT_SOURCES)) if name not in without]
    expected = f"one of {', '.join(known)}, or the name of another that Spark has"
    kind = table.text("format", expected)
    hint = "" if kind in known else nearest(kind, known)
    if hint or kind in without:
        raise table.wrong("format", expected, hint)
    return kind


def _bad_rows(table: TomlTable, base: Path, brokers: str | None) -> BadRows:
    """Return what becomes of records and rows that cannot be read; `brokers` are those of a topic without the key."""
    if table.values("bad_rows") is None:
        return BadRows(table.choice("bad_rows", ("fail", "drop"), "fail"))
    return BadRows("write", _target(table, "bad_rows", TARGET_KEYS, base, brokers)[1])


def _join(table: TomlTable, sources: Mapping[str, Source], base: Path) -> Join:
    if "self_join" in table:
        for key in ("left", "right"):
            if key in table:
                msg = f"{table.at(key)}: {table.at('self_join')} is there too; give left and right, or self_join alone."
                raise ConfigError(msg)
        left, right = _named(table, "self_join", sources), None
    else:
        left, right = _named(table, "left", sources), _named(table, "right", sources)
        if left == right:
            msg = f'{table.at("right")}: {left!r} is the left source too; write self_join = "{left}" instead of both.'
            raise ConfigError(msg)
    aliases = table.texts("aliases", 'two names such as ["l", "r"]', 2) or ("l", "r")
    on = table.text("on", f'an SQL condition such as "{aliases[0]}.a < {aliases[1]}.b"')
    late_sink = None if table.values("late") is None else _target(table, "late", TARGET_KEYS, base)[1]
    window, order_by = _scope(table, [sources[name] for name in (left, right) if name is not None])
    return Join(
        left=left,
        right=right,
        on=on,
        window=window,
        order_by=order_by,
        how=table.choice("how", JOIN_TYPES, "inner"),
        output=_output(table, aliases[1]),
        select=table.texts("select", f'a list of columns such as ["{aliases[0]}.id", "{aliases[1]}.id"]'),
        suffix=table.optional_text("suffix", 'text such as "_right"') or "_right",
        aliases=(aliases[0], aliases[1]),
        strategy=table.choice("strategy", STRATEGIES, "auto"),
        spread=table.count("spread") or 1,
        partitions=table.count("partitions"),
        keep=_keep(table, (aliases[0], aliases[1])),
        late="emit" if late_sink is not None else table.choice("late", LATE, "drop"),
        late_sink=late_sink,
        algorithm=_algorithm(table),
        pair_id=_pair_id(table),
    )


def _pair_id(table: TomlTable) -> str | None:
    """Return the name of the column of ids, ``pair_id`` where the key is true."""
    if isinstance(table.raw("pair_id"), bool):
        return "pair_id" if table.flag("pair_id", default=False) else None
    return table.optional_text("pair_id", "the name of a column, or true")


def _algorithm(table: TomlTable) -> str | Options:
    """Return the index of each bucket: a name, or given as a table with a name, the options of a structure."""
    given = table.values("algorithm")
    if given is None:
        return table.choice("algorithm", ("auto", *algorithms()), "auto")
    name = given.pop("name", None)
    structure = options_named(name) if isinstance(name, str) else None
    if structure is None:
        with_options = [one for one in algorithms() if options_named(one) is not None]
        got = "none" if name is None else shown(name)
        msg = f"{table.at('algorithm')}.name: got {got}, expected the name of one of {', '.join(with_options)}."
        raise ConfigError(msg + nearest(str(name), with_options))
    TomlTable(given, table.at("algorithm"), ["name", *(one.name for one in fields(structure))])
    try:
        return structure(**given)
    except (ArgumentError, ArgumentTypeError) as error:
        msg = f"{table.at('algorithm')}: {error}"
        raise ConfigError(msg) from error


def _output(table: TomlTable, alias: str) -> JobOutput | Aggregate:
    """Return what the result has: rows of a kind, or, given as a table of functions, aggregates."""
    example = f'{{ n = "count", total = "sum({alias}.x)" }}'
    functions = table.functions("output", f'"pairs", "count", or a table of functions such as {example}')
    if functions is None:
        return table.choice("output", JOB_OUTPUTS, "pairs")
    try:
        return Aggregate(**functions)
    except ArgumentError as error:
        msg = f"{table.at('output')}: {error}"
        raise ConfigError(msg) from error


def _keep(table: TomlTable, aliases: tuple[str, str]) -> Nearest | None:
    if "keep" not in table:
        return None
    own = table.table("keep", KEEP_KEYS, f'a table such as {{ left = "{aliases[0]}.ts", right = "{aliases[1]}.ts" }}')
    one, two = (
        own.text(side, f'a {side} column such as "{alias}.ts"') for side, alias in zip(SIDES, aliases, strict=True)
    )
    try:
        keep = Nearest(one, two, own.choice("direction", DIRECTIONS, "backward"), own.count("k") or 1)
        keep.names(aliases)
    except ArgumentError as error:
        msg = f"{table.at('keep')}: {error}"
        raise ConfigError(msg) from error
    return keep


def _named(table: TomlTable, key: str, sources: Mapping[str, Source]) -> str:
    name = table.text(key, f"the name of a source: {', '.join(sources)}")
    if name not in sources:
        raise table.wrong(key, f"the name of a source: {', '.join(sources)}", nearest(name, sources))
    return name


def _scope(table: TomlTable, sources: Sequence[Source]) -> tuple[CountWindow | TimeWindow, str | None]:
    """Return the window, and the column of the order; of a stream with a table, or two without a window, all rows."""
    static = [source for source in sources if not source.stream]
    if len(sources) == 1 or not static or (len(static) > 1 and "window" in table):
        return _window(table.table("window", WINDOW_KEYS, "the table [join.window]"))
    for key in ("window", *OF_WINDOWS):
        if key in table:
            msg = (
                f"{table.at(key)}: is for joins in a window, and the source {static[-1].name} is a table "
                "(table = true), all of whose rows are met; remove the key"
            )
            raise ConfigError(f"{msg}." if len(static) > 1 else f"{msg}, or make the source a stream.")
    return TableWindow(1), None


def _window(table: TomlTable) -> tuple[CountWindow | TimeWindow, str | None]:
    """Return the window, and for one of rows the column of the order."""
    kind = table.choice("kind", ("time", "count"), "time")
    for key in COUNT_KEYS if kind == "time" else TIME_KEYS:
        if key in table:
            msg = f"{table.at(key)}: is not for windows of kind {kind!r}; remove the key, or change {table.at('kind')}."
            raise ConfigError(msg)
    return (_time_window(table), None) if kind == "time" else (_count_window(table), table.text("order_by", AN_ORDER))


def _count_window(table: TomlTable) -> CountWindow:
    keys = ("left", "right") if "left" in table or "right" in table else ("rows", "rows")
    if "rows" in table and "rows" not in keys:
        msg = f"{table.at('rows')}: join.window has left or right too; give rows, or left and right."
        raise ConfigError(msg)
    sizes = [table.count(key) for key in keys]
    for key, size in zip(keys, sizes, strict=True):
        if size is None:
            raise table.wrong(key, "a whole number of rows")
    try:
        return CountWindow(left=sizes[0], right=sizes[1], slide=table.count("slide") or 1)
    except ValueError as error:
        raise table.wrong("slide", "no more rows than the window has") from error


def _time_window(table: TomlTable) -> TimeWindow:
    if ("left" in table) != ("right" in table):
        raise table.wrong("right" if "left" in table else "left", f"{A_LENGTH}, since the other side has one")
    if "length" in table and "left" in table:
        msg = f"{table.at('length')}: {table.at('left')} is there too; give length, or left and right."
        raise ConfigError(msg)
    if ("left_on" in table) != ("right_on" in table):
        raise table.wrong("right_on" if "left_on" in table else "left_on", f"{A_COLUMN}, since the other side has one")
    if "on" in table and "left_on" in table:
        msg = f"{table.at('on')}: {table.at('left_on')} is there too; give on, or left_on and right_on."
        raise ConfigError(msg)
    sides = ("left", "right")
    lengths = [_length(table, side if "left" in table else "length") for side in sides]
    columns = [table.text(f"{side}_on" if "left_on" in table else "on", A_COLUMN) for side in sides]
    lateness = _length(table, "lateness") if "lateness" in table else Span(0)
    return TimeWindow(left=lengths[0], right=lengths[1], left_on=columns[0], right_on=columns[1], lateness=lateness)


def _check_use(sources: Mapping[str, Source], join: Join) -> None:
    used = [name for name in (join.left, join.right) if name is not None]
    for name in sources:
        if name not in used:
            msg = f"sources.{name}: not used by the join, which names {' and '.join(used)}; remove it or name it there."
            raise ConfigError(msg)


def _target(
    outer: TomlTable, key: str, keys: tuple[str, ...], base: Path, brokers: str | None = None
) -> tuple[TomlTable, Sink]:
    """Return the table of a sink, and of it what says where rows are written."""
    kafka = outer.peek(key, "format") == "kafka"
    others = [one for one in keys if one not in {"path", "partition_by"}]
    table = outer.table(key, [*others, *KAFKA_SINK_KEYS] if kafka else keys, f"the table [{outer.at(key)}]")
    kind = _format(table, without=NOT_SINKS)
    path = None
    if kind in (*FILES, *LAKES):
        path = located(table.text("path", "a folder for the results"), base)
    elif kind not in PATHLESS:
        given = table.optional_text("path", "a folder for the results")
        path = None if given is None else located(given, base)
    elif "path" in table or "partition_by" in table:
        key = "path" if "path" in table else "partition_by"
        msg = f"{table.at(key)}: the format {kind} writes no files; remove the key."
        raise ConfigError(msg)
    return table, Sink(
        kind,
        path,
        options=table.options("options"),
        partition_by=table.texts("partition_by", 'a list of columns of the result such as ["late_side"]') or (),
        kafka=kafka_sink(table, base, brokers) if kafka else None,
    )


def _sink(file: TomlTable, base: Path, *, stream: bool, read_once: bool) -> Sink:
    """Return the sink; `read_once`: a source is standard input, of which no run can continue."""
    table, sink = _target(file, "sink", SINK_KEYS, base)
    if read_once and "checkpoint" in table:
        msg = f"{table.at('checkpoint')}: standard input cannot be read again, so there is none; remove the key."
        raise ConfigError(msg)
    for key in ("checkpoint", *TRIGGER_KEYS):
        if key in table and not stream:
            msg = f"{table.at(key)}: only a stream has one, and the sources have table = true; remove the key."
            raise ConfigError(msg)
    checkpoint = None
    lasting = sink.format not in PATHLESS and sink.path != STANDARD and not read_once
    if (stream and lasting) or "checkpoint" in table:
        checkpoint = located(table.text("checkpoint", A_CHECKPOINT), base)
    interval, once = _trigger(table)
    stop_after = _length(table, "stop_after") if "stop_after" in table else None
    return replace(sink, checkpoint=checkpoint, interval=interval, once=once, stop_after=stop_after)


def _trigger(table: TomlTable) -> tuple[Span | None, bool]:
    """Return the interval of a trigger, if it has one, and whether all is one micro-batch."""
    if "every" in table:
        if "trigger" in table:
            msg = f"{table.at('every')}: {table.at('trigger')} is there too; give one of them."
            raise ConfigError(msg)
        return _length(table, "every"), False
    names = ("available_now", "once")
    expected = f'"available_now", "once" or {A_LENGTH}'
    trigger = table.optional_text("trigger", expected) or "available_now"
    if trigger == "continuous":
        msg = (
            f"{table.at('trigger')}: Spark's continuous processing has no joins, nor anything else that keeps state; "
            'use a short interval such as every = "500 ms".'
        )
        raise ConfigError(msg)
    if trigger in names:
        return None, trigger == "once"
    try:
        return _length(table, "trigger"), False
    except ConfigError as error:
        raise table.wrong("trigger", expected, nearest(trigger, names)) from error


def _session(file: TomlTable, base: Path, formats: tuple[str, ...]) -> Session:
    if "spark" not in file:
        return Session(formats=formats)
    table = file.table("spark", SPARK_KEYS, "the table [spark]")
    master = table.optional_text("master", 'a Spark master such as "local[4]"')
    conf = table.options("conf")
    for key in conf:
        if not key.startswith("spark."):
            msg = f"{table.at('conf')}.{key}: unknown key; the settings of Spark start with 'spark.'."
            raise ConfigError(msg)
    auto = table.raw("packages") == "auto"
    packages = None if auto else table.texts("packages", '"auto", or a list of "GROUP:ARTEFACT:VERSION"')
    for package in packages or ():
        if package.count(":") not in {2, 3}:
            msg = f"{table.at('packages')}: got {package!r}, expected GROUP:ARTEFACT:VERSION."
            raise ConfigError(msg)
    a_folder = "a folder of jars, or a list of folders and jars"
    jars = (table.text("jars", a_folder),) if isinstance(table.raw("jars"), str) else table.texts("jars", a_folder)
    return Session(
        master or "local[*]",
        conf,
        packages=packages or (),
        auto_packages=auto,
        jars=tuple(located(jar, base) for jar in jars or ()),
        formats=formats,
        retries=table.count("retries") or 0,
        backoff=_length(table, "backoff") if "backoff" in table else Session().backoff,
    )


def _formats(sources: Iterable[Source], sink: Sink) -> tuple[str, ...]:
    """Return the names of all formats of a job, each once; of what records are written in too."""
    names: list[str] = []
    for source in sources:
        names.append(source.format)
        if source.kafka is not None:
            names += [one.format for one in (source.kafka.value, source.kafka.key) if one is not None]
        if source.bad_rows is not None and source.bad_rows.sink is not None:
            names.append(source.bad_rows.sink.format)
    names += [sink.format] if sink.kafka is None else [sink.format, sink.kafka.value.format]
    return tuple(dict.fromkeys(names))


def _embedded(file: TomlTable) -> Embedded:
    if "embedded" not in file:
        return Embedded()
    table = file.table("embedded", EMBEDDED_KEYS, "the table [embedded]")
    every = _length(table, "snapshot_every") if "snapshot_every" in table else Embedded().snapshot_every
    return Embedded(table.count("threads"), _bytes(table, "memory_limit"), every)


def _monitoring(file: TomlTable) -> Monitoring:
    if "watch" not in file:
        return Monitoring()
    table = file.table("watch", WATCH_KEYS, "the table [watch]")
    address = table.raw("metrics")
    if address is not None and (isinstance(address, bool) or not isinstance(address, (int, str))):
        raise table.wrong("metrics", AN_ADDRESS)
    page = table.raw("page")
    if page is not None and (isinstance(page, bool) or not isinstance(page, int) or not 0 <= page <= MOST_PORT):
        raise table.wrong("page", f"a port from 0 to {MOST_PORT}, such as {PAGE_PORT}")
    rows, otel = table.flag("rows", default=True), table.flag("otel", default=False)
    return Monitoring(None if address is None else str(address), rows, otel, page)


def _length(table: TomlTable, key: str) -> Span:
    text = table.text(key, A_LENGTH)
    try:
        length = length_of(text, table.at(key))
    except ArgumentError as error:
        raise ConfigError(str(error)) from error
    return length if isinstance(length, Span) else Span(length)


def _bytes(table: TomlTable, key: str) -> int | None:
    text = table.optional_text(key, A_SIZE)
    if text is None:
        return None
    match = SIZE.fullmatch(text)
    unit = UNITS.get(match[2].lower() or "b") if match else None
    if match is None or unit is None or not int(match[1]):
        raise table.wrong(key, A_SIZE)
    return int(match[1]) * unit
