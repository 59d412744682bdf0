"""Records of Kafka as rows, and rows as records, by Spark's own functions.

A record that cannot be read is never a row of NULLs: it ends the job, or it is counted and left out. For a sink of such
records there is `unread`, a second way through the same topics.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from slidejoin.cli.kafka_protobuf import VALUE, WHY, protobuf_column, protobuf_fields, protobuf_written
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from slidejoin.cli.job import Encoding, KafkaSink, KafkaSource, Sink, Source

    Count = Callable[[DataFrame, Column], DataFrame]

__all__ = ["UNREAD_COLUMNS", "kafka_options", "kafka_rows", "records_of", "topic_options", "unread", "unread_records"]

PREFIX = "__slidejoin_"
REST = f"{PREFIX}rest"
"""The field of JSON in which Spark leaves a text that does not fit the schema."""

END = "736C6964656A6F69"
"""Bytes behind those of an Avro record: if they are not what is read there, the record was longer or shorter."""

UNREAD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "reason")

MICROSECONDS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How JSON is written: Spark's defaults leave out NULLs, and cut times to milliseconds."""


@dataclass(frozen=True)
class _Decoded:
    """A key or value that is read in two steps, so that nothing is read twice.

    What Spark makes of the bytes is a column of its own; of that come the row, and when and why it failed.
    """

    made: Column
    parsed: Column
    failed: Column
    reason: Column
    fields: tuple[str, ...] = ()
    """Of a value, the columns in it; empty where it is one column itself."""


def kafka_options(kafka: KafkaSource) -> dict[str, str]:
    """Return the options of Spark's reader of topics."""
    options = {"kafka.bootstrap.servers": kafka.brokers}
    if kafka.pattern is not None:
        options["subscribePattern"] = kafka.pattern
    else:
        options["subscribe"] = ",".join(kafka.topics)
    if isinstance(kafka.starting, int):
        options["startingTimestamp"] = str(kafka.starting)
        options["startingOffsetsByTimestampStrategy"] = "latest"
    elif isinstance(kafka.starting, Mapping):
        options["startingOffsets"] = json.dumps(
            {topic: {str(partition): at for partition, at in its.items()} for topic, its in kafka.starting.items()}
        )
    else:
        options["startingOffsets"] = kafka.starting
    if kafka.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(kafka.max_offsets_per_trigger)
    if "headers" in kafka.metadata:
        options["includeHeaders"] = "true"
    return options


def topic_options(sink: Sink) -> dict[str, str]:
    """Return the options of Spark's writer of a topic; none for other sinks."""
    return {} if sink.kafka is None else {"kafka.bootstrap.servers": sink.kafka.brokers, "topic": sink.kafka.topic}


def kafka_rows(spark: SparkSession, source: Source, count: Count) -> DataFrame:
    """Return the rows of a source: the fields of its values, its keys, and what else is named.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    source : Source
        Of ``format = "kafka"``.
    count : callable
        Takes a frame and a column, the number of bad records; returns the frame, whose records are counted.

    Raises
    ------
    ConfigError
        If two columns would have the same name.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - belongs to an extra

    kafka = _kafka(source)
    value, key = _parts(kafka)
    failed = _failed(value, key)
    columns = [value.parsed.alias(f"{PREFIX}value"), failed.alias(f"{PREFIX}failed")]
    if key is not None:
        columns.append(key.parsed.alias(f"{PREFIX}key"))
    columns += [sql.col(name) for name in kafka.metadata]
    failing = source.bad_rows is None or source.bad_rows.action == "fail"
    if failing:
        columns.append(sql.when(failed, _named_reason(source, value, key)).alias(f"{PREFIX}reason"))
    frame = _made(_records(spark, source), value, key).select(*columns)
    # It keeps the filter above it too, which would otherwise move below the columns and read each value twice.
    frame = count(frame, sql.count_if(sql.col(f"{PREFIX}failed")))
    if failing:
        reason = sql.col(f"{PREFIX}reason")
        frame = frame.where(sql.when(reason.isNull(), sql.lit(True)).otherwise(sql.raise_error(reason).cast("boolean")))  # noqa: FBT003
    else:
        frame = frame.where(~sql.col(f"{PREFIX}failed"))
    return frame.select(*_named(source, value))


def _failed(value: _Decoded, key: _Decoded | None) -> Column:
    """Return whether a record cannot be read."""
    return value.failed if key is None else value.failed | key.failed


def unread(spark: SparkSession, source: Source) -> DataFrame:
    """Return the records of a source that cannot be read, as they are, and why; see `UNREAD_COLUMNS`."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above

    value, key = _parts(_kafka(source))
    reason = _reason(value, key)
    frame = _made(_records(spark, source), value, key).where(_failed(value, key))
    return frame.select(*UNREAD_COLUMNS[:-1], sql.coalesce(reason, sql.lit("not read")).alias("reason"))


