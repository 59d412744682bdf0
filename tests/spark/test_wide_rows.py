"""Rows of many bytes on their way through Spark: blocks, frames and counts are bounded, and nothing else changes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from slidejoin.errors import MemoryLimitError
from slidejoin.rows.widths import TABLE, TableLimit, block_limit, frame_limit
from slidejoin.spark.bucket import counts
from slidejoin.spark.bucket import join_bucket as operator
from slidejoin.spark.route import pack
from slidejoin.spark.route.pack import CODES
from slidejoin.tuning import tuning
from tests.narrow import tune
from tests.spark import stores
from tests.spark.feeds import SECOND, Row, table_of
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

TIMED, COUNTED = sj.TimeWindow("10 seconds", on="ts"), sj.CountWindow(40)
SMALL = TableLimit(rows=60, nbytes=20_000)
WIDE = 9_000


def batches() -> list[dict[str, list[Row]]]:
    """Two micro-batches of 30 rows a side with one wide text among short ones."""
    draw, made = random.Random(7), []
    for batch in range(2):
        sides: dict[str, list[Row]] = {}
        for place, side in enumerate(("left", "right")):
            ids = range(batch * 100 + place * 50, batch * 100 + place * 50 + 30)
            names = [str(number) * (WIDE // 3 if number % 10 == 4 else number % 30) for number in ids]
            times = [batch * 5 * SECOND + number % 50 * SECOND // 20 for number in ids]
            keys = [draw.randrange(2) for _ in ids]
            sides[side] = list(zip(ids, keys, names, times, strict=True))
        made.append(sides)
    return made


CASES: dict[str, dict[str, Any]] = {
    "pairs": {"on": "l.x = r.x", "strategy": "hash"},
    "everywhere": {"on": "l.x <= r.x", "strategy": "broadcast"},
    "self-join": {"on": "l.x <= r.x", "strategy": "grid", "self_join": True},
    "counts": {"on": "l.x = r.x", "strategy": "hash", "output": "count"},
    "counts with homes": {"on": "l.x BETWEEN r.x - 1 AND r.x + 1", "strategy": "cell", "output": "count"},
    "partial counts": {"on": "l.x <= r.x", "strategy": "grid", "output": "count"},
    "count window": {"on": "l.x = r.x", "strategy": "hash", "window": COUNTED, "order_by": "ts"},
    "counts of a count window": {
        "on": "l.x <= r.x", "strategy": "grid", "window": COUNTED, "order_by": "ts", "output": "count"
    },
}  # fmt: skip


def results(folder: Path, case: dict[str, Any]) -> list[str]:
    options = {"window": TIMED, **case}
    query = Query(wire(folder, options.pop("on"), options.pop("window"), options.pop("strategy"), **options))
    for batch in batches():
        query.micro_batch({"left": batch["left"]} if case.get("self_join") else batch)
    return sorted(map(repr, query.rows))


@pytest.mark.parametrize("name", CASES)
def test_small_blocks_and_frames_change_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    expected = results(tmp_path / "large", case)
    tune(monkeypatch, frame_rows=SMALL.rows, frame_bytes=SMALL.nbytes, packed_bytes=3 * SMALL.nbytes)
    blocks: list[int] = []
    frames: list[int] = []
    packs, joins, sums = pack.pack, operator.join_bucket, counts.sum_counts

    def packed(*arguments: Any) -> Iterator[pa.RecordBatch]:
        for batch in packs(*arguments):
            found = batch.column("side").to_pylist()
            blocks.extend(
                len(block.as_py())
                for block, code in zip(batch.column("block"), found, strict=True)
                if code in CODES.values()
            )
            yield batch

    def joined(*arguments: Any) -> Iterator[Any]:
        for frame in joins(*arguments):
            lines = len(frame) if "block" not in frame else 2
            nbytes = sum(map(len, frame["block"])) if "block" in frame else int(frame.memory_usage(index=False).sum())
            frames.append(nbytes if lines > 1 else 0)
            yield frame

    def summed(lines: pa.Table) -> pa.Table:
        table = sums(lines)
        frames.extend(batch.nbytes for batch in table.to_batches() if batch.num_rows > 1)
        return table

    monkeypatch.setattr(stores, "pack", packed)
    monkeypatch.setattr(stores, "join_bucket", joined)
    monkeypatch.setattr(stores, "sum_counts", summed)
    assert results(tmp_path / "small", case) == expected
    assert expected
    # Arrow's own format adds some bytes to each column.
    assert max(blocks) <= 1.1 * SMALL.nbytes + 1000
    assert max(frames) <= 1.1 * SMALL.nbytes + 8000 * name.startswith(("partial", "counts of"))
    assert len(frames) > 4


def test_wide_rows_are_packed_in_blocks_of_a_bounded_size(tmp_path: Path) -> None:
    """A task's 20 rows of 4 MB each go to three buckets: 240 MB in all, and no more than a block at once."""
    rows: list[Row] = [(number, number, "x" * 4_000_000, number * SECOND) for number in range(20)]
    spec = wire(tmp_path, "l.x <= r.x", TIMED, "broadcast")
    (batch,) = table_of(rows).to_batches()
    made = [
        len(found.column("block")[0].as_py())
        for found in pack.pack(spec, "right", iter([batch]))
        if found.num_rows == 1
    ]
    assert sum(made) > 3 * 80_000_000
    assert max(made) <= block_limit().nbytes + 10_000
    assert len(made) == 9


def test_limits_of_what_passes_at_once() -> None:
    assert frame_limit().nbytes == block_limit().nbytes < tuning().packed_bytes <= TABLE.nbytes
    assert frame_limit().rows < TABLE.rows


def test_a_column_that_no_segment_can_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(wire(tmp_path, "l.x = r.x", TIMED, "hash", partitions=1))
    tune(monkeypatch, segment_column_bytes=10_000)
    message = (
        r"bucket \d of 1: this micro-batch brings \d+\.\d KiB of column 'name' of the left side, and a segment of the "
        r"state holds 9\.8 KiB of a column\. Nothing is lost: .*maxFilesPerTrigger"
    )
    with pytest.raises(MemoryLimitError, match=message):
        query.micro_batch(batches()[0])
    assert query.rows == []
    tune(monkeypatch, segment_column_bytes=200_000)
    for batch in batches():
        query.micro_batch(batch)
    assert query.rows


@pytest.mark.nightly  # by day wide rows come through buckets without Spark
def test_results_of_wide_rows_come_through_spark(spark: SparkSession) -> None:
    """520 by 520 rows of one key with 4,200 bytes each are 1.1 GB, as much as the driver's Java may have in all."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    from slidejoin.spark import stream_join

    count, wide = 520, 4_200
    right = spark.range(0, count, 1, 2).select("id", F.lit(1).alias("k"), F.timestamp_seconds("id").alias("ts"))
    left = right.withColumn("text", F.expr(f"repeat(char(97 + id % 26), {wide})"))
    pairs = stream_join(
        left, right, on="l.k = r.k", window=sj.TimeWindow("1 day", on="ts"), partitions=2, select=["l.text"]
    )
    lines = pairs.agg(F.count("*"), F.sum(F.length("text")), F.min("text"), F.max("text")).collect()
    assert [tuple(line) for line in lines] == [(count**2, count**2 * wide, "a" * wide, "z" * wide)]
