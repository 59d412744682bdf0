"""Read the job file of ``slidejoin run``. Its keys are documented in ``docs/run-file.md``.

Reading is strict: every missing, unknown or wrongly typed key is an error that names it.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from slidejoin.cli.job import JOB_OUTPUTS, Job, JobOutput, Join, Session, Sink, Source
from slidejoin.cli.paths import absolute, expanded, has_scheme
from slidejoin.cli.secrets import HIDDEN, SECRETS, is_secret
from slidejoin.errors import ArgumentError, ArgumentTypeError, ConfigError, nearest
from slidejoin.sides import SIDES
from slidejoin.spec.aggregate import Aggregate
from slidejoin.spec.join_options import JOIN_TYPES, LATE, STRATEGIES
from slidejoin.spec.join_spec import algorithms
from slidejoin.spec.nearest import DIRECTIONS, Nearest
from slidejoin.spec.options import options_named
from slidejoin.spec.window import CountWindow, Span, TimeWindow, length_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from slidejoin.spec.options import Options

__all__ = ["TomlTable", "read_job", "read_job_text", "shown"]

Word = TypeVar("Word", bound=str)

_KINDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "a table"}


def shown(value: object) -> str:
    """Return a value for an error message, with its kind where the value alone could mislead.

    Examples
    --------
    >>> shown(5), shown("5"), shown({"a": 1})
    ('5 (a whole number)', "'5'", 'a table')
    """
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, str):
        return repr(value)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{text} ({_KINDS.get(type(value), type(value).__name__)})"


class TomlTable:
    """One table of a job file. Unknown keys are refused at once, the others are read one by one.

    Parameters
    ----------
    values : Mapping of str to object
        The table as `tomllib` gives it.
    path : str
        Where it stands in the file, ``"join.window"``; the empty string for the whole file.
    known : Iterable of str
        The keys that may be there.

    Raises
    ------
    ConfigError
        For a key that is not among `known`.
    """

    def __init__(self, values: Mapping[str, object], path: str, known: Iterable[str]) -> None:
        self._values = values
        self._path = path
        known = tuple(known)
        for key in values:
            if key not in known:
                msg = f"{self.at(key)}: unknown key; the keys here are {', '.join(known)}.{nearest(key, known)}"
                raise ConfigError(msg)

    def at(self, key: str) -> str:
        """Return the full path of a key, as errors name it."""
        return f"{self._path}.{key}" if self._path else key

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def wrong(self, key: str, expected: str, hint: str = "") -> ConfigError:
        """Return the error for a key whose value is not what was expected, or that is missing."""
        if key not in self._values:
            return ConfigError(f"{self.at(key)}: missing; expected {expected}.{hint}")
        return ConfigError(f"{self.at(key)}: got {shown(self._values[key])}, expected {expected}.{hint}")

    def text(self, key: str, expected: str) -> str:
        """Return a required, non-empty text."""
        value = self._values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, expected)
        return value

    def optional_text(self, key: str, expected: str) -> str | None:
        """Return a non-empty text, or None without the key."""
        return self.text(key, expected) if key in self._values else None

    def choice(self, key: str, choices: Iterable[Word], default: Word | None = None) -> Word:
        """Return one of the `choices`; required unless there is a default."""
        if key not in self._values and default is not None:
            return default
        value, choices = self._values.get(key), tuple(choices)
        known = next((one for one in choices if one == value), None)
        if known is None:
            hint = nearest(value, choices) if isinstance(value, str) else ""
            raise self.wrong(key, f"one of {', '.join(choices)}" if len(choices) > 1 else repr(choices[0]), hint)
        return known

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a truth value."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def count(self, key: str) -> int | None:
        """Return a whole number of at least 1, or None without the key."""
        value = self._values.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise self.wrong(key, "a whole number of at least 1")
        return value

    def texts(self, key: str, expected: str, length: int | None = None) -> tuple[str, ...] | None:
        """Return a non-empty list of texts, or None without the key."""
        value = self._values.get(key)
        if value is None:
            return None
        whole = isinstance(value, list) and bool(value) and all(isinstance(item, str) and item for item in value)
        if not isinstance(value, list) or not whole or (length is not None and len(value) != length):
            raise self.wrong(key, expected)
        return tuple(value)

    def functions(self, key: str, expected: str) -> dict[str, str] | None:
        """Return a table of texts by their names, or None if the key has no table."""
        value = self._values.get(key)
        if not isinstance(value, dict):
            return None
        texts = {name: item for name, item in value.items() if isinstance(item, str)}
        if len(texts) < max(len(value), 1):
            raise self.wrong(key, expected)
        return texts

    def values(self, key: str) -> dict[str, object] | None:
        """Return a table as it is, or None if the key has no table."""
        value = self._values.get(key)
        return dict(value) if isinstance(value, dict) else None

    def options(self, key: str) -> dict[str, str]:
        """Return a table of plain values as texts, the way Spark takes options; empty without the key."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table of options")
        result: dict[str, str] = {}
        for name, item in value.items():
            if isinstance(item, bool):
                result[name] = str(item).lower()
            elif isinstance(item, (str, int, float)):
                result[name] = str(item)
            else:
                got = HIDDEN if is_secret(name) else shown(item)
                msg = f"{self.at(key)}.{name}: got {got}, expected text, a number, true or false."
                if isinstance(item, dict):
                    msg += " A dot in a key makes a table: write it in quotes."
                raise ConfigError(msg)
        SECRETS.add(result)
        return result

    def table(self, key: str, known: Iterable[str], expected: str) -> TomlTable:
        """Return a required table below this one."""
        value = self._values.get(key)
        if not isinstance(value, dict):
            raise self.wrong(key, expected)
        return TomlTable(value, self.at(key), known)


