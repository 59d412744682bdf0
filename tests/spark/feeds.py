"""Streams for the tests: files of Parquet, one for each side and micro-batch, and what the oracle says of them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.oracle import Instant, Oracle, TimeScope

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

SCHEMA = "id long, x long, name string, ts timestamp"
SECOND = 1_000_000

Row = tuple[int, int | None, str | None, int | None]
"""id, x, name, event time in microseconds."""


def table_of(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    return pa.table(
        {
            "id": pa.array(columns[0], pa.int64()),
            "x": pa.array(columns[1], pa.int64()),
            "name": pa.array(columns[2], pa.string()),
            "ts": pa.array(columns[3], pa.timestamp("us", tz="UTC")),
        }
    )


@dataclass
class Clock:
    """Spark's watermark, in microseconds: of each side, the smallest one for all; never below 0, never falling."""

    lateness: int | dict[str, int]
    sides: dict[str, int] = field(default_factory=dict)
    value: int = 0

    def advance(self, batch: dict[str, list[Row]]) -> None:
        for side, rows in batch.items():
            times = [row[3] for row in rows if row[3] is not None]
            if times:
                lateness = self.lateness if isinstance(self.lateness, int) else self.lateness[side]
                at = max(times) // 1000 * 1000 - lateness
                self.sides[side] = max(at, self.sides.get(side, at))
        if self.sides.keys() >= batch.keys():
            self.value = max(self.value, min(self.sides.values()))

    @property
    def watermark(self) -> int | None:
        return self.value or None


def expected(
    batches: list[dict[str, list[Row]]],
    predicate: tuple[Any, ...],
    length: int,
    lateness: int,
    *,
    self_join: bool = False,
) -> list[tuple[int, int]]:
    """The pairs of ids that the law gives, sorted; lengths in microseconds."""
    scope = TimeScope(length * 1000, length * 1000, "ts", "ts")
    oracle, clock, pairs = Oracle(predicate, scope, self_join=self_join), Clock(lateness), []
    for batch in batches:
        rows = {side: [oracle_row(row) for row in batch.get(side, [])] for side in ("left", "right")}
        low = clock.watermark
        found = oracle.micro_batch(rows["left"], rows["right"], None if low is None else low * 1000)
        pairs += [(left["id"], right["id"]) for left, right in found if left and right]
        clock.advance(batch)
    return sorted(pairs)


def expected_counts(
    batches: list[dict[str, list[Row]]],
    predicate: tuple[Any, ...],
    length: int,
    lateness: int,
    *,
    self_join: bool = False,
) -> list[tuple[str, int, int]]:
    """The side, id and count of every row that is neither late nor without a time, sorted.

    A pair counts for the row that arrived later: of a later micro-batch, or of a later time, or the right one.
    """
    scope = TimeScope(length * 1000, length * 1000, "ts", "ts")
    oracle, clock = Oracle(predicate, scope, self_join=self_join), Clock(lateness)
    counts: dict[tuple[str, int], int] = {}
    for batch in batches:
        low = clock.watermark
        arrivals = [
            (row[3], rank, side, row) for rank, side in enumerate(("left", "right")) for row in batch.get(side, [])
        ]
        kept = [arrival for arrival in arrivals if arrival[0] is not None and (low is None or arrival[0] >= low)]
        for _, _, side, row in sorted(kept, key=lambda arrival: arrival[:2]):
            one: dict[str, list[Any]] = {"left": [], "right": []} | {side: [oracle_row(row)]}
            counts[side, row[0]] = len(oracle.micro_batch(one["left"], one["right"], None))
        clock.advance(batch)
    return sorted((*key, count) for key, count in counts.items())


def oracle_row(row: Row) -> dict[str, Any]:
    number, x, name, at = row
    return {"id": number, "x": x, "name": name, "ts": None if at is None else Instant(at * 1000, zoned=True)}


class Feed:
    """A folder with one growing stream for each side."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.files = 0

    def add(self, batches: list[dict[str, list[Row]]]) -> None:
        """Write micro-batches behind those that are there; a side without rows gets a file without rows."""
        for batch in batches:
            self.files += 1
            for side, rows in batch.items():
                path = self.folder / side / f"{self.files:04}.parquet"
                path.parent.mkdir(exist_ok=True)
                part = path.parent / f".{path.name}"
                pq.write_table(table_of(rows), part)
                os.utime(part, (1_000_000_000 + self.files,) * 2)
                part.rename(path)

    def stream(self, side: str) -> DataFrame:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder / side))

    def static(self, side: str) -> DataFrame:
        return self.spark.read.schema(SCHEMA).parquet(str(self.folder / side))

    def start(self, result: DataFrame, name: str, *, once: bool = True) -> StreamingQuery:
        """Start a query into files and wait until it is under way; `once` ends it when all is read."""
        writer = result.writeStream.format("parquet").option(
            "checkpointLocation", str(self.folder / f"{name}.checkpoint")
        )
        query = (writer.trigger(availableNow=True) if once else writer).start(str(self.folder / name))
        underway(query)
        return query

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in self.spark.read.parquet(str(self.folder / name)).collect()]

    def pairs(self, name: str, left: str = "id", right: str = "id_right") -> list[tuple[int, int]]:
        return sorted((row[left], row[right]) for row in self.rows(name))


def asked(request: pytest.FixtureRequest) -> set[str]:
    """Names of the tests of a module that this run has: queries that only others look at need not be started."""
    return {test.name for test in request.session.items if test.path == request.path}


def underway(query: StreamingQuery) -> None:
    """Wait for a query's first micro-batch: Spark gives the Python that prepares a query 10 s, whatever else starts."""
    while query.isActive and query.lastProgress is None:
        time.sleep(0.05)


def finish(*queries: StreamingQuery) -> None:
    for query in queries:
        assert query.awaitTermination(300)