def unread_records(frame: DataFrame) -> DataFrame:
    """Return records that cannot be read as records of a topic: as they are, with where they were as headers."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above

    headers = [
        sql.struct(sql.lit(name).alias("key"), sql.col(name).cast("string").cast("binary").alias("value"))
        for name in ("topic", "partition", "offset", "timestamp", "reason")
    ]
    return frame.select("key", "value", sql.array(*headers).alias("headers"))


def records_of(result: DataFrame, sink: KafkaSink) -> DataFrame:
    """Return the rows of a result as the records of a topic.

    Raises
    ------
    ConfigError
        If the result lacks the column of the key or of the text.
    """
    columns = [_written(result, sink.value).alias("value")]
    if sink.key is not None:
        columns.append(_single(result, sink.key, "sink.key").alias("key"))
    return result.select(*columns)


def _written(result: DataFrame, encoding: Encoding) -> Column:
    """Return the rows of a result as bytes."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above

    from slidejoin.spark.job.column_names import quoted  # noqa: PLC0415 - belongs to an extra

    if encoding.column is not None:
        return _single(result, encoding.column, "sink.value.column")
    row = sql.struct(*(sql.col(quoted(name)) for name in result.columns))
    if encoding.format == "json":
        return sql.to_json(row, MICROSECONDS | dict(encoding.options))
    if encoding.format == "protobuf":
        return protobuf_written(row, result.columns, encoding, "sink.value")
    schema = [] if encoding.schema is None else [sql.lit(encoding.schema)]
    record = sql.call_function("to_avro", row, *schema)
    if not encoding.registry:
        return record
    return sql.concat(sql.unhex(sql.lit(f"00{encoding.schema_ids[0]:08X}")), record)


def _single(result: DataFrame, name: str, where: str) -> Column:
    """Return a column as text, or as bytes if it has some."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above

    from slidejoin.spark.job.column_names import quoted  # noqa: PLC0415 - as above

    fields = [field for field in result.schema.fields if field.name.casefold() == name.casefold()]
    if len(fields) != 1:
        msg = f"{where}: the result has no column {name!r}; it has {', '.join(result.columns)}."
        raise ConfigError(msg)
    column = sql.col(quoted(fields[0].name))
    return column if fields[0].dataType.typeName() == "binary" else column.cast("string")


def _kafka(source: Source) -> KafkaSource:
    if source.kafka is None:
        msg = f"sources.{source.name}: no source of Kafka"
        raise ConfigError(msg)
    return source.kafka


def _records(spark: SparkSession, source: Source) -> DataFrame:
    reader = (spark.readStream if source.stream else spark.read).format("kafka")
    return reader.options(**kafka_options(_kafka(source)), **source.options).load()


def _made(records: DataFrame, value: _Decoded, key: _Decoded | None) -> DataFrame:
    """Return records with what Spark makes of their bytes."""
    parts = {"value": value} | ({} if key is None else {"key": key})
    return records.withColumns({_column(name): part.made for name, part in parts.items()})


def _column(name: str) -> str:
    return f"{PREFIX}made_{name}"


def _parts(kafka: KafkaSource) -> tuple[_Decoded, _Decoded | None]:
    return _read("value", kafka.value), None if kafka.key is None else _read("key", kafka.key)


def _named(source: Source, value: _Decoded) -> list[Column]:
    """Return the columns of a source by their names.

    Raises
    ------
    ConfigError
        If two have the same name.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above

    from slidejoin.spark.job.column_names import quoted  # noqa: PLC0415 - as above

    kafka, whole = _kafka(source), sql.col(f"{PREFIX}value")
    named = [(name, whole.getField(name)) for name in value.fields] or [(kafka.value.column or "value", whole)]
    if kafka.key is not None:
        named.append((kafka.key.column or "key", sql.col(f"{PREFIX}key")))
    named += [(name, sql.col(quoted(one))) for one, name in kafka.metadata.items()]
    seen: set[str] = set()
    for name, _ in named:
        if name.casefold() in seen:
            msg = (
                f"sources.{source.name}: two columns are named {name!r}: give another name to the key "
                "(key = { column = … }) or in metadata."
            )
            raise ConfigError(msg)
        seen.add(name.casefold())
    return [column.alias(name) for name, column in named]


