"""The keys of job files for Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slidejoin.cli.job import BadRows, Encoding, Job, KafkaSink, KafkaSource, Sink, Source
from slidejoin.cli.jobfile import read_job_text
from slidejoin.cli.source_columns import columns_of_source
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """
[sources.orders]
format = "kafka"
brokers = "a:9092"
topics = "orders"
schema = "id BIGINT, price DOUBLE, ts TIMESTAMP"

[sources.quotes]
format = "kafka"
brokers = ["a:9092", "b:9092"]
topics = ["quotes", "more"]
starting = { quotes = { 0 = 12, 1 = "latest" }, more = { 0 = "earliest" } }
max_offsets_per_trigger = 1000
value = { format = "json", options = { timestampFormat = "dd.MM.yyyy" } }
schema = "bid DOUBLE"
key = "text"
metadata = { timestamp = "ts", offset = "at", headers = "with" }
bad_rows = { format = "kafka", topic = "unread" }
options = { "kafka.security.protocol" = "SSL" }

[join]
left = "orders"
right = "quotes"
on = "l.price > r.bid"
window = { length = "10 minutes", on = "ts" }

[sink]
format = "kafka"
brokers = "c:9092"
topic = "matches"
key = "id"
checkpoint = "checkpoint"
"""


def read(base: Path, text: str = GOOD) -> Job:
    return read_job_text(text, base)


def replaced(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def test_everything_of_kafka_is_read(tmp_path: Path):
    job = read(tmp_path)
    assert job.sources["orders"] == Source(
        name="orders",
        format="kafka",
        kafka=KafkaSource(
            brokers="a:9092",
            topics=("orders",),
            pattern=None,
            value=Encoding("json", "id BIGINT, price DOUBLE, ts TIMESTAMP"),
        ),
        bad_rows=BadRows("fail"),
    )
    assert job.sources["quotes"] == Source(
        name="quotes",
        format="kafka",
        options={"kafka.security.protocol": "SSL"},
        kafka=KafkaSource(
            brokers="a:9092,b:9092",
            topics=("quotes", "more"),
            pattern=None,
            value=Encoding("json", "bid DOUBLE", options={"timestampFormat": "dd.MM.yyyy"}),
            key=Encoding("text", column="key"),
            starting={"quotes": {0: 12, 1: -1}, "more": {0: -2}},
            metadata={"offset": "at", "timestamp": "ts", "headers": "with"},
            max_offsets_per_trigger=1000,
        ),
        bad_rows=BadRows(
            "write",
            Sink("kafka", kafka=KafkaSink("a:9092,b:9092", "unread", Encoding("json"))),
        ),
    )
    assert job.sink == Sink(
        "kafka",
        checkpoint=str(tmp_path / "checkpoint"),
        kafka=KafkaSink("c:9092", "matches", Encoding("json"), key="id"),
    )


@pytest.mark.parametrize(
    ("written", "column", "columns"),
    [
        ('value = "text"\n', "value", ["value"]),
        (
            'value = { format = "binary", column = "raw" }\nkey = { format = "text", column = "k" }\n',
            "raw",
            ["raw", "k"],
        ),
    ],
)
def test_text_and_bytes_are_one_column(tmp_path: Path, written: str, column: str, columns: list[str]):
    job = read(tmp_path, replaced('schema = "id BIGINT, price DOUBLE, ts TIMESTAMP"\n', written))
    source = job.sources["orders"]
    assert source.kafka is not None
    assert source.kafka.value.column == column
    assert columns_of_source(source, job.session) == columns


def test_columns_of_a_source_are_of_the_value_the_key_and_what_is_named(tmp_path: Path):
    job = read(tmp_path)
    assert columns_of_source(job.sources["quotes"], job.session) == ["bid", "key", "at", "ts", "with"]


@pytest.mark.parametrize(
    ("written", "starting"),
    [
        ('"latest"', "latest"),
        ("1970-01-01T00:00:01.5Z", 1500),
        ('"1970-01-01T01:00:02+01:00"', 2000),
    ],
)
def test_a_job_may_begin_at_an_end_or_a_time(tmp_path: Path, written: str, starting: object):
    kafka = (
        read(tmp_path, replaced('topics = "orders"', f'topics = "orders"\nstarting = {written}'))
        .sources["orders"]
        .kafka
    )
    assert kafka is not None
    assert kafka.starting == starting


def test_a_pattern_is_read_instead_of_topics(tmp_path: Path):
    kafka = read(tmp_path, replaced('topics = "orders"', 'pattern = "orders-.*"')).sources["orders"].kafka
    assert kafka is not None
    assert (kafka.topics, kafka.pattern) == ((), "orders-.*")


def test_schemas_are_read_from_files(tmp_path: Path):
    (tmp_path / "orders.ddl").write_text("id BIGINT\n")
    (tmp_path / "orders.avsc").write_text('{"type": "record"}')
    line = 'schema = "id BIGINT, price DOUBLE, ts TIMESTAMP"'
    orders = read(tmp_path, replaced(line, 'schema_file = "orders.ddl"')).sources["orders"].kafka
    assert orders is not None
    assert orders.value == Encoding("json", "id BIGINT")
    avro = 'schema_file = "orders.avsc"\nvalue = { format = "avro", registry = true, schema_ids = [7] }'
    orders = read(tmp_path, replaced(line, avro)).sources["orders"].kafka
    assert orders is not None
    assert orders.value == Encoding("avro", '{"type": "record"}', registry=True, schema_ids=(7,))


SCHEMA = 'schema = "id BIGINT, price DOUBLE, ts TIMESTAMP"'

# what is replaced in the good file, by what, and the message
WRONG = [
    ('brokers = "a:9092"\n', "", 'sources.orders.brokers: missing; expected a broker such as "localhost:9092"'),
    ('topics = "orders"', "", "sources.orders.topics: missing; expected a topic, a list of some, or the key pattern"),
    ('topics = "orders"', 'topics = "orders"\npattern = "x"', "sources.orders.pattern: sources.orders.topics is there"),
    ('topics = "orders"', "topics = []", "sources.orders.topics: got [] (a list), expected a topic, or a list of some"),
    (
        'topics = "orders"',
        'topics = "orders"\npath = "x"',
        "sources.orders.path: unknown key; the keys here are format,",
    ),
    (SCHEMA, "", "sources.orders.schema: missing; expected columns and types in SQL such as"),
    (SCHEMA, 'schema_file = "none"', "none cannot be read: No such file or directory; expected a file with columns"),
    (
        SCHEMA,
        f'{SCHEMA}\nschema_file = "x"',
        "sources.orders.schema_file: sources.orders.schema is there too; give one",
    ),
    (SCHEMA, f'{SCHEMA}\nvalue = "xml"', "sources.orders.value: got 'xml', expected one of json, text, binary, avro"),
    (SCHEMA, f'{SCHEMA}\nvalue = "text"', "sources.orders.schema: text has no schema; remove the key."),
    (SCHEMA, f'{SCHEMA}\nvalue = "avro"', "sources.orders.schema: not JSON: Expecting value"),
    (
        SCHEMA,
        'value = { format = "json", schema = "id BIGINT", registry = true }',
        "sources.orders.value.registry: is for avro and protobuf, and the format is 'json'; remove the key.",
    ),
    (
        SCHEMA,
        'value = { format = "protobuf", message = "shop.Order" }',
        "sources.orders.value.descriptor: missing; expected the descriptor set of protoc --include_imports",
    ),
    (SCHEMA, 'value = "protobuf"', "sources.orders.value.message: missing; expected the full name of a message"),
    (
        SCHEMA,
        'value = { format = "protobuf", message = "shop.Order", descriptor = "none" }',
        "none cannot be read: No such file or directory; expected the descriptor set of protoc",
    ),
    (
        'key = "id"',
        'value = { format = "protobuf", message = "shop.Order", registry = true }',
        "sink.value.registry: is for avro, and the format is 'protobuf'; remove the key.",
    ),
    (
        SCHEMA,
        'schema = "[]"\nvalue = { format = "avro", schema_ids = [7], registry = false }',
        "sources.orders.value.schema_ids: the bytes have numbers of schemas with registry = true alone.",
    ),
    (SCHEMA, f'{SCHEMA}\nkey = "json"', "sources.orders.key.schema: missing; expected columns and types in SQL"),
    (
        SCHEMA,
        f"{SCHEMA}\nbad_rows = true",
        "sources.orders.bad_rows: got true (true or false), expected one of fail, d",
    ),
    (SCHEMA, f'{SCHEMA}\nbad_rows = {{ format = "csv" }}', "sources.orders.bad_rows.path: missing; expected a folder"),
    (SCHEMA, f'{SCHEMA}\nstarting = "soon"', 'sources.orders.starting: got \'soon\', expected "earliest", "latest"'),
    (SCHEMA, f"{SCHEMA}\nstarting = 2026-01-01T00:00:00", "sources.orders.starting: got 2026-01-01 00:00:00"),
    (SCHEMA, f"{SCHEMA}\nstarting = {{ x = {{ 0 = 1 }} }}", "sources.orders.starting.x: not a topic of this source"),
    (
        SCHEMA,
        f"{SCHEMA}\nstarting = {{ orders = {{ 0 = -3 }} }}",
        'sources.orders.starting.orders.0: got -3 (a whole number), expected an offset, "earliest" or "latest".',
    ),
    (
        SCHEMA,
        f'{SCHEMA}\noptions = {{ startingOffsets = "earliest" }}',
        "sources.orders.options.startingOffsets: write it as sources.orders.starting.",
    ),
    (
        SCHEMA,
        f'{SCHEMA}\nmetadata = {{ offset = "x", topic = "X" }}',
        "sources.orders.metadata: two columns have the same name; give each another.",
    ),
    ('topic = "matches"', "", "sink.topic: missing; expected the topic of the results."),
    ('checkpoint = "checkpoint"', "", "sink.checkpoint: missing; expected a folder for the progress of the"),
    (
        'key = "id"',
        'value = { format = "avro", registry = true }',
        "sink.value.schema_ids: missing; expected a list of",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str):
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, replaced(old, new))
    assert message in str(raised.value)


def test_the_latest_of_a_table_is_nothing(tmp_path: Path):
    text = GOOD.replace(SCHEMA, f'{SCHEMA}\ntable = true\nstarting = "latest"')
    with pytest.raises(ConfigError, match=r"sources.orders.starting: got 'latest', and sources.orders.table is true"):
        read(tmp_path, text)