SOURCE_FORMATS = ("csv", "parquet", "json")
FILE_SINKS = ("parquet", "csv", "json")
SINK_FORMATS = (*FILE_SINKS, "console", "noop")

SOURCE_KEYS = ("format", "path", "stream", "schema", "columns", "where", "options", "max_files_per_trigger")
JOIN_KEYS = (
    *("left", "right", "self_join", "on", "window", "how", "output", "select", "suffix", "aliases"),
    *("keep", "late", "strategy", "spread", "partitions", "algorithm"),
)
KEEP_KEYS = ("left", "right", "direction", "k")
TIME_KEYS = ("length", "on", "left_on", "right_on", "lateness")
COUNT_KEYS = ("rows", "slide", "order_by")
WINDOW_KEYS = ("kind", "left", "right", *TIME_KEYS, *COUNT_KEYS)
SINK_KEYS = ("format", "path", "partition_by", "checkpoint", "trigger", "options")

A_LENGTH = 'a length of time such as "10 minutes"'
A_SCHEMA = 'a schema in SQL such as "id BIGINT, ts TIMESTAMP"'
A_CHECKPOINT = "a folder in which Spark keeps the job's progress, for restarts"
A_COLUMN = "the name of the event-time column"
AN_ORDER = "the column of both sides by which the rows of a micro-batch arrive"


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
    file = TomlTable(values, "", ("sources", "join", "sink", "spark"))
    base = absolute(base)
    sources = _sources(file, values.get("sources"), base)
    join = _join(file.table("join", JOIN_KEYS, "the table [join]"), sources)
    _check_use(sources, join)
    sink = _sink(file.table("sink", SINK_KEYS, "the table [sink]"), base, stream=sources[join.left].stream)
    return Job(sources, join, sink, _session(file))


def _located(path: str, base: Path) -> str:
    """Return an absolute path without ``..``, as Spark takes it; one with a scheme (``s3a://…``) is left to Spark."""
    return path if has_scheme(path) else os.path.normpath(base / expanded(path))


def _sources(file: TomlTable, named: object, base: Path) -> dict[str, Source]:
    expected = "one table [sources.NAME] for each source"
    if not isinstance(named, dict) or not named:
        raise file.wrong("sources", expected)
    tables = file.table("sources", named, expected)
    return {name: _source(name, tables.table(name, SOURCE_KEYS, f"the table [sources.{name}]"), base) for name in named}


