"""The keys of a job file that are of Kafka: topics to read, what their records hold, a topic for the results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from slidejoin.cli.job import BYTES, Bytes, Encoding, KafkaSink, KafkaSource
from slidejoin.cli.paths import located
from slidejoin.cli.toml_table import TomlTable, shown
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from slidejoin.cli.job import Source

__all__ = [
    "KAFKA_SINK_KEYS",
    "KAFKA_SOURCE_KEYS",
    "bad_rows_in_words",
    "kafka_sink",
    "kafka_source",
    "schema_text",
    "topics_in_words",
]

KAFKA_SOURCE_KEYS = (
    *("brokers", "topics", "pattern", "starting", "max_offsets_per_trigger"),
    *("value", "key", "metadata"),
)
KAFKA_SINK_KEYS = ("brokers", "topic", "key", "value")

METADATA = ("topic", "partition", "offset", "timestamp", "headers")
VALUE_KEYS = ("format", "schema", "schema_file", "registry", "schema_ids", "options", "column", "descriptor", "message")
STARTS = {"earliest": -2, "latest": -1}

A_BROKER = 'a broker such as "localhost:9092", or a list of some'
A_SCHEMA = 'columns and types in SQL such as "id BIGINT, ts TIMESTAMP", as schema or in a schema_file'
AN_AVRO_SCHEMA = "a schema of Avro in JSON, as schema or in a schema_file"
A_DESCRIPTOR = "the descriptor set of protoc --include_imports --descriptor_set_out=FILE"
A_START = '"earliest", "latest", a time with its zone, or a table of offsets such as { topic = { 0 = 120, 1 = 80 } }'

OURS = {
    "kafka.bootstrap.servers": "brokers",
    "subscribe": "topics",
    "subscribepattern": "pattern",
    "startingoffsets": "starting",
    "startingtimestamp": "starting",
    "startingoffsetsbytimestamp": "starting",
    "maxoffsetspertrigger": "max_offsets_per_trigger",
    "includeheaders": "metadata",
    "topic": "topic",
}
"""Options of Spark that have a key of their own, in lower case."""


def kafka_source(table: TomlTable, base: Path, *, stream: bool) -> KafkaSource:
    """Read the keys of a source of ``format = "kafka"``.

    Raises
    ------
    ConfigError
        For a missing, unknown or wrong key.
    """
    _check_options(table)
    topics, pattern = _texts(table, "topics", 'a topic, or a list of some, such as ["orders"]'), None
    if "pattern" in table:
        if topics:
            msg = f"{table.at('pattern')}: {table.at('topics')} is there too; give one of them."
            raise ConfigError(msg)
        pattern = table.text("pattern", 'a regular expression for whole names of topics, such as "orders-.*"')
    elif not topics:
        raise table.wrong("topics", 'a topic, a list of some, or the key pattern such as "orders-.*"')
    if "max_offsets_per_trigger" in table and not stream:
        msg = f"{table.at('max_offsets_per_trigger')}: only a stream has triggers, and {table.at('table')} is true."
        raise ConfigError(msg)
    return KafkaSource(
        brokers=_brokers(table),
        topics=topics,
        pattern=pattern,
        value=_encoding(table, "value", base, outer=True, column="value"),
        key=_encoding(table, "key", base, column="key") if "key" in table else None,
        starting=_start(table, topics, stream=stream),
        metadata=_metadata(table),
        max_offsets_per_trigger=table.count("max_offsets_per_trigger"),
    )


def kafka_sink(table: TomlTable, base: Path, brokers: str | None = None) -> KafkaSink:
    """Read the keys of a sink of ``format = "kafka"``; `brokers` are those without the key.

    Raises
    ------
    ConfigError
        For a missing, unknown or wrong key.
    """
    _check_options(table)
    return KafkaSink(
        brokers=brokers if brokers is not None and "brokers" not in table else _brokers(table),
        topic=table.text("topic", "the topic of the results"),
        value=_encoding(table, "value", base, column="value", written=True),
        key=table.optional_text("key", "a column of the result"),
    )


def topics_in_words(kafka: KafkaSource | KafkaSink) -> str:
    """Return which topics are read or written, and where.

    Examples
    --------
    >>> from slidejoin.cli.job import Encoding, KafkaSink
    >>> topics_in_words(KafkaSink("a:9092", "pairs", Encoding("json")))
    'topic pairs of a:9092'
    """
    if isinstance(kafka, KafkaSink):
        topics = f"topic {kafka.topic}"
    elif kafka.pattern is not None:
        topics = f"topics like {kafka.pattern}"
    else:
        topics = f"{'topic' if len(kafka.topics) == 1 else 'topics'} {', '.join(kafka.topics)}"
    return f"{topics} of {kafka.brokers}"


def bad_rows_in_words(source: Source) -> str:
    """Return what becomes of the records of a source that cannot be read; nothing to say of files."""
    bad = source.bad_rows
    if bad is None:
        return ""
    if bad.sink is None:
        return (
            "; the first record that cannot be read ends the job" if bad.action == "fail" else "; bad records dropped"
        )
    place = bad.sink.path if bad.sink.kafka is None else topics_in_words(bad.sink.kafka)
    return f"; bad records written to {bad.sink.format}{'' if place is None else f', {place}'}"


def schema_text(table: TomlTable, base: Path, expected: str) -> str | None:
    """Return what the key ``schema`` has, or the file that ``schema_file`` names; None without both."""
    if "schema_file" not in table:
        return table.optional_text("schema", expected)
    if "schema" in table:
        msg = f"{table.at('schema_file')}: {table.at('schema')} is there too; give one of them."
        raise ConfigError(msg)
    path = located(table.text("schema_file", "the path of a file"), base)
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a path with a scheme is no path here
            text = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        msg = f"{table.at('schema_file')}: {path} cannot be read: {reason}; expected a file with {expected}."
        raise ConfigError(msg) from error
    if not text:
        msg = f"{table.at('schema_file')}: {path} is empty, expected {expected}."
        raise ConfigError(msg)
    return text


def _encoding(
    table: TomlTable, key: str, base: Path, *, column: str, outer: bool = False, written: bool = False
) -> Encoding:
    """Return how the bytes of a key or value are written, given by a name or by a table.

    `outer`: the schema may be with the keys of the source. `written`: JSON has the schema of the result.
    """
    if table.values(key) is None:
        name: Bytes = table.choice(key, BYTES, "json")
        own, options = TomlTable({}, table.at(key), VALUE_KEYS), {}
    else:
        own = table.table(key, VALUE_KEYS, f"one of {', '.join(BYTES)}, or a table")
        name, options = own.choice("format", BYTES), own.options("options")
    place = own
    if outer:
        for one in ("schema", "schema_file"):
            if one in own and ("schema" in table or "schema_file" in table):
                msg = f"{own.at(one)}: {table.at('schema')} or schema_file is there too; give one schema."
                raise ConfigError(msg)
        if "schema" not in own and "schema_file" not in own:
            place = table
    single = name in {"text", "binary"}
    if not single and key == "value" and "column" in own:
        msg = f"{own.at('column')}: is for text and binary; remove the key."
        raise ConfigError(msg)
    of = {
        "registry": ("avro",) if written else ("avro", "protobuf"),
        "schema_ids": ("avro",),
        "descriptor": ("protobuf",),
        "message": ("protobuf",),
    }
    for one, formats in of.items():
        if one in own and name not in formats:
            msg = f"{own.at(one)}: is for {' and '.join(formats)}, and the format is {name!r}; remove the key."
            raise ConfigError(msg)
    named = own.optional_text("column", "the name of a column") or column
    made = Encoding(name, options=options, column=named if single or key == "key" else None)
    return _with_schema(made, own, place, base, written=written)


def _with_schema(made: Encoding, own: TomlTable, place: TomlTable, base: Path, *, written: bool) -> Encoding:
    """Return an encoding with what the schema's keys of `place` say, and the other ones of `own`."""
    if made.format == "protobuf":
        made = _protobuf(made, own, base)
    if made.format == "avro":
        return _avro(made, own, place, base, written=written)
    if made.format == "json" and not written:
        schema = schema_text(place, base, A_SCHEMA)
        if schema is None:
            raise place.wrong("schema", A_SCHEMA)
        return replace(made, schema=schema)
    for one in ("schema", "schema_file"):
        if one in place:
            why = "JSON has the columns of the result" if made.format == "json" else f"{made.format} has no schema"
            why = "the columns are those of the message" if made.format == "protobuf" else why
            msg = f"{place.at(one)}: {why}; remove the key."
            raise ConfigError(msg)
    return made


