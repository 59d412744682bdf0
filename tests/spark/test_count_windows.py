"""Windows counted in rows on real Spark: the embedded join's results, through restarts, and what may follow."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.cli.app import _text
from tests.spark.feeds import SECOND, Feed, Row, asked, finish, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

WINDOW = sj.CountWindow(left=17, right=23, slide=3)
PREDICATES = {"cell": "l.x BETWEEN r.x - 1 AND r.x + 1", "hash": "l.x = r.x AND l.name <> r.name", "grid": "l.x < r.x"}
EVERY = [pytest.param(name, marks=[] if name == "cell" else [pytest.mark.nightly]) for name in PREDICATES]


@pytest.fixture(scope="module")
def batches() -> list[dict[str, list[Row]]]:
    """Micro-batches with ties, NULL keys, a side that is idle at times, and times that go back."""
    draw = random.Random(20130102)
    number, found = 0, []
    for batch in range(4):
        sides: dict[str, list[Row]] = {}
        for side in ("left", "right"):
            rows: list[Row] = []
            for _ in range(0 if side == "right" and batch == 2 else 22):
                number += 1
                x = None if draw.random() < 0.1 else draw.randrange(8)
                rows.append((number, x, draw.choice(["ann", "bob", None]), draw.randrange(8) * SECOND))
            sides[side] = rows
        found.append(sides)
    return found


def embedded(batches: list[dict[str, list[Row]]], on: str, **options: Any) -> list[dict[str, Any]]:
    """What the embedded join says of the same micro-batches."""
    schema = table_of([]).schema
    join = sj.StreamJoin(on, WINDOW, schemas=(schema, schema), threads=1, **options)
    tables = [{side: table_of(rows) for side, rows in batch.items()} for batch in batches]
    return [row for sides in tables for row in join.push(**sides, order_by="ts").to_pylist()]


def pairs(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((row["id"], row["id_right"]) for row in rows)


def join(feed: Feed, on: str, **options: Any) -> DataFrame:
    from slidejoin.spark import stream_join

    frames = [feed.stream("left")] if options.get("self_join") else [feed.stream("left"), feed.stream("right")]
    return stream_join(*frames, on=on, window=WINDOW, order_by="ts", **options)


@pytest.fixture(scope="module")
def feed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, batches: list[dict[str, list[Row]]]) -> Feed:
    made = Feed(spark, tmp_path_factory.mktemp("count_windows"))
    made.add(batches)
    return made


@pytest.fixture(scope="module")
def streams(
    request: pytest.FixtureRequest, spark: SparkSession, feed: Feed
) -> tuple[Feed, Mapping[str, StreamingQuery]]:
    """All queries of this file, run side by side: a micro-batch spends most of its time waiting."""
    from slidejoin.spark import stream_join

    wanted, queries = asked(request), {}
    for strategy, on in PREDICATES.items():
        if f"test_pairs_are_those_of_the_embedded_join[{strategy}]" in wanted or strategy == "cell":
            queries[strategy] = feed.start(join(feed, on, strategy=strategy, partitions=4), strategy)
    if "test_self_join" in wanted:
        queries["self"] = feed.start(join(feed, "l.x <= r.x", self_join=True, select=["l.id", "r.id"]), "self")
    counts = join(feed, PREDICATES["cell"], output="count", select=["l.id", "r.id"])
    queries["counts"] = feed.start(counts, "counts")
    if "test_another_join_follows" in wanted:
        first = join(feed, "l.x = r.x", select=["l.id", "l.x", "l.ts", "r.id"])
        second = stream_join(
            first,
            feed.stream("right"),
            on="l.x = r.x",
            window=sj.CountWindow(5),
            order_by="ts",
            select=["l.id", "l.id_right", "r.id"],
            suffix="_second",
        )
        queries["second"] = feed.start(second, "second")
    finish(*queries.values())
    return feed, queries


@pytest.mark.parametrize("strategy", EVERY)
def test_pairs_are_those_of_the_embedded_join(
    streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]], strategy: str
) -> None:
    law = pairs(embedded(batches, PREDICATES[strategy]))
    assert len(law) > 20
    assert streams[0].pairs(strategy) == law


@pytest.mark.nightly  # without Spark in test_sequencing
def test_self_join(streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]) -> None:
    left = [{"left": batch["left"]} for batch in batches]
    assert streams[0].pairs("self") == pairs(embedded(left, "l.x <= r.x", self_join=True))


def test_counts(streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]) -> None:
    told = embedded(batches, PREDICATES["cell"], output="count", select=["l.id", "r.id"])
    rows = streams[0].rows("counts")
    assert list(rows[0]) == ["side", "id", "id_right", "match_count"]
    assert sorted(map(line, rows)) == sorted(map(line, told))


def line(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["side"], row["id"] or row["id_right"], row["match_count"]


def test_there_is_no_match_time(streams: tuple[Feed, Any], spark: SparkSession) -> None:
    names = ["id", "x", "name", "ts"]
    assert list(streams[0].rows("cell")[0]) == [*names, *(f"{name}_right" for name in names)]


@pytest.mark.nightly  # over time one follows in test_streams
def test_another_join_follows(
    streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]
) -> None:
    """The pairs of the first are the left rows of the second in the same micro-batch."""
    rows = streams[0].rows("second")
    assert rows
    first = set(pairs(embedded(batches, "l.x = r.x")))
    assert {(row["id"], row["id_right"]) for row in rows} <= first
    assert len({tuple(row.values()) for row in rows}) == len(rows)


@pytest.mark.nightly  # over time one is started again in test_join_types_on_spark
def test_stopped_in_the_middle_and_started_again(
    streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]
) -> None:
    feed, _ = streams
    on = PREDICATES["cell"]
    law = pairs(embedded(batches, on))
    query = feed.start(join(feed, on), "stopped", once=False)
    deadline = time.monotonic() + 300
    while not (query.lastProgress and query.lastProgress["batchId"] >= 1):
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)  # into the next micro-batch
    query.stop()
    assert 0 < len(feed.pairs("stopped")) < len(law)
    finish(feed.start(join(feed, on), "stopped"))
    assert feed.pairs("stopped") == law


@pytest.mark.nightly  # half a minute; workers that are killed are in test_killing too
def test_sequencer_killed_in_mid_batch(
    feed: Feed,
    spark: SparkSession,
    batches: list[dict[str, list[Row]]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The worker that numbers rows dies when it has handed on some of its second micro-batch; the state counts once."""
    from slidejoin.spark import inspect_state
    from slidejoin.spark.bucket import tasks
    from slidejoin.spark.driver import assembly

    marker = tmp_path / "killed"

    class Harmed(tasks.SequenceTask):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            later = self.variables.totals.get() is not None
            for frame in super().handleInputRows(key, rows, timerValues):
                yield frame
                if later and not marker.exists():
                    marker.write_text("")
                    os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(assembly, "SequenceTask", Harmed)
    finish(feed.start(join(feed, PREDICATES["cell"]), "killed"))
    assert marker.exists()
    assert feed.pairs("killed") == pairs(embedded(batches, PREDICATES["cell"]))
    info = inspect_state(spark, str(feed.folder / "killed.checkpoint"))
    (told,) = info.joins
    assert told.arrived == {side: sum(len(batch[side]) for batch in batches) for side in ("left", "right")}
    assert told.sequencer is not None
    assert told.sequencer != told.operator
    line = f"  sequencer: operator {told.sequencer}, has numbered 88 left and 66 right rows"
    assert line in _text(info, None, segments=False)