def _source(name: str, table: TomlTable, base: Path) -> Source:
    kind = table.choice("format", SOURCE_FORMATS)
    stream = table.flag("stream", default=True)
    schema = table.optional_text("schema", A_SCHEMA)
    if schema is None and stream and kind != "parquet":
        raise table.wrong(
            "schema", f'a schema in SQL such as "id BIGINT, ts TIMESTAMP", which a stream of {kind} needs'
        )
    if "max_files_per_trigger" in table and not stream:
        msg = f"{table.at('max_files_per_trigger')}: only a stream has triggers, and {table.at('stream')} is false."
        raise ConfigError(msg)
    return Source(
        name=name,
        format=kind,
        path=_located(table.text("path", "a folder or file"), base),
        stream=stream,
        schema=schema,
        columns=table.texts("columns", 'a list of SQL expressions such as ["*", "price * 100 AS cents"]'),
        where=table.optional_text("where", 'an SQL condition such as "price > 0"'),
        options=table.options("options"),
        max_files_per_trigger=table.count("max_files_per_trigger"),
    )


def _join(table: TomlTable, sources: Mapping[str, Source]) -> Join:
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
    window, order_by = _window(table.table("window", WINDOW_KEYS, "the table [join.window]"))
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
        late=table.choice("late", LATE, "drop"),
        algorithm=_algorithm(table),
    )


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


def _length(table: TomlTable, key: str) -> Span:
    text = table.text(key, A_LENGTH)
    try:
        length = length_of(text, table.at(key))
    except ArgumentError as error:
        raise ConfigError(str(error)) from error
    return length if isinstance(length, Span) else Span(length)


def _check_use(sources: Mapping[str, Source], join: Join) -> None:
    used = [name for name in (join.left, join.right) if name is not None]
    for name in sources:
        if name not in used:
            msg = f"sources.{name}: not used by the join, which names {' and '.join(used)}; remove it or name it there."
            raise ConfigError(msg)
    if len({sources[name].stream for name in used}) > 1:
        static = next(name for name in used if not sources[name].stream)
        msg = f"sources.{static}.stream: is false while the other source is a stream; expected both to be the same."
        raise ConfigError(msg)


def _sink(table: TomlTable, base: Path, *, stream: bool) -> Sink:
    kind = table.choice("format", SINK_FORMATS)
    path = checkpoint = interval = None
    if kind in FILE_SINKS:
        path = _located(table.text("path", "a folder for the results"), base)
    elif "path" in table or "partition_by" in table:
        key = "path" if "path" in table else "partition_by"
        msg = f"{table.at(key)}: the format {kind} writes no files; remove the key."
        raise ConfigError(msg)
    if not stream and ("checkpoint" in table or "trigger" in table):
        key = "checkpoint" if "checkpoint" in table else "trigger"
        msg = f"{table.at(key)}: only a stream has one, and the sources have stream = false; remove the key."
        raise ConfigError(msg)
    if (stream and kind in FILE_SINKS) or "checkpoint" in table:
        checkpoint = _located(table.text("checkpoint", A_CHECKPOINT), base)
    trigger = table.optional_text("trigger", f'"available_now" or {A_LENGTH}') or "available_now"
    if trigger != "available_now":
        try:
            interval = _length(table, "trigger")
        except ConfigError as error:
            hint = nearest(trigger, ["available_now"])
            raise table.wrong("trigger", f'"available_now" or {A_LENGTH}', hint) from error
    folders = table.texts("partition_by", 'a list of columns of the result such as ["late_side"]') or ()
    return Sink(kind, path, checkpoint, interval, table.options("options"), folders)


def _session(file: TomlTable) -> Session:
    if "spark" not in file:
        return Session()
    table = file.table("spark", ("master", "conf"), "the table [spark]")
    master = table.optional_text("master", 'a Spark master such as "local[4]"')
    conf = table.options("conf")
    for key in conf:
        if not key.startswith("spark."):
            msg = f"{table.at('conf')}.{key}: unknown key; the settings of Spark start with 'spark.'."
            raise ConfigError(msg)
    return Session(master or "local[*]", conf)
