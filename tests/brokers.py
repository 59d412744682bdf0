"""Brokers for tests: that of `slidejoin.bench`, in a cache of this checkout, with what tests read of it.

On a machine without Maven such tests are skipped by name, but not where the environment variable ``CI`` is set.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slidejoin.bench import broker
from slidejoin.bench.broker import PATIENCE, NoMavenError, free_ports

if TYPE_CHECKING:
    from confluent_kafka import Message

__all__ = ["Broker", "connector", "free_ports", "jars"]

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "kafka"

CONNECTOR = ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", "org.apache.spark:spark-avro_2.13:4.2.0")
"""Spark's own, of the newest Spark that has one."""

PROVIDED = ("org.apache.spark:spark-tags_2.13", "org.scala-lang:scala-library", "org.apache.hadoop:*", "org.slf4j:*")
"""What Spark has already."""


def not_there(error: NoMavenError) -> None:
    """Skip a test that needs what Maven would fetch; fail where everything has to be there."""
    if os.environ.get("CI"):
        pytest.fail(str(error))
    pytest.skip(str(error))


def jars(name: str, artefacts: tuple[str, ...], without: tuple[str, ...] = ()) -> Path:
    """Return a folder with the jars of artefacts and of what they need, which Maven fetches the first time."""
    try:
        return broker.jars(name, artefacts, CACHE, without)
    except NoMavenError as error:
        not_there(error)
        raise


def connector() -> Path:
    """Return a folder with the jars of Spark's connector."""
    return jars("connector", CONNECTOR, PROVIDED)


class Broker(broker.Broker):
    """A broker on a folder of its own."""

    def __init__(self, folder: Path) -> None:
        try:
            super().__init__(folder, CACHE)
        except NoMavenError as error:
            not_there(error)

    def records(self, topic: str) -> list[Message]:
        """Return all records of a topic that are committed, partition by partition."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {"bootstrap.servers": self.address, "group.id": "tests", "enable.auto.commit": False}
        consumer = Consumer(settings | {"isolation.level": "read_committed", "enable.partition.eof": True})
        try:
            places = [
                TopicPartition(topic, number, 0)
                for number in consumer.list_topics(topic, PATIENCE).topics[topic].partitions
            ]
            consumer.assign(places)
            found: list[Message] = []
            ends, deadline = 0, time.monotonic() + PATIENCE
            while ends < len(places):
                for message in consumer.consume(10_000, 0.2):
                    error = message.error()
                    if error is None:
                        found.append(message)
                    elif error.name() == "_PARTITION_EOF":
                        ends += 1
                    else:
                        raise AssertionError(error)
                assert time.monotonic() < deadline, f"{topic} has no end"
            return sorted(found, key=lambda one: (one.partition(), one.offset()))
        finally:
            consumer.close()
