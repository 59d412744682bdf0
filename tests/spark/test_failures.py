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
from tests.spark.scenarios import LATENESS, LENGTH, rich_batches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

L, R = ("col", "left", "x"), ("col", "right", "x")
LAW = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
WINDOW = sj.TimeWindow("10 seconds", on="ts", lateness="5 seconds")


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


def test_stopped_in_the_middle_and_started_again(whole: Feed, spark: SparkSession, law: list[tuple[int, int]]) -> None:
    query = whole.start(join(whole), "stopped", once=False)
    deadline = time.monotonic() + 300
    while not (query.lastProgress and query.lastProgress["batchId"] >= 1):
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)  # into the next micro-batch
    query.stop()
    assert 0 < len(whole.pairs("stopped")) < len(law)
    finish(whole.start(join(whole), "stopped"))
    assert whole.pairs("stopped") == law


def test_started_again_with_more_input(feed: Feed, spark: SparkSession, law: list[tuple[int, int]]) -> None:
    batches = busy_batches()
    feed.add(batches[:4])
    finish(feed.start(join(feed), "twice"))
    feed.add(batches[4:])
    finish(feed.start(join(feed), "twice"))
    assert feed.pairs("twice") == law


def harmed(monkeypatch: pytest.MonkeyPatch, harm: Any, cache: str) -> None:
    """Let a function run in the worker before each call of a bucket, and after its first result frame."""
    from slidejoin.spark import assembly, tasks

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


def test_cache_deleted_between_batches(
    whole: Feed, spark: SparkSession, law: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(cache: str, when: str) -> None:
        if when == "before":
            shutil.rmtree(cache, ignore_errors=True)

    harmed(monkeypatch, delete, spark.conf.get("spark.slidejoin.cacheDir") or "")
    finish(whole.start(join(whole), "deleted"))
    assert whole.pairs("deleted") == law


@pytest.mark.nightly  # every attempt fails in a new worker; what is refused, and how, is in test_operator
def test_changed_join_on_an_old_checkpoint_is_refused(feed: Feed, spark: SparkSession) -> None:
    from pyspark.errors import StreamingQueryException

    from slidejoin.spark import stream_join

    batches = busy_batches()
    feed.add(batches[:1])
    finish(feed.start(join(feed), "changed"))
    feed.add(batches[1:2])
    other = stream_join(feed.stream("left"), feed.stream("right"), on="l.x < r.x", window=WINDOW, strategy="broadcast")
    query = feed.start(other, "changed")
    with pytest.raises(StreamingQueryException, match="the checkpoint holds the state of another join: on was"):
        query.awaitTermination(120)
