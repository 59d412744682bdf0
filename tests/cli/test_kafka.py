"""Whole jobs over topics of a real broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.brokers import Broker, connector
from tests.cli.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.shell import Result

pytestmark = pytest.mark.spark

JOB = """
[sources.orders]
format = "kafka"
brokers = "{broker}"
topics = "{name}-orders"
schema = "id BIGINT NOT NULL, price BIGINT, ts TIMESTAMP"
bad_rows = {bad}

[sources.quotes]
format = "kafka"
brokers = "{broker}"
topics = "{name}-quotes"
schema = "bid BIGINT, ts TIMESTAMP"
key = "text"
metadata = {{ offset = "at" }}

[join]
left = "orders"
right = "quotes"
on = "l.price BETWEEN r.bid - 1 AND r.bid + 1"
select = ["l.id", "r.bid", "r.key", "r.at"]
window = {{ length = "10 minutes", on = "ts" }}
pair_id = "pair"

[sink]
{sink}
checkpoint = "checkpoint"

[spark]
master = "local[2]"
jars = "{jars}"
conf = {{ "spark.sql.shuffle.partitions" = "2" }}
"""

TOPIC = 'format = "kafka"\nbrokers = "{broker}"\ntopic = "{name}-pairs"\nkey = "pair"'
FILES = 'format = "parquet"\npath = "out"'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def command(broker: Broker) -> Iterator[Shell]:
    """The command in a process of its own, whose Java has Spark's connector."""
    del broker  # which says what is missing before Spark starts
    with Shell() as shell:
        yield shell


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}.123456Z"


def order(number: int, price: int) -> bytes:
    return json.dumps({"id": number, "price": price, "ts": at(number)}).encode()


def quote(number: int, bid: int) -> bytes:
    return json.dumps({"bid": bid, "ts": at(number)}).encode()


def run(
    command: Shell, folder: Path, broker: Broker, name: str, sink: str, bad: str = '"fail"', job: str = JOB
) -> Result:
    sink = sink.format(broker=broker.address, name=name)
    text = job.format(broker=broker.address, name=name, sink=sink, bad=bad, jars=connector())
    (folder / "job.toml").write_text(text)
    return command("run", folder / "job.toml", "--json")


def pairs(broker: Broker, name: str) -> list[dict[str, Any]]:
    return [json.loads(record.value() or b"") for record in broker.records(f"{name}-pairs")]


def test_topics_to_a_topic(command: Shell, broker: Broker, tmp_path: Path):
    broker.create("a-orders", "a-quotes", "a-pairs", partitions=2)
    broker.send("a-orders", [order(n, 10 * n) for n in range(6)])
    broker.send("a-quotes", [quote(n, 10 * n + 1) for n in range(6)], [f"q{n}".encode() for n in range(6)])
    first = run(command, tmp_path, broker, "a", TOPIC)
    assert first.status == 0, first.err
    done = first.events()[-1]
    assert (done["rows_in"], done["rows_out"], done["bad_rows"]) == (12, 6, 0)
    broker.send("a-orders", [order(n, 10 * n) for n in range(6, 8)])
    broker.send("a-quotes", [quote(n, 10 * n - 1) for n in range(6, 8)], [None, b""])
    second = run(command, tmp_path, broker, "a", TOPIC)
    assert second.status == 0, second.err
    assert second.events()[-1]["rows_out"] == 2
    got = pairs(broker, "a")
    assert sorted((one["id"], one["bid"], one["key"], one["at"]) for one in got) == [
        (0, 1, "q0", 0), (1, 11, "q1", 0), (2, 21, "q2", 1), (3, 31, "q3", 1), (4, 41, "q4", 2), (5, 51, "q5", 2),
        (6, 59, None, 3), (7, 69, "", 3),
    ]  # fmt: skip
    assert {record.key() for record in broker.records("a-pairs")} == {one["pair"].encode() for one in got}
    assert len({one["pair"] for one in got}) == 8
    assert {one["match_time"] for one in got} == {at(n) for n in range(8)}


BAD = {
    b'{"id": 1, "price": "ten", "ts": null}': "value: price is not BIGINT: ten",
    b'{"id": 1, "price": 12345678901234567890}': "value: price is not BIGINT: 12345678901234567890",
    b'{"id": 1, "ts": "yesterday"}': "value: ts is not TIMESTAMP: yesterday",
    b'{"price": 1}': "value: id is missing or null, and NOT NULL",
    b'{"id": 1, "price": 5': "value: not JSON",
    b"not JSON": "value: not JSON",
    b"": "value: not JSON",
    b"null": "value: no object of JSON",
    b'{"id": 1}{"id": 2}': "value: not one object of JSON",
    b"[]": "value: ",
    b"7": "value: ",
    b'{"id": 1, "name": "\xff"}': "value: not UTF-8",
    None: "value: it is NULL (the mark of a deleted key)",
}


def test_records_that_cannot_be_read_go_to_a_sink(command: Shell, broker: Broker, tmp_path: Path):
    broker.create("b-orders", "b-quotes", "b-pairs", "b-unread")
    broker.send("b-orders", [order(0, 10), *BAD, order(1, 20)], [str(n).encode() for n in range(len(BAD) + 2)])
    broker.send("b-quotes", [quote(n, 10 * n + 10) for n in range(2)])
    ended = run(command, tmp_path, broker, "b", FILES, '{ format = "parquet", path = "unread" }')
    assert ended.status == 0, ended.err
    assert ended.events()[-1]["bad_rows"] == len(BAD)
    notes = [event["message"] for event in ended.events() if event["event"] == "note"]
    warning = f"warning: {len(BAD)} records of source orders in micro-batch 0 cannot be read, and written to "
    assert notes == [f"{warning}{tmp_path}/unread with the reason."]
    assert set(pq.read_table(tmp_path / "out")["id"].to_pylist()) == {0, 1}
    unread = sorted(pq.read_table(tmp_path / "unread").to_pylist(), key=lambda row: row["offset"])
    assert [row["value"] for row in unread] == list(BAD)
    assert [row["key"] for row in unread] == [str(n + 1).encode() for n in range(len(BAD))]
    assert {(row["topic"], row["partition"]) for row in unread} == {("b-orders", 0)}
    for row, reason in zip(unread, BAD.values(), strict=True):
        assert row["reason"].startswith(reason), row
    # Once more, with other bad records, which come behind those of the first time.
    broker.send("b-orders", [b"{"])
    again = run(command, tmp_path, broker, "b", FILES, '{ format = "parquet", path = "unread" }')
    assert again.status == 0, again.err
    assert pq.read_table(tmp_path / "unread").num_rows == len(BAD) + 1
