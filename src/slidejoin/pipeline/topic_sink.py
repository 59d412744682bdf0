"""Results as records of a topic of Kafka: each micro-batch is a transaction.

The transaction holds the number of its micro-batch too, as the offset of a consumer group that nobody else has. So the
broker knows which micro-batch was the last one, and a job that was killed between the transaction and the note in its
checkpoint does not write it again. Who reads with ``read_committed`` sees each row once.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.pipeline.json_rows import json_objects
from slidejoin.pipeline.topics import PATIENCE, kafka_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Encode = Callable[[pa.Table], list[bytes]]

__all__ = ["TopicSink"]

LONGEST_MS = 900_000
"""Of a transaction; the most that brokers allow, unless their settings say more."""

POLLED_ROWS = 10_000


class TopicSink:
    """A `ResultSink` of one topic.

    Parameters
    ----------
    settings : Mapping of str to str
        Of the client, the brokers among them.
    topic : str
    value : str, callable or None
        The column of texts or bytes that is a record's value; or what makes values of rows; None for all columns in
        JSON.
    key : str or None
        The column that is a record's key.
    identity : str
        Of the checkpoint, and of this sink of it.
    where : str
        Its key in the job file.
    headers : sequence of str
        Columns that are headers of a record.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        topic: str,
        value: str | Encode | None,
        key: str | None,
        identity: str,
        where: str = "sink",
        headers: Sequence[str] = (),
    ) -> None:
        self._kafka = kafka_module(where)
        self._where, self._headers = where, tuple(headers)
        self._topic, self._value, self._key = topic, value, key
        self._brokers = settings["bootstrap.servers"]
        self._group = f"slidejoin-{identity}"
        quiet = {"log_level": 0, "error_cb": lambda _: None}
        self._consumer: Any = self._kafka.Consumer(
            quiet | dict(settings) | {"group.id": self._group, "enable.auto.commit": False}
        )
        self._producer: Any = self._kafka.Producer(
            quiet
            | {"linger.ms": 20, "compression.type": "lz4", "queue.buffering.max.messages": 1_000_000}
            | dict(settings)
            | {"transactional.id": self._group, "transaction.timeout.ms": LONGEST_MS}
        )
        self._open = False
        self._number = 0

    def _failed(self, error: Exception) -> SlideJoinError:
        return SlideJoinError(f"{self._where}: Kafka at {self._brokers}: {error.args[0].str()}")

    def committed(self) -> int:
        """Return the last micro-batch that the topic has; transactions that a killed run left open are aborted."""
        try:
            topics = self._producer.list_topics(self._topic, PATIENCE).topics
            if self._topic not in topics or topics[self._topic].error is not None:
                msg = f"{self._where}.topic: there is no topic {self._topic!r} at {self._brokers}; create it first."
                raise ConfigError(msg)
            self._producer.init_transactions(PATIENCE)
            (place,) = self._consumer.committed([self._kafka.TopicPartition(self._topic, 0)], PATIENCE)
        except self._kafka.KafkaException as error:
            raise self._failed(error) from error
        return int(place.offset) - 1 if place.offset >= 0 else -1

    def recover(self, last: int, ready: dict[str, Any]) -> None:
        """Do nothing: a transaction is committed or not."""

    def begin(self, number: int) -> None:
        """Begin a micro-batch; it has no transaction until it has rows."""
        self._number = number

    def write(self, rows: pa.Table) -> None:
        """Write rows."""
        keys = [None] * rows.num_rows if self._key is None else _bytes_of(rows.column(self._key))
        if isinstance(self._value, str):
            values: Any = _bytes_of(rows.column(self._value))
        else:
            values = json_objects(rows) if self._value is None else self._value(rows)
        try:
            if not self._open:
                self._producer.begin_transaction()
                self._open = True
            for place, (value, key, headers) in enumerate(zip(values, keys, self._headers_of(rows), strict=True)):
                self._produce(value, key, headers)
                if place % POLLED_ROWS == 0:
                    self._producer.poll(0)
        except self._kafka.KafkaException as error:
            raise self._failed(error) from error

    def _headers_of(self, rows: pa.Table) -> Iterable[Any]:
        """Return the headers of each row's record, None without any."""
        if not self._headers:
            return repeat(None, rows.num_rows)
        columns = [
            [None if one is None else str(one) for one in _bytes_of(rows.column(name))] for name in self._headers
        ]
        return (list(zip(self._headers, row, strict=True)) for row in zip(*columns, strict=True))

    def _produce(self, value: Any, key: Any, headers: Any) -> None:  # noqa: ANN401 - texts, bytes or None
        while True:
            try:
                if headers is None:
                    self._producer.produce(self._topic, value, key)
                else:
                    self._producer.produce(self._topic, value, key, headers=headers)
            except BufferError:  # there is no room until some have been sent
                self._producer.poll(0.1)
            else:
                return

    def ready(self) -> dict[str, Any]:
        """Commit the transaction, and in it the number of the micro-batch."""
        if self._open:
            try:
                number = self._kafka.TopicPartition(self._topic, 0, self._number + 1)
                group = self._consumer.consumer_group_metadata()
                self._producer.send_offsets_to_transaction([number], group, PATIENCE)
                self._producer.commit_transaction(PATIENCE)
            except self._kafka.KafkaException as error:
                raise self._failed(error) from error
            self._open = False
        return {}

    def publish(self, number: int, ready: dict[str, Any]) -> None:
        """Do nothing: the transaction did."""

    def close(self) -> None:
        """Abort a transaction that is open."""
        if self._open:
            try:
                self._producer.abort_transaction(PATIENCE)
            except self._kafka.KafkaException:
                return  # the broker aborts it in time, or as the job starts again
            self._open = False


def _bytes_of(column: pa.ChunkedArray[Any]) -> list[Any]:
    kind = column.type
    return column.to_pylist() if pa.types.is_binary(kind) else column.cast(pa.string()).to_pylist()
