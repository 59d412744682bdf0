"""A stream with a table that is read again while the query runs: each micro-batch meets one version, whole."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slidejoin as sj
from tests.spark.feeds import Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 120.0


def write(folder: Path, rate: int) -> None:
    """Replace a table of two ranges by one with other rates."""
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"low": [0, 5], "high": [5, 10], "rate": [rate, rate + 1]}), folder / f"{rate}.parquet")
    for file in folder.glob("*.parquet"):
        if file.stem != str(rate):
            file.unlink()


def test_a_running_query_reads_the_table_again(spark: SparkSession, tmp_path: Path) -> None:
    from slidejoin.spark import stream_join

    feed, number = Feed(spark, tmp_path), 0

    def batch() -> list[int]:
        """Let the query have one more micro-batch, and return the rates of its rows."""
        nonlocal number
        number += 10
        feed.add([{"left": [(number + x, x, "a", number) for x in range(10)]}])
        query.processAllAvailable()
        return sorted({row["rate"] for row in feed.rows("rated") if number <= row["id"] < number + 10})

    write(tmp_path / "rates", 10)
    rates = spark.read.parquet(str(tmp_path / "rates"))
    feed.add([{"left": [(1, 1, "a", 0)]}])
    rated = stream_join(
        feed.stream("left"), rates, on="l.x >= r.low AND l.x < r.high", select=["l.id", "r.rate"], refresh="1 second"
    )
    query = feed.start(rated, "rated", once=False)
    try:
        assert batch() == [10, 11]
        for rate in (20, 30):
            write(tmp_path / "rates", rate)
            deadline, before = time.monotonic() + PATIENCE, batch()
            while (seen := batch()) != [rate, rate + 1]:
                assert seen == before
                assert time.monotonic() < deadline
    finally:
        query.stop()
    assert len(feed.rows("rated")) == number + 1


def test_only_a_table_that_has_changed_is_sent_again(spark: SparkSession) -> None:
    from pyspark import SparkFiles

    from slidejoin.spark.bucket.table_marks import KEPT, version_at, without_old_files
    from slidejoin.spark.driver.table_versions import TableRefresh, TableVersions, _folder

    read = [pa.table({"rate": [number]}) for number in (1, 1, 2, 2, 3, 4, 5)]
    versions = TableVersions(spark, lambda: read.pop(0), TableRefresh(sj.spec.window.Span(10**9)))
    versions.again()
    folder = SparkFiles.getRootDirectory()
    first = version_at(folder, versions.family, 0)
    assert (first.effective, first.rows) == (0, 1)
    for _ in range(3):
        versions.again()
    marks = sorted(Path(folder).glob(f"*~{versions.family}~*"))
    assert len(marks) == 2
    now = time.time() * 1000
    assert version_at(folder, versions.family, int(now) - 60_000) == first
    second = version_at(folder, versions.family, int(now) + 60_000)
    assert now - 60_000 < second.effective < now + 60_000
    assert pa.ipc.open_file(Path(folder, second.file)).read_all().to_pydict() == {"rate": [2]}
    while read:
        versions.again()
    # Executors that start now get no rows of old versions, and nodes remove them.
    assert (_folder() / first.file).stat().st_size == 0
    without_old_files(folder, versions.family)
    assert len(list(Path(folder).glob(f"slidejoin-table-{versions.family}-*"))) == KEPT


def test_a_node_without_a_version_says_so(tmp_path: Path) -> None:
    from slidejoin.spark.bucket.table_marks import TableMark, version_at

    (tmp_path / TableMark("a", 1000, 1, "t.arrow").name).touch()
    assert version_at(str(tmp_path), "a", 1000).file == "t.arrow"
    with pytest.raises(sj.StateError, match=r"this node has no version of the table in .*Start the query again"):
        version_at(str(tmp_path), "a", 999)


def test_refusals(spark: SparkSession, tmp_path: Path) -> None:
    from slidejoin.spark import SparkJoinError, stream_join

    feed = Feed(spark, tmp_path)
    feed.add([{"left": []}])
    stream, rows = feed.stream("left"), feed.static("left")
    cases: list[tuple[Any, Any, dict[str, Any], type[Exception], str]] = [
        (rows, rows, {"refresh": "1 minute"}, SparkJoinError, r"refresh='1 minute' is for a stream with a table"),
        (stream, rows, {"refresh": 5}, sj.ArgumentError, r"refresh must be a time above zero such as '10 min.*got 5"),
        (stream, rows, {"refresh": timedelta(0)}, sj.ArgumentError, "refresh must be a time above zero"),
        (stream, rows, {"refresh": "soon"}, sj.ArgumentError, "refresh must be whole numbers with units"),
        (
            stream,
            stream,
            {"refresh": "1 minute", "window": sj.TimeWindow("1 second", on="ts")},
            SparkJoinError,
            r"refresh='1 minute' is for a stream with a table, which is read again: leave it out",
        ),
    ]
    for left, right, options, kind, message in cases:
        with pytest.raises(kind, match=message):
            stream_join(left, right, on="l.x = r.x", **options)