def _reason(value: _Decoded, key: _Decoded | None) -> Column:
    """Return why a record cannot be read; NULL if it can."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above

    chosen = sql.when(value.failed, sql.concat(sql.lit("value: "), value.reason))
    return chosen if key is None else chosen.when(key.failed, sql.concat(sql.lit("key: "), key.reason))


def _named_reason(source: Source, value: _Decoded, key: _Decoded | None) -> Column:
    """Return why a record cannot be read, and which one it is."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above

    parts = [
        sql.lit(f"sources.{source.name}: the record of topic "), sql.col("topic"),
        sql.lit(", partition "), sql.col("partition").cast("string"),
        sql.lit(", offset "), sql.col("offset").cast("string"),
        sql.lit(" cannot be read: "), _reason(value, key),
        sql.lit('. Write bad_rows = { format = … } for a sink of such records, or bad_rows = "drop".'),
    ]  # fmt: skip
    return sql.concat(*parts)


def _read(name: str, encoding: Encoding) -> _Decoded:
    """Return what the bytes of a key or value are, and when and why they cannot be read."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above

    raw, made = sql.col(name), sql.col(_column(name))
    missing = raw.isNull() if name == "value" else sql.lit(False)  # noqa: FBT003 - a record without a key is a usual one
    if encoding.format == "binary":
        part = _Decoded(raw, made, sql.lit(False), sql.lit(""))  # noqa: FBT003 - a constant column
    elif encoding.format == "text":
        part = _Decoded(raw.cast("string"), made, ~sql.is_valid_utf8(made), sql.lit("not UTF-8"))
    elif encoding.format == "json":
        part = _json(raw, made, encoding)
    elif encoding.format == "protobuf":
        reason = made.getField(WHY)
        part = _Decoded(
            protobuf_column(raw, encoding), made.getField(VALUE), reason.isNotNull(), reason, protobuf_fields(encoding)
        )
    else:
        part = _avro(raw, made, encoding)
    failed = sql.coalesce(missing | (raw.isNotNull() & part.failed), sql.lit(True))  # noqa: FBT003 - as above
    reason = sql.when(raw.isNull(), sql.lit("it is NULL (the mark of a deleted key)")).otherwise(part.reason)
    return replace(part, failed=failed, reason=reason)


def _json(raw: Column, made: Column, encoding: Encoding) -> _Decoded:
    """Read JSON as a field of an object: what is behind the text's own object is then no JSON."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - as above

    schema = StructType.fromDDL(encoding.schema or "")
    if not isinstance(schema, StructType):
        msg = f"the schema {encoding.schema!r} has no columns"
        raise ConfigError(msg)
    text = raw.cast("string")
    # Permissive, with a field of its own for what does not fit: nothing else tells such a text from one of NULLs.
    options = dict(encoding.options) | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": REST}
    whole = StructType([StructField("value", _nullable(schema)), StructField(REST, StringType())])
    read = sql.from_json(sql.concat(sql.lit('{"value":'), text, sql.lit("}")), whole, options)
    parsed, unfit = made.getField("value"), made.getField(REST).isNotNull()
    needed = [field.name for field in schema.fields if not field.nullable]
    utf8 = sql.is_valid_utf8(text)
    absent = reduce(lambda one, two: one | two, (parsed.getField(name).isNull() for name in needed), sql.lit(False))  # noqa: FBT003
    reason = (
        sql.when(~utf8, sql.lit("not UTF-8"))
        .when(unfit, _misfit(text, parsed, schema))
        .when(parsed.isNull(), sql.lit("no object of JSON"))
    )
    for name in needed:
        reason = reason.when(parsed.getField(name).isNull(), sql.lit(f"{name} is missing or null, and NOT NULL"))
    failed = ~utf8 | unfit | parsed.isNull() | absent
    return _Decoded(read, parsed, failed, reason, tuple(field.name for field in schema.fields))


