"""Nothing that happens to a query changes its output: stops, dead workers, a cache that is gone or spoilt."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import slidejoin as sj
from tests.spark.feeds import Feed, Row, expected, finish
from tests.spark.killing import streams
from tests.spark.scenarios import LATENESS, LENGTH, rich_batches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

L, R = ("col", "left", "x"), ("col", "right", "x")
LAW = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
WINDOW = sj.TimeWindow("10 seconds", on="ts", lateness="5 seconds")
LONG = 12
"""Micro-batches of a query that is stopped before its end."""


def busy_batches() -> list[dict[str, list[Row]]]:
    """No side is ever idle: Spark forgets each input's own watermark at a restart and waits for both to go on."""
    return rich_batches(idle=())


@pytest.fixture(scope="module")
def law() -> list[tuple[int, int]]:
    return expected(busy_batches(), LAW, LENGTH, LATENESS)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    feed = Feed(spark, tmp_path_factory.mktemp("failures"))
    feed.add(busy_batches())
    return feed


def join(feed: Feed) -> DataFrame:
    from slidejoin.spark import stream_join

    on = "l.x BETWEEN r.x - 1 AND r.x + 1"
    return stream_join(feed.stream("left"), feed.stream("right"), on=on, window=WINDOW, strategy="cell")


@pytest.mark.nightly  # count windows and killed drivers are started again each time
def test_stopped_in_the_middle_and_started_again(feed: Feed, spark: SparkSession) -> None:
    """A stop between a source's log and the query's puts two of its files into the next micro-batch, judged by an
    earlier watermark: these rows are late by any, or by none."""
    batches = streams(LONG)
    feed.add(batches)
    law = expected(batches, LAW, LENGTH, LATENESS)
    query = feed.start(join(feed), "stopped", once=False)
    deadline = time.monotonic() + 300
    while not (query.lastProgress and query.lastProgress["batchId"] >= 1):
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)  # into the next micro-batch
    query.stop()
    assert 0 < len(feed.pairs("stopped")) < len(law)
    finish(feed.start(join(feed), "stopped"))
    assert feed.pairs("stopped") == law


@pytest.mark.nightly  # restarts of other joins are in test_join_types_on_spark and test_count_windows
def test_started_again_with_more_input(feed: Feed, spark: SparkSession, law: list[tuple[int, int]]) -> None:
    batches = busy_batches()
    feed.add(batches[:2])
    finish(feed.start(join(feed), "twice"))
    feed.add(batches[2:])
    finish(feed.start(join(feed), "twice"))
    assert feed.pairs("twice") == law


def harmed(monkeypatch: pytest.MonkeyPatch, harm: Any, cache: str) -> None:
    """Let a function run in the worker before each call of a bucket, and after its first result frame."""
    from slidejoin.spark.bucket import tasks
    from slidejoin.spark.driver import assembly

    class Harmed(tasks.JoinTask):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            harm(cache, "before")
            for frame in super().handleInputRows(key, rows, timerValues):
                yield frame
                harm(cache, "within")

    monkeypatch.setattr(assembly, "JoinTask", Harmed)


def test_worker_killed_in_mid_batch(
    whole: Feed, spark: SparkSession, law: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    marker = str(tmp_path / "killed")

    def kill(_: str, when: str) -> None:
        if when == "within" and not os.path.exists(marker):  # noqa: PTH110 - runs in a worker that has imported little
            with open(marker, "w") as file:  # noqa: PTH123
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)

    harmed(monkeypatch, kill, "")
    finish(whole.start(join(whole), "killed"))
    assert Path(marker).exists()
    assert whole.pairs("killed") == law


