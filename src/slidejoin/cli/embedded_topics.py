"""Topics of a job in this process: the keys of the job file as settings of Kafka's client."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.pipeline.avro_records import avro_rows
from slidejoin.pipeline.ddl import schema_of_ddl
from slidejoin.pipeline.protobuf_records import protobuf_rows
from slidejoin.pipeline.source import OnlySparkError
from slidejoin.pipeline.topic_sink import TopicSink
from slidejoin.pipeline.topics import METADATA, Topics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slidejoin.cli.job import Encoding, KafkaSink, Sink, Source
    from slidejoin.pipeline.protobuf_records import ProtobufRows

__all__ = ["check_topic_columns", "check_topic_sink", "topic_sink_of", "topics_of"]

PREFIX = "kafka."

SAME = (
    *("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password", "isolation.level", "client.id"),
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password", "fetch.max.bytes"),
    *("ssl.endpoint.identification.algorithm", "compression.type", "linger.ms", "batch.size", "group.id"),
)
"""Settings that Kafka's client of this process has under the same name."""

HEADERS = (*METADATA, "reason")
"""What a record that cannot be read has as headers."""

SINGLE: dict[str, pa.DataType] = {"text": pa.string(), "binary": pa.binary()}


def topics_of(source: Source) -> Topics:
    """Return the topics of a source.

    Raises
    ------
    OnlySparkError
        For keys that only Spark understands.
    """
    where, kafka = f"sources.{source.name}", source.kafka
    if kafka is None:
        raise _only_spark(f"{where}.format", f"{source.format} is read")
    if kafka.pattern is not None:
        raise _only_spark(f"{where}.pattern", "topics by a pattern are read")
    if any(one not in METADATA for one in kafka.metadata):
        raise _only_spark(f"{where}.metadata", "headers are read")
    if kafka.value.options:
        raise _only_spark(f"{where}.value", f"{kafka.value.format} with options is read")
    if kafka.key is not None and kafka.key.format not in SINGLE:
        raise _only_spark(f"{where}.key", f"a key of {kafka.key.format} is read")
    value, fields, read = kafka.value, None, None
    if value.format == "protobuf":
        messages = _messages(value)
        fields, read = messages.schema, partial(messages.read, registry=value.registry)
    elif value.format == "avro":
        records = avro_rows(value.schema or "", f"{where}.schema")
        fields, read = records.schema, partial(records.read, registry=value.registry, ids=value.schema_ids)
    elif value.format == "json":
        fields = schema_of_ddl(value.schema or "", f"{where}.schema", strict=True)
    return Topics(
        settings=_settings(kafka.brokers, source.options, where),
        topics=kafka.topics,
        starting=kafka.starting,
        fields=fields,
        value=_column(value, "value") if value.format in SINGLE else None,
        key=None if kafka.key is None else _column(kafka.key, "key"),
        metadata=kafka.metadata,
        bad="fail" if source.bad_rows is None else source.bad_rows.action,
        records=kafka.max_offsets_per_trigger,
        read=read,
    )


def _messages(encoding: Encoding) -> ProtobufRows:
    return protobuf_rows(encoding.descriptors or b"", encoding.message or "")


def _column(encoding: Encoding, default: str) -> tuple[str, pa.DataType]:
    return encoding.column or default, SINGLE[encoding.format]


def check_topic_sink(sink: Sink, where: str = "sink") -> KafkaSink:
    """Return what says which topic is written, if this process can write it; `where` is its key in the job file.

    Raises
    ------
    OnlySparkError
        If it cannot.
    """
    kafka = sink.kafka
    if kafka is None or kafka.value.format not in {"json", "protobuf", *SINGLE} or kafka.value.options:
        raise _only_spark(f"{where}.value", "that is written")
    _settings(kafka.brokers, sink.options, where)
    return kafka


def check_topic_columns(sink: Sink, columns: Sequence[str]) -> None:
    """Check that the result has what the values of a topic need.

    Raises
    ------
    ConfigError
        If a field of a message has no column.
    """
    if sink.kafka is not None and sink.kafka.value.format == "protobuf":
        _messages(sink.kafka.value).check(columns, "sink.value")


def topic_sink_of(sink: Sink, identity: str, where: str = "sink", *, unread: bool = False) -> TopicSink:
    """Return the sink of a topic; `identity` is of the checkpoint. `unread`: of records as they came."""
    kafka = check_topic_sink(sink, where)
    settings = _settings(kafka.brokers, sink.options, where)
    if unread:
        return TopicSink(settings, kafka.topic, "value", "key", identity, where, HEADERS)
    value: Any = kafka.value.column or "value" if kafka.value.format in SINGLE else None
    value = _messages(kafka.value).write if kafka.value.format == "protobuf" else value
    return TopicSink(settings, kafka.topic, value, kafka.key, identity, where)


def _settings(brokers: str, options: Mapping[str, str], where: str) -> dict[str, str]:
    settings = {"bootstrap.servers": brokers}
    for name, value in options.items():
        own = name.removeprefix(PREFIX)
        if own == name or own not in SAME:
            raise _only_spark(f"{where}.options", f"{name} is understood")
        settings[own] = value
    return settings


def _only_spark(key: str, what: str) -> OnlySparkError:
    return OnlySparkError(f"{key}: {what} by Spark alone.")