def _misfit(text: Column, parsed: Column, schema: StructType) -> Column:
    """Return which field of a text of JSON does not fit the schema."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above

    reason = sql.when(sql.try_parse_json(text).isNull(), sql.lit("not JSON"))
    reason = reason.when(parsed.isNull(), sql.lit("not one object of JSON"))
    for field in schema.fields:
        if "'" in field.name:
            continue
        got = sql.get_json_object(text, f"$['{field.name}']")
        kind = field.dataType.simpleString().upper()
        reason = reason.when(
            parsed.getField(field.name).isNull() & got.isNotNull(),
            sql.concat(sql.lit(f"{field.name} is not {kind}: "), sql.substring(got, 1, 100)),
        )
    return reason.otherwise(sql.lit("it does not fit the schema"))


def _nullable(schema: StructType) -> StructType:
    """Return a schema whose columns may all be NULL, as what was read from JSON may be."""
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415 - as above

    return StructType([StructField(field.name, field.dataType, nullable=True) for field in schema.fields])


def _avro(raw: Column, made: Column, encoding: Encoding) -> _Decoded:
    """Read a record of Avro within one that ends with known bytes.

    Spark reads what it can of a record that does not fit, and ignores what is behind one: within another record the
    whole is NULL if it fails, and the end is where it should be.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above

    body = sql.substring(raw, 6, 1 << 30) if encoding.registry else raw
    schema = json.dumps(
        {
            "type": "record", "name": "SlidejoinRecord", "fields": [
                {"name": "value", "type": json.loads(encoding.schema or "null")},
                {"name": "end", "type": {"type": "fixed", "name": "SlidejoinEnd", "size": len(END) // 2}},
            ],
        }
    )  # fmt: skip
    end = sql.unhex(sql.lit(END))
    options = _options(dict(encoding.options) | {"mode": "PERMISSIVE"})
    read = sql.call_function("from_avro", sql.concat(body, end), sql.lit(schema), options)
    parsed = made.getField("value")
    failed = parsed.isNull() | ~made.getField("end").eqNullSafe(end)
    reason = sql.lit("not a record of the schema")
    if encoding.registry:
        number = sql.conv(sql.hex(sql.substring(raw, 2, 4)), 16, 10).cast("bigint")
        framed = (sql.length(raw) >= 5) & (sql.substring(raw, 1, 1) == sql.unhex(sql.lit("00")))  # noqa: PLR2004 - see Encoding
        known = number.isin(list(encoding.schema_ids)) if encoding.schema_ids else sql.lit(True)  # noqa: FBT003 - as above
        failed = ~framed | ~known | failed
        reason = (
            sql.when(~framed, sql.lit("it does not begin with the five bytes of a registry"))
            .when(~known, sql.concat(sql.lit("its schema has the number "), number.cast("string")))
            .otherwise(reason)
        )
    return _Decoded(read, parsed, failed, reason, _avro_fields(encoding))


def _options(options: Mapping[str, str]) -> Column:
    """Return options as SQL takes them."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - as above

    return sql.create_map(*(sql.lit(word) for option in options.items() for word in option))


def _avro_fields(encoding: Encoding) -> tuple[str, ...]:
    """Return the columns of a record, none if the schema is of one value."""
    schema = json.loads(encoding.schema or "null")
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return ()
    return tuple(str(field["name"]) for field in schema["fields"])
