"""Write the streams of SPO-Join's two queries to Kafka: readings of two data centres, and taxi trips.

The topics ``dc1``, ``dc2`` and ``trips`` are created if they are missing. Each row is a record of JSON with its number,
``n``. A second call goes on where the topics end.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.cases.paper_streams import power_readings, taxi_trips

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

TOPICS = ("dc1", "dc2", "trips")
PATIENCE = 30.0
STEP = 0.1
"""Seconds between two lots of rows, with a rate."""

ALL_AT_ONCE = 10_000


def streams(rows: int, seed: int) -> dict[str, pa.Table]:
    """Return the first rows of each topic."""
    tables = (*power_readings(rows, seed), *taxi_trips(rows, seed))
    return dict(zip(TOPICS, tables, strict=True))


def records(table: pa.Table, first: int) -> Iterator[bytes]:
    """Yield the rows of a table as records, the first of which has this number."""
    for number, row in enumerate(table.to_pylist(), first):
        yield json.dumps({"n": number, **row}).encode()


def create(brokers: str) -> bool:
    """Create the topics that are missing, of one partition, and return whether there are such.

    The order of a partition's records is that of the rows.
    """
    client = AdminClient({"bootstrap.servers": brokers})
    there = client.list_topics(timeout=PATIENCE).topics
    missing = [NewTopic(topic, 1, 1) for topic in TOPICS if topic not in there]
    for created in client.create_topics(missing).values() if missing else ():
        created.result(PATIENCE)
    return bool(missing)


def length(brokers: str) -> int:
    """Return how many records every topic has."""
    client = Consumer({"bootstrap.servers": brokers, "group.id": "generate"})
    try:
        return min(client.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE)[1] for topic in TOPICS)
    finally:
        client.close()


def send(brokers: str, rows: int, rate: int, seed: int) -> int:
    """Write rows to each topic, so many a second, or all at once if `rate` is 0; return how many there are then."""
    # A new topic has no records, and its broker may not be able to say so yet.
    first = 0 if create(brokers) else length(brokers)
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 5})
    lots = {topic: records(table.slice(first), first) for topic, table in streams(first + rows, seed).items()}
    size = max(round(rate * STEP), 1) if rate else ALL_AT_ONCE
    start = time.monotonic()
    for done in range(0, rows, size):
        if rate:
            time.sleep(max(start + done / rate - time.monotonic(), 0))
        for topic, values in lots.items():
            for _ in range(min(size, rows - done)):
                producer.produce(topic, next(values), partition=0)
        producer.flush(PATIENCE)
    return first + rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the streams; the exit status is 1 if the broker does not answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default="localhost:9092", help="host:port (%(default)s)")
    parser.add_argument("--rows", type=int, default=5_000, help="for each topic (%(default)s)")
    parser.add_argument("--rate", type=int, default=0, help="rows a second for each topic; 0: all at once")
    parser.add_argument("--seed", type=int, default=1, help="of the random rows (%(default)s)")
    given: Any = parser.parse_args(arguments)
    try:
        total = send(given.brokers, given.rows, given.rate, given.seed)
    except KafkaException as error:
        sys.stderr.write(f"Kafka at {given.brokers}: {error.args[0].str()}\n")
        return 1
    sys.stdout.write(f"{', '.join(TOPICS)}: {total:,} records each at {given.brokers}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