@pytest.mark.nightly  # deleted files of the cache are tested without Spark in test_cache
def test_cache_deleted_between_batches(
    whole: Feed, spark: SparkSession, law: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(cache: str, when: str) -> None:
        if when == "before":
            shutil.rmtree(cache, ignore_errors=True)

    harmed(monkeypatch, delete, spark.conf.get("spark.slidejoin.cacheDir") or "")
    finish(whole.start(join(whole), "deleted"))
    assert whole.pairs("deleted") == law


@pytest.mark.nightly  # damaged files of the cache are tested without Spark in test_cache
def test_cache_damaged_between_batches(
    whole: Feed, spark: SparkSession, law: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Bytes are changed in place, and files cut short, whatever has them mapped."""
    marker = str(tmp_path / "damaged")

    def damage(cache: str, when: str) -> None:
        import glob

        for place, path in enumerate(sorted(glob.glob(f"{cache}/segments/*/*.segment"))):  # noqa: PTH207 - in a worker
            if when == "before":
                with open(path, "r+b") as file:  # noqa: PTH123
                    file.seek(os.path.getsize(path) // 2)  # noqa: PTH202
                    file.write(b"damaged") if place % 2 else file.truncate(100)
                with open(marker, "a") as file:  # noqa: PTH123
                    file.write(path)

    harmed(monkeypatch, damage, spark.conf.get("spark.slidejoin.cacheDir") or "")
    finish(whole.start(join(whole), "damaged"))
    assert Path(marker).exists()
    assert whole.pairs("damaged") == law


@pytest.mark.nightly
def test_cache_on_a_full_disk(
    whole: Feed, spark: SparkSession, law: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The worker may write files of 100 bytes only: writing a segment breaks off in the middle, as on a full disk."""
    marker, cache = str(tmp_path / "full"), spark.conf.get("spark.slidejoin.cacheDir") or ""

    def fill(_: str, when: str) -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        try:
            with open(marker, "wb", 0) as file:  # noqa: PTH123 - in a worker
                file.write(bytes(100))
                file.write(b"more")
        except OSError:
            return
        raise AssertionError("the disk is not full")

    shutil.rmtree(cache, ignore_errors=True)
    harmed(monkeypatch, fill, cache)
    finish(whole.start(join(whole), "full"))
    assert Path(marker).stat().st_size == 100
    assert not list(Path(cache).rglob("*.segment"))
    assert not list(Path(cache).rglob("*.part"))
    assert whole.pairs("full") == law


def refused(feed: Feed, result: DataFrame, name: str, match: str) -> None:
    """Start a query again, whose output then has to be what it was."""
    from pyspark.errors import StreamingQueryException

    before = feed.rows(name)
    query = feed.start(result, name)
    with pytest.raises(StreamingQueryException, match=match):
        query.awaitTermination(120)
    assert feed.rows(name) == before


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """A query that has stopped, with more input to come."""
    feed, batches = Feed(spark, tmp_path_factory.mktemp("begun")), busy_batches()
    feed.add(batches[:2])
    finish(feed.start(join(feed), "begun"))
    feed.add(batches[2:3])
    return feed


@pytest.mark.nightly  # all files of a state are damaged in test_damage
def test_damaged_segment_ends_the_query_and_nothing_is_put_out(
    begun: Feed, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte of the state is another one: it is read wrong, as RocksDB has checksums of its own against less."""
    from slidejoin.spark.bucket import tasks
    from slidejoin.spark.driver import assembly

    class Harmed(tasks.JoinTask):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            segments = self.variables.segments
            for (part,) in list(segments.keys()):
                data = bytes(segments.getValue((part,))[0])
                segments.updateValue((part,), (data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],))
            yield from super().handleInputRows(key, rows, timerValues)

    shutil.rmtree(spark.conf.get("spark.slidejoin.cacheDir") or "", ignore_errors=True)
    monkeypatch.setattr(assembly, "JoinTask", Harmed)
    refused(begun, join(begun), "begun", r"StateError: segment \S+ of the join's state is damaged")


@pytest.mark.nightly  # every attempt fails in a new worker; what is refused, and how, is in test_operator
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"on": "l.x < r.x", "strategy": "broadcast"}, "on was 'l.x >= r.x - 1 AND l.x <= r.x [+] 1' and is now"),
        ({"window": sj.TimeWindow("9 seconds", on="ts", lateness="5 seconds")}, "window was .* and is now"),
        ({"partitions": 5}, "partitions was 2 and is now 5"),
    ],
)
def test_changed_join_on_an_old_checkpoint_is_refused(
    begun: Feed, spark: SparkSession, changed: dict[str, Any], told: str
) -> None:
    from slidejoin.spark import stream_join

    asked = {"on": "l.x BETWEEN r.x - 1 AND r.x + 1", "window": WINDOW, "strategy": "cell"} | changed
    other = stream_join(begun.stream("left"), begun.stream("right"), **asked)
    refused(begun, other, "begun", f"the checkpoint holds the state of another join: .*{told}")


@pytest.mark.nightly  # the limit is in test_limits, too
def test_bucket_limit_ends_the_query_and_a_higher_one_lets_it_go_on(
    begun: Feed, spark: SparkSession, law: list[tuple[int, int]]
) -> None:
    limit = "spark.slidejoin.bucketBytes"
    spark.conf.set(limit, "1k")
    try:
        refused(
            begun, join(begun), "begun", "MemoryLimitError: bucket [0-9]+ of 2 would hold .*bucketBytes allows 1.0 KiB"
        )
    finally:
        spark.conf.unset(limit)
    finish(begun.start(join(begun), "begun"))
    assert len(begun.pairs("begun")) == len(expected(busy_batches()[:3], LAW, LENGTH, LATENESS))