def test_static_frames_are_one_micro_batch(
    streams: tuple[Feed, Any], spark: SparkSession, batches: list[dict[str, list[Row]]]
) -> None:
    from slidejoin.spark import stream_join

    feed, _ = streams
    on = "l.x = r.x"
    # One task reads all files, so that ties come in the order of the files.
    frames = [feed.static(side).orderBy("ts", "id").coalesce(1) for side in ("left", "right")]
    result = stream_join(*frames, on=on, window=WINDOW, order_by="ts")
    whole = {
        side: sorted([row for batch in batches for row in batch[side]], key=lambda row: row[0]) for side in batches[0]
    }
    assert pairs([row.asDict() for row in result.collect()]) == pairs(embedded([whole], on))


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_rows_may_arrive_in_the_order_of_texts(spark: SparkSession, kind: str) -> None:
    from slidejoin.spark import multi_join, stream_join

    draw = random.Random(7)
    letters = ["", "a", "B", "ä", "z", "日本", "aa"]
    # No text comes twice on a side: rows with the same one arrive by their bytes on Spark.
    sides = {
        side: [(n, n % 3, draw.choice(letters) + f"{draw.random():.9f}") for n in range(30)]
        for side in ("left", "right")
    }
    frames = [
        spark.createDataFrame(rows, "id long, x long, at string").selectExpr("id", "x", f"cast(at AS {kind}) at")
        for rows in sides.values()
    ]
    tables = {
        side: pa.table(dict(zip(("id", "x", "at"), zip(*rows, strict=True), strict=True)))
        for side, rows in sides.items()
    }
    window = sj.CountWindow(5)
    join = sj.StreamJoin("l.x = r.x", window, threads=1)
    expected = pairs(join.push(**tables, order_by="at").to_pylist())
    assert 10 < len(expected) < 200
    made = stream_join(*frames, on="l.x = r.x", window=window, order_by="at")
    assert pairs([row.asDict() for row in made.collect()]) == expected
    many = multi_join(
        dict(zip("lr", frames, strict=True)), on="l.x = r.x", window=dict.fromkeys("lr", window), order_by="at"
    )
    assert sorted((row["id"], row["id_r"]) for row in many.collect()) == expected
