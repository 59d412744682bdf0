"""Jobs in this process over topics of a real broker."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.pipeline.source import OnlySparkError
from slidejoin.pipeline.topic_sink import TopicSink
from tests.brokers import Broker
from tests.pipeline.jobs import run
from tests.pipeline.test_every_step import Killed, Steps, ended_after

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.spark  # a broker needs Java

JOB = """
[sources.orders]
format = "kafka"
brokers = "BROKER"
topics = "NAME-orders"
schema = "id BIGINT NOT NULL, price BIGINT, ts TIMESTAMP"
max_offsets_per_trigger = 40
[sources.quotes]
format = "kafka"
brokers = "BROKER"
topics = "NAME-quotes"
schema = "bid BIGINT, ts TIMESTAMP"
key = "text"
metadata = { offset = "at", partition = "part" }
max_offsets_per_trigger = 40
[join]
left = "orders"
right = "quotes"
on = "l.price BETWEEN r.bid - 1 AND r.bid + 1"
select = ["l.id", "r.bid", "r.key", "r.at", "r.part"]
window = { length = "10 minutes", on = "ts", lateness = "1 hour" }
[sink]
SINK
checkpoint = "checkpoint"
[embedded]
snapshot_every = "20 ms"
"""
FILES = 'format = "parquet"\npath = "out"'
TOPIC = 'format = "kafka"\nbrokers = "BROKER"\ntopic = "NAME-pairs"\nkey = "id"'

COMMAND = [sys.executable, "-c", "from slidejoin.cli import main; main()", "run", "job.toml", "--json"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def text(broker: Broker, name: str, sink: str) -> str:
    return JOB.replace("SINK", sink).replace("BROKER", broker.address).replace("NAME", name)


def at(second: int) -> str:
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.123456Z"


def order(number: int) -> bytes:
    return json.dumps({"id": number, "price": 10 * number, "ts": at(number)}).encode()


def quote(number: int) -> bytes:
    return json.dumps({"bid": 10 * number + 1, "ts": at(number)}).encode()


def put(broker: Broker, name: str, first: int, last: int) -> None:
    broker.send(f"{name}-orders", [order(n) for n in range(first, last)])
    broker.send(
        f"{name}-quotes", [quote(n) for n in range(first, last)], [f"q{n}".encode() for n in range(first, last)]
    )


def rows(folder: Path) -> list[dict[str, Any]]:
    return sorted(
        (row for file in (folder / "out").glob("*.parquet") for row in pq.read_table(file).to_pylist()), key=str
    )


def test_topics_to_files(broker: Broker, tmp_path: Path):
    broker.create("a-orders", "a-quotes", partitions=2)
    put(broker, "a", 0, 100)
    first = run(tmp_path, text(broker, "a", FILES))
    assert [(one.rows_in, one.rows_out) for one in first.batches] == [(80, 40), (80, 40), (40, 20)]
    put(broker, "a", 100, 110)
    second = run(tmp_path, text(broker, "a", FILES))
    assert (second.totals.rows_in, second.totals.rows_out) == (20, 10)
    assert {row["id"]: (row["bid"], row["key"], row["at"], row["part"]) for row in rows(tmp_path)} == {
        n: (10 * n + 1, f"q{n}", n // 2, n % 2) for n in range(110)
    }
    assert run(tmp_path, text(broker, "a", FILES)).totals.batches == 0


BAD = {
    b'{"id": 1, "price": "ten", "ts": null}': 'value: price is not int64: "ten"',
    b'{"id": 1, "price": 12345678901234567890}': "value: price is not int64: 12345678901234567890",
    b'{"id": 1, "ts": "yesterday"}': 'value: ts is not timestamp[us, tz=UTC]: "yesterday"',
    b'{"price": 1}': "value: id is missing or null, and NOT NULL",
    b'{"id": 1, "price": 5': "value: not JSON",
    b"": "value: not JSON",
    b"null": "value: no object of JSON",
    b'{"id": 1}{"id": 2}': "value: not JSON",
    b'{"id": 1, "name": "\xff"}': "value: not UTF-8",
    None: "value: it is NULL (the mark of a deleted key)",
}


def test_records_that_cannot_be_read(broker: Broker, tmp_path: Path):
    broker.create("b-orders", "b-quotes")
    broker.send("b-orders", [order(0), *BAD, order(1)])
    broker.send("b-quotes", [quote(0), quote(1)])
    job = text(broker, "b", FILES)
    with pytest.raises(SlideJoinError) as ended:
        run(tmp_path, job)
    assert str(ended.value) == (
        "sources.orders: the record of topic b-orders, partition 0, offset 1 cannot be read: value: price is not "
        'int64: "ten". Write bad_rows = "drop" to leave such records out.'
    )
    dropped = run(tmp_path, job.replace("[sources.quotes]", 'bad_rows = "drop"\n[sources.quotes]'))
    assert (dropped.totals.bad_rows, dropped.totals.rows_out) == (len(BAD), 2)
    (note,) = dropped.notes
    assert note.startswith(
        f"warning: {len(BAD)} records of source orders in micro-batch 0 cannot be read, and dropped; "
    )
    for value, reason in BAD.items():
        name = f"c{list(BAD).index(value)}"
        broker.create(f"{name}-orders", f"{name}-quotes")
        broker.send(f"{name}-orders", [value])
        (tmp_path / name).mkdir()
        with pytest.raises(SlideJoinError) as ended:
            run(tmp_path / name, text(broker, name, FILES))
        assert reason in str(ended.value)


def unread(folder: Path) -> list[tuple[Any, ...]]:
    rows = [row for file in (folder / "unread").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert all(row["timestamp"].year > 2024 for row in rows)
    return sorted(
        (row["offset"], row["topic"], row["partition"], row["key"], row["value"], row["reason"]) for row in rows
    )


def test_records_that_cannot_be_read_are_written_once(broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    broker.create("e-orders", "e-quotes", "e-unread", "e-pairs")
    broker.send("e-orders", [order(0), *BAD, order(1)], [b"a", *[b"k"] * len(BAD), b"b"])
    broker.send("e-quotes", [quote(0), quote(1)])
    expected = [
        (offset, "e-orders", 0, b"k", value, reason) for offset, (value, reason) in enumerate(BAD.items(), start=1)
    ]
    few = text(broker, "e", FILES).replace("max_offsets_per_trigger = 40", "max_offsets_per_trigger = 4")
    few = few.replace("[sources.quotes]", "BAD_ROWS\n[sources.quotes]")
    job = few.replace("BAD_ROWS", 'bad_rows = { format = "parquet", path = "unread" }')
    step, done = 3, False
    while not done:
        folder = tmp_path / str(step)
        folder.mkdir()
        done = ended_after(Steps(step), monkeypatch, folder, job)
        before = unread(folder)
        assert len(set(before)) == len(before)
        run(folder, job)
        assert (unread(folder), [row["id"] for row in rows(folder)]) == (expected, [0, 1]), step
        step += 7
    # Both sinks are topics: one may have a micro-batch that the other has not.
    to_topic = few.replace("BAD_ROWS", 'bad_rows = { format = "kafka", topic = "e-unread" }').replace(FILES, TOPIC)
    to_topic = to_topic.replace("BROKER", broker.address).replace("NAME", "e")
    ready, numbers = TopicSink.ready, iter(range(100))

    def ended(sink: TopicSink) -> Any:
        made = ready(sink)
        if next(numbers) % 3 == 0:
            raise Killed
        return made

    monkeypatch.setattr(TopicSink, "ready", ended)
    for _ in range(30):
        try:
            run(tmp_path, to_topic)
        except Killed:
            continue
        break
    records = broker.records("e-unread")
    assert [record.value() for record in records] == list(BAD)
    assert [record.key() for record in records] == [b"k"] * len(BAD)
    headers = [dict(record.headers() or ()) for record in records]
    assert [(one["topic"], one["partition"], one["offset"], one["reason"]) for one in headers] == [
        (b"e-orders", b"0", str(offset).encode(), reason.encode()) for offset, *_, reason in expected
    ]
    assert [json.loads(record.value() or b"")["id"] for record in broker.records("e-pairs")] == [0, 1]


def test_what_is_wrong_is_said(broker: Broker, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"sources.orders.topics: there is no topic 'nowhere-orders' at 127.0.0.1:"):
        run(tmp_path, text(broker, "nowhere", FILES))
    for old, new, message in (
        ('key = "text"', 'key = "json"\nschema_ = ""', "key"),
        (
            "[sources.quotes]",
            'bad_rows = { format = "orc", path = "bad" }\n[sources.quotes]',
            r"sources.orders.bad_rows.format: 'orc' is written by Spark alone",
        ),
        (
            "[sources.quotes]",
            'options = { "kafka.sasl.jaas.config" = "x" }\n[sources.quotes]',
            "kafka.sasl.jaas.config is",
        ),
    ):
        if message != "key":
            with pytest.raises(OnlySparkError, match=message):
                run(tmp_path, text(broker, "a", FILES).replace(old, new))


def test_topics_to_a_topic_killed_again_and_again(broker: Broker, tmp_path: Path):
    broker.create("d-orders", "d-quotes", "d-pairs", partitions=2)
    put(broker, "d", 0, 1000)
    (tmp_path / "job.toml").write_text(text(broker, "d", TOPIC))
    draw = random.Random(3)
    for _ in range(2):
        process = subprocess.Popen(COMMAND, cwd=tmp_path, env=os.environ, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert b'"start"' in process.stdout.readline()
        if draw.random() < 0.7:
            process.stdout.readline()
        time.sleep(draw.uniform(0, 0.5))
        process.kill()
        process.communicate()
    done = subprocess.run(COMMAND, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    records = broker.records("d-pairs")
    values = [json.loads(record.value() or b"") for record in records]
    assert sorted((one["id"], one["bid"]) for one in values) == [(n, 10 * n + 1) for n in range(1000)]
    assert {one["match_time"] for one in values} == {at(n) for n in range(1000)}
    assert all(record.key() == str(one["id"]).encode() for record, one in zip(records, values, strict=True))
