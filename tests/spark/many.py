"""Joins of many streams on Spark: micro-batches of several streams, and what the law says of them."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from typing import TYPE_CHECKING

import pandas as pd

import slidejoin as sj
from slidejoin.plan.multiway.multi_plan import make_multi_plan
from slidejoin.spark.bucket.streams_bucket import streams_bucket
from slidejoin.spark.driver.binding import schema_of
from slidejoin.spark.driver.multi_join import streams_spec
from slidejoin.spark.job.buckets import bucket_ids
from slidejoin.spark.job.key_classes import classes_of
from slidejoin.spark.metrics.figures import Figures
from slidejoin.spark.route.pack import pack_streams
from slidejoin.spec.multi_spec import make_multi_spec
from tests.multi_oracle import MultiOracle, Within
from tests.spark.feeds import SECOND, Clock, Row, table_of
from tests.spark.stores import Frame, Session, Variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    import pyarrow as pa

    from slidejoin.spark.job.streams_spec import StreamsSpec

LENGTHS = {"a": 10, "b": 4, "c": 7, "d": 5}
"""Seconds that rows of each stream stay."""

LATENESS = {"a": 5, "b": 2, "c": 5, "d": 3}

Batch = dict[str, list[Row]]


def windows(names: str) -> dict[str, sj.TimeWindow]:
    """The windows of some streams."""
    return {
        name: sj.TimeWindow(f"{LENGTHS[name]} seconds", on="ts", lateness=f"{LATENESS[name]} seconds") for name in names
    }


def micro_batches(names: str, rows: int = 4, batches: int = 5, seed: int = 7) -> list[Batch]:
    """Micro-batches around an advancing time: NULL keys, NULL times, late rows, and rows at the watermark.

    The newest time of each stream advances in each of its micro-batches, because Spark forgets it at a restart.
    """
    draw, number, clock = random.Random(seed), 0, clock_of(names)
    made: list[Batch] = []
    for at in range(batches):
        batch: Batch = {}
        for name in names:
            batch[name] = []
            for place in range(0 if (at, name) == (3, "b") else rows):
                number += 1
                time = (at * 6 - 8 + (2 if place == 0 else draw.randrange(-7, 3))) * SECOND
                key = None if draw.random() < 0.1 else draw.randrange(3)
                text = draw.choice(["ann", "bob", "bob", None])
                batch[name].append((number, key, text, None if place and draw.random() < 0.08 else time))
            if clock.watermark is not None and batch[name]:
                low = clock.watermark
                batch[name] += [(number + 1, 1, "bob", low), (number + 2, 1, "bob", low - 1)]
                number += 2
        clock.advance(batch)
        made.append(batch)
    return made


def clock_of(names: str) -> Clock:
    """Spark's watermark over these streams."""
    return Clock({name: LATENESS[name] * SECOND for name in names})


class SparkOracle(MultiOracle):
    """The law, with the watermark of Spark: it stands still within a micro-batch."""

    low: int | None = None

    def watermark(self) -> int | None:
        """The watermark with which the micro-batch began."""
        return self.low


def law(
    batches: Sequence[Mapping[str, list[Row]]], names: str, predicate: tuple[Any, ...]
) -> tuple[list[tuple[int, ...]], list[tuple[str, int, int]]]:
    """The combinations as ids, and stream, id and count of every row that is counted; both sorted."""
    oracle = SparkOracle({name: Within(LENGTHS[name] * SECOND, "ts") for name in names}, predicate)
    clock, found, counts = clock_of(names), [], []
    for batch in batches:
        oracle.low = clock.watermark
        plain = {
            name: [dict(zip(("id", "x", "name", "ts"), row, strict=True)) for row in rows]
            for name, rows in batch.items()
        }
        arrivals = [(name, row) for name in names for row in plain.get(name, [])]
        arrivals.sort(key=lambda one: (one[1]["ts"] is not None, one[1]["ts"] or 0))
        for name, row in arrivals:
            step = oracle.arrive(name, row)
            found += [tuple(one["id"] for one in rows) for rows in step.rows]
            if step.counted:
                counts.append((name, row["id"], len(step.rows)))
        clock.advance(dict(batch))
    return sorted(found), sorted(counts)


def col(stream: str, name: str) -> tuple[Any, ...]:
    """A column of a stream in the oracle's form."""
    return "col", "left", f"{stream}.{name}"


