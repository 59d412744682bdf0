"""Topics of Kafka as a source: a micro-batch reads a range of offsets of each partition.

One consumer reads on from micro-batch to micro-batch. Records that come behind the end of a range wait for the next
one, and the partition is paused until then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from slidejoin.errors import ConfigError, MissingPackageError, SlideJoinError
from slidejoin.pipeline.source import MISSING, Rows
from slidejoin.pipeline.text_rows import records_of_json
from slidejoin.rows.arrow_buffers import empty_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from slidejoin.pipeline.columns import Shape

__all__ = ["METADATA", "MOST_RECORDS", "TopicSource", "Topics", "kafka_module"]

METADATA: dict[str, pa.DataType] = {
    "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip
"""What else a record has that may be a column, and its type."""

MOST_RECORDS = 250_000
"""Of one micro-batch, unless the job file says how many: the next one is read while it is joined."""

MOST_WAITING = 100_000
"""Records of a partition behind the end of its range before it is paused: what came for nothing then comes again."""

AT_ONCE = 10_000
PATIENCE = 60.0
"""Seconds that a broker has to answer."""

WAIT = 0.2

FETCHED_BYTES, BACKOFF_MS = 8 << 20, 5
"""Of a partition at once, and when to look for room for more: after a second, by default, in which all was read."""

UNREAD = pa.schema(
    [
        *(pa.field(*one) for one in METADATA.items()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string()),
    ]
)
"""Of records that cannot be read, as they are."""


def kafka_module(what: str) -> ModuleType:
    """Return the module of Kafka's client.

    Raises
    ------
    MissingPackageError
        If it is not installed.
    """
    try:
        import confluent_kafka  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        msg = f'{what}: Kafka needs the package confluent-kafka. Install it: pip install "slidejoin[pipeline]"'
        raise MissingPackageError(msg) from error
    return confluent_kafka


@dataclass(frozen=True, slots=True)
class Topics:
    """Which topics are read, and what their records hold.

    Attributes
    ----------
    settings : Mapping of str to str
        Of the client, the brokers among them.
    topics : tuple of str
    starting : str, int or Mapping
        Where a new job begins: "earliest", "latest", a time in milliseconds, or offsets by topic and partition, -2 and
        -1 being the earliest and the latest.
    fields : pyarrow.Schema or None
        Of values in JSON or Protobuf; columns that may not be NULL say so.
    value : tuple of (str, DataType) or None
        Of values that are one column: its name, and string or binary.
    key : tuple of (str, DataType) or None
        The same of keys, where they are read.
    metadata : Mapping of str to str
        Names of columns for what is in `METADATA`.
    bad : {"fail", "drop", "write"}
        What becomes of records that cannot be read: they end the job, are counted and dropped, or returned as well.
    records : int or None
        The most records of a micro-batch.
    read : callable or None
        Takes values and returns their rows and why some cannot be read; None for JSON.
    """

    settings: Mapping[str, str]
    topics: tuple[str, ...]
    starting: str | int | Mapping[str, Mapping[int, int]]
    fields: pa.Schema | None
    value: tuple[str, pa.DataType] | None = None
    key: tuple[str, pa.DataType] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    bad: Literal["fail", "drop", "write"] = "fail"
    records: int | None = None
    read: Callable[[Sequence[bytes | None]], tuple[pa.Table, dict[int, str]]] | None = None

    def schema(self, name: str) -> pa.Schema:
        """Return the schema of all columns.

        Raises
        ------
        ConfigError
            If two have the same name.
        """
        fields = [pa.field(one.name, one.type) for one in self.fields or ()]
        fields += [pa.field(*one) for one in (self.value, self.key) if one is not None]
        fields += [pa.field(column, METADATA[one]) for one, column in self.metadata.items()]
        names = [one.name for one in fields]
        twice = next((one for one in names if names.count(one) > 1), None)
        if twice is not None:
            msg = (
                f"sources.{name}: two columns are named {twice!r}: give another name to the key "
                "(key = { column = … }) or in metadata."
            )
            raise ConfigError(msg)
        return pa.schema(fields)


class TopicSource:
    """A `RowSource` of topics.

    Parameters
    ----------
    name : str
    topics : Topics
    shape : Shape
        Which rows and columns the join gets.
    """

    def __init__(self, name: str, topics: Topics, shape: Shape) -> None:
        self.name, self.schema, self.ended, self.alone = name, shape.schema, True, True
        self._topics, self._shape = topics, shape
        self._kafka = kafka_module(f"sources.{name}")
        self._consumer: Any = None
        self._next: dict[tuple[str, int], int] = {}
        """The offset of each partition from which on it is not planned."""
        self._ends: dict[tuple[str, int], int] = {}
        self._at: dict[tuple[str, int], int] = {}
        """The offset of each partition that the consumer returns next."""
        self._waiting: dict[tuple[str, int], deque[Any]] = {}
        self._paused: set[tuple[str, int]] = set()

    def narrow(self, names: Sequence[str]) -> None:
        """Return these columns alone from now on: the join needs no others."""
        self._shape.narrow(names)
        self.schema = self._shape.schema

    # -- planning ------------------------------------------------------------------------------------------------------

    def _client(self) -> Any:  # noqa: ANN401 - of another package
        if self._consumer is None:
            settings = {
                "group.id": f"slidejoin-{self.name}", "enable.auto.commit": False, "enable.partition.eof": True,
                "auto.offset.reset": "error", "isolation.level": "read_uncommitted", "log_level": 0,
                "fetch.message.max.bytes": FETCHED_BYTES, "fetch.queue.backoff.ms": BACKOFF_MS,
                "error_cb": lambda _: None,
            }  # fmt: skip
            self._consumer = self._kafka.Consumer(settings | dict(self._topics.settings))
        return self._consumer

    def look(self) -> None:
        """Look how far each partition goes.

        Raises
        ------
        SlideJoinError
            If the broker does not answer, or has no such topic.
        """
        try:
            listed = self._client().list_topics(timeout=PATIENCE).topics
            for topic in self._topics.topics:
                its = listed.get(topic)
                if its is None or its.error is not None or not its.partitions:
                    msg = (
                        f"sources.{self.name}.topics: there is no topic {topic!r} at {self._brokers}; create it first."
                    )
                    raise ConfigError(msg)
                for number in its.partitions:
                    self._look_at(topic, number)
        except self._kafka.KafkaException as error:
            raise self._failed(error) from error

    def _look_at(self, topic: str, number: int) -> None:
        place = self._kafka.TopicPartition(topic, number)
        low, high = self._client().get_watermark_offsets(place, timeout=PATIENCE, cached=False)
        self._ends[topic, number] = high
        if (topic, number) not in self._next:
            self._next[topic, number] = self._start(topic, number, low, high)

    def _start(self, topic: str, number: int, low: int, high: int) -> int:
        start: Any = self._topics.starting
        if isinstance(start, int):
            place = self._kafka.TopicPartition(topic, number, start)
            (known,) = self._client().offsets_for_times([place], timeout=PATIENCE)
            return int(known.offset) if known.offset >= 0 else high
        if isinstance(start, Mapping):
            offset = int(start.get(topic, {}).get(number, -2))
            return {-2: low, -1: high}.get(offset, offset)
        return low if start == "earliest" else high

    @property
    def _brokers(self) -> str:
        return self._topics.settings["bootstrap.servers"]

    def _failed(self, error: Exception) -> SlideJoinError:
        return SlideJoinError(f"sources.{self.name}: Kafka at {self._brokers}: {error.args[0].str()}")

    def plan(self) -> list[Any] | None:
        """Return the offsets that the next micro-batch reads."""
        behind = {place: end - self._next[place] for place, end in self._ends.items() if end > self._next[place]}
        if not behind:
            return None
        most, total = self._topics.records or MOST_RECORDS, sum(behind.values())
        plan = []
        for (topic, number), count in behind.items():
            taken = count if total <= most else max(1, count * most // total)
            start = self._next[topic, number]
            plan.append([topic, number, start, start + taken])
        return plan

    def planned(self, plan: list[Any]) -> None:
        """Take note of offsets that are planned."""
        for topic, number, _, stop in plan:
            self._next[topic, number] = stop

    def state(self) -> list[Any]:
        """Return how far each partition has been planned."""
        return [[topic, number, offset] for (topic, number), offset in self._next.items()]

    def load(self, state: list[Any]) -> None:
        """Continue from there."""
        self._next = {(topic, number): offset for topic, number, offset in state}

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, plan: list[Any] | None) -> Rows:
        """Read the records of a plan.

        Raises
        ------
        SlideJoinError
            If they are not there any more, the broker does not answer, or one of them cannot be read.
        """
        ranges = {(topic, number): (start, stop) for topic, number, start, stop in plan or ()}
        if not ranges:
            return Rows(empty_of(self.schema), 0)
        try:
            records = self._records(ranges)
        except self._kafka.KafkaException as error:
            raise self._failed(error) from error
        table, bad = self._table(records)
        unread = records.unread(bad) if self._topics.bad == "write" else None
        return Rows(self._shape.apply(table), len(records), len(bad), unread)

    def _records(self, ranges: dict[tuple[str, int], tuple[int, int]]) -> _Records:
        consumer, partition = self._client(), self._kafka.TopicPartition
        if any(self._at.get(place) != start for place, (start, _) in ranges.items()):
            self._at |= {place: start for place, (start, _) in ranges.items()}
            self._waiting, self._paused = {}, set()
            consumer.assign([partition(*place, offset) for place, offset in self._at.items()])
        got, unread = _Records(self._kafka.Message, self._topics), dict(ranges)
        self._take_waiting(unread, got)
        if paused := self._paused.intersection(unread):
            consumer.resume([partition(*place) for place in paused])
            self._paused -= paused
        deadline = time.monotonic() + PATIENCE
        while unread:
            messages = consumer.consume(AT_ONCE, WAIT)
            if messages:
                deadline = time.monotonic() + PATIENCE
            elif time.monotonic() > deadline:
                msg = f"sources.{self.name}: Kafka at {self._brokers} has not answered for {PATIENCE:.0f} s"
                raise SlideJoinError(msg)
            if not self._all_within(messages, unread):
                within: list[Any] = []
                for message in messages:
                    self._sort_in(message, unread, within)
                messages = within
            got.add(messages)
        self._at |= {place: stop for place, (_, stop) in ranges.items()}
        return got

    def _take_waiting(self, unread: dict[tuple[str, int], tuple[int, int]], got: _Records) -> None:
        """Take the records of ranges that came with earlier ones, and the ranges that end with them out of `unread`."""
        for place, (_, stop) in list(unread.items()):
            waiting, its = self._waiting.get(place, deque()), []
            while waiting and waiting[0].offset() < stop:
                its.append(waiting.popleft())
            got.add(its)
            if waiting or (its and its[-1].offset() == stop - 1):
                del unread[place]

    def _all_within(self, messages: Sequence[Any], unread: Mapping[tuple[str, int], tuple[int, int]]) -> bool:
        """Tell whether messages are records before the last ones of their ranges, as nearly all of them are."""
        kind = self._kafka.Message
        if len(self._topics.topics) > 1 or any(map(kind.error, messages)):
            return False
        lasts = {partition: stop - 1 for (_, partition), (_, stop) in unread.items()}
        partitions, offsets = map(kind.partition, messages), map(kind.offset, messages)
        return all(offset < lasts.get(number, -1) for number, offset in zip(partitions, offsets, strict=True))

    def _sort_in(self, message: Any, unread: dict[tuple[str, int], tuple[int, int]], got: list[Any]) -> None:  # noqa: ANN401
        """Put a message where it belongs: among those that are read now, or those that wait for the next time."""
        place, error = (message.topic(), message.partition()), message.error()
        if error is None:
            if place in unread and message.offset() < unread[place][1]:
                got.append(message)
                if message.offset() + 1 < unread[place][1]:
                    return
            else:
                self._waiting.setdefault(place, deque()).append(message)
        elif error.code() == self._kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
            if place not in unread or message.offset() < unread[place][1]:
                return
        else:
            if error.code() in {self._kafka.KafkaError._AUTO_OFFSET_RESET, self._kafka.KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
                start = unread.get(place, (self._at[place], 0))[0]
                msg = (
                    f"sources.{self.name}: records from offset {start} on of topic {place[0]}, partition {place[1]}, "
                    "are gone: the topic keeps them for a shorter time than the job was stopped. Begin with another "
                    "checkpoint and another place for the results"
                )
                raise SlideJoinError(msg)
            if not error.retriable():
                raise self._kafka.KafkaException(error)
            return
        if place in unread:
            del unread[place]
        elif place not in self._paused and len(self._waiting.get(place, ())) >= MOST_WAITING:
            self._paused.add(place)
            self._consumer.pause([self._kafka.TopicPartition(*place)])

    def _table(self, records: _Records) -> tuple[pa.Table, dict[int, str]]:
        """Return the rows of records, and why some cannot be read and have no row, by their places."""
        rows, unread = self._values(records)
        bad = {place: f"value: {why}" for place, why in unread.items()}
        if self._topics.key is not None:
            _, unread = _single(records.parts["key"], *self._topics.key)
            bad |= {place: f"key: {why}" for place, why in unread.items() if place not in bad}
        if not bad:
            return self._with_more(rows, records), bad
        if self._topics.bad == "fail":
            msg = (
                f"sources.{self.name}: the record of {records.place(min(bad))} cannot be read: {bad[min(bad)]}. "
                'Write bad_rows = "drop" to leave such records out.'
            )
            raise SlideJoinError(msg)
        good = records.at([place for place in range(len(records)) if place not in bad])
        return self._with_more(self._values(good)[0], good), bad

    def _values(self, records: _Records) -> tuple[pa.Table, dict[int, str]]:
        values, fields = records.parts["value"], self._topics.fields
        if fields is None:
            return _single(values, *(self._topics.value or ("value", pa.binary())), missing=MISSING)
        if self._topics.read is not None:
            return self._topics.read(values)
        needed = [one.name for one in fields if not one.nullable]
        return records_of_json(values, pa.schema([pa.field(one.name, one.type) for one in fields]), needed)

    def _with_more(self, rows: pa.Table, records: _Records) -> pa.Table:
        """Return rows with keys, and what else of the records is named."""
        topics = self._topics
        columns: list[Any] = list(rows.columns)
        if topics.key is not None:
            columns += _single(records.parts["key"], *topics.key)[0].columns
        columns += [records.column(one) for one in topics.metadata]
        return pa.Table.from_arrays(columns, schema=topics.schema(self.name))


class _Records:
    """What is read of records, a list of each part of them: garbage collection would go through a list of messages."""

    def __init__(self, kind: Any, topics: Topics) -> None:  # noqa: ANN401 - of another package
        self._kind, self._topics = kind, topics
        names = {"value", "partition", "offset", *topics.metadata}
        names |= {"key"} if topics.key is not None else set()
        names |= {"topic"} if len(topics.topics) > 1 else set()
        names |= {"key", *METADATA} if topics.bad == "write" else set()
        self.parts: dict[str, list[Any]] = {name: [] for name in names}

    def __len__(self) -> int:
        return len(self.parts["value"])

    def add(self, messages: Sequence[Any]) -> None:
        """Add messages."""
        for name, part in self.parts.items():
            part.extend(map(getattr(self._kind, name), messages))

    def at(self, places: Sequence[int]) -> _Records:
        """Return the records at these places."""
        some = _Records(self._kind, self._topics)
        some.parts = {name: [part[place] for place in places] for name, part in self.parts.items()}
        return some

    def place(self, place: int) -> str:
        """Return where a record lies, in words."""
        topic = self.parts["topic"][place] if "topic" in self.parts else self._topics.topics[0]
        return f"topic {topic}, partition {self.parts['partition'][place]}, offset {self.parts['offset'][place]}"

    def column(self, name: str) -> pa.Array[Any]:
        """Return one of `METADATA`."""
        if name == "timestamp":
            return pa.array([1000 * ms for _, ms in self.parts[name]], pa.int64()).cast(METADATA[name])
        return pa.array(self.parts[name], METADATA[name])

    def unread(self, bad: Mapping[int, str]) -> pa.Table:
        """Return those that cannot be read as they are, and why."""
        some = self.at(sorted(bad))
        columns: list[Any] = [some.column(name) for name in METADATA]
        columns += [pa.array(some.parts[name], pa.binary()) for name in ("key", "value")]
        return pa.Table.from_arrays([*columns, pa.array([bad[one] for one in sorted(bad)], pa.string())], schema=UNREAD)


def _single(
    values: Sequence[bytes | None], name: str, kind: pa.DataType, *, missing: str | None = None
) -> tuple[pa.Table, dict[int, str]]:
    """Return bytes as one column of text or bytes, and why some cannot be, by their places."""
    bad = {} if missing is None else {place: missing for place, value in enumerate(values) if value is None}
    if pa.types.is_string(kind):
        for place, value in enumerate(values):
            if value is not None and not _decodes(value):
                bad[place] = "not UTF-8"
    taken = [value for place, value in enumerate(values) if place not in bad] if bad else values
    return pa.table({name: pa.array(taken, pa.binary()).cast(kind)}), bad


def _decodes(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