def _protobuf(made: Encoding, own: TomlTable, base: Path) -> Encoding:
    """Return an encoding with the descriptor set of the file that is named."""
    message = own.text("message", 'the full name of a message, such as "shop.Order"')
    path = located(own.text("descriptor", A_DESCRIPTOR), base)
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path with a scheme is no path here
            descriptors = file.read()
    except OSError as error:
        msg = f"{own.at('descriptor')}: {path} cannot be read: {error.strerror}; expected {A_DESCRIPTOR}."
        raise ConfigError(msg) from error
    from slidejoin.pipeline.protobuf_records import protobuf_rows  # noqa: PLC0415 - loads PyArrow

    protobuf_rows(descriptors, message, own.at("")[:-1])
    return replace(made, descriptors=descriptors, message=message, registry=own.flag("registry", default=False))


def _avro(made: Encoding, own: TomlTable, place: TomlTable, base: Path, *, written: bool) -> Encoding:
    schema = schema_text(place, base, AN_AVRO_SCHEMA)
    if schema is None and not written:
        raise place.wrong("schema", AN_AVRO_SCHEMA)
    if schema is not None:
        try:
            json.loads(schema)
        except ValueError as error:
            key = "schema" if "schema" in place else "schema_file"
            msg = f"{place.at(key)}: not JSON: {error}; expected {AN_AVRO_SCHEMA}."
            raise ConfigError(msg) from error
    ids = _numbers(own, "schema_ids")
    registry = own.flag("registry", default=bool(ids))
    if ids and not registry:
        msg = f"{own.at('schema_ids')}: the bytes have numbers of schemas with registry = true alone."
        raise ConfigError(msg)
    if written and registry and len(ids) != 1:
        raise own.wrong("schema_ids", "a list of the one number that the registry has given the schema")
    return replace(made, schema=schema, registry=registry, schema_ids=ids)