def band(one: str, two: str) -> tuple[Any, ...]:
    """A band between two streams."""
    return "between", col(one, "x"), ("-", col(two, "x"), ("lit", 1)), ("+", col(two, "x"), ("lit", 1))


KEY = ("and", ("=", col("a", "x"), col("b", "x")), ("=", col("b", "x"), col("c", "x")))
CASES: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "one": (
        "abc",
        "a.x = b.x AND b.x = c.x AND a.name <> c.name",
        ("and", *KEY[1:], ("<>", col("a", "name"), col("c", "name"))),
    ),
    "chain": (
        "abcd",
        "d.x = a.x AND d.name = b.name AND d.x BETWEEN c.x - 1 AND c.x + 1 AND a.name = 'bob'",
        (
            "and", ("=", col("d", "x"), col("a", "x")), ("=", col("d", "name"), col("b", "name")), band("d", "c"),
            ("=", col("a", "name"), ("lit", "bob")),
        ),
    ),
}  # fmt: skip
"""Streams, SQL text and the same for the oracle; one operator, and a chain."""


class ManyFrame(Frame):
    """What building a join of many streams reads of a DataFrame."""

    isStreaming = True  # noqa: N815 - Spark's name

    def __init__(self, cache: Path) -> None:
        super().__init__()
        self.sparkSession = Session(cache)
        self.columns = self.schema.names


def wire_many(
    cache: Path,
    names: str,
    on: str,
    window: Mapping[str, Any],
    *,
    partitions: int = 3,
    order_by: str | None = None,
    **options: Any,
) -> StreamsSpec:
    """A join of many streams as it reaches the workers."""
    frames: Any = {name: ManyFrame(cache) for name in names}
    config = make_multi_spec({name: window[name] for name in names}, on=on, order="none", threads=1, **options)
    plan = make_multi_plan(config, [schema_of(frame) for frame in frames.values()])
    classes, _ = ((), "") if order_by else classes_of(plan)
    shown = plan.layout.schema.names
    spec = streams_spec(frames, plan, classes, shown, bucket_ids(1 if order_by else partitions), order_by)
    made: StreamsSpec = pickle.loads(pickle.dumps(spec))
    return made


class ManyQuery:
    """One streaming query over many streams, without Spark; see `tests.spark.stores.Query`."""

    def __init__(self, spec: StreamsSpec, tasks: int = 1) -> None:
        self.spec, self.tasks, self.number = spec, tasks, 0
        self.clock = clock_of("".join(spec.streams))
        self.state: dict[int, Variables] = defaultdict(Variables)
        self.rows: list[dict[str, Any]] = []
        self.figures: list[Figures] = []

    def micro_batch(self, batch: Mapping[str, list[Row]]) -> None:
        frames = [frame.to_pandas() for name in self.spec.streams for frame in self._packed(name, batch[name])]
        packed = pd.concat(frames, ignore_index=True).sample(frac=1, random_state=self.number)
        watermark = None if self.spec.numbered else self.clock.value // 1000
        for key, blocks in packed.groupby("bucket"):
            bucket = int(key)
            figures, variables = Figures(bucket), self.state[bucket]
            variables.point_at(bucket)
            for frame in streams_bucket(
                self.spec, variables, iter([blocks[:3], blocks[3:]]), watermark, bucket, self.number, figures
            ):
                self.rows += frame.to_dict("records")
            self.figures.append(figures)
        self.clock.advance(dict(batch))
        self.number += 1

    def _packed(self, name: str, rows: list[Row]) -> Iterator[pa.RecordBatch]:
        step = -(-len(rows) // self.tasks) or 1
        for task in range(self.tasks):
            part = table_of(rows[task * step : (task + 1) * step])
            yield from pack_streams(self.spec, self.spec.streams.index(name), iter(part.to_batches()), task)

    def combinations(self) -> list[tuple[int, ...]]:
        """The ids of all combinations, sorted."""
        return sorted(tuple(int(row[id_of(name)]) for name in self.spec.streams) for row in self.rows)

    def counts(self) -> list[tuple[str, int, int]]:
        """Stream, id and count of all rows, sorted."""
        return sorted((row["stream"], int(row[id_of(row["stream"])]), row["match_count"]) for row in self.rows)


def id_of(stream: str) -> str:
    """The name of a stream's id in the result; the first stream is called a."""
    return "id" if stream == "a" else f"id_{stream}"
