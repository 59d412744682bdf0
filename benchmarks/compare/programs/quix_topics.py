"""Quix Streams: two topics of Kafka with records of JSON, joined by key and time.

The broker is that of the environment variable ``BROKERS``. Records have the time of their row, so that both topics are
read in one order of time.
"""

from __future__ import annotations

import json
import os
import tempfile
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from benchmarks.compare.programs.common import WINDOW, Outcome, outcome, run, sides

if TYPE_CHECKING:
    from pathlib import Path

Frame = Any

NEAR = timedelta(milliseconds=WINDOW)
START = 1_767_225_600_000
"""Time of the first record, in milliseconds."""
PATIENCE = 30.0


def band(left: Frame, right: Frame) -> Frame:
    """Return the pairs: an interval join by one key for all rows, the band behind it."""
    joined = left.join_interval(
        right, on_merge=lambda one, other: (one, other), grace_ms=NEAR, backward_ms=NEAR, forward_ms=NEAR
    )  # fmt: skip
    return joined.filter(lambda both: abs(both[0]["price"] - both[1]["price"]) <= 50)  # noqa: PLR2004 - the band


def equality_band(left: Frame, right: Frame) -> Frame:
    """Return the pairs: an interval join by key, the band behind it."""
    joined = left.join_interval(
        right, on_merge=lambda one, other: (one, other), grace_ms=NEAR, backward_ms=NEAR, forward_ms=NEAR
    )  # fmt: skip
    return joined.filter(lambda both: both[1]["bid"] <= both[0]["price"] <= both[1]["ask"])


def inequalities(left: Frame, right: Frame) -> Frame:
    """Return the pairs: an interval join by one key for all rows, both inequalities behind it."""
    joined = left.join_interval(
        right, on_merge=lambda one, other: (one, other), grace_ms=NEAR, backward_ms=NEAR, forward_ms=NEAR
    )  # fmt: skip
    return joined.filter(
        lambda both: both[0]["distance"] > both[1]["distance"] and both[0]["air_time"] < both[1]["air_time"]
    )


def asof(left: Frame, right: Frame) -> Frame:
    """Return the pairs."""
    joined = left.join_asof(right, how="inner", on_merge=lambda one, other: (one, other), grace_ms=NEAR)
    return joined.filter(lambda both: both[0]["ts"] - both[1]["ts"] <= WINDOW)


def send(brokers: str, name: str, table: pa.Table) -> None:
    """Write a side to a topic of one partition."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    client = AdminClient({"bootstrap.servers": brokers})  # which ends with its last name
    for created in client.create_topics([NewTopic(name, 1, 1)]).values():
        created.result(PATIENCE)
    producer = Producer({"bootstrap.servers": brokers, "queue.buffering.max.messages": 2_000_000})
    for row in table.to_pylist():
        producer.produce(name, json.dumps(row), str(row.get("k", "all")), timestamp=START + row["ts"])
    producer.flush(PATIENCE)


def join(query: str, folder: Path) -> Outcome:
    """Write the topics, and read them to their ends; the time is from the first record read to the last."""
    from quixstreams import Application

    brokers = os.environ["BROKERS"]
    made = {"band": band, "equality_band": equality_band, "inequalities": inequalities, "asof": asof}[query]
    run_id, tables = uuid4().hex[:8], sides(folder)
    rows = sum(table.num_rows for table in tables)
    ends: list[float] = []
    pairs: list[tuple[int, int]] = []

    def processed(*_: object) -> None:
        ends.append(perf_counter())
        if len(ends) == rows:
            application.stop()

    with tempfile.TemporaryDirectory() as state:
        application = Application(
            brokers,
            consumer_group=run_id,
            auto_offset_reset="earliest",
            state_dir=state,
            loglevel="ERROR",
            use_changelog_topics=False,
            max_partition_buffer_size=1_000_000,
            on_message_processed=processed,
        )
        frames = []
        for side, table in zip("lr", tables, strict=True):
            send(brokers, f"{run_id}-{side}", table)
            frames.append(application.dataframe(application.topic(f"{run_id}-{side}", key_deserializer="str")))
        made(*frames).update(lambda both: pairs.append((both[0]["id"], both[1]["id"])))
        application.run(timeout=PATIENCE)
        if len(ends) != rows:
            msg = f"Quix Streams has processed {len(ends):,} of {rows:,} records"
            raise RuntimeError(msg)
    left, right = ([one[place] for one in pairs] for place in (0, 1))
    found = outcome(ends[-1], pa.table({"l": pa.array(left, pa.int64()), "r": pa.array(right, pa.int64())}))
    return Outcome(ends[-1] - ends[0], found.pairs, found.left_ids, found.right_ids)


if __name__ == "__main__":
    import quixstreams

    run(join, quixstreams.__version__)