def _brokers(table: TomlTable) -> str:
    return ",".join(_texts(table, "brokers", A_BROKER, needed=True))


def _texts(table: TomlTable, key: str, expected: str, *, needed: bool = False) -> tuple[str, ...]:
    """Return one text or a list of some; one with commas is a list."""
    if key not in table and not needed:
        return ()
    given = table.raw(key)
    texts = given.split(",") if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(one, str) and one.strip() for one in texts):
        raise table.wrong(key, expected)
    return tuple(one.strip() for one in texts)


def _numbers(table: TomlTable, key: str) -> tuple[int, ...]:
    if key not in table:
        return ()
    given = table.raw(key)
    if not isinstance(given, list) or not given or not all(type(one) is int and 0 <= one < 1 << 31 for one in given):
        raise table.wrong(key, "a list of numbers of schemas such as [7]")
    return tuple(given)


def _metadata(table: TomlTable) -> dict[str, str]:
    if "metadata" not in table:
        return {}
    own = table.table("metadata", METADATA, 'a table of names for columns such as { timestamp = "ts", offset = "at" }')
    names = {one: own.text(one, "the name of a column") for one in METADATA if one in own}
    if len({name.casefold() for name in names.values()}) < len(names):
        msg = f"{table.at('metadata')}: two columns have the same name; give each another."
        raise ConfigError(msg)
    return names


def _start(table: TomlTable, topics: Iterable[str], *, stream: bool) -> str | int | dict[str, dict[int, int]]:
    """Return where a new job begins, see `KafkaSource`."""
    start = table.raw("starting") if "starting" in table else "earliest"
    if start == "latest" and not stream:
        msg = f"{table.at('starting')}: got 'latest', and {table.at('table')} is true: nothing would be read."
        raise ConfigError(msg)
    if isinstance(start, str) and start in STARTS:
        return start
    if isinstance(start, Mapping):
        return {topic: _offsets(table, topic, its, topics) for topic, its in start.items()}
    if isinstance(start, str):
        try:
            start = datetime.fromisoformat(start)
        except ValueError:
            raise table.wrong("starting", A_START) from None
    if not isinstance(start, datetime) or start.tzinfo is None:
        raise table.wrong("starting", A_START)
    return int(start.timestamp() * 1000)


def _offsets(table: TomlTable, topic: str, given: object, topics: Iterable[str]) -> dict[int, int]:
    where = f"{table.at('starting')}.{topic}"
    topics = tuple(topics)
    if topics and topic not in topics:
        msg = f"{where}: not a topic of this source, which reads {', '.join(topics)}."
        raise ConfigError(msg)
    if not isinstance(given, Mapping) or not given:
        msg = f"{where}: got {shown(given)}, expected a table of offsets by partition such as {{ 0 = 120 }}."
        raise ConfigError(msg)
    offsets = {}
    for partition, offset in given.items():
        number = STARTS.get(offset, offset) if isinstance(offset, str) else offset
        if not partition.isdecimal() or type(number) is not int or (number < 0 and number not in STARTS.values()):
            msg = f'{where}.{partition}: got {shown(offset)}, expected an offset, "earliest" or "latest".'
            raise ConfigError(msg)
        offsets[int(partition)] = number
    return offsets


def _check_options(table: TomlTable) -> None:
    """Refuse options of Spark that have a key of their own."""
    for name in table.options("options"):
        key = OURS.get(name.casefold())
        if key is not None:
            msg = f"{table.at('options')}.{name}: write it as {table.at(key)}."
            raise ConfigError(msg)
