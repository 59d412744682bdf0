"""Write two topics of Kafka, ``trades`` and ``quotes``, as a market would: for trying the job of ``deploy/job.toml``.

The topics are created if they are missing, and ``matches`` for the results. Rows are records of JSON with the time at
which they are written. The program needs ``confluent-kafka`` alone. It ends after ``--rows`` trades, or else when it is
stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TRADES, QUOTES, MATCHES = "trades", "quotes", "matches"
TOPICS = (TRADES, QUOTES, MATCHES)

SYMBOLS = 200
QUOTES_PER_TRADE = 4
CENTS = 10_000
"""Price of every symbol at the start."""
STEP, SPREAD = 3, 5
"""Cents by which a price moves at most, and between a price and its bid or ask."""

LOT = 0.1
"""Seconds between two lots of rows."""
PATIENCE = 30.0
"""Seconds in which the broker has to answer."""


def market(seed: int, first: int) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield trades without end, each with the quotes that are written before it; numbers of trades begin at `first`.

    Prices of symbols walk at random. A trade is at the price of its symbol, a quote a few cents around it.
    """
    chance = random.Random(seed)  # noqa: S311 - data to try a join with, no secrets
    prices = dict.fromkeys((f"S{number:03}" for number in range(SYMBOLS)), CENTS)
    names = list(prices)
    number = first
    while True:
        quotes = []
        for place in range(QUOTES_PER_TRADE):
            symbol = chance.choice(names)
            prices[symbol] = max(prices[symbol] + chance.randint(-STEP, STEP), STEP + SPREAD)
            bid, ask = (prices[symbol] + sign * chance.randint(0, SPREAD) for sign in (-1, 1))
            quotes.append({"quote": number * QUOTES_PER_TRADE + place, "symbol": symbol, "bid": bid, "ask": ask})
        symbol = chance.choice(names)
        yield {"trade": number, "symbol": symbol, "price": prices[symbol], "quantity": chance.randint(1, 100)}, quotes
        number += 1


def create(brokers: str, partitions: int) -> list[str]:
    """Create the topics that are missing, and return their names."""
    client = AdminClient({"bootstrap.servers": brokers})
    there = client.list_topics(timeout=PATIENCE).topics
    missing = [NewTopic(topic, partitions, 1) for topic in TOPICS if topic not in there]
    for created in client.create_topics(missing).values() if missing else ():
        created.result(PATIENCE)
    return [one.topic for one in missing]


def record(row: dict[str, Any]) -> bytes:
    """Return a row as it is written now."""
    return json.dumps({**row, "ts": datetime.now(UTC).isoformat()}).encode()


def send(brokers: str, rate: int, rows: int | None, seed: int, stop: Event) -> int:
    """Write trades, so many a second, with their quotes, and return how many were written.

    Raises
    ------
    TimeoutError
        If the broker does not take them in time.
    """
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 5})
    start, written = time.monotonic(), 0
    rows_of_market = market(seed, time.time_ns() // 1000)  # a second call has other numbers
    while not stop.is_set() and (rows is None or written < rows):
        due = int((time.monotonic() - start + LOT) * rate)
        for _ in range(due - written if rows is None else min(due, rows) - written):
            trade, quotes = next(rows_of_market)
            for quote in quotes:
                producer.produce(QUOTES, record(quote), quote["symbol"])
            producer.produce(TRADES, record(trade), trade["symbol"])
            written += 1
        if producer.flush(PATIENCE):
            msg = f"the broker has not taken all records in {PATIENCE:.0f} s"
            raise TimeoutError(msg)
        stop.wait(LOT)
    return written


def above_zero(text: str) -> int:
    """Return a whole number of at least 1."""
    number = int(text)
    if number < 1:
        msg = f"got {number}, expected a number of at least 1"
        raise argparse.ArgumentTypeError(msg)
    return number


def options(arguments: Sequence[str] | None) -> Any:  # noqa: ANN401 - argparse has no types
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default="localhost:19092", help="host:port (%(default)s)")
    parser.add_argument("--rate", type=above_zero, default=200, help="trades a second (%(default)s)")
    parser.add_argument("--rows", type=above_zero, help="trades after which it ends; none by default")
    parser.add_argument("--seed", type=int, default=1, help="of the random rows (%(default)s)")
    parser.add_argument("--partitions", type=above_zero, default=2, help="of a new topic (%(default)s)")
    parser.add_argument("--create-only", action="store_true", help="create the topics, and write nothing")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the topics; the exit status is 1 if the broker does not answer."""
    given = options(arguments)
    stop = Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stop.set())
    try:
        made = create(given.brokers, given.partitions)
        sys.stdout.write(f"topics created at {given.brokers}: {', '.join(made) or 'none, all are there'}\n")
        sys.stdout.flush()
        if given.create_only:
            return 0
        written = send(given.brokers, given.rate, given.rows, given.seed, stop)
    except (KafkaException, TimeoutError) as error:
        text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        sys.stderr.write(f"Kafka at {given.brokers}: {text}\n")
        return 1
    sys.stdout.write(f"{written:,} trades, {written * QUOTES_PER_TRADE:,} quotes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
